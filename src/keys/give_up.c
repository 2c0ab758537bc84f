/*-------------------------------------------------------------------------
 *
 * give_up.c
 *	  An operator gives up a completion that can never be written.
 *
 * A row of the outbox goes if it is not evidence of its commit any more, by what its record shows
 * by the row's own address.  Otherwise it stays, marked, and only the worker leaves it alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "cluster/life_watch.h"
#include "cluster/target.h"
#include "foreign/foreign.h"
#include "keys/give_up.h"
#include "ledger/known_targets.h"
#include "ledger/outbox.h"
#include "records/action_item.h"
#include "records/layout.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "utils/resowner.h"
#include "wire/status.h"

/* A row, and the store that it leads to. */
typedef struct Lead
{
	const EoOutboxRow *row;
	EoStore    *store;
} Lead;

/* Say which writes of a row are not made: their tables and keys. */
void
eo_give_up_log_unwritten(const EoOutboxRow *row)
{
	char	   *lines = row->writes.n > 0 ? pstrdup(row->writes.items) : NULL;
	char	   *item;

	while ((item = strsep(&lines, "\n")) != NULL)
	{
		/* Tenant and region are before the table. */
		char	   *table = strchr(strchr(item, ' ') + 1, ' ') + 1;
		char	   *key = strchr(table, ' ');

		*key++ = '\0';
		ereport(LOG,
				(errmsg("exactonce: a write to table \"%s\" was given up by an operator: the item %s",
						table, eo_text_key_shown(key))));
	}
}

/*
 * Take a row of the outbox from the worker.  If it is not known what the record says,
 * the row must stay: should the record turn up, COMMITTING, the row alone tells that
 * its transaction committed.  Returns false if the row is not there any more.
 */
bool
eo_give_up_row(const EoOutboxRow *row, bool record_known)
{
	bool		taken = record_known ? eo_outbox_remove(row->digest, row->token) :
	eo_outbox_give_up(row->digest, row->token);

	if (!taken)
		return false;
	ereport(LOG,
			(errmsg("exactonce: a completion in table \"%s\" was given up by an operator",
					row->target.table)));
	eo_give_up_log_unwritten(row);
	return true;
}

static EoFound
finding_of(const EoAnswer *answer, const EoOutboxRow *row)
{
	const EoRecord *r = eo_store_record(answer);

	if (answer->outcome == EO_FAILED_CALL && answer->error.status != EO_INVALID)
		return answer->error.status == EO_NO_TABLE ? EO_FOUND_NO_TABLE : EO_FOUND_UNREACHABLE;
	if (answer->outcome == EO_FAILED_CALL || !answer->exists || r->owner == NULL ||
		strcmp(r->owner, row->token) != 0)
		return EO_FOUND_OTHER;

	/*
	 * Others may have completed it without the writes, or with those of
	 * another transaction.
	 */
	if (r->state == EO_STATE_COMPLETED &&
		(row->writes.n == 0 ||
		 (r->writes == row->writes.n && eo_origin_is_of(&r->origin, row->life, row->xid))))
		return EO_FOUND_FINISHED;
	return r->state == EO_STATE_COMMITTING ? EO_FOUND_SEALED : EO_FOUND_OTHER;
}

/* The key of a row as the functions take it. */
static const char *
key_of(const EoOutboxRow *row)
{
	const char *key = eo_record_key_text(eo_layout_find(row->target.layout), row->target.prefix,
										 row->pk);
	bool		exact;

	return eo_text_from_utf8_or_escape(key, &exact);
}

static void
open_store(void *arg)
{
	Lead	   *lead = arg;

	lead->store = eo_target_store(&lead->row->target);
}

/* Read the record of a row, if there is a server for it.  *why says why it could not be read. */
static EoFound
look_at_record(const EoOutboxRow *row, char **why)
{
	Lead		lead = {row, NULL};
	ErrorData  *error;
	EoAnswer   *answer;
	EoFound		finding;

	/*
	 * A row that no server can have made leads nowhere: no request is sent
	 * for it.
	 */
	*why = pstrdup("Its server does not exist.");
	if (!eo_known_target_exists(&row->target))
		return EO_FOUND_UNREACHABLE;
	error = eo_error_try(open_store, &lead);
	/* Options or credentials are of no use.  Any other error is the caller's. */
	if (error != NULL && ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_FDW_ERROR &&
		error->sqlerrcode != ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION &&
		error->sqlerrcode != ERRCODE_INSUFFICIENT_PRIVILEGE &&
		error->sqlerrcode != ERRCODE_INVALID_PARAMETER_VALUE)
		ReThrowError(error);
	if (error != NULL)
		*why = psprintf("%s.", error->message);
	if (lead.store == NULL)
		return EO_FOUND_UNREACHABLE;
	answer = eo_store_record_look(lead.store, row->pk);
	finding = finding_of(answer, row);
	if (answer->outcome == EO_FAILED_CALL)
		*why = eo_error_reason(&answer->error);
	eo_answer_free(answer);
	return finding;
}

/*
 * Is a row that was given up of no use any more?  By its own address its record is not
 * COMMITTING, so nobody asks for evidence of its commit.  That it is so by another address
 * says nothing: that may lead to a copy of the table.  If no server leads to the row's address any
 * more nobody asks there, either; *why says why else the record could not be read.
 */
bool
eo_give_up_is_of_no_use(const EoOutboxRow *row, EoFound *finding, char **why)
{
	eo_options_check_usage(row->target.serverid);
	*finding = look_at_record(row, why);
	if (*finding == EO_FOUND_UNREACHABLE || *finding == EO_FOUND_NO_TABLE)
		return !OidIsValid(eo_known_target_server(&row->target));
	return *finding != EO_FOUND_SEALED;
}

/*
 * May the row be given up?  Not if the worker may still finish it: it has not failed on it, or
 * for less than minutes.  A row that it does not touch, because the life under which it
 * committed is not over here, has its time only while its record is sealed.
 */
static void
check_hopeless(const EoOutboxRow *row, EoFound finding, const char *key, const char *why)
{
	EoLifeWatch watch;
	bool		elsewhere = eo_life_watch_find(&row->target, row->life, &watch) &&
	watch != EO_WATCH_OVER;
	bool		server_is_gone = GetForeignServerExtended(row->target.serverid,
														  FSV_MISSING_OK) == NULL;

	if (finding == EO_FOUND_FINISHED || finding == EO_FOUND_OTHER || finding == EO_FOUND_NO_TABLE ||
		row->trouble == EO_TROUBLE_LASTS || row->trouble == EO_TROUBLE_REFUSED)
		return;
	if (finding == EO_FOUND_UNREACHABLE && (elsewhere || server_is_gone))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the completion of key \"%s\" in table \"%s\" can still be written",
					eo_text_key_shown(key), row->target.table),
			 finding == EO_FOUND_SEALED ?
			 errdetail("Its record is COMMITTING, by the transaction that committed.") :
			 errdetail_internal("%s", why),
			 elsewhere ? errhint("The life under which it committed is not over: see exactonce_lives and idem_take_over().") :
			 row->trouble == EO_TROUBLE_NONE ?
			 errhint("Leave it to the worker; idem_check() says what keeps it from doing so.") :
			 errhint("The worker tries it again, and has failed for less than three minutes.")));
}

/* Tell the operator what was given up, and what others see from now on. */
static void
tell_given_up(const EoOutboxRow *row, EoFound finding, const char *key, const char *why)
{
	const char *end = eo_action_item_is_pk(row->pk) ? "action_resolve(id, 'completed')" :
	"idem_resolve(key, 'completed')";

	if (finding == EO_FOUND_FINISHED)
		ereport(NOTICE,
				(errmsg("key \"%s\" in table \"%s\" is COMPLETED: its completion was removed from exactonce_pending, and nothing is given up",
						eo_text_key_shown(key), row->target.table)));
	else
		ereport(NOTICE,
				(errmsg("the completion of key \"%s\" in table \"%s\" was given up",
						eo_text_key_shown(key), row->target.table),
				 row->writes.n > 0 ?
				 errdetail("%d writes are not made, unless a request for them is still under way; the server's log names their items.",
						   row->writes.n) : 0,
				 finding == EO_FOUND_SEALED ?
				 errhint("Its record stays COMMITTING, and others wait for it: end that with %s.", end) :
				 finding == EO_FOUND_OTHER ?
				 errhint("Its record is left as it is.") :
				 errhint("Its record could not be read (%s). If it can be read again and is COMMITTING, others wait for it: end that with %s.",
						 why, end)));
}

bool
eo_give_up(const pg_uuid_t *id)
{
	EoOutboxRow row;
	EoFound		finding;
	char	   *why;
	const char *key;
	bool		taken;

	if (!eo_outbox_read_by_id(id, &row) || row.given_up)
		return false;
	eo_options_check_usage(row.target.serverid);
	key = key_of(&row);
	finding = look_at_record(&row, &why);
	check_hopeless(&row, finding, key, why);

	/*
	 * A record that may still be sealed needs the row as evidence of the
	 * commit.
	 */
	taken = finding == EO_FOUND_FINISHED ? eo_outbox_remove(row.digest, row.token) :
		eo_give_up_row(&row, finding == EO_FOUND_OTHER);
	if (taken)
		tell_given_up(&row, finding, key, why);
	return taken;
}
