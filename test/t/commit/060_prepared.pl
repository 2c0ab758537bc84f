# PREPARE TRANSACTION: what a transaction has decided about its keys waits for COMMIT
# PREPARED or ROLLBACK PREPARED, whatever becomes of the session and of the server
# meanwhile.  Until then the keys are in progress for everybody.  So are the actions that
# it consumes: each key has an action of the same name.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_prepared';
my $node = new_node('prepared', options => { lease => '1 hour', clock_skew => 0 },
	conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nwal_level = logical\nmax_wal_senders = 5\nmax_prepared_transactions = 20\nmax_connections = 20\nrestart_after_crash = on\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text PRIMARY KEY)');

sub outcome
{
	my ($key) = @_;
	return $sql->("SELECT outcome FROM idem_acquire('$key', on_commit => 'keep')");
}

sub consume
{
	my ($id, $args) = @_;
	return $sql->("SELECT outcome FROM action_consume('$id'" . ($args // '') . ")");
}

# The statements of a transaction that completes these keys, consumes their actions, and is
# prepared under their name.
sub preparing
{
	my ($name, @keys) = @_;
	my $all = join "\n", map { "INSERT INTO work VALUES ('$_');\nSELECT outcome FROM idem_acquire('$_');\n"
		. "SELECT outcome FROM action_consume('$_', at => 'commit');\nSELECT idem_complete('$_', '\"$name\"');" } @keys;
	return join('', map { "SELECT action_create('{}', id => '$_');\n" } @keys) . "BEGIN;\n$all\nPREPARE TRANSACTION '$name';\n";
}

# Passes if the keys are in progress for everybody.
sub are_in_progress
{
	my ($what, @keys) = @_;
	foreach my $key (@keys)
	{
		is(status_of($table, $key), 'COMMITTING', "$what: key \"$key\" is COMMITTING for others");
		is(outcome($key), 'in_progress', "$what: key \"$key\" is in progress here");
		next if action_status($table, $key) eq 'none';
		is(action_status($table, $key), 'sealed', "$what: action \"$key\" is being committed for others");
		is($sql->("SELECT state FROM action_get('$key')"), 'committing', "$what: and here");
		is(consume($key) . ' ' . consume($key, ", at => 'commit'"), 'in_progress in_progress', "$what: nobody gets action \"$key\"");
		is($sql->("SELECT outcome FROM action_cancel('$key')"), 'in_progress', "$what: nor cancels it");
	}
	return;
}

sub has_become
{
	my ($what, $status, @keys) = @_;
	foreach my $key (@keys)
	{
		wait_until("$what: key \"$key\" becomes $status", sub { status_of($table, $key) eq $status });
		my $of_action = $status eq 'COMPLETED' ? 'used' : 'open';
		wait_until("$what: action \"$key\" becomes $of_action", sub { action_status($table, $key) eq $of_action })
		  if action_status($table, $key) ne 'none';
	}
	settled($node);
	my $done = $status eq 'COMPLETED' ? 1 : 0;
	is($sql->("SELECT count(*) FROM work WHERE key = '$_'"), $done, "$what: and its work is as it says: $_") foreach @keys;
	return;
}

# The claims of a prepared transaction, as exactonce_claims shows them.
sub claims_of
{
	my ($gid) = @_;
	return $sql->("SELECT string_agg(key || ' ' || state || ' ' || coalesce(pid::text, '-'), ', ' ORDER BY key) FROM exactonce_claims WHERE gid = '$gid' AND key NOT LIKE 'ACTION#%'");
}

# ----- from another session --------------------------------------------------------------

$sql->(preparing('p1', 'a', 'b'));
is(claims_of('p1'), 'a prepared -, b prepared -', 'exactonce_claims names the prepared transaction');
is($sql->("SELECT string_agg(key, ' ' ORDER BY key) FROM exactonce_claims WHERE gid = 'p1' AND key LIKE 'ACTION#%'"), 'ACTION#a ACTION#b', 'with its actions');
is($sql->("SELECT prepared_at = (SELECT prepared FROM pg_prepared_xacts) FROM exactonce_claims LIMIT 1"), 't',
	'and says since when');
are_in_progress('prepared', 'a', 'b');
my $worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = current_database()";
my $stopped = $sql->($worker);
kill 'STOP', $stopped;
$sql->("COMMIT PREPARED 'p1'");
is(outcome('a'), 'completed', 'COMMIT PREPARED: the key is completed for the sessions of its database at once');
is(consume('a'), 'already_used', 'COMMIT PREPARED: and the action consumed');
kill 'CONT', $stopped;
has_become('COMMIT PREPARED', 'COMPLETED', 'a', 'b');

$sql->(preparing('p2', 'c', 'd'));
are_in_progress('prepared', 'c', 'd');
$stopped = $sql->($worker);
kill 'STOP', $stopped;
$sql->("ROLLBACK PREPARED 'p2'");
is(consume('d'), 'consumed', 'ROLLBACK PREPARED: the action can be consumed at once');
kill 'CONT', $stopped;
is(action_status($table, 'd'), 'used', '... which stays so');
$sql->("SELECT idem_acquire('d')");
has_become('ROLLBACK PREPARED', 'FAILED', 'c');
is(outcome('c'), 'acquired', 'ROLLBACK PREPARED: the key can be claimed');

# ----- idem_once, a guard, a failure, a release, a claim that is kept ------------------------

$sql->("CREATE TABLE orders (id text); CREATE TRIGGER once AFTER INSERT ON orders FOR EACH ROW"
	  . " EXECUTE FUNCTION idem_guard('id', 'at=commit', 'prefix=order/')");
my $mixed = sub {
	my ($name) = @_;
	return <<"SQL";
BEGIN;
SELECT idem_once('once/$name', '1');
INSERT INTO orders VALUES ('$name');
SELECT outcome FROM idem_acquire('fails/$name');
SELECT idem_fail('fails/$name', '"no"', terminal => true);
SELECT outcome FROM idem_acquire('released/$name');
SELECT idem_release('released/$name');
SELECT outcome FROM idem_acquire('kept/$name', on_commit => 'keep');
PREPARE TRANSACTION '$name';
SQL
};
foreach my $name ('m1', 'm2')
{
	unlike(run_script($node, $mixed->($name)), qr/ERROR|WARNING/, "$name: a transaction with all kinds of claims is prepared");
	are_in_progress($name, "once/$name", $sql->("SELECT key FROM exactonce_claims WHERE gid = '$name' AND key LIKE 'order/%'"));
	is(status_of($table, "fails/$name"), 'IN_PROGRESS', "$name: what idem_fail() said waits for the end");
	is(outcome("fails/$name"), 'in_progress', "$name: the key that failed is not free before the end");
	is(outcome("released/$name"), 'in_progress', "$name: nor is the one that was released");
	is(status_of($table, "kept/$name") . $sql->("SELECT state FROM exactonce_claims WHERE key = 'kept/$name'"), 'IN_PROGRESS', "$name: a claim that outlives the transaction is left to its lease");
	my ($order) = split /\n/, $sql->("SELECT key FROM exactonce_claims WHERE gid = '$name' AND key LIKE 'order/%'");
	my $end = $name eq 'm1' ? 'COMMIT' : 'ROLLBACK';
	$sql->("$end PREPARED '$name'");
	settled($node);
	is(status_of($table, "once/$name"), $end eq 'COMMIT' ? 'COMPLETED' : 'FAILED', "$end PREPARED: the key of idem_once()");
	is(status_of($table, $order), $end eq 'COMMIT' ? 'COMPLETED' : 'FAILED', "$end PREPARED: the key of a guard");
	is($sql->("SELECT count(*) FROM orders WHERE id = '$name'"), $end eq 'COMMIT' ? 1 : 0, "$end PREPARED: and its row");
	is(outcome("fails/$name"), 'failed', "$end PREPARED: the key that failed has failed");
	is(outcome("released/$name"), 'acquired', "$end PREPARED: the key that was released is free");
	is(status_of($table, "kept/$name"), 'IN_PROGRESS', "$end PREPARED: the claim that was kept is as it was");
}

# A claim that has failed keeps its key by heartbeats, whatever max_hold says.
$sql->("ALTER SERVER exactonce OPTIONS (ADD max_hold '1s')");
$sql->("BEGIN; SELECT outcome FROM idem_acquire('beats', lease => '1 s'); SELECT idem_fail('beats', '\"no\"'); PREPARE TRANSACTION 'beats'");
my $lease = sub { $sql->("SELECT extract(epoch FROM lease_until) FROM exactonce_claims WHERE key = 'beats'") };
my $first_lease = $lease->();
wait_until('the lease of a key that failed is extended', sub { $lease->() > $first_lease + 2 });
is(outcome('beats'), 'in_progress', 'and nobody gets it');
$node->stop('immediate');
$node->start;
wait_until('it is extended after a restart', sub { $lease->() > $first_lease + 4 });
$sql->("COMMIT PREPARED 'beats'");
wait_until('it has failed at the end', sub { status_of($table, 'beats') eq 'FAILED' });
$sql->("ALTER SERVER exactonce OPTIONS (DROP max_hold)");

# A claim that has failed does not keep its owner from a completion.
my $token = $sql->("SELECT token FROM idem_acquire('owned', on_commit => 'keep')");
$sql->("BEGIN; SELECT idem_fail('owned', '\"no\"', token => '$token'); PREPARE TRANSACTION 'owned'");
is(run_script($node, "SELECT idem_complete('owned', '1', token => '$token');\n") =~ /ERROR/, '', 'its owner completes a key that a prepared transaction has failed');
$sql->("ROLLBACK PREPARED 'owned'");
settled($node);
is(status_of($table, 'owned'), 'COMPLETED', 'and it stays completed');

# ----- refused ------------------------------------------------------------------------

like(run_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('open');\nPREPARE TRANSACTION 'open';\n"),
	qr/ERROR:  ID009: /, 'a claim that is not settled: the transaction is not prepared');
wait_until('a claim that is not settled: it is given back', sub { status_of($table, 'open') eq 'FAILED' });
$sql->(preparing('taken', 'first'));
like(run_script($node, preparing('taken', 'second')), qr/ERROR:  42710: /, 'the same gid twice: the second is refused');
wait_until('the same gid twice: the key of the second is given back', sub { status_of($table, 'second') eq 'FAILED' });
$sql->("SELECT action_create('{}', id => 'pin', pin => '4711')");
$sql->("BEGIN; SELECT action_consume('pin', '4711', at => 'commit'); PREPARE TRANSACTION 'pin'");
is($sql->("SELECT outcome FROM action_consume('pin', '1')"), 'in_progress', 'a prepared action takes no attempts at its PIN');
is($sql->("ROLLBACK PREPARED 'pin'; SELECT attempts_left FROM action_get('pin')"), '2', 'the one that was paid stays paid');
like(run_script($node, "SELECT idem_once('first');"), qr/ERROR:  ID001: .*\nDETAIL:  A prepared transaction/,
	'idem_once() of a key that a prepared transaction has is refused');
like(run_script($node, "SET lock_timeout = '@{[ paced('200ms') ]}';\nDROP SERVER exactonce CASCADE;\n"), qr/ERROR:  55P03: /,
	'the server of a prepared transaction is not dropped');
like(run_script($node, "SET lock_timeout = '@{[ paced('200ms') ]}';\nDROP EXTENSION exactonce CASCADE;\n"), qr/ERROR:  55P03: /,
	'the extension of a prepared transaction is not dropped');
cmp_ok($sql->("SELECT idem_drain('300 ms')"), '>=', 2, 'idem_drain() counts its claim, and the life');
like(run_script($node, "SELECT idem_resolve('first', 'failed');"), qr/ERROR:  55006: .* still going on/,
	'idem_resolve() does not overrule a prepared transaction');
like(run_script($node, "SELECT action_resolve('first', 'failed');"), qr/ERROR:  55006: .* still going on/,
	'nor does it of an action');
$sql->("ROLLBACK PREPARED 'taken'");
has_become('it is rolled back', 'FAILED', 'first');

# ----- waiting ---------------------------------------------------------------------------

# Begins to wait for a key that an open transaction holds, and which is prepared meanwhile.
my $holder = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('waited');\nSELECT outcome FROM idem_acquire('waited');\n"
	. say_in_script('held') . halt_until('prepare') . "SELECT idem_complete('waited', '7');\nPREPARE TRANSACTION 'waited';\n"
	. say_in_script('prepared'));
await_word('held');
my $waiters = sub {
	my ($type) = @_;
	wait_until("somebody waits for the key: $type", sub { $sql->(<<"SQL") eq '1' });
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = '$type'
SQL
};
my $waiter = start_script($node, "SELECT outcome, result FROM idem_acquire('waited', wait => '@{[ paced('50 s') ]}');\n");
$waiters->('virtualxid');
go_on('prepare');
await_word('prepared');
finish_script($holder);
my $second = start_script($node, "SELECT outcome, result FROM idem_acquire('waited', wait => '@{[ paced('50 s') ]}');\n");
wait_until('both wait for the prepared transaction', sub { $sql->(<<'SQL') eq '2' });
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'transactionid'
SQL
$sql->("COMMIT PREPARED 'waited'");
is(finish_script($_), "completed|7\n", 'a session that has waited gets the result') foreach $waiter, $second;

# ----- a lost reply -----------------------------------------------------------------------

fault(key => 'lost', to => 'COMMITTING', do => 'lose');
$sql->(preparing('lost', 'lost'));
cmp_ok(count_requests(key => 'lost', to => 'COMMITTING'), '>=', 3, 'the reply to one of two seals is lost: it is sent again');
$sql->("COMMIT PREPARED 'lost'");
has_become('the reply to a seal was lost', 'COMPLETED', 'lost');

fault(key => 'unheard', to => 'COMMITTING', do => 'lose', times => 0);
$sql->(timeouts_sql('exactonce', commit_timeout => '1s'));
like(run_script($node, preparing('unheard', 'unheard')), qr/ERROR:  ID006: /, 'no reply to a seal: the transaction is not prepared');
end_fault('unheard');
has_become('no reply to a seal', 'FAILED', 'unheard');
$sql->(timeouts_sql('exactonce', commit_timeout => undef));

# ----- the session, the worker and the server end ------------------------------------------

my %ends = (
	'the worker is terminated' => sub {
		my $pid = $sql->($worker);
		$sql->("SELECT pg_terminate_backend($pid)");
		wait_until('another worker comes', sub { my $now = $sql->($worker); $now && $now ne $pid });
	},
	'a backend is killed' => sub {
		my $run = start_script($node, "SELECT pg_sleep(100);\n");
		my $pid;
		wait_until('there is a backend to kill', sub {
			$pid = $sql->("SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(100)%' AND state = 'active'") });
		kill 'KILL', $pid;
		finish_script($run);
		$node->poll_query_until('postgres', 'SELECT true');
	},
	'an immediate stop' => sub { $node->stop('immediate'); $node->start },
	'a clean restart' => sub { $node->restart },
	'the server is killed' => sub { crash($node); $node->start },
	'the server is killed, and its claim file is lost' => sub {
		crash($node);
		unlink $node->data_dir . '/exactonce_claims';
		$node->start;
	});
my $n = 0;
foreach my $what (sort keys %ends)
{
	my $name = 'e' . ++$n;
	$sql->(preparing("$name-commit", "$name-c"));
	$sql->(preparing("$name-rollback", "$name-r"));
	$ends{$what}->();
	wait_until("$what: exactonce_claims names the prepared transactions",
		sub { claims_of("$name-$_->[0]") eq "$name-$_->[1] prepared -" })
	  foreach [ 'commit', 'c' ], [ 'rollback', 'r' ];
	are_in_progress($what, "$name-c", "$name-r");
	$sql->("COMMIT PREPARED '$name-commit'");
	# Without the file the life before must be silent for a while.
	$what =~ /file is lost/ ? wait_until("$what: the key is completed here", sub { outcome("$name-c") eq 'completed' })
	  : is(outcome("$name-c"), 'completed', "$what: the key is completed here at once");
	$sql->("ROLLBACK PREPARED '$name-rollback'");
	has_become($what, 'COMPLETED', "$name-c");
	has_become($what, 'FAILED', "$name-r");
}

# Killed when PostgreSQL has decided, and before anybody has looked.
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $name = "decided-$end";
	$sql->(preparing($name, $name));
	fault(to => $_, do => 'drop', times => 0) foreach 'COMPLETED', 'finished', 'FAILED';
	my $pid = $sql->($worker);
	kill 'STOP', $pid;
	$sql->("$end PREPARED '$name'");
	crash($node);
	reset_proxy();
	$node->start;
	has_become("killed after $end PREPARED", $end eq 'COMMIT' ? 'COMPLETED' : 'FAILED', $name);
}

# Its record was finished, and the row removed, before the slot was looked at.
{
	$sql->("BEGIN; SELECT outcome FROM idem_acquire('finished'); SELECT idem_complete('finished'); PREPARE TRANSACTION 'finished'");
	my $pid = $sql->($worker);
	kill 'STOP', $pid;
	$sql->("COMMIT PREPARED 'finished'");
	my $pk = $sql->("DELETE FROM exactonce_internal.outbox WHERE pk LIKE '%#finished' RETURNING pk");
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => $pk } }, UpdateExpression => 'SET #s = :s',
		ExpressionAttributeNames => { '#s' => 'status' }, ExpressionAttributeValues => { ':s' => { S => 'COMPLETED' } } });
	kill 'CONT', $pid;
	wait_until('a claim whose record was finished is no doubt', sub {
		$sql->("SELECT count(*) FROM exactonce_claims WHERE key = 'finished'") eq '0' });
	is($sql->("SELECT count(*) FROM exactonce_in_doubt WHERE key = 'finished'"), '0', 'and no operator is asked about it');
}

# Killed while it is prepared: when the seal arrives, and when it is applied.  The backend may outlive
# the others for long enough to prepare the transaction.
foreach my $applied (0, 1)
{
	my $name = "sealing-$applied";
	my @pids = processes_of($node);
	fault(key => $name, to => 'COMMITTING', do => 'kill', pid => [ map { $_ + 0 } @pids ], applied => $applied);
	finish_script(start_script($node, preparing($name, $name)));
	my $data = $node->data_dir;
	my @left = map { m{^/proc/(\d+)} } grep { (readlink("$_/cwd") // '') eq $data } glob '/proc/[0-9]*';
	kill 'KILL', @left;
	await_end($node, @pids, @left);
	reset_proxy();
	$node->start;
	if ($sql->("SELECT count(*) FROM pg_prepared_xacts WHERE gid = '$name'"))
	{
		are_in_progress('killed after the seal of PREPARE', $name);
		$sql->("ROLLBACK PREPARED '$name'");
	}
	has_become('killed in the seal of PREPARE', 'FAILED', $name);
}

# Killed when PREPARE is on disk, and before the claim was handed over: it waits for a standby then.
$sql->("ALTER SYSTEM SET synchronous_standby_names = 'nobody'; SELECT pg_reload_conf()");
my $waits = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('on disk');\nSELECT idem_fail('on disk', '\"no\"');\nPREPARE TRANSACTION 'on disk';\n");
wait_until('PREPARE waits for a standby', sub {
	$sql->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'PREPARE %' AND wait_event = 'SyncRep'") eq '1' });
crash($node);
finish_script($waits);
$node->append_conf('postgresql.auto.conf', "synchronous_standby_names = ''");
$node->start;
wait_until('killed before the claim was handed over: exactonce_claims names its transaction', sub { claims_of('on disk') eq 'on disk prepared -' });
my ($life) = split m{/}, record($table, 'on disk')->{origin};
wait_until('killed before the claim was handed over: its life is retired', sub { item($table, "ORIGIN#$life")->{state} eq 'retired' });
is(outcome('on disk'), 'in_progress', 'killed before the claim was handed over: nobody gets the key');
is(status_of($table, 'on disk'), 'IN_PROGRESS', 'killed before the claim was handed over: what idem_fail() said waits');
$sql->("COMMIT PREPARED 'on disk'");
wait_until('killed before the claim was handed over: it has failed at the end', sub { status_of($table, 'on disk') eq 'FAILED' });

# ----- ended without a statement ----------------------------------------------------------

# An apply worker prepares and ends a transaction in which a guard fires.
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', 'CREATE TABLE applied (id text PRIMARY KEY); CREATE PUBLICATION p FOR TABLE applied;'
	  . " SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)");
$sql->("CREATE TABLE applied (id text PRIMARY KEY); CREATE TRIGGER once AFTER INSERT ON applied FOR EACH ROW"
	  . " EXECUTE FUNCTION idem_guard('id', 'at=commit', 'prefix=applied/');"
	  . ' ALTER TABLE applied ENABLE ALWAYS TRIGGER once');
my $connection = $node->connstr('source');
$sql->("CREATE SUBSCRIPTION s CONNECTION \$\$$connection\$\$ PUBLICATION p WITH (create_slot = false, slot_name = 's', two_phase = true, copy_data = false)");
wait_until('the subscription has two phases', sub { $sql->("SELECT subtwophasestate FROM pg_subscription") eq 'e' });
foreach my $end ('COMMIT', 'ROLLBACK')
{
	$node->safe_psql('source', "BEGIN; INSERT INTO applied VALUES ('$end'); PREPARE TRANSACTION '$end'");
	wait_until("applied, $end: the transaction is prepared here", sub {
		$sql->("SELECT count(*) FROM exactonce_claims WHERE state = 'prepared' AND gid LIKE 'pg_gid_%'") eq '1' });
	my $key = $sql->("SELECT key FROM exactonce_claims WHERE state = 'prepared'");
	are_in_progress("applied, $end", $key);
	$node->safe_psql('source', "$end PREPARED '$end'");
	my $status = $end eq 'COMMIT' ? 'COMPLETED' : 'FAILED';
	wait_until("applied, $end: without a statement here its key becomes $status", sub { status_of($table, $key) eq $status });
	is($sql->("SELECT count(*) FROM applied WHERE id = '$end'"), $end eq 'COMMIT' ? 1 : 0, "applied, $end: as its row is there");
}
$sql->('ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s');
is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt');
$node->stop;
done_testing();
