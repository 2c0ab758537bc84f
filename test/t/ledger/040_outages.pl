# The lease of a life under outages: the worker is stopped, DynamoDB is away, an item or
# a table is removed or belongs to somebody else, and clocks are wrong.  Transactions fail
# or commit, and in the end each key is done once.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use JSON::PP;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# On an idle machine, a beat every half a second; a lease of 2 s; a silent life is retired after 3 s.
my $divisor = hurry(10, 5);
my $hurry = "exactonce.test_hurry = $divisor\n";
my $over = 25 / $divisor . ' s';
my ($table, $other) = ('tap_outages', 'tap_outages2');
my $node = new_node('outages', conf => $hurry, options => { request_timeout => '1s', commit_timeout => '2s' });
sql_of($node, 'CREATE TABLE work (key text); ' . server_sql('other', table => $other, request_timeout => '1s', commit_timeout => '2s'));
sql_of($node, "SELECT idem_create_table('other')");
my $foreign = '11111111-2222-4333-8444-555555555555';

# No request of any kind arrives.
sub cut_off
{
	fault(do => 'drop', times => 0);
	fault(key => 'ORIGIN#', do => 'drop', times => 0);
	return;
}

# Does work and completes a key in each of the two tables, in one transaction.
sub complete_both
{
	my ($key) = @_;
	return errors_of($node, "BEGIN; INSERT INTO work VALUES ('$key'); SELECT idem_once('$key');"
		  . " SELECT idem_once('$key', server => 'other'); COMMIT");
}

sub await_status
{
	my ($what, $in, $key, $status) = @_;
	return wait_until($what, sub { status_of($in, $key) eq $status });
}

# Waits until the database works under another life, and returns it.
sub await_other_life
{
	my ($what, $life) = @_;
	my $n = 0;
	wait_until("$what: the database begins another life", sub {
		complete($node, "$what " . ++$n) eq '' && life_of($node) !~ /^(?:$life)?$/ });
	return life_of($node);
}

# ----- the worker is stopped ---------------------------------------------------------

is(complete($node, 'first'), '', 'a key is completed');
settled($node);
my $life = life_of($node);
my $worker = sql_of($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
my $open = start_open($node, 'open');
kill 'STOP', $worker;
lease_runs_out($node, 'the worker is stopped, and the lease runs out', $over);
go_on('open');
is(finish_script($open) =~ /ERROR/, '', 'a transaction that was open extends it, and commits');
is(sql_of($node, "SELECT outcome FROM idem_acquire('open')"), 'completed', 'open: completed for this database');
is(status_of($table, 'open'), 'COMMITTING', 'open: in progress for others');
kill 'CONT', $worker;
await_status('the worker goes on: completed for everybody: open', $table, 'open', 'COMPLETED');
kill 'STOP', $worker;
lease_runs_out($node, 'the worker is stopped again, and the lease runs out', $over);
is(complete($node, 'meanwhile'), '', 'another transaction extends it, and commits');
is(errors_of($node, "BEGIN; INSERT INTO work VALUES ('given back'); SELECT idem_acquire('given back'); ROLLBACK"), '',
	'one rolls back');
is(sql_of($node, "SELECT outcome FROM idem_acquire('meanwhile')"), 'completed', 'meanwhile: completed for this database');
is(status_of($table, 'meanwhile'), 'COMMITTING', 'meanwhile: in progress for others');
kill 'CONT', $worker;
await_status('the worker goes on: completed for everybody: meanwhile', $table, 'meanwhile', 'COMPLETED');
await_status('the worker goes on: what was rolled back is given back', $table, 'given back', 'FAILED');
my $beat = life_item($table, $life)->{beat};
wait_until('the worker goes on, and so does the life', sub { life_item($table, $life)->{beat} > $beat + 1 });
is(life_of($node), $life, 'it is the same life');
is(worked($node, $_), 1, "$_: done once") foreach 'open', 'meanwhile';

# An heir has come meanwhile.
$open = start_open($node, 'inherited');
kill 'STOP', $worker;
change_life_item($table, $life, state => 'retired', retired_by => $foreign);
lease_runs_out($node, 'the worker is stopped, and the life retired', $over);
go_on('inherited');
my $said = finish_script($open);
like($said, qr/ERROR:  ID006: .*the life of this database under which it was completed is over/,
	'a transaction that was open cannot commit');
is(worked($node, 'inherited'), 0, 'its work is not done');
kill 'CONT', $worker;
await_other_life('the worker goes on', $life);
is(life_item($table, $life)->{retired_by}, $foreign, 'the life of before is left to its heir');
await_status('the claim of a transaction that has rolled back is given back', $table, 'inherited', 'FAILED');
reset_proxy();

# ----- DynamoDB is away ---------------------------------------------------------------

$life = life_of($node);
my %open = map { $_ => start_open($node, $_) } 'one', 'two';
$open{once} = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('once');\nSELECT idem_once('once');\n"
	  . say_in_script('has once') . halt_until('once') . "COMMIT;\n");
await_word('has once');
cut_off();
lease_runs_out($node, 'DynamoDB is away, and the lease runs out', $over);
foreach my $key (sort keys %open)
{
	go_on($key);
	like(finish_script($open{$key}), qr/ERROR:  ID006/, "DynamoDB is away: the transaction of $key cannot commit");
	is(worked($node, $key), 0, "DynamoDB is away: $key is not done");
}
is(errors_of($node, "BEGIN; INSERT INTO work VALUES ('without a key'); COMMIT"), '', 'DynamoDB is away: others commit');
like(complete($node, 'new'), qr/ERROR:  ID006/, 'DynamoDB is away: no new key is claimed');
reset_proxy();
foreach my $key (sort keys %open)
{
	wait_until("DynamoDB is back: $key can be done", sub { complete($node, $key) eq '' });
	is(worked($node, $key), 1, "DynamoDB is back: $key is done once");
}
is(life_of($node), $life, 'DynamoDB is back: nobody has inherited, so it is the same life');
settled($node);

# ----- an item is removed while work is under way ------------------------------------------

fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, 'pending'), '', 'a key is pending');
my $token = sql_of($node, "SELECT token FROM idem_acquire('kept', lease => '1 hour', on_commit => 'keep')");
$open = start_open($node, 'cut short');
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } } });
end_fault('');
my $next = await_other_life('the item was removed', $life);
go_on('cut short');
like(finish_script($open), qr/ERROR:  ID006: .*the life of this database under which it was completed is over/,
	'the item was removed: a transaction that was open cannot commit');
reset_proxy();
await_status('the item was removed: a key that was pending is completed', $table, 'pending', 'COMPLETED');
await_status('the item was removed: the key of the transaction is given back', $table, 'cut short', 'FAILED');
is(complete($node, 'cut short'), '', 'the item was removed: it can be done again');
is(worked($node, 'cut short'), 1, 'the item was removed: it is done once');
is(errors_of($node, "SELECT idem_complete('kept', token => '$token')"), '', 'the item was removed: a kept claim is completed');
settled($node);
like(record($table, 'kept')->{origin}, qr{^$next/}, 'the item was removed: under the new life');
is(status_of($table, 'kept'), 'COMPLETED', 'the item was removed: it is completed');

# ----- two tables of one life ---------------------------------------------------------------

is(complete_both('both'), '', 'a transaction completes a key in each of two tables');
settled($node);
$life = life_of($node);
is(life_item($other, $life)->{state}, 'open', 'the life has an item in both');
isnt(life_item($_, $life)->{home}, life_item($_ eq $table ? $other : $table, $life)->{home}, "one of them is home: $_") foreach $table;

# One item is lost.
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete_both('one lost'), '', 'keys are pending in both tables');
dynamodb(DeleteItem => { TableName => $other, Key => { pk => { S => "ORIGIN#$life" } } });
await_other_life('one item was removed', $life);
reset_proxy();
await_status("one item was removed: completed in $_", $_, 'one lost', 'COMPLETED') foreach $table, $other;
wait_until("one item was removed: the life is retired in $_", sub { (life_item($_, $life)->{state} // '') eq 'retired' })
  foreach $table, $other;

# Somebody else has retired the life in one table.
is(complete_both('both again'), '', 'the next life uses both tables');
settled($node);
$life = life_of($node);
is(life_item($table, $life)->{home}, $table, 'its home is the first one');
# The finishing is refused and not lost: what is sent again by itself, after a request was lost,
# could still arrive under the life of before.
fault(to => 'COMPLETED', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
is(complete_both('half retired'), '', 'keys are pending in both tables again');
change_life_item($other, $life, state => 'retired', retired_by => $foreign);
await_other_life('retired in one table', $life);
reset_proxy();
await_status('retired in one table: the other one is settled here', $table, 'half retired', 'COMPLETED');
wait_until('retired in one table: an operator is told that it has another heir', sub { sql_of($node, <<"SQL") eq 't' });
SELECT bool_or(state = 'has another heir') FROM exactonce_lives WHERE life = '$life' AND dynamodb_table = '$other'
SQL
is(status_of($other, 'half retired'), 'COMMITTING', 'retired in one table: its key is left alone');
is(sql_of($node, "SELECT count(*) FROM exactonce_pending WHERE key = 'half retired' AND dynamodb_table = '$other'"), 1,
	'retired in one table: and is pending');
is(complete_both('after that'), '', 'retired in one table: both are used under the next life');
is(sql_of($node, "SELECT idem_take_over('$life', 'other')"), 't', 'retired in one table: an operator takes it over');
await_status('retired in one table: then the key is completed', $other, 'half retired', 'COMPLETED');
settled($node);

# A table is deleted, and made anew.
$life = life_of($node);
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete_both('of the old table'), '', 'keys are pending in both tables once more');
my $log = -s $node->logfile;
dynamodb(DeleteTable => { TableName => $other });
reset_proxy();
await_status('a table is gone: the other one is settled', $table, 'of the old table', 'COMPLETED');
is(complete($node, 'beside'), '', 'a table is gone: the other one is used');
like(errors_of($node, "SELECT idem_once('nowhere', server => 'other')"), qr/ERROR:  ID007: .*no such table/,
	'a table is gone: the error says so');
wait_until('a table is gone: the log says so',
	sub { slurp_file($node->logfile, $log) =~ /WARNING:  exactonce: table "$other" of server "other" cannot be written/ });
is(life_of($node), $life, 'a table is gone: the life goes on');
lease_runs_out($node, 'a table is gone: the lease runs out there', $over);
sql_of($node, "SELECT idem_create_table('other')");
wait_until('a table is made anew: it is used', sub { complete_both('of the new table ' . rand()) eq '' });
isnt(life_of($node), $life, 'a table is made anew: under another life, because the item was lost');
wait_until('a table is made anew: the log says that what it had cannot be completed', sub {
	slurp_file($node->logfile, $log) =~ /cannot be marked completed, although its transaction committed/ });
is(sql_of($node, "SELECT count(*) FROM exactonce_pending WHERE key = 'of the old table' AND dynamodb_table = '$other'"), 1,
	'a table is made anew: that is pending');
is(sql_of($node, "SELECT idem_resolve('of the old table', 'completed', server => 'other')"), 't',
	'a table is made anew: an operator gives it up');
settled($node);
stop_without_crash($node);

# ----- clocks that are wrong by six minutes ---------------------------------------------------

$table = 'tap_late';
$node = new_node('late', conf => "$hurry" . "wal_level = replica\nmax_wal_senders = 5\nmax_connections = 20\n");
$node->append_conf('pg_hba.conf', 'local replication all trust');
sql_of($node, 'CREATE TABLE work (key text)');
my $shim = $node->basedir . '/wrong_clock.so';
system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim, "$FindBin::Bin/../../harness/wrong_clock.c");

# Sets the clock of a server; it is read by all its processes at any time.
sub set_clock
{
	my ($of, $seconds) = @_;
	my $setting = $of->basedir . '/wrong_clock';
	open my $out, -e $setting ? '+<' : '>', $setting or die "$setting: $!";
	syswrite $out, pack('q', $seconds * 1_000_000) or die "$setting: $!";
	close $out;
	return;
}

sub start_with_clock
{
	my ($of, $seconds) = @_;
	set_clock($of, $seconds);
	local %ENV = (%ENV, LD_PRELOAD => $shim, WRONG_CLOCK => $of->basedir . '/wrong_clock');
	$of->start;
	return;
}

# DynamoDB refuses signatures of another time; the engine does not.
sub refuse_wrong_signatures
{
	fault(do => 'date', seconds => 0, strict => JSON::PP::true, times => 0, key => $_) foreach 'ORIGIN#', '';
	return;
}

sub is_on_time
{
	my ($what, $ms) = @_;
	return cmp_ok(abs($ms / 1000 - time()), '<', min(300, paced(60)), $what);
}

$node->stop;
refuse_wrong_signatures();
start_with_clock($node, -360);
is(complete($node, 'late'), '', 'six minutes behind: a key is completed');
await_status('six minutes behind: for everybody', $table, 'late', 'COMPLETED');
$life = life_of($node);
$beat = life_item($table, $life)->{beat};
wait_until('six minutes behind: the life goes on', sub { life_item($table, $life)->{beat} > $beat + 3 });
is_on_time("six minutes behind: its item has the service's time: $_", life_item($table, $life)->{$_}) foreach 'created_ms', 'updated_ms';
lease_runs_out($node, 'six minutes behind: the view shows a young lease', '-1 s');

# A copy is ahead, beside its original.
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('early');
$copy->init_from_backup($node, 'copy');
$copy->append_conf('postgresql.conf', 'exactonce.takeover = always');
start_with_clock($copy, 360);
is(complete($copy, 'of the copy'), '', 'a copy six minutes ahead works');
wait_until('it sees that the original is alive', sub { sql_of($copy, <<"SQL") eq 't' });
SELECT bool_or(state = 'alive') FROM exactonce_lives WHERE life = '$life'
SQL
$beat = life_item($table, $life)->{beat};
set_clock($copy, -360);
set_clock($node, 360);
wait_until('the clocks are set while both run, and the life of the original goes on for longer than a lease',
	sub { life_item($table, $life)->{beat} > $beat + 10 });
is(life_item($table, $life)->{state}, 'open', 'the copy has left it alone');
is(complete($node, 'after the jump'), '', 'the original completes a key');
is(life_of($node), $life, 'under the same life');
my $life_of_copy = life_of($copy);
is(complete($copy, 'of the copy, after the jump'), '', 'the copy completes a key');
is(life_of($copy), $life_of_copy, 'under the same life, too');

# The original is killed with a key that is pending, and so is the copy.
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($copy, 'left by the copy'), '', 'a key is pending in the copy');
crash($copy);
reset_proxy();
refuse_wrong_signatures();
start_with_clock($copy, 360);
await_status('killed and started with another clock: the copy completes it', $table, 'left by the copy', 'COMPLETED');

# Under load a life may have been given up meanwhile, and another one have sealed.
wait_until('its life of before is retired', sub { life_item($table, $life_of_copy)->{state} eq 'retired' });
is(life_item($table, $life)->{state}, 'open', 'and that of the original is not');
crash($node);
wait_until('the original is killed: the copy inherits once it was silent', sub { life_item($table, $life)->{state} eq 'retired' });
is_on_time("at the service's time", life_item($table, $life)->{updated_ms});
$copy->stop;
unlike(slurp_file($copy->logfile), qr/PANIC|TRAP/, 'no process of the copy has crashed');
done_testing();
