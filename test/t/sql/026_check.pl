# idem_check() says while completions are stuck how many, since when, why, and what
# to do.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('check');

my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# What idem_check() says of one thing.
sub check
{
	return $sql->(qq{SELECT status, detail, advice FROM idem_check() WHERE "check" = '$_[0]'});
}

is($sql->(qq{SELECT status FROM idem_check() WHERE "check" = 'worker'}), 'ok',
	'a worker that nobody needs yet is no warning');
$sql->("SELECT idem_acquire('first'); SELECT idem_complete('first')");
settled($node);
like(check('pending'), qr/^ok\|nothing\|$/, 'pending: nothing waits');

my %advice = (
	ExpiredTokenException => qr/have expired/,
	UnrecognizedClientException => qr/access key id is not known/,
	InvalidSignatureException => qr/does not belong to the access key id/,
	AccessDeniedException => qr/policy does not allow/);
foreach my $code (sort keys %advice)
{
	fault(to => 'COMPLETED', do => 'answer', status => 400, code => $code);
	$sql->("SELECT idem_acquire('$code'); SELECT idem_complete('$code')");
	my $shown = qr/^failure\|1 completions, the oldest for \d+ s(?:; of which 1 have failed)?; the worker has failed since .*$code.*$advice{$code}/;
	wait_until("$code: is shown, with advice", sub { check('pending') =~ $shown });
	reset_proxy();
	settled($node);
	like(check('pending'), qr/^ok\|nothing\|$/, "$code: is not shown once it is over");
}

# ----- tables without transactions or time to live ----------------------------------

my ($table, $orders) = ('tap_check', 'tap_check_orders');
my $key = { AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ], KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] };
dynamodb(CreateTable => { TableName => $orders, BillingMode => 'PAY_PER_REQUEST', %$key });
$sql->("ALTER SERVER exactonce OPTIONS (ADD transact_tables '$orders')");
$sql->('CREATE TABLE orders (id text PRIMARY KEY); CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON orders '
	  . "FOR EACH ROW EXECUTE FUNCTION idem_mirror('$orders', 'id')");
my $writes = qq('[{"Put": {"TableName": "$orders", "Item": {"id": "1"}}}]');
my %calls = (
	idem_once => "SELECT idem_once('strong', writes => $writes);",
	idem_complete => "BEGIN;\nSELECT outcome FROM idem_acquire('strong');\nSELECT idem_complete('strong', writes => $writes);\nCOMMIT;",
	idem_mirror => "INSERT INTO orders VALUES ('1');");

# Has DescribeTable say of one of the tables that it is strongly consistent, as the service does.
sub strong
{
	my ($of) = @_;
	my $description = dynamodb(DescribeTable => { TableName => $of })->{Table};
	fault(op => 'DescribeTable', table => $of, times => 0, do => 'answer', status => 200, more => {
		Table => { %$description, Replicas => [ { RegionName => 'eu-west-2' } ], MultiRegionConsistency => 'STRONG' } });
	return;
}

foreach my $of ($table, $orders)
{
	my $refused = qr/ERROR:  0A000: table "$of" of server "exactonce" has no transactions.*multi-region strong consistency/s;
	strong($of);
	like(run_script($node, $calls{$_}), $refused, "$of is strong: $_ is refused") foreach sort keys %calls;
	is(count_requests(op => 'TransactWriteItems'), 0, '... and no transaction was sent');
	settled($node);
	is($sql->('SELECT count(*) FROM orders'), '0', '... nothing has committed');
	is($sql->("SELECT outcome FROM idem_acquire('strong $of')"), 'acquired', 'keys without writes work');
	fault(op => 'TransactWriteItems', do => 'answer', status => 400, code => 'ValidationException', message => 'not supported');
	like(run_script($node, "SELECT idem_transact('strong', $writes);"), $refused, "$of is strong: idem_transact is refused");
	reset_proxy();
}
fault(op => 'TransactWriteItems', do => 'answer', status => 400, code => 'ValidationException', message => 'something else');
like(run_script($node, "SELECT idem_transact('strong', $writes);"), qr/ID007: .*something else/s, 'another refusal is told as it is');
fault(op => 'DescribeTable', table => $table, times => 0, do => 'answer', status => 400, code => 'AccessDeniedException');
is(run_script($node, $calls{idem_once}), "\n", 'who may not describe the table of the keys may hand in writes');
reset_proxy();
settled($node);

strong($table);
like(check('multi-region mode'), qr/^ok\|global table, strongly consistent; idem_transact, writes and idem_mirror are refused\|$/, 'a strong table: what does not work there');
like(check('time to live'), qr/^ok\|there is none .*idem_sweep\(\) takes its place\|$/, 'a strong table: time to live is not asked for');
is(count_requests(op => 'DescribeTimeToLive'), 0, '... in fact');
is($sql->('SELECT idem_create_table()'), 'exists', 'idem_create_table() takes it');
is(count_requests(op => 'UpdateTimeToLive') + count_requests(op => 'DescribeTimeToLive'), 0, '... and leaves its time to live alone');
reset_proxy();
fault(op => 'DescribeTimeToLive', do => 'answer', status => 400, code => 'UnknownOperationException');
like(check('time to live'), qr/^warning\|.*UnknownOperationException.*\|This engine has none. Call idem_sweep\(\) once a day.$/, 'an engine without time to live');
reset_proxy();
like(check('time to live'), qr/^ok\|on, attribute ttl\|$/, 'a table with time to live');

# ----- a database that was restored from a dump --------------------------------------

like(check('table'), qr/^ok\|active\|$/, 'a database that has used its table');
$sql->('CREATE DATABASE staging');
IPC::Run::run([ 'pg_dump', $node->connstr('postgres') ], '|', [ 'psql', '-Xq', $node->connstr('staging') ], '2>', \my $errors);
my $staging = sub { $node->safe_psql('staging', $_[0]) };
my $table_row = q{SELECT status, detail, advice FROM idem_check() WHERE "check" = 'table'};
like($staging->($table_row), qr/^warning\|active, with about \d+ items, and this database has never used a key\|If this database was restored from a dump, /,
	'a database that was restored from a dump is led to the table of the original');
$staging->("ALTER SERVER exactonce OPTIONS (SET table 'tap_check_staging'); SELECT idem_create_table()");
like($staging->($table_row), qr/^ok\|active\|$/, '... until it has one of its own');

stop_without_crash($node);
done_testing();
