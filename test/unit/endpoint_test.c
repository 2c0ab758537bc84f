/*
 * endpoint_test.c
 *	  Which endpoints are this machine, which are AWS's, and which addresses are local.
 */
#include "wire/endpoint.h"
#include "unit.h"

static void
is_loopback(const char *value, bool loopback)
{
	EoEndpoint	ep;
	const char *reason;

	ok(eo_endpoint_parse(value, &ep, &reason) && ep.loopback == loopback, value);
}

static void
is_dynamodb(const char *value, bool dynamodb)
{
	EoEndpoint	ep;
	const char *reason;

	ok(eo_endpoint_parse(value, &ep, &reason) && eo_endpoint_is_dynamodb(&ep) == dynamodb, value);
}

static void
test_list(void)
{
	const char *at = " a.test:80 ,\t[::1]:8000,http://b,c";
	EoEndpoint	ep;
	const char *reason;

	ok(eo_endpoint_next(&at, false, &ep, &reason) && reason == NULL, "a list has a first one");
	is_string(ep.authority, "a.test", "without a default port");
	ok(ep.has_port, "that is noted");
	ok(eo_endpoint_next(&at, true, &ep, &reason) && reason == NULL && ep.loopback, "and a second one");
	is_string(ep.authority, "[::1]:8000", "with its port");
	ok(eo_endpoint_next(&at, true, &ep, &reason) && reason != NULL, "what is none is told");
	ok(eo_endpoint_next(&at, true, &ep, &reason) && reason == NULL, "the last one");
	ok(!eo_endpoint_next(&at, true, &ep, &reason), "and no more");
}

static void
is_local(const char *ip, bool local)
{
	ok(eo_endpoint_is_local_text(ip) == local, ip);
}

int
main(void)
{
	EoEndpoint	ep;
	const char *reason;

	is_loopback("http://localhost:8000", true);
	is_loopback("http://127.0.0.1", true);
	is_loopback("http://127.255.0.3:1", true);
	is_loopback("http://[::1]:8000/", true);
	is_loopback("http://127.0.0.1.1", false);
	is_loopback("http://127.", false);
	is_loopback("http://127.1", false);
	is_loopback("http://127.0.0.1.", false);
	is_loopback("http://128.0.0.1", false);
	is_loopback("http://[::2]", false);
	ok(eo_endpoint_parse("https://h:443", &ep, &reason) && ep.has_port && !ep.is_address, "the default port is one");
	ok(eo_endpoint_parse("https://[fe80::1]", &ep, &reason) && !ep.has_port && ep.is_address, "an address");

	is_dynamodb("https://dynamodb.eu-west-1.amazonaws.com", true);
	is_dynamodb("https://DynamoDB.eu-west-1.AmazonAWS.com:443/", true);
	is_dynamodb("https://dynamodb-fips.us-gov-west-1.amazonaws.com", true);
	is_dynamodb("https://dynamodb.cn-north-1.amazonaws.com.cn", true);
	is_dynamodb("https://dynamodb.us-east-1.api.aws", true);
	is_dynamodb("https://123456789012.ddb.us-east-1.amazonaws.com", true);
	is_dynamodb("https://vpce-0a1b-c2d3.dynamodb.us-east-1.vpce.amazonaws.com", true);
	is_dynamodb("http://dynamodb.eu-west-1.amazonaws.com", false);
	is_dynamodb("https://dynamodb.eu-west-1.amazonaws.com:22", false);
	is_dynamodb("https://dynamodb.eu-west-1.amazonaws.com.example.com", false);
	is_dynamodb("https://dynamodb.eu-west-1.xamazonaws.com", false);
	is_dynamodb("https://ec2-10-0-0-1.compute-1.amazonaws.com", false);
	is_dynamodb("https://a.dynamodb.eu-west-1.amazonaws.com", false);
	is_dynamodb("https://a.dynamodb.us-east-1.vpce.amazonaws.com", false);
	is_dynamodb("https://x.eu-west-1.elb.amazonaws.com", false);
	is_dynamodb("https://amazonaws.com", false);
	is_dynamodb("https://.amazonaws.com", false);
	is_dynamodb("https://dynamodb..amazonaws.com", false);
	is_dynamodb("https://a.b.c.d.e.amazonaws.com", false);
	is_dynamodb("https://127.0.0.1", false);

	is_local("127.0.0.1", true);
	is_local("0.0.0.0", true);
	is_local("169.254.169.254", true);
	is_local("::1", true);
	is_local("::", true);
	is_local("fe80::1", true);
	is_local("fd00:ec2::254", true);
	is_local("::ffff:127.0.0.1", true);
	is_local("::127.0.0.1", true);
	is_local("64:ff9b::a9fe:a9fe", true);
	is_local("a path", true);
	is_local("10.0.0.1", false);
	is_local("169.253.0.1", false);
	is_local("52.94.0.1", false);
	is_local("2600:1f18::1", false);
	is_local("fd00::1", false);
	is_local("64:ff9b::8.8.8.8", false);
	test_list();
	return done();
}
