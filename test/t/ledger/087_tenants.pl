# A tenant owns a server, and answers what he likes to whatever is sent there.  The other
# servers of the database, and the copies of its data, are not his.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# On an idle machine, a beat every quarter of a second, which is noted every three seconds.
my $table = 'tap_tenants';
my $life;
my $node = new_node('tenants', conf => "exactonce.test_hurry = @{[ hurry(20) ]}\n"
	  . "log_min_messages = log\nwal_level = replica\nmax_wal_senders = 5\nmax_connections = 20\n"
	  . "max_prepared_transactions = 5\n");
$node->append_conf('pg_hba.conf', 'local replication all trust');
$node->reload;
sql_of($node, <<'SQL');
CREATE TABLE work (key text);
CREATE ROLE tenant LOGIN;
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant;
SQL
as_tenant(server_sql('his', table => $table, key_prefix => 'his/'));

sub as_tenant
{
	my ($statements) = @_;
	return sql_of($node, "SET SESSION AUTHORIZATION tenant; $statements");
}

sub his_item
{
	my ($life) = @_;
	return item($table, "ORIGIN#his/$life") // {};
}

sub state_at_his
{
	my ($life) = @_;
	return sql_of($node, "SELECT state FROM exactonce_lives WHERE life = '$life' AND key_prefix = 'his/'");
}

sub retire_his
{
	my ($life) = @_;
	change_life_item($table, "his/$life", state => 'retired', retired_by => sql_of($node, 'SELECT gen_random_uuid()'));
	return;
}

# Waits until the life has an item in his table, and beats there; returns that item.
sub await_his
{
	my ($what) = @_;
	as_tenant("SELECT idem_once('$what', server => 'his')");
	my $life = life_of($node);
	my $item = his_item($life);
	wait_until("$what: the life beats there", sub { his_item($life)->{beat} > $item->{beat} + 1 });
	return ($life, $item);
}

# ----- his item, and answers about it -------------------------------------------------

# The service of the tenant refuses the next beats, by an item that is open.
sub refuse_beats
{
	my ($life, %item) = @_;
	fault(key => "ORIGIN#his/$life", op => 'UpdateItem', do => 'refused_by', times => 5, item => { state => { S => 'open' }, %item });
	return;
}

my @lies = (
	[ 'the item has gone back', sub { refuse_beats($_[0], beat => { N => "$_[1]->{beat}" }, nonce => { S => $_[1]->{nonce} }) } ],
	[ 'the number that was sent, with an older nonce', sub { refuse_beats($_[0], beat => ':w', nonce => { S => $_[1]->{nonce} }) } ],
	[ 'retired by a life that never was', sub { retire_his($_[0]) } ],
	[ 'closed', sub { change_life_item($table, "his/$_[0]", state => 'closed') } ],
	[ 'removed', sub { dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "ORIGIN#his/$_[0]" } } }) } ]);

# The database is not idle.
my $busy = start_script($node, "SELECT outcome FROM idem_acquire('busy', on_commit => 'session');\n" . say_in_script('busy') . halt_until('idle'));
await_word('busy');
foreach my $lie (@lies)
{
	my ($what, $do) = @$lie;
	my ($life, $item) = await_his($what);
	my $across = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('across $what');\nSELECT idem_acquire('across $what');\n"
		  . "SELECT idem_complete('across $what');\nSELECT idem_once('across $what', server => 'his');\n"
		  . say_in_script("across $what") . halt_until("commit $what") . "COMMIT;\n");
	await_word("across $what");
	$do->($life, $item);
	wait_until("$what: the life is barred there", sub { state_at_his($life) eq 'barred' });
	end_fault("ORIGIN#his/$life");
	is(complete($node, "other $what"), '', "$what: other keys are completed");
	is(life_of($node), $life, "$what: under the same life");
	go_on("commit $what");
	like(finish_script($across), qr/ID006/, "$what: a transaction with a key in both tables cannot commit");
	is(worked($node, "across $what"), 0, "$what: its work is not done");
	wait_until("$what: its other key is given back", sub { status_of($table, "across $what") eq 'FAILED' });
	is(life_of($node), $life, "$what: still under the same life");
}

# Each time the tenant has come back his place has cost a life: four so far, and one more today.
($life) = await_his('the last life');
retire_his($life);
wait_until('the last life is barred', sub { state_at_his($life) eq 'barred' });
like(errors_of($node, "SET SESSION AUTHORIZATION tenant; SELECT idem_once('too much', server => 'his')"),
	qr/55000: table "$table" of server "his" is barred/, 'there is no other for his sake');
change_life_item($table, "his/$life", state => 'open');
like(errors_of($node, "SET SESSION AUTHORIZATION tenant; SELECT idem_once('too much', server => 'his')"),
	qr/55000: table "$table" of server "his" is barred/, 'also if his item is open again');
is(complete($node, 'after that'), '', 'the keys of others go on');
is(life_of($node), $life, 'and so does the life');
is(sql_of($node, "SELECT idem_lift('his'), idem_lift()"), 't|f', 'an operator lifts that');
as_tenant("SELECT idem_once('allowed', server => 'his')");
isnt(life_of($node), $life, 'with another life');

# ----- a start, when his table was the first ---------------------------------------------

crash($node);
go_on('idle');
finish_script($busy);
$node->start;
as_tenant("SELECT idem_once('his own', server => 'his')");
settled($node);
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, 'of others'), '', 'his table is the first of a life, and another key commits');
$life = life_of($node);
retire_his($life);
wait_until('he has the life barred', sub { state_at_his($life) eq 'barred' });
crash($node);
reset_proxy();
$node->start;
is(complete($node, 'after the crash'), '', 'after a crash new keys work');
wait_until('and without a caller what had committed is completed', sub { status_of($table, 'of others') eq 'COMPLETED' });
wait_until('nothing is kept of that life', sub {
	sql_of($node, "SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND state = 'has another heir'") eq '0' });

# ----- the same table, by credentials of another account ------------------------------------

my %account = (do => 'account', access_key => 'his', table => $table, there => 'tap_his_account', times => 0);
as_tenant(server_sql('twin', table => $table, mapping => "access_key_id 'his', secret_access_key 'his'"));
fault(%account);
sql_of($node, "SELECT idem_create_table('twin')");

# Whoever makes a server can name the table of any other one, and its keys.  He holds up nobody.
sql_of($node, 'CREATE ROLE neighbor LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO neighbor;'
	  . ' GRANT EXECUTE ON FUNCTION idem_forget TO neighbor');
sql_of($node, 'SET SESSION AUTHORIZATION neighbor; ' . server_sql('next_door', table => $table));

sub completes
{
	my ($key, %by) = @_;
	my $role = $by{role} // 'postgres';
	my $server = $by{server} // 'exactonce';
	return run_script($node, "SET SESSION AUTHORIZATION $role;\nSET lock_timeout = '500 ms';\nBEGIN;\n"
		  . "SELECT idem_start('$key', server => '$server');\nSELECT idem_complete('$key', server => '$server');\nCOMMIT;\n");
}

sub is_free
{
	my ($what, $key) = @_;
	is(completes("$key 1"), "t\n\n", "$what: a server of a superuser completes its own");
	is(run_script($node, "SET lock_timeout = '500 ms';\nSELECT idem_once('$key 2');\n"), "\n", "$what: also at commit");
	is(completes("$key 3", role => 'neighbor', server => 'next_door'), "t\n\n", "$what: and so does one of another tenant");
	is(sql_of($node, "SET lock_timeout = '500 ms'; SELECT idem_forget('$key 1')"), 't', "$what: an operator redrives the first");
	return;
}

sub once_in_twin
{
	my ($key) = @_;
	return join '', map { "SELECT idem_once('$key $_', server => 'twin');\n" } 1 .. 3;
}

# His completions are not confirmed.
sub refuse_finishes
{
	my ($key, $access_key) = @_;
	fault(key => $key, to => 'COMPLETED', do => 'expired', access_key => $access_key, times => 0);
	return;
}

sub pending
{
	my ($key) = @_;
	return sql_of($node, "SELECT count(*) FROM exactonce_pending WHERE key LIKE '$key%'");
}

my $his = start_script($node, "SET SESSION AUTHORIZATION tenant;\nBEGIN;\n" . once_in_twin('open') . say_in_script('he is idle') . halt_until('he ends')
	  . "COMMIT;\n");
await_word('he is idle');
is_free('an open transaction of his', 'open');
go_on('he ends');
unlike(finish_script($his), qr/ERROR/, 'his own commits, too');
wait_until('in his account', sub { status_of('tap_his_account', 'open 1') eq 'COMPLETED' });

as_tenant("BEGIN;\n" . once_in_twin('prepared') . "PREPARE TRANSACTION 'his'");
is_free('a prepared transaction of his', 'prepared');
as_tenant("COMMIT PREPARED 'his'");

refuse_finishes("kept $_", 'his') foreach 1 .. 3;
as_tenant("BEGIN;\n" . once_in_twin('kept') . 'COMMIT');
wait_until('his completions are not confirmed', sub { pending('kept') == 3 });
is_free('a completion of his that is not confirmed', 'kept');

# His own servers are held up by it.
as_tenant(server_sql('twin_too', table => $table, endpoint => $ENV{EO_ENGINE_URL}, mapping => "access_key_id 'his', secret_access_key 'his'"));
like(errors_of($node, "SET SESSION AUTHORIZATION tenant; SELECT idem_once('kept 1', server => 'twin_too')"), qr/ID001: key "kept 1" .*in progress/,
	'a second server of his is told to come back later');

# Once an operator has given them up they stay.
reset_proxy();
dynamodb(DeleteTable => { TableName => 'tap_his_account' });
fault(%account);
is(sql_of($node, "SELECT bool_and(idem_give_up(id)) FROM exactonce_pending WHERE key LIKE 'kept%'"), 't', 'they are given up');
sql_of($node, "SELECT idem_forget('kept 2')");
is(run_script($node, "SELECT idem_once('kept 2');\n"), "\n", 'a completion of his that was given up: a server of a superuser completes its own');
is(completes('kept 1'), "t\n\n", 'and completes again what was redriven');
sql_of($node, "SELECT idem_create_table('twin')");

# A row of a superuser's server is believed by all; but its transaction is not waited for.
settled($node);
refuse_finishes('ours', 'test');
is(completes('ours'), "t\n\n", 'a completion of ours is not confirmed');
like(errors_of($node, "SET SESSION AUTHORIZATION tenant; SELECT idem_once('ours', server => 'twin')"), qr/ID001: key "ours" .*in progress/,
	'the tenant comes back later');
my $ours = start_script($node, "BEGIN;\nSELECT idem_once('ours is open');\n" . say_in_script('we are idle') . halt_until('we end') . "COMMIT;\n");
await_word('we are idle');
like(errors_of($node, "SET SESSION AUTHORIZATION tenant; SET lock_timeout = '500 ms'; SELECT idem_once('ours is open', server => 'twin')"),
	qr/ID001: key "ours is open" .*in progress/, 'also if our transaction goes on');
go_on('we end');
unlike(finish_script($ours), qr/ERROR/, 'which commits');

# No evidence is lost when a server gets another owner.
sub is_refused
{
	my ($what, $key, $server) = @_;
	dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } } });
	like(errors_of($node, "SELECT idem_once('$key', server => '$server')"), qr/ID001: key "$key" .*in progress/, $what);
	return;
}

sql_of($node, server_sql('direct', table => $table, endpoint => $ENV{EO_ENGINE_URL}) . server_sql('aside', table => $table));
refuse_finishes($_, 'test') foreach 'next door is bought', 'aside is given away';
is(completes('next door is bought', role => 'neighbor', server => 'next_door'), "t\n\n", 'a tenant completes a key');
is(completes('aside is given away', server => 'aside'), "t\n\n", 'a superuser another one');
sql_of($node, 'ALTER SERVER next_door OWNER TO postgres; ALTER SERVER aside OWNER TO neighbor');
is_refused('what was completed by a server that comes to be ours is not completed again', 'next door is bought', 'next_door');
is_refused('nor what was by one that is given away', 'aside is given away', 'direct');
reset_proxy();
is(sql_of($node, "SELECT bool_and(idem_give_up(id)) FROM exactonce_pending WHERE key NOT LIKE 'ours%'"), 't', 'an operator gives up what has no record');
settled($node);

# Nor is a prepared transaction waited for without end.
sql_of($node, 'SET SESSION AUTHORIZATION tenant; ' . server_sql('sold', table => $table));
as_tenant("BEGIN; SELECT idem_once('sold and prepared', server => 'sold'); PREPARE TRANSACTION 'sold'");
sql_of($node, 'ALTER SERVER sold OWNER TO postgres');
like(errors_of($node, "SET lock_timeout = '500 ms'; SELECT idem_once('sold and prepared', server => 'sold')"),
	qr/ID001: key "sold and prepared" .*in progress/, 'what a prepared transaction completes is in progress after its server was sold');
like(errors_of($node, "SET lock_timeout = '500 ms'; SELECT idem_once('sold and prepared', server => 'direct')"),
	qr/ID001: key "sold and prepared" .*in progress/, 'also by another address');
sql_of($node, "ROLLBACK PREPARED 'sold'");
is(run_script($node, "SELECT idem_once('sold and prepared', server => 'sold');\n"), "\n", 'and free after it');
settled($node);

$busy = start_script($node, "SELECT outcome FROM idem_acquire('busy', on_commit => 'session', wait => '1 min');\n" . say_in_script('busy again') . halt_until('idle'));
await_word('busy again');
as_tenant("SELECT idem_once('twin', server => 'twin')");
$life = life_of($node);
fault(%account, key => 'ORIGIN#');
wait_until('by his account the life is barred',
	sub { sql_of($node, "SELECT string_agg(DISTINCT state, ' ' ORDER BY state) FROM exactonce_lives WHERE life = '$life' AND key_prefix = ''") eq 'barred open' });
is(complete($node, 'not by his'), '', 'and goes on by ours');
is(life_of($node), $life, 'as the same life');
reset_proxy();

# ----- a superuser's table that comes to be a tenant's --------------------------------------

sql_of($node, server_sql('given', table => $table, key_prefix => 'given/') . "SELECT idem_once('given', server => 'given')");
$life = life_of($node);
sql_of($node, "ALTER SERVER given OPTIONS (ADD home 'false')");
foreach my $i (1 .. 2)
{
	dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "ORIGIN#given/$life" } } });
	wait_until("given $i: the life is barred there", sub {
		sql_of($node, "SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND key_prefix = 'given/' AND state = 'barred'") > 0 });
	is(complete($node, "beside given $i"), '', "given $i: other keys are completed");
	is(life_of($node), $life, "given $i: under the same life");
	last if $i == 2;
	sql_of($node, "SELECT idem_lift('given'); SELECT idem_once('given again', server => 'given')");
	isnt(life_of($node), $life, 'after a lift there is another life');
	$life = life_of($node);
}

# ----- a copy of the data is as old as it is, whatever he has answered ---------------------

$life = life_of($node);
$node->backup('old');
my $beat = life_item($table, $life)->{beat};
sql_of($node, 'CREATE DATABASE late');
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, key_prefix => 'late/'), 'late');
fault(key => 'ORIGIN#late/', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
like(errors_of($node, "SELECT idem_once('refused')", 'late'), qr/ID007/, 'the life of another database has no item');
wait_until('the original goes on for long', sub { life_item($table, $life)->{beat} > $beat + 40 });
reset_proxy();
sql_of($node, "SELECT idem_once('admitted')", 'late');
settled($node, 'late');
my ($late, $noted) = split /\|/, sql_of($node, 'SELECT id, beat FROM exactonce_internal.lives ORDER BY number DESC LIMIT 1', 'late');
cmp_ok(life_item($table, "late/$late")->{beat} - $noted, '<', 13, 'when that has one at last, its row says how far it is');
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, 'late'), '', 'the original commits what the copy has not');
$node->stop('immediate');
go_on('idle');
finish_script($busy);
reset_proxy();
my $copy = PostgreSQL::Test::Cluster->new('old_copy');
$copy->init_from_backup($node, 'old');
$copy->start;
sql_of($copy, "SELECT idem_once('of the copy')");
wait_until('the old copy waits for an operator',
	sub { sql_of($copy, "SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND state LIKE 'waits%'") > 0 });
is(life_item($table, $life)->{state}, 'open', 'it leaves the life of the original alone');
is(status_of($table, 'late'), 'COMMITTING', 'and its key');
$copy->stop;

# ----- the database that a copy comes from -----------------------------------------------

# A copy may take over from its original once that is gone, if an operator says so.
sub make_servers
{
	return 'CREATE EXTENSION exactonce; CREATE TABLE work (key text); ' . server_sql('exactonce', table => $table)
	  . 'GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant; SET SESSION AUTHORIZATION tenant; '
	  . server_sql('his', table => $table, key_prefix => 'his/');
}

# The tenant says in his item by whom the life was retired; undef: it is open.
sub write_his_item
{
	my ($of, $by) = @_;
	change_life_item($table, "his/$of", $by ? (state => 'retired', retired_by => $by) : (state => 'open'));
	return;
}

# The lives of the original that came along.
sub count_earlier
{
	return sql_of($node, <<'SQL', 'replacement');
SELECT count(*) FROM exactonce_internal.lives WHERE dboid <> (SELECT oid FROM pg_database WHERE datname = current_database())
SQL
}

$node->start;
sql_of($node, 'CREATE DATABASE replaced');
sql_of($node, make_servers(), 'replaced');
sql_of($node, "SELECT idem_once('first'), idem_once('his first', server => 'his')", 'replaced');
settled($node, 'replaced');
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, 'left', 'replaced'), '', 'the original commits a key');
sql_of($node, "SELECT idem_once('his left', server => 'his')", 'replaced');
$life = life_of($node, 'replaced');
sql_of($node, 'CREATE DATABASE replacement TEMPLATE replaced');
sql_of($node, 'DROP DATABASE replaced');
reset_proxy();
is(sql_of($node, "SELECT outcome FROM idem_acquire('left')", 'replacement'), 'in_progress', 'to its copy that is in progress');
$busy = start_script($node, "SELECT outcome FROM idem_acquire('busy replacement', on_commit => 'session');\n" . say_in_script('busy') . halt_until('idle'),
	'replacement');
await_word('busy');
is(sql_of($node, "SELECT outcome FROM idem_acquire('his left', server => 'his')", 'replacement'), 'in_progress', 'and so is one of his');
my $earlier = count_earlier();
cmp_ok($earlier, '>', 0, 'it has lives of the original');
write_his_item($life, life_of($node, 'replacement'));
reset_proxy();
await_request(op => 'GetItem', key => "ORIGIN#his/$life", n => 3);
is(count_earlier(), $earlier, 'an item of the tenant makes them none of its own');
is(status_of($table, 'left'), 'COMMITTING', 'and completes no key');
write_his_item($life);
reset_proxy();
like(errors_of($node, "SELECT idem_take_over('$life', 'his')", 'replacement'),
	qr/55000: life $life cannot be taken over by server "his", for which roles other than superusers may answer/, 'an operator cannot go by it either');
is(count_requests(op => 'UpdateItem', key => "ORIGIN#his/$life"), 0, 'of which it knows nothing');
is(count_earlier(), $earlier, 'and nothing is adopted');
sql_of($node, server_sql('ours_too', table => $table, key_prefix => 'his/'), 'replacement');
is(sql_of($node, "SELECT idem_take_over('$life', 'ours_too')", 'replacement'), 't', 'but by a server of a superuser');
wait_until('which adopts them', sub { count_earlier() == 0 });
like(sql_of($node, "SELECT idem_take_over('$life')", 'replacement'), qr/^[tf]$/, 'after the same in the other table');
wait_until('the key is completed', sub { status_of($table, 'left') eq 'COMPLETED' });
go_on('idle');
finish_script($busy);
stop_without_crash($node);
done_testing();
