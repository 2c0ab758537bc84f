/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  The PostgreSQL transaction that seals a record.
 *
 *-------------------------------------------------------------------------
 */
#include "records/origin.h"

#include <stdio.h>
#include <string.h>

#include "wire/hex.h"

static bool read_number(const char **text, unsigned int base, uint64_t max, uint64_t *n);

void
eo_origin_write(const EoOrigin *origin, char text[EO_ORIGIN_LEN + 1])
{
	eo_hex_put_uuid(origin->life, text);
	if (origin->xid != 0)
		snprintf(text + EO_UUID_TEXT_LEN, EO_ORIGIN_LEN + 1 - EO_UUID_TEXT_LEN, "/%llu/%u/%llX",
				 (unsigned long long) origin->xid, origin->timeline,
				 (unsigned long long) origin->lsn);
}

bool
eo_origin_read(const char *text, EoOrigin *origin)
{
	EoOrigin	read = {.xid = 0};
	uint64_t	timeline;

	if (text == NULL || !eo_hex_read_uuid(text, read.life))
		return false;
	text += EO_UUID_TEXT_LEN;
	if (*text == '\0')
	{
		*origin = read;
		return true;
	}
	if (!read_number(&text, 10, UINT64_MAX, &read.xid) || read.xid == 0 ||
		!read_number(&text, 10, UINT32_MAX, &timeline) ||
		!read_number(&text, 16, UINT64_MAX, &read.lsn) ||
		*text != '\0')
		return false;
	read.timeline = (uint32_t) timeline;
	*origin = read;
	return true;
}

/*
 * Read a slash and the digits behind it, and move *text past them.  Leading zeros
 * are refused, because a number has only one text.
 */
static bool
read_number(const char **text, unsigned int base, uint64_t max, uint64_t *n)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *p = *text;

	if (*p++ != '/')
		return false;
	*n = 0;
	for (;; p++)
	{
		const char *digit = *p != '\0' ? strchr(digits, *p) : NULL;
		uint64_t	value = digit != NULL ? (uint64_t) (digit - digits) : base;

		if (value >= base)
			break;
		if (p > *text + 1 && *n == 0)
			return false;
		if (*n > (max - value) / base)
			return false;
		*n = *n * base + value;
	}
	if (p == *text + 1)
		return false;
	*text = p;
	return true;
}
