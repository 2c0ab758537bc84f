/*
 * origin_fuzz.c
 *	  Any text as an origin: what is read is written back as the same text.
 */
#include "records/origin.h"

#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *text = malloc(size + 1);
	char		written[EO_ORIGIN_LEN + 1];
	EoOrigin	origin;

	memcpy(text, data, size);
	text[size] = '\0';
	if (eo_origin_read(text, &origin))
	{
		eo_origin_write(&origin, written);
		if (strcmp(written, text) != 0)
			abort();
	}
	free(text);
	return 0;
}
