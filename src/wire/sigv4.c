/*-------------------------------------------------------------------------
 *
 * sigv4.c
 *	  AWS Signature Version 4.
 *
 * Deriving the signing key of a day takes four HMACs.  It is kept, inside
 * crypto.c's context, as long as secret, day, region and service stay the same.
 *
 * The requests of a process begin alike: their bodies with the same expressions, and within
 * a second their canonical requests with the same headers.  The digests of some such
 * beginnings are kept, so that only the rest of a text has to be digested.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/sigv4.h"

#include "wire/hex.h"
#include "wire/secret.h"

/* Longest text of a request.  Its headers may have a session token of kilobytes. */
#define MAX_TEXT 65536

/* The longest beginning that is kept.  The headers may have a session token. */
#define MAX_BEGINNING 4080

typedef struct Beginning
{
	char	   *text;			/* in memory of secret.c; NULL until used */
	size_t		len;
} Beginning;

struct EoSigner
{
	EoCrypto   *crypto;			/* keeps the signing key */
	bool		have_key;
	char		day[9];			/* of the key, "20260101" */
	char	   *secret;			/* of the key, in memory of secret.c */
	EoBuf		scope;			/* of the key: region NUL service */
	EoBuf		canonical;		/* canonical request */
	EoBuf		to_sign;		/* string to sign */
	EoBuf		names;			/* signed headers, "host;x-amz-date" */
	Beginning	beginnings[EO_KEPT_DIGESTS];	/* by the number of the digest */
	int			oldest;			/* the one that is replaced next */
};

static EoStatus make_texts(EoSigner *s, const EoSigningRequest *req);
static EoStatus digest(EoSigner *s, const char *text, size_t len, size_t common, char *hex);
static void put_scope(EoBuf *out, const EoSigningRequest *req);
static EoStatus prepare_key(EoSigner *s, const EoCredentials *cred, const EoSigningRequest *req);
static bool has_key(const EoSigner *s, const char *secret, const EoSigningRequest *req);
static void forget_key(EoSigner *s);

EoSigner *
eo_sigv4_create(void)
{
	EoSigner   *s = calloc(1, sizeof(EoSigner));

	if (s == NULL)
		return NULL;
	eo_buf_init(&s->scope, MAX_TEXT);
	eo_buf_init(&s->canonical, MAX_TEXT);
	eo_buf_init(&s->to_sign, MAX_TEXT);
	eo_buf_init(&s->names, MAX_TEXT);
	s->crypto = eo_crypto_create();
	if (s->crypto == NULL)
	{
		eo_sigv4_free(s);
		return NULL;
	}
	return s;
}

void
eo_sigv4_free(EoSigner *s)
{
	if (s == NULL)
		return;
	forget_key(s);
	for (int i = 0; i < EO_KEPT_DIGESTS; i++)
		eo_secret_free(s->beginnings[i].text);
	eo_crypto_free(s->crypto);
	eo_buf_free(&s->scope);
	eo_buf_free(&s->canonical);
	eo_buf_free(&s->to_sign);
	eo_buf_free(&s->names);
	free(s);
}

EoStatus
eo_sigv4_sign(EoSigner *s, const EoCredentials *cred, const EoSigningRequest *req, EoBuf *out)
{
	unsigned char mac[EO_SHA256_LEN];
	char		hex[EO_SHA256_HEX_LEN + 1];
	EoStatus	status;

	if (strlen(req->amz_date) < 8)
		return EO_INVALID;
	status = make_texts(s, req);
	if (status == EO_OK)
		status = prepare_key(s, cred, req);

	/* The canonical request repeats the session token. */
	eo_crypto_wipe(s->canonical.data, s->canonical.len);
	if (status == EO_OK)
		status = eo_crypto_hmac_sha256_kept(s->crypto, s->to_sign.data, s->to_sign.len, mac);
	if (status != EO_OK)
		return status;
	eo_hex_put(mac, sizeof(mac), hex);

	eo_buf_adds(out, "AWS4-HMAC-SHA256 Credential=");
	eo_buf_adds(out, cred->access_key_id);
	eo_buf_addc(out, '/');
	put_scope(out, req);
	eo_buf_adds(out, ", SignedHeaders=");
	eo_buf_adds(out, eo_buf_str(&s->names));
	eo_buf_adds(out, ", Signature=");
	eo_buf_adds(out, hex);
	return eo_buf_status(out);
}

/* Make the canonical request, and of it the string to sign. */
static EoStatus
make_texts(EoSigner *s, const EoSigningRequest *req)
{
	EoBuf	   *canonical = &s->canonical;
	EoBuf	   *to_sign = &s->to_sign;
	char		hex[EO_SHA256_HEX_LEN + 1];
	size_t		common;

	eo_buf_reset(canonical);
	eo_buf_reset(to_sign);
	eo_buf_reset(&s->names);
	eo_buf_adds(canonical, "POST\n/\n\n");
	for (int i = 0; i < req->nheaders; i++)
	{
		eo_buf_adds(canonical, req->headers[i].name);
		eo_buf_addc(canonical, ':');
		eo_buf_adds(canonical, req->headers[i].value);
		eo_buf_addc(canonical, '\n');
		if (i > 0)
			eo_buf_addc(&s->names, ';');
		eo_buf_adds(&s->names, req->headers[i].name);
	}
	eo_buf_addc(canonical, '\n');
	eo_buf_adds(canonical, eo_buf_str(&s->names));
	eo_buf_addc(canonical, '\n');
	common = canonical->len;
	if (digest(s, req->body, req->body_len, req->body_common, hex) != EO_OK)
		return EO_CRYPTO;
	eo_buf_adds(canonical, hex);
	if (eo_buf_status(canonical) != EO_OK)
		return eo_buf_status(canonical);
	if (eo_buf_status(&s->names) != EO_OK)
		return eo_buf_status(&s->names);

	if (digest(s, canonical->data, canonical->len, common, hex) != EO_OK)
		return EO_CRYPTO;
	eo_buf_adds(to_sign, "AWS4-HMAC-SHA256\n");
	eo_buf_adds(to_sign, req->amz_date);
	eo_buf_addc(to_sign, '\n');
	put_scope(to_sign, req);
	eo_buf_addc(to_sign, '\n');
	eo_buf_adds(to_sign, hex);
	return eo_buf_status(to_sign);
}

/* The number of the digest of this beginning, or -1. */
static int
find_beginning(EoSigner *s, const char *text, size_t len)
{
	Beginning  *b;

	if (len == 0 || len > MAX_BEGINNING)
		return -1;
	for (int i = 0; i < EO_KEPT_DIGESTS; i++)
	{
		b = &s->beginnings[i];
		if (b->len == len && memcmp(b->text, text, len) == 0)
			return i;
	}
	b = &s->beginnings[s->oldest];
	b->len = 0;
	if (b->text == NULL)
		b->text = eo_secret_alloc(MAX_BEGINNING);
	if (b->text == NULL || eo_crypto_keep_digest(s->crypto, s->oldest, text, len) != EO_OK)
		return -1;
	memcpy(b->text, text, len);
	b->len = len;
	s->oldest = (s->oldest + 1) % EO_KEPT_DIGESTS;
	return (int) (b - s->beginnings);
}

/* Digest a text of which as many bytes are in common with others. */
static EoStatus
digest(EoSigner *s, const char *text, size_t len, size_t common, char *hex)
{
	int			kept = find_beginning(s, text, common);

	return kept < 0 ? eo_crypto_sha256_hex(s->crypto, text, len, hex) :
		eo_crypto_sha256_hex_kept(s->crypto, kept, text + common, len - common, hex);
}

/* "20260101/eu-west-1/dynamodb/aws4_request" */
static void
put_scope(EoBuf *out, const EoSigningRequest *req)
{
	eo_buf_add(out, req->amz_date, 8);
	eo_buf_addc(out, '/');
	eo_buf_adds(out, req->region);
	eo_buf_addc(out, '/');
	eo_buf_adds(out, req->service);
	eo_buf_adds(out, "/aws4_request");
}

/* Have the context keep the key of this secret, day, region and service. */
static EoStatus
prepare_key(EoSigner *s, const EoCredentials *cred, const EoSigningRequest *req)
{
	const char *secret = cred->secret_access_key;
	const char *parts[] = {req->region, req->service, "aws4_request"};
	unsigned char key[EO_SHA256_LEN];
	EoBuf		first;
	bool		ok;

	if (has_key(s, secret, req))
		return EO_OK;
	forget_key(s);
	eo_buf_init(&first, MAX_TEXT);
	eo_buf_adds(&first, "AWS4");
	eo_buf_adds(&first, secret);
	ok = eo_buf_status(&first) == EO_OK &&
		eo_crypto_hmac_sha256(first.data, first.len, req->amz_date, 8, key) == EO_OK;
	for (int i = 0; ok && i < 3; i++)
		ok = eo_crypto_hmac_sha256(key, sizeof(key), parts[i], strlen(parts[i]),
								   key) == EO_OK;
	if (ok)
		ok = eo_crypto_keep_key(s->crypto, key, sizeof(key)) == EO_OK;
	eo_crypto_wipe(first.data, first.len);
	eo_buf_free(&first);
	eo_crypto_wipe(key, sizeof(key));
	if (!ok)
		return EO_CRYPTO;

	memcpy(s->day, req->amz_date, 8);
	s->secret = eo_secret_copy(secret);
	eo_buf_add(&s->scope, req->region, strlen(req->region) + 1);
	eo_buf_adds(&s->scope, req->service);
	s->have_key = s->secret != NULL && eo_buf_status(&s->scope) == EO_OK;
	return EO_OK;
}

static bool
has_key(const EoSigner *s, const char *secret, const EoSigningRequest *req)
{
	size_t		service_at = strlen(req->region) + 1;

	return s->have_key && memcmp(s->day, req->amz_date, 8) == 0 &&
		s->scope.len == service_at + strlen(req->service) &&
		strcmp(s->secret, secret) == 0 &&
		strcmp(s->scope.data, req->region) == 0 &&
		strcmp(s->scope.data + service_at, req->service) == 0;
}

static void
forget_key(EoSigner *s)
{
	eo_secret_free(s->secret);
	s->secret = NULL;
	eo_buf_reset(&s->scope);
	s->have_key = false;
}
