# Whoever owns a server can alter it as often as he likes, and each time it leads to another target.
# What others keep of that is bounded: rows of a table, and the memory of the worker.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $table = 'tap_targets';
my $business = 'tap_targets_items';
my $a_day = 128;
# A target is forgotten after 18 seconds without work, and a day has 72 minutes.
my $node = new_node('targets', conf => "exactonce.test_hurry = @{[ hurry(20) ]}\nlog_min_messages = debug1\n");
my $internal = 'exactonce_internal';
sql_of($node, 'CREATE ROLE tenant LOGIN; CREATE ROLE neighbour LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant, neighbour');

sub as_role
{
	my ($role, $statements) = @_;
	return errors_of($node, "SET SESSION AUTHORIZATION $role;\n$statements");
}

my %custom = (table => $table, layout => 'custom', holder_attribute => 'h0');

my $keys = 0;
sub altered
{
	my ($server, $n) = @_;
	$keys++;
	return "ALTER SERVER $server OPTIONS (SET holder_attribute 'h$n');\nSELECT idem_once('$keys', server => '$server');\n";
}

# ----- rows of targets ------------------------------------------------------------------------------

my $said = as_role('tenant', server_sql('his', %custom, key_prefix => 'his/') . join '', map { altered('his', $_) } 1 .. $a_day + 1);
like($said, qr/^ERROR:  54000: no room for another table or record layout of server "his"\n/,
	'a tenant leads to no more than some new targets in a day');
like($said, qr/DETAIL:  Servers of its owner have led to $a_day tables and layouts .*\nHINT:  .*Alter the server back/, 'and is told what to do');
is(sql_of($node, "SELECT count(*) FROM $internal.targets"), $a_day, 'each has one row');
is(as_role('tenant', altered('his', 5)), '', 'those that he has had are used on');
is(as_role('neighbour', server_sql('theirs', %custom, key_prefix => 'theirs/') . altered('theirs', 1)), '', 'others have room');
is(errors_of($node, server_sql('ours', %custom, key_prefix => 'ours/') . join '', map { altered('ours', $_) } 1 .. 3), '', 'so have superusers');
settled($node);
wait_until('targets are found by their index', sub { sql_of($node, "SELECT idx_scan > 0 FROM pg_stat_all_tables WHERE relid = '$internal.targets'::regclass") eq 't' });

# In one command, which does not see what it has recorded.
is(errors_of($node, server_sql('another', %custom, key_prefix => 'another/', holder_attribute => 'other') . server_sql('third', %custom, key_prefix => 'third/',
			holder_attribute => 'third') . "SELECT idem_once('c' || n, server => CASE n % 2 WHEN 0 THEN 'another' ELSE 'third' END) FROM generate_series(1, 6) n;\n"),
	'', 'one command uses two new targets');
is(sql_of($node, "SELECT count(*) FROM $internal.targets WHERE layout ~ '=(other|third)'"), 2, 'each has one row');
settled($node);

# ----- memory of the worker -------------------------------------------------------------------------

# It would leave if it had no work at all.
my $work = 0;
wait_until('the worker forgets targets that have no work', sub {
	sql_of($node, "SELECT idem_once('work @{[ $work++ ]}')");
	usleep(300_000);
	my $forgotten = () = slurp_file($node->logfile) =~ /had no work by role \d+ on server \d+, and is forgotten/g;
	return $forgotten >= $a_day;
});
is(as_role('tenant', altered('his', 6)), '', 'one that was forgotten has work again');
settled($node);
is(sql_of($node, "SELECT status FROM idem_get('$keys', server => 'his')"), 'COMPLETED', 'which is done');

# Writes that wait for DynamoDB, of four targets of one owner.
dynamodb(CreateTable => { TableName => $business, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ], KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
my @servers = map { "w$_" } 1 .. 4;
sql_of($node, join '', map { server_sql($_, %custom, holder_attribute => $_, key_prefix => "$_/", transact_tables => $business,
	request_timeout => '60s', commit_timeout => '60s') } @servers);
fault(op => 'TransactWriteItems', do => 'hold', times => 0);
sql_of($node, <<"SQL") foreach @servers;
SELECT count(idem_once('k' || n, server => '$_', writes => (
	SELECT jsonb_agg(jsonb_build_object('Put', jsonb_build_object('TableName', '$business', 'Item', jsonb_build_object(
		'id', jsonb_build_object('S', concat('$_ ', n, ' ', i)), 'value', jsonb_build_object('S', repeat('x', 350000))))))
	FROM generate_series(1, 3) i))) FROM generate_series(1, 30) n
SQL

# The memory of the worker, in megabytes.
sub memory
{
	my $at = -s $node->logfile;
	sql_of($node, "SELECT pg_log_backend_memory_contexts(pid) FROM pg_stat_activity WHERE backend_type LIKE 'exactonce worker%'");
	my $bytes;
	wait_until('the worker tells its memory', sub { ($bytes) = slurp_file($node->logfile, $at) =~ /Grand total: (\d+) bytes/; defined $bytes });
	return $bytes / 1024 / 1024;
}

my $most = 0;
wait_until('the worker reads writes', sub { $most = memory(); $most > 15 });
foreach (1 .. 10)
{
	my $now = memory();
	$most = $now if $now > $most;
	usleep(100_000);
}
cmp_ok($most, '<', 75, 'writes of all targets together take up some memory');
reset_proxy();
release_held();
settled($node);
is(sql_of($node, 'SELECT count(*) FROM exactonce_pending'), 0, 'all of them are made');

# ----- rows with writes that are left out of the order ------------------------------------------------

# 303 of these have 29,997 writes, and the others wait for room.
my $another = 'tap_targets_others';
dynamodb(CreateTable => { TableName => $another, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ], KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
sql_of($node, "ALTER SERVER w2 OPTIONS (SET transact_tables '$business, $another')");

sub put
{
	my ($key, $server, $name, $id) = @_;
	sql_of($node, qq(SELECT idem_once('$key', server => '$server', writes => '[{"Put": {"TableName": "$name", "Item": {"id": "$id", "value": "$key"}}}]')));
	return;
}

sub value_of
{
	my ($name, $id) = @_;
	return dynamodb(GetItem => { TableName => $name, Key => { id => { S => $id } } })->{Item}{value}{S} // '';
}

fault(op => 'TransactWriteItems', key => 'w1/', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
sql_of($node, <<"SQL");
SELECT count(idem_once('many ' || n, server => 'w1', writes => (
	SELECT jsonb_agg(jsonb_build_object('Put', jsonb_build_object('TableName', '$business', 'Item', jsonb_build_object(
		'id', CASE WHEN n = 305 AND i = 7 THEN 'last' ELSE concat('many ', n, ' ', i) END, 'value', 'many'))))
	FROM generate_series(1, 99) i))) FROM generate_series(1, 306) n
SQL
put('tail', 'w1', $business, 'last');
put('behind', 'w2', $business, 'last');
wait_until('writes of one server are refused', sub { sql_of($node, "SELECT count(*) FROM $internal.outbox WHERE attempts > 0") >= 303 });
put('beside', 'w2', $another, 'free');
wait_until('those to another table are made', sub { value_of($another, 'free') eq 'beside' });
is(sql_of($node, "SELECT count(*) FROM $internal.outbox WHERE attempts = 0"), 5, 'those for which there is no room are not tried, nor what may come after them');
reset_proxy();
settled($node);
is(value_of($business, "many $_ 5"), 'many', "the writes of key $_ are made") foreach 1, 306;
is(value_of($business, 'last'), 'behind', 'the last one comes last');

stop_without_crash($node);
done_testing();
