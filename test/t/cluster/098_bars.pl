# What the tables of tenants cost those of others: a life for which there is a budget, and nothing
# more.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = $ENV{EO_RETIREMENTS} // 8;
my $table = 'tap_bars';
my $node = new_node('bars', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\n"
	  . "wal_level = replica\nmax_wal_senders = 5\nmax_connections = 30\n");
sql_of($node, <<'SQL');
CREATE TABLE work (key text);
CREATE ROLE tenant LOGIN;
CREATE ROLE app LOGIN;
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant;
GRANT USAGE ON FOREIGN SERVER exactonce TO app;
CREATE DATABASE second;
SQL
sql_of($node, "SET SESSION AUTHORIZATION tenant; " . server_sql('his', table => $table, key_prefix => 'his/'));
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, key_prefix => 'second/'), 'second');

sub state_at_his
{
	my ($life) = @_;
	return sql_of($node, "SELECT state FROM exactonce_lives WHERE life = '$life' AND key_prefix = 'his/'");
}

sub claim_his
{
	my ($key) = @_;
	return errors_of($node, "SET SESSION AUTHORIZATION tenant; SELECT idem_once('$key', server => 'his')");
}

# He says in his item that the current life has another heir.
sub retire_his
{
	my $life = life_of($node);
	change_life_item($table, "his/$life", state => 'retired', retired_by => sql_of($node, 'SELECT gen_random_uuid()'));
	wait_until('it is barred', sub { state_at_his($life) eq 'barred' });
	return $life;
}

# A session keeps a claim, so nothing more is waited for.
sub finished
{
	wait_until('no completion is pending', sub { sql_of($node, 'SELECT count(*) FROM exactonce_pending') eq '0' });
	return;
}

sub check_lives
{
	return sql_of($node, q{SELECT status || ': ' || detail FROM idem_check() WHERE "check" = 'lives'});
}

# ----- past the last callback ------------------------------------------------------------

my $busy = start_script($node, "SELECT outcome FROM idem_acquire('busy', on_commit => 'session');\n" . say_in_script('busy') . halt_until('idle'));
await_word('busy');
is(claim_his('first'), '', 'a table of a tenant, beside that of a superuser');
finished();
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
$node->reload;
my $across = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('past');\nSELECT idem_once('past');\n"
	  . "SELECT idem_once('past', server => 'his');\nCOMMIT;\n");
wait_until('a transaction across both has passed its last callback',
	sub { sql_of($node, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'") eq '1' });
my $life = retire_his();
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$node->reload;
unlike(finish_script($across), qr/ERROR/, 'it commits, although the life is barred in the second table');
is(worked($node, 'past'), 1, 'its work is done');
wait_until('its key in the first table is completed', sub { status_of($table, 'past') eq 'COMPLETED' });
is(status_of($table, 'his/past'), 'COMMITTING', 'that in the second is left as it is');
is(sql_of($node, "SELECT barred_why LIKE 'retired by life %' AND barred_since < now() FROM exactonce_lives WHERE life = '$life' AND state = 'barred'"),
	't', 'who has retired the life is shown');
is(check_lives(), 'warning: the life is barred in 1 tables of tenants', 'and that it is barred');
like(errors_of($node, "SELECT idem_take_over('$life', 'his')"), qr/55000: life $life on server "his" is the current one of this database, and is barred there/,
	'the current life is not to be taken over');
is(claim_his('next'), '', 'the next claim there begins another life');
isnt(life_of($node), $life, 'which has the table back');
is(sql_of($node, "SELECT idem_take_over('$life', 'his')"), 't', 'an operator has it inherit what is left there');
wait_until('and the key is completed', sub { status_of($table, 'his/past') eq 'COMPLETED' });

# ----- many retirements ------------------------------------------------------------------

sub many_keys
{
	my ($name) = @_;
	return "SELECT format('SELECT idem_once(%L)', '$name ' || i) FROM generate_series(1, 20) i \\gexec\n";
}

sql_of($node, "SELECT idem_lift('his')");
my %refused = ('' => 0);
my %errors = (second => '', app => '');
my $lifted = 0;
foreach my $round (1 .. $rounds)
{
	my %others = (
		second => start_script($node, many_keys("second $round"), 'second'),
		app => start_script($node, "SET SESSION AUTHORIZATION app;\n" . many_keys("app $round")));
	my $errors = claim_his("his $round");
	if ($errors =~ /55000: table "$table" of server "his" is barred/)
	{
		is(sql_of($node, "SELECT idem_lift('his')"), 't', "round $round: an operator grants him five lives more");
		$lifted++;
		$errors = claim_his("his $round");
	}
	is($errors, '', "round $round: the tenant has the table back");
	wait_until("round $round: his key is completed", sub { status_of($table, "his/his $round") eq 'COMPLETED' });
	retire_his();
	$errors{$_} .= finish_script($others{$_}) foreach keys %others;
}
is($lifted, int(($rounds - 1) / 6), 'after each five lives he is refused');
unlike($errors{second}, qr/ERROR/, 'another database has not seen anything of that');
is(join('', grep { !/ ID006: / } $errors{app} =~ /ERROR:.*/g), '', 'another role has lost some commits, and nothing else');
wait_until('the lives are forgotten',
	sub { sql_of($node, "SELECT taken FROM exactonce_room WHERE room = 'lives' AND database = current_database()") eq '1' });

# ----- dropping it -----------------------------------------------------------------------

sql_of($node, 'DROP OWNED BY tenant CASCADE; DROP ROLE tenant');
go_on('idle');
finish_script($busy);
settled($node);
$node->restart;
sql_of($node, "SELECT idem_once('after the restart')");
sql_of($node, "ALTER SERVER exactonce OPTIONS (ADD home 'false')");
is(check_lives(), "warning: every server is a tenant's, so no table is the home of a life", 'a database without a home');
is(sql_of($node, "SELECT count(*) FROM exactonce_lives WHERE key_prefix = 'his/'"), '0', 'once the role is dropped nothing remains');
stop_without_crash($node);

# ----- a user mapping of his own -----------------------------------------------------------

$table = 'tap_own';
$node = new_node('own', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\n");
my %account = (do => 'account', access_key => 'OWN', table => $table, there => 'tap_of_mallory', times => 0);
my %keys = (mapping => "access_key_id 'OWN', secret_access_key 'secret'");
fault(%account);
fault(%account, key => 'ORIGIN#');
sql_of($node, server_sql('there', table => $table, %keys));
sql_of($node, "SELECT idem_create_table('there'); DROP SERVER there CASCADE");
my $sent = count_requests(signer => 'OWN');
sql_of($node, "CREATE ROLE mallory LOGIN; GRANT USAGE ON FOREIGN SERVER exactonce TO mallory");

sub claim_as_mallory
{
	my ($key) = @_;
	return errors_of($node, "SET SESSION AUTHORIZATION mallory; SELECT idem_once('$key')");
}

# The role opens the life by the mapping of all, and has a claim when it makes its own.
my $held = start_script($node, "SET SESSION AUTHORIZATION mallory;\nBEGIN;\nSELECT idem_once('held');\n" . say_in_script('held') . halt_until('mapped') . "COMMIT;\n");
await_word('held');
sql_of($node, "SET SESSION AUTHORIZATION mallory; CREATE USER MAPPING FOR mallory SERVER exactonce OPTIONS ($keys{mapping})");
like(claim_as_mallory('his'), qr/42501: role "mallory" may not use a user mapping of its own for server "exactonce"/,
	'a mapping beside one for all is refused');
my $own = life_of($node);
my $beat = item($table, "ORIGIN#$own")->{beat};
wait_until('the life goes on', sub { item($table, "ORIGIN#$own")->{beat} > $beat + 5 });
go_on('mapped');
unlike(finish_script($held), qr/ERROR/, 'what he had claimed before is committed');
wait_until('and completed', sub { status_of($table, 'held') eq 'COMPLETED' });
is(errors_of($node, "SELECT idem_once('of others')"), '', 'others use the server');
is(count_requests(signer => 'OWN'), $sent, 'nothing goes to his account');
sql_of($node, "ALTER SERVER exactonce OPTIONS (ADD role_mappings 'true')");
is(claim_as_mallory('allowed'), '', 'unless the owner says that the accounts are one');
settled($node);
is(status_of('tap_of_mallory', 'allowed'), 'COMPLETED', 'whether that is true or not');
stop_without_crash($node);
done_testing();
