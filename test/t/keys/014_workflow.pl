# Handlers, guards and batches that are interrupted, and what they cost in requests.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Faults;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_workflow';
my %options = (clock_skew => 0, batch_requests => 'off', commit_timeout => '20s', parallel_requests => 32);
my $node = new_node('workflow', options => \%options, conf => "restart_after_crash = on\n");
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };

# slow() waits to be interrupted.
$sql->(<<'SQL');
CREATE TABLE work (key text);
CREATE FUNCTION slow(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO work VALUES (payload->>'key');
	PERFORM pg_sleep(600);
	RETURN '"done"';
END $$;
CREATE FUNCTION quick(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO work VALUES (payload->>'key');
	RETURN '"done"';
END $$;
SQL

sub calling
{
	my ($key, $handler) = @_;
	return qq(SELECT idem_call('$key', '$handler(jsonb)', '{"key": "$key"}');\n);
}

# Starts a call of slow() and returns it once the handler runs.
sub start_slow
{
	my ($key) = @_;
	my $run = start_script($node, calling($key, 'slow'));
	wait_until("$key: a handler runs", sub { $sql->(<<"SQL") eq 't|1' });
SELECT EXISTS (SELECT FROM exactonce_claims WHERE key = '$key' AND state = 'held'),
	(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')
SQL
	return $run;
}

# The keys PREFIXn-, as the argument of idem_acquire_many().
sub keys_of_batch
{
	my ($prefix, $n) = @_;
	return "ARRAY(SELECT '$prefix' || i || '-' FROM generate_series(1, $n) i)";
}

# ----- handlers ---------------------------------------------------------------

foreach my $function ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $run = start_slow($function);
	my $began = time();
	$sql->("SELECT $function(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
	is($sql->(<<"SQL"), 'acquired|1', "$function of a handler: its key is free, and no run was counted");
SELECT outcome, run FROM idem_acquire('$function', payload => '{"key": "$function"}', wait => '@{[ paced('20 s') ]}')
SQL
	note(sprintf '%.2f s', time() - $began);
	like(finish_script($run), qr/57014|57P01/, "$function of a handler: the caller gets PostgreSQL's own error");
	is($sql->("SELECT count(*) FROM work WHERE key = '$function'"), '0', "$function of a handler: nothing was done");
}

my $run = start_slow('other');
like(run_script($node, calling('other', 'quick')),
	qr/ID003: key "other" on server "exactonce" was used with another handler\nDETAIL:  It was used with public.slow, and this call names public.quick. The key is IN_PROGRESS/,
	'while a handler runs, another one is refused its key, and both are named');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
finish_script($run);
like(run_script($node, calling('other', 'quick')), qr/another handler\n.*The key is FAILED/, 'so it is when that has failed');

$run = start_slow('poison');
kill 'KILL', $sql->("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
finish_script($run);
wait_until('a handler that killed its server: the run is counted, and the key is parked', sub {
	my (undef, $out) = $node->psql('postgres', <<'SQL');
SELECT outcome FROM idem_acquire('poison', payload => '{"key": "poison"}', max_runs => 1)
SQL
	return ($out // '') eq 'failed';
});

$run = start_script($node, "BEGIN;\n" . calling('click', 'quick')
	  . say_in_script('clicked') . halt_until('second click') . "COMMIT;\n");
await_word('clicked');
my $second = start_script($node, qq(SELECT idem_call('click', 'quick(jsonb)', '{"key": "click"}', wait => '@{[ paced('30 s') ]}');\n));
wait_until('a second click waits for the first', sub { $sql->(<<'SQL') eq 't' });
SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'virtualxid')
SQL
go_on('second click');
is(finish_script($second), qq("done"\n), "a second click gets the first one's result");
finish_script($run);
is($sql->("SELECT count(*) FROM work WHERE key = 'click'"), '1', 'two clicks do the work once');

# from another database, which has to ask for it
$sql->('CREATE DATABASE other');
$sql->('CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, %options), 'other');
$sql->("SELECT idem_acquire('remote', lease => '1 h')");
$run = start_script($node, "SELECT outcome, result FROM idem_acquire('remote', wait => '60 s');\n", 'other');
await_request(key => 'remote', n => 3);
my $token = record($table, 'remote')->{owner};
$sql->("SELECT idem_complete('remote', '1', token => '$token')");
is(finish_script($run), "completed|1\n", 'a session of another database that waits gets the result, too');

# ----- batches ----------------------------------------------------------------

reset_proxy();
fault(key => 'IDEMPOTENCY#b1-', to => 'IN_PROGRESS', do => 'hold');
my $batch = keys_of_batch('b', 200);
$run = start_script($node,
	"SELECT count(*), count(*) FILTER (WHERE outcome = 'acquired') FROM idem_acquire_many($batch);\n");
wait_until('while one request of a batch is stuck, the others are made',
	sub { count_requests(to => 'IN_PROGRESS') >= 200 });
wait_until('while one request of a batch is stuck, exactonce_claims shows how far it has come',
	sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE state = 'held'") eq '199' });
release_held();
is(finish_script($run), "200|200\n", 'in the end all keys of a batch are answered');

foreach my $name ('answer lost', 'request lost', 'request doubled', 'answer garbled', 'status 500')
{
	reset_proxy();
	foreach my $i (3, 40, 77)
	{
		fault(%$_, key => "$name$i-") foreach @{ fault_named($name)->{do} };
	}
	$batch = keys_of_batch($name, 80);
	is($sql->("SELECT outcome, run, count(*) FROM idem_acquire_many($batch) GROUP BY 1, 2"), 'acquired|1|80',
		"a batch, some of whose requests meet a fault: $name");
}

reset_proxy();
fault(key => 'IDEMPOTENCY#c150-', to => 'IN_PROGRESS', do => 'hold');
$batch = keys_of_batch('c', 200);
$run = start_script($node, "SELECT count(*) FROM idem_acquire_many($batch);\n");
await_request(key => 'IDEMPOTENCY#c150-');
wait_until('a batch is under way', sub { $sql->(<<'SQL') >= 100 });
SELECT count(*) FROM exactonce_claims WHERE key LIKE 'c%-' AND state = 'held'
SQL
my $began = time();
$sql->(<<'SQL');
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE query LIKE '%idem_acquire_many%' AND pid <> pg_backend_pid()
SQL
like(finish_script($run), qr/57014/, 'a batch is cancelled');
is($sql->("SELECT outcome, run, count(*) FROM idem_acquire_many($batch, wait => '@{[ paced('20 s') ]}') GROUP BY 1, 2"),
	'acquired|1|200', 'a batch that was cancelled: all its keys are free, and no run was counted');
note(sprintf '%.2f s', time() - $began);
release_held();

# ----- guards -----------------------------------------------------------------

$sql->(<<'SQL');
CREATE TABLE skipping (id text);
CREATE TABLE strict (id text);
CREATE TRIGGER once BEFORE INSERT ON skipping FOR EACH ROW
	EXECUTE FUNCTION idem_guard('id', 'prefix=skip/', 'on_duplicate=skip');
CREATE TRIGGER once AFTER INSERT ON strict FOR EACH ROW
	EXECUTE FUNCTION idem_guard('id', 'prefix=strict/', 'at=commit');
INSERT INTO skipping SELECT i FROM generate_series(1, 300) i;
INSERT INTO strict SELECT i FROM generate_series(1, 300) i;
DELETE FROM skipping;
DELETE FROM strict;
SQL
my $data = $node->basedir . '/rows';
append_to_file($data, join '', map { "$_\n" } 1 .. 1000);
append_to_file("$data.reversed", join '', map { "$_\n" } reverse 1 .. 1000);
$sql->("COPY skipping FROM '$data'");
is($sql->('SELECT count(*), min(id::int) FROM skipping'), '700|301',
	'of a thousand rows copied the guard leaves out those that are done already');
reset_proxy();
fault(key => 'strict/1000', to => 'COMMITTING', do => 'hold');
$run = start_script($node, "COPY strict FROM '$data.reversed';\n");
wait_until('a guard at commit: the requests are made side by side', sub { count_requests(to => 'COMMITTING') > 32 });
release_held();
like(finish_script($run), qr/ERROR:  23505: duplicate key "strict\/\d+"/,
	'a guard at commit: a duplicate is a unique violation');
is($sql->('SELECT count(*) FROM strict'), '0', 'a guard at commit: after a duplicate no row is there');
is($sql->(<<"SQL"), 'acquired|700', 'a guard at commit: after a duplicate every new key can be claimed');
SELECT outcome, count(*) FROM idem_acquire_many(ARRAY(SELECT 'strict/' || i FROM generate_series(301, 1000) i),
	wait => '@{[ paced('20 s') ]}') GROUP BY 1
SQL

stop_without_crash($node, kills => 1);
done_testing();
