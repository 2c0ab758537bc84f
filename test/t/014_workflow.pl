# Handlers, guards and batches that are interrupted, and what they cost in requests.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_workflow';
my $options = ", clock_skew '0', commit_timeout '20s', parallel_requests '32'";
my $node = new_node('workflow', table => $table, options => $options);
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };
my $record = sub { return records($table)->{ $_[0] } // { status => 'none' } };
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

# a handler that is interrupted has not failed: the key is free, no run counted
foreach my $function ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $run = start_psql($node, qq(SELECT idem_call('$function', 'slow(jsonb)', '{"key": "$function"}');\n));
	wait_until("$function: a handler is at work", sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE key = '$function' AND state = 'held'") eq '1'
		&& $sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") eq '1' });
	my $began = time();
	$sql->("SELECT $function(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
	is($sql->("SELECT outcome, run FROM idem_acquire('$function', payload => '{\"key\": \"$function\"}', wait => '20 s')"),
		'acquired|1', '... and interrupted, its key is another\'s, and no run was counted');
	note(sprintf '%.2f s', time() - $began);
	like(finish_psql($run), qr/57014|57P01/, '... and its own error is told');
	is($sql->("SELECT count(*) FROM work WHERE key = '$function'"), '0', '... and nothing was done');
}

# ... but one that is killed has: a message that kills its server is parked
my $run = start_psql($node, qq(SELECT idem_call('poison', 'slow(jsonb)', '{"key": "poison"}');\n));
wait_until('a handler is at work', sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") eq '1' });
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
my $pid = $sql->("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
kill 'KILL', $pid;
finish_psql($run);
wait_until('killed, the server restarts', sub {
	my ($code, $out) = $node->psql('postgres', "SELECT outcome FROM idem_acquire('poison', payload => '{\"key\": \"poison\"}', max_runs => 1)");
	($out // '') eq 'failed' });

# a handler beside another: the second one waits for the first one's result
$run = start_psql($node, <<'SQL');
BEGIN;
SELECT idem_call('click', 'quick(jsonb)', '{"key": "click"}');
SELECT pg_advisory_lock(1);
DO $$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'virtualxid')); PERFORM pg_sleep(0.01); END LOOP; END $$;
COMMIT;
SQL
wait_until('one has clicked', sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") eq '1' });
is($sql->(qq(SELECT idem_call('click', 'quick(jsonb)', '{"key": "click"}', wait => '30 s'))), '"done"', 'a second click gets the first one\'s result');
finish_psql($run);
is($sql->("SELECT count(*) FROM work WHERE key = 'click'"), '1', '... and the work is done once');

# ... from another database, too, which has to ask for it
$sql->('CREATE DATABASE other');
$sql->("CREATE EXTENSION exactonce; CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}' $options);
	CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test')", 'other');
$sql->("SELECT idem_acquire('remote', lease => '1 h')");
my %remote = (out => '');
my $file = $node->basedir . '/remote.sql';
append_to_file($file, "SELECT outcome, result FROM idem_acquire('remote', wait => '60 s');\n");
$remote{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('other'), '-f', $file ], '<', \undef, '>', \$remote{out});
control('GET', '/wait?key=remote&n=3&seconds=60');
my $token = $record->('remote')->{owner};
$sql->("SELECT idem_complete('remote', '1', token => '$token')");
$remote{handle}->finish;
is($remote{out}, "completed|1\n", 'who waits elsewhere gets the result, too');

# a batch: requests side by side, an answer for each key in its order
control('POST', '/reset');
control('POST', '/fault', '{"key":"IDEMPOTENCY#b1-","to":"IN_PROGRESS","do":"hold"}');
$run = start_psql($node, "SELECT count(*), count(*) FILTER (WHERE outcome = 'acquired') FROM idem_acquire_many(ARRAY(SELECT 'b' || i || '-' FROM generate_series(1, 200) i));\n");
wait_until('while one request of a batch is stuck, the others are made', sub { control('GET', '/count?to=IN_PROGRESS') >= 200 });
wait_until('... and how far it has come can be seen', sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE state = 'held'") eq '199' });
control('POST', '/release');
is(finish_psql($run), "200|200\n", '... and in the end all are answered');

foreach my $fault ('"do":"lose"', '"do":"drop"', '"do":"twice"', '"do":"garble"', '"do":"answer","status":500,"code":"InternalServerError"')
{
	my ($name) = $fault =~ /"do":"(\w+)"/;
	control('POST', '/reset');
	control('POST', '/fault', qq({"key":"$name-$_.",$fault})) foreach 3, 40, 77;
	is($sql->("SELECT outcome, run, count(*) FROM idem_acquire_many(ARRAY(SELECT '$name-' || i || '.' FROM generate_series(1, 80) i)) GROUP BY 1, 2"),
		'acquired|1|80', "a batch, some of whose requests meet: $name");
}

# one that is cancelled leaves nothing behind, and has counted no run
control('POST', '/reset');
control('POST', '/fault', '{"key":"IDEMPOTENCY#c150-","to":"IN_PROGRESS","do":"hold"}');
$run = start_psql($node, "SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'c' || i || '-' FROM generate_series(1, 200) i));\n");
control('GET', '/wait?key=IDEMPOTENCY%23c150-&seconds=60');
wait_until('a batch is on its way', sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE key LIKE 'c%-' AND state = 'held'") >= 100 });
my $began = time();
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%idem_acquire_many%' AND pid <> pg_backend_pid()");
like(finish_psql($run), qr/57014/, '... and is cancelled');
is($sql->("SELECT outcome, run, count(*) FROM idem_acquire_many(ARRAY(SELECT 'c' || i || '-' FROM generate_series(1, 200) i), wait => '20 s') GROUP BY 1, 2"),
	'acquired|1|200', '... and all its keys are free, with no run counted');
note(sprintf '%.2f s', time() - $began);
control('POST', '/release');

# a guarded COPY
$sql->('CREATE TABLE skipping (id text); CREATE TABLE strict (id text)');
$sql->("CREATE TRIGGER once BEFORE INSERT ON skipping FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=skip/', 'on_duplicate=skip')");
$sql->("CREATE TRIGGER once AFTER INSERT ON strict FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=strict/', 'at=commit')");
$sql->("INSERT INTO skipping SELECT i FROM generate_series(1, 300) i; INSERT INTO strict SELECT i FROM generate_series(1, 300) i; DELETE FROM skipping; DELETE FROM strict");
my $data = $node->basedir . '/rows';
append_to_file($data, join '', map { "$_\n" } 1 .. 1000);
$sql->("COPY skipping FROM '$data'");
is($sql->('SELECT count(*), min(id::int) FROM skipping'), '700|301', 'of a thousand rows copied those that are done elsewhere are left out');
control('POST', '/reset');
control('POST', '/fault', '{"key":"strict/1000","to":"COMMITTING","do":"hold"}');
append_to_file("$data.reversed", join '', map { "$_\n" } reverse 1 .. 1000);
$run = start_psql($node, "COPY strict FROM '$data.reversed';\n");
wait_until('at=commit: requests are side by side', sub { control('GET', '/count?to=COMMITTING') > 32 });
control('POST', '/release');
like(finish_psql($run), qr/ERROR:  23505: duplicate key "strict\/\d+".*CONSTRAINT NAME:  once|ERROR:  23505: duplicate key "strict\/\d+"/s, '... and a duplicate is a unique violation');
is($sql->('SELECT count(*) FROM strict'), '0', '... and no row is there');
is($sql->("SELECT outcome, count(*) FROM idem_acquire_many(ARRAY(SELECT 'strict/' || i FROM generate_series(301, 1000) i), wait => '20 s') GROUP BY 1"),
	'acquired|700', '... and every new key can be claimed');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'no crash of its own');
done_testing();
