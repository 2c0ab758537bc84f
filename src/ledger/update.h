/*-------------------------------------------------------------------------
 *
 * update.h
 *	  Updates of the extension: what is installed, and ALTER EXTENSION exactonce UPDATE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_UPDATE_H
#define EO_LEDGER_UPDATE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * The version that CREATE EXTENSION would install, palloc'd; NULL: none, because the package
 * was removed.  After an update of the package it is newer than the library of a server that was
 * not restarted.
 */
extern char *eo_update_installed_version(void);

/* Is this statement ALTER EXTENSION exactonce UPDATE? */
extern bool eo_update_is(Node * statement);

/*
 * Check the statement before it is run.  Raises 55000 if it leads to another version than the
 * library's, and 55006 if it would have to wait for prepared transactions.
 */
extern void eo_update_check(Node * statement);

#endif							/* EO_LEDGER_UPDATE_H */
