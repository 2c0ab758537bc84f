# Leases of tables and key prefixes: the servers of one role leave room for those of others, a lease
# that is refused takes none, and however many there are, each knows its own beats.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use Test::More;

my $table = 'tap_places';
(my $allowed = $ENV{EO_ENDPOINT}) =~ s{\w+://|/}{}g;
my $node = new_node('places', conf => "exactonce.allowed_endpoints = '$allowed'\n");
sql_of($node, <<'SQL');
CREATE ROLE flood;
CREATE ROLE modest;
GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO flood, modest;
CREATE DATABASE other;
SQL
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, key_prefix => 'other/'), 'other');

# A server of a role, and the claim of a key by it.
sub server_of
{
	my ($role, $name, $prefix) = @_;
	return "SET ROLE $role;\n" . server_sql($name, table => $table, key_prefix => $prefix);
}

sub claim
{
	my ($server) = @_;
	return "SELECT outcome FROM idem_acquire('k', on_commit => 'keep', server => '$server');\n";
}

# The same server with one key_prefix after the other, each of which is used.
sub start_prefixes
{
	my ($server, @prefixes) = @_;
	return start_script($node, "SET ROLE flood;\n" . join '', map {
		"ALTER SERVER $server OPTIONS (SET key_prefix '$_/');\n" . claim($server) } @prefixes);
}

sub use_prefixes
{
	return finish_script(start_prefixes(@_));
}

sub places_of
{
	my ($role) = @_;
	return sql_of($node, "SELECT COALESCE(sum(taken), 0) FROM exactonce_room WHERE room = 'places' AND role = '$role'");
}

sql_of($node, server_of('flood', 'flood', 'flood/'));

# ----- leases that are refused ---------------------------------------------------------

fault(key => 'ORIGIN#', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
my $said = use_prefixes('flood', map { "refused$_" } 1 .. 20);
my $denied = () = $said =~ /ERROR:  ID007/g;
is($denied, 20, 'leases are refused');
is(places_of('flood'), 0, 'they take no room');
reset_proxy();

use_prefixes('flood', 'some', 'others');
is(places_of('flood'), 2, 'others take room');
settled($node);
is(sql_of($node, "SELECT idem_drain('@{[ paced('60 s') ]}')"), 0, 'the database is drained');
is(places_of('flood'), 0, '... which gives the room back');
sql_of($node, 'SELECT idem_drain(NULL)');

# ----- a beat whose reply is lost, beside many leases --------------------------------------

is(errors_of($node, claim('exactonce')), '', 'a life begins');
my $life = life_of($node);
fault(key => "ORIGIN#$life", do => 'lose');
fault(key => "ORIGIN#$life", nth => 2, do => 'drop', times => 0);
await_request(key => "ORIGIN#$life", n => 2);
$said = use_prefixes('flood', map { "p$_" } 1 .. 200);
like($said, qr/\A(?:acquired\n){200}\z/, 'meanwhile two hundred leases begin');
reset_proxy();
# The same item by another address.
sql_of($node, server_sql('around', endpoint => relay(), table => $table));
is(errors_of($node, "SELECT idem_once('around', server => 'around')"), '', 'who reaches the table in another way knows the beat');
await_request(key => "ORIGIN#$life", n => 2);
is(errors_of($node, "SELECT idem_once('again')"), '', 'and so does whoever sends it again');
is(life_of($node), $life, 'the life goes on');

# ----- a thousand prefixes ---------------------------------------------------------------

my $flood = start_prefixes('flood', map { "p$_" } 201 .. 1000);
is(complete_thousand($node, 'other'), '', 'meanwhile another database completes a thousand keys');
$said .= finish_script($flood);
my $given = () = $said =~ /^acquired$/mg;
cmp_ok($given, '<', 500, "a role that uses a thousand prefixes has $given");
is(places_of('flood'), $given, '... as exactonce_room says');
like($said, qr/ERROR:  54000: no room for the lease of this database in table "$table"\nDETAIL:  The owner of server "flood" has as many /,
	'... and is told that its share is used up');
unlike($said, qr/ERROR:  (?!54000)/, '... by no other error');
is(errors_of($node, server_of('modest', 'modest', 'modest/') . claim('modest')), '', 'another role has room');
is(errors_of($node, claim('exactonce')), '', 'so has a superuser');
is(errors_of($node, claim('exactonce'), 'other'), '', 'and another database');
sql_of($node, 'DROP SERVER flood CASCADE');
is(places_of('flood'), $given, 'without its server a lease stays');
stop_without_crash($node);
done_testing();
