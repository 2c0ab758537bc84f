/*-------------------------------------------------------------------------
 *
 * completion.c
 *	  The decision that a claim is completed: a row that commits with the transaction.
 *
 * The row comes before the note in the claim, because the insertion may wait for
 * another transaction, and raise an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/life.h"
#include "commit/completion.h"
#include "ledger/lives.h"
#include "ledger/outbox_guard.h"

void
eo_completion_add(EoTxClaim *claim, const EoTarget *target, const EoOutboxWrites *writes,
				  const char *result)
{
	const EoSlotInfo *info = claim->info;
	const char *server = claim->store->server->name;
	EoOutboxRow row = {0};
	EoLife		life;

	/*
	 * The claim may be of an earlier life.  The row is of the one that seals,
	 * which makes contact with the table before it does that.
	 */
	eo_lives_await(claim->key, server, &life);
	memcpy(row.life, life.id, sizeof(row.life));
	memcpy(claim->row_life, life.id, sizeof(claim->row_life));
	memcpy(row.digest, info->digest, sizeof(row.digest));
	row.target = *target;
	row.pk = claim->pk;
	strlcpy(row.token, info->token, sizeof(row.token));
	row.retention_s = info->retention_s;
	if (writes != NULL)
		row.writes = *writes;
	claim->writes = row.writes.n;
	claim->write_number = row.writes.number;
	eo_outbox_guard_add(&row, claim->key, server, info->once, claim->guard);
	eo_xact_completed(claim, result);
}
