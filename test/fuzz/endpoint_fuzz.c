/*
 * endpoint_fuzz.c
 *	  Any text as the option endpoint: what is accepted has a host and nothing
 *	  that could carry a request elsewhere.
 */
#include "wire/endpoint.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char	   *value = malloc(size + 1);
	EoEndpoint	ep;
	const char *reason = NULL;

	memcpy(value, data, size);
	value[size] = '\0';
	if (eo_endpoint_parse(value, &ep, &reason))
	{
		if (ep.authority[0] == '\0' || strpbrk(ep.authority, "/@?#\\ \t\r\n%") != NULL)
			abort();
	}
	else if (reason == NULL)
		abort();
	free(value);
	return 0;
}
