/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Text between the encoding of the database and UTF-8, which DynamoDB holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_TEXT_H
#define EO_SERVER_TEXT_H

#include "postgres.h"

/* Text as DynamoDB holds it, UTF-8, and back; raise if that cannot be. */
extern char *eo_text_to_utf8(const char *s);
extern char *eo_text_from_utf8(const char *s);

/*
 * Back, come what may: what this encoding does not have is spelled \uXXXX, as in
 * JSON, and *exact is false.
 */
extern char *eo_text_from_utf8_or_escape(const char *s, bool *exact);

#endif							/* EO_SERVER_TEXT_H */
