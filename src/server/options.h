/*-------------------------------------------------------------------------
 *
 * options.h
 *	  Foreign servers and user mappings as the current role may use them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_OPTIONS_H
#define EO_SERVER_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "server/server.h"

/* The name of the foreign-data wrapper. */
#define EO_OPTIONS_WRAPPER "exactonce"

/*
 * Has the current role USAGE on the server of that name (NULL: exactonce.server)?
 * Raises 42704 if there is none.
 */
extern bool eo_options_may_use(const char *name);

/*
 * The OID of the server of that name (NULL: exactonce.server).  Raises 42704 if there is none,
 * and 42501 if the current role has not USAGE on it.
 */
extern Oid	eo_options_find(const char *name);

/*
 * The server as the current role may use it, in a memory context of its own below the current
 * one.  Waits for the region, if that is not an option.  Raises: not an exactonce server
 * (42809), an option is missing or may not be used, or the user mapping of the role (42501).
 */
extern EoServer *eo_options_read(Oid serverid);

/* Raise 42501 unless the current role has USAGE on the server, if that exists. */
extern void eo_options_check_usage(Oid serverid);

/*
 * Raise 55000 if this transaction has created or altered the server, or a user mapping that
 * it is used with.  To be called before anything is left in shared memory or in DynamoDB that
 * somebody has to settle later: if the transaction is rolled back, nobody could reach it.
 */
extern void eo_options_check_committed(const EoServer *server);

/*
 * The server as that role sees it, or as its owner does if the role was dropped or
 * has no USAGE any more; in a memory context of its own below the current one.
 * NULL: there is no such server.  Nothing is waited for, so the region may be unknown
 * if it is not an option; the target of a claim has it.
 */
extern EoServer *eo_options_load(Oid serverid, Oid userid);

/*
 * The same of any server that leads to this DynamoDB table, as its owner sees it, and that is
 * trusted or of this tenant; NULL: there is none.
 */
extern EoServer *eo_options_load_like(const char *url, const char *region, const char *table,
									  Oid tenant);

/*
 * The role to which the places that a server leads to are left, because it may have the life of the
 * database lost there: the owner, unless he is a superuser, who has not said by home 'false' that
 * others may write there.  InvalidOid: the places are trusted.  Once there is no such server it is
 * the role that used it, unless that is a superuser.
 */
extern Oid	eo_options_tenant(Oid serverid, Oid userid);

/*
 * The owner of a server; InvalidOid: a superuser.  Once there is no such server it is the role that
 * used it, unless that is a superuser.
 */
extern Oid	eo_options_owner(Oid serverid, Oid userid);

/* The OIDs of all servers of the extension. */
extern List *eo_options_servers(void);

/*
 * Raise 42501 unless the server may send requests to its url, and find out whether it may do so
 * to this machine.  To be called once its url is the one that is used.
 */
extern void eo_options_check_endpoint(EoServer *server);

/* Register a callback for changes of any server, user mapping, role or allowed endpoint. */
extern void eo_options_on_change(void (*callback) (Datum, int, uint32));

/* Bounds shared by options and function arguments. */
#define EO_MIN_LEASE_MS 100
#define EO_MAX_LEASE_MS INT64CONST(604800000)	/* 7 days */
#define EO_MIN_RETENTION_S 3600
#define EO_MAX_RETENTION_S INT64CONST(315360000)	/* 3,650 days */
#define EO_MAX_PIN_ATTEMPTS 20

#endif							/* EO_SERVER_OPTIONS_H */
