/*-------------------------------------------------------------------------
 *
 * claim_table.h
 *	  The memory behind shmem.h: structures, and the steps that its three files
 *	  share.  For claim_table.c, slots.c and databases.c only.
 *
 * All functions but eo_claim_table_lock() want the lock held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_CLAIM_TABLE_H
#define EO_CLUSTER_CLAIM_TABLE_H

#include "postgres.h"

#include "cluster/shmem.h"
#include "cluster/target.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#define EO_NO_INDEX UINT32_MAX

#define EO_CHUNK_BYTES 124
#define EO_CHUNKS_PER_SLOT 2
#define EO_CHUNKS_EXTRA 8192	/* a few long errors even in a small table */
#define EO_MAX_TARGETS 256
#define EO_MAX_DATABASES 128

typedef struct EoChunk
{
	uint32		next;
	char		data[EO_CHUNK_BYTES];
} EoChunk;

typedef struct EoSlot
{
	EoSlotInfo	info;
	uint32		generation;
	uint32		next;			/* in its bucket, or in the free list */
	uint32		next_ended;		/* in the list of its database */
	bool		listed;			/* ... is in that list */
	uint32		target;
	uint32		pk;				/* first chunk */
	uint32		pk_len;
	uint32		error;
	uint32		error_len;
} EoSlot;

typedef struct EoTargetEntry
{
	EoTarget	target;
	uint32		refs;
	bool		clock_known;
	int64		clock_offset_ms;
} EoTargetEntry;

/* What the file begins with. */
typedef struct EoTable
{
	uint64		magic;
	uint32		layout;			/* sizes of the structures: no other version's */
	uint32		nslots;
	uint32		nchunks;
	uint32		nbuckets;
	uint64		system_identifier;
	uint64		machine;		/* where it is; 0: not known */
	uint64		device;			/* of the data directory: a copy of it has */
	uint64		inode;			/* another one, and no business with claims */
	uint32		free_slot;
	uint32		free_chunk;
	uint32		nfree_chunks;
	uint32		high_slot;		/* slots from here on were never used */
} EoTable;

typedef struct EoDatabase
{
	Oid			dboid;			/* InvalidOid: free */
	EoDatabaseInfo info;
	bool		wanted;
	bool		leave;			/* its worker is to go, and another to come */
	int64		started_us;		/* monotonic: when a worker was last started */
	Latch	   *latch;			/* its worker's */
	uint32		ended_head;
	uint32		ended_tail;
} EoDatabase;

typedef struct EoShared
{
	Latch	   *launcher;
	pg_atomic_uint32 lost;		/* claims found lost so far */
	EoDatabase	databases[EO_MAX_DATABASES];
} EoShared;

extern EoTable *eo_table;
extern uint32 *eo_buckets;
extern EoSlot *eo_slots;
extern EoChunk *eo_chunks;
extern EoTargetEntry *eo_targets;
extern EoShared *eo_shared;

/* Nobody is excluded by the postmaster at start. */
extern void eo_database_wake_worker(EoDatabase *db);
extern void eo_claim_table_list_ended(uint32 index);
extern bool eo_claim_table_read_text(const EoChunk *from, uint32 nchunks, uint32 first, char *out, uint32 len);
extern void eo_claim_table_lock(LWLockMode mode);
extern void eo_claim_table_unlock(void);
extern EoSlot *eo_claim_table_slot(EoSlotRef ref);
extern uint32 *eo_claim_table_bucket(const uint8 *digest);
extern uint32 eo_claim_table_find_target(const EoTarget *target);
extern uint32 eo_claim_table_enter_target(const EoTarget *target);
extern bool eo_claim_table_put_text(const char *text, uint32 len, uint32 *first);
extern void eo_claim_table_drop_text(uint32 first, uint32 len);
extern void eo_claim_table_unlist_ended(uint32 index);
extern void eo_claim_table_free_slot(uint32 index);
extern bool eo_claim_table_make_room(void);
extern EoDatabase *eo_database_entry(Oid dboid, bool make);

#endif							/* EO_CLUSTER_CLAIM_TABLE_H */
