/*-------------------------------------------------------------------------
 *
 * hex.h
 *	  Bytes and UUIDs as hexadecimal text.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_HEX_H
#define EO_WIRE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EO_UUID_LEN 16			/* bytes */
#define EO_UUID_TEXT_LEN 36		/* without the NUL */

/* Write bytes in lower case; hex has room for 2 * len + 1. */
extern void eo_hex_put(const unsigned char *bytes, size_t len, char *hex);

/* Write a UUID as RFC 9562 spells it; text has room for EO_UUID_TEXT_LEN + 1. */
extern void eo_hex_put_uuid(const uint8_t *uuid, char *text);

/*
 * Read a UUID at the beginning of a text.  Returns false unless it is spelled as
 * eo_hex_put_uuid() does; the text may end anywhere.
 */
extern bool eo_hex_read_uuid(const char *text, uint8_t *uuid);

#endif							/* EO_WIRE_HEX_H */
