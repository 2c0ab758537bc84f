/*-------------------------------------------------------------------------
 *
 * idem.h
 *	  What an outcome means in HTTP.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_IDEM_H
#define EO_SQL_IDEM_H

#include "postgres.h"

#include "keys/acquire.h"
#include "server/store.h"

/* The HTTP status that means the same as the outcome of a claim. */
extern int	eo_idem_http_status(const EoClaim *claim);

/*
 * After how many seconds a client should ask again, 1 at least; 0: asking again changes
 * nothing.
 */
extern int	eo_idem_retry_after(const EoStore *store, const EoClaim *claim);

#endif							/* EO_SQL_IDEM_H */
