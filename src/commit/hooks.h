/*-------------------------------------------------------------------------
 *
 * hooks.h
 *	  The hooks of PostgreSQL in which the commit protocol acts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_COMMIT_HOOKS_H
#define EO_COMMIT_HOOKS_H

/* Install the hooks.  To be called once, in _PG_init. */
extern void eo_hooks_init(void);

#endif							/* EO_COMMIT_HOOKS_H */
