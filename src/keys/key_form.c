/*-------------------------------------------------------------------------
 *
 * key_form.c
 *	  The canonical form of values, and the digests that are keys.
 *
 * The form is described in key_form.h.  The output functions of types depend on
 * TimeZone, DateStyle, extra_float_digits, bytea_output and other settings, so none
 * that does is called here.  A key that is made today must be the same in a year, so
 * the form must never change; a better one would need another version tag.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "common/shortest_dec.h"
#include "compat.h"
#include "keys/key_form.h"
#include "miscadmin.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* The beginning of what is digested. */
#define VERSION_TAG "exactonce key 1\n"

static void put_jsonb(StringInfo out, Jsonb *jb);
pg_noreturn static void refuse_type(Oid type);

static void put_datetime(StringInfo out, char tag, Oid type, Datum value);
static void put(StringInfo out, char tag, const char *bytes, size_t len);
static void put_text(StringInfo out, const char *s, size_t len);
static void put_numeric(StringInfo out, Numeric n);
static void put_real(StringInfo out, float value);
static void put_float(StringInfo out, double value);
static void put_bytes(StringInfo out, bytea *b);
static void put_enum(StringInfo out, Datum value);

void
eo_key_form_append(StringInfo out, Oid type, Datum value, bool isnull)
{
	if (isnull)
	{
		appendStringInfoChar(out, '0');
		return;
	}
	type = getBaseType(type);
	switch (type)
	{
		case BOOLOID:
			put(out, 'b', DatumGetBool(value) ? "t" : "f", 1);
			return;
		case INT2OID:
			put_numeric(out, int64_to_numeric(DatumGetInt16(value)));
			return;
		case INT4OID:
			put_numeric(out, int64_to_numeric(DatumGetInt32(value)));
			return;
		case INT8OID:
			put_numeric(out, int64_to_numeric(DatumGetInt64(value)));
			return;
		case NUMERICOID:
			put_numeric(out, DatumGetNumeric(value));
			return;
		case FLOAT4OID:
			put_real(out, DatumGetFloat4(value));
			return;
		case FLOAT8OID:
			put_float(out, DatumGetFloat8(value));
			return;
		case TEXTOID:
		case VARCHAROID:
			{
				text	   *t = DatumGetTextPP(value);

				put_text(out, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
				return;
			}
		case BPCHAROID:
			{
				BpChar	   *c = DatumGetBpCharPP(value);

				put_text(out, VARDATA_ANY(c), bpchartruelen(VARDATA_ANY(c), VARSIZE_ANY_EXHDR(c)));
				return;
			}
		case NAMEOID:
			put_text(out, NameStr(*DatumGetName(value)), strlen(NameStr(*DatumGetName(value))));
			return;
		case UNKNOWNOID:
			put_text(out, DatumGetCString(value), strlen(DatumGetCString(value)));
			return;
		case BYTEAOID:
			put_bytes(out, DatumGetByteaPP(value));
			return;
		case UUIDOID:
			put(out, 'u', DatumGetCString(DirectFunctionCall1(uuid_out, value)), 36);
			return;
		case DATEOID:
			put_datetime(out, 'd', DATEOID, value);
			return;
		case TIMESTAMPOID:
			put_datetime(out, 's', TIMESTAMPOID, value);
			return;
		case TIMESTAMPTZOID:
			put_datetime(out, 'z', TIMESTAMPOID, value);
			return;
		case JSONBOID:
			put_jsonb(out, DatumGetJsonbP(value));
			return;
		default:
			break;
	}
	if (!type_is_enum(type))
		refuse_type(type);
	put_enum(out, value);
}

/* In UTC, whatever the session's settings are: type is date or timestamp. */
static void
put_datetime(StringInfo out, char tag, Oid type, Datum value)
{
	char		buf[MAXDATELEN + 2];

	JsonEncodeDateTime(buf, value, type, NULL);
	if (tag == 'z' && !TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(value)))
		strlcat(buf, "Z", sizeof(buf));
	put(out, tag, buf, strlen(buf));
}

bool
eo_key_form_is_null(Oid type, Datum value, bool isnull)
{
	JsonbValue	scalar;

	if (isnull || getBaseType(type) != JSONBOID)
		return isnull;
	return JB_ROOT_IS_SCALAR(DatumGetJsonbP(value)) &&
		JsonbExtractScalar(&DatumGetJsonbP(value)->root, &scalar) && scalar.type == jbvNull;
}

static void
refuse_type(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("type %s cannot be part of a key", format_type_be(type)),
			 errdetail("Types with a canonical form are boolean, integers, numeric, real, double precision, text, varchar, char, name, enums, bytea, uuid, date, timestamp, timestamptz and jsonb."),
			 type == JSONOID ?
			 errhint("Cast it to jsonb, which does not keep blanks and the order of members.") :
			 errhint("Cast it to one of these, such as text or jsonb; mind that a cast to text may depend on settings.")));
}

static void
put(StringInfo out, char tag, const char *bytes, size_t len)
{
	appendStringInfo(out, "%c%zu:", tag, len);
	appendBinaryStringInfo(out, bytes, (int) len);
}

static void
put_text(StringInfo out, const char *s, size_t len)
{
	char	   *utf8 = eo_text_bytes_to_utf8(s, &len);

	put(out, 't', utf8, len);
}

static void
put_numeric(StringInfo out, Numeric n)
{
	char	   *s = numeric_normalize(n);

	put(out, 'n', s, strlen(s));
	pfree(s);
}

/*
 * Write the shortest digits of a real as those of a double.  PostgreSQL writes an
 * exponent from 1e6 on for a real, and from 1e15 on for a double; but the same
 * number must not have two keys.
 */
static void
put_real(StringInfo out, float value)
{
	char		buf[FLOAT_SHORTEST_DECIMAL_LEN];

	float_to_shortest_decimal_buf(value, buf);
	put_float(out, strtod(buf, NULL));
}

static void
put_float(StringInfo out, double value)
{
	char		buf[DOUBLE_SHORTEST_DECIMAL_LEN] = "0";

	if (value != 0)				/* minus zero included */
		double_to_shortest_decimal_buf(value, buf);
	put(out, 'f', buf, strlen(buf));
}

static void
put_bytes(StringInfo out, bytea *b)
{
	size_t		len = VARSIZE_ANY_EXHDR(b);

	/*
	 * Written in place: a copy of twice the longest bytea would exceed the
	 * limit of an allocation.
	 */
	appendStringInfo(out, "x%zu:", len * 2);
	enlargeStringInfo(out, (int) (len * 2));
	out->len += (int) hex_encode(VARDATA_ANY(b), len, out->data + out->len);
	out->data[out->len] = '\0';
}

static void
put_enum(StringInfo out, Datum value)
{
	const char *label = DatumGetCString(DirectFunctionCall1(enum_out, value));

	put_text(out, label, strlen(label));
}

/* ----- jsonb ----- */

static void
put_scalar(StringInfo out, const JsonbValue *v)
{
	switch (v->type)
	{
		case jbvNull:
			appendStringInfoChar(out, '0');
			break;
		case jbvBool:
			put(out, 'b', v->val.boolean ? "t" : "f", 1);
			break;
		case jbvNumeric:
			put_numeric(out, v->val.numeric);
			break;
		default:
			put_text(out, v->val.string.val, v->val.string.len);
			break;
	}
}

/* jsonb itself keeps members unique, and sorted in the order of key_form.h. */
static void
put_jsonb(StringInfo out, Jsonb *jb)
{
	StringInfoData form;
	JsonbIterator *it = JsonbIteratorInit(&jb->root);
	JsonbValue	v;
	JsonbIteratorToken token;
	bool		raw_scalar = false;

	initStringInfo(&form);
	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		switch (token)
		{
			case WJB_BEGIN_ARRAY:
				raw_scalar = v.val.array.rawScalar;
				if (!raw_scalar)
					appendStringInfo(&form, "a%d:", v.val.array.nElems);
				break;
			case WJB_BEGIN_OBJECT:
				appendStringInfo(&form, "o%d:", v.val.object.nPairs);
				break;
			case WJB_KEY:
			case WJB_VALUE:
			case WJB_ELEM:
				put_scalar(&form, &v);
				break;
			default:
				break;
		}
	}
	put(out, 'j', form.data, form.len);
	pfree(form.data);
}

/* ----- digests ----- */

char *
eo_key_form_digest(const StringInfo parts)
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	char	   *hex = palloc(PG_SHA256_DIGEST_LENGTH * 2 + 1);
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) VERSION_TAG, strlen(VERSION_TAG)) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) parts->data, parts->len) < 0 ||
		pg_cryptohash_final(ctx, digest, sizeof(digest)) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute SHA-256 of a key")));
	pg_cryptohash_free(ctx);
	hex_encode((const char *) digest, sizeof(digest), hex);
	hex[PG_SHA256_DIGEST_LENGTH * 2] = '\0';
	return hex;
}

char *
eo_key_form_fingerprint(Jsonb *payload)
{
	StringInfoData parts;
	char	   *digest;

	initStringInfo(&parts);
	put_jsonb(&parts, payload);
	digest = eo_key_form_digest(&parts);
	pfree(parts.data);
	return digest;
}
