/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The settings.  None of them holds a secret.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_GUC_H
#define EO_SERVER_GUC_H

#include "postgres.h"

/* Values of exactonce.log_keys: how messages and views show keys. */
typedef enum EoLogKeys
{
	EO_LOG_KEYS_TEXT,
	EO_LOG_KEYS_HASH
} EoLogKeys;

/*
 * exactonce.allowed_endpoints: host[:port], with commas between.  The callback is called in this
 * process after each change of it, and raises nothing.
 */
extern char *eo_guc_allowed_endpoints;
extern void eo_guc_on_allowed_endpoints(void (*callback) (void));

extern bool eo_guc_enabled;		/* exactonce.enabled */
extern int	eo_guc_cache_entries;	/* exactonce.cache_entries */
extern int	eo_guc_max_claims;	/* exactonce.max_claims */

/* exactonce.takeover: which silent lives are retired without an operator */
typedef enum EoTakeover
{
	EO_TAKEOVER_NEVER,
	EO_TAKEOVER_NEAR,
	EO_TAKEOVER_ALWAYS
} EoTakeover;

extern int	eo_guc_takeover;
extern int	eo_guc_recovery_scan;	/* exactonce.recovery_scan */
extern char *eo_guc_server;		/* exactonce.server */
extern int	eo_guc_log_keys;	/* exactonce.log_keys, an EoLogKeys */
extern bool eo_guc_log_requests;	/* exactonce.log_requests */

/* exactonce.synchronized_standby_slots: names for SplitIdentifierString() */
extern char *eo_guc_synchronized_standby_slots;

/* Where the value of exactonce.enabled comes from: "for this database", ... */
extern const char *eo_guc_enabled_by(void);

/* An interval of the protocol, divided by exactonce.test_hurry. */
extern int64 eo_guc_hurried_us(int64 us);

/*
 * Define the settings.  preloading: this is the postmaster, so those that only it
 * may define are defined too.
 */
extern void eo_guc_define(bool preloading);

#endif							/* EO_SERVER_GUC_H */
