/*-------------------------------------------------------------------------
 *
 * crypto.c
 *	  Digests, MACs and the stretching of PINs.
 *
 * The only file that includes OpenSSL.  With OpenSSL 3 it is slow to fetch an
 * algorithm, not to run it.  So the digest and the MAC are fetched once and their
 * contexts are reused.  scrypt is slow by design, and is fetched every time.
 *
 * OpenSSL has a key only while it computes a MAC; between calls the key that is kept
 * is in memory of secret.c.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "dynamodb/hex.h"
#include "dynamodb/secret.h"
#include "dynamodb/status.h"

/* Limit of scrypt's memory: twice the 128 * N * r bytes that it needs. */
#define SCRYPT_MAX_MEMORY (UINT64_C(256) * EO_SCRYPT_N * EO_SCRYPT_R)

struct EoCrypto
{
	EVP_MD	   *sha256;
	EVP_MD_CTX *digest;
	EVP_MAC    *hmac;
	EVP_MAC_CTX *mac;			/* holds a key during a MAC only */
	unsigned char *kept;		/* the key of eo_crypto_keep_key() */
	size_t		kept_len;
};

EoCrypto *
eo_crypto_create(void)
{
	EoCrypto   *c = calloc(1, sizeof(EoCrypto));
	OSSL_PARAM	params[2];
	char		digest[] = "SHA256";

	if (c == NULL)
		return NULL;
	params[0] = OSSL_PARAM_construct_utf8_string("digest", digest, 0);
	params[1] = OSSL_PARAM_construct_end();
	c->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	c->digest = EVP_MD_CTX_new();
	c->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (c->hmac != NULL)
		c->mac = EVP_MAC_CTX_new(c->hmac);
	c->kept = eo_secret_alloc(EO_SHA256_LEN);
	if (c->sha256 == NULL || c->digest == NULL || c->mac == NULL || c->kept == NULL ||
		!EVP_MAC_CTX_set_params(c->mac, params))
	{
		eo_crypto_free(c);
		return NULL;
	}
	return c;
}

void
eo_crypto_free(EoCrypto *c)
{
	if (c == NULL)
		return;
	eo_secret_free(c->kept);
	EVP_MAC_CTX_free(c->mac);
	EVP_MAC_free(c->hmac);
	EVP_MD_CTX_free(c->digest);
	EVP_MD_free(c->sha256);
	free(c);
}

EoStatus
eo_crypto_sha256_hex(EoCrypto *c, const void *data, size_t len, char hex[EO_SHA256_HEX_LEN + 1])
{
	unsigned char md[EO_SHA256_LEN];

	if (!EVP_DigestInit_ex2(c->digest, c->sha256, NULL) ||
		!EVP_DigestUpdate(c->digest, data, len) ||
		!EVP_DigestFinal_ex(c->digest, md, NULL))
		return EO_CRYPTO;
	eo_hex_put(md, sizeof(md), hex);
	return EO_OK;
}

EoStatus
eo_crypto_hmac_sha256(EoCrypto *c, const void *key, size_t key_len, const void *data, size_t len,
					  unsigned char mac[EO_SHA256_LEN])
{
	/*
	 * An empty key is valid (RFC 2104), and means the same as one of zero
	 * bytes. It is passed as that, because OpenSSL takes NULL for "the last
	 * key".
	 */
	static const unsigned char none[EO_SHA256_LEN] = {0};
	size_t		n;
	bool		done;

	if (key_len == 0)
	{
		key = none;
		key_len = sizeof(none);
	}
	done = EVP_MAC_init(c->mac, key, key_len, NULL) && EVP_MAC_update(c->mac, data, len) &&
		EVP_MAC_final(c->mac, mac, &n, EO_SHA256_LEN);
	/* Another key overwrites this one, which would stay in OpenSSL's memory. */
	done &= EVP_MAC_init(c->mac, none, sizeof(none), NULL);
	return done ? EO_OK : EO_CRYPTO;
}

EoStatus
eo_crypto_keep_key(EoCrypto *c, const void *key, size_t key_len)
{
	if (key_len > EO_SHA256_LEN)
		return EO_CRYPTO;
	memcpy(c->kept, key, key_len);
	c->kept_len = key_len;
	return EO_OK;
}

EoStatus
eo_crypto_hmac_sha256_kept(EoCrypto *c, const void *data, size_t len,
						   unsigned char mac[EO_SHA256_LEN])
{
	return eo_crypto_hmac_sha256(c, c->kept, c->kept_len, data, len, mac);
}

EoStatus
eo_crypto_scrypt(const void *password, size_t password_len, const void *salt, size_t salt_len,
				 unsigned char *out, size_t out_len)
{
	return EVP_PBE_scrypt(password, password_len, salt, salt_len, EO_SCRYPT_N, EO_SCRYPT_R,
						  EO_SCRYPT_P, SCRYPT_MAX_MEMORY, out, out_len) == 1 ? EO_OK : EO_CRYPTO;
}

bool
eo_crypto_same(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}

void
eo_crypto_wipe(void *p, size_t len)
{
	if (p != NULL)
		OPENSSL_cleanse(p, len);
}
