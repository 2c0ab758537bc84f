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
my $node = new_node('tenants', conf => "exactonce.test_hurry = @{[ hurry(20) ]}\n"
	  . "log_min_messages = log\nwal_level = replica\nmax_wal_senders = 5\nmax_connections = 20\n");
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

# ----- answers about his item ---------------------------------------------------------

# The service of the tenant refuses the next beats, by an item that is open.
sub refuse_beats
{
	my ($life, %item) = @_;
	fault(key => "ORIGIN#his/$life", op => 'UpdateItem', do => 'refused_by', times => 5, item => { state => { S => 'open' }, %item });
	return;
}

my @lies = (
	[ 'the item has gone back', sub { (beat => { N => "$_[0]->{beat}" }, nonce => { S => $_[0]->{nonce} }) } ],
	[ 'the number that was sent, with an older nonce', sub { (beat => ':w', nonce => { S => $_[0]->{nonce} }) } ]);

# The database is not idle.
my $busy = start_script($node, "SELECT outcome FROM idem_acquire('busy', on_commit => 'session');\n" . say_in_script('busy') . halt_until('idle'));
await_word('busy');
foreach my $lie (@lies)
{
	my ($what, $item) = @$lie;
	as_tenant("SELECT idem_once('$what', server => 'his')");
	my $life = life_of($node);
	my $seen = his_item($life);
	wait_until("$what: the life beats there", sub { his_item($life)->{beat} > $seen->{beat} + 1 });
	refuse_beats($life, $item->($seen));
	wait_until("$what: that is no beat of ours, and there is another life",
		sub { complete($node, 'another ' . rand()) eq '' && life_of($node) !~ /^(?:$life)?$/ });
	end_fault("ORIGIN#his/$life");
}

# Whatever he has answered, a copy of the data is as old as it is.
my $life = life_of($node);
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
cmp_ok(sql_of($node, "SELECT beat - noted_beat FROM exactonce_lives WHERE state = 'open'", 'late'), '<', 13,
	'when that has one at last, its row says how far it is');
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
	qr/55000: life $life cannot be taken over by server "his", which no superuser owns/, 'an operator cannot go by it either');
is(count_requests(op => 'UpdateItem', key => "ORIGIN#his/$life"), 0, 'of which it knows nothing');
is(count_earlier(), $earlier, 'and nothing is adopted');
sql_of($node, server_sql('ours_too', table => $table, key_prefix => 'his/'), 'replacement');
is(sql_of($node, "SELECT idem_take_over('$life', 'his')", 'replacement'), 't', 'unless a server of a superuser leads there, too');
wait_until('which adopts them', sub { count_earlier() == 0 });
like(sql_of($node, "SELECT idem_take_over('$life')", 'replacement'), qr/^[tf]$/, 'after the same in the other table');
wait_until('the key is completed', sub { status_of($table, 'left') eq 'COMPLETED' });
go_on('idle');
finish_script($busy);
stop_without_crash($node);
done_testing();
