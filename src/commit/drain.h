/*-------------------------------------------------------------------------
 *
 * drain.h
 *	  For an operator: have this database leave nothing to be done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_DRAIN_H
#define EO_COMMIT_DRAIN_H

#include "postgres.h"

/*
 * Bar new claims of this database, and wait until its transactions with claims have
 * ended, what they left is done, and its life is closed.  Returns 0, and new claims
 * stay barred until the server is restarted or eo_drain_end() is called.  If that takes
 * longer than timeout_ms this returns how much is left, and bars new claims no more;
 * nor does it if an error is raised, or the process ends.  Interruptible.
 */
extern int	eo_drain(int64 timeout_ms);
extern void eo_drain_end(void);

#endif							/* EO_COMMIT_DRAIN_H */
