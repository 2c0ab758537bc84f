/*-------------------------------------------------------------------------
 *
 * claim_table.c
 *	  What the backends and workers of a cluster know together: its memory.
 *
 * Two parts, with one lock over both (slots.c and databases.c work on them):
 *
 * - The claim table: a slot for each claim of an open transaction, filled in
 *	 before the request that makes the claim leaves, freed when nothing is left
 *	 to be done about it.  It lies in the file exactonce_claims of the data
 *	 directory, mapped by the postmaster and inherited by its children.  So it
 *	 survives the kill of every process without being written for it, and the
 *	 next start finds in it what was under way (adopt_old_table()).  A power
 *	 failure may lose it; then the record itself tells, to whoever meets it.
 *
 * - The databases and the launcher, in ordinary shared memory: they begin
 *	 anew with every start.
 *
 * A slot is free, or in the hands of the backend that holds the claim, or
 * ended: on the list of its database's worker, which sees to it and frees it.
 * A backend that meets an ended slot may do the same work at the same time;
 * both write under the same conditions, and whoever frees it second finds
 * another generation.
 *
 * Keys and the texts of errors are in chunks of fixed size, so that they are
 * bounded by exactonce.max_claims, too.
 *
 * The lock is held for some hundred instructions at a time, never over a
 * system call.  Nothing is allocated and nothing raised under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "cluster/claim_table.h"
#include "cluster/shmem.h"
#include "cluster/target.h"
#include "common/file_perm.h"
#include "common/hashfn.h"
#include "compat.h"
#include "dynamodb/record.h"
#include "miscadmin.h"
#include "server/guc.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#define TABLE_FILE "exactonce_claims"
#define TABLE_MAGIC UINT64CONST(0x65786163746f6e31)

EoTable    *eo_table;
uint32	   *eo_buckets;
EoSlot	   *eo_slots;
EoChunk    *eo_chunks;
EoTargetEntry *eo_targets;
EoShared   *eo_shared;
static LWLock * eo_lock;

static void (*previous_request) (void);
static shmem_startup_hook_type previous_startup;

static void request_memory(void);
static void startup_memory(void);
static void adopt_old_table(void);

/* ----- life of the memory ----- */

void
eo_shmem_init(void)
{
	eo_compat_request_shmem(request_memory, &previous_request);
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup_memory;
}

static void
request_memory(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(sizeof(EoShared));
	RequestNamedLWLockTranche("exactonce", 1);
}

static void
startup_memory(void)
{
	bool		found;

	if (previous_startup)
		previous_startup();
	eo_shared = ShmemInitStruct("exactonce", sizeof(EoShared), &found);
	memset(eo_shared, 0, sizeof(EoShared));
	pg_atomic_init_u32(&eo_shared->lost, 0);
	for (int i = 0; i < EO_MAX_DATABASES; i++)
		eo_shared->databases[i].ended_head = eo_shared->databases[i].ended_tail = EO_NO_INDEX;
	eo_lock = &GetNamedLWLockTranche("exactonce")->lock;
	adopt_old_table();
}

static uint32
layout_of_this_version(void)
{
	return (uint32) (sizeof(EoSlot) << 16 | sizeof(EoTargetEntry));
}

static size_t
table_size(uint32 nslots, uint32 nchunks, uint32 nbuckets)
{
	return MAXALIGN(sizeof(EoTable)) + MAXALIGN(sizeof(uint32) * nbuckets) +
		MAXALIGN(sizeof(EoSlot) * nslots) + MAXALIGN(sizeof(EoTargetEntry) * EO_MAX_TARGETS) +
		sizeof(EoChunk) * nchunks;
}

/* Point at the parts of a table. */
static void
use_table(void *base)
{
	char	   *p = base;

	eo_table = base;
	p += MAXALIGN(sizeof(EoTable));
	eo_buckets = (uint32 *) p;
	p += MAXALIGN(sizeof(uint32) * eo_table->nbuckets);
	eo_slots = (EoSlot *) p;
	p += MAXALIGN(sizeof(EoSlot) * eo_table->nslots);
	eo_targets = (EoTargetEntry *) p;
	p += MAXALIGN(sizeof(EoTargetEntry) * EO_MAX_TARGETS);
	eo_chunks = (EoChunk *) p;
}

/*
 * A copy of a data directory, which may have this file in it, shall not take
 * what the original has under way for its own.  Machines that were set up
 * alike may well agree in the numbers of a directory: so their name, too, see
 * machine-id(5).  (The copy of a whole disk agrees in everything.)
 */
static void
identify(EoTable *table)
{
	struct stat st;
	char		name[64];
	int			fd = open("/etc/machine-id", O_RDONLY);
	ssize_t		len = fd >= 0 ? read(fd, name, sizeof(name)) : 0;

	if (fd >= 0)
		close(fd);
	table->machine = len > 0 ? hash_bytes_extended((unsigned char *) name, len, 0) : 0;
	table->device = table->inode = 0;
	if (stat(DataDir, &st) == 0)
	{
		table->device = st.st_dev;
		table->inode = st.st_ino;
	}
}

/* The table as the last life of this very data directory left it, or NULL. */
static void *
map_old_table(size_t *size)
{
	int			fd = open(TABLE_FILE, O_RDWR);
	struct stat st;
	EoTable    *old;
	EoTable		here;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) != 0 || st.st_size < (off_t) sizeof(EoTable))
	{
		close(fd);
		return NULL;
	}
	*size = st.st_size;
	old = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (old == MAP_FAILED)
		return NULL;
	identify(&here);
	if (old->magic == TABLE_MAGIC && old->layout == layout_of_this_version() &&
		*size == table_size(old->nslots, old->nchunks, old->nbuckets) &&
		old->system_identifier == GetSystemIdentifier() &&
		old->machine == here.machine && old->device == here.device && old->inode == here.inode)
		return old;
	ereport(LOG,
			(errmsg("exactonce: \"%s\" is of another server or version, and is not used", TABLE_FILE),
			 errdetail("What was under way there is settled when its records are met.")));
	munmap(old, *size);
	return NULL;
}

static void
make_table(uint32 nslots)
{
	uint32		nchunks = nslots * EO_CHUNKS_PER_SLOT + EO_CHUNKS_EXTRA;
	uint32		nbuckets = 64;
	size_t		size;
	void	   *base;
	int			fd;

	while (nbuckets < nslots)
		nbuckets *= 2;
	size = table_size(nslots, nchunks, nbuckets);
	fd = open(TABLE_FILE ".new", O_RDWR | O_CREAT | O_TRUNC, pg_file_create_mode);
	/* Its blocks must exist: a full disk is to be found now, not by a signal. */
	while (fd >= 0 && (errno = posix_fallocate(fd, 0, size)) == EINTR)
		;
	if (fd < 0 || errno != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", TABLE_FILE ".new"),
				 errhint("exactonce keeps its claims in it, %zu bytes for exactonce.max_claims = %u.",
						 size, nslots)));
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (base == MAP_FAILED)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not map file \"%s\": %m", TABLE_FILE ".new")));

	eo_table = base;
	eo_table->layout = layout_of_this_version();
	eo_table->nslots = nslots;
	eo_table->nchunks = nchunks;
	eo_table->nbuckets = nbuckets;
	eo_table->system_identifier = GetSystemIdentifier();
	identify(eo_table);
	use_table(base);
	memset(eo_buckets, 0xff, sizeof(uint32) * nbuckets);
	for (uint32 i = 0; i < nslots; i++)
		eo_slots[i].next = i + 1 < nslots ? i + 1 : EO_NO_INDEX;
	for (uint32 i = 0; i < nchunks; i++)
		eo_chunks[i].next = i + 1 < nchunks ? i + 1 : EO_NO_INDEX;
	eo_table->free_slot = 0;
	eo_table->free_chunk = 0;
	eo_table->nfree_chunks = nchunks;
	eo_table->magic = TABLE_MAGIC;
}

void
eo_claim_table_list_ended(uint32 index)
{
	EoSlot	   *slot = &eo_slots[index];
	EoDatabase *db = eo_database_entry(eo_targets[slot->target].target.dboid, true);

	if (slot->listed || db == NULL)
		return;
	slot->listed = true;
	slot->next_ended = EO_NO_INDEX;
	if (db->ended_tail == EO_NO_INDEX)
		db->ended_head = index;
	else
		eo_slots[db->ended_tail].next_ended = index;
	db->ended_tail = index;
}

/* Read a chain of chunks of a table that is not the one in use. */
bool
eo_claim_table_read_text(const EoChunk *from, uint32 nchunks, uint32 first, char *out, uint32 len)
{
	while (len > 0)
	{
		uint32		n = Min(len, EO_CHUNK_BYTES);

		if (first >= nchunks)
			return false;
		memcpy(out, from[first].data, n);
		out += n;
		len -= n;
		first = from[first].next;
	}
	return true;
}

/*
 * Make a new table and take into it what the old one still had to be seen
 * to.  All its transactions are over; whether one committed is for its
 * database to tell.  Whatever does not make sense in it is left out.
 */
static void
adopt_old_table(void)
{
	static size_t mapped;
	static void *mapping;
	size_t		old_size = 0;
	EoTable    *old;
	EoSlot	   *old_slots = NULL;
	EoTargetEntry *old_targets = NULL;
	EoChunk    *old_chunks = NULL;
	uint32		used = 0;
	char	   *text;

	/* After a crash of a child the postmaster itself still has the last one. */
	if (mapping != NULL)
		munmap(mapping, mapped);
	old = map_old_table(&old_size);
	if (old != NULL)
	{
		use_table(old);
		old_slots = eo_slots;
		old_targets = eo_targets;
		old_chunks = eo_chunks;
		for (uint32 i = 0; i < old->nslots; i++)
			used += old_slots[i].info.state != EO_SLOT_FREE;
	}
	make_table(Max((uint32) eo_guc_max_claims, used));
	mapping = eo_table;
	mapped = table_size(eo_table->nslots, eo_table->nchunks, eo_table->nbuckets);

	text = malloc(EO_MAX_ITEM_BYTES);
	for (uint32 i = 0; old != NULL && text != NULL && i < old->nslots; i++)
	{
		EoSlot	   *was = &old_slots[i];
		EoSlotInfo *info = &was->info;
		EoSlotRef	ref;
		char		pk[EO_MAX_KEY_BYTES + 1];

		/* Nothing was sent, or nothing is to be done: the lease runs on. */
		if (info->state == EO_SLOT_FREE || info->state == EO_SLOT_PLANNED ||
			(info->state == EO_SLOT_HELD && !info->ended && !info->bound &&
			 info->verdict == EO_VERDICT_NONE))
			continue;
		if (was->target >= EO_MAX_TARGETS || was->pk_len > EO_MAX_KEY_BYTES ||
			was->error_len > EO_MAX_ITEM_BYTES || info->state > EO_SLOT_SEALING ||
			!eo_claim_table_read_text(old_chunks, old->nchunks, was->pk, pk, was->pk_len) ||
			!eo_claim_table_read_text(old_chunks, old->nchunks, was->error, text, was->error_len))
			continue;
		pk[was->pk_len] = '\0';
		/* How one ended that had ended before the server did is known. */
		if (!info->ended)
			info->orphan = true;
		info->ended = true;
		info->looked = false;
		info->due_us = 0;
		info->pid = 0;
		if (eo_slot_add(&old_targets[was->target].target, pk, info, &ref) != EO_SHMEM_OK)
			continue;
		if (was->error_len > 0)
			(void) eo_slot_verdict(ref, info->verdict, info->terminal,
								   info->retry_after_ms, text, was->error_len);
		eo_slots[ref.index].info.ended = true;
		eo_claim_table_list_ended(ref.index);
	}
	free(text);
	if (old != NULL)
		munmap(old, old_size);
	if (rename(TABLE_FILE ".new", TABLE_FILE) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m",
						TABLE_FILE ".new", TABLE_FILE)));
}

/* ----- slots, targets and chunks; the lock is held ----- */

/* In the postmaster, at start, there is nobody to exclude. */
void
eo_claim_table_lock(LWLockMode mode)
{
	if (MyProc != NULL)
		LWLockAcquire(eo_lock, mode);
}

void
eo_claim_table_unlock(void)
{
	if (MyProc != NULL)
		LWLockRelease(eo_lock);
}

EoSlot *
eo_claim_table_slot(EoSlotRef ref)
{
	if (ref.index >= eo_table->nslots || eo_slots[ref.index].generation != ref.generation ||
		eo_slots[ref.index].info.state == EO_SLOT_FREE)
		return NULL;
	return &eo_slots[ref.index];
}

uint32 *
eo_claim_table_bucket(const uint8 *digest)
{
	uint32		hash;

	memcpy(&hash, digest, sizeof(hash));
	return &eo_buckets[hash & (eo_table->nbuckets - 1)];
}

uint32
eo_claim_table_find_target(const EoTarget *target)
{
	static uint32 last = 0;

	if (eo_targets[last].refs > 0 && memcmp(&eo_targets[last].target, target, sizeof(EoTarget)) == 0)
		return last;
	for (uint32 i = 0; i < EO_MAX_TARGETS; i++)
	{
		if (memcmp(&eo_targets[i].target, target, sizeof(EoTarget)) == 0)
			return last = i;
	}
	return EO_NO_INDEX;
}

uint32
eo_claim_table_enter_target(const EoTarget *target)
{
	uint32		i = eo_claim_table_find_target(target);

	if (i != EO_NO_INDEX)
		return i;
	for (i = 0; i < EO_MAX_TARGETS; i++)
	{
		if (eo_targets[i].refs == 0)
		{
			memset(&eo_targets[i], 0, sizeof(EoTargetEntry));
			eo_targets[i].target = *target;
			return i;
		}
	}
	return EO_NO_INDEX;
}

bool
eo_claim_table_put_text(const char *text, uint32 len, uint32 *first)
{
	uint32		n = (len + EO_CHUNK_BYTES - 1) / EO_CHUNK_BYTES;
	uint32	   *link = first;

	if (n > eo_table->nfree_chunks)
		return false;
	eo_table->nfree_chunks -= n;
	for (uint32 i = 0; i < n; i++)
	{
		uint32		part = Min(len, EO_CHUNK_BYTES);
		uint32		chunk = eo_table->free_chunk;

		eo_table->free_chunk = eo_chunks[chunk].next;
		memcpy(eo_chunks[chunk].data, text, part);
		text += part;
		len -= part;
		*link = chunk;
		link = &eo_chunks[chunk].next;
	}
	*link = EO_NO_INDEX;
	return true;
}

void
eo_claim_table_drop_text(uint32 first, uint32 len)
{
	for (uint32 n = (len + EO_CHUNK_BYTES - 1) / EO_CHUNK_BYTES; n > 0; n--)
	{
		uint32		next = eo_chunks[first].next;

		/* What was in it is nobody's business any more. */
		memset(eo_chunks[first].data, 0, EO_CHUNK_BYTES);
		eo_chunks[first].next = eo_table->free_chunk;
		eo_table->free_chunk = first;
		eo_table->nfree_chunks++;
		first = next;
	}
}

/* Take it off the list of its database, where it may stand anywhere. */
void
eo_claim_table_unlist_ended(uint32 index)
{
	EoDatabase *db = eo_database_entry(eo_targets[eo_slots[index].target].target.dboid, false);
	uint32	   *link;
	uint32		before = EO_NO_INDEX;

	if (!eo_slots[index].listed || db == NULL)
		return;
	for (link = &db->ended_head; *link != EO_NO_INDEX && *link != index;)
	{
		before = *link;
		link = &eo_slots[before].next_ended;
	}
	if (*link == EO_NO_INDEX)
		return;
	*link = eo_slots[index].next_ended;
	if (db->ended_tail == index)
		db->ended_tail = before;
	eo_slots[index].listed = false;
}

void
eo_claim_table_free_slot(uint32 index)
{
	EoSlot	   *slot = &eo_slots[index];
	uint32	   *link = eo_claim_table_bucket(slot->info.digest);

	while (*link != EO_NO_INDEX && *link != index)
		link = &eo_slots[*link].next;
	if (*link == index)
		*link = slot->next;
	eo_claim_table_unlist_ended(index);
	eo_claim_table_drop_text(slot->pk, slot->pk_len);
	eo_claim_table_drop_text(slot->error, slot->error_len);
	slot->pk_len = slot->error_len = 0;
	if (eo_targets[slot->target].refs > 0)
		eo_targets[slot->target].refs--;
	memset(&slot->info, 0, sizeof(slot->info));
	slot->generation++;
	slot->next = eo_table->free_slot;
	eo_table->free_slot = index;
}

/*
 * A buried claim that waits for its second look is a precaution: it makes
 * room if there is no other.
 */
bool
eo_claim_table_make_room(void)
{
	for (uint32 i = 0; i < eo_table->high_slot; i++)
	{
		EoSlotInfo *info = &eo_slots[i].info;

		if (info->ended && info->looked && eo_slots[i].listed)
		{
			eo_claim_table_free_slot(i);
			return true;
		}
	}
	return false;
}
