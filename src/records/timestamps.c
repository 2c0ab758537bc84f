/*-------------------------------------------------------------------------
 *
 * timestamps.c
 *	  Instants in the forms that other clients of a table use.
 *
 *-------------------------------------------------------------------------
 */
#include "records/timestamps.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool read_number(const char *s, EoInstantForm form, int64_t *ms);
static bool read_iso(const char *s, int64_t *ms);
static bool read_digits(const char **s, int n, int64_t *value);
static int64_t read_fraction(const char **s, int places);

void
eo_timestamps_make(EoInstant *instant, EoInstantForm form, int64_t ms)
{
	time_t		s = (time_t) (ms / 1000);
	struct tm	tm;

	instant->is_string = form == EO_INSTANT_ISO;
	if (form == EO_INSTANT_ISO && gmtime_r(&s, &tm) != NULL)
		snprintf(instant->text, sizeof(instant->text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
				 (tm.tm_year + 1900) % 10000, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
				 tm.tm_sec, (int) (ms % 1000));
	else
		snprintf(instant->text, sizeof(instant->text), "%lld",
				 (long long) (form == EO_INSTANT_S ? (ms + 999) / 1000 : ms));
}

bool
eo_timestamps_find_form(const char *name, EoInstantForm *form)
{
	static const char *const names[] = {
		[EO_INSTANT_S] = "s",[EO_INSTANT_MS] = "ms",[EO_INSTANT_ISO] = "iso"
	};

	for (int i = 0; i < 3; i++)
	{
		*form = (EoInstantForm) i;
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

bool
eo_timestamps_read(EoJsonValue *item, const char *name, EoInstantForm form, int64_t *ms)
{
	EoJsonValue *attribute = eo_json_get(item, name);
	size_t		len;
	const char *number = eo_json_string(eo_json_get(attribute, "N"), &len);
	const char *iso = eo_json_string(eo_json_get(attribute, "S"), &len);
	int64_t		read = 0;

	if (!(number != NULL && read_number(number, form, &read)) &&
		!(iso != NULL && read_iso(iso, &read)))
		return false;
	*ms = read > EO_MAX_INSTANT_MS ? EO_MAX_INSTANT_MS : read;
	return true;
}

static bool
read_number(const char *s, EoInstantForm form, int64_t *ms)
{
	int64_t		n = 0;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++)
	{
		if (n <= EO_MAX_INSTANT_MS)
			n = n * 10 + (*s - '0');
	}
	if (n > EO_MAX_INSTANT_MS)
		n = EO_MAX_INSTANT_MS;
	if (form == EO_INSTANT_S)
		n *= 1000;
	if (*s == '.')
		n += read_fraction(&s, form == EO_INSTANT_S ? 3 : 0);
	*ms = n;
	return *s == '\0';
}

/* 2026-01-31T12:00:00, then perhaps a fraction, and Z or +hh:mm. */
static bool
read_iso(const char *s, int64_t *ms)
{
	static const char separators[] = "--T::";
	int64_t		n[6];			/* year, month, day, hour, minute, second */
	int64_t		fraction = 0;
	int64_t		zone_h = 0;
	int64_t		zone_m = 0;
	int			sign = 0;
	struct tm	tm = {0};

	for (int i = 0; i < 6; i++)
	{
		if (!read_digits(&s, i == 0 ? 4 : 2, &n[i]))
			return false;
		if (i < 5 && *s != separators[i] && !(separators[i] == 'T' && *s == ' '))
			return false;
		s += i < 5;
	}
	if (*s == '.')
		fraction = read_fraction(&s, 3);
	if (*s == 'Z')
		s++;
	else if (*s == '+' || *s == '-')
	{
		sign = *s++ == '+' ? 1 : -1;
		if (!read_digits(&s, 2, &zone_h) || (*s == ':' && *s++ != ':') ||
			!read_digits(&s, 2, &zone_m))
			return false;
	}
	if (*s != '\0' || n[0] < 1970 || n[1] < 1 || n[1] > 12)
		return false;
	tm.tm_year = (int) n[0] - 1900;
	tm.tm_mon = (int) n[1] - 1;
	tm.tm_mday = (int) n[2];
	tm.tm_hour = (int) n[3];
	tm.tm_min = (int) n[4];
	tm.tm_sec = (int) n[5];
	*ms = (int64_t) timegm(&tm) * 1000 + fraction - sign * (zone_h * 60 + zone_m) * 60000;
	return *ms >= 0;
}

/* Read just so many digits. */
static bool
read_digits(const char **s, int n, int64_t *value)
{
	*value = 0;
	for (; n > 0; n--, (*s)++)
	{
		if (**s < '0' || **s > '9')
			return false;
		*value = *value * 10 + (**s - '0');
	}
	return true;
}

/* Read ".123..." as a whole number of so many places; the rest is rounded up. */
static int64_t
read_fraction(const char **s, int places)
{
	int64_t		value = 0;
	bool		rest = false;

	for ((*s)++; **s >= '0' && **s <= '9'; (*s)++)
	{
		if (places > 0)
		{
			value = value * 10 + (**s - '0');
			places--;
		}
		else
			rest = rest || **s != '0';
	}
	for (; places > 0; places--)
		value *= 10;
	return value + (rest ? 1 : 0);
}
