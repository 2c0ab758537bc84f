# The worker: what it does for leases and for transactions that have ended, and
# that it is in nobody's way.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_worker';
my $node = new_node('worker', conf => "restart_after_crash = on\n",
	options => { clock_skew => 0, request_timeout => '2s', commit_timeout => '2s' });
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };

sub state_of_claim
{
	my ($key) = @_;
	return $sql->("SELECT state FROM exactonce_claims WHERE key = '$key'");
}

sub count_pending
{
	return $sql->('SELECT count(*) FROM exactonce_pending');
}

my $worker_pid = <<'SQL';
SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = current_database()
SQL

$sql->("SELECT idem_start('first')");
wait_until('launcher and worker are in pg_stat_activity', sub { $sql->(<<'SQL') eq '2' });
SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('exactonce launcher', 'exactonce worker')
SQL

# ----- leases -----------------------------------------------------------------

# Starts a transaction with a claim, which goes on when it is told its key.
sub start_holder
{
	my ($key, $how, $end) = @_;
	my $run = start_script($node,
		"BEGIN;\nSELECT outcome FROM idem_acquire('$key', $how);\n" . say_in_script("has $key") . halt_until($key) . $end);
	await_word("has $key");
	return $run;
}

# Another service, which asks DynamoDB and not this server, takes the key's claim if
# the condition holds.
sub take_claim
{
	my ($key, $condition) = @_;
	my $now = int(time() * 1000);
	my $done = eval {
		dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
			ConditionExpression => $condition, UpdateExpression => 'SET #o = :o, #l = :l',
			ExpressionAttributeNames => { '#s' => 'status', '#o' => 'owner', '#l' => 'lease_ms' },
			ExpressionAttributeValues => { ':s' => { S => 'IN_PROGRESS' }, ':o' => { S => 'another service' },
				':l' => { N => '' . ($now + 60000) }, ':n' => { N => "$now" } } });
	};
	die $@ unless $done || $@ =~ /ConditionalCheckFailed/;
	return $done;
}

my $run = start_holder('kept alive', "lease => '200 ms'", "SELECT idem_complete('kept alive');\nCOMMIT;\n");
my $first_lease = record($table, 'kept alive')->{lease_ms};
wait_until('the lease of an open transaction is extended, ten times as long as it is',
	sub { record($table, 'kept alive')->{lease_ms} >= $first_lease + 10 * 200 });
is($sql->("SELECT outcome FROM idem_acquire('kept alive')"), 'in_progress',
	'a claim of an open transaction outlives its lease');
go_on('kept alive');
unlike(finish_script($run), qr/ERROR/, 'a claim that has outlived its lease can be committed');
settled($node);
is(status_of($table, 'kept alive'), 'COMPLETED', 'a claim that has outlived its lease is completed');

$sql->("ALTER SERVER exactonce OPTIONS (ADD max_hold '600 ms')");
$run = start_holder('held too long', "lease => '300 ms'", "SELECT idem_complete('held too long');\nCOMMIT;\n");
wait_until('past max_hold the lease runs out', sub { take_claim('held too long', '#s = :s AND #l < :n') });
go_on('held too long');
like(finish_script($run), qr/ID002/, 'the commit of a claim that another service has taken over is ID002');
$sql->("ALTER SERVER exactonce OPTIONS (DROP max_hold)");

$run = start_holder('taken', "lease => '10 s'", "SELECT idem_acquire('another');\nROLLBACK;\n");
wait_until('another service takes a claim before its lease is over',
	sub { take_claim('taken', '#s = :s AND attribute_exists(#l) AND #l <> :n') });
wait_until('the heartbeat of a claim finds out that it is lost', sub { state_of_claim('taken') eq 'lost' });
go_on('taken');
like(finish_script($run), qr/ERROR:  ID002: the claim on key "taken" on server "exactonce" was lost/,
	'the next call of a transaction whose claim is lost says so');

$sql->("BEGIN; SELECT idem_acquire('given back', lease => '1 hour'); ROLLBACK");
wait_until('a rollback gives the key back to everybody', sub { status_of($table, 'given back') eq 'FAILED' });

# a first write that arrives when its caller is gone
reset_proxy();
fault(key => 'ghost', op => 'UpdateItem', do => 'hold');
$run = start_script($node, "SELECT idem_acquire('ghost', lease => '1 hour');");
await_request(key => 'ghost', op => 'UpdateItem');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT idem_acquire(''ghost''%'");
my $out = finish_script($run);
like($out, qr/57014/, 'a claim whose answer never came: its caller gives up');
wait_until('a claim whose answer never came is buried', sub { status_of($table, 'ghost') eq 'FAILED' });
release_held();
wait_until('a claim whose answer never came: its late request is refused',
	sub { requests(key => 'ghost', status => 400) });
is(status_of($table, 'ghost'), 'FAILED', 'a claim whose answer never came: its late request changes nothing');

# ----- the process ------------------------------------------------------------

my $old = $sql->($worker_pid);
$sql->("SELECT pg_terminate_backend($old)");
wait_until('the worker, terminated, comes back', sub { my $pid = $sql->($worker_pid); $pid && $pid ne $old });
$sql->("SELECT idem_acquire('after'); SELECT idem_complete('after')");
settled($node);
is(status_of($table, 'after'), 'COMPLETED', 'the worker that comes back after a terminate works');

$old = $sql->($worker_pid);
kill 'KILL', $old;
wait_until('the worker killed, the server restarts with it', sub {
	my ($code, $out) = $node->psql('postgres', $worker_pid);
	return $code == 0 && $out && $out ne $old;
});
$sql->("SELECT idem_acquire('after the kill'); SELECT idem_complete('after the kill')");
settled($node);
is(status_of($table, 'after the kill'), 'COMPLETED', 'the worker of a server that has restarted works');

$old = $sql->($worker_pid);
kill 'STOP', $old;
wait_until('the worker stopped, that is noticed', sub {
	my ($code, undef, $err) = $node->psql('postgres', "BEGIN; SELECT idem_acquire('probe'); ROLLBACK");
	return $code != 0 && $err =~ /worker of this database does not respond/;
});
$out = run_script($node, "SELECT idem_acquire('refused early');");
like($out, qr/55000/, 'the worker stopped, every call is refused');
is(status_of($table, 'refused early'), 'none', 'the worker stopped, a call is refused before anything is claimed');
kill 'CONT', $old;
wait_until('the worker woken, it is trusted again', sub {
	my ($code, $out) = $node->psql('postgres', "SELECT outcome FROM idem_acquire('refused early')");
	return $code == 0 && $out =~ /acquired/;
});

# ----- completions that take long ---------------------------------------------

reset_proxy();
fault(to => 'COMPLETED', do => 'drop', times => 0);
$sql->("SELECT idem_acquire('unfinished'); SELECT idem_complete('unfinished', '1')");
is($sql->('SELECT key FROM exactonce_pending'), 'unfinished',
	'a completion that DynamoDB does not confirm is pending');
is($sql->("SELECT outcome, result FROM idem_acquire('unfinished')"), 'completed|1',
	'a pending completion is completed for everybody here');
foreach my $mode ('fast', 'smart', 'immediate')
{
	$node->stop($mode);
	$node->start;
	is($sql->('SELECT key FROM exactonce_pending'), 'unfinished', "a pending completion outlives a stop, $mode");
}
foreach my $what ('SERVER', 'EXTENSION')
{
	like(run_script($node, "DROP $what exactonce CASCADE;"), qr/55006.*cannot drop/,
		"the \L$what\E of a pending completion cannot be dropped");
}
$sql->("ALTER SERVER exactonce OPTIONS (SET table 'tap_elsewhere')");
reset_proxy();
settled($node);
is(status_of($table, 'unfinished'), 'COMPLETED',
	'a pending completion is finished where it began, wherever its server leads now');
$sql->("ALTER SERVER exactonce OPTIONS (SET table '$table')");
$node->reload;

# more than the worker takes at a time, of a table that is ill; another table is well
reset_proxy();
fault(to => 'COMPLETED', do => 'answer', times => 0);
foreach my $hundreds (0 .. 14)
{
	$sql->("DO 'BEGIN PERFORM idem_once(''backlog'' || $hundreds * 100 + i) FROM generate_series(1, 100) i; END'");
}
is(count_pending(), '1500', 'a backlog of completions is pending while a table does not take them');
$sql->(server_sql('other', table => 'tap_other', endpoint => $ENV{EO_ENGINE_URL}) . "SELECT idem_create_table('other')");
$sql->("SELECT idem_acquire('served', server => 'other'); SELECT idem_complete('served', server => 'other')");
wait_until('a backlog of one table does not hold up another', sub { status_of('tap_other', 'served') eq 'COMPLETED' });
reset_proxy();
settled($node);
my $completed = <<'SQL';
SELECT count(*) FROM generate_series(1, 1500) i WHERE (idem_get('backlog' || i)).status = 'COMPLETED'
SQL
is($sql->($completed), '1500', 'a backlog is worked off once its table takes completions again');

# more claims than the worker takes at a time, of a table that is slow; another table is not
fault(to => 'FAILED', do => 'delay', ms => paced(1500), times => 0);
$sql->(<<'SQL');
BEGIN;
SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'many' || i FROM generate_series(1, 3000) i));
ROLLBACK;
BEGIN;
SELECT idem_acquire('beside', server => 'other');
ROLLBACK;
SQL
wait_until('a rollback of many keys does not hold up another table', sub { status_of('tap_other', 'beside') eq 'FAILED' });
my $count_many = "SELECT count(*) FROM exactonce_claims WHERE key LIKE 'many%'";
cmp_ok($sql->($count_many), '>', 0, '... whose keys are still being given back');
reset_proxy();
wait_until('the keys of a rollback that are more than the worker takes at a time are given back',
	sub { $sql->($count_many) eq '0' });

# many leases of a table that does not answer
fault(to => 'lease', do => 'drop', times => 0);
my $many = start_script($node, <<'SQL' . halt_until('go on') . "ROLLBACK;\n");
BEGIN;
SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'beat' || i FROM generate_series(1, 1200) i), lease => '2 s');
SQL
wait_until('the leases of many claims of a table that does not answer run out', sub { $sql->(<<'SQL') >= 1000 });
SELECT count(*) FROM exactonce_claims WHERE key LIKE 'beat%' AND state = 'held' AND lease_until < now()
SQL
my $healthy = start_holder('healthy', "lease => '2 s', server => 'other'",
	"SELECT idem_complete('healthy', server => 'other');\nCOMMIT;\n");
my $lease = $sql->("SELECT lease_until FROM exactonce_claims WHERE key = 'healthy'");
wait_until('the lease of a table that answers is extended meanwhile',
	sub { $sql->("SELECT lease_until > '$lease' FROM exactonce_claims WHERE key = 'healthy'") eq 't' });
go_on('healthy');
unlike(finish_script($healthy), qr/ERROR/, 'the claim of a table that answers is kept meanwhile');
is(record('tap_other', 'healthy')->{runs}, 1, 'the claim of a table that answers had one run');
reset_proxy();
go_on('go on');
finish_script($many);
settled($node);

# a mapping that is of no use
fault(to => 'COMPLETED', do => 'drop', times => 0);
$sql->("SELECT idem_acquire('half'); SELECT idem_complete('half')");
$sql->("ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (DROP secret_access_key)");
wait_until('half of the credentials: that is logged',
	sub { slurp_file($node->logfile) =~ /has only one half of its credentials/ });
reset_proxy();
$sql->("ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (ADD secret_access_key 'test')");
settled($node);
is(status_of($table, 'half'), 'COMPLETED', 'half of the credentials: once they are whole the worker goes on');

# a completion that cannot be written, because somebody has removed the record
fault(to => 'COMPLETED', do => 'answer', times => 0);
$sql->("SELECT idem_acquire('removed'); SELECT idem_complete('removed')");
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#removed' } } });
reset_proxy();
wait_until('a record that is gone: that is logged',
	sub { slurp_file($node->logfile) =~ /cannot be marked completed, although its transaction committed/ });
is($sql->("SELECT idem_resolve('removed', 'failed')") . count_pending(), 'f1',
	'a record that is gone: the completion stays');
is($sql->("SELECT idem_resolve('removed', 'completed', server => 'other')") . count_pending(), 'f1',
	'a record that is gone: the completion stays, whatever is said of another table');
is($sql->("SELECT idem_resolve('removed', 'completed')"), 't',
	'a record that is gone: the completion is given up by an operator');
is(count_pending(), '0', 'a record that is gone: the completion that was given up is gone, too');

# ----- databases come and go --------------------------------------------------

my $extension = 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table);
$sql->('CREATE DATABASE one');
$sql->($extension, 'one');
is($sql->("SELECT outcome FROM idem_acquire('in one'); SELECT idem_complete('in one')", 'one'), "acquired\n",
	'a new database has a worker');
$sql->('CREATE DATABASE two TEMPLATE one');
is($sql->("SELECT outcome FROM idem_acquire('in two')", 'two'), 'acquired', 'a copy of a database works');
my ($origin, $origin_of_copy) = map { $sql->('SELECT life FROM exactonce_lives ORDER BY number DESC LIMIT 1', $_) } 'one', 'two';
isnt($origin, $origin_of_copy, 'a copy of a database has lives of its own');
$sql->('ALTER DATABASE two RENAME TO three');
is($sql->("SELECT outcome FROM idem_acquire('in three')", 'three'), 'acquired', 'a database that was renamed works');
$sql->('DROP DATABASE three');
is($sql->("SELECT count(*) FROM pg_database WHERE datname = 'three'"), '0', 'a database with a worker can be dropped');
$sql->('DROP EXTENSION exactonce CASCADE', 'one');
wait_until('the worker leaves a database without the extension',
	sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE datname = 'one'") eq '0' });
$sql->($extension, 'one');
is($sql->("SELECT outcome FROM idem_acquire('in one again')", 'one'), 'acquired',
	'the worker returns to a database with the extension');
$sql->('DROP DATABASE one');

# A worker that the launcher starts for a database while that is dropped would find none.
my $offset = -s $node->logfile;
foreach my $n (1 .. 6)
{
	my $database = "forced$n";
	$sql->("CREATE DATABASE $database");
	$sql->($extension, $database);
	my $claim = start_script($node, "BEGIN;\nSELECT idem_acquire('$database');\n" . say_in_script($database) . "SELECT pg_sleep(600);\n", $database);
	await_word($database);
	$sql->("DROP DATABASE $database WITH (FORCE)");
	like(finish_script($claim), qr/57P01/, 'a database with a claim can be dropped by force, which ends its session');
}
# A drop that waits for a lock has ended the worker; the launcher comes by while it waits.
$sql->('CREATE DATABASE waited_for');
$sql->($extension, 'waited_for');
my $claim_there = start_script($node, "BEGIN;\nSELECT idem_acquire('there');\n" . say_in_script('there') . "SELECT pg_sleep(600);\n", 'waited_for');
await_word('there');
my $blocker = start_script($node, "BEGIN;\nLOCK TABLE pg_db_role_setting IN SHARE MODE;\n" . say_in_script('locked') . halt_until('unlock') . "COMMIT;\n");
await_word('locked');
my $drop = start_script($node, "DROP DATABASE waited_for WITH (FORCE);\n");
wait_until('a drop by force waits', sub { $sql->(<<'SQL') eq '1' });
SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DROP DATABASE waited_for%' AND wait_event_type = 'Lock'
SQL
foreach (1 .. 2)
{
	$old = $sql->($worker_pid);
	$sql->("SELECT pg_terminate_backend($old)");
	wait_until('the launcher starts another worker meanwhile', sub { my $pid = $sql->($worker_pid); $pid && $pid ne $old });
}
go_on('unlock');
finish_script($blocker);
is(finish_script($drop), '', 'and the database is dropped');
like(finish_script($claim_there), qr/57P01/, '... whose session was ended');
wait_until('what they have left in memory is forgotten', sub { $sql->(<<'SQL') eq '0' });
SELECT count(*) FROM exactonce_internal.claims_of_cluster() WHERE database NOT IN (SELECT oid FROM pg_database)
SQL
unlike(slurp_file($node->logfile, $offset), qr/FATAL:  (?!terminating)/, 'and no worker has looked for a database that was dropped');

stop_without_crash($node, kills => 1);
done_testing();
