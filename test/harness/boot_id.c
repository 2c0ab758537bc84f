/*-------------------------------------------------------------------------
 *
 * boot_id.c
 *		LD_PRELOAD shim: the file EO_BOOT_ID stands in for the kernel's boot id.
 *
 * The id changes with each start of the machine, and a test cannot change it without
 * root.  PostgreSQL opens files with open(), which is open64() in some builds.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef int (*OpenFunction) (const char *, int,...);

static const char *
stand_in(const char *path)
{
	const char *own = getenv("EO_BOOT_ID");

	return own != NULL && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? own : path;
}

/* Without O_CREAT and O_TMPFILE there is no mode, and what is read is not used. */
static mode_t
mode_of(va_list args)
{
	return (mode_t) va_arg(args, int);
}

int
open(const char *path, int flags,...)
{
	va_list		args;
	mode_t		mode;

	va_start(args, flags);
	mode = mode_of(args);
	va_end(args);
	return ((OpenFunction) dlsym(RTLD_NEXT, "open")) (stand_in(path), flags, mode);
}

int
open64(const char *path, int flags,...)
{
	va_list		args;
	mode_t		mode;

	va_start(args, flags);
	mode = mode_of(args);
	va_end(args);
	return ((OpenFunction) dlsym(RTLD_NEXT, "open64")) (stand_in(path), flags, mode);
}
