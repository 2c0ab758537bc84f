/*-------------------------------------------------------------------------
 *
 * ini.c
 *	  The shared configuration and credentials files of AWS.
 *
 * Source: "Using shared config and credentials files" (AWS SDKs and Tools Reference
 * Guide).  Where that page leaves something open, files are read as the AWS SDK for
 * JavaScript reads them: a '#' or ';' at the beginning of a line, after a blank or after
 * the bracket of a section begins a comment, the last of two equal settings counts, and
 * the indented lines below a setting without a value belong to that setting.
 *
 * A line that is nothing of this makes the whole file unreadable, as the SDKs' tests of
 * their parsers have it: if the beginning of a section were passed over, its keys would
 * be those of the section above, which belong to somebody else.
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
	bool		is_broken;		/* the line cannot be read */
	bool		has_setting;	/* the section has one, which an indented line
								 * may go on with */
	bool		below;			/* the last setting had no value: indented
								 * lines belong to it */
	Piece		name;			/* of the setting on this line; empty: none */
	Piece		value;
} Scan;

static bool next_line(Scan *scan);
static void read_section(Scan *scan, Piece piece);
static void read_setting(Scan *scan, Piece piece, bool indented);
static bool is_profile(EoIniFile file, Piece section, const char *profile);
static bool has_prefixed(EoIniFile file, const char *profile);
static bool is_prefixed(Piece section, const char *profile);
static Piece trim(const char *p, size_t len);
static bool is(Piece piece, const char *text);
static bool is_blank(char c);

int
eo_ini_broken_line(EoIniFile file)
{
	Scan		scan = {.next = file.text};

	for (int line = 1; next_line(&scan); line++)
	{
		if (scan.is_broken)
			return line;
	}
	return 0;
}

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

	scan->is_section = false;
	scan->is_broken = false;
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
	if (piece.p[0] == '[')
		read_section(scan, piece);
	else
		read_setting(scan, piece, is_blank(line[0]));
	return true;
}

static void
read_section(Scan *scan, Piece piece)
{
	const char *bracket = memchr(piece.p, ']', piece.len);
	Piece		rest = {NULL, 0};

	if (bracket != NULL)
		rest = trim(bracket + 1, piece.len - (size_t) (bracket + 1 - piece.p));
	scan->is_broken = bracket == NULL || (rest.len > 0 && *rest.p != '#' && *rest.p != ';');
	if (scan->is_broken)
		return;
	scan->section = trim(piece.p + 1, (size_t) (bracket - piece.p - 1));
	scan->is_section = true;
	scan->has_setting = false;
	scan->below = false;
}

static void
read_setting(Scan *scan, Piece piece, bool indented)
{
	const char *equals = memchr(piece.p, '=', piece.len);

	if (!indented)
		scan->below = false;
	if (scan->below)
		return;
	if (equals == NULL || equals == piece.p)
	{
		scan->is_broken = !indented || !scan->has_setting;
		return;
	}
	scan->name = trim(piece.p, (size_t) (equals - piece.p));
	scan->value = trim(equals + 1, piece.len - (size_t) (equals + 1 - piece.p));
	scan->below = scan->value.len == 0;
	scan->has_setting = true;
	/* A blank of another alphabet before a name would hide the setting. */
	for (size_t i = 0; i < scan->name.len; i++)
	{
		if (scan->name.p[i] < ' ' || scan->name.p[i] > '~')
			scan->is_broken = true;
	}
}

/* In a configuration file "[profile default]" is preferred to "[default]", as a whole. */
static bool
is_profile(EoIniFile file, Piece section, const char *profile)
{
	if (!file.is_config)
		return is(section, profile);
	if (is(section, "default"))
		return is(section, profile) && !has_prefixed(file, profile);
	return is_prefixed(section, profile);
}

/* Has the file "[profile NAME]" with this name? */
static bool
has_prefixed(EoIniFile file, const char *profile)
{
	Scan		scan = {.next = file.text};

	while (next_line(&scan))
	{
		if (scan.is_section && is_prefixed(scan.section, profile))
			return true;
	}
	return false;
}

static bool
is_prefixed(Piece section, const char *profile)
{
	static const char prefix[] = "profile";
	size_t		len = sizeof(prefix) - 1;

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
