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

# From now on the service of the tenant refuses each beat, by an item that is open.
sub refuse_beats
{
	my ($life, %item) = @_;
	fault(key => "ORIGIN#his/$life", op => 'UpdateItem', do => 'refused_by', times => 0, item => { state => { S => 'open' }, %item });
	return;
}

my @lies = (
	[ 'the item has gone back', sub { (beat => { N => $_[0]->{beat} }, nonce => { S => $_[0]->{nonce} }) } ],
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
wait_until('the original goes on for long', sub { life_item($table, $life)->{beat} > $beat + 40 });
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
done_testing();
