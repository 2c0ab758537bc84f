/*-------------------------------------------------------------------------
 *
 * layout.h
 *	  How the records of a table are spelled: names, words and forms.
 *
 * The layout "native" is the one of docs/records.md.  The other layouts are those of
 * tables that other libraries and services keep: every record there has the attributes
 * that their clients read and write (the shown attributes: status, expiry and, as the
 * table has them, lease and updated), and beside them all that this extension needs,
 * in attributes of its own names with "eo_" before them.  Copies of what was shown
 * last tell whether another client has changed the record since; record.c explains
 * the conditions.
 *
 * A layout is known by its text: its name, followed by ";option=value" for each
 * option that differs from the default of that name.  The text is kept with each
 * claim, so that the record can be found and finished after ALTER or DROP SERVER.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_LAYOUT_H
#define EO_RECORDS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "records/expression.h"
#include "records/timestamps.h"

/* Amazon DynamoDB Developer Guide, "Service, account, and table quotas". */
#define EO_MAX_KEY_BYTES 2048
#define EO_MAX_ITEM_BYTES 409600

/* Longest text of a layout, and longest name of an attribute, in bytes. */
#define EO_MAX_LAYOUT_BYTES 639
#define EO_MAX_NAME_BYTES 64

/* 2100-01-01 00:00:00 UTC: what other clients are shown as an end that they never see. */
#define EO_FAR_S INT64_C(4102444800)

/* The attributes of a record; those from EO_A_STATUS_SHOWN on are not in "native". */
typedef enum EoRecordAttribute
{
	EO_A_KEY,
	EO_A_STATUS,
	EO_A_OWNER,
	EO_A_BIND,
	EO_A_FENCE,
	EO_A_LEASE,
	EO_A_RUNS,
	EO_A_SPARED,
	EO_A_RESULT,
	EO_A_ERROR,
	EO_A_PAYLOAD,
	EO_A_HANDLER,
	EO_A_RETRY,
	EO_A_CREATED,
	EO_A_UPDATED,
	EO_A_ORIGIN,
	EO_A_RETENTION,
	EO_A_HOLDER,
	EO_A_WRITES,				/* how many writes the finish makes beside the
								 * record; absent: none */
	EO_A_UNDONE,				/* origins of the claim's seals that were
								 * undone; absent: none */
	EO_A_PROGRESS,
	EO_A_PROGRESS_NO,
	EO_A_TTL,
	EO_A_STATUS_SHOWN,
	EO_A_EXPIRY_SHOWN,
	EO_A_LEASE_SHOWN,			/* NULL: the table has none */
	EO_A_UPDATED_SHOWN,			/* NULL: the table has none */
	EO_A_STATUS_COPY,
	EO_A_EXPIRY_COPY,
	EO_A_UPDATED_COPY,
	EO_A_EXPIRY_KEPT,			/* of before the seal */
	EO_A_LEASE_KEPT,
	EO_A_UPDATED_KEPT,
	EO_A_SORT_KEY,				/* NULL: the table has none */
	EO_N_ATTRIBUTES
} EoRecordAttribute;

typedef struct EoLayout EoLayout;

/* The values of EoLayout.failed; NULL is the first. */
#define EO_FAILED_RETRY "retry" /* at once */
#define EO_FAILED_AFTER_EXPIRY "after_expiry"
#define EO_FAILED_FINAL "final" /* never, as long as the record counts */

struct EoLayout
{
	char		text[EO_MAX_LAYOUT_BYTES + 1];
	char		values[EO_MAX_LAYOUT_BYTES + 1];	/* of the options in text */
	const char *name;
	EoItemKey	key;
	const char *item_prefix;	/* before the key's text */
	const char *status;			/* name of the status of other clients */
	const char *expiry;			/* name of the TTL attribute */

	/* "native": the rest of the members is not used. */
	bool		is_native;
	const char *lease;
	const char *updated;
	const char *result;
	const char *validation;

	/*
	 * The validation attribute has the hash of the payload that the library
	 * for this runtime makes; NULL: our own fingerprint.
	 */
	const char *runtime;
	const char *holder;
	bool		native_result;	/* in DynamoDB's own types, and not as text */
	EoInstantForm instants;		/* of lease and updated */

	/*
	 * The clients of the table take over what is in progress once updated is
	 * so old; 0: they do not go by it.
	 */
	int64_t		stale_ms;

	/*
	 * When what another client has marked as failed may be claimed: see
	 * below.
	 */
	const char *failed;
	const char *words[4];		/* by EoState; see eo_layout_has_failed() */
	EoAttributeName attributes[EO_N_ATTRIBUTES + 1];
	const char *states[4];		/* by EoState: the words of EO_A_STATUS */
	EoLayout   *next;
	int			users;			/* see eo_layout_keep() */
	uint64_t	number;			/* no other layout of the process has it, or
								 * had it; 0: native */
};

/* Has the layout a word for FAILED?  If not, a failed record is shown as in progress. */
static inline bool
eo_layout_has_failed(const EoLayout *layout)
{
	return strcmp(layout->words[3], layout->words[0]) != 0;
}

/* Is there but one instant, the expiry, which is the end of the lease while in progress? */
static inline bool
eo_layout_has_one_clock(const EoLayout *layout)
{
	return layout->lease == NULL && layout->stale_ms == 0;
}

/* DynamoDB allows a partition key of 2048 bytes, and a sort key of 1024. */
static inline size_t
eo_layout_max_key(const EoLayout *layout)
{
	return layout->key.sort_name != NULL ? 1024 : 2048;
}

/*
 * The layout of a text; NULL: it is none, or no memory.  Unless it is kept, it may be gone when
 * another one has been asked for, but for the last of them.
 */
extern const EoLayout *eo_layout_find(const char *text);

/* Keep a layout until it has been released as often. */
extern void eo_layout_keep(const EoLayout *layout);
extern void eo_layout_release(const EoLayout *layout);

/*
 * Read a text into *layout.  False: *option names the option that is wrong, or is
 * "layout", and *reason is a sentence that says why.  Both are static.
 */
extern bool eo_layout_read(EoLayout *layout, const char *text, const char **option,
						   const char **reason);

/* May an attribute have that name?  False: *reason is a sentence that says why not. */
extern bool eo_layout_is_name(const char *value, const char **reason);

/* The name of an option of layouts, in the order of their text; NULL: there are no more. */
extern const char *eo_layout_option(int i);

/* The one of them that is a duration, in milliseconds in the text. */
#define EO_LAYOUT_STALE_AFTER "stale_after"

/* The names of the layouts, with commas between them. */
extern const char *const eo_layout_names;

#endif							/* EO_RECORDS_LAYOUT_H */
