/*
 * buf_test.c
 *	  A buffer that knows its maximum.
 */
#include "wire/buf.h"
#include "unit.h"

int
main(void)
{
	EoBuf		b;

	eo_buf_init(&b, 10);
	is_string(eo_buf_str(&b), "", "an empty buffer is an empty string");
	eo_buf_adds(&b, "12345");
	eo_buf_addc(&b, '6');
	eo_buf_addf(&b, "%d", 78);
	is_string(eo_buf_str(&b), "12345678", "appends add up");
	eo_buf_adds(&b, "90");
	ok(b.len == 10 && eo_buf_status(&b) == EO_OK, "the maximum fits");
	eo_buf_addc(&b, 'x');
	ok(eo_buf_status(&b) == EO_TOO_LARGE, "one more does not");
	is_string(eo_buf_str(&b), "1234567890", "what was there stays");
	eo_buf_adds(&b, "");
	ok(eo_buf_status(&b) == EO_TOO_LARGE, "failure is sticky");
	eo_buf_reset(&b);
	ok(eo_buf_status(&b) == EO_OK && b.len == 0, "until reset");
	eo_buf_addf(&b, "%s", "12345678901");
	ok(eo_buf_status(&b) == EO_TOO_LARGE && b.len == 0, "a format that does not fit adds nothing");
	eo_buf_free(&b);

	eo_buf_init(&b, 1000000);
	for (int i = 0; i < 100000; i++)
		eo_buf_adds(&b, "0123456789");
	ok(b.len == 1000000 && b.data[1000000] == '\0', "grows to a large maximum");
	eo_buf_free(&b);
	eo_buf_init(&b, 0);
	eo_buf_adds(&b, "");
	ok(eo_buf_status(&b) == EO_OK, "nothing fits into nothing");
	eo_buf_addc(&b, 'x');
	ok(eo_buf_status(&b) == EO_TOO_LARGE, "and something does not");
	eo_buf_free(&b);
	return done();
}
