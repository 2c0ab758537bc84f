/*-------------------------------------------------------------------------
 *
 * powertools_key.h
 *	  Digests of payloads, as Powertools for AWS Lambda makes them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_POWERTOOLS_POWERTOOLS_KEY_H
#define EO_POWERTOOLS_POWERTOOLS_KEY_H

#include "postgres.h"

/*
 * The digest that the library for that runtime makes of a payload: len bytes of JSON
 * in the encoding of the database.  palloc'd.  Raises 22023 for an unknown runtime,
 * 22P05 for a text that the library cannot digest, and what eo_json_tree_parse()
 * raises.
 */
extern char *eo_powertools_key_digest(const char *runtime, const char *payload, size_t len);

#endif							/* EO_POWERTOOLS_POWERTOOLS_KEY_H */
