/*-------------------------------------------------------------------------
 *
 * option_values.h
 *	  The forms of option values: durations, lists, lists of options.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_OPTION_VALUES_H
#define EO_SERVER_OPTION_VALUES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/* An interval in milliseconds; a month counts as 30 days, as in EXTRACT(EPOCH). */
extern int64 eo_option_values_interval_ms(const Interval *span);

/* Read a duration as PostgreSQL reads intervals; false: it is not a duration. */
extern bool eo_option_values_duration(const char *value, int64 *ms);

/*
 * The strings between the commas, without the blanks around them: a list of
 * palloc'd strings, empty ones included.
 */
extern List *eo_option_values_list(const char *value);

/* The value of an option in a list of DefElem; NULL: the option is not in it. */
extern const char *eo_option_values_find(List *list, const char *name);

/*
 * The text of the record layout (records/layout.h) that the options of a server make
 * together, palloc'd; it may be no valid one.
 */
extern char *eo_option_values_layout(List *list);

/*
 * The text of the options of action_layout 'seed' (records/action_names.h), palloc'd; it may be
 * no valid one.  NULL: the option is not set so.
 */
extern char *eo_option_values_actions(List *list);

/* Is the option in the list, and true? */
extern bool eo_option_values_is_true(List *list, const char *name);

#endif							/* EO_SERVER_OPTION_VALUES_H */
