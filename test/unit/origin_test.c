/*
 * origin_test.c
 *	  Origins there and back, and no text but theirs.
 */
#include "records/origin.h"
#include "unit.h"

#define UUID "00ff10a9-8b7c-4d5e-8f01-23456789abcd"

static bool
reads(const char *text, EoOrigin *origin)
{
	/* An exact copy, so that the sanitizer sees a read past the end. */
	char	   *copy = strdup(text);
	bool		result = eo_origin_read(copy, origin);

	free(copy);
	return result;
}

static void
there_and_back(const EoOrigin *origin, const char *text)
{
	char		written[EO_ORIGIN_LEN + 1];
	EoOrigin	read;

	eo_origin_write(origin, written);
	is_string(written, text, "an origin is written");
	ok(reads(written, &read) && memcmp(read.life, origin->life, EO_UUID_LEN) == 0 &&
	   read.xid == origin->xid &&
	   read.timeline == origin->timeline && read.lsn == origin->lsn, "and read");
}

static void
test_round_trip(void)
{
	static const uint8_t uuid[EO_UUID_LEN] = {
		0x00, 0xff, 0x10, 0xa9, 0x8b, 0x7c, 0x4d, 0x5e,
		0x8f, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd
	};
	EoOrigin	o = {.xid = 0};

	memcpy(o.life, uuid, sizeof(uuid));
	there_and_back(&o, UUID);
	o.xid = 345;
	o.timeline = 6;
	o.lsn = 0x789ABCDEF0;
	there_and_back(&o, UUID "/345/6/789ABCDEF0");
	o.xid = UINT64_MAX;
	o.timeline = UINT32_MAX;
	o.lsn = UINT64_MAX;
	there_and_back(&o, UUID "/18446744073709551615/4294967295/FFFFFFFFFFFFFFFF");
}

/* The seals of a transaction lie between its limits, and those of no other. */
static void
test_limits(void)
{
	static const char *const others[] = {
		UUID "/344/6/789", UUID "/346/6/789", UUID "/34/6/789", UUID "/3450/6/789", UUID,
		"00ff10a9-8b7c-4d5e-8f01-23456789abce/345/6/789"
	};
	char		first[EO_ORIGIN_LEN + 1];
	char		last[EO_ORIGIN_LEN + 1];
	EoOrigin	o = {.xid = 0};

	if (!eo_origin_read(UUID "/345/1/0", &o))
		abort();
	eo_origin_write_limits(o.life, o.xid, first, last);
	ok(strcmp(UUID "/345/1/0", first) > 0 && strcmp(UUID "/345/4294967295/FFFF", last) < 0,
	   "the seals of a transaction");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ok(strcmp(others[i], first) < 0 || strcmp(others[i], last) > 0, others[i]);
}

static void
test_refusals(void)
{
	static const char *const malformed[] = {
		"", "/", UUID "/", UUID "/1", UUID "/1/2", UUID "/1/2/", UUID "/0/2/3",
		"/1/2/3", "0/1/2/3", UUID "1/2/3",
		"00FF10A9-8B7C-4D5E-8F01-23456789ABCD/1/2/3", "00FF10A9-8B7C-4D5E-8F01-23456789ABCD",
		"00ff10a98b7c4d5e8f0123456789abcd/1/2/3", UUID " ", " " UUID,
		" " UUID "/1/2/3", UUID " /1/2/3", UUID "/ 1/2/3", UUID "/1/2/3 ", UUID "/1 /2/3",
		UUID "/1/2/3/", UUID "/1/2/3/4", UUID "//2/3", UUID "/1//3", UUID "/1/2//",
		UUID "/-1/2/3", UUID "/1/-2/3", UUID "/1/2/-3", UUID "/+1/2/3",
		UUID "/01/2/3", UUID "/1/02/3", UUID "/1/2/03", UUID "/1/2/00",
		UUID "/1/2/0x4", UUID "/1/2/4f", UUID "/1/2/G", UUID "/A/2/3", UUID "/1/F/3", UUID "/1e1/2/3",
		UUID "/18446744073709551616/2/3",
		UUID "/1/4294967296/3", UUID "/1/2/10000000000000000",
		UUID "/99999999999999999999999/2/3", UUID "/1/2/FFFFFFFFFFFFFFFFFFFFFFF",
		UUID "/1/2/\xc3\xa9", UUID "-1-2-3"
	};
	EoOrigin	untouched;
	EoOrigin	o;

	memset(&untouched, 7, sizeof(untouched));
	o = untouched;
	ok(!eo_origin_read(NULL, &o), "no text is no origin");
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
		ok(!reads(malformed[i], &o), malformed[i]);
	ok(memcmp(&o, &untouched, sizeof(o)) == 0, "a refused text changes nothing");
}

int
main(void)
{
	test_round_trip();
	test_limits();
	test_refusals();
	return done();
}
