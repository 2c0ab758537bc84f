# The worker is there for everybody: nobody stops it who has no right to, no setting
# of a database disturbs it, and no database and no key waits because of another.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

$SIG{__DIE__} = sub { diag(@_) unless $^S };
my $table = 'tap_shares';
my $node = new_node('shares', options => ", clock_skew '0', request_timeout '2s'",
	conf => "max_worker_processes = 8\nlog_line_prefix = '%b [%p] '\nmax_connections = 40\n");
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };
my $worker_pid = sub { $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = '$_[0]'") };
# Runs the code and returns how many seconds it took.
my $seconds = sub { my $start = time(); $_[0]->(); return time() - $start };
# Completes a key, and returns the seconds until DynamoDB has been told.
my $finish = sub {
	my ($key, $in, $server) = @_;
	my $named = $server ? ", server => '$server'" : '';
	$sql->("SELECT idem_acquire('$key'$named); SELECT idem_complete('$key'$named)", $in);
	return $seconds->(sub { wait_until("$key is finished", sub {
		$sql->("SELECT count(*) FROM exactonce_pending WHERE key = '$key'", $in) eq '0' }) });
};

# ----- roles without the right to do so do not stop a worker -----

$sql->("CREATE ROLE nobody LOGIN; CREATE ROLE maker LOGIN CREATEDB; CREATE DATABASE elsewhere");
$sql->("SELECT idem_acquire('first'); SELECT idem_complete('first')");
my $pid = $worker_pid->('postgres');
my $refused = sub {
	my ($role, $command) = @_;
	my ($code, undef, $err) = $node->psql('elsewhere', "SET ROLE $role; $command");
	ok($code != 0 && $err =~ /must be owner|permission denied|already exists/, "$role is refused: $command");
	is($worker_pid->('postgres'), $pid, '... and the worker stays');
};
foreach my $role ('nobody', 'maker')
{
	$refused->($role, $_) foreach 'ALTER DATABASE postgres RENAME TO mine', 'DROP DATABASE postgres',
		'DROP DATABASE IF EXISTS postgres', 'DROP DATABASE postgres WITH (FORCE)',
		'ALTER DATABASE postgres SET TABLESPACE pg_default', 'CREATE DATABASE mine TEMPLATE postgres';
}
$sql->('ALTER DATABASE elsewhere OWNER TO nobody');
$sql->('ALTER DATABASE postgres OWNER TO nobody');
$refused->('nobody', 'ALTER DATABASE postgres RENAME TO mine');
$refused->('nobody', 'CREATE DATABASE mine TEMPLATE postgres');
$sql->('ALTER DATABASE postgres OWNER TO maker');
$refused->('maker', 'ALTER DATABASE postgres RENAME TO elsewhere');
$refused->('maker', 'CREATE DATABASE elsewhere TEMPLATE postgres');
is(($node->psql('elsewhere', "SET ROLE nobody; DROP DATABASE IF EXISTS none; DROP DATABASE none"))[0], 3, 'a database that is not there');

# its owner may, and a template may be copied
my $server = "CREATE EXTENSION exactonce; CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}', clock_skew '0', request_timeout '2s');
	CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test')";
$sql->('CREATE DATABASE model OWNER maker');
$sql->($server, 'model');
$sql->("SELECT idem_acquire('in model')", 'model');
is(($node->psql('elsewhere', "SET ROLE maker; CREATE DATABASE copied TEMPLATE model"))[0], 0, 'an owner copies a database that has a worker');
is(($node->psql('elsewhere', "SET ROLE maker; ALTER DATABASE model RENAME TO pattern"))[0], 0, '... and renames it');
is($sql->("SELECT outcome FROM idem_acquire('in pattern')", 'pattern'), 'acquired', '... and it has a worker again');
$sql->('ALTER DATABASE pattern IS_TEMPLATE true');

# ----- a command that is terminated leaves nothing behind -----

$sql->("SELECT idem_acquire('in the copy')", 'copied');
my $holder = start_psql($node, "\\c copied\nSELECT pg_sleep(600)");
wait_until('a session is in the way', sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE datname = 'copied' AND wait_event = 'PgSleep'") eq '1' });
my $waiting = start_psql($node, 'CREATE DATABASE another TEMPLATE copied');
wait_until('... of a command', sub { $worker_pid->('copied') eq '' });
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE another%' AND backend_type = 'client backend'");
like(finish_psql($waiting), qr/57P01/, '... which is terminated');
is($sql->("SELECT outcome FROM idem_acquire('in the copy again')", 'copied'), 'acquired', 'and the database has a worker');
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
finish_psql($holder);

# ----- no setting of a database or a role reaches its worker -----

my $admin = sub { $sql->($_[0], 'elsewhere') };
my $superuser = $admin->('SELECT current_user');
$admin->("ALTER DATABASE postgres SET $_") foreach "log_min_messages = 'debug2'", "lock_timeout = '1ms'",
	"client_encoding = 'LATIN1'", "default_transaction_read_only = on", "custom.name = 'x'";
$admin->("ALTER ROLE ALL SET log_min_messages = 'debug2'");
foreach my $identity ('role', 'session_authorization')
{
	$admin->("ALTER DATABASE postgres SET $identity = 'nobody'");
	my $length = length slurp_file($node->logfile);
	my $old = $admin->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = 'postgres'");
	$admin->("SELECT pg_terminate_backend($old)");
	wait_until('the worker is started again', sub {
		$admin->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = 'postgres' AND pid <> $old") eq '1' });
	$sql->("SET default_transaction_read_only = off; SET SESSION AUTHORIZATION $superuser; SET ROLE none;
		SELECT idem_acquire('with $identity'); SELECT idem_complete('with $identity')");
	wait_until("with $identity of the database a key is finished", sub { (records($table)->{"with $identity"} // {})->{status} eq 'COMPLETED' });
	my $log = substr slurp_file($node->logfile), $length;
	unlike($log, qr/exactonce worker \[\d+\] (DEBUG|ERROR|FATAL:  (?!terminating))/, '... by a worker that has none of its settings');
	$admin->("ALTER DATABASE postgres RESET $identity");
}
$admin->("ALTER DATABASE postgres RESET ALL; ALTER ROLE ALL RESET ALL");

# ----- more databases than background workers -----

$sql->("CREATE DATABASE db$_ TEMPLATE pattern") foreach 1 .. 9;
my $slowest = 0;
foreach my $i (1 .. 9)
{
	my $took = $seconds->(sub { $sql->("SELECT idem_acquire('in db$i')", "db$i") });
	$slowest = $took if $took > $slowest;
}
cmp_ok($slowest, '<', 6, 'each of nine databases soon has a worker');
control('POST', '/fault', '{"to":"COMPLETED","do":"answer","times":0}');
$sql->("SELECT idem_acquire('kept in db$_'); SELECT idem_complete('kept in db$_')", "db$_") foreach 1 .. 9;
$node->append_conf('postgresql.conf', 'max_worker_processes = 5');
$node->restart;
control('POST', '/reset');
wait_until('after a start all are visited', sub {
	my $records = records($table);
	9 == grep { $records->{"kept in db$_"}{status} eq 'COMPLETED' } 1 .. 9 });
my $lines = () = slurp_file($node->logfile) =~ /no background worker could be started/g;
cmp_ok($lines, '<=', 4, 'the shortage is not logged again and again');

# ----- one key that fails keeps nobody waiting -----

my $beating = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('beating', lease => '1 s');
\! curl -s "$EO_CONTROL/wait?key=beaten&seconds=60" > /dev/null
SELECT idem_complete('beating');
COMMIT;
SQL
control('GET', '/wait?key=beating&op=UpdateItem');
control('POST', '/fault', '{"key":"bad","to":"COMPLETED","do":"hold","times":0}');
$sql->("SELECT idem_acquire('bad'); SELECT idem_complete('bad')");
my $longest = 0;
foreach my $i (1 .. 12)
{
	my $took = $finish->("good$i");
	$longest = $took if $took > $longest;
}
cmp_ok($longest, '<', 4, 'no key waits because another one fails');
is($sql->("SELECT key FROM exactonce_pending"), 'bad', '... which is still tried');
is($sql->("SELECT state || (lease_until > now()) FROM exactonce_claims WHERE key = 'beating'"), 'heldtrue', '... and leases are extended');
$sql->("SELECT idem_get('beaten')");
unlike(finish_psql($beating), qr/ERROR/, '... so that a claim is not lost');
control('POST', '/reset');
settled($node);

# ----- nor does a server that never answers -----

$sql->("CREATE SERVER other FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'tap_shares_other', endpoint '$ENV{EO_ENGINE}')");
$sql->("CREATE USER MAPPING FOR PUBLIC SERVER other OPTIONS (access_key_id 'test', secret_access_key 'test')");
$sql->("SELECT idem_create_table('other')");
$sql->("ALTER SERVER exactonce OPTIONS (SET request_timeout '10s', ADD parallel_requests '64')");
$finish->('settled in');
control('POST', '/fault', '{"to":"COMPLETED","do":"hold","times":0}');
$sql->("SELECT idem_once('slow' || i) FROM generate_series(1, 300) i");
$longest = 0;
foreach my $i (1 .. 5)
{
	my $took = $finish->("quick$i", 'postgres', 'other');
	$longest = $took if $took > $longest;
}
cmp_ok($longest, '<', 3, 'a server that never answers keeps no key of another waiting');
control('POST', '/reset');
my $took = $seconds->(sub { settled($node) });
cmp_ok($took, '<', 30, '... and its own are finished when it does');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'no crash of its own');
done_testing();
