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

static bool is_integer(const char *text);
static void put_integer(StringInfo out, const char *text);
static Decimal shortest(double x);
static void shorten(Decimal *d, double x);
static Decimal from_integer(uint64 mantissa, int exponent);
static bool reads_as(uint64 mantissa, int exponent, double x);
static void put_plain(StringInfo out, const Decimal *d, const char *if_whole);
static void put_scientific(StringInfo out, const Decimal *d, const char *if_whole);

void
eo_json_number_javascript(StringInfo out, const char *text)
{
	double		x = strtod(text, NULL);
	Decimal		d;

	if (isinf(x))
	{
		appendStringInfoString(out, "null");
		return;
	}
	d = shortest(fabs(x));
	/* Number::toString of ECMAScript; minus zero has no sign. */
	if (x < 0)
		appendStringInfoChar(out, '-');
	if (d.point > -6 && d.point <= 21)
		put_plain(out, &d, "");
	else
	{
		put_scientific(out, &d, "");
		appendStringInfo(out, "e%+d", d.point - 1);
	}
}

void
eo_json_number_python(StringInfo out, const char *text)
{
	double		x;
	Decimal		d;

	if (is_integer(text))
	{
		put_integer(out, text);
		return;
	}
	x = strtod(text, NULL);
	if (signbit(x))
		appendStringInfoChar(out, '-');
	if (isinf(x))
	{
		appendStringInfoString(out, "Infinity");
		return;
	}
	d = shortest(fabs(x));
	if (d.point > -4 && d.point <= 16)
		put_plain(out, &d, ".0");
	else
	{
		put_scientific(out, &d, "");
		appendStringInfo(out, "e%+03d", d.point - 1);
	}
}

void
eo_json_number_java(StringInfo out, const char *text)
{
	double		x;
	Decimal		d;

	if (is_integer(text))
	{
		put_integer(out, text);
		return;
	}
	x = strtod(text, NULL);
	if (signbit(x))
		appendStringInfoChar(out, '-');
	x = fabs(x);
	if (isinf(x))
	{
		appendStringInfoString(out, "Infinity");
		return;
	}
	d = shortest(x);
	if (d.n == 1 && x != 0)
	{
		/* Java writes two digits at least: the best two, as of 4.9E-324. */
		char		best[16];

		snprintf(best, sizeof(best), "%.1e", x);
		d = from_integer((best[0] - '0') * 10 + (best[2] - '0'), atoi(best + 4) - 1);
	}
	if (d.point > -3 && d.point <= 7)
		put_plain(out, &d, ".0");
	else
	{
		put_scientific(out, &d, ".0");
		appendStringInfo(out, "E%d", d.point - 1);
	}
}

static bool
is_integer(const char *text)
{
	return text[strcspn(text, ".eE")] == '\0';
}

/* An integer as it is written, but for minus zero. */
static void
put_integer(StringInfo out, const char *text)
{
	appendStringInfoString(out, strcmp(text, "-0") == 0 ? "0" : text);
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
	uint64		mantissa;
	int			exponent = d->point - d->n + 1;

	if (d->n < 2)
		return;
	mantissa = strtou64(d->digits, NULL, 10) / 10;
	for (int i = 0; i < 2; i++)
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

/* One digit, a point and the others; if_whole follows if there are no others. */
static void
put_scientific(StringInfo out, const Decimal *d, const char *if_whole)
{
	appendStringInfoChar(out, d->digits[0]);
	if (d->n > 1)
		appendStringInfo(out, ".%s", d->digits + 1);
	else
		appendStringInfoString(out, if_whole);
}
