/*-------------------------------------------------------------------------
 *
 * hooks.h
 *	  Where PostgreSQL asks us before it does something.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_HOOKS_H
#define EO_COMMIT_HOOKS_H

extern void eo_hooks_init(void);

#endif							/* EO_COMMIT_HOOKS_H */
