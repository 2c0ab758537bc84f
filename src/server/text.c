/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Text between the encoding of the database and UTF-8, which DynamoDB holds.
 *
 * The limits of DynamoDB (keys, items) count bytes of UTF-8, so a text is
 * converted before it is measured.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "records/record.h"
#include "server/guc.h"
#include "server/text.h"
#include "utils/guc.h"
#include "wire/header.h"
#include "wire/hex.h"

/* So many bytes of a key's digest are shown: two keys of one table hardly share them. */
#define SHOWN_BYTES 8

static const char *digest_shown(const char *utf8);
static Datum from_utf8(PG_FUNCTION_ARGS);
static char *escape_utf8(const char *s);

char *
eo_text_copy(const char *s)
{
	return s != NULL ? pstrdup(s) : NULL;
}

bool
eo_text_is_same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

char *
eo_text_holder(void)
{
	char	   *holder;

	if (application_name == NULL || application_name[0] == '\0')
		return NULL;
	holder = pnstrdup(application_name, EO_MAX_HOLDER_BYTES);
	eo_header_make_printable(holder, ' ');
	return holder;
}

const char *
eo_text_key_shown(const char *s)
{
	return eo_guc_log_keys == EO_LOG_KEYS_TEXT ? s : digest_shown(eo_text_to_utf8(s));
}

const char *
eo_text_utf8_key_shown(const char *utf8)
{
	bool		exact;

	return eo_guc_log_keys == EO_LOG_KEYS_TEXT ? eo_text_from_utf8_or_escape(utf8, &exact) :
		digest_shown(utf8);
}

/*
 * The digest is that of the key in UTF-8, so that it is the same in all databases.
 * An error here would hide the one that is about to be reported, so none is raised.
 */
static const char *
digest_shown(const char *utf8)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	char		hex[2 * SHOWN_BYTES + 1];
	bool		done;

	done = ctx != NULL && pg_cryptohash_init(ctx) >= 0 &&
		pg_cryptohash_update(ctx, (const uint8 *) utf8, strlen(utf8)) >= 0 &&
		pg_cryptohash_final(ctx, digest, sizeof(digest)) >= 0;
	pg_cryptohash_free(ctx);
	if (!done)
		return "sha256:unknown";
	eo_hex_put(digest, SHOWN_BYTES, hex);
	return psprintf("sha256:%s", hex);
}

char *
eo_text_to_utf8(const char *s)
{
	return pg_server_to_any(s, (int) strlen(s), PG_UTF8);
}

char *
eo_text_bytes_to_utf8(const char *s, size_t *len)
{
	char	   *utf8 = pg_server_to_any(s, (int) *len, PG_UTF8);

	if (utf8 != s)
		*len = strlen(utf8);
	return utf8;
}

char *
eo_text_from_utf8(const char *s)
{
	return pg_any_to_server(s, (int) strlen(s), PG_UTF8);
}

char *
eo_text_from_utf8_or_escape(const char *s, bool *exact)
{
	Datum		text;

	*exact = eo_text_try_input(from_utf8, s, &text);
	return *exact ? DatumGetCString(text) : escape_utf8(s);
}

static Datum
from_utf8(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(eo_text_from_utf8(PG_GETARG_CSTRING(0)));
}

/* Raises if s is not UTF-8: the loop relies on whole characters. */
static char *
escape_utf8(const char *s)
{
	StringInfoData out;

	(void) pg_verify_mbstr(PG_UTF8, s, (int) strlen(s), false);
	initStringInfo(&out);
	for (const unsigned char *p = (const unsigned char *) s; *p != '\0'; p += pg_utf_mblen(p))
	{
		pg_wchar	c = utf8_to_unicode(p);

		if (c < 0x80)
			appendStringInfoChar(&out, (char) c);
		else if (c < 0x10000)
			appendStringInfo(&out, "\\u%04x", c);
		else
			appendStringInfo(&out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
							 0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	return out.data;
}

bool
eo_text_try_input(PGFunction input, const char *text, Datum *value)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool ok = true;

	PG_TRY();
	{
		*value = DirectFunctionCall3(input, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
									 Int32GetDatum(-1));
	}
	PG_CATCH();
	{
		int			category = ERRCODE_TO_CATEGORY(geterrcode());

		if (category != ERRCODE_DATA_EXCEPTION && category != ERRCODE_PROGRAM_LIMIT_EXCEEDED)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	return ok;
}
