/*-------------------------------------------------------------------------
 *
 * option_values.c
 *	  The forms of option values: durations, lists, lists of options.
 *
 * The validator refuses values that are not of their form; options.c reads the
 * values that it accepted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "lib/stringinfo.h"
#include "records/action_names.h"
#include "records/layout.h"
#include "server/option_values.h"
#include "server/text.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

static void put_options(StringInfo text, List *list, const char *(*name_of) (int i));

int64
eo_option_values_interval_ms(const Interval *span)
{
	int64		days = (int64) span->day + (int64) span->month * 30;

	return span->time / 1000 + days * INT64CONST(86400000);
}

bool
eo_option_values_duration(const char *value, int64 *ms)
{
	Datum		span;

	if (!eo_text_try_input(interval_in, value, &span))
		return false;
	*ms = eo_option_values_interval_ms(DatumGetIntervalP(span));
	return true;
}

List *
eo_option_values_list(const char *value)
{
	List	   *list = NIL;

	for (;;)
	{
		size_t		len = strcspn(value, ",");
		size_t		from = strspn(value, " \t\r\n");
		size_t		to = len;

		while (to > from && strchr(" \t\r\n", value[to - 1]) != NULL)
			to--;
		list = lappend(list, from < to ? pnstrdup(value + from, to - from) : pstrdup(""));
		if (value[len] == '\0')
			return list;
		value += len + 1;
	}
}

const char *
eo_option_values_find(List *list, const char *name)
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

char *
eo_option_values_layout(List *list)
{
	const char *name = eo_option_values_find(list, "layout");
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, name != NULL ? name : "native");
	put_options(&text, list, eo_layout_option);
	return text.data;
}

char *
eo_option_values_actions(List *list)
{
	const char *actions = eo_option_values_find(list, "action_layout");
	StringInfoData text;

	if (actions == NULL || strcmp(actions, "seed") != 0)
		return NULL;
	initStringInfo(&text);
	put_options(&text, list, eo_action_names_option);
	return text.data;
}

/* Append ";option=value" for each option of these names that is set. */
static void
put_options(StringInfo text, List *list, const char *(*name_of) (int i))
{
	const char *option;

	for (int i = 0; (option = name_of(i)) != NULL; i++)
	{
		const char *value = eo_option_values_find(list, option);
		int64		ms;

		if (value == NULL)
			continue;
		appendStringInfo(text, ";%s=", option);
		if (strcmp(option, EO_LAYOUT_STALE_AFTER) != 0)
			appendStringInfoString(text, value);
		else if (eo_option_values_duration(value, &ms))
			appendStringInfo(text, INT64_FORMAT, ms);
	}
}

bool
eo_option_values_is_true(List *list, const char *name)
{
	const char *value = eo_option_values_find(list, name);
	bool		b = false;

	return value != NULL && parse_bool(value, &b) && b;
}
