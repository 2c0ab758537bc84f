/*-------------------------------------------------------------------------
 *
 * json.h
 *	  JSON in and out of the wire, and DynamoDB's attribute values.
 *
 * json.c is the only file that includes json-c.  A text is parsed into a document
 * (EoJson) that the caller frees; values and strings borrowed from it live as long
 * as the document.  JSON is written by appending to an EoBuf, because bodies are
 * small and their shape is fixed.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_JSON_H
#define EO_DYNAMODB_JSON_H

#include "dynamodb/buf.h"
#include "dynamodb/status.h"

/* Nesting allowed in a reply.  DynamoDB's own limit for a value is 32. */
#define EO_JSON_MAX_DEPTH 40

typedef struct EoJson EoJson;
typedef const struct EoJsonValue EoJsonValue;

/*
 * Parse a reply.  These are refused as EO_INVALID: bytes that are not UTF-8 (RFC
 * 3629: no surrogates, no overlong forms); a NUL byte or a \u0000 escape anywhere;
 * unpaired surrogate escapes; text after the end; comments and everything else
 * that only json-c's default mode accepts; a member name repeated in one object,
 * because RFC 8259, section 4, leaves its meaning open and two readers could read
 * two owners; a top-level value that is not an object.  Nesting deeper than
 * EO_JSON_MAX_DEPTH is EO_TOO_LARGE.
 */
extern EoStatus eo_json_parse(const char *text, size_t len, EoJson **doc) EO_MUST_CHECK;
extern void eo_json_free(EoJson *doc);	/* doc may be NULL */
extern EoJsonValue *eo_json_root(const EoJson *doc);

/* A member of an object; NULL if v is NULL, no object, or has no such member. */
extern EoJsonValue *eo_json_get(EoJsonValue *v, const char *name);

/* The elements of an array; 0 and NULL if v is no array, or i is past its end. */
extern size_t eo_json_array_length(EoJsonValue *v);
extern EoJsonValue *eo_json_array_get(EoJsonValue *v, size_t i);

/* A string and its length in bytes; NULL and 0 if v is not a string. */
extern const char *eo_json_string(EoJsonValue *v, size_t *len);

/*
 * DynamoDB attribute values: {"S": "..."} and {"N": "123"}.  NULL or false if the
 * attribute is missing or of another type.  A number is read only if it is spelled
 * as an integer and fits; DynamoDB spells the integers stored here so, and not as
 * 1E+2.
 */
extern const char *eo_json_attr_s(EoJsonValue *item, const char *name, size_t *len);
extern bool eo_json_attr_n(EoJsonValue *item, const char *name, int64_t *value);

/* Append s as a JSON string, in quotes and with all control characters escaped. */
extern void eo_json_put_string(EoBuf *out, const char *s, size_t len);

#endif							/* EO_DYNAMODB_JSON_H */
