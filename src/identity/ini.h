/*-------------------------------------------------------------------------
 *
 * ini.h
 *	  The shared configuration and credentials files of AWS.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_IDENTITY_INI_H
#define EO_IDENTITY_INI_H

#include "wire/status.h"

/*
 * A file's text, NUL-terminated; NULL: there is no such file, or it cannot be read.  In
 * the configuration file profiles other than default are called "profile NAME".
 */
typedef struct EoIniFile
{
	const char *text;
	bool		is_config;
	bool		is_unreadable;	/* it is there */
} EoIniFile;

/*
 * The number of the first line that is neither a section, a setting nor a comment;
 * 0: there is none.  What the file says must not be used otherwise.
 */
extern int	eo_ini_broken_line(EoIniFile file);

/* Has the file that profile? */
extern bool eo_ini_has(EoIniFile file, const char *profile);

/*
 * Copy the value of a setting of that profile.  EO_OK, with "" if the profile does not
 * have it, or EO_TOO_LARGE.
 */
extern EoStatus eo_ini_get(EoIniFile file, const char *profile, const char *name, char *value,
						   size_t size) EO_MUST_CHECK;

#endif							/* EO_IDENTITY_INI_H */
