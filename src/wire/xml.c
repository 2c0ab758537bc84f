/*-------------------------------------------------------------------------
 *
 * xml.c
 *	  The answers of AWS STS, which are XML.
 *
 * This is no parser.  What is wanted of these answers are a few elements that have a name
 * of their own, no attributes, and text in them; they are found by their tags.  A '<' in
 * a text is written as a reference, so a tag is nothing else, if there are no comments,
 * CDATA, processing instructions and document types.  STS uses none, and an answer
 * with one is refused.
 *
 * Plain C over the caller's buffers, so that test/fuzz can call it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/xml.h"

#include <stdio.h>
#include <string.h>

#define MAX_TAG 64

static bool is_answer(const char *text, size_t len, const char *root);
static EoStatus read_element(const char *text, size_t len, const EoXmlWanted *wanted);
static bool read_reference(const char **p, const char *end, char *c);
static bool begins(const char *p, const char *end, const char *with);
static const char *find(const char *p, const char *end, const char *what);
static bool is_blank(char c);

EoStatus
eo_xml_read(const char *text, size_t len, const char *root, const EoXmlWanted *wanted, int n)
{
	EoStatus	status = is_answer(text, len, root) ? EO_OK : EO_INVALID;

	for (int i = 0; i < n; i++)
	{
		wanted[i].value[0] = '\0';
		if (status == EO_OK)
			status = read_element(text, len, &wanted[i]);
	}
	return status;
}

/* Is it one element of this name, with nothing around it but a declaration and blanks? */
static bool
is_answer(const char *text, size_t len, const char *root)
{
	const char *p = text;
	const char *end = text + len;
	char		tag[MAX_TAG];
	int			tag_len = snprintf(tag, sizeof(tag), "</%s>", root);

	if (begins(p, end, "<?xml") && (p = find(p, end, "?>")) != NULL)
		p += 2;
	if (p == NULL || memchr(p, '\0', (size_t) (end - p)) != NULL ||
		find(p, end, "<!") != NULL || find(p, end, "<?") != NULL)
		return false;
	while (p < end && is_blank(*p))
		p++;
	while (p < end && is_blank(end[-1]))
		end--;
	if (end - p < tag_len || !begins(end - tag_len, end, tag))
		return false;
	return *p == '<' && begins(p + 1, end, root) &&
		(p[1 + strlen(root)] == '>' || is_blank(p[1 + strlen(root)]));
}

/* Copy the text of an element that is there once or not at all. */
static EoStatus
read_element(const char *text, size_t len, const EoXmlWanted *wanted)
{
	const char *end = text + len;
	char		tag[MAX_TAG];
	size_t		n = 0;
	const char *p;

	snprintf(tag, sizeof(tag), "<%s>", wanted->name);
	p = find(text, end, tag);
	if (p == NULL)
		return EO_OK;
	p += strlen(tag);
	if (find(p, end, tag) != NULL)
		return EO_INVALID;
	while (p < end && *p != '<')
	{
		char		c = *p;

		if (c != '&')
			p++;
		else if (!read_reference(&p, end, &c))
			return EO_INVALID;
		if (n + 1 >= wanted->size)
			return EO_TOO_LARGE;
		wanted->value[n++] = c;
		wanted->value[n] = '\0';
	}
	snprintf(tag, sizeof(tag), "</%s>", wanted->name);
	return begins(p, end, tag) ? EO_OK : EO_INVALID;
}

/* The five references that are predefined (Extensible Markup Language 1.0, section 4.6). */
static bool
read_reference(const char **p, const char *end, char *c)
{
	static const char *const references[] = {"&&amp;", "<&lt;", ">&gt;", "\"&quot;", "'&apos;"};

	for (int i = 0; i < (int) (sizeof(references) / sizeof(references[0])); i++)
	{
		if (!begins(*p, end, references[i] + 1))
			continue;
		*p += strlen(references[i] + 1);
		*c = references[i][0];
		return true;
	}
	return false;
}

static bool
begins(const char *p, const char *end, const char *with)
{
	size_t		len = strlen(with);

	return (size_t) (end - p) >= len && memcmp(p, with, len) == 0;
}

static const char *
find(const char *p, const char *end, const char *what)
{
	return memmem(p, (size_t) (end - p), what, strlen(what));
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
