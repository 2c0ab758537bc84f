/*-------------------------------------------------------------------------
 *
 * parse.c
 *	  What option values look like: durations, endpoints, lists of options.
 *
 * Shared by the validator, which refuses what is wrong, and by options.c,
 * which reads what was accepted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "parse.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

bool
eo_parse_duration(const char *value, int64 *ms)
{
	Interval   *span = NULL;
	MemoryContext context = CurrentMemoryContext;
	bool		ok = true;

	PG_TRY();
	{
		span = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(value),
													 ObjectIdGetDatum(InvalidOid),
													 Int32GetDatum(-1)));
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		/* Input conversion touches nothing, so a data error needs no abort. */
		if (ERRCODE_TO_CATEGORY(code) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		ok = false;
	}
	PG_END_TRY();
	if (!ok)
		return false;
	*ms = span->time / 1000 + ((int64) span->day + (int64) span->month * 30) * INT64CONST(86400000);
	return true;
}

bool
eo_parse_endpoint(const char *value, EoEndpoint *ep, const char **reason)
{
	const char *p;
	size_t		host_len;
	long		port = 0;

	memset(ep, 0, sizeof(*ep));
	*reason = "The scheme is neither https nor http.";
	if (pg_strncasecmp(value, "https://", 8) == 0)
	{
		ep->https = true;
		p = value + 8;
	}
	else if (pg_strncasecmp(value, "http://", 7) == 0)
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
	if (host_len < 1 || host_len > 253)
		return false;
	ep->authority = pnstrdup(p, host_len);
	ep->loopback = pg_strcasecmp(ep->authority, "localhost") == 0 ||
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
		ep->authority = psprintf("%s:%ld", ep->authority, port);
	return true;
}

const char *
eo_option_value(List *list, const char *name)
{
	ListCell   *lc;

	foreach(lc, list)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

bool
eo_option_is_true(List *list, const char *name)
{
	const char *value = eo_option_value(list, name);
	bool		b = false;

	return value != NULL && parse_bool(value, &b) && b;
}
