/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counters of servers, cumulative and in shared memory.
 *
 * Every store points at the counters of its server (EoStore.stats).  They are counted up
 * with atomic additions and without a lock, so that no count is lost.  Nothing here raises
 * an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_STATS_H
#define EO_SERVER_STATS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "wire/call.h"
#include "wire/status.h"

/* The SQL functions that are counted. */
typedef enum EoFunction
{
	EO_FN_IDEM_ACQUIRE,
	EO_FN_IDEM_START,
	EO_FN_IDEM_ACQUIRE_MANY,
	EO_FN_IDEM_COMPLETE,
	EO_FN_IDEM_COMPLETE_MANY,
	EO_FN_IDEM_FAIL,
	EO_FN_IDEM_RELEASE,
	EO_FN_IDEM_EXTEND,
	EO_FN_IDEM_GET,
	EO_FN_IDEM_FORGET,
	EO_FN_IDEM_RESOLVE,
	EO_FN_IDEM_GIVE_UP,
	EO_FN_IDEM_CALL,
	EO_FN_IDEM_HTTP,
	EO_FN_IDEM_GUARD,
	EO_FN_IDEM_MIRROR,
	EO_FN_IDEM_ONCE,
	EO_FN_IDEM_TRANSACT,
	EO_FN_IDEM_WRITE,
	EO_FN_IDEM_LIST,
	EO_FN_IDEM_SWEEP,
	EO_FN_IDEM_AUDIT,
	EO_FN_IDEM_TAKE_OVER,
	EO_FN_IDEM_CHECK,
	EO_FN_IDEM_CREATE_TABLE,
	EO_FN_ACTION_CREATE,
	EO_FN_ACTION_CREATE_MANY,
	EO_FN_ACTION_GET,
	EO_FN_ACTION_CONSUME,
	EO_FN_ACTION_CANCEL,
	EO_FN_ACTION_RESOLVE,
	EO_FN_ACTION_LIST
} EoFunction;

#define EO_FUNCTIONS (EO_FN_ACTION_LIST + 1)

/* How a call of one of them ended. */
typedef enum EoCallOutcome
{
	EO_CALL_RETURNED,			/* of functions that tell no outcome */
	EO_CALL_ACQUIRED,			/* these five as EoClaimOutcome */
	EO_CALL_COMPLETED,
	EO_CALL_IN_PROGRESS,
	EO_CALL_RETRY_LATER,
	EO_CALL_FAILED,
	EO_CALL_CREATED,			/* and these as EoActionOutcome */
	EO_CALL_ALREADY_EXISTS,
	EO_CALL_CONSUMED,
	EO_CALL_ALREADY_USED,
	EO_CALL_NOT_ACTIVE,
	EO_CALL_EXPIRED,
	EO_CALL_CANCELED,
	EO_CALL_BURNED,
	EO_CALL_INVALID_PIN,
	EO_CALL_NOT_FOUND,
	EO_CALL_ERROR,				/* it raised an error */
	EO_CALL_TERMINATED			/* its process was told to end meanwhile */
} EoCallOutcome;

#define EO_CALL_OUTCOMES (EO_CALL_TERMINATED + 1)

/* How an attempt of a request ended: an EoStatus, or one of these. */
#define EO_RESULT_SERVER_ERROR (EO_UNKNOWN + 1) /* an answer that tells
												 * nothing */
#define EO_RESULT_CANCELED (EO_UNKNOWN + 2) /* its caller did not wait for it */
#define EO_RESULTS (EO_UNKNOWN + 3)

typedef enum EoCount
{
	EO_COUNT_DUPLICATES_HERE,	/* answered by the claim table */
	EO_COUNT_DUPLICATES_CACHE,
	EO_COUNT_DUPLICATES_SERVICE,
	EO_COUNT_RETRIES,			/* attempts but the first of a request */
	EO_COUNT_UNKNOWN,			/* writes of unknown outcome */
	EO_COUNT_OWN_WRITES,		/* refusals that showed our own write */
	EO_COUNT_BYTES_SENT,		/* bodies */
	EO_COUNT_BYTES_RECEIVED,
	EO_COUNT_CAPACITY,			/* thousandths of a unit */
	EO_COUNT_ROWS_FINISHED,		/* by the worker, as the next two */
	EO_COUNT_GIVEN_BACK,
	EO_COUNT_WORKER_RETRIES
} EoCount;

#define EO_COUNTS (EO_COUNT_WORKER_RETRIES + 1)

/* The durations of which there are histograms. */
typedef enum EoMeasure
{
	EO_MEASURE_CALL,			/* of an SQL function */
	EO_MEASURE_REQUEST,			/* of one attempt */
	EO_MEASURE_SEAL,			/* of all keys of a transaction */
	EO_MEASURE_COMPLETION		/* from a commit until the record is COMPLETED */
} EoMeasure;

#define EO_MEASURES (EO_MEASURE_COMPLETION + 1)

/*
 * Bucket i counts durations up to 64 << i microseconds that are longer than those of the
 * bucket before it; the last one counts all that are longer than about nine minutes.
 */
#define EO_BUCKETS 25
#define EO_BUCKET_MIN_US 64

typedef struct EoHistogram
{
	pg_atomic_uint64 buckets[EO_BUCKETS];
	pg_atomic_uint64 sum_us;
} EoHistogram;

/* Different error codes of a server that are counted one by one. */
#define EO_ERROR_CODES 32

/* The code of an error that calls have raised, or that the service has answered. */
typedef struct EoErrorCount
{
	bool		used;
	bool		of_call;		/* code is an SQLSTATE */
	char		code[EO_CODE_LEN];
	pg_atomic_uint64 n;
} EoErrorCount;

/* The counters of one server. */
typedef struct EoStats
{
	pg_atomic_uint64 calls[EO_FUNCTIONS][EO_CALL_OUTCOMES];
	pg_atomic_uint64 requests[EO_OPERATIONS][EO_RESULTS];
	pg_atomic_uint64 counts[EO_COUNTS];
	pg_atomic_uint64 bundles_refused;	/* when it last was, see bundle.c */
	EoHistogram histograms[EO_MEASURES];
	EoErrorCount errors[EO_ERROR_CODES];
} EoStats;

/* Why counting began when it did. */
typedef enum EoStatsSince
{
	EO_STATS_FIRST_USE,
	EO_STATS_RESET,
	EO_STATS_CRASH				/* the first use after a crash */
} EoStatsSince;

/* A server, and a copy of its counters. */
typedef struct EoStatsView
{
	Oid			dboid;			/* InvalidOid: all servers that had no room */
	Oid			serverid;
	char		name[NAMEDATALEN];
	TimestampTz since;
	EoStatsSince why;
	EoStats		stats;
} EoStatsView;

/* In the hooks of shared memory: ask for it, and set it up. */
extern void eo_stats_request(void);
extern void eo_stats_init(void);

/*
 * The counters of a server of this database.  If there is no room they are those that all
 * servers without room share.  The name is kept for other databases, where the catalog
 * does not tell it.
 */
extern EoStats *eo_stats_of(Oid serverid, const char *name);

/* The next database that has counters, from *cursor on; one may come several times. */
extern bool eo_stats_next_database(uint32 *cursor, Oid *dboid);

/* Forget the counters of a database that was dropped. */
extern void eo_stats_drop_database(Oid dboid);

/* Read the next server's counters, from *cursor on. */
extern bool eo_stats_walk(uint32 *cursor, EoStatsView *view);

/* Set to zero the counters of a server of this database (InvalidOid: of all of them). */
extern void eo_stats_reset(Oid serverid);

static inline void
eo_stats_add(EoStats *stats, EoCount what, uint64 n)
{
	(void) pg_atomic_fetch_add_u64(&stats->counts[what], n);
}

extern void eo_stats_add_call(EoStats *stats, EoFunction function, EoCallOutcome outcome,
							  uint64 n);

/* An error: of a call, with its SQLSTATE as text, or of the service, with its code. */
extern void eo_stats_add_error(EoStats *stats, bool of_call, const char *code);

extern void eo_stats_add_time(EoStats *stats, EoMeasure measure, int64 us);

/* Counts the attempts of calls; its argument is an EoStats. */
extern const EoCallObserver eo_stats_observer;

#endif							/* EO_SERVER_STATS_H */
