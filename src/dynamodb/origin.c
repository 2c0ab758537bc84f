/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  The transaction that seals a record.
 *
 *-------------------------------------------------------------------------
 */
#include "dynamodb/origin.h"

#include <stdio.h>
#include <string.h>

#include "dynamodb/hex.h"

void
eo_origin_write(const EoOrigin *origin, char text[EO_ORIGIN_LEN + 1])
{
	char		uuid[EO_UUID_TEXT_LEN + 1];

	eo_hex_put_uuid(origin->database, uuid);
	snprintf(text, EO_ORIGIN_LEN + 1, "%s/%lld/%llu/%u/%llX", uuid,
			 (long long) origin->incarnation, (unsigned long long) origin->xid,
			 origin->timeline, (unsigned long long) origin->lsn);
}

bool
eo_origin_read(const char *text, EoOrigin *origin)
{
	long long	incarnation;
	unsigned long long xid;
	unsigned long long lsn;
	unsigned int timeline;
	char		end;

	memset(origin, 0, sizeof(*origin));
	if (text == NULL || strlen(text) < EO_UUID_TEXT_LEN || text[EO_UUID_TEXT_LEN] != '/' ||
		!eo_hex_read_uuid(text, origin->database) ||
		sscanf(text + EO_UUID_TEXT_LEN, "/%lld/%llu/%u/%llX%c", &incarnation, &xid, &timeline,
			   &lsn, &end) != 4)
		return false;
	origin->incarnation = incarnation;
	origin->xid = xid;
	origin->timeline = timeline;
	origin->lsn = lsn;
	return true;
}
