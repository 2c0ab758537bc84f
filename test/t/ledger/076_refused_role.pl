# The credentials of the role that has opened a life are refused: it goes on, is inherited and
# settled by those of another role of the database, and the view says whose are refused.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('roles', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nlog_min_messages = log\nmax_prepared_transactions = 5\nautovacuum = off\n");
my $table = 'tap_roles';
sql_of($node, <<'SQL');
CREATE ROLE a LOGIN; CREATE ROLE b LOGIN;
GRANT USAGE ON FOREIGN SERVER exactonce TO a, b;
GRANT EXECUTE ON FUNCTION idem_take_over TO b;
DROP USER MAPPING FOR PUBLIC SERVER exactonce;
CREATE USER MAPPING FOR a SERVER exactonce OPTIONS (access_key_id 'KEYOFA', secret_access_key 'secret-of-a');
CREATE USER MAPPING FOR b SERVER exactonce OPTIONS (access_key_id 'KEYOFB', secret_access_key 'secret-of-b');
SQL
$node->restart;

sub as
{
	my ($role, $statements) = @_;
	return errors_of($node, "SET ROLE $role;\n$statements");
}

# From now on what a role has signed is refused.
sub refuse
{
	my ($key) = @_;
	fault(do => 'expired', access_key => $key, times => 0);
	fault(key => 'ORIGIN#', do => 'expired', access_key => $key, times => 0);
	return;
}

sub refused
{
	return sql_of($node, "SELECT string_agg(DISTINCT refused, ' ') FROM exactonce_lives");
}

# ----- the life of a database that goes on ---------------------------------------------------

is(as('a', "SELECT idem_once('of a')"), '', 'a life is opened by one role');
settled($node);
my $life = life_of($node);
refuse('KEYOFA');
wait_until('its credentials are refused: the view says whose', sub { refused() =~ /^a: ExpiredToken/ });
my $beat = item($table, "ORIGIN#$life")->{beat};
wait_until('beats go on', sub { item($table, "ORIGIN#$life")->{beat} > $beat + 5 });
cmp_ok(count_requests(key => "ORIGIN#$life", signer => 'KEYOFB', status => 200), '>', 2, 'by the credentials of another role');
is(as('b', "SELECT idem_once('of b')"), '', 'who can complete a key');
is(life_of($node), $life, 'it is the same life');
like(as('a', "SELECT idem_once('more of a')"), qr/ERROR/, 'the role itself cannot do anything');
reset_proxy();
wait_until('its credentials are good again: the view says so', sub { refused() eq '' });

# ----- beside a lock of the catalogs, which say who may stand in -------------------------------

# The ticks of processor time that a process has had.
sub ticks
{
	my ($pid) = @_;
	my ($rest) = slurp_file("/proc/$pid/stat") =~ /.*\) (.*)/s;
	my @fields = split ' ', $rest;
	return $fields[11] + $fields[12];
}

sub is_calm
{
	my ($what) = @_;
	my $worker = sql_of($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
	my $before = ticks($worker);
	usleep(2_000_000);
	cmp_ok(ticks($worker) - $before, '<', 20, "$what: the worker waits between its tries");
	return;
}

sub goes_on
{
	my ($what) = @_;
	my $from = item($table, "ORIGIN#$life")->{beat};
	wait_until("$what: beats go on", sub { item($table, "ORIGIN#$life")->{beat} > $from + 3 });
	return;
}

is(as('a', "SELECT idem_once('before the lock')"), '', 'a life that the one role has opened');
is(as('b', "SELECT idem_once('before the lock, too')"), '', 'under which the other one has completed a key');
settled($node);
my $holder = start_script($node, "SET ROLE b;\nBEGIN;\nSELECT idem_acquire('held by b');\n" . say_in_script('b holds') . halt_until('b ends') . "ROLLBACK;\n");
await_word('b holds');
$life = life_of($node);
my $locker = start_script($node, "BEGIN;\nLOCK pg_foreign_server, pg_user_mapping IN ACCESS EXCLUSIVE MODE;\n"
	  . say_in_script('catalogs locked') . halt_until('catalogs') . "COMMIT;\n");
await_word('catalogs locked');
refuse('KEYOFA');
wait_until('locked catalogs: the role is refused', sub { count_requests(key => "ORIGIN#$life", signer => 'KEYOFA', status => 400) > 0 });
goes_on('locked catalogs');
is_calm('locked catalogs');
refuse('KEYOFB');
wait_until('all are refused beside that', sub { count_requests(key => "ORIGIN#$life", signer => 'KEYOFB', status => 400) > 0 });
is_calm('all are refused');
reset_proxy();
goes_on('they are accepted again');
refuse('KEYOFA');
go_on('catalogs');
unlike(finish_script($locker), qr/ERROR/, 'the catalogs are free');
wait_until('the view says who is refused', sub { refused() =~ /^a: ExpiredToken/ });
goes_on('unlocked catalogs');
go_on('b ends');
finish_script($holder);
reset_proxy();

# ----- after a crash ---------------------------------------------------------------------------

is(as('a', "SELECT idem_once('second of a')"), '', 'a key of the one role');
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(as('b', "BEGIN; SELECT idem_acquire('left by b'); SELECT idem_complete('left by b'); COMMIT"), '',
	'another role commits, and its key is not finished');
is(as('a', "BEGIN; SELECT idem_acquire('left by a'); SELECT idem_complete('left by a'); COMMIT"), '',
	'and so does the first one');
crash($node);
reset_proxy();
refuse('KEYOFA');
$node->start;
wait_until('after a crash the key of the other role is finished', sub { status_of($table, 'left by b') eq 'COMPLETED' });
wait_until('and so is the one of the role that is refused', sub { status_of($table, 'left by a') eq 'COMPLETED' });
is(sql_of($node, 'SELECT count(*) FROM exactonce_pending'), 0, 'nothing is pending');
like(refused(), qr/^a: ExpiredToken/, 'the view says who is refused');
like(slurp_file($node->logfile), qr/is reached by another identity/, 'and so does the log');

# What another identity finds may be in another account: a copy of the record, which bears the
# token.  If it was not sealed by the transaction of the row, it is left alone, and the row stays.
reset_proxy();
is(as('a', "SELECT idem_once('fifth of a')"), '', 'the one role goes on');
settled($node);
fault(to => 'COMPLETED', key => 'copied', do => 'drop', times => 0);
is(as('a', "BEGIN; SELECT idem_acquire('copied'); SELECT idem_complete('copied'); COMMIT"), '', 'it commits a key, which is not finished');
my $origin = record($table, 'copied')->{origin};
(my $other = $origin) =~ s{/(\d+)/}{'/' . ($1 + 1) . '/'}e or die "the origin is $origin";
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#copied' } }, UpdateExpression => 'SET #g = :g',
	ExpressionAttributeNames => { '#g' => 'origin' }, ExpressionAttributeValues => { ':g' => { S => $other } } });
refuse('KEYOFA');
wait_until('the one role is refused', sub { refused() =~ /^a: ExpiredToken/ });
end_fault('copied');
wait_until('what another one finds was sealed by another transaction, and is no answer',
	sub { sql_of($node, 'SELECT trouble, reason FROM exactonce_pending') =~ /^refused\|Its record is COMMITTING, and not by that transaction/ });
is(status_of($table, 'copied'), 'COMMITTING', '... nor finished');
reset_proxy();
is(sql_of($node, 'SELECT idem_give_up(id) FROM exactonce_pending'), 't', 'an operator ends that');

# ----- what nobody has found there ---------------------------------------------------------------

# The credentials of another role may be of another account, where the table is another one.  So
# no item is made by them as long as they have found none of those of this database.
sub made_by_others
{
	return count_requests(op => 'UpdateItem', key => 'ORIGIN#', signer => 'KEYOFB');
}

reset_proxy();
is(as('a', "SELECT idem_once('fourth of a')"), '', 'another life of the one role');
settled($node);
$life = life_of($node);
is(as('a', "BEGIN; SELECT idem_acquire('prepared by a'); SELECT idem_complete('prepared by a'); PREPARE TRANSACTION 'of a'"), '',
	'it prepares a transaction, about which the next life has to find out');
crash($node);
my $kept = dynamodb(GetItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } } })->{Item};
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } } });
reset_proxy();
refuse('KEYOFA');
$node->start;
wait_until('the other role looks for the life', sub { count_requests(op => 'GetItem', key => "ORIGIN#$life", signer => 'KEYOFB', status => 200) > 2 });
is(made_by_others(), 0, 'and does not find it: then it makes no item of the next one');
dynamodb(PutItem => { TableName => $table, Item => $kept });
wait_until('when it finds it it does', sub { made_by_others() > 0 });
wait_until('and retires the life', sub { item($table, "ORIGIN#$life")->{state} eq 'retired' });
sql_of($node, "ROLLBACK PREPARED 'of a'");

# ----- by hand -----------------------------------------------------------------------------------

reset_proxy();
is(as('a', "SELECT idem_once('third of a')"), '', 'a life that the one role has used');
$life = life_of($node);
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(as('b', "BEGIN; SELECT idem_acquire('left again'); SELECT idem_complete('left again'); COMMIT"), '',
	'a key is committed and not finished');
crash($node);
# Without the file the life is one of another machine, as far as can be told.
unlink $node->data_dir . '/exactonce_claims';
$node->append_conf('postgresql.conf', "exactonce.takeover = never\n");
reset_proxy();
refuse('KEYOFA');
$node->start;
is(as('b', "SELECT idem_once('new')"), '', 'the other role goes on');
my $worker = sql_of($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
my $run = start_script($node, "SET ROLE b;\nSELECT idem_take_over('$life');\n");
wait_until('it takes the life over', sub {
	sql_of($node, "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'idem_take_over' AND state = 'active' AND pid <> pg_backend_pid()") eq '1' });
kill 'STOP', $worker;
wait_until('its item says so', sub { item($table, "ORIGIN#$life")->{state} eq 'retired' });
usleep(500_000);
is(sql_of($node, "SELECT state FROM pg_stat_activity WHERE query ~ 'idem_take_over' AND pid <> pg_backend_pid()"), 'active',
	'which is not enough as long as the worker does not know');
kill 'CONT', $worker;
is(finish_script($run), "t\n", 'and it is told so');
is(sql_of($node, "SELECT state FROM exactonce_lives WHERE life = '$life' AND state <> 'over'"), 'settled here',
	'which is done when it is said');
wait_until('its key is finished', sub { status_of($table, 'left again') eq 'COMPLETED' });
is(sql_of($node, "SET ROLE b; SELECT idem_take_over('$life')"), 'f', 'a life is taken over once');

# Writes to other tables are made with the rights of the role that has handed them in.
reset_proxy();
sql_of($node, server_sql('data', table => 'tap_roles_data') . "SELECT idem_create_table('data');"
	  . "ALTER SERVER exactonce OPTIONS (ADD transact_tables 'tap_roles_data')");
fault(op => 'TransactWriteItems', do => 'expired', access_key => 'KEYOFA', times => 0);
is(as('a', q(SELECT idem_once('writes', writes => '[{"Put": {"TableName": "tap_roles_data", "Item": {"pk": {"S": "one"}}}}]'))), '',
	'the role that is refused has committed a write');
await_request(op => 'TransactWriteItems', n => 2);
refuse('KEYOFA');
wait_until('its life goes on without it', sub { refused() =~ /^a: ExpiredToken/ });
is(join(' ', map { $_->{signer} } requests(op => 'TransactWriteItems', signer => 'KEYOFB')), '', 'nobody else makes that write');
is(item('tap_roles_data', 'one'), undef, 'it is not made');
reset_proxy();
wait_until('once the role is accepted it is', sub { status_of($table, 'writes') eq 'COMPLETED' });
is(item('tap_roles_data', 'one')->{pk}, 'one', 'once');
$node->stop;
done_testing();
