/*-------------------------------------------------------------------------
 *
 * xml.c
 *	  The answers of AWS STS, which are XML.
 *
 * Only what these answers consist of is read: one declaration, elements,
 * attributes, text, and the references that XML predefines (Extensible Markup
 * Language 1.0, sections 2.3 to 4.6).  Comments, CDATA, processing instructions
 * and document types are refused, so there are no entities to expand and nothing
 * to load.  Names are compared as they are written: STS uses no prefixes.
 *
 * Plain C over the caller's buffers, so that test/fuzz can call it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/xml.h"

#include <string.h>

#define MAX_DEPTH 8
#define MAX_PATH 128

typedef struct Reader
{
	const char *p;
	const char *end;
	const EoXmlWanted *wanted;
	int			n;
	unsigned	seen;			/* a bit for each wanted element */
	int			depth;
	char		path[MAX_PATH];
	size_t		starts[MAX_DEPTH];	/* where the name of each level begins */
} Reader;

static EoStatus read_markup(Reader *r);
static EoStatus read_start(Reader *r);
static EoStatus read_end(Reader *r);
static EoStatus read_text(Reader *r);
static bool read_reference(Reader *r, char *c);
static EoStatus note_wanted(Reader *r);
static bool is_blank(char c);
static size_t name_length(const Reader *r);

EoStatus
eo_xml_read(const char *text, size_t len, const EoXmlWanted *wanted, int n)
{
	Reader		r = {.p = text,.end = text + len,.wanted = wanted,.n = n};
	EoStatus	status = EO_OK;
	bool		began = false;

	for (int i = 0; i < n; i++)
		wanted[i].value[0] = '\0';
	if (len >= 5 && memcmp(text, "<?xml", 5) == 0)
	{
		const char *close = memchr(text, '>', len);

		if (close == NULL || close[-1] != '?')
			return EO_INVALID;
		r.p = close + 1;
	}
	while (status == EO_OK && r.p < r.end)
	{
		if (r.depth == 0 && is_blank(*r.p))
			r.p++;
		else if (r.depth == 0 && began)
			status = EO_INVALID;
		else if (*r.p == '<')
		{
			began = true;
			status = read_markup(&r);
		}
		else
			status = r.depth > 0 ? read_text(&r) : EO_INVALID;
	}
	if (status == EO_OK && (!began || r.depth > 0))
		status = EO_INVALID;
	return status;
}

static EoStatus
read_markup(Reader *r)
{
	r->p++;
	if (r->p < r->end && *r->p == '/')
	{
		r->p++;
		return read_end(r);
	}
	return read_start(r);
}

/* After '<': a name, attributes that are skipped, and '>' or "/>". */
static EoStatus
read_start(Reader *r)
{
	size_t		len = name_length(r);
	size_t		at = r->depth > 0 ? strlen(r->path) : 0;
	EoStatus	status;
	bool		empty = false;

	if (len == 0)
		return EO_INVALID;
	if (r->depth == MAX_DEPTH || at + 1 + len + 1 > MAX_PATH)
		return EO_TOO_LARGE;
	r->starts[r->depth++] = at;
	if (at > 0)
		r->path[at++] = '/';
	memcpy(r->path + at, r->p, len);
	r->path[at + len] = '\0';
	r->p += len;
	while (r->p < r->end && *r->p != '>' && !empty)
	{
		if (*r->p == '"' || *r->p == '\'')
		{
			const char *close = memchr(r->p + 1, *r->p, (size_t) (r->end - r->p - 1));

			if (close == NULL || memchr(r->p, '<', (size_t) (close - r->p)) != NULL)
				return EO_INVALID;
			r->p = close + 1;
		}
		else if (*r->p == '<')
			return EO_INVALID;
		else
			empty = *r->p++ == '/';
	}
	if (r->p >= r->end || *r->p != '>')
		return EO_INVALID;
	r->p++;
	status = note_wanted(r);
	if (status == EO_OK && empty)
		r->path[r->starts[--r->depth]] = '\0';
	return status;
}

/* Refuse a wanted element that is there twice, or has elements in it. */
static EoStatus
note_wanted(Reader *r)
{
	for (int i = 0; i < r->n; i++)
	{
		size_t		len = strlen(r->wanted[i].path);

		if (strncmp(r->path, r->wanted[i].path, len) != 0)
			continue;
		if (r->path[len] == '/' || (r->path[len] == '\0' && (r->seen & 1u << i)))
			return EO_INVALID;
		if (r->path[len] == '\0')
			r->seen |= 1u << i;
	}
	return EO_OK;
}

/* After "</": the name of the innermost element, and '>'. */
static EoStatus
read_end(Reader *r)
{
	size_t		len = name_length(r);
	size_t		at;

	if (r->depth == 0)
		return EO_INVALID;
	at = r->starts[r->depth - 1];
	if (r->path[at] == '/')
		at++;
	if (strlen(r->path + at) != len || memcmp(r->path + at, r->p, len) != 0)
		return EO_INVALID;
	r->p += len;
	while (r->p < r->end && is_blank(*r->p))
		r->p++;
	if (r->p >= r->end || *r->p != '>')
		return EO_INVALID;
	r->p++;
	r->path[r->starts[--r->depth]] = '\0';
	return EO_OK;
}

/* Text up to the next '<', into the wanted value if this is one. */
static EoStatus
read_text(Reader *r)
{
	const EoXmlWanted *w = NULL;
	size_t		len = 0;

	for (int i = 0; i < r->n; i++)
	{
		if (strcmp(r->path, r->wanted[i].path) == 0)
			w = &r->wanted[i];
	}
	while (r->p < r->end && *r->p != '<')
	{
		char		c = *r->p;

		if (c != '&')
			r->p++;
		else if (!read_reference(r, &c))
			return EO_INVALID;
		if (c == '\0')
			return EO_INVALID;
		if (w == NULL)
			continue;
		if (len + 1 >= w->size)
			return EO_TOO_LARGE;
		w->value[len++] = c;
		w->value[len] = '\0';
	}
	return EO_OK;
}

/* The five references that are predefined; the reader stands behind it then. */
static bool
read_reference(Reader *r, char *c)
{
	static const struct
	{
		const char *text;
		char		c;
	}			references[] = {
		{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}
	};

	for (int i = 0; i < (int) (sizeof(references) / sizeof(references[0])); i++)
	{
		size_t		len = strlen(references[i].text);

		if ((size_t) (r->end - r->p) < len || memcmp(r->p, references[i].text, len) != 0)
			continue;
		r->p += len;
		*c = references[i].c;
		return true;
	}
	return false;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t
name_length(const Reader *r)
{
	size_t		len = 0;

	while (r->p + len < r->end &&
		   strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.",
				  r->p[len]) != NULL && r->p[len] != '\0')
		len++;
	return len > 0 && strchr("0123456789-.", *r->p) == NULL ? len : 0;
}
