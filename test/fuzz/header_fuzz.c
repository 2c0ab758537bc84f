/*
 * header_fuzz.c
 *	  Any bytes as a header line: what comes out is short, printable and
 *	  trimmed.
 */
#include "wire/header.h"
#include "wire/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char		value[EO_REQUEST_ID_LEN];

	if (!eo_header_value((const char *) data, size, "date", value, sizeof(value)))
		return 0;
	if (strlen(value) >= sizeof(value) || value[0] == ' ' ||
		(value[0] != '\0' && value[strlen(value) - 1] == ' '))
		abort();
	for (const char *p = value; *p; p++)
		if (*p < ' ' || *p > '~')
			abort();
	return 0;
}
