/*-------------------------------------------------------------------------
 *
 * key.c
 *	  A key, and the names under which it is known.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/slot_views.h"
#include "cluster/slots.h"
#include "cluster/target.h"
#include "commit/prepared.h"
#include "commit/session.h"
#include "commit/settle.h"
#include "commit/xact.h"
#include "keys/key.h"
#include "ledger/clock_sync.h"
#include "records/attribute.h"
#include "records/record.h"
#include "server/answer.h"
#include "server/error.h"
#include "server/options.h"
#include "server/store.h"
#include "server/store_record.h"
#include "server/text.h"
#include "wire/status.h"

static void
find(EoKey *k, EoStore *store, const char *key, char *pk)
{
	memset(k, 0, sizeof(*k));
	k->store = store;
	k->key = key;
	k->pk = pk;
	eo_target_of(store, &k->target);
	eo_target_digest(&k->target, k->pk, k->digest);
	k->held = eo_xact_find(k->digest);
}

void
eo_key_find(EoKey *k, EoStore *store, const char *key)
{
	find(k, store, key, eo_store_pk(store, key));
}

void
eo_key_find_action(EoKey *k, EoStore *store, char *pk)
{
	find(k, store, eo_text_from_utf8(pk), pk);
}

void
eo_key_need_clock(const EoKey *k, const char *doing)
{
	EoError		error;

	if (!eo_clock_sync_make(k->store, 0, &error))
		eo_error_raise(&error, doing, k->key, k->store->server->name);
}

void
eo_key_settle(const EoKey *k, const char *token)
{
	EoSlotView	view;

	if (eo_prepared_find_slot(k->digest, &view) && eo_slot_state_is_over(view.info.state) &&
		(token == NULL || strcmp(view.info.token, token) == 0))
		eo_settle_on_the_spot(k->store, k->key, &view);
}

EoAnswer *
eo_key_read(const EoKey *k, const char *doing)
{
	EoAnswer   *answer = eo_store_record_read(k->store, k->pk);

	if (answer->outcome == EO_FAILED_CALL)
		eo_error_raise(&answer->error, doing, k->key, k->store->server->name);
	return answer;
}

bool
eo_key_owns(const EoKey *k, const EoTxClaim *claim)
{
	const EoServer *server = k->store->server;
	const EoSessionToken *remembered;

	if (claim->store->server->userid == server->userid)
		return true;
	remembered = eo_session_tokens_find(server, k->pk);
	return remembered != NULL && strcmp(remembered->token, claim->info->token) == 0;
}

void
eo_key_check_size(const EoKey *k, const char *what, size_t len, const char *hint)
{
	size_t		max = eo_record_key_room(k->store->layout, strlen(k->pk));

	if (len <= max)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("%s of key \"%s\" on server \"%s\" is too large", what, eo_text_key_shown(k->key),
					k->store->server->name),
			 errdetail("As text it has %zu bytes; with this key there is room for %zu.", len, max),
			 errhint("%s", hint)));
}

void
eo_key_check_result(const EoKey *k, const char *result, const char *hint)
{
	size_t		size;
	EoStatus	status = eo_record_result_size(k->store->layout, result,
											   result != NULL ? strlen(result) : 0, &size);

	if (status == EO_NO_MEMORY)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	if (status != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("result of key \"%s\" on server \"%s\" cannot be kept in DynamoDB's own types",
						eo_text_key_shown(k->key), k->store->server->name),
				 errdetail("They have numbers of at most %d digits, objects without empty names, and %d levels.",
						   EO_ATTRIBUTE_MAX_DIGITS, EO_ATTRIBUTE_MAX_DEPTH),
				 errhint("Put the value into a string, or use a layout with the result_form text.")));
	eo_key_check_size(k, "result", size, hint);
}
