/*-------------------------------------------------------------------------
 *
 * record.c
 *	  How a record is written in DynamoDB: verbs, conditions, updates.
 *
 * A verb is a row of verbs[]: the state it leaves, the condition under which it
 * may happen, and what it changes, in the shorthand of expression.h.  layout.c
 * says which attribute a "#" letter stands for, values[] which value a ":" letter
 * does, and options_of() which optional parts are kept.  The conditions carry the
 * protocol, so each is argued beside its text.
 *
 * In layouts other than native the same conditions and updates are about attributes of
 * our own names.  Added to them is what other clients are shown, and the condition that
 * they have changed none of it (UNTOUCHED).
 *
 *-------------------------------------------------------------------------
 */
#include "records/record.h"

#include "records/action_item.h"
#include "records/action_seal.h"
#include "records/expression.h"
#include "records/layout_write.h"
#include "records/statement.h"

/*
 * The options of conditions and updates: does the write have the value of that
 * letter?  "x" is set if the seal that is undone has left no origin.
 *
 * The capital letters from X on belong to the layouts other than native: X all of them,
 * D with a lease beside the expiry, W with the expiry alone, L with a lease attribute,
 * Y with an updated attribute.  The rest comes in pairs, of which one is set for a
 * write as seen: what was seen has, or has not, an owner (O, Q), an expiry (E, G), an
 * updated attribute (V, B), a lease (H, K).
 */
static const char options[] = "mpvergxNUhqji" "XDWLYOQEGVBHK";

/* Those of the native layout are the first thirteen. */
#define N_VARIANTS (1 << 13)

/* Attributes of the record that a write "as seen" names; NULL: the record has none. */
typedef struct Seen
{
	const char *state;
	EoJsonValue *fence;
	EoJsonValue *updated;

	/* Not in the native layout. */
	EoJsonValue *owner;
	EoJsonValue *status_shown;
	EoJsonValue *expiry_shown;
	EoJsonValue *lease_shown;
	EoJsonValue *updated_shown;
} Seen;

/* Values that are computed from the write and the record that was seen. */
typedef struct Derived
{
	int64_t		dead_ms;		/* a lease that ended before is dead */
	int64_t		kept_from_s;
	int64_t		ttl_s;			/* of a write that sets the retention, too */
} Derived;

static unsigned int
options_of(const EoWrite *w, const Seen *seen)
{
	const bool	set[] = {
		w->max_runs > 0,		/* m */
		w->payload_sha256 != NULL,	/* p */
		w->result != NULL,		/* v */
		w->error != NULL,		/* e */
		!w->terminal,			/* r */
		w->origin != NULL && w->origin[0] != '\0',	/* g */
		w->origin != NULL && w->origin[0] == '\0',	/* x: sealed without an
													 * origin */
		seen->fence != NULL,	/* N */
		seen->updated != NULL,	/* U */
		w->holder != NULL,		/* h */
		w->writes > 0,			/* q */
		w->handler != NULL,		/* j */
		w->progress_seen > 0	/* i */
	};

	return eo_expression_options(set, sizeof(set) / sizeof(set[0]));
}

/* The options that the native layout does not have. */
static unsigned int
other_options_of(const EoLayout *layout, const Seen *seen)
{
	const bool	is_seen = seen->status_shown != NULL;
	const bool	has_lease = layout->lease != NULL;
	const bool	has_updated = layout->updated != NULL;
	const bool	set[] = {
		true,					/* X */
		!eo_layout_has_one_clock(layout),	/* D */
		eo_layout_has_one_clock(layout),	/* W */
		has_lease,				/* L */
		has_updated,			/* Y */
		seen->owner != NULL,	/* O */
		is_seen && seen->owner == NULL, /* Q */
		seen->expiry_shown != NULL, /* E */
		is_seen && seen->expiry_shown == NULL,	/* G */
		seen->updated_shown != NULL,	/* V */
		is_seen && has_updated && seen->updated_shown == NULL,	/* B */
		seen->lease_shown != NULL,	/* H */
		is_seen && has_lease && seen->lease_shown == NULL	/* K */
	};

	return eo_expression_options(set, sizeof(set) / sizeof(set[0])) * N_VARIANTS;
}

/*
 * The record shows to other clients what was shown to them last.  If it does not,
 * one of them has changed it, and may have begun a run of its own: then no attribute
 * of ours counts, and the claim is lost.
 */
#define UNTOUCHED "[X? AND #S = #B AND #E = #Z][Y? AND #U = #Y]"

/* A record that counts no runs has had none. */
#define RUNS_LEFT "[m? AND (attribute_not_exists(#n) OR #n < :m)]"
#define SAME_REQUEST "[p? AND (attribute_not_exists(#p) OR #p = :p)]" \
	"[j? AND (attribute_not_exists(#j) OR #j = :j)]"

/*
 * The key is free for a new run.  There is no record; or it is failed, due, and
 * not of this very token, because a late copy of this request must not revive a
 * claim that has ended; or it is in progress with a dead lease.  COMMITTING is in
 * none of these: such a record is never taken over, whatever any clock says.
 */
#define IS_ABSENT "attribute_not_exists(#k)"
#define IS_FREE_AGAIN \
	"(#s = :F AND #r <= :i AND #o <> :o" RUNS_LEFT SAME_REQUEST UNTOUCHED ")" \
	" OR (#s = :I AND #l < :d" RUNS_LEFT SAME_REQUEST UNTOUCHED ")"
#define IS_FREE IS_ABSENT " OR " IS_FREE_AGAIN

/*
 * The record that was seen, compared by the values that were read, because another
 * client may write numbers that EoRecord cannot hold.  A comparison with an
 * attribute that is absent is false, so its absence is compared instead.
 */
#define FENCE_AS_SEEN "[N? AND #f = :N][!N? AND attribute_not_exists(#f)]"
#define UPDATED_AS_SEEN "[U? AND #u = :U][!U? AND attribute_not_exists(#u)]"

/*
 * In the other layouts the record may be that of another client, whose writes change at
 * least one of the attributes that they know.
 */
#define SHOWN_AS_SEEN "[X?#S = :J][O? AND #o = :Q][Q? AND attribute_not_exists(#o)]" \
	"[E? AND #E = :E][G? AND attribute_not_exists(#E)]" \
	"[V? AND #U = :V][B? AND attribute_not_exists(#U)]" \
	"[H? AND #L = :K][K? AND attribute_not_exists(#L)]"

/*
 * The record that was seen, and untouched since: every write changes owner, state or
 * updated_ms.  The first is about a finished record that was past its ttl, the second
 * about one that may have none.
 */
#define IS_AS_SEEN "[!X?#s = :S AND #o = :O AND #t = :T]" SHOWN_AS_SEEN \
	FENCE_AS_SEEN UPDATED_AS_SEEN
#define IS_STILL_AS_SEEN "[!X?#s = :S AND #o = :O]" SHOWN_AS_SEEN \
	FENCE_AS_SEEN UPDATED_AS_SEEN

/* The owner's own run, in progress. */
#define IS_OWN_RUN "#s = :I AND #o = :o" UNTOUCHED

/*
 * The owner's own run, in progress or sealed by this very transaction.  What
 * another transaction has sealed under the same token is left alone.
 */
#define IS_OWN_RUN_OR_SEALED "#o = :o" UNTOUCHED " AND (#s = :I" \
	"[g? OR (#s = :M AND #g = :g)]" \
	"[x? OR (#s = :M AND attribute_not_exists(#g))])"

/* Sealed by this very transaction.  Without an origin the write must not be made. */
#define IS_OWN_SEALED "#o = :o" UNTOUCHED " AND #s = :M" \
	"[g? AND #g = :g][x? AND attribute_not_exists(#g)]"

/* A claim notes its retention and who made it. */
#define SET_TERMS ", #a = :a[h?, #h = :h]"
#define REMOVE_TERMS "[!h?, #h]"

/*
 * The progress is the one that the run has seen: a late note, or one that is sent twice,
 * must not put it back.  What completes the key or begins it anew removes it, and nothing else.
 */
#define PROGRESS_AS_SEEN "[i? AND #q = :A][!i? AND attribute_not_exists(#q)]"
#define REMOVE_PROGRESS ", #m, #q"

/*
 * A claim that outlives its transaction may be sealed several times.  The origins of the
 * seals that were undone stay in the record until the next claim, because a copy of each
 * may still arrive.  A statement of PartiQL is for records that have none (statement.c).
 */
#define IS_NOT_UNDONE "(attribute_not_exists(#d) OR NOT contains(#d, :g))"
#define NOTE_UNDONE "[g? ADD #d :G]"

/*
 * The record is kept for the retention of its claim from ":w" on.  Whoever has only
 * the token of the claim needs no read for that.  ":a" counts for a record that does
 * not say.
 */
#define SET_TTL "#t = :w + if_not_exists(#a, :a)"

/*
 * These show a write to other clients.  The end of a run in progress or failed is the shown
 * lease, or if there is none the expiry, which is the end of the retention otherwise.
 * The shown result of a failed run without a word for it is a run in progress whose
 * end is past, or is the instant of the next try.  A sealed record has ends that are
 * far away; those of before the seal are kept in it, because EO_UNSEAL, which is sent
 * with a token alone, must show them again.
 */
#define SHOW_STATUS "[X?, #S = :W, #B = :W]"
#define SHOW_UPDATED "[Y?, #U = :y, #Y = :y]"
#define SHOW_EXPIRY(ttl) "[D?, #E = " ttl ", #Z = " ttl "][W?, #E = :z, #Z = :z]"
#define SHOW_RUN(ttl) SHOW_EXPIRY(ttl) "[L?, #L = :L]" SHOW_UPDATED
#define SHOW_FINISHED(ttl) SHOW_STATUS "[X?, #E = " ttl ", #Z = " ttl "]" SHOW_UPDATED
#define SHOW_SEALED SHOW_STATUS "[X?, #E = :z, #Z = :z][L?, #L = :L]" SHOW_UPDATED
#define KEEP_SHOWN "[X?, #J = if_not_exists(#E, :X)][L?, #Q = if_not_exists(#L, :k)]" \
	"[Y?, #K = if_not_exists(#U, :n)]"
#define KEEP_NOTHING "[X?, #J = :X][L?, #Q = :k][Y?, #K = :n]"
#define SHOW_KEPT SHOW_STATUS \
	"[X?, #E = if_not_exists(#J, #E), #Z = if_not_exists(#J, #E)]" \
	"[L?, #L = if_not_exists(#Q, #L)]" \
	"[Y?, #U = if_not_exists(#K, #U), #Y = if_not_exists(#K, #U)]"
#define REMOVE_KEPT "[X?, #J][L?, #Q][Y?, #K]"
#define REMOVE_RUN "[L?, #L]" REMOVE_PROGRESS
#define THE_TTL ":w + if_not_exists(#a, :a)"

/* A run more of the record, or the first of a new one, which is over at once. */
#define COMPLETE_ONE_MORE "SET #s = :C, #o = :o, #b = :b," \
	" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1," \
	" #c = if_not_exists(#c, :i), #u = :i, #t = :t" SET_TERMS "[v?, #v = :v][p?, #p = :p]" \
	SHOW_FINISHED(":t") " REMOVE #l, #e, #r, #g, #w, #d" REMOVE_TERMS "[!v?, #v]" REMOVE_RUN REMOVE_KEPT

#define FORGOTTEN_AS_SEEN "[!X?#s = :S AND #o = :O]" SHOWN_AS_SEEN FENCE_AS_SEEN
#define FORGET(more) \
	"SET #s = :F, #o = :o, #u = :i, #t = :t, #r = :0, #n = :0" more \
	SHOW_STATUS SHOW_RUN(":t") " REMOVE #l, #v, #e, #p, #j, #i, #w" REMOVE_PROGRESS REMOVE_KEPT

#define FINISH_OF(seal) "#s = :M AND #o = :o" seal \
	"[q? AND #w = :q][!q? AND attribute_not_exists(#w)]" UNTOUCHED
#define FINISH(more) "SET #s = :C, " more "#u = :i, " SET_TTL SHOW_FINISHED(THE_TTL) \
	" REMOVE #l" REMOVE_RUN REMOVE_KEPT

/*
 * The verbs.  In the updates, what may be claimed at once gets a retry_ms of 0, so
 * that no two clocks need to agree on when "now" is.  Attributes that a state does
 * not have are removed, so that no reader meets the result of an earlier run.
 */
static const struct
{
	EoState		after;			/* the state it leaves */
	const char *condition;
	const char *update;
}			verbs[] =
{
	/*
	 * fence starts at the clock, so that it grows even if the record was
	 * deleted in between.
	 */
	[EO_ACQUIRE] = {
		EO_STATE_IN_PROGRESS,
		IS_FREE,
		"SET #s = :I, #o = :o, #b = :b, #f = if_not_exists(#f, :i) + :1,"
		" #l = :l, #n = if_not_exists(#n, :0) + :1,"
		" #c = if_not_exists(#c, :i), #u = :i, #t = :t" SET_TERMS
		"[p?, #p = :p][j?, #j = :j][g?, #g = :g]"
		SHOW_STATUS SHOW_RUN(":t") " REMOVE #v, #e, #r, #d[!g?, #g]" REMOVE_TERMS REMOVE_KEPT
	},
	[EO_REPLACE] = {
		EO_STATE_IN_PROGRESS,
		IS_AS_SEEN,
		"SET #s = :I, #o = :o, #b = :b, #f = if_not_exists(#f, :i) + :1,"
		" #l = :l, #n = :1, #c = :i, #u = :i, #t = :t" SET_TERMS
		"[p?, #p = :p][j?, #j = :j][g?, #g = :g]" SHOW_STATUS SHOW_RUN(":t")
		" REMOVE #v, #e, #r, #w, #d, #i[!g?, #g]" REMOVE_TERMS "[!p?, #p][!j?, #j]"
		REMOVE_PROGRESS REMOVE_KEPT
	},

	/*
	 * No transaction completes the key, so the origin goes: it would name one
	 * that had sealed the key before and was rolled back.
	 */
	[EO_COMPLETE] = {
		EO_STATE_COMPLETED,
		IS_OWN_RUN,
		"SET #s = :C, #u = :i, " SET_TTL "[v?, #v = :v]" SHOW_FINISHED(THE_TTL)
		" REMOVE #l, #r, #e, #g, #w[!v?, #v]" REMOVE_RUN
	},

	/*
	 * The owner may still say why it failed after the claim was released
	 * under its token, as long as nobody has claimed the key since.
	 */
	[EO_FAIL] = {
		EO_STATE_FAILED,
		"#o = :o AND (#s = :I OR #s = :F)" UNTOUCHED,
		"SET #s = :F, #u = :i, " SET_TTL "[e?, #e = :e][r?, #r = :r]"
		SHOW_STATUS SHOW_RUN(THE_TTL) " REMOVE #l, #v, #i[!e?, #e][!r?, #r]"
	},

	/*
	 * The key is given back without having been tried: the run does not
	 * count.
	 */
	[EO_RELEASE] = {
		EO_STATE_FAILED,
		IS_OWN_RUN,
		"SET #s = :F, #u = :i, " SET_TTL ", #r = :0, #n = if_not_exists(#n, :1) - :1"
		SHOW_STATUS SHOW_RUN(THE_TTL) " REMOVE #l, #v, #e"
	},

	/*
	 * The machine has failed, and not the work.  Whoever counts how often
	 * that was so in a row does not repeat for ever what fails always.
	 */
	[EO_SPARE] = {
		EO_STATE_FAILED,
		IS_OWN_RUN,
		"SET #s = :F, #u = :i, " SET_TTL ", #r = :0, #n = if_not_exists(#n, :1) - :1,"
		" #i = if_not_exists(#i, :0) + :1" SHOW_STATUS SHOW_RUN(THE_TTL) " REMOVE #l, #v, #e"
	},

	/*
	 * A lease is never shortened: a heartbeat that arrives late must not undo
	 * a later one.
	 */
	[EO_EXTEND] = {
		EO_STATE_IN_PROGRESS,
		IS_OWN_RUN " AND #l <= :l",
		"SET #l = :l, #u = :i, " SET_TTL SHOW_RUN(THE_TTL)
	},
	[EO_PROGRESS] = {
		EO_STATE_IN_PROGRESS,
		IS_OWN_RUN " AND #l <= :l" PROGRESS_AS_SEEN,
		"SET #m = :P, #q = if_not_exists(#q, :0) + :1, #l = :l, #u = :i, " SET_TTL SHOW_RUN(THE_TTL)
	},

	/*
	 * A record that notes this very seal as undone was unsealed after its
	 * transaction had ended.  Then this request is a late copy, and must not
	 * seal the record again.
	 *
	 * The result goes in now, so that nothing can be too large or too late
	 * once PostgreSQL has committed.  There is no ttl: a record in this state
	 * is never swept.  The lease stays, for EO_UNSEAL.
	 */
	[EO_SEAL] = {
		EO_STATE_COMMITTING,
		IS_OWN_RUN " AND " IS_NOT_UNDONE,
		"SET #s = :M, #g = :g, #b = :b, #u = :i[v?, #v = :v][q?, #w = :q]" KEEP_SHOWN SHOW_SEALED
		" REMOVE #t, #e, #r[!v?, #v][!q?, #w]"
	},
	[EO_SEAL_NEW] = {
		EO_STATE_COMMITTING,
		IS_FREE,
		"SET #s = :M, #o = :o, #b = :b, #g = :g,"
		" #f = if_not_exists(#f, :i) + :1, #n = if_not_exists(#n, :0) + :1,"
		" #c = if_not_exists(#c, :i), #u = :i" SET_TERMS "[v?, #v = :v][q?, #w = :q]" KEEP_NOTHING SHOW_SEALED
		" REMOVE #t, #l, #e, #r, #d" REMOVE_TERMS "[!v?, #v][!q?, #w]"
	},
	[EO_SEAL_EXPIRED] = {
		EO_STATE_COMMITTING,
		IS_AS_SEEN,
		"SET #s = :M, #o = :o, #b = :b, #g = :g,"
		" #f = if_not_exists(#f, :i) + :1, #n = :1, #c = :i, #u = :i" SET_TERMS "[v?, #v = :v][q?, #w = :q]"
		KEEP_NOTHING SHOW_SEALED " REMOVE #t, #l, #e, #r, #p, #j, #d" REMOVE_TERMS "[!v?, #v][!q?, #w]"
		REMOVE_PROGRESS
	},

	/*
	 * A claim may be sealed by several transactions in turn, and after a
	 * failover by one that the sender of this finish knows nothing of: so the
	 * seal is named.  A request that does not bring the writes of a record
	 * must not finish it.  A seal without writes removes what others left.
	 */
	[EO_FINISH] = {
		EO_STATE_COMPLETED,
		FINISH_OF("[g? AND #g >= :g AND #g <= :H][x? AND attribute_not_exists(#g)]"), FINISH("")
	},
	/* The origin says whose work is there, and not who has sealed. */
	[EO_FINISH_OTHER] = {EO_STATE_COMPLETED, FINISH_OF(" AND #g = :H"), FINISH("#g = :g, ")},

	/*
	 * The number of writes stays in a record whose finish has made them, and
	 * goes here: so that of the two each can be told from the record.
	 */
	[EO_WAIVE] = {
		EO_STATE_COMPLETED,
		IS_OWN_SEALED,
		"SET #s = :C, #u = :i, " SET_TTL SHOW_FINISHED(THE_TTL) " REMOVE #l, #w" REMOVE_RUN REMOVE_KEPT
	},
	/* The run counts, so that a key whose work always fails reaches max_runs. */
	[EO_ABORT] = {
		EO_STATE_FAILED,
		IS_OWN_RUN_OR_SEALED,
		"SET #s = :F, #u = :i, " SET_TTL ", #r = :0" SHOW_STATUS SHOW_RUN(THE_TTL)
		" REMOVE #l, #v, #e, #i, #w" REMOVE_KEPT
	},

	/*
	 * For a first write whose outcome nobody knows.  If it has not been
	 * applied there may be no record at all.  Then one under its token is
	 * left here, which that write can never get past: its condition refuses a
	 * failed record of its own token.
	 */
	[EO_BURY] = {
		EO_STATE_FAILED,
		"attribute_not_exists(#k) OR (" IS_OWN_RUN_OR_SEALED ")",
		"SET #s = :F, #o = :o, #u = :i, " SET_TTL ", #r = :0,"
		" #f = if_not_exists(#f, :i), #n = if_not_exists(#n, :1) - :1,"
		" #c = if_not_exists(#c, :i), #b = if_not_exists(#b, :b)"
		SHOW_STATUS SHOW_RUN(THE_TTL) " REMOVE #l, #v, #e, #w" REMOVE_KEPT
	},

	/*
	 * The seal is noted as undone, even if it has never arrived, so that
	 * EO_SEAL refuses a late copy of it.
	 */
	[EO_UNSEAL] = {
		EO_STATE_IN_PROGRESS,
		IS_OWN_RUN_OR_SEALED,
		"SET #s = :I, #l = if_not_exists(#l, :i), #u = :i, " SET_TTL "[g?, #g = :g]"
		SHOW_KEPT " REMOVE #v, #w" REMOVE_KEPT NOTE_UNDONE
	},
	/* A lease may have run out while the record was sealed. */
	[EO_RESUME] = {
		EO_STATE_IN_PROGRESS,
		IS_OWN_SEALED,
		"SET #s = :I, #l = :l, #u = :i, " SET_TTL "[g?, #g = :g]"
		SHOW_STATUS SHOW_RUN(THE_TTL) " REMOVE #v, #w" REMOVE_KEPT NOTE_UNDONE
	},

	/*
	 * Another transaction has sealed the record under the same token, so
	 * there is nothing to take back.  But that seal may be undone before this
	 * one arrives.
	 */
	[EO_NOTE_UNDONE] = {
		EO_STATE_COMMITTING,
		"#o = :o" UNTOUCHED " AND #s = :M AND (attribute_not_exists(#g) OR #g <> :g)",
		"ADD #d :G"
	},

	/*
	 * Here a late copy would do what its caller was told had not been done,
	 * and no lease or worker would undo it.  A key may become free again and
	 * again, but it is without a record once only, and a record is never
	 * again what it was: so a copy of the first verb is refused as soon as
	 * there is a record, and one of the others once it has changed.
	 */
	[EO_COMPLETE_NEW] = {
		EO_STATE_COMPLETED,
		IS_ABSENT,
		COMPLETE_ONE_MORE
	},
	[EO_COMPLETE_FREE] = {
		EO_STATE_COMPLETED,
		IS_STILL_AS_SEEN " AND (" IS_FREE_AGAIN ")",
		COMPLETE_ONE_MORE
	},
	[EO_COMPLETE_EXPIRED] = {
		EO_STATE_COMPLETED,
		IS_AS_SEEN,
		"SET #s = :C, #o = :o, #b = :b,"
		" #f = if_not_exists(#f, :i) + :1, #n = :1, #c = :i, #u = :i, #t = :t" SET_TERMS
		"[v?, #v = :v][p?, #p = :p]" SHOW_FINISHED(":t")
		" REMOVE #l, #e, #r, #g, #w, #j, #d" REMOVE_TERMS "[!v?, #v][!p?, #p]" REMOVE_RUN REMOVE_KEPT
	},

	/*
	 * Exactly the claim that was seen, in the state it was in: a copy of this
	 * request that arrives late must not undo what a later run has done.  A
	 * new owner is set, so that no late write of the old one finds its own
	 * token.
	 */
	[EO_FORGET] = {EO_STATE_FAILED, FORGOTTEN_AS_SEEN, FORGET("")},

	/* A fence that is none cannot grow, and begins anew. */
	[EO_FORGET_ODD] = {EO_STATE_FAILED, FORGOTTEN_AS_SEEN, FORGET(", #f = :i, #c = :i")},

	/* The condition cannot be true, so nothing is ever written. */
	[EO_PROBE] = {
		EO_STATE_FAILED,
		"attribute_exists(#k) AND attribute_not_exists(#k)",
		"SET #u = :i"
	}
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* The structs that values are taken from. */
typedef enum From
{
	FROM_LAYOUT,
	FROM_WRITE,
	FROM_RECORD,
	FROM_SEEN,
	FROM_SHOWN,
	FROM_DERIVED
} From;

#define STATE(state) {EO_VALUE_STRING, FROM_LAYOUT, offsetof(EoLayout, states[state]), 0}
#define STRING(from, type, member) {EO_VALUE_STRING, from, offsetof(type, member), 0}
#define NUMBER(from, type, member) {EO_VALUE_NUMBER, from, offsetof(type, member), 0}
#define AS_READ(from, type, member) {EO_VALUE_AS_READ, from, offsetof(type, member), 0}
#define INSTANT(member) {EO_VALUE_INSTANT, FROM_SHOWN, offsetof(EoShown, member), 0}
#define SIZED(from, type, member) \
	{EO_VALUE_SIZED, from, offsetof(type, member), offsetof(type, member##_len)}

/* The values by their letters.  Capital letters are states and what was seen. */
static const EoValue values[EO_VALUE_LETTERS] = {
	['I'] = STATE(EO_STATE_IN_PROGRESS),
	['M'] = STATE(EO_STATE_COMMITTING),
	['C'] = STATE(EO_STATE_COMPLETED),
	['F'] = STATE(EO_STATE_FAILED),
	['S'] = STRING(FROM_SEEN, Seen, state),
	['O'] = STRING(FROM_RECORD, EoRecord, owner),
	['N'] = AS_READ(FROM_SEEN, Seen, fence),
	['U'] = AS_READ(FROM_SEEN, Seen, updated),
	['T'] = NUMBER(FROM_RECORD, EoRecord, ttl_s),
	['o'] = STRING(FROM_WRITE, EoWrite, owner),
	['b'] = STRING(FROM_WRITE, EoWrite, bind),
	['g'] = STRING(FROM_WRITE, EoWrite, origin),
	['H'] = STRING(FROM_WRITE, EoWrite, origin_last),
	['G'] = {EO_VALUE_SET, FROM_WRITE, offsetof(EoWrite, origin), 0},
	['p'] = STRING(FROM_WRITE, EoWrite, payload_sha256),
	['j'] = STRING(FROM_WRITE, EoWrite, handler),
	['v'] = SIZED(FROM_WRITE, EoWrite, result),
	['e'] = SIZED(FROM_WRITE, EoWrite, error),
	['i'] = NUMBER(FROM_WRITE, EoWrite, now_ms),
	['l'] = NUMBER(FROM_WRITE, EoWrite, lease_ms),
	['t'] = NUMBER(FROM_DERIVED, Derived, ttl_s),
	['w'] = NUMBER(FROM_DERIVED, Derived, kept_from_s),
	['a'] = NUMBER(FROM_WRITE, EoWrite, retention_s),
	['h'] = STRING(FROM_WRITE, EoWrite, holder),
	['m'] = NUMBER(FROM_WRITE, EoWrite, max_runs),
	['r'] = NUMBER(FROM_WRITE, EoWrite, retry_ms),
	['q'] = NUMBER(FROM_WRITE, EoWrite, writes),
	['P'] = SIZED(FROM_WRITE, EoWrite, progress),
	['A'] = NUMBER(FROM_WRITE, EoWrite, progress_seen),
	['d'] = NUMBER(FROM_DERIVED, Derived, dead_ms),

	/* Not in the native layout. */
	['J'] = AS_READ(FROM_SEEN, Seen, status_shown),
	['E'] = AS_READ(FROM_SEEN, Seen, expiry_shown),
	['K'] = AS_READ(FROM_SEEN, Seen, lease_shown),
	['V'] = AS_READ(FROM_SEEN, Seen, updated_shown),
	['Q'] = AS_READ(FROM_SEEN, Seen, owner),
	['W'] = STRING(FROM_SHOWN, EoShown, status),
	['z'] = NUMBER(FROM_SHOWN, EoShown, expiry_s),
	['L'] = INSTANT(lease),
	['y'] = INSTANT(updated),
	['X'] = NUMBER(FROM_SHOWN, EoShown, kept_expiry_s),
	['k'] = INSTANT(kept_lease),
	['n'] = INSTANT(kept_updated)
};

static void put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
					   EoVerb verb, const EoWrite *w, const char *returns);
static const EoValue *values_of(const EoLayout *layout);
static void see(const EoLayout *layout, const EoRecord *record, Seen *seen);

const char *
eo_record_state_name(EoState state)
{
	return eo_layout_find("native")->states[state];
}

EoState
eo_record_state_after(EoVerb verb)
{
	return verbs[verb].after;
}

bool
eo_record_is_dated(EoVerb verb)
{
	static const bool dated[N_VERBS] = {
		[EO_ACQUIRE] = true,[EO_REPLACE] = true,[EO_EXTEND] = true,[EO_PROGRESS] = true,
		[EO_RESUME] = true,[EO_SEAL_NEW] = true,[EO_SEAL_EXPIRED] = true,[EO_COMPLETE_NEW] = true,
		[EO_COMPLETE_FREE] = true,[EO_COMPLETE_EXPIRED] = true
	};

	return dated[verb];
}

void
eo_record_put_write(const EoLayout *layout, EoBuf *body, const char *table,
					const char *pk, EoVerb verb, const EoWrite *w)
{
	put_update(layout, body, table, pk, verb, w, w->narrow ? ",\"ReturnValues\":\"UPDATED_NEW\"" :
			   ",\"ReturnValues\":\"ALL_NEW\"");
}

void
eo_record_put_transact_item(const EoLayout *layout, EoBuf *body, const char *table,
							const char *pk, EoVerb verb, const EoWrite *w)
{
	eo_buf_adds(body, "{\"Update\":");
	put_update(layout, body, table, pk, verb, w, "");
	eo_buf_addc(body, '}');
}

/* A verb with a set of options, in both spellings, each of which is made once. */
typedef struct Spelled
{
	const EoLayout *layout;
	uint64_t	number;			/* of the layout, which may be gone */
	EoVerb		verb;
	unsigned int set;
	EoExpression expression;
	EoStatement statement;
} Spelled;

/* Layouts come and go, so those of the other layouts have a place that they share. */
static Spelled *
find_spelled(const EoLayout *layout, EoVerb verb, unsigned int set)
{
	static Spelled *native[N_VERBS][N_VARIANTS];
	static Spelled *others[509];
	size_t		n = ((size_t) layout->number * N_VERBS + verb) * N_VARIANTS + set;
	Spelled   **place = layout->is_native ? &native[verb][set] : &others[n % 509];
	Spelled    *s = *place;

	if (s != NULL && s->set == set && s->verb == verb && s->number == layout->number)
		return s;
	s = s != NULL ? s : calloc(1, sizeof(Spelled));
	if (s == NULL)
		return NULL;
	eo_buf_free(&s->expression.text);
	eo_buf_free(&s->statement.text);
	memset(s, 0, sizeof(*s));
	s->layout = layout;
	s->number = layout->number;
	/* Numbers, states, and the terms of claims. */
	s->expression.steady = "01CFIMabh";
	s->verb = verb;
	s->set = set;
	return *place = s;
}

/* The structs that the values of a write are taken from. */
typedef struct Sources
{
	Seen		seen;
	EoShown		shown;
	Derived		derived;
	const void *structs[FROM_DERIVED + 1];
} Sources;

/* Fill in the sources of a write, and find its verb with its options; NULL: no memory. */
static Spelled *
find_sources(const EoLayout *layout, EoVerb verb, const EoWrite *w, Sources *s)
{
	unsigned int set;

	memset(&s->seen, 0, sizeof(s->seen));
	if (w->seen != NULL)
		see(layout, w->seen, &s->seen);
	s->derived.dead_ms = w->now_ms - w->skew_ms;

	/*
	 * Clients who go by the age of a run take a failed one over without
	 * moving its end, and it may be an hour ahead already.
	 */
	s->derived.kept_from_s = w->kept_from_s;
	if (eo_record_state_after(verb) == EO_STATE_FAILED)
		s->derived.kept_from_s += (layout->stale_ms + 999) / 1000;
	s->derived.ttl_s = s->derived.kept_from_s + w->retention_s;
	s->structs[FROM_LAYOUT] = layout;
	s->structs[FROM_WRITE] = w;
	s->structs[FROM_RECORD] = w->seen;
	s->structs[FROM_SEEN] = &s->seen;
	s->structs[FROM_SHOWN] = &s->shown;
	s->structs[FROM_DERIVED] = &s->derived;
	set = options_of(w, &s->seen);
	if (!layout->is_native)
	{
		eo_layout_write_make(layout, eo_record_state_after(verb), verb == EO_FAIL, w, &s->shown);
		set |= other_options_of(layout, &s->seen);
	}
	return find_spelled(layout, verb, set);
}

/* A transaction consumes an action by the same verbs, which are about another item then. */
static bool
is_of_action(const EoLayout *layout, const char *pk)
{
	return layout->is_native && eo_action_item_is_pk(pk);
}

/* Append a write as an UpdateItem that returns what returns says. */
static void
put_update(const EoLayout *layout, EoBuf *body, const char *table, const char *pk,
		   EoVerb verb, const EoWrite *w, const char *returns)
{
	Sources		sources;
	Spelled    *s;
	EoStatus	status = EO_OK;

	if (is_of_action(layout, pk))
	{
		eo_action_seal_put(body, table, pk, verb, w);
		return;
	}
	s = find_sources(layout, verb, w, &sources);
	if (s == NULL)
		status = EO_NO_MEMORY;
	else if (s->expression.text.len == 0)
		status = eo_expression_make(&s->expression, layout->attributes, options, s->set,
									verbs[verb].condition, verbs[verb].update);
	if (status == EO_OK)
		eo_expression_put_update(&s->expression, body, table, &layout->key, pk, returns,
								 values_of(layout), sources.structs);
	else
		body->status = status;
}

/*
 * A verb that begins a claim, or is for a key without a record, inserts the record.  The
 * other verbs that write where there is no record, like EO_BURY, have no spelling.
 */
static EoStatus
make_statement(Spelled *s)
{
	bool		inserts = s->verb == EO_ACQUIRE || s->verb == EO_SEAL_NEW ||
	s->verb == EO_COMPLETE_NEW;

	if (s->statement.text.len > 0 || s->statement.impossible)
		return EO_OK;
	return eo_statement_make(&s->statement, s->layout->attributes, &s->layout->key, options, s->set,
							 inserts ? NULL : verbs[s->verb].condition, verbs[s->verb].update);
}

bool
eo_record_put_statement(const EoLayout *layout, EoBuf *body, const char *table,
						const char *pk, EoVerb verb, const EoWrite *w)
{
	Sources		sources;
	Spelled    *s;
	EoStatus	status;

	if (is_of_action(layout, pk))
		return false;
	s = find_sources(layout, verb, w, &sources);
	status = s != NULL ? make_statement(s) : EO_NO_MEMORY;
	if (status != EO_OK)
		body->status = status;
	else if (s->statement.impossible)
		return false;
	else
		eo_statement_put(&s->statement, body, table, &layout->key, pk, values_of(layout),
						 sources.structs);
	return true;
}

/* The values of a layout: results may be in DynamoDB's own types. */
static const EoValue *
values_of(const EoLayout *layout)
{
	static EoValue native_result[EO_VALUE_LETTERS];

	if (!layout->native_result)
		return values;
	if (native_result['v'].type == EO_VALUE_NONE)
	{
		memcpy(native_result, values, sizeof(values));
		native_result['v'].type = EO_VALUE_JSON;
	}
	return native_result;
}

/* The values that were read, because another client may write what EoRecord cannot hold. */
static void
see(const EoLayout *layout, const EoRecord *record, Seen *seen)
{
	const EoAttributeName *a = layout->attributes;
	EoJsonValue *item = record->item;

	seen->state = layout->states[record->state];
	seen->fence = eo_json_get(item, a[EO_A_FENCE].name);
	seen->updated = eo_json_get(item, a[EO_A_UPDATED].name);
	if (layout->is_native)
		return;
	seen->owner = eo_json_get(item, a[EO_A_OWNER].name);
	seen->status_shown = eo_json_get(item, layout->status);
	seen->expiry_shown = eo_json_get(item, layout->expiry);
	if (layout->lease != NULL)
		seen->lease_shown = eo_json_get(item, layout->lease);
	if (layout->updated != NULL)
		seen->updated_shown = eo_json_get(item, layout->updated);
}

const char *
eo_record_pk_of(const EoLayout *layout, EoJsonValue *item)
{
	return eo_expression_pk_of(&layout->key, item);
}
