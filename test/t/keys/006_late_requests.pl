# Requests that arrive late, clocks that are off, and how many requests a call
# makes.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;

my $table = 'tap_late_requests';
my $node = new_node('late_requests', options => { request_timeout => '3s', clock_skew => 0 });
sweep_nothing('tap_late_requests');
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

sub cancel_call_of
{
	my ($function) = @_;
	$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT $function(%'");
	return;
}

# an acquire that arrives after its caller was cancelled and another has the key
fault(op => 'UpdateItem', key => 'overtaken', do => 'hold');
my $run = start_script($node, <<'SQL');
SELECT idem_acquire('overtaken');
SELECT outcome, mine FROM idem_acquire('overtaken');
SQL
await_request(key => 'overtaken');
my $token = $sql->("SELECT token FROM idem_acquire('overtaken')");
cancel_call_of('idem_acquire');
like(finish_script($run), qr/in_progress\|f\n.*57014/s,
	'late acquire: its caller, once cancelled, sees that another has the key');
release_held();
$sql->("SELECT idem_complete('overtaken', '1', token => '$token')");
is($sql->("SELECT status, runs FROM idem_get('overtaken')"), 'COMPLETED|1', 'late acquire: it changes nothing');

# a complete that arrives after its caller was cancelled
reset_proxy();
fault(op => 'UpdateItem', key => 'late end', nth => 2, do => 'hold');
$run = start_script($node, <<'SQL');
SELECT outcome FROM idem_acquire('late end');
SELECT idem_complete('late end', '1');
SELECT 'again' || idem_complete('late end', '1');
SQL
await_request(key => 'late end', n => 2);
cancel_call_of('idem_complete');
like(finish_script($run), qr/acquired\nagain\n.*57014/s, 'late complete: the same call again completes the key');
release_held();
is($sql->("SELECT status, result FROM idem_get('late end')"), 'COMPLETED|1', 'late complete: it changes nothing');

# a forget that arrives after the key was done afresh
$sql->("SELECT idem_acquire('redriven'); SELECT idem_fail('redriven', terminal => true)");
settled($node);
reset_proxy();
fault(op => 'UpdateItem', key => 'redriven', do => 'hold');
$run = start_script($node, "SELECT idem_forget('redriven');");
await_request(op => 'UpdateItem', key => 'redriven');
cancel_call_of('idem_forget');
like(finish_script($run), qr/57014/, 'late forget: its caller gives up');
$sql->("SELECT idem_forget('redriven'); SELECT idem_acquire('redriven'); SELECT idem_complete('redriven', '2')");
settled($node);
release_held();
wait_until('late forget: it is refused when it arrives',
	sub { grep { $_->{n} == 2 } requests(key => 'redriven', status => 400) });
is($sql->("SELECT status, result FROM idem_get('redriven')"), 'COMPLETED|2',
	'late forget: what was done since stays done');

# a copy of an acquire that was refused arrives when the key is free again
reset_proxy();
$token = $sql->("SELECT token FROM idem_acquire('copied')");
fault(key => 'copied', to => 'IN_PROGRESS', do => 'late', after => { key => 'copied', to => 'FAILED' });
is($sql->("SELECT outcome FROM idem_acquire('copied', lease => '10 min')"), 'in_progress', 'late copy: the acquire is refused');
$sql->("SELECT idem_release('copied', token => '$token')");
wait_until('late copy: it takes the free key', sub { record($table, 'copied')->{status} eq 'IN_PROGRESS' });
is($sql->("SELECT outcome, lease_until > now() FROM idem_acquire('copied')"), 'in_progress|t', 'late copy: its lease would end it');
$sql->("SELECT idem_forget('copied')");
is($sql->("SELECT outcome FROM idem_acquire('copied'); SELECT idem_complete('copied', '1')"), "acquired\n",
	'late copy: an operator has the key done before that');

# a Date that is off once does not end a lease
reset_proxy();
$sql->("SELECT idem_acquire('leased', lease => '10 min')");
fault(key => 'odd', do => 'date', seconds => 3600);
is($sql->(<<'SQL'), "acquired\nin_progress\nin_progress", 'one answer with a wrong Date does not end a lease');
SELECT outcome FROM idem_acquire('odd');
SELECT outcome FROM idem_acquire('leased');
SELECT outcome FROM idem_acquire('leased');
SQL

# a service that refuses our signatures because of their time
reset_proxy();
fault(do => 'date', seconds => -400, strict => 1, times => 0);
is($sql->("SELECT outcome FROM idem_acquire('skewed'); SELECT idem_complete('skewed');"), "acquired\n",
	'a request refused for its time is signed again by the clock of the service');
settled($node);
is(count_requests(key => 'skewed'), 4, 'the requests after it are signed by that clock at once');
like($sql->("SELECT status, detail FROM idem_check() WHERE \"check\" = 'clock'"),
	qr/^failure\|(?:39|40)\d\.\d s ahead of the service's$/, 'idem_check() shows that the clock is off');

# an answer that comes byte by byte
reset_proxy();
fault(key => 'drip', do => 'drip', ms => paced(50), times => 0);
$sql->(timeouts_sql('exactonce', request_timeout => '500ms'));
my $out = run_script($node, <<'SQL');
SELECT idem_acquire('drip');
\! curl -s -X POST "$EO_CONTROL/reset"
SELECT outcome, run FROM idem_acquire('drip');
SQL
$sql->(timeouts_sql('exactonce', request_timeout => '3s'));
like($out, qr/acquired\|1\n.*ERROR:  ID006: .*outcome is unknown/s,
	'an answer that drips is given up at the deadline, and the next call has a connection of its own');

# The call makes these requests about the key, the worker's included.
sub makes_requests
{
	my ($key, $what, $before, $call, $expected, %fault) = @_;
	$sql->($before) if $before;
	settled($node);
	reset_proxy();
	fault(%fault) if %fault;
	$sql->($call);
	settled($node);
	is(control('GET', "/ops?key=$key"), "$expected\n", $what);
	return;
}

my $past = (time() - 60) * 1000;
put_record($table, 'dead', status => 'IN_PROGRESS', owner => 'x', lease_ms => $past, fence => 1, runs => 1);
put_record($table, 'old', status => 'COMPLETED', owner => 'x', updated_ms => 1, fence => 7, runs => 3,
	ttl => time() - 3600, payload_sha256 => 'y');
makes_requests(new => 'to acquire a new key takes one request', undef, "SELECT idem_acquire('new')", 'UpdateItem');
makes_requests(again => 'to retry a failed key takes one request', "SELECT idem_acquire('again'); SELECT idem_fail('again')",
	"SELECT idem_acquire('again')", 'UpdateItem');
makes_requests(dead => 'to take over a dead claim takes one request', undef, "SELECT idem_acquire('dead')", 'UpdateItem');
makes_requests(both => 'to acquire and complete takes two requests, and one of the worker', undef,
	"SELECT idem_acquire('both'); SELECT idem_complete('both', '1')", 'UpdateItem UpdateItem UpdateItem');
makes_requests(both => 'a duplicate takes one request, and no read', undef, "SELECT idem_acquire('both')", 'UpdateItem');
makes_requests(both => 'a duplicate whose refusal comes without the record takes a read more', undef,
	"SELECT idem_acquire('both')", 'UpdateItem GetItem', do => 'no_item');
makes_requests(old => 'to acquire a record past its time takes two requests', undef,
	"SELECT idem_acquire('old', payload => '1')", 'UpdateItem UpdateItem');
is($sql->("SELECT status, runs, fence FROM idem_get('old')"), 'IN_PROGRESS|1|8',
	'a record past its time starts afresh, but for its fence');

put_record($table, 'recent', status => 'COMPLETED', owner => 'x', updated_ms => 1, fence => 7, runs => 3,
	ttl => time() - 60);
is($sql->("SELECT outcome FROM idem_acquire('recent')"), 'completed',
	'within five minutes after its time a record still counts');

put_record($table, 'sealed', status => 'COMMITTING', owner => 'x', lease_ms => $past, fence => 7, runs => 1);
is($sql->("SELECT outcome, lease_until FROM idem_acquire('sealed')"), 'in_progress|',
	'a COMMITTING record is in progress without an end, whatever its lease');
like(run_script($node, "SELECT idem_forget('sealed');"), qr/ID001/, 'a COMMITTING record is not forgotten');

stop_without_crash($node);
done_testing();
