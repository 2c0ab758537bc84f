/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The settings of a worker, which no database and no role may change.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WORKER_SETTINGS_H
#define EO_WORKER_SETTINGS_H

#include "postgres.h"

/* Note the settings as the configuration file has them, before connecting. */
extern void eo_settings_note(void);

/*
 * After connecting: undo what ALTER DATABASE and ALTER ROLE have set, and make the
 * settings that the worker needs.  Runs a transaction of its own.
 */
extern void eo_settings_apply(void);

#endif							/* EO_WORKER_SETTINGS_H */
