/*
 * crypto_test.c
 *	  Digests, MACs and scrypt, against published values; and no key of a MAC, and
 *	  nothing that is as good as one, stays in OpenSSL's memory.
 */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "wire/crypto.h"
#include "wire/hex.h"
#include "unit.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>

static EoCrypto *crypto;

/* ----- OpenSSL's memory ----- */

#define BLOCK 64
#define MAX_PIECES 200000

static struct
{
	unsigned char *at;
	size_t		len;
}			pieces[MAX_PIECES];

/* What must not be found there; the memory is looked at when it is freed, too. */
static const void *wanted;
static size_t wanted_len;
static int	found;

static void
look(const unsigned char *at, size_t len)
{
	if (wanted != NULL && memmem(at, len, wanted, wanted_len) != NULL)
		found++;
}

static void *
allocate(size_t len, const char *file, int line)
{
	void	   *p = malloc(len);
	int			i = 0;

	(void) file;
	(void) line;
	while (p != NULL && i < MAX_PIECES && pieces[i].at != NULL)
		i++;
	if (p == NULL || i == MAX_PIECES)
		abort();
	pieces[i].at = p;
	pieces[i].len = len;
	return p;
}

static void
release(void *p, const char *file, int line)
{
	(void) file;
	(void) line;
	for (int i = 0; p != NULL && i < MAX_PIECES; i++)
	{
		if (pieces[i].at != p)
			continue;
		look(p, pieces[i].len);
		pieces[i].at = NULL;
		break;
	}
	free(p);
}

static void *
resize(void *p, size_t len, const char *file, int line)
{
	void	   *larger = allocate(len, file, line);

	for (int i = 0; p != NULL && i < MAX_PIECES; i++)
	{
		if (pieces[i].at == p)
			memcpy(larger, p, pieces[i].len < len ? pieces[i].len : len);
	}
	release(p, file, line);
	return larger;
}

static void
begin_look(const void *secret, size_t len)
{
	wanted = secret;
	wanted_len = len;
	found = 0;
}

static void
is_nowhere(const char *what)
{
	for (int i = 0; i < MAX_PIECES; i++)
	{
		if (pieces[i].at != NULL)
			look(pieces[i].at, pieces[i].len);
	}
	ok(found == 0, what);
	wanted = NULL;
}

/* The state of a digest behind the padded key; whoever has it can make MACs. */
static void
state_behind(const unsigned char *key, unsigned char pad, SHA256_CTX *state)
{
	unsigned char block[BLOCK];

	for (int i = 0; i < BLOCK; i++)
		block[i] = key[i] ^ pad;
	SHA256_Init(state);
	SHA256_Update(state, block, sizeof(block));
}

static void
nothing_stays(void)
{
	static const unsigned char key[BLOCK] = "the key of a day, of 32 bytes...";
	unsigned char block[BLOCK];
	unsigned char mac[EO_SHA256_LEN];
	uint32_t	words[8];
	SHA256_CTX	state;

	ok(eo_crypto_keep_key(crypto, key, 32) == EO_OK, "a key of 32 bytes is kept");
	for (int kept = 0; kept < 2; kept++)
	{
		const char *how = kept ? "kept" : "passed";
		char		what[100];

#define MAKE_MAC() (kept ? eo_crypto_hmac_sha256_kept(crypto, "data", 4, mac) : \
					eo_crypto_hmac_sha256(crypto, key, 32, "data", 4, mac))
#define CHECK(secret, len, name) \
		do { \
			begin_look(secret, len); \
			ok(MAKE_MAC() == EO_OK, "a MAC"); \
			snprintf(what, sizeof(what), "a key that is %s: %s is not in OpenSSL's memory", how, name); \
			is_nowhere(what); \
		} while (0)

		CHECK(key, 32, "it");
		for (int i = 0; i < BLOCK; i++)
			block[i] = key[i] ^ 0x36;
		CHECK(block, 32, "its inner padding");
		for (int i = 0; i < BLOCK; i++)
			block[i] = key[i] ^ 0x5c;
		CHECK(block, 32, "its outer padding");
		state_behind(key, 0x36, &state);
		CHECK(state.h, sizeof(state.h), "the inner state");
		state_behind(key, 0x5c, &state);
		CHECK(state.h, sizeof(state.h), "the outer state");
	}

	/* The MAC of a key that is passed may be the next key. */
	ok(eo_crypto_hmac_sha256(crypto, key, 32, "data", 4, mac) == EO_OK, "a MAC");
	for (int i = 0; i < 8; i++)
		words[i] = (uint32_t) mac[4 * i] << 24 | (uint32_t) mac[4 * i + 1] << 16 |
			(uint32_t) mac[4 * i + 2] << 8 | mac[4 * i + 3];
	begin_look(words, sizeof(words));
	is_nowhere("the MAC, as a state, is not in OpenSSL's memory");
	begin_look(mac, sizeof(mac));
	is_nowhere("nor as bytes");
}

/* ----- values ----- */

static void
hmacs(const char *key, size_t key_len, const char *data, const char *expected, const char *what)
{
	unsigned char mac[EO_SHA256_LEN];
	char		hex[EO_SHA256_HEX_LEN + 1];

	ok(eo_crypto_hmac_sha256(crypto, key, key_len, data, strlen(data), mac) == EO_OK, what);
	eo_hex_put(mac, sizeof(mac), hex);
	is_string(hex, expected, what);
}

static void
kept_key(void)
{
	unsigned char mac[EO_SHA256_LEN];
	char		hex[EO_SHA256_HEX_LEN + 1];

	ok(eo_crypto_keep_key(crypto, "Jefe", 4) == EO_OK, "a key is kept");
	hmacs("another", 7, "", "6b7a1089c15f47cfee8ae184abfc4684c256703d7ef84040c5827d2ee2282ace",
		  "another in between");
	ok(eo_crypto_hmac_sha256_kept(crypto, "what do ya want for nothing?", 28, mac) == EO_OK, "and used");
	eo_hex_put(mac, sizeof(mac), hex);
	is_string(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", "still the first");
}

int
main(void)
{
	unsigned char out[64];
	char		hex[129];
	char		long_key[131];

	ok(CRYPTO_set_mem_functions(allocate, resize, release) == 1, "OpenSSL's memory can be watched");
	crypto = eo_crypto_create();
	ok(crypto != NULL, "algorithms and contexts");

	/* FIPS 180-4's example */
	ok(eo_crypto_sha256_hex(crypto, "abc", 3, hex) == EO_OK, "SHA-256");
	is_string(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "of \"abc\"");

	/* RFC 4231, test cases 1, 2 and 6, and an empty key */
	hmacs("\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b", 20, "Hi There",
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", "RFC 4231, case 1");
	hmacs("Jefe", 4, "what do ya want for nothing?",
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", "RFC 4231, case 2");
	memset(long_key, 0xaa, sizeof(long_key));
	hmacs(long_key, sizeof(long_key), "Test Using Larger Than Block-Size Key - Hash Key First",
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", "RFC 4231, case 6");
	hmacs("", 0, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad", "an empty key");
	kept_key();
	nothing_stays();

	/* RFC 7914, section 12, the third vector */
	ok(eo_crypto_scrypt("pleaseletmein", 13, "SodiumChloride", 14, out, sizeof(out)) == EO_OK, "scrypt");
	eo_hex_put(out, sizeof(out), hex);
	is_string(hex, "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
			  "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887", "RFC 7914, section 12");

	ok(eo_crypto_same("abc", "abc", 3) && !eo_crypto_same("abc", "abd", 3) &&
	   !eo_crypto_same("abc", "xbc", 3), "secrets are compared to the end");
	eo_crypto_free(crypto);
	eo_crypto_free(NULL);
	return done();
}
