/*-------------------------------------------------------------------------
 *
 * crypto.h
 *	  Digests, MACs, the stretching of PINs, and whom connections trust.
 *
 * crypto.c is the only file that includes OpenSSL.  Nothing here reads a clock
 * or the environment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_WIRE_CRYPTO_H
#define EO_WIRE_CRYPTO_H

#include "wire/status.h"

#define EO_SHA256_LEN 32
#define EO_SHA256_HEX_LEN 64	/* without the NUL */

/*
 * Keeps between calls the fetched digest, its context, and one key (eo_crypto_keep_key()),
 * which OpenSSL has.  Not thread-safe.
 */
typedef struct EoCrypto EoCrypto;

/* Returns NULL if OpenSSL fails or there is no memory. */
extern EoCrypto *eo_crypto_create(void);
extern void eo_crypto_free(EoCrypto *c);	/* c may be NULL */

/* SHA-256 (FIPS 180-4).  EO_OK or EO_CRYPTO. */
extern EoStatus eo_crypto_sha256(EoCrypto *c, const void *data, size_t len,
								 unsigned char md[EO_SHA256_LEN]) EO_MUST_CHECK;

/* The same in lower-case hexadecimal. */
extern EoStatus eo_crypto_sha256_hex(EoCrypto *c, const void *data, size_t len,
									 char hex[EO_SHA256_HEX_LEN + 1]) EO_MUST_CHECK;

/*
 * The same of a text in two parts.  The digest of the first is kept under a number, for any
 * number of second parts.
 */
#define EO_KEPT_DIGESTS 8

extern EoStatus eo_crypto_keep_digest(EoCrypto *c, int kept, const void *data,
									  size_t len) EO_MUST_CHECK;
extern EoStatus eo_crypto_sha256_hex_kept(EoCrypto *c, int kept, const void *data, size_t len,
										  char hex[EO_SHA256_HEX_LEN + 1]) EO_MUST_CHECK;

/* HMAC-SHA256 (RFC 2104).  EO_OK or EO_CRYPTO. */
extern EoStatus eo_crypto_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
									  unsigned char mac[EO_SHA256_LEN]) EO_MUST_CHECK;

/* The same in two steps: the key is kept for any number of MACs, which is faster. */
extern EoStatus eo_crypto_keep_key(EoCrypto *c, const void *key, size_t key_len) EO_MUST_CHECK;
extern EoStatus eo_crypto_hmac_sha256_kept(EoCrypto *c, const void *data, size_t len,
										   unsigned char mac[EO_SHA256_LEN]) EO_MUST_CHECK;

/*
 * scrypt (RFC 7914) with N = 16384, r = 8, p = 1.  Takes some 50 ms of a core and,
 * meanwhile, 16 MB; cannot be interrupted.  EO_CRYPTO if there is no memory, or
 * OpenSSL does not allow it.
 */
#define EO_SCRYPT_N 16384
#define EO_SCRYPT_R 8
#define EO_SCRYPT_P 1

extern EoStatus eo_crypto_scrypt(const void *password, size_t password_len, const void *salt,
								 size_t salt_len, unsigned char *out, size_t out_len) EO_MUST_CHECK;

/* Compare secrets in a time that does not depend on where they differ. */
extern bool eo_crypto_same(const void *a, const void *b, size_t len);

/* Overwrite a secret in a way the compiler may not drop. */
extern void eo_crypto_wipe(void *p, size_t len);

/*
 * Read the certificate authorities of the system, a file and a folder (NULL: none), for the
 * connections of this process and of those that it forks.  Returns false, and nothing is
 * to be used, if the file cannot be read.
 */
extern bool eo_crypto_read_authorities(const char *file, const char *folder);

/*
 * Have the connections of this SSL_CTX trust them.  They are read anew if the file has
 * changed since.  Returns false if that fails.
 */
extern bool eo_crypto_use_authorities(void *ssl_ctx);

#endif							/* EO_WIRE_CRYPTO_H */
