/*-------------------------------------------------------------------------
 *
 * lower_case.c
 *	  The lower case of JavaScript's toLowerCase.
 *
 * JavaScript uses Unicode's full mapping without a language.  PostgreSQL's lower()
 * depends on the locale, and the C library knows one character for each only.  So the
 * mapping is here, made by script/lower-case from what Node.js does.  Two characters
 * are in none of its tables: U+0130 becomes two, and U+03A3 depends on its neighbours.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "powertools/lower_case.h"
#include "powertools/lower_case_tables.h"

#define CAPITAL_I_WITH_DOT 0x130
#define COMBINING_DOT 0x307
#define CAPITAL_SIGMA 0x3A3
#define SMALL_SIGMA 0x3C3
#define FINAL_SIGMA 0x3C2

static pg_wchar lower(const pg_wchar * points, size_t n, size_t i);
static bool is_final(const pg_wchar * points, size_t n, size_t i);
static bool is_in(pg_wchar c, const LowerRange *ranges, size_t n);
static int	compare_range(const void *key, const void *range);
static void put_utf16(uint16 *units, size_t *n, pg_wchar c);

uint16 *
eo_lower_case(const char *s, size_t len, size_t *n)
{
	pg_wchar   *points = palloc_extended((len + 1) * sizeof(pg_wchar), MCXT_ALLOC_HUGE);

	/* No character has more units than bytes, nor has its lower case. */
	uint16	   *units = palloc_extended((len + 1) * sizeof(uint16), MCXT_ALLOC_HUGE);
	size_t		count = 0;

	for (const char *end = s + len; s < end; s += pg_utf_mblen((const unsigned char *) s))
		points[count++] = utf8_to_unicode((const unsigned char *) s);
	*n = 0;
	for (size_t i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_utf16(units, n, lower(points, count, i));
		if (points[i] == CAPITAL_I_WITH_DOT)
			put_utf16(units, n, COMBINING_DOT);
	}
	pfree(points);
	return units;
}

/* The lower case of the code point at i; its first one, if it becomes two. */
static pg_wchar
lower(const pg_wchar * points, size_t n, size_t i)
{
	pg_wchar	c = points[i];
	const LowerMapping *m;

	if (c < 0x80)
		return c >= 'A' && c <= 'Z' ? c + 32 : c;
	if (c == CAPITAL_I_WITH_DOT)
		return 'i';
	if (c == CAPITAL_SIGMA)
		return is_final(points, n, i) ? FINAL_SIGMA : SMALL_SIGMA;
	m = bsearch(&c, lower_mappings, lengthof(lower_mappings), sizeof(LowerMapping), compare_range);
	if (m == NULL || (c - m->range.first) % m->step != 0)
		return c;
	return c + m->delta;
}

/*
 * Final_Sigma of the Unicode Standard, section 3.13, as ICU has it: of the characters
 * that are not ignored, the nearest before is cased and the nearest behind is not.
 */
static bool
is_final(const pg_wchar * points, size_t n, size_t i)
{
	size_t		before = i;
	size_t		behind = i + 1;

	while (before > 0 && is_in(points[before - 1], case_ignorable, lengthof(case_ignorable)))
		before--;
	while (behind < n && is_in(points[behind], case_ignorable, lengthof(case_ignorable)))
		behind++;
	return before > 0 && is_in(points[before - 1], cased, lengthof(cased)) &&
		!(behind < n && is_in(points[behind], cased, lengthof(cased)));
}

static bool
is_in(pg_wchar c, const LowerRange *ranges, size_t n)
{
	return bsearch(&c, ranges, n, sizeof(LowerRange), compare_range) != NULL;
}

/* bsearch comparator of a code point and a range, or what begins with one */
static int
compare_range(const void *key, const void *range)
{
	pg_wchar	c = *(const pg_wchar *) key;
	const LowerRange *r = range;

	return c < r->first ? -1 : c > r->last;
}

static void
put_utf16(uint16 *units, size_t *n, pg_wchar c)
{
	if (c >= 0x10000)
	{
		units[(*n)++] = 0xD800 + ((c - 0x10000) >> 10);
		units[(*n)++] = 0xDC00 + ((c - 0x10000) & 0x3FF);
	}
	else
		units[(*n)++] = c;
}
