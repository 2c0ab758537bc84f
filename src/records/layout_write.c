/*-------------------------------------------------------------------------
 *
 * layout_write.c
 *	  What a write shows to the other clients of a table.
 *
 * A state that they do not know is shown as a run in progress: a sealed record with ends
 * that are far away, so that nobody takes it over; a failed one with ends that are past.
 *
 *-------------------------------------------------------------------------
 */
#include "records/layout_write.h"

/* An instant of the layout's form; a client counts updated from stale_ms before an end. */
static void
make_end(const EoLayout *layout, int64_t end_ms, EoInstant *lease, EoInstant *updated)
{
	int64_t		from_ms = end_ms > layout->stale_ms ? end_ms - layout->stale_ms : 0;

	eo_timestamps_make(lease, layout->instants, end_ms);
	eo_timestamps_make(updated, layout->instants, from_ms);
}

/*
 * Fill in the ends that a failed record shows.  The instant of the next try is the end
 * of a lease.  In a table of one clock the expiry is that instant, too; if it is now, it
 * is a second ago, because clients compare seconds.  An expiry of long ago would never be swept.
 * A table with a word for what failed for good shows that word until the retention ends.
 */
static void
show_failed(const EoLayout *layout, int64_t due_ms, bool terminal, const EoWrite *w,
			int64_t *expiry_s, EoInstant *lease, EoInstant *updated)
{
	if (terminal && eo_layout_has_failed(layout))
		*expiry_s = w->kept_from_s + w->retention_s;
	else if (due_ms > w->now_ms)
		*expiry_s = (due_ms + 999) / 1000;
	else
		*expiry_s = w->now_ms / 1000 - 1;
	make_end(layout, due_ms, lease, updated);
	if (layout->stale_ms == 0 && (eo_layout_has_failed(layout) || eo_layout_has_one_clock(layout)))
		eo_timestamps_make(updated, layout->instants, w->now_ms);
}

void
eo_layout_write_make(const EoLayout *layout, EoState after, bool has_next, const EoWrite *w,
					 EoShown *shown)
{
	int64_t		end_ms = w->lease_ms;

	shown->status = layout->words[after];
	if (after == EO_STATE_FAILED)
	{
		bool		terminal = has_next && w->terminal;

		show_failed(layout, has_next && !terminal ? w->retry_ms : 0, terminal, w,
					&shown->expiry_s, &shown->lease, &shown->updated);
		return;
	}
	show_failed(layout, 0, false, w, &shown->kept_expiry_s, &shown->kept_lease,
				&shown->kept_updated);
	if (after == EO_STATE_COMMITTING)
		end_ms = EO_FAR_S * 1000;
	shown->expiry_s = (end_ms + 999) / 1000;
	make_end(layout, end_ms, &shown->lease, &shown->updated);
	if (after == EO_STATE_COMPLETED || (after == EO_STATE_IN_PROGRESS && layout->stale_ms == 0))
		eo_timestamps_make(&shown->updated, layout->instants, w->now_ms);
}
