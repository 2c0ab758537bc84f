/*-------------------------------------------------------------------------
 *
 * attribute.h
 *	  JSON text as an attribute value of DynamoDB's own types.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_ATTRIBUTE_H
#define EO_DYNAMODB_ATTRIBUTE_H

#include "dynamodb/buf.h"
#include "dynamodb/status.h"

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

#endif							/* EO_DYNAMODB_ATTRIBUTE_H */
