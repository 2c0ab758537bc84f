/*-------------------------------------------------------------------------
 *
 * shares.c
 *	  How much of the claim table each role and each database has.
 *
 * Nobody may take all the room.  A database may have at most half of what the other
 * databases leave, and a role of it at most half of what the other roles leave of
 * that.  So each further role and each further database still finds room, and the
 * one that has most is refused first.  What is limited are slots, the memory of
 * texts, and targets, in all states of a claim but one: a claim that is over but not settled
 * takes as much room as one that is held.  One that is BURIED, and waits for another look,
 * does not count, because it makes way for a claim (looks.c).  Looks have a share of the same
 * size, beside that of claims.  Without scans a look at a claim at commit makes way for nobody, and
 * counts as a claim.
 *
 * A share is a counter, so that a claim costs no look at the others.  The first one
 * counts everything; there is one for each database and each role of it that has a
 * target, and the entry of the target says which.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/shares.h"
#include "cluster/slot.h"
#include "cluster/target.h"
#include "server/guc.h"

#define EVERYTHING 0

/* How much of a resource is free, and how much of it the role of an entry has and may have. */
typedef struct Limits
{
	int64		free;			/* of all */
	int64		left;			/* what the database may still take */
	int64		of_role;		/* what the role has */
	int64		share;			/* what the role may have */
} Limits;

/* Find the share of a role of a database, or of the database (InvalidOid). */
static uint32
find_share(Oid dboid, Oid userid)
{
	EoShare    *shares = eo_claim_table.shares;
	uint32		unused = EO_NO_INDEX;

	for (uint32 i = EVERYTHING + 1; i < EO_MAX_SHARES; i++)
	{
		if (shares[i].targets > 0 && shares[i].dboid == dboid && shares[i].userid == userid)
			return i;
		if (shares[i].targets == 0 && unused == EO_NO_INDEX)
			unused = i;
	}
	/* There is an unused one: each target counts in two of them at most. */
	eo_claim_table.header->high_share = Max(eo_claim_table.header->high_share, unused + 1);
	memset(&shares[unused], 0, sizeof(EoShare));
	shares[unused].dboid = dboid;
	shares[unused].userid = userid;
	return unused;
}

/*
 * Count an entry of the table of targets with its role and its database from now on.
 * The entry is filled in, and no slot names it.
 */
static void
enter(EoTargetEntry *entry)
{
	entry->database_share = find_share(entry->target.dboid, InvalidOid);
	eo_claim_table.shares[entry->database_share].targets++;
	entry->role_share = find_share(entry->target.dboid, entry->target.userid);
	eo_claim_table.shares[entry->role_share].targets++;
}

/* The entry is about to be used for another target. */
static void
leave(const EoTargetEntry *entry)
{
	/* An entry that was never used has no shares. */
	if (entry->role_share == EVERYTHING)
		return;
	eo_claim_table.shares[entry->database_share].targets--;
	eo_claim_table.shares[entry->role_share].targets--;
}

static uint32
find_target(const EoTarget *target)
{
	static uint32 last = 0;
	const EoTargetEntry *entries = eo_claim_table.targets;

	if (entries[last].refs > 0 && memcmp(&entries[last].target, target, sizeof(EoTarget)) == 0)
		return last;
	for (uint32 i = 0; i < EO_MAX_TARGETS; i++)
	{
		if (memcmp(&entries[i].target, target, sizeof(EoTarget)) == 0)
			return last = i;
	}
	return EO_NO_INDEX;
}

uint32
eo_share_enter_target(const EoTarget *target)
{
	uint32		i = find_target(target);

	if (i != EO_NO_INDEX)
		return i;
	for (i = 0; i < EO_MAX_TARGETS; i++)
	{
		EoTargetEntry *entry = &eo_claim_table.targets[i];

		if (entry->refs > 0)
			continue;
		leave(entry);
		memset(entry, 0, sizeof(EoTargetEntry));
		entry->target = *target;
		enter(entry);
		return i;
	}
	return EO_NO_INDEX;
}

void
eo_share_take(const EoTargetEntry *entry, EoResource what, uint32 n)
{
	eo_claim_table.shares[EVERYTHING].taken[what] += n;
	eo_claim_table.shares[entry->database_share].taken[what] += n;
	eo_claim_table.shares[entry->role_share].taken[what] += n;
}

void
eo_share_give(const EoTargetEntry *entry, EoResource what, uint32 n)
{
	eo_claim_table.shares[EVERYTHING].taken[what] -= n;
	eo_claim_table.shares[entry->database_share].taken[what] -= n;
	eo_claim_table.shares[entry->role_share].taken[what] -= n;
}

int64
eo_share_capacity(EoResource what)
{
	switch (what)
	{
		case EO_RESOURCE_SLOTS:
		case EO_RESOURCE_LOOKS:
		case EO_RESOURCE_COMMIT_LOOKS:
			return eo_claim_table.header->nslots;
		case EO_RESOURCE_CHUNKS:
		case EO_RESOURCE_COMMIT_CHUNKS:
			return eo_claim_table.header->nchunks;
		case EO_RESOURCE_TARGETS:
			return EO_MAX_TARGETS;
	}
	return 0;
}

/* How much of it a share has, with the looks that count as claims. */
static int64
taken_of(uint32 share, EoResource what)
{
	const uint32 *taken = eo_claim_table.shares[share].taken;
	int64		n = taken[what];

	if (eo_guc_recovery_scan == 0 && what == EO_RESOURCE_SLOTS)
		n += taken[EO_RESOURCE_COMMIT_LOOKS];
	if (eo_guc_recovery_scan == 0 && what == EO_RESOURCE_CHUNKS)
		n += taken[EO_RESOURCE_COMMIT_CHUNKS];
	return n;
}

/*
 * The database may have half of what it has and what is free.  The role may have half of
 * what it has and what is left to the database.
 */
static Limits
limits_of(const EoTargetEntry *entry, EoResource what)
{
	int64		of_database = taken_of(entry->database_share, what);
	Limits		l;

	l.free = eo_share_capacity(what) - taken_of(EVERYTHING, what);
	l.left = (l.free + of_database) / 2 - of_database;
	l.of_role = taken_of(entry->role_share, what);
	l.share = (l.of_role + l.left) / 2;
	return l;
}

EoSlotStatus
eo_share_check(const EoTargetEntry *entry, EoResource what, uint32 n, EoSlotStatus full)
{
	Limits		l = limits_of(entry, what);

	if (n > l.free)
		return full;
	if (n > l.left)
		return EO_SLOT_DATABASE_SHARE;
	return l.of_role + n > l.share ? EO_SLOT_ROLE_SHARE : EO_SLOT_OK;
}

/* ----- slots ----- */

/*
 * A claim that a session holds counts twice: whatever others claim meanwhile, there is room
 * for the slot of the transaction that settles it.  That one is prepaid.
 */
static uint32
weight_of(const EoSlotInfo *info)
{
	return info->prepaid ? 0 : info->session ? 2 : 1;
}

EoSlotStatus
eo_share_check_slot(const EoTargetEntry *entry, const EoSlotInfo *info, uint32 nchunks)
{
	EoSlotStatus status = EO_SLOT_OK;
	uint32		weight = weight_of(info);

	if (weight > 0)
		status = eo_share_check(entry, EO_RESOURCE_SLOTS, weight, EO_SLOT_TABLE_FULL);
	if (status == EO_SLOT_OK && weight > 0)
		status = eo_share_check(entry, EO_RESOURCE_CHUNKS, weight * nchunks, EO_SLOT_NO_TEXT);
	return status;
}

EoSlotStatus
eo_share_check_target(const EoTargetEntry *entry)
{
	return entry->refs > 0 ? EO_SLOT_OK :
		eo_share_check(entry, EO_RESOURCE_TARGETS, 1, EO_SLOT_NO_TARGET);
}

bool
eo_share_has_too_many_looks(const EoTargetEntry *entry)
{
	Limits		l = limits_of(entry, EO_RESOURCE_LOOKS);

	return l.of_role > l.share;
}

void
eo_share_count_slot(const EoSlot *slot, bool take)
{
	void		(*count) (const EoTargetEntry *entry, EoResource what, uint32 n) =
	take ? eo_share_take : eo_share_give;
	const EoTargetEntry *entry = eo_claim_table_target(slot);
	uint32		weight = weight_of(&slot->info);
	uint32		nchunks = eo_claim_table_chunks(slot->pk_len);

	if (slot->info.state == EO_SLOT_BURIED)
	{
		count(entry, EO_RESOURCE_LOOKS, 1);
		if (!eo_slot_has_origin(&slot->info))
			return;
		count(entry, EO_RESOURCE_COMMIT_LOOKS, 1);
		count(entry, EO_RESOURCE_COMMIT_CHUNKS, nchunks);
		return;
	}
	count(entry, EO_RESOURCE_SLOTS, weight);
	count(entry, EO_RESOURCE_CHUNKS, weight * nchunks);
}

/* The slot of a claim that a session holds, or the prepaid one that settles it; or NULL. */
static EoSlot *
find_of_session(const uint8 *digest, const char *token, bool prepaid)
{
	EoSlot	   *slot = *eo_claim_table_bucket(digest);

	for (; slot != NULL; slot = slot->next)
	{
		const EoSlotInfo *info = &slot->info;

		if ((prepaid ? info->prepaid : info->state == EO_SLOT_SESSION) &&
			strcmp(info->token, token) == 0 && memcmp(info->digest, digest, EO_DIGEST_LEN) == 0)
			break;
	}
	return slot;
}

bool
eo_share_is_prepaid(const EoTargetEntry *entry, const EoSlotInfo *info)
{
	const EoSlot *held = find_of_session(info->digest, info->token, false);

	return held != NULL && eo_claim_table_target(held)->role_share == entry->role_share &&
		find_of_session(info->digest, info->token, true) == NULL;
}

void
eo_share_end_prepayment(const EoSlotInfo *info)
{
	EoSlot	   *slot = info->session ? find_of_session(info->digest, info->token, true) : NULL;

	if (slot == NULL)
		return;
	slot->info.prepaid = false;
	eo_share_count_slot(slot, true);
}

/* ----- views ----- */

/* The part of its share that the role of an entry has taken. */
static double
part_taken(const EoTargetEntry *entry, EoResource what)
{
	Limits		l = limits_of(entry, what);

	if (l.of_role == 0)
		return 0;
	return l.share > 0 ? (double) l.of_role / l.share : 1;
}

double
eo_share_fullest(uint32 *taken, uint32 *looks)
{
	static const EoResource limited[] = {
		EO_RESOURCE_SLOTS, EO_RESOURCE_CHUNKS, EO_RESOURCE_TARGETS
	};
	double		fullest = 0;

	for (int i = 0; i < EO_MAX_TARGETS; i++)
	{
		const EoTargetEntry *entry = &eo_claim_table.targets[i];

		/* An entry that was never used has no shares. */
		for (int r = 0; r < (int) lengthof(limited) && entry->role_share != EVERYTHING; r++)
			fullest = Max(fullest, part_taken(entry, limited[r]));
	}
	*taken = eo_claim_table.shares[EVERYTHING].taken[EO_RESOURCE_SLOTS];
	*looks = eo_claim_table.shares[EVERYTHING].taken[EO_RESOURCE_LOOKS];
	return fullest;
}

bool
eo_share_next_role(uint32 *cursor, EoResource what, Oid *dboid, Oid *userid, uint32 *taken)
{
	while (++*cursor < eo_claim_table.header->high_share)
	{
		const EoShare *s = &eo_claim_table.shares[*cursor];

		if (s->targets == 0 || !OidIsValid(s->userid))
			continue;
		*dboid = s->dboid;
		*userid = s->userid;
		*taken = s->taken[what];
		return true;
	}
	return false;
}
