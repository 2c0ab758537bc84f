# A backend that waits for an engine which does not answer: it can be told to
# stop, says so in PostgreSQL's own words, and works again afterwards.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('interrupts', options => ", request_timeout '60s'");

# statement_timeout, against an engine that is stopped
my $out = psql_ok($node, <<'SQL');
SELECT 'first ' || outcome FROM idem_acquire('before');
SELECT pg_backend_pid() AS pid \gset
\! curl -s -X POST $EO_CONTROL/engine/pause
SET statement_timeout = '200ms';
SELECT clock_timestamp() AS t \gset
SELECT idem_acquire('timed out');
SELECT 'took ' || extract(epoch FROM clock_timestamp() - :'t') * 1000;
\! curl -s -X POST $EO_CONTROL/engine/resume
RESET statement_timeout;
SELECT 'next ' || outcome FROM idem_acquire('after');
SELECT 'same backend ' || (pg_backend_pid() = :pid);
SELECT 'retried ' || outcome || ' ' || run FROM idem_acquire('timed out');
SELECT idem_complete('timed out');
SQL
like($out, qr/first acquired/, 'works before');
like($out, qr/ERROR:  57014: canceling statement due to statement timeout/,
	'statement_timeout ends the call with its own error');
like($out, qr/next acquired/, 'the next call works');
like($out, qr/same backend true/, '... in the same backend');
like($out, qr/retried acquired 1/,
	'the key of the timed-out call is not in progress with oneself');
my ($took) = $out =~ /took ([\d.]+)/;
diag("statement_timeout of 200 ms against a stopped engine took $took ms");
cmp_ok($took, '<', 5000, 'and did not wait for the request to time out');

# pg_cancel_backend and pg_terminate_backend
foreach my $how (
	[ cancel => qr/57014: canceling statement due to user request/ ],
	[ terminate => qr/57P01: terminating connection due to administrator command/ ])
{
	my ($verb, $expected) = @$how;
	control('POST', '/reset');
	control('POST', '/fault', '{"op": "UpdateItem", "do": "hold", "times": 1}');
	my $run = start_psql($node, "SELECT idem_acquire('$verb');\nSELECT 'after ' || outcome FROM idem_acquire('after $verb');\n");
	control('GET', "/wait?op=UpdateItem&key=$verb&n=1&seconds=60");
	is($node->safe_psql('postgres', <<"SQL"), 't', "$verb: signalled while it waits");
SELECT pg_${verb}_backend(pid) FROM pg_stat_activity
WHERE query LIKE 'SELECT idem_acquire(%' AND wait_event_type = 'Extension';
SQL
	$out = finish_psql($run);
	like($out, $expected, "$verb: PostgreSQL's own error");
	like($out, qr/after acquired/, "$verb: the session goes on") if $verb eq 'cancel';
	control('POST', '/release');
}

# a wait for another run's key can be cancelled, too
$node->safe_psql('postgres', "SELECT idem_acquire('held', lease => '1 hour')");
my $start = time();
$out = psql_ok($node, "SET statement_timeout = '300ms'; SELECT idem_acquire('held', wait => '1 hour');");
like($out, qr/57014/, 'a wait obeys statement_timeout');

# without a timeout of its own the call ends at request_timeout
$node->safe_psql('postgres', "ALTER SERVER exactonce OPTIONS (SET request_timeout '500ms')");
control('POST', '/engine/pause');
$out = psql_ok($node, "SELECT idem_acquire('unanswered');");
control('POST', '/engine/resume');
like($out, qr/ERROR:  ID006: could not acquire key "unanswered" on server "exactonce": the outcome is unknown/,
	'a stopped engine is reported when the deadline has passed');

# shutdown does not wait for the engine
$node->safe_psql('postgres', "ALTER SERVER exactonce OPTIONS (SET request_timeout '60s')");
control('POST', '/engine/pause');
my $run = start_psql($node, "SELECT idem_acquire('shut down');");
wait_until('a call waits', sub {
	$node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'") eq '1';
});
$node->stop('fast');
like(finish_psql($run), qr/57P01/, 'a fast shutdown ends the call');
control('POST', '/engine/resume');

done_testing();
