/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  The PostgreSQL transaction that seals a record.
 *
 *-------------------------------------------------------------------------
 */
#include "records/origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char **text, int base, uint64_t max, uint64_t *n);

void
eo_origin_write(const EoOrigin *origin, char text[EO_ORIGIN_LEN + 1])
{
	eo_hex_put_uuid(origin->life, text);
	if (origin->xid != 0)
		snprintf(text + EO_UUID_TEXT_LEN, EO_ORIGIN_LEN + 1 - EO_UUID_TEXT_LEN, "/%llu/%u/%llX",
				 (unsigned long long) origin->xid, origin->timeline,
				 (unsigned long long) origin->lsn);
}

/* "~" is behind every digit. */
void
eo_origin_write_limits(const uint8_t *life, uint64_t xid,
					   char first[EO_ORIGIN_LEN + 1], char last[EO_ORIGIN_LEN + 1])
{
	char		text[EO_UUID_TEXT_LEN + 1];

	eo_hex_put_uuid(life, text);
	snprintf(first, EO_ORIGIN_LEN + 1, "%s/%llu/", text, (unsigned long long) xid);
	snprintf(last, EO_ORIGIN_LEN + 1, "%s~", first);
}

bool
eo_origin_read(const char *text, EoOrigin *origin)
{
	EoOrigin	read = {.xid = 0};
	uint64_t	timeline = 0;

	if (text == NULL || !eo_hex_read_uuid(text, read.life))
		return false;
	text += EO_UUID_TEXT_LEN;
	if (*text != '\0' &&
		(!read_number(&text, 10, UINT64_MAX, &read.xid) || read.xid == 0 ||
		 !read_number(&text, 10, UINT32_MAX, &timeline) ||
		 !read_number(&text, 16, UINT64_MAX, &read.lsn) ||
		 *text != '\0'))
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
read_number(const char **text, int base, uint64_t max, uint64_t *n)
{
	const char *p = *text + 1;
	size_t		len;

	if (**text != '/')
		return false;
	len = strspn(p, base == 10 ? "0123456789" : "0123456789ABCDEF");
	if (len == 0 || (len > 1 && *p == '0'))
		return false;
	errno = 0;
	*n = strtoull(p, NULL, base);
	*text = p + len;
	return errno == 0 && *n <= max;
}
