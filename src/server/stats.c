/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Counters of servers, cumulative and in shared memory.
 *
 * This is ordinary shared memory.  There is an entry for each server that was used since
 * counting began, found by database and server; a store looks its entry up once, when it is
 * built.  The lock covers the entries: which server each belongs to, its name, and the codes
 * of errors.  The counters themselves are changed with atomic additions, without the lock,
 * and outlive every process but the postmaster.
 *
 * When the server has shut down cleanly the postmaster writes the entries to a file, which
 * the next start reads and removes.  So after a crash there is none, and counting begins
 * anew, like that of pg_stat.  An entry says since when it counts, and whether a crash is
 * the reason.
 *
 * An entry is used for another server only if all are taken and its own server or database
 * does not exist any more.  When none can be had the server counts in the last entry, which
 * all servers without room share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "port/pg_crc32c.h"
#include "server/stats.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "wire/json.h"

#define STATS_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/exactonce.stat"
#define STATS_MAGIC 0x656f7332	/* to be changed with the meaning of any
								 * counter */

/* Servers that are counted one by one, and behind them the entry for all others. */
#define MAX_ENTRIES 64
#define OTHERS MAX_ENTRIES

typedef struct Entry
{
	Oid			dboid;			/* InvalidOid: free, or that of all others */
	Oid			serverid;
	char		name[NAMEDATALEN];
	TimestampTz since;
	EoStatsSince why;
	EoStats		stats;
} Entry;

typedef struct Memory
{
	bool		after_crash;
	Entry		entries[MAX_ENTRIES + 1];
} Memory;

/* The beginning of the file; the entries follow. */
typedef struct FileHeader
{
	uint32		magic;
	uint32		size;			/* of all entries */
	uint64		system_identifier;
	pg_crc32c	crc;			/* of all entries */
} FileHeader;

static Memory *memory;
static LWLock * stats_lock;

static void write_file(int code, Datum arg);
static bool read_file(void);
static bool was_shut_down(void);
static void begin_entry(Entry *e, Oid serverid, const char *name);
static void clear(EoStats *stats);
static void note_sent(EoCall *call);
static void note_ended(EoCall *call, EoStatus status, bool canceled, int64_t us);

const EoCallObserver eo_stats_observer = {.sent = note_sent,.ended = note_ended};

/* ----- memory ----- */

void
eo_stats_request(void)
{
	RequestAddinShmemSpace(sizeof(Memory));
	RequestNamedLWLockTranche("exactonce statistics", 1);
}

void
eo_stats_init(void)
{
	static bool registered = false;
	bool		found;

	memory = ShmemInitStruct("exactonce statistics", sizeof(Memory), &found);
	stats_lock = &GetNamedLWLockTranche("exactonce statistics")->lock;
	memory->after_crash = false;
	if (!read_file())
	{
		memset(memory->entries, 0, sizeof(memory->entries));
		for (int i = 0; i <= OTHERS; i++)
			clear(&memory->entries[i].stats);
		memory->after_crash = !was_shut_down();
		begin_entry(&memory->entries[OTHERS], InvalidOid, "");
		memory->entries[OTHERS].dboid = InvalidOid;
	}

	/* The callbacks of the postmaster outlive the crash of a child. */
	if (!registered)
		on_shmem_exit(write_file, (Datum) 0);
	registered = true;
}

/* ----- the file ----- */

static pg_crc32c
crc_of_entries(void)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, memory->entries, sizeof(memory->entries));
	FIN_CRC32C(crc);
	return crc;
}

/* Called when the postmaster ends, after all other processes; code 0: by a clean shutdown. */
static void
write_file(int code, Datum arg)
{
	FileHeader	header = {.magic = STATS_MAGIC,.size = sizeof(memory->entries)};
	FILE	   *file;
	bool		done;

	(void) arg;
	if (code != 0 || IsUnderPostmaster)
		return;
	header.system_identifier = GetSystemIdentifier();
	header.crc = crc_of_entries();
	file = AllocateFile(STATS_FILE ".tmp", PG_BINARY_W);
	done = file != NULL && fwrite(&header, sizeof(header), 1, file) == 1 &&
		fwrite(memory->entries, sizeof(memory->entries), 1, file) == 1;
	if (file != NULL && FreeFile(file) != 0)
		done = false;
	if (done && durable_rename(STATS_FILE ".tmp", STATS_FILE, LOG) == 0)
		return;
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("exactonce: could not write file \"%s\": %m", STATS_FILE),
			 errdetail("The counters of exactonce_stats begin anew with the next start.")));
	(void) unlink(STATS_FILE ".tmp");
}

/* Read the entries and remove the file, so that a crash finds none. */
static bool
read_file(void)
{
	FileHeader	header;
	FILE	   *file = AllocateFile(STATS_FILE, PG_BINARY_R);
	bool		valid;

	if (file == NULL)
		return false;
	valid = fread(&header, sizeof(header), 1, file) == 1 && header.magic == STATS_MAGIC &&
		header.size == sizeof(memory->entries) &&
		header.system_identifier == GetSystemIdentifier() &&
		fread(memory->entries, sizeof(memory->entries), 1, file) == 1 &&
		EQ_CRC32C(header.crc, crc_of_entries());
	(void) FreeFile(file);
	if (!valid)
		ereport(LOG,
				(errmsg("exactonce: file \"%s\" is of another version or damaged, and is not used", STATS_FILE),
				 errdetail("The counters of exactonce_stats begin anew.")));
	(void) unlink(STATS_FILE);
	return valid;
}

static bool
was_shut_down(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		clean = crc_ok && (control->state == DB_SHUTDOWNED ||
								   control->state == DB_SHUTDOWNED_IN_RECOVERY);

	pfree(control);
	return clean;
}

/* ----- entries ----- */

/* The postmaster is the only process at start, and has no PGPROC: no lock is taken. */
static void
lock(LWLockMode mode)
{
	if (MyProc != NULL)
		LWLockAcquire(stats_lock, mode);
}

static void
unlock(void)
{
	if (MyProc != NULL)
		LWLockRelease(stats_lock);
}

/* The entry of a server; of no database: a free one.  The caller must hold the lock. */
static Entry *
find(Oid dboid, Oid serverid)
{
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &memory->entries[i];

		if (e->dboid == dboid && (!OidIsValid(dboid) || e->serverid == serverid))
			return e;
	}
	return NULL;
}

/*
 * Forget the servers of this database that do not exist any more.  The catalog is read
 * without the lock.
 */
static void
forget_dropped(void)
{
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &memory->entries[i];
		Oid			serverid;
		Oid			dboid;

		lock(LW_SHARED);
		serverid = e->serverid;
		dboid = e->dboid;
		unlock();
		if (dboid != MyDatabaseId || GetForeignServerExtended(serverid, FSV_MISSING_OK) != NULL)
			continue;
		lock(LW_EXCLUSIVE);
		if (e->dboid == dboid && e->serverid == serverid)
			e->dboid = InvalidOid;
		unlock();
	}
}

static void
begin_entry(Entry *e, Oid serverid, const char *name)
{
	clear(&e->stats);
	e->serverid = serverid;
	strlcpy(e->name, name, sizeof(e->name));
	e->since = GetCurrentTimestamp();
	e->why = memory->after_crash ? EO_STATS_CRASH : EO_STATS_FIRST_USE;
	e->dboid = MyDatabaseId;
}

EoStats *
eo_stats_of(Oid serverid, const char *name)
{
	/*
	 * For a process without the shared memory, in which every call is
	 * refused.
	 */
	static EoStats nowhere;
	Entry	   *e;

	if (memory == NULL)
		return &nowhere;
	for (bool again = true;; again = false)
	{
		lock(LW_EXCLUSIVE);
		e = find(MyDatabaseId, serverid);
		if (e != NULL)
			strlcpy(e->name, name, sizeof(e->name));
		else if ((e = find(InvalidOid, InvalidOid)) != NULL)
			begin_entry(e, serverid, name);
		unlock();
		if (e != NULL)
			return &e->stats;
		if (!again)
			return &memory->entries[OTHERS].stats;
		forget_dropped();
	}
}

bool
eo_stats_next_database(uint32 *cursor, Oid *dboid)
{
	*dboid = InvalidOid;
	lock(LW_SHARED);
	while (*cursor < MAX_ENTRIES && !OidIsValid(*dboid))
		*dboid = memory->entries[(*cursor)++].dboid;
	unlock();
	return OidIsValid(*dboid);
}

void
eo_stats_drop_database(Oid dboid)
{
	lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		if (memory->entries[i].dboid == dboid)
			memory->entries[i].dboid = InvalidOid;
	}
	unlock();
}

bool
eo_stats_walk(uint32 *cursor, EoStatsView *view)
{
	bool		found = false;

	lock(LW_SHARED);
	while (!found && *cursor <= OTHERS)
	{
		uint32		i = (*cursor)++;
		const Entry *e = &memory->entries[i];

		found = OidIsValid(e->dboid) || i == OTHERS;
		if (!found)
			continue;
		view->dboid = e->dboid;
		view->serverid = e->serverid;
		strlcpy(view->name, e->name, sizeof(view->name));
		view->since = e->since;
		view->why = e->why;
		memcpy(&view->stats, &e->stats, sizeof(EoStats));
	}
	unlock();
	return found;
}

void
eo_stats_reset(Oid serverid)
{
	lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_ENTRIES; i++)
	{
		Entry	   *e = &memory->entries[i];

		if (e->dboid != MyDatabaseId || (OidIsValid(serverid) && e->serverid != serverid))
			continue;
		clear(&e->stats);
		e->since = GetCurrentTimestamp();
		e->why = EO_STATS_RESET;
	}
	unlock();
}

static void
clear_numbers(pg_atomic_uint64 * numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pg_atomic_write_u64(&numbers[i], 0);
}

/* Additions that go on at the same time count before it or after it. */
static void
clear(EoStats *stats)
{
	clear_numbers(stats->calls[0], EO_FUNCTIONS * EO_CALL_OUTCOMES);
	clear_numbers(stats->requests[0], EO_OPERATIONS * EO_RESULTS);
	clear_numbers(stats->counts, EO_COUNTS);
	for (int i = 0; i < EO_MEASURES; i++)
	{
		clear_numbers(stats->histograms[i].buckets, EO_BUCKETS);
		clear_numbers(&stats->histograms[i].sum_us, 1);
	}
	/* The codes stay, because others may be looking at them. */
	for (int i = 0; i < EO_ERROR_CODES; i++)
		clear_numbers(&stats->errors[i].n, 1);
}

/* ----- counting ----- */

void
eo_stats_add_call(EoStats *stats, EoFunction function, EoCallOutcome outcome, uint64 n)
{
	(void) pg_atomic_fetch_add_u64(&stats->calls[function][outcome], n);
}

static bool
is_error(const EoErrorCount *e, bool of_call, const char *code)
{
	return e->of_call == of_call && strcmp(e->code, code) == 0;
}

/*
 * A code that is in use is found without the lock, because it never changes.  The last
 * place counts all codes for which there is no other.
 */
void
eo_stats_add_error(EoStats *stats, bool of_call, const char *code)
{
	EoErrorCount *e = stats->errors;
	EoErrorCount *last = &stats->errors[EO_ERROR_CODES - 1];

	while (e < last && e->used && !is_error(e, of_call, code))
		e++;
	pg_read_barrier();
	if (!e->used || !is_error(e, of_call, code))
	{
		lock(LW_EXCLUSIVE);
		while (e < last && e->used && !is_error(e, of_call, code))
			e++;
		if (!e->used)
		{
			strlcpy(e->code, e == last ? "others" : code, sizeof(e->code));
			e->of_call = of_call && e != last;
			pg_write_barrier();
			e->used = true;
		}
		unlock();
	}
	(void) pg_atomic_fetch_add_u64(&e->n, 1);
}

static int
bucket_of(int64 us)
{
	uint64		above = (uint64) (us - 1) / EO_BUCKET_MIN_US;

	return us <= EO_BUCKET_MIN_US ? 0 : Min(pg_leftmost_one_pos64(above) + 1, EO_BUCKETS - 1);
}

void
eo_stats_add_time(EoStats *stats, EoMeasure measure, int64 us)
{
	EoHistogram *h = &stats->histograms[measure];

	us = Max(us, 0);
	(void) pg_atomic_fetch_add_u64(&h->buckets[bucket_of(us)], 1);
	(void) pg_atomic_fetch_add_u64(&h->sum_us, (uint64) us);
}

/* ----- attempts ----- */

static void
note_sent(EoCall *call)
{
	EoStats    *stats = call->observed;

	eo_stats_add(stats, EO_COUNT_BYTES_SENT, call->body.len);
	if (call->error.attempts > 1)
		eo_stats_add(stats, EO_COUNT_RETRIES, 1);
}

/* The units that a reply reports: of one table, or of each table of a transaction. */
static double
capacity_of(const EoCall *call)
{
	EoJsonValue *reported = eo_json_get(eo_json_root(call->reply), "ConsumedCapacity");
	double		units = eo_json_number(eo_json_get(reported, "CapacityUnits"));

	for (size_t i = 0; i < eo_json_array_length(reported); i++)
		units += eo_json_number(eo_json_get(eo_json_array_get(reported, i), "CapacityUnits"));
	return units;
}

static void
note_ended(EoCall *call, EoStatus status, bool canceled, int64_t us)
{
	EoStats    *stats = call->observed;
	int			result = status;

	if (canceled)
		result = EO_RESULT_CANCELED;
	else if (status == EO_UNKNOWN && call->error.code[0] != '\0')
		result = EO_RESULT_SERVER_ERROR;
	(void) pg_atomic_fetch_add_u64(&stats->requests[call->op][result], 1);
	if (canceled)
		return;
	eo_stats_add_time(stats, EO_MEASURE_REQUEST, us);
	eo_stats_add(stats, EO_COUNT_BYTES_RECEIVED, call->transfer.reply.body_len);
	if (status == EO_OK)
	{
		if (call->client->return_capacity || call->op == EO_SCAN || call->op == EO_TRANSACT ||
			call->op == EO_DELETE_ITEM)
			eo_stats_add(stats, EO_COUNT_CAPACITY, (uint64) rint(capacity_of(call) * 1000));
	}
	else if (status != EO_CONDITION_FAILED && call->error.code[0] != '\0')
		eo_stats_add_error(stats, false, call->error.code);
}
