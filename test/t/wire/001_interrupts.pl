# A backend that waits for an engine which does not answer: timeouts, cancels and
# shutdown end the wait with PostgreSQL's own errors, and the session works
# afterwards.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;
use Time::HiRes qw(time);

my ($moment, $longer) = map { paced($_) } '200ms', '500ms';
my $node = new_node('interrupts', options => { request_timeout => '60s' });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $backends_that_wait = <<'SQL';
FROM pg_stat_activity
WHERE query LIKE 'SELECT idem_acquire(%' AND wait_event_type = 'Extension' AND backend_type = 'client backend'
SQL

# statement_timeout, while the engine is stopped
my $out = run_script($node, <<"SQL");
SELECT 'first ' || outcome FROM idem_acquire('before');
SELECT pg_backend_pid() AS pid \\gset
\\! curl -s -X POST \$EO_CONTROL/engine/pause
SET statement_timeout = '$moment';
SELECT clock_timestamp() AS t \\gset
SELECT idem_acquire('timed out');
SELECT 'took ' || extract(epoch FROM clock_timestamp() - :'t') * 1000;
\\! curl -s -X POST \$EO_CONTROL/engine/resume
RESET statement_timeout;
SELECT 'next ' || outcome FROM idem_acquire('after');
SELECT 'same backend ' || (pg_backend_pid() = :pid);
SELECT 'retried ' || outcome || ' ' || run FROM idem_acquire('timed out');
SELECT idem_complete('timed out');
SQL
like($out, qr/first acquired/, 'a call before the engine stops works');
like($out, qr/ERROR:  57014: canceling statement due to statement timeout/,
	'statement_timeout ends a call with its own error');
like($out, qr/next acquired/, 'the call after one that timed out works');
like($out, qr/same backend true/, 'the call after one that timed out runs in the same backend');
like($out, qr/retried acquired 1/, 'the key of a call that timed out is free for the same session');
my ($took) = $out =~ /took ([\d.]+)/;
diag("statement_timeout of $moment against a stopped engine took $took ms");
cmp_ok($took, '<', paced(5000), 'statement_timeout does not wait for request_timeout');

# pg_cancel_backend and pg_terminate_backend
foreach my $how (
	[ cancel => qr/57014: canceling statement due to user request/ ],
	[ terminate => qr/57P01: terminating connection due to administrator command/ ])
{
	my ($verb, $expected) = @$how;
	reset_proxy();
	fault(op => 'UpdateItem', do => 'hold');
	my $run = start_script($node,
		"SELECT idem_acquire('$verb');\nSELECT 'after ' || outcome FROM idem_acquire('after $verb');\n");
	await_request(op => 'UpdateItem', key => $verb);
	wait_until("$verb: a call is signalled while it waits",
		sub { $sql->("SELECT pg_${verb}_backend(pid) $backends_that_wait") eq 't' });
	$out = finish_script($run);
	like($out, $expected, "$verb: the call ends with PostgreSQL's own error");
	like($out, qr/after acquired/, "$verb: the session goes on") if $verb eq 'cancel';
	release_held();
}

$sql->("SELECT idem_acquire('held', lease => '1 hour')");
$out = run_script($node, "SET statement_timeout = '$longer'; SELECT idem_acquire('held', wait => '1 hour');");
like($out, qr/57014/, 'statement_timeout ends a wait for the key of another run');

# The digest of 30 MB.  A sequence that the same expression sets tells if it has come to its end.
$sql->(<<'SQL');
CREATE SEQUENCE ended;
CREATE TABLE large AS SELECT runtime, replace(form, '?', repeat('É', 15000000))::json AS payload
FROM (VALUES ('python', '"?"'), ('typescript', '{"?": 1}')) v (runtime, form);
SQL
foreach my $runtime ('python', 'typescript')
{
	my $digest = "idem_key_powertools('$runtime', payload, 'f')) FROM large WHERE runtime = '$runtime'";
	my $began = time();
	$sql->("SELECT length($digest");
	my $short = int((time() - $began) * 100) . 'ms';
	like(run_script($node, "SET statement_timeout = '$short';\nSELECT setval('ended', n) FROM (SELECT length($digest) s (n);\n"), qr/ERROR:  57014/,
		"the digest for $runtime is cancelled");
	is($sql->('SELECT is_called FROM ended'), 'f', "the digest for $runtime does not go on");
}

# without a timeout of the session the call ends at request_timeout
$sql->(timeouts_sql('exactonce', request_timeout => '500ms'));
control('POST', '/engine/pause');
$out = run_script($node, "SELECT idem_acquire('unanswered');");
control('POST', '/engine/resume');
like($out, qr/ERROR:  ID006: could not acquire key "unanswered" on server "exactonce": the outcome is unknown/,
	'request_timeout ends a call with ID006');

$sql->(timeouts_sql('exactonce', request_timeout => '60s'));
control('POST', '/engine/pause');
my $run = start_script($node, "SELECT idem_acquire('shut down');");
wait_until('a call waits when the server is told to stop',
	sub { $sql->("SELECT count(*) $backends_that_wait") eq '1' });
stop_without_crash($node, mode => 'fast');
like(finish_script($run), qr/57P01/, 'a fast shutdown ends a call that waits');
control('POST', '/engine/resume');

done_testing();
