/*-------------------------------------------------------------------------
 *
 * pin.c
 *	  PINs: what an action stores of one, and whether a guess is right.
 *
 * The form of the stored hash, so that another service can check a PIN:
 *
 *	 scrypt$16384$8$1$SALT$HASH
 *
 * SALT is 32 hexadecimal digits, random for each action.  HASH is scrypt (RFC
 * 7914) with N = 16384, r = 8, p = 1, in 64 hexadecimal digits, of
 * HMAC-SHA256(pepper, LEN ":" id pin), with the 32 characters of SALT as salt; LEN
 * is the length of the id in bytes, decimal.  Without a pepper the HMAC has the
 * empty key.
 *
 * Beside the hash stand the first 8 hexadecimal digits of HMAC-SHA256(pepper,
 * "exactonce pin_pepper").  They detect a changed pepper: the caller is then told
 * so, and not that the PIN is wrong.
 *
 * In a table with the server option action_pin_hash the hash is that of the other clients:
 * SHA-256 of the PIN alone.
 *
 * A PIN of four digits has ten thousand values.  A KDF does not hide it from
 * somebody who can read the table: 10,000 times 50 ms are minutes.  The pepper
 * does, because it is not in the table.  The salt gives equal PINs different
 * hashes.  The id in the HMAC makes a hash useless in another action's item.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/pin.h"
#include "compat.h"
#include "server/store.h"
#include "wire/crypto.h"
#include "wire/hex.h"
#include "wire/status.h"

#define FORM "scrypt$16384$8$1$"
#define SALT_LEN 32				/* in hexadecimal digits, as the next two */
#define HASH_LEN (2 * EO_SHA256_LEN)
#define PEPPER_LEN 8

pg_noreturn static void raise_crypto(void);
static char *hash_plainly(const char *pin);
static void stretch(EoStore *store, const char *id, const char *pin, const char *salt,
					char hash[HASH_LEN + 1]);

char *
eo_pin_hash(EoStore *store, const char *id, const char *pin)
{
	unsigned char random[SALT_LEN / 2];
	char		salt[SALT_LEN + 1];
	char		hash[HASH_LEN + 1];

	if (store->server->pin_sha256)
		return hash_plainly(pin);
	if (!pg_strong_random(random, sizeof(random)))
		raise_crypto();
	eo_hex_put(random, sizeof(random), salt);
	stretch(store, id, pin, salt, hash);
	return psprintf(FORM "%s$%s", salt, hash);
}

static bool
is_hex(const char *s, size_t len)
{
	return strspn(s, "0123456789abcdef") >= len;
}

EoPinMatch
eo_pin_check(EoStore *store, const char *id, const char *pin, const char *stored)
{
	const char *salt = stored + strlen(FORM);
	const char *hash = salt + SALT_LEN + 1;
	char		found[HASH_LEN + 1];
	bool		right;

	if (store->server->pin_sha256)
	{
		if (strlen(stored) != HASH_LEN || !is_hex(stored, HASH_LEN))
			return EO_PIN_UNREADABLE;
		return eo_crypto_same(hash_plainly(pin), stored, HASH_LEN) ?
			EO_PIN_RIGHT : EO_PIN_WRONG;
	}
	if (strlen(stored) != eo_pin_hash_len(store) ||
		strncmp(stored, FORM, strlen(FORM)) != 0 ||
		!is_hex(salt, SALT_LEN) || salt[SALT_LEN] != '$' || !is_hex(hash, HASH_LEN))
		return EO_PIN_UNREADABLE;
	stretch(store, id, pin, salt, found);
	right = eo_crypto_same(found, hash, HASH_LEN);
	eo_crypto_wipe(found, sizeof(found));
	return right ? EO_PIN_RIGHT : EO_PIN_WRONG;
}

size_t
eo_pin_hash_len(const EoStore *store)
{
	return store->server->pin_sha256 ? HASH_LEN : strlen(FORM) + SALT_LEN + 1 + HASH_LEN;
}

/* The hash that clients of another table make. */
static char *
hash_plainly(const char *pin)
{
	char	   *hash = palloc(EO_SHA256_HEX_LEN + 1);
	EoCrypto   *crypto = eo_crypto_create();
	EoStatus	status = EO_CRYPTO;

	if (crypto != NULL)
		status = eo_crypto_sha256_hex(crypto, pin, strlen(pin), hash);
	eo_crypto_free(crypto);
	if (status != EO_OK)
		raise_crypto();
	return hash;
}

/* Only the first SALT_LEN characters of salt are used. */
static void
stretch(EoStore *store, const char *id, const char *pin, const char *salt, char hash[HASH_LEN + 1])
{
	const char *pepper = store->server->pin_pepper != NULL ? store->server->pin_pepper : "";
	char	   *text = psprintf("%zu:%s%s", strlen(id), id, pin);
	unsigned char mac[EO_SHA256_LEN];
	unsigned char out[EO_SHA256_LEN];
	EoStatus	status;

	status = eo_crypto_hmac_sha256(pepper, strlen(pepper), text, strlen(text), mac);
	eo_crypto_wipe(text, strlen(text));
	pfree(text);
	if (status == EO_OK)
		status = eo_crypto_scrypt(mac, sizeof(mac), salt, SALT_LEN, out, sizeof(out));
	eo_crypto_wipe(mac, sizeof(mac));
	if (status != EO_OK)
		raise_crypto();
	eo_hex_put(out, sizeof(out), hash);
}

char *
eo_pin_pepper_digest(EoStore *store)
{
	static const char text[] = "exactonce pin_pepper";
	const char *pepper = store->server->pin_pepper;
	unsigned char mac[EO_SHA256_LEN];
	char	   *digest;

	if (pepper == NULL || store->server->pin_sha256)
		return NULL;
	if (eo_crypto_hmac_sha256(pepper, strlen(pepper), text, strlen(text), mac) != EO_OK)
		raise_crypto();
	digest = palloc(PEPPER_LEN + 1);
	eo_hex_put(mac, PEPPER_LEN / 2, digest);
	return digest;
}

static void
raise_crypto(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("could not hash a PIN"),
			 errdetail("OpenSSL or its source of random numbers failed."),
			 errhint("scrypt needs 16 MB of memory, and an OpenSSL that is not restricted to FIPS.")));
}
