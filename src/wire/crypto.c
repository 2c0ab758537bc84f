/*-------------------------------------------------------------------------
 *
 * crypto.c
 *	  Digests, MACs, the stretching of PINs, and whom connections trust.
 *
 * The only file that includes OpenSSL.  With OpenSSL 3 it is slow to fetch an
 * algorithm, not to run it.  So the digest is fetched once, and its context and that of the
 * kept key are reused.  A MAC by another key, and scrypt, are rare, and are fetched every time.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "wire/hex.h"

/* Limit of scrypt's memory: twice the 128 * N * r bytes that it needs. */
#define SCRYPT_MAX_MEMORY (UINT64_C(256) * EO_SCRYPT_N * EO_SCRYPT_R)

struct EoCrypto
{
	EVP_MD	   *sha256;
	EVP_MD_CTX *digest;
	EVP_MD_CTX *kept_digests[EO_KEPT_DIGESTS];	/* NULL until used */
	EVP_MAC_CTX *kept;			/* HMAC-SHA256 with the key of
								 * eo_crypto_keep_key(), or NULL */
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

static EoStatus digest_failed(EoCrypto *c);
static EVP_MAC_CTX *make_hmac(const void *key, size_t key_len);
static bool make_mac(EVP_MAC_CTX *hmac, const void *data, size_t len,
					 unsigned char mac[EO_SHA256_LEN]);

EoCrypto *
eo_crypto_create(void)
{
	EoCrypto   *c = calloc(1, sizeof(EoCrypto));

	if (c == NULL)
		return NULL;
	c->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	c->digest = EVP_MD_CTX_new();
	if (c->sha256 == NULL || c->digest == NULL)
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
	EVP_MAC_CTX_free(c->kept);
	EVP_MD_CTX_free(c->digest);
	for (int i = 0; i < EO_KEPT_DIGESTS; i++)
		EVP_MD_CTX_free(c->kept_digests[i]);
	EVP_MD_free(c->sha256);
	free(c);
}

EoStatus
eo_crypto_sha256(EoCrypto *c, const void *data, size_t len, unsigned char md[EO_SHA256_LEN])
{
	if (!EVP_DigestInit_ex2(c->digest, c->sha256, NULL) ||
		!EVP_DigestUpdate(c->digest, data, len) || !EVP_DigestFinal_ex(c->digest, md, NULL))
		return digest_failed(c);
	return EO_OK;
}

/*
 * A context without its memory, which is all that can fail here, still bears the name of its
 * algorithm.  EVP_MD_CTX_copy_ex() of OpenSSL 3.5 would copy another one into it, and crash.
 */
static EoStatus
digest_failed(EoCrypto *c)
{
	EVP_MD_CTX_reset(c->digest);
	return EO_CRYPTO;
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
eo_crypto_keep_digest(EoCrypto *c, int kept, const void *data, size_t len)
{
	EVP_MD_CTX **digest = &c->kept_digests[kept];

	if (*digest == NULL)
		*digest = EVP_MD_CTX_new();
	return *digest != NULL && EVP_DigestInit_ex2(*digest, c->sha256, NULL) &&
		EVP_DigestUpdate(*digest, data, len) ? EO_OK : EO_CRYPTO;
}

EoStatus
eo_crypto_sha256_hex_kept(EoCrypto *c, int kept, const void *data, size_t len,
						  char hex[EO_SHA256_HEX_LEN + 1])
{
	unsigned char md[EO_SHA256_LEN];

	if (!EVP_MD_CTX_copy_ex(c->digest, c->kept_digests[kept]) ||
		!EVP_DigestUpdate(c->digest, data, len) || !EVP_DigestFinal_ex(c->digest, md, NULL))
		return digest_failed(c);
	eo_hex_put(md, sizeof(md), hex);
	return EO_OK;
}

EoStatus
eo_crypto_hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
					  unsigned char mac[EO_SHA256_LEN])
{
	EVP_MAC_CTX *hmac = make_hmac(key, key_len);
	bool		ok = hmac != NULL && make_mac(hmac, data, len, mac);

	EVP_MAC_CTX_free(hmac);
	return ok ? EO_OK : EO_CRYPTO;
}

EoStatus
eo_crypto_keep_key(EoCrypto *c, const void *key, size_t key_len)
{
	EVP_MAC_CTX_free(c->kept);
	c->kept = make_hmac(key, key_len);
	return c->kept != NULL ? EO_OK : EO_CRYPTO;
}

/* Without a key, EVP_MAC_init() begins anew with the one that the context has. */
EoStatus
eo_crypto_hmac_sha256_kept(EoCrypto *c, const void *data, size_t len,
						   unsigned char mac[EO_SHA256_LEN])
{
	return c->kept != NULL && EVP_MAC_init(c->kept, NULL, 0, NULL) &&
		make_mac(c->kept, data, len, mac) ? EO_OK : EO_CRYPTO;
}

static EVP_MAC_CTX *
make_hmac(const void *key, size_t key_len)
{
	char		digest[] = "SHA256";
	OSSL_PARAM	params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end()
	};
	EVP_MAC    *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *hmac = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL;

	EVP_MAC_free(mac);
	if (hmac != NULL && EVP_MAC_init(hmac, key, key_len, params))
		return hmac;
	EVP_MAC_CTX_free(hmac);
	return NULL;
}

/* The data may be where the MAC goes. */
static bool
make_mac(EVP_MAC_CTX *hmac, const void *data, size_t len, unsigned char mac[EO_SHA256_LEN])
{
	return EVP_MAC_update(hmac, data, len) && EVP_MAC_final(hmac, mac, NULL, EO_SHA256_LEN);
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
