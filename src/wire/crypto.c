/*-------------------------------------------------------------------------
 *
 * crypto.c
 *	  Digests, MACs, the stretching of PINs, and whom connections trust.
 *
 * The only file that includes OpenSSL.  With OpenSSL 3 it is slow to fetch an
 * algorithm, not to run it.  So the digest is fetched once and its context is reused.
 * scrypt is slow by design, and is fetched every time.
 *
 * An HMAC is two digests (RFC 2104, section 2), and is made of them here.  OpenSSL's
 * own HMAC copies the key and the digests' states that are derived from it into memory
 * of its own, where they stay until another key replaces them.  That memory is in core
 * dumps, and replacing the key after each MAC doubles the work.  The context of a
 * digest has such a state only until the next block: it is overwritten by the data,
 * and after the end it is the digest itself.  The padded keys are in memory of secret.c.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "wire/hex.h"
#include "wire/secret.h"
#include "wire/status.h"

/* Limit of scrypt's memory: twice the 128 * N * r bytes that it needs. */
#define SCRYPT_MAX_MEMORY (UINT64_C(256) * EO_SCRYPT_N * EO_SCRYPT_R)

/* A block of SHA-256 (FIPS 180-4): a key is padded to its length. */
#define BLOCK_LEN 64

/* A key as it goes before the data, and before the digest of both. */
typedef struct PaddedKey
{
	unsigned char inner[BLOCK_LEN];
	unsigned char outer[BLOCK_LEN];
} PaddedKey;

struct EoCrypto
{
	EVP_MD	   *sha256;
	EVP_MD_CTX *digest;
	PaddedKey  *kept;			/* of eo_crypto_keep_key() */
	PaddedKey  *passing;		/* of eo_crypto_hmac_sha256(), while it runs */
};

/* How libcurl verifies, too: what is trusted need not be the root of a chain. */
#define FLAGS (X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN)

/* The authorities that were read, and what the file was like. */
static struct
{
	char	   *file;
	char	   *folder;
	X509_STORE *store;
	struct stat as_read;
}			authorities;

static EoStatus make_mac(EoCrypto *c, const PaddedKey *key, const void *data, size_t len,
						 unsigned char mac[EO_SHA256_LEN]);
static EoStatus pad_key(EoCrypto *c, const void *key, size_t key_len, PaddedKey *padded);
static bool digest_two(EoCrypto *c, const unsigned char *block, const void *data, size_t len,
					   unsigned char md[EO_SHA256_LEN]);

EoCrypto *
eo_crypto_create(void)
{
	EoCrypto   *c = calloc(1, sizeof(EoCrypto));

	if (c == NULL)
		return NULL;
	c->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	c->digest = EVP_MD_CTX_new();
	c->kept = eo_secret_alloc(sizeof(PaddedKey));
	c->passing = eo_secret_alloc(sizeof(PaddedKey));
	if (c->sha256 == NULL || c->digest == NULL || c->kept == NULL || c->passing == NULL)
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
	eo_secret_free(c->passing);
	EVP_MD_CTX_free(c->digest);
	EVP_MD_free(c->sha256);
	free(c);
}

EoStatus
eo_crypto_sha256(EoCrypto *c, const void *data, size_t len, unsigned char md[EO_SHA256_LEN])
{
	return EVP_DigestInit_ex2(c->digest, c->sha256, NULL) &&
		EVP_DigestUpdate(c->digest, data, len) &&
		EVP_DigestFinal_ex(c->digest, md, NULL) ? EO_OK : EO_CRYPTO;
}

EoStatus
eo_crypto_sha256_hex(EoCrypto *c, const void *data, size_t len, char hex[EO_SHA256_HEX_LEN + 1])
{
	unsigned char md[EO_SHA256_LEN];

	if (eo_crypto_sha256(c, data, len, md) != EO_OK)
		return EO_CRYPTO;
	eo_hex_put(md, sizeof(md), hex);
	return EO_OK;
}

EoStatus
eo_crypto_hmac_sha256(EoCrypto *c, const void *key, size_t key_len, const void *data, size_t len,
					  unsigned char mac[EO_SHA256_LEN])
{
	EoStatus	status = pad_key(c, key, key_len, c->passing);

	if (status == EO_OK)
		status = make_mac(c, c->passing, data, len, mac);
	eo_crypto_wipe(c->passing, sizeof(PaddedKey));

	/*
	 * The MAC may itself be a key, and the context has it until it begins
	 * anew.
	 */
	if (!EVP_DigestInit_ex2(c->digest, c->sha256, NULL))
		status = EO_CRYPTO;
	return status;
}

EoStatus
eo_crypto_keep_key(EoCrypto *c, const void *key, size_t key_len)
{
	return pad_key(c, key, key_len, c->kept);
}

EoStatus
eo_crypto_hmac_sha256_kept(EoCrypto *c, const void *data, size_t len,
						   unsigned char mac[EO_SHA256_LEN])
{
	return make_mac(c, c->kept, data, len, mac);
}

/* The data may be where the MAC goes. */
static EoStatus
make_mac(EoCrypto *c, const PaddedKey *key, const void *data, size_t len,
		 unsigned char mac[EO_SHA256_LEN])
{
	return digest_two(c, key->inner, data, len, mac) &&
		digest_two(c, key->outer, mac, EO_SHA256_LEN, mac) ? EO_OK : EO_CRYPTO;
}

/* A key that is longer than a block is replaced by its digest. */
static EoStatus
pad_key(EoCrypto *c, const void *key, size_t key_len, PaddedKey *padded)
{
	static const unsigned char inner = 0x36;
	static const unsigned char outer = 0x5c;

	memset(padded->inner, 0, BLOCK_LEN);
	if (key_len <= BLOCK_LEN)
		memcpy(padded->inner, key, key_len);
	else if (eo_crypto_sha256(c, key, key_len, padded->inner) != EO_OK)
		return EO_CRYPTO;
	for (int i = 0; i < BLOCK_LEN; i++)
	{
		padded->outer[i] = padded->inner[i] ^ outer;
		padded->inner[i] ^= inner;
	}
	return EO_OK;
}

/* The digest of a block and what follows it. */
static bool
digest_two(EoCrypto *c, const unsigned char *block, const void *data, size_t len,
		   unsigned char md[EO_SHA256_LEN])
{
	return EVP_DigestInit_ex2(c->digest, c->sha256, NULL) &&
		EVP_DigestUpdate(c->digest, block, BLOCK_LEN) &&
		EVP_DigestUpdate(c->digest, data, len) &&
		EVP_DigestFinal_ex(c->digest, md, NULL);
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

void
eo_crypto_wipe_received(void *ssl_ctx)
{
	(void) SSL_CTX_set_options(ssl_ctx, SSL_OP_CLEANSE_PLAINTEXT);
}

/* ----- certificate authorities ----- */

static X509_STORE *
read_store(const char *file, const char *folder)
{
	X509_STORE *store = X509_STORE_new();

	/* The folder is only noted, and looked into when an issuer is not known. */
	if (store != NULL && X509_STORE_load_file(store, file) == 1 &&
		(folder == NULL || X509_STORE_load_path(store, folder) == 1) &&
		X509_STORE_set_flags(store, FLAGS) == 1)
		return store;
	X509_STORE_free(store);
	return NULL;
}

static bool
is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
		a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool
eo_crypto_read_authorities(const char *file, const char *folder)
{
	/* The algorithms that a connection needs are fetched by this, too. */
	SSL_CTX    *ctx = SSL_CTX_new(TLS_client_method());

	SSL_CTX_free(ctx);

	/*
	 * If it changes while it is read, it is read again by the next
	 * connection.
	 */
	if (ctx == NULL || stat(file, &authorities.as_read) != 0)
		return false;
	authorities.file = strdup(file);
	authorities.folder = folder != NULL ? strdup(folder) : NULL;
	if (authorities.file == NULL || (folder != NULL && authorities.folder == NULL))
		return false;
	authorities.store = read_store(file, folder);
	return authorities.store != NULL;
}

bool
eo_crypto_use_authorities(void *ssl_ctx)
{
	struct stat now;

	if (stat(authorities.file, &now) != 0)
		return false;
	if (!is_same_file(&now, &authorities.as_read))
	{
		X509_STORE *store = read_store(authorities.file, authorities.folder);

		if (store == NULL)
			return false;
		X509_STORE_free(authorities.store);
		authorities.store = store;
		authorities.as_read = now;
	}
	SSL_CTX_set1_cert_store(ssl_ctx, authorities.store);
	return true;
}
