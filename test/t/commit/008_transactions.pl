# What PostgreSQL can do to a transaction whose keys are sealed, or about to be.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_transactions';
my $node = new_node('transactions', options => { commit_timeout => '3s', request_timeout => '2s' },
	conf => "max_prepared_transactions = 5\nmax_worker_processes = 20\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text, n int)');

sub count_work
{
	my ($key) = @_;
	return $sql->("SELECT count(*) FROM work WHERE key = '$key'");
}

# A transaction that works under a key, with statements before its commit.
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

# Work and key say the same, and for good.
sub is_done
{
	my ($key, $done, $what) = @_;
	settled($node);
	return is(count_work($key) . ' ' . status_of($table, $key), $done ? '1 COMPLETED' : '0 FAILED', $what);
}

# ... whichever of the two it is.
sub agree
{
	my ($key, $what) = @_;
	settled($node);
	return is(status_of($table, $key), count_work($key) eq '1' ? 'COMPLETED' : 'FAILED', $what);
}

sub refuse_seal
{
	my ($key) = @_;
	fault(op => 'UpdateItem', key => $key, to => 'COMMITTING', do => 'answer', status => 400,
		code => 'AccessDeniedException');
	return;
}

# ----- what ends the wait for a seal, and what does not -----------------------

my $moment = paced('100ms');
fault(key => 'patient', to => 'COMMITTING', do => 'delay', ms => paced(400));
my $out = run_script($node, working('patient', "SET LOCAL statement_timeout = '$moment';"));
unlike($out, qr/ERROR/, 'statement_timeout does not end a commit');
is_done('patient', 1, 'a commit that takes longer than statement_timeout completes its key');

foreach my $how ([ 'pg_cancel_backend', '57014' ], [ 'pg_terminate_backend', '57P01' ])
{
	my ($function, $code) = @$how;
	reset_proxy();
	fault(key => $function, to => 'COMMITTING', do => 'hold');
	my $run = start_script($node, working($function));
	await_request(key => $function, to => 'COMMITTING');
	$sql->("SELECT $function(pid) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'");
	like(finish_script($run), qr/$code/, "$function in the seal: the commit fails with $code");
	is($sql->("SELECT outcome, run FROM idem_acquire('$function', wait => '@{[ paced('30 s') ]}')"), 'acquired|2',
		"$function in the seal: the key is free");
	release_held();
	wait_until("$function in the seal: the late seal is refused", sub {
		my ($seal) = requests(to => 'COMMITTING');
		return $seal->{status} == 400;
	});
	is(status_of($table, $function), 'IN_PROGRESS', "$function in the seal: the late seal changes nothing");
	is(count_work($function), '0', "$function in the seal: nothing was done");
}

# the client is gone while its commit waits
reset_proxy();
fault(key => 'gone', to => 'COMMITTING', do => 'hold');
my $run = start_script($node, working('gone'));
await_request(key => 'gone', to => 'COMMITTING');
$run->{handle}->kill_kill;
release_held();
wait_until('a commit whose client is gone ends', sub {
	$sql->("SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'") eq '0';
});
agree('gone', 'a commit whose client is gone: work and key agree');

# ----- without an answer, without an engine -----------------------------------

reset_proxy();
control('POST', '/engine/pause');
$run = start_script($node, working('black hole'));
await_request(key => 'black hole');
control('POST', '/engine/resume');
like(finish_script($run), qr/acquired/, 'black hole: a claim outlasts a pause of the engine');
is_done('black hole', 1, 'black hole: its commit completes the key');

reset_proxy();
$run = start_script($node, working('unplugged', "SELECT idem_once('beside');\n\\! curl -s -X POST \$EO_CONTROL/engine/stop"));
my $began = time();
my $away = finish_script($run);
like($away, qr/ERROR:  ID006: could not commit key "(?:unplugged|beside)" on server "exactonce": [^\n]+\nDETAIL:  The transaction was rolled back\. It had 2 keys to commit within commit_timeout, \d+ ms\./,
	'without the engine a commit is ID006, which says that it was rolled back, and how much it was');
like($away, qr/HINT:  It can be run again as it is;/, 'and that it can be run again');
unlike($away, qr/unknown|token|endpoint/, 'and nothing that lets one think it was perhaps done');
cmp_ok(time() - $began, '<', paced(30), 'without the engine a commit fails in bounded time');
is(count_work('unplugged'), '0', 'without the engine a commit is rolled back');
control('POST', '/engine/start');
wait_until('once the engine is back, the worker gives the key back by itself',
	sub { status_of($table, 'unplugged') eq 'FAILED' });

reset_proxy();
fault(key => 'lost seal', to => 'COMMITTING', do => 'lose', times => 0);
like(run_script($node, working('lost seal')), qr/ERROR:  ID006: .*no answer/,
	'an answer that never comes is no permission to commit');
reset_proxy();
is_done('lost seal', 0, 'a seal that was applied, but never answered, is released');

# ----- seals that are refused -------------------------------------------------

reset_proxy();
$run = start_script($node, working('stolen', halt_until('stolen')));
await_request(key => 'stolen');
wait_until('a transaction has its claim', sub { status_of($table, 'stolen') eq 'IN_PROGRESS' });
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#stolen' } },
	UpdateExpression => 'SET #o = :o', ExpressionAttributeNames => { '#o' => 'owner' },
	ExpressionAttributeValues => { ':o' => { S => 'thief' } } });
go_on('stolen');
like(finish_script($run), qr/ERROR:  ID002: the claim on key "stolen" .* was lost before the transaction committed/,
	'the commit of a claim that was taken over is ID002');
is(count_work('stolen') . status_of($table, 'stolen'), '0IN_PROGRESS',
	'a claim that was taken over: nothing is committed, and the new owner keeps it');

fault(op => 'BatchExecuteStatement', to => 'COMMITTING', key => 'c57', do => 'statement', of => 'c57', code => 'ValidationError');
refuse_seal('IDEMPOTENCY#c57');
$out = run_script($node, <<'SQL');
BEGIN;
SELECT count(*) FROM generate_series(1, 100) i, idem_acquire('c' || i) c WHERE c.outcome = 'acquired';
INSERT INTO work SELECT 'c' || i, i FROM generate_series(1, 100) i;
SELECT idem_complete_many(ARRAY(SELECT 'c' || i FROM generate_series(1, 100) i));
COMMIT;
SQL
like($out, qr/100\n.*ERROR:  ID007: could not commit key "c57"/s, 'one refused seal of a hundred fails the commit');
settled($node);
my %states;
my $records = records($table);
$states{ $records->{"c$_"}{status} }++ foreach 1 .. 100;
is(join(' ', %states), 'FAILED 100', 'one refused seal of a hundred: all keys are given back');
is($sql->("SELECT count(*) FROM work WHERE key LIKE 'c%'"), '0', 'one refused seal of a hundred: no work is there');

# ----- isolation levels -------------------------------------------------------

# The second commits once the first has done everything but commit.
reset_proxy();
$sql->("CREATE TABLE skew (id int PRIMARY KEY, v int); INSERT INTO skew VALUES (1, 1), (2, 1)");
my @skew = map {
	my ($n, $before_commit) = @$_;
	<<"SQL" . $before_commit . "COMMIT;\n";
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(v) FROM skew;
SELECT outcome FROM idem_acquire('skew$n');
UPDATE skew SET v = 0 WHERE id = $n;
INSERT INTO work VALUES ('skew$n', 1);
SELECT idem_complete('skew$n');
SQL
} [ 1, say_in_script('the first is ready') . halt_until('the second has committed') ],
  [ 2, say_in_script('the second is ready') . halt_until('commit') ];
my @runs = map { start_script($node, $_) } @skew;
await_word("the $_ is ready") foreach 'first', 'second';
go_on('commit');
$out = finish_script($runs[1]);
go_on('the second has committed');
$out .= finish_script($runs[0]);
is(() = ($out =~ /40001/g), 1, 'of two transactions that cannot be serialized one fails');
my %sealed = map { $_->{key} => 1 } requests(key => 'skew', to => 'COMMITTING', status => 200);
is(keys %sealed, 2,
	'of two transactions that cannot be serialized both were sealed');
agree($_, "of two transactions that cannot be serialized: key and work of $_ agree") foreach 'skew1', 'skew2';

# a snapshot that is older than the completion
reset_proxy();
my $end = <<'SQL';
SELECT outcome FROM idem_acquire('unseen');
ROLLBACK;
SELECT outcome FROM idem_acquire('unseen');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome FROM idem_acquire('unseen');
SELECT count(*) FROM work WHERE key = 'unseen';
ROLLBACK;
SQL
$run = start_script($node, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM work;\n"
	  . say_in_script('the snapshot is taken') . halt_until('the key is completed') . $end);
await_word('the snapshot is taken');
$sql->("BEGIN; SELECT idem_start('unseen'); INSERT INTO work VALUES ('unseen', 1); "
	  . "SELECT idem_complete('unseen'); COMMIT");
go_on('the key is completed');
$out = finish_script($run);
like($out, qr/ERROR:  40001: could not serialize access: key "unseen"/,
	'a result whose work cannot be seen is not given');
like($out, qr/completed\ncompleted\n1\n/, 'a result whose work cannot be seen is given to a later snapshot');

# ----- others that act when a transaction commits -----------------------------

my ($host, $port) = ($node->host, $node->port);
$sql->(<<"SQL");
CREATE EXTENSION postgres_fdw;
CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER self;
CREATE TABLE remote_work (key text);
CREATE FOREIGN TABLE remote (key text) SERVER self OPTIONS (table_name 'remote_work');
SQL
my $n = 0;
foreach my $order ('key first', 'remote first')
{
	foreach my $refused (1, 0)
	{
		my $key = 'fdw' . ++$n;
		my @steps = ("SELECT outcome FROM idem_acquire('$key');\nSELECT idem_complete('$key');\n",
			"INSERT INTO remote VALUES ('$key');\n");
		reset_proxy();
		refuse_seal($key) if $refused;
		run_script($node, join '', "BEGIN;\n", ($order eq 'key first' ? @steps : reverse @steps), 'COMMIT;');
		my $how = $refused ? 'not committed without its seal' : 'committed with its seal';
		is($sql->("SELECT count(*) FROM remote_work WHERE key = '$key'"), $refused ? '0' : '1',
			"postgres_fdw, $order: remote work is $how");
	}
}

$out = run_script($node, "LISTEN work;\n" . working('notified', "NOTIFY work, 'done';"));
unlike($out, qr/ERROR/, 'NOTIFY and a seal go together');
is_done('notified', 1, 'the key of a transaction with NOTIFY is completed');

$out = run_script($node, <<'SQL');
CREATE FUNCTION lies(k text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS
	'BEGIN RETURN (idem_acquire(k)).outcome; END';
SET force_parallel_mode = on;
SET debug_parallel_query = on;
SELECT lies('parallel');
SELECT outcome FROM idem_acquire('beside');
SQL
like($out, qr/ERROR:  25000: cannot (?:execute idem_acquire\(\) in a parallel worker|assign)/,
	'a call in a parallel worker is refused');
like($out, qr/^acquired$/m, 'with parallel query on, a call in the leader works');

# What others can see is not lost.  The worker would flush the commit, too, when it
# removes the row.
reset_proxy();
$node->append_conf('postgresql.conf', 'wal_writer_delay = 10s');
$node->reload;
fault(to => 'COMPLETED', do => 'drop', times => 0);
run_script($node, "SET synchronous_commit = off;\n" . working('async'));
crash($node);
reset_proxy();
$node->start;
is_done('async', 1, 'synchronous_commit = off, then killed: the work is there');

is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt at the end');
is($sql->("SELECT count(*) FROM exactonce_claims WHERE state NOT IN ('second look', 'held')"), '0',
	'no slot is left at the end');
stop_without_crash($node, kills => 1);
done_testing();
