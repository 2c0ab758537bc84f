/*-------------------------------------------------------------------------
 *
 * write_refusals.c
 *	  Writes of rows that DynamoDB refuses.
 *
 * What DynamoDB refuses for good is not a failure of the target: the request was answered.
 * The reason goes into the row (finish_notes.c), and the row is tried again now and then.  An
 * earlier request may have made the writes, and its reply was lost: so the record is read
 * before a refusal counts (answer.c).  An answer that is not understood is no refusal, and
 * no failure of the target either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger/outbox.h"
#include "server/answer.h"
#include "server/error.h"
#include "utils/memutils.h"
#include "wire/json.h"
#include "wire/reply.h"
#include "wire/status.h"
#include "worker/finish_notes.h"
#include "worker/jobs.h"
#include "worker/write_refusals.h"

/* The first write that was refused, from 1, if that is told; 0: it is not. */
static int
refused_item(const EoAnswer *answer, EoJsonValue **reason)
{
	const EoOutboxRow *row = ((const EoWorkerJob *) answer->user)->data;
	size_t		n = eo_json_array_length(answer->reasons);

	for (size_t i = 0; i < n; i++)
	{
		EoJsonValue *r = eo_json_array_get(answer->reasons, i);
		size_t		len;
		const char *code = eo_json_string(eo_json_get(r, "Code"), &len);

		if (code == NULL || strcmp(code, "None") == 0)
			continue;
		*reason = r;
		return n == (size_t) row->writes.n + 1 ? (int) i : 0;
	}
	return 0;
}

/*
 * Is the failure about this very request, and would another one like it fail, too?  Not if
 * an earlier attempt may still be applied: then the next answer tells.  A condition that was
 * false is that of the record, which was read and admits the write.
 */
static bool
is_for_good(const EoAnswer *answer, const char *code)
{
	if (answer->call.in_doubt)
		return false;
	switch (answer->error.status)
	{
		case EO_CANCELLED:
			return strcmp(code, "ConditionalCheckFailed") != 0;
		case EO_TOO_LARGE:
		case EO_NO_TABLE:
		case EO_REFUSED:
			return true;
		case EO_DENIED:
			/* Other errors are about who signs, and so about all requests. */
			return strcmp(code, "AccessDeniedException") == 0;
		default:
			return false;
	}
}

/* Does a text of the writes' have this for a value? */
static bool
is_value(const char *writes, const char *word)
{
	char	   *text = psprintf("\"S\":\"%s\"", word);
	char	   *number = psprintf("\"N\":\"%s\"", word);
	bool		found = strstr(writes, text) != NULL || strstr(writes, number) != NULL;

	pfree(text);
	pfree(number);
	return found;
}

/*
 * Leave out of a sentence of DynamoDB's what it quotes of the writes: each word that is a value,
 * and what follows a colon, if that is one.  (It says "... converted to a numeric value: 1O0".)
 */
static void
hide_values(char *sentence, const char *writes)
{
	static const char *const ends = " ,;:()[]{}'";

	for (char *p = sentence; *p != '\0';)
	{
		size_t		len = strcspn(p, ends);
		char	   *word = pnstrdup(p, len);

		if (p > sentence + 1 && p[-1] == ' ' && p[-2] == ':' && is_value(writes, p))
		{
			memset(p, '.', strlen(p));
			return;
		}
		if (len > 0 && is_value(writes, word))
			memset(p, '.', len);
		pfree(word);
		p += len + (p[len] != '\0');
	}
}

bool
eo_write_refusals_take(EoWorkerJob *job, const EoAnswer *answer)
{
	const EoOutboxRow *row = job->data;
	MemoryContext old = MemoryContextSwitchTo(job->context);
	EoError		error = answer->error;
	EoJsonValue *reason = NULL;
	int			item = refused_item(answer, &reason);
	bool		for_good;
	bool		ours;

	if (reason != NULL)
		eo_reply_read_reason(reason, &error);
	if (reason != NULL && answer->call.client->tenant != 0)
		eo_reply_keep_code(&error);
	for_good = is_for_good(answer, error.code);

	/*
	 * An answer that is not understood is one all the same: the target is
	 * well.  If the record cannot be read either, it is not.
	 */
	ours = row->writes.n > 0 && !answer->unexplained &&
		(for_good || error.status == EO_CANCELLED || error.puzzling);
	if (ours)
	{
		error.puzzling |= !for_good && !answer->call.in_doubt;
		hide_values(error.message, row->writes.text);
		eo_finish_note(row, for_good ? EO_TROUBLE_REFUSED : EO_TROUBLE_FAILS, true,
					   eo_error_reason(&error), item);
	}
	MemoryContextSwitchTo(old);
	return ours;
}
