# What PostgreSQL can do to a transaction whose keys are sealed, or about to be.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_transactions';
my $node = new_node('transactions', options => ", commit_timeout '3s', request_timeout '2s'",
	conf => "max_prepared_transactions = 5\nmax_worker_processes = 20\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text, n int)');
my $state = sub { my $r = records($table)->{ $_[0] }; return $r ? $r->{status} : 'none' };
my $works = sub { return $sql->("SELECT count(*) FROM work WHERE key = '$_[0]'") };

# A transaction that works under a key; what is done before the commit is given.
sub working
{
	my ($key, $before) = @_;
	$before //= '';
	return <<"SQL";
BEGIN;
SELECT outcome FROM idem_acquire('$key');
INSERT INTO work VALUES ('$key', 1);
SELECT idem_complete('$key', '"$key"');
$before
COMMIT;
SQL
}

# Both say the same, and for good.
sub agree
{
	my ($key, $done, $what) = @_;
	settled($node);
	is($works->($key) . ' ' . $state->($key), $done ? '1 COMPLETED' : '0 FAILED', $what);
	return;
}

# the wait for the seal: what ends it, and what does not
control('POST', '/fault', '{"key":"patient","to":"COMMITTING","do":"delay","ms":400}');
my $out = psql_ok($node, working('patient', "SET LOCAL statement_timeout = '100ms';"));
unlike($out, qr/ERROR/, 'statement_timeout does not end a commit');
agree('patient', 1, '... which goes through');

foreach my $how ([ 'pg_cancel_backend', '57014' ], [ 'pg_terminate_backend', '57P01' ])
{
	my ($function, $code) = @$how;
	control('POST', '/reset');
	control('POST', '/fault', qq({"key":"$function","to":"COMMITTING","do":"hold"}));
	my $run = start_psql($node, working($function));
	control('GET', "/wait?key=$function&to=COMMITTING&seconds=60");
	my $start = time();
	$sql->("SELECT $function(pid) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'");
	like(finish_psql($run), qr/$code/, "$function in the seal");
	is($sql->("SELECT outcome, run FROM idem_acquire('$function', wait => '30 s')"), 'acquired|2',
		'... and the key is free');
	control('POST', '/release');
	wait_until('... its late seal is refused', sub {
		my ($seal) = grep { $_->{to} eq 'COMMITTING' } @{ decode_json(control('GET', '/log')) };
		return $seal->{status} == 400;
	});
	is($state->($function), 'IN_PROGRESS', '... and the late seal changes nothing');
	is($works->($function), '0', '... and nothing was done');
}

# the client is gone while its commit waits
control('POST', '/reset');
control('POST', '/fault', '{"key":"gone","to":"COMMITTING","do":"hold"}');
my $run = start_psql($node, working('gone'));
control('GET', '/wait?key=gone&to=COMMITTING&seconds=60');
$run->{handle}->kill_kill;
control('POST', '/release');
wait_until('a commit whose client is gone ends', sub {
	$sql->("SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'") eq '0';
});
settled($node);
is($works->('gone') eq '1' ? 'COMPLETED' : 'FAILED', $state->('gone'), '... and both agree');

# no answer at all, no engine at all
control('POST', '/reset');
control('POST', '/engine/pause');
$run = start_psql($node, "SET exactonce.server = exactonce;\n" . working('black hole'));
control('GET', '/wait?key=black+hole&seconds=60');
control('POST', '/engine/resume');
like(finish_psql($run), qr/acquired/, 'a claim outlasts a pause');
agree('black hole', 1, '... and so does its commit');

control('POST', '/reset');
$run = start_psql($node, working('unplugged', '\! curl -s -X POST $EO_CONTROL/engine/stop'));
my $began = time();
like(finish_psql($run), qr/ERROR:  ID006: could not commit key "unplugged"/, 'without the engine a commit is ID006');
cmp_ok(time() - $began, '<', 30, '... in bounded time');
is($works->('unplugged'), '0', '... and rolled back');
control('POST', '/engine/start');
wait_until('the worker gives the key back by itself', sub { $state->('unplugged') eq 'FAILED' });

control('POST', '/reset');
control('POST', '/fault', '{"key":"lost seal","to":"COMMITTING","do":"lose","times":0}');
like(psql_ok($node, working('lost seal')), qr/ERROR:  ID006: .*outcome is unknown/,
	'an answer that never comes is no permission to commit');
control('POST', '/reset');
agree('lost seal', 0, '... and what was sealed is released');

# the claim was taken: nothing is committed
control('POST', '/reset');
$out = psql_ok($node, working('stolen', q{\! curl -s -o /dev/null "$EO_ENGINE" -H 'X-Amz-Target: DynamoDB_20120810.UpdateItem' -H 'Content-Type: application/x-amz-json-1.0' -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' -d '{"TableName":"tap_transactions","Key":{"pk":{"S":"IDEMPOTENCY#stolen"}},"UpdateExpression":"SET #o = :o","ExpressionAttributeNames":{"#o":"owner"},"ExpressionAttributeValues":{":o":{"S":"thief"}}}'}));
like($out, qr/ERROR:  ID002: the claim on key "stolen" .* was lost before the transaction committed/, 'a stolen claim is ID002');
is($works->('stolen') . $state->('stolen'), '0IN_PROGRESS', '... nothing is committed, and the thief keeps it');

# one of a hundred
control('POST', '/fault', '{"key":"IDEMPOTENCY#c57","to":"COMMITTING","do":"answer","status":400,"code":"AccessDeniedException"}');
$out = psql_ok($node, <<'SQL');
BEGIN;
SELECT count(*) FROM generate_series(1, 100) i, idem_acquire('c' || i) c WHERE c.outcome = 'acquired';
INSERT INTO work SELECT 'c' || i, i FROM generate_series(1, 100) i;
SELECT idem_complete_many(ARRAY(SELECT 'c' || i FROM generate_series(1, 100) i));
COMMIT;
SQL
like($out, qr/100\n.*ERROR:  ID007: could not commit key "c57"/s, 'one seal of a hundred is refused');
settled($node);
my %states;
my $records = records($table);
$states{ $records->{"c$_"}{status} }++ foreach 1 .. 100;
is(join(' ', %states), 'FAILED 100', '... and all are given back');
is($sql->("SELECT count(*) FROM work WHERE key LIKE 'c%'"), '0', '... with their work');

# a serialization failure after the seal
control('POST', '/reset');
$sql->("CREATE TABLE skew (id int PRIMARY KEY, v int); INSERT INTO skew VALUES (1, 1), (2, 1)");
my $first = start_psql($node, <<'SQL');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(v) FROM skew;
\! curl -s "$EO_CONTROL/wait?key=skew2&op=UpdateItem"
UPDATE skew SET v = 0 WHERE id = 1;
SELECT outcome FROM idem_acquire('skew1');
INSERT INTO work VALUES ('skew1', 1);
SELECT idem_complete('skew1');
\! curl -s "$EO_CONTROL/wait?key=skew2&to=COMMITTING"; sleep 0.3
COMMIT;
SQL
my $second = start_psql($node, <<'SQL');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(v) FROM skew;
SELECT outcome FROM idem_acquire('skew2');
UPDATE skew SET v = 0 WHERE id = 2;
INSERT INTO work VALUES ('skew2', 1);
SELECT idem_complete('skew2');
\! curl -s "$EO_CONTROL/wait?key=skew1&op=UpdateItem"
COMMIT;
SQL
$out = finish_psql($first) . finish_psql($second);
is(() = ($out =~ /40001/g), 1, 'of two that cannot be serialized one fails');
settled($node);
foreach my $key ('skew1', 'skew2')
{
	is($works->($key) eq '1' ? 'COMPLETED' : 'FAILED', $state->($key), "$key: key and work agree");
}

# a snapshot older than the completion
control('POST', '/reset');
my $connstr = $node->connstr('postgres');
$out = psql_ok($node, <<"SQL");
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM work;
\\! psql -XAtq -d "$connstr" -c "BEGIN" -c "SELECT idem_try_acquire('unseen')" -c "INSERT INTO work VALUES ('unseen', 1)" -c "SELECT idem_complete('unseen')" -c COMMIT
SELECT outcome FROM idem_acquire('unseen');
ROLLBACK;
SELECT outcome FROM idem_acquire('unseen');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome FROM idem_acquire('unseen');
SELECT count(*) FROM work WHERE key = 'unseen';
ROLLBACK;
SQL
like($out, qr/ERROR:  40001: could not serialize access: key "unseen"/, 'a result whose work cannot be seen is not given');
like($out, qr/completed\ncompleted\n1\n/, '... a later snapshot gets it');

# others who act when a transaction commits: postgres_fdw, in both orders
$sql->('CREATE EXTENSION postgres_fdw');
$sql->("CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '" . $node->host . "', port '" . $node->port . "', dbname 'postgres')");
$sql->("CREATE USER MAPPING FOR PUBLIC SERVER self");
$sql->('CREATE TABLE remote_work (key text)');
$sql->("CREATE FOREIGN TABLE remote (key text) SERVER self OPTIONS (table_name 'remote_work')");
my $n = 0;
foreach my $order ('key first', 'remote first')
{
	foreach my $fails (1, 0)
	{
		my $key = 'fdw' . ++$n;
		my @steps = ("SELECT outcome FROM idem_acquire('$key');\nSELECT idem_complete('$key');\n",
			"INSERT INTO remote VALUES ('$key');\n");
		control('POST', '/reset');
		control('POST', '/fault', qq({"key":"$key","to":"COMMITTING","do":"answer","status":400,"code":"AccessDeniedException"})) if $fails;
		$out = psql_ok($node, "BEGIN;\n" . join('', $order eq 'key first' ? @steps : reverse @steps) . 'COMMIT;');
		is($sql->("SELECT count(*) FROM remote_work WHERE key = '$key'"), $fails ? '0' : '1',
			"postgres_fdw, $order: remote work is " . ($fails ? 'not ' : '') . 'committed');
	}
}

# NOTIFY with a seal
$out = psql_ok($node, "LISTEN work;\n" . working('notified', "NOTIFY work, 'done';"));
unlike($out, qr/ERROR/, 'NOTIFY and a seal go together');
agree('notified', 1, '... and the key is completed');

# parallel query: refused where it would run elsewhere, harmless beside
$out = psql_ok($node, <<'SQL');
CREATE FUNCTION lies(k text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN (idem_acquire(k)).outcome; END';
SET force_parallel_mode = on;
SET debug_parallel_query = on;
SELECT lies('parallel');
SELECT outcome FROM idem_acquire('beside');
SQL
like($out, qr/ERROR:  25000: cannot (?:execute idem_acquire\(\) in a parallel worker|assign)/, 'not in a parallel worker');
like($out, qr/^acquired$/m, '... and with parallel query on, in the leader');

# without synchronous_commit: what others can see is not lost
control('POST', '/reset');
$out = psql_ok($node, "SET synchronous_commit = off;\n" . working('async'));
crash($node);
$node->start;
agree('async', 1, 'synchronous_commit = off, then killed: the work is there');

is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt at the end');
is($sql->("SELECT count(*) FROM exactonce_claims WHERE state NOT IN ('second look', 'held')"), '0', 'and no slot is left');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|server process .* was terminated by signal (?!9)/, 'no crash of its own');
done_testing();
