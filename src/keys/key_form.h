/*-------------------------------------------------------------------------
 *
 * key_form.h
 *	  The canonical form of values, and the digests that are keys.
 *
 * A value has one canonical form, whatever the settings of the session.  This
 * describes it exactly enough to implement it in another language.  A form is a
 * tag, the length of the text in bytes (decimal), a colon, and the text, in UTF-8:
 *
 *	 0				   null, without length and colon
 *	 b 1:t	 b 1:f	   boolean
 *	 n LEN:DIGITS	   smallint, integer, bigint, numeric: decimal, no exponent,
 *					   no trailing zeros after the point; NaN, Infinity, -Infinity
 *	 f LEN:DIGITS	   double precision: the fewest digits that name a number
 *					   nearer to the value than halfway to each neighbour (the
 *					   halfway points do not count, so that some values from
 *					   2^53 on have one digit more than in other languages);
 *					   of several such numbers the nearest, of two as near the
 *					   even one; without exponent from 0.0001 to below 1e15,
 *					   otherwise as 1.5e+22 or 1e-05 (a sign, and two digits or
 *					   more); minus zero is 0; NaN, Infinity, -Infinity.
 *					   real: the fewest digits among reals by the same rule,
 *					   read as a double, and that written as above
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
 *					   (the name) and a value for each member.  Members are
 *					   sorted by the length of the name in bytes and then
 *					   bytewise, in the database's encoding; of members with the
 *					   same name the last counts
 *
 * (The blank after the tag is for the reader; the form has none.)  A value of a
 * domain has the form of the domain's base type.  Because of the length before the
 * text ("ab","c") differs from ("a","bc").
 *
 * A key is the SHA-256, in lower-case hexadecimal, of "exactonce key 1", a line
 * feed, and the forms of the values one after the other.  idem_key_from() has one
 * value for each path: the j of an array of everything the path selects, or 0 if it
 * selects nothing.  The fingerprint of a payload is the key of its j alone; that of
 * the parts that "compare" selects is the key of idem_key_from().  So
 * idem_key('ab', 7) is the SHA-256 of "exactonce key 1\nt2:abn1:7".
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_KEYS_KEY_FORM_H
#define EO_KEYS_KEY_FORM_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

/*
 * Append the form of one value.  Raises 0A000 for a type that has none, and an error
 * for a text that cannot be expressed in UTF-8.
 */
extern void eo_key_form_append(StringInfo out, Oid type, Datum value, bool isnull);

/* Is it SQL NULL, or a jsonb that is JSON's null? */
extern bool eo_key_form_is_null(Oid type, Datum value, bool isnull);

/* The key of the forms in parts: 64 hexadecimal digits, palloc'd. */
extern char *eo_key_form_digest(const StringInfo parts);

/* The fingerprint of a payload: 64 hexadecimal digits, palloc'd. */
extern char *eo_key_form_fingerprint(Jsonb *payload);

#endif							/* EO_KEYS_KEY_FORM_H */
