/*-------------------------------------------------------------------------
 *
 * clock_sync.c
 *	  The first contact with a service, which finds out its clock.
 *
 * Leases, retentions and the windows of actions are instants of the service's clock.
 * The host's clock may be wrong, so until the service's is known nothing is judged
 * by time and no lease is written.  It is known when the Date headers of two
 * consistent reads agree on its offset to the machine's clock; if the first two do
 * not agree, a third read decides.
 *
 * A known clock is shared (service_clocks.c), so the contact is made once for an
 * endpoint and a run of the server.  It is made again in two cases.  When the host's
 * clock has been set, the machine may have stood still for a while.  And when the
 * service has refused a signature for its time, the one Date header of the refusal is
 * good enough to sign by, and not to take a lease over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/service_clocks.h"
#include "ledger/clock_sync.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/store.h"
#include "server/store_record.h"
#include "wire/call.h"
#include "wire/client.h"
#include "wire/clock.h"
#include "wire/status.h"

static char *unused_pk(EoStore *store);
static void say_why(const EoReadings *readings, EoError *error);

bool
eo_clock_sync_make(EoStore *store, int64 deadline_us, EoError *error)
{
	return eo_service_clock_meet(&store->client) ||
		eo_clock_sync_make_by(store, &eo_store_record_kind, unused_pk(store), deadline_us, error);
}

bool
eo_clock_sync_make_by(EoStore *store, const EoItemKind *kind, const char *pk, int64 deadline_us,
					  EoError *error)
{
	EoReadings	readings = {.n = 0};
	bool		goes_on = true;

	while (goes_on && !eo_service_clock_meet(&store->client))
	{
		EoAnswer   *answer = eo_answer_create_read(kind, store, pk);

		if (deadline_us == 0)
			deadline_us = eo_client_deadline_us(&store->client);
		(void) eo_answer_run_until(answer, deadline_us);
		goes_on = eo_clock_sync_take(&readings, answer, error);
		eo_answer_free(answer);
	}
	return goes_on;
}

EoAnswer *
eo_clock_sync_prepare(EoStore *store)
{
	return eo_answer_create_read(&eo_store_record_kind, store, unused_pk(store));
}

/* A key that does not exist: reading it costs least, and cannot meet a bad record. */
static char *
unused_pk(EoStore *store)
{
	char		token[EO_TOKEN_LEN + 1];

	eo_store_new_token(token);
	return eo_store_pk(store, token);
}

bool
eo_clock_sync_take(EoReadings *readings, const EoAnswer *answer, EoError *error)
{
	const EoCall *call = &answer->call;

	*error = answer->error;
	/* An unreadable item is an answer, too, and has a date. */
	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
		return false;
	if (call->has_date &&
		(eo_client_take_reading(call->client, readings, call->offset_seen_us) ||
		 readings->n < EO_MAX_READINGS))
		return true;
	say_why(call->has_date ? readings : NULL, error);
	return false;
}

/* readings NULL: a reply had no date. */
static void
say_why(const EoReadings *readings, EoError *error)
{
	error->status = EO_NO_CLOCK;
	error->code[0] = '\0';
	if (readings == NULL)
		strlcpy(error->message, "A reply had no Date header", sizeof(error->message));
	else
		snprintf(error->message, sizeof(error->message),
				 "Against this host's clock, the Date headers of three replies were off by %+.1f s, %+.1f s and %+.1f s",
				 eo_client_seconds_ahead(readings->offset_us[0]),
				 eo_client_seconds_ahead(readings->offset_us[1]),
				 eo_client_seconds_ahead(readings->offset_us[2]));
}
