/*-------------------------------------------------------------------------
 *
 * layout_write.h
 *	  What a write shows to the other clients of a table.
 *
 * For layouts other than native, see layout.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_RECORDS_LAYOUT_WRITE_H
#define EO_RECORDS_LAYOUT_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "records/layout.h"
#include "records/timestamps.h"
#include "records/verb.h"

/*
 * The values of the shown attributes.  A record that is sealed without having been
 * claimed before gets the kept ones if its seal is undone.
 */
typedef struct EoShown
{
	const char *status;
	int64_t		expiry_s;		/* where the retention does not decide it */
	EoInstant	lease;
	EoInstant	updated;
	int64_t		kept_expiry_s;
	EoInstant	kept_lease;
	EoInstant	kept_updated;
} EoShown;

/*
 * Fill in what a write that leaves a record in the state after shows.  has_next says
 * that a failed record has the instant of a next try, or none, in w.
 */
extern void eo_layout_write_make(const EoLayout *layout, EoState after, bool has_next,
								 const EoWrite *w, EoShown *shown);

#endif							/* EO_RECORDS_LAYOUT_WRITE_H */
