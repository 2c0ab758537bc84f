/*-------------------------------------------------------------------------
 *
 * audits.c
 *	  The audits that go on in the cluster, for the view exactonce_audits.
 *
 * This is ordinary shared memory, which begins anew with every start of the server.  The
 * lock of the claim table covers it.  A process enters its audit, and removes it even if
 * it ends by an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/audits.h"
#include "cluster/claim_table.h"
#include "dynamodb/clock.h"
#include "miscadmin.h"
#include "storage/shmem.h"

/* An audit that finds no room is not shown. */
#define MAX_AUDITS 16

static EoAudit *audits;

Size
eo_audits_shmem_size(void)
{
	return sizeof(EoAudit) * MAX_AUDITS;
}

void
eo_audits_shmem_init(void)
{
	bool		found;

	audits = ShmemInitStruct("exactonce audits", eo_audits_shmem_size(), &found);
	memset(audits, 0, eo_audits_shmem_size());
}

int
eo_audits_begin(Oid serverid)
{
	int			number = -1;

	eo_claim_table_lock(LW_EXCLUSIVE);
	for (int i = 0; i < MAX_AUDITS && number < 0; i++)
	{
		if (audits[i].pid != 0)
			continue;
		number = i;
		memset(&audits[i], 0, sizeof(EoAudit));
		audits[i].pid = MyProcPid;
		audits[i].dboid = MyDatabaseId;
		audits[i].serverid = serverid;
		audits[i].since_us = eo_clock_monotonic_us();
	}
	eo_claim_table_unlock();
	return number;
}

void
eo_audits_note(int number, int64 items, int64 findings)
{
	if (number < 0)
		return;
	eo_claim_table_lock(LW_EXCLUSIVE);
	audits[number].items = items;
	audits[number].findings = findings;
	eo_claim_table_unlock();
}

void
eo_audits_end(int number)
{
	if (number < 0)
		return;
	eo_claim_table_lock(LW_EXCLUSIVE);
	audits[number].pid = 0;
	eo_claim_table_unlock();
}

bool
eo_audits_walk(uint32 *cursor, EoAudit *audit)
{
	bool		found = false;

	eo_claim_table_lock(LW_SHARED);
	while (!found && *cursor < MAX_AUDITS)
	{
		*audit = audits[(*cursor)++];
		found = audit->pid != 0;
	}
	eo_claim_table_unlock();
	return found;
}
