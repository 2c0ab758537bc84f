/*-------------------------------------------------------------------------
 *
 * claim_table.h
 *	  The memory of the claim table: its parts, its lock, and their free lists.
 *
 * For the files of src/cluster only.  The caller must hold the lock for every
 * function but eo_claim_table_lock() itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_CLAIM_TABLE_H
#define EO_CLUSTER_CLAIM_TABLE_H

#include "postgres.h"

#include "cluster/slot.h"
#include "cluster/target.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#define EO_NO_INDEX UINT32_MAX

#define EO_CHUNK_BYTES 124
#define EO_CHUNKS_PER_SLOT 2
#define EO_CHUNKS_EXTRA 32768	/* a few long errors of one role even in a
								 * small table */
#define EO_MAX_TARGETS 512
#define EO_MAX_SHARES (2 * EO_MAX_TARGETS + 1)

/* Keys and errors are chains of these. */
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
	uint32		next_ended;		/* in the list of its database, or of looks */
	uint32		before_ended;	/* the same; of looks only */
	bool		listed;			/* is in one of them */
	uint32		target;
	uint32		pk;				/* first chunk */
	uint32		pk_len;
	uint32		error;			/* first chunk */
	uint32		error_len;
} EoSlot;

/* The resources that shares.c counts. */
typedef enum EoResource
{
	EO_RESOURCE_SLOTS,			/* but those that are BURIED */
	EO_RESOURCE_CHUNKS,			/* the same */
	EO_RESOURCE_TARGETS,		/* that slots name */
	EO_RESOURCE_LOOKS,			/* slots that are BURIED */
	EO_RESOURCE_COMMIT_LOOKS,	/* those of them that are of claims at commit */
	EO_RESOURCE_COMMIT_CHUNKS	/* the same */
} EoResource;

#define EO_N_RESOURCES 6

/* Slots in an order. */
typedef struct EoSlotList
{
	uint32		n;
	uint32		first;			/* of an empty list undefined, as is last */
	uint32		last;
} EoSlotList;

typedef enum EoLookKind
{
	EO_LOOK_AT_ACQUIRE,
	EO_LOOK_AT_COMMIT
} EoLookKind;

#define EO_LOOK_KINDS 2

/* The use that a role of a database makes of them; userid InvalidOid: all its roles. */
typedef struct EoShare
{
	Oid			dboid;
	Oid			userid;
	uint32		targets;		/* entries that count here; 0: it is unused */
	uint32		taken[EO_N_RESOURCES];
	EoSlotList	looks[EO_LOOK_KINDS][EO_LOOKS]; /* of a role, see looks.c */
} EoShare;

typedef struct EoTargetEntry
{
	EoTarget	target;
	uint32		role_share;		/* where it counts; 0: it was never used */
	uint32		database_share;
	uint32		refs;			/* slots that name it */
} EoTargetEntry;

/* The beginning of the file. */
typedef struct EoClaimTableHeader
{
	uint64		magic;
	uint32		layout;			/* sizes of the structures: those of this
								 * version only */
	uint32		nslots;
	uint32		nchunks;
	uint32		nbuckets;
	uint64		system_identifier;
	uint64		machine;		/* hash of machine-id(5); 0: not known */
	uint64		boot;			/* hash of the kernel's boot id; 0: not known */
	uint64		device;			/* of the data directory: a copy of it has */
	uint64		inode;			/* another one */
	uint32		free_slot;
	uint32		free_chunk;
	uint32		nfree_chunks;
	uint32		high_slot;		/* slots from here on were never used */
	uint32		high_share;		/* and shares */
	pg_atomic_uint32 lost;		/* claims found lost so far */
} EoClaimTableHeader;

/* Where the parts of a table lie in this process. */
typedef struct EoClaimTable
{
	EoClaimTableHeader *header;
	uint32	   *buckets;
	EoSlot	   *slots;
	EoTargetEntry *targets;
	EoShare    *shares;
	void	   *lives;			/* see lives.c */
	EoChunk    *chunks;
} EoClaimTable;

/* The table in use. */
extern EoClaimTable eo_claim_table;

/* In the startup hook of shared memory. */
extern void eo_claim_table_use_lock(LWLock * lock);

extern void eo_claim_table_lock(LWLockMode mode);
extern void eo_claim_table_unlock(void);

/* NULL: the slot has been freed. */
extern EoSlot *eo_claim_table_slot(EoSlotRef ref);

/*
 * Take the lock and find the slot.  Returns NULL, without the lock, if the slot
 * has been freed.  Otherwise the caller must release the lock.
 */
extern EoSlot *eo_claim_table_lock_slot(EoSlotRef ref);
extern uint32 *eo_claim_table_bucket(const uint8 *digest);

/* The database of a slot. */
static inline Oid
eo_claim_table_database(const EoSlot *slot)
{
	return eo_claim_table.targets[slot->target].target.dboid;
}

/* Has any slot been made for this database and not freed? */
extern bool eo_claim_table_has_slots(Oid dboid);

/* The chunks that a text takes. */
extern uint32 eo_claim_table_chunks(uint32 len);

/* False: there is no room. */
extern bool eo_claim_table_put_text(const char *text, uint32 len, uint32 *first);
extern void eo_claim_table_drop_text(uint32 first, uint32 len);

/* Read a text of any table; false if its chain does not make sense. */
extern bool eo_claim_table_read_text(const EoClaimTable *from, uint32 first, char *out, uint32 len);

#endif							/* EO_CLUSTER_CLAIM_TABLE_H */
