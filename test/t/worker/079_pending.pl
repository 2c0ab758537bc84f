# Completions that cannot be written: what exactonce_pending says of them, that nothing but
# an answer or an operator ends them, and that an operator can.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_pending';
my $business = 'tap_pending_business';
# Three minutes are nine seconds here, and ten minutes half of one.
my $node = new_node('pending', conf => "exactonce.test_hurry = @{[ hurry(20) ]}\n",
	options => { transact_tables => $business, request_timeout => '3s' });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
dynamodb(CreateTable => { TableName => $business, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });

my $shim = $node->basedir . '/wrong_clock.so';
my $setting = $node->basedir . '/wrong_clock';
system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim, "$FindBin::Bin/../../harness/wrong_clock.c");

# Sets the clock of the host, for all processes of the server at one instant.
sub set_clock
{
	my ($days) = @_;
	open my $out, -e $setting ? '+<' : '>', $setting or die "$setting: $!";
	syswrite $out, pack('q', $days * 86_400_000_000) or die "$setting: $!";
	close $out;
	return;
}

sub restart
{
	local %ENV = (%ENV, LD_PRELOAD => $shim, WRONG_CLOCK => $setting);
	$node->stop('fast');
	$node->start;
	return;
}

sub counting
{
	my ($id) = @_;
	return qq('[{"Update": {"TableName": "$business", "Key": {"id": "$id"}, "UpdateExpression": "ADD n :one",
		"ExpressionAttributeValues": {":one": 1}}}]');
}

sub counter
{
	my ($id) = @_;
	my $item = dynamodb(GetItem => { TableName => $business, ConsistentRead => JSON::PP::true,
		Key => { id => { S => $id } } })->{Item};
	return $item ? $item->{n}{N} : 0;
}

# A column of a key's row.
sub pending
{
	my ($key, $columns) = @_;
	return $sql->("SELECT $columns FROM exactonce_pending WHERE key = '$key'");
}

sub give_up
{
	my ($key) = @_;
	return run_script($node, "SELECT 'gives up ' || idem_give_up('" . pending($key, 'id') . "');\n");
}

sub check_of
{
	my ($what) = @_;
	return $sql->("SELECT status, detail FROM idem_check() WHERE \"check\" = '$what'");
}

# ----- absence is no evidence -------------------------------------------------

# The record of a committed key is deleted, as by a table that was restored, and the clock of
# the host says that its retention is over.
set_clock(0);
restart();
foreach my $way ([ behind => -8, 0 ], [ ahead => 0, 8 ])
{
	my ($key, $at_commit, $then) = @$way;
	set_clock($at_commit);
	fault(to => 'COMPLETED', key => $key, do => 'answer', status => 503, code => 'ServiceUnavailable', times => 0);
	$sql->("SELECT idem_once('$key', writes => " . counting($key) . ')');
	wait_until("$key: the finish fails", sub { pending($key, 'trouble') eq 'fails' });
	my $item = dynamodb(GetItem => { TableName => $table, ConsistentRead => JSON::PP::true,
		Key => { pk => { S => "IDEMPOTENCY#$key" } } })->{Item};
	dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } } });
	set_clock($then);
	reset_proxy();
	wait_until("$key: the row of a record that is gone stays, and says so",
		sub { pending($key, 'trouble, reason') eq 'refused|Its record is not there.' }) or last;
	restart();
	wait_until("$key: so it does after a restart", sub { count_requests(op => 'TransactWriteItems', key => $key) > 1 });
	like(check_of('pending'), qr/^warning\|1 completions, .*; of which 1 have failed, and 1 of these need somebody to remove the reason/,
		"$key: idem_check() counts it");
	is(counter($key), 0, "$key: its write is not made");
	like(run_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('$key');\nSELECT idem_complete('$key');\nCOMMIT;\n"),
		qr/acquired(?s:.*)ERROR:  ID002/, "$key: the key is not completed a second time");
	settled_claims();
	dynamodb(PutItem => { TableName => $table, Item => $item });
	restart();
	settled($node);
	is(counter($key), 1, "$key: when the record is back its write is made, once");
}
set_clock(0);

# Waits until no claim is left to be given back.
sub settled_claims
{
	wait_until('what was claimed is given back', sub {
		$sql->("SELECT count(*) FROM exactonce_claims WHERE state <> 'second look'") eq '0' });
	return;
}

# Finished and swept, and its answer was lost: nothing tells that, so an operator ends it.
fault(to => 'COMPLETED', key => 'swept', do => 'lose', times => 0);
$sql->("SELECT idem_once('swept', writes => " . counting('swept') . ')');
wait_until('a finish is applied, and its answer is lost', sub { counter('swept') eq '1' });
# A request that was under way would be answered as the first one was.
crash($node);
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#swept' } } });
reset_proxy();
$node->start;
wait_until('then its record is swept: the row stays', sub { pending('swept', 'trouble') eq 'refused' });
my $log = -s $node->logfile;
like(give_up('swept'), qr/^gives up true\n(?s:.*)NOTICE:  \w+: the completion of key "swept" in table "$table" was given up\nDETAIL:  1 writes are not made, unless .*\nHINT:  Its record is left as it is\./,
	'an operator gives it up, and is told what that means');
like(slurp_file($node->logfile, $log), qr/LOG:  exactonce: a write to table "$business" was given up by an operator: the item \{"id": "swept"\}/,
	'the log says which write may be missing');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), 0, 'no row is left');
is(counter('swept'), 1, 'its write was made once');
like(run_script($node, "SELECT outcome FROM idem_acquire('swept', on_commit => 'keep');\nSELECT idem_release('swept');\n"), qr/^acquired\nt/,
	'the key can be claimed as before');

# ----- what exactonce_pending says --------------------------------------------

# A policy takes the right away: the sentence of DynamoDB says who may not do what.
my $sentence = 'User: arn:aws:iam::1:user/x is not authorized to perform: dynamodb:UpdateItem';
fault(to => 'COMPLETED', key => 'denied', do => 'answer', status => 400, code => 'AccessDeniedException', message => $sentence, times => 0);
$sql->("SELECT idem_once('denied', '\"the result\"')");
wait_until('a plain finish is denied: that is shown', sub { pending('denied', 'attempts >= 1') eq 't' });
is(pending('denied', 'trouble, reason, failing_since > created_at'), "fails|DynamoDB answered AccessDeniedException: $sentence.|t",
	'since when, and in the words of DynamoDB');
like($sql->('SELECT failing_since IS NOT NULL, last_error FROM exactonce_health'), qr/^t\|.*\Q$sentence\E/, 'exactonce_health has it, too');
like(give_up('denied'), qr/ERROR:  55000: the completion of key "denied" .* can still be written\n(?s:.*)has failed for less than three minutes/,
	'it is not given up in the first minutes');
wait_until('attempts are counted', sub { pending('denied', 'attempts >= 4') eq 't' });
wait_until('after minutes it may be given up', sub { pending('denied', 'trouble') eq 'lasts' });
my $version = $sql->('SELECT ctid FROM exactonce_internal.outbox');
my $denied = count_requests(key => 'denied', to => 'COMPLETED');
wait_until('it is tried twice after that', sub { count_requests(key => 'denied', to => 'COMPLETED') >= $denied + 2 });
is($sql->('SELECT ctid FROM exactonce_internal.outbox'), $version, 'not each attempt writes a version of the row');
unlike($sql->('SELECT * FROM exactonce_pending'), qr/the result/, 'no result is shown');
reset_proxy();
settled($node);
is(record($table, 'denied')->{status}, 'COMPLETED', 'the right is given back: the key is completed');
is($sql->('SELECT failing_since IS NULL, last_error IS NULL FROM exactonce_health'), 't|t', 'and nothing fails any more');

# Half of the credentials.  What is given up meanwhile is evidence of its commit.
my @half = ('half', 'half elsewhere', 'half completed', 'half raced');
foreach my $key (@half)
{
	fault(to => 'COMPLETED', key => $key, do => 'drop', times => 0);
	$sql->("SELECT idem_once('$key')");
}
$sql->('ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (DROP secret_access_key)');
foreach my $key (@half)
{
	wait_until("$key: a mapping that is of no use is told", sub { pending($key, 'reason') =~ /only one half of its credentials/ });
	wait_until("$key: after minutes it can be given up", sub { pending($key, 'trouble') eq 'lasts' });
}
# Two operators do so.
my $first = start_script($node, "BEGIN;\nSELECT idem_give_up('" . pending('half', 'id') . "');\n" . say_in_script('gives up') . halt_until('given up') . "COMMIT;\n");
await_word('gives up');
my $second = start_script($node, "SELECT 'gives up ' || idem_give_up('" . pending('half', 'id') . "');\n");
wait_until('one waits for the other', sub {
		$sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%idem_give_up%'") eq '1' });
go_on('given up');
like(finish_script($first), qr/^t\n(?s:.*)HINT:  Its record could not be read \(.*half of its credentials.*\)\. If it can be read again and is COMMITTING/,
	'whatever has become of the credentials');
is(finish_script($second), "gives up false\n", 'and has nothing left to do');
like(give_up($_), qr/^gives up true/, "$_: given up, too") foreach 'half elsewhere', 'half completed';
# The worker may try a row once more that it had met before: another worker does not know them.
my $worker = $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = 'postgres'");
$sql->("SELECT pg_terminate_backend($worker)");
wait_until('the worker has gone', sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE pid = $worker") eq '0' });
$sql->(server_sql('direct', table => $table, endpoint => $ENV{EO_ENGINE_URL}));
like($sql->("SELECT status, detail, advice FROM idem_check('direct') WHERE \"check\" = 'given up'"),
	qr/^warning\|3 completions, the oldest of \d{4}-.*; .*\|.*idem_resolve.*idem_forget/, 'idem_check() shows what stands');

# The finish of one is under way when it is given up, and is applied before that commits.
fault(to => 'COMPLETED', key => 'half raced', do => 'hold', times => 0);
end_fault('half raced', 'drop');
my $held = count_requests(to => 'COMPLETED', key => 'half raced');
$sql->("ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (ADD secret_access_key 'test')");
wait_until('a finish is under way', sub { count_requests(to => 'COMPLETED', key => 'half raced') > $held });
$first = start_script($node, "BEGIN;\nSELECT idem_give_up('" . pending('half raced', 'id') . "');\n" . say_in_script('raced') . halt_until('race') . "COMMIT;\n");
await_word('raced');
reset_proxy();
wait_until('a finish under way is applied', sub { status_of($table, 'half raced') eq 'COMPLETED' });
go_on('race');
like(finish_script($first), qr/^t\n/, 'while an operator gives it up');
wait_until('then no row stands', sub { $sql->('SELECT count(*) FROM exactonce_internal.outbox') eq '3' });

is($sql->("SELECT outcome FROM idem_acquire('half')"), 'completed', 'the key is completed here all the same');
is($sql->("SELECT idem_resolve('half', 'completed')") . record($table, 'half')->{status}, 'tCOMPLETED', 'an operator has others see it');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), 2, 'then its row goes');
is($sql->("SELECT idem_resolve('half elsewhere', 'completed', server => 'direct')") . record($table, 'half elsewhere')->{status}, 'tCOMPLETED',
	'so it is by another address of the table');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), 1, 'then its row goes, too');
# The answer of a finish was lost with the server.
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#half completed' } }, UpdateExpression => 'SET #s = :s',
	ExpressionAttributeNames => { '#s' => 'status' }, ExpressionAttributeValues => { ':s' => { S => 'COMPLETED' } } });
is($sql->("SELECT idem_resolve('half completed', 'completed')"), 't', 'a record that is COMPLETED already: an operator has the row removed');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), 0, 'then no row is left');
like($sql->("SELECT status, detail FROM idem_check() WHERE \"check\" = 'given up'"), qr/^ok\|nothing/, 'idem_check() has nothing any more');

# ----- refusals, and answers that are not understood --------------------------

sub cancelled
{
	my ($key, @reasons) = @_;
	fault(op => 'TransactWriteItems', key => $key, do => 'cancel', reasons => \@reasons, times => 0);
	$sql->("SELECT idem_once('$key', writes => " . counting($key) . ')');
	return;
}

$log = -s $node->logfile;
cancelled('short', 'ValidationError');
wait_until('fewer reasons than writes, a known one: refused', sub { pending('short', 'trouble') eq 'refused' });
is(pending('short', 'reason, reason_item'), 'DynamoDB answered ValidationError: [ValidationError].|', 'but not which write');
is($sql->("SELECT idem_resolve('short', 'completed')"), 't', 'its writes are given up');
is(record($table, 'short')->{status} . counter('short'), 'COMPLETED0', 'and the key is completed');
end_fault('short');

foreach my $case ([ 'no reasons' ], [ 'all is well' => 'None', 'None' ], [ 'a new code' => 'None', 'SomethingNew' ],
	[ 'too many' => 'None', 'None', 'ValidationError' ], [ 'short condition' => 'ConditionalCheckFailed' ])
{
	my ($key, @reasons) = @$case;
	cancelled($key, @reasons);
	wait_until("$key: not understood, and told so", sub { pending($key, 'trouble, reason') =~ /^fails\|DynamoDB answered .*not understood/ });
	like(run_script($node, "SELECT idem_resolve('$key', 'completed');\n"), qr/ERROR:  55000: the writes of key/, "$key: that is no refusal");
	end_fault($key);
}
$sql->("SELECT idem_once('others')");
wait_until('a key without writes is not held up', sub { status_of($table, 'others') eq 'COMPLETED' });
unlike(slurp_file($node->logfile, $log), qr/cannot be written; keys of ended transactions wait/, 'and the table is not to blame');
settled($node);
is(counter($_), 1, "$_: the next answer is understood: made once") foreach 'no reasons', 'all is well', 'a new code', 'too many', 'short condition';

# The finish was applied, and what is said after that is no news about it.
foreach my $case ([ 'applied, refused' => 'ValidationError' ], [ 'applied, no reasons' ], [ 'applied, short condition' => 'ConditionalCheckFailed' ])
{
	my ($key, @reasons) = @$case;
	fault(op => 'TransactWriteItems', key => $key, do => 'lose');
	fault(op => 'TransactWriteItems', key => $key, do => 'cancel', reasons => \@reasons, nth => 2, times => 0);
	$sql->("SELECT idem_once('$key', writes => " . counting($key) . ')');
	settled($node);
	is(counter($key) . record($table, $key)->{status}, '1COMPLETED', "$key: the record tells");
}
reset_proxy();

# ----- an operator gives a completion up --------------------------------------

is($sql->("SELECT idem_give_up('00000000-0000-4000-8000-000000000000')"), 'f', 'there is no such row');
like(run_script($node, "SELECT idem_give_up(NULL);\n"), qr/ERROR:  22004: pending_id must not be null/, 'NULL is none');
like(run_script($node, "CREATE ROLE somebody;\nSET ROLE somebody;\nSELECT idem_give_up(gen_random_uuid());\n"), qr/ERROR:  42501/, 'not everybody may');
fault(to => 'COMPLETED', key => 'held', do => 'hold', times => 0);
$sql->("SELECT idem_once('held')");
await_request(to => 'COMPLETED', key => 'held');
is(pending('held', 'attempts IS NULL AND trouble IS NULL'), 't', 'a completion that has not failed says nothing');
like(give_up('held'), qr/ERROR:  55000: .* can still be written\nDETAIL:  Its record is COMMITTING/, 'and is not given up');
reset_proxy();
settled($node);

# Somebody has completed the record without the writes: they are what is given up.
cancelled('waived');
wait_until('writes are not understood', sub { pending('waived', 'trouble') =~ /fails|lasts/ });
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#waived' } },
	UpdateExpression => 'SET #s = :c REMOVE #w', ExpressionAttributeNames => { '#s' => 'status', '#w' => 'writes' },
	ExpressionAttributeValues => { ':c' => { S => 'COMPLETED' } } });
like(give_up('waived'), qr/^gives up true\n(?s:.*)NOTICE:  \w+: the completion of key "waived" .* was given up\nDETAIL:  1 writes are not made/,
	'waived: what is given up is said');
reset_proxy();
settled($node);
is(counter('waived'), 0, 'waived: the write is not made');

# What nothing understands: after minutes it is given up, and its record stays COMMITTING.
cancelled('puzzle');
$sql->('CREATE DATABASE beside');
$node->safe_psql('beside', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table));
wait_until('what is not understood lasts', sub { pending('puzzle', 'trouble') eq 'lasts' });
cmp_ok($sql->("SELECT idem_drain('1 s')"), '>', 0, 'it keeps the database from being drained');
like(run_script($node, "DROP SERVER exactonce CASCADE;\n"), qr/ERROR:  55006/, 'and its server from being dropped');
like(give_up('puzzle'), qr/^gives up true\n(?s:.*)HINT:  Its record stays COMMITTING, and others wait for it: end that with idem_resolve/, 'until it is given up');
is($sql->("SELECT count(*) FROM exactonce_pending"), 0, 'it is not pending any more');
is($sql->("SELECT idem_drain('1 min')"), 0, 'the database can be drained');
my $life = $sql->('SELECT life FROM exactonce_internal.outbox');
is(item($table, "ORIGIN#$life")->{state}, 'retired', 'the life whose record stays sealed is not closed, which would give the key to a copy');
is($sql->('SELECT idem_drain(NULL)'), 0, 'and goes on');
is($sql->("SELECT outcome FROM idem_acquire('puzzle')"), 'completed', 'here the key is completed');
is($node->safe_psql('beside', "SELECT outcome FROM idem_acquire('puzzle')"), 'in_progress', 'for another database it is in progress');
like(run_script($node, "SELECT idem_forget('puzzle');\n"), qr/ERROR:  ID001/, 'it is not forgotten');
like(run_script($node, "SELECT idem_resolve('puzzle', 'failed');\n"), qr/ERROR:  55000: .*committed/, 'nor resolved as failed');
is($sql->("SELECT idem_resolve('puzzle', 'completed')"), 't', 'but as completed');
is($node->safe_psql('beside', "SELECT outcome FROM idem_acquire('puzzle')"), 'completed', 'then others see that');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox') . counter('puzzle'), '00', 'no row is left, and the write was not made');
is($sql->("SELECT idem_forget('puzzle')"), 't', 'the key can be redriven');
$sql->("BEGIN; SELECT idem_acquire('puzzle'); SELECT idem_complete('puzzle'); COMMIT");
settled($node);
is(status_of($table, 'puzzle'), 'COMPLETED', 'and is done');
$sql->('DROP DATABASE beside');
reset_proxy();

# The server is gone, by somebody who has changed the catalogs.
fault(to => 'COMPLETED', key => 'orphan', do => 'drop', times => 0);
$sql->(server_sql('dropped', table => 'tap_dropped') . "SELECT idem_create_table('dropped')");
$sql->("SELECT idem_once('orphan', server => 'dropped')");
$sql->("SET allow_system_table_mods = on; DELETE FROM pg_user_mapping WHERE umserver = (SELECT oid FROM pg_foreign_server WHERE srvname = 'dropped');
	DELETE FROM pg_foreign_server WHERE srvname = 'dropped'");
wait_until('a server is gone: that is told', sub { $sql->("SELECT trouble, reason FROM exactonce_pending") eq 'refused|Its server was dropped.' });
like(check_of('orphans'), qr/^failure\|1 completions of servers that were dropped/, 'idem_check() has it');
is($sql->('SELECT idem_give_up(id) FROM exactonce_pending'), 't', 'its completion is given up');
reset_proxy();
like(check_of('orphans'), qr/^ok/, 'and idem_check() has nothing any more');

# The table is gone.  A row that was given up does not keep the key from being used again, by
# whatever address of the table.
fault(to => 'COMPLETED', key => 'no table', do => 'drop', times => 0);
fault(to => 'COMPLETED', key => 'not read', do => 'drop', times => 0);
$sql->(server_sql('gone', table => 'tap_gone') . server_sql('gone_too', table => 'tap_gone', endpoint => $ENV{EO_ENGINE_URL}) . "SELECT idem_create_table('gone')");
sub in_gone
{
	my ($key, $server) = @_;
	return run_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('$key', server => '$server');\nSELECT idem_complete('$key', server => '$server');\nCOMMIT;\n");
}
my $forgets = qr/HINT:  An operator has given its confirmation up; idem_forget\(\) makes the key claimable/;
foreach my $case ([ 'no table', 'gone' ], [ 'no table', 'gone_too' ], [ 'not read', 'gone_too' ])
{
	my ($key, $server) = @$case;
	$sql->("SELECT idem_create_table('gone')");
	fault(to => 'COMPLETED', key => $key, do => 'drop', times => 0);
	$sql->("SELECT idem_once('$key', server => 'gone')");
	my $life = $sql->("SELECT DISTINCT life FROM exactonce_lives WHERE dynamodb_table = 'tap_gone' AND state = 'open'");
	dynamodb(DeleteTable => { TableName => 'tap_gone' });
	reset_proxy();
	like(give_up($key), qr/^gives up true\n(?s:.*)HINT:  Its record could not be read \(DynamoDB answered ResourceNotFoundException/,
		"$key, $server: the completion of a table that is gone is given up at once");
	$sql->("SELECT idem_create_table('gone')");
	# The item of the life went with the table: a commit of that life would be refused from the
	# instant at which the worker notices, which may be within the transaction.
	wait_until('the life that lost its item is over',
		sub { $sql->("SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND state = 'open'") eq '0' });
	like(in_gone($key, $server), qr/acquired(?s:.*)ERROR:  ID002: key "$key" .* is already completed\n.*\n$forgets/,
		"$key, $server: the table is made anew: the key was completed here");
	settled_claims();
	if ($key eq 'not read')
	{
		fault(op => 'GetItem', key => $key, do => 'drop', times => 0);
		like(run_script($node, "SELECT idem_forget('$key', '$server');\n"),
			qr/ERROR:  55000: key "$key" .* was completed by another address of table "tap_gone"\nDETAIL:  .* could not be read/,
			"$key: it is not forgotten while its record cannot be read by the address of the row");
		$sql->("ALTER SERVER gone OPTIONS (SET endpoint '$ENV{EO_ENGINE_URL}')");
	}
	is($sql->("SELECT idem_forget('$key', '$server')"), 't', "$key, $server: until it is forgotten");
	is($sql->("SELECT count(*) FROM exactonce_internal.outbox WHERE pk LIKE '%#$key'"), 0, "$key, $server: with its row");
	is(in_gone($key, $server) =~ s/\s+/ /gr, 'acquired ', "$key, $server: then it is done again");
	reset_proxy();
	settled($node);
	is(status_of('tap_gone', $key), 'COMPLETED', "$key, $server: and finished");
	$sql->("SELECT idem_forget('$key', '$server')");
}
$sql->('DROP SERVER gone CASCADE; DROP SERVER gone_too CASCADE');

# ----- a key is not forgotten while its row is there --------------------------

fault(to => 'COMPLETED', key => 'forgotten', do => 'stay', times => 0);
$sql->("SELECT idem_once('forgotten', '1')");
wait_until('a finish is applied, and its answer is on its way', sub { status_of($table, 'forgotten') eq 'COMPLETED' });
like(run_script($node, "SELECT idem_forget('forgotten');\n"),
	qr/ERROR:  ID001: key "forgotten" .* is being committed\nDETAIL:  A transaction of this database has completed it, and that is not confirmed yet/,
	'such a key is not forgotten');
is(record($table, 'forgotten')->{status} . record($table, 'forgotten')->{result}, 'COMPLETED1', 'and nothing has changed');
my $forget = start_script($node, "SELECT idem_forget('forgotten');\n");
wait_until('it is waited for', sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%idem_forget%' AND state = 'active' AND pid <> pg_backend_pid()") eq '1' });
reset_proxy();
is(finish_script($forget), "t\n", 'the answer comes: it is forgotten');
settled($node);
$sql->("BEGIN; SELECT idem_acquire('forgotten'); SELECT idem_complete('forgotten', '2'); COMMIT");
settled($node);
is(record($table, 'forgotten')->{result}, 2, 'and can be done again');

# ----- the rows of lives are evidence, too ------------------------------------

# A database with a long history, and a host whose clock jumps ahead when the next life begins.
$sql->('CREATE DATABASE long');
$node->safe_psql('long', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table) . <<'SQL');
CREATE FUNCTION life(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT md5('life ' || n)::uuid $$;
INSERT INTO exactonce_internal.lives
SELECT life(n), CASE WHEN n < 1120 THEN life(n + 1) END, -n, system_identifier, dboid, NULL, timeline, xid_floor, xid_start, 0,
	now() - make_interval(days => CASE WHEN n > 1110 THEN 60 ELSE 1 END), '3'
FROM exactonce_internal.lives, generate_series(1, 1120) n;
UPDATE exactonce_internal.lives SET parent = life(1) WHERE number = 0;
SQL
set_clock(100);
$node->safe_psql('long', "SELECT idem_acquire('first', on_commit => 'keep')");
is($node->safe_psql('long', 'SELECT count(*), count(*) FILTER (WHERE number = -1110) FROM exactonce_internal.lives'), '1112|1',
	'the rows of lives go by their distance, not by a clock that jumps');
set_clock(0);

stop_without_crash($node, kills => 1);
done_testing();
