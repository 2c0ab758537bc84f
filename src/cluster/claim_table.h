/*-------------------------------------------------------------------------
 *
 * claim_table.h
 *	  The memory of the claim table: its parts, its lock, and their free lists.
 *
 * For the files of src/cluster only.  The caller must hold the lock for every
 * function but eo_claim_table_lock() itself.  Slots are linked by pointers: all processes have
 * the table at the address at which the postmaster has mapped it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_CLAIM_TABLE_H
#define EO_CLUSTER_CLAIM_TABLE_H

#include "postgres.h"

#include "cluster/slot.h"
#include "cluster/target.h"
#include "lib/ilist.h"
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

struct EoSlot
{
	EoSlotInfo	info;
	uint32		generation;
	uint32		lost;			/* 1 + the generation whose claim was found
								 * lost last; 0: none was */
	EoSlot	   *next;			/* in its bucket, or in the free list */
	dlist_node	node;			/* in the list of its database, or of looks */
	bool		listed;			/* is in one of them */
	uint32		target;
	uint32		pk;				/* first chunk */
	uint32		pk_len;
	uint32		error;			/* first chunk */
	uint32		error_len;
};

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
	dlist_head	looks[EO_LOOK_KINDS][EO_LOOKS]; /* of a role, see looks.c */
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
	EoSlot	   *free_slot;
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
	EoSlot	  **buckets;
	EoSlot	   *slots;
	EoTargetEntry *targets;
	EoShare    *shares;
	void	   *lives;			/* see lives.c */
	EoChunk    *chunks;
	LWLock	   *lock;
} EoClaimTable;

/* The table in use. */
extern EoClaimTable eo_claim_table;

/*
 * The lock is held until the end of the block that declares this, however the block is left:
 *
 *	 EoTableLock lock = eo_claim_table_lock(LW_SHARED);
 */
#define EoTableLock __attribute__((cleanup(eo_claim_table_unlock), unused)) EoTakenLock

typedef LWLock * EoTakenLock;

extern EoTakenLock eo_claim_table_lock(LWLockMode mode);
extern void eo_claim_table_unlock(EoTakenLock * lock);

/* NULL: the slot has been freed. */
extern EoSlot *eo_claim_table_slot(EoSlotRef ref);

/*
 * Walk through the slots in use, from *cursor on, of one database (InvalidOid: of all).  NULL:
 * there are no more.
 */
extern EoSlot *eo_claim_table_next(Oid dboid, uint32 *cursor);

/* Put a slot at the end of a list, unless it is in one; or take it off the one that it is in. */
extern void eo_claim_table_list(EoSlot *slot, dlist_head *list);
extern void eo_claim_table_unlist(EoSlot *slot);

/* The first slot of those that a digest may be found in. */
extern EoSlot **eo_claim_table_bucket(const uint8 *digest);

/* The number by which a slot is found as long as it is not freed. */
static inline EoSlotRef
eo_claim_table_ref(const EoSlot *slot)
{
	return (EoSlotRef)
	{
		(uint32) (slot - eo_claim_table.slots), slot->generation
	};
}

static inline EoTargetEntry *
eo_claim_table_target(const EoSlot *slot)
{
	return &eo_claim_table.targets[slot->target];
}

/* The database of a slot. */
static inline Oid
eo_claim_table_database(const EoSlot *slot)
{
	return eo_claim_table_target(slot)->target.dboid;
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
