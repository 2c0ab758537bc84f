/*-------------------------------------------------------------------------
 *
 * take_over.h
 *	  An operator takes over a life whose server is gone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_TAKE_OVER_H
#define EO_LEDGER_TAKE_OVER_H

#include "postgres.h"

#include "server/store.h"

/*
 * Have the current life inherit another one in the store's table, which must be one of our
 * history, a branch of it, or the last life of the database that this data comes from.
 * Waits for longer than a lease, interruptibly.
 * Returns false if it is closed, or ours already.  Raises 55006 if the life beats, or its
 * database exists beside this one; 22023 if it is none of ours; 55000 if it is an earlier
 * one that is not the last, or whose heir is over; and ID006 or ID007.
 */
extern bool eo_take_over(EoStore *store, const uint8 *id);

#endif							/* EO_LEDGER_TAKE_OVER_H */
