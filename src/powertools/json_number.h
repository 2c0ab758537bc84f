/*-------------------------------------------------------------------------
 *
 * json_number.h
 *	  Numbers of JSON as other languages read and write them.
 *
 * Each function appends to out what the language writes after it has read the
 * number, whose text is NUL-terminated and valid JSON.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_POWERTOOLS_JSON_NUMBER_H
#define EO_POWERTOOLS_JSON_NUMBER_H

#include "postgres.h"

#include "lib/stringinfo.h"

/* JavaScript's JSON.stringify: every number is a double. */
extern void eo_json_number_javascript(StringInfo out, const char *text);

/* Python's json.dumps: integers are exact; 1e999 is Infinity. */
extern void eo_json_number_python(StringInfo out, const char *text);

/*
 * Java's toString: integers are exact, others as by Double.toString of Java 19 or
 * newer, whose predecessors had a digit too many at times.  1e999 is Infinity.
 */
extern void eo_json_number_java(StringInfo out, const char *text);

#endif							/* EO_POWERTOOLS_JSON_NUMBER_H */
