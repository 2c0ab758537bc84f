# idem_transact() under faults: the answer is the one that would have come without
# them, the writes are made once, and every copy of a request is the same bytes with
# the same token.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Faults;
use JSON::PP;
use Test::More;

my $table = 'tap_transact';
my $business = 'tap_business';
my $node = new_node('transact',
	options => { transact_tables => $business, request_timeout => '3s', clock_skew => 0 });
sweep_nothing('tap_transact');

dynamodb(CreateTable => { TableName => $business, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });

# A call that puts an item, which can be done once, and counts in another, which
# shows how often it was done; only if the count is at least so much.
sub call
{
	my ($key, $least) = @_;
	my $condition = defined $least ? qq(, "ConditionExpression": "n >= :least") : '';
	my $values = defined $least ? qq(, ":least": $least) : '';
	return <<"SQL";
SELECT outcome, replayed, fence, run, result FROM idem_transact('$key', '[
	{"Put": {"TableName": "$business", "Item": {"id": "put $key"},
		"ConditionExpression": "attribute_not_exists(id)"}},
	{"Update": {"TableName": "$business", "Key": {"id": "$key"}, "UpdateExpression": "ADD n :one"$condition,
		"ExpressionAttributeValues": {":one": 1$values}}}]', '"done"');
SQL
}

sub counter
{
	my ($id) = @_;
	my $item = dynamodb(GetItem => { TableName => $business, ConsistentRead => JSON::PP::true,
		Key => { id => { S => $id } } })->{Item};
	return $item ? $item->{n}{N} : 0;
}

sub set_counter
{
	my ($id, $n) = @_;
	dynamodb(PutItem => { TableName => $business, Item => { id => { S => $id }, n => { N => "$n" } } });
	return;
}

# Runs a call under faults and returns what it says, the transactions that were sent,
# and all requests.
sub under
{
	my ($call, @faults) = @_;
	reset_proxy();
	fault(op => 'TransactWriteItems', %$_) foreach @faults;
	my $said = run_script($node, $call);
	chomp $said;
	my @log = requests();
	reset_proxy();
	return ($said, [ grep { $_->{op} eq 'TransactWriteItems' } @log ], \@log);
}

sub count_different
{
	my ($sent) = @_;
	my %different = map { $_->{transaction} => 1 } @$sent;
	return scalar keys %different;
}

sub operations
{
	my ($log) = @_;
	return join ' ', map { $_->{op} } @$log;
}

# ----- faults that nobody sees ------------------------------------------------

sub cancel
{
	my ($reasons, %more) = @_;
	return { do => 'cancel', reasons => $reasons, %more };
}

sub refuse
{
	my ($code, %more) = @_;
	return { do => 'answer', status => 400, code => $code, %more };
}

my $conflict = [ 'TransactionConflict', 'None', 'None' ];
my $in_progress = 'TransactionInProgressException';

# The requests that are sent; the faults are the shared ones of that name, if none
# are given.
my @unseen = (
	[ 'no fault', 1, [] ],
	[ 'request lost', 2 ],
	[ 'request lost twice', 3, [ { do => 'drop', times => 2 } ] ],
	[ 'answer lost', 2 ],
	[ 'answer lost twice', 3 ],
	[ 'reset after it was applied', 2 ],
	[ 'answer lost, then request lost', 3, [ { do => 'lose' }, { do => 'drop', nth => 2 } ] ],
	[ 'request doubled', 1 ],
	[ 'request doubled, first answer counts', 1 ],
	[ 'status 500', 2 ],
	[ 'status 500, applied', 2 ],
	[ 'status 503', 2 ],
	[ 'conflict with the record', 2, [ cancel($conflict) ] ],
	[ 'conflict with a write', 2, [ cancel([ 'None', 'None', 'TransactionConflict' ]) ] ],
	[ 'two conflicts', 3, [ cancel($conflict, times => 2) ] ],
	[ 'answer lost, then a conflict', 3, [ { do => 'lose' }, cancel($conflict, nth => 2) ] ],
	[ 'conflict, and a condition that is false for the moment', 2,
		[ cancel([ 'TransactionConflict', 'ConditionalCheckFailed', 'None' ]) ] ],
	[ 'a write throttled', 2, [ cancel([ 'None', 'ThrottlingError', 'None' ]) ] ],
	[ 'the record throttled', 2, [ cancel([ 'ProvisionedThroughputExceeded', 'None', 'None' ]) ] ],
	[ 'throttled as a whole', 2, [ refuse('ThrottlingException') ] ],
	[ 'in progress', 2, [ refuse($in_progress) ] ],
	[ 'answer lost, and in progress', 3, [ { do => 'lose' }, refuse($in_progress, nth => 2) ] ],
	[ 'cancelled for no reason', 2, [ refuse('TransactionCanceledException') ] ],
	[ 'cancelled for no reasons', 2, [ cancel([]) ] ],
	[ 'cancelled although all is well', 2, [ cancel([ 'None', 'None', 'None' ]) ] ],
	[ 'cancelled for a new reason', 2, [ cancel([ 'None', 'ValidationError', 'SomethingNew' ]) ] ],
	[ 'cancelled for too many reasons', 2, [ cancel([ 'None', 'None', 'None', 'ValidationError' ]) ] ],
	[ 'answer lost, then too few reasons, with a condition', 2, [ { do => 'lose' }, cancel([ 'ConditionalCheckFailed' ], nth => 2) ] ],
	[ 'answer lost, then too few reasons', 2, [ { do => 'lose' }, cancel([ 'ValidationError' ], nth => 2) ] ],
	[ 'answer lost, then a write refused', 2, [ { do => 'lose' }, cancel([ 'None', 'None', 'ValidationError' ], nth => 2) ] ],
	[ 'answer garbled', 2 ],
	[ 'answer garbled, with the right checksum', 2, [ { do => 'garble', crc => 1 } ] ],
	[ 'answer with a wrong checksum', 2 ],
	[ 'answer cut in its body', 2, [ { do => 'truncate', bytes => 1 } ] ],
	[ 'answer of HTML', 2 ],
	[ 'answer empty', 2 ],
	[ 'answer to another operation', 2, [ { do => 'other_operation' } ] ],
	[ 'answer of three megabytes', 2 ],
	[ 'Date six minutes off', 1 ]);

my $n = 0;
foreach my $case (@unseen)
{
	my ($what, $requests, $faults) = @$case;
	my $key = 'u' . ++$n;
	my ($said, $sent) = under(call($key), @{ $faults // fault_named($what)->{do} });
	is($said, 'completed|f|||"done"', "$what: the answer");
	is(scalar(@$sent), $requests, "$what: the number of requests");
	is(count_different($sent), 1, "$what: the same bytes and the same token each time");
	is(counter($key), 1, "$what: done once");
	($said) = under(call($key));
	is($said, 'completed|t|' . record($table, $key)->{fence} . '|1|"done"', "$what: a duplicate is answered");
	is(counter($key), 1, "$what: a duplicate does nothing");
}

# ----- faults that end the call -----------------------------------------------

# What it says, and what the next call says.
my $unknown = qr/ERROR:  ID006: .*the outcome is unknown/;
my @ending = (
	[ 'never an answer', 'completed|t',
		qr/ERROR:  ID006: could not transact key "\w+" on server "exactonce": the outcome is unknown/ ],
	[ 'request always lost', 'completed|f', $unknown, { do => 'drop', times => 0 } ],
	[ 'always status 500', 'completed|f', $unknown ],
	[ 'always in progress', 'completed|f', $unknown, refuse($in_progress, times => 0) ],
	[ 'always a conflict', 'completed|f', qr/ERROR:  ID006: .*conflicting write\n.*TransactionConflict/,
		cancel($conflict, times => 0) ],
	[ 'a write always throttled', 'completed|f', qr/ERROR:  ID006: .*throttling/,
		cancel([ 'None', 'None', 'ThrottlingError' ], times => 0) ],
	[ 'answer lost, then throttled', 'completed|t', $unknown, { do => 'lose' },
		cancel([ 'ThrottlingError', 'None', 'None' ], nth => 2, times => 0) ],
	[ 'access denied', 'completed|f', qr/ERROR:  ID007: .*denied access/ ],
	[ 'answer lost, then access denied', 'completed|t', $unknown ],
	[ 'token used with another body', 'completed|f', qr/ERROR:  XX000: a request token for key/,
		refuse('IdempotentParameterMismatchException') ],
	[ 'a write that is invalid', 'completed|f',
		qr/ERROR:  ID007: .*a write was refused\nDETAIL:  Write 1, Put of table "$business": ValidationError\./,
		cancel([ 'None', 'ValidationError', 'None' ]) ],
	[ 'a record that is invalid', 'completed|f',
		qr/ERROR:  ID007: .*\nDETAIL:  The key's record: ItemCollectionSizeLimitExceeded\./,
		cancel([ 'ItemCollectionSizeLimitExceeded', 'None', 'None' ]) ],
	[ 'too few reasons', 'completed|f',
		qr/ERROR:  ID007: .*a write was refused\nDETAIL:  One of the writes, or the key's record: ValidationError\./,
		cancel([ 'ValidationError' ], times => 0) ],
	[ 'too few reasons, a condition', 'completed|f',
		qr/ERROR:  ID007: .*\nDETAIL:  One of the writes, or the key's record: ConditionalCheckFailed\./,
		cancel([ 'None', 'ConditionalCheckFailed' ], times => 0) ],
	[ 'always a reason that is new', 'completed|f', qr/ERROR:  ID006: .*\nDETAIL:  DynamoDB answered TransactionCanceledException: .*This is not understood/,
		cancel([ 'None', 'None', 'SomethingNew' ], times => 0) ]);

foreach my $case (@ending)
{
	my ($what, $next, $error, @faults) = @$case;
	my $key = 's' . ++$n;
	@faults = @{ fault_named($what)->{do} } unless @faults;
	my ($said, $sent) = under(call($key), @faults);
	like($said, $error, "$what: the error");
	is(count_different($sent), 1, "$what: the same bytes and the same token each time");
	($said) = under(call($key));
	like($said, qr/^\Q$next\E\|/, "$what: the answer to the next call");
	is(counter($key), 1, "$what: done once in the end");
}

# ----- a condition of the caller that is false --------------------------------

my ($said, $sent, $log) = under(call('false', 5));
like($said, qr/ERROR:  ID007: .*\nDETAIL:  Write 2, Update of table "$business": ConditionalCheckFailed\./,
	'a false condition: the error says which write');
is(operations($log), 'TransactWriteItems GetItem', 'a false condition: the record is looked at');
is(record($table, 'false'), undef, 'a false condition: no record is left');
is(counter('put false'), 0, 'a false condition: nothing is written');

my $lost = 'a false condition, after a request that was lost';
($said, $sent, $log) = under(call('lost', 5), { do => 'drop' });
like($said, qr/ERROR:  ID007: .*ConditionalCheckFailed/s, "$lost: the error");
is(operations($log), 'TransactWriteItems TransactWriteItems GetItem UpdateItem', "$lost: the record is buried");
is(record($table, 'lost')->{status}, 'FAILED', "$lost: a late copy would be refused");
is(record($table, 'lost')->{runs}, 0, "$lost: no run is counted");
set_counter('lost', 7);
($said) = under(call('lost', 5));
like($said, qr/^completed\|f/, "$lost: the key can be used");
is(counter('lost'), 8, "$lost: the key can be used once");

my $late = 'a false condition, before the request arrives late';
reset_proxy();
fault(op => 'TransactWriteItems', do => 'hold');
like(run_script($node, call('late', 5)), qr/ERROR:  ID007: .*ConditionalCheckFailed/s, "$late: the error");
set_counter('late', 7);
release_held();
wait_until("$late: it arrives when the condition is true", sub {
	my ($first) = requests(op => 'TransactWriteItems');
	return $first->{code} ne '' || $first->{status};
});
is(counter('late'), 7, "$late: it writes nothing");
is(record($table, 'late')->{status}, 'FAILED', "$late: it does not touch the record");

# The record that was left is another run's meanwhile, which gave it back: the key is free again.
sub arrives
{
	my ($what, $of, $left) = @_;
	release_held();
	wait_until("$what: it arrives", sub {
		my ($first) = requests(op => 'TransactWriteItems');
		return $first->{code} ne '' || $first->{status};
	});
	is(counter($of), $left, "$what: it writes nothing");
	return;
}

my %of_others = (owner => '11111111-1111-4111-8111-111111111111', fence => 1, runs => 1, created_ms => time() * 1000,
	updated_ms => time() * 1000, ttl => time() + 86400);
my %given_back = (%of_others, status => 'FAILED', error => '{"message": "given back"}', retry_ms => 0);

my $between = 'a false condition, before the request arrives after a run of others';
reset_proxy();
fault(op => 'TransactWriteItems', do => 'hold');
like(run_script($node, call('between', 5)), qr/ERROR:  ID007: .*ConditionalCheckFailed/s, "$between: the error");
like(run_script($node, "SELECT outcome FROM idem_acquire('between');\nSELECT idem_fail('between', '\"later\"');"), qr/acquired/,
	"$between: others can have the key");
set_counter('between', 7);
arrives($between, 'between', 7);
isnt(record($table, 'between')->{status}, 'COMPLETED', "$between: it does not complete the key");

# Another run has the key when the second copy comes, and gives it back before the first one does.
my $taken = 'a key that is taken, before the request arrives late';
reset_proxy();
put_record($table, 'taken', %of_others, status => 'IN_PROGRESS', lease_ms => (time() + 3600) * 1000);
fault(op => 'TransactWriteItems', do => 'hold');
set_counter('taken', 0);
like(run_script($node, call('taken')), qr/^in_progress\|/, "$taken: the answer");
put_record($table, 'taken', %given_back);
arrives($taken, 'taken', 0);

# The same, and the second copy is refused by a write, too: the record tells what the key is.
$taken = 'a key that is taken, and a condition that is false';
reset_proxy();
put_record($table, 'taken too', %of_others, status => 'IN_PROGRESS', lease_ms => (time() + 3600) * 1000);
fault(op => 'TransactWriteItems', do => 'hold');
fault(op => 'TransactWriteItems', %{ cancel([ 'None', 'ConditionalCheckFailed', 'None' ], nth => 2) });
set_counter('taken too', 7);
like(run_script($node, call('taken too', 5)), qr/^in_progress\|/, "$taken: the answer");
put_record($table, 'taken too', %given_back);
arrives($taken, 'taken too', 7);

# A record that is swept before the copy is too old refuses the copy no longer than that.
foreach my $cancelled (0, 1)
{
	my ($key, $record, $name) = ("soon swept $cancelled", { status => 'FAILED', error => '{"message": "for good"}' },
		'nobody is told that the key has failed');
	my $what = 'a key that has failed and is swept soon' . ($cancelled ? ', and a condition that is false' : '');
	reset_proxy();
	put_record($table, $key, %of_others, %$record, ttl => time() + 600);
	fault(op => 'TransactWriteItems', do => 'hold');
	fault(op => 'TransactWriteItems', %{ cancel([ 'None', 'ConditionalCheckFailed', 'None' ], nth => 2) }) if $cancelled;
	set_counter($key, 7);
	like(run_script($node, call($key, 5)), $unknown, "$what: $name");
	dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } } });
	release_held();
	wait_until("$what: the copy is applied", sub { (record($table, $key) // { status => '' })->{status} eq 'COMPLETED' });
	is(counter($key), 8, "$what: it is done once");
}

# Requests that replace a record as it was seen cannot be buried: their copies are good for
# that record as long as it stays.
my %replaced = (free => { %given_back }, past => { %of_others, status => 'FAILED', ttl => 1000 });
foreach my $key (sort keys %replaced)
{
	my $what = "a false condition, and a record that is $key";
	reset_proxy();
	put_record($table, $key, %{ $replaced{$key} });
	fault(op => 'TransactWriteItems', do => 'hold', nth => 2);
	set_counter($key, 0);
	like(run_script($node, call($key, 5)), $unknown, "$what: nobody is told that nothing was done");
	set_counter($key, 7);
	release_held();
	wait_until("$what: it is applied", sub { record($table, $key)->{status} eq 'COMPLETED' });
	is(counter($key), 8, "$what: it is done once");
	like((under(call($key)))[0], qr/^completed\|t\|/, "$what: the next call is told so");
}

# A record that is free is replaced with the run counted, and only as it was seen.
put_record($table, 'again', %given_back, runs => 3);
($said, $sent) = under(call('again'), { do => 'lose', nth => 2 });
is($said, 'completed|f|||"done"', 'a record that was given back: the answer');
is(record($table, 'again')->{runs}, 4, 'a record that was given back: the run is counted');
is(counter('again'), 1, 'a record that was given back: done once');

# whatever the second copy meets: its own first copy had been applied
my $applied = 'a false condition, after a request that was applied';
($said) = under(call('applied'), { do => 'lose' }, cancel([ 'None', 'ConditionalCheckFailed', 'None' ], nth => 2));
is($said, 'completed|f|||"done"', "$applied: no error");
is(counter('applied'), 1, "$applied: done once");
($said) = under(call('nobody', 5), { do => 'drop' }, { op => 'UpdateItem', do => 'drop', times => 0 });
like($said, $unknown, "$lost, and no answer when it is buried: the outcome is unknown");

# ----- refusals without the record --------------------------------------------

under(call('shown'));
($said, $sent, $log) = under(call('shown'), { do => 'no_item' });
like($said, qr/^completed\|t\|\d+\|1\|"done"$/, 'a refusal without the record: the answer');
is(operations($log), 'TransactWriteItems GetItem', 'a refusal without the record: the record is read');
($said) = under(call('shown2'), { do => 'lose' }, { do => 'no_item', nth => 2 });
is($said, 'completed|f|||"done"', 'an answer lost, and a second answer without the record: the answer');
is(counter('shown2'), 1, 'an answer lost, and a second answer without the record: done once');

# ----- a record past its time -------------------------------------------------

put_record($table, 'old', status => 'COMPLETED', owner => 'gone', fence => 5, runs => 1, updated_ms => 1000,
	ttl => 1000);
($said, $sent) = under(call('old'), { do => 'lose', nth => 2 });
is($said, 'completed|f|||"done"', 'a record past its time is replaced, although the answer is lost');
is(count_different($sent), 2, 'a record past its time is replaced by another transaction with its own token');
is(counter('old'), 1, 'a record past its time: done once');

# ----- many at once, and a cancel ---------------------------------------------

reset_proxy();
my @runs = map { start_script($node, call('race') x 5) } 1 .. 6;
my @said = map { split /\n/, finish_script($_) } @runs;
is(scalar(grep { /^completed\|f\|/ } @said), 1, 'of thirty calls one does it');
is(scalar(grep { /^(?:completed\|t\|.*"done"|in_progress\|f\|)/ || /ID006: .*conflict/ } @said), 29,
	'of thirty calls the others are told that it is done or in progress');
is(counter('race'), 1, 'of thirty calls it is done once');

reset_proxy();
fault(op => 'TransactWriteItems', do => 'lose', times => 0);
fault(op => 'TransactWriteItems', do => 'delay', ms => paced(500), nth => 2, times => 0);
like(run_script($node, "SET statement_timeout = '@{[ paced('400ms') ]}';\n" . call('cancelled')), qr/ERROR:  57014: /,
	'cancelled while it waits: the error');
($said) = under(call('cancelled'));
like($said, qr/^completed\|t\|/, 'cancelled while it waits: the next call finds out that it was done');
is(counter('cancelled'), 1, 'cancelled while it waits: done once');

stop_without_crash($node);
done_testing();
