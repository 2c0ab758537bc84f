/*-------------------------------------------------------------------------
 *
 * circuit.c
 *	  Whether an endpoint answers, as all processes of a cluster have found out.
 *
 * While a service is away each call to it takes its whole deadline, and the caller
 * holds locks meanwhile.  So the processes tell each other how their calls end.  The
 * circuit of an endpoint opens once FAILURES calls in a row have ended without an
 * answer and nothing was answered for the request_timeout of the server.  While it is
 * open calls are refused before anything is sent.  Any answer closes it, whoever gets
 * it, and whatever it says: a service that denies access or asks to slow down is there.
 *
 * Somebody has to ask, once a second for the whole cluster, and next_probe_us says
 * when.  A worker that uses the endpoint does it (worker/probes.c): it is never
 * refused, and each of its calls counts as the probe of that second.  If no probe was
 * made for CALLER_GRACE_US after that instant, there is no such worker, and the next
 * caller is let through.  A worker does not ask for an endpoint that nobody has called
 * for WANTED_US, because its server may have another one by now.
 *
 * Servers share a circuit if they have the same endpoint, ca_file and timeouts, and either all
 * are owned by superusers, or all by one other role.  So the owner of a server with timeouts that
 * are too short to be kept, or with a name that he has led elsewhere, disturbs nobody else.
 * If there is no room for another circuit one makes way (server/entries.c), but never one of
 * another role that is open.  If there is none, calls are made without a circuit.
 *
 * This is ordinary shared memory: it begins anew with every start of the server, and
 * with every restart after a crash.  A call that finds its circuit closed, and an
 * answer when there were no failures, read and write atomics only.  All else is under
 * a spinlock, which is held for some hundred instructions, and for some microseconds if a circuit
 * has to make way for another.  A process keeps a pointer
 * to the circuit of a client for as long as version is unchanged.  The circuit may be
 * replaced after that look, so its id is compared again under the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/circuit.h"
#include "cluster/databases.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "server/entries.h"
#include "server/guc.h"
#include "server/moment.h"
#include "server/store.h"
#include "storage/spin.h"
#include "wire/clock.h"
#include "wire/status.h"

#define MAX_CIRCUITS 64

/* A circuit opens after this many failed calls in a row. */
#define FAILURES 3

/* The pause between two probes while a circuit is open. */
#define PROBE_US INT64CONST(1000000)

/* A caller asks if no worker has done so for this long. */
#define CALLER_GRACE_US INT64CONST(1000000)

/* A worker asks for so long after the last call that was refused. */
#define WANTED_US INT64CONST(600000000)

/* An answer is noted if the last one was noted at least this long ago. */
#define NOTE_US INT64CONST(20000)

/* A long outage is logged again this often. */
#define SAY_AGAIN_US INT64CONST(3600000000)

typedef struct Circuit
{
	EoEntry		entry;			/* under the lock */

	/* Changed under the lock, read without it. */
	pg_atomic_uint32 failures;	/* in a row; 0: the service answers */
	pg_atomic_uint32 open;

	/* Changed by anybody. */
	pg_atomic_uint64 answered_us;	/* when the last answer came, or the
									 * circuit was made */

	/* All that follows is under the lock. */
	uint64		id;				/* of its clients, see is_of(); 0: free */
	bool		answered;		/* there was an answer since it was made */
	int32		request_timeout_ms;
	int64		silent_since_us;	/* with failures: the first of these calls
									 * was started, or a later answer came */
	int64		called_us;		/* the last call that failed or was refused */
	int64		opened_us;		/* while it is open, like the following */
	int64		next_probe_us;
	int64		said_us;		/* when the outage was logged */
	uint64		refused;
	char		url[EO_MAX_CIRCUIT_URL + 1];
	char		why[EO_MESSAGE_LEN];
} Circuit;

typedef struct Circuits
{
	slock_t		lock;
	pg_atomic_uint32 version;	/* another one when a circuit is made */
	pg_atomic_uint32 nopen;
	Circuit		circuits[MAX_CIRCUITS];
} Circuits;

static Circuits *shared;

static EoEntryStay stay_of(const EoEntry *entry, bool own);
static bool enter(EoClient *client, EoError *error);
static void note_answer(EoClient *client);
static void note_failure(EoClient *client, int64 started_us, const EoError *error);

static const EoCircuit functions = {
	.enter = enter,
	.answered = note_answer,
	.failed = note_failure
};

static void
begin(void)
{
	SpinLockInit(&shared->lock);
	/* New clients hold version 0: 1 forces their first look-up. */
	pg_atomic_init_u32(&shared->version, 1);
	pg_atomic_init_u32(&shared->nopen, 0);
	for (int i = 0; i < MAX_CIRCUITS; i++)
	{
		pg_atomic_init_u32(&shared->circuits[i].failures, 0);
		pg_atomic_init_u32(&shared->circuits[i].open, 0);
		pg_atomic_init_u64(&shared->circuits[i].answered_us, 0);
	}
	eo_store_use_circuit(&functions);
}

const EoMemory eo_circuit_memory = {
	"exactonce circuits", sizeof(Circuits), (void **) &shared, begin
};

/* ----- finding a circuit ----- */

static uint64
hash_text(const char *text, uint64 seed)
{
	return hash_bytes_extended((const unsigned char *) text, (int) strlen(text), seed);
}

/*
 * Make the number that clients of an owner with the same circuit have in common; never 0.  Who
 * looks for them finds texts with the number of another one's.
 */
static void
make_id(EoClient *client)
{
	const EoHttpEndpoint *e = &client->endpoint;

	if (client->circuit_id == 0)
	{
		uint64		id = (uint64) client->request_timeout_ms << 32 | (uint32) e->connect_timeout_ms;

		id = hash_text(e->url, id);
		if (e->ca_file != NULL)
			id = hash_text(e->ca_file, id);
		client->circuit_id = id != 0 ? id : 1;
	}
}

/* Is it the circuit of that client?  The caller must hold the lock. */
static bool
is_of(const Circuit *c, const EoClient *client)
{
	return c->id == client->circuit_id && c->entry.roleid == client->tenant;
}

/* The circuit of a client; NULL: there is none.  The caller must hold the lock. */
static Circuit *
search(const EoClient *client)
{
	for (int i = 0; i < MAX_CIRCUITS; i++)
	{
		if (is_of(&shared->circuits[i], client))
			return &shared->circuits[i];
	}
	return NULL;
}

/*
 * The circuit of a client, as far as this process knows without the lock; NULL: none
 * was made for it.
 */
static Circuit *
find(EoClient *client)
{
	uint32		version = pg_atomic_read_u32(&shared->version);

	if (client->circuit_version == version)
		return client->circuit_entry;
	make_id(client);
	SpinLockAcquire(&shared->lock);
	client->circuit_entry = search(client);
	client->circuit_version = pg_atomic_read_u32(&shared->version);
	SpinLockRelease(&shared->lock);
	return client->circuit_entry;
}

/* Forget failures.  Returns whether the circuit was open.  The caller must hold the lock. */
static bool
close_circuit(Circuit *c)
{
	bool		was_open = pg_atomic_read_u32(&c->open) != 0;

	pg_atomic_write_u32(&c->failures, 0);
	pg_atomic_write_u32(&c->open, 0);
	if (was_open)
		pg_atomic_fetch_sub_u32(&shared->nopen, 1);
	return was_open;
}

/*
 * The circuit of a client, made if there is none; NULL: there is no room.  The caller must hold
 * the lock.
 */
static Circuit *
find_or_make(const EoClient *client)
{
	EoEntries	all = eo_circuit_entries();
	Circuit    *c = search(client);

	if (c != NULL)
		return c;
	c = eo_entries_take(&all, MyDatabaseId, client->tenant);
	if (c == NULL)
		return NULL;
	close_circuit(c);
	c->id = client->circuit_id;
	c->answered = false;
	c->request_timeout_ms = client->request_timeout_ms;
	c->why[0] = '\0';
	strlcpy(c->url, client->endpoint.url, sizeof(c->url));
	pg_atomic_write_u64(&c->answered_us, eo_clock_monotonic_us());
	pg_atomic_fetch_add_u32(&shared->version, 1);
	return c;
}

EoEntries
eo_circuit_entries(void)
{
	return (EoEntries)
	{
		shared->circuits, sizeof(Circuit), MAX_CIRCUITS, stay_of
	};
}

/* One that is open keeps calls from waiting; with failures it may be about to. */
static EoEntryStay
stay_of(const EoEntry *entry, bool own)
{
	const Circuit *c = (const Circuit *) entry;

	if (pg_atomic_read_u32((pg_atomic_uint32 *) & c->failures) == 0)
		return EO_ENTRY_GOES;
	return own || pg_atomic_read_u32((pg_atomic_uint32 *) & c->open) == 0 ? EO_ENTRY_GOES_LAST :
		EO_ENTRY_STAYS;
}

/* ----- calls ----- */

/* Put the next probe off, because the caller asks now.  Is the outage to be logged again? */
static bool
take_turn(Circuit *c, int64 now_us)
{
	bool		say = now_us - c->said_us >= eo_guc_hurried_us(SAY_AGAIN_US);

	c->next_probe_us = now_us + PROBE_US;
	if (say)
		c->said_us = now_us;
	return say;
}

static void
say_outage(const Circuit *copy, bool again)
{
	ereport(LOG,
			(again ?
			 errmsg("exactonce: endpoint %s still does not answer", copy->url) :
			 errmsg("exactonce: endpoint %s does not answer; calls to it are refused", copy->url),
			 errdetail("Nothing was answered since %s. Last error: %s.",
					   timestamptz_to_str(eo_moment_timestamp(copy->silent_since_us)), copy->why),
			 errhint("It is asked once a second, and calls are made again as soon as it answers. See exactonce_circuits."),
			 errhidestmt(true)));
}

static bool
enter(EoClient *client, EoError *error)
{
	Circuit    *c = find(client);
	Circuit		copy;
	int64		now_us;
	bool		may = true;
	bool		say = false;

	if (c == NULL || pg_atomic_read_u32(&c->open) == 0)
		return true;
	now_us = eo_clock_monotonic_us();
	SpinLockAcquire(&shared->lock);
	if (is_of(c, client) && pg_atomic_read_u32(&c->open) != 0)
	{
		may = client->insists || now_us >= c->next_probe_us + CALLER_GRACE_US;
		if (may)
			say = take_turn(c, now_us);
		else
		{
			c->refused++;
			c->called_us = now_us;
		}
	}
	copy = *c;
	SpinLockRelease(&shared->lock);
	if (say)
		say_outage(&copy, true);
	if (may)
		return true;
	error->status = EO_NOT_ASKED;
	snprintf(error->message, sizeof(error->message),
			 "Nothing was answered since %s; it is asked again in %.1f s; last error: %s",
			 timestamptz_to_str(eo_moment_timestamp(copy.silent_since_us)),
			 Max(0, copy.next_probe_us - now_us) / 1000000.0, copy.why);
	return false;
}

/* There was an answer: if there were failures, they are over. */
static void
recover(EoClient *client, Circuit *c)
{
	Circuit		copy;
	bool		closed = false;

	SpinLockAcquire(&shared->lock);
	copy = *c;
	if (is_of(c, client))
	{
		c->answered = true;
		closed = close_circuit(c);
	}
	SpinLockRelease(&shared->lock);
	if (closed)
		ereport(LOG,
				(errmsg("exactonce: endpoint %s answers again", copy.url),
				 errdetail("It had not since %s; " UINT64_FORMAT " calls were refused.",
						   timestamptz_to_str(eo_moment_timestamp(copy.silent_since_us)),
						   copy.refused),
				 errhidestmt(true)));
}

static void
note_answer(EoClient *client)
{
	Circuit    *c = find(client);
	int64		now_us = eo_clock_monotonic_us();

	if (c == NULL)
	{
		SpinLockAcquire(&shared->lock);
		c = find_or_make(client);
		if (c != NULL)
			c->answered = true;
		SpinLockRelease(&shared->lock);
		return;
	}

	/*
	 * Not at every answer, so that processors do not fight for the cache
	 * line.
	 */
	if (now_us - (int64) pg_atomic_read_u64(&c->answered_us) >= NOTE_US)
		pg_atomic_write_u64(&c->answered_us, now_us);
	if (pg_atomic_read_u32(&c->failures) != 0)
		recover(client, c);
}

/*
 * Count a failure.  Returns whether the circuit has opened.  The caller must hold the
 * lock.
 */
static bool
count_failure(Circuit *c, const EoClient *client, int64 started_us, int64 now_us)
{
	int64		answered_us = (int64) pg_atomic_read_u64(&c->answered_us);
	uint32		failures = pg_atomic_read_u32(&c->failures);

	if (failures == 0)
		c->silent_since_us = started_us;
	if (c->answered)
		c->silent_since_us = Max(c->silent_since_us, answered_us);
	if (!client->insists)
		c->called_us = now_us;
	if (failures < PG_UINT32_MAX)
		pg_atomic_write_u32(&c->failures, failures + 1);

	/*
	 * A call ends a little before its deadline if there is no time for
	 * another attempt, so a tenth less is enough.
	 */
	if (pg_atomic_read_u32(&c->open) != 0 || failures + 1 < FAILURES ||
		now_us - c->silent_since_us < (int64) client->request_timeout_ms * 900)
		return false;
	pg_atomic_write_u32(&c->open, 1);
	pg_atomic_fetch_add_u32(&shared->nopen, 1);
	c->opened_us = c->said_us = c->called_us = now_us;
	c->next_probe_us = now_us + PROBE_US;
	c->refused = 0;
	return true;
}

static void
note_failure(EoClient *client, int64 started_us, const EoError *error)
{
	int64		now_us = eo_clock_monotonic_us();
	bool		opened = false;
	Circuit    *c;
	Circuit		copy;

	make_id(client);
	SpinLockAcquire(&shared->lock);
	c = find_or_make(client);
	if (c != NULL)
	{
		opened = count_failure(c, client, started_us, now_us);
		strlcpy(c->why, error->code[0] != '\0' ? error->code : error->message, sizeof(c->why));
		copy = *c;
	}
	SpinLockRelease(&shared->lock);
	if (!opened)
		return;
	say_outage(&copy, false);
	/* The worker is to ask from now on. */
	eo_database_wake(MyDatabaseId);
}

/* ----- probes ----- */

bool
eo_circuit_any_open(void)
{
	return pg_atomic_read_u32(&shared->nopen) > 0;
}

bool
eo_circuit_take_turn(EoClient *client, int64 *due_us)
{
	Circuit    *c = find(client);
	int64		now_us = eo_clock_monotonic_us();
	bool		mine = false;
	bool		say = false;
	Circuit		copy;

	if (c == NULL || pg_atomic_read_u32(&c->open) == 0)
		return false;
	SpinLockAcquire(&shared->lock);
	if (is_of(c, client) && pg_atomic_read_u32(&c->open) != 0 &&
		now_us - c->called_us < WANTED_US)
	{
		mine = now_us >= c->next_probe_us;
		if (mine)
			say = take_turn(c, now_us);
		*due_us = Min(*due_us, c->next_probe_us);
	}
	copy = *c;
	SpinLockRelease(&shared->lock);
	if (say)
		say_outage(&copy, true);
	return mine;
}

/* ----- what is shown ----- */

/* Fill in a report from a copy that was made under the lock. */
static void
report_on(Circuit *copy, EoCircuitReport *report)
{
	memset(report, 0, sizeof(*report));
	strlcpy(report->url, copy->url, sizeof(report->url));
	strlcpy(report->why, copy->why, sizeof(report->why));
	report->request_timeout_ms = copy->request_timeout_ms;
	report->failures = pg_atomic_read_u32(&copy->failures);
	report->open = pg_atomic_read_u32(&copy->open) != 0;
	if (copy->answered)
		report->answered_at = eo_moment_timestamp((int64) pg_atomic_read_u64(&copy->answered_us));
	if (report->failures > 0)
		report->silent_since = eo_moment_timestamp(copy->silent_since_us);
	if (!report->open)
		return;
	report->opened_at = eo_moment_timestamp(copy->opened_us);
	report->next_probe_at = eo_moment_timestamp(copy->next_probe_us);
	report->refused = copy->refused;
}

bool
eo_circuit_look(EoClient *client, EoCircuitReport *report)
{
	Circuit    *c = find(client);
	Circuit		copy;
	bool		found;

	if (c == NULL)
		return false;
	SpinLockAcquire(&shared->lock);
	found = is_of(c, client);
	copy = *c;
	SpinLockRelease(&shared->lock);
	if (found)
		report_on(&copy, report);
	return found;
}

bool
eo_circuit_walk(uint32 *cursor, EoCircuitReport *report)
{
	bool		found = false;

	while (!found && *cursor < MAX_CIRCUITS)
	{
		Circuit		copy;

		SpinLockAcquire(&shared->lock);
		copy = shared->circuits[(*cursor)++];
		SpinLockRelease(&shared->lock);
		found = copy.id != 0;
		if (found)
			report_on(&copy, report);
	}
	return found;
}
