# The credential chain of the AWS SDKs: each source from nothing to a claim, one fetch
# for many sessions, renewal, services that go away and come back, and secrets that
# stay out of the log.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# ----- the services of AWS ----------------------------------------------------

my $dir = PostgreSQL::Test::Utils::tempdir();
my $aws = IPC::Run::start([ 'node', "$FindBin::Bin/../harness/aws.mjs", "$dir/port" ],
	'<pipe', \*AWS_STDIN, '>', "$dir/aws.out", '2>', "$dir/aws.err");
wait_until('the services of AWS have started', sub { -e "$dir/port" });
my $port = slurp_file("$dir/port");
my $http = HTTP::Tiny->new(timeout => 10);

# How the services behave from now on; see test/harness/aws.mjs.
sub services
{
	my (%how) = @_;
	$http->post("http://127.0.0.1:$port/control", { content => encode_json(\%how) });
	return;
}

sub asked
{
	my ($path) = @_;
	return decode_json($http->get("http://127.0.0.1:$port/counts")->{content})->{$path} // 0;
}

sub file
{
	my ($name, $text) = @_;
	append_to_file("$dir/$name", $text);
	return "$dir/$name";
}

my $web_token = file('web', "web-identity-token\n");
my $container_token = file('container', "container-token\n");
my $credentials = file('credentials', <<'INI');
[keys]
aws_access_key_id = FILEKEY
aws_secret_access_key = file-secret
INI
my $config = file('config', <<"INI");
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
delete @ENV{ grep { /^AWS_/ } keys %ENV };

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

# Starts the server anew with this environment and these options of the server.  The
# services are as in behave from the beginning, because the worker asks them, too.
sub begin
{
	my ($environment, %options) = @_;
	my $behave = delete $options{behave} // {};
	local @ENV{ keys %$environment } = values %$environment;
	services(life => 3600, metadata => 'ok', container => 'ok', sts => 'ok', %$behave);
	$node->restart;
	$node->safe_psql('postgres', 'DROP SERVER exactonce CASCADE; '
		. server_sql('exactonce', mapping => '', table => 'tap_chain', %options));
	reset_proxy();
	return;
}

sub credentials_row
{
	return $sql->(q{SELECT status || ': ' || detail FROM idem_check() WHERE "check" = 'credentials'});
}

# ----- each source, from nothing to a claim -----------------------------------

my $n = 0;
my $role = 'arn:aws:iam::123456789012:role/app';
foreach my $source (
	[ 'environment', \%keys, {}, qr/^ENVKEY$/, qr/^ok: from the chain: environment$/ ],
	[ 'profile with keys', \%bare, { profile => 'keys' }, qr/^FILEKEY$/, qr/^ok: from the chain: profile "keys"$/ ],
	[ 'AWS_PROFILE', { %bare, AWS_PROFILE => 'keys' }, {}, qr/^FILEKEY$/,
		qr/profile "keys"; environment: no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY$/ ],
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
	begin($environment, credentials => 'chain', %$options);
	my $key = 'source ' . ++$n;
	is($sql->("SELECT outcome FROM idem_acquire('$key'); SELECT idem_complete('$key')"), "acquired\n",
		"$name: a key is claimed and completed");
	my @signers = map { $_->{signer} } requests(key => $key);
	ok(@signers > 0 && !(grep { $_ !~ $signer } @signers), "$name: it signs") or diag("@signers");
	like(credentials_row(), $row, "$name: idem_check() says so");
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
	begin($environment, credentials => 'chain', %$options);
	like(run_script($node, "SELECT idem_acquire('none');"), qr/ERROR:  28000: .*no credentials\nDETAIL:  $why.*\nHINT:  .*docs\/aws\.md/,
		"$name: no credentials, and why");
	like(credentials_row(), qr/^failure: the chain has none: .*$why/, "$name: idem_check() says so");
	is(count_requests(key => 'none'), 0, "$name: nothing is sent");
}

# A mapping is for servers with credentials 'mapping' only.
begin(\%bare, credentials => 'chain');
$sql->("CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'mapped', secret_access_key 'x')");
like(run_script($node, "SELECT idem_acquire('none');"), qr/ERROR:  28000: /, 'a user mapping does not stand in for the chain');

# ----- many sessions at once --------------------------------------------------

begin(\%instance, credentials => 'chain');
services();
$node->pgbench('-n -c 100 -j 4 -t 1', 0, [qr/processed: 100\/100/], [qr/^$/],
	'a hundred sessions begin at the same time',
	{ '047_many' => "SELECT idem_acquire(gen_random_uuid()::text, on_commit => 'keep');" });
cmp_ok(asked('/latest/api/token'), '<=', 2, 'they have the instance asked twice at most');

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

# ----- renewal, and a service that goes away ----------------------------------

# Of eight seconds, half are to be renewed ahead; nobody meets the end.
begin(\%instance, credentials => 'chain', behave => { life => 8 });
my %signers;
my $failures = '';
my $end = time() + 60;
while (keys %signers < 3 && time() < $end)
{
	my $key = 'renewed ' . ++$n;
	my $out = run_script($node, "SELECT idem_acquire('$key', on_commit => 'keep');");
	$failures .= $out if $out =~ /ERROR/;
	$signers{ $_->{signer} } = 1 foreach requests(key => $key);
	usleep(100_000);
}
cmp_ok(scalar keys %signers, '>=', 3, 'credentials are renewed while they are in use');
is($failures, '', 'no call fails meanwhile');

services(metadata => 'error');
wait_until('the instance is away: the old credentials serve to their end, and then there are none',
	sub { run_script($node, "SELECT idem_acquire('away');") =~ /ERROR:  28000: .*\nDETAIL:  .*instance metadata: HTTP status 500/ });
like(credentials_row(), qr/^failure: the chain has none: instance metadata: HTTP status 500/, 'idem_check() says so');
services(metadata => 'ok', life => 3600);
wait_until('the instance is back, and with it the credentials',
	sub { run_script($node, "SELECT idem_acquire('away', on_commit => 'keep');") !~ /ERROR/ });

foreach my $answer ([ garbage => qr/the answer is not the token/ ], [ hang => qr/timed out|in time/i ])
{
	my ($how, $why) = @$answer;
	begin(\%instance, credentials => 'chain', behave => { metadata => $how });
	like(run_script($node, "SELECT idem_acquire('$how');"), qr/ERROR:  28000: .*no credentials\nDETAIL:  .*instance metadata: .*$why/,
		"an instance whose answer is: $how");
}
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
# At debug3 PostgreSQL itself writes the environment that it is started with.
unlike(join('', grep { !/DEBUG:  \t\w+=/ } split /^/, slurp_file($node->logfile)),
	qr/hidden-secret|hidden-token|environment-secret|file-secret|container-token|web-identity-token|metadata-token/,
	'no secret is in the log, at any level');
close AWS_STDIN;
$aws->finish;
is(slurp_file("$dir/aws.err"), '', 'the services of AWS had nothing to complain of');

done_testing();
