# How the library is loaded, where credentials come from, and what is logged.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

# not preloaded: every function says so, and what to do about it
my $bare = new_node('bare', no_preload => 1);
foreach my $call ("idem_acquire('k')", "idem_start('k')", "idem_complete('k')",
	"idem_fail('k')", "idem_release('k')", "idem_extend('k')", "idem_get('k')",
	"idem_forget('k')", 'idem_create_table()')
{
	my $error = qr/ERROR:  55000: exactonce must be loaded via shared_preload_libraries/;
	my $hint = qr/HINT:  Add exactonce to shared_preload_libraries/;
	like(run_script($bare, "SELECT $call;"), qr/$error\n$hint/, "$call fails without preloading, with a hint");
}
is($bare->safe_psql('postgres', q(SELECT "check", status, detail, advice IS NOT NULL FROM idem_check())),
	'library|failure|exactonce is not in shared_preload_libraries of the running server|t', 'idem_check() says so, and works without preloading');
$bare->safe_psql('postgres', 'CREATE DATABASE other');
like(run_script($bare, "\\c other\nCREATE EXTENSION exactonce;"),
	qr/WARNING:  55000: exactonce is not in shared_preload_libraries, and does nothing before it is\nHINT:/, 'CREATE EXTENSION says so');
is($bare->safe_psql('postgres', "SELECT length(idem_key('k'))"), '64', 'idem_key() works without preloading');
stop_without_crash($bare);

# credentials from the server's environment, not from the session's
{
	local $ENV{AWS_ACCESS_KEY_ID} = 'fromenv';
	local $ENV{AWS_SECRET_ACCESS_KEY} = 'fromenvsecret';
	my $node = new_node('environment', mapping => '');
	my $none = qr/ERROR:  28000: .*no credentials\nHINT:/;
	like(run_script($node, 'SELECT idem_create_table();'), $none,
		'credentials of the environment are used only if the server says so');
	$node->safe_psql('postgres', <<'SQL');
CREATE ROLE limited LOGIN;
GRANT USAGE ON FOREIGN SERVER exactonce TO limited;
CREATE USER MAPPING FOR limited SERVER exactonce;
SQL
	like(run_script($node, "SET ROLE limited; SELECT idem_acquire('k');"), $none,
		'credentials of the environment are not for an empty user mapping');
	$node->safe_psql('postgres', "ALTER SERVER exactonce OPTIONS (ADD credentials 'environment')");
	is($node->safe_psql('postgres', "SELECT idem_create_table()"), 'created',
		'credentials of the environment work for a server of a superuser');
	is($node->safe_psql('postgres', "SELECT detail FROM idem_check() WHERE \"check\" = 'credentials'"),
		'from the environment', 'idem_check() says that the credentials come from the environment');
	$node->safe_psql('postgres', <<'SQL');
CREATE ROLE other LOGIN;
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO other;
ALTER SERVER exactonce OWNER TO other;
SQL
	like(run_script($node, "SET ROLE other; SELECT idem_acquire('k');"),
		qr/ERROR:  42501: server "exactonce" may not use the credentials of the environment\n/,
		'credentials of the environment are refused to a server that somebody else owns');
	stop_without_crash($node);
}

# no secret reaches the log, whatever its level
my $node = new_node('log', mapping => '', conf => <<'CONF');
log_statement = none
log_min_messages = debug5
log_min_error_statement = panic
exactonce.log_requests = on
CONF
$node->safe_psql('postgres', <<'SQL');
SET log_min_messages = fatal;
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'AKIDVISIBLE', secret_access_key 'hunter2hunter2', session_token 'sesametoken');
SQL
my $out = run_script($node, <<'SQL');
SELECT idem_create_table();
SELECT token FROM idem_acquire('logged', payload => '"payloadtext"');
SELECT idem_complete('logged', '"resulttext"');
SELECT outcome FROM idem_acquire('logged');
SELECT idem_complete('logged', '"resulttext"', token => gen_random_uuid());
SQL
my ($token) = $out =~ /([0-9a-f-]{36})/;
ok($token, 'a claim is made while requests are logged');
my $log = slurp_file($node->logfile);
like($log, qr/exactonce: UpdateItem on server "exactonce": ok, HTTP status 200/, 'requests are logged');
unlike($log, qr/hunter2|sesametoken/, 'no secret is in the log');
unlike($log, qr/\Q$token\E/, 'no token is in the log');
unlike($log, qr/resulttext/, 'no result is in the log');
stop_without_crash($node);
done_testing();
