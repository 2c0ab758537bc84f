/*-------------------------------------------------------------------------
 *
 * timestamps.h
 *	  Instants in the forms that other clients of a table use.
 *
 * Inside the extension an instant is a number of epoch milliseconds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_TIMESTAMPS_H
#define EO_RECORDS_TIMESTAMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/json.h"

/* 9999-12-31 23:59:59.999 UTC.  A later instant in an item is read as this one. */
#define EO_MAX_INSTANT_MS INT64_C(253402300799999)

typedef enum EoInstantForm
{
	EO_INSTANT_S,				/* N: epoch seconds */
	EO_INSTANT_MS,				/* N: epoch milliseconds */
	EO_INSTANT_ISO				/* S: 2026-01-31T12:00:00.000Z */
} EoInstantForm;

/* An instant as it is written: a number or a string. */
typedef struct EoInstant
{
	bool		is_string;
	char		text[32];
} EoInstant;

/* The form of a name: s, ms or iso.  False: there is none. */
extern bool eo_timestamps_find_form(const char *name, EoInstantForm *form);

/* Spell an instant.  A part of a second is rounded up. */
extern void eo_timestamps_make(EoInstant *instant, EoInstantForm form, int64_t ms);

/*
 * Read an attribute as an instant: a number, which may have a fraction, in seconds or
 * milliseconds as form says; or a string of ISO 8601, which is UTC if it names no zone.
 * A part of a millisecond is rounded up.  False: there is no such attribute, or it is
 * not an instant from 1970 on.
 */
extern bool eo_timestamps_read(EoJsonValue *item, const char *name, EoInstantForm form,
							   int64_t *ms);

#endif							/* EO_RECORDS_TIMESTAMPS_H */
