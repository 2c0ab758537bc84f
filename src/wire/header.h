/*-------------------------------------------------------------------------
 *
 * header.h
 *	  The value of a header line, and other texts of services.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_HEADER_H
#define EO_WIRE_HEADER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * If the line, which need not be NUL-terminated, is the header of that name,
 * return true and copy its value: printable ASCII only, trimmed, and cut to
 * size - 1 bytes.
 */
extern bool eo_header_value(const char *line, size_t len, const char *name, char *value,
							size_t size);

/* Replace what is not ASCII between first, '!' or ' ', and '~' by question marks. */
extern void eo_header_make_printable(char *text, char first);

/* The number of milliseconds that a value names, at most max; 0 if it names none. */
extern int	eo_header_milliseconds(const char *value, int max);

#endif							/* EO_WIRE_HEADER_H */
