/*-------------------------------------------------------------------------
 *
 * ini.c
 *	  The shared configuration and credentials files of AWS.
 *
 * Source: "Using shared config and credentials files" (AWS SDKs and Tools Reference
 * Guide).  Where that page leaves something open, files are read as the AWS SDK for
 * JavaScript reads them: a '#' or ';' at the beginning of a line or after a blank begins
 * a comment, the last of two equal settings counts, and the indented lines
 * below a setting without a value belong to that setting.
 *
 * Plain C over the caller's text, so that test/fuzz can call it.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/ini.h"

#include <string.h>

/* A piece of the text, without the blanks around it. */
typedef struct Piece
{
	const char *p;
	size_t		len;
} Piece;

typedef struct Scan
{
	const char *next;			/* the line after this one */
	Piece		section;		/* the line is in it */
	bool		is_section;		/* the line begins it */
	bool		below;			/* the last setting had no value: indented
								 * lines belong to it */
	Piece		name;			/* of the setting on this line; empty: none */
	Piece		value;
} Scan;

static bool next_line(Scan *scan);
static bool is_profile(EoIniFile file, Piece section, const char *profile);
static Piece trim(const char *p, size_t len);
static bool is(Piece piece, const char *text);
static bool is_blank(char c);

bool
eo_ini_has(EoIniFile file, const char *profile)
{
	Scan		scan = {.next = file.text};

	while (next_line(&scan))
	{
		if (scan.is_section && is_profile(file, scan.section, profile))
			return true;
	}
	return false;
}

EoStatus
eo_ini_get(EoIniFile file, const char *profile, const char *name, char *value, size_t size)
{
	Scan		scan = {.next = file.text};
	EoStatus	status = EO_OK;

	value[0] = '\0';
	while (next_line(&scan))
	{
		if (!is(scan.name, name) || !is_profile(file, scan.section, profile))
			continue;
		status = scan.value.len < size ? EO_OK : EO_TOO_LARGE;
		if (status != EO_OK)
			continue;
		memcpy(value, scan.value.p, scan.value.len);
		value[scan.value.len] = '\0';
	}
	return status;
}

/* Read the next line; false: there is none. */
static bool
next_line(Scan *scan)
{
	const char *line = scan->next;
	size_t		len;
	size_t		cut;
	Piece		piece;
	const char *equals;

	scan->is_section = false;
	scan->name.len = 0;
	if (line == NULL || *line == '\0')
		return false;
	len = strcspn(line, "\n");
	scan->next = line + len + (line[len] == '\n');
	for (cut = 0; cut < len; cut++)
	{
		if ((line[cut] == '#' || line[cut] == ';') && (cut == 0 || is_blank(line[cut - 1])))
			break;
	}
	piece = trim(line, cut);
	if (piece.len == 0)
		return true;
	if (piece.p[0] == '[' && piece.p[piece.len - 1] == ']')
	{
		scan->section = trim(piece.p + 1, piece.len - 2);
		scan->is_section = true;
		scan->below = false;
		return true;
	}
	if (!is_blank(line[0]))
		scan->below = false;
	equals = memchr(piece.p, '=', piece.len);
	if (equals == NULL || equals == piece.p || scan->below)
		return true;
	scan->name = trim(piece.p, (size_t) (equals - piece.p));
	scan->value = trim(equals + 1, piece.len - (size_t) (equals + 1 - piece.p));
	scan->below = scan->value.len == 0;
	return true;
}

static bool
is_profile(EoIniFile file, Piece section, const char *profile)
{
	static const char prefix[] = "profile";
	size_t		len = sizeof(prefix) - 1;

	if (!file.is_config || is(section, "default"))
		return is(section, profile);
	if (section.len <= len || memcmp(section.p, prefix, len) != 0 || !is_blank(section.p[len]))
		return false;
	section = trim(section.p + len, section.len - len);
	if (section.len >= 2 && (section.p[0] == '"' || section.p[0] == '\'') &&
		section.p[section.len - 1] == section.p[0])
	{
		section.p++;
		section.len -= 2;
	}
	return is(section, profile);
}

static Piece
trim(const char *p, size_t len)
{
	while (len > 0 && is_blank(*p))
	{
		p++;
		len--;
	}
	while (len > 0 && is_blank(p[len - 1]))
		len--;
	return (Piece)
	{
		p, len
	};
}

static bool
is(Piece piece, const char *text)
{
	return piece.len == strlen(text) && memcmp(piece.p, text, piece.len) == 0;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}
