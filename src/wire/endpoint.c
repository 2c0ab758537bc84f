/*-------------------------------------------------------------------------
 *
 * endpoint.c
 *	  The server option "endpoint".
 *
 * Plain C over the caller's buffers, so that test/fuzz can call it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/endpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
eo_endpoint_parse(const char *value, EoEndpoint *ep, const char **reason)
{
	const char *p;
	size_t		host_len;
	long		port = 0;

	memset(ep, 0, sizeof(*ep));
	*reason = "The scheme is neither https nor http.";
	if (strncasecmp(value, "https://", 8) == 0)
	{
		ep->https = true;
		p = value + 8;
	}
	else if (strncasecmp(value, "http://", 7) == 0)
		p = value + 7;
	else
		return false;

	*reason = "The host is not a name or an address.";
	if (*p == '[')
	{
		host_len = strspn(p + 1, "0123456789abcdefABCDEF:.");
		if (p[1 + host_len] != ']')
			return false;
		host_len += 2;
	}
	else
		host_len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");
	if (host_len < 1 || host_len > EO_MAX_HOST)
		return false;
	memcpy(ep->authority, p, host_len);
	ep->authority[host_len] = '\0';
	ep->loopback = strcasecmp(ep->authority, "localhost") == 0 ||
		strcmp(ep->authority, "[::1]") == 0 ||
		(strncmp(ep->authority, "127.", 4) == 0 &&
		 strspn(ep->authority, "0123456789.") == host_len);
	p += host_len;
	if (*p == ':')
	{
		char	   *end;

		*reason = "The port is not a number from 1 to 65535.";
		if (!isdigit((unsigned char) p[1]))
			return false;
		port = strtol(p + 1, &end, 10);
		if (port < 1 || port > 65535)
			return false;
		p = end;
	}
	if (*p == '/')
		p++;
	*reason = "Something follows the host and port.";
	if (*p != '\0')
		return false;
	if (port != 0 && port != (ep->https ? 443 : 80))
		snprintf(ep->authority + host_len, sizeof(ep->authority) - host_len, ":%ld", port);
	return true;
}
