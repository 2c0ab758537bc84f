/*
 * sign.c
 *	  The project's signer as a filter, for signature.test.mjs.
 *
 * A request is a line of hexadecimal fields separated by blanks: access key id,
 * secret, session token ("-" for none), date, region, body, and then pairs of
 * header name and value, sorted.  The answer is a line with the Authorization
 * header's value.
 */
#include <stdio.h>

#include "wire/sigv4.h"

#define MAX_FIELDS 64

static char *
unhex(const char *hex)
{
	size_t		len = strlen(hex) / 2;
	char	   *s = calloc(1, len + 1);

	for (size_t i = 0; i < len; i++)
	{
		unsigned int byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			exit(2);
		s[i] = (char) byte;
	}
	return s;
}

int
main(void)
{
	EoSigner   *signer = eo_sigv4_create();
	char	   *line = NULL;
	size_t		size = 0;

	while (getline(&line, &size, stdin) > 0)
	{
		char	   *fields[MAX_FIELDS];
		int			n = 0;
		EoHeader	headers[MAX_FIELDS / 2];
		EoCredentials cred;
		EoSigningRequest req = {headers, .service = "dynamodb"};
		EoBuf		out;

		for (char *f = strtok(line, " \n"); f != NULL && n < MAX_FIELDS; f = strtok(NULL, " \n"))
			fields[n++] = strcmp(f, "-") == 0 ? NULL : unhex(f + 1);
		if (n < 6)
			return 2;
		cred = (EoCredentials) {fields[0], fields[1], fields[2]};
		req.amz_date = fields[3];
		req.region = fields[4];
		req.body = fields[5];
		req.body_len = strlen(fields[5]);
		for (int i = 6; i + 1 < n; i += 2)
			headers[req.nheaders++] = (EoHeader) {fields[i], fields[i + 1]};
		eo_buf_init(&out, 100000);
		if (eo_sigv4_sign(signer, &cred, &req, &out) != EO_OK)
			return 2;
		puts(eo_buf_str(&out));
		eo_buf_free(&out);
		for (int i = 0; i < n; i++)
			free(fields[i]);
	}
	free(line);
	eo_sigv4_free(signer);
	return 0;
}
