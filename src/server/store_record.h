/*-------------------------------------------------------------------------
 *
 * store_record.h
 *	  The verbs on the records of a server.
 *
 * The functions that return an EoAnswer follow answer.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_STORE_RECORD_H
#define EO_SERVER_STORE_RECORD_H

#include "postgres.h"

#include "records/record.h"
#include "server/answer.h"
#include "server/store.h"

/* The kind of the answers that the functions below return. */
extern const EoItemKind eo_store_record_kind;

/* The record of such an answer; its values count only if the answer's exists is true. */
static inline EoRecord *
eo_store_record(const EoAnswer *answer)
{
	Assert(answer->kind == &eo_store_record_kind);
	return answer->item;
}

/*
 * Plan a write, to be run by eo_answer_run(), in a window, or in a bundle.  It is spelled when
 * it is started, so what w points to must live until then.
 */
extern EoAnswer *eo_store_record_plan(EoStore *store, const char *pk, EoVerb verb,
									  const EoWrite *w);

/*
 * The same as the first write of a transaction, before nwrites others in DynamoDB's
 * own JSON.  request_token is a UUID for this very body: the service refuses
 * another body under the same token.  EO_FAILED_CALL with EO_CANCELLED: one of
 * the others was refused, and reasons says which.  An answer that is
 * EO_APPLIED by the reply itself has no record.
 */
extern EoAnswer *eo_store_record_plan_transaction(EoStore *store, const char *pk, EoVerb verb,
												  const EoWrite *w, const char *request_token,
												  const char *writes, int nwrites);

/* Run a write or a consistent read, interruptibly, within request_timeout. */
extern EoAnswer *eo_store_record_write(EoStore *store, const char *pk, EoVerb verb,
									   const EoWrite *w);
extern EoAnswer *eo_store_record_read(EoStore *store, const char *pk);

/* Read a record for a caller who needs none of the parts that eo_list_put_read() leaves out. */
extern EoAnswer *eo_store_record_look(EoStore *store, const char *pk);

#endif							/* EO_SERVER_STORE_RECORD_H */
