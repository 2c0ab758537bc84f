# What becomes of credentials: they end while a hundred sessions use them, their source
# fails in every way and comes back, clocks are wrong, the region is found, STS is asked
# over TLS, and no core dump, view or environment has a secret.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Aws;
use IPC::Run;
use List::Util qw(uniq);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $port = start_aws();
my $here = "http://127.0.0.1:$port";
my $web_token = aws_file('web', "web-identity-token\n");
my $container_token = aws_file('container', "container-token\n");
my $credentials = aws_file('credentials', "[keys]\naws_access_key_id = FILEKEY\naws_secret_access_key = file-secret\n");
my $config = aws_file('config', "[default]\nregion = eu-west-2\n[profile other]\nregion = eu-west-3\n[profile odd]\nregion = EU!\n");

my %off = (AWS_SHARED_CREDENTIALS_FILE => $credentials, AWS_CONFIG_FILE => '/nonexistent',
	AWS_ENDPOINT_URL_STS => $here, AWS_EC2_METADATA_DISABLED => 'true');
my %instance = (%off, AWS_EC2_METADATA_DISABLED => 'false', AWS_EC2_METADATA_SERVICE_ENDPOINT => $here);
my %keys = (%off, AWS_ACCESS_KEY_ID => 'ENVKEY', AWS_SECRET_ACCESS_KEY => 'environment-secret');
my %container = (%off, AWS_CONTAINER_CREDENTIALS_FULL_URI => "$here/container",
	AWS_CONTAINER_AUTHORIZATION_TOKEN => 'container-token');

my $node;
{
	local @ENV{ keys %keys } = values %keys;
	$node = new_node('credentials', mapping => '', options => { credentials => 'chain' }, conf => <<'CONF');
log_min_messages = debug5
log_min_error_statement = panic
restart_after_crash = on
max_connections = 150
CONF
	$node->safe_psql('postgres', 'SELECT idem_create_table()');
}
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# ----- the host's clock ---------------------------------------------------------

my $shim = $node->basedir . '/wrong_clock.so';
my $setting = $node->basedir . '/wrong_clock';
my $ahead = 0;
system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim, "$FindBin::Bin/../../harness/wrong_clock.c");

# Sets the clock of the database server; all its processes see it at one instant.
sub set_clock
{
	($ahead) = @_;
	open my $out, -e $setting ? '+<' : '>', $setting or die "$setting: $!";
	syswrite $out, pack('q', $ahead * 1_000_000) or die "$setting: $!";
	close $out;
	return;
}

# Lets the time go by: the clocks of the database server and of the services.
sub advance
{
	my ($seconds, %how) = @_;
	services(clock => $ahead + $seconds, %how);
	set_clock($ahead + $seconds);
	return;
}

# The environment of a database server whose clock the test sets.
sub clocked
{
	set_clock(0);
	return (LD_PRELOAD => $shim, WRONG_CLOCK => $setting, @_);
}

# What the last call has said.
my $claimed;

my $n = 0;
sub claim
{
	my $key = 'claim ' . ++$n;
	my $out = run_script($node, "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep');");
	return ($out, map { $_->{signer} } requests(key => $key));
}

# Passes once a call works, or fails in this way.  A machine that is busy may take longer for
# an answer of the services than the second that a request has, so calls are repeated.
sub works
{
	my ($what) = @_;
	return wait_until($what, sub { ($claimed) = claim(); $claimed eq "acquired\n" }) || diag($claimed);
}

sub fails
{
	my ($pattern, $what) = @_;
	return wait_until($what, sub { ($claimed) = claim(); $claimed =~ $pattern }) || diag($claimed);
}

sub log_lines
{
	my ($pattern) = @_;
	return scalar grep { $_ =~ $pattern } split /^/, slurp_file($node->logfile);
}

# ----- a hundred sessions live through the end of credentials ----------------------

# Credentials of 60 seconds.  In each phase a hundred sessions make a transaction each;
# between two phases more time goes by than is left of the credentials of the phase before,
# half a life at a time, and the test waits until the worker has renewed them.
my ($phases, $sessions) = (5, 100);
# Requests have all the time that a busy machine may need for a hundred at once.
begin($node, { clocked(%instance) }, credentials => 'chain', behave => { life => 60 }, connect_timeout => '60s',
	request_timeout => '4min', commit_timeout => '4min');
$sql->('CREATE TABLE done (phase int, failed bool)');
my $script = "\\set phase :phase + 1\nBEGIN;\nSELECT pg_advisory_xact_lock_shared(:phase);\n"
  . "SELECT idem_acquire('phase ' || :phase || ' of ' || :client_id);\n"
  . "SELECT idem_complete('phase ' || :phase || ' of ' || :client_id, '1');\n"
  . "INSERT INTO done VALUES (:phase);\nCOMMIT;\n";
my $locks = start_script($node, join '', "SELECT pg_advisory_lock(i) FROM generate_series(1, $phases) i;\n",
	say_in_script('locked'),
	map { halt_until("phase $_") . "SELECT pg_advisory_unlock($_);\n" } 1 .. $phases);
await_word('locked');
append_to_file($node->basedir . '/phases.sql', $script);
# pgbench writes to files: IPC::Run reads a pipe only while it is pumped.
my $told = $node->basedir . '/pgbench';
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', $sessions, '-j', 2, '-t', $phases, '-D', 'phase=0',
	'-f', $node->basedir . '/phases.sql', $node->connstr('postgres') ], '<', \undef, '>', "$told.out", '2>', "$told.err");
my $run = start_script($node, "BEGIN;\nSELECT idem_acquire('through all phases');\n"
	  . say_in_script('open') . halt_until('after all phases') . "SELECT idem_complete('through all phases', '1');\nCOMMIT;\n");
await_word('open');

# Has the worker renewed the credentials?  Those in use are seen by the signer of a claim.
works('credentials of a minute');
my (undef, $signer) = claim();
sub renewed
{
	my ($what) = @_;
	my $before = $signer;
	wait_until($what, sub { my ($claimed, @signers) = claim(); $signer = $signers[-1] // $before; $signer ne $before });
	return;
}

my @dead;
foreach my $phase (1 .. $phases)
{
	my $now = time() + $ahead;
	go_on("phase $phase");
	foreach (1 .. 5)
	{
		last if (-s "$told.err" || 0) > 200 || wait_quietly(sub { $sql->("SELECT count(*) FROM done WHERE phase = $phase") == $sessions });
	}
	is($sql->("SELECT count(*) FROM done WHERE phase = $phase"), $sessions, "phase $phase: all transactions have committed");
	push @dead, grep { issued($_) <= $now } uniq(map { $_->{signer} } requests(key => "phase $phase of"));
	next if $phase == $phases;
	foreach (1 .. 3)
	{
		advance(32);
		renewed("after phase $phase: credentials are renewed at half of their life");
	}
}
$load->finish;
finish_script($locks);
like(slurp_file("$told.out"), qr/transactions actually processed: 500\/500/, 'no transaction of the hundred sessions has failed')
  or diag(slurp_file("$told.err"));
is("@dead", '', 'no request was signed with credentials that had ended before its phase');
go_on('after all phases');
unlike(finish_script($run), qr/ERROR/, 'a transaction that was open all the time commits');
settled($node);
is(record('tap_credentials', 'through all phases')->{status}, 'COMPLETED', 'and completes its key');
cmp_ok($sql->(q{SELECT count(*) FROM exactonce_pending}), '==', 0, 'nothing is pending');

# Like wait_until(), without a test.
sub wait_quietly
{
	my ($code) = @_;
	my $end = time() + paced(60);
	while (time() < $end)
	{
		return 1 if $code->();
		usleep(50_000);
	}
	return 0;
}

# ----- the source is away for longer than the credentials last ----------------------

# Credentials of ten minutes, so that there is time to look.
services(life => 600);
advance(32);
renewed('credentials of ten minutes');
wait_until('there is no failure', sub { credentials_row($node) =~ /^ok: / });
my $logged = log_lines(qr/could not fetch credentials/);
services(metadata => 'error');
advance(310, metadata => 'error');
wait_until('a renewal that fails is in the log', sub { log_lines(qr/could not fetch credentials/) > $logged });
works('the old credentials serve meanwhile');
like(credentials_row($node), qr/^warning: from the chain: .*; since .* they could not be renewed: instance metadata: HTTP status 500/,
	'idem_check() says since when they could not be renewed');
advance(300, metadata => 'error');
fails(qr/ERROR/, 'after their end there are none');
fails(qr/ERROR:  ID006: .*the source of the credentials does not answer\nDETAIL:  instance metadata: HTTP status 500 \(since \d{4}-.*\)\.\nHINT:  Nothing was sent/,
	'a call says why and since when');
like(credentials_row($node), qr/^failure: the chain has none: instance metadata: HTTP status 500.*; since \d{4}-/, 'and so does idem_check()');
is(log_lines(qr/could not fetch credentials/), $logged + 1, 'the log says it once');
my $works = log_lines(qr/fetching credentials works again/);
services(metadata => 'ok');
works('the source is back, and calls work');
is(log_lines(qr/fetching credentials works again/), $works + 1, 'the log says so');
like(credentials_row($node), qr/^ok: /, 'idem_check() is content');
is($sql->('SELECT fetches > failed_fetches, failed_fetches >= 1, is_usable, failing_since, last_error FROM exactonce_credentials'), 't|t|t||',
	'fetches are counted, and those that failed');

# ----- every source in every kind of disorder ---------------------------------------

foreach my $source (
	[ 'metadata', 'instance metadata', \%instance, {}, '/latest/api/token' ],
	[ 'container', 'container endpoint', \%container, {}, '/container' ],
	[ 'sts', 'environment, assuming a role', \%keys, { role_arn => $role }, '/' ])
{
	my ($service, $name, $environment, $options, $path) = @$source;
	begin($node, $environment, credentials => 'chain', %$options, behave => { $service => 'slow' });
	works("$service: slow answers are waited for");
	foreach my $fault (
		[ error => qr/status 500/, 2 ], [ half => qr/transfer closed|end of response|bytes remaining/i, 2 ],
		[ garbage => qr/the answer/, 1 ], [ huge => qr/too (?:large|long)|reply|write/i, 1 ],
		[ redirect => qr/status 302/, 1 ], [ unauthorized => qr/status 401/, 1 ], [ expired => qr/the source hands out credentials that have expired/, 1 ])
	{
		my ($how, $why, $tries) = @$fault;
		# The Date header is right, so credentials that have ended are not saved by it.
		next if $how eq 'expired' && $service eq 'metadata';
		begin($node, $environment, credentials => 'chain', %$options, behave => { $service => $how });
		fails(qr/ERROR:  (?:ID006|28000): .*\nDETAIL:  (?:\Q$name\E: .*)?$why/, "$service, $how: why there are no credentials");
		cmp_ok(asked('/elsewhere'), '==', 0, "$service, $how: no redirect is followed");
		services($service => 'ok');
		works("$service, $how: it is over, and calls work");
	}
}

# A token that is rotated is read anew at each fetch.
my $rotated = aws_file('rotated', "first\n");
begin($node, { %container, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE => $rotated }, credentials => 'chain', behave => { token => 'first' });
works('a token from a file');
services(token => 'second');
unlink $rotated;
append_to_file($rotated, "second\n");
fault(do => 'answer', status => 400, code => 'ExpiredTokenException', op => 'UpdateItem', key => 'rotated');
is($sql->("SELECT outcome FROM idem_acquire('rotated', on_commit => 'keep')"), 'acquired', 'the token that took its place');

# ----- wrong clocks ----------------------------------------------------------------

foreach my $clock (3600, -3600)
{
	begin($node, \%keys, credentials => 'chain', role_arn => $role, behave => { clock => $clock });
	works("a clock that is $clock s off: STS is asked again by its own clock");
	like(credentials_row($node), qr/\(for (?:5\d|60) min\); account 123456789012/, "a clock that is $clock s off: how long credentials last");
	begin($node, \%instance, credentials => 'chain', behave => { clock => $clock });
	works("a clock that is $clock s off: credentials of the instance last");
}

# ----- the region --------------------------------------------------------------------

sub server_row
{
	return $sql->(q{SELECT detail FROM idem_check() WHERE "check" = 'server'});
}

foreach my $case (
	[ 'the option', 'eu-west-1', { %keys, AWS_REGION => 'eu-north-1' }, {} ],
	[ 'AWS_REGION', 'eu-north-1', { %keys, AWS_REGION => 'eu-north-1', AWS_CONFIG_FILE => $config }, { region => '' } ],
	[ 'AWS_REGION, of the environment alone', 'eu-north-1', { %keys, AWS_REGION => 'eu-north-1' }, { region => '', credentials => 'environment' } ],
	[ 'the default profile', 'eu-west-2', { %keys, AWS_CONFIG_FILE => $config }, { region => '' } ],
	[ 'AWS_PROFILE', 'eu-west-3', { %keys, AWS_CONFIG_FILE => $config, AWS_PROFILE => 'other' }, { region => '' } ],
	[ 'the instance', 'eu-central-1', \%instance, { region => '' } ],
	[ 'the instance, for STS', 'eu-central-1', { %instance }, { region => '', role_arn => $role } ])
{
	my ($name, $region, $environment, $options) = @$case;
	begin($node, $environment, credentials => 'chain', %$options);
	works("region of $name: it is found");
	is($sql->("SELECT outcome FROM idem_acquire('region ' || '" . ++$n . "'); SELECT idem_complete('region $n')"), "acquired\n",
		"region of $name: a key is claimed");
	settled($node);
	is(record('tap_credentials', "region $n")->{status}, 'COMPLETED', "region of $name: the worker completes it");
	like(server_row(), qr/ region \Q$region\E,/, "region of $name: idem_check() shows it");
}
foreach my $case (
	[ 'none', \%keys, qr/HV00J: .*DETAIL:  environment: no AWS_REGION; profile: no region; instance metadata: AWS_EC2_METADATA_DISABLED is true/s ],
	[ 'a profile with an odd one', { %keys, AWS_CONFIG_FILE => $config, AWS_PROFILE => 'odd' }, qr/HV00J: .*this is not the name of a region/s ],
	[ 'an instance that is away', \%instance, qr/ID006: .*instance metadata: HTTP status 500/s, metadata => 'error' ],
	[ 'an instance with an odd one', \%instance, qr/ID006: .*the answer is not the name of a region/s, region => 'x.example.com' ])
{
	my ($name, $environment, $why, %behave) = @$case;
	begin($node, $environment, credentials => 'chain', region => '', behave => \%behave);
	fails(qr/ERROR:  $why/, "region of $name: why there is none");
	like($claimed, qr/HINT:  Add it: ALTER SERVER exactonce OPTIONS \(ADD region/, "region of $name: how to give it");
}
services(region => 'eu-central-1');
works('the instance is in order again, and with it the region');

# The region takes 1.6 seconds and the credentials take 2.4.  Both are part of one request_timeout.
begin($node, \%instance, credentials => 'chain', region => '', behave => { metadata => 'slower' });
# These times are those of the services, and not of this machine.
$sql->("ALTER SERVER exactonce OPTIONS (SET request_timeout '3s')");
($claimed) = claim();
like($claimed, qr/ERROR:  ID006: /, 'a call does not wait once for the region and once more for credentials');
works('but what it has found serves the next one');

hundred_sessions($node, \%instance, { credentials => 'chain', region => '' }, '/latest/meta-data/placement/region',
	'/latest/meta-data/iam/security-credentials/app-role');

# ----- the owner of the credentials, and TLS ----------------------------------------

begin($node, \%instance, credentials => 'chain', role_arn => $role);
works('a role of the instance');
like(credentials_row($node), qr/, until \d{4}-.* \(for (?:5\d|60) min\); account 123456789012, arn:aws:sts::123456789012:assumed-role\/app\/ROLE\d+; environment: no/,
	'idem_check() says which source, how long, whose, and why not the others');
services(sts => 'denied');
like(credentials_row($node), qr/^ok: from the chain: .*; whose they are is not known: STS answered AccessDenied/,
	'STS need not say whose they are');

my $dir = PostgreSQL::Test::Utils::tempdir();
foreach my $name ('right', 'wrong')
{
	system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', 2, '-subj', '/CN=localhost',
		'-addext', 'subjectAltName = DNS:localhost', '-keyout', "$dir/$name.key", '-out', "$dir/$name.pem");
}
# TLS in front of the services, and of DynamoDB
my @fronts;
my ($tls_port, $dynamodb_tls_port) = map {
	my ($in, $out) = ('', '');
	my $front = IPC::Run::start([ 'node', "$FindBin::Bin/../../harness/tls.mjs", "$dir/right.key", "$dir/right.pem", $_ ],
		'<', \$in, '>', \$out);
	$front->pump until $out =~ /^\d+\n/;
	push @fronts, $front;
	$out =~ /(\d+)/;
} $port, $ENV{EO_ENDPOINT} =~ /:(\d+)/;
foreach my $name ('right', 'wrong')
{
	begin($node, { %keys, AWS_ENDPOINT_URL_STS => "https://localhost:$tls_port" }, credentials => 'chain', role_arn => $role,
		ca_file => "$dir/$name.pem");
	if ($name eq 'right') { works('ca_file: STS is trusted by it') }
	else { fails(qr/ERROR:  ID006: .*\nDETAIL:  environment, assuming a role: .*certificate/, 'ca_file: and by nothing else') }
}
begin($node, \%keys, credentials => 'chain', role_arn => $role, fips => 'true', endpoint => '');
like(run_script($node, "SELECT idem_acquire('fips');"), qr/AWS_ENDPOINT_URL_STS cannot be used with the server's option fips/,
	'an STS that is named is not taken for one with FIPS');

# ----- core dumps, views and environments --------------------------------------------

# Everything that the services and the environment have given out.
my $key = qr/hidden-secret-\w+|environment-secret|file-secret/;
my $secret = qr/$key|hidden-token-\w+|container-token|web-identity-token|metadata-token/;

# Has a process dump its core, and returns the secret access keys in its memory.  The
# registers, which are in a note before that, may have what was copied last.
sub keys_in_core_of
{
	my ($pid) = @_;
	my $folder = $node->data_dir;
	unlink glob("$folder/core*");
	system_or_bail('prlimit', '--pid', $pid, '--core=unlimited');
	kill 'ABRT', $pid;
	my ($core) = ();
	wait_until('the process has dumped its core', sub { ($core) = glob("$folder/core*"); defined $core && !-e "/proc/$pid" });
	my $dump = slurp_file($core);
	unlink $core;
	wait_until('the server is back', sub { run_script($node, 'SELECT 1;') eq "1\n" });
	ok(index($dump, 'idem_acquire') >= 0, 'the dump is that of a process that has made calls');
	# elf(5): the first program header has the notes
	my ($offset, $size) = unpack 'x72 Q< x16 Q<', $dump;
	substr $dump, $offset, $size, '';
	return join ' ', uniq($dump =~ /$key/g);
}

sub secrets_in_environments
{
	return join ' ', uniq(map { slurp_file("/proc/$_/environ") =~ /$secret/g } grep { -r "/proc/$_/environ" } processes_of($node));
}

SKIP:
{
	my $pattern = slurp_file('/proc/sys/kernel/core_pattern');
	skip "cores go elsewhere: $pattern", 1 unless $pattern =~ /^core/;
	foreach my $case (
		[ 'instance metadata', \%instance, {} ],
		[ 'a container', { %container, AWS_CONTAINER_AUTHORIZATION_TOKEN => '', AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE => $container_token }, {} ],
		[ 'a role of the instance, with TLS', { %instance, AWS_ENDPOINT_URL_STS => "https://localhost:$tls_port" }, { role_arn => $role,
				endpoint => "https://localhost:$dynamodb_tls_port", ca_file => "$dir/right.pem" } ],
		[ 'a profile', \%off, { profile => 'keys' } ])
	{
		my ($name, $environment, $options) = @$case;
		begin($node, $environment, credentials => 'chain', %$options);
		works("$name: a session has fetched credentials");
		my $session = start_script($node, "SELECT outcome FROM idem_acquire('core " . ++$n . "', on_commit => 'keep');\n"
			  . say_in_script("core $n") . halt_until("end of core $n"));
		await_word("core $n");
		is(secrets_in_environments(), '', "$name: no secret is in the environment of a process");
		my $pid = $sql->(q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%idem_acquire(''core%' AND pid <> pg_backend_pid()});
		is(keys_in_core_of($pid), '', "$name: no secret access key is in the core dump of another session that signs with them");
		go_on("end of core $n");
		like(finish_script($session), qr/^acquired$/m, "$name: which has");
	}
}

foreach my $view (qw(exactonce_claims exactonce_pending exactonce_lives exactonce_in_doubt exactonce_progress pg_settings
	pg_stat_activity pg_foreign_server pg_user_mappings idem_check()))
{
	unlike($sql->("SELECT * FROM $view"), $secret, "no secret is in $view");
}
$node->stop;
$_->kill_kill foreach @fronts;
my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|TRAP|was terminated by signal (?!6)/, 'no process of the server has crashed but for its core');
unlike(own_log($node), $secret, 'no secret is in the log, at any level');
stop_aws();
done_testing();
