# Requests that arrive late, clocks that are off, and how many requests it takes.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use Test::More;

my $table = 'tap_late';
my $node = new_node('late', table => $table, options => ", request_timeout '3s', clock_skew '0'");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $put = sub {
	my ($key, %rest) = @_;
	dynamodb(PutItem => { TableName => $table, Item => { pk => { S => "IDEMPOTENCY#$key" }, %rest } });
};

# an acquire that arrives after its caller was cancelled and another has the key
control('POST', '/fault', '{"op":"UpdateItem","key":"overtaken","do":"hold"}');
my $run = start_psql($node, "SELECT idem_acquire('overtaken');\nSELECT outcome, mine FROM idem_acquire('overtaken');\n");
control('GET', '/wait?key=overtaken&n=1&seconds=60');
my $token = $sql->("SELECT token FROM idem_acquire('overtaken')");
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT idem_acquire(%'");
like(finish_psql($run), qr/in_progress\|f\n.*57014/s, 'the one cancelled learns that another has the key');
control('POST', '/release');
$sql->("SELECT idem_complete('overtaken', '1', token => '$token')");
is($sql->("SELECT status, runs FROM idem_get('overtaken')"), 'COMPLETED|1', 'its late request changed nothing');

# a complete that arrives after its caller was cancelled
control('POST', '/reset');
control('POST', '/fault', '{"op":"UpdateItem","key":"late end","nth":2,"do":"hold"}');
$run = start_psql($node, "SELECT outcome FROM idem_acquire('late end');\nSELECT idem_complete('late end', '1');\n"
	  . "SELECT 'again' || idem_complete('late end', '1');\n");
control('GET', '/wait?key=late+end&n=2&seconds=60');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT idem_complete(%'");
like(finish_psql($run), qr/acquired\nagain\n.*57014/s, 'completed by asking again');
control('POST', '/release');
is($sql->("SELECT status, result FROM idem_get('late end')"), 'COMPLETED|1', 'and the late copy changes nothing');

# a forget that arrives after the key was done afresh
$sql->("SELECT idem_acquire('redriven'); SELECT idem_fail('redriven', terminal => true)");
settled($node);
control('POST', '/reset');
control('POST', '/fault', '{"op":"UpdateItem","key":"redriven","do":"hold"}');
$run = start_psql($node, "SET statement_timeout = '300ms'; SELECT idem_forget('redriven');");
like(finish_psql($run), qr/57014/, 'a forget whose answer never came');
$sql->("SELECT idem_forget('redriven'); SELECT idem_acquire('redriven'); SELECT idem_complete('redriven', '2')");
settled($node);
control('POST', '/release');
wait_until('its late copy arrives', sub { control('GET', '/log') =~ /"n":2,[^}]*"key":"IDEMPOTENCY#redriven"[^}]*"status":400/ });
is($sql->("SELECT status, result FROM idem_get('redriven')"), 'COMPLETED|2', '... and what was done since stays done');

# a date that is off once does not end a lease; one that stays off is believed
control('POST', '/reset');
$sql->("SELECT idem_acquire('leased', lease => '10 min')");
control('POST', '/fault', '{"key":"odd","do":"date","seconds":3600}');
is($sql->(<<'SQL'), "acquired\nin_progress\nin_progress", 'one odd date does not steal a live lease');
SELECT outcome FROM idem_acquire('odd');
SELECT outcome FROM idem_acquire('leased');
SELECT outcome FROM idem_acquire('leased');
SQL

# a service that refuses our signatures for their time
control('POST', '/reset');
control('POST', '/fault', '{"do":"date","seconds":-400,"strict":true,"times":0}');
is($sql->("SELECT outcome FROM idem_acquire('skewed'); SELECT idem_complete('skewed');"), "acquired\n",
	'signed again by the clock of the service');
settled($node);
is(control('GET', '/count?key=skewed'), "4\n", 'once, and then right at once');
like($sql->("SELECT status, detail FROM idem_check() WHERE \"check\" = 'clock'"),
	qr/^failure\|(?:399|400|401)\.\d s ahead of the service's$/, 'idem_check shows it');

# an answer that drips is given up at the deadline, and the next call has a
# connection of its own
control('POST', '/reset');
control('POST', '/fault', '{"key":"drip","do":"drip","ms":50,"times":0}');
my $out = psql_ok($node, <<'SQL');
ALTER SERVER exactonce OPTIONS (SET request_timeout '500ms');
SELECT idem_acquire('drip');
\! curl -s -X POST "$EO_CONTROL/reset"
SELECT outcome, run FROM idem_acquire('drip');
ALTER SERVER exactonce OPTIONS (SET request_timeout '3s');
SQL
like($out, qr/acquired\|1\n.*ERROR:  ID006: .*outcome is unknown/s, 'a dripping answer ends at the deadline');

# how many requests it takes
my $ops = sub {
	my ($what, $before, $call, $expected) = @_;
	$sql->($before) if $before;
	settled($node);
	control('POST', '/reset');
	control('POST', '/fault', $_) foreach @_[ 4 .. $#_ ];
	$sql->($call);
	settled($node);
	is(control('GET', '/ops'), "$expected\n", $what);
};
my $past = (time() - 60) * 1000;
my $old = time() - 3600;
$put->('dead', status => { S => 'IN_PROGRESS' }, owner => { S => 'x' }, lease_ms => { N => "$past" },
	fence => { N => '1' }, runs => { N => '1' });
$put->('old', status => { S => 'COMPLETED' }, owner => { S => 'x' }, updated_ms => { N => '1' },
	fence => { N => '7' }, runs => { N => '3' }, ttl => { N => "$old" }, payload_sha256 => { S => 'y' });
$ops->('a new key: one request', undef, "SELECT idem_acquire('new')", 'UpdateItem');
$ops->('a retry: one', "SELECT idem_acquire('again'); SELECT idem_fail('again')", "SELECT idem_acquire('again')", 'UpdateItem');
$ops->('a take-over: one', undef, "SELECT idem_acquire('dead')", 'UpdateItem');
$ops->('acquire and complete: two, and one of the worker', undef, "SELECT idem_acquire('both'); SELECT idem_complete('both', '1')", 'UpdateItem UpdateItem UpdateItem');
$ops->('a duplicate: one, and no read', undef, "SELECT idem_acquire('both')", 'UpdateItem');
$ops->('a duplicate where no record comes with the refusal: a read more', undef,
	"SELECT idem_acquire('both')", 'UpdateItem GetItem', '{"do":"no_item"}');
$ops->('a record past its time: two', undef, "SELECT idem_acquire('old', payload => '1')", 'UpdateItem UpdateItem');
is($sql->("SELECT status, runs, fence FROM idem_get('old')"), 'IN_PROGRESS|1|8', 'it starts afresh, but for the fence');

# past its time by less than the margin: not absent yet
my $recent = time() - 60;
$put->('recent', status => { S => 'COMPLETED' }, owner => { S => 'x' }, updated_ms => { N => '1' },
	fence => { N => '7' }, runs => { N => '3' }, ttl => { N => "$recent" });
is($sql->("SELECT outcome FROM idem_acquire('recent')"), 'completed', 'within five minutes of its time a record still counts');

# a commit under way is never taken over, whatever the clock says
$put->('sealed', status => { S => 'COMMITTING' }, owner => { S => 'x' }, lease_ms => { N => "$past" },
	fence => { N => '7' }, runs => { N => '1' });
is($sql->("SELECT outcome, lease_until FROM idem_acquire('sealed')"), 'in_progress|', 'COMMITTING is in progress without an end');
like(psql_ok($node, "SELECT idem_forget('sealed');"), qr/ID001/, 'and is not forgotten');

$node->stop;
done_testing();
