# Roles without the right to do so change nothing about which keys are completed:
# by default privileges, GRANT ON ALL TABLES, publications, or by dropping a server
# while a claim is made.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('rights');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'exactonce'\nwal_level = logical\n");
$node->start;
my $table = 'tap_rights';
my $internal = 'exactonce_internal';

sub sql { return $node->safe_psql('postgres', $_[0]) }

# What the statements of a role end with: '' or an error.
sub as_role
{
	my ($role, $statements) = @_;
	my ($stdout, $stderr) = ('', '');
	$node->psql('postgres', "SET ROLE $role; $statements", stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
	return $stderr;
}

sub complete
{
	my ($key) = @_;
	my ($stdout, $stderr) = ('', '');
	$node->psql('postgres', "BEGIN; SELECT idem_acquire('$key'); SELECT idem_complete('$key'); COMMIT", stderr => \$stderr);
	return $stderr;
}

# -- rights that default privileges give to everything a superuser creates

sql(<<"SQL");
CREATE ROLE app LOGIN;
CREATE ROLE auditor LOGIN;
GRANT pg_monitor TO auditor;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO app;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO app;
CREATE EXTENSION exactonce;
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}');
CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT idem_create_table();
CREATE FUNCTION take_over() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN EXECUTE 'ALTER ROLE app SUPERUSER'; RETURN NEW; END \$\$;
SQL
foreach my $relation ("$internal.outbox", "$internal.identity", "$internal.targets")
{
	like(as_role('app', "SELECT * FROM $relation"), qr/permission denied/, "default privileges: $relation cannot be read");
	like(as_role('app', "CREATE TRIGGER plant BEFORE INSERT OR UPDATE ON $relation FOR EACH ROW EXECUTE FUNCTION take_over()"),
		qr/permission denied/, '... and nobody plants a trigger on it');
}
like(as_role('app', "INSERT INTO $internal.targets VALUES ('http://127.0.0.1:1/', true, 'r', 't', 'native', now())"),
	qr/permission denied/, '... nor writes where the worker is to go');
like(as_role('app', 'SELECT * FROM exactonce_pending'), qr/permission denied/, 'default privileges: views are for administrators');
like(as_role('app', "SELECT idem_forget('k')"), qr/permission denied for function/, '... and so are functions that overrule others');
is(as_role('auditor', 'SELECT * FROM exactonce_pending'), '', 'pg_monitor may look');

# -- rights that a superuser gives later

is(complete('before'), '', 'a key is completed');
sql("GRANT USAGE ON SCHEMA $internal TO app; GRANT ALL ON ALL TABLES IN SCHEMA $internal TO app");
is(as_role('app', "CREATE TRIGGER plant BEFORE INSERT OR UPDATE OR DELETE ON $internal.outbox FOR EACH ROW EXECUTE FUNCTION take_over();
	CREATE TRIGGER plant BEFORE INSERT OR UPDATE ON $internal.identity FOR EACH ROW EXECUTE FUNCTION take_over()"), '',
	'GRANT ON ALL TABLES lets a role plant triggers');
like(complete('planted'), qr/does not respond|was altered and cannot be relied on/, '... then nothing is completed');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
like(complete('planted'), qr/does not respond|cannot be relied on/, '... also with a new worker');
is(sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'app'"), 'f', '... and no trigger has run');
sql("DROP TRIGGER plant ON $internal.outbox; DROP TRIGGER plant ON $internal.identity");
like(complete('granted'), qr/does not respond|cannot be relied on/, 'a right alone is enough to refuse the table');
sql("REVOKE ALL ON ALL TABLES IN SCHEMA $internal FROM app; REVOKE ALL ON SCHEMA $internal FROM app");
wait_until('taken back, it works again', sub { complete('after') eq '' });

# -- a row that somebody made up

control('POST', '/reset');
sql(<<"SQL");
INSERT INTO $internal.outbox
SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = 'postgres'), sha256('x'), gen_random_uuid(),
	(SELECT oid FROM pg_foreign_server), 10, 'http://127.0.0.1:9/', true, 'eu-west-1', 'elsewhere', 'native', 'IDEMPOTENCY#x', 3600,
	pg_current_xact_id(), now(), false
FROM pg_control_system();
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker';
SQL
wait_until('a row that leads elsewhere is refused', sub {
	complete('wake'); slurp_file($node->logfile) =~ /which no server of this database has or had/ });
is(sql('SELECT idem_resolve(pending => id) FROM exactonce_pending WHERE dynamodb_table = \'elsewhere\''), 't',
	'... and an operator removes it');
is(sql('SELECT count(*) FROM exactonce_pending'), '0', '... after which nothing is pending');
is(sql("SELECT count(*) FROM $internal.outbox WHERE given_up"), '1',
	'... but the row stays as evidence, because the record could not be read');

# -- a publication of everything, and rows of another database

sql('CREATE PUBLICATION everything FOR ALL TABLES');
sql("INSERT INTO $internal.identity SELECT system_identifier + 1, dboid, gen_random_uuid(), 7, since FROM $internal.identity");
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
wait_until('a worker starts under FOR ALL TABLES, beside a foreign identity', sub { complete('published') eq '' });
$node->restart;
wait_until('... and after a restart', sub { complete('published again') eq '' });

# -- DROP SERVER and claims

sql('CREATE TABLE go ()');
my $holder = start_psql($node, <<"SQL");
BEGIN;
SELECT outcome FROM idem_acquire('dropped');
DO \$\$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM go); PERFORM pg_sleep(0.02); END LOOP; END \$\$;
SELECT idem_complete('dropped');
COMMIT;
SQL
wait_until('a transaction holds a key', sub { sql("SELECT count(*) FROM exactonce_claims WHERE key = 'dropped'") eq '1' });
my $drop = start_psql($node, "SELECT 'drop'; DROP SERVER exactonce CASCADE;\n");
wait_until('... and DROP SERVER waits for it', sub {
	sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DROP SERVER%' AND wait_event_type = 'Lock'") eq '1' });
sql('INSERT INTO go DEFAULT VALUES');
unlike(finish_psql($holder), qr/ERROR/, '... it commits');
my $said = finish_psql($drop);
ok($said =~ /while keys depend on it/ || $said !~ /ERROR/, '... and the drop is refused, or everything was finished before it');
wait_until('nothing is left pending', sub { sql('SELECT count(*) FROM exactonce_pending') eq '0' });
is(records($table)->{dropped}{status}, 'COMPLETED', '... and the key is completed');

# -- a completion whose server is gone

sql("DROP SERVER IF EXISTS exactonce CASCADE");
my $new_server = "CREATE SERVER %s FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}');
CREATE USER MAPPING FOR PUBLIC SERVER %s OPTIONS (access_key_id 'test', secret_access_key 'test');";
sql(sprintf($new_server, 'exactonce', 'exactonce'));
control('POST', '/fault', '{"to":"COMPLETED","do":"answer","times":0}');
is(complete('orphan'), '', 'a commit that the worker cannot finish');
# past the hook, as a crash of the catalogs would: the row outlives its server
sql("SET allow_system_table_mods = on; DELETE FROM pg_user_mapping; DELETE FROM pg_foreign_server");
sql(sprintf($new_server, 'another', 'another'));
control('POST', '/reset');
wait_until('is finished by another server of the same table', sub {
	sql('SELECT count(*) FROM exactonce_pending') eq '0' });
is(records($table)->{orphan}{status}, 'COMPLETED', '... and the key is completed');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP/, 'no crash of its own');
done_testing();
