# The internal tables are altered by a superuser.  What cannot be relied on is refused, with the
# command that undoes it; idem_check() shows it; and once it is undone all goes on.  Nothing
# crashes the server, and nothing stays refused.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('altered', conf => "autovacuum = off\n");
my $sql = sub { sql_of($node, $_[0]) };
my $schema = 'exactonce_internal';
$sql->('CREATE TABLE work (key text PRIMARY KEY); CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;'
	  . 'CREATE ROLE other; CREATE TABLE parent (); CREATE DOMAIN words AS text');

sub finding
{
	return $sql->(q(SELECT status, detail, advice FROM idem_check() WHERE "check" = 'tables'));
}

# Keys are completed, in this session and by the worker.
my $keys = 0;
sub works
{
	my ($what) = @_;
	my $key = 'key ' . ++$keys;
	wait_until("$what: a key is completed", sub { complete($node, $key) eq '' });
	settled($node);
	is(status_of('tap_altered', $key), 'COMPLETED', "$what: and finished");
	like(finding(), qr/^ok\|/, "$what: idem_check() finds nothing");
	return;
}

# The statement is refused as an alteration, with the command that undoes it; and that does.
sub refused
{
	my ($what, $alter, $reason, $undo) = @_;
	$sql->($alter);
	# A session that has begun with a life needs the table of the lives no more.
	if ($alter !~ /\Q$schema\E\.lives/)
	{
		my $errors = complete($node, 'refused ' . ++$keys);
		like($errors, qr/55000: table \Q$schema\E\.\w+ was altered and cannot be relied on\nDETAIL:  .*$reason/, "$what: refused");
		like($errors, qr/HINT:  Undo that: \Q$undo\E\. /, "$what: the hint says how to undo it");
	}
	like(finding(), qr/^failure\|\Q$schema\E\.\w+ cannot be relied on: .*$reason.*\|.*\Q$undo\E/s, "$what: idem_check() says so, too");
	is($sql->(q(SELECT count(*) FROM idem_check() WHERE "check" IN ('pending', 'orphans', 'given up', 'ready') AND detail = 'not checked')), '4',
		"$what: what needs the tables is not checked");
	$sql->($undo);
	works("$what, undone");
	return;
}

works('as made');

# ----- indexes -----------------------------------------------------------------

refused('an index on an expression', "CREATE INDEX upper_pk ON $schema.outbox (upper(pk))", 'an index .*upper_pk',
	"DROP INDEX $schema.upper_pk");
refused('a partial index', "CREATE INDEX given_up ON $schema.outbox (digest) WHERE given_up", 'an index', "DROP INDEX $schema.given_up");
refused('an index of others', "CREATE UNIQUE INDEX by_server ON $schema.outbox (server)", 'an index', "DROP INDEX $schema.by_server");
refused('a hash index', "CREATE INDEX by_hash ON $schema.outbox USING hash (token)", 'an index', "DROP INDEX $schema.by_hash");
refused('a unique constraint', "ALTER TABLE $schema.targets ADD CONSTRAINT once UNIQUE (url, layout)", 'an index',
	"ALTER TABLE $schema.targets DROP CONSTRAINT once");
refused('an index on an expression of lives', "CREATE INDEX twice ON $schema.lives ((number * 2))", 'an index', "DROP INDEX $schema.twice");
refused('no primary key', "ALTER TABLE $schema.outbox DROP CONSTRAINT outbox_pkey", 'no valid primary key',
	"ALTER TABLE $schema.outbox ADD PRIMARY KEY (system_identifier, dboid, digest)");
refused('no unique index by token', "ALTER TABLE $schema.outbox DROP CONSTRAINT outbox_claim", 'no valid unique index by token',
	"ALTER TABLE $schema.outbox ADD CONSTRAINT outbox_claim UNIQUE (system_identifier, dboid, token)");
$sql->("CREATE INDEX by_token ON $schema.outbox (system_identifier, dboid, token)");
works('an index by token beside the unique one');
refused('an index by token that is not unique', "ALTER TABLE $schema.outbox DROP CONSTRAINT outbox_claim", 'no valid unique index by token',
	"ALTER TABLE $schema.outbox ADD CONSTRAINT outbox_claim UNIQUE (system_identifier, dboid, token)");
$sql->("DROP INDEX $schema.by_token");
refused('no index by key', "DROP INDEX $schema.outbox_key", 'no valid index by pk',
	"CREATE INDEX outbox_key ON $schema.outbox (system_identifier, dboid, pk COLLATE \"C\")");
refused('an index of another collation', "CREATE INDEX by_pk ON $schema.outbox (system_identifier, dboid, pk COLLATE \"POSIX\")", 'an index',
	"DROP INDEX $schema.by_pk");
refused('no index of targets', "DROP INDEX $schema.targets_layout", 'no valid index by layout',
	"CREATE INDEX targets_layout ON $schema.targets (url COLLATE \"C\", region COLLATE \"C\", dynamodb_table COLLATE \"C\", layout COLLATE \"C\")");
refused('no primary key of lives', "ALTER TABLE $schema.lives DROP CONSTRAINT lives_pkey", 'no valid primary key',
	"ALTER TABLE $schema.lives ADD PRIMARY KEY (id)");

# ----- columns -----------------------------------------------------------------

refused('a column', "ALTER TABLE $schema.outbox ADD COLUMN note text DEFAULT 'x'", 'other columns .*: note',
	"ALTER TABLE $schema.outbox DROP COLUMN note");
refused('a generated column', "ALTER TABLE $schema.lives ADD COLUMN next int8 GENERATED ALWAYS AS (number + 1) STORED", 'other columns .*: next',
	"ALTER TABLE $schema.lives DROP COLUMN next");
refused('a column of targets', "ALTER TABLE $schema.targets ADD COLUMN \"A b\" int NOT NULL DEFAULT 7", 'other columns',
	"ALTER TABLE $schema.targets DROP COLUMN \"A b\"");
refused('another type', "ALTER TABLE $schema.outbox ALTER COLUMN layout TYPE varchar(50)", 'column layout has another type',
	"ALTER TABLE $schema.outbox ALTER COLUMN layout TYPE text");
refused('NOT NULL', "ALTER TABLE $schema.outbox ALTER COLUMN writes SET NOT NULL", 'column writes is not as',
	"ALTER TABLE $schema.outbox ALTER COLUMN writes DROP NOT NULL");
refused('no NOT NULL', "ALTER TABLE $schema.lives ALTER COLUMN beat DROP NOT NULL", 'column beat is not as',
	"ALTER TABLE $schema.lives ALTER COLUMN beat SET NOT NULL");
refused('a domain', "ALTER TABLE $schema.targets ALTER COLUMN layout TYPE words", 'column layout has another type',
	"ALTER TABLE $schema.targets ALTER COLUMN layout TYPE text");
like(errors_of($node, "ALTER TABLE $schema.outbox DROP COLUMN layout"), qr/55000: cannot drop a column of a table of exactonce/,
	'a column of ours is not dropped');

# ----- what sticks to pg_class -------------------------------------------------

refused('a rule', "CREATE RULE nowhere AS ON DELETE TO $schema.outbox DO INSTEAD NOTHING", 'has rules', "DROP RULE nowhere on $schema.outbox");
refused('a trigger', "CREATE TRIGGER \"Look\" BEFORE INSERT ON $schema.outbox FOR EACH ROW EXECUTE FUNCTION nothing()", 'has triggers',
	"DROP TRIGGER \"Look\" on $schema.outbox");
refused('a foreign key', "CREATE TABLE referring (id uuid CONSTRAINT refers REFERENCES $schema.lives)", 'has triggers',
	'ALTER TABLE public.referring DROP CONSTRAINT refers');
refused('a child', "CREATE TABLE child () INHERITS ($schema.outbox)", 'inheritance', "ALTER TABLE public.child NO INHERIT $schema.outbox");
refused('row security', "ALTER TABLE $schema.lives ENABLE ROW LEVEL SECURITY", 'row security',
	"ALTER TABLE $schema.lives DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY");
refused('unlogged', "ALTER TABLE $schema.targets SET UNLOGGED", 'unlogged', "ALTER TABLE $schema.targets SET LOGGED");
refused('a right', "GRANT SELECT ON $schema.outbox TO other", 'granted rights on it', "REVOKE ALL ON $schema.outbox FROM other");
refused('a right of everybody', "GRANT USAGE ON SCHEMA $schema TO PUBLIC", 'rights on its schema', "REVOKE ALL ON SCHEMA $schema FROM PUBLIC");
refused('a right on a column', "GRANT SELECT (pk) ON $schema.outbox TO other", 'on a column of it', "REVOKE ALL (pk) ON $schema.outbox FROM other");
my $owner = $sql->("SELECT tableowner FROM pg_tables WHERE schemaname = '$schema' LIMIT 1");
refused('another owner', "ALTER TABLE $schema.outbox OWNER TO other", 'Its owner is not', "ALTER TABLE $schema.outbox OWNER TO $owner");
$sql->("ALTER TABLE $schema.outbox INHERIT parent");
like(complete($node, 'refused ' . ++$keys), qr/inheritance/, 'a parent: refused');
$sql->("ALTER TABLE $schema.outbox NO INHERIT parent");
works('a parent, undone');

# ----- a right on a column that was dropped ------------------------------------

$sql->("ALTER TABLE $schema.outbox ADD COLUMN x int; GRANT SELECT (x) ON $schema.outbox TO other; ALTER TABLE $schema.outbox DROP COLUMN x");
works('a right on a column that was dropped');

# ----- what changes nothing ----------------------------------------------------

foreach my $alter (
	"CREATE STATISTICS $schema.some ON role, server FROM $schema.outbox",
	"ALTER TABLE $schema.outbox SET (fillfactor = 50)",
	"ALTER TABLE $schema.outbox ALTER COLUMN reason SET DEFAULT 'x', ADD CONSTRAINT always CHECK (pk <> '')",
	"ALTER TABLE $schema.outbox REPLICA IDENTITY FULL",
	"ALTER TABLE $schema.lives REPLICA IDENTITY NOTHING",
	"ALTER TABLE $schema.outbox ALTER COLUMN pk SET STORAGE PLAIN, ALTER COLUMN pk SET STATISTICS 10",
	"CLUSTER $schema.outbox USING outbox_pkey",
	"REINDEX TABLE $schema.outbox",
	"REINDEX TABLE CONCURRENTLY $schema.outbox",
	"VACUUM FULL $schema.outbox",
	"ANALYZE $schema.lives")
{
	$sql->($alter);
	works($alter);
}
# An index that is not valid is not used.
$node->psql('postgres', "CREATE UNIQUE INDEX CONCURRENTLY again ON $schema.outbox (system_identifier, dboid, digest)");
works('a second index of ours');
$sql->("DROP INDEX $schema.again");

# ----- rows with writes, and rows that wait, in a table with dropped columns ----

$sql->("ALTER TABLE $schema.outbox ADD COLUMN a text DEFAULT 'a', ADD COLUMN b int; ALTER TABLE $schema.outbox DROP COLUMN a");
my $errors = complete($node, 'refused ' . ++$keys);
like($errors, qr/other columns .*: b\./, 'a column that is there and one that was dropped');
$sql->("ALTER TABLE $schema.outbox DROP COLUMN b");
wait_until('after both were dropped keys are completed', sub { complete($node, 'after both') eq '' });
fault(to => 'COMPLETED', do => 'answer', times => 0);
is(complete($node, 'waits'), '', 'a key is committed and cannot be finished');
wait_until('exactonce_pending shows it', sub { $sql->('SELECT count(*) FROM exactonce_pending') ne '0' });
$node->restart;
like($sql->(q(SELECT detail FROM idem_check() WHERE "check" = 'pending')), qr/^\d+ completions/, 'idem_check() counts it after a restart');
reset_proxy();
settled($node);
is(status_of('tap_altered', 'waits'), 'COMPLETED', 'it is finished in the end');

# ----- ended by what it takes: DROP EXTENSION ----------------------------------

$sql->('DROP SERVER exactonce CASCADE; DROP EXTENSION exactonce CASCADE; CREATE EXTENSION exactonce');
stop_without_crash($node);
done_testing();
