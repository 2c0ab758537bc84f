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
 * A file's text, NUL-terminated; NULL: there is no such file.  In the configuration
 * file profiles other than default are called "profile NAME".
 */
typedef struct EoIniFile
{
	const char *text;
	bool		is_config;
} EoIniFile;

/* Has the file that profile? */
extern bool eo_ini_has(EoIniFile file, const char *profile);

/*
 * Copy the value of a setting of that profile.  EO_OK, with "" if the profile does not
 * have it, or EO_TOO_LARGE.
 */
extern EoStatus eo_ini_get(EoIniFile file, const char *profile, const char *name, char *value,
						   size_t size) EO_MUST_CHECK;

#endif							/* EO_IDENTITY_INI_H */
