# idem_sweep(): what is deleted, and what is left alone, each condition wrong by one; items that
# change between the scan and the delete; lost and doubled requests; two sweeps at once, a
# cancel, rights, a standby; fences grow over a deletion; tables of other clients.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_sweep';
my $node = new_node('sweep', options => { clock_skew => 0, key_prefix => 'shop/' }, conf => <<'CONF');
wal_level = replica
max_wal_senders = 4
CONF
sweep_nothing($table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

my $now = int time();
my $old = $now - 7200;                                  # a ttl that is past by two hours
my $true = JSON::PP::true;
my %key_of;                                              # the key attribute of a table, if it is not pk

# ----- items ---------------------------------------------------------------------

sub num { return { N => "$_[0]" } }
sub str { return { S => "$_[0]" } }

# Writes an item with these attributes; undef: without that one.
sub put
{
	my ($of, $pk, %attributes) = @_;
	my %item = map { defined $attributes{$_} ? ($_ => $attributes{$_}) : () } keys %attributes;
	dynamodb(PutItem => { TableName => $of, Item => { ($key_of{$of} // 'pk') => { S => $pk }, %item } });
	return;
}

sub exists_in
{
	my ($of, $pk) = @_;
	return dynamodb(GetItem => { TableName => $of, ConsistentRead => $true, Key => { ($key_of{$of} // 'pk') => { S => $pk } } })->{Item} ? 1 : 0;
}

# Sets attributes of an item.
sub change
{
	my ($of, $pk, %attributes) = @_;
	my @names = sort keys %attributes;
	dynamodb(UpdateItem => { TableName => $of, Key => { ($key_of{$of} // 'pk') => { S => $pk } },
		UpdateExpression => 'SET ' . join(', ', map { "#$_ = :$_" } 0 .. $#names),
		ExpressionAttributeNames => { map { ("#$_" => $names[$_]) } 0 .. $#names },
		ExpressionAttributeValues => { map { (":$_" => $attributes{ $names[$_] }) } 0 .. $#names } });
	return;
}

my $token = '11111111-1111-4111-8111-111111111111';
my %record = (status => str('COMPLETED'), owner => str($token), fence => num(7), runs => num(1), result => str('{"n": 1}'),
	created_ms => num(1000 * $old), updated_ms => num(1000 * $old), ttl => num($old));
my %action = (actionId => str('x'), createdAt => num(1000 * $old), createdToken => str($token), activeAtMs => num(1000 * $old),
	expiresAtMs => num(1000 * $old), ttl => num($old));
my %life = (state => str('closed'), beat => num(5), nonce => str('n'), home => str(''), updated_ms => num(1000 * $old), ttl => num($old));
my ($key, $id, $uuid) = ('IDEMPOTENCY#shop/', 'ACTION#shop/', 'ORIGIN#shop/22222222-2222-4222-8222-');

my %deleted = (
	"${key}completed" => {%record},
	"${key}failed for good" => { %record, status => str('FAILED'), error => str('"no"'), result => undef },
	"${key}failed" => { %record, status => str('FAILED'), retry_ms => num(0), result => undef },
	"${key}without a fence" => { %record, fence => undef },
	"${key}without updated_ms" => { %record, updated_ms => undef },
	"${key}with a fence of before" => { %record, fence => num(1000 * $old) },
	"${key}with a result" => { %record, result => str('"' . 'x' x 300_000 . '"') },
	"${key}with an attribute that is new" => { %record, colour => str('blue') },
	"${id}expired" => {%action},
	"${id}consumed" => { %action, consumedAt => num(1000 * $old), consumedToken => str('t') },
	"${id}canceled" => { %action, canceledAt => num(1000 * $old), canceledToken => str('t') },
	"${id}closed" => { %action, closedAt => num(1000 * $old) },
	"${id}burned" => { %action, pinHash => str('h'), pinAttempts => num(0) },
	"${uuid}000000000001" => {%life},
	"${uuid}000000000002" => { %life, state => str('retired'), retired_by => str($token) });
my %kept = (
	"${key}in progress" => { %record, status => str('IN_PROGRESS'), lease_ms => num(1000 * $old) },
	"${key}committing" => { %record, status => str('COMMITTING') },
	"${key}of a newer version" => { %record, status => str('PAUSED') },
	"${key}without an owner" => { %record, owner => undef },
	"${key}without a ttl" => { %record, ttl => undef },
	"${key}with a ttl in words" => { %record, ttl => str("$old") },
	"${key}with a ttl of 0" => { %record, ttl => num(0) },
	"${key}with a ttl before 1970" => { %record, ttl => num(-$old) },
	"${key}with a ttl to come" => { %record, ttl => num($now + 7200) },
	"${key}past its ttl for less than an hour" => { %record, ttl => num($now - 3500) },
	"${key}with a fence to come" => { %record, fence => num(1000 * ($now + 3600)) },
	"${key}with a fence in words" => { %record, fence => str('7') },
	"${key}with the highest fence" => { %record, fence => num('9' x 38) },
	"${key}with an updated_ms in words" => { %record, updated_ms => str('yesterday') },
	'IDEMPOTENCY#shopping/completed' => {%record},
	'IDEMPOTENCY#completed' => {%record},
	'ORDER#shop/completed' => {%record},
	'shop/completed' => {%record},
	"${id}to come" => { %action, expiresAtMs => num(1000 * ($now + 3600)) },
	"${id}sealed" => { %action, status => str('COMMITTING'), sealedAt => num(1000 * $old), owner => str($token) },
	"${id}without a ttl" => { %action, ttl => undef },
	"${id}with a ttl in words" => { %action, ttl => str("$old") },
	"${id}with a ttl to come" => { %action, ttl => num($now + 7200) },
	"${id}past its ttl for less than an hour" => { %action, ttl => num($now - 3500) },
	"${id}without an end" => { %action, expiresAtMs => undef },
	"${id}consumed at an unknown time" => { %action, consumedAt => str('yesterday') },
	'ACTION#other/expired' => {%action},
	"${uuid}000000000003" => { %life, state => str('open') },
	"${uuid}000000000004" => { %life, ttl => undef },
	"${uuid}000000000005" => { %life, ttl => num($now + 7200) },
	"${uuid}000000000006" => { %life, ttl => num($now - 3500) },
	"${uuid}000000000007" => { %life, ttl => str("$old") },
	"${uuid}000000000008" => { %life, state => str('asleep') },
	"${uuid}000000000009" => { %life, state => str('retired') },
	'ORIGIN#other/22222222-2222-4222-8222-000000000001' => {%life});

put($table, $_, %{ $deleted{$_} }) foreach keys %deleted;
put($table, $_, %{ $kept{$_} }) foreach keys %kept;

# A record whose row is still there: the worker is refused, and the record is made to look old.
my %denied = (do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
fault(to => 'COMPLETED', key => 'shop/has a row', %denied);
$sql->("SELECT idem_acquire('has a row'); SELECT idem_complete('has a row')");
fault(key => 'shop/has a row', %denied);
my $rowed = item($table, "${key}has a row");
put($table, "${key}has a row", %record, owner => str($rowed->{owner}), origin => str($rowed->{origin}));

# So is an action, whose finish was applied a long time ago, and never answered.
fault(to => 'finished', key => 'shop/consumed by a row', do => 'lose', times => 0);
$sql->("SELECT action_create(id => 'consumed by a row'); SELECT action_consume('consumed by a row', at => 'commit')");
await_request(to => 'finished', key => 'shop/consumed by a row');
wait_until('an action is finished', sub { exists item($table, "${id}consumed by a row")->{consumedAt} });
fault(key => 'shop/consumed by a row', %denied);
change($table, "${id}consumed by a row", ttl => num($old));

# ----- bad input, and older_than ---------------------------------------------------

like(run_script($node, "SELECT idem_sweep(0);"), qr/22023.*from 1 to/s, 'a bad rate is refused');
like(run_script($node, "SELECT idem_sweep(older_than => '59 min');"), qr/22023: older_than is out of range.*must be from 1 hour/s,
	'less than an hour is refused');
like(run_script($node, "BEGIN READ ONLY;\nSELECT idem_sweep();"), qr/25006: cannot execute idem_sweep\(\)/, 'so is a transaction that is READ ONLY');
like(run_script($node, "SET exactonce.enabled = off;\nSELECT idem_sweep();"), qr/ID006: cannot execute idem_sweep\(\)/, '... and while it is switched off');
is($sql->("SELECT idem_sweep(100000, '3 hours')"), '0', 'nothing has been past its ttl for three hours');

# ----- what is deleted ---------------------------------------------------------------

my $swept = $sql->('SELECT idem_sweep(100000)');
is(exists_in($table, $_), 0, "deleted: $_") foreach sort keys %deleted;
is(exists_in($table, $_), 1, "kept: $_") foreach sort keys %kept;
is($swept, scalar(keys %deleted), 'as many as are past their time are counted');
is(exists_in($table, "${key}has a row"), 1, 'kept: a record whose row is still there');
is(exists_in($table, "${id}consumed by a row"), 1, 'kept: an action whose row is still there');
is(scalar(grep { !exists $deleted{ $_->{key} } } requests(op => 'DeleteItem'), requests(op => 'DeleteItem', key => 'ORIGIN#')), 0,
	'no delete was sent for another item');
is(scalar(grep { $_->{received} > 100_000 } requests(op => 'Scan')), 0, 'and no result was read');
reset_proxy();
settled($node);
is($sql->('SELECT idem_sweep(100000)'), '2', 'once the rows are gone the record and the action go, too');
is(exists_in($table, "${key}has a row"), 0, '... which was the one');
is(exists_in($table, "${id}consumed by a row"), 0, '... and the other');
is($sql->('SELECT idem_sweep(100000)'), '0', 'then nothing is left to be deleted');

# ----- changed between the scan and the delete ------------------------------------------

# Holds the delete of an item, does something, and lets the delete go.  Returns what the sweep says.
sub meanwhile
{
	my ($pk, $do, %how) = @_;
	fault(op => 'DeleteItem', key => $pk, do => 'hold');
	my $sweep = start_script($node, 'SELECT idem_sweep(100000, server => ' . ($how{server} // 'NULL') . ");\n");
	await_request(op => 'DeleteItem', key => $pk);
	$do->();
	release_held();
	my $said = finish_script($sweep);
	reset_proxy();
	return $said;
}

my %changes = (
	"${key}k" => [ \%record, status => str('FAILED'), owner => str('22222222-2222-4222-8222-222222222222'), updated_ms => num(1000 * $old + 1),
		fence => num(8), ttl => num($old + 1) ],
	"${id}k" => [ \%action, createdToken => str('other'), ttl => num($old + 1), expiresAtMs => num(1000 * $old + 1), consumedAt => num(1),
		canceledAt => num(1), closedAt => num(1), pinAttempts => num(1), status => str('COMMITTING') ],
	"${uuid}00000000000a" => [ \%life, state => str('open'), beat => num(6), retired_by => str('x'), ttl => num($old + 1) ]);
foreach my $pk (sort keys %changes)
{
	my ($seen, @changed) = @{ $changes{$pk} };
	while (my ($name, $value) = splice @changed, 0, 2)
	{
		put($table, $pk, %$seen);
		is(meanwhile($pk, sub { change($table, $pk, $name => $value) }), "0\n", "$pk: $name has changed, and the delete is refused");
		is(exists_in($table, $pk), 1, "$pk: $name: it is still there");
	}
	put($table, $pk, %$seen);
	is(meanwhile($pk, sub { change($table, $pk, colour => str('blue')) }), "1\n", "$pk: nothing that counts has changed, and it is deleted");
}

# A key that is claimed meanwhile is in progress, and its run goes on.
put($table, "${key}claimed", %record);
is(meanwhile("${key}claimed", sub { $sql->("SELECT idem_acquire('claimed'); SELECT idem_complete('claimed', '\"new\"')"); settled($node) }),
	"0\n", 'the key is claimed and completed meanwhile');
is($sql->("SELECT result FROM idem_get('claimed')"), '"new"', '... and its record stays');
put($table, "${key}gone", %record);
is(meanwhile("${key}gone", sub { dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "${key}gone" } } }) }),
	"0\n", 'what is gone already does not count');

# ----- lost and doubled requests -----------------------------------------------------------

my %faults = (
	'request lost' => [ { do => 'drop' }, "1\n" ],
	'answer lost' => [ { do => 'lose' }, "0\n" ],
	'request doubled, the second answer counts' => [ { do => 'twice' }, "0\n" ],
	'request doubled, the first answer counts' => [ { do => 'twice', first => 1 }, "1\n" ],
	'throttled' => [ { do => 'answer', status => 400, code => 'ProvisionedThroughputExceededException' }, "1\n" ],
	'status 500, applied' => [ { do => 'answer', applied => 1 }, "0\n" ],
	'answer empty' => [ { do => 'empty' }, "0\n" ],
	'answer garbled' => [ { do => 'garble' }, "0\n" ]);
foreach my $what (sort keys %faults)
{
	my ($fault, $said) = @{ $faults{$what} };
	put($table, "${key}faulty", %record);
	fault(op => 'DeleteItem', %$fault);
	is(run_script($node, 'SELECT idem_sweep(100000);'), $said, "$what: what it says");
	is(exists_in($table, "${key}faulty"), 0, "$what: the record is gone");
	reset_proxy();
}
$sql->(timeouts_sql('exactonce', request_timeout => '500ms'));
put($table, "${key}faulty", %record);
fault(op => 'DeleteItem', do => 'lose', times => 0);
like(run_script($node, 'SELECT idem_sweep(100000);'), qr/ID006: could not sweep table "$table" on server "exactonce": the outcome is unknown/,
	'no answer ever: the outcome is unknown');
reset_proxy();
put($table, "${key}faulty$_", %record) foreach 1 .. 3;
fault(op => 'DeleteItem', %denied, nth => 2, times => 1, message => 'not authorized to perform: dynamodb:DeleteItem');
like(run_script($node, 'SELECT idem_sweep(100000);'), qr/ID007: could not sweep table "$table" on server "exactonce": DynamoDB denied access.*dynamodb:DeleteItem/s,
	'without the permission dynamodb:DeleteItem');
is(scalar(grep { exists_in($table, "${key}faulty$_") } 1 .. 3), 2, '... what was deleted before stays so');
reset_proxy();
is($sql->('SELECT idem_sweep(100000)'), 2, '... and the rest goes next time');
fault(op => 'Scan', %denied);
like(run_script($node, 'SELECT idem_sweep(100000);'), qr/ID007: could not scan table/, 'without the permission dynamodb:Scan');
reset_proxy();
$sql->(timeouts_sql('exactonce', request_timeout => undef));

# ----- two at once, and a cancel --------------------------------------------------------------

put($table, "${key}many$_", %record) foreach 1 .. 60;
fault(op => 'DeleteItem', do => 'hold', nth => 5);
my $first = start_script($node, "SELECT idem_sweep(100000);\n");
await_request(op => 'DeleteItem', n => 5);
is($sql->("SELECT activity, total FROM exactonce_progress"), 'idem_sweep|', 'its progress is shown');
my $second = $sql->('SELECT idem_sweep(100000)');
release_held();
is(finish_script($first) + $second, 60, 'two sweeps at once: each item is counted once');
is(scalar(grep { exists_in($table, "${key}many$_") } 1 .. 60), 0, '... and all are gone');

reset_proxy();
put($table, "${key}slow$_", %record) foreach 1 .. 9;
my $slow = start_script($node, "SELECT idem_sweep(1);\n");
wait_until('the progress of a slow sweep is shown', sub { ($sql->('SELECT found FROM exactonce_progress') || 0) > 0 });
$sql->('SELECT pg_cancel_backend(pid) FROM exactonce_progress');
like(finish_script($slow), qr/57014/, 'it is canceled while it waits for its next delete');
is($sql->('SELECT count(*) FROM exactonce_progress'), '0', '... and its progress is gone');
my $left = grep { exists_in($table, "${key}slow$_") } 1 .. 9;
ok($left > 0 && $left < 9, 'what was deleted stays so');
is($sql->('SELECT idem_sweep(100000)'), $left, 'the next one deletes the rest');

# All processes are killed, and the delete that was on its way arrives when the keys have other runs.
reset_proxy();
put($table, "${key}killed$_", %record) foreach 1 .. 9;
fault(op => 'DeleteItem', do => 'hold', nth => 5);
my $killed = start_script($node, "SELECT idem_sweep(100000);\n");
await_request(op => 'DeleteItem', n => 5);
crash($node);
finish_script($killed);
$node->start;
is($sql->('SELECT count(*) FROM exactonce_progress'), '0', 'killed: its progress is gone');
is(scalar(grep { exists_in($table, "${key}killed$_") } 1 .. 9), 5, 'killed: what was deleted stays so');
$sql->("BEGIN; SELECT outcome FROM idem_acquire_many(ARRAY(SELECT 'killed' || i FROM generate_series(1, 9) i)); ROLLBACK");
settled($node);
release_held();
wait_until('killed: its delete arrives late', sub { count_requests(op => 'DeleteItem', status => 0) == 0 });
is(scalar(grep { exists_in($table, "${key}killed$_") } 1 .. 9), 9, 'killed: ... and deletes nothing');

# ----- fences, rights, a standby -----------------------------------------------------------------

$sql->("SELECT idem_acquire('fenced'); SELECT idem_complete('fenced')");
settled($node);
my $fence = record($table, 'shop/fenced')->{fence};
change($table, "${key}fenced", ttl => num($old));
is($sql->('SELECT idem_sweep(100000)'), 1, 'a key of SQL is deleted');
is($sql->("SELECT outcome, run, fence > $fence FROM idem_acquire('fenced')"), 'acquired|1|t', 'its next run has a greater fence');
is($sql->('SELECT idem_sweep(100000)'), 0, 'and a run in progress is left alone');

$sql->('CREATE ROLE app LOGIN; GRANT USAGE ON FOREIGN SERVER exactonce TO app');
my (undef, undef, $error) = $node->psql('postgres', 'SELECT idem_sweep()', extra_params => [ '-U', 'app' ]);
like($error, qr/permission denied for function idem_sweep/, 'it is for operators');
$sql->('GRANT EXECUTE ON FUNCTION idem_sweep TO app; REVOKE USAGE ON FOREIGN SERVER exactonce FROM app');
(undef, undef, $error) = $node->psql('postgres', 'SELECT idem_sweep()', extra_params => [ '-U', 'app' ]);
like($error, qr/permission denied for foreign server exactonce/, '... who may use the server');

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('sweep_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
(undef, undef, $error) = $standby->psql('postgres', 'SELECT idem_sweep()');
like($error, qr/cannot execute idem_sweep\(\) during recovery/, 'a standby deletes nothing');
$standby->stop;

# ----- tables of other clients ----------------------------------------------------------------------

my %layouts = (
	(map { ("powertools-$_" => { attribute => 'expiration', key => 'id', layout => "powertools-$_" }) } qw(python typescript java dotnet)),
	custom => { attribute => 'ttl', key => 'actionId', layout => 'custom', key_attribute => 'actionId', action_layout => 'seed', key_prefix => 'app/' });
foreach my $layout (sort keys %layouts)
{
	my %options = %{ $layouts{$layout} };
	my ($expiry, $of) = (delete $options{attribute}, "tap_sweep_$layout");
	$key_of{$of} = delete $options{key};
	my ($server, $begin) = ($layout =~ s/-/_/r, $options{key_prefix} // '');
	$sql->(server_sql($server, table => $of, clock_skew => 0, %options) . "SELECT idem_create_table('$server')");
	sweep_nothing($of, $expiry);
	my $look_old = sub {
		change($of, "$begin$_[0]", eo_ttl => num($old), $expiry => num($old), eo_shown_expiry => num($old), eo_updated_ms => num(1000 * $old),
			eo_fence => num(1)) };
	foreach my $ours ('done', 'failed', 'changed', 'touched')
	{
		$sql->("SELECT idem_acquire('$ours', server => '$server'); SELECT "
			  . ($ours eq 'failed' ? "idem_fail('failed', terminal => true, server => '$server')" : "idem_complete('$ours', '1', server => '$server')"));
	}
	settled($node);
	$look_old->($_) foreach 'done', 'failed', 'changed', 'touched';
	put($of, "${begin}theirs", status => str('COMPLETED'), $expiry => num($old), data => str('1'));
	change($of, "${begin}changed", $expiry => num($old - 1));
	put($of, "${begin}mine", actionId => str("${begin}mine"), createdAt => str('2020-01-01T00:00:00.000Z'), activeAtMs => num(1), expiresAtMs => num(2),
		createdToken => str('t'), ttl => num($old)) if $options{action_layout};
	put($of, "${begin}yours", actionId => str("${begin}yours"), activeAtMs => num(1), expiresAtMs => num(2), consumedAt => { NULL => $true },
		ttl => num($old)) if $options{action_layout};
	put($of, 'elsewhere', actionId => str('elsewhere'), activeAtMs => num(1), expiresAtMs => num(2), createdToken => str('t'), ttl => num($old))
	  if $options{action_layout};
	put($of, "ORIGIN#${begin}22222222-2222-4222-8222-000000000001", %life, $expiry => num($old));
	my $said = meanwhile("${begin}touched", sub { change($of, "${begin}touched", status => str('SOMETHING')) }, server => "'$server'");
	is(exists_in($of, "$begin$_"), 0, "$layout: $_ is deleted") foreach 'done', 'failed';
	is(exists_in($of, "$begin$_"), 1, "$layout: $_ is not") foreach 'theirs', 'changed', 'touched';
	is($said, ($options{action_layout} ? 4 : 3) . "\n", "$layout: our records and the life that is over are counted");
	next unless $options{action_layout};
	is(exists_in($of, "${begin}mine"), 0, "$layout: an action of ours is deleted");
	is(exists_in($of, "${begin}yours"), 1, "$layout: one of another client is not");
	is(exists_in($of, 'elsewhere'), 1, "$layout: nor one outside of the key_prefix");
}
stop_without_crash($node, kills => 1);
done_testing();
