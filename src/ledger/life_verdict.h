/*-------------------------------------------------------------------------
 *
 * life_verdict.h
 *	  Is a life over, and who answers for what it has left?
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_LEDGER_LIFE_VERDICT_H
#define EO_LEDGER_LIFE_VERDICT_H

#include "postgres.h"

#include "ledger/life_rows.h"
#include "server/store.h"
#include "wire/status.h"

/* How a life stands to this data. */
typedef enum EoLifeRelation
{
	EO_LIFE_OURS,				/* the current life of this database */
	EO_LIFE_PAST,				/* it is over, and this data has been through
								 * it */
	EO_LIFE_BRANCH,				/* it is over, and its data left ours before
								 * its commits */
	EO_LIFE_OTHER				/* it goes on, or has another heir */
} EoLifeRelation;

typedef struct EoLifeVerdict
{
	EoLifeRelation relation;
	bool		known;			/* this data has been through it, or its data
								 * left ours at some time */
	bool		exists;			/* it has an item in the table */
	bool		beats;			/* it goes on elsewhere: its beats were seen */
	bool		this_run;		/* it began in this run of the server */
	bool		closed;			/* it is over, and nobody had to take over:
								 * its data may go on under another life */
	uint64		next_floor;		/* the lowest of the runs since its own, as
								 * far as they are known; UINT64_MAX: none */
	uint64		next_start;		/* the same */
} EoLifeVerdict;

/* Facts about a life beside the history of this data, as its item tells them. */
typedef struct EoLifeFinding
{
	bool		exists;
	bool		over;			/* closed, or retired by a life whose heir
								 * this database is */
	bool		closed;
	bool		beats;
	bool		unread;			/* its item was not read yet, and may say that
								 * the life is a branch of our history */
	const char *ancestors;		/* NULL: none are known */
} EoLifeFinding;

/*
 * How does the life stand to this database, as far as this target is concerned?  This says it by
 * the history and by what was found (NULL: nothing), and reads nothing else but which life is
 * current.  Without a finding a life that is not current is an EO_LIFE_OTHER.  The current one is,
 * too, where it is barred, whatever the item says: its sessions may be about to commit.
 */
extern void eo_life_verdict(const EoHistory *history, const EoTarget *target, const uint8 *id,
							const EoLifeFinding *finding, EoLifeVerdict *verdict);

/*
 * The same by the life's item in the store's table, which is read unless the life is current.
 * The worker is asked for nothing.  Returns false, and the error, if DynamoDB does not answer.
 */
extern bool eo_life_verdict_read(EoStore *store, const EoHistory *history, const uint8 *id,
								 EoLifeVerdict *verdict, EoError *error);

/*
 * The same for a session that has met the life in a record: if the life is an EO_LIFE_OTHER
 * the worker looks after it from now on.  If the worker is about to retire the life, this
 * waits for that for a second.  Needs a transaction.
 */
extern bool eo_life_verdict_watch(EoStore *store, const uint8 *id, EoLifeVerdict *verdict,
								  EoError *error);

/*
 * A life was retired by this heir, which is over for us in turn.  Do we inherit the life?  Not
 * if the heir is none of our history and was closed: that says only that nothing of the heir is
 * left, and its successors may go on.
 */
extern bool eo_life_verdict_passes_on(const EoHistory *history, const uint8 *heir, bool closed);

/* Does a list of ancestors, as an item has it, lead into this history? */
extern bool eo_life_verdict_leads_into(const EoHistory *history, const char *ancestors);

#endif							/* EO_LEDGER_LIFE_VERDICT_H */
