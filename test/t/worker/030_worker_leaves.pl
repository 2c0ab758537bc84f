# When a worker leaves, and when it comes back: it leaves when an operator has removed
# the last row that it could not finish; it comes back ever later while it fails; and
# claims outlive its absence.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_worker_leaves';
my $internal = 'exactonce_internal';
# On an idle machine, without work a worker leaves after 5 s.
my $node = new_node('worker_leaves', conf => "exactonce.test_hurry = @{[ hurry(60) ]}\nlog_min_messages = debug1\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

sub count_workers
{
	return $sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
}

sub count_starts
{
	my $log = slurp_file($node->logfile);
	return scalar(() = $log =~ /starting background worker process "exactonce worker/g);
}

# Ends the worker, and waits until n others have been started.
sub end_worker
{
	my ($what, $n) = @_;
	my $from = count_starts();
	$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
	wait_until($what, sub { count_starts() >= $from + $n });
	return;
}

# ----- rows that an operator removes ------------------------------------------

$sql->("SELECT idem_once('settled')");
settled($node);
wait_until('a worker without work leaves', sub { count_workers() eq '0' });

fault(to => 'COMPLETED', do => 'answer', times => 0);
$sql->("SELECT idem_acquire('removed'); SELECT idem_complete('removed')");
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#removed' } } });
reset_proxy();
wait_until('a record that is gone is logged',
	sub { slurp_file($node->logfile) =~ /cannot be marked completed, although its transaction committed/ });
is($sql->("SELECT idem_resolve('removed', 'completed')"), 't', 'its completion is removed');
wait_until('a worker whose last row was removed leaves', sub { count_workers() eq '0' });

# ----- tables that are altered ------------------------------------------------

$sql->("GRANT SELECT ON $internal.outbox TO pg_monitor");
my $began = time();
my $stderr;
$node->psql('postgres', "SELECT idem_once('altered')", stderr => \$stderr);
like($stderr, qr/table $internal\.outbox was altered and cannot be relied on/, 'a session is told why nothing is completed');
cmp_ok(time() - $began, '<', paced(5), 'and at once');
$sql->("REVOKE SELECT ON $internal.outbox FROM pg_monitor");
$sql->("SELECT idem_acquire('lives', on_commit => 'keep', lease => '@{[ paced('10s') ]}')");
$sql->("GRANT SELECT ON $internal.outbox TO pg_monitor");
$began = time();
end_worker('a worker that fails comes back', 4);
# after 1, 2 and 4 seconds; with one second each it would be 4
cmp_ok(time() - $began, '>', 6, 'a worker that fails comes back ever later');
$sql->("REVOKE SELECT ON $internal.outbox FROM pg_monitor");
$began = time();
is($sql->("SELECT idem_once('mended') IS NULL"), 'f', 'once the table is as it was, keys are completed');
cmp_ok(time() - $began, '<', paced(5), 'and at once');
settled($node);

# ----- the extension is hidden for a moment -----------------------------------

my $session = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('hidden');\n"
	  . "SELECT idem_complete('hidden', '1');\n" . say_in_script('completed') . halt_until('commit') . "COMMIT;\n");
await_word('completed');
my $life = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");
$sql->("ALTER SCHEMA $internal RENAME TO hidden");
wait_until('a worker that does not see the extension leaves', sub { count_workers() eq '0' });
$sql->("ALTER SCHEMA hidden RENAME TO $internal");
go_on('commit');
unlike(finish_script($session), qr/ERROR/, 'a transaction commits whose worker could not see the extension meanwhile');
$sql->("SELECT idem_once('after')");
settled($node);
is(record($table, 'hidden')->{status}, 'COMPLETED', 'its key is completed');
like(record($table, 'hidden')->{origin}, qr/^$life/, 'a worker that comes back goes on with the life of the database');

stop_without_crash($node);
done_testing();
