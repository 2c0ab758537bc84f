# Transactions with one write each, of which every twentieth is rolled back, in sessions
# that are killed with the server and begin again; then pgbench on a mirrored table.
#
#   writes.pl TRANSACTIONS SEED
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my ($transactions, $seed) = @ARGV;
my ($sessions, $chunk, $items) = (8, 50, 300);
my ($counters, $accounts) = ('run_counters', 'run_accounts');
srand $seed;

my $node = new_node('run',
	conf => "restart_after_crash = on\nmax_connections = 60\nlog_statement = none\n",
	options => { transact_tables => "$counters, $accounts", request_timeout => '3s' });
foreach ([ $counters, 'id', 'S' ], [ $accounts, 'aid', 'N' ])
{
	my ($name, $key, $type) = @$_;
	dynamodb(CreateTable => { TableName => $name, BillingMode => 'PAY_PER_REQUEST',
		AttributeDefinitions => [ { AttributeName => $key, AttributeType => $type } ],
		KeySchema => [ { AttributeName => $key, KeyType => 'HASH' } ] });
}
$node->safe_psql('postgres', 'CREATE TABLE counters (id text PRIMARY KEY, n int, last int);
	CREATE TABLE done (transaction int PRIMARY KEY)');

sub items_of
{
	my ($table, $key) = @_;
	my (%found, $start);
	do
	{
		my $page = dynamodb(Scan => { TableName => $table, ConsistentRead => JSON::PP::true,
			$start ? (ExclusiveStartKey => $start) : () });
		foreach my $item (@{ $page->{Items} })
		{
			my %plain = map { $_ => (values %{ $item->{$_} })[0] } keys %$item;
			$found{ $plain{$key} } = \%plain;
		}
		$start = $page->{LastEvaluatedKey};
	} while ($start);
	return \%found;
}

# ----- the transactions -------------------------------------------------------

# One may be sent again: its key lets the work be done once.  The count of an item grows
# with every write; its last writer shows the order.
sub transaction
{
	my ($n) = @_;
	my $item = 'item ' . int(rand $items);
	my $end = $n % 20 == 0 ? 'ROLLBACK' : 'COMMIT';
	return <<"SQL";
BEGIN;
INSERT INTO done VALUES ($n);
INSERT INTO counters VALUES ('$item', 1, $n) ON CONFLICT (id) DO UPDATE SET n = counters.n + 1, last = $n;
SELECT idem_once('transaction $n', writes => '[{"Update": {"TableName": "$counters", "Key": {"id": "$item"},
	"UpdateExpression": "SET #l = :l ADD n :one", "ExpressionAttributeNames": {"#l": "last"},
	"ExpressionAttributeValues": {":one": 1, ":l": $n}}}]');
$end;
SQL
}

my @chunks = map { my $first = $_ * $chunk;
	{ first => $first + 1, last => $first + $chunk, script => join '', map { transaction($_) } $first + 1 .. $first + $chunk } }
  0 .. $transactions / $chunk - 1;

# How many transactions are done; undef if the server does not answer.
sub done
{
	my ($where) = @_;
	my ($rc, $out) = $node->psql('postgres', "SELECT count(*) FROM done WHERE $where");
	return $rc == 0 ? $out : undef;
}

my ($kills, $faults, $began, $finished) = (0, 0, time(), 0);
my $next_fault = $began;

# Each kill restarts the server, under a new life.  They are spread over the first four fifths
# of the run, so that what they have left is settled when it ends.
my @kill_at = sort { $a <=> $b } map { rand 0.8 * @chunks } 1 .. 12;
my (@running, @todo);
@todo = @chunks;
while (@todo || @running)
{
	while (@running < $sessions && @todo)
	{
		my $c = shift @todo;
		push @running, { chunk => $c, run => start_script($node, $c->{script}) };
	}
	my @still;
	foreach my $r (@running)
	{
		if ($r->{run}{handle}->pumpable)
		{
			eval { $r->{run}{handle}->pump_nb };
		}
		if ($r->{run}{handle}->pumpable)
		{
			push @still, $r;
			next;
		}
		eval { finish_script($r->{run}) };
		my $c = $r->{chunk};
		my $wanted = grep { $_ % 20 } $c->{first} .. $c->{last};
		my $found = done("transaction BETWEEN $c->{first} AND $c->{last}");
		# Some had errors, or their answers were lost with the session: all are sent again.
		if (defined $found && $found == $wanted) { $finished++ }
		else { push @todo, $c }
		usleep(200_000) unless defined $found;
	}
	@running = @still;
	if (time() > $next_fault)
	{
		fault(op => 'TransactWriteItems', do => (qw(lose lose drop twice reset))[ rand 5 ], times => 1 + int rand 3);
		$faults++;
		$next_fault = time() + 0.2;
	}
	if (@kill_at && $finished >= $kill_at[0])
	{
		shift @kill_at;
		my ($rc, $pid) = $node->psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type "
			  . (rand() < 0.5 ? "LIKE 'exactonce%'" : "= 'client backend' AND pid <> pg_backend_pid()") . ' LIMIT 1');
		$kills += kill 'KILL', $pid if $rc == 0 && $pid;
	}
	usleep(5_000);
}
my $took = time() - $began;
reset_proxy();
my $healed = time();
settled($node);
my $lag = time() - $healed;
diag(sprintf '%d transactions in %.0f s, %d kills with SIGKILL, %d faults; settled %.2f s after the last',
	$transactions, $took, $kills, $faults, $lag);
cmp_ok($lag, '<', 1, 'all is written within a second of healing');

my %rows = map { my ($id, $n, $last) = split /\|/; $id => { id => $id, n => $n, last => $last } }
  split /\n/, $node->safe_psql('postgres', 'SELECT id, n, last FROM counters');
my $found = items_of($counters, 'id');
is(scalar(grep { $found->{$_}{n} != $rows{$_}{n} } grep { $found->{$_} } keys %rows), 0, 'no counter shows a write that was lost or made twice');
is_deeply($found, \%rows, 'the table of DynamoDB equals that of PostgreSQL, row by row');
is(done('true'), $transactions - int($transactions / 20), 'all transactions but those that were rolled back are done');

# ----- a mirror ---------------------------------------------------------------

# Past the proxy, which would be most of what is measured.
$node->safe_psql('postgres', server_sql('direct', endpoint => $ENV{EO_ENGINE_URL}, table => 'tap_run', transact_tables => $accounts));
$node->safe_psql('postgres', <<"SQL");
CREATE TABLE accounts (aid int PRIMARY KEY, balance int);
INSERT INTO accounts SELECT g, 0 FROM generate_series(1, 10000) g;
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION idem_mirror('$accounts', 'aid', 'server=direct');
SELECT exactonce_stats_reset();
SQL
my $rate = $ENV{RATE} // 200;
my $script = script_file($node, "\\set aid random(1, 10000)\nUPDATE accounts SET balance = balance + 1 WHERE aid = :aid;\n");
my $out = `pgbench -n -h @{[$node->host]} -p @{[$node->port]} -f $script -c 16 -j 2 -R $rate -T 20 postgres 2>&1`;
settled($node);
diag(join "\n", grep { /tps|latency average|processed/ } split /\n/, $out);
diag('load of the machine: ' . slurp_file('/proc/loadavg'));
diag('from COMMIT to COMPLETED, ms: median, 95 %, 99 %: '
	  . $node->safe_psql('postgres', "SELECT completion_p50, completion_p95, completion_p99 FROM exactonce_stats WHERE server = 'direct'"));
my $median = $node->safe_psql('postgres', "SELECT completion_p50 < 100 FROM exactonce_stats WHERE server = 'direct'");
is($median, 't', 'the mirror lags less than 100 ms behind at the median');
my %changed = map { my ($id, $n) = split /\|/; $id => { aid => $id, balance => $n } }
  split /\n/, $node->safe_psql('postgres', 'SELECT * FROM accounts WHERE balance > 0');
is_deeply(items_of($accounts, 'aid'), \%changed, 'the mirror equals the table');

stop_without_crash($node, kills => 1);
done_testing();
