/*-------------------------------------------------------------------------
 *
 * claim_file.c
 *	  The life of the shared memory: making it, and taking over what the last run
 *	  of the server has left.
 *
 * The claim table lies in the file exactonce_claims of the data directory, which
 * the postmaster maps and its children inherit.  So it survives the kill of every
 * process without being written for it.  Each start makes a new file, takes into
 * it what the old one leaves to be done, and puts it in the old one's place; the
 * rename is the last step, so that a start that fails leaves the old file.
 *
 * The file is not synced, so a failure of the machine may leave any mixture of its
 * pages.  The table of an earlier boot is therefore never used.  Nothing that is true
 * of a key depends on it: then a record is settled when somebody meets it.
 *
 * The kernel's lock on the file is held by the postmaster and its children.  Two
 * servers in containers may share a directory, a kernel and its boot id, and not see
 * each other's processes.  Then the file of the one that still runs proves nothing to
 * the other.
 *
 * The postmaster is the only process here: at the server's start, and after the
 * crash of a child when all others have ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "cluster/bars.h"
#include "cluster/cache.h"
#include "cluster/circuit.h"
#include "cluster/claim_file.h"
#include "cluster/claim_table.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/memory.h"
#include "cluster/progress.h"
#include "cluster/service_clocks.h"
#include "cluster/slot_prepared.h"
#include "cluster/slots.h"
#include "common/file_perm.h"
#include "common/hashfn.h"
#include "compat.h"
#include "miscadmin.h"
#include "records/record.h"
#include "server/credential_cache.h"
#include "server/guc.h"
#include "server/stats.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define TABLE_FILE "exactonce_claims"
#define TABLE_MAGIC UINT64CONST(0x65786163746f6e35)

static const EoMemory *const memories[] = {
	&eo_database_memory, &eo_life_watch_memory, &eo_progress_memory, &eo_service_clock_memory,
	&eo_circuit_memory, &eo_slot_prepared_memory, &eo_bar_memory
};

/* Open, and locked, as long as any process of this server lives. */
static int	table_fd = -1;

static void (*previous_request) (void);
static shmem_startup_hook_type previous_startup;

static void request_memory(void);
static void startup_memory(void);
static void begin_table(void);
static bool map_old_table(EoClaimTable *old, size_t *size);
static void make_table(uint32 nslots);
static void adopt_slots(const EoClaimTable *old);

void
eo_claim_file_init(void)
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
	for (int i = 0; i < (int) lengthof(memories); i++)
		RequestAddinShmemSpace(memories[i]->size);
	RequestNamedLWLockTranche("exactonce", 1);
	eo_cache_request();
	eo_credential_cache_request();
	eo_stats_request();
}

static void
startup_memory(void)
{
	bool		found;

	if (previous_startup)
		previous_startup();
	for (int i = 0; i < (int) lengthof(memories); i++)
	{
		const EoMemory *m = memories[i];

		*m->place = ShmemInitStruct(m->name, m->size, &found);
		if (found)
			continue;
		memset(*m->place, 0, m->size);
		if (m->begin != NULL)
			m->begin();
	}
	eo_cache_init();
	eo_credential_cache_init();
	eo_stats_init();
	eo_claim_table.lock = &GetNamedLWLockTranche("exactonce")->lock;
	begin_table();
}

/* ----- the parts of a table ----- */

/*
 * A table of another version has another of these numbers.  Where the sizes are the same, a
 * member may still have moved into what was padding.
 */
static uint32
layout_of_this_version(void)
{
	return (uint32) (sizeof(EoSlot) << 20 ^ sizeof(EoTargetEntry) << 10 ^ eo_life_size() ^
					 offsetof(EoSlotInfo, digest) << 25 ^ offsetof(EoSlotInfo, origin) << 15 ^
					 offsetof(EoSlotInfo, prepared_xid) << 5);
}

static size_t
table_size(const EoClaimTableHeader *header)
{
	return MAXALIGN(sizeof(EoClaimTableHeader)) + MAXALIGN(sizeof(EoSlot *) * header->nbuckets) +
		MAXALIGN(sizeof(EoSlot) * header->nslots) +
		MAXALIGN(sizeof(EoTargetEntry) * EO_MAX_TARGETS) +
		MAXALIGN(sizeof(EoShare) * EO_MAX_SHARES) + MAXALIGN(eo_life_size()) +
		sizeof(EoChunk) * header->nchunks;
}

static void
find_parts(void *base, EoClaimTable *table)
{
	char	   *p = base;

	table->header = base;
	p += MAXALIGN(sizeof(EoClaimTableHeader));
	table->buckets = (EoSlot **) p;
	p += MAXALIGN(sizeof(EoSlot *) * table->header->nbuckets);
	table->slots = (EoSlot *) p;
	p += MAXALIGN(sizeof(EoSlot) * table->header->nslots);
	table->targets = (EoTargetEntry *) p;
	p += MAXALIGN(sizeof(EoTargetEntry) * EO_MAX_TARGETS);
	table->shares = (EoShare *) p;
	p += MAXALIGN(sizeof(EoShare) * EO_MAX_SHARES);
	table->lives = p;
	p += MAXALIGN(eo_life_size());
	table->chunks = (EoChunk *) p;
}

/* A hash of what a short file says; 0: it cannot be read. */
static uint64
hash_of_file(const char *path)
{
	char		text[64];
	int			fd = open(path, O_RDONLY);
	ssize_t		len = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

	if (fd >= 0)
		close(fd);
	return len > 0 ? hash_bytes_extended((unsigned char *) text, len, 0) : 0;
}

/*
 * Say which data directory this is.  A copy of it may have the file in it, and must
 * not take what the original has under way for its own.  Two machines that were
 * set up alike may agree in device and inode, so the machine's id counts as well.
 * (The copy of a whole disk agrees in everything.)  The boot id changes with every
 * start of the kernel, see random(4).
 */
static void
identify(EoClaimTableHeader *header)
{
	struct stat st;

	header->system_identifier = GetSystemIdentifier();
	header->machine = hash_of_file("/etc/machine-id");
	header->boot = hash_of_file("/proc/sys/kernel/random/boot_id");
	header->device = header->inode = 0;
	if (stat(DataDir, &st) == 0)
	{
		header->device = st.st_dev;
		header->inode = st.st_ino;
	}
}

static bool
is_of_this_directory(const EoClaimTableHeader *header)
{
	EoClaimTableHeader here;

	identify(&here);
	return header->system_identifier == here.system_identifier &&
		header->machine == here.machine && header->boot == here.boot && here.boot != 0 &&
		header->device == here.device &&
		header->inode == here.inode;
}

/* ----- a start ----- */

static void
begin_table(void)
{
	/* After a crash of a child the postmaster still has the last table. */
	static size_t mapped;
	static void *mapping;
	EoClaimTable old;
	size_t		old_size = 0;
	bool		has_old;
	uint32		used = 0;

	if (mapping != NULL)
		munmap(mapping, mapped);
	/* The old file is locked anew, to see that nobody else has it. */
	if (table_fd >= 0)
		close(table_fd);
	table_fd = -1;
	has_old = map_old_table(&old, &old_size);
	for (uint32 i = 0; has_old && i < old.header->nslots; i++)
		used += old.slots[i].info.state != EO_SLOT_FREE;
	make_table(Max((uint32) eo_guc_max_claims, used));
	mapping = eo_claim_table.header;
	mapped = table_size(eo_claim_table.header);
	if (has_old)
	{
		adopt_slots(&old);
		eo_life_adopt(old.lives);
		munmap(old.header, old_size);
	}
	if (rename(TABLE_FILE ".new", TABLE_FILE) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not rename file \"%s\" to \"%s\": %m",
						TABLE_FILE ".new", TABLE_FILE)));
}

/* Map the table that the last run in this very directory has left. */
static bool
map_old_table(EoClaimTable *old, size_t *size)
{
	int			fd = open(TABLE_FILE, O_RDWR);
	struct stat st;
	EoClaimTableHeader *header;
	bool		locked;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || st.st_size < (off_t) sizeof(EoClaimTableHeader))
	{
		close(fd);
		return false;
	}
	*size = st.st_size;
	locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
	header = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (header == MAP_FAILED)
		return false;
	if (locked && header->magic == TABLE_MAGIC && header->layout == layout_of_this_version() &&
		*size == table_size(header) && is_of_this_directory(header))
	{
		find_parts(header, old);
		return true;
	}
	ereport(LOG,
			(errmsg("exactonce: \"%s\" is of another server, version or start of the machine, and is not used",
					TABLE_FILE),
			 errdetail("What was under way there is settled when its records are met.")));
	munmap(header, *size);
	return false;
}

/* Make the file that the new table lies in, and map it. */
static void *
map_new_file(size_t size, uint32 nslots)
{
	void	   *base;
	int			fd = open(TABLE_FILE ".new", O_RDWR | O_CREAT | O_TRUNC, pg_file_create_mode);

	/*
	 * Its blocks must exist: a full disk must show now, not as a signal
	 * later.
	 */
	while (fd >= 0 && (errno = posix_fallocate(fd, 0, size)) == EINTR)
		;
	if (fd < 0 || errno != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", TABLE_FILE ".new"),
				 errhint("exactonce keeps its claims in it, %zu bytes for exactonce.max_claims = %u.",
						 size, nslots)));
	if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not lock file \"%s\": %m", TABLE_FILE ".new")));
	table_fd = fd;
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not map file \"%s\": %m", TABLE_FILE ".new")));
	return base;
}

static void
make_table(uint32 nslots)
{
	EoClaimTableHeader header = {.layout = layout_of_this_version(),.nslots = nslots,
	.nchunks = nslots * EO_CHUNKS_PER_SLOT + EO_CHUNKS_EXTRA,.nbuckets = 64};
	EoClaimTable *t = &eo_claim_table;
	void	   *base;

	while (header.nbuckets < nslots)
		header.nbuckets *= 2;
	header.nfree_chunks = header.nchunks;
	pg_atomic_init_u32(&header.lost, 0);
	identify(&header);
	base = map_new_file(table_size(&header), nslots);
	memcpy(base, &header, sizeof(header));
	find_parts(base, t);
	/* A new file is zero, and so are the buckets. */
	t->header->free_slot = t->slots;
	for (uint32 i = 0; i + 1 < nslots; i++)
		t->slots[i].next = &t->slots[i + 1];
	for (uint32 i = 0; i < header.nchunks; i++)
		t->chunks[i].next = i + 1 < header.nchunks ? i + 1 : EO_NO_INDEX;
	eo_life_place_memory(t->lives);
	t->header->magic = TABLE_MAGIC;
}

/* Take over the slots of the old table; one that does not make sense is left out. */
static void
adopt_slots(const EoClaimTable *old)
{
	char	   *error = malloc(EO_MAX_ITEM_BYTES);

	for (uint32 i = 0; error != NULL && i < old->header->nslots; i++)
	{
		const EoSlot *slot = &old->slots[i];
		char		pk[EO_MAX_KEY_BYTES + 1];

		if (slot->info.state == EO_SLOT_FREE || slot->target >= EO_MAX_TARGETS ||
			slot->pk_len > EO_MAX_KEY_BYTES || slot->error_len > EO_MAX_ITEM_BYTES ||
			!eo_claim_table_read_text(old, slot->pk, pk, slot->pk_len) ||
			!eo_claim_table_read_text(old, slot->error, error, slot->error_len))
			continue;
		pk[slot->pk_len] = '\0';
		eo_slot_adopt(&old->targets[slot->target].target, pk, &slot->info, error, slot->error_len);
	}
	free(error);
}
