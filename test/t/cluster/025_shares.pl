# Nobody takes all the room of the claim table: not a role from the other roles, and
# not a database from the others.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;

my $table = 'tap_shares';
my $node = new_node('shares', conf => "exactonce.max_claims = 100\n");
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };
$sql->(<<'SQL');
CREATE ROLE greedy;
CREATE ROLE modest;
GRANT USAGE ON FOREIGN SERVER exactonce TO greedy, modest;
CREATE DATABASE other;
SQL
$sql->('CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table), 'other');

# ----- one role ---------------------------------------------------------------

# Claims keys until it is refused, in a block that gives all back; then as many as it
# may, which it holds, and one more.
my $holder = start_script($node, <<'SQL' . halt_until('commit') . "COMMIT;\n");
SET ROLE greedy;
BEGIN;
DO $$
BEGIN
	PERFORM idem_once('once ' || n) FROM generate_series(1, 100) n;
	RAISE WARNING 'took all';
EXCEPTION WHEN program_limit_exceeded THEN
	RAISE WARNING 'the exception block gave all back';
END $$;
ROLLBACK;
BEGIN;
DO $$ BEGIN PERFORM idem_once('once ' || n) FROM generate_series(1, 25) n; END $$;
SAVEPOINT s;
DO $$ BEGIN PERFORM idem_once('once 99'); END $$;
ROLLBACK TO s;
SQL
wait_until('a role claims as many keys as it may',
	sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE key LIKE 'once %'") eq '25' });

sub claims_of_ten
{
	my ($prefix) = @_;
	return "SELECT count(*) FILTER (WHERE outcome = 'acquired') FROM generate_series(1, 10) i, "
	  . "idem_acquire('$prefix ' || i, on_commit => 'keep')";
}
is($sql->('SET ROLE modest; ' . claims_of_ten('modest')), '10', 'while a role has its share, another finds room');
is($sql->(claims_of_ten('other'), 'other'), '10', 'while a role has its share, another database finds room');
go_on('commit');
my $said = finish_script($holder);
my $detail = 'DETAIL:  Role "greedy" has as much of the claim table as one role may have: '
  . 'half of what the others leave to this database.';
like($said, qr/WARNING:  01000: the exception block gave all back/, 'a role is refused more than its share');
like($said,
	qr/ERROR:  54000: no room for a claim on key "once 99" on server "exactonce"\n\Q$detail\E The claims there: 25 of open transactions, .*\nHINT:  .*max_claims/,
	'the error says whose share is used up');
unlike($said, qr/took all/, 'a role does not get all');
settled($node);
$said = run_script($node, <<'SQL');
SET ROLE greedy;
BEGIN;
SELECT count(idem_once('again ' || i)) FROM generate_series(1, 25) i;
COMMIT;
SQL
unlike($said, qr/ERROR/, 'a share is free for its role again once its claims are settled');
settled($node);

# ----- several roles of one database ------------------------------------------

my @roles = map { "role$_" } 1 .. 6;
$sql->(join ' ', map { "CREATE ROLE $_; GRANT USAGE ON FOREIGN SERVER exactonce TO $_;" } @roles);
my $claims = join '', map {
	my $role = $_;
	"SET ROLE $role;\n", map { "SELECT idem_once('$role $_');\n" } 1 .. 26;
} @roles;
my $all = start_script($node, "\\set ON_ERROR_ROLLBACK on\nBEGIN;\n$claims"
	  . say_in_script('all have claimed') . halt_until('end') . "ROLLBACK;\n");
await_word('all have claimed');
like($sql->(<<'SQL'), qr/^25 12 6 3 /, 'several roles of one database find room, less and less');
SELECT string_agg(n::text, ' ' ORDER BY role)
FROM (SELECT split_part(key, ' ', 1) AS role, count(*) AS n FROM exactonce_claims WHERE key LIKE 'role%' GROUP BY 1) c
SQL
cmp_ok($sql->('SELECT count(*) FROM exactonce_claims'), '<=', 50, 'several roles of one database have half at most');
is($sql->("BEGIN; SELECT count(idem_once('half ' || i)) FROM generate_series(1, 12) i; ROLLBACK", 'other'), '12',
	'several roles of one database: a role of another database finds half of the other half');
go_on('end');
like(finish_script($all), qr/ERROR:  54000: no room .*\nDETAIL:  Role "role6"/,
	'several roles of one database: the last one is told whose share is used up');

stop_without_crash($node);
done_testing();
