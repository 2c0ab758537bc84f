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
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_JSON_H
#define EO_WIRE_JSON_H

#include "wire/buf.h"
#include "wire/status.h"

/*
 * Nesting allowed in a reply.  DynamoDB lets a value be nested 32 levels deep, and each
 * of them is two here, a value and the object that names its type.  Around an item
 * there are up to four more, in the reasons of a cancelled transaction.  So every item
 * that can be stored can be read, whatever others have put into it.
 */
#define EO_JSON_MAX_DEPTH 80

/*
 * Objects and arrays allowed in a reply.  json-c takes some 800 bytes for each, however few it has
 * on the wire, so this is 80 MB.  An item can have 200,000, of empty values.  A megabyte of honest
 * ones has less than this: {"N":"1"} and its comma are ten bytes.
 */
#define EO_JSON_MAX_CONTAINERS 100000

typedef struct EoJson EoJson;
typedef const struct EoJsonValue EoJsonValue;

/*
 * Parse a reply.  Refused as EO_INVALID: bytes that are not UTF-8 (RFC 3629:
 * no surrogates, no overlong forms), a NUL byte, a \u0000 escape in a member's
 * name, unpaired surrogate escapes, trailing text, comments and the other
 * liberties json-c takes by default, a member name repeated in one object
 * (RFC 8259, section 4, leaves its meaning open; two readers could take two
 * owners from it), a top-level value that is not an object, nesting over
 * EO_JSON_MAX_DEPTH.  EO_TOO_LARGE: it has more than EO_JSON_MAX_CONTAINERS.
 */
extern EoStatus eo_json_parse(const char *text, size_t len, EoJson **doc) EO_MUST_CHECK;
extern void eo_json_free(EoJson *doc);	/* doc may be NULL */
extern EoJsonValue *eo_json_root(const EoJson *doc);

/* A member of an object; NULL if v is NULL, no object, or has no such member. */
extern EoJsonValue *eo_json_get(EoJsonValue *v, const char *name);

/* Several members at once, by their names: for many this is faster. */
extern void eo_json_get_all(EoJsonValue *v, const char *const *names, int n, EoJsonValue **members);

/* The elements of an array; 0 and NULL if v is no array, or i is past its end. */
extern size_t eo_json_array_length(EoJsonValue *v);
extern EoJsonValue *eo_json_array_get(EoJsonValue *v, size_t i);

/*
 * String value and its length in bytes; NULL if v is not a string.  One with a NUL in
 * it (\u0000), which could not be told from a shorter one, counts as none.
 */
extern const char *eo_json_string(EoJsonValue *v, size_t *len);

/* Is v (may be NULL) this string? */
extern bool eo_json_string_is(EoJsonValue *v, const char *text);

/* Value of a number, rounded down; 0 if v is not one. */
extern int64_t eo_json_integer(EoJsonValue *v);

/* The same, not rounded. */
extern double eo_json_number(EoJsonValue *v);

/*
 * DynamoDB attribute values: {"S": "..."} and {"N": "123"}.  NULL or false if the
 * attribute is missing or of another type.  A number is read only if it is spelled
 * as an integer and fits; DynamoDB spells the integers stored here so, and not as
 * 1E+2.
 */
extern const char *eo_json_attr_s(EoJsonValue *item, const char *name, size_t *len);
extern bool eo_json_attr_n(EoJsonValue *item, const char *name, int64_t *value);

/* The same of an attribute that has been looked up. */
extern const char *eo_json_s(EoJsonValue *attribute, size_t *len);
extern bool eo_json_n(EoJsonValue *attribute, int64_t *value);

/*
 * The text of an attribute that holds JSON: the string itself if it is a string; else
 * its value as JSON, with numbers as they are written and sets as arrays.  *text is
 * NULL if there is no attribute.  EO_INVALID: it has no form in JSON (binary, a
 * string with a NUL); or EO_NO_MEMORY.
 */
extern EoStatus eo_json_text(EoJsonValue *attribute, const char **text,
							 size_t *len) EO_MUST_CHECK;

/* Append a value as it was parsed, without white space; NULL makes the buffer EO_INVALID. */
extern void eo_json_put(EoBuf *out, EoJsonValue *v);

/* Append s as a JSON string, with quotes; all control characters escaped. */
extern void eo_json_put_string(EoBuf *out, const char *s, size_t len);

#endif							/* EO_WIRE_JSON_H */
