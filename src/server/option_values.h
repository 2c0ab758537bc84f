/*-------------------------------------------------------------------------
 *
 * option_values.h
 *	  What option values look like: durations, lists, lists of options.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_OPTION_VALUES_H
#define EO_SERVER_OPTION_VALUES_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/*
 * A duration as PostgreSQL reads intervals, in milliseconds; a month counts
 * as 30 days, as it does in EXTRACT(EPOCH).  False: it is none.
 */
extern int64 eo_option_values_interval_ms(const Interval *span);
extern bool eo_option_values_duration(const char *value, int64 *ms);

/*
 * What stands between the commas, without blanks around it: a list of palloc'd
 * strings, empty ones included.
 */
extern List *eo_option_values_list(const char *value);

/* Of a list of DefElem: the value of an option, NULL if it is not there. */
extern const char *eo_option_values_find(List *list, const char *name);
extern bool eo_option_values_is_true(List *list, const char *name);

#endif							/* EO_SERVER_OPTION_VALUES_H */
