/*-------------------------------------------------------------------------
 *
 * canonical.h
 *	  One text per value, whatever the session's settings.
 *
 * The canonical form, exactly enough to write it in another language.  A value
 * is a tag, the length of what follows in bytes (decimal), a colon, and the
 * bytes, all UTF-8:
 *
 *	 0				   null, without length and colon
 *	 b 1:t	 b 1:f	   boolean
 *	 n LEN:DIGITS	   smallint, integer, bigint, numeric: decimal, no exponent,
 *					   no trailing zeros after the point; NaN, Infinity, -Infinity
 *	 f LEN:DIGITS	   real, double precision: the shortest text that reads back
 *					   the same, as PostgreSQL writes it; minus zero is 0
 *	 t LEN:BYTES	   text, varchar, char(n) without its padding, name, enum labels
 *	 x LEN:HEX		   bytea, lower-case hexadecimal
 *	 u 36:TEXT		   uuid, lower case
 *	 d LEN:TEXT		   date, YYYY-MM-DD; infinity, -infinity; years BC end in " BC"
 *	 s LEN:TEXT		   timestamp, YYYY-MM-DDTHH:MM:SS[.ffffff without trailing zeros]
 *	 z LEN:TEXT		   timestamptz, the same in UTC with a final Z
 *	 j LEN:FORM		   jsonb, where FORM is built of 0, b, n and t as above,
 *					   "a" COUNT ":" elements, and "o" COUNT ":" followed by a t
 *					   and a value for each member, sorted by length of the name
 *					   in bytes and then bytewise
 *
 * (The blank after the tag above is for reading; there is none.)  The length
 * before the bytes keeps ("ab","c") apart from ("a","bc").
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_CANONICAL_H
#define EO_CANONICAL_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/* Append one value; raises 0A000 for a type that has no form. */
extern void eo_canonical_append(StringInfo out, Oid type, Datum value, bool isnull);

/* SHA-256 of a version tag and the parts: 64 hexadecimal digits, palloc'd. */
extern char *eo_canonical_digest(const StringInfo parts);

/* The fingerprint of a payload: the digest of it as the only part. */
extern void eo_payload_fingerprint(Jsonb *payload, char hex[65]);

#endif							/* EO_CANONICAL_H */
