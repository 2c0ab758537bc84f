# Records that other clients have written: without attributes that every record of
# ours has, and with values that ours do not have.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
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
