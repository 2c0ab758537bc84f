/*-------------------------------------------------------------------------
 *
 * session_claims.h
 *	  Claims that this session holds: on_commit => 'session'.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_SESSION_CLAIMS_H
#define EO_COMMIT_SESSION_CLAIMS_H

#include "postgres.h"

/* This session is about to make such a claim: have them given back when it ends. */
extern void eo_session_claim_expect(void);

/* Give back what this session holds; claims of an open transaction are not among that. */
extern void eo_session_claims_end(void);

#endif							/* EO_COMMIT_SESSION_CLAIMS_H */
