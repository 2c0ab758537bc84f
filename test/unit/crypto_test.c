/*
 * crypto_test.c
 *	  Digests, MACs and scrypt, against published values.
 */
#include "wire/crypto.h"
#include "wire/hex.h"
#include "unit.h"

static EoCrypto *crypto;

static void
hmacs(const char *key, size_t key_len, const char *data, const char *expected, const char *what)
{
	unsigned char mac[EO_SHA256_LEN];
	char		hex[EO_SHA256_HEX_LEN + 1];

	ok(eo_crypto_hmac_sha256(key, key_len, data, strlen(data), mac) == EO_OK, what);
	eo_hex_put(mac, sizeof(mac), hex);
	is_string(hex, expected, what);
}

static void
kept_key(void)
{
	unsigned char mac[EO_SHA256_LEN];
	char		hex[EO_SHA256_HEX_LEN + 1];

	ok(eo_crypto_hmac_sha256_kept(crypto, "data", 4, mac) == EO_CRYPTO, "without a key there is no MAC");
	ok(eo_crypto_keep_key(crypto, "another", 7) == EO_OK && eo_crypto_keep_key(crypto, "Jefe", 4) == EO_OK,
	   "the last key is kept");
	hmacs("another", 7, "", "6b7a1089c15f47cfee8ae184abfc4684c256703d7ef84040c5827d2ee2282ace",
		  "another in between");
	for (int i = 0; i < 2; i++)
	{
		ok(eo_crypto_hmac_sha256_kept(crypto, "what do ya want for nothing?", 28, mac) == EO_OK, "and used");
		eo_hex_put(mac, sizeof(mac), hex);
		is_string(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", "each time");
	}
}

int
main(void)
{
	unsigned char out[64];
	char		hex[129];
	char		long_key[131];

	crypto = eo_crypto_create();
	ok(crypto != NULL, "algorithms and contexts");

	/* FIPS 180-4's example */
	ok(eo_crypto_sha256_hex(crypto, "abc", 3, hex) == EO_OK, "SHA-256");
	is_string(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "of \"abc\"");

	ok(eo_crypto_keep_digest(crypto, 7, "ab", 2) == EO_OK, "a digest is kept");
	for (int i = 0; i < 2; i++)
	{
		ok(eo_crypto_sha256_hex_kept(crypto, 7, "c", 1, hex) == EO_OK, "and gone on with");
		is_string(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "each time");
	}

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
