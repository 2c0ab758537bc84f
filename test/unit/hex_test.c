/*
 * hex_test.c
 *	  Bytes as hexadecimal text, and UUIDs there and back.
 */
#include "wire/hex.h"
#include "unit.h"

#define UUID "00ff10a9-8b7c-4d5e-8f01-23456789abcd"

static bool
reads(const char *text, uint8_t *uuid)
{
	/* An exact copy, so that the sanitizer sees a read past the end. */
	char	   *copy = strdup(text);
	bool		result = eo_hex_read_uuid(copy, uuid);

	free(copy);
	return result;
}

int
main(void)
{
	static const unsigned char bytes[] = {0x00, 0x0f, 0xf0, 0xff, 0xa5};
	char		text[EO_UUID_TEXT_LEN + 1];
	char		hex[11];
	uint8_t		uuid[EO_UUID_LEN];
	bool		refused = true;

	eo_hex_put(bytes, sizeof(bytes), hex);
	is_string(hex, "000ff0ffa5", "bytes");
	eo_hex_put(bytes, 0, hex);
	is_string(hex, "", "no bytes");

	ok(reads(UUID, uuid) && uuid[0] == 0x00 && uuid[1] == 0xff && uuid[15] == 0xcd, "a UUID is read");
	eo_hex_put_uuid(uuid, text);
	is_string(text, UUID, "and written");
	ok(reads(UUID "/1", uuid), "something may follow");
	for (size_t i = 0; i < EO_UUID_TEXT_LEN; i++)
	{
		char		wrong[] = UUID;

		wrong[i] = wrong[i] == '-' ? '0' : '-';
		refused &= !reads(wrong, uuid);
		wrong[i] = 'g';
		refused &= !reads(wrong, uuid);
		wrong[i] = '\0';
		refused &= !reads(wrong, uuid);
	}
	ok(refused, "a UUID with a wrong or missing character is refused");
	ok(!reads("00FF10A9-8B7C-4D5E-8F01-23456789ABCD", uuid), "upper case is refused");
	ok(!reads("00ff10a98b7c4d5e8f0123456789abcd----", uuid), "hyphens elsewhere are refused");
	return done();
}
