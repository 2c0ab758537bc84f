/*-------------------------------------------------------------------------
 *
 * unit.h
 *	  What a plain C test needs: one line of TAP for each case.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_H
#define UNIT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int	unit_cases;
static int	unit_failures;

static inline void
ok(bool passed, const char *what)
{
	unit_cases++;
	if (!passed)
		unit_failures++;
	printf("%sok %d - %s\n", passed ? "" : "not ", unit_cases, what);
}

static inline void
is_string(const char *got, const char *expected, const char *what)
{
	bool		same = got != NULL && strcmp(got, expected) == 0;

	ok(same, what);
	if (!same)
		printf("# got      %s\n# expected %s\n", got != NULL ? got : "(null)", expected);
}

static inline int
done(void)
{
	printf("1..%d\n", unit_cases);
	return unit_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif							/* UNIT_H */
