# A finish that arrives late, after a failover has lost its commit, when another transaction has
# sealed the key under the same token.
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
