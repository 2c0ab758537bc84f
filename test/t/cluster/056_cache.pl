# The cache of completed keys: a duplicate in it costs no request, it is told only to those
# who could ask, only while nothing can have changed, and never anything but "completed".
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;

my $table = 'tap_cached';
my $node = new_node('cache', conf => "exactonce.cache_entries = 64\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my %options = (table => $table, request_timeout => '60s', cache_ttl => '10min');
$sql->(server_sql('cached', %options) . server_sql('plain', %options, cache_ttl => '0')
	  . server_sql('brief', %options, cache_ttl => '1s') . "SELECT idem_create_table('cached')");
sweep_nothing($table);

# Claims a key with a server, and returns what was said and how many requests it took.
sub asked
{
	my ($server, $key, $more) = @_;
	my $before = count_requests(key => "IDEMPOTENCY#$key");
	my $said = $sql->("SELECT outcome, result, replayed FROM idem_acquire('$key', server => '$server'" . ($more // '') . ')');
	return ($said, count_requests(key => "IDEMPOTENCY#$key") - $before);
}

sub is_cached
{
	my ($server, $key, $said, $what) = @_;
	my ($got, $requests) = asked($server, $key);
	is("$got, $requests requests", "$said, 0 requests", "$what: it is told without a request");
	return;
}

sub is_asked
{
	my ($server, $key, $said, $what) = @_;
	my ($got, $requests) = asked($server, $key);
	like($got, qr/^\Q$said\E/, "$what: it is told the truth");
	cmp_ok($requests, '>', 0, "$what: DynamoDB is asked");
	return;
}

my $now = time();
my %done = (status => 'COMPLETED', owner => '11111111-1111-4111-8111-111111111111', fence => 7, runs => 1,
	created_ms => $now * 1000, updated_ms => $now * 1000, ttl => $now + 86400);

# ----- how keys come into it -----------------------------------------------------------

put_record($table, 'seen', %done, result => '{"n": 1}');
is_asked('cached', 'seen', 'completed|{"n": 1}|t', 'a key that another service has completed');
is_cached('cached', 'seen', 'completed|{"n": 1}|t', 'the same key again');
is($sql->("SELECT outcome, fence, run, expires_at = to_timestamp($done{ttl}) FROM idem_acquire('seen', server => 'cached')"),
	'completed|7|1|t', '... with all that its record says');
put_record($table, 'nothing', %done);
is_asked('cached', 'nothing', 'completed||t', 'a key without a result');
is_cached('cached', 'nothing', 'completed||t', 'a key without a result');

$sql->("BEGIN; SELECT idem_acquire('finished', server => 'cached'); SELECT idem_complete('finished', '{\"n\": 2}', server => 'cached'); COMMIT");
settled($node);
is_cached('cached', 'finished', 'completed|{"n": 2}|t', 'a key that the worker has finished');

$sql->(q{CREATE FUNCTION never(jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$});
my $before = count_requests(key => 'IDEMPOTENCY#seen');
is($sql->("SELECT idem_call('seen', 'never(jsonb)', server => 'cached')"), '{"n": 1}', 'idem_call() has its result, too');
is($sql->("SELECT idem_start('seen', server => 'cached')"), 'f', 'idem_start() says no');
is($sql->("SELECT outcome FROM idem_acquire_many(ARRAY['seen', 'finished'], server => 'cached')"), "completed\ncompleted", 'many keys at once');
cmp_ok(count_requests(key => 'IDEMPOTENCY#seen') - $before, '==', 0, '... without a request');
cmp_ok($sql->("SELECT duplicates_cached FROM exactonce_stats WHERE server = 'cached'"), '>=', 8, 'they are counted');

# ----- what must not be told ------------------------------------------------------------

is_asked('plain', 'seen', 'completed|{"n": 1}|t', 'a server without cache_ttl');
like(run_script($node, "SELECT idem_acquire('paid', payload => '1', server => 'cached');\nSELECT idem_complete('paid', server => 'cached');\n"),
	qr/acquired/, 'a key with a payload is completed');
settled($node);
is_cached('cached', 'paid', 'completed||t', 'a key with a payload');
like(run_script($node, "SELECT idem_acquire('paid', payload => '2', server => 'cached');\n"), qr/ID003/, 'another payload is refused');
is((asked('cached', 'paid', ", payload => '1'"))[1], 0, 'the same payload is told');
is($sql->(q{CREATE FUNCTION once(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT to_jsonb(1)';
	SELECT idem_call('of once', 'once(jsonb)', server => 'cached')}), '1', 'a key of a handler is completed');
settled($node);
$before = count_requests(key => 'IDEMPOTENCY#of once');
is($sql->("SELECT idem_call('of once', 'once(jsonb)', server => 'cached')"), '1', 'its handler is told');
like(run_script($node, "SELECT idem_call('of once', 'never(jsonb)', server => 'cached')"),
	qr/ID003: .*\nDETAIL:  It was used with public.once, and this call names public.never/, 'another handler is refused');
is(count_requests(key => 'IDEMPOTENCY#of once') - $before, 0, 'both without a request');

foreach my $case (
	[ 'in progress', { status => 'IN_PROGRESS', lease_ms => $now * 1000 + 3_600_000 }, 'in_progress' ],
	[ 'failed', { status => 'FAILED', error => '{"message": "no"}' }, 'failed' ],
	[ 'later', { status => 'FAILED', error => '{"message": "no"}', retry_ms => $now * 1000 + 3_600_000 }, 'retry_later' ],
	[ 'soon over', { ttl => $now + 1 }, 'completed' ],
	[ 'large', { result => '"' . ('x' x 8191) . '"' }, 'completed' ])
{
	my ($key, $more, $outcome) = @$case;
	put_record($table, $key, %done, %$more);
	is_asked('cached', $key, $outcome, $key);
	is_asked('cached', $key, $outcome, "$key, again");
}
my $largest = '"' . ('y' x 8190) . '"';
put_record($table, 'largest', %done, result => $largest);
is_asked('cached', 'largest', 'completed', 'a result of 8192 bytes');
is_cached('cached', 'largest', "completed|$largest|t", 'a result of 8192 bytes');

put_record($table, 'brief', %done);
is_asked('brief', 'brief', 'completed', 'a server with a cache_ttl of a second');
wait_until('cache_ttl ends', sub { (asked('brief', 'brief'))[1] > 0 });

# Others than the one that was told.
$sql->(q{CREATE ROLE other; GRANT USAGE ON FOREIGN SERVER cached TO other;
	ALTER SERVER cached OPTIONS (ADD role_mappings 'true');
	CREATE USER MAPPING FOR other SERVER cached OPTIONS (access_key_id 'other', secret_access_key 'another')});
$before = count_requests(key => 'IDEMPOTENCY#seen');
$sql->("SET ROLE other; SELECT idem_acquire('seen', server => 'cached')");
cmp_ok(count_requests(key => 'IDEMPOTENCY#seen') - $before, '==', 1, 'who signs otherwise asks for itself');

# A transaction that does not see the work.
my $blind = start_script($node, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 1;\n" . say_in_script('has a snapshot') . halt_until('completed')
	  . "SELECT idem_acquire('unseen', server => 'cached');\n");
await_word('has a snapshot');
$sql->("BEGIN; SELECT idem_acquire('unseen', server => 'cached'); SELECT idem_complete('unseen', server => 'cached'); COMMIT");
settled($node);
is_cached('cached', 'unseen', 'completed||t', 'work of a moment ago');
go_on('completed');
like(finish_script($blind), qr/40001: .*concurrent transaction/, 'work that a snapshot does not show is not told of');

# ----- forgetting -------------------------------------------------------------------------

is($sql->("SELECT idem_forget('finished', server => 'plain')"), 't', 'a key is forgotten, by way of another server');
is_asked('cached', 'finished', 'acquired', 'a key that was forgotten');

# So it is if it was told by the server of a tenant, which has claims of its own.
$sql->('CREATE ROLE tenant; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant; '
	  . server_sql('rented', %options) . 'ALTER SERVER rented OWNER TO tenant');
put_record($table, 'redriven', %done);
is_asked('rented', 'redriven', 'completed', 'a key by the server of a tenant');
is_cached('rented', 'redriven', 'completed||t', 'a key by the server of a tenant');
is($sql->("SELECT idem_forget('redriven', server => 'plain')"), 't', 'it is forgotten by way of a server of a superuser');
is_asked('rented', 'redriven', 'acquired', 'a key that a superuser forgot');

# An answer from before is under way while the key is forgotten.
put_record($table, 'overtaken', %done);
fault(do => 'stay', key => 'IDEMPOTENCY#overtaken', op => 'UpdateItem');
my $run = start_script($node, "SELECT outcome FROM idem_acquire('overtaken', server => 'cached');\n");
wait_until('the answer is under way', sub { grep { $_->{status} } requests(key => 'IDEMPOTENCY#overtaken', op => 'UpdateItem') });
is($sql->("SELECT idem_forget('overtaken', server => 'plain')"), 't', 'it is forgotten meanwhile');
release_held();
like(finish_script($run), qr/^completed$/m, 'the answer was right when it was given');
is_asked('cached', 'overtaken', 'acquired', 'but it is not kept');

# ----- more keys than there is room for -------------------------------------------------------

my $results = "'{\"n\": ' || n || ', \"text\": \"' || repeat('z', n * 37 % 4000) || '\"}'";
$sql->("SELECT idem_acquire('many-' || n, server => 'cached'), idem_complete('many-' || n, ($results)::jsonb, server => 'cached') FROM generate_series(1, 300) n");
settled($node);
foreach my $round (1, 2)
{
	is($sql->("SELECT count(*) FROM generate_series(1, 300) n, idem_acquire('many-' || n, server => 'cached') a "
			. "WHERE a.outcome <> 'completed' OR a.result IS DISTINCT FROM ($results)::jsonb"), '0', "each has its own result, round $round");
}

# ----- many keys of another role --------------------------------------------------------------

$node->append_conf('postgresql.conf', 'exactonce.cache_entries = 160');
$node->restart;
my @few = map { "few-$_" } 1 .. 8;
foreach my $key (@few)
{
	put_record($table, $key, %done);
	is_asked('cached', $key, 'completed', $key);
}
is($sql->("SET ROLE other; SELECT count(*) FROM generate_series(1, 300) n, idem_acquire('many-' || n, server => 'cached') a WHERE a.outcome = 'completed'"),
	'300', 'another role asks for more keys than there is room for');
is_cached('cached', $_, 'completed||t', "$_, all the same") foreach @few;

# ----- restarts -----------------------------------------------------------------------------

put_record($table, 'kept', %done);
is_asked('cached', 'kept', 'completed', 'before a restart');
is_cached('cached', 'kept', 'completed||t', 'before a restart');
$node->stop('immediate');
$node->start;
is_asked('cached', 'kept', 'completed', 'after a restart');
$node->append_conf('postgresql.conf', 'exactonce.cache_entries = 0');
$node->restart;
is_asked('cached', 'kept', 'completed', 'without entries');
is_asked('cached', 'kept', 'completed', 'without entries, again');

stop_without_crash($node);
done_testing();
