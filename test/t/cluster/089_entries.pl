# What processes tell each other in arrays of a fixed size: a role that takes many entries replaces
# its own, and what it finds out by its own servers counts for nobody else.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_entries';
my $elsewhere = relay();
(my $allowed = "$ENV{EO_ENDPOINT}, $elsewhere") =~ s{\w+://|/}{}g;
my $node = new_node('entries', conf => "exactonce.allowed_endpoints = '$allowed'\n");
sql_of($node, 'CREATE ROLE flood; CREATE ROLE modest; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO flood, modest');

# Makes servers of a role and uses each once.
sub use_servers
{
	my ($role, @servers) = @_;
	return errors_of($node, "SET ROLE $role;\n" . join '', map {
		server_sql($_->{name}, table => $table, key_prefix => "$role/", %{ $_->{options} })
		  . "SELECT idem_get('nothing', '$_->{name}');\n" } @servers);
}

# The row of exactonce_room of an array: what a role has of it.
sub has_of
{
	my ($array, $role) = @_;
	return sql_of($node, "SELECT COALESCE(sum(taken), 0) FROM exactonce_room WHERE room = '$array' AND role = '$role'");
}

# ----- one role takes all -------------------------------------------------------------

my %of_modest = (endpoint => $elsewhere);
is(use_servers('modest', { name => 'modest1', options => \%of_modest }), '', 'a role uses a server');
# Each has a circuit of its own.
is(use_servers('flood', map { { name => "flood$_", options => { connect_timeout => (1000 + $_) . 'ms' } } } 1 .. 100), '',
	'another role uses a hundred servers');
is(use_servers('modest', { name => 'modest2', options => \%of_modest }), '', 'the first one uses another server');

is(sql_of($node, "SELECT count(*) FROM exactonce_circuits WHERE endpoint LIKE '$elsewhere%'"), 1, 'its circuit is still there');
is(has_of('circuits', 'modest'), 1, '... which exactonce_room shows');
cmp_ok(has_of('circuits', 'flood'), '<', 64, 'the other one has replaced its own');
is(sql_of($node, "SELECT string_agg(calls::text, ' ' ORDER BY server) FROM exactonce_stats WHERE server LIKE 'modest%'"), '1 1',
	'its servers are counted one by one');
cmp_ok(has_of('statistics', 'flood'), '<', 100, 'not all of those of the other one are');
cmp_ok(sql_of($node, "SELECT calls FROM exactonce_stats WHERE server = 'others'"), '>', 0, '... the rest counts together');

# ----- the clock of a service -----------------------------------------------------------

# Whoever owns a server can have it say any time.
fault(key => 'early', do => 'date', seconds => 3600, times => 0);
my $said = run_script($node, "SET ROLE flood;\n" . "SELECT outcome FROM idem_acquire('early', on_commit => 'keep', server => 'flood1');\n" x 6);
like($said, qr/^acquired\n/, 'the servers of a tenant tell a wrong time');
end_fault('early');
sql_of($node, "SELECT idem_acquire('late', lease => '60 s', on_commit => 'keep')");
cmp_ok(abs(record($table, 'late')->{lease_ms} / 1000 - time() - 60), '<', 30, 'nobody else believes it');
cmp_ok(has_of('service clocks', 'flood'), '>', 0, 'the clock is known for that role');

# ----- whether an endpoint answers -----------------------------------------------------

# The same endpoint and timeouts as those of the superuser's server, which was asked just now.
sql_of($node, 'CREATE ROLE third; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO third');
is(use_servers('third', { name => 'third1' }), '', 'a role uses a server like one of others');
is(has_of('circuits', 'third'), 1, 'what it finds out about its endpoint counts for it alone');

stop_without_crash($node);
done_testing();
