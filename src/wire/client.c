/*-------------------------------------------------------------------------
 *
 * client.c
 *	  The service's clock, as the replies to one client show it.
 *
 * A clock becomes known by two replies to reads that agree (clock_sync.c), or from
 * another process of the cluster that has found it in this way.  After that each
 * reply may correct it.
 *
 *-------------------------------------------------------------------------
 */
#include "wire/client.h"

#include "wire/clock.h"

/*
 * A Date header has whole seconds, so it is taken to be the middle of its
 * second.  Two instants that differ by no more than this count as the same.
 */
#define CLOCK_TOLERANCE_US INT64_C(1500000)

/* Two readings of a first contact agree if they differ by no more than this. */
#define READING_TOLERANCE_US INT64_C(2000000)

/* The host's clock has been set if it has moved by more than this. */
#define STEP_TOLERANCE_US INT64_C(2000000)

/* The service refuses signatures about five minutes off, some engines sooner. */
#define SKEW_SUSPICIOUS_US INT64_C(30000000)

static int64_t offset_in_use(const EoClient *client);
static void know_clock(EoClient *client, int64_t offset_us, int64_t host_us);
static bool show_host(int64_t a_us, int64_t b_us, int64_t host_us);
static bool is_within(int64_t difference_us, int64_t tolerance_us);

int64_t
eo_client_deadline_us(EoClient *client)
{
	int64_t		timeout_us = (int64_t) client->request_timeout_ms * 1000;
	int64_t		deadline_us = eo_clock_monotonic_us() + timeout_us - client->waited_us;

	client->waited_us = 0;
	return deadline_us;
}

int64_t
eo_client_now_ms(const EoClient *client)
{
	return (eo_clock_steady_us() + client->clock.offset_us) / 1000;
}

int64_t
eo_client_signing_s(const EoClient *client)
{
	return (eo_clock_steady_us() + offset_in_use(client)) / 1000000;
}

bool
eo_client_knows_clock(const EoClient *client)
{
	return client->clock.state == EO_CLOCK_KNOWN &&
		is_within(eo_clock_host_offset_us() - client->clock.host_us, STEP_TOLERANCE_US);
}

void
eo_client_learn_clock(EoClient *client, int64_t date_s, int64_t steady_us, int64_t took_us)
{
	EoServiceClock *clock = &client->clock;
	int64_t		seen = eo_client_offset_seen(date_s, steady_us);
	int64_t		host_us;

	if (clock->state != EO_CLOCK_KNOWN)
		return;

	/*
	 * The date may have been written at any instant since the request was
	 * sent.
	 */
	if (is_within(seen - clock->offset_us, CLOCK_TOLERANCE_US) ||
		(seen < clock->offset_us && seen + took_us >= clock->offset_us))
		clock->has_candidate = false;
	else if (clock->has_candidate && is_within(seen - clock->candidate_us, CLOCK_TOLERANCE_US))
	{
		host_us = eo_clock_host_offset_us();
		clock->offset_us = show_host(seen, clock->candidate_us, host_us) ? host_us : seen;
		clock->has_candidate = false;
		clock->news = true;
	}
	else
	{
		clock->candidate_us = seen;
		clock->has_candidate = true;
	}
}

bool
eo_client_correct_clock(EoClient *client, int64_t date_s, int64_t steady_us)
{
	int64_t		seen = eo_client_offset_seen(date_s, steady_us);

	if (is_within(seen - offset_in_use(client), SKEW_SUSPICIOUS_US))
		return false;
	client->clock = (EoServiceClock)
	{
		.state = EO_CLOCK_GUESSED,.offset_us = seen
	};
	return true;
}

int64_t
eo_client_offset_seen(int64_t date_s, int64_t steady_us)
{
	return date_s * 1000000 + 500000 - steady_us;
}

bool
eo_client_take_reading(EoClient *client, EoReadings *readings, int64_t offset_us)
{
	int64_t		host_us = eo_clock_host_offset_us();
	int			with = 0;

	while (with < readings->n &&
		   !is_within(offset_us - readings->offset_us[with], READING_TOLERANCE_US))
		with++;
	readings->offset_us[readings->n++] = offset_us;
	if (with == readings->n - 1)
		return false;
	know_clock(client,
			   show_host(offset_us, readings->offset_us[with], host_us) ? host_us : offset_us,
			   host_us);
	client->clock.news = true;
	readings->n = 0;
	return true;
}

bool
eo_client_adopt_clock(EoClient *client, int64_t offset_us, int64_t host_us)
{
	const EoServiceClock *clock = &client->clock;

	if (!is_within(eo_clock_host_offset_us() - host_us, STEP_TOLERANCE_US))
		return false;
	if (clock->state == EO_CLOCK_GUESSED &&
		!is_within(offset_us - clock->offset_us, READING_TOLERANCE_US))
		return false;
	/* If it is the same clock, the candidate for another must not be lost. */
	if (clock->state != EO_CLOCK_KNOWN || clock->offset_us != offset_us)
		know_clock(client, offset_us, host_us);
	client->clock.host_us = host_us;
	return true;
}

double
eo_client_seconds_ahead(int64_t offset_us)
{
	return (double) (offset_us - eo_clock_host_offset_us()) / 1000000;
}

static int64_t
offset_in_use(const EoClient *client)
{
	return client->clock.state == EO_CLOCK_UNKNOWN ? eo_clock_host_offset_us() :
		client->clock.offset_us;
}

static void
know_clock(EoClient *client, int64_t offset_us, int64_t host_us)
{
	client->clock = (EoServiceClock)
	{
		.state = EO_CLOCK_KNOWN,.offset_us = offset_us,.host_us = host_us
	};
}

/* If both readings show the host's clock, that is right, and more exact than they are. */
static bool
show_host(int64_t a_us, int64_t b_us, int64_t host_us)
{
	return is_within(a_us - host_us, CLOCK_TOLERANCE_US) &&
		is_within(b_us - host_us, CLOCK_TOLERANCE_US);
}

static bool
is_within(int64_t difference_us, int64_t tolerance_us)
{
	return difference_us >= -tolerance_us && difference_us <= tolerance_us;
}
