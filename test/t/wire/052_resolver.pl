# The thread in which libcurl looks up a name.  It has PostgreSQL's signals blocked, a
# cancel or a termination does not wait for it, and it ends after its session went on.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

# The signals that PostgreSQL's processes handle, as bits of the lower half of a mask.
my $signals = 0;
$signals |= 1 << ($_ - 1) foreach 1, 2, 3, 10, 12, 14, 15, 17, 23;    # HUP INT QUIT USR1 USR2 ALRM TERM CHLD URG

my $node = new_node('resolver');
my $shim = $node->basedir . '/slow_names.so';
my $slow = $node->basedir . '/slow_names';
system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim, "$FindBin::Bin/../../harness/slow_names.c");
{
	local %ENV = (%ENV, LD_PRELOAD => $shim, SLOW_NAMES => $slow);
	$node->restart;
}
my ($port) = $ENV{EO_ENDPOINT} =~ /:(\d+)/;
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->(server_sql('named', endpoint => "http://engine.slow.test:$port", allow_http => 'true', table => 'tap_resolver',
	connect_timeout => '60s', request_timeout => '60s'));

is($sql->("SELECT outcome FROM idem_acquire('first', server => 'named')"), 'acquired', 'a server is called by its name');

# The threads of a process but its first.
sub threads
{
	my ($pid) = @_;
	opendir(my $dir, "/proc/$pid/task") or return;
	return grep { /^\d+$/ && $_ != $pid } readdir $dir;
}

sub blocked_signals
{
	my ($pid, $thread) = @_;
	open(my $file, '<', "/proc/$pid/task/$thread/status") or return 0;
	return hex((map { /^SigBlk:\s*[0-9a-f]{8}([0-9a-f]{8})/ ? $1 : () } <$file>)[0] // 0);
}

# The process of the session that runs this statement, and waits for a name.
sub session_that_waits
{
	my ($statement) = @_;
	my $pid;
	wait_until("a session looks up a name: $statement", sub {
		$pid = $sql->("SELECT pid FROM pg_stat_activity WHERE query LIKE '$statement%' AND state = 'active'");
		$pid ne '' && threads($pid) > 0;
	});
	return $pid;
}

# a cancel, while a name server does not answer
append_to_file($slow, '');
my $run = start_script($node, <<'SQL');
SELECT idem_acquire('cancelled', server => 'named');
SELECT idem_acquire('cancelled again', server => 'named');
SELECT 'after ' || outcome FROM idem_acquire('after', server => 'named');
SQL
my $pid = session_that_waits("SELECT idem_acquire(''cancelled'',");
is((grep { (blocked_signals($pid, $_) & $signals) != $signals } threads($pid)), 0, 'the thread has all signals blocked');
$sql->("SELECT pg_cancel_backend($pid)");
is(session_that_waits("SELECT idem_acquire(''cancelled again'',"), $pid, 'a cancel does not wait for the name');
$sql->("SELECT pg_cancel_backend($pid)");
is(session_that_waits("SELECT ''after"), $pid, 'nor does the next');
cmp_ok(scalar(threads($pid)), '>=', 2, 'threads go on meanwhile');
unlink $slow;
my $out = finish_script($run);
is(() = $out =~ /ERROR:  57014: canceling statement due to user request/g, 2, 'both calls were cancelled');
like($out, qr/after acquired/, 'the session goes on once the name is known');

# a termination
append_to_file($slow, '');
$run = start_script($node, "SELECT idem_acquire('terminated', server => 'named');");
$pid = session_that_waits("SELECT idem_acquire(''terminated'',");
$sql->("SELECT pg_terminate_backend($pid)");
wait_until('a termination does not wait for the name', sub { !-d "/proc/$pid" });
unlink $slow;
like(finish_script($run), qr/57P01: terminating connection/, 'the session was terminated');

# the worker, which finishes a key once the name is known
$sql->("BEGIN; SELECT idem_once('done', '1', server => 'named'); COMMIT");
settled($node);
is(record('tap_resolver', 'done')->{status}, 'COMPLETED', 'the worker finishes a key of a server that has a name');

# many calls that were given up leave nothing
append_to_file($slow, '');
$run = start_script($node, "SET statement_timeout = @{[ int paced(30) ]};\n"
	  . join('', map { "SELECT idem_get('many', server => 'named');\n" } 1 .. 20)
	  . "RESET statement_timeout;\nSELECT 'last ' || count(idem_get('many', server => 'named'));\n" . halt_until('no threads'));
$pid = session_that_waits("SELECT ''last");
unlink $slow;
wait_until('no thread is left', sub { !threads($pid) });
go_on('no threads');
like(finish_script($run), qr/last 0/, 'the session goes on');
stop_without_crash($node);
done_testing();
