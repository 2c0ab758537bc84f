# A promoted standby takes over although a third of all reads are not answered, and for a while
# none; and a primary
# that could not beat, because nobody could reach DynamoDB, is given the time for a beat.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# On an idle machine a silent life is read every 400 ms; a gap is 2 s, and so is a calm; silence
# is 6 s.
my $hurry = hurry(5);
my ($gap_ms, $silence_ms) = (10_000 / $hurry, 30_000 / $hurry);
my $conf = "exactonce.test_hurry = $hurry\nlog_min_messages = log\nwal_level = replica\nmax_wal_senders = 5\nmax_connections = 20\n";

sub new_pair
{
	my ($name) = @_;
	my $node = new_node($name, conf => $conf, options => { request_timeout => '3s', connect_timeout => '2s', max_attempts => 1 });
	$node->append_conf('pg_hba.conf', 'local replication all trust');
	$node->reload;
	sql_of($node, 'CREATE TABLE work (key text)');
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("${name}_heir");
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	is(errors_of($node, "SELECT idem_once('first')"), '', "$name: a life begins");
	settled($node);
	return ($node, $standby);
}

sub state_of
{
	my ($table, $life) = @_;
	return (item($table, "ORIGIN#$life") // {})->{state} // 'none';
}

# ----- many reads are not answered ------------------------------------------------------

my ($node, $standby) = new_pair('heir_slow');
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, 'left'), '', 'slow: a key is left committed and not finished');
$node->wait_for_catchup($standby, 'replay');
my $life = life_of($node);
crash($node);
reset_proxy();
fault(op => 'GetItem', do => 'hold', every => 3, nth => 3, times => 0);
# Of 18 readings of the life three of the first nine are not answered, and none of the others,
# which is a gap: between two of them is less than the silence that it takes.
fault(op => 'GetItem', key => "ORIGIN#$life", do => 'hold', every => 18, nth => $_, times => 0) foreach 3, 6, 9;
fault(op => 'GetItem', key => "ORIGIN#$life", do => 'drop', every => 18, nth => $_, times => 0) foreach 10 .. 18;
$standby->promote;
wait_until('slow: the standby begins a life', sub { errors_of($standby, "SELECT idem_once('new')") eq '' });
wait_until('slow: the life of the primary is retired', sub { state_of('tap_heir_slow', $life) eq 'retired' });
my @reads = requests(op => 'GetItem', key => "ORIGIN#$life");
my $answered = grep { $_->{status} == 200 } @reads;
cmp_ok(scalar(grep { $_->{status} == 0 } @reads), '>', 2, 'slow: some readings had no answer');
cmp_ok($answered, '<', 50, 'slow: those that had one were not many');
wait_until('slow: the key is had', sub {
	sql_of($standby, "SELECT outcome FROM idem_acquire('left')") eq 'completed' });
wait_until('slow: and finished', sub { status_of('tap_heir_slow', 'left') eq 'COMPLETED' });
reset_proxy();
$standby->stop;

# ----- nobody can reach DynamoDB ---------------------------------------------------------

($node, $standby) = new_pair('heir_away');
$life = life_of($node);
my $item = "ORIGIN#$life";
$node->wait_for_catchup($standby, 'replay');
$standby->promote;
is(errors_of($standby, "SELECT idem_once('beside')"), '', 'away: the standby is promoted beside the primary');
my $watched = sub { sql_of($standby, "SELECT state FROM exactonce_lives WHERE life = '$life'") };
wait_until('away: it sees the primary beat', sub { $watched->() eq 'alive' });

# Waits for an outage that is longer than the silence of a life that may be retired.
sub stay_away
{
	wait_until("away: the lease of the primary runs out", sub {
		sql_of($node, "SELECT clock_timestamp() - since > '$silence_ms ms'::interval * 1.3 FROM exactonce_lives WHERE life = '$life'") eq 't' });
	return;
}

# Requests about the life that have arrived since some instant, the answered reads, and the
# attempts to retire it.
sub reads_since
{
	my ($ms) = @_;
	return grep { $_->{status} == 200 && $_->{at} >= $ms } requests(op => 'GetItem', key => $item);
}

sub retirements_since
{
	my ($ms) = @_;
	return grep { $_->{at} >= $ms } requests(op => 'UpdateItem', key => $item, to => 'retired');
}

sub now_ms
{
	return Time::HiRes::time() * 1000;
}

fault(key => 'ORIGIN#', do => 'drop', times => 0);
stay_away();
end_fault('ORIGIN#');
my $beat = item('tap_heir_away', $item)->{beat};
wait_until('away: it is back, and the primary goes on', sub { item('tap_heir_away', $item)->{beat} > $beat + 10 });
is(state_of('tap_heir_away', $life), 'open', 'away: nobody has retired it');
is(scalar(retirements_since(0)), 0, 'away: nobody has tried to');
is(life_of($node), $life, 'away: it is the same life');
is(errors_of($node, "SELECT idem_once('second')"), '', 'away: and keys can be completed under it');

# It is back, but not for the primary: what is not seen is no silence.
wait_until('away: the heir sees it beat again', sub { $watched->() eq 'alive' });
my $began = now_ms();
fault(key => 'ORIGIN#', do => 'drop', times => 0);
stay_away();
my $back = now_ms();
my @before = grep { $_->{at} < $back } reads_since($began - $silence_ms);
my ($last_beat) = reverse grep { $_->{to} eq '' && $_->{status} == 200 } requests(op => 'UpdateItem', key => $item);
fault(key => $item, op => 'UpdateItem', do => 'drop', times => 0);
end_fault('ORIGIN#');
wait_until('away: the heir tries to retire it', sub { retirements_since($back) > 0 });
my ($retirement) = retirements_since($back);
my ($first) = reads_since($back);
# The instants are those of the proxy, and the heir's are its own.
cmp_ok($before[-1]{at} - $last_beat->{at} + $retirement->{at} - $first->{at}, '>', $silence_ms - paced(1000),
	'away: it has seen the silence in answers, and not in the gap');

# It is silent; but nobody can read that for a while, in which others may be away, too.
fault(key => $item, op => 'GetItem', do => 'drop', times => 0);
usleep(1000 * ($gap_ms + 1000));
$back = now_ms();
end_fault($item, 'drop', 'GetItem');
wait_until('away: the heir tries again', sub { retirements_since($back) > 0 });
($retirement) = retirements_since($back);
@reads = grep { $_->{at} < $retirement->{at} } reads_since($back);
cmp_ok(scalar(@reads), '>=', 3, 'away: it has read it several times before that');
cmp_ok($retirement->{at} - $reads[0]{at}, '>', $gap_ms - 500, 'away: for as long as a primary needs for a beat');
reset_proxy();
$_->stop foreach $node, $standby;
done_testing();
