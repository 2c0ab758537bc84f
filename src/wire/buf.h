/*-------------------------------------------------------------------------
 *
 * buf.h
 *	  A growing byte buffer that is born with its maximum.
 *
 * Used wherever bytes are collected outside the server's memory contexts:
 * in libcurl's callbacks, in request bodies, in canonical forms.  Failure
 * is sticky: after the first append that does not fit (or finds no memory)
 * every further one is refused, and eo_buf_status() says why.  So a writer may
 * append without checking, and check once at the end.
 *
 * The contents are always followed by a NUL byte that is not counted.
 * eo_buf_reset() keeps the memory for the next use; eo_buf_free() gives it
 * back.  A zeroed EoBuf with a maximum is valid.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_BUF_H
#define EO_WIRE_BUF_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/status.h"

typedef struct EoBuf
{
	char	   *data;			/* NULL until the first append */
	size_t		len;
	size_t		allocated;
	size_t		max;			/* bytes of content, without the NUL */
	size_t		common;			/* of a request's body: with as many bytes
								 * others begin, too */
	EoStatus	status;			/* EO_OK, EO_TOO_LARGE or EO_NO_MEMORY */
} EoBuf;

static inline void
eo_buf_init(EoBuf *buf, size_t max)
{
	memset(buf, 0, sizeof(*buf));
	buf->max = max;
}

static inline void
eo_buf_reset(EoBuf *buf)
{
	buf->len = buf->common = 0;
	buf->status = EO_OK;
	if (buf->data != NULL)
		buf->data[0] = '\0';
}

static inline void
eo_buf_free(EoBuf *buf)
{
	free(buf->data);
	buf->data = NULL;
	buf->len = buf->allocated = buf->common = 0;
	buf->status = EO_OK;
}

static inline EoStatus
eo_buf_status(const EoBuf *buf)
{
	return buf->status;
}

/* The content as a string; never NULL. */
static inline const char *
eo_buf_str(const EoBuf *buf)
{
	return buf->data != NULL ? buf->data : "";
}

/* Make room for more bytes.  Returns false if there is none: the buffer has failed. */
static inline bool
eo_buf_reserve(EoBuf *buf, size_t more)
{
	size_t		want;
	char	   *data;

	if (buf->status != EO_OK)
		return false;
	if (more > buf->max - buf->len)
	{
		buf->status = EO_TOO_LARGE;
		return false;
	}
	if (buf->len + more < buf->allocated)
		return true;

	/* Doubling keeps a body that arrives in small pieces linear. */
	want = buf->allocated ? buf->allocated * 2 : 256;
	while (want <= buf->len + more)
		want *= 2;
	if (want > buf->max + 1)
		want = buf->max + 1;
	data = malloc(want);
	if (data == NULL)
	{
		buf->status = EO_NO_MEMORY;
		return false;
	}
	/* If realloc moved it, a copy of its secrets would be left behind. */
	data[0] = '\0';
	if (buf->data != NULL)
	{
		memcpy(data, buf->data, buf->len + 1);
		explicit_bzero(buf->data, buf->allocated);
		free(buf->data);
	}
	buf->data = data;
	buf->allocated = want;
	return true;
}

static inline void
eo_buf_add(EoBuf *buf, const void *bytes, size_t n)
{
	if (!eo_buf_reserve(buf, n))
		return;
	if (n > 0)
		memcpy(buf->data + buf->len, bytes, n);
	buf->len += n;
	buf->data[buf->len] = '\0';
}

static inline void
eo_buf_adds(EoBuf *buf, const char *s)
{
	eo_buf_add(buf, s, strlen(s));
}

static inline void
eo_buf_addc(EoBuf *buf, char c)
{
	eo_buf_add(buf, &c, 1);
}

static void eo_buf_addf(EoBuf *buf, const char *fmt,...) EO_PRINTF(2, 3);

static inline void
eo_buf_addf(EoBuf *buf, const char *fmt,...)
{
	va_list		ap;
	int			n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
	{
		buf->status = EO_NO_MEMORY;
		return;
	}
	if (!eo_buf_reserve(buf, (size_t) n))
		return;
	va_start(ap, fmt);
	vsnprintf(buf->data + buf->len, (size_t) n + 1, fmt, ap);
	va_end(ap);
	buf->len += (size_t) n;
}

#endif							/* EO_WIRE_BUF_H */
