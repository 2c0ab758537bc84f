# A primary is suspended for longer than its lease, while it has prepared transactions.  Its
# standby is promoted and has them, too.  Then the old primary goes on, and has not heard of
# its heir yet: what the heir may still commit it must not give back, and it commits nothing.
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
max_connections = 30
max_prepared_transactions = 20
CONF

my $table = 'tap_split';
my $old = new_node('split', conf => $conf, options => { clock_skew => 0 });
$old->append_conf('pg_hba.conf', "local replication all trust");
$old->reload;
$old->safe_psql('postgres', 'CREATE TABLE work (key text PRIMARY KEY)');
$old->backup('base');
my $heir = PostgreSQL::Test::Cluster->new('split_standby');
$heir->init_from_backup($old, 'base', has_streaming => 1);
$heir->start;

# Statements that end a prepared transaction in a session that was there before.
my @runs;

sub about_to
{
	my ($name, $statement) = @_;
	push @runs, start_script($old, "SELECT 1;\n" . say_in_script("in $name") . halt_until("go $name") . "$statement;\n"
		  . say_in_script("done $name"), undef, together => 1);
	await_word("in $name");
	return;
}

my @lost = map { "lost$_" } 1 .. 4;
foreach my $name ('back', 'here', 'done', @lost)
{
	$old->safe_psql('postgres', "SELECT action_create('{}', id => '$name');\nBEGIN;\nINSERT INTO work VALUES ('$name');\nSELECT idem_acquire('$name', lease => '1 hour');\n"
		  . "SELECT idem_complete('$name', '1');\nSELECT action_consume('$name', at => 'commit');\nPREPARE TRANSACTION '$name';\n");
}
my $life = $old->safe_psql('postgres', "SELECT life FROM exactonce_lives WHERE state = 'open'");
$old->wait_for_catchup($heir);
about_to($_, "ROLLBACK PREPARED '$_'") foreach qw(back here);
about_to($_, "COMMIT PREPARED '$_'") foreach @lost, 'done';
my @pids = freeze($old);
$heir->promote;
wait_until('the life of the old primary is retired', sub { (item($table, "ORIGIN#$life") // {})->{state} eq 'retired' });
is($heir->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 7, 'the heir has the prepared transactions');

# It goes on, and none of its beats is refused yet.
fault(key => "ORIGIN#$life", do => 'drop', times => 0);
kill 'CONT', @pids;
foreach my $name (qw(back here))
{
	go_on("go $name");
	await_word("done $name");
}
my ($out, $err);
$old->psql('postgres', "SELECT outcome FROM idem_acquire('here')", stdout => \$out, stderr => \$err);
isnt($out, 'acquired', 'a session of the old primary does not get a key that was rolled back there');
foreach my $how ('', ", at => 'commit'")
{
	$old->psql('postgres', "SELECT outcome FROM action_consume('here'$how)", stdout => \$out, stderr => \$err);
	isnt($out, 'consumed', "nor does it consume the action that was rolled back there$how");
}
go_on('go done');
await_word('done done');
foreach my $call ("('here', 'failed')", "('done', 'completed')")
{
	foreach my $function ('idem_resolve', 'action_resolve')
	{
		$old->psql('postgres', "SELECT $function$call", stdout => \$out, stderr => \$err);
		is($out, '', "nor does an operator of the old primary decide: $function$call");
	}
}
go_on("go $_") foreach @lost;
wait_until('COMMIT PREPARED waits for what is found out', sub { $old->safe_psql('postgres',
	"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COMMIT PREPARED%' AND state = 'active'") > 0 });
is(status_of($table, $_) . ' ' . action_status($table, $_), 'COMMITTING sealed', "the old primary does not settle \"$_\"") foreach qw(back here done);
end_fault("ORIGIN#$life");
$old->psql('postgres', "SELECT idem_resolve('here', 'failed')", stdout => \$out, stderr => \$err);
like($err, qr/is being committed under another life/, 'an operator is told when the heir is known');
finish_script($_) foreach splice @runs, 0, 2;
foreach my $name (@lost)
{
	like(finish_script(shift @runs), qr/ID002/, "COMMIT PREPARED '$name' is refused when the heir becomes known");
}
unlike(finish_script(shift @runs), qr/ERROR/, 'one was committed there before');
is($old->safe_psql('postgres', 'SELECT string_agg(key, \',\') FROM work'), 'done', 'nothing else is done on the old primary');
wait_until('the old primary has begun another life',
	sub { $old->safe_psql('postgres', "SELECT count(*) FROM exactonce_lives WHERE state = 'open' AND life <> '$life'") > 0 });
foreach my $name (qw(back here))
{
	is(status_of($table, $name) . ' ' . action_status($table, $name), 'COMMITTING sealed', "key and action \"$name\" are still COMMITTING");
	is($heir->safe_psql('postgres', "SELECT outcome FROM idem_acquire('$name', on_commit => 'keep')"),
		'in_progress', "the heir: nobody gets key \"$name\"");
	$heir->safe_psql('postgres', "COMMIT PREPARED '$name'");
	wait_until("the heir completes key \"$name\"", sub { status_of($table, $name) eq 'COMPLETED' });
	wait_until("the heir consumes action \"$name\"", sub { action_status($table, $name) eq 'used' });
}
is($heir->safe_psql('postgres', 'SELECT count(*) FROM work'), 2, 'their work is done once');
$heir->safe_psql('postgres', "ROLLBACK PREPARED '$_'") foreach @lost;
$heir->safe_psql('postgres', "ROLLBACK PREPARED 'done'");
wait_until('the heir gives back the key of a transaction that it rolls back', sub { status_of($table, 'done') eq 'FAILED' });
# What the heir has settled is no claim of the old primary any more.
foreach my $name (qw(back here))
{
	wait_until("the old primary is told that key \"$name\" is completed", sub {
		$old->safe_psql('postgres', "SELECT outcome FROM idem_acquire('$name', on_commit => 'keep')") eq 'completed' });
}
wait_until('the old primary has no claim of them any more', sub {
	$old->safe_psql('postgres', "SELECT count(*) FROM exactonce_claims WHERE key IN ('back', 'here')") eq '0' });
$old->stop('immediate');
settled($heir);
$heir->stop;
done_testing();
