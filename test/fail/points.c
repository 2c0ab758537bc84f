/*-------------------------------------------------------------------------
 *
 * points.c
 *	  The n-th call of a kind fails, in this session.
 *
 * This file is linked into the extension with the linker's option --wrap: a call
 * of palloc() in another object of the extension is one of __wrap_palloc() here,
 * and __real_palloc() is PostgreSQL's.  The objects are those of the product.
 *
 * The allocations of libcurl, json-c and OpenSSL are met in their tables of
 * imported functions, in which malloc() and the like are replaced.  PostgreSQL's
 * own allocations do not count.
 *
 * A session calls eo_fail_at(kind, n, all, process), then what is tested, then
 * eo_fail_end(process), which returns how many points of the kind were passed.  The
 * process is the session itself, the worker of its database, or the launcher; a
 * process that ends because of a failure is followed by one that counts on.
 *
 * What a process keeps is in kept.c; functions of PostgreSQL that allocate and do more
 * are in calls.c.
 *
 *-------------------------------------------------------------------------
 */
#include <curl/curl.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <json-c/json_c_version.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "cluster/databases.h"
#include "cluster/life.h"
#include "cluster/life_watch.h"
#include "cluster/slots.h"
#include "commit/slot_room.h"
#include "common/cryptohash.h"
#include "common/hmac.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "points.h"
#include "postmaster/bgworker.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

Shared	   *shared;
int64		mapped_bytes;
static Points own;				/* of a session */
static pthread_t main_thread;

Process
this_process(void)
{
	if (MyBgworkerEntry == NULL)
		return SESSION;
	return strcmp(MyBgworkerEntry->bgw_type, "exactonce worker") == 0 ? WORKER :
		strcmp(MyBgworkerEntry->bgw_type, "exactonce launcher") == 0 ? LAUNCHER : SESSION;
}

static Points *
points_of(Process process)
{
	return process == WORKER ? &shared->worker : process == LAUNCHER ? &shared->launcher : &own;
}

bool
due(Kind kind)
{
	Points	   *p = points_of(this_process());
	int64		n;

	if (p->armed != kind || !pthread_equal(pthread_self(), main_thread))
		return false;
	n = ++p->passed;
	return n == p->fail_at || (p->fail_all && p->fail_at > 0 && n > p->fail_at);
}

/* ----- memory of PostgreSQL ----- */

void
memory_point(void)
{
	if (due(MEMORY))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("This is point %lld.", (long long) points_of(this_process())->passed)));
}

/* *INDENT-OFF* */
MEMORY_POINT(void *, palloc, (Size size), (size))
MEMORY_POINT(void *, palloc0, (Size size), (size))
MEMORY_POINT(void *, repalloc, (void *p, Size size), (p, size))
MEMORY_POINT(void *, MemoryContextAlloc, (MemoryContext c, Size size), (c, size))
MEMORY_POINT(void *, MemoryContextAllocZero, (MemoryContext c, Size size), (c, size))
MEMORY_POINT(char *, MemoryContextStrdup, (MemoryContext c, const char *s), (c, s))
MEMORY_POINT(MemoryContext, AllocSetContextCreateInternal,
	(MemoryContext c, const char *name, Size min, Size init, Size max),
	(c, name, min, init, max))
MEMORY_POINT(char *, pstrdup, (const char *s), (s))
MEMORY_POINT(char *, pnstrdup, (const char *s, Size len), (s, len))
MEMORY_POINT(List *, lappend, (List *list, void *datum), (list, datum))
MEMORY_POINT(struct varlena *, pg_detoast_datum, (struct varlena *d), (d))
MEMORY_POINT(struct varlena *, pg_detoast_datum_copy, (struct varlena *d), (d))
MEMORY_POINT(struct varlena *, pg_detoast_datum_packed, (struct varlena *d), (d))
MEMORY_POINT(text *, cstring_to_text, (const char *s), (s))
MEMORY_POINT(char *, text_to_cstring, (const text *t), (t))
MEMORY_POINT(Datum, datumCopy, (Datum d, bool by_value, int len), (d, by_value, len))
MEMORY_POINT(HTAB *, hash_create,
	(const char *name, long n, const HASHCTL *ctl, int flags),
	(name, n, ctl, flags))
MEMORY_POINT(HeapTuple, heap_form_tuple, (TupleDesc d, Datum *v, bool *n), (d, v, n))
MEMORY_POINT(Jsonb *, JsonbValueToJsonb, (JsonbValue *v), (v))
MEMORY_POINT(char *, JsonbToCString, (StringInfo out, JsonbContainer *in, int len), (out, in, len))
MEMORY_POINT(JsonbIterator *, JsonbIteratorInit, (JsonbContainer *c), (c))
MEMORY_POINT(Datum, DirectFunctionCall1Coll, (PGFunction f, Oid c, Datum a), (f, c, a))
MEMORY_POINT(Datum, DirectFunctionCall2Coll, (PGFunction f, Oid c, Datum a, Datum b), (f, c, a, b))
MEMORY_POINT(Datum, DirectFunctionCall3Coll,
	(PGFunction f, Oid c, Datum a, Datum b, Datum d),
	(f, c, a, b, d))
MEMORY_POINT(StringInfo, makeStringInfo, (void), ())
/* *INDENT-ON* */

/* *INDENT-OFF* */
MEMORY_POINT_VOID(void, initStringInfo, (StringInfo s), (s))
MEMORY_POINT_VOID(void, enlargeStringInfo, (StringInfo s, int n), (s, n))
MEMORY_POINT_VOID(void, appendStringInfoString, (StringInfo s, const char *t), (s, t))
MEMORY_POINT_VOID(void, appendStringInfoChar, (StringInfo s, char c), (s, c))
/* *INDENT-ON* */

extern void *__real_palloc_extended(Size size, int flags);
extern void *__wrap_palloc_extended(Size size, int flags);

void *
__wrap_palloc_extended(Size size, int flags)
{
	if ((flags & MCXT_ALLOC_NO_OOM) != 0)
		return due(MEMORY) ? NULL : __real_palloc_extended(size, flags);
	memory_point();
	return __real_palloc_extended(size, flags);
}

extern void *__real_hash_search(HTAB *table, const void *key, HASHACTION action, bool *found);
extern void *__wrap_hash_search(HTAB *table, const void *key, HASHACTION action, bool *found);

void *
__wrap_hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	if (action == HASH_ENTER)
		memory_point();
	if (action == HASH_ENTER_NULL && due(MEMORY))
		return NULL;
	return __real_hash_search(table, key, action, found);
}

extern pg_cryptohash_ctx *__real_pg_cryptohash_create(pg_cryptohash_type type);
extern pg_cryptohash_ctx *__wrap_pg_cryptohash_create(pg_cryptohash_type type);

pg_cryptohash_ctx *
__wrap_pg_cryptohash_create(pg_cryptohash_type type)
{
	return due(MEMORY) ? NULL : __real_pg_cryptohash_create(type);
}

extern pg_hmac_ctx *__real_pg_hmac_create(pg_cryptohash_type type);
extern pg_hmac_ctx *__wrap_pg_hmac_create(pg_cryptohash_type type);

pg_hmac_ctx *
__wrap_pg_hmac_create(pg_cryptohash_type type)
{
	return due(MEMORY) ? NULL : __real_pg_hmac_create(type);
}

/* ----- memory of the libraries ----- */

/* The C library's: calls in this file are redirected, too. */
extern void *__real_malloc(size_t size);
extern void *__real_calloc(size_t n, size_t size);
extern void *__real_realloc(void *p, size_t size);
extern char *__real_strdup(const char *s);

/*
 * json-c 0.18 loses the value that it was to add to an object if that fails: a leak of its own
 * (json_tokener_parse_ex()), by which any point there would look like one of ours.
 */
static bool
adds_to_object(void)
{
	void	   *frames[8];
	int			n = backtrace(frames, lengthof(frames));
	Dl_info		function;

	for (int i = 0; i < n; i++)
	{
		if (dladdr(frames[i], &function) != 0 && function.dli_sname != NULL &&
			strcmp(function.dli_sname, "json_object_object_add_ex") == 0)
			return true;
	}
	return false;
}

/* The server's log shows where it was. */
static bool
heap_point(void)
{
	void	   *frames[20];

	if (points_of(this_process())->armed != HEAP || adds_to_object() || !due(HEAP))
		return false;
	backtrace_symbols_fd(frames, backtrace(frames, lengthof(frames)), STDERR_FILENO);
	return true;
}

static void *
failing_malloc(size_t size)
{
	return heap_point() ? NULL : __real_malloc(size);
}

static void *
failing_calloc(size_t n, size_t size)
{
	return heap_point() ? NULL : __real_calloc(n, size);
}

static void *
failing_realloc(void *p, size_t size)
{
	return heap_point() ? NULL : __real_realloc(p, size);
}

static char *
failing_strdup(const char *s)
{
	return heap_point() ? NULL : __real_strdup(s);
}

static const struct
{
	const char *name;
	void	   *function;
}			replaced[] =
{
	{"malloc", failing_malloc},
	{"calloc", failing_calloc},
	{"realloc", failing_realloc},
	{"strdup", failing_strdup},
};

/*
 * json-c looks for NULL wherever it parses from version 0.18 on.  Older ones crash in
 * their own code.
 */
#define CHECKED_JSON_C ((0 << 16) | (18 << 8))

static const char *const patched_libraries[] = {"/libcurl", "/libcrypto", "/libssl", "/libjson-c"};
static int	npatched_libraries = lengthof(patched_libraries);

static void
patch_slots(const struct dl_phdr_info *info, const ElfW(Rela) *rela, size_t bytes,
			const ElfW(Sym) *symbols, const char *names)
{
	long		page = sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < bytes / sizeof(*rela); i++)
	{
		const char *name = names + symbols[ELF64_R_SYM(rela[i].r_info)].st_name;
		void	  **slot = (void **) (info->dlpi_addr + rela[i].r_offset);

		for (size_t j = 0; j < lengthof(replaced); j++)
		{
			if (ELF64_R_SYM(rela[i].r_info) == 0 || strcmp(name, replaced[j].name) != 0)
				continue;
			/* The linker has made some of these tables read-only. */
			if (mprotect((void *) ((uintptr_t) slot & ~((uintptr_t) page - 1)), page,
						 PROT_READ | PROT_WRITE) != 0)
				elog(ERROR, "mprotect: %m");
			*slot = replaced[j].function;
		}
	}
}

static int
patch_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Rela) *rela[2] = {NULL, NULL};
	size_t		bytes[2] = {0, 0};
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	const ElfW(Dyn) *dyn = NULL;
	bool		wanted = false;

	(void) size;
	for (size_t i = 0; i < (size_t) npatched_libraries; i++)
		wanted |= strstr(info->dlpi_name, patched_libraries[i]) != NULL;
	if (!wanted)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dyn = (const ElfW(Dyn) *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	for (; dyn != NULL && dyn->d_tag != DT_NULL; dyn++)
	{
		switch (dyn->d_tag)
		{
			case DT_SYMTAB:
				symbols = (const void *) dyn->d_un.d_ptr;
				break;
			case DT_STRTAB:
				names = (const void *) dyn->d_un.d_ptr;
				break;
			case DT_RELA:
				rela[0] = (const void *) dyn->d_un.d_ptr;
				break;
			case DT_RELASZ:
				bytes[0] = dyn->d_un.d_val;
				break;
			case DT_JMPREL:
				rela[1] = (const void *) dyn->d_un.d_ptr;
				break;
			case DT_PLTRELSZ:
				bytes[1] = dyn->d_un.d_val;
				break;
		}
	}
	for (int i = 0; i < 2; i++)
		patch_slots(info, rela[i], bytes[i], symbols, names);
	++*(int *) arg;
	return 0;
}

/* Those of the extension itself. */
extern void *__wrap_malloc(size_t size);
extern void *__wrap_calloc(size_t n, size_t size);
extern void *__wrap_realloc(void *p, size_t size);
extern char *__wrap_strdup(const char *s);

void *
__wrap_malloc(size_t size)
{
	return failing_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	return failing_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t size)
{
	return failing_realloc(p, size);
}

char *
__wrap_strdup(const char *s)
{
	return failing_strdup(s);
}

/* Memory for secrets. */
extern void *__real_mmap(void *p, size_t len, int protection, int flags, int fd, off_t offset);
extern void *__wrap_mmap(void *p, size_t len, int protection, int flags, int fd, off_t offset);

void *
__wrap_mmap(void *p, size_t len, int protection, int flags, int fd, off_t offset)
{
	void	   *mapping = MAP_FAILED;

	if (!heap_point())
		mapping = __real_mmap(p, len, protection, flags, fd, offset);
	mapped_bytes += mapping != MAP_FAILED ? (int64) len : 0;
	return mapping;
}

extern int	__real_munmap(void *p, size_t len);
extern int	__wrap_munmap(void *p, size_t len);

int
__wrap_munmap(void *p, size_t len)
{
	mapped_bytes -= (int64) len;
	return __real_munmap(p, len);
}

/* ----- the network ----- */

extern CURLMsg *__real_curl_multi_info_read(CURLM *multi, int *left);
extern CURLMsg *__wrap_curl_multi_info_read(CURLM *multi, int *left);

CURLMsg *
__wrap_curl_multi_info_read(CURLM *multi, int *left)
{
	CURLMsg    *msg = __real_curl_multi_info_read(multi, left);

	if (msg != NULL && msg->msg == CURLMSG_DONE && due(LOST))
		msg->data.result = CURLE_RECV_ERROR;
	return msg;
}

extern CURLMcode __real_curl_multi_add_handle(CURLM *multi, CURL *easy);
extern CURLMcode __wrap_curl_multi_add_handle(CURLM *multi, CURL *easy);

/* Nobody listens at port 1. */
CURLMcode
__wrap_curl_multi_add_handle(CURLM *multi, CURL *easy)
{
	static struct curl_slist nowhere = {(char *) "::127.0.0.1:1", NULL};

	if (due(UNSENT))
	{
		curl_easy_setopt(easy, CURLOPT_CONNECT_TO, &nowhere);
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	}
	else
		curl_easy_setopt(easy, CURLOPT_CONNECT_TO, NULL);
	return __real_curl_multi_add_handle(multi, easy);
}

/* ----- shared memory ----- */

/* A function that enters something there: it says that there is no room. */
#define ROOM_POINT(type, name, parameters, arguments, full) \
	extern type __real_##name parameters; \
	extern type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		return due(ROOM) ? full : __real_##name arguments; \
	}

/* *INDENT-OFF* */
ROOM_POINT(EoSlotStatus, eo_slot_add,
	(const EoTarget *t, const char *pk, const EoSlotInfo *i, EoSlotRef *r),
	(t, pk, i, r), EO_SLOT_TABLE_FULL)
ROOM_POINT(EoSlotStatus, eo_slot_failed,
	(EoSlotRef r, bool t, int64 ms, const char *e, size_t len),
	(r, t, ms, e, len), EO_SLOT_NO_TEXT)
ROOM_POINT(bool, eo_life_enter_place,
	(const EoTarget *t, const uint8 *l, EoPlaceRef *r, bool *o),
	(t, l, r, o), false)
ROOM_POINT(bool, eo_database_want, (Oid d), (d), false)
ROOM_POINT(bool, RegisterDynamicBackgroundWorker,
	(BackgroundWorker *w, BackgroundWorkerHandle **h),
	(w, h), false)
/* *INDENT-ON* */

/* Such a function that says nothing. */
#define ROOM_POINT_VOID(type, name, parameters, arguments) \
	extern void __real_##name parameters; \
	extern void __wrap_##name parameters; \
	void __wrap_##name parameters \
	{ \
		if (!due(ROOM)) \
			__real_##name arguments; \
	}

/* *INDENT-OFF* */
ROOM_POINT_VOID(void, eo_slot_room_note_doubt,
	(const EoTarget *t, const char *pk, const EoSlotInfo *i),
	(t, pk, i))
ROOM_POINT_VOID(void, eo_life_watch_add, (const EoTarget *t, const uint8 *l), (t, l))
/* *INDENT-ON* */

/* ----- descriptors ----- */

extern bool __real_AcquireExternalFD(void);
extern bool __wrap_AcquireExternalFD(void);

bool
__wrap_AcquireExternalFD(void)
{
	return !due(DESCRIPTOR) && __real_AcquireExternalFD();
}

/* A system call that makes one. */
#define DESCRIPTOR_POINT(type, name, parameters, arguments) \
	extern type __real_##name parameters; \
	extern type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		if (!due(DESCRIPTOR)) \
			return __real_##name arguments; \
		errno = EMFILE; \
		return -1; \
	}

/* *INDENT-OFF* */
DESCRIPTOR_POINT(int, open, (const char *path, int flags, int mode), (path, flags, mode))
DESCRIPTOR_POINT(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
DESCRIPTOR_POINT(int, epoll_create1, (int flags), (flags))
/* *INDENT-ON* */

/* ----- the launcher ----- */

extern void __real_eo_database_started(Oid dboid, bool started);
extern void __wrap_eo_database_started(Oid dboid, bool started);

/* A worker that has failed is started again without a pause. */
void
__wrap_eo_database_started(Oid dboid, bool started)
{
	__real_eo_database_started(dboid, started && !shared->hurried);
}

/* ----- for SQL ----- */

PG_FUNCTION_INFO_V1(eo_fail_at);
PG_FUNCTION_INFO_V1(eo_fail_end);
PG_FUNCTION_INFO_V1(eo_fail_passed);

/* The server's log says where a process crashed. */
static void
show_crash(int signal_number)
{
	void	   *frames[50];

	backtrace_symbols_fd(frames, backtrace(frames, lengthof(frames)), STDERR_FILENO);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* In the postmaster, when the extension is loaded. */
__attribute__((constructor))
static void
set_up(void)
{
	int			found = 0;

	main_thread = pthread_self();
	shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		elog(FATAL, "mmap: %m");
	if (json_c_version_num() < CHECKED_JSON_C)
		npatched_libraries--;
	dl_iterate_phdr(patch_library, &found);
	if (found != npatched_libraries)
		elog(FATAL, "only %d of the libraries were found", found);
	signal(SIGSEGV, show_crash);
	signal(SIGBUS, show_crash);
	signal(SIGABRT, show_crash);
}

/* eo_fail_at(kind int, n int, all_later bool, process int); n = 0 fails nothing, and counts. */
Datum
eo_fail_at(PG_FUNCTION_ARGS)
{
	Process		process = (Process) PG_GETARG_INT32(3);
	Points	   *p = points_of(process);

	shared->hurried |= process != SESSION;
	p->fail_at = PG_GETARG_INT32(1);
	p->fail_all = PG_GETARG_BOOL(2);
	p->passed = 0;
	pg_memory_barrier();
	p->armed = (Kind) PG_GETARG_INT32(0);
	PG_RETURN_VOID();
}

/* eo_fail_end(process int) returns the number of points passed since eo_fail_at(). */
Datum
eo_fail_end(PG_FUNCTION_ARGS)
{
	Points	   *p = points_of((Process) PG_GETARG_INT32(0));

	p->armed = NOTHING;
	PG_RETURN_INT64(p->passed);
}

Datum
eo_fail_passed(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(points_of((Process) PG_GETARG_INT32(0))->passed);
}
