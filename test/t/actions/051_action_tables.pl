# Actions in a table of another service, whose key is actionId and whose instants are numbers
# or ISO 8601 (action_layout 'seed'): each side creates actions that the other consumes, and
# of several calls of both sides one consumes.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(time);

my %common = (clock_skew => 0, layout => 'custom', key_attribute => 'actionId', action_layout => 'seed');
my %servers = (iso => { instants => 'iso', expiry_attribute => 'sweepAt', result_form => 'native' },
	ms => { instants => 'ms' }, s => { instants => 's', key_prefix => 'app/' });
my $node = new_node('action_tables', options => { clock_skew => 0 });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->(server_sql($_, table => "tap_actions_$_", %common, %{ $servers{$_} }) . "SELECT idem_create_table('$_')")
  foreach sort keys %servers;
my $true = JSON::PP::true;
my %prefix = (iso => '', ms => '', s => 'app/');

# An instant in so many seconds, as the other service writes it.
my %instant = (
	iso => sub { my $t = time() + $_[0];
		{ S => strftime('%Y-%m-%dT%H:%M:%S', gmtime(int $t)) . sprintf('.%03dZ', ($t - int $t) * 1000) } },
	ms => sub { { N => sprintf '%d', (time() + $_[0]) * 1000 } },
	s => sub { { N => sprintf '%d', time() + $_[0] } });

sub key_of { my ($server, $id) = @_; return { actionId => { S => "$prefix{$server}$id" } } }

sub item_of
{
	my ($server, $id) = @_;
	return dynamodb(GetItem => { TableName => "tap_actions_$server", ConsistentRead => $true, Key => key_of($server, $id) })->{Item};
}

sub create
{
	my ($server, $id, %more) = @_;
	dynamodb(PutItem => { TableName => "tap_actions_$server", ConditionExpression => 'attribute_not_exists(actionId)',
		Item => { %{ key_of($server, $id) }, activeAt => $instant{$server}->(-60), expiresAt => $instant{$server}->(3600),
			payload => { M => { user => { N => '7' } } }, %more } });
}

# True if it has consumed the action.
sub consume
{
	my ($server, $id) = @_;
	my $done = eval {
		dynamodb(UpdateItem => { TableName => "tap_actions_$server", Key => key_of($server, $id),
			ConditionExpression => 'attribute_exists(actionId) AND attribute_not_exists(consumedAt) AND activeAt <= :now AND expiresAt > :now',
			UpdateExpression => 'SET consumedAt = :now', ExpressionAttributeValues => { ':now' => $instant{$server}->(0) } });
		1 };
	die $@ if !$done && $@ !~ /ConditionalCheckFailed/;
	return $done ? 1 : 0;
}

sub said { my ($call) = @_; return $sql->("SELECT outcome, http_status, payload FROM $call") }

foreach my $server (sort keys %servers)
{
	my $s = "server => '$server'";
	create($server, 'theirs');
	is($sql->("SELECT state FROM action_get('theirs', $s)"), 'active', "$server: their action can be looked at");
	is(said("action_consume('theirs', $s)"), 'consumed|200|{"user": 7}', "$server: and consumed, with its payload");
	is(consume($server, 'theirs'), 0, "$server: once");
	ok(item_of($server, 'theirs')->{consumedAt}{ $server eq 'iso' ? 'S' : 'N' }, "$server: they see when, in their form");
	create($server, 'without', activeAt => { NULL => $true }, consumedAt => { NULL => $true });
	is(said("action_consume('without', $s)"), 'consumed|200|{"user": 7}', "$server: NULL is none");
	create($server, 'used');
	consume($server, 'used');
	is(said("action_consume('used', $s)"), 'already_used|409|', "$server: what they have consumed is used");
	is($sql->("SELECT state, consumed_at > now() - interval '1 hour' FROM action_get('used', $s)"), 'consumed|t', "$server: since then");
	create($server, 'early', activeAt => $instant{$server}->(3600), expiresAt => $instant{$server}->(7200));
	is(said("action_consume('early', $s)"), 'not_active|409|', "$server: their action is not active yet");
	create($server, 'late', activeAt => $instant{$server}->(-7200), expiresAt => $instant{$server}->(-3600));
	is(said("action_consume('late', $s)"), 'expired|410|', "$server: or has expired");
	like(join('', map { $node->psql('postgres', "SELECT action_consume('$_', $s)", stderr => \my $e); $e } create($server, 'odd',
				expiresAt => { BOOL => $true }) && 'odd'), qr/is not an action/, "$server: what cannot be compared is no action");

	$sql->("SELECT action_create('{\"user\": 8}', id => 'ours', $s)");
	is_deeply(item_of($server, 'ours')->{payload}, $server eq 'iso' ? { M => { user => { N => '8' } } } : { S => '{"user": 8}' },
		"$server: an action of SQL has a payload of the table's form");
	ok(item_of($server, 'ours')->{ $server eq 'iso' ? 'sweepAt' : 'ttl' }{N} > time() + 30 * 86400, "$server: and is swept in whole seconds");
	is(consume($server, 'ours'), 1, "$server: they consume it");
	is(said("action_consume('ours', $s)"), 'already_used|409|', "$server: so SQL cannot");
	$sql->("SELECT action_create(id => 'canceled', $s), action_cancel('canceled', $s)");
	is(said("action_consume('canceled', $s)"), 'canceled|410|', "$server: SQL cancels");
	$sql->("SELECT action_create(id => 'later', active_at => now() + interval '1 hour', $s)");
	is(consume($server, 'later'), 0, "$server: they wait until it is active");
	$sql->("SELECT action_create('{\"user\": 9}', id => 'pin', pin => '4711', $s)");
	is(said("action_consume('pin', '1234', $s)"), 'invalid_pin|401|', "$server: a PIN");
	is(said("action_consume('pin', '4711', $s)"), 'consumed|200|{"user": 9}', "$server: is asked for by SQL");

	# SQL's calls are made at the same time as those of the others.
	my $twice = 0;
	foreach my $round (1 .. 10)
	{
		create($server, "race $round");
		my $script = start_script($node, "SELECT outcome FROM action_consume('race $round', $s);\n" x 2);
		my $theirs = consume($server, "race $round");
		my $said = finish_script($script);
		my $ours = () = $said =~ /^consumed$/mg;
		$twice++ if $ours + $theirs != 1;
	}
	is($twice, 0, "$server: of several calls one consumes");

	# Keys are in the same table.
	is($sql->("SELECT outcome FROM idem_acquire('k', $s)"), 'acquired', "$server: a key beside the actions");
	like(join('', map { $node->psql('postgres', $_, stderr => \my $e); $e } "SELECT action_consume('k', $s)",
			"SELECT idem_acquire('theirs', $s)"), qr/is not an action.*ID007|is not an action.*is not a record/s,
		"$server: neither is taken for the other");
	is($sql->("SELECT count(*) FROM idem_check('$server') WHERE status NOT IN ('ok', 'warning')"), '0', "$server: idem_check() finds no failure");
	like(join('', map { $node->psql('postgres', $_, stderr => \my $e); $e } "SELECT action_create(id => 'ORIGIN#x', $s)"),
		$server eq 's' ? qr/^$/ : qr/begins like/, "$server: no id is in the place of a life");
}

my ($status, $out, $err) = $node->psql('postgres', server_sql('bad', table => 'ttt', layout => 'custom', action_layout => 'seed'));
like($err, qr/invalid.*action_layout.*actionId/s, 'the table must have the key');
stop_without_crash($node);
done_testing();
