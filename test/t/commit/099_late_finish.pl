# A finish whose record another transaction has sealed under the same token: because a failover has
# lost the commit and the finish arrives late, or because a table was restored.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_late_finish';
my $business = 'tap_late_finish_business';
my $node = new_node('late_finish',
	conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nwal_level = replica\nmax_wal_senders = 5\nhot_standby = on\nmax_connections = 20\n",
	options => { transact_tables => $business, request_timeout => '3s', commit_timeout => '20s' });
$node->append_conf('pg_hba.conf', 'local replication all trust');
$node->reload;
dynamodb(CreateTable => { TableName => $business, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });

# A write that says who has made it, and who has.
sub by
{
	my ($who) = @_;
	return qq('[{"Put": {"TableName": "$business", "Item": {"id": "item of $who", "n": 1}}}]');
}

sub made
{
	my ($who) = @_;
	return exists dynamodb(GetItem => { TableName => $business, ConsistentRead => JSON::PP::true,
		Key => { id => { S => "item of $who" } } })->{Item};
}

sub status
{
	my ($key) = @_;
	return (record($table, $key) // {})->{status} // '';
}

$node->safe_psql('postgres', 'CREATE TABLE work (key text)');
# ----- a table that is not what it was -----------------------------------------

# Holds the finish of a key until the record was changed: it bears the seal of a transaction that
# was rolled back.
sub change_before_finish
{
	my ($key, $update, $values, $writes, $times) = @_;
	my $aborted = $node->safe_psql('postgres', 'BEGIN; SELECT pg_current_xact_id(); ROLLBACK');
	fault(key => $key, to => 'COMPLETED', do => 'hold', times => $times // 1);
	$node->safe_psql('postgres', "SELECT idem_once('$key'" . ($writes ? ", writes => $writes" : '') . ')');
	await_request(key => $key, to => 'COMPLETED');
	my $origin = record($table, $key)->{origin};
	my ($life) = split m{/}, $origin;
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
		UpdateExpression => "SET origin = :g$update", $values ? (ExpressionAttributeNames => { '#s' => 'status' }) : (),
		ExpressionAttributeValues => { ':g' => { S => "$life/$aborted/1/AB" }, %{ $values // {} } } });
	release_held();
	return;
}

change_before_finish($_ . ' restored', '', undef, $_ eq 'with writes' ? by('the restored one') : undef) foreach 'simple', 'with writes';
settled($node);
is(status($_), 'COMPLETED', "$_: what a transaction has sealed that is over is finished for the one that has committed")
  foreach 'simple restored', 'with writes restored';
ok(made('the restored one'), '... with its writes');
is($node->safe_psql('postgres', 'SELECT count(*) FROM idem_audit()'), '0', '... and the audit finds its work');

change_before_finish('of two', '', undef, by('the first of two'), 2);
await_request(key => 'of two', to => 'COMPLETED', n => 2);
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#of two' } }, UpdateExpression => 'SET #s = :s',
	ExpressionAttributeNames => { '#s' => 'status' }, ExpressionAttributeValues => { ':s' => { S => 'COMPLETED' } } });
release_held();
my $of_two = sub { $node->safe_psql('postgres', "SELECT $_[0] FROM exactonce_pending WHERE key = 'of two'") };
wait_until('another data finishes the other seal, with its own writes: those of this commit stay pending', sub { $of_two->('reason') =~ /not by that transaction/ });
$node->safe_psql('postgres', 'SELECT idem_give_up(\'' . $of_two->('id') . '\')');
settled($node);

change_before_finish('of others', ', #s = :s', { ':s' => { S => 'COMPLETED' } }, by('nobody'));
my $pending = sub { $node->safe_psql('postgres', 'SELECT ' . ($_[0] // 'reason') . " FROM exactonce_pending WHERE key = 'of others'") };
wait_until('writes of a commit that others have completed without them stay pending', sub { $pending->() =~ /not by that transaction/ });
$node->safe_psql('postgres', 'SELECT idem_give_up(\'' . $pending->('id') . '\')');
settled($node);
ok(!made('nobody'), '... until they are given up');

# ----- claims that outlive their transactions ----------------------------------

my %token = map { $_ => $node->safe_psql('postgres', "SELECT token FROM idem_acquire('$_', lease => '1 hour')") } 'retried', 'written';
$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay');
$standby->stop;

# ----- commits that the failover loses ---------------------------------------

fault(key => $_, to => 'COMPLETED', do => 'hold', times => 0) foreach sort keys %token;
$node->safe_psql('postgres', "BEGIN; INSERT INTO work VALUES ('retried'); SELECT idem_complete('retried', token => '$token{retried}'); COMMIT");
$node->safe_psql('postgres', "SELECT idem_complete('written', token => '$token{written}', writes => @{[ by('the lost one') ]})");
await_request(key => $_, to => 'COMPLETED') foreach sort keys %token;
my @frozen = processes_of($node);
kill 'STOP', @frozen;
$standby->start;
$standby->promote;
$standby->safe_psql('postgres', "SELECT idem_once('new')");
foreach my $key (sort keys %token)
{
	wait_until("$key: the promoted standby takes back what was lost", sub { status($key) eq 'IN_PROGRESS' });
}

# ----- the client repeats them with their tokens ------------------------------

fault(key => 'another', to => 'COMMITTING', do => 'drop', times => 0);
my $failing = start_script($standby, "BEGIN;\nINSERT INTO work VALUES ('retried');\nSELECT idem_start('another');\n"
	  . "SELECT idem_complete('retried', token => '$token{retried}');\nSELECT idem_complete('another');\nCOMMIT;\n");
wait_until('retried: another transaction has sealed it', sub { status('retried') eq 'COMMITTING' });
$standby->safe_psql('postgres', "SELECT idem_complete('written', token => '$token{written}', writes => @{[ by('the repeated one') ]})");
is(status('written'), 'COMMITTING', 'written: another transaction has committed, and its finish is held, too');
release_held();
end_fault($_) foreach sort keys %token;
wait_until('written: the key is completed', sub { status('written') eq 'COMPLETED' });
settled($standby) if finish_script($failing) =~ /ERROR/;
ok(!made('the lost one'), 'written: the writes of the lost commit are not made');
ok(made('the repeated one'), '... and those of the repeated one are');
is(status('retried'), 'IN_PROGRESS', 'retried: what was rolled back is not completed by the late finish');

end_fault('another');
$standby->safe_psql('postgres', "BEGIN; INSERT INTO work VALUES ('retried'); SELECT idem_complete('retried', token => '$token{retried}'); COMMIT");
settled($standby);
is(status('retried'), 'COMPLETED', 'retried: repeated once more, it is completed');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM work'), '1', 'retried: its work is done once');

# ----- the old primary goes on ------------------------------------------------

kill 'CONT', @frozen;
wait_until('the old primary begins another life', sub { run_script($node, "SELECT idem_once('old');") !~ /ERROR/ });
is($standby->safe_psql('postgres', "SELECT outcome FROM idem_acquire('retried')"), 'completed', 'it changes nothing');
ok(!made('the lost one'), 'and makes no writes');
$standby->stop;
stop_without_crash($node);
done_testing();
