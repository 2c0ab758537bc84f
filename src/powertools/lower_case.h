/*-------------------------------------------------------------------------
 *
 * lower_case.h
 *	  The lower case of JavaScript's toLowerCase.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_POWERTOOLS_LOWER_CASE_H
#define EO_POWERTOOLS_LOWER_CASE_H

#include "postgres.h"

/*
 * Returns len bytes of UTF-8, which may have unpaired surrogates, in lower case as
 * UTF-16 code units, palloc'd; *n is their number.
 */
extern uint16 *eo_lower_case(const char *s, size_t len, size_t *n);

#endif							/* EO_POWERTOOLS_LOWER_CASE_H */
