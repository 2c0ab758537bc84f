/*-------------------------------------------------------------------------
 *
 * header.c
 *	  The value of a header line, and other texts of services.
 *
 * Plain C over the caller's buffers, so that test/fuzz can call it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/header.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
eo_header_value(const char *line, size_t len, const char *name, char *value, size_t size)
{
	size_t		name_len = strlen(name);
	size_t		n = 0;

	if (len <= name_len || line[name_len] != ':' ||
		strncasecmp(line, name, name_len) != 0)
		return false;
	for (size_t i = name_len + 1; i < len && n + 1 < size; i++)
	{
		unsigned char c = line[i];

		if (c > ' ' && c < 127)
			value[n++] = c;
		else if (c == ' ' && n > 0)
			value[n++] = ' ';
	}
	while (n > 0 && value[n - 1] == ' ')
		n--;
	value[n] = '\0';
	return true;
}

void
eo_header_make_printable(char *text, char first)
{
	for (char *p = text; *p != '\0'; p++)
	{
		if (*p < first || *p > '~')
			*p = '?';
	}
}

int
eo_header_milliseconds(const char *value, int max)
{
	long		ms = strtol(value, NULL, 10);

	return ms < 0 ? 0 : ms > max ? max : (int) ms;
}
