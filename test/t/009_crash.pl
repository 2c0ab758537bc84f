# Every process is killed at once, at every point of a commit: after the
# restart, and without a caller, a key is completed if and only if its work is
# there.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $rounds = $ENV{EO_ROUNDS} // 4;    # of each kind; more to be surer
my $node = new_node('crash', options => ", lease '1 hour'", conf => "wal_level = replica\nmax_wal_senders = 5\n");
$node->safe_psql('postgres', 'CREATE TABLE work (key text PRIMARY KEY)');
my $round = 0;
my $slowest = 0;

# Commits work under four keys; dies with the server, or not.
sub commit_some
{
	my ($name) = @_;
	return start_psql($node, <<"SQL");
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
	control('POST', '/reset');
	# who gives back what is to be finished shall come first
	control('POST', '/fault', '{"to":"COMPLETED","do":"delay","ms":300,"times":0}');
	$node->start;
	my $started = time();
	my %left;
	while (1)
	{
		my $records = records('tap_crash');
		%left = map { $_ => $records->{$_}{status} }
		  grep { $records->{$_}{status} =~ /COMMITTING|IN_PROGRESS/ } keys %$records;
		last if !%left || time() - $started > 60;
		usleep(20_000);
	}
	my $took = time() - $started;
	$slowest = $took if $took > $slowest;
	my $records = records('tap_crash');
	my $completed = join ' ', sort grep { $records->{$_}{status} eq 'COMPLETED' } keys %$records;
	my $work = $node->safe_psql('postgres', 'SELECT string_agg(key, \' \' ORDER BY key COLLATE "C") FROM work');
	is($completed, $work, "$what: completed if and only if the work is there");
	is(join(' ', sort %left), '', "$what: nothing is left in between")
	  or die 'the rest would only take long';
	return;
}

# a request of the commit arrives, or has taken effect, and all is over
sub kill_at
{
	my ($what, $fault) = @_;
	my $name = 'r' . ++$round;
	my @pids;
	my $run;
	# the backend is not born yet: it dies with the rest, just after
	@pids = processes_of($node);
	my $list = join ',', @pids;
	control('POST', '/fault', qq({"key":"$name-","do":"kill","pid":[$list],$fault}));
	$run = commit_some($name);
	finish_psql($run);
	crash_rest(@pids);
	restart_and_check($what);
	return;
}

# The session's own backend outlives its postmaster for a moment, if at all.
sub crash_rest
{
	my (@pids) = @_;
	await_end($node, @pids);
	my $data = $node->data_dir;
	foreach my $proc (glob '/proc/[0-9]*')
	{
		my ($pid) = $proc =~ /(\d+)$/;
		my $cwd = readlink("$proc/cwd") // '';
		next unless $cwd eq $data;
		kill 'KILL', $pid;
		await_end($node, $pid);
	}
	return;
}

for (1 .. $rounds)
{
	my $nth = 1 + $_ % 4;
	kill_at('before the seal', '"to":"COMMITTING","nth":' . $nth);
	kill_at('in the seal', qq("to":"COMMITTING","applied":true,"nth":$nth));
	kill_at('between commit and finish', qq("to":"COMPLETED","nth":$nth));
	kill_at('in the finish', qq("to":"COMPLETED","applied":true,"nth":$nth));
}

# the commit record is on disk, and the commit waits for a standby that there is
# none of: nobody has been told of it
for (1 .. 2)
{
	my $name = 'r' . ++$round;
	$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
	$node->reload;
	my $run = commit_some($name);
	wait_until('a commit waits for a standby', sub {
		$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'") eq '1' });
	crash($node);
	finish_psql($run);
	$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
	restart_and_check('after the commit record');
	is($node->safe_psql('postgres', "SELECT count(*) FROM work WHERE key LIKE '$name-%'"), '4', '... which counts');
}

# any time at all, under load
for (1 .. 2 * $rounds)
{
	my $name = 'r' . ++$round;
	my @runs = map { commit_some("$name-$_") } 1 .. 3;
	usleep(rand(40_000) + 5_000);
	crash($node);
	finish_psql($_) foreach @runs;
	restart_and_check('at a random moment');
}
note(sprintf 'settled after at most %.1f s', $slowest);

# and it was worth it: some committed, some did not
my ($done, $undone) = (0, 0);
my $records = records('tap_crash');
$records->{$_}{status} eq 'COMPLETED' ? $done++ : $undone++ foreach keys %$records;
note("$done completed, $undone given back");
cmp_ok($done, '>', 0, 'some transactions had committed');
cmp_ok($undone, '>', 0, 'some had not');

$node->stop;
done_testing();
