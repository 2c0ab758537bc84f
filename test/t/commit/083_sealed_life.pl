# A seal is refused by what an aborted transaction has left, which is given back first.  Meanwhile the
# life that the seal names is retired by an heir.  The seal is sent again, and still names that life:
# the transaction must not commit, although the database has begun another life, which has a lease.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_sealed_life';
my $node = new_node('sealed_life', conf => 'exactonce.test_hurry = ' . hurry(5) . "\nlog_min_messages = log\nmax_prepared_transactions = 5\n",
	options => { clock_skew => 0, commit_timeout => '60s', request_timeout => '60s' });

sub sql_of
{
	return $node->safe_psql('postgres', $_[0]);
}

sub open_life
{
	return sql_of("SELECT life FROM exactonce_lives WHERE state = 'open'");
}

# A life that was closed, and a transaction of it that was rolled back.
sql_of("CREATE TABLE work (key text); SELECT idem_once('first')");
settled($node);
my $closed = open_life();
my $xid = sql_of('BEGIN; SELECT pg_current_xact_id(); ROLLBACK');
$node->restart;
is(item($table, "ORIGIN#$closed")->{state}, 'closed', 'the first life is closed');
sql_of("SELECT idem_once('second')");
settled($node);
my $life = open_life();
isnt($life, $closed, 'there is another one');

# What a late seal of that transaction would have left.
put_record($table, 'k', status => 'COMMITTING', owner => '00000000-0000-4000-8000-000000000001', bind => 'tx', fence => 1, runs => 1,
	created_ms => 1000, updated_ms => 1000, lease_ms => 1000, origin => "$closed/$xid/1/1000");
fault(key => 'k', to => 'COMMITTING', do => 'hold');
my $run = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('k');\nSELECT idem_once('k', '1');\nCOMMIT;\n");
await_request(key => 'k', to => 'COMMITTING');

# Another server takes over from this one.
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } },
	UpdateExpression => 'SET #s = :s, retired_by = :b', ExpressionAttributeNames => { '#s' => 'state' },
	ExpressionAttributeValues => { ':s' => { S => 'retired' }, ':b' => { S => '11111111-1111-4111-8111-111111111111' } } });
wait_until('the life is given up', sub { slurp_file($node->logfile) =~ /is not its own any more, and was given up/ });
wait_until('there is a third life', sub { sql_of('SELECT count(*) FROM exactonce_internal.lives') >= 3 });
release_held();
reset_proxy();

my $said = finish_script($run);
note($said);
like($said, qr/ERROR:  ID006/, 'the transaction does not commit');
is(sql_of("SELECT count(*) FROM work WHERE key = 'k'"), '0', 'its work is not there');
my $record = record($table, 'k');
note(join ' ', map { "$_=$record->{$_}" } sort keys %$record);
unlike($record->{status} . ' ' . ($record->{origin} // ''), qr/^COMMITTING \Q$life\E/, 'the record is not sealed under the life that was retired');
$node->stop('immediate');
done_testing();
