/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waiting for a key that another run holds.
 *
 * If the run is a transaction of this cluster, its end is waited for as for any
 * lock.  Otherwise the record is polled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "keys/wait.h"
#include "server/error.h"
#include "server/store.h"
#include "storage/proc.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/http.h"

/* The first pause between two polls, and the longest. */
#define POLL_FIRST_MS 40
#define POLL_MAX_MS 1000

/* A lock that is waited for, with a time limit of our own. */
typedef struct Wait
{
	VirtualTransactionId holder;
	int64		wait_ms;
} Wait;

static void
wait_for_lock(void *arg)
{
	const Wait *wait = arg;
	int			users_limit = LockTimeout;

	PG_TRY();
	{
		LockTimeout = (int) Max(1, Min(wait->wait_ms, INT_MAX));
		(void) VirtualXactLock(wait->holder, true);
	}
	PG_FINALLY();
	{
		LockTimeout = users_limit;
	}
	PG_END_TRY();
}

/* PostgreSQL ends such a wait with an error, by which a subtransaction is rolled back. */
static void
lock_within(VirtualTransactionId holder, int64 wait_ms)
{
	Wait		wait = {holder, wait_ms};
	ErrorData  *error = eo_error_try(wait_for_lock, &wait);

	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		ReThrowError(error);
}

void
eo_wait_for_holder(VirtualTransactionId holder, int64 give_up_us)
{
	int64		wait_ms = (give_up_us - eo_clock_monotonic_us() + 999) / 1000;

	/* If the user's own limit is not longer, its error is for the user. */
	if (LockTimeout > 0 && LockTimeout <= wait_ms)
		(void) VirtualXactLock(holder, true);
	else
		lock_within(holder, wait_ms);
}

/* A pause that grows with each poll, half of it random. */
static int64
poll_pause_us(int polls)
{
	int64		pause_ms = POLL_FIRST_MS;
	uint16		random = 0;

	for (int i = 0; i < polls && pause_ms < POLL_MAX_MS; i++)
		pause_ms = pause_ms * 3 / 2;
	(void) pg_strong_random(&random, sizeof(random));
	return Min(pause_ms, POLL_MAX_MS) * (500 + (int64) random % 500);
}

void
eo_wait_for_poll(const EoStore *store, int polls, int64 lease_until_ms, int64 give_up_us)
{
	int64		now_us = eo_clock_monotonic_us();
	int64		until_us = now_us + poll_pause_us(polls);

	if (lease_until_ms != 0)
	{
		/* Do not sleep long after the lease can be taken over. */
		int64		dead_ms = lease_until_ms + store->server->clock_skew_ms + 1;
		int64		dead_us = now_us + (dead_ms - eo_client_now_ms(&store->client)) * 1000;

		if (dead_us > now_us && dead_us < until_us)
			until_us = dead_us;
	}
	eo_http_wait(Min(until_us, give_up_us), EO_WAIT_RAISE);
}
