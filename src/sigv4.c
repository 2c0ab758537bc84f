/*-------------------------------------------------------------------------
 *
 * sigv4.c
 *	  AWS Signature Version 4, the only file that includes OpenSSL.
 *
 * What OpenSSL 3 makes slow is fetching an algorithm, not running it, so the
 * digest and the MAC are fetched once and their contexts reused.  The signing
 * key of a day costs four HMACs and is kept, inside the MAC context, as long
 * as secret, day, region and service stay the same.
 *
 *-------------------------------------------------------------------------
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "sigv4.h"

/* Texts of a request: headers with a long session token, and room to spare. */
#define MAX_TEXT 65536

struct EoSigner
{
	EVP_MD	   *sha256;
	EVP_MD_CTX *digest;
	EVP_MAC    *hmac;
	EVP_MAC_CTX *mac;			/* for one-off keys */
	EVP_MAC_CTX *signing;		/* holds the signing key */
	bool		have_key;
	char		day[9];
	EoBuf		scope;			/* secret, region and service it was made of */
	EoBuf		canonical;
	EoBuf		to_sign;
	EoBuf		names;
};

static bool sha256_hex(EoSigner *s, const void *data, size_t len, char *hex);
static bool mac_with(EoSigner *s, const void *key, size_t key_len, const void *data,
					 size_t len, unsigned char *out);
static EoStatus signing_key(EoSigner *s, const EoCredentials *cred, const EoSigningRequest *req);
static void put_value(EoBuf *out, const char *value);

void
eo_wipe(void *p, size_t len)
{
	if (p != NULL)
		OPENSSL_cleanse(p, len);
}

EoSigner *
eo_signer_create(void)
{
	EoSigner   *s = calloc(1, sizeof(EoSigner));
	OSSL_PARAM	params[2];
	char		digest[] = "SHA256";

	if (s == NULL)
		return NULL;
	eo_buf_init(&s->scope, MAX_TEXT);
	eo_buf_init(&s->canonical, MAX_TEXT);
	eo_buf_init(&s->to_sign, MAX_TEXT);
	eo_buf_init(&s->names, MAX_TEXT);
	params[0] = OSSL_PARAM_construct_utf8_string("digest", digest, 0);
	params[1] = OSSL_PARAM_construct_end();
	s->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	s->digest = EVP_MD_CTX_new();
	s->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (s->hmac != NULL)
	{
		s->mac = EVP_MAC_CTX_new(s->hmac);
		s->signing = EVP_MAC_CTX_new(s->hmac);
	}
	if (s->sha256 == NULL || s->digest == NULL || s->mac == NULL || s->signing == NULL ||
		!EVP_MAC_CTX_set_params(s->mac, params) ||
		!EVP_MAC_CTX_set_params(s->signing, params))
	{
		eo_signer_free(s);
		return NULL;
	}
	return s;
}

void
eo_signer_forget(EoSigner *s)
{
	eo_wipe(s->scope.data, s->scope.allocated);
	eo_buf_reset(&s->scope);
	s->have_key = false;
}

void
eo_signer_free(EoSigner *s)
{
	if (s == NULL)
		return;
	eo_signer_forget(s);
	EVP_MAC_CTX_free(s->signing);
	EVP_MAC_CTX_free(s->mac);
	EVP_MAC_free(s->hmac);
	EVP_MD_CTX_free(s->digest);
	EVP_MD_free(s->sha256);
	eo_buf_free(&s->scope);
	eo_buf_free(&s->canonical);
	eo_buf_free(&s->to_sign);
	eo_buf_free(&s->names);
	free(s);
}

static void
put_hex(const unsigned char *bytes, char *hex)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < EO_SHA256_LEN; i++)
	{
		hex[2 * i] = digits[bytes[i] >> 4];
		hex[2 * i + 1] = digits[bytes[i] & 15];
	}
	hex[EO_SHA256_HEX_LEN] = '\0';
}

static bool
sha256_hex(EoSigner *s, const void *data, size_t len, char *hex)
{
	unsigned char md[EO_SHA256_LEN];

	if (!EVP_DigestInit_ex2(s->digest, s->sha256, NULL) ||
		!EVP_DigestUpdate(s->digest, data, len) ||
		!EVP_DigestFinal_ex(s->digest, md, NULL))
		return false;
	put_hex(md, hex);
	return true;
}

static bool
mac_with(EoSigner *s, const void *key, size_t key_len, const void *data, size_t len,
		 unsigned char *out)
{
	/*
	 * An empty key is a key (RFC 2104); OpenSSL takes NULL for "the last
	 * one".
	 */
	static const unsigned char none[1] = {0};
	size_t		n;

	return EVP_MAC_init(s->mac, key_len > 0 ? key : none, key_len > 0 ? key_len : 1, NULL) &&
		EVP_MAC_update(s->mac, data, len) &&
		EVP_MAC_final(s->mac, out, &n, EO_SHA256_LEN);
}

EoStatus
eo_hmac_sha256(EoSigner *s, const void *key, size_t key_len, const void *data, size_t len,
			   unsigned char mac[EO_SHA256_LEN])
{
	return mac_with(s, key, key_len, data, len, mac) ? EO_OK : EO_CRYPTO;
}

EoStatus
eo_sigv4_texts(EoSigner *s, const EoSigningRequest *req, EoBuf *canonical, EoBuf *to_sign)
{
	char		hex[EO_SHA256_HEX_LEN + 1];
	size_t		start = canonical->len;

	eo_buf_reset(&s->names);
	eo_buf_adds(canonical, req->method);
	eo_buf_addc(canonical, '\n');
	eo_buf_adds(canonical, req->path);
	eo_buf_addc(canonical, '\n');
	eo_buf_adds(canonical, req->query);
	eo_buf_addc(canonical, '\n');
	for (int i = 0; i < req->nheaders; i++)
	{
		eo_buf_adds(canonical, req->headers[i].name);
		eo_buf_addc(canonical, ':');
		put_value(canonical, req->headers[i].value);
		eo_buf_addc(canonical, '\n');
		if (i > 0)
			eo_buf_addc(&s->names, ';');
		eo_buf_adds(&s->names, req->headers[i].name);
	}
	eo_buf_addc(canonical, '\n');
	eo_buf_adds(canonical, eo_buf_str(&s->names));
	eo_buf_addc(canonical, '\n');
	if (!sha256_hex(s, req->body, req->body_len, hex))
		return EO_CRYPTO;
	eo_buf_adds(canonical, hex);
	if (eo_buf_status(canonical) != EO_OK)
		return eo_buf_status(canonical);
	if (eo_buf_status(&s->names) != EO_OK)
		return eo_buf_status(&s->names);

	if (!sha256_hex(s, canonical->data + start, canonical->len - start, hex))
		return EO_CRYPTO;
	eo_buf_adds(to_sign, "AWS4-HMAC-SHA256\n");
	eo_buf_adds(to_sign, req->amz_date);
	eo_buf_addc(to_sign, '\n');
	eo_buf_add(to_sign, req->amz_date, 8);
	eo_buf_addc(to_sign, '/');
	eo_buf_adds(to_sign, req->region);
	eo_buf_addc(to_sign, '/');
	eo_buf_adds(to_sign, req->service);
	eo_buf_adds(to_sign, "/aws4_request\n");
	eo_buf_adds(to_sign, hex);
	return eo_buf_status(to_sign);
}

/* Trimmed, and inner runs of blanks as one. */
static void
put_value(EoBuf *out, const char *value)
{
	bool		blank = false;
	bool		any = false;

	for (const char *p = value; *p != '\0'; p++)
	{
		if (*p == ' ' || *p == '\t')
		{
			blank = true;
			continue;
		}
		if (blank && any)
			eo_buf_addc(out, ' ');
		blank = false;
		any = true;
		eo_buf_addc(out, *p);
	}
}

EoStatus
eo_sigv4_sign(EoSigner *s, const EoCredentials *cred, const EoSigningRequest *req, EoBuf *out)
{
	unsigned char mac[EO_SHA256_LEN];
	char		hex[EO_SHA256_HEX_LEN + 1];
	size_t		n;
	EoStatus	status;

	if (strlen(req->amz_date) < 8)
		return EO_INVALID;
	eo_buf_reset(&s->canonical);
	eo_buf_reset(&s->to_sign);
	status = eo_sigv4_texts(s, req, &s->canonical, &s->to_sign);
	if (status == EO_OK)
		status = signing_key(s, cred, req);

	/* The canonical text repeats the session token. */
	eo_wipe(s->canonical.data, s->canonical.len);
	if (status != EO_OK)
		return status;
	if (!EVP_MAC_init(s->signing, NULL, 0, NULL) ||
		!EVP_MAC_update(s->signing, (unsigned char *) s->to_sign.data, s->to_sign.len) ||
		!EVP_MAC_final(s->signing, mac, &n, sizeof(mac)))
		return EO_CRYPTO;
	put_hex(mac, hex);

	eo_buf_adds(out, "AWS4-HMAC-SHA256 Credential=");
	eo_buf_adds(out, cred->access_key_id);
	eo_buf_addc(out, '/');
	eo_buf_add(out, req->amz_date, 8);
	eo_buf_addc(out, '/');
	eo_buf_adds(out, req->region);
	eo_buf_addc(out, '/');
	eo_buf_adds(out, req->service);
	eo_buf_adds(out, "/aws4_request, SignedHeaders=");
	eo_buf_adds(out, eo_buf_str(&s->names));
	eo_buf_adds(out, ", Signature=");
	eo_buf_adds(out, hex);
	return eo_buf_status(out);
}

/*
 * Have s->signing hold the key of this secret, day, region and service.
 */
static EoStatus
signing_key(EoSigner *s, const EoCredentials *cred, const EoSigningRequest *req)
{
	const char *secret = cred->secret_access_key;
	const char *parts[] = {req->region, req->service, "aws4_request"};
	size_t		secret_len = strlen(secret);
	size_t		region_len = strlen(req->region);
	unsigned char key[EO_SHA256_LEN];
	EoBuf		first;
	bool		ok;

	/* scope: secret NUL region NUL service */
	if (s->have_key && memcmp(s->day, req->amz_date, 8) == 0 &&
		s->scope.len == secret_len + region_len + strlen(req->service) + 2 &&
		strcmp(s->scope.data, secret) == 0 &&
		strcmp(s->scope.data + secret_len + 1, req->region) == 0 &&
		strcmp(s->scope.data + secret_len + region_len + 2, req->service) == 0)
		return EO_OK;

	eo_signer_forget(s);
	eo_buf_init(&first, MAX_TEXT);
	eo_buf_adds(&first, "AWS4");
	eo_buf_adds(&first, secret);
	ok = eo_buf_status(&first) == EO_OK &&
		mac_with(s, first.data, first.len, req->amz_date, 8, key);
	for (int i = 0; ok && i < 3; i++)
		ok = mac_with(s, key, sizeof(key), parts[i], strlen(parts[i]), key);
	if (ok)
		ok = EVP_MAC_init(s->signing, key, sizeof(key), NULL) != 0;
	eo_wipe(first.data, first.len);
	eo_buf_free(&first);
	eo_wipe(key, sizeof(key));
	if (!ok)
		return EO_CRYPTO;

	memcpy(s->day, req->amz_date, 8);
	eo_buf_add(&s->scope, secret, secret_len + 1);
	eo_buf_add(&s->scope, req->region, region_len + 1);
	eo_buf_adds(&s->scope, req->service);
	s->have_key = eo_buf_status(&s->scope) == EO_OK;
	return EO_OK;
}
