/*-------------------------------------------------------------------------
 *
 * action_create.c
 *	  Creating one-shot actions, one or many.
 *
 * All plans are checked before the first request, so a batch with a mistake
 * creates nothing.  The writes are then made in parts of bounded size, each part
 * in a memory context that is reset after it.  A part that fails leaves the
 * actions of earlier parts, and perhaps some of its own, created.
 *
 * The writes of a part share requests if there are more than parallel_requests.  What such
 * a request has not created gets a request of its own, which tells why.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "actions/action.h"
#include "actions/action_store.h"
#include "actions/pin.h"
#include "cluster/service_clocks.h"
#include "miscadmin.h"
#include "records/action_item.h"
#include "records/record.h"
#include "records/token.h"
#include "records/window.h"
#include "server/answer.h"
#include "server/bundle.h"
#include "server/options.h"
#include "server/store.h"
#include "server/text.h"
#include "utils/memutils.h"
#include "wire/client.h"

/* An id that cannot be guessed: 128 random bits in base64url. */
#define ID_LEN 22

/* How long an action can be consumed if the plan does not say. */
#define DEFAULT_LIFE_MS INT64CONST(2592000000)	/* 30 days */

/* A part ends after this many actions or bytes of payload. */
#define PART 1024
#define PART_BYTES (8 * 1024 * 1024)

StaticAssertDecl(EO_MAX_PIN_ATTEMPTS <= EO_MAX_PIN_TOKENS, "room for each attempt's token");

/* A plan and its write. */
typedef struct Entry
{
	const char *id;
	char		made_id[ID_LEN + 1];
	char		token[EO_TOKEN_LEN + 1];
	EoActionWrite write;
	EoAnswer   *answer;
	bool		created;		/* by a request that it shared */
	bool		clock_moved;	/* the service refused the time of that one */
} Entry;

/* The writes of a part that are still to share requests. */
typedef struct Part
{
	EoStore    *store;
	Entry	   *next;
	Entry	   *end;
} Part;

static void need_clock(EoStore *store, const char *id);
static void check_plan(EoStore *store, EoActionPlan *plan, int n, int position);
static const char *position_in(int n, int position);
static void check_twice(EoActionPlan *plans, int n);
static int	compare_ids(const void *a, const void *b);
static int	part_of(const EoActionPlan *plans, int n);
static void prepare(EoStore *store, const EoActionPlan *plan, Entry *entry);
static void create_part(EoStore *store, Entry *entries, int n);
static bool start_next(EoWindow *window, void *arg);
static EoAnswer *next_together(EoBundle *bundle);
static void take_finished(EoWindow *window, EoCall *call, void *arg);
static void take_together(EoAnswer *answer, void *arg);
static void make_id(char id[ID_LEN + 1]);
static void emit_created(EoStore *store, Entry *entry, EoEmitAction emit, void *arg);

void
eo_action_create(EoStore *store, EoActionPlan *plans, int n, EoEmitAction emit, void *arg)
{
	MemoryContext part = AllocSetContextCreate(CurrentMemoryContext, "exactonce actions",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	if (n > 0)
		need_clock(store, plans[0].id);
	for (int i = 0; i < n; i++)
		check_plan(store, &plans[i], n, i + 1);
	check_twice(plans, n);
	old = MemoryContextSwitchTo(part);
	for (int first = 0; first < n;)
	{
		int			count = part_of(plans + first, n - first);
		Entry	   *entries = palloc0(sizeof(Entry) * count);

		for (int i = 0; i < count; i++)
		{
			/* Hashing a PIN takes 50 ms. */
			CHECK_FOR_INTERRUPTS();
			prepare(store, &plans[first + i], &entries[i]);
		}
		create_part(store, entries, count);
		eo_service_clock_share(&store->client);
		for (int i = 0; i < count; i++)
			emit_created(store, &entries[i], emit, arg);
		MemoryContextReset(part);
		first += count;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(part);
}

/* id NULL: it is still to be made. */
static void
need_clock(EoStore *store, const char *id)
{
	char		token[EO_TOKEN_LEN + 1];

	eo_store_new_token(token);
	eo_action_store_need_clock(store, eo_action_store_pk(store, token),
							   id != NULL ? "create" : "create an action", id);
}

/* Refuse a plan that cannot work; fill in when it expires, if it does not say. */
static void
check_plan(EoStore *store, EoActionPlan *plan, int n, int position)
{
	int64		now_ms = eo_client_now_ms(&store->client);
	size_t		id_len = plan->id != NULL ? strlen(eo_text_to_utf8(plan->id)) : ID_LEN;
	char	   *pk = plan->id != NULL ? eo_action_store_pk(store, plan->id) : NULL;
	size_t		payload_len = plan->payload != NULL ? strlen(plan->payload) : 0;
	size_t		max_payload;

	if (plan->id != NULL && pk == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("action id for server \"%s\" is too long", store->server->name),
				 errdetail("%sIt has %zu bytes; with its prefix DynamoDB allows %d.",
						   position_in(n, position), id_len, EO_MAX_KEY_BYTES),
				 errhint("Leave the id out to get one of %d characters.", ID_LEN)));
	if (eo_record_key_result_size(store->layout, plan->payload, payload_len, &payload_len) != EO_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("payload of an action on server \"%s\" cannot be kept in DynamoDB's own types",
						store->server->name),
				 errdetail("%sThere are numbers of at most 38 digits, no empty names, and 32 levels.",
						   position_in(n, position)),
				 errhint("Put such a number into a string, or drop the server option result_form.")));
	max_payload = eo_action_item_max_payload(pk != NULL ? strlen(pk) : EO_MAX_KEY_BYTES, id_len);
	if (payload_len > max_payload)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("payload of an action on server \"%s\" is too large", store->server->name),
				 errdetail("%sIt has %zu bytes; there is room for %zu.",
						   position_in(n, position), payload_len, max_payload),
				 errhint("Store it elsewhere, and a reference to it in the action.")));
	if (plan->expires_ms == 0)
		plan->expires_ms = Min(Max(now_ms, plan->active_ms) + DEFAULT_LIFE_MS, EO_MAX_INSTANT_MS);
	if (plan->expires_ms <= now_ms || plan->expires_ms <= plan->active_ms)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("expires_at must be later than %s",
						plan->expires_ms <= now_ms ? "now" : "active_at"),
				 n > 1 ? errdetail("It is number %d of the actions.", position) : 0,
				 errhint("Nobody could ever consume the action.")));
}

/* The first sentence of a detail about one plan of several. */
static const char *
position_in(int n, int position)
{
	return n > 1 ? psprintf("It is number %d of the actions. ", position) : "";
}

/*
 * Requests run in parallel, so for two actions with the same id the winner would
 * be random: refuse the batch.
 */
static void
check_twice(EoActionPlan *plans, int n)
{
	EoActionPlan **named = palloc_extended(sizeof(EoActionPlan *) * Max(1, n), MCXT_ALLOC_HUGE);
	int			nnamed = 0;

	for (int i = 0; i < n; i++)
	{
		if (plans[i].id != NULL)
			named[nnamed++] = &plans[i];
	}
	qsort(named, nnamed, sizeof(EoActionPlan *), compare_ids);
	for (int i = 1; i < nnamed; i++)
	{
		if (compare_ids(&named[i - 1], &named[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("action \"%s\" is given twice", eo_text_key_shown(named[i]->id)),
					 errdetail("It is number %d and number %d of the actions.",
							   (int) (Min(named[i - 1], named[i]) - plans) + 1,
							   (int) (Max(named[i - 1], named[i]) - plans) + 1)));
	}
	pfree(named);
}

static int
compare_ids(const void *a, const void *b)
{
	return strcmp((*(EoActionPlan *const *) a)->id, (*(EoActionPlan *const *) b)->id);
}

/* The number of plans, at least one, of the next part. */
static int
part_of(const EoActionPlan *plans, int n)
{
	size_t		bytes = 0;
	int			i = 0;

	while (i < n && i < PART && bytes < PART_BYTES)
	{
		bytes += plans[i].payload != NULL ? strlen(plans[i].payload) : 0;
		i++;
	}
	return i;
}

static void
prepare(EoStore *store, const EoActionPlan *plan, Entry *entry)
{
	EoActionWrite *w = &entry->write;

	entry->id = plan->id;
	if (entry->id == NULL)
	{
		make_id(entry->made_id);
		entry->id = entry->made_id;
	}
	eo_store_new_token(entry->token);
	w->token = entry->token;
	w->now_ms = eo_client_now_ms(&store->client);
	w->id = eo_text_to_utf8(entry->id);
	w->active_ms = plan->active_ms;
	w->expires_ms = plan->expires_ms;
	w->ttl_s = eo_record_ttl_after(plan->expires_ms, store->server->retention_s);
	w->payload = plan->payload;
	if (plan->pin != NULL)
	{
		w->pin_hash = eo_pin_hash(store, w->id, plan->pin);
		w->pin_pepper = eo_pin_pepper_digest(store);
	}
	w->pin_attempts = store->server->pin_attempts;
	entry->answer = eo_action_store_plan(store, eo_action_store_pk(store, entry->id),
										 EO_ACTION_CREATE, w);
}

/* Run the writes of a part. */
static void
create_part(EoStore *store, Entry *entries, int n)
{
	Part		part = {.store = store,.next = entries,.end = entries + n};
	EoWindow	window = {.n = 0};
	EoAnswer  **alone = palloc(sizeof(EoAnswer *) * n);
	int			nalone = 0;

	if (n > store->server->parallel_requests)
		eo_window_run(&window, store->server->parallel_requests, start_next, take_finished, &part);
	for (int i = 0; i < n; i++)
	{
		Entry	   *entry = &entries[i];

		if (entry->created)
			continue;
		if (entry->clock_moved)
		{
			entry->write.now_ms = eo_client_now_ms(&store->client);
			entry->answer = eo_action_store_plan(store,
												 eo_action_store_pk(store, entry->id),
												 EO_ACTION_CREATE, &entry->write);
		}
		alone[nalone++] = entry->answer;
	}
	eo_answer_run(alone, nalone, store->server->parallel_requests);
}

static bool
start_next(EoWindow *window, void *arg)
{
	static const EoBundleOwner owner = {.next = next_together,.take = take_together};
	Part	   *part = arg;

	return part->next < part->end && eo_bundle_start_next(part->store, &owner, part, window, 0);
}

static EoAnswer *
next_together(EoBundle *bundle)
{
	Part	   *part = bundle->arg;
	Entry	   *entry = part->next;

	if (entry == part->end)
		return NULL;
	part->next++;
	entry->answer->user = entry;
	return entry->answer;
}

static void
take_finished(EoWindow *window, EoCall *call, void *arg)
{
	(void) window;
	(void) arg;
	(void) eo_bundle_take(call);
}

static void
take_together(EoAnswer *answer, void *arg)
{
	Entry	   *entry = answer->user;

	(void) arg;
	entry->created = answer->outcome == EO_APPLIED;
	entry->clock_moved = answer->call.clock_moved && !answer->call.in_doubt;
}

static void
make_id(char id[ID_LEN + 1])
{
	/* RFC 4648, section 5, without padding */
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned char random[17] = {0};

	if (!pg_strong_random(random, 16))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate an action id"),
				 errdetail("The source of random numbers failed.")));
	for (int i = 0; i < ID_LEN; i++)
	{
		int			bit = 6 * i;
		int			pair = random[bit / 8] << 8 | random[bit / 8 + 1];

		id[i] = digits[pair >> (10 - bit % 8) & 63];
	}
	id[ID_LEN] = '\0';
}

static void
emit_created(EoStore *store, Entry *entry, EoEmitAction emit, void *arg)
{
	EoAnswer   *answer = entry->answer;
	EoActionResult result = {.id = entry->id,.attempts_left = -1};

	/*
	 * If the service refused the time of the request, make the write once
	 * more by the corrected clock.  Not if it may have been applied.
	 */
	if (answer->call.clock_moved && !answer->call.in_doubt)
	{
		need_clock(store, entry->id);
		answer = eo_action_store_write(store, eo_action_store_pk(store, entry->id),
									   EO_ACTION_CREATE, &entry->write);
	}
	if (answer->outcome == EO_FAILED_CALL)
		eo_action_store_raise(answer, EO_ACTION_CREATE, entry->id);
	result.outcome = answer->outcome == EO_APPLIED ? EO_ACTION_CREATED : EO_ACTION_ALREADY_EXISTS;
	if (answer->outcome == EO_APPLIED)
	{
		result.created_ms = entry->write.now_ms;
		result.active_ms = entry->write.active_ms;
		result.expires_ms = entry->write.expires_ms;
	}
	emit(arg, &result);
}
