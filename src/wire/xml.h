/*-------------------------------------------------------------------------
 *
 * xml.h
 *	  The answers of AWS STS, which are XML.
 *
 * Compiles without a server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_DYNAMODB_XML_H
#define EO_DYNAMODB_XML_H

#include "wire/status.h"

/* A text that is looked for.  The value is always terminated. */
typedef struct EoXmlWanted
{
	const char *path;			/* names from the root, with '/' between them */
	char	   *value;			/* "" if there is no such element */
	size_t		size;			/* of value, with the NUL */
} EoXmlWanted;

/*
 * Read a document, and copy the texts of the n wanted elements.  EO_INVALID: the bytes
 * are not a well-formed document of elements and text, or an element that is wanted
 * is there twice or has elements in it.  EO_TOO_LARGE: a text does not fit, or
 * elements are nested too deeply.
 */
extern EoStatus eo_xml_read(const char *text, size_t len, const EoXmlWanted *wanted,
							int n) EO_MUST_CHECK;

#endif							/* EO_DYNAMODB_XML_H */
