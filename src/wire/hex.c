/*-------------------------------------------------------------------------
 *
 * hex.c
 *	  Bytes and UUIDs as hexadecimal text.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/hex.h"

static const char digits[] = "0123456789abcdef";

void
eo_hex_put(const unsigned char *bytes, size_t len, char *hex)
{
	for (size_t i = 0; i < len; i++)
	{
		*hex++ = digits[bytes[i] >> 4];
		*hex++ = digits[bytes[i] & 15];
	}
	*hex = '\0';
}

/* Is there a hyphen before this byte of a UUID? */
static bool
follows_hyphen(int i)
{
	return i == 4 || i == 6 || i == 8 || i == 10;
}

void
eo_hex_put_uuid(const uint8_t *uuid, char *text)
{
	for (int i = 0; i < EO_UUID_LEN; i++)
	{
		if (follows_hyphen(i))
			*text++ = '-';
		*text++ = digits[uuid[i] >> 4];
		*text++ = digits[uuid[i] & 15];
	}
	*text = '\0';
}

/* The value of a digit, or -1.  Every reply has an origin, so this is not strchr(). */
static int
value_of(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool
eo_hex_read_uuid(const char *text, uint8_t *uuid)
{
	for (int i = 0; i < EO_UUID_LEN; i++)
	{
		int			high;
		int			low;

		if (follows_hyphen(i) && *text++ != '-')
			return false;
		high = value_of(text[0]);
		low = high >= 0 ? value_of(text[1]) : -1;
		if (low < 0)
			return false;
		uuid[i] = (uint8_t) (high << 4 | low);
		text += 2;
	}
	return true;
}
