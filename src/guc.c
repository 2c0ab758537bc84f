/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings: every exactonce.* parameter, in alphabetical order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "guc.h"
#include "utils/guc.h"

char	   *eo_guc_server;
bool		eo_guc_log_requests;

void
eo_guc_define(void)
{
	DefineCustomBoolVariable("exactonce.log_requests",
							 "Logs every call to DynamoDB: operation, outcome, attempts, time, request id.",
							 "Keys, tokens, payloads and results are not logged.",
							 &eo_guc_log_requests,
							 false,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
	DefineCustomStringVariable("exactonce.server",
							   "Foreign server that functions use when none is named.",
							   NULL,
							   &eo_guc_server,
							   "exactonce",
							   PGC_USERSET, 0,
							   NULL, NULL, NULL);
	MarkGUCPrefixReserved("exactonce");
}
