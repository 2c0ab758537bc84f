/*-------------------------------------------------------------------------
 *
 * xml_test.c
 *	  The answers of STS: what is read of them, and what is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/xml.h"
#include "unit.h"

static char a[16];
static char b[16];

static EoStatus
read_two(const char *text)
{
	EoXmlWanted wanted[2] = {{"R/S/A", a, sizeof(a)}, {"R/S/B", b, sizeof(b)}};

	return eo_xml_read(text, strlen(text), wanted, 2);
}

int
main(void)
{
	static const char *const refused[] = {
		"", " ", "x", "<R>", "<R></S>", "<R><S></R></S>", "</R>", "<R></R><R></R>", "<R></R>x",
		"<R/><R/>", "<!DOCTYPE R><R/>", "<R><!-- c --></R>", "<R><![CDATA[x]]></R>", "<R><?pi?></R>",
		"<R>&#65;</R>", "<R>&x;</R>", "<R>&amp</R>", "<R a='<'/>", "<R a='x/>", "<R", "< R/>", "<1/>",
		"<?xml version='1.0'><R/>", "<R><S><A>1</A><A>2</A></S></R>", "<R><S><A>1<C/></A></S></R>"
	};

	ok(read_two("<?xml version=\"1.0\"?>\n<R xmlns=\"https://x/y\">\n<S><A>one</A><B/><C>three</C></S>\n</R>\n")
	   == EO_OK, "an answer is read");
	is_string(a, "one", "the text of an element");
	is_string(b, "", "an empty element has no text");
	ok(read_two("<R><S><A>&lt;&amp;&gt;&quot;&apos;</A></S></R>") == EO_OK, "predefined references are read");
	is_string(a, "<&>\"'", "and stand for their characters");
	ok(read_two("<R><A>1</A><S><X><A>2</A></X></S></R>") == EO_OK && a[0] == '\0',
	   "an element counts at its path only");
	ok(read_two("<R><S><A>0123456789abcdef</A></S></R>") == EO_TOO_LARGE, "a text that does not fit is refused");
	ok(read_two("<a><a><a><a><a><a><a><a><a>") == EO_TOO_LARGE, "deep nesting is refused");
	ok(eo_xml_read("<R>\0</R>", 8, NULL, 0) == EO_INVALID, "a NUL is refused");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		ok(read_two(refused[i]) == EO_INVALID, refused[i]);
	return done();
}
