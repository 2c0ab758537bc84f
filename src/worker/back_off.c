/*-------------------------------------------------------------------------
 *
 * back_off.c
 *	  The claims of a worker whose requests have failed, by their tokens.
 *
 * A claim that fails is put off by itself, each time for twice as long.  The longest
 * pause depends on how many claims fail: a few are tried again every few seconds, and
 * many do not take the time of those that have not been tried yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "records/token.h"
#include "utils/hsearch.h"
#include "worker/back_off.h"

/* Longer than the pause of the target, so that other claims are tried before it. */
#define FIRST_PAUSE_US INT64CONST(2000000)

/* The longest pause: so much for each claim that fails, within these bounds. */
#define PAUSE_PER_FAILURE_US INT64CONST(200000)
#define MIN_LONGEST_US INT64CONST(5000000)
#define MAX_LONGEST_US INT64CONST(60000000)

/* If there are more they are all forgotten, and begin with short pauses again. */
#define MAX_FAILURES 20000

typedef struct Failure
{
	char		token[EO_TOKEN_LEN + 1];	/* hash key */
	int64		pause_us;		/* the last pause */
} Failure;

static struct
{
	MemoryContext context;
	HTAB	   *table;
}			failures;

static void
make_table(void)
{
	HASHCTL		ctl = {.keysize = EO_TOKEN_LEN + 1,.entrysize = sizeof(Failure)};

	ctl.hcxt = failures.context;
	failures.table = hash_create("exactonce failures", 64, &ctl,
								 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

void
eo_back_off_init(MemoryContext context)
{
	failures.context = context;
	make_table();
}

int64
eo_back_off_add(const char *token)
{
	Failure    *failure;
	bool		found;
	int64		longest_us;

	if (hash_get_num_entries(failures.table) >= MAX_FAILURES)
	{
		hash_destroy(failures.table);
		make_table();
	}
	failure = hash_search(failures.table, token, HASH_ENTER, &found);
	longest_us = hash_get_num_entries(failures.table) * PAUSE_PER_FAILURE_US;
	longest_us = Max(MIN_LONGEST_US, Min(MAX_LONGEST_US, longest_us));
	failure->pause_us = found ? Min(2 * failure->pause_us, longest_us) : FIRST_PAUSE_US;
	return failure->pause_us;
}

bool
eo_back_off_exists(const char *token)
{
	return hash_search(failures.table, token, HASH_FIND, NULL) != NULL;
}

void
eo_back_off_forget(const char *token)
{
	(void) hash_search(failures.table, token, HASH_REMOVE, NULL);
}
