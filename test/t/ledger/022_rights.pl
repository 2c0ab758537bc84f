# Roles without the right to do so change nothing about which keys are completed: by
# default privileges, GRANT ON ALL TABLES, publications, or by dropping a server while
# a claim is made.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_rights';
my $internal = 'exactonce_internal';
my @relations = map { "$internal.$_" } 'outbox', 'lives', 'targets';
my $node = PostgreSQL::Test::Cluster->new('rights');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'exactonce'\nwal_level = logical\n");
$node->start;
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# What the statements of a role end with: '' or an error.
sub as_role
{
	my ($role, $statements) = @_;
	my ($stdout, $stderr) = ('', '');
	$node->psql('postgres', "SET ROLE $role; $statements", stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
	return $stderr;
}

# What a transaction that completes a key ends with: '' or an error.
sub complete
{
	my ($key) = @_;
	my $stderr = '';
	$node->psql('postgres', "BEGIN; SELECT idem_acquire('$key'); SELECT idem_complete('$key'); COMMIT",
		stderr => \$stderr);
	return $stderr;
}

sub end_worker
{
	$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
	return;
}

sub count_pending
{
	return $sql->('SELECT count(*) FROM exactonce_pending');
}

# ----- default privileges -----------------------------------------------------

# They give rights to everything that a superuser creates.
my $server = server_sql('exactonce', table => $table);
$sql->(<<"SQL");
CREATE ROLE app LOGIN;
CREATE ROLE auditor LOGIN;
GRANT pg_monitor TO auditor;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO app;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO app;
CREATE EXTENSION exactonce;
$server
SELECT idem_create_table();
CREATE FUNCTION take_over() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN EXECUTE 'ALTER ROLE app SUPERUSER'; RETURN NEW; END \$\$;
SQL

sub plant_trigger
{
	my ($relation) = @_;
	return "CREATE TRIGGER plant BEFORE INSERT OR UPDATE ON $relation FOR EACH ROW EXECUTE FUNCTION take_over();";
}

my $denied = qr/permission denied/;
foreach my $relation (@relations)
{
	like(as_role('app', "SELECT * FROM $relation"), $denied, "default privileges: $relation cannot be read");
	like(as_role('app', plant_trigger($relation)), $denied, "default privileges: $relation gets no trigger");
}
like(as_role('app', "INSERT INTO $internal.targets VALUES ('http://127.0.0.1:1/', true, 'r', 't', 'native', now(), 0)"),
	$denied, 'default privileges: nobody says where the worker is to go');
like(as_role('app', 'SELECT * FROM exactonce_pending'), $denied,
	'default privileges: views are for administrators');
like(as_role('app', "SELECT idem_forget('k')"), qr/permission denied for function/,
	'default privileges: functions of operators are for operators');
is($sql->(<<"SQL"), 'stats_details_of_cluster,stats_histograms_of_cluster,stats_of_cluster', 'default privileges: of the functions behind views only those of statistics are for all');
SELECT string_agg(proname, ',' ORDER BY proname) FROM pg_proc
WHERE pronamespace = '$internal'::regnamespace AND has_function_privilege('app', oid, 'EXECUTE')
SQL
is(as_role('auditor', 'SELECT * FROM exactonce_pending'), '', 'pg_monitor may read exactonce_pending');

# ----- rights that a superuser gives later ------------------------------------

my $not_relied_on = qr/does not respond|was altered and cannot be relied on/;
is(complete('before'), '', 'GRANT ON ALL TABLES: before it a key is completed');
$sql->("GRANT USAGE ON SCHEMA $internal TO app; GRANT ALL ON ALL TABLES IN SCHEMA $internal TO app");
is(as_role('app', join '', map { plant_trigger($_) } "$internal.outbox", "$internal.lives"), '',
	'GRANT ON ALL TABLES: a role plants triggers');
like(complete('planted'), $not_relied_on, 'GRANT ON ALL TABLES: with a trigger nothing is completed');
end_worker();
like(complete('planted'), $not_relied_on, 'GRANT ON ALL TABLES: with a trigger a new worker completes nothing');
is($sql->("SELECT rolsuper FROM pg_roles WHERE rolname = 'app'"), 'f', 'GRANT ON ALL TABLES: no trigger has run');
$sql->("DROP TRIGGER plant ON $internal.outbox; DROP TRIGGER plant ON $internal.lives");
like(complete('granted'), $not_relied_on, 'GRANT ON ALL TABLES: with the right alone nothing is completed');
$sql->("REVOKE ALL ON ALL TABLES IN SCHEMA $internal FROM app; REVOKE ALL ON SCHEMA $internal FROM app");
wait_until('GRANT ON ALL TABLES: once it is revoked keys are completed', sub { complete('after') eq '' });

# The tables are looked at before a worker is waited for, so the reason is told at once.
$sql->("GRANT SELECT (pk) ON $internal.outbox TO app");
end_worker();
like(complete('column'), qr/ERROR:  table $internal\.outbox was altered and cannot be relied on\n.*on a column of it/,
	'a right on a column: nothing is completed');
$sql->("REVOKE SELECT (pk) ON $internal.outbox FROM app; GRANT UPDATE (beat) ON $internal.lives TO app");
like(complete('another column'), qr/ERROR:  table $internal\.lives was altered and cannot be relied on\n.*on a column of it/,
	'a right on a column of another table: nothing is completed');
$sql->("REVOKE UPDATE (beat) ON $internal.lives FROM app");
is(complete('no column'), '', 'once no role has rights on a column, keys are completed at once');

# ----- roles that may read or write everything --------------------------------

sub check_rights
{
	return $sql->(q(SELECT status, detail FROM idem_check() WHERE "check" = 'rights'));
}
is(check_rights(), 'ok|only superusers reach the internal tables', 'nobody may read or write everything');
$sql->('CREATE ROLE reader; CREATE ROLE "Through"; CREATE ROLE writer NOINHERIT; CREATE ROLE boss SUPERUSER; '
	  . 'GRANT pg_read_all_data TO reader, boss');
is(check_rights(), 'warning|the internal tables can be read by members of pg_read_all_data: reader',
	'a role that may read everything is warned of');
$sql->('GRANT pg_write_all_data TO "Through"; GRANT "Through" TO writer');
like(check_rights(), qr/^warning\|.* can be written by members of pg_write_all_data: (?:"Through", writer|writer, "Through")$/,
	'roles that may write everything, themselves or by SET ROLE, are warned of');
$sql->('DROP ROLE reader, writer, "Through", boss');

# ----- a row that somebody has made up ----------------------------------------

reset_proxy();
$sql->(<<"SQL");
INSERT INTO $internal.outbox
SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = 'postgres'), sha256('x'), gen_random_uuid(),
	(SELECT oid FROM pg_foreign_server), 10, 'http://127.0.0.1:9/', true, 'eu-west-1', 'elsewhere', 'native',
	'IDEMPOTENCY#x', 3600, pg_current_xact_id(), now(), false, (SELECT id FROM $internal.lives LIMIT 1), '',
	NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL
FROM pg_control_system();
SQL
end_worker();
wait_until('a row that leads elsewhere is refused', sub {
	complete('wake');
	return slurp_file($node->logfile) =~ /which no server of this database has or had/;
});
is($sql->("SELECT idem_give_up(id) FROM exactonce_pending WHERE dynamodb_table = 'elsewhere'"), 't',
	'a row that leads elsewhere is removed by an operator');
is(count_pending(), '0', 'a row that leads elsewhere: nothing is pending once it is removed');
is($sql->("SELECT count(*) FROM $internal.outbox WHERE given_up"), '1',
	'a row that leads elsewhere stays as evidence, because its record could not be read');

# ----- a publication of everything, and rows of another database --------------

$sql->('CREATE PUBLICATION everything FOR ALL TABLES');
# One of another cluster, and one of a copy with our identifiers that a subscription brought.
my $columns = 'dboid, run, timeline, xid_floor, xid_start, beat, started_at';
$sql->("INSERT INTO $internal.lives SELECT gen_random_uuid(), id, number + 1, system_identifier + 1, $columns, "
	  . "written_by FROM $internal.lives");
$sql->("INSERT INTO $internal.lives SELECT gen_random_uuid(), id, number + 9, system_identifier, $columns, "
	  . "'1000000' FROM $internal.lives");
end_worker();
wait_until('under FOR ALL TABLES, beside lives of other databases, a worker starts',
	sub { complete('published') eq '' });
$node->restart;
wait_until('under FOR ALL TABLES, beside lives of other databases, a worker starts after a restart',
	sub { complete('published again') eq '' });

# ----- DROP SERVER and claims -------------------------------------------------

my $holder = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('dropped');\n"
	  . say_in_script('has a claim') . halt_until('complete') . "SELECT idem_complete('dropped');\nCOMMIT;\n");
await_word('has a claim');
my $drop = start_script($node, "SELECT 'drop'; DROP SERVER exactonce CASCADE;\n");
wait_until('DROP SERVER waits for a transaction with a claim', sub { $sql->(<<'SQL') eq '1' });
SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DROP SERVER%' AND wait_event_type = 'Lock'
SQL
go_on('complete');
unlike(finish_script($holder), qr/ERROR/, 'the transaction that DROP SERVER waits for commits');
my $said = finish_script($drop);
ok($said =~ /while keys depend on it/ || $said !~ /ERROR/,
	'DROP SERVER is refused, or everything was finished before it');
wait_until('beside DROP SERVER nothing is left pending', sub { count_pending() eq '0' });
is(record($table, 'dropped')->{status}, 'COMPLETED', 'beside DROP SERVER the key is completed');

# ----- the tables that servers have or had ------------------------------------

sub count_targets
{
	my ($dynamodb_table) = @_;
	return $sql->("SELECT count(*) FROM $internal.targets WHERE dynamodb_table = '$dynamodb_table'");
}

$sql->("DROP SERVER IF EXISTS exactonce CASCADE; $server");
$sql->(server_sql('batch', table => "${table}_batch"));
$sql->("SELECT idem_create_table('batch')");
$sql->("SELECT idem_once('b' || i, server => 'batch') FROM generate_series(1, 100) i");
is(count_targets("${table}_batch"), '1', 'the table of a batch is recorded once');
settled($node);

my $session = start_script($node, "SELECT idem_once('of the old extension');\n"
	  . say_in_script('used') . halt_until('made anew') . "SELECT idem_once('of the new extension');\n");
await_word('used');
settled($node);
$sql->("DROP EXTENSION exactonce CASCADE; CREATE EXTENSION exactonce; $server");
go_on('made anew');
unlike(finish_script($session), qr/ERROR/, 'a session goes on with an extension that was made anew');
is(count_targets($table), '1', 'a session records the table that it used before, if the extension was made anew');
wait_until('a session with an extension that was made anew: nothing is left pending', sub { count_pending() eq '0' });

# ----- a completion whose server is gone --------------------------------------

$sql->("DROP SERVER IF EXISTS exactonce CASCADE; $server");
fault(to => 'COMPLETED', do => 'answer', times => 0);
is(complete('orphan'), '', 'a completion whose server is gone: it has committed');
# The row outlives its server only if the catalogs are changed past the hook.
$sql->('SET allow_system_table_mods = on; DELETE FROM pg_user_mapping; DELETE FROM pg_foreign_server');
$sql->(server_sql('another', table => $table));
reset_proxy();
wait_until('a completion whose server is gone is finished by another server of the same table',
	sub { count_pending() eq '0' });
is(record($table, 'orphan')->{status}, 'COMPLETED', 'a completion whose server is gone: the key is completed');

stop_without_crash($node);
done_testing();
