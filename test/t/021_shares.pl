# Nobody takes all the room of the claim table: not a role from the other roles, and
# not a database from the others.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('shares', table => 'tap_shares', conf => "exactonce.max_claims = 100\n");

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(<<'SQL');
CREATE ROLE greedy;
CREATE ROLE modest;
GRANT USAGE ON FOREIGN SERVER exactonce TO greedy, modest;
CREATE TABLE go (name text);
GRANT SELECT ON go TO PUBLIC;
CREATE DATABASE other;
SQL
$node->safe_psql('other', <<"SQL");
CREATE EXTENSION exactonce;
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'tap_shares', endpoint '$ENV{EO_ENDPOINT}');
CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
SQL

# Makes claims until it is refused, and keeps them until it is told to go.
sub fill
{
	my ($role, $call) = @_;
	return start_psql($node, <<"SQL");
SET ROLE $role;
BEGIN;
DO \$\$
DECLARE said text; hint text; detail text; n integer := 0;
BEGIN
	LOOP
		PERFORM $call;
		n := n + 1;
		EXIT WHEN n = 100;
	END LOOP;
	RAISE WARNING 'took all';
EXCEPTION WHEN program_limit_exceeded THEN
	RAISE WARNING 'the exception block gave all back';
END \$\$;
ROLLBACK;
BEGIN;
DO \$\$ BEGIN FOR n IN 1..25 LOOP PERFORM $call; END LOOP; END \$\$;
SAVEPOINT s;
DO \$\$ DECLARE n integer := 99; BEGIN PERFORM $call; END \$\$;
ROLLBACK TO s;
DO \$\$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM go WHERE name = '$role'); PERFORM pg_sleep(0.02); END LOOP; END \$\$;
COMMIT;
SQL
}

my $detail = qr/DETAIL:  Role "greedy" has as much of the claim table as one role may have: half of what the others leave to this database\.\nHINT:  .*exactonce\.max_claims/;
my $holder = fill('greedy', q{idem_once('once ' || n)});
wait_until('a role claims as many keys as it may', sub { sql(q{SELECT count(*) FROM exactonce_claims WHERE key LIKE 'once %'}) eq '25' });

is(sql(q{SET ROLE modest; SELECT count(*) FILTER (WHERE outcome = 'acquired') FROM generate_series(1, 10) i, idem_acquire('modest ' || i, on_commit => 'keep')}),
	'10', 'another role finds room');
is($node->safe_psql('other', q{SELECT count(*) FILTER (WHERE outcome = 'acquired') FROM generate_series(1, 10) i, idem_acquire('other ' || i, on_commit => 'keep')}),
	'10', '... and so does another database');
sql(q{INSERT INTO go VALUES ('greedy')});
my $said = finish_psql($holder);
like($said, qr/WARNING:  01000: the exception block gave all back/, 'no more than that');
like($said, qr/ERROR:  54000: no room for a claim on key "once 99" on server "exactonce"\n$detail/, '... and the error says whose share is used up');
unlike($said, qr/took all/, '... it did not get all');
settled($node);
my $again = psql_ok($node, q{SET ROLE greedy; BEGIN; SELECT count(idem_once('again ' || i)) FROM generate_series(1, 25) i; COMMIT;});
unlike($again, qr/ERROR/, 'what is settled is free for the role again');
settled($node);

# -- several roles of one database leave room for another database

my @roles = map { "role$_" } 1 .. 6;
sql(join ' ', map { "CREATE ROLE $_; GRANT USAGE ON FOREIGN SERVER exactonce TO $_;" } @roles);
my $claims = join "\n", map { my $role = $_; "SET ROLE $role;\n" . join("\n", map { "SELECT idem_once('$role $_');" } 1 .. 26) } @roles;
my $all = start_psql($node, <<"SQL");
\\set ON_ERROR_ROLLBACK on
BEGIN;
$claims
RESET ROLE;
DO \$\$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM go WHERE name = 'all'); PERFORM pg_sleep(0.02); END LOOP; END \$\$;
ROLLBACK;
SQL
wait_until('each role finds room, less and less', sub {
	sql(q{SELECT string_agg(n::text, ' ' ORDER BY role) FROM
		(SELECT split_part(key, ' ', 1) AS role, count(*) AS n FROM exactonce_claims WHERE key LIKE 'role%' GROUP BY 1) c}) =~ /^25 12 6 3 /
	  && sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%name = ''all''%' AND pid <> pg_backend_pid()") eq '1' });
cmp_ok(sql(q{SELECT count(*) FROM exactonce_claims}), '<=', 50, '... and all of the database have half at most');
is($node->safe_psql('other', q{BEGIN; SELECT count(idem_once('half ' || i)) FROM generate_series(1, 12) i; ROLLBACK}), '12',
	'a role of another database finds half of the other half');
sql(q{INSERT INTO go VALUES ('all')});
like(finish_psql($all), qr/ERROR:  54000: no room .*\nDETAIL:  Role "role6"/, 'the last role is told so');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'no crash');
done_testing();
