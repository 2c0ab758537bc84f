# idem_transact() under faults: the answer is the one that would have come
# without them, the writes are made once, and every copy of a request is the
# same bytes with the same token.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use JSON::PP;
use Test::More;

my $table = 'tap_transact';
my $node = new_node('transact', table => $table,
	options => ", transact_tables 'tap_business', request_timeout '3s', clock_skew '0'");

dynamodb(CreateTable => { TableName => 'tap_business', BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });

# A counter that shows how often it was done, and a put that can be done once.
sub call
{
	my ($key, $least) = @_;
	my $condition = defined $least ? qq(, "ConditionExpression": "n >= :least") : '';
	my $values = defined $least ? qq(, ":least": $least) : '';
	return qq{SELECT outcome, replayed, fence, run, result FROM idem_transact('$key', '[
		{"Put": {"TableName": "tap_business", "Item": {"id": "put $key"}, "ConditionExpression": "attribute_not_exists(id)"}},
		{"Update": {"TableName": "tap_business", "Key": {"id": "$key"}, "UpdateExpression": "ADD n :one"$condition,
			"ExpressionAttributeValues": {":one": 1$values}}}]', '"done"');\n};
}

sub counter
{
	my ($key) = @_;
	my $item = dynamodb(GetItem => { TableName => 'tap_business', ConsistentRead => JSON::PP::true,
		Key => { id => { S => $key } } })->{Item};
	return $item ? $item->{n}{N} : 0;
}

# One call under faults; what it says, and the transactions that were sent.
sub under
{
	my ($key, $call, @faults) = @_;
	control('POST', '/reset');
	control('POST', '/fault', encode_json({ op => 'TransactWriteItems', %$_ })) foreach @faults;
	my $said = psql_ok($node, $call);
	chomp $said;
	my $log = decode_json(control('GET', '/log'));
	control('POST', '/reset');
	return ($said, [ grep { $_->{op} eq 'TransactWriteItems' } @$log ], $log);
}

sub one_transaction
{
	my ($sent) = @_;
	my %different = map { $_->{transaction} => 1 } @$sent;
	return scalar keys %different;
}

my $conflict = { do => 'cancel', reasons => [ 'TransactionConflict', 'None', 'None' ] };

# what, faults, requests sent
my @unseen = (
	[ 'no fault', [], 1 ],
	[ 'dropped', [ { do => 'drop' } ], 2 ],
	[ 'dropped twice', [ { do => 'drop', times => 2 } ], 3 ],
	[ 'applied and lost', [ { do => 'lose' } ], 2 ],
	[ 'lost twice', [ { do => 'lose', times => 2 } ], 3 ],
	[ 'applied and reset', [ { do => 'reset' } ], 2 ],
	[ 'lost, then dropped', [ { do => 'lose' }, { do => 'drop', nth => 2 } ], 3 ],
	[ 'delivered twice', [ { do => 'twice' } ], 1 ],
	[ 'delivered twice, first answer', [ { do => 'twice', first => JSON::PP::true } ], 1 ],
	[ 'answered 500', [ { do => 'answer' } ], 2 ],
	[ 'answered 500, applied', [ { do => 'answer', applied => JSON::PP::true } ], 2 ],
	[ 'answered 503', [ { do => 'answer', status => 503, code => 'ServiceUnavailable' } ], 2 ],
	[ 'a conflict with the record', [$conflict], 2 ],
	[ 'a conflict with a write', [ { %$conflict, reasons => [ 'None', 'None', 'TransactionConflict' ] } ], 2 ],
	[ 'two conflicts', [ { %$conflict, times => 2 } ], 3 ],
	[ 'lost, then a conflict', [ { do => 'lose' }, { %$conflict, nth => 2 } ], 3 ],
	[ 'a conflict, and a condition that is false for the moment',
		[ { %$conflict, reasons => [ 'TransactionConflict', 'ConditionalCheckFailed', 'None' ] } ], 2 ],
	[ 'throttled', [ { %$conflict, reasons => [ 'None', 'ThrottlingError', 'None' ] } ], 2 ],
	[ 'over the capacity', [ { %$conflict, reasons => [ 'ProvisionedThroughputExceeded', 'None', 'None' ] } ], 2 ],
	[ 'throttled as a whole', [ { do => 'answer', status => 400, code => 'ThrottlingException' } ], 2 ],
	[ 'in progress', [ { do => 'answer', status => 400, code => 'TransactionInProgressException' } ], 2 ],
	[ 'lost, and in progress', [ { do => 'lose' },
		{ do => 'answer', nth => 2, status => 400, code => 'TransactionInProgressException' } ], 3 ],
	[ 'cancelled for no reason', [ { do => 'answer', status => 400, code => 'TransactionCanceledException' } ], 2 ],
	[ 'too few reasons', [ { do => 'cancel', reasons => [ 'None', 'ConditionalCheckFailed' ] } ], 2 ],
	[ 'garbled', [ { do => 'garble' } ], 2 ],
	[ 'garbled, with the right checksum', [ { do => 'garble', crc => JSON::PP::true } ], 2 ],
	[ 'wrong checksum', [ { do => 'wrong_crc' } ], 2 ],
	[ 'cut in the body', [ { do => 'truncate', bytes => 1 } ], 2 ],
	[ 'a page of HTML', [ { do => 'html' } ], 2 ],
	[ 'an empty body', [ { do => 'empty' } ], 2 ],
	[ 'the answer to something else', [ { do => 'other_operation' } ], 2 ],
	[ 'two megabytes', [ { do => 'big' } ], 2 ],
	[ 'a date six minutes off', [ { do => 'date', seconds => 360 } ], 1 ]);

my $n = 0;
foreach my $case (@unseen)
{
	my ($what, $faults, $requests) = @$case;
	my $key = 'u' . ++$n;
	my ($said, $sent) = under($key, call($key), @$faults);
	is($said, 'completed|f|||"done"', $what);
	is(scalar(@$sent), $requests, "$what: requests");
	is(one_transaction($sent), 1, "$what: the same bytes and the same token each time");
	is(counter($key), 1, "$what: done once");
	($said) = under($key, call($key));
	is($said, 'completed|t|' . records($table)->{$key}{fence} . '|1|"done"', "$what: a duplicate");
	is(counter($key), 1, "$what: not done again");
}

# Faults that end the call, and what the next one says.
my @seen = (
	[ 'never an answer', [ { do => 'lose', times => 0 } ],
		qr/ERROR:  ID006: could not transact key "\w+" on server "exactonce": the outcome is unknown/, 'completed|t' ],
	[ 'always dropped', [ { do => 'drop', times => 0 } ], qr/ERROR:  ID006: .*the outcome is unknown/, 'completed|f' ],
	[ 'always 500', [ { do => 'answer', times => 0 } ], qr/ERROR:  ID006: .*the outcome is unknown/, 'completed|f' ],
	[ 'always in progress', [ { do => 'answer', status => 400, code => 'TransactionInProgressException', times => 0 } ],
		qr/ERROR:  ID006: .*the outcome is unknown/, 'completed|f' ],
	[ 'always a conflict', [ { %$conflict, times => 0 } ], qr/ERROR:  ID006: .*conflicting write\n.*TransactionConflict/, 'completed|f' ],
	[ 'always throttled', [ { %$conflict, reasons => [ 'None', 'None', 'ThrottlingError' ], times => 0 } ],
		qr/ERROR:  ID006: .*throttling/, 'completed|f' ],
	[ 'lost, then throttled', [ { do => 'lose' }, { do => 'cancel', nth => 2, times => 0, reasons => [ 'ThrottlingError', 'None', 'None' ] } ],
		qr/ERROR:  ID006: .*the outcome is unknown/, 'completed|t' ],
	[ 'access denied', [ { do => 'answer', status => 400, code => 'AccessDeniedException' } ], qr/ERROR:  ID007: .*denied access/, 'completed|f' ],
	[ 'lost, then denied', [ { do => 'lose' }, { do => 'answer', nth => 2, status => 400, code => 'AccessDeniedException' } ],
		qr/ERROR:  ID006: .*the outcome is unknown/, 'completed|t' ],
	[ 'another body under its token', [ { do => 'answer', status => 400, code => 'IdempotentParameterMismatchException' } ],
		qr/ERROR:  XX000: a request token for key/, 'completed|f' ],
	[ 'a write that is invalid', [ { do => 'cancel', reasons => [ 'None', 'ValidationError', 'None' ] } ],
		qr/ERROR:  ID007: .*a write was refused\nDETAIL:  Write 1, Put of table "tap_business": ValidationError\./, 'completed|f' ],
	[ 'a record that is invalid', [ { do => 'cancel', reasons => [ 'ItemCollectionSizeLimitExceeded', 'None', 'None' ] } ],
		qr/ERROR:  ID007: .*\nDETAIL:  The key's record: ItemCollectionSizeLimitExceeded\./, 'completed|f' ]);

foreach my $case (@seen)
{
	my ($what, $faults, $pattern, $next) = @$case;
	my $key = 's' . ++$n;
	my ($said, $sent) = under($key, call($key), @$faults);
	like($said, $pattern, $what);
	is(one_transaction($sent), 1, "$what: one transaction");
	($said) = under($key, call($key));
	like($said, qr/^\Q$next\E\|/, "$what: the next call");
	is(counter($key), 1, "$what: done once in the end");
}

# Its own condition is false: nothing is written, and no record is left.
my ($said, $sent, $log) = under('false', call('false', 5));
like($said, qr/ERROR:  ID007: .*\nDETAIL:  Write 2, Update of table "tap_business": ConditionalCheckFailed\./, 'a condition of the caller');
is(scalar(@$log), 1, '... is refused by one request');
is(records($table)->{false}, undef, '... and leaves no record');
is(counter('put false'), 0, '... nor anything else');

# ... after a first copy that went astray and might yet arrive
($said, $sent, $log) = under('astray', call('astray', 5), { do => 'drop' });
like($said, qr/ERROR:  ID007: .*ConditionalCheckFailed/s, 'a condition of the caller, after a lost request');
is(join(' ', map { $_->{op} } @$log), 'TransactWriteItems TransactWriteItems UpdateItem', '... whose record is buried');
is(records($table)->{astray}{status}, 'FAILED', '... so that a late copy of it is refused');
is(records($table)->{astray}{runs}, 0, '... and no run is counted');
dynamodb(PutItem => { TableName => 'tap_business', Item => { id => { S => 'astray' }, n => { N => 7 } } });
($said) = under('astray', call('astray', 5));
like($said, qr/^completed\|f/, '... and the key can be used');
is(counter('astray'), 8, '... once');

# ... which does arrive, late, when its condition has come true
control('POST', '/reset');
control('POST', '/fault', '{"do":"hold","op":"TransactWriteItems"}');
$said = psql_ok($node, call('late', 5));
like($said, qr/ERROR:  ID007: .*ConditionalCheckFailed/s, 'a request that is held up, and refused meanwhile');
dynamodb(PutItem => { TableName => 'tap_business', Item => { id => { S => 'late' }, n => { N => 7 } } });
control('POST', '/release');
wait_until('... it arrives', sub {
	my ($first) = grep { $_->{op} eq 'TransactWriteItems' } @{ decode_json(control('GET', '/log')) };
	return $first->{code} ne '' || $first->{status};
});
is(counter('late'), 7, '... and changes nothing');
is(records($table)->{late}{status}, 'FAILED', '... in the record either');

# ... and which was applied: then it is not refused, whatever the second copy met
($said, $sent, $log) = under('was there', call('was there'), { do => 'lose' },
	{ do => 'cancel', nth => 2, reasons => [ 'None', 'ConditionalCheckFailed', 'None' ] });
is($said, 'completed|f|||"done"', 'applied and lost, then refused for what it had done itself');
is(counter('was there'), 1, '... once');
# ... nobody can say
($said) = under('nobody', call('nobody', 5), { do => 'drop' }, { op => 'UpdateItem', do => 'drop', times => 0 });
like($said, qr/ERROR:  ID006: .*the outcome is unknown/, 'refused after a lost request, and then no answer');

# The record is refused without being shown: it is looked up.
under('shown', call('shown'));
($said, $sent, $log) = under('shown', call('shown'), { do => 'no_item' });
like($said, qr/^completed\|t\|\d+\|1\|"done"$/, 'a refusal without the record');
is(join(' ', map { $_->{op} } @$log), 'TransactWriteItems GetItem', '... is followed by a read');
($said) = under('shown2', call('shown2'), { do => 'lose' }, { do => 'no_item', nth => 2 });
is($said, 'completed|f|||"done"', 'applied and lost, and a second answer without the record');
is(counter('shown2'), 1, '... once');

# A record past its time takes another transaction, with another token.
my $old = { pk => { S => 'IDEMPOTENCY#old' }, status => { S => 'COMPLETED' }, owner => { S => 'gone' },
	fence => { N => 5 }, runs => { N => 1 }, updated_ms => { N => 1000 }, ttl => { N => 1000 } };
dynamodb(PutItem => { TableName => $table, Item => $old });
($said, $sent) = under('old', call('old'), { do => 'lose', nth => 2 });
is($said, 'completed|f|||"done"', 'a record past its time is replaced, though the answer is lost');
is(one_transaction($sent), 2, '... by a transaction of its own');
is(counter('old'), 1, '... once');

# Many at once: one does it, and all have the same answer.
control('POST', '/reset');
my @runs = map { start_psql($node, call('race') x 5) } 1 .. 6;
my @said = map { split /\n/, finish_psql($_) } @runs;
is(scalar(grep { /^completed\|f\|/ } @said), 1, 'of thirty calls one does it');
is(scalar(grep { /^(?:completed\|t\|.*"done"|in_progress\|f\|)/ || /ID006: .*conflict/ } @said), 29, '... and the others are told');
is(counter('race'), 1, '... once');

# A cancel in the middle: the next call finds out.
control('POST', '/reset');
control('POST', '/fault', '{"do":"lose","times":0,"op":"TransactWriteItems"}');
control('POST', '/fault', '{"do":"delay","ms":500,"op":"TransactWriteItems","nth":2,"times":0}');
$said = psql_ok($node, "SET statement_timeout = '400ms';\n" . call('cancelled'));
like($said, qr/ERROR:  57014: /, 'cancelled while it waits');
($said) = under('cancelled', call('cancelled'));
like($said, qr/^completed\|t\|/, '... it was done');
is(counter('cancelled'), 1, '... once');

$node->stop;
done_testing();
