# Items that are long on the wire: control characters, of which each takes six bytes, and empty
# values, of which each takes nine.  Whatever reads them says so, and a scan goes on behind them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('long_items', options => { clock_skew => 0, batch_requests => 'off', request_timeout => '60s', commit_timeout => '60s' },
	conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nexactonce.recovery_scan = 100000\nlog_min_messages = log\n");
my $table = 'tap_long_items';
sweep_nothing($table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# In DynamoDB's JSON.  To make it of the data would take long, and so would reading it.
my $control = '{"S":"' . '\u0001' x 390_000 . '"}';
my $endless = '{"L":[' . join(',', ('{"S":""}') x 385_000) . ']}';
my $http = HTTP::Tiny->new(timeout => 60);

sub dynamodb_json
{
	my ($operation, $json) = @_;
	my $answer = $http->post($ENV{EO_ENGINE_URL}, { content => $json, headers => {
		'X-Amz-Target' => "DynamoDB_20120810.$operation", 'Content-Type' => 'application/x-amz-json-1.0',
		'Authorization' => 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' } });
	die substr($answer->{content}, 0, 500) unless $answer->{success};
	return;
}

sub put
{
	my ($key, $status, %attributes) = @_;
	%attributes = (owner => '{"S":"somebody"}', %attributes, pk => qq({"S":"IDEMPOTENCY#$key"}), status => qq({"S":"$status"}));
	dynamodb_json(PutItem => qq({"TableName":"$table","Item":{) . join(',', map { qq("$_":$attributes{$_}) } sort keys %attributes) . '}}');
	return;
}

# Another program adds an attribute to a record.
sub add_note
{
	my ($key) = @_;
	dynamodb_json(UpdateItem => qq({"TableName":"$table","Key":{"pk":{"S":"IDEMPOTENCY#$key"}},)
		  . qq("UpdateExpression":"SET note = :n","ExpressionAttributeValues":{":n":$endless}}));
	return;
}

# The status and the owner of a record.
sub seen
{
	my ($key) = @_;
	my $item = dynamodb(GetItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } }, ConsistentRead => JSON::PP::true,
		ProjectionExpression => '#s, #o', ExpressionAttributeNames => { '#s' => 'status', '#o' => 'owner' } })->{Item};
	return ($item->{status}{S}, $item->{owner}{S});
}

# The numbers of requests about a key that each of some calls makes.
sub requests_of
{
	my ($key, $call) = @_;
	reset_proxy();
	my $out = run_script($node, "SELECT $call;\n");
	return ($out, count_requests(key => "IDEMPOTENCY#$key"));
}

my %free = (fence => '{"N":"1"}', retry_ms => '{"N":"0"}');
my %sealed = (origin => '{"S":"none"}');
my $unreadable = qr/ERROR:  ID007: could not \w+ key "[^"]+" on server "exactonce": the record cannot be read\nDETAIL:  DynamoDB's answer, which has the item, is too long to be read\./;

# ----- an item for itself -------------------------------------------------------

put('control', 'FAILED', %free, note => $control);
is($sql->("SELECT outcome FROM idem_acquire('control', on_commit => 'keep'); SELECT idem_complete('control', '2')"), "acquired\n",
	'a record with control characters is claimed and completed');
settled($node);
is($sql->("SELECT status, result FROM idem_get('control')"), 'COMPLETED|2', 'a record with control characters is read');

# A request that has what was seen as its condition is as long.
put('swept', 'COMPLETED', owner => $control, map { $_ => '{"N":"1"}' } qw(fence runs created_ms updated_ms ttl));
is($sql->('SELECT idem_sweep(100000)'), '1', 'a record with an owner of control characters is deleted');

put('result', 'COMPLETED', result => $endless);
foreach my $call ("idem_get('result')", "idem_acquire('result')")
{
	my ($out, $n) = requests_of('result', $call);
	like($out, $unreadable, "a record that is too long is an error: $call");
	is($n, 1, "and that is definite: $call");
}
is($sql->('SELECT count(*) FROM exactonce_claims'), '0', 'nothing is held of it');
is($sql->('SELECT count(*) FROM exactonce_circuits WHERE failures > 0'), '0', 'and the endpoint counts as answering');
is($sql->("SELECT idem_forget('result')"), 't', 'it is forgotten');
is($sql->("SELECT outcome, run FROM idem_acquire('result')"), 'acquired|1', 'and can be claimed then');

# Half of that on the wire, and much more in memory.
put('maps', 'COMPLETED', result => '{"L":[' . join(',', ('{"M":{}}') x 95_000) . ']}');
foreach my $call ("idem_get('maps')", "idem_acquire('maps')")
{
	my ($out, $n) = requests_of('maps', $call);
	like($out, $unreadable, "a record of very many values is an error, too: $call");
	is($n, 1, "and that is definite: $call");
}
is($sql->("SELECT idem_forget('maps')"), 't', 'it is forgotten, too');

put('note', 'FAILED', %free, note => $endless);
like(run_script($node, "SELECT idem_acquire('note');"), $unreadable, 'a record that stays too long is not claimed');
settled($node);
is((seen('note'))[0], 'FAILED', 'what was claimed is given back');
is($sql->("SELECT idem_forget('note')"), 't', 'a record that stays too long is forgotten');
isnt((seen('note'))[1], 'somebody', 'which has another owner then');

# ----- a record that becomes too long -------------------------------------------

my $run = start_script($node, "BEGIN;\nSELECT idem_acquire('held', lease => '1 hour');\n" . say_in_script('held') . halt_until('long')
	  . "SELECT idem_complete('held', '1');\nCOMMIT;\n");
await_word('held');
add_note('held');
go_on('long');
like(finish_script($run), qr/ERROR:  ID00[67]: /, 'a commit whose seal is not confirmed fails');
settled($node);
is((seen('held'))[0], 'FAILED', 'and the worker gives the key back');

fault(key => 'finished', to => 'COMPLETED', do => 'hold', times => 1);
$sql->("SELECT idem_once('finished', '1')");
await_request(key => 'finished', to => 'COMPLETED');
add_note('finished');
release_held();
settled($node);
is((seen('finished'))[0], 'COMPLETED', 'a key whose record becomes too long after the commit is finished');

# ----- scans --------------------------------------------------------------------

# What the owner or the origin is full of comes with every kind of scan.
put("c$_", 'COMMITTING', owner => $control, %sealed) foreach 1 .. 50;
put("e$_", 'COMMITTING', owner => $endless, %sealed) foreach 1 .. 2;
my $out = run_script($node, "SELECT key, status FROM idem_list('committing', results => true, units_per_second => 100000);\n");
is(scalar(() = $out =~ /^c\d+\|COMMITTING$/mg), 50, '50 records of control characters are listed');
unlike($out, qr/^e\d/m, 'those that are too long are not');
like($out, qr/WARNING:  01000: 5 items of table "$table" cannot be read, and are not listed/, 'which is said');
like(run_script($node, 'SELECT finding, detail FROM idem_audit(units_per_second => 100000);'),
	qr/^not judged\|2 records cannot be read, /m, 'the audit goes on behind them, and counts two');

# What a life that is over has left is found behind them.
$run = start_script($node, "BEGIN;\nSELECT idem_acquire('left', lease => '1 hour');\n" . say_in_script('left') . halt_until('ever'));
await_word('left');
crash($node);
go_on('ever');
finish_script($run);
unlink $node->data_dir . '/exactonce_claims' or die "no claim file: $!";
my $log = -s $node->logfile;
$node->start;
$sql->("SELECT idem_once('next')");
wait_until('the recovery scan goes on behind them', sub { status_of($table, 'left') eq 'FAILED' });
wait_until('and counts two',
	sub { slurp_file($node->logfile, $log) =~ /table "$table" was scanned for what [^:]*: \d+ items\n.*DETAIL:  2 of them cannot be read/ });

stop_without_crash($node, kills => 1);
done_testing();
