# Claims that a session holds (on_commit => 'session'): they last as long as the backend,
# and end with it in whatever way it ends.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $table = 'tap_session';
my $node = new_node('session', conf => "max_prepared_transactions = 2\nrestart_after_crash = on\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (who text)');
my $claim = "on_commit => 'session', lease => '1 hour'";
my @sessions;

# Starts a session that holds a key, and then waits for a word: the key.
sub start_holder
{
	my ($key, %how) = @_;
	my $terms = $how{terms} // $claim;
	my $run = start_script($node, "SELECT 'holder ' || outcome FROM idem_acquire('$key', $terms);\n"
		  . say_in_script("held $key") . halt_until($key) . ($how{then} // ''));
	await_word("held $key");
	return $run;
}

sub state_of
{
	my ($key) = @_;
	return $sql->("SELECT state FROM exactonce_claims WHERE key = '$key'");
}

# Passes if another session has the key within two seconds of the instant, on an idle machine.
sub taken_in_time
{
	my ($what, $key, $since, $limit) = @_;
	my $outcome = '';
	$limit = paced($limit // 2);
	while ($outcome ne 'acquired' && time() - $since < paced(60))
	{
		my $stderr;
		$node->psql('postgres', "SELECT outcome FROM idem_acquire('$key')", stdout => \$outcome, stderr => \$stderr);
		usleep(20_000) if $outcome ne 'acquired';
	}
	my $took = time() - $since;
	note(sprintf '%s: another session has the key after %.2f s', $what, $took);
	cmp_ok($took, '<', $limit, "$what: another session has the key within $limit s");
	return;
}

# ----- as long as the session lives ------------------------------------------------

my $run = start_holder('lasts', terms => "on_commit => 'session', lease => '500 ms'");
is(state_of('lasts'), 'session', 'the claim outlives its transaction, and is shown');
is($sql->("SELECT count(*) FROM exactonce_claims c JOIN pg_stat_activity a USING (pid) WHERE c.key = 'lasts' AND a.backend_type = 'client backend'"),
	'1', '... with the process that holds it');
my $record = record($table, 'lasts');
is($record->{bind}, 'session', 'its record says that it is a session\'s');
my $first = $record->{lease_ms};
wait_until('its lease is extended for as long as ten leases', sub { record($table, 'lasts')->{lease_ms} >= $first + 5000 });
is(record($table, 'lasts')->{owner}, $record->{owner}, 'after ten leases it is still that claim');
reset_proxy();
is($sql->("SELECT outcome, mine FROM idem_acquire('lasts')"), 'in_progress|f', '... and nobody else gets the key');
is(count_requests(key => 'lasts', to => 'IN_PROGRESS'), 0, '... which is told without a request');
my $waiter = start_script($node, "SELECT 'waiter ' || outcome FROM idem_acquire('lasts', wait => '@{[ paced('60 s') ]}', on_commit => 'keep');");
go_on('lasts');
finish_script($run);
like(finish_script($waiter), qr/waiter acquired/, 'a session that waits gets it when the holder has ended');

# ----- it is settled ----------------------------------------------------------------

my $out = run_script($node, <<SQL);
SELECT 'again ' || outcome || ' ' || mine FROM idem_acquire('settled', $claim), generate_series(1, 1);
SELECT 'again ' || outcome || ' ' || mine FROM idem_acquire('settled', $claim);
BEGIN;
INSERT INTO work VALUES ('settled');
SELECT idem_complete('settled', '1');
ROLLBACK;
SELECT 'after a rollback ' || state FROM exactonce_claims WHERE key = 'settled' AND state = 'session';
BEGIN;
INSERT INTO work VALUES ('settled');
SELECT idem_complete('settled', '2');
COMMIT;
SELECT 'after the commit ' || outcome || ' ' || result FROM idem_acquire('settled');
SELECT 'left ' || count(*) FROM exactonce_claims WHERE key = 'settled' AND state = 'session';
SQL
like($out, qr/again acquired true\nagain in_progress true\n/, 'its own session is told that it is its own');
like($out, qr/after a rollback session/, 'a later transaction that completes it and is rolled back does not end it');
like($out, qr/after the commit completed 2\nleft 0/, 'a later transaction completes it');
is($sql->("SELECT count(*) FROM work WHERE who = 'settled'"), '1', '... with its work');
settled($node);

foreach my $how ('', 'BEGIN;', 'BEGIN; SELECT 1;')
{
	my $end = $how eq '' ? '' : $how eq 'BEGIN;' ? 'COMMIT;' : 'ROLLBACK;';
	my $key = 'released ' . ($end || 'alone');
	$run = start_script($node, "SELECT outcome FROM idem_acquire('$key', $claim);\n$how SELECT idem_release('$key');\n$end\n"
		  . say_in_script($key) . halt_until("end $key"));
	await_word($key);
	wait_until("$key: nothing is left of it", sub { state_of($key) eq '' });
	is(record($table, $key)->{status}, 'FAILED', "$key: the key is free");
	is(record($table, $key)->{runs}, '0', "$key: no run is counted");
	go_on("end $key");
	finish_script($run);
}

$run = start_holder('by token', then => "SELECT idem_extend('by token');\n");
my $token = record($table, 'by token')->{owner};
$sql->("SELECT idem_complete('by token', '3', token => '$token')");
settled($node);
is(state_of('by token'), '', 'another session of the cluster ends it by its token');
go_on('by token');
like(finish_script($run), qr/ID002/, '... and the holder is told when it extends it');

$run = start_holder('forgotten', terms => "on_commit => 'session', lease => '300 ms'",
	then => "SELECT 'whose ' || outcome || ' ' || mine FROM idem_acquire('forgotten', on_commit => 'keep');");
$sql->("SELECT idem_forget('forgotten')");
wait_until('a claim that was lost is not extended any more', sub { state_of('forgotten') eq '' });
like(slurp_file($node->logfile), qr/process \d+ has lost a claim on table "$table" that it held as a session/, '... and logged');
is($sql->("SELECT outcome FROM idem_acquire('forgotten', on_commit => 'keep')"), 'acquired', '... and another session has the key');
go_on('forgotten');
like(finish_script($run), qr/whose in_progress false/, '... which the old holder is told when it asks');

$out = run_script($node, <<SQL);
SELECT outcome FROM idem_acquire('extended', on_commit => 'session', lease => '10 s');
SELECT idem_extend('extended', '2 hours') > now() + interval '1 hour';
SELECT 'until ' || (lease_until > now() + interval '1 hour') FROM exactonce_claims WHERE key = 'extended';
SQL
like($out, qr/until true/, 'idem_extend() gives it a longer lease');

# ----- the acquiring transaction is rolled back ----------------------------------------

$out = run_script($node, <<SQL);
BEGIN;
SELECT outcome FROM idem_acquire('rolled back', $claim);
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT outcome FROM idem_acquire('to a savepoint', $claim);
ROLLBACK TO s;
SELECT outcome FROM idem_acquire('committed', $claim);
COMMIT;
SELECT 'held: ' || string_agg(key, ', ') FROM exactonce_claims WHERE state = 'session';
BEGIN;
SELECT outcome FROM idem_acquire('prepared', $claim);
PREPARE TRANSACTION 'p';
SELECT idem_acquire('both', $claim, on_abort => 'hold');
SQL
like($out, qr/^held: committed$/m, 'if the acquiring transaction is rolled back, even in part, the key is given back');
like($out, qr/0A000.*cannot PREPARE/, 'a transaction that makes such a claim cannot be prepared');
like($out, qr/22023.*exclude each other/, 'a session\'s claim cannot be held after a rollback');
settled($node);
is(record($table, $_)->{status}, 'FAILED', "$_: given back") foreach 'rolled back', 'to a savepoint', 'prepared', 'committed';

# ----- the session ends -----------------------------------------------------------------

$run = start_holder('exit');
go_on('exit');
finish_script($run);
taken_in_time('the session ends', 'exit', time());

$run = start_holder('terminated');
$sql->("SELECT pg_terminate_backend(pid) FROM exactonce_claims WHERE key = 'terminated'");
taken_in_time('the backend is terminated', 'terminated', time());
go_on('terminated');
finish_script($run);

$run = start_holder('discarded', then => "RESET ALL; RESET ROLE; RESET SESSION AUTHORIZATION;\n"
	  . "SELECT 'after reset ' || state FROM exactonce_claims WHERE key = 'discarded';\nDISCARD ALL;\n"
	  . say_in_script('discarded all') . halt_until('end discarded'));
go_on('discarded');
await_word('discarded all');
taken_in_time('DISCARD ALL', 'discarded', time());
go_on('end discarded');
like(finish_script($run), qr/after reset session/, 'RESET leaves it alone');

# It is terminated while one of its transactions is sealing the key.
fault(key => 'sealing', to => 'COMMITTING', do => 'stay');
$run = start_holder('sealing', then => "BEGIN; INSERT INTO work VALUES ('sealing'); SELECT idem_complete('sealing'); COMMIT;\n");
go_on('sealing');
await_request(key => 'sealing', to => 'COMMITTING');
wait_until('its seal has been applied', sub { record($table, 'sealing')->{status} eq 'COMMITTING' });
$sql->("SELECT pg_terminate_backend(pid) FROM exactonce_claims WHERE key = 'sealing' AND state = 'session'");
finish_script($run);
release_held();
reset_proxy();
taken_in_time('terminated in a seal', 'sealing', time(), 5);
is($sql->("SELECT count(*) FROM work WHERE who = 'sealing'"), '0', '... and its work was not done');

# A kill of one backend makes PostgreSQL end them all.
sub kill_holder
{
	my ($key, $then) = @_;
	my $run = start_holder($key, then => $then);
	my $other = start_holder("beside $key");
	kill 'KILL', $sql->("SELECT pid FROM exactonce_claims WHERE key = '$key'");
	my $since = time();
	taken_in_time('a backend is killed', $key, $since);
	taken_in_time('... and another one with it', "beside $key", $since, 4);
	go_on($_) foreach $key, "beside $key";
	finish_script($_) foreach $run, $other;
	return;
}
kill_holder("killed $_") foreach 1 .. 2;

$run = start_holder('crash');
crash($node);
my $since = time();
go_on('crash');
finish_script($run);
$node->start;
taken_in_time('the server is killed and started', 'crash', $since, 10);

# A stop leaves it to the next start, or to its lease.
$run = start_holder('stop');
$node->stop('fast');
go_on('stop');
finish_script($run);
$node->start;
taken_in_time('the server is stopped and started', 'stop', time(), 5);

# Between its commit and its finish, everything is killed: it is completed, and not given back.
fault(key => 'finishing', to => 'COMPLETED', do => 'drop', times => 0);
run_script($node, "SELECT outcome FROM idem_acquire('finishing', $claim);\nBEGIN; INSERT INTO work VALUES ('finishing');\n"
	  . "SELECT idem_complete('finishing', '4'); COMMIT;\n");
crash($node);
reset_proxy();
$node->start;
wait_until('killed between commit and finish: the key is completed', sub { record($table, 'finishing')->{status} eq 'COMPLETED' });
is($sql->("SELECT count(*) FROM work WHERE who = 'finishing'"), '1', '... and its work is there');
settled($node);

stop_without_crash($node, kills => 1);

# ----- pg_cron -------------------------------------------------------------------------

# Two servers start the same job; the job of the one that has the key is cut off in the middle.
SKIP:
{
	chomp(my $share = `$ENV{PG_CONFIG} --sharedir`);
	skip 'pg_cron is not installed', 6 unless -f "$share/extension/pg_cron.control";
	my ($one, $two) = map { cron_node($_) } 'one', 'two';
	my $done = sub { $_[0]->safe_psql('postgres', 'SELECT count(*) FROM steps') };
	$one->safe_psql('postgres', "SELECT cron.schedule('nightly', '* * * * *', 'CALL nightly()')");
	wait_for(130, 'pg_cron has started the job, and it holds the key of the night', sub { $done->($one) eq '1' });
	is($one->safe_psql('postgres', "SELECT state FROM exactonce_claims WHERE key = 'nightly'"), 'session',
		'... with its session');
	$two->safe_psql('postgres', 'CALL nightly()');
	is($done->($two), '0', 'the job of another server does nothing meanwhile');
	$one->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM exactonce_claims WHERE key = 'nightly'; SELECT cron.unschedule('nightly')");
	$since = time();
	$two->safe_psql('postgres', 'CALL nightly()') while $done->($two) eq '0' && time() - $since < paced(60);
	cmp_ok(time() - $since, '<', paced(2), 'when the job was cut off, that of the other server does it within 2 s');
	settled($two);
	is(record('tap_cron', 'nightly')->{status}, 'COMPLETED', '... and completes the key');
	is(record('tap_cron', 'nightly')->{runs}, '2', '... in the second run');
	$_->stop foreach $one, $two;
}
done_testing();

# A server with pg_cron and the job, which stops in the middle on server one.
sub cron_node
{
	my ($name) = @_;
	my $node = new_node("cron_$name", no_preload => 1, options => { table => 'tap_cron' });
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'exactonce, pg_cron'\ncron.use_background_workers = on\n");
	$node->restart;
	$node->safe_psql('postgres', "SELECT idem_create_table()");
	$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION pg_cron;
CREATE TABLE steps (n int);
CREATE PROCEDURE nightly() LANGUAGE plpgsql AS \$\$
BEGIN
	IF (idem_acquire('nightly', on_commit => 'session')).outcome <> 'acquired' THEN
		RETURN;
	END IF;
	INSERT INTO steps VALUES (1);
	COMMIT;
	PERFORM pg_sleep(600) WHERE '$name' = 'one';
	INSERT INTO steps VALUES (2);
	PERFORM idem_complete('nightly');
END \$\$;
SQL
	return $node;
}

# As wait_until(), with another limit in seconds.
sub wait_for
{
	my ($seconds, $what, $code) = @_;
	my $end = time() + paced($seconds);
	usleep(50_000) until $code->() || time() > $end;
	return ok($code->(), $what);
}
