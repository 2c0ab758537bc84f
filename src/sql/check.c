/*-------------------------------------------------------------------------
 *
 * check.c
 *	  The SQL function idem_check.
 *
 * One function makes one row.  The table of checks lists them in the order in
 * which they are shown, with what each of them needs from the checks before it.
 * A check whose need was not met says that it was not made, so that the first
 * failure from the top is the one to mend.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "cluster/circuit.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/slot_views.h"
#include "commit/durability.h"
#include "commit/prepared.h"
#include "commit/slot_room.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "ledger/clock_sync.h"
#include "ledger/internal.h"
#include "ledger/lock_limit.h"
#include "ledger/outbox.h"
#include "ledger/update.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "records/token.h"
#include "server/answer.h"
#include "server/credential_cache.h"
#include "server/credentials.h"
#include "server/error.h"
#include "server/guc.h"
#include "server/options.h"
#include "server/store.h"
#include "server/store_record.h"
#include "sql/args.h"
#include "sql/call_stats.h"
#include "sql/check_lives.h"
#include "sql/check_outbox.h"
#include "sql/preconditions.h"
#include "sql/rows.h"
#include "sql/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "wire/client.h"

/* A clock this far off is worth a warning, and this far a failure. */
#define CLOCK_WARN_S 2
#define CLOCK_FAIL_S 120

/* A prepared transaction that waits this long may be forgotten. */
#define PREPARED_WARN_S 3600

/* So many roles are named at most. */
#define MAX_NAMED 5

EO_COUNTED(eo_idem_check, EO_FN_IDEM_CHECK);

/* The results of checks that later ones depend on. */
typedef enum Need
{
	NEEDS_NOTHING,
	NEEDS_TABLES,				/* the internal ones can be read */
	NEEDS_SERVER,				/* the role may use it */
	NEEDS_CREDENTIALS,			/* there are some to sign with */
	NEEDS_TABLE,				/* it is there, or may not be described */
	NEEDS_DESCRIPTION			/* it is there and was described */
} Need;

/* The subject of the checks, and their findings that later checks need. */
typedef struct Subject
{
	EoStore    *store;
	bool		met[NEEDS_DESCRIPTION + 1];
	EoTableDescription table;	/* if NEEDS_DESCRIPTION is met */
} Subject;

/* ----- this PostgreSQL server ----- */

static void
check_enabled(EoCheckRow *row)
{
	if (eo_guc_enabled)
		eo_check_row_set(row, EO_FINDING_OK, "on", NULL);
	else
		eo_check_row_set(row, EO_FINDING_WARNING, psprintf("exactonce.enabled is off %s", eo_guc_enabled_by()),
						 "Calls that claim keys, complete them at once or touch actions fail. A superuser switches it on.");
}

/*
 * That of the SQL objects is the library's, or no function of the extension works
 * (ledger/internal.c).
 */
static void
check_version(EoCheckRow *row)
{
	const char *installed = eo_update_installed_version();

	if (installed == NULL)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 "the server runs version " EO_VERSION ", and the extension is not installed on this machine any more",
						 "The server will not start again with exactonce in shared_preload_libraries. Install the package, or take the name out.");
	else if (strcmp(installed, EO_VERSION) != 0)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("the server runs version %s, and version %s is installed", EO_VERSION, installed),
						 "Restart the server, and then ALTER EXTENSION exactonce UPDATE in each database.");
	else
		eo_check_row_set(row, EO_FINDING_OK, EO_VERSION, NULL);
}

static void
check_durability(EoCheckRow *row)
{
	EoDatabaseHold hold;
	XLogRecPtr	confirmed;
	bool		disk = enableFsync && fullPageWrites;
	const char *on_disk = disk ? "fsync and full_page_writes are on" :
	!enableFsync ? "fsync is off" : "full_page_writes is off";
	bool		waits = eo_database_held(MyDatabaseId, &hold) &&
	!eo_durability_standbys_have(hold.lsn, &confirmed);

	if (waits)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("%s; completions wait since %s for the standbys of synchronous_standby_names, which have confirmed %X/%X of %X/%X",
								  on_disk, timestamptz_to_str(hold.since),
								  LSN_FORMAT_ARGS(confirmed), LSN_FORMAT_ARGS(hold.lsn)),
						 "See pg_stat_replication. The keys stay COMMITTING for others until the standbys are back, or synchronous_standby_names does without them.");
	else
		eo_check_row_set(row, disk ? EO_FINDING_OK : EO_FINDING_WARNING,
						 eo_durability_names_standbys() ?
						 psprintf("%s; no completion waits for the standbys of synchronous_standby_names", on_disk) :
						 on_disk,
						 disk ? NULL : "After a crash of the machine commits may be gone whose keys are completed. Switch it on.");
}

/* The slots that must confirm a commit before its keys are marked COMPLETED. */
static void
check_slots(EoCheckRow *row)
{
	EoDatabaseHold hold;
	bool		held = eo_database_held(MyDatabaseId, &hold);
	StringInfoData facts;
	EoSlotStanding standing;

	/*
	 * A standby completes nothing, and need not have the slots of its
	 * primary.
	 */
	if (!eo_durability_names_slots() || RecoveryInProgress())
	{
		eo_check_row_set(row, EO_FINDING_OK,
						 RecoveryInProgress() ? "a standby asks for none" : "none are named", NULL);
		return;
	}
	initStringInfo(&facts);
	standing = eo_durability_slots(hold.lsn, &facts);
	if (standing == EO_STANDING_CONFIRMED || (standing == EO_STANDING_BEHIND && !held))
	{
		eo_check_row_set(row, EO_FINDING_OK, "no completion waits for those that are named", NULL);
		return;
	}
	if (held)
		appendStringInfo(&facts, "; completions wait since %s", timestamptz_to_str(hold.since));
	if (standing == EO_STANDING_BEHIND)
		eo_check_row_set(row, EO_FINDING_WARNING, facts.data,
						 "See pg_replication_slots. The keys stay COMMITTING for others until the standby of the slot has flushed so much.");
	else
		eo_check_row_set(row, EO_FINDING_FAILURE, facts.data,
						 "No key can be marked COMPLETED. Make a physical slot of that name for the standby, or take it out of exactonce.synchronized_standby_slots (PostgreSQL's synchronized_standby_slots if that is empty).");
}

/*
 * Nobody is waited for: whoever calls may look for the one that has locked a table, or waits
 * for that, and keeps all others from it.
 */
static void
check_tables(Subject *s, EoCheckRow *row)
{
	EoDatabaseInfo db = {0};
	StringInfoData facts;
	const char *advice;
	Oid			locked;
	const char *wrong = eo_internal_look_over(&advice, &locked);

	s->met[NEEDS_TABLES] = wrong == NULL;
	(void) eo_database_info(MyDatabaseId, &db);
	if (wrong != NULL && !OidIsValid(locked))
		eo_check_row_set(row, EO_FINDING_FAILURE, wrong, advice);
	else if (wrong == NULL && db.waits_since == 0)
		eo_check_row_set(row, EO_FINDING_OK, "as the extension made them", NULL);
	else
	{
		if (db.waits_since != 0)
			wrong = psprintf("the worker waits for a lock on %s since %s",
							 eo_lock_limit_name(db.waits_for), timestamptz_to_str(db.waits_since));
		initStringInfo(&facts);
		eo_lock_limit_tell(db.waits_since != 0 ? db.waits_for : locked, &facts);
		eo_check_row_set(row, EO_FINDING_FAILURE,
						 facts.len > 0 ? psprintf("%s: %s", wrong, facts.data) : wrong,
						 "Leases are extended meanwhile; keys are not finished and not given back. See pg_locks and pg_stat_activity, and end the session that should not have the lock.");
	}
}

static void
check_worker(EoCheckRow *row)
{
	EoDatabaseInfo db;

	if (!eo_database_info(MyDatabaseId, &db))
		eo_check_row_set(row, EO_FINDING_OK, "not started yet; the first claim starts it", NULL);
	else if (db.ready)
		eo_check_row_set(row, EO_FINDING_OK, "at work", NULL);
	else
		eo_check_row_set(row, EO_FINDING_WARNING, "not started yet",
						 "The first claim starts it; it needs a free background worker, see max_worker_processes.");
}

static void
check_claims(EoCheckRow *row)
{
	const char *advice;
	const char *detail = eo_slot_room_report(&advice);

	eo_check_row_set(row, advice != NULL ? EO_FINDING_WARNING : EO_FINDING_OK, detail, advice);
}

static void
check_doubt(EoCheckRow *row)
{
	uint32		cursor = 0;
	int			doubts = 0;
	EoSlotView	view;

	while (eo_slot_view_walk(&cursor, &view))
		doubts += view.info.state == EO_SLOT_IN_DOUBT && view.target.dboid == MyDatabaseId;
	if (doubts == 0)
		eo_check_row_set(row, EO_FINDING_OK, "nothing", NULL);
	else
		eo_check_row_set(row, EO_FINDING_FAILURE, psprintf("%d keys", doubts),
						 "See exactonce_in_doubt, find out whether their work was done, and say so with idem_resolve().");
}

/* Keys that nobody can have before COMMIT PREPARED or ROLLBACK PREPARED. */
static void
check_prepared(EoCheckRow *row)
{
	EoPreparedCount count;
	const char *found;

	eo_prepared_count(&count);
	if (count.transactions == 0)
	{
		eo_check_row_set(row, EO_FINDING_OK, "none", NULL);
		return;
	}
	found = psprintf("%d transactions with %d keys, the oldest since %s", count.transactions,
					 count.claims, timestamptz_to_str(count.oldest));
	if (GetCurrentTimestamp() - count.oldest < PREPARED_WARN_S * USECS_PER_SEC)
		eo_check_row_set(row, EO_FINDING_OK, found, NULL);
	else
		eo_check_row_set(row, EO_FINDING_WARNING, found,
						 "See exactonce_claims. If the transaction manager has forgotten them, end them with COMMIT PREPARED or ROLLBACK PREPARED: until then their keys are in progress for everybody, and VACUUM is held back.");
}

static void
add_left(StringInfo left, int n, const char *one, const char *several)
{
	if (n > 0)
		appendStringInfo(left, "%s%d %s", left->len > 0 ? ", " : "", n, n == 1 ? one : several);
}

/*
 * May the data be moved, as by pg_upgrade, with nothing left that only this server can settle?  The
 * rows are those that the check "pending" has counted.  Nothing is wrong with a database that
 * has something to do, so this is never a warning.
 */
static void
check_ready(EoCheckRow *row)
{
	EoPreparedCount prepared;
	StringInfoData left;
	EoLife		life;

	if (RecoveryInProgress())
	{
		eo_check_row_set(row, EO_FINDING_OK, "a standby has nothing of its own", NULL);
		return;
	}
	initStringInfo(&left);
	eo_prepared_count(&prepared);
	add_left(&left, eo_check_outbox_pending_rows(), "completion", "completions");
	add_left(&left, eo_slot_view_count(MyDatabaseId, InvalidOid) - prepared.claims, "claim",
			 "claims");
	add_left(&left, prepared.transactions, "prepared transaction", "prepared transactions");
	add_left(&left, eo_check_lives_waiting(), "life that waits for idem_take_over()",
			 "lives that wait for idem_take_over()");
	if (eo_check_outbox_pending_rows() == 0 && eo_outbox_any_of_original(InvalidOid))
		appendStringInfo(&left, "%scompletions of before pg_upgrade or of the original of this copy",
						 left.len > 0 ? ", " : "");
	if (eo_life_current(MyDatabaseId, &life))
		appendStringInfo(&left, "%sthe open life", left.len > 0 ? ", " : "");
	if (left.len > 0)
		eo_check_row_set(row, EO_FINDING_OK, psprintf("not yet; what is left: %s", left.data),
						 "Before pg_upgrade, a switchover or DROP DATABASE: end prepared transactions, take over the lives that wait, and call idem_drain() until it returns 0.");
	else if (!eo_database_is_drained(MyDatabaseId))
		eo_check_row_set(row, EO_FINDING_OK, "not yet: nothing is left, and new claims are allowed",
						 "Before pg_upgrade, a switchover or DROP DATABASE: call idem_drain().");
	else
		eo_check_row_set(row, EO_FINDING_OK, "yes: nothing is left, and new claims are barred", NULL);
}

/*
 * The names of the members of a role that are no superusers, at most MAX_NAMED of
 * them; NULL: there are none.  A membership that is not inherited counts, too.
 */
static char *
members_of(Oid role)
{
	Relation	rel = table_open(AuthIdRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	int			n = 0;
	StringInfoData names;
	HeapTuple	tuple;

	initStringInfo(&names);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_authid member = (Form_pg_authid) GETSTRUCT(tuple);

		if (member->oid == role || member->rolsuper ||
			!is_member_of_role_nosuper(member->oid, role))
			continue;
		if (++n <= MAX_NAMED)
			appendStringInfo(&names, "%s%s", n > 1 ? ", " : "",
							 quote_identifier(NameStr(member->rolname)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (n > MAX_NAMED)
		appendStringInfo(&names, " and %d more", n - MAX_NAMED);
	return n > 0 ? names.data : NULL;
}

/*
 * These roles reach the internal tables although nobody has rights on them.  Rows that
 * they write are believed, like those of a superuser.
 */
static void
check_rights(EoCheckRow *row)
{
	char	   *writers = members_of(ROLE_PG_WRITE_ALL_DATA);
	char	   *readers = members_of(ROLE_PG_READ_ALL_DATA);

	if (writers != NULL)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("the internal tables can be written by members of pg_write_all_data: %s",
								  writers),
						 "They can decide which keys are completed. Take the membership away, or trust them as superusers.");
	else if (readers != NULL)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("the internal tables can be read by members of pg_read_all_data: %s",
								  readers),
						 "They see the keys and tokens of completions that are not finished. Take the membership away, or trust them with these.");
	else
		eo_check_row_set(row, EO_FINDING_OK, "only superusers reach the internal tables", NULL);
}

/* ----- the foreign server ----- */

static void
check_server(Subject *s, EoCheckRow *row)
{
	EoServer   *server = s->store->server;

	eo_check_row_set(row, EO_FINDING_OK,
					 psprintf("%s region %s, table %s, layout %s", server->url, server->region,
							  server->table, s->store->layout->name), NULL);
}

/* The account and the role or user that the credentials belong to, or why not known. */
static void
append_caller(Subject *s, StringInfo detail)
{
	EoCaller	caller;
	char		failure[EO_CHAIN_WHY_LEN];

	if (!eo_credentials_may_ask_caller(s->store->server, &s->store->client))
		return;
	if (eo_credentials_ask_caller(s->store->server, &s->store->client, &caller, failure))
		appendStringInfo(detail, "; account %s, %s", caller.account, caller.arn);
	else
		appendStringInfo(detail, "; whose they are is not known: %s", failure);
}

/* Which source has answered, until when that is good, and why those before it did not. */
static void
check_chain(Subject *s, EoCheckRow *row)
{
	EoCredentialReport report;
	TimestampTz end;
	StringInfoData detail;

	eo_credential_cache_look(eo_credentials_wish(&s->store->client), &report);
	end = time_t_to_timestamptz((pg_time_t) report.expires_s);
	s->met[NEEDS_CREDENTIALS] = report.has_identity;
	initStringInfo(&detail);
	if (!report.has_identity)
		appendStringInfo(&detail, "the chain has none: %s", report.failure);
	else
	{
		appendStringInfo(&detail, "from the chain: %s", report.source);
		if (s->store->server->role_arn[0] != '\0')
			appendStringInfo(&detail, ", assuming %s", s->store->server->role_arn);
		if (report.expires_s != 0)
			appendStringInfo(&detail, ", until %s (for %ld min)", timestamptz_to_str(end),
							 (long) (report.expires_s - time(NULL)) / 60);
		append_caller(s, &detail);
	}
	if (report.why[0] != '\0')
		appendStringInfo(&detail, "; %s", report.why);
	if (!report.has_identity)
		eo_check_row_set(row, EO_FINDING_FAILURE,
						 report.failing_since == 0 ? detail.data :
						 psprintf("%s; since %s", detail.data, timestamptz_to_str(report.failing_since)),
						 "docs/aws.md says what each source needs. Correct it; it is asked again at the next call.");
	else if (report.failure[0] != '\0')
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("%s; since %s they could not be renewed: %s", detail.data,
								  timestamptz_to_str(report.failing_since), report.failure),
						 "The old ones are used until they expire. docs/aws.md says what each source needs.");
	else
		eo_check_row_set(row, EO_FINDING_OK, detail.data, NULL);
}

static void
check_credentials(Subject *s, EoCheckRow *row)
{
	EoError		error = {.status = EO_NO_CREDENTIALS};
	StringInfoData detail;

	s->met[NEEDS_CREDENTIALS] = s->store->credentials_from != NULL;
	if (eo_credentials_wish(&s->store->client) != NULL)
		check_chain(s, row);
	else if (s->met[NEEDS_CREDENTIALS])
	{
		initStringInfo(&detail);
		appendStringInfo(&detail, "from the %s", s->store->credentials_from);
		append_caller(s, &detail);
		eo_check_row_set(row, EO_FINDING_OK, detail.data, NULL);
	}
	else
		eo_check_row_set(row, EO_FINDING_FAILURE, "there are none", eo_error_advice(&error));
}

/* Are calls refused because the service did not answer?  As it was before these checks. */
static void
check_circuit(Subject *s, EoCheckRow *row)
{
	EoCircuitReport report;

	if (!eo_circuit_look(&s->store->client, &report) || !report.open)
		eo_check_row_set(row, EO_FINDING_OK, "closed", NULL);
	else
		eo_check_row_set(row, EO_FINDING_FAILURE,
						 psprintf("open since %s; nothing was answered since %s%s%s",
								  pstrdup(timestamptz_to_str(report.opened_at)),
								  pstrdup(timestamptz_to_str(report.silent_since)),
								  report.why[0] != '\0' ? "; last error: " : "", report.why),
						 "Calls are refused until the endpoint answers, which is asked once a second. The checks below ask it now.");
}

/* ----- the DynamoDB table ----- */

static void
check_table(Subject *s, EoCheckRow *row)
{
	EoError		error;

	if (eo_table_describe(s->store, &s->table, &error))
	{
		s->met[NEEDS_TABLE] = s->met[NEEDS_DESCRIPTION] = true;
		if (s->table.active)
			eo_check_lives_first_use(row, s->met[NEEDS_TABLES] ? s->table.items : 0);
		else
			eo_check_row_set(row, EO_FINDING_WARNING, "not active", "It is being made, changed or deleted.");
	}
	else if (error.status == EO_DENIED)
	{
		/* A policy may allow the use of the records without the description. */
		s->met[NEEDS_TABLE] = true;
		eo_check_row_set(row, EO_FINDING_WARNING, eo_error_facts(&error),
						 "Allow dynamodb:DescribeTable and dynamodb:DescribeTimeToLive for these checks.");
	}
	else
		eo_check_row_set(row, EO_FINDING_FAILURE, eo_error_facts(&error), eo_error_advice(&error));
}

static void
check_key(Subject *s, EoCheckRow *row)
{
	if (s->table.key_fits)
		eo_check_row_set(row, EO_FINDING_OK, s->table.key, NULL);
	else
		eo_check_row_set(row, EO_FINDING_FAILURE, s->table.key,
						 psprintf("Needed is %s.", eo_table_key_needed(s->store)));
}

static void
check_ttl(Subject *s, EoCheckRow *row)
{
	const char *name = s->store->layout->expiry;
	EoTableTtl	ttl;
	EoError		error;

	if (s->table.strongly_consistent)
		eo_check_row_set(row, EO_FINDING_OK, "there is none with strong consistency; idem_sweep() takes its place", NULL);
	else if (!eo_table_describe_ttl(s->store, &ttl, &error))
		eo_check_row_set(row, EO_FINDING_WARNING, eo_error_facts(&error),
						 strcmp(error.code, "UnknownOperationException") == 0 ?
						 "This engine has none. Call idem_sweep() once a day." :
						 "Allow dynamodb:DescribeTimeToLive for this check.");
	else if (!ttl.on)
		eo_check_row_set(row, EO_FINDING_WARNING, "off",
						 psprintf("Old records are never removed. Switch it on for attribute \"%s\"; idem_create_table() does.", name));
	else if (!ttl.fits)
		eo_check_row_set(row, EO_FINDING_FAILURE, "on, for another attribute",
						 psprintf("It may remove records that are in use. It must be on attribute \"%s\".", name));
	else
		eo_check_row_set(row, EO_FINDING_OK, psprintf("on, attribute %s", name), NULL);
}

/*
 * Does the layout, with its options, spell what other clients have written?  A wrong word
 * or form would be noticed only when SQL meets such a record.
 */
static void
check_records(Subject *s, EoCheckRow *row)
{
	EoTableSample sample;
	EoError		error;

	if (s->store->layout->is_native)
		eo_check_row_set(row, EO_FINDING_OK, "layout native", NULL);
	else if (!eo_table_sample(s->store, &sample, &error))
		eo_check_row_set(row, EO_FINDING_WARNING, eo_error_facts(&error),
						 "Allow dynamodb:Scan for this check.");
	else if (sample.odd > 0)
		eo_check_row_set(row, EO_FINDING_WARNING,
						 psprintf("%d of %d that were looked at are no records of the layout %s: in the first %s",
								  sample.odd, sample.records, s->store->layout->name, sample.why),
						 "Another program may use the table for other items. Else correct the options of the layout; see docs/interop.md.");
	else
		eo_check_row_set(row, EO_FINDING_OK,
						 psprintf("layout %s, %d looked at", s->store->layout->name, sample.records),
						 NULL);
}

/*
 * Amazon DynamoDB Developer Guide, "Global tables": replicas are eventually
 * consistent unless the table says MultiRegionConsistency STRONG.  An eventually
 * consistent replica evaluates a condition against its own data only.
 */
static void
check_regions(Subject *s, EoCheckRow *row)
{
	if (s->table.replicas == 0)
		eo_check_row_set(row, EO_FINDING_OK, "one region", NULL);
	else if (s->table.strongly_consistent)
		eo_check_row_set(row, EO_FINDING_OK, "global table, strongly consistent; idem_transact, writes and idem_mirror are refused", NULL);
	else
		eo_check_row_set(row, EO_FINDING_FAILURE,
						 psprintf("global table with %zu replicas, eventually consistent", s->table.replicas),
						 "Two regions can each win the same key. Use a table of one region, or one with multi-region strong consistency.");
}

/*
 * A conditional write whose condition is never true: it needs the permission to
 * write, and changes nothing.
 */
static void
check_round_trip(Subject *s, EoCheckRow *row)
{
	EoStore    *store = s->store;
	EoWrite		w = {0};
	EoAnswer   *answer;
	char		token[EO_TOKEN_LEN + 1];

	eo_store_new_token(token);
	answer = eo_store_record_write(store, eo_store_pk(store, token), EO_PROBE, &w);
	if (answer->outcome == EO_NOT_APPLIED)
		eo_check_row_set(row, EO_FINDING_OK,
						 psprintf("conditional write refused as it should be, %.1f ms",
								  answer->call.elapsed_us / 1000.0), NULL);
	else
		eo_check_row_set(row, EO_FINDING_FAILURE, eo_error_facts(&answer->error),
						 eo_error_advice(&answer->error));
	eo_answer_free(answer);
}

/* Compares the host's clock with the Date headers of the replies that came so far. */
static void
check_clock(Subject *s, EoCheckRow *row)
{
	const EoServiceClock *clock = &s->store->client.clock;
	EoError		error;
	double		ahead_s;
	double		distance_s;

	if (!eo_clock_sync_make(s->store, 0, &error))
	{
		eo_check_row_set(row, EO_FINDING_FAILURE, eo_error_facts(&error), eo_error_advice(&error));
		return;
	}
	ahead_s = eo_client_seconds_ahead(clock->has_candidate ? clock->candidate_us :
									  clock->offset_us);
	distance_s = ahead_s < 0 ? -ahead_s : ahead_s;
	if (distance_s < CLOCK_WARN_S)
		eo_check_row_set(row, EO_FINDING_OK, "within 2 s of the service's", NULL);
	else
		eo_check_row_set(row, distance_s < CLOCK_FAIL_S ? EO_FINDING_WARNING : EO_FINDING_FAILURE,
						 psprintf("%.1f s %s the service's", distance_s,
								  ahead_s > 0 ? "behind" : "ahead of"),
						 "Synchronize the database server's clock. Leases are judged by the service's clock meanwhile.");
}

/* ----- all of them ----- */

static const struct
{
	const char *name;
	Need		need;
	void		(*here) (EoCheckRow *row);	/* of this PostgreSQL server, or: */
	void		(*there) (Subject *s, EoCheckRow *row);
}			checks[] =
{
	{"enabled", NEEDS_NOTHING,.here = check_enabled},
	{"version", NEEDS_NOTHING,.here = check_version},
	{"durability", NEEDS_NOTHING,.here = check_durability},
	{"standby slots", NEEDS_NOTHING,.here = check_slots},
	{"tables", NEEDS_NOTHING,.there = check_tables},
	{"worker", NEEDS_NOTHING,.here = check_worker},
	{"claims", NEEDS_NOTHING,.here = check_claims},
	{"in doubt", NEEDS_NOTHING,.here = check_doubt},
	{"pending", NEEDS_TABLES,.here = eo_check_outbox_pending},
	{"orphans", NEEDS_TABLES,.here = eo_check_outbox_orphans},
	{"given up", NEEDS_TABLES,.here = eo_check_outbox_given_up},
	{"lives", NEEDS_TABLES,.here = eo_check_lives},
	{"prepared", NEEDS_NOTHING,.here = check_prepared},
	{"ready", NEEDS_TABLES,.here = check_ready},
	{"rights", NEEDS_NOTHING,.here = check_rights},
	{"server", NEEDS_SERVER,.there = check_server},
	{"credentials", NEEDS_SERVER,.there = check_credentials},
	{"circuit", NEEDS_SERVER,.there = check_circuit},
	{"table", NEEDS_CREDENTIALS,.there = check_table},
	{"key schema", NEEDS_DESCRIPTION,.there = check_key},
	{"time to live", NEEDS_DESCRIPTION,.there = check_ttl},
	{"records", NEEDS_TABLE,.there = check_records},
	{"multi-region mode", NEEDS_DESCRIPTION,.there = check_regions},
	{"round trip", NEEDS_TABLE,.there = check_round_trip},
	{"clock", NEEDS_TABLE,.there = check_clock}
};

static void
check_all(Subject *s, EoCheckRow *rows)
{
	for (int i = 0; i < (int) lengthof(checks); i++)
	{
		rows[i].check = checks[i].name;
		if (s->met[checks[i].need] && checks[i].here != NULL)
			checks[i].here(&rows[i]);
		else if (s->met[checks[i].need])
			checks[i].there(s, &rows[i]);
		else if (s->store == NULL && checks[i].need >= NEEDS_SERVER)
			eo_check_row_set(&rows[i], EO_FINDING_SKIPPED, "not checked", "This needs USAGE on the server.");
		else
			eo_check_row_set(&rows[i], EO_FINDING_WARNING, "not checked", "Mend the failure above first.");
	}
}

/* Ask the service also if others are refused that. */
static void
check_insisting(Subject *s, EoCheckRow *rows)
{
	s->store->client.insists = true;
	PG_TRY();
	{
		check_all(s, rows);
	}
	PG_FINALLY();
	{
		s->store->client.insists = false;
	}
	PG_END_TRY();
}

static void
put_rows(ReturnSetInfo *rsinfo, const EoCheckRow *rows, int n)
{
	static const char *const statuses[] = {
		[EO_FINDING_OK] = "ok",
		[EO_FINDING_WARNING] = "warning",
		[EO_FINDING_FAILURE] = "failure",
		[EO_FINDING_SKIPPED] = "skipped"
	};

	for (int i = 0; i < n; i++)
	{
		EoRow		row;

		eo_row_begin(&row, rsinfo->setDesc);
		eo_row_put_text(&row, rows[i].check);
		eo_row_put_text(&row, statuses[rows[i].finding]);
		eo_row_put_text(&row, rows[i].detail);
		eo_row_put_text(&row, rows[i].advice);
		eo_row_store(&row, rsinfo);
	}
}

/* idem_check(server) */
static Datum
eo_idem_check_body(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	EoCheckRow	rows[lengthof(checks)];
	Subject		s = {.met[NEEDS_NOTHING] = true};

	eo_compat_materialized_srf(fcinfo);
	/* Nothing else can be looked at then. */
	if (!eo_preconditions_preloaded)
	{
		rows[0].check = "library";
		eo_check_row_set(&rows[0], EO_FINDING_FAILURE,
						 "exactonce is not in shared_preload_libraries of the running server",
						 "Add it there, after what the setting has already, and restart the server.");
		put_rows(rsinfo, rows, 1);
		return (Datum) 0;
	}
	eo_preconditions("idem_check", EO_READS);
	s.met[NEEDS_SERVER] = eo_options_may_use(eo_arg_text(fcinfo, 0));
	if (s.met[NEEDS_SERVER])
	{
		s.store = eo_arg_store(fcinfo, 0);
		check_insisting(&s, rows);
	}
	else
		check_all(&s, rows);
	put_rows(rsinfo, rows, lengthof(checks));
	return (Datum) 0;
}
