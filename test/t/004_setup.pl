# How the library is loaded, where credentials come from, and what is logged.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

# not preloaded: every function says so, and what to do
my $bare = new_node('bare', no_preload => 1);
foreach my $call ("idem_acquire('k')", "idem_try_acquire('k')", "idem_complete('k')",
	"idem_fail('k')", "idem_release('k')", "idem_extend('k')", "idem_get('k')",
	"idem_forget('k')", 'idem_create_table()', 'idem_check()')
{
	like(psql_ok($bare, "SELECT $call;"),
		qr/ERROR:  55000: exactonce must be loaded via shared_preload_libraries\nHINT:  Add exactonce to shared_preload_libraries/,
		"$call without preloading");
}
is($bare->safe_psql('postgres', "SELECT length(idem_key('k'))"), '64',
	'idem_key needs nothing');
$bare->stop;

# credentials from the environment: for servers of a superuser, and not from
# the session's environment
{
	local $ENV{AWS_ACCESS_KEY_ID} = 'fromenv';
	local $ENV{AWS_SECRET_ACCESS_KEY} = 'fromenvsecret';
	my $node = new_node('environment', no_mapping => 1);
	like(psql_ok($node, 'SELECT idem_create_table();'), qr/ERROR:  28000: .*no credentials\nHINT:/,
		'the environment is used only if the server says so');
	$node->safe_psql('postgres', <<'SQL');
CREATE ROLE limited LOGIN;
GRANT USAGE ON FOREIGN SERVER exactonce TO limited;
CREATE USER MAPPING FOR limited SERVER exactonce;
SQL
	like(psql_ok($node, "SET ROLE limited; SELECT idem_acquire('k');"), qr/ERROR:  28000: .*no credentials\nHINT:/,
		'... and an empty user mapping does not get it');
	$node->safe_psql('postgres', "ALTER SERVER exactonce OPTIONS (ADD credentials 'environment')");
	is($node->safe_psql('postgres', "SELECT idem_create_table()"), 'created',
		'credentials of the environment work');
	is($node->safe_psql('postgres',
			"SELECT detail FROM idem_check() WHERE \"check\" = 'credentials'"),
		'from the environment', '... and idem_check says so');
	$node->safe_psql('postgres', <<'SQL');
CREATE ROLE other LOGIN;
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO other;
ALTER SERVER exactonce OWNER TO other;
SQL
	like(psql_ok($node, "SET ROLE other; SELECT idem_acquire('k');"),
		qr/ERROR:  42501: server "exactonce" may not use the credentials of the environment\n/,
		'... but not for a server that others own');
	$node->stop;
}

# nothing that is secret reaches the log, at its most talkative
my $node = new_node('log', conf => "log_statement = none\nlog_min_messages = debug5\nlog_min_error_statement = panic\nexactonce.log_requests = on\n",
	no_mapping => 1);
$node->safe_psql('postgres', <<'SQL');
SET log_min_messages = fatal;
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'AKIDVISIBLE', secret_access_key 'hunter2hunter2', session_token 'sesametoken');
SQL
my $token = psql_ok($node, <<'SQL');
SELECT idem_create_table();
SELECT token FROM idem_acquire('logged', payload => '"payloadtext"');
SELECT idem_complete('logged', '"resulttext"');
SELECT outcome FROM idem_acquire('logged');
SELECT idem_complete('logged', '"resulttext"', token => gen_random_uuid());
SQL
($token) = $token =~ /([0-9a-f-]{36})/;
ok($token, 'a claim was made');
my $log = slurp_file($node->logfile);
like($log, qr/exactonce: UpdateItem on server "exactonce": ok, HTTP status 200/, 'requests are logged');
unlike($log, qr/hunter2|sesametoken/, 'no secret in the log');
unlike($log, qr/\Q$token\E/, 'no token in the log');
unlike($log, qr/resulttext/, 'no result in the log');
$node->stop;
done_testing();
