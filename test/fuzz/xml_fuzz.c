/*
 * xml_fuzz.c
 *	  Any bytes as an answer of STS: a value that is read is in its room, ends, and is
 *	  no longer than the document; what is refused gives no credentials.
 */
#include "identity/identity.h"
#include "wire/xml.h"

#include <stdlib.h>
#include <string.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The readers may write to the text, so each gets a copy of its own. */
static EoStsReply
copy_of(const uint8_t *data, size_t size, int http_status)
{
	EoStsReply	reply = {.http_status = http_status,.text = malloc(size + 1),.len = size};

	memcpy(reply.text, data, size);
	reply.text[size] = '\0';
	return reply;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static EoIdentity identity;
	char	   *value = malloc(8);
	EoXmlWanted wanted = {"R/A", value, 8};
	char		message[EO_MESSAGE_LEN] = "";
	EoCaller	caller;

	if (eo_xml_read((const char *) data, size, &wanted, 1) == EO_OK && strlen(value) > size)
		abort();
	if (memchr(value, '\0', 8) == NULL)
		abort();
	free(value);
	for (int web = 0; web < 2; web++)
	{
		EoStsReply	reply = copy_of(data, size, 200);
		bool		has = eo_identity_read_role(&reply, web, &identity, message) == EO_OK;

		if (has != (identity.access_key_id[0] != '\0') || (has && !eo_identity_is_sound(&identity)))
			abort();
		free(reply.text);
	}
	for (int http_status = 200; http_status < 600; http_status += 203)
	{
		EoStsReply	reply = copy_of(data, size, http_status);

		if (eo_identity_read_caller(&reply, &caller, message) == EO_OK &&
			(http_status != 200 || caller.account[0] == '\0' || caller.arn[0] == '\0'))
			abort();
		if (memchr(message, '\0', sizeof(message)) == NULL)
			abort();
		for (const char *p = message; *p != '\0'; p++)
		{
			if (*p < ' ' || *p > '~')
				abort();
		}
		free(reply.text);
	}
	return 0;
}
