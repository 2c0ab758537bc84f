# A standby is promoted between PREPARE TRANSACTION and its end.  The prepared transaction
# is on the new primary, too: until it is ended there its keys are in progress for everybody,
# COMMIT PREPARED completes them, ROLLBACK PREPARED gives them back.  The old primary, if it
# comes back, can only roll back.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = 'exactonce.test_hurry = ' . hurry(10) . <<'CONF';

log_min_messages = log
wal_level = replica
max_wal_senders = 5
hot_standby = on
max_connections = 20
max_prepared_transactions = 20
CONF

sub sql_of
{
	my ($of, $text) = @_;
	return $of->safe_psql('postgres', $text);
}

# The statements of a transaction that completes a key, and one by idem_once(), consumes an
# action, and is prepared.
sub prepare
{
	my ($of, $name) = @_;
	return sql_of($of, "SELECT action_create('{}', id => '$name');\nBEGIN;\nINSERT INTO work VALUES ('$name');\nSELECT idem_acquire('$name', lease => '1 hour');\n"
		  . "SELECT idem_complete('$name', '1');\nSELECT idem_once('$name/once', '1');\n"
		  . "SELECT action_consume('$name', at => 'commit');\nPREPARE TRANSACTION '$name';\n");
}

my $table;

sub outcome
{
	my ($of, $key) = @_;
	return sql_of($of, "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep')");
}

# Starts a primary and its standby.
sub start_pair
{
	my ($name) = @_;
	$table = "tap_$name";
	my $primary = new_node($name, conf => $conf, options => { clock_skew => 0 });
	$primary->append_conf('pg_hba.conf', "local replication all trust");
	$primary->reload;
	sql_of($primary, 'CREATE TABLE work (key text PRIMARY KEY)');
	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("${name}_standby");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	return ($primary, $standby);
}

sub are_in_progress
{
	my ($what, $of, @names) = @_;
	foreach my $key (map { $_, "$_/once" } @names)
	{
		is(status_of($table, $key), 'COMMITTING', "$what: key \"$key\" is COMMITTING for others");
		is(outcome($of, $key), 'in_progress', "$what: key \"$key\" is in progress here");
	}
	foreach my $id (@names)
	{
		is(action_status($table, $id), 'sealed', "$what: action \"$id\" is being committed for others");
		is(sql_of($of, "SELECT outcome FROM action_consume('$id')"), 'in_progress', "$what: action \"$id\" is in progress here");
	}
	return;
}

sub has_become
{
	my ($what, $of, $status, $name) = @_;
	foreach my $key ($name, "$name/once")
	{
		wait_until("$what: key \"$key\" becomes $status", sub { status_of($table, $key) eq $status });
	}
	my $of_action = $status eq 'COMPLETED' ? 'used' : 'open';
	wait_until("$what: action \"$name\" becomes $of_action", sub { action_status($table, $name) eq $of_action });
	is(sql_of($of, "SELECT count(*) FROM work WHERE key = '$name'"), $status eq 'COMPLETED' ? 1 : 0,
		"$what: its work is as it says");
	return;
}

# Waits until the keys of a transaction are marked.
sub await_marked
{
	my ($of, $name) = @_;
	foreach my $key ($name, "$name/once")
	{
		wait_until("key \"$key\" is COMPLETED by the old primary", sub { status_of($table, $key) eq 'COMPLETED' });
	}
	wait_until("action \"$name\" is consumed by the old primary", sub { action_status($table, $name) eq 'used' });
	return;
}

# Waits until the life of the old primary is retired by this server.
sub await_heir
{
	my ($what, $of, $life) = @_;
	return wait_until("$what: the life of the old primary is retired",
		sub { (item($table, "ORIGIN#$life") // {})->{state} eq 'retired' });
}

sub life_of
{
	my ($of) = @_;
	return sql_of($of, "SELECT life FROM exactonce_lives WHERE state = 'open'");
}

# ----- promoted after the PREPARE ------------------------------------------------------

my ($primary, $standby) = start_pair('handed');
prepare($primary, $_) foreach qw(early late lazy back told);
my $lost = prepare($primary, 'decided');
my $life = life_of($primary);
$primary->wait_for_catchup($standby);
# These are decided where the standby does not hear of it.
$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
$standby->restart;
sql_of($primary, "COMMIT PREPARED 'told'");
await_marked($primary, 'told');
fault(to => $_, do => 'drop', times => 0) foreach 'COMPLETED', 'finished';
sql_of($primary, "COMMIT PREPARED 'decided'");
prepare($primary, 'unknown');
crash($primary);
reset_proxy();
$standby->promote;

# As soon as it can: nothing is known of the old primary yet.
sql_of($standby, "COMMIT PREPARED 'early'");
are_in_progress('promoted', $standby, qw(late lazy back decided));
wait_until('promoted: exactonce_claims names the prepared transactions', sub {
	sql_of($standby, "SELECT string_agg(DISTINCT gid, ' ' ORDER BY gid) FROM exactonce_claims WHERE state = 'prepared'")
	  eq 'back decided late lazy told' });
await_heir('promoted', $standby, $life);
has_become('committed before its life was retired', $standby, 'COMPLETED', 'early');
has_become('never came to the new primary', $standby, 'FAILED', 'unknown');
are_in_progress('the life is retired', $standby, qw(late lazy back decided));
sql_of($standby, "COMMIT PREPARED 'late'");
is(outcome($standby, 'late'), 'completed', 'COMMIT PREPARED on the new primary: completed here at once');
has_become('COMMIT PREPARED on the new primary', $standby, 'COMPLETED', 'late');
sql_of($standby, "ROLLBACK PREPARED 'back'");
has_become('ROLLBACK PREPARED on the new primary', $standby, 'FAILED', 'back');
is(outcome($standby, 'back'), 'acquired', 'ROLLBACK PREPARED on the new primary: the key can be claimed');
# Its commit was lost with the old primary, and its transaction was not.
sql_of($standby, "COMMIT PREPARED 'decided'");
has_become('a commit that was lost is made again', $standby, 'COMPLETED', 'decided');

# So was this one, and its keys have been marked: an audit finds them.
is(sql_of($standby, "SELECT string_agg(finding || ' ' || key, ', ' ORDER BY key) FROM idem_audit()"),
	'prepared told, prepared told/once', 'a key is completed whose transaction is prepared: idem_audit() says so');
sql_of($standby, "COMMIT PREPARED 'told'");
is(sql_of($standby, "SELECT count(*) FROM work WHERE key = 'told'"), 1, 'it can be committed');

# Once more, by a restart of the new primary without its claim file.
crash($standby);
unlink $standby->data_dir . '/exactonce_claims';
$standby->start;
are_in_progress('killed, without the claim file', $standby, 'lazy');

# ----- the old primary comes back ---------------------------------------------------------

$primary->start;
my ($out, $err);
$primary->psql('postgres', "COMMIT PREPARED 'lazy'", stdout => \$out, stderr => \$err, extra_params => ['-v', 'VERBOSITY=verbose']);
like($err, qr/ERROR:  ID002: cannot commit prepared transaction "lazy"/, 'the old primary: COMMIT PREPARED is refused');
crash($primary);
unlink $primary->data_dir . '/exactonce_claims';
$primary->start;
$primary->psql('postgres', "COMMIT PREPARED 'lazy'", stdout => \$out, stderr => \$err, extra_params => ['-v', 'VERBOSITY=verbose']);
like($err, qr/ERROR:  ID002: cannot commit prepared transaction "lazy"/, 'the old primary, without its claim file: COMMIT PREPARED is refused');
is(sql_of($primary, "SELECT count(*) FROM work WHERE key = 'lazy'"), 0, 'the old primary: its work is not done');
sql_of($primary, "ROLLBACK PREPARED 'lazy'");
is(sql_of($primary, 'SELECT count(*) FROM pg_prepared_xacts WHERE gid = \'lazy\''), 0, 'the old primary: ROLLBACK PREPARED works');
are_in_progress('rolled back by the old primary', $standby, 'lazy');
sql_of($standby, "COMMIT PREPARED 'lazy'");
has_become('the new primary decides', $standby, 'COMPLETED', 'lazy');
$primary->stop;
settled($standby);
is(sql_of($standby, 'SELECT count(*) FROM exactonce_in_doubt'), 0, 'nothing is in doubt');
is(sql_of($standby, 'SELECT count(*) FROM idem_audit()'), 0, 'and an audit finds nothing')
  or diag(sql_of($standby, 'SELECT * FROM idem_audit()'));
$standby->stop;

# ----- the service does not answer ----------------------------------------------------------

($primary, $standby) = start_pair('silent');
prepare($primary, $_) foreach qw(committed back);
$primary->wait_for_catchup($standby);
crash($primary);
fault(do => 'drop', times => 0);
$standby->promote;
sql_of($standby, "COMMIT PREPARED 'committed'; ");
sql_of($standby, "ROLLBACK PREPARED 'back'");
is(sql_of($standby, 'SELECT string_agg(key, \' \') FROM work'), 'committed',
	'the service does not answer: prepared transactions can be ended');
reset_proxy();
has_become('the service answers again', $standby, 'COMPLETED', 'committed');
has_become('the service answers again', $standby, 'FAILED', 'back');
$standby->stop;
done_testing();
