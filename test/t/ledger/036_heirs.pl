# The end of a life, and who may inherit it: an idle database, roles and tables that go
# away, an old copy, an old primary, a database that is dropped, an heir that is stopped.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $replication = "wal_level = replica\nmax_wal_senders = 5\nmax_connections = 20\n";

sub new_hurried
{
	my ($name, $most, %how) = @_;
	my $hurry = hurry($most);
	my $node = new_node($name, conf => "exactonce.test_hurry = $hurry\nlog_min_messages = log\n$replication", %how);
	$node->append_conf('pg_hba.conf', 'local replication all trust');
	$node->reload;
	return $node;
}

sub sql_of
{
	my ($of, $text, $database) = @_;
	return $of->safe_psql($database // 'postgres', $text);
}

sub life_of
{
	my ($of, $database) = @_;
	return sql_of($of, "SELECT life FROM exactonce_lives WHERE state = 'open' LIMIT 1", $database);
}

sub state_in
{
	my ($table, $life) = @_;
	return (item($table, "ORIGIN#$life") // {})->{state} // 'none';
}

# ----- an idle database ------------------------------------------------------------

my $node = new_hurried('idle', 40);
for my $round (1, 2)
{
	sql_of($node, "SELECT idem_once('$round')");
	my $life = life_of($node);
	wait_until("idle, round $round: the life is closed", sub { state_in('tap_idle', $life) eq 'closed' });
}

# The proxy may note the last request after its effect was seen.
wait_until('idle: no request is sent', sub {
	reset_proxy();
	usleep(2_000_000);
	return count_requests(key => 'ORIGIN#') == 0;
});

# A database that is dropped.
sql_of($node, 'CREATE DATABASE short');
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => 'tap_idle') . "SELECT idem_once('short')", 'short');
settled($node, 'short');
(my $id = life_of($node, 'short')) =~ s/-//g;
my $in_file = sub { index(slurp_file($node->data_dir . '/exactonce_claims'), pack('H*', $id)) >= 0 };
ok($in_file->(), 'the life of a database is in the claim file');
sql_of($node, 'DROP DATABASE short');
$node->restart;
$node->restart;
wait_until('once the database is dropped it is not', sub { !$in_file->() });
stop_without_crash($node);

# ----- roles and tables that go away --------------------------------------------------

$node = new_hurried('gone', 5);
sql_of($node, <<"SQL");
CREATE ROLE first LOGIN; CREATE ROLE second LOGIN;
GRANT USAGE ON FOREIGN SERVER exactonce TO first, second;
DROP USER MAPPING FOR PUBLIC SERVER exactonce;
CREATE USER MAPPING FOR first SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
CREATE USER MAPPING FOR second SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
SQL
$node->restart;
sql_of($node, "SET ROLE first; SELECT idem_once('of first')");
settled($node);
sql_of($node, 'DROP USER MAPPING FOR first SERVER exactonce');
my $life = life_of($node);
usleep(10_000_000 / hurry(5));    # the lease is too old for a seal
sql_of($node, "SET ROLE second; SELECT idem_once('of second')");
my $beat = item('tap_gone', "ORIGIN#$life")->{beat};
wait_until('the role that made contact lost its mapping: another role extends the life',
	sub { item('tap_gone', "ORIGIN#$life")->{beat} > $beat + 2 });

sql_of($node, server_sql('other', table => 'tap_gone2') . "SELECT idem_create_table('other')");
sql_of($node, "SELECT idem_once('there', server => 'other')");
settled($node);
fault(to => 'COMPLETED', do => 'drop', times => 0);
sql_of($node, "SELECT idem_once('left', server => 'other')");
crash($node);
reset_proxy();
dynamodb(DeleteTable => { TableName => 'tap_gone' });
$node->start;
is(sql_of($node, "SELECT outcome FROM idem_acquire('there', server => 'other')"), 'completed',
	'the home of a life is gone: keys elsewhere can be asked for');
is(status_of('tap_gone2', 'left'), 'COMMITTING', 'what the life has left there waits for an operator');
is(sql_of($node, "SELECT idem_take_over('$life', 'other')"), 't', 'who takes it over');
wait_until('then it is finished', sub { status_of('tap_gone2', 'left') eq 'COMPLETED' });
is(sql_of($node, "SELECT idem_take_over('$life', 'other')"), 'f', 'a life is taken over once');
my ($out, $err);

# The worker has looked at whatever it was asked to look at.
sub lives_shown
{
	my ($of, $id) = @_;
	foreach my $key (map { "$id $_" } 1 .. 3)
	{
		sql_of($of, "SELECT idem_once('$key', server => 'other')");
		settled($of);
	}
	return sql_of($of, "SELECT count(*) FROM exactonce_lives WHERE life = '$id'");
}

# A life that nobody knows, and one that a record names.
my ($nobody, $named) = map { sql_of($node, 'SELECT gen_random_uuid()') } 1, 2;
sql_of($node, server_sql('unused', table => 'tap_gone3') . "SELECT idem_create_table('unused')");
reset_proxy();
foreach my $server ('other', 'unused')
{
	$node->psql('postgres', "SELECT idem_take_over('$nobody', '$server')", stdout => \$out, stderr => \$err);
	like($err, qr/is none of this database/, "a life of others is not taken over: $server");
}
is(lives_shown($node, $nobody), '0', 'nothing is left of such a call');
is(count_requests(key => "ORIGIN#$nobody"), 2, 'each has asked for the life once');
is(count_requests(key => 'ORIGIN#' . life_of($node), table => 'tap_gone3'), 0, 'and has begun no lease in a table that is not used');
put_record('tap_gone2', 'named', status => 'COMMITTING', owner => $named, bind => 'tx', origin => "$named/5/1/0", fence => 1, runs => 1,
	created_ms => 1, updated_ms => 1);
is(sql_of($node, "SELECT outcome FROM idem_acquire('named', server => 'other')"), 'in_progress', 'a life of others that a record names');
$node->psql('postgres', "SELECT idem_resolve('named', 'failed', server => 'other')", stdout => \$out, stderr => \$err);
like($err, qr/is being committed under another life/, 'is not overruled without its name');
await_request(key => "ORIGIN#$named", n => 3);
is(lives_shown($node, $named), '0', 'and is none that this database lists');
$node->stop;

# ----- an old copy --------------------------------------------------------------------

$node = new_hurried('original', 20);
sql_of($node, server_sql('other', table => 'tap_original2') . "SELECT idem_create_table('other')");
sql_of($node, "SELECT idem_once('one')");
settled($node);
$life = life_of($node);
# While a session has a claim the database is not idle, however slow the machine is.
my $busy = start_script($node, "SELECT outcome FROM idem_acquire('busy', on_commit => 'session');\n" . say_in_script('busy') . halt_until('idle'));
await_word('busy');
$node->backup('old');
$beat = item('tap_original', "ORIGIN#$life")->{beat};
wait_until('the original goes on for long', sub { item('tap_original', "ORIGIN#$life")->{beat} > $beat + 30 });
my $copy = PostgreSQL::Test::Cluster->new('old_copy');
$copy->init_from_backup($node, 'old');
$copy->start;
sql_of($copy, "SELECT idem_once('of the copy'); SELECT idem_once('of the copy', server => 'other')");
usleep(60_000_000 / hurry(20));
is(state_in('tap_original', $life), 'open', 'an old copy leaves the life of the original alone');
is(state_in('tap_original2', $life), 'none', 'also in a table that the original has not used');
sql_of($node, "SELECT idem_once('two', server => 'other')");
is(sql_of($node, "SELECT string_agg(DISTINCT life::text, ' ') FROM exactonce_lives WHERE state = 'open'"), $life,
	'where the original goes on with it');
$out = '';
$copy->psql('postgres', "SELECT idem_take_over('$life')", stdout => \$out, stderr => \$err);
like($err, qr/goes on/, 'nobody can take over a life that is extended');
wait_until('idem_check() says that the original goes on', sub {
	sql_of($copy, q(SELECT status, detail, advice FROM idem_check() WHERE "check" = 'lives'))
	  =~ /^warning\|\d+ lives of this data are extended by another server\|.*If this is a copy/ });
$node->stop('immediate');
go_on('idle');
finish_script($busy);
wait_until('when the original is silent the old copy says so', sub {
	sql_of($copy, "SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND state LIKE 'waits%'") > 0 });
like(sql_of($copy, q(SELECT status, detail FROM idem_check() WHERE "check" = 'lives')),
	qr/^warning\|\d+ lives wait for idem_take_over/, 'and so does idem_check');
# What is completed is of no interest, whoever has completed it.
put_record('tap_original', 'of nobody', status => 'COMPLETED', owner => $nobody, origin => "$nobody/5/1/0", fence => 1, runs => 1,
	created_ms => 1, updated_ms => 1);
is(sql_of($copy, "SELECT idem_take_over('$life')"), 't', 'and an operator can have it take over');
wait_until('then the table is scanned', sub { slurp_file($copy->logfile) =~ /table "tap_original" was scanned/ });
is(lives_shown($copy, $nobody), '0', 'and a life that nobody knows is not looked after');
$copy->stop;

# ----- a life whose item was made unnoticed ------------------------------------------------

# The item is made when the life is older than near lets pass, and no reply says so.
$node = new_hurried('unnoticed', 20, options => { request_timeout => '1s', commit_timeout => '1s' });
fault(key => 'ORIGIN#', do => 'drop', times => 0);
like(run_script($node, "SELECT idem_once('refused');"), qr/ID006/, 'unnoticed: there is no lease without an item');
$life = sql_of($node, 'SELECT id FROM exactonce_internal.lives ORDER BY number DESC LIMIT 1');
usleep(160_000_000 / hurry(20));
end_fault('ORIGIN#');
fault(key => 'ORIGIN#', do => 'lose', times => 0);
like(run_script($node, "SELECT idem_once('refused');"), qr/ID006/, 'unnoticed: nor while its item is not known');
wait_until('unnoticed: there is an item', sub { state_in('tap_unnoticed', $life) eq 'open' });
cmp_ok(item('tap_unnoticed', "ORIGIN#$life")->{beat}, '>', 24, 'unnoticed: it is late');
crash($node);
reset_proxy();
$node->start;
sql_of($node, "SELECT idem_once('accepted')");
wait_until('unnoticed: the next run retires it by itself', sub { state_in('tap_unnoticed', $life) eq 'retired' });
$node->stop;

# ----- an heir that is shut down --------------------------------------------------------

$node = new_hurried('primary', 10);
sql_of($node, 'CREATE TABLE work (key text)');
$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('heir');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
sql_of($node, "SELECT idem_once('replicated')");
settled($node);
$node->wait_for_catchup($standby, 'replay');
$life = life_of($node);
$standby->stop;
fault(to => 'COMPLETED', do => 'drop', times => 0);
sql_of($node, "BEGIN; INSERT INTO work VALUES ('lost'); SELECT idem_once('lost'); COMMIT");
my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('held', lease => '1 h');\n"
	  . "SELECT outcome FROM idem_acquire('kept', lease => '1 h', on_commit => 'keep');\n"
	  . say_in_script('holds') . halt_until('never'));
await_word('holds');
crash($node);
go_on('never');
finish_script($run);
# Nobody meets the record of the lost commit, so that it stays as it is.
$standby->append_conf('postgresql.conf', 'exactonce.recovery_scan = 0');
$standby->start;
$standby->promote;
reset_proxy();
sql_of($standby, "SELECT idem_once('new')");
wait_until('the life of the old primary is retired', sub { state_in('tap_primary', $life) eq 'retired' });
wait_until('and the heir says so', sub {
	sql_of($standby, "SELECT state FROM exactonce_lives WHERE life = '$life' AND state <> 'over'") eq 'settled here' });
is(sql_of($standby, "SELECT outcome FROM idem_acquire('held', on_commit => 'keep')"), 'acquired',
	'a claim of a transaction ends with its life, and not with its lease');
is(sql_of($standby, "SELECT outcome FROM idem_acquire('kept')"), 'in_progress',
	'a claim that is not bound to a transaction lives on');
settled($standby);
my $heir = life_of($standby);
$standby->stop;
is(state_in('tap_primary', $heir), 'closed', 'the heir is shut down');
$node->start;
sql_of($node, "SELECT idem_once('beside')");
usleep(50_000_000 / hurry(10));
is(status_of('tap_primary', 'lost'), 'COMMITTING', 'the old primary does not inherit back');
is(item('tap_primary', "ORIGIN#$life")->{retired_by}, $heir, 'its life stays with the heir');
is(sql_of($node, "SELECT outcome FROM idem_acquire('lost')"), 'in_progress', 'nor does a session that meets the record');
is(status_of('tap_primary', 'lost'), 'COMMITTING', 'the record stays as it is');
is(sql_of($node, 'SELECT key FROM exactonce_pending'), 'lost', 'and the row of the commit is kept');
$node->stop;

# ----- an heir that is retired while it is stopped ------------------------------------------

# The less advanced standby is the first heir, and is stopped while it scans the table for
# what the primary has left.  The other one, which has the last commit, becomes the heir of both.
$node = new_hurried('stopped', 10, options => { request_timeout => '60s' });
sql_of($node, 'CREATE TABLE work (key text)');
$node->backup('base');
my ($first, $second) = map {
	my $of = PostgreSQL::Test::Cluster->new($_);
	$of->init_from_backup($node, 'base', has_streaming => 1);
	$of->start;
	$of;
} 'first_heir', 'second_heir';
$second->append_conf('postgresql.conf', 'exactonce.takeover = always');
sql_of($node, "SELECT idem_once('replicated')");
settled($node);
$node->wait_for_catchup($first, 'replay');
$first->stop;
fault(to => 'COMPLETED', do => 'drop', times => 0);
sql_of($node, "BEGIN; INSERT INTO work VALUES ('kept'); SELECT idem_once('kept'); COMMIT");
$node->wait_for_catchup($second, 'replay');
$life = life_of($node);
crash($node);
$second->stop;

fault(op => 'Scan', do => 'hold', times => 0);
$first->start;
$first->promote;
sql_of($first, "SELECT idem_once('of the first')");
await_request(op => 'Scan');
is(state_in('tap_stopped', $life), 'retired', 'the first heir has retired the life and is about to scan the table');
my $retired = item('tap_stopped', "ORIGIN#$life")->{retired_by};
my @stopped = freeze($first);
$second->start;
$second->promote;
sql_of($second, "SELECT idem_once('of the second')");
wait_until('the first heir is stopped: the second one retires it', sub { state_in('tap_stopped', $retired) eq 'retired' });
wait_until('and has inherited from it', sub {
	sql_of($second, "SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND state = 'settled here'") > 0 });
is(status_of('tap_stopped', 'kept'), 'COMMITTING', 'it has not finished the commit that the first heir lacks');
release_held();
kill 'CONT', @stopped;
wait_until('the first heir goes on: it says that the life has another heir', sub {
	sql_of($first, "SELECT string_agg(DISTINCT state, ' ') FROM exactonce_lives WHERE life = '$life'") eq 'has another heir' });
is(status_of('tap_stopped', 'kept'), 'COMMITTING', 'and it leaves alone what the life has left');
is(scalar(grep { $_->{to} eq 'FAILED' } requests(key => 'kept')), 0, 'it has tried nothing else');
is(sql_of($first, "SELECT outcome FROM idem_acquire('kept')"), 'in_progress', 'to its sessions the key is in progress');
reset_proxy();
wait_until('the second heir finishes the commit', sub { status_of('tap_stopped', 'kept') eq 'COMPLETED' });
$_->stop foreach $first, $second;
done_testing();
