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

#include "fmgr.h"

/* A palloc'd copy; NULL of NULL. */
extern char *eo_text_copy(const char *s);

/* Are two texts the same?  NULL is the same as NULL only. */
extern bool eo_text_is_same(const char *a, const char *b);

/*
 * The application_name of this session for the attribute "holder" of a record, as
 * printable ASCII of at most EO_MAX_HOLDER_BYTES, palloc'd; NULL: it is empty.
 */
extern char *eo_text_holder(void);

/*
 * A key, or the id of an action, as messages and views may show it: s itself, or by
 * exactonce.log_keys a digest of it, palloc'd.  s is in the encoding of the database.
 * Every message that names a key or an action shows what this returns.
 */
extern const char *eo_text_key_shown(const char *s);

/*
 * The same of a key in UTF-8, which may be one of another database: of a key that the
 * encoding of this database cannot express, the characters outside ASCII are escaped.
 */
extern const char *eo_text_utf8_key_shown(const char *utf8);

/*
 * From the encoding of the database to UTF-8, and back.  Returns s itself where
 * nothing is to be converted, else a palloc'd string.  Raises if s is not valid
 * in its encoding or cannot be expressed in the other one.
 */
extern char *eo_text_to_utf8(const char *s);
extern char *eo_text_from_utf8(const char *s);

/* As eo_text_to_utf8(), of *len bytes without a NUL; sets *len to the length in UTF-8. */
extern char *eo_text_bytes_to_utf8(const char *s, size_t *len);

/*
 * As eo_text_from_utf8(), but if the encoding of the database lacks a character,
 * every character outside ASCII is written as \uXXXX, as in JSON, and *exact is
 * false.
 */
extern char *eo_text_from_utf8_or_escape(const char *s, bool *exact);

/*
 * Read a text by the input function of a type: false if it raised an error of its data
 * (SQLSTATE class 22 or 54); any other error is raised again.  The function must leave
 * nothing behind that only an abort undoes.
 */
extern bool eo_text_try_input(PGFunction input, const char *text, Datum *value);

#endif							/* EO_SERVER_TEXT_H */
