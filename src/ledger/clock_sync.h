/*-------------------------------------------------------------------------
 *
 * clock_sync.h
 *	  The first contact with a service, which finds out its clock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_CLOCK_SYNC_H
#define EO_LEDGER_CLOCK_SYNC_H

#include "postgres.h"

#include "server/answer.h"
#include "server/store.h"
#include "wire/client.h"
#include "wire/status.h"

/*
 * Make sure that the clock of a store's service is known.  The caller must do so
 * before it decides or writes anything by eo_client_now_ms().  If no process of the
 * cluster knows the clock, this takes requests, until the deadline (0: request_timeout
 * from now), and an interrupt may raise.  Returns false if the clock is not known; the
 * error says why.
 */
extern bool eo_clock_sync_make(EoStore *store, int64 deadline_us, EoError *error);

/* The same by reads of an item of some kind, which need not exist. */
extern bool eo_clock_sync_make_by(EoStore *store, const EoItemKind *kind, const char *pk,
								  int64 deadline_us, EoError *error);

/*
 * The same by steps, for the worker.  Prepare a read, run it, and take its reply.
 * Taking returns false, and the error, if the contact has failed; otherwise the clock
 * is known, or another read is needed.  The caller frees the answer.
 */
extern EoAnswer *eo_clock_sync_prepare(EoStore *store);
extern bool eo_clock_sync_take(EoReadings *readings, const EoAnswer *answer, EoError *error);

#endif							/* EO_LEDGER_CLOCK_SYNC_H */
