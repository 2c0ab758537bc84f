/*
 * responder.c
 *	  responder [MS]: a server with canned replies that takes the place of
 *	  DynamoDB in the benchmarks.
 *
 * It has one thread with one epoll loop, speaks HTTP/1.1 with keep-alive on
 * 127.0.0.1, and prints its port.  It answers an UpdateItem with a record that
 * contains the key, token and origin that were sent, in the state that was to be
 * written.  If the key begins with IDEMPOTENCY#dup, it answers with a refusal and
 * a completed record.  The item of a life is open, at the beat that was sent, or absent
 * if it is read.  It parses only what it needs and stores nothing, so that
 * it adds little to the time of the client.  Each reply is delayed by MS milliseconds,
 * by default not at all.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_REQUEST 65536
#define MAX_CONNECTIONS 1024

static useconds_t delay_us;

typedef struct Connection
{
	int			fd;
	size_t		len;
	char		in[MAX_REQUEST];
} Connection;

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

static int
reply(const char *body, char *out, size_t size)
{
	char		pk[2100];
	char		owner[64];
	char		origin[160];
	char		sealed[200] = "";
	char		item[4096];
	int			status = 200;

	between(body, "\"pk\":{\"S\":\"", pk, sizeof(pk));
	between(body, "\":o\":{\"S\":\"", owner, sizeof(owner));
	between(body, "\":g\":{\"S\":\"", origin, sizeof(origin));
	if (origin[0] != '\0')
		snprintf(sealed, sizeof(sealed), "\"origin\":{\"S\":\"%s\"},", origin);
	if (strncmp(pk, "ORIGIN#", 7) == 0)
	{
		char		beat[32];
		char		nonce[64];

		between(body, "\":w\":{\"N\":\"", beat, sizeof(beat));
		between(body, "\":n\":{\"S\":\"", nonce, sizeof(nonce));
		if (beat[0] == '\0')
			snprintf(item, sizeof(item), "{}");
		else
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
	return snprintf(out, size, "HTTP/1.1 %d %s\r\nDate: %s\r\nx-amzn-RequestId: 00000000-0000-0000-0000-000000000000\r\n"
					"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %zu\r\n\r\n%s",
					status, status == 200 ? "OK" : "Bad Request", date(), strlen(item), item);
}

/* Answer every complete request in the buffer.  Returns 0 if the connection is to be closed. */
static int
serve(Connection *c)
{
	ssize_t		n = recv(c->fd, c->in + c->len, sizeof(c->in) - 1 - c->len, 0);

	if (n <= 0)
		return 0;
	c->len += (size_t) n;
	for (;;)
	{
		char		out[8192];
		char	   *end;
		char	   *length;
		size_t		whole;
		char		kept;
		int			len;

		c->in[c->len] = '\0';
		end = strstr(c->in, "\r\n\r\n");
		if (end == NULL)
			return 1;
		length = strcasestr(c->in, "content-length:");
		whole = (size_t) (end + 4 - c->in) +
			(length != NULL && length < end ? strtoul(length + 15, NULL, 10) : 0);
		if (c->len < whole)
			return whole < sizeof(c->in);
		kept = c->in[whole];
		c->in[whole] = '\0';
		len = reply(end + 4, out, sizeof(out));
		c->in[whole] = kept;
		if (delay_us > 0)
			usleep(delay_us);
		if (send(c->fd, out, (size_t) len, MSG_NOSIGNAL) != len)
			return 0;
		memmove(c->in, c->in + whole, c->len - whole);
		c->len -= whole;
	}
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

	delay_us = argc > 1 ? (useconds_t) atoi(argv[1]) * 1000 : 0;
	if (bind(listener, (struct sockaddr *) &address, size) != 0 || listen(listener, 128) != 0)
		return 1;
	getsockname(listener, (struct sockaddr *) &address, &size);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	for (;;)
	{
		struct epoll_event events[64];
		int			n = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < n; i++)
		{
			Connection *c = events[i].data.ptr;

			if (c == NULL)
			{
				c = calloc(1, sizeof(Connection));
				c->fd = accept(listener, NULL, NULL);
				setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				event.data.ptr = c;
				epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
			}
			else if (!serve(c))
			{
				close(c->fd);
				free(c);
			}
		}
	}
}
