# The credential chain of the AWS SDKs: each source from nothing to a claim, one fetch
# for many sessions, credentials that the service calls expired, and secrets that stay out
# of the log.  Their end, and services that fail, are in 050_credentials.pl.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Aws;
use PostgreSQL::Test::Utils;
use Test::More;

my $port = start_aws();
my $web_token = aws_file('web', "web-identity-token\n");
my $container_token = aws_file('container', "container-token\n");
my $credentials = aws_file('credentials', <<'INI');
[keys]
aws_access_key_id = FILEKEY
aws_secret_access_key = file-secret
INI
my $config = aws_file('config', <<"INI");
[profile assumes]
role_arn = arn:aws:iam::123456789012:role/app
source_profile = keys
[profile instance]
role_arn = arn:aws:iam::123456789012:role/app
credential_source = Ec2InstanceMetadata
[profile web]
role_arn = arn:aws:iam::123456789012:role/app
web_identity_token_file = $web_token
[profile empty]
region = eu-west-1
INI

# The environment of a postmaster, without any source.
my %bare = (AWS_SHARED_CREDENTIALS_FILE => $credentials, AWS_CONFIG_FILE => $config,
	AWS_ENDPOINT_URL_STS => "http://127.0.0.1:$port", AWS_EC2_METADATA_DISABLED => 'true');
my %instance = (%bare, AWS_EC2_METADATA_DISABLED => 'false',
	AWS_EC2_METADATA_SERVICE_ENDPOINT => "http://127.0.0.1:$port/");
my %keys = (%bare, AWS_ACCESS_KEY_ID => 'ENVKEY', AWS_SECRET_ACCESS_KEY => 'environment-secret');

my $node;
{
	local @ENV{ keys %keys } = values %keys;
	$node = new_node('chain', mapping => '', options => { credentials => 'chain' }, conf => <<'CONF');
log_min_messages = debug5
log_statement = none
log_min_error_statement = panic
exactonce.log_requests = on
restart_after_crash = on
max_connections = 150
CONF
	$node->safe_psql('postgres', 'SELECT idem_create_table()');
}
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# ----- each source, from nothing to a claim -----------------------------------

my $n = 0;
foreach my $source (
	[ 'environment', \%keys, {}, qr/^ENVKEY$/, qr/^ok: from the chain: environment; account 123456789012, arn:aws:sts::123456789012:assumed-role\/app\/ENVKEY$/ ],
	[ 'profile with keys', \%bare, { profile => 'keys' }, qr/^FILEKEY$/, qr/^ok: from the chain: profile "keys"; account 123456789012, .*FILEKEY$/ ],
	[ 'AWS_PROFILE', { %bare, AWS_PROFILE => 'keys' }, {}, qr/^FILEKEY$/,
		qr/profile "keys"; account .*; environment: no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY$/ ],
	[ 'profile with a role', \%keys, { profile => 'assumes' }, qr/^ROLE\d+$/, qr/profile "assumes", until 2/ ],
	[ 'profile with a role on top of the instance', \%instance, { profile => 'instance' }, qr/^ROLE\d+$/, qr/profile "instance", until 2/ ],
	[ 'profile with web identity', \%bare, { profile => 'web' }, qr/^WEB\d+$/, qr/profile "web", until 2/ ],
	[ 'web identity', { %bare, AWS_WEB_IDENTITY_TOKEN_FILE => $web_token, AWS_ROLE_ARN => $role }, {}, qr/^WEB\d+$/,
		qr/: web identity, until 2.*; environment: no .*; profile: no "default"$/ ],
	[ 'container with a token', { %bare, AWS_CONTAINER_CREDENTIALS_FULL_URI => "http://127.0.0.1:$port/container",
			AWS_CONTAINER_AUTHORIZATION_TOKEN => 'container-token' }, {}, qr/^CONTAINER\d+$/, qr/: container endpoint, until 2/ ],
	[ 'container with a token in a file', { %bare, AWS_CONTAINER_CREDENTIALS_FULL_URI => "http://127.0.0.1:$port/container",
			AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE => $container_token }, {}, qr/^CONTAINER\d+$/, qr/: container endpoint, until 2/ ],
	[ 'instance metadata', \%instance, {}, qr/^INSTANCE\d+$/, qr/: instance metadata, until 2/ ],
	[ 'role on top of the instance', \%instance, { role_arn => $role }, qr/^ROLE\d+$/,
		qr/: instance metadata, assuming \Q$role\E, until 2/ ],
	[ 'role with an external id', \%keys, { role_arn => "$role/closed", external_id => 'open' }, qr/^ROLE\d+$/,
		qr/: environment, assuming/ ],
	[ 'role on top of the environment alone', \%keys, { credentials => 'environment', role_arn => $role }, qr/^ROLE\d+$/,
		qr/: environment, assuming/ ])
{
	my ($name, $environment, $options, $signer, $row) = @$source;
	begin($node, $environment, credentials => 'chain', %$options);
	my $key;
	# A busy machine may take longer for an answer than the second that a request has.
	wait_until("$name: a key is claimed and completed", sub {
		$key = 'source ' . ++$n;
		run_script($node, "SELECT outcome FROM idem_acquire('$key'); SELECT idem_complete('$key');") =~ /^acquired\n\s*$/;
	});
	my @signers = map { $_->{signer} } requests(key => $key);
	ok(@signers > 0 && !(grep { $_ !~ $signer } @signers), "$name: it signs") or diag("@signers");
	like(credentials_row($node), $row, "$name: idem_check() says so");
}

# ----- sources that cannot be used --------------------------------------------

foreach my $source (
	[ 'no source', \%bare, {}, qr/environment: no .*; instance metadata: AWS_EC2_METADATA_DISABLED is true/ ],
	[ 'a profile that is not there', \%keys, { profile => 'gone' }, qr/profile "gone" is not in the shared files/ ],
	[ 'a profile without credentials', \%keys, { profile => 'empty' }, qr/profile "empty" has no credentials/ ],
	[ 'a role that is refused', \%keys, { role_arn => "$role/closed" },
		qr/environment, assuming a role: STS answered AccessDenied: not authorized/ ],
	[ 'a token of a container that is wrong', { %bare, AWS_CONTAINER_AUTHORIZATION_TOKEN => 'wrong',
			AWS_CONTAINER_CREDENTIALS_FULL_URI => "http://127.0.0.1:$port/container" }, {},
		qr/container endpoint: HTTP status 401/ ],
	[ 'a container at another host', { %keys, AWS_CONTAINER_CREDENTIALS_FULL_URI => 'http://192.0.2.1/container',
			AWS_ACCESS_KEY_ID => '' }, {}, qr/container: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine/ ])
{
	my ($name, $environment, $options, $why) = @$source;
	begin($node, $environment, credentials => 'chain', %$options);
	like(run_script($node, "SELECT idem_acquire('none');"), qr/ERROR:  28000: .*no credentials\nDETAIL:  $why.*\nHINT:  .*docs\/aws\.md/,
		"$name: no credentials, and why");
	like(credentials_row($node), qr/^failure: the chain has none: .*$why/, "$name: idem_check() says so");
	is(count_requests(key => 'none'), 0, "$name: nothing is sent");
}

# A mapping is for servers with credentials 'mapping' only.
begin($node, \%bare, credentials => 'chain');
$sql->("CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'mapped', secret_access_key 'x')");
like(run_script($node, "SELECT idem_acquire('none');"), qr/ERROR:  28000: /, 'a user mapping does not stand in for the chain');

# ----- many sessions at once --------------------------------------------------

hundred_sessions($node, \%instance, { credentials => 'chain' }, '/latest/api/token',
	'/latest/meta-data/iam/security-credentials/app-role');

# ----- credentials that the service calls expired -----------------------------

reset_proxy();
my %expired = (do => 'answer', status => 400, code => 'ExpiredTokenException', op => 'UpdateItem');
fault(%expired, key => 'expired once');
is($sql->("SELECT outcome FROM idem_acquire('expired once', on_commit => 'keep')"), 'acquired',
	'expired credentials are renewed, and the request is repeated');
my @tries = requests(key => 'expired once');
is(scalar @tries, 2, 'there are two requests');
isnt($tries[0]{signer}, $tries[1]{signer}, 'the second one is signed with other credentials');

fault(%expired, key => 'expired always', times => 0);
like(run_script($node, "SELECT idem_acquire('expired always');"),
	qr/ERROR:  ID007: .*\nDETAIL:  DynamoDB answered ExpiredTokenException/,
	'credentials that stay expired are an error');
is(count_requests(key => 'expired always'), 2, 'after one renewal');
end_fault('expired always');

# A claim of an open transaction is bound to the chain, and not to its keys of the moment.
$sql->(<<'SQL');
BEGIN;
SELECT idem_acquire('pinned');
SELECT idem_complete('pinned', '1');
COMMIT;
SQL
my $run = start_script($node, "BEGIN;\nSELECT idem_acquire('open');\n"
	. say_in_script('claimed') . halt_until('renewed') . "SELECT idem_complete('open', '1');\nCOMMIT;\n");
await_word('claimed');
fault(%expired, key => 'meanwhile');
$sql->("SELECT idem_acquire('meanwhile', on_commit => 'keep')");
go_on('renewed');
unlike(finish_script($run), qr/ERROR/, 'a transaction goes on with renewed credentials');
settled($node);
is(record('tap_chain', 'open')->{status}, 'COMPLETED', 'its key is completed');

# ----- a service that is out of order, and a cancel ------------------------------
foreach my $answer ([ garbage => qr/the answer is not the token/ ], [ hang => qr/timed out|in time/i ])
{
	my ($how, $why) = @$answer;
	begin($node, \%instance, credentials => 'chain', behave => { metadata => $how });
	like(run_script($node, "SELECT idem_acquire('$how');"), qr/ERROR:  ID006: .*the source of the credentials does not answer\nDETAIL:  .*instance metadata: .*$why/,
		"an instance whose answer is: $how");
}
# Shorter than the second after which the source is given up, whatever the pace.
like(run_script($node, "SELECT pg_sleep(1.1); SET statement_timeout = '200ms'; SELECT idem_acquire('cancelled');"),
	qr/ERROR:  57014: canceling statement due to statement timeout/, 'a fetch can be cancelled');
services(metadata => 'ok');
wait_until('a cancelled fetch is left to others',
	sub { run_script($node, "SELECT idem_acquire('after a cancel', on_commit => 'keep');") !~ /ERROR/ });

# ----- a crash, and secrets ---------------------------------------------------

$run = start_script($node, "SELECT pg_backend_pid();\nSELECT pg_sleep(60);\n");
my $pid;
wait_until('a session waits', sub { $pid = $sql->("SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()") });
services();
kill 'KILL', $pid;
finish_script($run);
wait_until('the server is back after the crash of a session', sub { run_script($node, 'SELECT 1;') !~ /error|ERROR|FATAL/ });
unlike(run_script($node, "SELECT idem_acquire('after a crash', on_commit => 'keep');"), qr/ERROR/, 'credentials are fetched anew');
cmp_ok(asked('/latest/api/token'), '>=', 1, 'nothing is left of those before the crash');

stop_without_crash($node, kills => 1);
unlike(own_log($node), qr/hidden-secret|hidden-token|environment-secret|file-secret|container-token|web-identity-token|metadata-token/,
	'no secret is in the log, at any level');
stop_aws();

done_testing();
