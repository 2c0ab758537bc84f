/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Text between the encoding of the database and UTF-8, which DynamoDB holds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "server/text.h"

char *
eo_text_to_utf8(const char *s)
{
	return pg_server_to_any(s, strlen(s), PG_UTF8);
}

char *
eo_text_from_utf8(const char *s)
{
	return pg_any_to_server(s, strlen(s), PG_UTF8);
}

static char *
escape_utf8(const char *s)
{
	StringInfoData out;

	initStringInfo(&out);
	for (const unsigned char *p = (const unsigned char *) s; *p != '\0'; p += pg_utf_mblen(p))
	{
		pg_wchar	c = utf8_to_unicode(p);

		if (c < 0x80)
			appendStringInfoChar(&out, (char) c);
		else if (c < 0x10000)
			appendStringInfo(&out, "\\u%04x", c);
		else
			appendStringInfo(&out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
							 0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	return out.data;
}

char *
eo_text_from_utf8_or_escape(const char *s, bool *exact)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *volatile text = NULL;

	PG_TRY();
	{
		text = eo_text_from_utf8(s);
	}
	PG_CATCH();
	{
		/* A conversion touches nothing, so it needs no abort. */
		if (geterrcode() != ERRCODE_UNTRANSLATABLE_CHARACTER)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	*exact = text != NULL;
	return text != NULL ? text : escape_utf8(s);
}
