/*
 * responder.c
 *	  responder [MS]: a server with canned replies that takes the place of
 *	  DynamoDB in the benchmarks.
 *
 * It has one thread with one epoll loop, speaks HTTP/1.1 with keep-alive on
 * 127.0.0.1, and prints its port.  It answers an UpdateItem with a record that
 * contains the key, token and origin that were sent, in the state that was to be
 * written.  If the key begins with IDEMPOTENCY#dup, it answers with a refusal and
 * a completed record.  Each statement of a BatchExecuteStatement is accepted in the same
 * way.  The item of a life is open, at the beat that was sent; whatever
 * is read is absent.  It parses only what it needs and stores nothing, so that
 * it adds little to the time of the client.
 *
 * Each reply is sent MS milliseconds after its request came, by default at once.  Replies
 * wait side by side, as in a service that is far away, and not one after the other.
 * All wait equally long, so they are due in the order in which they began to wait.
 *
 * GET /counts says how many requests there were, a line for each operation and result.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUEST 65536
#define MAX_REPLY 65536
#define MAX_KINDS 32

typedef struct Connection
{
	int			fd;				/* -1: closed while its reply waited */
	size_t		len;
	char		in[MAX_REQUEST];
	size_t		whole;			/* of the request that is answered */
	char		out[MAX_REPLY];
	int			out_len;		/* 0: no reply waits */
	int64_t		due_ns;
	struct Connection *next;	/* whose reply is due next */
} Connection;

static int64_t delay_ns;
static int	timer;
static Connection *first;		/* of those whose replies wait */
static Connection *last;

static struct
{
	char		name[64];
	uint64_t	n;
}			counts[MAX_KINDS];

static int	serve(Connection *c);

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Copy the text between "after" and the next quote; empty if "after" is not found. */
static void
between(const char *text, const char *after, char *out, size_t size)
{
	const char *p = strstr(text, after);
	size_t		n = 0;

	if (p != NULL)
	{
		for (p += strlen(after); *p != '"' && *p != '\0' && n + 1 < size; p++)
			out[n++] = *p;
	}
	out[n] = '\0';
}

static const char *
date(void)
{
	static char text[64];
	static time_t last;
	time_t		now = time(NULL);

	if (now != last)
	{
		struct tm	tm;

		last = now;
		gmtime_r(&now, &tm);
		strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	}
	return text;
}

/* The state that the update writes.  Extending a lease writes none: IN_PROGRESS. */
static const char *
state_after(const char *body)
{
	static const char before[] = "SET #s = :";
	const char *set = strstr(body, before);

	switch (set != NULL ? set[sizeof(before) - 1] : 'I')
	{
		case 'M':
			return "COMMITTING";
		case 'C':
			return "COMPLETED";
		case 'F':
			return "FAILED";
	}
	return "IN_PROGRESS";
}

/* Count a request: "UpdateItem ok". */
static void
count(const char *head, int status)
{
	static const char target[] = "X-Amz-Target: DynamoDB_20120810.";
	const char *p = strcasestr(head, target);
	char		name[64] = "other";
	int			i = 0;

	if (p != NULL)
		snprintf(name, sizeof(name), "%.*s %s", (int) strcspn(p + sizeof(target) - 1, "\r"),
				 p + sizeof(target) - 1, status == 200 ? "ok" : "condition_failed");
	while (counts[i].n > 0 && strcmp(counts[i].name, name) != 0 && i < MAX_KINDS - 1)
		i++;
	memcpy(counts[i].name, name, sizeof(name));
	counts[i].n++;
}

static int
reply_counts(char *out, size_t size)
{
	char		text[MAX_KINDS * 96] = "";
	size_t		n = 0;

	for (int i = 0; i < MAX_KINDS && counts[i].n > 0; i++)
		n += (size_t) snprintf(text + n, sizeof(text) - n, "%s %llu\n", counts[i].name,
							   (unsigned long long) counts[i].n);
	return snprintf(out, size, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", n, text);
}

/* The token among the strings of a statement that follow its key. */
static void
owner_of(const char *key, char *owner)
{
	static const char before[] = "{\"S\":\"";
	const char *p = key;

	owner[0] = '\0';
	while ((p = strstr(p, before)) != NULL && owner[0] == '\0')
	{
		p += sizeof(before) - 1;
		if (strcspn(p, "\"") == 36)
			snprintf(owner, 37, "%s", p);
	}
}

/* The answers to statements.  An INSERT brings no item. */
static void
reply_to_batch(char *body, char *item, size_t size)
{
	size_t		n = (size_t) snprintf(item, size, "{\"Responses\":[");
	char	   *next;

	for (char *s = strstr(body, "{\"Statement\":"); s != NULL; s = next)
	{
		char		table[256];
		char		state[32];
		char		origin[160];
		char		pk[2100];
		char		owner[64];
		char	   *values = strstr(s, "\"Parameters\":[");

		next = strstr(s + 1, "{\"Statement\":");
		if (next != NULL)
			next[-1] = '\0';
		between(s, "\\\"", table, sizeof(table));
		table[strcspn(table, "\\")] = '\0';
		n += (size_t) snprintf(item + n, size - n, "%s{\"TableName\":\"%s\"", item[n - 1] == '[' ? "" : ",", table);
		if (strncmp(s, "{\"Statement\":\"INSERT", 20) != 0)
		{
			between(values, "\"Parameters\":[{\"S\":\"", state, sizeof(state));
			between(values, "[{\"S\":\"COMMITTING\"},{\"S\":\"", origin, sizeof(origin));
			between(values, "{\"S\":\"IDEMPOTENCY#", pk, sizeof(pk));
			owner_of(strstr(values, "{\"S\":\"IDEMPOTENCY#"), owner);
			n += (size_t) snprintf(item + n, size - n, ",\"Item\":{\"pk\":{\"S\":\"IDEMPOTENCY#%s\"},\"status\":{\"S\":\"%s\"},"
								   "\"owner\":{\"S\":\"%s\"},\"origin\":{\"S\":\"%s\"},\"bind\":{\"S\":\"keep\"},"
								   "\"fence\":{\"N\":\"1780000000001\"},\"runs\":{\"N\":\"1\"},\"lease_ms\":{\"N\":\"4102444800000\"},"
								   "\"created_ms\":{\"N\":\"1780000000000\"},\"updated_ms\":{\"N\":\"1780000000000\"},"
								   "\"ttl\":{\"N\":\"4103049600\"}}", pk, state[0] != '\0' ? state : "IN_PROGRESS", owner, origin);
		}
		n += (size_t) snprintf(item + n, size - n, "}");
	}
	snprintf(item + n, size - n, "]}");
}

static int
reply(const char *head, char *body, char *out, size_t size)
{
	char		pk[2100];
	char		owner[64];
	char		origin[160];
	char		sealed[200] = "";
	char		item[MAX_REPLY - 1024];
	int			status = 200;

	if (strncmp(head, "GET /counts ", 12) == 0)
		return reply_counts(out, size);
	between(body, "\"pk\":{\"S\":\"", pk, sizeof(pk));
	between(body, "\":o\":{\"S\":\"", owner, sizeof(owner));
	between(body, "\":g\":{\"S\":\"", origin, sizeof(origin));
	if (origin[0] != '\0')
		snprintf(sealed, sizeof(sealed), "\"origin\":{\"S\":\"%s\"},", origin);
	if (strcasestr(head, "DynamoDB_20120810.GetItem") != NULL)
		snprintf(item, sizeof(item), "{}");
	else if (strncmp(body, "{\"Statements\":", 14) == 0)
		reply_to_batch(body, item, sizeof(item));
	else if (strncmp(pk, "ORIGIN#", 7) == 0)
	{
		char		beat[32];
		char		nonce[64];

		between(body, "\":w\":{\"N\":\"", beat, sizeof(beat));
		between(body, "\":n\":{\"S\":\"", nonce, sizeof(nonce));
		snprintf(item, sizeof(item),
				 "{\"Attributes\":{\"pk\":{\"S\":\"%s\"},\"state\":{\"S\":\"open\"},\"beat\":{\"N\":\"%s\"},"
				 "\"nonce\":{\"S\":\"%s\"}}}", pk, beat, nonce);
	}
	else if (strncmp(pk, "IDEMPOTENCY#dup", 15) == 0)
	{
		status = 400;
		snprintf(item, sizeof(item),
				 "{\"__type\":\"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException\",\"Message\":\"The conditional request failed\","
				 "\"Item\":{\"pk\":{\"S\":\"%s\"},\"status\":{\"S\":\"COMPLETED\"},\"owner\":{\"S\":\"11111111-1111-4111-8111-111111111111\"},"
				 "\"bind\":{\"S\":\"keep\"},\"fence\":{\"N\":\"1780000000001\"},\"runs\":{\"N\":\"1\"},\"result\":{\"S\":\"{\\\"ok\\\": true}\"},"
				 "\"created_ms\":{\"N\":\"1780000000000\"},\"updated_ms\":{\"N\":\"1780000000000\"},\"ttl\":{\"N\":\"4102444800\"}}}", pk);
	}
	else
		snprintf(item, sizeof(item),
				 "{\"Attributes\":{\"pk\":{\"S\":\"%s\"},\"status\":{\"S\":\"%s\"},\"owner\":{\"S\":\"%s\"},%s"
				 "\"bind\":{\"S\":\"keep\"},\"fence\":{\"N\":\"1780000000001\"},\"runs\":{\"N\":\"1\"},\"lease_ms\":{\"N\":\"4102444800000\"},"
				 "\"created_ms\":{\"N\":\"1780000000000\"},\"updated_ms\":{\"N\":\"1780000000000\"},\"ttl\":{\"N\":\"4103049600\"}}}",
				 pk, state_after(body), owner, sealed);
	count(head, status);
	return snprintf(out, size, "HTTP/1.1 %d %s\r\nDate: %s\r\nx-amzn-RequestId: 00000000-0000-0000-0000-000000000000\r\n"
					"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %zu\r\n\r\n%s",
					status, status == 200 ? "OK" : "Bad Request", date(), strlen(item), item);
}

static void
set_timer(int64_t due_ns)
{
	struct itimerspec when = {.it_value = {due_ns / 1000000000, due_ns % 1000000000}};

	timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void
wait_for_reply(Connection *c)
{
	c->due_ns = now_ns() + delay_ns;
	c->next = NULL;
	if (first == NULL)
	{
		first = c;
		set_timer(c->due_ns);
	}
	else
		last->next = c;
	last = c;
}

/* Send the reply, and forget the request.  Returns 0 if the connection is to be closed. */
static int
send_reply(Connection *c)
{
	int			sent = (int) send(c->fd, c->out, (size_t) c->out_len, MSG_NOSIGNAL) == c->out_len;

	c->out_len = 0;
	c->len -= c->whole;
	memmove(c->in, c->in + c->whole, c->len);
	return sent;
}

/* Answer the complete requests in the buffer.  Returns 0 if the connection is to be closed. */
static int
serve(Connection *c)
{
	while (c->out_len == 0)
	{
		char	   *end;
		char	   *length;
		char		kept;

		c->in[c->len] = '\0';
		end = strstr(c->in, "\r\n\r\n");
		if (end == NULL)
			return 1;
		length = strcasestr(c->in, "content-length:");
		c->whole = (size_t) (end + 4 - c->in) +
			(length != NULL && length < end ? strtoul(length + 15, NULL, 10) : 0);
		if (c->len < c->whole)
			return c->whole < sizeof(c->in);
		kept = c->in[c->whole];
		c->in[c->whole] = '\0';
		c->out_len = reply(c->in, end + 4, c->out, sizeof(c->out));
		c->in[c->whole] = kept;
		if (delay_ns > 0)
			wait_for_reply(c);
		else if (!send_reply(c))
			return 0;
	}
	return 1;
}

static int
receive(Connection *c)
{
	ssize_t		n = recv(c->fd, c->in + c->len, sizeof(c->in) - 1 - c->len, 0);

	if (n <= 0)
		return 0;
	c->len += (size_t) n;
	return serve(c);
}

/* A connection whose reply waits is freed when that is due. */
static void
close_connection(Connection *c)
{
	close(c->fd);
	c->fd = -1;
	if (c->out_len == 0)
		free(c);
}

static void
send_due_replies(void)
{
	int64_t		now = now_ns();

	while (first != NULL && first->due_ns <= now)
	{
		Connection *c = first;

		first = c->next;
		if (c->fd < 0)
			free(c);
		else if (!send_reply(c) || !serve(c))
			shutdown(c->fd, SHUT_RDWR); /* its end is an event, too */
	}
	if (first != NULL)
		set_timer(first->due_ns);
}

int
main(int argc, char **argv)
{
	int			listener = socket(AF_INET, SOCK_STREAM, 0);
	int			epoll = epoll_create1(0);
	int			one = 1;
	struct sockaddr_in address = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	size = sizeof(address);
	struct epoll_event event = {.events = EPOLLIN,.data.ptr = NULL};

	delay_ns = argc > 1 ? (int64_t) (atof(argv[1]) * 1000000) : 0;
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	if (bind(listener, (struct sockaddr *) &address, size) != 0 || listen(listener, 512) != 0)
		return 1;
	getsockname(listener, (struct sockaddr *) &address, &size);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	event.data.ptr = &timer;
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	for (;;)
	{
		struct epoll_event events[64];
		int			n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++)
		{
			Connection *c = events[i].data.ptr;
			uint64_t	expirations;

			if (events[i].data.ptr == &timer)
			{
				if (read(timer, &expirations, sizeof(expirations)) > 0)
					send_due_replies();
			}
			else if (c == NULL)
			{
				c = calloc(1, sizeof(Connection));
				c->fd = accept(listener, NULL, NULL);
				setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				event.data.ptr = c;
				epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
			}
			else if (!receive(c))
				close_connection(c);
		}
	}
}
