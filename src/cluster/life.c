/*-------------------------------------------------------------------------
 *
 * life.c
 *	  The lives of the databases of this cluster, and the leases on them.
 *
 * A database has at most one current life.  It ends when it is given up, because its
 * item in some trusted table is not ours any more (bars.c); when it is closed, because
 * nothing is left to be done under it; or with the run of the server.  A life that was not closed
 * stays here until the next one has retired it in each of its places.
 *
 *	 worker: eo_life_begin          eo_life_bar        eo_life_forget
 *	       -------------> CURRENT <-------------> BARRED -----------> (unused)
 *	                         |     eo_life_reopen    |                   ^
 *	                         |  eo_life_give_up      |                   |
 *	                         +-----------> ENDED <---+                   |
 *	     eo_life_adopt (restart) ------------^  |      eo_life_forget    |
 *	                                            +------------------------+
 *
 * The memory is a part of the claim file (claim_file.c).  So after a kill the next
 * run of the server knows which lives it may retire at once, and at which beat they
 * were.  That counts only because the file proves that it is of this very directory.
 *
 * The nonces of a life are noted before they are sent, and are looked for in all its places:
 * two endpoints may lead to the same table.  The beats that go on from one
 * beat of a place are copies of one beat, of which DynamoDB applies one at most.  They
 * share a nonce, and with it the instant of the first, because it may be that one that is
 * applied.  So in an outage of any length a place needs one nonce.  A nonce stands only for
 * the beats that were sent with it: who can write the item can write any number beside it.
 *
 * The nonce that an item bears is one of the last two of the place that wrote it.  For that
 * write took the item from the beat that it went on from to its present one, and no place has seen
 * one between them.  Only a nonce that goes on from the present beat can be newer, because
 * eo_life_sending() takes none that goes on from less than the place has seen.
 *
 * The lock of the claim table covers all of this, but for the runs of the server (runs.c), which
 * lie behind the lives.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/runs.h"
#include "cluster/slot.h"
#include "cluster/slot_views.h"
#include "miscadmin.h"
#include "wire/clock.h"

/* A process that has ended without an answer keeps its turn for so long. */
#define TURN_US INT64CONST(2000000)

/* The nonces of a place that are kept: twice what its item may bear. */
#define MAX_NONCES 4

typedef enum Status
{
	UNUSED,
	CURRENT,
	BARRED,
	ENDED
} Status;

typedef struct Nonce
{
	uint64		nonce;
	int64		sent_us;		/* of the first copy; 0: free */
	int64		seen_beat;		/* that the copies go on from */
	int64		sent_beat;		/* the highest number of a copy */
	uint32		copies;			/* that may have been applied */
} Nonce;

typedef struct Life
{
	EoEntry		entry;			/* free if it is unused */
	Status		status;
	bool		this_run;
	bool		has_home;		/* one of its places is */
	EoLife		life;
} Life;

typedef struct Place
{
	EoEntry		entry;			/* its role is the tenant of the target */
	uint64		generation;		/* 0: unused */
	uint32		life;			/* index */
	int64		turn_until_us;	/* monotonic: a process writes the item */
	Nonce		nonces[MAX_NONCES]; /* of its last writes */
	EoPlace		place;
} Place;

typedef struct Lives
{
	EoRuns		runs;
	uint64		generations;	/* that were given to places */
	uint32		high_life;		/* lives and places from here on were never */
	uint32		high_place;		/* used */
	Life		lives[EO_MAX_LIVES];
	Place		places[EO_MAX_PLACES];
} Lives;

static Lives *lives;

static Life *next_life(uint32 *cursor);
static Place *clear_place(Place *p);
static void free_place(Place *p);
static Place *find_place(const Life *life, const EoTarget *target);

/* ----- a start ----- */

Size
eo_life_size(void)
{
	return sizeof(Lives);
}

void
eo_life_place_memory(void *memory)
{
	lives = memory;
	memset(lives, 0, sizeof(Lives));
	eo_runs_begin(&lives->runs);
}

/* ----- entries; the lock is held ----- */

static bool
is_id(const Life *l, const uint8 *id)
{
	return memcmp(l->life.id, id, EO_UUID_LEN) == 0;
}

static Life *
find_life(const uint8 *id)
{
	uint32		cursor = 0;
	Life	   *life;

	while ((life = next_life(&cursor)) != NULL)
	{
		if (is_id(life, id))
			return life;
	}
	return NULL;
}

/* Walk through the lives, from *cursor on. */
static Life *
next_life(uint32 *cursor)
{
	while (*cursor < lives->high_life)
	{
		Life	   *life = &lives->lives[(*cursor)++];

		if (life->status != UNUSED)
			return life;
	}
	return NULL;
}

static Life *
find_current(Oid dboid)
{
	uint32		cursor = 0;
	Life	   *life;

	while ((life = next_life(&cursor)) != NULL)
	{
		if (life->status == CURRENT && life->entry.dboid == dboid)
			return life;
	}
	return NULL;
}

static Life *
clear_life(Life *life)
{
	EoEntry		entry = life->entry;

	lives->high_life = Max(lives->high_life, (uint32) (life - lives->lives) + 1);
	memset(life, 0, sizeof(Life));
	life->entry = entry;
	return life;
}

/* A place of this database, in the share of its tenant (entries.c).  NULL: that is used up. */
static Place *
new_place(const EoTarget *target)
{
	EoEntries	all = eo_life_place_entries();
	Place	   *p = eo_entries_take_share(&all, target->dboid, target->tenant);

	return p != NULL ? clear_place(p) : NULL;
}

static Place *
clear_place(Place *p)
{
	EoEntry		entry = p->entry;
	uint32		i = (uint32) (p - lives->places);

	lives->high_place = Max(lives->high_place, i + 1);
	memset(p, 0, sizeof(Place));
	p->entry = entry;
	p->place.ref.index = i;
	return p;
}

/* The last step of making a place. */
static void
use_place(Place *p)
{
	p->place.ref.generation = ++lives->generations;
	pg_write_barrier();
	p->generation = p->place.ref.generation;
}

static Place *
place_of(EoPlaceRef ref)
{
	Place	   *p = &lives->places[ref.index];

	return ref.index < EO_MAX_PLACES && ref.generation != 0 && p->generation == ref.generation ?
		p : NULL;
}

static Life *
life_of(const Place *p)
{
	return &lives->lives[p->life];
}

/* Drop a life with its places. */
static void
drop_life(Life *life)
{
	Place	   *p;

	while ((p = find_place(life, NULL)) != NULL)
		free_place(p);
	life->status = UNUSED;
	life->entry.dboid = InvalidOid;
}

static void
free_place(Place *p)
{
	life_of(p)->has_home &= !p->place.home;
	p->generation = 0;
	p->entry.dboid = InvalidOid;
}

/* The place of a life for a table, or for any (NULL).  NULL: there is none. */
static Place *
find_place(const Life *life, const EoTarget *target)
{
	for (uint32 i = 0; i < lives->high_place; i++)
	{
		Place	   *p = &lives->places[i];

		if (p->generation != 0 && life_of(p) == life &&
			(target == NULL || eo_target_same_place(&p->place.target, target)))
			return p;
	}
	return NULL;
}

/* ----- the last run ----- */

/*
 * A place of the last run, whose life has this index now.  Its item may exist although the
 * last run did not come to know that, so a request that was sent is enough.
 */
static void
adopt_place(const Place *old, const Life *life)
{
	Place	   *p = &lives->places[lives->high_place];

	if ((!old->place.open && !old->place.sent) || old->place.retired ||
		old->place.barred_at != 0 || lives->high_place == EO_MAX_PLACES)
		return;
	(void) clear_place(p);
	p->entry.dboid = life->entry.dboid;
	p->entry.roleid = old->entry.roleid;
	p->place.target = old->place.target;
	p->place.target.url[sizeof(p->place.target.url) - 1] = '\0';
	p->place.target.region[sizeof(p->place.target.region) - 1] = '\0';
	p->place.target.table[sizeof(p->place.target.table) - 1] = '\0';
	p->place.target.layout[sizeof(p->place.target.layout) - 1] = '\0';
	p->place.target.prefix[EO_MAX_KEY_PREFIX] = '\0';
	memcpy(p->place.life, life->life.id, EO_UUID_LEN);
	p->place.home = old->place.home;
	p->place.open = old->place.open;
	p->place.sent = old->place.sent;
	p->place.beat = old->place.beat;
	p->place.sent_beat = old->place.sent_beat;
	p->place.scan_due_us = old->place.scan_due_us;
	p->place.owed_us = old->place.owed_us;
	p->life = (uint32) (life - lives->lives);
	use_place(p);
}

void
eo_life_adopt(const void *old_memory)
{
	const Lives *old = old_memory;

	eo_runs_adopt(&old->runs);
	for (uint32 i = 0; i < Min(old->high_life, EO_MAX_LIVES); i++)
	{
		const Life *was = &old->lives[i];
		Life	   *now;

		if (was->status == UNUSED)
			continue;
		now = clear_life(&lives->lives[lives->high_life]);
		now->entry.dboid = was->entry.dboid;
		now->life = was->life;
		now->status = ENDED;
		for (uint32 j = 0; j < Min(old->high_place, EO_MAX_PLACES); j++)
		{
			if (old->places[j].generation != 0 && old->places[j].life == i)
				adopt_place(&old->places[j], now);
		}
	}
}

/* ----- for everybody ----- */

bool
eo_life_current(Oid dboid, EoLife *life)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Life *l = find_current(dboid);

	if (l != NULL)
		*life = l->life;
	return l != NULL;
}

bool
eo_life_is_current(Oid dboid, const uint8 *id)
{
	EoLife		life;

	return eo_life_current(dboid, &life) && memcmp(life.id, id, EO_UUID_LEN) == 0;
}

bool
eo_life_enter_place(const EoTarget *target, const uint8 *id, EoPlaceRef *ref, bool *open)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Life	   *life = find_current(target->dboid);
	Place	   *p;

	if (life == NULL || !is_id(life, id))
		return false;
	p = find_place(life, target);
	if (p == NULL)
	{
		EoTarget	given = *target;
		const Place *was;

		p = new_place(target);
		if (p == NULL)
			return false;
		p->place.target = *target;

		/* A superuser may have given a barred place away. */
		given.tenant = InvalidOid;
		was = find_place(life, &given);
		if (was != NULL)
		{
			p->place.barred_at = was->place.barred_at;
			strlcpy(p->place.barred_why, was->place.barred_why, sizeof(p->place.barred_why));
		}
		memcpy(p->place.life, id, EO_UUID_LEN);
		p->life = (uint32) (life - lives->lives);
		use_place(p);
	}

	/*
	 * A tenant may spoil the item of his place, and must not keep a life from
	 * the others.
	 */
	if (eo_target_is_trusted(target) && !life->has_home)
		p->place.home = life->has_home = true;
	*ref = p->place.ref;
	*open = p->place.open;
	return true;
}

/* A request that may have made the item, and another process that writes it, keep the place. */
void
eo_life_leave_place(EoPlaceRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);
	bool		in_doubt = false;

	/* That the life is barred there is not forgotten while it lasts. */
	if (p == NULL || p->place.open || p->place.barred_at != 0)
		return;
	for (int i = 0; i < MAX_NONCES; i++)
		in_doubt |= p->nonces[i].sent_us > 0;
	if (!in_doubt)
		free_place(p);
}

bool
eo_life_place_is_current_locked(EoPlaceRef ref)
{
	const EoPlace *p = eo_life_current_place_locked(ref);

	return p != NULL && p->open && p->barred_at == 0;
}

EoPlace *
eo_life_current_place_locked(EoPlaceRef ref)
{
	Place	   *p = place_of(ref);

	return p != NULL && life_of(p)->status == CURRENT ? &p->place : NULL;
}

bool
eo_life_place_is_open(EoPlaceRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_life_place_is_current_locked(ref);
}

bool
eo_life_place_info(EoPlaceRef ref, EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Place *p = place_of(ref);

	if (p != NULL)
		*place = p->place;
	return p != NULL;
}

int64
eo_life_lease_age_us(EoPlaceRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);

	return eo_life_place_is_current_locked(ref) ?
		eo_clock_steady_us() - place_of(ref)->place.confirmed_us : INT64_MAX;
}

/* ----- beats ----- */

/* A place for a nonce: a free one, or that of the oldest. */
static Nonce *
oldest_nonce(Place *p)
{
	Nonce	   *oldest = &p->nonces[0];

	for (int i = 1; i < MAX_NONCES; i++)
	{
		if (p->nonces[i].sent_us < oldest->sent_us)
			oldest = &p->nonces[i];
	}
	return oldest;
}

/* The nonce of the beat that goes on from this one; NULL: none was sent. */
static Nonce *
find_nonce(Place *p, int64 seen_beat)
{
	for (int i = 0; i < MAX_NONCES; i++)
	{
		Nonce	   *n = &p->nonces[i];

		if (n->sent_us > 0 && n->seen_beat == seen_beat)
			return n;
	}
	return NULL;
}

bool
eo_life_sending(EoPlaceRef ref, int64 seen_beat, int64 beat, uint64 *nonce, int64 *sent_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);
	Nonce	   *n;

	if (p == NULL || seen_beat < p->place.beat)
		return false;
	n = find_nonce(p, seen_beat);
	if (n == NULL)
	{
		n = oldest_nonce(p);
		n->nonce = *nonce;
		n->sent_us = *sent_us;
		n->seen_beat = seen_beat;
		n->sent_beat = 0;
		n->copies = 0;
	}
	n->copies++;
	n->sent_beat = Max(n->sent_beat, beat);
	*nonce = n->nonce;
	*sent_us = n->sent_us;
	p->place.sent = true;
	p->place.sent_beat = Max(p->place.sent_beat, beat);
	return true;
}

void
eo_life_not_sent(EoPlaceRef ref, uint64 nonce)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);

	for (int i = 0; i < MAX_NONCES && p != NULL; i++)
	{
		Nonce	   *n = &p->nonces[i];

		if (n->nonce == nonce && n->sent_us > 0 && --n->copies == 0)
			n->sent_us = 0;
	}
}

bool
eo_life_sent(EoPlaceRef ref, uint64 nonce, int64 beat, int64 *sent_us)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Place *asked = place_of(ref);

	for (uint32 i = 0; asked != NULL && i < lives->high_place * MAX_NONCES; i++)
	{
		const Place *p = &lives->places[i / MAX_NONCES];
		const Nonce *n = &p->nonces[i % MAX_NONCES];

		if (p->generation == 0 || p->life != asked->life || n->nonce != nonce ||
			n->sent_us <= 0 ||
			(beat >= 0 && (beat <= n->seen_beat || beat > n->sent_beat)))
			continue;
		*sent_us = n->sent_us;
		return true;
	}
	return false;
}

/* Another place may lead to the same item: then its beats are confirmed here, too. */
void
eo_life_confirmed(EoPlaceRef ref, int64 beat, int64 sent_us, const EoTarget *target)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);

	if (p == NULL)
		return;
	p->place.open = true;
	p->place.beat = Max(p->place.beat, beat);
	p->place.sent_beat = Max(p->place.sent_beat, beat);
	p->place.confirmed_us = Max(p->place.confirmed_us, sent_us);
	p->place.target = *target;
}

bool
eo_life_take_turn(EoPlaceRef ref)
{
	int64		now_us = eo_clock_monotonic_us();
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);

	if (p == NULL)
		return true;
	if (p->turn_until_us > now_us)
		return false;
	p->turn_until_us = now_us + TURN_US;
	return true;
}

void
eo_life_end_turn(EoPlaceRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);

	if (p != NULL)
		p->turn_until_us = 0;
}

void
eo_life_give_up(Oid dboid, const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);

	eo_life_give_up_locked(dboid, id);
}

void
eo_life_give_up_locked(Oid dboid, const uint8 *id)
{
	Life	   *life = find_life(id);

	if (life != NULL && (life->status == CURRENT || life->status == BARRED))
		life->status = ENDED;
	eo_database_wake_worker(dboid);
}

/* ----- for the launcher ----- */

bool
eo_life_next_database(uint32 *cursor, Oid *dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Life *life = next_life(cursor);

	if (life != NULL)
		*dboid = life->entry.dboid;
	return life != NULL;
}

/* ----- for the worker ----- */

bool
eo_life_begin(Oid dboid, const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	EoEntries	all = eo_life_entries();
	Life	   *life = eo_entries_take_share(&all, dboid, InvalidOid);

	if (life == NULL)
		return false;
	(void) clear_life(life);
	life->this_run = true;
	memcpy(life->life.id, id, EO_UUID_LEN);
	life->life.began_us = eo_clock_steady_us();
	eo_runs_minted();
	pg_write_barrier();
	life->status = CURRENT;
	return true;
}

EoPlace *
eo_life_next_place_locked(Oid dboid, uint32 *cursor, bool *current)
{
	while (*cursor < lives->high_place)
	{
		Place	   *p = &lives->places[(*cursor)++];

		*current = p->generation != 0 && life_of(p)->status == CURRENT;
		if (p->generation != 0 && (!OidIsValid(dboid) || life_of(p)->entry.dboid == dboid))
			return &p->place;
	}
	return NULL;
}

const EoPlace *
eo_life_owed_place_locked(Oid dboid, Oid serverid, bool trusted)
{
	uint32		cursor = 0;
	bool		current;
	const EoPlace *place;
	const EoPlace *oldest = NULL;

	while ((place = eo_life_next_place_locked(dboid, &cursor, &current)) != NULL)
	{
		if (current && eo_life_place_owes_scan(place) &&
			(!trusted || eo_target_is_trusted(&place->target)) &&
			(!OidIsValid(serverid) || place->target.serverid == serverid) &&
			(oldest == NULL || place->scan_due_us < oldest->scan_due_us))
			oldest = place;
	}
	return oldest;
}

bool
eo_life_walk_places(Oid dboid, bool current, uint32 *cursor, EoPlace *place)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const EoPlace *p;
	bool		is_current;

	while ((p = eo_life_next_place_locked(dboid, cursor, &is_current)) != NULL)
	{
		if (is_current != current)
			continue;
		*place = *p;
		return true;
	}
	return false;
}

bool
eo_life_next_ended(Oid dboid, uint32 *cursor, uint8 *id, bool *this_run)
{
	EoTableLock lock = eo_claim_table_lock(LW_SHARED);
	const Life *life;

	while ((life = next_life(cursor)) != NULL)
	{
		if (life->status != ENDED || life->entry.dboid != dboid)
			continue;
		memcpy(id, life->life.id, EO_UUID_LEN);
		*this_run = life->this_run;
		return true;
	}
	return false;
}

bool
eo_life_any_ended(Oid dboid)
{
	uint32		cursor = 0;
	uint8		id[EO_UUID_LEN];
	bool		this_run;

	return eo_life_next_ended(dboid, &cursor, id, &this_run);
}

void
eo_life_place_retired(EoPlaceRef ref)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Place	   *p = place_of(ref);

	if (p != NULL)
		p->place.retired = true;
}

void
eo_life_forget(const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Life	   *life = find_life(id);

	if (life != NULL)
		drop_life(life);
}

void
eo_life_drop_database(Oid dboid)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	uint32		cursor = 0;
	Life	   *life;

	while ((life = next_life(&cursor)) != NULL)
	{
		if (life->entry.dboid == dboid)
			drop_life(life);
	}
}

bool
eo_life_bar(Oid dboid, uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Life	   *life = find_current(dboid);
	bool		barred = life != NULL && !eo_slot_view_any_unsettled_locked(dboid) &&
	eo_life_owed_place_locked(dboid, InvalidOid, true) == NULL;

	if (barred)
	{
		life->status = BARRED;
		memcpy(id, life->life.id, EO_UUID_LEN);
	}
	return barred;
}

void
eo_life_reopen(const uint8 *id)
{
	EoTableLock lock = eo_claim_table_lock(LW_EXCLUSIVE);
	Life	   *life = find_life(id);

	if (life != NULL && life->status == BARRED)
		life->status = CURRENT;
}

EoEntries
eo_life_entries(void)
{
	return (EoEntries)
	{
		lives->lives, sizeof(Life), EO_MAX_LIVES, NULL
	};
}

EoEntries
eo_life_place_entries(void)
{
	return (EoEntries)
	{
		lives->places, sizeof(Place), EO_MAX_PLACES, NULL
	};
}
