/*-------------------------------------------------------------------------
 *
 * kept.h
 *	  Claims that have outlived their transactions, for the view exactonce_claims.
 *
 * Nothing is decided by them.  Nothing here raises an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_KEPT_H
#define EO_CLUSTER_KEPT_H

#include "postgres.h"

#include "records/token.h"

/* Longer keys are cut. */
#define EO_KEPT_KEY_BYTES 512

/* A claim without a transaction; it lasts until its lease ends. */
typedef struct EoKept
{
	Oid			dboid;
	Oid			serverid;
	Oid			userid;
	int			pid;			/* of the session that made it */
	int64		since_us;		/* monotonic clock: when it was made */
	int64		until_us;		/* and when its lease ends */
	int64		lease_until_ms; /* the same by the service's clock */
	int64		fence;
	int64		runs;
	char		token[EO_TOKEN_LEN + 1];
	char		table[256];
	char		pk[EO_KEPT_KEY_BYTES + 1];	/* UTF-8 */
} EoKept;

/* Bytes of shared memory; and set them up, in the startup hook. */
extern Size eo_kept_shmem_size(void);
extern void eo_kept_shmem_init(void);

extern void eo_kept_enter(const EoKept *kept);

/* The claim with that token was settled, or goes on in another transaction. */
extern void eo_kept_remove(const char *token);

/* Its lease was extended. */
extern void eo_kept_extended(const char *token, int64 lease_until_ms, int64 until_us);

/* Forget those of a database that was dropped. */
extern void eo_kept_drop_database(Oid dboid);

/* Walk through the claims whose leases have not ended. */
extern bool eo_kept_walk(uint32 *cursor, EoKept *kept);

#endif							/* EO_CLUSTER_KEPT_H */
