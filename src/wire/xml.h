/*-------------------------------------------------------------------------
 *
 * xml.h
 *	  The answers of AWS STS, which are XML.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_XML_H
#define EO_WIRE_XML_H

#include "wire/status.h"

/* A text that is looked for.  The value is always terminated. */
typedef struct EoXmlWanted
{
	const char *name;			/* of an element without attributes */
	char	   *value;			/* "" if there is no such element */
	size_t		size;			/* of value, with the NUL */
} EoXmlWanted;

/*
 * Copy the texts of the n wanted elements of an answer, wherever they are in it.
 * EO_INVALID: the bytes are not an element of the name root, they have what STS does not
 * use, or an element that is wanted is there twice or has elements in it.
 * EO_TOO_LARGE: a text does not fit.
 */
extern EoStatus eo_xml_read(const char *text, size_t len, const char *root,
							const EoXmlWanted *wanted, int n) EO_MUST_CHECK;

#endif							/* EO_WIRE_XML_H */
