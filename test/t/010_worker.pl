# The worker: what it does for leases and ended transactions, and that it is in
# nobody's way.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $table = 'tap_worker';
my $node = new_node('worker', options => ", clock_skew '0', request_timeout '2s', commit_timeout '2s'",
	conf => "restart_after_crash = on\n");
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };
my $state = sub { my $r = records($table)->{ $_[0] }; return $r ? $r->{status} : 'none' };
my $workers = "SELECT string_agg(backend_type, ', ' ORDER BY backend_type) FROM pg_stat_activity WHERE backend_type LIKE 'exactonce%'";
my $worker_pid = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = current_database()";

$sql->("SELECT idem_try_acquire('first')");
wait_until('both are in pg_stat_activity', sub { $sql->($workers) eq 'exactonce launcher, exactonce worker' });

# leases
my $run = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('kept alive', lease => '300 ms');
SELECT pg_sleep(3);
SELECT idem_complete('kept alive');
COMMIT;
SQL
control('GET', '/wait?key=kept+alive&op=UpdateItem');
usleep(1_500_000);
is($sql->("SELECT outcome FROM idem_acquire('kept alive')"), 'in_progress', 'a claim of an open transaction outlives its lease');
unlike(finish_psql($run), qr/ERROR/, '... ten times');
settled($node);
is($state->('kept alive'), 'COMPLETED', '... and is completed');

$sql->("ALTER SERVER exactonce OPTIONS (ADD max_hold '600 ms')");
$run = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('held too long', lease => '300 ms');
\! curl -s "$EO_CONTROL/wait?key=complete+it&seconds=60"
SELECT idem_complete('held too long');
COMMIT;
SQL
control('GET', '/wait?key=held+too+long&op=UpdateItem');
# another service, which asks DynamoDB and not this server
my $update = sub {
	my ($key, $condition, $to) = @_;
	my $now = int(time() * 1000);
	my $done = eval {
		dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
			ConditionExpression => $condition, UpdateExpression => 'SET #s = :s, #o = :o, #l = :l',
			ExpressionAttributeNames => { '#s' => 'status', '#o' => 'owner', '#l' => 'lease_ms' },
			ExpressionAttributeValues => { ':s' => { S => $to }, ':o' => { S => 'another service' },
				':l' => { N => '' . ($now + 60000) }, ':n' => { N => "$now" } } });
	};
	die $@ unless $done || $@ =~ /ConditionalCheckFailed/;
	return $done;
};
wait_until('past max_hold the lease runs out', sub { $update->('held too long', '#s = :s AND #l < :n', 'IN_PROGRESS') });
# have the session go on: it waits for a request that never comes from itself
$sql->("SELECT idem_get('complete it')");
like(finish_psql($run), qr/ID002/, '... and the commit of one taken over is ID002');
$sql->("ALTER SERVER exactonce OPTIONS (DROP max_hold)");

# a claim that is lost is told at the next call
$run = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('taken', lease => '10 s');
\! curl -s "$EO_CONTROL/wait?key=taken+go&seconds=60"
SELECT idem_acquire('another');
ROLLBACK;
SQL
control('GET', '/wait?key=taken&op=UpdateItem');
wait_until('a claim is taken', sub { $update->('taken', 'attribute_exists(#l) AND #l <> :n', 'IN_PROGRESS') });
wait_until('... which its heartbeat finds out', sub {
	$sql->("SELECT state FROM exactonce_claims WHERE key = 'taken'") eq 'lost' });
$sql->("SELECT idem_get('taken go')");
like(finish_psql($run), qr/ERROR:  ID002: the claim on key "taken" on server "exactonce" was lost/, '... and its transaction is told');

# a rolled-back claim is given back by the worker alone
$sql->("BEGIN; SELECT idem_acquire('given back', lease => '1 hour'); ROLLBACK");
wait_until('a rollback gives the key back to everybody', sub { $state->('given back') eq 'FAILED' });

# a late request of a first write is buried before it arrives
control('POST', '/reset');
control('POST', '/fault', '{"key":"ghost","op":"UpdateItem","do":"hold"}');
$run = start_psql($node, "SET statement_timeout = '300ms'; SELECT idem_acquire('ghost', lease => '1 hour');");
like(finish_psql($run), qr/57014/, 'a claim whose answer never came');
wait_until('... is buried', sub { $state->('ghost') eq 'FAILED' });
control('POST', '/release');
wait_until('... and its late request', sub { control('GET', '/log') =~ /"key":"IDEMPOTENCY#ghost".*?"status":400/s });
is($state->('ghost'), 'FAILED', '... changes nothing');

# the worker is terminated, killed, stopped
my $old = $sql->($worker_pid);
$sql->("SELECT pg_terminate_backend($old)");
wait_until('terminated, it comes back', sub { my $pid = $sql->($worker_pid); $pid && $pid ne $old });
$sql->("SELECT idem_acquire('after'); SELECT idem_complete('after')");
settled($node);
is($state->('after'), 'COMPLETED', '... and works');

$old = $sql->($worker_pid);
kill 'KILL', $old;
wait_until('killed, the server restarts with it', sub {
	my ($code, $out) = $node->psql('postgres', $worker_pid);
	$code == 0 && $out && $out ne $old });
$sql->("SELECT idem_acquire('after the kill'); SELECT idem_complete('after the kill')");
settled($node);
is($state->('after the kill'), 'COMPLETED', '... and it works');

$old = $sql->($worker_pid);
kill 'STOP', $old;
wait_until('stopped, it is noticed', sub {
	my ($code, $out, $err) = $node->psql('postgres', "BEGIN; SELECT idem_acquire('probe'); ROLLBACK");
	$code != 0 && $err =~ /worker of this database does not respond/ });
like(psql_ok($node, "SELECT idem_acquire('refused early');"), qr/55000/, '... by every call');
is($state->('refused early'), 'none', '... before anything is claimed');
kill 'CONT', $old;
wait_until('woken, it is trusted again', sub {
	my ($code, $out) = $node->psql('postgres', "SELECT outcome FROM idem_acquire('refused early')");
	$code == 0 && $out =~ /acquired/ });

# commits outlive the engine, and the server's rest
control('POST', '/reset');
control('POST', '/fault', '{"to":"COMPLETED","do":"drop","times":0}');
$sql->("SELECT idem_acquire('unfinished'); SELECT idem_complete('unfinished', '1')");
is($sql->("SELECT key FROM exactonce_pending"), 'unfinished', 'a completion that DynamoDB does not confirm is pending');
is($sql->("SELECT outcome, result FROM idem_acquire('unfinished')"), 'completed|1', '... and completed for everybody here');
foreach my $mode ('fast', 'smart', 'immediate')
{
	$node->stop($mode);
	$node->start;
	is($sql->("SELECT key FROM exactonce_pending"), 'unfinished', "... after a stop, $mode");
}
foreach my $what ('SERVER', 'EXTENSION')
{
	like(psql_ok($node, "DROP $what exactonce CASCADE;"), qr/55006.*cannot drop/, "... its \L$what\E cannot be dropped");
}

# meanwhile the server is pointed elsewhere: it is finished where it was sealed
$sql->("ALTER SERVER exactonce OPTIONS (SET table 'tap_elsewhere')");
control('POST', '/reset');
settled($node);
is($state->('unfinished'), 'COMPLETED', '... and is finished where it began');
$sql->("ALTER SERVER exactonce OPTIONS (SET table '$table')");
$node->reload;

# more than the worker takes at a time, while the engine is away
control('POST', '/reset');
control('POST', '/fault', '{"to":"COMPLETED","do":"answer","times":0}');
$sql->("DO \$\$ BEGIN PERFORM idem_once('backlog' || i) FROM generate_series($_ * 300 + 1, $_ * 300 + 300) i; END \$\$")
  foreach 0 .. 4;
is($sql->('SELECT count(*) FROM exactonce_pending'), '1500', 'a backlog');
# another table is served meanwhile
$sql->("CREATE SERVER other FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'tap_other', endpoint '$ENV{EO_ENGINE}')");
$sql->("CREATE USER MAPPING FOR PUBLIC SERVER other OPTIONS (access_key_id 'test', secret_access_key 'test')");
$sql->("SELECT idem_create_table('other')");
$sql->("SELECT idem_acquire('served', server => 'other'); SELECT idem_complete('served', server => 'other')");
wait_until('... is nobody else\'s', sub { (records('tap_other')->{served} // {})->{status} eq 'COMPLETED' });
control('POST', '/reset');
settled($node);
is($sql->("SELECT count(*) FROM generate_series(1, 1500) i WHERE (idem_get('backlog' || i)).status = 'COMPLETED'"), '1500', '... and is worked off');

# many leases of a table that does not answer take no time from those of another
control('POST', '/fault', '{"to":"lease","do":"drop","times":0}');
my $many = start_psql($node, <<'SQL');
BEGIN;
SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'beat' || i FROM generate_series(1, 1200) i), lease => '2 s');
\! curl -s "$EO_CONTROL/wait?key=go+on&seconds=60" > /dev/null
ROLLBACK;
SQL
wait_until('many claims of a table that does not answer', sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE key LIKE 'beat%' AND state = 'held' AND lease_until < now()") >= 1000 });
my $healthy = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('healthy', lease => '2 s', server => 'other');
\! curl -s "$EO_CONTROL/wait?key=well+again&seconds=120" > /dev/null
SELECT idem_complete('healthy', server => 'other');
COMMIT;
SQL
my $lease;
wait_until('... and one of another', sub {
	$lease = $sql->("SELECT lease_until FROM exactonce_claims WHERE key = 'healthy'") });
wait_until('... whose lease is extended', sub {
	$sql->("SELECT lease_until > '$lease' FROM exactonce_claims WHERE key = 'healthy'") eq 't' });
$sql->("SELECT idem_get('well again')");
unlike(finish_psql($healthy), qr/ERROR/, '... and which is kept');
my ($healthy_record) = records('tap_other')->{healthy};
is($healthy_record->{runs}, 1, '... by its heartbeats');
control('POST', '/reset');
$sql->("SELECT idem_get('go on')");
finish_psql($many);
settled($node);

# a mapping that is of no use is repaired
control('POST', '/fault', '{"to":"COMPLETED","do":"drop","times":0}');
$sql->("SELECT idem_acquire('half'); SELECT idem_complete('half')");
$sql->("ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (DROP secret_access_key)");
wait_until('options that are of no use are reported', sub {
	slurp_file($node->logfile) =~ /has only one half of its credentials/ });
control('POST', '/reset');
$sql->("ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (ADD secret_access_key 'test')");
settled($node);
is($state->('half'), 'COMPLETED', '... and once they are put right the worker goes on');

# a completion that cannot be written, because somebody has removed the record
control('POST', '/fault', '{"to":"COMPLETED","do":"answer","times":0}');
$sql->("SELECT idem_acquire('removed'); SELECT idem_complete('removed')");
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#removed' } } });
control('POST', '/reset');
wait_until('a record that is gone is reported', sub {
	slurp_file($node->logfile) =~ /cannot be marked completed, although its transaction committed/ });
is($sql->("SELECT idem_resolve('removed', 'failed'), (SELECT count(*) FROM exactonce_pending)"), 'f|1', '... and the completion stays');
is($sql->("SELECT idem_resolve('removed', 'completed', server => 'other'), (SELECT count(*) FROM exactonce_pending)"), 'f|1', '... whatever is said of another table');
is($sql->("SELECT idem_resolve('removed', 'completed')"), 't', '... until an operator gives it up');
is($sql->('SELECT count(*) FROM exactonce_pending'), '0', '... and it is gone');

# databases come and go
my $server = "CREATE EXTENSION exactonce; CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}');
	CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test')";
$sql->('CREATE DATABASE one');
$sql->($server, 'one');
is($sql->("SELECT outcome FROM idem_acquire('in one'); SELECT idem_complete('in one')", 'one'), "acquired\n", 'the extension in a new database has a worker');
$sql->('CREATE DATABASE two TEMPLATE one');
is($sql->("SELECT outcome FROM idem_acquire('in two')", 'two'), 'acquired', 'a copy of it works, too');
isnt($sql->('SELECT origin FROM exactonce_internal.identity', 'one'), $sql->('SELECT origin FROM exactonce_internal.identity', 'two'),
	'... under an identity of its own');
$sql->('ALTER DATABASE two RENAME TO three');
is($sql->("SELECT outcome FROM idem_acquire('in three')", 'three'), 'acquired', 'renamed, it works');
$sql->('DROP DATABASE three');
is($sql->("SELECT count(*) FROM pg_database WHERE datname = 'three'"), '0', 'dropped, it is gone');
$sql->('DROP EXTENSION exactonce CASCADE', 'one');
wait_until('without the extension its worker leaves', sub {
	$sql->("SELECT count(*) FROM pg_stat_activity WHERE datname = 'one'") eq '0' });
$sql->($server, 'one');
is($sql->("SELECT outcome FROM idem_acquire('in one again')", 'one'), 'acquired', '... and returns with it');
$sql->('DROP DATABASE one');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'no crash of its own');
done_testing();
