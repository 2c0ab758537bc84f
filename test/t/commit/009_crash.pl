# Every process is killed at once, at every point of a commit: after the restart,
# and without a caller, a key is completed if and only if its work is there.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;
use Time::HiRes qw(time usleep);

my $rounds = $ENV{EO_ROUNDS} // 4;    # of each kind; more show more
my $table = 'tap_crash';
my $node = new_node('crash', options => { lease => '1 hour' }, conf => "wal_level = replica\nmax_wal_senders = 5\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text PRIMARY KEY)');
my $round = 0;
my $slowest = 0;

# Starts a transaction that works under four keys.
sub start_transaction
{
	my ($name) = @_;
	return start_script($node, <<"SQL");
\\set ON_ERROR_STOP on
BEGIN;
INSERT INTO work SELECT '$name-' || i FROM generate_series(1, 4) i;
SELECT count(*) FROM generate_series(1, 4) i, idem_acquire('$name-' || i) c WHERE c.outcome = 'acquired';
SELECT idem_complete_many(ARRAY(SELECT '$name-' || i FROM generate_series(1, 4) i));
COMMIT;
SQL
}

sub restart_and_check
{
	my ($what) = @_;
	reset_proxy();
	# A worker that gave back a key whose work is there would do so before it is
	# completed, and would be seen.
	fault(to => 'COMPLETED', do => 'delay', ms => 300, times => 0);
	$node->start;
	my $started = time();
	my ($records, @unsettled);
	do
	{
		$records = records($table);
		@unsettled = sort grep { $records->{$_}{status} =~ /COMMITTING|IN_PROGRESS/ } keys %$records;
		usleep(20_000) if @unsettled;
	} while (@unsettled && time() - $started < paced(60));
	my $took = time() - $started;
	$slowest = $took if $took > $slowest;
	my $completed = join ' ', sort grep { $records->{$_}{status} eq 'COMPLETED' } keys %$records;
	is($completed, $sql->(q{SELECT string_agg(key, ' ' ORDER BY key COLLATE "C") FROM work}),
		"killed $what: a key is completed if and only if its work is there");
	is("@unsettled", '', "killed $what: no key is left unsettled") or die 'the other rounds would only take long';
	return;
}

# Kills all processes when a request of the commit arrives, or once it is applied.
sub kill_at
{
	my ($what, %at) = @_;
	my $name = 'r' . ++$round;
	my @pids = processes_of($node);
	fault(key => "$name-", do => 'kill', pid => [ map { $_ + 0 } @pids ], %at);
	finish_script(start_transaction($name));
	# The backend of the session is younger than the list, and outlives its postmaster
	# for a moment, if at all.
	my $data = $node->data_dir;
	my @left = map { m{^/proc/(\d+)} } grep { (readlink("$_/cwd") // '') eq $data } glob '/proc/[0-9]*';
	kill 'KILL', @left;
	await_end($node, @pids, @left);
	restart_and_check($what);
	return;
}

for (1 .. $rounds)
{
	my $nth = 1 + $_ % 4;
	kill_at('before the seal', to => 'COMMITTING', nth => $nth);
	kill_at('in the seal', to => 'COMMITTING', nth => $nth, applied => 1);
	kill_at('between commit and finish', to => 'COMPLETED', nth => $nth);
	kill_at('in the finish', to => 'COMPLETED', nth => $nth, applied => 1);
}

# The commit record is on disk, and nobody has been told: the commit waits for a
# standby that does not exist.
for (1 .. 2)
{
	my $name = 'r' . ++$round;
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
	$node->reload;
	my $run = start_transaction($name);
	wait_until('a commit waits for a standby', sub { $sql->(<<'SQL') eq '1' });
SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'
SQL
	crash($node);
	finish_script($run);
	$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
	restart_and_check('after the commit record');
	is($sql->("SELECT count(*) FROM work WHERE key LIKE '$name-%'"), '4',
		'killed after the commit record: the work is there');
}

# The instant is the subject: any one, under load.
for (1 .. 2 * $rounds)
{
	my $name = 'r' . ++$round;
	my @runs = map { start_transaction("$name-$_") } 1 .. 3;
	usleep(rand(40_000) + 5_000);
	crash($node);
	finish_script($_) foreach @runs;
	restart_and_check('at a random moment');
}
note(sprintf 'settled after at most %.1f s', $slowest);

my ($completed, $given_back) = (0, 0);
my $records = records($table);
$records->{$_}{status} eq 'COMPLETED' ? $completed++ : $given_back++ foreach keys %$records;
note("$completed completed, $given_back given back");
cmp_ok($completed, '>', 0, 'some transactions had committed when they were killed');
cmp_ok($given_back, '>', 0, 'some transactions had not committed when they were killed');

$node->stop;
done_testing();
