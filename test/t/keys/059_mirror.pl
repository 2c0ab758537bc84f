# idem_mirror(): rows are copied to DynamoDB if and only if their transaction commits, once
# and in order.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $target = 'tap_mirror_orders';
my $node = new_node('mirror',
	conf => "exactonce.test_hurry = @{[ hurry(20) ]}\n",
	options => { transact_tables => $target, request_timeout => '30s' });
dynamodb(CreateTable => { TableName => $target, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'N' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE orders (id bigint PRIMARY KEY, total numeric, note text, paid boolean, doc jsonb, at timestamptz, raw bytea,
	ratio float8, hidden text);
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW
	EXECUTE FUNCTION idem_mirror('$target', 'id', 'total, note, paid, doc, at, raw, ratio');
SQL

# All items, by their ids.
sub items
{
	my (%items, $start);
	do
	{
		my $page = dynamodb(Scan => { TableName => $target, ConsistentRead => JSON::PP::true,
			$start ? (ExclusiveStartKey => $start) : () });
		$items{ $_->{id}{N} } = $_ foreach @{ $page->{Items} };
		$start = $page->{LastEvaluatedKey};
	} while ($start);
	return \%items;
}

# ----- values -----------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
SET timezone = 'Asia/Tokyo';
INSERT INTO orders VALUES (1, 12.50, 'first', true, '{"S": "x", "list": [1, null, {"N": "1"}]}', '2026-01-01 00:00+00',
	'\x00ff', 0.1, 'not copied');
INSERT INTO orders (id) VALUES (2);
SQL
settled($node);
is_deeply(items(), {
	1 => { id => { N => '1' }, total => { N => '12.5' }, note => { S => 'first' }, paid => { BOOL => JSON::PP::true },
		doc => { M => { S => { S => 'x' }, list => { L => [ { N => '1' }, { NULL => JSON::PP::true },
			{ M => { N => { S => '1' } } } ] } } },
		at => { S => '2026-01-01T00:00:00+00:00' }, raw => { B => 'AP8=' }, ratio => { N => '0.1' } },
	2 => { id => { N => '2' } } }, 'rows are items, and columns attributes of their types');

# ----- transactions -----------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
BEGIN; UPDATE orders SET note = 'never' WHERE id = 1; ROLLBACK;
BEGIN;
UPDATE orders SET note = 'second', hidden = 'x' WHERE id = 1;
SAVEPOINT s;
UPDATE orders SET note = 'third' WHERE id = 1;
DELETE FROM orders WHERE id = 2;
INSERT INTO orders (id) VALUES (3);
ROLLBACK TO s;
INSERT INTO orders (id) VALUES (4);
UPDATE orders SET id = 5 WHERE id = 4;
COMMIT;
UPDATE orders SET hidden = 'y';
SQL
settled($node);
my $items = items();
is(join(' ', sort keys %$items), '1 2 5', 'what is rolled back is not written, and a row that gets another key leaves its item');
is($items->{1}{note}{S}, 'second', 'of several changes of a row the last one counts that was not rolled back');
my @keys = grep { /^IDEMPOTENCY#mirror/ || /^mirror/ } keys %{ records('tap_mirror') };
is(scalar(@keys), 3, 'a transaction has one record, and none if no column that is copied has changed');
is(record('tap_mirror', $keys[0] =~ s/^IDEMPOTENCY#//r)->{retention_s}, 3600, 'it is kept for an hour');
like($keys[0], qr{mirror/[0-9a-f-]{36}/\d+/1/[0-9a-f-]{36}$}, 'its key names life and transaction');

$node->safe_psql('postgres', 'DELETE FROM orders; INSERT INTO orders SELECT g, g FROM generate_series(1, 1500) g');
settled($node);
is(scalar(keys %{ items() }), 1500, 'a transaction may change many rows');
is((grep { /mirror/ } keys %{ records('tap_mirror') }), 3 + 1 + 16, 'which share records, 99 to each');

# ----- order ------------------------------------------------------------------

my @runs = map {
	my $session = $_;
	start_script($node, join '', map { "UPDATE orders SET total = total + 1, note = '$session/$_' WHERE id = 1;\n" } 1 .. 20)
} 1 .. 4;
is(finish_script($_), '', 'sessions change one row') foreach @runs;
settled($node);
is(items()->{1}{total}{N} . ' ' . items()->{1}{note}{S}, $node->safe_psql('postgres', "SELECT total || ' ' || note FROM orders WHERE id = 1"),
	'the item ends as the row does');

# ----- the last version of a row ----------------------------------------------

# Triggers that sort before the mirror change a row again, delete it, or make room for it; a
# column that is not copied changes; rows change places; a row moves between partitions.
my $versions = 'tap_mirror_versions';
dynamodb(CreateTable => { TableName => $versions, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'N' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
$node->safe_psql('postgres', <<"SQL");
ALTER SERVER exactonce OPTIONS (SET transact_tables '$target, $versions');
CREATE TABLE v (id numeric PRIMARY KEY DEFERRABLE, note text, hidden int) PARTITION BY RANGE (id);
CREATE TABLE v1 PARTITION OF v FOR VALUES FROM (0) TO (1000);
CREATE TABLE v2 PARTITION OF v FOR VALUES FROM (1000) TO (2000);
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON v FOR EACH ROW EXECUTE FUNCTION idem_mirror('$versions', 'id', 'note');
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	CASE NEW.note
		WHEN 'raw' THEN UPDATE v SET note = 'enriched' WHERE id = NEW.id;
		WHEN 'hide' THEN UPDATE v SET hidden = 1 WHERE id = NEW.id;
		WHEN 'hide, drop' THEN UPDATE v SET hidden = 1 WHERE id = NEW.id; DELETE FROM v WHERE id = NEW.id;
		WHEN 'try' THEN
			BEGIN
				UPDATE v SET note = 'tried' WHERE id = NEW.id;
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
			END;
		ELSE
	END CASE;
	RETURN NULL;
END \$\$;
CREATE TRIGGER again AFTER INSERT OR UPDATE ON v FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION again();
CREATE FUNCTION make_room() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	IF NEW.note = 'room' THEN DELETE FROM v WHERE id = NEW.id; END IF;
	RETURN NEW;
END \$\$;
CREATE TRIGGER room BEFORE INSERT ON v FOR EACH ROW EXECUTE FUNCTION make_room();
INSERT INTO v SELECT g, 'row ' || g FROM generate_series(1, 6) g;
SQL

sub same_as_rows
{
	my ($what, $sql) = @_;
	$node->safe_psql('postgres', $sql);
	settled($node);
	my %items = map { $_->{id}{N} => $_->{note}{S} } @{ dynamodb(Scan => { TableName => $versions,
		ConsistentRead => JSON::PP::true })->{Items} };
	my %rows = map { split /=/ } split /\n/, $node->safe_psql('postgres', q(SELECT trim_scale(id) || '=' || note FROM v));
	is_deeply(\%items, \%rows, $what);
	return;
}

same_as_rows('a trigger changes the row again', "UPDATE v SET note = 'raw' WHERE id = 1");
same_as_rows('a trigger changes a new row again', "INSERT INTO v VALUES (7, 'raw')");
same_as_rows('a trigger changes another column', "UPDATE v SET note = 'hide' WHERE id = 1");
same_as_rows('a trigger changes another column, and deletes the row', "UPDATE v SET note = 'hide, drop' WHERE id = 7");
same_as_rows('what a trigger has changed is rolled back', "UPDATE v SET note = 'try' WHERE id = 2");
same_as_rows('a trigger makes room for a new row', "INSERT INTO v VALUES (3, 'room')");
same_as_rows('rows change places', 'BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE v SET id = 3 - id WHERE id < 3; COMMIT');
same_as_rows('rows move up', 'BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE v SET id = id + 1; COMMIT');
same_as_rows('rows move up and down', 'BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE v SET id = id + 1; UPDATE v SET id = id - 1; COMMIT');
same_as_rows('rows move up, and one goes', 'BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE v SET id = id + 1; DELETE FROM v WHERE id = 4; COMMIT');
same_as_rows('a row moves to another partition', 'UPDATE v SET id = 1005 WHERE id = 5');
same_as_rows('a row moves there and back', "BEGIN; UPDATE v SET id = 5 WHERE id = 1005; UPDATE v SET id = 1005 WHERE id = 5; COMMIT");
same_as_rows('a row is made, deleted and made', "BEGIN; INSERT INTO v VALUES (20, 'a'); DELETE FROM v WHERE id = 20; INSERT INTO v VALUES (20, 'b'); COMMIT");
same_as_rows('a table is rewritten between two changes', <<'SQL');
BEGIN; INSERT INTO v VALUES (21, 'a'), (22, 'b'), (23, 'c'); DELETE FROM v WHERE id = 21;
ALTER TABLE v ALTER hidden TYPE bigint; DELETE FROM v WHERE id = 22; COMMIT;
SQL
same_as_rows('a key is spelled in another way', 'UPDATE v SET id = 1.00 WHERE id = (SELECT min(id) FROM v); UPDATE v SET id = 3.00 WHERE id = 3');

# ----- large transactions -----------------------------------------------------

# Two transactions that have changed many rows commit when both have done so.
$node->safe_psql('postgres', 'CREATE SEQUENCE ready');
my @large = map {
	start_script($node, <<"SQL")
BEGIN;
INSERT INTO orders SELECT 10000 * $_ + g FROM generate_series(1, 200) g;
SELECT nextval('ready') \\g /dev/null
DO \$\$ BEGIN WHILE (SELECT last_value FROM ready) < 2 LOOP PERFORM pg_sleep(0.01); END LOOP; END \$\$;
COMMIT;
SQL
} 1, 2;
is(finish_script($_), '', 'a large transaction commits beside another one') foreach @large;
settled($node);

# ----- what other extensions do while a transaction commits -------------------

my $dir = PostgreSQL::Test::Utils::tempdir();
my ($include) = run_command([ 'pg_config', '--includedir-server' ]);
system_or_bail($ENV{CC} // 'cc', '-O1', '-fPIC', '-shared', "-I$include", '-o', "$dir/at_commit.so", "$FindBin::Bin/../../harness/at_commit.c");
$node->safe_psql('postgres', "CREATE FUNCTION at_commit(text) RETURNS void LANGUAGE c AS '$dir/at_commit'");
my $before = items()->{1};
foreach ([ 'a mirrored row', "UPDATE orders SET note = 'late' WHERE id = 1" ], [ 'a key', "SELECT idem_once('late')" ])
{
	my ($what, $command) = @$_;
	like(run_script($node, "SELECT at_commit(\$\$$command\$\$);\n"), qr/ERROR:  55000: transaction has idempotency keys that were not sealed/,
		"$what, changed when it is too late for that: the commit fails");
}
settled($node);
is_deeply(items()->{1}, $before, 'and nothing is written');
is($node->safe_psql('postgres', "SELECT count(*) FROM orders WHERE note = 'late'"), 0, 'nor has the row changed');

# ----- definitions ------------------------------------------------------------

sub says
{
	my ($what, $trigger, $change, $error) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; CREATE TABLE t (id bigint, a text); CREATE TRIGGER m $trigger; $change; COMMIT");
	like($err, $error, $what);
	return;
}

my $mirror = 'AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION idem_mirror';
says('a table that is not allowed', "$mirror('other', 'id')", 'INSERT INTO t VALUES (1)', qr/permission denied for DynamoDB table "other"/);
says('no key', "$mirror('$target')", 'INSERT INTO t VALUES (1)', qr/cannot work as it was created/);
says('another key', "$mirror('$target', 'a')", "INSERT INTO t VALUES (1, 'x')", qr/DETAIL:  The key of table "$target" is "id"/);
says('no such column', "$mirror('$target', 'b')", 'INSERT INTO t VALUES (1)', qr/column "b" of table "t" does not exist/);
says('a NULL in the key', "$mirror('$target', 'id')", 'INSERT INTO t VALUES (NULL)', qr/must not be null/);
$node->safe_psql('postgres', "CREATE TABLE quiet (id bigint PRIMARY KEY, a text); INSERT INTO quiet VALUES (1, 'x');
	CREATE TRIGGER m AFTER UPDATE ON quiet FOR EACH ROW EXECUTE FUNCTION idem_mirror('$target', 'id')");
is(run_script($node, "SET exactonce.enabled = off;\nUPDATE quiet SET a = 'x';\n"), '', 'a change of nothing needs nobody');
says('before the change', "BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION idem_mirror('$target', 'id')",
	'INSERT INTO t VALUES (1)', qr/must be fired AFTER/);

# ----- settings ---------------------------------------------------------------

# Values without a form of their own are texts, which are the same under all settings of the session.
my $texts = 'tap_mirror_texts';
dynamodb(CreateTable => { TableName => $texts, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'N' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
$node->safe_psql('postgres', <<"SQL");
ALTER SERVER exactonce OPTIONS (SET transact_tables '$target, $texts');
CREATE TYPE work_pair AS (ratio float8, at timestamptz);
CREATE TABLE texts (id int, span interval, ats timestamptz[], days daterange, ratios float8[], raws bytea[], at time, type regtype,
	pair work_pair);
CREATE TRIGGER mirror AFTER INSERT ON texts FOR EACH ROW EXECUTE FUNCTION idem_mirror('$texts', 'id');
SQL
my $values = "'1 day 02:03:04', '{2026-01-31 12:00:00+00}', '[2026-01-31,2026-03-01)', '{0.30000000000000004}', '{\"\\\\x00ff\"}', '12:00',"
  . " 'public.work_pair', ROW(0.1::float8 + 0.2, '2026-01-31 12:00+00')";
my @others = ("timezone = 'Asia/Tokyo'", "datestyle = 'German'", "intervalstyle = 'iso_8601'", 'extra_float_digits = 0',
	"bytea_output = 'escape'", "search_path = 'pg_catalog'");
$node->safe_psql('postgres', join '', map { $_ == 0 ? "INSERT INTO texts VALUES (0, $values);" :
	  "SET $others[$_ - 1]; INSERT INTO public.texts VALUES ($_, $values);" } 0 .. @others);
settled($node);
my %texts = map { $_->{id}{N} => $_ } @{ dynamodb(Scan => { TableName => $texts, ConsistentRead => JSON::PP::true })->{Items} };
is_deeply($texts{0}, { id => { N => '0' }, span => { S => '1 day 02:03:04' }, ats => { S => '{"2026-01-31 12:00:00+00"}' },
	days => { S => '[2026-01-31,2026-03-01)' }, ratios => { S => '{0.30000000000000004}' }, raws => { S => '{"\\\\x00ff"}' },
	at => { S => '12:00:00' }, type => { S => 'public.work_pair' }, pair => { S => '(0.30000000000000004,"2026-01-31 12:00:00+00")' } },
	'what has no type in DynamoDB is a text');
is_deeply($texts{$_}, { %{ $texts{0} }, id => { N => "$_" } }, "and the same text with $others[$_ - 1]") foreach 1 .. @others;

stop_without_crash($node);
done_testing();
