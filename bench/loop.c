/*
 * loop.c
 *	  loop curl|raw PORT CALLS new|dup|both: the least that a call can cost.
 *
 * Sends the body of an acquire CALLS times; with "both" it sends the body of a
 * complete after each.  Prints a line of figures in microseconds: median, 90th
 * percentile and CPU time of a call, or of the two calls together.  "curl" uses
 * libcurl's easy interface with one handle, "raw" uses send() and recv() on a
 * socket.  Requests have a fixed, invalid signature, and the body of a reply is received
 * but not parsed.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

static const char acquire_format[] = "{\"TableName\":\"bench\",\"Key\":{\"pk\":{\"S\":\"IDEMPOTENCY#%s-%08d\"}},"
"\"ConditionExpression\":\"attribute_not_exists(#k) OR (#s = :F AND #r <= :i AND #o <> :o) OR (#s = :I AND #l < :d)\","
"\"UpdateExpression\":\"SET #s = :I, #o = :o, #b = :b, #f = if_not_exists(#f, :i) + :1, #l = :l, #n = if_not_exists(#n, :0) + :1, #c = if_not_exists(#c, :i), #u = :i, #t = :t REMOVE #v, #e, #r, #g\","
"\"ExpressionAttributeNames\":{\"#k\":\"pk\",\"#s\":\"status\",\"#o\":\"owner\",\"#b\":\"bind\",\"#f\":\"fence\",\"#l\":\"lease_ms\",\"#n\":\"runs\",\"#v\":\"result\",\"#e\":\"error\",\"#r\":\"retry_ms\",\"#c\":\"created_ms\",\"#u\":\"updated_ms\",\"#g\":\"origin\",\"#t\":\"ttl\"},"
"\"ExpressionAttributeValues\":{\":F\":{\"S\":\"FAILED\"},\":i\":{\"N\":\"1780000000000\"},\":o\":{\"S\":\"11111111-1111-4111-8111-111111111111\"},\":I\":{\"S\":\"IN_PROGRESS\"},\":d\":{\"N\":\"1780000000000\"},\":b\":{\"S\":\"keep\"},\":1\":{\"N\":\"1\"},\":l\":{\"N\":\"1780000000000\"},\":0\":{\"N\":\"0\"},\":t\":{\"N\":\"1780000000\"}},"
"\"ReturnValues\":\"ALL_NEW\",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}";

static const char complete_format[] = "{\"TableName\":\"bench\",\"Key\":{\"pk\":{\"S\":\"IDEMPOTENCY#%s-%08d\"}},"
"\"ReturnValues\":\"ALL_NEW\",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\",\"ConditionExpression\":\"#s = :I AND #o = :o\","
"\"UpdateExpression\":\"SET #s = :C, #u = :i, #t = :t, #v = :v REMOVE #l, #r, #e\","
"\"ExpressionAttributeNames\":{\"#s\":\"status\",\"#o\":\"owner\",\"#l\":\"lease_ms\",\"#v\":\"result\",\"#e\":\"error\",\"#r\":\"retry_ms\",\"#u\":\"updated_ms\",\"#t\":\"ttl\"},"
"\"ExpressionAttributeValues\":{\":I\":{\"S\":\"IN_PROGRESS\"},\":o\":{\"S\":\"11111111-1111-4111-8111-111111111111\"},\":C\":{\"S\":\"COMPLETED\"},\":i\":{\"N\":\"1780000000000\"},\":t\":{\"N\":\"1780000000\"},\":v\":{\"S\":\"{\\\"ok\\\": true}\"}}}";

static const char *const headers[] = {
	"Content-Type: application/x-amz-json-1.0", "X-Amz-Target: DynamoDB_20120810.UpdateItem",
	"X-Amz-Date: 20260101T000000Z",
	"Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=0000000000000000000000000000000000000000000000000000000000000000",
};

static double
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

static double
cpu_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

static int
by_value(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static size_t
collect(char *data, size_t size, size_t n, void *arg)
{
	(void) data;
	*(size_t *) arg += size * n;
	return size * n;
}

/* One round trip over the socket: send, then read up to the end of the body. */
static void
raw_call(int fd, int port, const char *body, size_t len)
{
	static char out[8192];
	static char in[8192];
	size_t		got = 0;
	size_t		want = 0;
	int			n = snprintf(out, sizeof(out), "POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n%s\r\n%s\r\n%s\r\nContent-Length: %zu\r\n\r\n",
							 port, headers[0], headers[1], headers[2], headers[3], len);

	memcpy(out + n, body, len);
	if (send(fd, out, (size_t) n + len, 0) != (ssize_t) ((size_t) n + len))
		exit(1);
	while (want == 0 || got < want)
	{
		ssize_t		r = recv(fd, in + got, sizeof(in) - 1 - got, 0);
		char	   *end;

		if (r <= 0)
			exit(1);
		got += (size_t) r;
		in[got] = '\0';
		end = strstr(in, "\r\n\r\n");
		if (want == 0 && end != NULL)
			want = (size_t) (end + 4 - in) + strtoul(strcasestr(in, "content-length:") + 15, NULL, 10);
	}
}

int
main(int argc, char **argv)
{
	int			port = argc > 4 ? atoi(argv[2]) : 0;
	int			calls = argc > 4 ? atoi(argv[3]) : 0;
	int			raw = argc > 4 && strcmp(argv[1], "raw") == 0;
	double	   *took;
	double		cpu;
	CURL	   *curl = NULL;
	struct curl_slist *list = NULL;
	size_t		received = 0;
	int			fd = -1;
	char		url[64];
	const char *formats[] = {acquire_format, complete_format};
	int			nformats = argc > 4 && strcmp(argv[4], "both") == 0 ? 2 : 1;

	if (argc != 5 || port == 0 || calls < 10)
	{
		fputs("usage: loop curl|raw PORT CALLS new|dup|both\n", stderr);
		return 2;
	}
	took = calloc((size_t) calls, sizeof(double));
	if (raw)
	{
		struct sockaddr_in address = {.sin_family = AF_INET,
			.sin_port = htons((unsigned short) port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		int			one = 1;

		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (connect(fd, (struct sockaddr *) &address, sizeof(address)) != 0)
			return 1;
	}
	else
	{
		curl_global_init(CURL_GLOBAL_ALL);
		curl = curl_easy_init();
		for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
			list = curl_slist_append(list, headers[i]);
		snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
		curl_easy_setopt(curl, CURLOPT_URL, url);
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
		curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
	}
	cpu = cpu_us();
	for (int i = 0; i < calls; i++)
	{
		char		body[4096];
		double		start = now_us();

		for (int f = 0; f < nformats; f++)
		{
			int			len = snprintf(body, sizeof(body), formats[f], argv[4], i);

			if (raw)
				raw_call(fd, port, body, (size_t) len);
			else
			{
				curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long) len);
				curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
				if (curl_easy_perform(curl) != CURLE_OK)
					return 1;
			}
		}
		took[i] = now_us() - start;
	}
	cpu = cpu_us() - cpu;
	qsort(took, (size_t) calls, sizeof(double), by_value);
	printf("%.2f %.2f %.2f\n", took[calls / 2], took[calls * 9 / 10], cpu / calls);
	return 0;
}
