/*-------------------------------------------------------------------------
 *
 * call_log.h
 *	  The log of requests, exactonce.log_requests.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_SERVER_CALL_LOG_H
#define EO_SERVER_CALL_LOG_H

#include "wire/call.h"

/* Log a call to that server that has ended, if exactonce.log_requests is on. */
extern void eo_call_log(const char *server, const EoCall *call);

#endif							/* EO_SERVER_CALL_LOG_H */
