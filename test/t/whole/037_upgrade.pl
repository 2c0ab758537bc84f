# pg_upgrade while keys are under way: the new cluster has the data and its transaction
# ids, and another system identifier.  New keys work at once; what the old cluster has
# left is settled once an operator says that it is gone.  EO_OLD_BINDIR names the programs of
# the old cluster, if they are of another version.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_upgrade';
my $conf = "exactonce.test_hurry = @{[ hurry(10) ]}\nlog_min_messages = log\nmax_connections = 20\n";
my $old = new_node('upgrade', conf => $conf, install_path => ($ENV{EO_OLD_BINDIR} // '') =~ s|/bin$||r, options => { commit_timeout => '300 ms', max_attempts => 1 });

sub sql_of
{
	my ($of, $text, $database) = @_;
	return $of->safe_psql($database // 'postgres', $text);
}

sub complete
{
	my ($of, $key, $database) = @_;
	my ($out, $err);
	$of->psql($database // 'postgres', "BEGIN; INSERT INTO work VALUES ('$key'); SELECT idem_acquire('$key', lease => '1 hour');"
		  . " SELECT idem_complete('$key', '1'); COMMIT", stdout => \$out, stderr => \$err);
	return $err;
}

sub state_of
{
	my ($of, $life, $database) = @_;
	return sql_of($of, "SELECT string_agg(DISTINCT state, ' ') FROM exactonce_lives WHERE life = '$life'", $database);
}

# The life that a database works under.
sub life_of
{
	my ($of, $database) = @_;
	return sql_of($of, "SELECT life FROM exactonce_lives WHERE state = 'open' LIMIT 1", $database);
}

# What a call of an operator is refused with: SQLSTATE and message.
sub refusal
{
	my ($of, $text, $database) = @_;
	my ($out, $err);
	$of->psql($database // 'postgres', "\\set VERBOSITY verbose\n$text", stdout => \$out, stderr => \$err);
	return $err;
}

# Whether the data may be moved, as idem_check() says.
sub ready
{
	my ($of, $database) = @_;
	return sql_of($of, q(SELECT detail FROM idem_check() WHERE "check" = 'ready'), $database);
}

sub await_status
{
	my ($what, $in, $key, $status) = @_;
	return wait_until($what, sub { status_of($in, $key) eq $status });
}

sub outcome
{
	my ($of, $key, $database) = @_;
	return sql_of($of, "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep')", $database);
}

# ----- the old cluster --------------------------------------------------------------

# What is dropped before the upgrade takes OIDs that the new cluster gives to others.
sql_of($old, 'CREATE TABLE work (key text); CREATE TABLE dropped (a int, b int); DROP TABLE dropped;'
	  . 'CREATE DATABASE drained');
sql_of($old, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table), 'drained');
sql_of($old, server_sql('exactonce2', table => 'tap_upgrade2') . "SELECT idem_create_table('exactonce2')");
sql_of($old, "SELECT idem_once('of drained')", 'drained');
settled($old, 'drained');
like(ready($old, 'drained'), qr/^not yet; what is left: .*the open life$/, 'idem_check() says that it is not ready');
is(sql_of($old, "SELECT idem_drain('1 min')", 'drained'), '0', 'one database is drained before');
is(ready($old, 'drained'), 'yes: nothing is left, and new claims are barred', 'idem_check() says that it is ready');
# A database, a copy of it, and a second life of each.
my $prepare = 'CREATE EXTENSION exactonce; CREATE TABLE work (key text); ' . server_sql('exactonce', table => $table);
sql_of($old, 'CREATE DATABASE original');
sql_of($old, $prepare, 'original');
is(complete($old, 'of the original', 'original'), '', 'a database works');
settled($old, 'original');
my $first_of_original = life_of($old, 'original');
sql_of($old, 'CREATE DATABASE copy TEMPLATE original');
is(complete($old, 'of the copy', 'copy'), '', 'a copy of it works');
settled($old, 'copy');
$old->restart;

# Two more servers lead to the table: one has another key_prefix, and the options of the
# other are refused, because of its owner.
sql_of($old, server_sql('a_prefix', table => $table, key_prefix => 'other/') . server_sql('a_refused', table => $table, credentials => 'environment', mapping => '')
	  . 'CREATE ROLE plain; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO plain; ALTER SERVER a_refused OWNER TO plain');
# A tenant has a server of the same address beside each of ours, once before and once after it.
sql_of($old, 'SET SESSION AUTHORIZATION plain; ' . server_sql('a_twin', table => $table) . server_sql('z_twin', table => 'tap_upgrade2'));
is(complete($old, 'before'), '', 'a key is completed before');
settled($old);
my $life = sql_of($old, "SELECT life FROM exactonce_lives WHERE state = 'open'");

fault(to => 'COMPLETED', do => 'drop', times => 0);
fault(to => 'FAILED', do => 'drop', times => 0);
is(complete($old, 'committed'), '', 'a transaction commits, and nothing more reaches DynamoDB');
is(sql_of($old, "BEGIN; INSERT INTO work VALUES ('elsewhere'); SELECT idem_once('elsewhere', '1', server => 'exactonce2'); COMMIT"),
	'', 'another one commits in another table');
is(sql_of($old, "SET SESSION AUTHORIZATION plain; SELECT idem_once('of the twin', server => 'z_twin')"), '', 'and a tenant');
fault(key => 'aborted', to => 'COMMITTING', do => 'lose', times => 0);
like(complete($old, 'aborted'), qr/no answer/, 'a third one is sealed, and does not commit');
is(status_of($table, $_), 'COMMITTING', "$_ is being committed") foreach 'committed', 'aborted';
is(complete($old, "left by the $_", $_), '', "the $_ commits, and nothing more reaches DynamoDB") foreach 'original', 'copy';
like(ready($old), qr/^not yet; what is left: 3 completions, /, 'the others are not ready, which is forgotten');
my %left_by = map { $_ => record($table, "left by the $_")->{origin} =~ m{^([^/]+)/} } 'original', 'copy';
isnt($left_by{original}, $first_of_original, 'the original has gone on under a later life');
fault(do => 'drop', times => 0);
my $endpoints = sql_of($old, 'SHOW exactonce.allowed_endpoints');
my $server = sql_of($old, "SELECT oid FROM pg_foreign_server WHERE srvname = 'exactonce'");
$old->stop;

# ----- the upgrade ------------------------------------------------------------------

my $new = PostgreSQL::Test::Cluster->new('upgraded');
$new->init;
$new->append_conf('postgresql.conf', "${conf}shared_preload_libraries = 'exactonce'\nexactonce.allowed_endpoints = '$endpoints'\n");
my $bindir = $new->config_data('--bindir');
my @upgrade = ('pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir,
	'-b', $ENV{EO_OLD_BINDIR} // $bindir, '-B', $bindir, '-s', $new->host, '-p', $old->port, '-P', $new->port);
chdir PostgreSQL::Test::Utils::tempdir();
command_ok(\@upgrade, 'pg_upgrade');
is(count_requests(key => 'of the upgrade'), 0, 'nothing is sent meanwhile');
reset_proxy();
$new->start;

is(complete($new, 'new'), '', 'new keys work at once');
is(outcome($new, 'of drained', 'drained'), 'completed', 'in a database that was drained, too');
is(outcome($new, 'new in drained', 'drained'), 'acquired', 'in a database that was drained new keys work at once');
is(outcome($new, 'before'), 'completed', 'what was completed before is completed');
is(outcome($new, $_), 'in_progress', "$_ is in progress") foreach 'committed', 'aborted';
is(sql_of($new, 'SELECT count(*) FROM exactonce_internal.outbox'), '3', 'the rows of the outbox came along');
is(sql_of($new, 'SELECT count(*) FROM exactonce_pending'), '0', 'and are not settled');
wait_until('the old life waits for an operator', sub { state_of($new, $life) eq 'waits for idem_take_over()' });
like(sql_of($new, q(SELECT status, detail FROM idem_check() WHERE "check" = 'lives')),
	qr/^warning\|1 lives wait for idem_take_over/, 'idem_check() says so');
like(sql_of($new, q(SELECT detail FROM idem_audit() WHERE finding = 'not judged')),
	qr/^\d+ records name lives of the database that this data comes from/, 'idem_audit() does not judge them');
like(refusal($new, "DROP $_ CASCADE"), qr/55006: cannot drop .*\n.*wait for idem_take_over/, "what was committed keeps this: $_")
  foreach 'EXTENSION exactonce', map { "SERVER $_" } 'exactonce', 'exactonce2', 'z_twin';
unlike(refusal($new, "BEGIN; DROP SERVER $_ CASCADE; ROLLBACK"), qr/ERROR/, "and not $_") foreach 'a_prefix', 'a_twin';

# The take-over is forgotten, and the new cluster works and is restarted.
like(ready($new), qr/^not yet; .*1 life that waits for idem_take_over\(\), completions of before pg_upgrade/, 'it is not ready for another upgrade');
$new->restart;
is(complete($new, 'while it is forgotten'), '', 'if the take-over is forgotten new keys work');
settled($new);
is(outcome($new, $_), 'in_progress', "if the take-over is forgotten $_ stays in progress") foreach 'committed', 'aborted';
wait_until('after a restart the old life waits as before', sub { state_of($new, $life) eq 'waits for idem_take_over()' });

# ----- pg_dump ------------------------------------------------------------------------

sql_of($new, 'CREATE DATABASE restored');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
command_ok([ 'pg_dump', '-f', $dump, '-d', $new->connstr('postgres') ], 'pg_dump');
$new->psql('restored', undef, extra_params => [ '-f', $dump ]);
is(sql_of($new, 'SELECT count(*) FROM work', 'restored'), '5', 'a dump has the data');
is(sql_of($new, "SELECT count(*) FROM exactonce_internal.outbox", 'restored'), '0', 'and no row of the outbox');
is(sql_of($new, 'SELECT count(*) FROM exactonce_internal.lives l JOIN pg_database d ON d.oid = l.dboid'
	  . ' WHERE d.datname <> current_database()', 'restored'), '0', 'and no life');
is(outcome($new, 'committed', 'restored'), 'in_progress', 'a restored database says nothing about a key');

# ----- the operator -------------------------------------------------------------------

fault(key => $_, to => 'COMPLETED', do => 'hold', times => 0) foreach 'committed', 'of the twin';
# The cluster crashes before the rows are its own.
my $lock = start_script($new, 'BEGIN; LOCK TABLE exactonce_internal.outbox IN SHARE ROW EXCLUSIVE MODE;' . "\n"
	  . say_in_script('locked') . halt_until('crashed'));
await_word('locked');
my $operator = start_script($new, "SELECT idem_take_over('$life');\n");
wait_until('the worker waits for the outbox',
	sub { sql_of($new, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'exactonce_internal.outbox'::regclass") ne '0' });
crash($new);
go_on('crashed');
finish_script($lock);
isnt(finish_script($operator), "t\n", 'an operator is not told that it is done before it is');
$new->start;
like(sql_of($new, "SELECT idem_take_over('$life')"), qr/^[tf]$/, 'an operator takes over');
is(complete($new, 'after the crash'), '', 'after a crash new keys work');
wait_until('its rows are those of this database now', sub { count_requests(key => 'committed', to => 'COMPLETED') > 0 });
isnt(sql_of($new, "SELECT oid FROM pg_foreign_server WHERE srvname = 'exactonce'"), $server, 'servers have other OIDs now');
is(sql_of($new, "SELECT server FROM exactonce_pending WHERE key = 'committed'"), 'exactonce', 'and the rows name the right ones');
is(sql_of($new, "SELECT server FROM exactonce_pending WHERE key = 'of the twin'"), 'z_twin', 'also if a superuser has one of the same address');
is(outcome($new, 'committed'), 'completed', 'to this database the key is completed');
reset_proxy();
await_status('what has committed is completed without a caller', $table, 'committed', 'COMPLETED');
await_status('what has not committed is given back without a caller', $table, 'aborted', 'FAILED');
is(outcome($new, 'aborted'), 'acquired', 'and can be claimed');
# Its data reaches the end of that life, which is now one of its own.
await_status("so it is in another table: $_", 'tap_upgrade2', $_, 'COMPLETED') foreach 'elsewhere', 'of the twin';
wait_until('no row is left', sub { sql_of($new, 'SELECT count(*) FROM exactonce_internal.outbox') eq '0' });
is(sql_of($new, "SELECT idem_take_over('$life')"), 'f', 'a life is taken over once');
is(sql_of($new, 'SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt');
is(sql_of($new, q(SELECT count(*) FROM idem_audit() WHERE finding = 'not judged')), '0', 'every key is judged');

# ----- a copy and its original were upgraded together -----------------------------------

$new->append_conf('postgresql.conf', "exactonce.takeover = always\n");
$new->restart;
is(complete($new, "of the upgraded $_", $_), '', "upgraded, the $_ works") foreach 'original', 'copy';
like(refusal($new, "SELECT idem_take_over('$first_of_original')", 'original'),
	qr/55000: life $first_of_original is not the last one before .*\n.*$left_by{original}/, 'only the last life is taken over');
is(sql_of($new, "SELECT idem_take_over('$left_by{copy}')", 'copy'), 't', 'an operator takes over what the copy has left');
await_status('and it is settled', $table, 'left by the copy', 'COMPLETED');
wait_until('its lives are of the history of the copy', sub { refusal($new, "SELECT idem_take_over('$first_of_original')", 'copy') =~ /55006/ });
like(refusal($new, "SELECT idem_take_over('$first_of_original')", 'copy'), qr/is one of database "original"/, 'those of the original are not');
like(refusal($new, "SELECT idem_take_over('$left_by{original}')", 'copy'), qr/22023: life $left_by{original} is none of this database/,
	'nor is what it has gone on with a branch of it');
is(outcome($new, 'left by the original', 'copy'), 'in_progress', 'the copy leaves the key of the original alone');
is(status_of($table, 'left by the original'), 'COMMITTING', 'whatever exactonce.takeover says');
is(sql_of($new, "SELECT idem_take_over('$left_by{original}')", 'original'), 't', 'the original takes over from itself');
await_status('and completes its key', $table, 'left by the original', 'COMPLETED');
$new->stop;
done_testing();
