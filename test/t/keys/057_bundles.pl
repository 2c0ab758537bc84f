# Several keys in a request: what the worker has to do about them together goes together,
# one key never does, and whatever becomes of the request, each key is asked for by itself
# unless the answer shows its write.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $batch = 'BatchExecuteStatement';
# Together means: due while another request is in flight.
my $node = new_node('bundles', options => { parallel_requests => 1, request_timeout => '20s' });
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $keys = 0;

# Completes n keys in one transaction, all of which are due at the same time: the worker has
# a request in flight until it knows of all of them.  Returns their common beginning.
sub complete
{
	my ($n, $server) = @_;
	my $name = sprintf 'k%d-', ++$keys;
	$server //= 'exactonce';
	fault(do => 'hold', key => "gate $name", to => 'COMPLETED');
	$sql->("SELECT idem_once('gate $name', server => '$server')");
	await_request(key => "gate $name", to => 'COMPLETED');
	$sql->("DO \$\$ BEGIN PERFORM idem_once('$name' || i, server => '$server') FROM generate_series(1, $n) i; END \$\$");
	wait_until("the worker knows of all keys $name", sub { $sql->(<<"SQL") eq '0' });
SELECT count(*) FROM exactonce_claims WHERE key LIKE '$name%'
SQL
	release_held();
	return $name;
}

# How many records of these keys are there in each state?
sub states
{
	my ($name, $table) = @_;
	my $records = records($table // 'tap_bundles');
	my %n;
	$n{ $records->{$_}{status} }++ foreach grep { /^\Q$name\E/ } keys %$records;
	return join ' ', map { "$_ $n{$_}" } sort keys %n;
}

# The sizes of the batches that lead to a state, and the number of single requests.
sub sent
{
	my ($to, %pattern) = @_;
	my @batches = map { scalar @{ $_->{writes} } } requests(op => $batch, to => $to);
	my @alone = grep { $_->{key} !~ /gate/ } requests(op => 'UpdateItem', to => $to, %pattern);
	return join('+', sort { $b <=> $a } @batches) . ' and ' . @alone;
}

# ----- together -----------------------------------------------------------------

$sql->("SELECT idem_once('first')");
settled($node);
is(sent('COMPLETED'), ' and 1', 'one key has a request of its own');

reset_proxy();
my $name = complete(60);
settled($node);
is(states($name), 'COMPLETED 60', 'many keys of a transaction are completed');
is(sent('COMPLETED'), '25+25+10 and 0', 'and share requests');
like($sql->("SELECT string_agg(DISTINCT result, ',') FROM exactonce_stats_details WHERE name = '$batch'"), qr/^ok\b/,
	'which are counted');

# heartbeats and releases
# A heartbeat is due when a third of the lease is over, and given up after another third.
reset_proxy();
fault(do => 'hold', key => 'gate', to => 'lease');
my $run = start_script($node, <<'SQL' . halt_until('beaten') . "ROLLBACK;\n");
BEGIN;
SELECT idem_acquire('gate of beats', lease => '12 s');
SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'held' || i FROM generate_series(1, 30) i), lease => '12 s');
SQL
await_request(key => 'gate', to => 'lease');
wait_until('heartbeats of many claims are due', sub { $sql->(<<'SQL') eq '30' });
SELECT count(*) FROM exactonce_claims WHERE key LIKE 'held%' AND lease_until < now() + interval '8 s'
SQL
release_held();
await_request(op => $batch, to => 'lease', n => 2);
pass('heartbeats of many claims share requests');
go_on('beaten');
finish_script($run);
settled($node);
is(states('held'), 'FAILED 30', 'the claims of a transaction that is rolled back are given back');
# Those that are over first may be on their way before the others.
cmp_ok(count_requests(to => 'FAILED'), '<', 8, 'and share requests');
is($sql->("SELECT outcome, run, count(*) FROM idem_acquire_many(ARRAY(SELECT 'held' || i FROM generate_series(1, 30) i)) GROUP BY 1, 2"),
	'acquired|2|30', 'and the run is counted');
settled($node);

# One with a short lease shares a request with those that have longer ones, and must not wait for
# that as they may: a heartbeat is given up after a third of the lease, and one for several after half of it.
reset_proxy();
my ($long, $short) = map { paced($_) } '12 s', '3 s';
fault(do => 'hold', key => 'gate', to => 'lease');
fault(do => 'hold', op => $batch, to => 'lease');
$run = start_script($node, <<"SQL" . halt_until('beaten') . "ROLLBACK;\n");
BEGIN;
SELECT idem_acquire('gate of long ones', lease => '$long');
SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'long' || i FROM generate_series(1, 3) i), lease => '$long');
SQL
await_request(key => 'gate', to => 'lease');
my $brief = start_script($node, "BEGIN;\nSELECT idem_acquire('short', lease => '$short');\n" . halt_until('beaten') . "ROLLBACK;\n");
wait_until('its heartbeat is due', sub { $sql->(<<"SQL") eq '1' });
SELECT count(*) FROM exactonce_claims WHERE key = 'short' AND lease_until < now() + interval '$short' * 0.6
SQL
release_held();
await_request(op => $batch, key => 'short', to => 'lease');
await_request(op => 'UpdateItem', key => 'short', to => 'lease');
my ($shared) = requests(op => $batch, key => 'short', to => 'lease');
my ($alone) = requests(op => 'UpdateItem', key => 'short', to => 'lease');
is(scalar @{ $shared->{writes} }, 4, 'a heartbeat of a short lease shares the request of longer ones');
cmp_ok($alone->{at} - $shared->{at}, '<', paced(1.2) * 1000, 'and goes by itself after half of the time that it has');
reset_proxy();
go_on('beaten');
finish_script($_) foreach $run, $brief;
settled($node);

# ----- faults --------------------------------------------------------------------

# What is expected: single requests after the batch, and how many of them are refused
# because the batch had been applied.
my %faults = (
	'a lost answer' => [ { do => 'lose' }, 10, 10 ],
	'a lost request' => [ { do => 'drop' }, 10, 0 ],
	'a server error after the writes' => [ { do => 'answer', status => 500, applied => JSON::PP::true }, 10, 10 ],
	'a server error before the writes' => [ { do => 'answer', status => 503 }, 10, 0 ],
	'an answer that is cut off' => [ { do => 'truncate' }, 10, 10 ],
	'an answer with half of the answers' => [ { do => 'half' }, 10, 10 ],
	'answers in the wrong places' => [ { do => 'shifted' }, 10, 10 ],
	'the answer to something else' => [ { do => 'other_operation' }, 10, 10 ],
	'a throttled batch' => [ { do => 'answer', status => 400, code => 'ThrottlingException' }, 10, 0 ],
	'one throttled statement' => [ { do => 'statement', of => '-7' }, 1, 0 ],
	'one statement in conflict' => [ { do => 'statement', of => '-7', code => 'TransactionConflict' }, 1, 0 ],
	'one statement that failed' => [ { do => 'statement', of => '-7', code => 'InternalServerError' }, 1, 0 ],
	'one statement that failed after its write' =>
	  [ { do => 'statement', of => '-7', code => 'InternalServerError', applied => JSON::PP::true }, 1, 1 ],
	'one statement with an unknown error' => [ { do => 'statement', of => '-7', code => 'Whatever' }, 1, 0 ],
	'a copy that comes twice' => [ { do => 'twice' }, 0, 0 ]);
foreach my $what (sort keys %faults)
{
	my ($fault, $alone, $refused) = @{ $faults{$what} };
	reset_proxy();
	fault(op => $batch, to => 'COMPLETED', %$fault);
	$name = complete(10);
	settled($node);
	is(states($name), 'COMPLETED 10', "$what: all keys are completed");
	is(sent('COMPLETED'), "10 and $alone", "$what: keys without an answer are asked for by themselves");
	is(sent('COMPLETED', status => 400), "10 and $refused",
		"$what: what the batch has written is recognised");
}
reset_proxy();
$name = complete(10);
settled($node);
is(sent('COMPLETED'), '10 and 0', 'after faults keys share requests again');

# ----- seals ----------------------------------------------------------------------

# Claims of idem_once() are inserted, and the others updated.  The answer to an INSERT does
# not say which key it is about, so one that is refused leaves all in doubt.
my %completing = (
	idem_once => "PERFORM idem_once('NAME' || i) FROM generate_series(1, 10) i;",
	idem_complete_many => <<'SQL');
PERFORM count(*) FROM idem_acquire_many(ARRAY(SELECT 'NAME' || i FROM generate_series(1, 10) i));
PERFORM idem_complete_many(ARRAY(SELECT 'NAME' || i FROM generate_series(1, 10) i),
	ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 10) i));
SQL
$faults{'no fault'} = [ { do => 'delay', ms => 1 }, 0, 0 ];

# Runs a transaction that completes ten keys, and perhaps more.
sub transaction
{
	my ($how, $more) = @_;
	$name = sprintf 'k%d-', ++$keys;
	(my $do = $completing{$how}) =~ s/NAME/$name/g;
	my ($status, $out, $err) = $node->psql('postgres', "DO \$\$ BEGIN $do " . ($more // '') . ' END $$');
	return $err;
}

foreach my $step ('idem_once COMMITTING', 'idem_complete_many COMMITTING', 'idem_complete_many IN_PROGRESS')
{
	my ($how, $to) = split ' ', $step;
	my $inserts = $step ne 'idem_complete_many COMMITTING';
	foreach my $what (sort keys %faults)
	{
		my ($fault, $alone, $refused) = @{ $faults{$what} };
		if ($inserts)
		{
			($alone, $refused) = (10, $refused + 9) if $alone == 1;
			($alone, $refused) = (10, 10) if $what eq 'a copy that comes twice';
			($alone, $refused) = (0, 0) if $what eq 'answers in the wrong places';
		}
		reset_proxy();
		fault(op => $batch, to => $to, %$fault);
		is(transaction($how), '', "$step, $what: the transaction commits");
		is(sent($to), "10 and $alone", "$step, $what: keys without an answer are asked for by themselves");
		is(sent($to, status => 400), "10 and $refused", "$step, $what: what the batch has written is recognised");
		settled($node);
		is(states($name), 'COMPLETED 10', "$step, $what: all keys are completed");
		is($sql->(<<"SQL"), ($how eq 'idem_once' ? 0 : 10) . '|1|1', "$step, $what: with their results, and in one run");
SELECT count(DISTINCT (r).result), min((r).runs), max((r).runs)
FROM (SELECT idem_get('$name' || i) r FROM generate_series(1, 10) i OFFSET 0) x
SQL
	}
}

# a duplicate among them
$sql->("SELECT idem_once('taken')");
settled($node);
foreach my $what ('no fault', 'a lost answer', 'answers in the wrong places')
{
	reset_proxy();
	fault(op => $batch, to => 'COMMITTING', %{ $faults{$what}[0] });
	like(transaction('idem_once', "PERFORM idem_once('taken');"), qr/key "taken" /, "$what: a duplicate fails the transaction");
	settled($node);
	unlike(states($name), qr/COMMITTING|COMPLETED|PROGRESS/, "$what: the other keys are given back");
	is(record('tap_bundles', 'taken')->{status}, 'COMPLETED', "$what: the duplicate stays as it was");
}

# ----- claims of many keys ----------------------------------------------------------

# Some are taken: by every kind of record.
sub outcomes
{
	my ($name, $n, $more) = @_;
	return $sql->("SELECT outcome, run, count(*) FROM idem_acquire_many(ARRAY(SELECT '$name' || i FROM generate_series(1, $n) i)"
		. ($more // '') . ') GROUP BY 1, 2 ORDER BY 1, 2');
}
my $hour = (time() + 3600) * 1000;
put_record('tap_bundles', 'mixed-2', status => 'COMPLETED', owner => 'x', result => '"done"', runs => 1, fence => 5, ttl => time() + 3600);
put_record('tap_bundles', 'mixed-3', status => 'FAILED', owner => 'x', runs => 1, fence => 5, retry_ms => 0);
put_record('tap_bundles', 'mixed-4', status => 'IN_PROGRESS', owner => 'x', runs => 1, fence => 5, lease_ms => $hour);
put_record('tap_bundles', 'mixed-5', status => 'IN_PROGRESS', owner => 'x', runs => 1, fence => 5, lease_ms => 1000);
put_record('tap_bundles', 'mixed-6', status => 'COMPLETED', owner => 'x', runs => 1, fence => 5, ttl => 1000);
sweep_nothing('tap_bundles');
reset_proxy();
is(outcomes('mixed-', 60), join("\n", 'acquired|1|56', 'acquired|2|2', 'completed|1|1', 'in_progress|1|1'),
	'claims of many keys, some of which are taken');
is(sent('IN_PROGRESS'), '25+25+10 and 26', 'those of a batch with one that is taken are asked for by themselves');
is($sql->("SELECT count(*) FROM generate_series(1, 60) i WHERE i <> 4 AND (idem_get('mixed-' || i)).status = 'IN_PROGRESS'"), '58', 'they are held');
my ($wrong) = grep { $_->{runs} != 1 || $_->{fence} < 1e12 || !$_->{lease_ms} || $_->{status} ne 'IN_PROGRESS' }
  map { record('tap_bundles', "mixed-$_") } 7 .. 60;
is($wrong, undef, 'and their records are as those of single claims');
is($sql->("SELECT count(*) FROM generate_series(7, 60) i WHERE (idem_get('mixed-' || i)).status = 'IN_PROGRESS'"), '54',
	'which can be read');
reset_proxy();
is(outcomes('mixed-', 60), join("\n", 'completed|1|1', 'in_progress|1|57', 'in_progress|2|2'), 'all of them are taken');
$sql->("DO \$\$ BEGIN PERFORM idem_once('dup-' || i) FROM generate_series(1, 60) i; END \$\$");
settled($node);
reset_proxy();
is(outcomes('dup-', 60), 'completed|1|60', 'duplicates');
is(sent('IN_PROGRESS'), '25 and 60', 'if most keys are taken, the others are not tried in batches');

# an error while a batch is being made: of those that were not sent nothing is left
$run = start_script($node, "BEGIN; SELECT outcome FROM idem_acquire('bad-7', payload => '1');\n" . say_in_script('there') . halt_until('looked'));
await_word('there');
my ($st, $o, $e) = $node->psql('postgres',
	q{SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'bad-' || i FROM generate_series(1, 20) i), payloads => array_fill('2'::jsonb, ARRAY[20]))});
like($e, qr/ID003|payload/, 'another payload among many keys is an error');
is(states('bad-'), 'IN_PROGRESS 1', 'of keys that were not asked for yet nothing is left');
go_on('looked');
finish_script($run);
settled($node);

# A batch that arrives after its transaction was rolled back seals nothing.
foreach my $how (sort keys %completing)
{
	reset_proxy();
	fault(op => $batch, to => 'COMMITTING', do => 'late', ms => 3000, lost => JSON::PP::true);
	fault(op => 'UpdateItem', to => 'COMMITTING', nth => 9, do => 'answer', status => 400, code => 'ValidationException');
	like(transaction($how), qr/ERROR/, "$how: a transaction whose batch is late fails");
	settled($node);
	control('GET', '/quiet?seconds=60');
	unlike(states($name), qr/COMMITTING|COMPLETED|PROGRESS/, "$how: a batch that comes late seals nothing");
}

# ----- actions ----------------------------------------------------------------------

# Creates n actions and says how the calls end.
sub create
{
	my ($n) = @_;
	$name = sprintf 'a%d-', ++$keys;
	return $sql->("SELECT outcome, count(*) FROM action_create_many((SELECT jsonb_agg(jsonb_build_object('id', '$name' || i, "
		. "'payload', i, 'pin', CASE i WHEN 3 THEN '1234' END)) FROM generate_series(1, $n) i)) GROUP BY 1 ORDER BY 1");
}

# The sizes of the batches, and the numbers of single requests and of refused ones.
sub sent_actions
{
	my @sizes = map { scalar @{ $_->{writes} } } requests(op => $batch, key => 'ACTION#');
	my @alone = requests(op => 'UpdateItem', key => 'ACTION#');
	return join('+', sort { $b <=> $a } @sizes) . ' and ' . @alone . ', ' . grep { $_->{status} == 400 } @alone;
}

reset_proxy();
is(create(60), 'created|60', 'many actions are created');
is(sent_actions(), '25+25+10 and 0, 0', 'and share requests');
is($sql->("SELECT outcome, payload FROM action_consume('${name}7')"), 'consumed|7', 'they can be consumed');
is($sql->("SELECT outcome FROM action_consume('${name}3')"), 'invalid_pin', 'not without their PIN');
is($sql->("SELECT outcome FROM action_consume('${name}3', '1234')"), 'consumed', 'but with it');
foreach my $what (sort keys %faults)
{
	my ($fault, $alone, $refused) = @{ $faults{$what} };
	# An answer that does not say which action it is about leaves all in doubt.
	($alone, $refused) = (10, $refused + 9) if $alone == 1;
	($alone, $refused) = (10, 10) if $what eq 'a copy that comes twice';
	($alone, $refused) = (0, 0) if $what eq 'answers in the wrong places';
	reset_proxy();
	fault(op => $batch, key => 'ACTION#', %$fault);
	is(create(10), 'created|10', "actions, $what: all are created");
	is(sent_actions(), "10 and $alone, $refused", "actions, $what: those without an answer are asked for by themselves");
	is($sql->("SELECT state, count(*) FROM generate_series(1, 10) i, action_get('$name' || i) GROUP BY 1"), 'active|10',
		"actions, $what: all can be consumed");
}
reset_proxy();
is($sql->("SELECT outcome FROM action_create('1', id => 'a-taken')"), 'created', 'an action that is there already');
is($sql->(<<'SQL'), join("\n", "created|9", "already_exists|1"), 'among others: the others are created');
SELECT outcome, count(*) FROM action_create_many((SELECT jsonb_agg(jsonb_build_object('id', CASE i WHEN 4 THEN 'a-taken' ELSE 'a-new' || i END,
	'payload', i)) FROM generate_series(1, 10) i)) GROUP BY 1 ORDER BY 1
SQL

# ----- changed records -------------------------------------------------------------

reset_proxy();

# a record that PartiQL's spelling cannot finish, and one that another program has changed
reset_proxy();
fault(do => 'hold', op => $batch, to => 'COMPLETED');
$name = complete(5);
await_request(op => $batch, to => 'COMPLETED');
dynamodb(UpdateItem => { TableName => 'tap_bundles', Key => { pk => { S => "IDEMPOTENCY#${name}2" } },
	UpdateExpression => 'REMOVE retention_s' });
dynamodb(UpdateItem => { TableName => 'tap_bundles', Key => { pk => { S => "IDEMPOTENCY#${name}3" } },
	UpdateExpression => 'SET #o = :o', ExpressionAttributeNames => { '#o' => 'owner' },
	ExpressionAttributeValues => { ':o' => { S => 'somebody' } } });
release_held();
wait_until('a record that another program has changed is left alone, and the others are finished',
	sub { states($name) eq 'COMMITTING 1 COMPLETED 4' });
wait_until('the worker says so', sub { slurp_file($node->logfile) =~ /cannot be marked completed/ });
is(sent('COMPLETED'), '5 and 2', 'what was refused is asked for once more, by itself');
is($sql->("SELECT count(*) FROM exactonce_pending"), '1', 'its row stays');
dynamodb(UpdateItem => { TableName => 'tap_bundles', Key => { pk => { S => "IDEMPOTENCY#${name}3" } },
	UpdateExpression => 'SET #s = :s', ExpressionAttributeNames => { '#s' => 'status' },
	ExpressionAttributeValues => { ':s' => { S => 'FAILED' } } });
$sql->("SELECT idem_give_up(id) FROM exactonce_pending");
settled($node);

# ----- a service that does not take them ------------------------------------------

# Faults of a server of its own: what was refused once is not tried for an hour.
my %refusals = (
	denied => { do => 'answer', status => 400, code => 'AccessDeniedException' },
	unsupported => { do => 'answer', status => 400, code => 'UnknownOperationException' },
	partly => { do => 'statement', of => '-7', code => 'AccessDenied' });
foreach my $server (sort keys %refusals)
{
	$sql->(server_sql($server, table => "tap_$server", parallel_requests => 1) . "SELECT idem_create_table('$server')");
	$sql->("SELECT idem_once('first', server => '$server')");
	settled($node);
	reset_proxy();
	fault(op => $batch, to => 'COMPLETED', times => 0, %{ $refusals{$server} });
	my @names = map { my $n = complete(10, $server); settled($node); $n } 1 .. 2;
	is(states($_, "tap_$server"), 'COMPLETED 10', "$server: the keys are completed") foreach @names;
	is(sent('COMPLETED'), '10 and ' . ($server eq 'partly' ? 11 : 20), "$server: one key to a request from then on");
	my $said = () = slurp_file($node->logfile) =~ /server "$server" does not accept several keys in a request/g;
	is($said, 1, "$server: the log says so once");
}

reset_proxy();
$sql->(server_sql('single', table => 'tap_single', batch_requests => 'off', parallel_requests => 1) . "SELECT idem_create_table('single')");
$name = complete(10, 'single');
settled($node);
is(states($name, 'tap_single'), 'COMPLETED 10', 'batch_requests off: the keys are completed');
is(sent('COMPLETED'), ' and 10', 'batch_requests off: one key to a request');

# ----- a clock that was wrong -------------------------------------------------------

# The service refuses the time of a request.  What is asked for then has the right instants.
my $now = time();
put_record('tap_bundles', 'skewed 3', status => 'IN_PROGRESS', owner => '11111111-1111-4111-8111-111111111111', fence => 1, runs => 1,
	created_ms => $now * 1000, updated_ms => $now * 1000, lease_ms => ($now + 300) * 1000, ttl => $now + 86400);
reset_proxy();
fault(do => 'date', seconds => -400, strict => 1, times => 0);
is($sql->("SELECT string_agg(outcome::text, ' ' ORDER BY key) FROM idem_acquire_many(ARRAY['skewed 1', 'skewed 2', 'skewed 3', 'skewed 4'])"),
	'acquired acquired in_progress acquired', 'a wrong clock takes no lease from others');
cmp_ok(scalar(requests(op => $batch, key => 'skewed')), '>', 0, 'although the request for all was refused for its time');

stop_without_crash($node);
done_testing();
