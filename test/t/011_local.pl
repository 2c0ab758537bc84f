# Sessions of one server: no request for what it knows, and PostgreSQL's own
# waiting.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use Test::More;

my $node = new_node('local', conf => "deadlock_timeout = 100ms\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE rows (id int PRIMARY KEY, n int); INSERT INTO rows VALUES (1, 0)');

# a holder that goes on when told
sub holder
{
	my ($key, $end) = @_;
	my $run = start_psql($node, <<"SQL");
BEGIN;
SELECT 'holder ' || outcome FROM idem_acquire('$key', payload => '"a"');
\\! curl -s "\$EO_CONTROL/wait?key=$key+go&seconds=60"
$end
SQL
	wait_until("$key is held", sub { $sql->("SELECT state FROM exactonce_claims WHERE key = '$key'") eq 'held' });
	return $run;
}

# any request that names the key
sub go
{
	my ($key) = @_;
	$sql->("SELECT idem_get('$key go')");
	return;
}

sub waiting
{
	my ($what) = @_;
	wait_until($what, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted") eq '1' });
	return;
}

# what is held here costs no request
my $run = holder('known', "SELECT idem_complete('known', '\"done\"'); COMMIT;");
control('POST', '/reset');
is($sql->("SELECT outcome, mine, run, lease_until > now() FROM idem_acquire('known')"), 'in_progress|f|1|t', 'a key held by another session is in progress');
like(psql_ok($node, "SELECT idem_acquire('known', payload => '\"b\"');"), qr/ID003/, '... another payload is an error');
is(control('GET', '/count'), "0\n", '... without a request');
my $waiter = start_psql($node, "SELECT 'waiter ' || outcome || ' ' || result FROM idem_acquire('known', wait => '60 s');");
waiting('a wait for it is a lock');
is(control('GET', '/count'), "0\n", '... and no request either');
go('known');
like(finish_psql($waiter), qr/waiter completed "done"/, 'who waited gets the result');
finish_psql($run);

# the holder rolls back: who waited has the key
$run = holder('undone', 'ROLLBACK;');
$waiter = start_psql($node, "SELECT 'waiter ' || outcome || ' ' || run FROM idem_acquire('undone', wait => '60 s');");
waiting('a second wait');
go('undone');
like(finish_psql($waiter), qr/waiter acquired 2/, 'after a rollback who waited has the key');
finish_psql($run);

# a wait is over when its time is up, and obeys lock_timeout and cancel
$run = holder('busy', 'ROLLBACK;');
is($sql->("BEGIN; SELECT outcome FROM idem_acquire('busy', wait => '200 ms'); SELECT 'and on'; ROLLBACK"), "in_progress\nand on",
	'a wait that is too long ends, and the transaction goes on');
like(psql_ok($node, "SET lock_timeout = '100ms'; SELECT idem_acquire('busy', wait => '60 s');"), qr/55P03/, 'lock_timeout ends a wait');
like(psql_ok($node, "SET statement_timeout = '200ms'; SELECT idem_acquire('busy', wait => '60 s');"), qr/57014/, 'statement_timeout does');
$waiter = start_psql($node, "SELECT idem_acquire('busy', wait => '60 s');");
waiting('a third wait');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted");
like(finish_psql($waiter), qr/57014/, 'and so does a cancel');
# its errors leave the session and the transaction as any error does
my $left = psql_ok($node, <<'SQL');
SET statement_timeout = '100ms';
SELECT idem_acquire('busy', wait => '60 s');
RESET statement_timeout;
SELECT 'session goes on';
DO $$
BEGIN
	BEGIN
		INSERT INTO rows VALUES (2, 0);
		SET LOCAL lock_timeout = '100ms';
		PERFORM idem_acquire('busy', wait => '60 s');
	EXCEPTION WHEN lock_not_available THEN
		RAISE NOTICE 'caught';
	END;
	INSERT INTO rows VALUES (3, 0);
END $$;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM rows;
DELETE FROM rows WHERE id = 3;
SQL
like($left, qr/session goes on\n1 3\n/, 'a wait that fails leaves nothing behind it open');
like($left, qr/57014.*caught/s, '... neither for a timeout nor within a handler');
go('busy');
finish_psql($run);

# a row against a key: PostgreSQL finds the circle
$run = holder('circle', "UPDATE rows SET n = n + 1 WHERE id = 1; SELECT idem_complete('circle'); COMMIT;");
$waiter = start_psql($node, <<'SQL');
BEGIN;
UPDATE rows SET n = n + 1 WHERE id = 1;
SELECT 'waiter ' || outcome FROM idem_acquire('circle', wait => '60 s');
SELECT idem_complete('circle');
COMMIT;
SQL
waiting('one waits for the key');
go('circle');
my $both = finish_psql($run) . finish_psql($waiter);
like($both, qr/ERROR:  40P01: deadlock detected/, 'a deadlock of a row and a key is detected');
is($sql->('SELECT n FROM rows'), '1', '... and one of the two got through');

# two keys in opposite order, without waiting: nobody hangs
my @pair = map {
	my ($first, $second) = @$_;
	start_psql($node, "BEGIN; SELECT outcome FROM idem_acquire('$first'); SELECT pg_sleep(0.1); SELECT outcome FROM idem_acquire('$second'); ROLLBACK;")
} [ 'left', 'right' ], [ 'right', 'left' ];
my $answers = join '', map { finish_psql($_) } @pair;
unlike($answers, qr/ERROR/, 'keys in opposite order: nobody hangs');

# claims that the session still holds, in another transaction's way
settled($node);
is($sql->('SELECT count(*) FROM exactonce_claims'), '0', 'no slot is left');

# limits: clear errors, and nothing half done
$node->append_conf('postgresql.conf', 'exactonce.max_claims = 100');
$node->restart;
my $out = psql_ok($node, "BEGIN; SELECT count(idem_acquire('limit' || i)) FROM generate_series(1, 101) i; COMMIT; SELECT 'and ' || outcome FROM idem_acquire('limit101');");
like($out, qr/ERROR:  54000: no room for a claim on key "limit26".*Role "postgres".*HINT:.*exactonce\.max_claims/s, 'a share of the claim table that is used up is an error with a hint');
like($out, qr/and acquired/, '... and is free again after the rollback');
$out = psql_ok($node, q{SELECT idem_acquire('x') FROM generate_series(1, 3); BEGIN; SELECT idem_acquire('long error'); SELECT idem_fail('long error', to_jsonb(repeat('x', 300000))); ROLLBACK;});
unlike($out, qr/ERROR/, 'a long error waits in shared memory for the end');
is($sql->("SELECT outcome, length(error #>> '{}') FROM idem_acquire('long error', max_runs => 1)"), 'failed|300000', '... and is written');

$node->stop;
done_testing();
