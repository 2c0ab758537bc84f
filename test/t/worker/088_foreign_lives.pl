# Records that name lives which never were, and branches that somebody has made up: they are looked
# at a limited number of times, and a life of this data is shown and settled beside them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use List::Util qw(uniq);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# An operator decides what is taken over, so that nothing is before the test has seen it.
my $hurry = hurry(40);
my $node = new_node('foreign', conf => "exactonce.test_hurry = $hurry\nlog_min_messages = log\nexactonce.takeover = never\n");
my ($table, $other) = ('tap_foreign', 'tap_foreign2');
sql_of($node, server_sql('other', table => $other) . "SELECT idem_create_table('other')");

# Puts records that are sealed under lives: key => life.
sub seal_under
{
	my (%of) = @_;
	my @items = map { { PutRequest => { Item => { pk => { S => "IDEMPOTENCY#$_" }, status => { S => 'COMMITTING' }, owner => { S => $of{$_} },
		bind => { S => 'tx' }, origin => { S => "$of{$_}/5/1/0" }, fence => { N => '1' }, runs => { N => '1' },
		created_ms => { N => '1' }, updated_ms => { N => '1' } } } } } sort keys %of;
	dynamodb(BatchWriteItem => { RequestItems => { $table => [ splice @items, 0, 25 ] } }) while @items;
	return;
}

# How often lives of that kind were asked for, and how many of them.
sub asked_for
{
	my ($kind) = @_;
	my @keys = map { $_->{key} } requests(op => 'GetItem', key => "ORIGIN#$kind");
	return (scalar @keys, scalar uniq @keys);
}

# ----- lives that never were, and one that left something -------------------------------

my $n = 10_000;
my @nobody = map { sprintf 'fadefade-0000-4000-8000-%012x', $_ } 1 .. $n;
seal_under(map { ("of nobody $_" => $nobody[ $_ - 1 ]) } 1 .. $n);
# A life that is idle is closed: this one has no time for that.
sql_of($node, "SELECT idem_once('one')");
my $life = life_of($node);
fault(to => 'COMPLETED', do => 'drop', times => 0);
sql_of($node, "SELECT idem_once('left', server => 'other')");
crash($node);
reset_proxy();
unlink $node->data_dir . '/exactonce_claims' or die "exactonce_claims: $!";
$node->start;
sql_of($node, 'CREATE DATABASE bystander');
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $other, key_prefix => 'bystander/'), 'bystander');
sql_of($node, "SELECT idem_once('two')");
wait_until('a life that has ended unnoticed waits for an operator', sub {
	sql_of($node, "SELECT state FROM exactonce_lives WHERE life = '$life' AND dynamodb_table = '$table'") =~ /^waits for/ });
sql_of($node, "SELECT idem_take_over('$life')");
wait_until('the table is scanned for what it has left', sub { slurp_file($node->logfile) =~ /table "$table" was scanned/ });
wait_until('the lives that its records name are asked for', sub { (asked_for('fadefade'))[0] > 0 });
is(complete_thousand($node, 'bystander'), '', 'meanwhile another database completes a thousand keys');
cmp_ok((asked_for('fadefade'))[0], '<=', 2 * $n, "$n lives of nobody: none is looked at again and again");
reset_proxy();
usleep(20_000_000 / $hurry);
my ($requests, $lives) = asked_for('fadefade');
cmp_ok($lives, '<=', 32, "... and after the scan $lives of them are");
cmp_ok($requests, '<=', 8 * 32, "... by $requests requests");
cmp_ok(sql_of($node, "SELECT count(*) FROM exactonce_lives WHERE life::text LIKE 'fadefade%'"), '<=', 32, '... and not more are kept');

reset_proxy();
sql_of($node, "SELECT outcome FROM idem_acquire('of nobody $n')");
await_request(op => 'GetItem', key => "ORIGIN#$nobody[-1]", n => 2);
pass('one that a session meets is looked at, by the worker too');

sql_of($node, "SELECT idem_once('three', server => 'other')");
wait_until('a life of ours that is silent is shown, however many others there are', sub {
	sql_of($node, "SELECT state FROM exactonce_lives WHERE life = '$life' AND dynamodb_table = '$other'") =~ /^waits for/ });
is(sql_of($node, "SELECT idem_take_over('$life', 'other')"), 't', 'it is taken over');
wait_until('its key becomes available', sub { status_of($other, 'left') eq 'COMPLETED' });

# ----- what is known of them lapses ---------------------------------------------------

# A window is longer than the longest pause that comes before that; and the second pass of the scan
# may meet them once more.
wait_until('when nobody has met them for minutes they are not looked at', sub {
	reset_proxy();
	usleep(170_000_000 / $hurry);
	return (asked_for('fadefade'))[0] == 0 });
wait_until('... and not shown', sub {
	sql_of($node, "SELECT count(*) FROM exactonce_lives WHERE life::text LIKE 'fadefade%'") eq '0' });
sql_of($node, "SELECT outcome FROM idem_acquire('of nobody 1')");
await_request(op => 'GetItem', key => "ORIGIN#$nobody[0]", n => 2);
pass('one that is met again is looked at again');

# ----- branches of ours that somebody has made up ----------------------------------------

my $now = life_of($node);
my @branches = map { sprintf 'decade00-0000-4000-8000-%012x', $_ } 1 .. 60;
foreach my $branch (@branches)
{
	dynamodb(PutItem => { TableName => $table, Item => { pk => { S => "ORIGIN#$branch" }, state => { S => 'open' }, beat => { N => 1 },
		nonce => { S => '1' }, ancestors => { S => $now } } });
	seal_under("of $branch" => $branch);
	sql_of($node, "SELECT outcome FROM idem_acquire('of $branch')");
}
my $shown = sql_of($node, "SELECT count(*) FROM exactonce_lives WHERE life::text LIKE 'decade00%'");
cmp_ok($shown, '>', 0, 'branches of our life are looked after');
cmp_ok($shown, '<=', 32, '... and no more than a role may have');
is(sql_of($node, "SELECT idem_once('four')"), '', 'work goes on');
stop_without_crash($node, kills => 1);
done_testing();
