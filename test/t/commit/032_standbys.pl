# A key is COMPLETED only when no failover that the administrator provides for can
# lose its commit: the synchronous standbys and the named replication slots have it,
# even if the session did not wait for them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_standbys';
my $node = new_node('standbys', options => { clock_skew => 0, commit_timeout => '60s' }, conf => <<'CONF');
wal_level = logical
max_wal_senders = 5
max_replication_slots = 5
wal_receiver_status_interval = 1
checkpoint_timeout = 1h
CONF
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# A row of idem_check(), as "status|detail".
sub check
{
	my ($name) = @_;
	return $sql->(qq{SELECT status || '|' || detail FROM idem_check() WHERE "check" = '$name'});
}

# Changes settings, and waits until sessions that begin now have them.
sub configure
{
	my (%settings) = @_;
	$sql->("ALTER SYSTEM SET $_ = '$settings{$_}'") foreach sort keys %settings;
	$node->reload;
	foreach my $name (sort keys %settings)
	{
		wait_until("$name is '$settings{$name}'", sub { $sql->("SHOW $name") eq $settings{$name} });
	}
	return;
}

# A transaction that completes a key.
sub completing
{
	my ($key) = @_;
	return "BEGIN;\nSELECT outcome FROM idem_acquire('$key', lease => '1 hour');\nSELECT idem_complete('$key', '1');\nCOMMIT;\n";
}

# Passes if the keys have committed and nobody has said so in DynamoDB.
sub are_held_back
{
	my ($what, @keys) = @_;
	foreach my $key (@keys)
	{
		is(status_of($table, $key), 'COMMITTING', "$what: key \"$key\" is COMMITTING for others");
		is(count_requests(key => $key, to => 'COMPLETED'), 0, "$what: nothing was sent for key \"$key\"");
	}
	return;
}

sub become_completed
{
	my ($what, @keys) = @_;
	wait_until("$what: key \"$_\" becomes COMPLETED", sub { status_of($table, $_) eq 'COMPLETED' }) foreach @keys;
	settled($node);
	return;
}

my $worker_pid = <<'SQL';
SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = current_database()
SQL

# ----- without standbys -------------------------------------------------------

$sql->(completing('alone'));
become_completed('no standby is named', 'alone');
unlike(check('durability'), qr/standby/, 'no standby is named: the check of durability is about this server');
is(check('standby slots'), 'ok|none are named', 'no slot is named: idem_check() says so');

# ----- a synchronous standby --------------------------------------------------

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$sql->("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
$node->restart;
$sql->(completing('together'));
become_completed('the standby is there', 'together');
like(check('durability'), qr/; no completion waits for the standbys of synchronous_standby_names$/,
	'the standby is there: idem_check() says so');

# A transaction that goes on keeps no others waiting, and is not taken for one that is over.
my $slow = start_script($node, "BEGIN;\nSELECT idem_once('slow');\n" . say_in_script('slow is open') . halt_until('slow')
	. "COMMIT;\n");
await_word('slow is open');
$sql->(completing('quick'));
wait_until('a transaction goes on: key "quick" becomes COMPLETED', sub { status_of($table, 'quick') eq 'COMPLETED' });
go_on('slow');
finish_script($slow);
become_completed('a transaction that went on', 'slow');

$standby->stop;
my $waiting_for_standbys =
  qr/^warning\|.*completions wait since .* for the standbys of synchronous_standby_names, which have confirmed [0-9A-F\/]+ of [0-9A-F\/]+$/;

# Starts a transaction whose commit waits for the standby, and ends the wait.
sub end_wait
{
	my ($key, $function) = @_;
	my $run = start_script($node, "SET application_name = 'waits';\n" . completing($key)
		. "SELECT 'here ' || outcome FROM idem_acquire('$key');\n");
	wait_until("$key: the commit waits for the standby", sub { $sql->(<<'SQL') eq '1' });
SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'waits'
SQL
	is(status_of($table, $key), 'COMMITTING', "$key: its key is COMMITTING while it waits");
	$sql->("SELECT $function(pid) FROM pg_stat_activity WHERE application_name = 'waits'");
	return finish_script($run);
}

my $out = end_wait('cancelled', 'pg_cancel_backend');
like($out, qr/WARNING:.* canceling wait for synchronous replication/, 'a cancelled wait: the session is warned');
like($out, qr/^here completed$/m, 'a cancelled wait: the session is told that the key is completed');
wait_until('a cancelled wait: idem_check() says what is waited for', sub { check('durability') =~ $waiting_for_standbys });

$out = end_wait('terminated', 'pg_terminate_backend');
like($out, qr/WARNING:.* canceling the wait for synchronous replication and terminating connection/,
	'a terminated wait: the session is warned');

$out = run_script($node, "SET synchronous_commit = local;\n" . completing('local'));
unlike($out, qr/WARNING|ERROR/, 'synchronous_commit = local: the session does not wait');

my @keys = qw(cancelled terminated local);
is($sql->("SELECT outcome FROM idem_acquire('local')"), 'completed',
	'a key that is held back is completed for the sessions of its database');
is($sql->("SELECT string_agg(DISTINCT waits_for, ' ') FROM exactonce_pending"), 'synchronous_standby_names',
	'exactonce_pending shows what the completions wait for');
like(run_script($node, "SELECT idem_resolve('local', 'completed')"),
	qr/ERROR:  55000: .*\nDETAIL:  The standbys of synchronous_standby_names have not confirmed its commit\./,
	'an operator cannot say COMPLETED before the standbys have the commit');
are_held_back('the standby is away', @keys);

# More than the worker keeps in memory.
my $many = 1200;
unlike(run_script($node, "SET synchronous_commit = local;\nSELECT count(idem_once('many/' || i)) FROM generate_series(1, $many) i;\n"),
	qr/ERROR/, 'many keys are completed in a transaction');
is($sql->("SELECT count(*) FROM exactonce_pending WHERE key LIKE 'many/%' AND waits_for IS NOT NULL"), $many,
	'many completions wait');
is(count_requests(key => 'many/', to => 'COMPLETED'), 0, 'many completions wait: nothing was sent');

# What else the worker does goes on.
my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('beating', lease => '200 ms');\n"
	. say_in_script('beating is held') . halt_until('beating') . "ROLLBACK;\n");
await_word('beating is held');
my $first_lease = record($table, 'beating')->{lease_ms};
wait_until('the standby is away: leases of open transactions are extended',
	sub { record($table, 'beating')->{lease_ms} >= $first_lease + 5 * 200 });
go_on('beating');
finish_script($run);
wait_until('the standby is away: a rollback gives its key back', sub { status_of($table, 'beating') eq 'FAILED' });

# The worker that waits cannot be made to go on without the standby.
$sql->("SELECT pg_cancel_backend(($worker_pid))");
my $old;
wait_until('the worker, cancelled while it waits, is there or comes back', sub { $old = $sql->($worker_pid) });
$sql->("SELECT pg_terminate_backend($old)");
wait_until('the worker, terminated while it waits, comes back', sub { my $pid = $sql->($worker_pid); $pid && $pid ne $old });
wait_until('the worker that comes back waits, too', sub { check('durability') =~ $waiting_for_standbys });
are_held_back('another worker', @keys);

# Recovery makes a commit visible whose session had not ended its wait.
$run = start_script($node, "SET application_name = 'waits';\n" . completing('recovered'));
wait_until('recovered: the commit waits for the standby', sub { $sql->(<<'SQL') eq '1' });
SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'waits'
SQL
crash($node);
finish_script($run);
$node->start;
wait_until('recovered: the worker waits', sub { check('durability') =~ $waiting_for_standbys });
is($sql->("SELECT outcome FROM idem_acquire('recovered')"), 'completed', 'recovered: the commit is there');
push @keys, 'recovered';
are_held_back('after a crash', @keys);

$standby->start;
become_completed('the standby is back', @keys);
like(check('durability'), qr/; no completion waits for the standbys of synchronous_standby_names$/,
	'the standby is back: nothing waits any more');
$out = run_script($node, completing('normal'));
unlike($out, qr/WARNING|ERROR/, 'the standby is back: commits go on');
become_completed('the standby is back', 'normal');

my $records = records($table);
is(scalar(grep { /^many/ && $records->{$_}{status} eq 'COMPLETED' } keys %$records), $many,
	'the standby is back: of many completions all are made');
# Whoever has had no answer asks again.
my @made = grep { $_->{key} =~ /many\// } map { @{ $_->{writes} // [$_] } } grep { $_->{sent} } requests(key => 'many/', to => 'COMPLETED');
is(scalar(@made), $many, 'the standby is back: each of many is made once');

# ----- named slots ------------------------------------------------------------

configure(synchronous_standby_names => '', 'exactonce.synchronized_standby_slots' => 'no_such_slot');
is(check('standby slots'), 'failure|replication slot "no_such_slot" does not exist', 'a missing slot: idem_check() fails');
my $began = time();
$sql->(completing('missing'));
my $complaint = qr/WARNING:  exactonce: completions are held back: replication slot "no_such_slot" does not exist/;
wait_until('a missing slot: the log says so', sub { slurp_file($node->logfile) =~ $complaint });
wait_until('a missing slot: idem_check() says since when',
	sub { check('standby slots') =~ /^failure\|replication slot "no_such_slot" does not exist; completions wait since / });
is($sql->('SELECT waits_for FROM exactonce_pending'), 'replication slots', 'a missing slot: exactonce_pending shows it');
$run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('beating still', lease => '200 ms');\n"
	. say_in_script('beating still') . halt_until('beaten') . "ROLLBACK;\n");
await_word('beating still');
$first_lease = record($table, 'beating still')->{lease_ms};
wait_until('a missing slot: leases of open transactions are extended',
	sub { record($table, 'beating still')->{lease_ms} >= $first_lease + 10 * 200 });
go_on('beaten');
finish_script($run);
my $minutes = int((time() - $began) / 60);
my $complaints = () = slurp_file($node->logfile) =~ /$complaint/g;
ok($complaints >= 1 && $complaints <= 1 + $minutes, 'a missing slot: the log says so once a minute, and not each time the worker looks');
are_held_back('a missing slot', 'missing');

# The slot is behind the commit until its standby has flushed it.
$standby->stop;
$sql->("SELECT pg_create_physical_replication_slot('no_such_slot', true)");
wait_until('a slot without progress: idem_check() says so', sub {
	check('standby slots') =~ /^warning\|replication slot "no_such_slot" has not confirmed .*; completions wait since / });
are_held_back('a slot without progress', 'missing');
$standby->append_conf('postgresql.conf', "primary_slot_name = 'no_such_slot'");
$standby->start;
become_completed('progress of the slot', 'missing');
is(check('standby slots'), 'ok|no completion waits for those that are named', 'progress of the slot: nothing waits any more');

# The standby confirms a slot, and another one that is named has no standby.
$sql->("SELECT pg_create_physical_replication_slot('second', true)");
configure('exactonce.synchronized_standby_slots' => 'no_such_slot, second');
$sql->(completing('one of two'));
wait_until('one of two slots is behind: idem_check() names it',
	sub { check('standby slots') =~ /^warning\|replication slot "second" has not confirmed / });
are_held_back('one of two slots is behind', 'one of two');
$sql->("SELECT pg_replication_slot_advance('second', pg_current_wal_flush_lsn())");
become_completed('both slots', 'one of two');

# A slot that can never confirm anything, and one that is dropped while it is named.
$sql->("SELECT pg_create_logical_replication_slot('logical', 'pgoutput')");
configure('exactonce.synchronized_standby_slots' => 'logical');
is(check('standby slots'), 'failure|replication slot "logical" is not physical', 'a logical slot: idem_check() fails');
$sql->(completing('logical'));
wait_until('a logical slot: completions wait', sub { check('standby slots') =~ /; completions wait since / });
are_held_back('a logical slot', 'logical');
configure('exactonce.synchronized_standby_slots' => '');
become_completed('no slot is named any more', 'logical');

$sql->("SELECT pg_drop_replication_slot('logical')");
configure(max_slot_wal_keep_size => '1MB', 'exactonce.synchronized_standby_slots' => 'second');
# The standby's own slot stays: each time the standby has all before the checkpoint.
wait_until('a slot whose WAL is gone: it is invalidated', sub {
	$sql->('SELECT pg_switch_wal()');
	$sql->('CREATE TABLE IF NOT EXISTS filler (); DROP TABLE filler');
	$node->wait_for_catchup($standby, 'flush');
	$sql->('CHECKPOINT');
	check('standby slots') =~ /^failure\|replication slot "second" is invalidated/ });
configure(max_slot_wal_keep_size => '-1');
$sql->(completing('invalidated'));
wait_until('a slot whose WAL is gone: completions wait', sub { check('standby slots') =~ /; completions wait since / });
are_held_back('a slot whose WAL is gone', 'invalidated');
$sql->("SELECT pg_drop_replication_slot('second')");
$sql->("SELECT pg_create_physical_replication_slot('second', true)");
$sql->("SELECT pg_replication_slot_advance('second', pg_current_wal_flush_lsn())");
become_completed('the slot is made anew', 'invalidated');

# ----- the settings -----------------------------------------------------------

like(run_script($node, "ALTER SYSTEM SET exactonce.synchronized_standby_slots = 'a,,b'"),
	qr/ERROR:  22023: invalid value for parameter "exactonce.synchronized_standby_slots": "a,,b"\nDETAIL:  List syntax is invalid\./,
	'a list that cannot be read is refused');
like(run_script($node, "SET exactonce.synchronized_standby_slots = ''"), qr/ERROR:  55P02/, 'no session may change the setting');

SKIP:
{
	skip 'only PostgreSQL 17 and later have a setting of their own', 1 if $node->pg_version < 17;
	$sql->("SELECT pg_create_physical_replication_slot('third', true)");
	configure('exactonce.synchronized_standby_slots' => '', synchronized_standby_slots => 'third');
	$sql->(completing('core setting'));
	wait_until("PostgreSQL's own setting counts if ours is empty",
		sub { check('standby slots') =~ /^warning\|replication slot "third" has not confirmed .*; completions wait since / });
	are_held_back("PostgreSQL's own setting", 'core setting');
	configure('exactonce.synchronized_standby_slots' => 'no_such_slot');
	become_completed('our setting goes before it', 'core setting');
	configure(synchronized_standby_slots => '');
}

configure('exactonce.synchronized_standby_slots' => '');
$sql->(completing('empty'));
become_completed('no slot is named', 'empty');

$standby->stop;
stop_without_crash($node, kills => 1);
done_testing();
