# Tables that belong to other clients: SQL and they meet each other's records in every
# state, and the faults of a commit end as in the native layout.  The requests of the other
# clients are written out as AWS Lambda Powertools and the three recipes of docs/interop.md
# send them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Faults;
use JSON::PP;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# The transaction of one test writes to a table of another one.
my %common = (transact_tables => 'tap_layouts_stale', clock_skew => 0, commit_timeout => '4s', request_timeout => '2s');
my %servers = (
	powertools => { layout => 'powertools-typescript' },
	python => { layout => 'powertools-python', sort_key_attribute => 'sk', partition_value => 'idempotency#fn' },
	pending => { layout => 'custom', key_attribute => 'PK', item_prefix => 'IDEMPOTENCY#',
		sort_key_attribute => 'SK', status_attribute => 'State',
		status_words => 'in_progress=Pending, completed=Completed, failed=Failed',
		expiry_attribute => 'TTL', updated_attribute => 'LastUpdated', instants => 'iso' },
	one_clock => { layout => 'custom', key_attribute => 'idempotencyKey', status_attribute => 'status',
		status_words => 'in_progress=IN_PROGRESS, completed=COMPLETED, failed=FAILED',
		expiry_attribute => 'expiry', result_attribute => 'responseData', result_form => 'native',
		holder_attribute => 'invocationId' },
	stale => { retention => '1h', layout => 'custom', key_attribute => 'IdempotencyKey', status_attribute => 'Status',
		status_words => 'in_progress=IN_PROGRESS, completed=COMPLETED', expiry_attribute => 'ExpiryTimestamp',
		result_attribute => 'ResponseData', updated_attribute => 'Timestamp', instants => 'iso',
		stale_after => '5min' });
my $node = new_node('layouts', options => \%common);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text)');
$sql->(server_sql($_, table => "tap_layouts_$_", %common, %{ $servers{$_} })
	  . "SELECT idem_create_table('$_')") foreach sort keys %servers;

# What a run is for SQL that another client has marked as failed.
my %failed = (after_expiry => 'retry_later', final => 'failed');
foreach my $server ('one_clock', 'pending')
{
	$sql->(server_sql("${server}_$_", table => "tap_layouts_$server", %common, %{ $servers{$server} }, failed => $_)) foreach keys %failed;
}

# In a table of one clock a run that SQL has given up has expired. The tests look at it.
sweep_nothing("tap_layouts_$_", $servers{$_}{expiry_attribute}) foreach 'one_clock', 'pending';

my $true = JSON::PP::true;
my %key_of = (
	powertools => sub { { id => { S => $_[0] } } },
	python => sub { { id => { S => 'idempotency#fn' }, sk => { S => $_[0] } } },
	pending => sub { { PK => { S => "IDEMPOTENCY#$_[0]" }, SK => { S => "IDEMPOTENCY#$_[0]" } } },
	one_clock => sub { { idempotencyKey => { S => $_[0] } } },
	stale => sub { { IdempotencyKey => { S => $_[0] } } });

# The item of a key with the types of its attributes; undef if there is none.
sub item_of
{
	my ($server, $key) = @_;
	return dynamodb(GetItem => { TableName => "tap_layouts_$server", ConsistentRead => $true,
		Key => $key_of{$server}->($key) })->{Item};
}

# The value of an attribute without its type.
sub value_of
{
	my ($server, $key, $name) = @_;
	my $attribute = (item_of($server, $key) // {})->{$name};
	return $attribute && (values %$attribute)[0];
}

# A write of another client: true if its condition held.
sub write_of
{
	my ($operation, $server, %request) = @_;
	my $done = eval { dynamodb($operation => { TableName => "tap_layouts_$server", %request }); 1 };
	die $@ if !$done && $@ !~ /ConditionalCheckFailed/;
	return $done ? 1 : 0;
}

sub iso
{
	my ($seconds) = @_;
	return { S => strftime('%Y-%m-%dT%H:%M:%S', gmtime(int $seconds)) . sprintf('.%03dZ', ($seconds - int $seconds) * 1000) };
}

sub number { return { N => sprintf '%d', $_[0] } }

# ----- the other clients --------------------------------------------------------
# Each begins a run (and takes over one that is over by its own rules), completes it
# without a condition and gives it up.

my %clients = (
	powertools => {
		begin => sub {
			my ($key, $for) = @_;
			return write_of(PutItem => 'powertools',
				Item => { id => { S => $key }, expiration => number(time() + 3600), status => { S => 'INPROGRESS' },
					in_progress_expiration => number((time() + $for) * 1000) },
				ConditionExpression => 'attribute_not_exists(#id) OR #expiry < :now OR (#status = :inprogress AND '
				  . 'attribute_exists(#in_progress_expiry) AND #in_progress_expiry < :now_in_millis)',
				ExpressionAttributeNames => { '#id' => 'id', '#expiry' => 'expiration',
					'#in_progress_expiry' => 'in_progress_expiration', '#status' => 'status' },
				ExpressionAttributeValues => { ':now' => { N => sprintf '%.3f', time() },
					':now_in_millis' => number(time() * 1000), ':inprogress' => { S => 'INPROGRESS' } });
		},
		complete => sub {
			my ($key) = @_;
			return write_of(UpdateItem => 'powertools', Key => { id => { S => $key } },
				UpdateExpression => 'SET #expiry = :expiry, #status = :status, #response_data = :response_data',
				ExpressionAttributeNames => { '#expiry' => 'expiration', '#status' => 'status', '#response_data' => 'data' },
				ExpressionAttributeValues => { ':expiry' => number(time() + 3600), ':status' => { S => 'COMPLETED' },
					':response_data' => { M => { by => { S => 'them' }, n => { N => '1' } } } });
		},
		give_up => sub { write_of(DeleteItem => 'powertools', Key => { id => { S => $_[0] } }) } },
	pending => {
		begin => sub {
			my ($key, $for) = @_;
			return write_of(PutItem => 'pending',
				Item => { %{ $key_of{pending}->($key) }, State => { S => 'Pending' }, LastUpdated => iso(time()),
					TTL => number(time() + $for) },
				ConditionExpression => 'attribute_not_exists(PK)');
		},
		complete => sub {
			my ($key) = @_;
			return write_of(UpdateItem => 'pending', Key => $key_of{pending}->($key),
				UpdateExpression => 'SET #s = :s, LastUpdated = :now', ExpressionAttributeNames => { '#s' => 'State' },
				ExpressionAttributeValues => { ':s' => { S => 'Completed' }, ':now' => iso(time()) });
		},
		give_up => sub {
			my ($key) = @_;
			return write_of(UpdateItem => 'pending', Key => $key_of{pending}->($key),
				UpdateExpression => 'SET #s = :s, LastUpdated = :now', ExpressionAttributeNames => { '#s' => 'State' },
				ExpressionAttributeValues => { ':s' => { S => 'Failed' }, ':now' => iso(time()) });
		} },
	one_clock => {
		begin => sub {
			my ($key, $for) = @_;
			return write_of(PutItem => 'one_clock',
				Item => { idempotencyKey => { S => $key }, status => { S => 'IN_PROGRESS' },
					expiry => number(time() + $for), invocationId => { S => 'call-1' } },
				ConditionExpression => 'attribute_not_exists(idempotencyKey) OR expiry < :now',
				ExpressionAttributeValues => { ':now' => number(time()) });
		},
		complete => sub {
			my ($key) = @_;
			return write_of(UpdateItem => 'one_clock', Key => $key_of{one_clock}->($key),
				UpdateExpression => 'SET #s = :s, responseData = :r, expiry = :e', ExpressionAttributeNames => { '#s' => 'status' },
				ExpressionAttributeValues => { ':s' => { S => 'COMPLETED' }, ':e' => number(time() + 3600),
					':r' => { M => { by => { S => 'them' }, n => { N => '1' } } } });
		},
		give_up => sub {
			my ($key) = @_;
			return write_of(UpdateItem => 'one_clock', Key => $key_of{one_clock}->($key),
				UpdateExpression => 'SET #s = :s', ExpressionAttributeNames => { '#s' => 'status' },
				ExpressionAttributeValues => { ':s' => { S => 'FAILED' } });
		} },
	stale => {
		begin => sub {
			my ($key, $for) = @_;
			# A run that is to be over soon began so long ago.
			my $began = time() - 300 + $for;
			return 1 if write_of(PutItem => 'stale',
				Item => { IdempotencyKey => { S => $key }, Status => { S => 'IN_PROGRESS' },
					ExpiryTimestamp => number(time() + 86400), Timestamp => iso($began) },
				ConditionExpression => 'attribute_not_exists(IdempotencyKey)');
			return write_of(UpdateItem => 'stale', Key => $key_of{stale}->($key),
				ConditionExpression => '#s = :i AND #t < :stale', UpdateExpression => 'SET #t = :began',
				ExpressionAttributeNames => { '#s' => 'Status', '#t' => 'Timestamp' },
				ExpressionAttributeValues => { ':i' => { S => 'IN_PROGRESS' }, ':stale' => iso(time() - 300), ':began' => iso($began) });
		},
		complete => sub {
			my ($key) = @_;
			return write_of(UpdateItem => 'stale', Key => $key_of{stale}->($key),
				UpdateExpression => 'SET #s = :c, ResponseData = :r', ExpressionAttributeNames => { '#s' => 'Status' },
				ExpressionAttributeValues => { ':c' => { S => 'COMPLETED' }, ':r' => { S => '{"by": "them", "n": 1}' } });
		},
		give_up => sub { write_of(DeleteItem => 'stale', Key => $key_of{stale}->($_[0])) } });
my %completed_word = (powertools => 'COMPLETED', pending => 'Completed', one_clock => 'COMPLETED', stale => 'COMPLETED');
my %status_name = (powertools => 'status', pending => 'State', one_clock => 'status', stale => 'Status');
my %expiry_name = (powertools => 'expiration', pending => 'TTL', one_clock => 'expiry', stale => 'ExpiryTimestamp');

sub acquire
{
	my ($server, $key, $more) = @_;
	return $sql->("SELECT outcome, result FROM idem_acquire('$key', server => '$server'@{[ $more // '' ]})");
}

# ----- each side meets what the other has written --------------------------------

foreach my $server (sort keys %clients)
{
	my %client = %{ $clients{$server} };
	my $theirs = $server eq 'pending' ? '' : '{"n": 1, "by": "them"}';

	# Their records.
	is($client{begin}->('theirs', 3600), 1, "$server: they begin a run");
	is(acquire($server, 'theirs'), 'in_progress|', "$server: their run bars SQL");
	$client{complete}->('theirs');
	is($sql->("SELECT outcome, result FROM idem_acquire('theirs', server => '$server')") =~ s/\{"by": "them", "n": 1\}/{"n": 1, "by": "them"}/r,
		"completed|$theirs", "$server: their result is SQL's answer");
	is($sql->("SELECT status FROM idem_get('theirs', server => '$server')"), 'COMPLETED',
		"$server: their record can be looked at");
	$client{begin}->('stale run', -1);
	is(acquire($server, 'stale run'), 'acquired|', "$server: SQL takes over a run of theirs that is over");
	$client{begin}->('given up', 3600);
	$client{give_up}->('given up');
	foreach my $failed ($server =~ /pending|one_clock/ ? sort keys %failed : ())
	{
		is($sql->("SELECT outcome FROM idem_acquire('given up', server => '${server}_$failed')"), $failed{$failed},
			"$server: failed '$failed' says what a run is that they marked as failed");
		is($sql->("SELECT status FROM idem_get('given up', server => '${server}_$failed')"), 'FAILED', "$server: and it can be looked at");
	}
	is(acquire($server, 'given up'), 'acquired|', "$server: a run that they gave up is free");
	is($client{begin}->('given up', 3600), 0, "$server: and bars them then");

	# Ours.
	$sql->("BEGIN; SELECT idem_start('ours', server => '$server'); INSERT INTO work VALUES ('ours');"
		  . "SELECT idem_complete('ours', '{\"by\": \"us\"}', server => '$server'); COMMIT");
	settled($node);
	is($client{begin}->('ours', 3600), 0, "$server: a key that SQL has completed bars them");
	is(value_of($server, 'ours', $status_name{$server}), $completed_word{$server}, "$server: in their word");
	cmp_ok(value_of($server, 'ours', $expiry_name{$server}), '>', time() + ($server eq 'stale' ? 3000 : 6 * 86400), "$server: for the retention");
	is_deeply(item_of($server, 'ours')->{data} // item_of($server, 'ours')->{responseData},
		{ M => { by => { S => 'us' } } }, "$server: with a result of DynamoDB's own types")
	  if $server =~ /powertools|one_clock/;
	is(value_of($server, 'ours', 'ResponseData'), '{"by": "us"}', "$server: with a result as text") if $server eq 'stale';
	is(acquire($server, 'running'), 'acquired|', "$server: SQL begins a run");
	is($client{begin}->('running', 3600), 0, "$server: a run of SQL bars them");
	$sql->("BEGIN; SELECT idem_start('rolled back', server => '$server'); ROLLBACK");
	settled($node);
	is($client{begin}->('rolled back', 3600), $server eq 'pending' ? 0 : 1,
		"$server: a run that SQL gave up is free for them, unless they wait for the sweep");
	cmp_ok(value_of($server, 'rolled back', $expiry_name{$server}), '<', time(), "$server: which may come now")
	  if $server eq 'pending';
	if ($server eq 'stale')
	{
		$sql->("SELECT idem_acquire('failed', server => 'stale'), idem_fail('failed', server => 'stale')");
		$sql->("BEGIN; SELECT idem_start('failed in a block', server => 'stale'), idem_fail('failed in a block', server => 'stale'); COMMIT");
		settled($node);
		$client{begin}->('failed', 3600);
		# The shortest retention, and a part of stale_after.
		cmp_ok(value_of($server, $_, 'ExpiryTimestamp'), '>', time() + 3600 + 120,
			"$server: a key that is $_ is kept for more than an hour when they complete it")
		  foreach 'rolled back', 'failed', 'failed in a block';
	}

	# A claim that SQL holds while another client changes the record under it.
	next if $server eq 'python';
	acquire($server, 'lost');
	$client{complete}->('lost');
	like($node->psql('postgres', "SELECT idem_complete('lost', '1', server => '$server')", on_error_stop => 1) . acquire($server, 'lost'),
		qr/completed/, "$server: what they complete under a run of SQL is completed");
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe("BEGIN; SELECT idem_start('lost in a block', server => '$server'); INSERT INTO work VALUES ('lost $server')");
	$session->query_safe("SELECT idem_complete('lost in a block', '1', server => '$server')");
	$client{complete}->('lost in a block');
	$session->query('COMMIT');
	like($session->{stderr}, qr/was lost before the transaction committed/, "$server: a commit under it fails");
	$session->quit;
	is($sql->("SELECT count(*) FROM work WHERE key = 'lost $server'"), '0', "$server: and so does its work");
}

# ----- failure, and what it shows ------------------------------------------------

foreach my $server (sort keys %clients)
{
	my %client = %{ $clients{$server} };
	$sql->("SELECT idem_start('retry', server => '$server');"
		  . "SELECT idem_fail('retry', '\"no\"', retry_after => '1h', server => '$server')");
	is($sql->("SELECT outcome, error FROM idem_acquire('retry', server => '$server')"), 'retry_later|"no"',
		"$server: SQL knows when to come back");
	is($client{begin}->('retry', 3600), 0, "$server: they wait as well");
	$sql->("SELECT idem_start('for good', server => '$server');"
		  . "SELECT idem_fail('for good', '\"no\"', terminal => true, server => '$server')");
	is($sql->("SELECT outcome, error FROM idem_acquire('for good', server => '$server')"), 'failed|"no"',
		"$server: SQL knows what failed for good");
	is($client{begin}->('for good', 3600), $server =~ /powertools|stale/ ? 1 : 0,
		"$server: they know if their table has a word for it");
	$sql->("SELECT idem_acquire('runs', max_runs => 2, server => '$server');"
		  . "SELECT idem_fail('runs', server => '$server')") for 1 .. 2;
	is($sql->("SELECT outcome, run FROM idem_acquire('runs', max_runs => 2, server => '$server')"), 'failed|2',
		"$server: runs are counted");
}

# ----- progress: between two runs of SQL, whatever the layout ------------------------

foreach my $server (sort keys %servers)
{
	my $note = sub { $sql->("SELECT FROM idem_acquire('$_[0]', lease => '$_[1]', server => '$server');"
		  . "SELECT FROM idem_extend('$_[0]', '$_[1]', progress => '{\"n\": 1}', server => '$server')") };
	my $read = sub { $sql->("SELECT outcome, progress FROM idem_acquire('$_[0]', lease => '10 min', server => '$server')") };
	$sql->("SELECT FROM idem_acquire('noted', server => '$server'); SELECT FROM idem_extend('noted', progress => '{\"n\": 1}', server => '$server');"
		  . "SELECT idem_fail('noted', server => '$server')");
	is(value_of($server, 'noted', 'eo_progress'), '{"n": 1}', "$server: a note has an attribute of our own");
	is($read->('noted'), 'acquired|{"n": 1}', "$server: ... which the next run of SQL reads");
	$sql->("SELECT idem_complete('noted', token => '" . value_of($server, 'noted', 'eo_owner') . "', server => '$server')");
	settled($node);
	is(join(' ', value_of($server, 'noted', 'eo_status'), map { value_of($server, 'noted', $_) // 'none' } 'eo_progress', 'eo_progress_no'),
		'COMPLETED none none', "$server: ... until the key is completed");
	next unless $clients{$server};
	$note->('noted before them', '100 ms');
	$clients{$server}{complete}->('noted before them');
	is($sql->("SELECT outcome, progress IS NULL FROM idem_acquire('noted before them', server => '$server')"), 'completed|t',
		"$server: a key that they complete has none");
	$note->('given up by them', '100 ms');
	$clients{$server}{give_up}->('given up by them');
	is($read->('given up by them'), 'acquired|', "$server: after a run of theirs SQL begins without");
	is(value_of($server, 'given up by them', 'eo_progress'), undef, "$server: ... and removes it");
}

# ----- what a program sees in each state -------------------------------------------
# The table of docs/interop.md, a cell a row: the word that is shown, when the expiry is (past,
# soon, the retention, far), and whether a run of theirs begins.

# In which span of time the expiry of a key lies.
sub span_of
{
	my ($server, $key) = @_;
	my $left = value_of($server, $key, $expiry_name{$server}) - time();
	return $left < 0 ? 'past' : $left < 2400 ? 'soon' : $left < 8 * 86400 ? 'kept' : 'far';
}

my %state = (
	'in progress' => sub { $sql->("SELECT idem_acquire('$_[1]', lease => '30min', server => '$_[0]')") },
	'lease over' => sub {
		my ($server, $key) = @_;
		$sql->("SELECT idem_acquire('$key', lease => '100ms', server => '$server')");
		wait_until("$server: a lease is over",
			sub { $sql->("SELECT lease_until < now() - interval '2 s' FROM idem_get('$key', server => '$server')") eq 't' });
	},
	'committing' => sub {
		fault(do => 'drop', key => $_[1], to => 'COMPLETED', times => 0);
		$sql->("BEGIN; SELECT idem_start('$_[1]', server => '$_[0]'), idem_complete('$_[1]', '{\"by\": \"us\"}', server => '$_[0]'); COMMIT");
	},
	'completed' => sub { $sql->("SELECT idem_start('$_[1]', server => '$_[0]'), idem_complete('$_[1]', '{\"by\": \"us\"}', server => '$_[0]')") },
	'rolled back' => sub { $sql->("BEGIN; SELECT idem_start('$_[1]', server => '$_[0]'); ROLLBACK") },
	'failed' => sub { $sql->("SELECT idem_start('$_[1]', server => '$_[0]'), idem_fail('$_[1]', server => '$_[0]')") },
	'retry later' => sub { $sql->("SELECT idem_start('$_[1]', server => '$_[0]'), idem_fail('$_[1]', retry_after => '30min', server => '$_[0]')") },
	'for good' => sub { $sql->("SELECT idem_start('$_[1]', server => '$_[0]'), idem_fail('$_[1]', terminal => true, server => '$_[0]')") },
	'out of runs' => sub { $sql->("SELECT idem_acquire('$_[1]', max_runs => 1, server => '$_[0]'), idem_fail('$_[1]', server => '$_[0]')") });

my %sees = (
	pending => {
		'in progress' => 'Pending soon 0', 'lease over' => 'Pending past 0', 'committing' => 'Pending far 0',
		'completed' => 'Completed kept 0', 'rolled back' => 'Failed past 0', 'failed' => 'Failed past 0',
		'retry later' => 'Failed soon 0', 'for good' => 'Failed kept 0', 'out of runs' => 'Failed past 0' },
	one_clock => {
		'in progress' => 'IN_PROGRESS soon 0', 'lease over' => 'IN_PROGRESS past 1', 'committing' => 'IN_PROGRESS far 0',
		'completed' => 'COMPLETED kept 0', 'rolled back' => 'FAILED past 1', 'failed' => 'FAILED past 1',
		'retry later' => 'FAILED soon 0', 'for good' => 'FAILED kept 0', 'out of runs' => 'FAILED past 1' },
	stale => {
		'in progress' => 'IN_PROGRESS kept 0', 'lease over' => 'IN_PROGRESS kept 1', 'committing' => 'IN_PROGRESS far 0',
		'completed' => 'COMPLETED kept 0', 'rolled back' => 'IN_PROGRESS kept 1', 'failed' => 'IN_PROGRESS kept 1',
		'retry later' => 'IN_PROGRESS kept 0', 'for good' => 'IN_PROGRESS kept 1', 'out of runs' => 'IN_PROGRESS kept 1' });

foreach my $server (sort keys %sees)
{
	foreach my $state (sort keys %state)
	{
		my $key = "sees $state";
		$state{$state}->($server, $key);
		settled($node) unless $state eq 'committing';
		is(join(' ', value_of($server, $key, $status_name{$server}), span_of($server, $key), $clients{$server}{begin}->($key, 3600)),
			$sees{$server}{$state}, "$server, $state: what a program sees, and whether it runs");
		reset_proxy() if $state eq 'committing';
	}
}
settled($node);

# ----- payloads --------------------------------------------------------------------
# The hashes are those of the libraries: json.dumps() with sorted names for Python, for
# Java and .NET the text itself, which is given as a string because jsonb keeps no order.

$sql->(server_sql($_, table => 'tap_layouts_powertools', %common, layout => "powertools-$_")) foreach 'java', 'dotnet';
foreach ([ python => '{"b": 1, "a": "x"}', '19afc29426da0042fc4e8b7c6b727fdf' ],
	[ powertools => '{"b": 1, "a": "x"}', '7g2RJvqaOsmFC+2Kci0tEQ==' ],
	[ java => '"{\"b\":1,\"a\":\"x\"}"', '783b851157ab02c1d0419d1502adb8e4' ],
	[ dotnet => '"{\"b\":1,\"a\":\"x\"}"', '783b851157ab02c1d0419d1502adb8e4' ],
	[ java => '42', 'a1d0c6e83f027327d8461063f4ac58a6' ],
	[ dotnet => '"order-123"', 'f32ae83ade5fb56d3230341541fd96c3' ])
{
	my ($server, $payload, $hash) = @$_;
	my $key = "paid $server $hash";
	is(acquire($server, $key, ", payload => '$payload'"), 'acquired|', "$server: a claim with the payload $payload");
	my $validation = (dynamodb(GetItem => { TableName => $server eq 'python' ? 'tap_layouts_python' : 'tap_layouts_powertools',
				ConsistentRead => $true, Key => $key_of{ $server eq 'python' ? 'python' : 'powertools' }->($key) })->{Item} // {})->{validation};
	is_deeply($validation, { S => $hash }, "$server: has the hash that the library makes of it");
	like(run_script($node, "SELECT outcome FROM idem_acquire('$key', payload => '[0]', server => '$server')"), qr/ERROR:  ID003/,
		"$server: another payload is refused");
}

$sql->(q{CREATE FUNCTION handle(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $1'});
foreach ([ many => q{idem_acquire_many(ARRAY['many'], payloads => ARRAY[p]} ], [ call => q{idem_call('call', 'handle(jsonb)', p} ],
	[ transact => q{idem_transact('transact', '[{"Put": {"TableName": "tap_layouts_stale", "Item": {"IdempotencyKey": "x"}}}]', payload => p} ])
{
	my ($key, $call) = @$_;
	$sql->("SELECT $call, server => 'powertools') FROM (SELECT '{\"b\": 1, \"a\": \"x\"}'::jsonb AS p) s");
	is(value_of('powertools', $key, 'validation'), '7g2RJvqaOsmFC+2Kci0tEQ==', "idem_$key hashes its payload in this way, too");
}

is(value_of('powertools', 'call', 'eo_handler'), 'public.handle', 'a handler stands beside that, in an attribute of ours');
$sql->(q{CREATE FUNCTION handle_otherwise(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $1'});
like(run_script($node, q{SELECT idem_call('call', 'handle_otherwise(jsonb)', server => 'powertools')}),
	qr/ID003: .*\n.*used with public.handle, and this call names public.handle_otherwise/, 'so another one is refused');

# A path does what payload_validation_jmespath does there; several values have no such hash.
my $event = q{payload => '{"order": {"b": 1, "a": "x"}, "items": [1, 2]}', compare};
is(acquire('powertools', 'part', ", $event => '{\$.order}'"), 'acquired|', 'a claim with a part of its payload');
is(value_of('powertools', 'part', 'validation'), '7g2RJvqaOsmFC+2Kci0tEQ==', 'has the hash of that part');
like(run_script($node, "SELECT outcome FROM idem_acquire('parts', $event => '{\$.order, $_}', server => 'powertools')"),
	qr/ERROR:  22023: compare must select one value in layout "powertools-typescript"/, "$_ beside another path is refused")
  foreach '$.order', '$.items';
like(run_script($node, "SELECT outcome FROM idem_acquire('parts', $event => '{\$.items[*]}', server => 'powertools')"),
	qr/ERROR:  22023: .*\n.*The path selects 2 values/, 'so is a path that selects several values');
is(acquire('one_clock', 'part', ", $event => '{\$.order.a, \$.items[*]}'"), 'acquired|', 'where SQL hashes, several parts may count');
is(value_of('one_clock', 'part', 'eo_payload_sha256'),
	$sql->(q{SELECT idem_key_from('{"order": {"a": "x"}, "items": [1, 2]}', '$.order.a', '$.items[*]')}),
	'their fingerprint is the key that idem_key_from() makes of them');

# ----- keys, sizes and other items -----------------------------------------------

is(acquire('python', 'k'), 'acquired|', 'a static partition');
is_deeply([ map { value_of('python', 'k', $_) } 'id', 'sk' ], [ 'idempotency#fn', 'k' ],
	'the key is in the sort key');
$sql->(server_sql('other_function', table => 'tap_layouts_python', %common, %{ $servers{python} },
		partition_value => 'idempotency#other'));
is(acquire('other_function', 'k'), 'acquired|', 'another partition of the table has the key for itself');
like(join('', map { $node->psql('postgres', "SELECT idem_acquire('${_}x', server => 'powertools')", stderr => \my $e); $e }
		'ORIGIN#', 'ACTION#'), qr/begins like those of other items.*begins like those of other items/s,
	'no key is in the place of another item');
my ($status, $out, $err) = $node->psql('postgres',
	"SELECT idem_acquire('big', server => 'powertools'); SELECT idem_complete('big', '123456789012345678901234567890123456789', server => 'powertools')");
like($err, qr/cannot be kept in DynamoDB's own types/, 'a number that DynamoDB does not have is refused before anything is written');
($status, $out, $err) = $node->psql('postgres', q{SELECT action_create('{}', server => 'powertools')});
like($err, qr/has no actions/, 'there are no actions in such a table');
is($sql->("SELECT count(*) FROM idem_check('$_') WHERE status NOT IN ('ok', 'warning')"), '0', "idem_check('$_') finds no failure")
  foreach sort keys %servers;
$sql->(server_sql('wrong_key', table => 'tap_layouts_pending', %common, layout => 'powertools-java'));
like($sql->("SELECT string_agg(detail || ' ' || coalesce(advice, ''), '') FROM idem_check('wrong_key') WHERE status = 'failure'"),
	qr/PK \(partition key, S\).*Needed is a string partition key "id" and no sort key/s, 'idem_check() compares the key');

# Options that do not spell what the others have written.
foreach ([ { result_form => 'text', status_words => 'in_progress=RUNNING, completed=DONE' }, qr/in the first "status" is "\w+"/ ],
	[ { status_attribute => 'state' }, qr/there is no string "state"/ ],
	[ { expiry_attribute => 'invocationId' }, qr/"invocationId" is not a number of seconds/ ],
	[ { lease_attribute => 'expiry', expiry_attribute => 'ttl', instants => 'ms' }, qr/"expiry" does not have the form/ ],
	[ { lease_attribute => 'expiry', expiry_attribute => 'ttl', instants => 'iso' }, qr/"expiry" does not have the form/ ])
{
	my ($options, $odd) = @$_;
	my %all = (table => 'tap_layouts_one_clock', %common, %{ $servers{one_clock} }, holder_attribute => 'caller', %$options);
	$sql->('DROP SERVER IF EXISTS odd CASCADE; ' . server_sql('odd', %all));
	like($sql->("SELECT status || ' ' || detail FROM idem_check('odd') WHERE \"check\" = 'records'"), qr/^warning .*$odd/,
		"idem_check() compares the records with @{[ join ', ', map { \"$_ $options->{$_}\" } sort keys %$options ]}");
}
like($sql->("SELECT status || ' ' || detail FROM idem_check('one_clock') WHERE \"check\" = 'records'"), qr/^ok layout custom, [1-9]/,
	'and finds nothing odd about the right ones');

# ----- the faults of a commit ----------------------------------------------------

# Work under a key; both or neither are done.
sub working
{
	my ($server, $key, $end) = @_;
	return <<"SQL";
BEGIN;
SELECT outcome FROM idem_acquire('$key', server => '$server');
INSERT INTO work VALUES ('$key');
SELECT idem_complete('$key', '{"of": "$key"}', server => '$server');
$end;
SQL
}

sub count_work
{
	my ($key) = @_;
	return $sql->("SELECT count(*) FROM work WHERE key = '$key'");
}

my @faults = (
	(map { fault_named($_) } 'request lost', 'answer lost', 'reset after it was applied', 'request doubled',
		'answer garbled', 'answer for another key', 'refusal without the record', 'status 500', 'throttled'),
	{ %{ fault_named('access denied') }, code => 'ID007' },
	{ name => 'request never arrives', do => [ { do => 'drop', times => 0 } ], code => 'ID006' });
foreach my $server ('one_clock', 'powertools')
{
	my $n = 0;
	foreach my $fault (@faults)
	{
		my $what = "$server, seal, $fault->{name}";
		my $key = "$server seal " . ++$n . '.';
		fault(%$_, key => $key, to => 'COMMITTING') foreach @{ $fault->{do} };
		my $said = run_script($node, working($server, $key, 'COMMIT'));
		reset_proxy();
		settled($node);
		like($said, qr/ERROR:  $fault->{code}/, "$what: the commit fails") if $fault->{code};
		unlike($said, qr/ERROR/, "$what: the transaction commits") unless $fault->{code};
		is(count_work($key), $fault->{code} ? '0' : '1', "$what: the work ends so, too");
		is(acquire($server, $key), $fault->{code} ? 'acquired|' : qq(completed|{"of": "$key"}), "$what: and its key");
	}

	my $key = "$server aborted after its seal";
	# The answer of the seal is lost, and its next attempt is held back.
	fault(do => 'lose', key => $key, to => 'COMMITTING');
	fault(do => 'hold', key => $key, to => 'COMMITTING', nth => 2);
	my $script = start_script($node, working($server, $key, 'COMMIT'));
	await_request(key => $key, to => 'COMMITTING', n => 2);
	is(value_of($server, $key, 'eo_status'), 'COMMITTING', "$server: a key is sealed");
	is($clients{$server}{begin}->($key, 3600), 0, "$server: a sealed key bars other clients");
	is(value_of($server, $key, $expiry_name{$server}), '4102444800', "$server: for as long as it takes");
	cancel_commit($node);
	finish_script($script);
	release_held();
	reset_proxy();
	settled($node);
	is(count_work($key), '0', "$server, aborted after its seal: the work is not done");
	is($clients{$server}{begin}->($key, 3600), 1, "$server, aborted after its seal: other clients may run");
}

# The record that is left by a transact in doubt is deleted by another client.
my $gated = q{SELECT outcome FROM idem_transact('gated', '[{"ConditionCheck": {"TableName": "tap_layouts_stale",
	"Key": {"IdempotencyKey": "gate"}, "ConditionExpression": "attribute_exists(IdempotencyKey)"}}]', server => 'powertools')};
like(run_script($node, $gated), qr/ERROR:  ID007: .*ConditionalCheckFailed/s, 'a false condition of a transact');
fault(op => 'TransactWriteItems', do => 'hold');
like(run_script($node, $gated), qr/ERROR:  ID006: .*the outcome is unknown/s,
	'a false condition of a transact in doubt: nobody is told that nothing was done');
is($clients{powertools}{begin}->('gated', 3600), 1, '... since a run of another client');
is($clients{powertools}{give_up}->('gated'), 1, '... may delete the record');
write_of(PutItem => 'stale', Item => { IdempotencyKey => { S => 'gate' } });
release_held();
wait_until('... and the late request finds none', sub { (value_of('powertools', 'gated', 'status') // '') eq 'COMPLETED' });
reset_proxy();

foreach my $server ('one_clock', 'powertools')
{
	my $key = "$server crashed";
	fault(do => 'drop', key => $key, to => 'COMPLETED', times => 0);
	run_script($node, working($server, $key, 'COMMIT'));
	is(value_of($server, $key, 'eo_status'), 'COMMITTING', "$server: a crash comes between commit and finish");
	crash($node);
	is($clients{$server}{begin}->($key, 3600), 0, "$server: the key bars other clients while the server is down");
	reset_proxy();
	$node->start;
	settled($node);
	is(value_of($server, $key, 'status'), 'COMPLETED', "$server: it is completed once the server is back");
	is(acquire($server, $key), qq(completed|{"of": "$key"}), "$server: with its result");
}

# A run of theirs whose lease is over writes without a condition, after SQL has committed: the
# record is theirs, and an operator hears of it.
foreach my $server ('one_clock', 'powertools', 'stale')
{
	my $key = "$server overwritten";
	fault(do => 'drop', key => $key, to => 'COMPLETED', times => 0);
	run_script($node, working($server, $key, 'COMMIT'));
	$clients{$server}{complete}->($key);
	my $offset = -s $node->logfile;
	is($sql->("SELECT key FROM exactonce_pending"), $key, "$server: a completion is pending");
	reset_proxy();
	wait_until("$server: the worker says what it cannot finish",
		sub { slurp_file($node->logfile, $offset) =~ /a key of table "tap_layouts_$server" cannot be marked completed/ });
	like(acquire($server, $key), qr/^completed\|.*them/, "$server: what they have completed under a sealed key is completed");
	is(count_work($key), '1', "$server: the work that committed is there");
	is($sql->("SELECT idem_give_up(id) FROM exactonce_pending WHERE key LIKE '%$key'"), 't', "$server: and is settled by an operator");
}
settled($node);

stop_without_crash($node, kills => 1);
done_testing();
