/*-------------------------------------------------------------------------
 *
 * claim_file.h
 *	  The life of the shared memory: making it, and taking over what the last run
 *	  of the server has left.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CLUSTER_CLAIM_FILE_H
#define EO_CLUSTER_CLAIM_FILE_H

/* In _PG_init: ask for shared memory, and set it up when it is there. */
extern void eo_claim_file_init(void);

#endif							/* EO_CLUSTER_CLAIM_FILE_H */
