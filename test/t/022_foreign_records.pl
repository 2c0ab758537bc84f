# Records that other clients have written: without attributes that every record of
# ours has, and with values that ours do not have.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_foreign_records';
my $node = new_node('foreign_records', table => $table,
	options => ", clock_skew '0', request_timeout '5s', transact_tables '$table'");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $record = sub { return records($table)->{ $_[0] } // { status => 'none' } };

# An attribute of undef is left out.
sub put
{
	my ($key, %attributes) = @_;
	my %item = (pk => { S => "IDEMPOTENCY#$key" }, owner => { S => 'somebody' });
	foreach my $name (keys %attributes)
	{
		defined $attributes{$name} ? ($item{$name} = $attributes{$name}) : delete $item{$name};
	}
	dynamodb(PutItem => { TableName => $table, Item => \%item });
	return;
}

my $past = { N => '' . int((time() - 60) * 1000) };
my $long_ago = { N => '' . int(time() - 3600) };

# A finished record past its time is replaced, whatever attributes it has.
my %seen = (
	'all of them' => { fence => { N => '7' }, updated_ms => { N => '1' } },
	'no fence' => { updated_ms => { N => '1' } },
	'no updated_ms' => { fence => { N => '7' } },
	'neither' => {},
	'a time that no clock shows' => { fence => { N => '7' }, updated_ms => { N => '1780000000000000000' } },
	'a time with a fraction' => { fence => { N => '7' }, updated_ms => { N => '1780000000000.25' } },
	'a time before 1970' => { fence => { N => '-7' }, updated_ms => { N => '-5' } },
	'a time in words' => { fence => { N => '7' }, updated_ms => { S => '2020-01-01T00:00:00Z' } });
foreach my $what (sort keys %seen)
{
	my %old = (status => { S => 'COMPLETED' }, result => { S => '"old"' }, ttl => $long_ago, %{ $seen{$what} });
	put("$what, acquired", %old);
	is($sql->("SELECT outcome, run FROM idem_acquire('$what, acquired')"), 'acquired|1',
		"a record past its time with $what is claimed");
	put("$what, once", %old);
	unlike(psql_ok($node, "SELECT idem_once('$what, once', '\"new\"');"), qr/ERROR/, '... by a commit');
	put("$what, transacted", %old);
	is($sql->(<<"SQL"), 'completed|"new"', '... by a transaction of DynamoDB');
SELECT outcome, result FROM idem_transact('$what, transacted',
	'[{"Put": {"TableName": "$table", "Item": {"pk": {"S": "$what"}}}}]', '"new"')
SQL
	settled($node);
	is(join(' ', map { $record->("$what, $_")->{result} // 'none' } 'acquired', 'once', 'transacted'),
		'none "new" "new"', '... and what it was is gone');
	put("$what, forgotten", %old);
	is($sql->("SELECT idem_forget('$what, forgotten')"), 't', '... and is forgotten');
	is($sql->("SELECT outcome, run FROM idem_acquire('$what, forgotten')"), 'acquired|1', '... and claimed');
}

# A record that counts no runs has had none.
foreach my $state ('FAILED', 'IN_PROGRESS')
{
	put("$state, not counted", status => { S => $state }, fence => { N => '1' }, updated_ms => { N => '1' },
		$state eq 'FAILED' ? (retry_ms => { N => '0' }) : (lease_ms => $past));
	is($sql->("SELECT outcome, run FROM idem_acquire('$state, not counted', max_runs => 2)"), 'acquired|1',
		"$state without a number of runs has runs left");
}
my $token = '11111111-2222-4333-8444-555555555555';
put('handed over', status => { S => 'IN_PROGRESS' }, owner => { S => $token }, lease_ms => { N => '' . int((time() + 60) * 1000) });
is($sql->("SELECT idem_release('handed over', token => '$token')"), 't', 'a claim without a number of runs is released');
is($record->('handed over')->{status}, 'FAILED', '... which others see');
is($sql->("SELECT outcome, run FROM idem_acquire('handed over', max_runs => 1)"), 'acquired|1', '... and counts no run');

# Results and errors as a document client writes them.  What is nested in them is in
# the types of DynamoDB; a number is as it was written.
my %native = (
	'{"a": [1, "b", {}], "c": {"d": null}}' =>
	  { M => { a => { L => [ { N => '1' }, { S => 'b' }, { M => {} } ] }, c => { M => { d => { NULL => JSON::PP::true } } } } },
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
my $later = { N => '' . int((time() + 3600) * 1000) };
foreach my $json (sort keys %native)
{
	my $key = 'native ' . (keys %{ $native{$json} })[0] . length $json;
	put($key, status => { S => 'COMPLETED' }, result => $native{$json});
	is($sql->("SELECT outcome, result = '$json' FROM idem_acquire('$key')"), 'completed|t', "a result that is $json");
	is($sql->("SELECT result = '$json' FROM idem_get('$key')"), 't', '... to idem_get, too');
	put("failed $key", status => { S => 'FAILED' }, retry_ms => $later, error => $native{$json});
	is($sql->("SELECT outcome, error = '$json' FROM idem_acquire('failed $key')"), 'retry_later|t', '... and an error');
	is($sql->("SELECT error = '$json' FROM idem_get('failed $key')"), 't', '... to both');
}

# What has no JSON is told to have none, and can be redriven.
my %mute = (
	'binary' => { B => 'AAEC' },
	'binary in a map' => { M => { a => { B => 'AAEC' } } },
	'a set of binaries' => { BS => [ 'AAEC' ] },
	'a NUL' => { S => "a\0b" },
	'a NUL in a list' => { L => [ { S => "\0" } ] });
foreach my $what (sort keys %mute)
{
	put($what, status => { S => 'COMPLETED' }, result => $mute{$what});
	put("failed, $what", status => { S => 'FAILED' }, retry_ms => $later, error => $mute{$what});
	foreach my $call ("idem_acquire('$what')", "idem_get('$what')", "idem_acquire('failed, $what')", "idem_get('failed, $what')",
		qq(idem_transact('$what', '[{"Put": {"TableName": "$table", "Item": {"pk": {"S": "mute"}}}}]')))
	{
		like(psql_ok($node, "SELECT $call;"),
			qr/ERROR:  ID007: could not \w+ key "[^"]*$what" on server "exactonce": the record cannot be read.*DETAIL:  Its (?:result|error) has no form in JSON/s,
			"$call is an error");
	}
	is($sql->("SELECT idem_forget('$what')"), 't', '... until it is forgotten');
	is($sql->("SELECT outcome FROM idem_acquire('$what')"), 'acquired', '... and claimed');
	put("left over, $what", status => { S => 'IN_PROGRESS' }, lease_ms => $later, result => $mute{$what}, error => $mute{$what});
	is($sql->("SELECT outcome FROM idem_acquire('left over, $what')"), 'in_progress', '... and in no way of a run');
}
put('fingerprint', status => { S => 'COMPLETED' }, payload_sha256 => { B => 'AAEC' }, result => { S => '1' });
is($sql->("SELECT outcome FROM idem_acquire('fingerprint')"), 'completed', 'a fingerprint of another kind is not asked for');
like(psql_ok($node, q(SELECT idem_acquire('fingerprint', payload => '1');)),
	qr/ERROR:  ID007: .*the record cannot be read.*payload_sha256/s, '... but where it is it cannot be compared');

# Attributes that we do not know are skipped, whatever is in them.
sub nested
{
	my ($value, $levels, $maps) = @_;
	$value = $maps ? { M => { a => $value } } : { L => [ $value ] } foreach 1 .. $levels;
	return $value;
}
my %strange = (
	'29 lists' => nested({ S => 'x' }, 29, 0),
	'all the lists there can be' => nested({ SS => ['x'] }, 31, 0),
	'all the maps there can be' => nested({ NULL => JSON::PP::true }, 31, 1),
	'a NUL' => { S => "a\0b" },
	'binary' => { B => 'AAEC' });
foreach my $what (sort keys %strange)
{
	my %note = (note => $strange{$what});
	put("done with $what", status => { S => 'COMPLETED' }, result => { S => '1' }, %note);
	is($sql->("SELECT outcome, result FROM idem_acquire('done with $what')"), 'completed|1', "an attribute of others: $what");
	is($sql->("SELECT status, result FROM idem_get('done with $what')"), 'COMPLETED|1', '... in a read');
	is($sql->(qq(SELECT outcome, result FROM idem_transact('done with $what', '[{"Put": {"TableName": "$table", "Item": {"pk": {"S": "mute"}}}}]'))),
		'completed|1', '... in the reasons of a transaction');
	put("due with $what", status => { S => 'FAILED' }, retry_ms => { N => '0' }, %note);
	is($sql->("SELECT outcome FROM idem_acquire('due with $what', on_commit => 'keep'); SELECT idem_complete('due with $what', '2')"),
		"acquired\n", '... and in all that is written');
	settled($node);
	is($record->("due with $what")->{status}, 'COMPLETED', '... to its end');
}
put('deep result', status => { S => 'COMPLETED' }, result => nested({ N => '1' }, 31, 0));
is($sql->("SELECT result = repeat('[', 31)::text || 1 || repeat(']', 31) FROM (SELECT result::text FROM idem_get('deep result')) r"), 't',
	'a result as deep as there can be');

# A key that others change while it is forgotten.  Each write of the forget is held
# until another client has made the key its own.
sub forget_against
{
	my ($key, $others) = @_;
	put($key, status => { S => 'FAILED' }, fence => { N => '1' }, retry_ms => { N => '0' });
	control('POST', '/reset');
	control('POST', '/fault', qq({"op":"UpdateItem","key":"$key","do":"hold","times":$others}));
	my $run = start_psql($node, "SELECT 'forgotten ' || idem_forget('$key');");
	foreach my $n (1 .. $others)
	{
		control('GET', "/wait?op=UpdateItem&key=$key&n=$n&seconds=60");
		put($key, status => { S => 'FAILED' }, owner => { S => "other $n" }, fence => { N => '' . ($n + 1) }, retry_ms => { N => '0' });
		control('POST', '/release');
	}
	return finish_psql($run);
}
like(forget_against('overtaken', 4), qr/^forgotten true$/m, 'a forget goes on after it was overtaken');
is($record->('overtaken')->{runs}, '0', '... until it has its way');
like(forget_against('contended', 5),
	qr/ERROR:  ID001: could not forget key "contended" on server "exactonce": others keep changing it/,
	'... or says that the key is contended');
is($record->('contended')->{owner}, 'other 5', '... and has changed nothing');

$node->stop;
done_testing();
