/*-------------------------------------------------------------------------
 *
 * gate.c
 *	  When a function may be called at all, and what its arguments must be.
 *
 * Everything here is checked before the network, shared memory or any cache is
 * touched, so that a refused call has no effect at all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xlog.h"
#include "sql/gate.h"
#include "dynamodb/http.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "commit/outbox.h"
#include "server/option_values.h"
#include "cluster/shmem.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "commit/xact.h"

/* A worker says at least every five seconds that it lives. */
#define WORKER_STALE_US INT64CONST(15000000)

/* It takes some ten milliseconds to start, and more on a busy machine. */
#define WORKER_START_US INT64CONST(10000000)

bool		eo_gate_preloaded = false;

void
eo_gate(const char *function, EoAccess access)
{
	if (!eo_gate_preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("exactonce must be loaded via shared_preload_libraries"),
				 errhint("Add exactonce to shared_preload_libraries in postgresql.conf and restart the server.")));
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot execute %s() in a parallel worker", function),
				 errhint("Leave the function PARALLEL UNSAFE.")));
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot execute %s() within a security-restricted operation", function),
				 errdetail("Maintenance commands run the code of others with restricted rights."),
				 errhint("Keep it out of indexes, materialized views and functions they call.")));
	if (access == EO_WRITES)
	{
		char		command[NAMEDATALEN + 2];

		snprintf(command, sizeof(command), "%s()", function);
		PreventCommandDuringRecovery(command);
		PreventCommandIfReadOnly(command);
		if (eo_xact_is_committing())
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot execute %s() while the transaction commits", function),
					 errdetail("The transaction's keys are sealed already."),
					 errhint("Call it before the commit, for example in a deferred trigger.")));
		eo_xact_check_lost();
	}
}

void
eo_gate_worker(void)
{
	int64		give_up_us = 0;
	EoDbInfo	db;

	for (;;)
	{
		int64		now_us = eo_clock_monotonic_us();

		if (eo_db_info(MyDatabaseId, &db) && db.ready &&
			now_us - db.alive_us < WORKER_STALE_US)
		{
			if (db.outbox == eo_outbox_id())
				return;
			/* The extension has been made anew since it looked. */
			eo_db_renew(MyDatabaseId, eo_outbox_id());
			db.ready = false;
		}
		if (give_up_us == 0)
		{
			if (!db.ready && !eo_db_want(MyDatabaseId))
				break;
			/* One that is there and says nothing is not waited for. */
			give_up_us = now_us + (db.ready ? 0 : WORKER_START_US);
		}
		if (now_us >= give_up_us || (db.absent && give_up_us - now_us < WORKER_START_US / 2))
			break;
		eo_http_wait(now_us + 5000, EO_WAIT_RAISE);
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the exactonce worker of this database does not respond"),
			 db.absent ?
			 errdetail("It cannot see the extension; the transaction that created it may not have committed.") :
			 errdetail("Nothing is claimed without it: it finishes what commits and releases what does not."),
			 errhint("See pg_stat_activity and the server's log; it needs a free background worker, see max_worker_processes.")));
}

char *
eo_arg_text(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

char *
eo_arg_key(FunctionCallInfo fcinfo, int n)
{
	return eo_check_key(eo_arg_text(fcinfo, n));
}

char *
eo_check_key(char *key)
{
	if (key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("key must not be null"),
				 errhint("A missing key would let work run unprotected. Look for a null among its parts.")));
	if (key[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key must not be empty"),
				 errhint("All calls with an empty key would count as one.")));
	return key;
}

int64
eo_arg_interval_ms(FunctionCallInfo fcinfo, int n, const char *name, int64 min_ms,
				   int64 max_ms)
{
	if (PG_ARGISNULL(n))
		return -1;
	return eo_interval_ms(PG_GETARG_INTERVAL_P(n), name, min_ms, max_ms);
}

int64
eo_interval_ms(const Interval *span, const char *name, int64 min_ms, int64 max_ms)
{
	int64		ms = eo_interval_to_ms(span);

	if (ms < min_ms || ms > max_ms)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is out of range", name),
				 errdetail("It is %lld ms; it must be from %lld to %lld ms.",
						   (long long) ms, (long long) min_ms, (long long) max_ms),
				 errhint("Give an interval such as '500 ms', '60 s' or '7 days'.")));
	return ms;
}

char *
eo_to_utf8(const char *s)
{
	return pg_server_to_any(s, strlen(s), PG_UTF8);
}

char *
eo_from_utf8(const char *s)
{
	return pg_any_to_server(s, strlen(s), PG_UTF8);
}

static char *
escape_utf8(const char *s)
{
	StringInfoData out;

	initStringInfo(&out);
	for (const unsigned char *p = (const unsigned char *) s; *p != '\0'; p += pg_utf_mblen(p))
	{
		pg_wchar	c = utf8_to_unicode(p);

		if (c < 0x80)
			appendStringInfoChar(&out, (char) c);
		else if (c < 0x10000)
			appendStringInfo(&out, "\\u%04x", c);
		else
			appendStringInfo(&out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
							 0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	return out.data;
}

char *
eo_from_utf8_or_escape(const char *s, bool *exact)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *volatile text = NULL;

	PG_TRY();
	{
		text = eo_from_utf8(s);
	}
	PG_CATCH();
	{
		/* A conversion touches nothing, so it needs no abort. */
		if (geterrcode() != ERRCODE_UNTRANSLATABLE_CHARACTER)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	*exact = text != NULL;
	return text != NULL ? text : escape_utf8(s);
}

TimestampTz
eo_timestamp_of_ms(int64 ms)
{
	return (TimestampTz) (ms - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
						  (int64) SECS_PER_DAY * 1000) * 1000;
}
