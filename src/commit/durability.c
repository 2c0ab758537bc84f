/*-------------------------------------------------------------------------
 *
 * durability.c
 *	  Is what is flushed here safe from a failover, too?
 *
 * A record is marked COMPLETED for everybody, for good.  If its commit was lost
 * afterwards, by a failover to a standby that did not have it, nobody would do the
 * work again.  So the worker marks it only when these have the commit:
 *
 * - The standbys of synchronous_standby_names, as many as it asks for.  A commit waits
 *	 for them, too; but a session can cancel that wait, or have a synchronous_commit
 *	 that does not wait, and recovery makes commits visible that had not ended it.  The
 *	 WAL senders note how far the standbys have flushed, whether anybody waits or not.
 *	 That is read here, and SyncRepWaitForLSN() is not called: a cancel ends it.
 *
 * - The physical replication slots in exactonce.synchronized_standby_slots, or if that
 *	 is empty, in PostgreSQL's own synchronized_standby_slots (17 and later).  The
 *	 restart_lsn of a slot is what its standby has flushed, except that it is the last
 *	 checkpoint's when a slot has just been made.
 *
 * A position to ask about is that of GetFlushRecPtr(), taken after the commit was seen.
 * A commit with an outbox row is flushed before others see it (ForceSyncCommit() in
 * xact.c), so that its record ends at or before that position.  WAL senders send up to
 * it, so it is confirmed without any more WAL.  This is not so of the insert position,
 * which at the end of a page is already behind the header of the next one.
 *
 * Only the worker (finish.c) marks the records of transactions COMPLETED, and an
 * operator (idem_resolve()); both ask here.  A completion with the token
 * of another session has a row like any other.  Backends write COMPLETED by themselves
 * in two cases, in which there is no commit that could be lost: idem_complete(immediate
 * => true) says at once what the caller knows to be done, and idem_transact() completes
 * the key in one transaction of DynamoDB with the writes that are its work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commit/durability.h"
#include "compat.h"
#include "nodes/pg_list.h"
#include "replication/slot.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "server/guc.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/varlena.h"

/* The names of the slots, as a list that SplitIdentifierString() reads. */
static const char *
named_slots(void)
{
	const char *ours = eo_guc_synchronized_standby_slots;

	return ours != NULL && ours[0] != '\0' ? ours : eo_compat_synchronized_standby_slots();
}

bool
eo_durability_names_standbys(void)
{
	/* Without WAL senders no commit waits, whatever the names are. */
	return max_wal_senders > 0 && SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
}

bool
eo_durability_names_slots(void)
{
	return named_slots()[0] != '\0';
}

bool
eo_durability_is_asked_for(void)
{
	return eo_durability_names_standbys() || eo_durability_names_slots();
}

bool
eo_durability_has(XLogRecPtr lsn)
{
	return eo_durability_standbys_have(lsn, NULL) &&
		eo_durability_slots(lsn, NULL) == EO_STANDING_CONFIRMED;
}

bool
eo_durability_standbys_have(XLogRecPtr lsn, XLogRecPtr * confirmed)
{
	XLogRecPtr	flushed;

	if (!eo_durability_names_standbys())
		return true;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	flushed = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH];
	LWLockRelease(SyncRepLock);
	if (confirmed != NULL)
		*confirmed = flushed;
	return lsn <= flushed;
}

/* ----- slots ----- */

/*
 * The standing of one slot; *fact says why, if it has not confirmed.  A slot that does
 * not exist holds everything back: if a name is misspelt, or the slot was dropped, no
 * standby has been asked.
 */
static EoSlotStanding
standing_of(const char *name, XLogRecPtr lsn, const char **fact)
{
	ReplicationSlot *slot;
	bool		physical = false;
	bool		invalidated = false;
	XLogRecPtr	confirmed = InvalidXLogRecPtr;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	slot = SearchNamedReplicationSlot(name, false);
	if (slot != NULL)
	{
		SpinLockAcquire(&slot->mutex);
		physical = SlotIsPhysical(slot);
		invalidated = eo_compat_slot_is_invalidated(slot);
		confirmed = slot->data.restart_lsn;
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(ReplicationSlotControlLock);
	*fact = slot == NULL ? "does not exist" : !physical ? "is not physical" :
		invalidated ? "is invalidated" : "has not confirmed";
	if (slot == NULL || !physical || invalidated)
		return EO_STANDING_BROKEN;
	return confirmed != InvalidXLogRecPtr && confirmed >= lsn ? EO_STANDING_CONFIRMED :
		EO_STANDING_BEHIND;
}

EoSlotStanding
eo_durability_slots(XLogRecPtr lsn, StringInfo facts)
{
	EoSlotStanding worst = EO_STANDING_CONFIRMED;
	char	   *names;
	List	   *list;
	ListCell   *cell;
	int			start = facts != NULL ? facts->len : 0;

	if (!eo_durability_names_slots())
		return worst;
	names = pstrdup(named_slots());
	if (!SplitIdentifierString(names, ',', &list))
		worst = EO_STANDING_BROKEN; /* both settings refuse such a list */
	foreach(cell, list)
	{
		const char *name = lfirst(cell);
		const char *fact;
		EoSlotStanding standing = standing_of(name, lsn, &fact);

		if (facts != NULL && standing > worst)
			facts->data[facts->len = start] = '\0';
		worst = Max(worst, standing);
		if (facts == NULL || standing == EO_STANDING_CONFIRMED || standing < worst)
			continue;
		appendStringInfo(facts, "%sreplication slot \"%s\" %s", facts->len > start ? ", " : "", name,
						 fact);
		if (standing == EO_STANDING_BEHIND)
			appendStringInfo(facts, " %X/%X", LSN_FORMAT_ARGS(lsn));
	}
	list_free(list);
	pfree(names);
	return worst;
}
