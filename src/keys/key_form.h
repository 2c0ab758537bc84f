/*-------------------------------------------------------------------------
 *
 * key_form.h
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
 *	 f LEN:DIGITS	   double precision: the fewest digits that lie between the
 *					   value and half the way to its neighbours (the halfway
 *					   points themselves do not count, so that some values from
 *					   2^53 on have a digit more than other languages give them),
 *					   of those the nearest, of two as near the even one; from 0.0001 to below 1e15
 *					   without exponent, otherwise as 1.5e+22 or 1e-05 (a sign,
 *					   two digits or more); minus zero is 0; NaN, Infinity,
 *					   -Infinity.  real: its fewest digits among the reals, by
 *					   the same rule, read as a double and written as that
 *	 t LEN:BYTES	   text, varchar, char(n) without its padding, name, enum labels
 *	 x LEN:HEX		   bytea, lower-case hexadecimal
 *	 u 36:TEXT		   uuid, lower case
 *	 d LEN:TEXT		   date, YYYY-MM-DD, years of four digits or more; those BC
 *					   are counted from 1 and end in " BC"
 *	 s LEN:TEXT		   timestamp, YYYY-MM-DDTHH:MM:SS[.ffffff without trailing
 *					   zeros], " BC" at the end
 *	 z LEN:TEXT		   timestamptz, the same in UTC with a final Z, after " BC"
 *					   (d, s and z: also infinity and -infinity, as they are)
 *	 j LEN:FORM		   jsonb, where FORM is built of 0, b, n and t as above,
 *					   "a" COUNT ":" elements, and "o" COUNT ":" followed by a t
 *					   and a value for each member, sorted by length of the name
 *					   in bytes and then bytewise, as the database's encoding
 *					   has it; of members of one name the last counts
 *
 * (The blank after the tag above is for reading; there is none.)  A domain is
 * spelled as what it is based on.  The length before the bytes keeps
 * ("ab","c") apart from ("a","bc").
 *
 * A key is the SHA-256, in lower-case hexadecimal, of "exactonce key 1", a line
 * feed and the values one after the other.  idem_key_from makes one value of
 * each path: the j of an array of all it selects, or 0 if that is nothing.  The
 * fingerprint of a payload is the key of its j alone.  So idem_key('ab', 7) is
 * the SHA-256 of "exactonce key 1\nt2:abn1:7".
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_KEY_FORM_H
#define EO_KEYS_KEY_FORM_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/* Append one value; raises 0A000 for a type that has no form. */
extern void eo_key_form_append(StringInfo out, Oid type, Datum value, bool isnull);

/* SHA-256 of a version tag and the parts: 64 hexadecimal digits, palloc'd. */
extern char *eo_key_form_digest(const StringInfo parts);

/* The fingerprint of a payload: the digest of it as the only part. */
extern void eo_key_form_fingerprint(Jsonb *payload, char hex[65]);

#endif							/* EO_KEYS_KEY_FORM_H */
