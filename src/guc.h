/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The settings.  None of them holds a secret.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_GUC_H
#define EO_GUC_H

#include "postgres.h"

extern char *eo_guc_server;		/* exactonce.server */
extern bool eo_guc_log_requests;	/* exactonce.log_requests */

extern void eo_guc_define(void);

#endif							/* EO_GUC_H */
