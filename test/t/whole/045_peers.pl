# What other ways to do work once do in the schedules that exactonce is built for: each
# peer's algorithm breaks the rule that exactonce keeps when the same happens to it.
# This shows that the harness would notice.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_peers';
my $node = new_node('peers', options => { clock_skew => 0 });
sweep_nothing($table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text, by text)');

sub times_worked
{
	my ($key) = @_;
	return $sql->("SELECT count(*) FROM work WHERE key = '$key'");
}

# Is the write of a peer applied?
sub is_applied
{
	my (%request) = @_;
	return eval { dynamodb(UpdateItem => { TableName => $table, %request }); 1 } // 0;
}

sub now_ms
{
	my ($seconds) = @_;
	return { N => sprintf '%d', (time() + ($seconds // 0)) * 1000 };
}

# ----- a record without an end of the run -------------------------------------

# A claim as Powertools makes it: a record that is in progress ends with its
# in_progress_expiration, which the client knows only if it was told of the time limit
# of its function.
sub claim_until_expiry
{
	my ($key, %ends) = @_;
	return is_applied(Key => { pk => { S => $key } },
		UpdateExpression => 'SET #s = :p, expiration = :e' . ($ends{in_progress} ? ', in_progress_expiration = :i' : ''),
		ConditionExpression => 'attribute_not_exists(pk) OR expiration < :now'
		  . ' OR (#s = :p AND attribute_exists(in_progress_expiration) AND in_progress_expiration < :now)',
		ExpressionAttributeNames => { '#s' => 'status' },
		ExpressionAttributeValues => { ':p' => { S => 'INPROGRESS' }, ':e' => now_ms(3600), ':now' => now_ms($ends{after}),
			$ends{in_progress} ? (':i' => $ends{in_progress}) : () });
}
ok(claim_until_expiry('no end'), 'a run claims a key without an end of the run, and dies');
ok(!claim_until_expiry('no end', after => 900), '... a quarter of an hour later its work cannot be done by anybody');
ok(claim_until_expiry('an end', in_progress => now_ms(30)), 'with an end');
ok(claim_until_expiry('an end', in_progress => now_ms(930), after => 900), '... it can');

my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('dies');\n" . say_in_script('claimed') . halt_until('never'));
await_word('claimed');
$sql->("SELECT pg_terminate_backend(pid) FROM exactonce_claims WHERE key = 'dies'");
go_on('never');
finish_script($run);
wait_until('here the work can be done as soon as the run is dead',
	sub { run_script($node, "SELECT outcome FROM idem_acquire('dies');\n") =~ /acquired/ });

# ----- a lease without fencing --------------------------------------------------

# The first run stands still for longer than its lease, and goes on.
sub lease
{
	my ($key, $owner, $seconds) = @_;
	return is_applied(Key => { pk => { S => $key } },
		UpdateExpression => 'SET #o = :o, lease = :l',
		ConditionExpression => 'attribute_not_exists(lease) OR lease < :now',
		ExpressionAttributeNames => { '#o' => 'owner' },
		ExpressionAttributeValues => { ':o' => { S => $owner }, ':l' => now_ms($seconds), ':now' => now_ms() });
}
ok(lease('lease', 'first', -1), 'a run gets a lease, and stands still until it is over');
ok(lease('lease', 'second', 60), '... another one takes over');
$sql->("INSERT INTO work VALUES ('lease', 'second')");
$sql->("INSERT INTO work VALUES ('lease', 'first')");
is(times_worked('lease'), 2, '... and when the first goes on, the work is done twice');

$run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('fenced');\n" . say_in_script('stands still')
	  . halt_until('go on') . "INSERT INTO work VALUES ('fenced', 'first');\nSELECT idem_complete('fenced');\nCOMMIT;\n");
await_word('stands still');
put_record($table, 'fenced', %{ record($table, 'fenced') }, status => 'COMPLETED', owner => 'second', result => '"second"');
$sql->("INSERT INTO work VALUES ('fenced', 'second')");
go_on('go on');
like(finish_script($run), qr/ID002/, 'here a run that was taken over cannot commit');
is(times_worked('fenced'), 1, '... and the work is done once');

# ----- an outbox and its relay ----------------------------------------------------

# The relay sends, and removes the row when that is done.
$sql->("CREATE TABLE relayed (key text); INSERT INTO relayed VALUES ('relay')");
foreach my $life ('dies', 'lives')
{
	my $key = $sql->('SELECT key FROM relayed');
	is_applied(Key => { pk => { S => $key } }, UpdateExpression => 'ADD sent :one',
		ExpressionAttributeValues => { ':one' => { N => '1' } });
	$sql->('DELETE FROM relayed') if $life eq 'lives';
}
is(item($table, 'relay')->{sent}, 2, 'a relay that dies before it has noted what it sent sends it again');

reset_proxy();
fault(key => 'finish', to => 'COMPLETED', do => 'lose');
$sql->("SELECT idem_once('finish', '1')");
await_request(key => 'finish', to => 'COMPLETED');
crash($node);
$node->start;
settled($node);
is(record($table, 'finish')->{status}, 'COMPLETED', 'here a completion is sent again, too');
is(scalar(grep { $_->{applied} } requests(key => 'finish', to => 'COMPLETED')), 1,
	'... and takes effect once');

# ----- the order of recovery --------------------------------------------------------

# Two keys, so that the transaction can be held after the seal of the first.
sub start_commit
{
	my ($name) = @_;
	reset_proxy();
	fault(key => "$name/second", to => 'COMMITTING', do => 'hold');
	fault(key => "$name/first", to => 'COMPLETED', do => 'drop', times => 0);
	my $run = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('$name/first', 'it');\nSELECT idem_once('$name/first');\n"
		  . "SELECT idem_once('$name/second');\nCOMMIT;\n");
	await_request(key => "$name/second", to => 'COMMITTING');
	wait_until("$name: one key is sealed and the other is not", sub { (record($table, "$name/first") // { status => '' })->{status} eq 'COMMITTING' });
	return $run;
}

# Recovery looks for the row first, and asks afterwards whether the transaction goes on.
$run = start_commit('order');
my $rows = $sql->("SELECT count(*) FROM exactonce_pending WHERE key = 'order/first'");
release_held();
unlike(finish_script($run), qr/ERROR/, '... then its transaction commits');
my $sealed = record($table, 'order/first');
my ($xid) = $sealed->{origin} =~ m|/(\d+)/|;
my $goes_on = $sql->("SELECT pg_xact_status('$xid') = 'in progress'");
is("$rows $goes_on", '0 f', 'recovery found no row, and then no transaction that goes on');
sub turn
{
	my ($from, $to) = @_;
	return is_applied(Key => { pk => { S => 'IDEMPOTENCY#order/first' } }, UpdateExpression => 'SET #s = :to',
		ConditionExpression => '#s = :from AND #g = :g', ExpressionAttributeNames => { '#s' => 'status', '#g' => 'origin' },
		ExpressionAttributeValues => { ':to' => { S => $to }, ':from' => { S => $from }, ':g' => { S => $sealed->{origin} } });
}
ok(turn('COMMITTING', 'FAILED'), '... so that it gives back a key');
is(times_worked('order/first'), 1, '... whose work is done');
# Without this the worker would wait for an operator.
turn('FAILED', 'COMMITTING');

$run = start_commit('ours');
is($sql->("SELECT outcome FROM idem_acquire('ours/first')"), 'in_progress', 'here the key is in progress before the commit');
release_held();
finish_script($run);
is($sql->("SELECT outcome FROM idem_acquire('ours/first')"), 'completed', '... and completed after it');
is(record($table, 'ours/first')->{status}, 'COMMITTING', '... although its record is what it was');

reset_proxy();
settled($node);
stop_without_crash($node, kills => 1);
done_testing();
