/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  The runs of the server: which transaction ids each may have given out again.
 *
 * A crash may have the server give out transaction ids again that it
 * had not flushed.  What the commit log says of such an id is not said of the transaction
 * that had it before.  The floor of a run is the next id that pg_control noted before that
 * run recovered: the run gives out none below it.  Its start is the next id when it had
 * recovered: it gives out all from there on, and nothing that had one of them before can have
 * committed in this data.
 *
 * A life may be followed by runs in which its database mints no life, because its worker does
 * not get to it.  They give out ids, too.  So each start carries on the floors and starts of the
 * runs before it, in the claim file, and a life that is minted takes over the lowest of those
 * since the life before it (eo_runs_since()).  Which runs are these?  Those behind the
 * run of that life in the list.  If it is not there, it is older than the list, and all of
 * them are.  That holds because the list only has runs on this very data:
 *
 * - The claim file proves that it is of this directory, and of this start of the machine.  With
 *	 any other file, or none, the list begins anew.
 * - Data of another server comes into a directory by archive recovery, as a standby or
 *	 to a point in time, or with a base backup.  With a start that begins one of these the list
 *	 begins anew.  Otherwise the runs of a primary that became a standby, and was promoted
 *	 again, would count for the lives that its peer has minted in between.
 * - Floors do not fall from one run to the next.  A run with a floor above ours is of a future
 *	 that this data does not have: older files were put in its place.
 *
 * A run that is not known (the file was lost since, the library was not loaded) leaves a floor
 * that is too high.  Then a key may be in doubt for nothing.  A floor that is too low, as that of a
 * standby that was started long before it was promoted, takes the commit log away as a
 * witness, and no more: the rows of the outbox are the evidence, and are looked for
 * first.  What is lost with it is the remark that a row must have been removed by hand.
 * A start that is too low would have an audit report work as lost that is there: so a run whose
 * start was not noted has none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/transam.h"
#include "access/xlog.h"
#include "cluster/runs.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"

static EoRuns *runs;			/* in the claim file */

/* pg_control is read as recovery is going to find it. */
void
eo_runs_begin(EoRuns *memory)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	EoRun	   *run = &memory->runs[0];

	runs = memory;
	if (!crc_ok || !pg_strong_random(run->id, sizeof(run->id)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not begin a run of exactonce: pg_control or random numbers cannot be read")));

	/*
	 * pg_upgrade sets the ids of the new cluster when it has used it for a
	 * while: they have nothing to do with those before.
	 */
	run->floor = IsBinaryUpgrade ? UINT64_MAX :
		U64FromFullTransactionId(control->checkPointCopy.nextXid);
	run->start = UINT64_MAX;
	runs->n = 1;
	pfree(control);
}

static EoRun *
present_run(void)
{
	return &runs->runs[runs->n - 1];
}

const uint8 *
eo_runs_present(void)
{
	return present_run()->id;
}

void
eo_runs_note_start(uint64 xid)
{
	if (runs->xid_start != 0)
		return;
	runs->xid_start = xid;
	present_run()->start = Min(present_run()->start, xid);
}

uint64
eo_runs_start(void)
{
	return runs->xid_start != 0 ? runs->xid_start : UINT64_MAX;
}

void
eo_runs_since(const uint8 *run, uint64 *floor, uint64 *start)
{
	*floor = *start = UINT64_MAX;
	for (uint32 i = 0; i < runs->n; i++)
	{
		if (memcmp(runs->runs[i].id, run, EO_UUID_LEN) == 0)
		{
			*floor = *start = UINT64_MAX;
			continue;
		}
		*floor = Min(*floor, runs->runs[i].floor);
		*start = Min(*start, runs->runs[i].start);
	}
}

void
eo_runs_minted(void)
{
	runs->minted = true;
}

/* May this start, or one before that did not come to its end, put other data in place? */
static bool
is_other_data(void)
{
	return access(STANDBY_SIGNAL_FILE, F_OK) == 0 || access(RECOVERY_SIGNAL_FILE, F_OK) == 0 ||
		access(BACKUP_LABEL_FILE, F_OK) == 0;
}

/* Put the runs of the list before the present one.  If there is no room the oldest goes. */
void
eo_runs_adopt(const EoRuns *old)
{
	EoRun		present = *present_run();
	uint32		n = old->n;

	if (n == 0 || n > EO_MAX_RUNS || is_other_data())
		return;
	if (!old->minted)
	{
		const EoRun *last = &old->runs[--n];

		if (last->floor <= present.floor)
		{
			present.floor = last->floor;
			present.start = last->start;
		}
	}
	runs->n = 0;
	for (uint32 i = n == EO_MAX_RUNS; i < n; i++)
	{
		if (old->runs[i].floor <= present.floor)
			runs->runs[runs->n++] = old->runs[i];
	}
	runs->runs[runs->n++] = present;
}
