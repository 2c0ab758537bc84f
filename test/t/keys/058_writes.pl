# Writes that are made if and only if a transaction commits: once, in order, and with what
# DynamoDB refuses left for an operator.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_writes';
my $business = 'tap_writes_business';
my $node = new_node('writes',
	conf => "exactonce.test_hurry = @{[ hurry(20) ]}\nwal_level = replica\nmax_wal_senders = 5\nhot_standby = on\nmax_connections = 20\n",
	options => { transact_tables => "$business, tap_writes_gone", request_timeout => '3s' });

sub make_table
{
	my ($name) = @_;
	dynamodb(CreateTable => { TableName => $name, BillingMode => 'PAY_PER_REQUEST',
		AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
		KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
	return;
}

make_table($business);

# Writes that count in an item, which shows how often they were made.
sub counting
{
	my ($id, $table) = @_;
	$table //= $business;
	return qq('[{"Update": {"TableName": "$table", "Key": {"id": "$id"}, "UpdateExpression": "ADD n :one",
		"ExpressionAttributeValues": {":one": 1}}}]');
}

sub counter
{
	my ($id) = @_;
	my $item = dynamodb(GetItem => { TableName => $business, ConsistentRead => JSON::PP::true,
		Key => { id => { S => $id } } })->{Item};
	return $item ? $item->{n}{N} // $item->{text}{S} : 0;
}

# ----- made if and only if the transaction commits ----------------------------

$node->safe_psql('postgres', 'SELECT idem_once(\'once\', writes => ' . counting('once') . ')');
settled($node);
is(counter('once'), 1, 'a write of idem_once() is made');
is(record($table, 'once')->{writes}, 1, 'the record says how many there were');

$node->safe_psql('postgres', 'BEGIN; SELECT idem_acquire(\'complete\'); SELECT idem_complete(\'complete\', \'1\', writes => ' .
	  counting('complete') . '); COMMIT');
settled($node);
is(counter('complete'), 1, 'so is one of idem_complete()');

$node->safe_psql('postgres', 'BEGIN; SELECT idem_acquire(\'aborted\'); SELECT idem_complete(\'aborted\', writes => ' .
	  counting('aborted') . '); ROLLBACK; BEGIN; SELECT idem_once(\'aborted 2\', writes => ' . counting('aborted') . '); ROLLBACK');
settled($node);
is(counter('aborted'), 0, 'a transaction that is rolled back makes none');


# ----- what is handed in is checked -------------------------------------------

# Errors of a call, in a transaction that goes on and commits without it.
sub refuses
{
	my ($what, $writes, $error) = @_;
	my $said = run_script($node, "BEGIN; SAVEPOINT s; SELECT idem_once('refused', writes => '$writes'); ROLLBACK TO s; COMMIT;\n");
	like($said, $error, $what);
	return;
}

sub large
{
	my ($id, $bytes, $n) = @_;
	my $text = 'x' x $bytes;
	$n //= 0;
	return qq({"Put": {"TableName": "$business", "Item": {"id": "$id", "n": $n, "t": "$text"}}});
}

my $put = qq({"Put": {"TableName": "$business", "Item": {"id": "1", "n": 1}}});
refuses('a condition', qq([{"Put": {"TableName": "$business", "Item": {"id": "1"}, "ConditionExpression": "attribute_not_exists(id)"}}]),
	qr/ERROR:  22023: write 1 cannot be made when the transaction commits\nDETAIL:  It has a condition/);
refuses('a ConditionCheck', qq([{"ConditionCheck": {"TableName": "$business", "Key": {"id": "1"}, "ConditionExpression": "attribute_exists(n)"}}]),
	qr/ERROR:  22023: .*\nDETAIL:  It has a condition/);
refuses('one item twice', "[$put, $put]", qr/ERROR:  22023: write 2 .*\nDETAIL:  Write 1 .* same item/);
refuses('one item, spelled otherwise', qq([$put, {"Delete": {"TableName": "$business", "Key": {"id": {"S": "1"}}}}]),
	qr/ERROR:  22023: write 2 .*\nDETAIL:  Write 1 .* same item/);
refuses('a key of another type', qq([{"Delete": {"TableName": "$business", "Key": {"id": 1}}}]),
	qr/ERROR:  22023: write 1 .*\nDETAIL:  Attribute "id" is a part of the key, and must be of type S/);
refuses('another key', qq([{"Delete": {"TableName": "$business", "Key": {"no": "1"}}}]), qr/"no" is no part of the key/);
refuses('no key', qq([{"Put": {"TableName": "$business", "Item": {"no": "1"}}}]), qr/The key of table "$business" has the attribute "id"/);
refuses('an empty key', qq([{"Put": {"TableName": "$business", "Item": {"id": ""}}}]), qr/must not be empty/);
refuses('a table that is not allowed', '[{"Put": {"TableName": "other", "Item": {"id": "1"}}}]', qr/ERROR:  42501: /);
refuses('a table that is not there', '[{"Put": {"TableName": "tap_writes_gone", "Item": {"id": "1"}}}]', qr/ERROR:  ID007: /);
refuses('an item that is too large', '[' . large(1, 409600) . ']',
	qr/ERROR:  54000: write 1 is too large/);
refuses('too many', '[' . join(',', map { qq({"Delete": {"TableName": "$business", "Key": {"id": "$_"}}}) } 1 .. 100) . ']',
	qr/ERROR:  54000: too many writes/);
refuses('too much', '[' . join(',', map { large($_, 300_000) } 1 .. 14) . ']',
	qr/ERROR:  54000: writes of a key are too large/);
like(run_script($node, "SELECT idem_acquire('now'); SELECT idem_complete('now', immediate => true, writes => '[$put]');\n"),
	qr/ERROR:  22023: immediate and writes exclude each other/, 'writes are not made at once');
is(record($table, 'refused'), undef, 'nothing of that has left a record');

my @many = map { large("many $_", 40_000, $_) } 1 .. 99;
$node->safe_psql('postgres', "SELECT idem_once('many', writes => '[" . join(',', @many) . "]')");
settled($node);
is(counter('many 99'), 99, 'as many writes as there may be, and nearly 4 MB, are made');

# ----- the handler of idem_call() ---------------------------------------------

$node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION handler(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS \$\$
BEGIN
	PERFORM idem_write('[{"Put": {"TableName": "$business", "Item": {"id": "called 1", "n": 1}}}]');
	BEGIN
		PERFORM idem_write('[{"Put": {"TableName": "$business", "Item": {"id": "called 2", "n": 2}}}]');
		RAISE 'no';
	EXCEPTION WHEN raise_exception THEN
		NULL;
	END;
	IF payload ? 'inner' THEN
		PERFORM idem_call('inner', 'handler(jsonb)');
	ELSE
		PERFORM idem_write('[{"Put": {"TableName": "$business", "Item": {"id": "called 3", "n": 3}}}]');
	END IF;
	IF payload ? 'fail' THEN
		RAISE 'failed';
	END IF;
	RETURN '1';
END \$\$;
SQL
like(run_script($node, "SELECT idem_call('call fails', 'handler(jsonb)', '{\"fail\": 1}');\n"), qr/failed/, 'a handler fails');
settled($node);
is(counter('called 1'), 0, 'what a handler has added goes with its work');
$node->safe_psql('postgres', "SELECT idem_call('call', 'handler(jsonb)')");
settled($node);
is(join(' ', map { counter("called $_") } 1 .. 3), '1 0 3', 'the key of the call makes it, but for what was rolled back');
is(record($table, 'call')->{writes}, 2, 'and says how many');
like(run_script($node, "SELECT idem_call('outer', 'handler(jsonb)', '{\"inner\": 1}');\n"), qr/^$|^1$/, 'a handler calls another one');
settled($node);
is(record($table, 'outer')->{writes} . record($table, 'inner')->{writes}, '12', 'each has its own writes');
like(run_script($node, "SELECT idem_write('[$put]');\n"), qr/ERROR:  55000: idem_write\(\) was not called by a handler/, 'elsewhere there is no key at hand');

# ----- a lost answer, and requests that are repeated --------------------------

my @faults = ([ 'lost', { do => 'lose' } ], [ 'lost twice', { do => 'lose', times => 2 } ],
	[ 'doubled', { do => 'twice' } ], [ 'dropped', { do => 'drop' } ], [ 'reset', { do => 'reset' } ],
	[ 'lost until the call ends', { do => 'lose', times => 12 } ],
	[ 'in conflict', { do => 'cancel', reasons => [ 'None', 'TransactionConflict' ] } ],
	[ 'in progress', { do => 'answer', status => 400, code => 'TransactionInProgressException' } ],
	[ 'throttled', { do => 'answer', status => 400, code => 'ThrottlingException', times => 12 } ]);
foreach my $n (0 .. $#faults)
{
	fault(op => 'TransactWriteItems', key => "fault $n", %{ $faults[$n][1] });
	$node->safe_psql('postgres', "SELECT idem_once('fault $n', writes => " . counting("counter $n") . ')');
}
settled($node);
reset_proxy();
is(counter("counter $_"), 1, "$faults[$_][0]: made once") foreach 0 .. $#faults;

# ----- a crash between commit and finish --------------------------------------

foreach my $how ('before', 'after')
{
	fault(to => 'COMPLETED', key => "crash $how", do => $how eq 'before' ? 'hold' : 'lose', times => 0);
	$node->safe_psql('postgres', "SELECT idem_once('crash $how', writes => " . counting("crash $how") . ')');
	await_request(key => "crash $how", to => 'COMPLETED');
	crash($node);
	reset_proxy();
	$node->start;
	settled($node);
	is(counter("crash $how"), 1, "the cluster is killed $how the finish: the write is made once");
}
fault(to => 'COMMITTING', key => 'no commit', do => 'hold', applied => 1);
my $backend = start_script($node, "SELECT idem_once('no commit', writes => " . counting('no commit') . ");\n");
await_request(key => 'no commit', to => 'COMMITTING');
crash($node);
reset_proxy();
$node->start;
settled($node);
is(counter('no commit'), 0, 'killed before the commit: the write is not made');
ok(!exists record($table, 'no commit')->{writes}, 'and the record that is given back says so') if record($table, 'no commit');
finish_script($backend);

# ----- order ------------------------------------------------------------------

sub putting
{
	my ($id, $text) = @_;
	return qq('[{"Put": {"TableName": "$business", "Item": {"id": "$id", "text": "$text"}}}]');
}

# The first key is held up; the second one has the same item, the third one another.
fault(to => 'COMPLETED', key => 'first', do => 'hold', times => 0);
$node->safe_psql('postgres', "SELECT idem_once('first', writes => " . putting('order', 'first') . ')');
await_request(key => 'first', to => 'COMPLETED');
$node->safe_psql('postgres', "SELECT idem_once('second', writes => " . putting('order', 'second') . ')');
$node->safe_psql('postgres', "SELECT idem_once('third', writes => " . putting('other', 'third') . ')');
wait_until('a key with another item goes ahead', sub { counter('other') eq 'third' });
is(record($table, 'second')->{status}, 'COMMITTING', 'a key waits for an older one that writes to its item');
is(counter('order'), 0, 'neither is made');
is($node->safe_psql('postgres', "SELECT key, waits_for FROM exactonce_pending ORDER BY key"), "first|\nsecond|earlier writes: first",
	'exactonce_pending says for which key it waits');
reset_proxy();
settled($node);
is(counter('order'), 'second', 'both are made in the order in which they were handed in');

# A backlog of an item: each is made, one after the other.
fault(to => 'COMPLETED', key => 'backlog 1', do => 'hold');
$node->safe_psql('postgres', <<"SQL");
DO \$\$
BEGIN
	FOR i IN 1 .. 100 LOOP
		PERFORM idem_once('backlog ' || i, writes => jsonb_build_array(
			jsonb_build_object('Update', jsonb_build_object('TableName', '$business', 'Key', '{"id": "backlog"}'::jsonb,
				'UpdateExpression', 'SET #t = :t ADD n :one', 'ExpressionAttributeNames', '{"#t": "last"}'::jsonb,
				'ExpressionAttributeValues', jsonb_build_object(':one', 1, ':t', i))),
			jsonb_build_object('Put', jsonb_build_object('TableName', '$business', 'Item', jsonb_build_object('id', 'own ' || i)))));
		COMMIT;
	END LOOP;
END \$\$;
SQL
release_held();
settled($node);
is(join(' ', map { (values %$_)[0] } @{ dynamodb(GetItem => { TableName => $business, ConsistentRead => JSON::PP::true,
	Key => { id => { S => 'backlog' } } })->{Item} }{'n', 'last'}), '100 100', 'the keys of a backlog come one after the other');

# The transaction that hands in first may commit last: it holds the item until then.  An item
# is the same by whatever server it is reached.
$node->safe_psql('postgres', server_sql('direct', endpoint => $ENV{EO_ENGINE_URL}, table => $table, transact_tables => $business));
foreach my $server ('exactonce', 'direct')
{
	my $early = start_script($node, "BEGIN;\nSELECT idem_once('early $server', writes => " . putting("race $server", 'early') . ");\n" .
		  say_in_script("early has it $server") . halt_until("early commits $server") . "COMMIT;\n");
	await_word("early has it $server");
	my $late = start_script($node, "SELECT idem_once('late $server', server => '$server', writes => " . putting("race $server", 'late') . ");\n");
	wait_until('another one waits for the item', sub {
		$node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'object'") eq '1' });
	go_on("early commits $server");
	is(finish_script($_), "\n", 'both commit') foreach $early, $late;
	settled($node);
	is(counter("race $server"), 'late', 'the item shows the later one');
}

# What key a table has is learned for each server: another one may be another account.
my $described = count_requests(op => 'DescribeTable', table => $business);
$node->safe_psql('postgres', server_sql('twin', table => $table, transact_tables => $business) . 'BEGIN;' .
	  join('', map { my $server = $_; map { "SELECT idem_once('described $server $_', server => '$server', writes => " . putting("$server $_", 'x') . ');' } 1, 2 }
		qw(exactonce twin)) . 'COMMIT');
is(count_requests(op => 'DescribeTable', table => $business) - $described, 2, 'two servers describe a table for themselves, each of them once');
settled($node);

$node->safe_psql('postgres', "BEGIN; " . join('', map { "SELECT idem_once('same $_', writes => " . putting('same', $_) . '); ' } 1 .. 9) . 'COMMIT');
settled($node);
is(counter('same'), 9, 'keys of one transaction are in order, too');

# Claimed in one order, completed in the other one.
$node->safe_psql('postgres', 'BEGIN; ' . join('', map { "SELECT idem_acquire('crossed $_'); " } 1 .. 9) .
	  join('', map { "SELECT idem_complete('crossed $_', writes => " . putting('crossed', $_) . '); ' } reverse 1 .. 9) . 'COMMIT');
settled($node);
is(counter('crossed'), 1, 'in that in which they were completed');

my $other = start_script($node, "BEGIN;\nSELECT idem_once('dead a', writes => " . putting('a', 1) . ");\n" . say_in_script('a') . halt_until('b') .
	  "SELECT idem_once('dead b', writes => " . putting('b', 1) . ");\nCOMMIT;\n");
await_word('a');
my $mine = start_script($node, "BEGIN;\nSELECT idem_once('dead c', writes => " . putting('b', 2) . ");\n" . say_in_script('b') .
	  "SELECT idem_once('dead d', writes => " . putting('a', 2) . ");\nCOMMIT;\n");
like(finish_script($other) . finish_script($mine), qr/ERROR:  40P01: deadlock detected/, 'a deadlock over items is detected');
settled($node);

# ----- refused for good -------------------------------------------------------

$node->safe_psql('postgres', "SELECT idem_once('text', writes => " . putting('refusing', 'a text') . ')');
settled($node);
make_table('tap_writes_gone');
$node->safe_psql('postgres', "SELECT idem_once('gone', writes => " . counting('x', 'tap_writes_gone') . ')');
settled($node);
# ADD to a text is refused, but only when it is tried.
my $refused = qq('[{"Put": {"TableName": "$business", "Item": {"id": "beside", "n": 1}}},
	{"Update": {"TableName": "$business", "Key": {"id": "refusing"}, "UpdateExpression": "ADD #t :one",
		"ExpressionAttributeNames": {"#t": "text"}, "ExpressionAttributeValues": {":one": 1}}}]');
fault(op => 'TransactWriteItems', key => 'refused key', do => 'cancel', reasons => [ 'None', 'None', 'ValidationError' ], times => 0);
$node->safe_psql('postgres', "SELECT idem_once('refused key', '\"r\"', writes => $refused)");
my $pending = "SELECT key, writes, reason, reason_item FROM exactonce_pending WHERE reason IS NOT NULL ORDER BY key";
wait_until('what is refused for good is told, with the write', sub {
	$node->safe_psql('postgres', $pending) =~ /^refused key\|2\|DynamoDB answered ValidationError: .*\|2$/ });
$node->safe_psql('postgres', "SELECT idem_once('behind', writes => " . putting('refusing', 'behind') . ')');
$node->safe_psql('postgres', "SELECT idem_once('beside', writes => " . counting('unharmed') . ')');
$node->safe_psql('postgres', "SELECT idem_once('without')");
wait_until('other keys are not held up', sub { counter('unharmed') eq '1' && record($table, 'without')->{status} eq 'COMPLETED' });
is(record($table, 'behind')->{status}, 'COMMITTING', 'but one with the same item waits');
is($node->safe_psql('postgres', "SELECT key, waits_for FROM exactonce_pending ORDER BY key"), "behind|refused writes: refused key\nrefused key|",
	'and says for which key');
like($node->safe_psql('postgres', "SELECT status, detail FROM idem_check() WHERE \"check\" = 'pending'"),
	qr/^warning\|2 completions, .*; of which 1 have failed, and 1 of these need somebody to remove the reason/, 'idem_check() tells, too');
like(run_script($node, "SELECT idem_acquire('refused key');\n"), qr/completed/, 'the key is completed here');
is(counter('beside'), 0, 'none of its writes is made');
like(run_script($node, "SELECT idem_resolve('behind', 'completed');\n"), qr/ERROR:  55000: the writes of key "behind" .* have not been refused/,
	'writes that are not refused are not given up');
my $log = -s $node->logfile;
is(run_script($node, "SELECT idem_resolve('refused key', 'completed');\n"), "t\n", 'an operator gives them up');
like(slurp_file($node->logfile, $log), qr/LOG:  exactonce: a write to table "$business" was given up by an operator: the item \{"id": "refusing"\}/,
	'the log says what was not written');
unlike(slurp_file($node->logfile, $log), qr/:one|beside", "n/, 'without values');
settled($node);
reset_proxy();
is(counter('beside') . record($table, 'refused key')->{status}, '0COMPLETED', 'the key is completed, and nothing was written');
is(counter('refusing'), 'behind', 'what waited is made');

# A table that goes after the commit, and comes back.
fault(to => 'COMPLETED', key => 'table', do => 'hold', times => 0);
$node->safe_psql('postgres', "SELECT idem_once('table', writes => " . counting('back', 'tap_writes_gone') . ')');
await_request(key => 'table', to => 'COMPLETED');
dynamodb(DeleteTable => { TableName => 'tap_writes_gone' });
reset_proxy();
wait_until('a table that is gone is told', sub { $node->safe_psql('postgres', $pending) =~ /^table\|1\|.*ResourceNotFoundException/ });
make_table('tap_writes_gone');
settled($node);
is(record($table, 'table')->{status}, 'COMPLETED', 'when it is back the write is made');

# The finish is applied, its answer is lost, and then its table goes: that is no refusal.
my $lost_log = -s $node->logfile;
fault(to => 'COMPLETED', key => 'lost, gone', do => 'lose', times => 0);
$node->safe_psql('postgres', "SELECT idem_once('lost, gone', writes => " . counting('lost', 'tap_writes_gone') . ')');
wait_until('the finish is applied', sub { record($table, 'lost, gone')->{status} eq 'COMPLETED' });
dynamodb(DeleteTable => { TableName => 'tap_writes_gone' });
reset_proxy();
settled($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM exactonce_pending'), 0, 'the answer was lost, and the table is gone: the key is done');
unlike(slurp_file($node->logfile, $lost_log), qr/are refused/, 'and nobody is told that its writes are refused');

# An operator meets such a key first.
fault(to => 'COMPLETED', key => 'lost, resolved', do => 'lose', times => 0);
$node->safe_psql('postgres', "SELECT idem_once('lost, resolved', writes => " . counting('lost, resolved') . ')');
wait_until('the finish is applied', sub { record($table, 'lost, resolved')->{status} eq 'COMPLETED' });
is(run_script($node, "SELECT idem_resolve('lost, resolved', 'completed');\n"), "t\n", 'an operator resolves a key whose answer was lost');
reset_proxy();
settled($node);
is(counter('lost, resolved') . record($table, 'lost, resolved')->{writes}, '11', 'its write was made once');
unlike(slurp_file($node->logfile, $lost_log), qr/given up/, 'and the log does not say that it was given up');

# Rolled back: the row is still there, and the worker finds the record given up.
fault(op => 'TransactWriteItems', key => 'waived', do => 'cancel', reasons => [ 'None', 'ValidationError' ], times => 0);
$node->safe_psql('postgres', "SELECT idem_once('waived', writes => " . counting('waived') . ')');
wait_until('another one is refused', sub { $node->safe_psql('postgres', $pending) =~ /^waived/ });
$node->safe_psql('postgres', "BEGIN; SELECT idem_resolve('waived', 'completed'); ROLLBACK");
reset_proxy();
settled($node);
is(counter('waived'), 0, 'given up, and then rolled back: it is given up');

# A row that was given up while its record could not be read, and then turned up.
fault(op => 'TransactWriteItems', key => 'given up', do => 'cancel', reasons => [ 'None', 'ValidationError' ], times => 0);
$node->safe_psql('postgres', "SELECT idem_once('given up', writes => " . counting('given up') . ')');
wait_until('one more is refused', sub { $node->safe_psql('postgres', $pending) =~ /^given up/ });
$node->safe_psql('postgres', "UPDATE exactonce_internal.outbox SET given_up = true, trouble = 0, reason = NULL, reason_item = NULL");
is(run_script($node, "SELECT idem_resolve('given up', 'completed');\n"), "t\n", 'a row that was given up is resolved');
reset_proxy();
settled($node);
is(counter('given up') . record($table, 'given up')->{status}, '0COMPLETED', 'without its writes');

# ----- a copy beside its original ---------------------------------------------

# The copy has a row of the original's, whose life goes on: that is not the copy's to finish,
# and its own keys do not wait for it.
fault(to => 'COMPLETED', key => 'of the original', do => 'hold', times => 0);
$node->safe_psql('postgres', "SELECT idem_once('of the original', writes => " . putting('of both', 'original') . ')');
await_request(key => 'of the original', to => 'COMPLETED');
$node->append_conf('pg_hba.conf', 'local replication all trust');
$node->reload;
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
$copy->safe_psql('postgres', "SELECT idem_once('of the copy', writes => " . putting('of both', 'copy') . ')');
wait_until('a key of the copy does not wait for the row of the original', sub { counter('of both') eq 'copy' });
is(record($table, 'of the original')->{status}, 'COMMITTING', 'which the copy leaves alone');
$copy->stop;
reset_proxy();
settled($node);
is(record($table, 'of the original')->{status}, 'COMPLETED', 'the original finishes it');

stop_without_crash($node, kills => 1);
done_testing();
