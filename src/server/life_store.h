/*-------------------------------------------------------------------------
 *
 * life_store.h
 *	  The verbs on lives in the table of a server.
 *
 * The functions that return an EoAnswer follow answer.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_LIFE_STORE_H
#define EO_SERVER_LIFE_STORE_H

#include "postgres.h"

#include "records/life_item.h"
#include "server/answer.h"
#include "server/store.h"

/* The life of such an answer; its values count only if the answer's exists is true. */
extern EoLifeItem *eo_life_store_item(const EoAnswer *answer);

/*
 * Prepare a write on the life w->life, or a consistent read, to be run.  prefix is in
 * UTF-8 and stands before the life in the partition key.
 */
extern EoAnswer *eo_life_store_prepare_write(EoStore *store, const char *prefix,
											 EoLifeVerb verb, const EoLifeWrite *w);
extern EoAnswer *eo_life_store_prepare_read(EoStore *store, const char *prefix,
											const char *life);

#endif							/* EO_SERVER_LIFE_STORE_H */
