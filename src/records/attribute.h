/*-------------------------------------------------------------------------
 *
 * attribute.h
 *	  JSON text as an attribute value of DynamoDB's own types.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_ATTRIBUTE_H
#define EO_RECORDS_ATTRIBUTE_H

#include "wire/buf.h"
#include "wire/status.h"

/* Amazon DynamoDB Developer Guide, "Supported data types": nesting, digits of a number. */
#define EO_ATTRIBUTE_MAX_DEPTH 32
#define EO_ATTRIBUTE_MAX_DIGITS 38

/*
 * Append the value: {"M": ...}, {"L": ...}, {"S": ...}, {"N": ...}, {"BOOL": ...} or
 * {"NULL": true}.  The text must be valid JSON without \u0000.  *size is what
 * the value takes up in an item, or a little more.  Returns EO_OK; EO_INVALID if
 * DynamoDB has no such value: a number of more than 38 digits or beyond its range, a
 * member without a name; or EO_TOO_LARGE if it is nested too deeply.
 */
extern EoStatus eo_attribute_put(EoBuf *out, const char *json, size_t len,
								 size_t *size) EO_MUST_CHECK;

/*
 * Is the text a number that DynamoDB has, of up to 38 digits and between 1E-130 and
 * 9.99E+125?  Spelled as JSON spells it, or with a sign or point at either end.
 */
extern bool eo_attribute_is_number(const char *text, size_t len);

/* The length of the bytes that base64 stands for; -1: the text is not base64. */
extern long eo_attribute_base64_len(const char *text, size_t len);

#endif							/* EO_RECORDS_ATTRIBUTE_H */
