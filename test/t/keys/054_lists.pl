# Lists of keys and actions for operators: what is in them, their rate, progress and cancels;
# who holds a key; and the progress of calls for many keys.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_lists';
my $node = new_node('lists', options => { clock_skew => 0, key_prefix => 'shop/' });
sweep_nothing($table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $lines = sub { return join ',', split /\n/, $sql->($_[0]) };

# ----- keys --------------------------------------------------------------------

my $now = int(time() * 1000);
my %record = (owner => '11111111-1111-4111-8111-111111111111', fence => 1, runs => 2, updated_ms => $now - 7_200_000,
	created_ms => $now - 7_200_000, ttl => int($now / 1000) + 86400);
my $put = sub { my ($key, %more) = @_; put_record($table, "shop/$key", %record, %more) };
$put->('order/stuck', status => 'IN_PROGRESS', lease_ms => $now - 3_600_000, holder => 'a dead job');
$put->('order/parked', status => 'FAILED', error => '{"message": "no"}');
$put->('order/later', status => 'FAILED', error => '{"message": "later"}', retry_ms => $now + 3_600_000);
$put->('order/done', status => 'COMPLETED', result => '{"n": 1}');
$put->('order/old', status => 'COMPLETED', result => '{}', ttl => int($now / 1000) - 3600);
$put->('mail/done', status => 'COMPLETED', result => '{"n": 2}', updated_ms => $now);
my $odd = "mail/gr\x{fc}n \"%_";
$put->($odd, status => 'IN_PROGRESS', lease_ms => $now + 3_600_000, updated_ms => $now);
utf8::encode($odd);
put_record($table, 'other/key', %record, status => 'FAILED', error => '1');
$sql->("SELECT action_create(id => 'coupon/1'), action_create(id => 'coupon/2', pin => '1234'), action_create(id => 'seat/1')");
$sql->("SELECT outcome FROM action_consume('coupon/1', reason => 'used')");

my $keys = sub { return $lines->("SELECT key FROM idem_list($_[0]) ORDER BY key COLLATE \"C\"") };
is($keys->(''), "mail/done,$odd,order/done,order/later,order/parked,order/stuck",
	'all live keys of the server, and no other items');
is($keys->("'stuck'"), 'order/stuck', 'keys whose run is dead');
is($keys->("'parked'"), 'order/parked', 'keys that failed for good');
is($keys->("'failed'"), 'order/later,order/parked', 'keys that failed');
is($keys->("'COMPLETED'"), 'mail/done,order/done', 'completed keys');
is($keys->("'committing'"), '', 'none is being committed');
is($keys->("prefix => 'mail/'"), "mail/done,$odd", 'keys with a prefix');
is($keys->("older_than => '1 hour'"), 'order/done,order/later,order/parked,order/stuck', 'keys that are older');
is($sql->("SELECT count(result), count(error), max(holder), max(runs) FROM idem_list()"), '0|2|a dead job|2',
	'results do not come unless they are asked for');
is($lines->("SELECT key, result->'n', fence FROM idem_list('completed', results => true) ORDER BY 1"), 'mail/done|2|1,order/done|1|1',
	'... and if they are');
like(run_script($node, "SELECT * FROM idem_list('lost');"), qr/22023: invalid status: "lost".*parked/s, 'a bad status is refused');
like(run_script($node, "SELECT * FROM idem_list(units_per_second => 0);"), qr/22023.*from 1 to/s, '... and a bad rate');

# A key that is shown can be passed on.
$sql->("SELECT idem_forget(key) FROM idem_list('parked')");
is($sql->("SELECT outcome FROM idem_acquire('order/parked')"), 'acquired', 'a parked key is redriven');

# ----- actions -----------------------------------------------------------------

is($lines->("SELECT id, state, has_pin, reason FROM action_list() ORDER BY id"),
	'coupon/1|consumed|f|used,coupon/2|active|t|,seat/1|active|f|', 'all actions');
is($lines->("SELECT id FROM action_list('active', 'coupon/')"), 'coupon/2', 'by state and prefix');
is($lines->("SELECT id FROM action_list(older_than => '1 hour')"), '', 'by age');
like(run_script($node, "SELECT * FROM action_list('lost');"), qr/22023: invalid state/, 'a bad state is refused');

# ----- who holds a key -----------------------------------------------------------

my $holds = sub {
	return $sql->("SELECT state, application_name, role, server, run FROM exactonce_claims WHERE key = '$_[0]'"
		  . " AND lease_until > now() + interval '1 minute'");
};
my $record_of = sub {
	return $sql->("SELECT status, holder, runs FROM idem_get('$_[0]') WHERE lease_until > now() + interval '1 minute'");
};
my $job = start_script($node, "SET application_name = 'night job';\n"
	  . "SELECT token FROM idem_acquire('kept', lease => '10 min') \\gset\nSELECT :'token';\n" . say_in_script('kept') . halt_until('extend')
	  . "SELECT idem_extend('kept', '1 hour') IS NULL;\n" . say_in_script('extended') . halt_until('hold')
	  . "BEGIN;\nSELECT outcome FROM idem_acquire('held', lease => '10 min');\n" . say_in_script('held') . halt_until('end') . "ROLLBACK;\n");
await_word('kept');
is($record_of->('kept'), 'IN_PROGRESS|night job|1', 'the record of a claim that has outlived its transaction says who has it');
is($holds->('kept'), '', 'it has no slot');
go_on('extend');
await_word('extended');
is($sql->("SELECT lease_until > now() + interval '50 minutes' FROM idem_get('kept')"), 't', 'its lease was extended');
go_on('hold');
await_word('held');
is($holds->('held'), 'held|night job|postgres|exactonce|1', 'one whose transaction is open is shown');
go_on('end');
my ($token) = finish_script($job) =~ /^([0-9a-f-]{36})$/m;
is($record_of->('kept'), 'IN_PROGRESS|night job|1', 'the session has ended, and its claim goes on');
$sql->("SELECT idem_complete('kept', '1', token => '$token')");
is($sql->("SELECT status FROM idem_get('kept')"), 'COMPLETED', 'another session has completed it');

# ----- rights ------------------------------------------------------------------

$sql->("CREATE ROLE app LOGIN; GRANT USAGE ON FOREIGN SERVER exactonce TO app");
foreach my $function (qw(idem_list action_list))
{
	my ($status, undef, $error) = $node->psql('postgres', "SELECT * FROM $function()", extra_params => [ '-U', 'app' ]);
	like($error, qr/permission denied for function $function/, "$function() is for operators");
}

# ----- other layouts -----------------------------------------------------------

$sql->(server_sql('others', table => 'tap_lists_foreign', layout => 'powertools-python'));
$sql->("SELECT idem_create_table('others')");
dynamodb(PutItem => { TableName => 'tap_lists_foreign', Item => { id => { S => 'theirs' }, status => { S => 'COMPLETED' },
	data => { S => '{"n": 3}' }, expiration => { N => int($now / 1000) + 3600 } } });
$sql->("BEGIN; SELECT idem_acquire('ours', server => 'others'); SELECT idem_complete('ours', '4', server => 'others'); COMMIT");
settled($node);
is($lines->("SELECT key, status, result FROM idem_list(results => true, server => 'others') ORDER BY key"),
	'ours|COMPLETED|4,theirs|COMPLETED|{"n": 3}', 'records of other clients are listed, too');
is($lines->("SELECT key, status, result FROM idem_list(server => 'others') ORDER BY key"), 'ours|COMPLETED|,theirs|COMPLETED|',
	'... and without results');

# ----- the rate, progress, and cancels -------------------------------------------

$sql->(server_sql('large', table => 'tap_lists_large') . "SELECT idem_create_table('large')");
put_record('tap_lists_large', "k$_", %record, status => 'FAILED', error => "\"\x{20ac}" . 'x' x 4000 . '"') foreach 1 .. 250;
reset_proxy();
is($sql->("SELECT count(*) FROM idem_list(units_per_second => 100000, server => 'large')"), 250, 'a list of three pages');
is(count_requests(op => 'Scan'), 3, 'three requests');
foreach my $list ('idem_list', 'action_list')
{
	reset_proxy();
	my $slow = start_script($node, "SELECT count(*) FROM $list(units_per_second => 1, server => 'large');\n");
	await_request(op => 'Scan');
	my $found = $list eq 'idem_list' ? 100 : 0;
	wait_until("the progress of $list() is shown", sub {
		$sql->('SELECT server, activity, done, total, found FROM exactonce_progress') eq "large|$list|100||$found" });
	$sql->('SELECT pg_cancel_backend(pid) FROM exactonce_progress');
	like(finish_script($slow), qr/57014/, 'it is canceled while it waits for its next page');
	is(count_requests(op => 'Scan'), 1, 'one request was sent');
	is($sql->('SELECT count(*) FROM exactonce_progress'), '0', 'its progress is gone');
}
reset_proxy();
fault(op => 'Scan', do => 'hold');
my $held = start_script($node, "SELECT count(*) FROM idem_list(server => 'large');\n");
await_request(op => 'Scan');
$sql->('SELECT pg_terminate_backend(pid) FROM exactonce_progress');
like(finish_script($held), qr/57P01/, 'its process is ended');
wait_until('no progress is left of it', sub { $sql->('SELECT count(*) FROM exactonce_progress') eq '0' });
reset_proxy();

# Replies with results are as large as DynamoDB makes them.
put_record('tap_lists_large', "big$_", %record, status => 'COMPLETED', result => '"' . '\\"' x 190_000 . '"') foreach 1 .. 4;
is($sql->("SELECT count(*), min(length(result::text)) FROM idem_list('completed', results => true, units_per_second => 100000, server => 'large')"),
	'4|380002', 'large results are listed');

# ----- calls for many keys -------------------------------------------------------

fault(do => 'hold', key => 'shop/many 300');
my $many = start_script($node, "BEGIN;\nSELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'many ' || i FROM generate_series(1, 400) i));\nROLLBACK;\n");
await_request(key => 'shop/many 300');
wait_until('the progress of a batch is shown', sub {
	$sql->("SELECT activity, total, done BETWEEN 256 AND 399 AND done = found FROM exactonce_progress") eq 'idem_acquire_many|400|t' });
is($sql->("SELECT count(*) FROM exactonce_progress WHERE since > now() - interval '10 minutes'"), 1, '... since when');
release_held();
is(finish_script($many), "400\n", 'it goes on');
is($sql->('SELECT count(*) FROM exactonce_progress'), '0', 'and nothing is left');
fault(do => 'hold', key => 'ACTION#shop/batch 2');
$many = start_script($node, "SELECT count(*) FROM action_create_many('[{\"id\": \"batch 1\"}, {\"id\": \"batch 2\"}]');\n");
await_request(key => 'ACTION#shop/batch 2');
is($sql->('SELECT activity, total FROM exactonce_progress'), 'action_create_many|2', 'the progress of a batch of actions');
release_held();
is(finish_script($many), "2\n", 'it goes on, too');
settled($node);

stop_without_crash($node);
done_testing();
