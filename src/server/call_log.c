/*-------------------------------------------------------------------------
 *
 * call_log.c
 *	  The log of requests, exactonce.log_requests.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "server/call_log.h"
#include "server/guc.h"
#include "wire/status.h"

void
eo_call_log(const char *server, const EoCall *call)
{
	const EoError *e = &call->error;

	if (!eo_guc_log_requests)
		return;
	ereport(LOG,
			(errmsg("exactonce: %s on server \"%s\": %s, HTTP status %d, attempt %d, %.3f ms, request id %s",
					eo_call_operation_name(call->op), server,
					e->status == EO_OK ? "ok" :
					e->code[0] != '\0' ? e->code : "no answer",
					e->http_status, e->attempts, call->elapsed_us / 1000.0,
					e->request_id[0] != '\0' ? e->request_id : "unknown"),
			 errhidestmt(true)));
}
