/*-------------------------------------------------------------------------
 *
 * system_ca.c
 *		LD_PRELOAD shim: the file EO_SYSTEM_CA stands in for the system's
 *		certificate authorities.
 *
 * libcurl finds them in the file and the folder below /etc/ssl/certs that it was
 * built with, and in no others, so a test can add none without root.  With this
 * library the one file is also each first file of the folder, whose names are hashes.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef FILE * (*OpenFunction) (const char *, const char *);
typedef int (*StatFunction) (const char *, struct stat *);

static const char *
stand_in(const char *path)
{
	const char *own = getenv("EO_SYSTEM_CA");
	size_t		len = strlen(path);

	if (own == NULL || strncmp(path, "/etc/ssl/certs/", 15) != 0)
		return path;
	if (strcmp(path + 15, "ca-certificates.crt") == 0 ||
		(len > 2 && strcmp(path + len - 2, ".0") == 0))
		return own;
	return path;
}

FILE *
fopen(const char *path, const char *mode)
{
	return ((OpenFunction) dlsym(RTLD_NEXT, "fopen")) (stand_in(path), mode);
}

FILE *
fopen64(const char *path, const char *mode)
{
	return ((OpenFunction) dlsym(RTLD_NEXT, "fopen64")) (stand_in(path), mode);
}

int
stat(const char *path, struct stat *status)
{
	return ((StatFunction) dlsym(RTLD_NEXT, "stat")) (stand_in(path), status);
}
