/*-------------------------------------------------------------------------
 *
 * attribute.c
 *	  JSON text as an attribute value of DynamoDB's own types.
 *
 * The text is copied token by token, so that numbers keep all of their digits and
 * strings keep their escapes.
 *
 *-------------------------------------------------------------------------
 */
#include "records/attribute.h"

#include <stdlib.h>
#include <string.h>

/* The largest size of a number in an item. */
#define NUMBER_SIZE 21

typedef struct Reader
{
	const char *p;
	const char *end;
	EoBuf	   *out;
	size_t		size;			/* of what has been read */
	int			depth;
} Reader;

static EoStatus put_value(Reader *r);
static EoStatus put_members(Reader *r, char close);
static EoStatus put_number(Reader *r);
static bool put_word(Reader *r, const char *word, const char *value);
static EoStatus put_string(Reader *r, size_t *len);
static void skip_space(Reader *r);

EoStatus
eo_attribute_put(EoBuf *out, const char *json, size_t len, size_t *size)
{
	Reader		r = {.p = json,.end = json + len,.out = out};
	EoStatus	status = put_value(&r);

	*size = r.size;
	skip_space(&r);
	return status == EO_OK && r.p < r.end ? EO_INVALID : status;
}

static EoStatus
put_value(Reader *r)
{
	EoStatus	status;
	size_t		len;

	skip_space(r);
	if (r->p == r->end)
		return EO_INVALID;
	/* One byte for the type of an element or member. */
	r->size++;
	switch (*r->p)
	{
		case '{':
		case '[':
			r->size += 3;
			if (++r->depth > EO_ATTRIBUTE_MAX_DEPTH)
				return EO_TOO_LARGE;
			eo_buf_adds(r->out, *r->p == '{' ? "{\"M\":{" : "{\"L\":[");
			status = put_members(r, *r->p == '{' ? '}' : ']');
			r->depth--;
			return status;
		case '"':
			eo_buf_adds(r->out, "{\"S\":");
			status = put_string(r, &len);
			eo_buf_addc(r->out, '}');
			return status;
		case 't':
			return put_word(r, "true", "{\"BOOL\":true}") ? EO_OK : EO_INVALID;
		case 'f':
			return put_word(r, "false", "{\"BOOL\":false}") ? EO_OK : EO_INVALID;
		case 'n':
			return put_word(r, "null", "{\"NULL\":true}") ? EO_OK : EO_INVALID;
		default:
			return put_number(r);
	}
}

/* The members of an object or the elements of an array, from its bracket on. */
static EoStatus
put_members(Reader *r, char close)
{
	bool		first = true;

	for (r->p++;; first = false)
	{
		EoStatus	status = EO_OK;
		size_t		len = 1;

		skip_space(r);
		if (r->p < r->end && *r->p == close)
			break;
		if (!first && (r->p == r->end || *r->p++ != ','))
			return EO_INVALID;
		if (!first)
			eo_buf_addc(r->out, ',');
		skip_space(r);
		if (close == '}')
		{
			status = put_string(r, &len);
			skip_space(r);
			if (status == EO_OK && (len == 0 || r->p == r->end || *r->p++ != ':'))
				status = EO_INVALID;
			eo_buf_addc(r->out, ':');
		}
		if (status == EO_OK)
			status = put_value(r);
		if (status != EO_OK)
			return status;
	}
	r->p++;
	eo_buf_adds(r->out, close == '}' ? "}}" : "]}");
	return EO_OK;
}

/*
 * DynamoDB keeps 38 digits, not counting zeros at either end, of numbers between
 * 1E-130 and 9.99E+125.
 */
static EoStatus
put_number(Reader *r)
{
	const char *start = r->p;
	const char *mantissa;
	const char *point = NULL;
	const char *first = NULL;	/* the first and last digit that is no zero */
	const char *last = NULL;
	long		exponent = 0;
	long		digits = 0;

	if (r->p < r->end && *r->p == '-')
		r->p++;
	mantissa = r->p;
	for (; r->p < r->end && (*r->p == '.' || (*r->p >= '0' && *r->p <= '9')); r->p++)
	{
		if (*r->p == '.')
			point = r->p;
		else if (*r->p != '0')
		{
			last = r->p;
			first = first == NULL ? r->p : first;
		}
	}
	if (r->p == mantissa)
		return EO_INVALID;
	point = point == NULL ? r->p : point;
	if (r->p < r->end && (*r->p == 'e' || *r->p == 'E'))
	{
		exponent = strtol(r->p + 1, NULL, 10);
		for (r->p++; r->p < r->end && strchr("+-0123456789", *r->p) != NULL; r->p++)
			;
	}
	if (first == NULL)
		exponent = 0;			/* zero has none */
	else
	{
		digits = last - first + 1 - (first < point && last > point);
		exponent += point - first - (first < point);
	}
	if (digits > EO_ATTRIBUTE_MAX_DIGITS || exponent > 125 || exponent < -130)
		return EO_INVALID;
	r->size += NUMBER_SIZE;
	eo_buf_adds(r->out, "{\"N\":\"");
	eo_buf_add(r->out, start, (size_t) (r->p - start));
	eo_buf_adds(r->out, "\"}");
	return EO_OK;
}

/* Skip decimal digits. */
static const char *
skip_digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

bool
eo_attribute_is_number(const char *text, size_t len)
{
	const char *end = text + len;
	const char *start = text + (len > 0 && *text == '+');
	const char *p = start + (start < end && start == text && *start == '-');
	const char *q = skip_digits(p, end);
	size_t		digits = (size_t) (q - p);
	size_t		size;
	EoBuf		out = {0};
	EoStatus	status;

	if (q < end && *q == '.')
	{
		p = q + 1;
		q = skip_digits(p, end);
		digits += (size_t) (q - p);
	}
	if (digits > 0 && q < end && (*q == 'e' || *q == 'E'))
	{
		p = q + 1;
		p += p < end && (*p == '+' || *p == '-');
		q = skip_digits(p, end);
		/* strtol() is not to run over the end. */
		if (q == p || q - p > 9)
			return false;
	}
	if (digits == 0 || q < end)
		return false;
	status = eo_attribute_put(&out, start, (size_t) (end - start), &size);
	eo_buf_free(&out);
	return status == EO_OK;
}

long
eo_attribute_base64_len(const char *text, size_t len)
{
	size_t		padding = 0;

	while (padding < 2 && padding < len && text[len - padding - 1] == '=')
		padding++;
	if (len % 4 != 0)
		return -1;
	for (size_t i = 0; i < len - padding; i++)
	{
		if (text[i] == '\0' ||
			strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", text[i]) == NULL)
			return -1;
	}
	return (long) (len / 4 * 3 - padding);
}

static bool
put_word(Reader *r, const char *word, const char *value)
{
	size_t		len = strlen(word);

	if ((size_t) (r->end - r->p) < len || strncmp(r->p, word, len) != 0)
		return false;
	r->p += len;
	r->size++;
	eo_buf_adds(r->out, value);
	return true;
}

/* A string with its quotes; *len is its length as it is written. */
static EoStatus
put_string(Reader *r, size_t *len)
{
	const char *start = r->p;

	if (r->p == r->end || *r->p != '"')
		return EO_INVALID;
	for (r->p++; r->p < r->end && *r->p != '"'; r->p++)
	{
		if (*r->p == '\\' && r->p + 1 < r->end)
			r->p++;
	}
	if (r->p == r->end)
		return EO_INVALID;
	*len = (size_t) (r->p - start) - 1;
	r->size += *len;
	r->p++;
	eo_buf_add(r->out, start, (size_t) (r->p - start));
	return EO_OK;
}

static void
skip_space(Reader *r)
{
	while (r->p < r->end && strchr(" \t\r\n", *r->p) != NULL)
		r->p++;
}
