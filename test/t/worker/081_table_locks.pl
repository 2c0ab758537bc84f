# Locks of tables, which somebody holds or waits for: the worker waits for none of them for long.
# Beats and heartbeats go on, and what is put off is done when the lock is free.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The worker notes a beat every 6 s; a beat is sent every half second.
my $table = 'tap_locks';
my $node = new_node('locks', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nautovacuum = off\nmax_prepared_transactions = 5\n");
my $sql = sub { sql_of($node, $_[0]) };
$sql->('CREATE TABLE work (key text)');

sub wait_for_lock
{
	my ($what, $query) = @_;
	wait_until("$what waits for a lock",
		sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '$query%' AND wait_event_type = 'Lock'") eq '1' });
	return;
}

# Passes once the lease of a key and the beat of the life have been extended several times.
sub goes_on
{
	my ($what, $key, $life) = @_;
	my %seen;
	wait_until("$what: heartbeats go on", sub {
		my $record = record($table, $key);
		$seen{ $record->{lease_ms} } = 1 if ($record->{status} // '') eq 'IN_PROGRESS';
		return keys %seen > 3;
	});
	my $before = life_item($table, $life)->{beat};
	wait_until("$what: beats go on", sub { life_item($table, $life)->{beat} > $before + 5 });
	is(status_of($table, $key), 'IN_PROGRESS', "$what: nobody has taken the key over");
	return;
}

sub check_tables
{
	return $sql->(q(SELECT status, detail, advice FROM idem_check() WHERE "check" = 'tables'));
}

# Claims a key for two seconds, and completes it when the test calls go_on() with the key.
sub hold_key
{
	my ($key) = @_;
	my $run = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('$key');\n"
		  . "SELECT outcome FROM idem_acquire('$key', lease => '2 s');\n"
		  . say_in_script("has $key") . halt_until($key) . "SELECT idem_complete('$key');\nCOMMIT;\n");
	await_word("has $key");
	return $run;
}

# Commits a key and has its finish wait, so that the worker wants to remove its row afterwards.
sub leave_finish
{
	my ($key) = @_;
	fault(key => $key, to => 'COMPLETED', do => 'hold');
	is(complete($node, $key), '', "$key is committed");
	await_request(key => $key, to => 'COMPLETED');
	return;
}

# A session that has a lock until the test calls go_on() with its name.
sub hold_lock
{
	my ($name, $statements) = @_;
	my $run = start_script($node, "BEGIN;\n$statements;\n" . say_in_script("$name locked") . halt_until($name) . "COMMIT;\n");
	await_word("$name locked");
	return $run;
}

is($sql->(q(SELECT status, detail FROM idem_check() WHERE "check" = 'tables')), 'ok|as the extension made them', 'the tables are as they should be');

# ----- the outbox, behind VACUUM FULL that waits itself ------------------------

my $holder = hold_key('long');
leave_finish('finished');
my $life = life_of($node);
my $reader = hold_lock('reader', 'SELECT count(*) FROM exactonce_internal.outbox');
my $reader_pid = $sql->("SELECT pid FROM pg_locks WHERE relation = 'exactonce_internal.outbox'::regclass AND granted AND mode = 'AccessShareLock' AND pid <> pg_backend_pid() LIMIT 1");
my $vacuum = start_script($node, "VACUUM FULL exactonce_internal.outbox;\n");
wait_for_lock('VACUUM FULL', 'VACUUM FULL');
release_held();
goes_on('VACUUM FULL', 'long', $life);
my $vacuum_pid = $sql->("SELECT pid FROM pg_stat_activity WHERE query LIKE 'VACUUM FULL%' AND wait_event_type = 'Lock'");
ok($vacuum_pid, 'VACUUM FULL still waits');
wait_until('idem_check() says for whom the worker waits', sub {
	check_tables() =~ /^failure\|.*exactonce_internal\.outbox.*\b$vacuum_pid\b.*\b$reader_pid\b/
});
wait_until('the log says it, too', sub {
	slurp_file($node->logfile) =~ /waits for a lock on exactonce_internal\.outbox\n.*DETAIL: .*\b$vacuum_pid\b.*\b$reader_pid\b/
});

# A worker that is started anew finds the lock, and extends the leases at once.
my $worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker'";
my $old = $sql->($worker);
$sql->("SELECT pg_terminate_backend($old)");
wait_until('a new worker starts', sub { my $new = $sql->($worker); $new ne '' && $new ne $old });
goes_on('a new worker', 'long', $life);

go_on('reader');
unlike(finish_script($reader) . finish_script($vacuum), qr/ERROR/, 'VACUUM FULL ends');
go_on('long');
unlike(finish_script($holder), qr/ERROR/, 'the transaction with the claim commits');
settled($node);
is(status_of($table, 'long'), 'COMPLETED', 'its key is finished');
is(worked($node, 'long'), '1', 'its work was done once');
is(status_of($table, 'finished'), 'COMPLETED', 'the other key, too');
wait_until('idem_check() has nothing to say any more', sub { check_tables() =~ /^ok\|/ });
is(complete($node, 'after'), '', 'keys are completed again');
settled($node);

# ----- the outbox, behind DROP EXTENSION that waits itself ---------------------

$holder = hold_key('again');
leave_finish('finished again');
$reader = hold_lock('reader again', 'SELECT count(*) FROM exactonce_internal.outbox');
my $drop = start_script($node, "DROP EXTENSION exactonce CASCADE;\n");
wait_for_lock('DROP EXTENSION', 'DROP EXTENSION');
release_held();
goes_on('DROP EXTENSION', 'again', $life);
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DROP EXTENSION%' AND wait_event_type = 'Lock'");
like(finish_script($drop), qr/ERROR:  57014: /, 'DROP EXTENSION: it is cancelled');
go_on('reader again');
finish_script($reader);
go_on('again');
unlike(finish_script($holder), qr/ERROR/, 'DROP EXTENSION: the transaction with the claim commits');
settled($node);
is(status_of($table, 'again'), 'COMPLETED', 'DROP EXTENSION: its key is finished');

# ----- the lives ---------------------------------------------------------------

$holder = hold_key('beside lives');
my $noted = "SELECT noted_beat FROM exactonce_lives WHERE state = 'open' LIMIT 1";
my $lock = hold_lock('lives', 'LOCK exactonce_internal.lives IN ACCESS EXCLUSIVE MODE');
wait_until('lives: the log names the table', sub { slurp_file($node->logfile) =~ /waits for a lock on exactonce_internal\.lives/ });
my $beat = life_item($table, $life)->{beat};
wait_until('lives: the beat goes out that was to be noted', sub { life_item($table, $life)->{beat} > $beat + 5 });
is(errors_of($node, "SELECT idem_once('beside')"), '', 'lives: keys are completed');
wait_until('lives: and finished', sub { status_of($table, 'beside') eq 'COMPLETED' });
go_on('lives');
finish_script($lock);
wait_until('lives: a beat is noted afterwards', sub { $sql->($noted) > $beat });
go_on('beside lives');
unlike(finish_script($holder), qr/ERROR/, 'lives: the transaction with the claim commits');
settled($node);

# ----- the catalogs ------------------------------------------------------------

# The store is to be built anew, and cannot be while the catalog of the servers is locked.
$holder = hold_key('beside catalogs');
leave_finish('held');
$sql->(timeouts_sql('exactonce', request_timeout => '3s'));
$lock = hold_lock('catalogs', 'LOCK pg_foreign_server, pg_user_mapping IN ACCESS EXCLUSIVE MODE');
release_held();
wait_until('catalogs: the log names the catalog',
	sub { slurp_file($node->logfile) =~ /waits for a lock on relation (?:1417|1418)\b/ });
goes_on('catalogs', 'beside catalogs', $life);
go_on('catalogs');
finish_script($lock);
go_on('beside catalogs');
unlike(finish_script($holder), qr/ERROR/, 'catalogs: the transaction with the claim commits');
settled($node);
is(status_of($table, 'beside catalogs'), 'COMPLETED', 'catalogs: its key is finished');

# ----- a start of the server ---------------------------------------------------

# A prepared transaction keeps its locks over a crash.  Nobody can tell how the commits before it
# have ended until the outbox can be read, and nothing is concluded from that.
is(complete($node, 'first'), '', 'a start: a life begins');
settled($node);
fault(key => 'committed', to => 'COMPLETED', do => 'answer', times => 0);
is(complete($node, 'committed'), '', 'a start: a key is committed, and cannot be finished');
$sql->("BEGIN; LOCK exactonce_internal.outbox IN ACCESS EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'");
crash($node);
$node->start;
reset_proxy();
wait_until('a start: idem_check() says who has the lock', sub {
	check_tables() =~ /exactonce_internal\.outbox.*: a prepared transaction has AccessExclusiveLock/
});
like(errors_of($node, "SET statement_timeout = '1 s'; SELECT idem_acquire('committed')"), qr/57014/, 'a start: a session that waits can be cancelled');
is(status_of($table, 'committed'), 'COMMITTING', 'a start: nobody has touched the key');
$sql->("ROLLBACK PREPARED 'lock'");
wait_until('a start: the key is finished afterwards', sub { status_of($table, 'committed') eq 'COMPLETED' });
settled($node);

unlike(slurp_file($node->logfile), qr/canceling statement due to lock timeout/, 'no wait of the worker is an error in the log');
stop_without_crash($node, kills => 1);
done_testing();
