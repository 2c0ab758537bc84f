# Records that other clients have written: without attributes that every record of
# ours has, and with values that ours do not have.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_foreign_records';
my $node = new_node('foreign_records',
	options => { clock_skew => 0, request_timeout => '5s', transact_tables => $table });
sweep_nothing($table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# Writes a record with these attributes, which bear their types.
sub put
{
	my ($key, $status, %attributes) = @_;
	dynamodb(PutItem => { TableName => $table, Item => { pk => { S => "IDEMPOTENCY#$key" },
		owner => { S => 'somebody' }, status => { S => $status }, %attributes } });
	return;
}

# An instant that is so many seconds from now, in milliseconds.
sub ms_from_now
{
	my ($seconds) = @_;
	return { N => sprintf '%d', (time() + $seconds) * 1000 };
}

# A call of idem_transact() that writes an item of another kind.
sub transact
{
	my ($key, $id) = @_;
	return qq(idem_transact('$key', '[{"Put": {"TableName": "$table", "Item": {"pk": "$id"}}}]', '"new"'));
}

# ----- attributes that are missing --------------------------------------------

# A finished record past its time, with these attributes beside status, result and ttl.
my %seen = (
	'all attributes' => { fence => { N => '7' }, updated_ms => { N => '1' } },
	'no fence' => { updated_ms => { N => '1' } },
	'no updated_ms' => { fence => { N => '7' } },
	'neither fence nor updated_ms' => {},
	'an updated_ms that no clock shows' => { fence => { N => '7' }, updated_ms => { N => '1780000000000000000' } },
	'an updated_ms with a fraction' => { fence => { N => '7' }, updated_ms => { N => '1780000000000.25' } },
	'an updated_ms before 1970' => { fence => { N => '7' }, updated_ms => { N => '-5' } },
	'an updated_ms in words' => { fence => { N => '7' }, updated_ms => { S => '2020-01-01T00:00:00Z' } });
foreach my $what (sort keys %seen)
{
	my $name = "a record past its time with $what";
	my %old = (result => { S => '"old"' }, ttl => { N => sprintf '%d', time() - 3600 }, %{ $seen{$what} });
	my @keys = map { "$what, $_" } qw(acquired once transacted forgotten);
	my ($acquired, $once, $transacted, $forgotten) = @keys;
	put($_, 'COMPLETED', %old) foreach @keys;
	is($sql->("SELECT outcome, run FROM idem_acquire('$acquired')"), 'acquired|1', "$name is claimed by idem_acquire()");
	unlike(run_script($node, "SELECT idem_once('$once', '\"new\"');"), qr/ERROR/, "$name is claimed by a commit");
	is($sql->("SELECT outcome, result FROM @{[ transact($transacted, $what) ]}"), 'completed|"new"',
		"$name is claimed by idem_transact()");
	settled($node);
	is(join(' ', map { record($table, $_)->{result} // 'none' } $acquired, $once, $transacted), 'none "new" "new"',
		"$name: the old result is gone");
	is($sql->("SELECT idem_forget('$forgotten')"), 't', "$name is forgotten");
	is($sql->("SELECT outcome, run FROM idem_acquire('$forgotten')"), 'acquired|1',
		"$name can be claimed once it is forgotten");
}

# ----- numbers that are none -----------------------------------------------------

my %odd = ('38 digits' => { N => '9' x 38 }, 'the lowest bigint' => { N => '-9223372036854775808' },
	'the highest bigint' => { N => '9223372036854775807' }, 'a fraction' => { N => '1.5' });
foreach my $what (sort keys %odd)
{
	my $key = "a fence of $what";
	put($key, 'FAILED', fence => $odd{$what}, retry_ms => { N => '0' });
	like(run_script($node, "SELECT idem_acquire('$key')"),
		qr/ERROR:  ID007: could not acquire key "$key" on server "exactonce": the record cannot be read\nDETAIL:  Its fence is not/,
		"$key: the key is not claimed");
	settled($node);
	is(record($table, $key)->{status}, 'FAILED', "$key: it is not held");
	is($sql->("SELECT idem_forget('$key')"), 't', "$key is forgotten");
	is($sql->("SELECT outcome, run, fence > 0 FROM idem_acquire('$key')"), 'acquired|1|t', "$key can be claimed once it is forgotten");
}
my %elsewhere = ('a failed record' => [ 'FAILED', retry_ms => { S => 'soon' } ],
	'a run' => [ 'IN_PROGRESS', lease_ms => ms_from_now(3600), runs => { S => 'two' } ],
	'a completed record' => [ 'COMPLETED', ttl => { N => sprintf '%d', time() + 3600 }, created_ms => { N => '-1' } ]);
foreach my $what (sort keys %elsewhere)
{
	put("odd: $what", @{ $elsewhere{$what} });
	like(run_script($node, "SELECT idem_acquire('odd: $what')"), qr/ERROR:  ID007: .*the record cannot be read\nDETAIL:  Its \w+ is not/,
		"$what with a number that is none is an error");
	is($sql->("SELECT count(*) FROM idem_get('odd: $what')"), '1', "$what with a number that is none is shown");
	is($sql->("SELECT idem_forget('odd: $what')"), 't', "$what with a number that is none is forgotten") if $what ne 'a run';
}
# What is held is settled, whatever others write into its record.
my %settled = ("idem_complete('held', '1')" => 'COMPLETED', "idem_fail('held')" => 'FAILED', "idem_release('held')" => 'FAILED');
foreach my $how (sort keys %settled)
{
	my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('held');\n" . halt_until('held')
		. "\nSELECT $how;\nCOMMIT;\n");
	wait_until('the key is held', sub { ((record($table, 'held') // {})->{status} // '') eq 'IN_PROGRESS' });
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#held' } },
		UpdateExpression => 'SET fence = :f, runs = :r',
		ExpressionAttributeValues => { ':f' => { N => '-1' }, ':r' => { N => '1.5' } } });
	go_on('held');
	unlike(finish_script($run), qr/ERROR/, "a key with numbers that are none is settled: $how");
	settled($node);
	is(record($table, 'held')->{status}, $settled{$how}, "a key with numbers that are none is settled: $how, in its record");
	$sql->("SELECT idem_forget('held')");
}

foreach my $status ('FAILED', 'IN_PROGRESS')
{
	my $key = "$status, not counted";
	put($key, $status, fence => { N => '1' }, updated_ms => { N => '1' },
		$status eq 'FAILED' ? (retry_ms => { N => '0' }) : (lease_ms => ms_from_now(-60)));
	is($sql->("SELECT outcome, run FROM idem_acquire('$key', max_runs => 2)"), 'acquired|1',
		"a record without runs that is $status has had no run");
}
my $token = '11111111-2222-4333-8444-555555555555';
put('handed over', 'IN_PROGRESS', owner => { S => $token }, lease_ms => ms_from_now(60));
is($sql->("SELECT idem_release('handed over', token => '$token')"), 't', 'a claim without runs is released');
is(record($table, 'handed over')->{status}, 'FAILED', 'a claim without runs that was released has failed');
is($sql->("SELECT outcome, run FROM idem_acquire('handed over', max_runs => 1)"), 'acquired|1',
	'a claim without runs that was released has had no run');

# ----- results and errors in types of DynamoDB --------------------------------

# A document client writes them so.  What is nested in them is in types of DynamoDB; a
# number is as it was written.
my $map_of_list = { a => { L => [ { N => '1' }, { S => 'b' }, { M => {} } ] },
	c => { M => { d => { NULL => JSON::PP::true } } } };
my %native = (
	'{"a": [1, "b", {}], "c": {"d": null}}' => { M => $map_of_list },
	'[]' => { L => [] },
	'12345678901234567890123456789012345678' => { N => '12345678901234567890123456789012345678' },
	'-0.125' => { N => '-0.125' },
	'true' => { BOOL => JSON::PP::true },
	'false' => { BOOL => JSON::PP::false },
	'null' => { NULL => JSON::PP::true },
	'["a", "é\"\\\\"]' => { SS => [ 'a', "\x{e9}\"\\" ] },
	'[1.5, 2]' => { NS => [ '1.5', '2' ] },
	'"words"' => { S => 'words' },
	'{"json": 1}' => { S => '{"json": 1}' });
foreach my $json (sort keys %native)
{
	my ($type) = keys %{ $native{$json} };
	my $key = "native $type" . length $json;
	put($key, 'COMPLETED', result => $native{$json});
	put("failed $key", 'FAILED', retry_ms => ms_from_now(3600), error => $native{$json});
	is($sql->("SELECT outcome, result = '$json' FROM idem_acquire('$key')"), 'completed|t',
		"a result of type $type is $json to idem_acquire()");
	is($sql->("SELECT result = '$json' FROM idem_get('$key')"), 't', "a result of type $type is $json to idem_get()");
	is($sql->("SELECT outcome, error = '$json' FROM idem_acquire('failed $key')"), 'retry_later|t',
		"an error of type $type is $json to idem_acquire()");
	is($sql->("SELECT error = '$json' FROM idem_get('failed $key')"), 't',
		"an error of type $type is $json to idem_get()");
}

my %no_json = (
	'binary' => { B => 'AAEC' },
	'binary in a map' => { M => { a => { B => 'AAEC' } } },
	'a set of binaries' => { BS => ['AAEC'] },
	'a NUL' => { S => "a\0b" },
	'a NUL in a list' => { L => [ { S => "\0" } ] });
foreach my $what (sort keys %no_json)
{
	put($what, 'COMPLETED', result => $no_json{$what});
	put("failed, $what", 'FAILED', retry_ms => ms_from_now(3600), error => $no_json{$what});
	my $unreadable = qr/ERROR:  ID007: could not \w+ key "[^"]*$what" on server "exactonce": the record cannot be read/;
	foreach my $call ("idem_acquire('$what')", "idem_get('$what')", "idem_acquire('failed, $what')",
		"idem_get('failed, $what')", transact($what, 'mute'))
	{
		like(run_script($node, "SELECT $call;"), qr/$unreadable.*DETAIL:  Its (?:result|error) has no form in JSON/s,
			"what has no form in JSON is an error: $call");
	}
	is($sql->("SELECT idem_forget('$what')"), 't', "what has no form in JSON is forgotten: $what");
	is($sql->("SELECT outcome FROM idem_acquire('$what')"), 'acquired',
		"what has no form in JSON can be claimed once it is forgotten: $what");
	put("left over, $what", 'IN_PROGRESS', lease_ms => ms_from_now(3600),
		result => $no_json{$what}, error => $no_json{$what});
	is($sql->("SELECT outcome FROM idem_acquire('left over, $what')"), 'in_progress',
		"what has no form in JSON is not looked at while a run is in progress: $what");
}
put('fingerprint', 'COMPLETED', payload_sha256 => { B => 'AAEC' }, result => { S => '1' });
is($sql->("SELECT outcome FROM idem_acquire('fingerprint')"), 'completed',
	'a fingerprint of another type is not looked at without a payload');
like(run_script($node, q(SELECT idem_acquire('fingerprint', payload => '1');)),
	qr/ERROR:  ID007: .*the record cannot be read.*payload_sha256/s,
	'a fingerprint of another type cannot be compared with a payload');
$sql->(q{CREATE FUNCTION handle(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $1'});
put('handler', 'COMPLETED', handler => { N => '1' }, result => { S => '1' });
is($sql->("SELECT outcome FROM idem_acquire('handler')"), 'completed', 'a handler of another type is not looked at without one');
like(run_script($node, q(SELECT idem_call('handler', 'handle(jsonb)');)), qr/ID007: .*the record cannot be read.*Its handler is not a string/s,
	'and cannot be compared with one');

# ----- attributes of others ---------------------------------------------------

sub nested
{
	my ($value, $levels, $maps) = @_;
	$value = $maps ? { M => { a => $value } } : { L => [$value] } foreach 1 .. $levels;
	return $value;
}
my %strange = (
	'29 lists' => nested({ S => 'x' }, 29, 0),
	'as many lists as there can be' => nested({ SS => ['x'] }, 31, 0),
	'as many maps as there can be' => nested({ NULL => JSON::PP::true }, 31, 1),
	'a NUL' => { S => "a\0b" },
	'binary' => { B => 'AAEC' });
foreach my $what (sort keys %strange)
{
	put("done with $what", 'COMPLETED', result => { S => '1' }, note => $strange{$what});
	is($sql->("SELECT outcome, result FROM idem_acquire('done with $what')"), 'completed|1',
		"an attribute of others is skipped by idem_acquire(): $what");
	is($sql->("SELECT status, result FROM idem_get('done with $what')"), 'COMPLETED|1',
		"an attribute of others is skipped by idem_get(): $what");
	is($sql->("SELECT outcome, result FROM @{[ transact(qq(done with $what), 'mute') ]}"), 'completed|1',
		"an attribute of others is skipped by idem_transact(): $what");
	my $due = "due with $what";
	put($due, 'FAILED', retry_ms => { N => '0' }, note => $strange{$what});
	is($sql->("SELECT outcome FROM idem_acquire('$due', on_commit => 'keep'); SELECT idem_complete('$due', '2')"),
		"acquired\n", "an attribute of others does not hinder a claim and its completion: $what");
	settled($node);
	is(record($table, $due)->{status}, 'COMPLETED', "an attribute of others does not hinder the worker: $what");
}
put('deep result', 'COMPLETED', result => nested({ N => '1' }, 31, 0));
is($sql->(<<'SQL'), 't', 'a result can be nested as deeply as there can be');
SELECT result = repeat('[', 31)::text || 1 || repeat(']', 31) FROM (SELECT result::text FROM idem_get('deep result')) r
SQL

# ----- others change a key while it is forgotten ------------------------------

# Each write of the forget is held until another client has made the key its own, so
# many times.
sub forget_against
{
	my ($key, $others) = @_;
	put($key, 'FAILED', fence => { N => '1' }, retry_ms => { N => '0' });
	reset_proxy();
	fault(op => 'UpdateItem', key => $key, do => 'hold', times => $others);
	my $run = start_script($node, "SELECT 'forgotten ' || idem_forget('$key');");
	foreach my $n (1 .. $others)
	{
		await_request(op => 'UpdateItem', key => $key, n => $n);
		put($key, 'FAILED', owner => { S => "other $n" }, fence => { N => '' . ($n + 1) }, retry_ms => { N => '0' });
		release_held();
	}
	return finish_script($run);
}
like(forget_against('overtaken', 4), qr/^forgotten true$/m, 'a forget that is overtaken four times goes on');
is(record($table, 'overtaken')->{runs}, '0', 'a forget that is overtaken four times is applied');
like(forget_against('contended', 5),
	qr/ERROR:  ID001: could not forget key "contended" on server "exactonce": others keep changing it/,
	'a forget that is overtaken five times gives up');
is(record($table, 'contended')->{owner}, 'other 5', 'a forget that is overtaken five times changes nothing');

stop_without_crash($node);
done_testing();
