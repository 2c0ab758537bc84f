/*-------------------------------------------------------------------------
 *
 * payload.h
 *	  The payload of a call: which parts of it count, and its fingerprint.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SQL_PAYLOAD_H
#define EO_SQL_PAYLOAD_H

#include "postgres.h"

#include "fmgr.h"
#include "server/store.h"
#include "utils/array.h"
#include "utils/jsonb.h"

/* The paths that select the parts that count; none: the whole payload does. */
typedef struct EoCompare
{
	Datum	   *paths;			/* of jsonpath */
	int			n;
} EoCompare;

/*
 * Read argument n of the call.  Raises 22004 for a path that is null, and 22023 for an
 * array of none.
 */
extern void eo_payload_compare(FunctionCallInfo fcinfo, int n, EoCompare *compare);

/*
 * The fingerprint of a payload, as the records of a store hold it: where other clients
 * keep a hash of the payload in them, it is theirs.  NULL: there is no payload.  Raises
 * 22004 for a path that selects nothing, and 22023 for paths of which their library
 * makes no hash.
 */
extern char *eo_payload_fingerprint(const EoStore *store, Jsonb *payload,
									const EoCompare *compare);

/* The array of all values that a path selects. */
extern Jsonb *eo_payload_select(Jsonb *payload, Datum path);

/* The paths of an array.  Raises 22004 for one that is null.  Returns their number. */
extern int	eo_payload_paths(ArrayType * array, Datum **paths);

#endif							/* EO_SQL_PAYLOAD_H */
