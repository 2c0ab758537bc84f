/*-------------------------------------------------------------------------
 *
 * json_number.c
 *	  Numbers of JSON as other languages read and write them.
 *
 * All of them write a double as the shortest decimal that is read as that double, and
 * of several as short ones the nearest.  They differ in where the point and the
 * exponent go.  PostgreSQL's digits are nearly these: see shorten().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/shortest_dec.h"
#include "powertools/json_number.h"

/* 0.DIGITS times 10 to the power of point, without its sign; zero is 0 with point 1. */
typedef struct Decimal
{
	char		digits[24];		/* no zero at either end */
	int			n;
	int			point;
} Decimal;

/* How a language writes a number. */
typedef struct Spelling
{
	bool		exact;			/* an integer is no double, and stays as it is */
	const char *infinity;
	int			min_point;		/* from here ... */
	int			max_point;		/* ... to here there is no exponent */
	const char *if_whole;		/* follows a number without a fraction */
	const char *if_digit;		/* follows a single digit before an exponent */
	const char *exponent;		/* its format */
} Spelling;

static void put(StringInfo out, const char *text, const Spelling *s,
				Decimal (*digits_of) (double x));
static Decimal shortest_of_two(double x);
static Decimal shortest(double x);
static void shorten(Decimal *d, double x);
static Decimal from_integer(uint64 mantissa, int exponent);
static bool reads_as(uint64 mantissa, int exponent, double x);
static void put_plain(StringInfo out, const Decimal *d, const char *if_whole);

/* Number::toString of ECMAScript */
void
eo_json_number_javascript(StringInfo out, const char *text)
{
	static const Spelling javascript = {false, "null", -5, 21, "", "", "e%+d"};

	put(out, text, &javascript, shortest);
}

/* Put a number, whose digits are found by digits_of(). */
static void
put(StringInfo out, const char *text, const Spelling *s, Decimal (*digits_of) (double x))
{
	double		x = strtod(text, NULL);
	Decimal		d;

	if (s->exact && text[strcspn(text, ".eE")] == '\0')
	{
		appendStringInfoString(out, strcmp(text, "-0") == 0 ? "0" : text);
		return;
	}

	/*
	 * Where every number is a double, minus zero has no sign, and infinity is
	 * null.
	 */
	if (s->exact ? signbit(x) : x < 0 && !isinf(x))
		appendStringInfoChar(out, '-');
	if (isinf(x))
	{
		appendStringInfoString(out, s->infinity);
		return;
	}
	d = digits_of(fabs(x));
	if (d.point >= s->min_point && d.point <= s->max_point)
	{
		put_plain(out, &d, s->if_whole);
		return;
	}
	appendStringInfoChar(out, d.digits[0]);
	if (d.n > 1)
		appendStringInfo(out, ".%s", d.digits + 1);
	else
		appendStringInfoString(out, s->if_digit);
	appendStringInfo(out, s->exponent, d.point - 1);
}

void
eo_json_number_python(StringInfo out, const char *text)
{
	static const Spelling python = {true, "Infinity", -3, 16, ".0", "", "e%+03d"};

	put(out, text, &python, shortest);
}

void
eo_json_number_java(StringInfo out, const char *text)
{
	static const Spelling java = {true, "Infinity", -2, 7, ".0", ".0", "E%d"};

	put(out, text, &java, shortest_of_two);
}

/* Java writes two digits at least: the best two, as of 4.9E-324. */
static Decimal
shortest_of_two(double x)
{
	Decimal		d = shortest(x);
	char		best[16];

	if (d.n > 1 || x == 0)
		return d;
	snprintf(best, sizeof(best), "%.1e", x);
	return from_integer((best[0] - '0') * 10 + (best[2] - '0'), atoi(best + 4) - 1);
}

/* The shortest decimal that is read as x, which is neither negative nor infinite. */
static Decimal
shortest(double x)
{
	Decimal		d;
	char		text[DOUBLE_SHORTEST_DECIMAL_LEN];
	uint64		mantissa = 0;
	int			exponent = 0;
	bool		fraction = false;

	double_to_shortest_decimal_buf(x, text);
	for (const char *c = text; *c != '\0'; c++)
	{
		if (*c == 'e')
		{
			exponent += atoi(c + 1);
			break;
		}
		if (*c == '.')
			fraction = true;
		else
		{
			mantissa = mantissa * 10 + (*c - '0');
			exponent -= fraction;
		}
	}
	d = from_integer(mantissa, exponent);
	shorten(&d, x);
	return d;
}

/*
 * PostgreSQL's digits name a number that is nearer to x than halfway to each
 * neighbour.  A number halfway is read as x, too, if x is the even one of the two, and
 * other languages write it if it is shorter: 1e23, not 9.999999999999999e22.
 * Then it is one of the two numbers of one digit less around the digits.
 */
static void
shorten(Decimal *d, double x)
{
	uint64		mantissa = strtou64(d->digits, NULL, 10) / 10;
	int			exponent = d->point - d->n + 1;

	for (int i = 0; i < 2 && d->n > 1; i++)
	{
		if (reads_as(mantissa + i, exponent, x))
		{
			*d = from_integer(mantissa + i, exponent);
			return;
		}
	}
}

/* mantissa times 10 to the power of exponent */
static Decimal
from_integer(uint64 mantissa, int exponent)
{
	Decimal		d;

	snprintf(d.digits, sizeof(d.digits), UINT64_FORMAT, mantissa);
	d.n = (int) strlen(d.digits);
	d.point = mantissa == 0 ? 1 : d.n + exponent;
	while (d.n > 1 && d.digits[d.n - 1] == '0')
		d.n--;
	d.digits[d.n] = '\0';
	return d;
}

static bool
reads_as(uint64 mantissa, int exponent, double x)
{
	char		text[40];

	snprintf(text, sizeof(text), UINT64_FORMAT "e%d", mantissa, exponent);
	return strtod(text, NULL) == x;
}

/* Without exponent; if_whole follows a number without a fraction. */
static void
put_plain(StringInfo out, const Decimal *d, const char *if_whole)
{
	if (d->point <= 0)
	{
		appendStringInfoString(out, "0.");
		for (int i = d->point; i < 0; i++)
			appendStringInfoChar(out, '0');
		appendStringInfoString(out, d->digits);
	}
	else if (d->point < d->n)
		appendStringInfo(out, "%.*s.%s", d->point, d->digits, d->digits + d->point);
	else
	{
		appendStringInfoString(out, d->digits);
		for (int i = d->n; i < d->point; i++)
			appendStringInfoChar(out, '0');
		appendStringInfoString(out, if_whole);
	}
}
