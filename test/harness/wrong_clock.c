/*-------------------------------------------------------------------------
 *
 * wrong_clock.c
 *		LD_PRELOAD shim: the time of day is off by what a file says.
 *
 * The file that WRONG_CLOCK names holds a number of microseconds, as an int64_t
 * that all processes have mapped, so that a test can set the clock of a running
 * server at one instant.  Clocks that nobody can set stay as they are.
 *
 * libfaketime is not used because it leaves the time alone in a process that is
 * forked by a signal handler while select() waits.  Up to PostgreSQL 15 the
 * postmaster starts background workers in that way.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *off_us;

static void
__attribute__((constructor))
map_file(void)
{
	const char *name = getenv("WRONG_CLOCK");
	int			fd = name != NULL ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void	   *mapped;

	if (fd < 0)
		return;
	mapped = mmap(NULL, sizeof(*off_us), PROT_READ, MAP_SHARED, fd, 0);
	if (mapped != MAP_FAILED)
		off_us = mapped;
	close(fd);
}

static int64_t
now_ns(void)
{
	struct timespec ts;

	(void) syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec + (off_us != NULL ? *off_us * 1000 : 0);
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int64_t		ns;

	if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
		return (int) syscall(SYS_clock_gettime, clock, ts);
	ns = now_ns();
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	int64_t		ns = now_ns();

	(void) zone;
	tv->tv_sec = ns / 1000000000;
	tv->tv_usec = ns % 1000000000 / 1000;
	return 0;
}

time_t
time(time_t *out)
{
	time_t		now = now_ns() / 1000000000;

	if (out != NULL)
		*out = now;
	return now;
}
