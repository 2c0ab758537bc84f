# Actions in a table of another service, whose key is actionId (action_layout 'seed'): each side
# creates actions that the other consumes or cancels, and of several calls of both sides one
# consumes. The writes of the other service are written out as its programs send them: "exact"
# is the table as it is without options, and the other two have other names and forms.
use strict;
use warnings FATAL => 'all';
use Digest::SHA qw(sha256_hex);
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(time);

my %common = (clock_skew => 0, layout => 'custom', key_attribute => 'actionId', action_layout => 'seed');
my %servers = (
	exact => { action_pin_hash => 'sha256' },
	iso => { action_active => 'activeAt iso', action_expires => 'expiresAt iso', expiry_attribute => 'sweepAt',
		result_form => 'native', action_pin_hash => 'sha256' },
	s => { action_active => 'activeAt s', action_expires => 'expiresAt s', action_consumed => 'usedAt s', action_canceled => 'voidedAt s',
		key_prefix => 'app/', action_pin_hash => 'sha256' });
my $node = new_node('action_tables', options => { clock_skew => 0 });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
foreach my $server (sort keys %servers)
{
	my %plain = %{ $servers{$server} };
	delete $plain{action_pin_hash};
	$sql->(server_sql($server, table => "tap_actions_$server", %common, %{ $servers{$server} })
		  . server_sql("${server}_plain", table => "tap_actions_$server", %common, %plain, pin_attempts => 2)
		  . "SELECT idem_create_table('$server')");
}
my $true = JSON::PP::true;
my %prefix = (exact => '', iso => '', s => 'app/');

# An instant in so many seconds.
my %instant = (
	iso => sub { my $t = time() + $_[0];
		{ S => strftime('%Y-%m-%dT%H:%M:%S', gmtime(int $t)) . sprintf('.%03dZ', ($t - int $t) * 1000) } },
	ms => sub { { N => sprintf '%d', (time() + $_[0]) * 1000 } },
	s => sub { { N => sprintf '%d', time() + $_[0] } });

# The names of the other service's attributes, and the forms of its instants.
my @exact = (active => [ 'activeAtMs', 'ms' ], expires => [ 'expiresAtMs', 'ms' ], consumed => [ 'consumedAt', 'iso' ],
	canceled => [ 'canceledAt', 'iso' ]);
my %names = (exact => {@exact}, iso => { @exact, active => [ 'activeAt', 'iso' ], expires => [ 'expiresAt', 'iso' ] },
	s => { active => [ 'activeAt', 's' ], expires => [ 'expiresAt', 's' ], consumed => [ 'usedAt', 's' ], canceled => [ 'voidedAt', 's' ] });

sub name { my ($server, $what) = @_; return $names{$server}{$what}[0] }
sub at { my ($server, $what, $seconds) = @_; return $instant{ $names{$server}{$what}[1] }->($seconds // 0) }

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
		Item => { %{ key_of($server, $id) }, name($server, 'active') => at($server, active => -60),
			name($server, 'expires') => at($server, expires => 3600), payload => { M => { user => { N => '7' } } }, %more } });
}

# True if the write was made.
sub update
{
	my ($server, $id, %request) = @_;
	my $done = eval { dynamodb(UpdateItem => { TableName => "tap_actions_$server", Key => key_of($server, $id), %request }); 1 };
	die $@ if !$done && $@ !~ /ConditionalCheckFailed/;
	return $done ? 1 : 0;
}

# The one write that consumes an action, with the hash of a PIN or NULL.
sub consume
{
	my ($server, $id, $pin, $reason) = @_;
	my ($active, $expires, $consumed, $canceled) = map { name($server, $_) } qw(active expires consumed canceled);
	my %now = map { $_ => at($server, $_) } qw(active expires consumed);
	return update($server, $id,
		UpdateExpression => "SET $consumed = :now, consumedReason = :reason",
		ConditionExpression => "attribute_exists(actionId) AND attribute_not_exists($consumed) AND attribute_not_exists($canceled)"
		  . " AND $active <= :nowMs AND $expires > :nowMs AND (attribute_not_exists(pinHash) OR pinHash = :pinHash)",
		ExpressionAttributeValues => { ':now' => $now{consumed}, ':nowMs' => $now{active},
			':reason' => { S => $reason // 'used by them' },
			':pinHash' => defined $pin ? { S => sha256_hex($pin) } : { NULL => $true } });
}

sub cancel
{
	my ($server, $id) = @_;
	my ($consumed, $canceled) = map { name($server, $_) } qw(consumed canceled);
	return update($server, $id, UpdateExpression => "SET $canceled = :now",
		ConditionExpression => "attribute_exists(actionId) AND attribute_not_exists($consumed) AND attribute_not_exists($canceled)",
		ExpressionAttributeValues => { ':now' => at($server, 'canceled') });
}

# Why the other service was refused: what it makes of the item.
sub state_of
{
	my ($server, $id) = @_;
	my $item = item_of($server, $id) // return 'action_not_found';
	my ($active, $expires, $consumed, $canceled) = map { (values %{ $item->{ name($server, $_) } // { none => '' } })[0] }
	  qw(active expires consumed canceled);
	my $now = (values %{ at($server, 'active') })[0];
	my $after = sub { $now =~ /T/ ? $_[0] gt $now : $_[0] > $now };
	return $consumed ne '' ? 'already_used' : $canceled ne '' ? 'canceled' : !$after->($expires) ? 'expired'
	  : $after->($active) ? 'not_active' : $item->{pinHash} ? 'invalid_pin' : 'active';
}

sub error_of { my ($call) = @_; $node->psql('postgres', "SELECT $call", stderr => \my $e); return $e }

sub said { my ($call) = @_; return $sql->("SELECT outcome, http_status, payload FROM $call") }

foreach my $server (sort keys %servers)
{
	my $s = "server => '$server'";
	my $seen = "SELECT state, reason, consumed_at BETWEEN now() - interval '5 minutes' AND now() + interval '2 s' FROM action_get";
	create($server, 'theirs');
	is($sql->("SELECT state FROM action_get('theirs', $s)"), 'active', "$server: their action can be looked at");
	is($sql->("SELECT outcome, http_status, payload, replayed FROM action_consume('theirs', reason => 'used by us', token => '00000000-0000-4000-8000-000000000001', $s)"),
		'consumed|200|{"user": 7}|f', "$server: and consumed, with its payload");
	is(said("action_consume('theirs', token => '00000000-0000-4000-8000-000000000001', $s)"), 'consumed|200|{"user": 7}', "$server: which a retry is told again");
	is(consume($server, 'theirs'), 0, "$server: once");
	is(state_of($server, 'theirs'), 'already_used', "$server: which they are told");
	my $item = item_of($server, 'theirs');
	is_deeply([ keys %{ $item->{ name($server, 'consumed') } } ], [ keys %{ at($server, 'consumed') } ], "$server: they see when, in their form");
	is_deeply($item->{consumedReason}, { S => 'used by us' }, "$server: and why");
	create($server, 'without', name($server, 'active') => { NULL => $true }, name($server, 'consumed') => { NULL => $true });
	is(said("action_consume('without', $s)"), 'consumed|200|{"user": 7}', "$server: NULL is none");
	create($server, 'used');
	is(consume($server, 'used', undef, 'by a link'), 1, "$server: they consume their own");
	is(said("action_consume('used', $s)"), 'already_used|409|', "$server: what they have consumed is used");
	is($sql->("$seen('used', $s)"), 'consumed|by a link|t', "$server: since then, and for that reason");
	create($server, 'early', name($server, 'active') => at($server, active => 3600), name($server, 'expires') => at($server, expires => 7200));
	is(said("action_consume('early', $s)"), 'not_active|409|', "$server: their action is not active yet");
	create($server, 'late', name($server, 'active') => at($server, active => -7200), name($server, 'expires') => at($server, expires => -3600));
	is(said("action_consume('late', $s)"), 'expired|410|', "$server: or has expired");
	create($server, 'voided');
	is(cancel($server, 'voided'), 1, "$server: or they have canceled it");
	is(said("action_consume('voided', $s)"), 'canceled|410|', "$server: which bars SQL");
	is($sql->("SELECT state, canceled_at > now() - interval '5 minutes' FROM action_get('voided', $s)"), 'canceled|t', "$server: since then");
	create($server, 'odd', name($server, 'expires') => { BOOL => $true });
	like(error_of("action_consume('odd', $s)"), qr/is not an action/, "$server: what cannot be compared is no action");

	$sql->("SELECT action_create('{\"user\": 8}', id => 'ours', $s)");
	is_deeply(item_of($server, 'ours')->{payload}, $server eq 'iso' ? { M => { user => { N => '8' } } } : { S => '{"user": 8}' },
		"$server: an action of SQL has a payload of the table's form");
	ok(item_of($server, 'ours')->{ $server eq 'iso' ? 'sweepAt' : 'ttl' }{N} > time() + 30 * 86400, "$server: and is swept in whole seconds");
	is(state_of($server, 'ours'), 'active', "$server: they can read it");
	is(consume($server, 'ours'), 1, "$server: they consume it");
	is(said("action_consume('ours', $s)"), 'already_used|409|', "$server: so SQL cannot");
	is($sql->("$seen('ours', $s)"), 'consumed|used by them|t', "$server: and tells when and why");
	$sql->("SELECT action_create(id => 'canceled', $s), action_cancel('canceled', $s)");
	is(said("action_consume('canceled', $s)"), 'canceled|410|', "$server: SQL cancels");
	is(consume($server, 'canceled') . state_of($server, 'canceled'), '0canceled', "$server: which bars them");
	$sql->("SELECT action_create(id => 'ours voided', $s)");
	is(cancel($server, 'ours voided') . said("action_consume('ours voided', $s)"), '1canceled|410|', "$server: they cancel what SQL made");
	is($sql->("SELECT outcome, replayed FROM action_cancel('ours voided', $s)"), 'canceled|t', "$server: once");
	$sql->("SELECT action_create(id => 'later', active_at => now() + interval '1 hour', $s)");
	is(consume($server, 'later') . state_of($server, 'later'), '0not_active', "$server: they wait until it is active");
	$sql->("SELECT action_create(id => 'short', expires_at => now() + interval '2 s', $s)");
	wait_until("$server: it expires for SQL", sub { $sql->("SELECT state FROM action_get('short', $s)") eq 'expired' });
	is(consume($server, 'short') . state_of($server, 'short'), '0expired', "$server: what has expired for SQL has for them");

	# PINs: theirs are hashed as an option says.
	$sql->("SELECT action_create('{\"user\": 9}', id => 'pin', pin => '4711', $s)");
	is_deeply(item_of($server, 'pin')->{pinHash}, { S => sha256_hex('4711') }, "$server: a PIN of SQL has their hash");
	is(said("action_consume('pin', '1234', $s)"), 'invalid_pin|401|', "$server: a PIN");
	is(said("action_consume('pin', '4711', $s)"), 'consumed|200|{"user": 9}', "$server: is asked for by SQL");
	$sql->("SELECT action_create(id => 'pin for them', pin => '4711', $s)");
	is(join('', map { consume($server, 'pin for them', $_) } undef, '1234', '4711'), '001', "$server: and by them");
	create($server, 'their pin', pinHash => { S => sha256_hex('0042') });
	is($sql->("SELECT has_pin, attempts_left FROM action_get('their pin', $s)"), 't|3', "$server: an action of theirs has all attempts");
	is(said("action_consume('their pin', $s)"), 'invalid_pin|401|', "$server: asks for a PIN");
	is($sql->("SELECT outcome, attempts_left FROM action_consume('their pin', '1234', $s)"), 'invalid_pin|2', "$server: takes attempts");
	is(said("action_consume('their pin', '0042', $s)"), 'consumed|200|{"user": 7}', "$server: and opens for the right one");
	create($server, 'guessed', pinHash => { S => sha256_hex('0042') });
	is($sql->("SELECT string_agg((action_consume('guessed', '1234', $s)).outcome::text, ' ') FROM generate_series(1, 4)"),
		'invalid_pin invalid_pin invalid_pin burned', "$server: which are not more than SQL's");
	create($server, 'their pin canceled', pinHash => { S => sha256_hex('0042') });
	is($sql->("SELECT outcome FROM action_cancel('their pin canceled', $s)"), 'canceled', "$server: it can be canceled");
	create($server, 'their pin unknown', pinHash => { S => sha256_hex('0042') });
	like(error_of("action_consume('their pin unknown', $_ server => '${server}_plain')"),
		qr/its hash cannot be read.*action_pin_hash 'sha256'/s, "$server: without the option their PIN is refused")
	  foreach '', "'0042',";
	is(item_of($server, 'their pin unknown')->{pinAttempts}, undef, "$server: and no attempt is taken");
	create($server, 'their pin md5', pinHash => { S => 'd41d8cd98f00b204e9800998ecf8427e' });
	like(error_of("action_consume('their pin md5', '0042', $s)"), qr/its hash cannot be read/, "$server: nor has another hash any");
	$sql->("SELECT action_create(id => 'scrypt', pin => '4711', server => '${server}_plain')");
	is(consume($server, 'scrypt', '4711') . said("action_consume('scrypt', '4711', server => '${server}_plain')"), '0consumed|200|',
		"$server: without the option SQL has its own hash, for itself");

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
