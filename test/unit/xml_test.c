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
	EoXmlWanted wanted[2] = {{"A", a, sizeof(a)}, {"B", b, sizeof(b)}};

	return eo_xml_read(text, strlen(text), "R", wanted, 2);
}

int
main(void)
{
	static const char *const refused[] = {
		"", " ", "x", "<R>", "<R", "< R></R>", "<R></S>", "</R>", "<R/>", "<S></S>", "<RR></R>", "<R></RR>", "x<R></R>",
		"<R></R>x", "<!DOCTYPE R><R></R>", "<R><!-- <A>x</A> --></R>", "<R><![CDATA[<A>x</A>]]></R>", "<R><?pi?></R>",
		"<R><A>&#65;</A></R>", "<R><A>&x;</A></R>", "<R><A>&amp</A></R>", "<?xml version='1.0'><R></R>", "<?xml",
		"<R><A>1</A><A>2</A></R>", "<R><A>1</A><X><A>2</A></X></R>", "<R><A>1<C/></A></R>", "<R><A>1</B></R>",
		"<R><A>1</R>", "<R><A>1", "<R><A></R>", "<R><A>1</A ></R>"
	};

	ok(read_two("<?xml version=\"1.0\"?>\n<R xmlns=\"https://x/y\">\n<S><A>one</A><B/><C>three</C></S>\n</R>\n")
	   == EO_OK, "an answer is read");
	is_string(a, "one", "the text of an element");
	is_string(b, "", "an empty element has no text");
	ok(read_two("<R><A></A><AB>x</AB><b>x</b></R>") == EO_OK && a[0] == '\0' && b[0] == '\0', "names are compared as they are");
	ok(read_two("<R><S><A>&lt;&amp;&gt;&quot;&apos;B&gt;</A></S></R>") == EO_OK, "predefined references are read");
	is_string(a, "<&>\"'B>", "and stand for their characters");
	ok(b[0] == '\0', "which are no tags");
	ok(read_two("<R><A>0123456789abcde</A></R>") == EO_OK, "a text that just fits is read");
	ok(read_two("<R><A>0123456789abcdef</A></R>") == EO_TOO_LARGE, "a text that does not fit is refused");
	ok(eo_xml_read("<R>\0</R>", 8, "R", NULL, 0) == EO_INVALID, "a NUL is refused");
	ok(eo_xml_read("<R><A>x</A></R>", 10, "R", NULL, 0) == EO_INVALID, "no more than the text is read");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		ok(read_two(refused[i]) == EO_INVALID, refused[i]);
	return done();
}
