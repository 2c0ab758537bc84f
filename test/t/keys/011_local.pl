# Sessions of one server: what it knows costs no request, and to wait for a key is
# to wait for a lock of PostgreSQL.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;

my $node = new_node('local', conf => "deadlock_timeout = 100ms\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE rows (id int PRIMARY KEY, n int); INSERT INTO rows VALUES (1, 0)');

# Starts a transaction that holds a key, and goes on when it is told the key.
sub start_holder
{
	my ($key, $end) = @_;
	my $claim = "SELECT 'holder ' || outcome FROM idem_acquire('$key', payload => '\"a\"');\n";
	my $run = start_script($node, "BEGIN;\n" . $claim . halt_until($key) . $end);
	wait_until("$key: a transaction holds the key",
		sub { $sql->("SELECT state FROM exactonce_claims WHERE key = '$key'") eq 'held' });
	return $run;
}

sub await_waiter
{
	my ($what) = @_;
	wait_until($what,
		sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted") eq '1' });
	return;
}

# ----- duplicates and waits ---------------------------------------------------

my $run = start_holder('known', "SELECT idem_complete('known', '\"done\"'); COMMIT;");
reset_proxy();
is($sql->("SELECT outcome, mine, run, lease_until > now() FROM idem_acquire('known')"), 'in_progress|f|1|t',
	'a key held by another session is in progress');
like(run_script($node, "SELECT idem_acquire('known', payload => '\"b\"');"), qr/ID003/,
	'a key held by another session with another payload is an error');
is(count_requests(), 0, 'a key held by another session is answered without a request');
my $waiter = start_script($node,
	"SELECT 'waiter ' || outcome || ' ' || result FROM idem_acquire('known', wait => '60 s');");
await_waiter('a wait for a key held by another session is a lock');
is(count_requests(), 0, 'a wait for a key held by another session makes no request');
go_on('known');
like(finish_script($waiter), qr/waiter completed "done"/, 'a session that waited gets the result of the commit');
finish_script($run);

$run = start_holder('undone', 'ROLLBACK;');
$waiter = start_script($node, "SELECT 'waiter ' || outcome || ' ' || run FROM idem_acquire('undone', wait => '60 s');");
await_waiter('another session waits for a key that will be rolled back');
go_on('undone');
like(finish_script($waiter), qr/waiter acquired 2/, 'a session that waited has the key after a rollback');
finish_script($run);

# what ends a wait
my $moment = paced('200ms');
$run = start_holder('busy', 'ROLLBACK;');
is($sql->("BEGIN; SELECT outcome FROM idem_acquire('busy', wait => '200 ms'); SELECT 'and on'; ROLLBACK"),
	"in_progress\nand on", 'a wait that is too long ends, and the transaction goes on');
like(run_script($node, "SET lock_timeout = '$moment'; SELECT idem_acquire('busy', wait => '60 s');"), qr/55P03/,
	'lock_timeout ends a wait');
like(run_script($node, "SET statement_timeout = '$moment'; SELECT idem_acquire('busy', wait => '60 s');"), qr/57014/,
	'statement_timeout ends a wait');
$waiter = start_script($node, "SELECT idem_acquire('busy', wait => '60 s');");
await_waiter('a session waits that will be cancelled');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'virtualxid' AND NOT granted");
like(finish_script($waiter), qr/57014/, 'a cancel ends a wait');
my $left = run_script($node, <<"SQL");
SET statement_timeout = '$moment';
SELECT idem_acquire('busy', wait => '60 s');
RESET statement_timeout;
SELECT 'session goes on';
DO \$\$
BEGIN
	BEGIN
		INSERT INTO rows VALUES (2, 0);
		SET LOCAL lock_timeout = '$moment';
		PERFORM idem_acquire('busy', wait => '60 s');
	EXCEPTION WHEN lock_not_available THEN
		RAISE NOTICE 'caught';
	END;
	INSERT INTO rows VALUES (3, 0);
END \$\$;
SELECT string_agg(id::text, ' ' ORDER BY id) FROM rows;
DELETE FROM rows WHERE id = 3;
SQL
like($left, qr/session goes on\n1 3\n/, 'a wait that fails leaves session and transaction as any error does');
like($left, qr/57014.*caught/s, 'a wait that fails is an error that a handler catches');
go_on('busy');
finish_script($run);

# ----- circles: PostgreSQL lets either of the two go on ------------------------

$run = start_holder('circle', "UPDATE rows SET n = n + 1 WHERE id = 1; SELECT idem_complete('circle'); COMMIT;");
$waiter = start_script($node, <<'SQL');
BEGIN;
UPDATE rows SET n = n + 1 WHERE id = 1;
SELECT 'waiter ' || outcome FROM idem_acquire('circle', wait => '60 s');
SELECT idem_complete('circle');
COMMIT;
SQL
await_waiter('a transaction with a row waits for the key of another, which will want the row');
go_on('circle');
my $both = finish_script($run) . finish_script($waiter);
like($both, qr/ERROR:  40P01: deadlock detected/, 'a deadlock of a row and a key is detected');
is($sql->('SELECT n FROM rows'), '1', 'of two transactions in a deadlock one gets through');

# Each asks for the other's key without a wait, once both have their own.
my @pair = map {
	my ($own, $other) = @$_;
	start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('$own');\n"
		  . say_in_script("$own is held") . halt_until("go on with $own")
		  . "SELECT outcome FROM idem_acquire('$other');\n" . say_in_script("$other was asked for")
		  . halt_until("end of $own") . "ROLLBACK;\n")
} [ 'left', 'right' ], [ 'right', 'left' ];
await_word("$_ is held") foreach 'left', 'right';
go_on("go on with $_") foreach 'left', 'right';
await_word("$_ was asked for") foreach 'left', 'right';
go_on("end of $_") foreach 'left', 'right';
is(finish_script($_), "acquired\nin_progress\n", 'keys in opposite order: nobody hangs') foreach @pair;

settled($node);
is($sql->('SELECT count(*) FROM exactonce_claims'), '0', 'no slot is left when all transactions have ended');

# ----- limits -----------------------------------------------------------------

$node->append_conf('postgresql.conf', 'exactonce.max_claims = 100');
$node->restart;
my $out = run_script($node, <<'SQL');
BEGIN;
SELECT count(idem_acquire('limit' || i)) FROM generate_series(1, 101) i;
COMMIT;
SELECT 'and ' || outcome FROM idem_acquire('limit101');
SQL
like($out, qr/ERROR:  54000: no room for a claim on key "limit26".*Role "postgres".*HINT:.*exactonce\.max_claims/s,
	'a share of the claim table that is used up is an error with a hint');
like($out, qr/and acquired/, 'a share of the claim table that was used up is free after the rollback');
$out = run_script($node, <<'SQL');
SELECT idem_acquire('x') FROM generate_series(1, 3);
BEGIN;
SELECT idem_acquire('long error');
SELECT idem_fail('long error', to_jsonb(repeat('x', 300000)));
ROLLBACK;
SQL
unlike($out, qr/ERROR/, 'a long error waits in shared memory for the end of its transaction');
is($sql->("SELECT outcome, length(error #>> '{}') FROM idem_acquire('long error', max_runs => 1)"), 'failed|300000',
	'a long error is written after the end of its transaction');

stop_without_crash($node);
done_testing();
