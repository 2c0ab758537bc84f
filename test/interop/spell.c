/*-------------------------------------------------------------------------
 *
 * spell.c
 *	  Random records, and a write on each in both spellings, for spelling.test.mjs.
 *
 *	  spell SEED N LAYOUT [new]
 *
 * Prints one line of JSON for each record: {"verb": its name, "item": the record or null,
 * "update": the body of an UpdateItem on table spelled_update, "statement": a statement on
 * table spelled_statement}.  With "new" all records are in a state that this version does not
 * know, and there are more verbs, whose statement is null.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records/layout.h"
#include "records/record.h"

#define OWNER "11111111-2222-4333-8444-555555555555"
#define ORIGIN "life/1/2/3"

static const struct
{
	EoVerb		verb;
	const char *name;
	EoState		from;			/* a state in which it is accepted */
}			verbs[] = {
	{EO_ACQUIRE, "acquire", EO_STATE_FAILED}, {EO_COMPLETE, "complete", EO_STATE_IN_PROGRESS},
	{EO_FAIL, "fail", EO_STATE_IN_PROGRESS}, {EO_RELEASE, "release", EO_STATE_IN_PROGRESS},
	{EO_EXTEND, "extend", EO_STATE_IN_PROGRESS},
	{EO_PROGRESS, "progress", EO_STATE_IN_PROGRESS}, {EO_SEAL, "seal", EO_STATE_IN_PROGRESS},
	{EO_SEAL_NEW, "seal_new", EO_STATE_FAILED}, {EO_FINISH, "finish", EO_STATE_COMMITTING},
	{EO_ABORT, "abort", EO_STATE_COMMITTING}, {EO_UNSEAL, "unseal", EO_STATE_COMMITTING},
	{EO_RESUME, "resume", EO_STATE_COMMITTING}, {EO_NOTE_UNDONE, "note_undone", EO_STATE_COMMITTING},
	{EO_COMPLETE_NEW, "complete_new", EO_STATE_FAILED}, {EO_SPARE, "spare", EO_STATE_IN_PROGRESS},

	/* Of records in a new state only. */
	{EO_WAIVE, "waive", EO_STATE_COMMITTING}, {EO_BURY, "bury", EO_STATE_COMMITTING},

	/* And of the layout native, where what was seen has a state. */
	{EO_REPLACE, "replace", EO_STATE_COMPLETED}, {EO_FORGET, "forget", EO_STATE_COMPLETED},
	{EO_SEAL_EXPIRED, "seal_expired", EO_STATE_COMPLETED},
	{EO_COMPLETE_EXPIRED, "complete_expired", EO_STATE_COMPLETED},
	{EO_COMPLETE_FREE, "complete_free", EO_STATE_FAILED}
};

#define N_VERBS ((int) (sizeof(verbs) / sizeof(verbs[0])))
#define N_SPELLED 15
#define N_UNSEEN 17
#define NEW_STATE "PARKED"

static unsigned int state;

/* The state of all records; NULL: a random one. */
static const char *forced;

/* The same on every machine. */
static int
one_of(int n)
{
	state = state * 1103515245u + 12345u;
	return (int) ((state >> 16) % (unsigned int) n);
}

/* A value that a verb compares with is often the one that it looks for. */
static void
put_value(EoBuf *out, const EoLayout *layout, EoRecordAttribute a, EoState from)
{
	static const char *const owners[] = {OWNER, OWNER, OWNER, OWNER, OWNER, "other", ""};
	static const char *const origins[] = {ORIGIN, ORIGIN, "life/9/9/9", ""};
	static const char *const numbers[] = {"1000", "2000", "999", "2001", "0", "3", "1.5", "-7"};
	static const char *const words[] = {"Pending", "COMPLETED", "INPROGRESS", "Failed", "x"};

	if (a == EO_A_STATUS && forced != NULL)
	{
		eo_buf_addf(out, "{\"S\":\"%s\"}", forced);
		return;
	}
	if (one_of(40) == 0)
	{
		eo_buf_adds(out, one_of(2) ? "{\"BOOL\":true}" : "{\"L\":[{\"N\":\"1\"}]}");
		return;
	}
	switch (a)
	{
		case EO_A_STATUS:
			eo_buf_addf(out, "{\"S\":\"%s\"}",
						one_of(20) == 0 ? NEW_STATE :
						layout->states[one_of(2) ? (int) from : one_of(4)]);
			break;
		case EO_A_OWNER:
			eo_buf_addf(out, "{\"S\":\"%s\"}", owners[one_of(7)]);
			break;
		case EO_A_ORIGIN:
			eo_buf_addf(out, "{\"S\":\"%s\"}", origins[one_of(4)]);
			break;
		case EO_A_UNDONE:
			/* The engine answers with the members of a set in their order. */
			eo_buf_addf(out, "{\"SS\":[%s\"life/7/7/7\"]}", one_of(3) ? "" : "\"" ORIGIN "\",");
			break;
		case EO_A_STATUS_SHOWN:
		case EO_A_STATUS_COPY:
			eo_buf_addf(out, "{\"S\":\"%s\"}", words[one_of(16) > 0 ? 0 : one_of(5)]);
			break;
		case EO_A_EXPIRY_SHOWN:
		case EO_A_EXPIRY_COPY:
		case EO_A_UPDATED_SHOWN:
		case EO_A_UPDATED_COPY:
			eo_buf_addf(out, "{\"N\":\"%s\"}", numbers[one_of(16) > 0 ? 0 : one_of(8)]);
			break;
		case EO_A_BIND:
		case EO_A_RESULT:
		case EO_A_ERROR:
		case EO_A_PAYLOAD:
		case EO_A_HANDLER:
		case EO_A_HOLDER:
		case EO_A_PROGRESS:
			eo_buf_adds(out, one_of(2) ? "{\"S\":\"\\\"?' text\"}" : "{\"S\":\"\"}");
			break;
		default:
			eo_buf_addf(out, "{\"N\":\"%s\"}", numbers[one_of(8)]);
	}
}

static void
put_item(EoBuf *out, const EoLayout *layout, const char *pk, EoState from)
{
	if (one_of(from == EO_STATE_FAILED ? 2 : 20) == 0 && forced == NULL)
	{
		eo_buf_adds(out, "null");
		return;
	}
	eo_expression_put_key(out, &layout->key, pk);
	out->len--;
	for (int a = 0; a < EO_N_ATTRIBUTES; a++)
	{
		const char *name = layout->attributes[a].name;

		if (name == NULL || a == EO_A_KEY || a == EO_A_SORT_KEY ||
			(one_of(25) == 0 && (forced == NULL || a != EO_A_STATUS)))
			continue;
		/* Most records have no writes, no seals that were undone, and no progress. */
		if ((a == EO_A_WRITES || a == EO_A_UNDONE || a == EO_A_PROGRESS_NO) && one_of(4) > 0)
			continue;
		eo_buf_addf(out, ",\"%s\":", name);
		put_value(out, layout, (EoRecordAttribute) a, from);
	}
	/* Of a newer version, which every write leaves as it is. */
	if (one_of(3) == 0)
		eo_buf_adds(out, ",\"of_newer\":{\"M\":{\"a\":{\"N\":\"1\"}}}");
	eo_buf_addc(out, '}');
}

static void
make_write(EoWrite *w)
{
	static const char *const texts[] = {"{\"a\": \"\\\"?'\"}", "null", "\"\""};

	memset(w, 0, sizeof(*w));
	w->owner = OWNER;
	w->now_ms = 1000;
	w->skew_ms = 10;
	w->lease_ms = 2000;
	w->kept_from_s = 3;
	w->retention_s = 3600;
	w->bind = one_of(2) ? "tx" : "hold";
	w->origin = one_of(8) == 0 ? NULL : one_of(8) == 0 ? "" : ORIGIN;
	w->origin_last = w->origin == NULL || w->origin[0] == '\0' || one_of(2) ? w->origin : "~";
	w->holder = one_of(2) ? "psql" : NULL;
	w->max_runs = one_of(2) ? 3 : 0;
	w->payload_sha256 = one_of(2) ? "ab" : NULL;
	w->handler = one_of(4) == 0 ? "app.pay" : NULL;
	w->terminal = one_of(2);
	w->retry_ms = one_of(2) * 5000;
	w->result = one_of(2) ? texts[one_of(3)] : NULL;
	w->result_len = w->result != NULL ? strlen(w->result) : 0;
	w->error = one_of(2) ? texts[one_of(3)] : NULL;
	w->error_len = w->error != NULL ? strlen(w->error) : 0;
	w->writes = one_of(4) == 0 ? 1 : 0;
	w->progress = texts[one_of(3)];
	w->progress_len = strlen(w->progress);
	w->progress_seen = one_of(2) * 1000;
}

/* Read the record as it was when it was seen: in another state, and otherwise as it is. */
static bool
see(const EoLayout *layout, const char *pk, EoState from, EoJson **doc, EoRecord *seen)
{
	unsigned int before = state;
	EoBuf		item;
	bool		ok;

	eo_buf_init(&item, 1 << 16);
	forced = layout->states[from];
	put_item(&item, layout, pk, from);
	forced = NEW_STATE;
	state = before;
	ok = eo_json_parse(eo_buf_str(&item), item.len, doc) == EO_OK &&
		eo_record_read(layout, eo_json_root(*doc), seen) == EO_OK;
	eo_buf_free(&item);
	return ok;
}

int
main(int argc, char **argv)
{
	const EoLayout *layout = argc >= 4 ? eo_layout_find(argv[3]) : NULL;
	bool		is_new = argc == 5 && strcmp(argv[4], "new") == 0;
	EoBuf		line;

	if (layout == NULL || (argc != 4 && !is_new))
		return 2;
	state = (unsigned int) atoi(argv[1]);
	forced = is_new ? NEW_STATE : NULL;
	eo_buf_init(&line, 1 << 20);
	for (int i = 0; i < atoi(argv[2]); i++)
	{
		int			v = one_of(!is_new ? N_SPELLED : layout->is_native ? N_VERBS : N_UNSEEN);
		EoJson	   *doc = NULL;
		EoRecord	seen;
		EoWrite		w;
		char		pk[100];

		make_write(&w);
		/* A seal always says whose it is. */
		if (eo_record_state_after(verbs[v].verb) == EO_STATE_COMMITTING)
			w.origin = w.origin_last = ORIGIN;
		snprintf(pk, sizeof(pk), "%sspell/%s'\"?-%d", layout->item_prefix, argv[1], i);
		if (v >= N_UNSEEN)
		{
			/* One whose record had no owner, or the like. */
			if (!see(layout, pk, verbs[v].from, &doc, &seen))
			{
				eo_json_free(doc);
				continue;
			}
			w.seen = &seen;
		}
		eo_buf_reset(&line);
		eo_buf_addf(&line, "{\"verb\":\"%s\",\"item\":", verbs[v].name);
		put_item(&line, layout, pk, verbs[v].from);
		eo_buf_adds(&line, ",\"update\":");
		eo_record_put_write(layout, &line, "spelled_update", pk, verbs[v].verb, &w);
		eo_buf_adds(&line, ",\"statement\":");
		if (is_new || !eo_record_put_statement(layout, &line, "spelled_statement", pk, verbs[v].verb, &w))
			eo_buf_adds(&line, "null");
		eo_buf_addc(&line, '}');
		if (eo_buf_status(&line) != EO_OK || puts(eo_buf_str(&line)) < 0)
			return 1;
		eo_json_free(doc);
	}
	eo_buf_free(&line);
	return 0;
}
