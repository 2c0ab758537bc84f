/*-------------------------------------------------------------------------
 *
 * installed.h
 *	  The version of the extension that is installed on this machine.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_INSTALLED_H
#define EO_SQL_INSTALLED_H

#include "postgres.h"

/*
 * The version that CREATE EXTENSION would install, palloc'd; NULL: none, because the package
 * was removed.  After an update of the package it is newer than the library of a server that was
 * not restarted.
 */
extern char *eo_installed_version(void);

#endif							/* EO_SQL_INSTALLED_H */
