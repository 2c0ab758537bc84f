# A DynamoDB table has many addresses: those of another server, of an altered one, of a VPC
# endpoint.  How a commit ended is known by the token of its claim, so it does not matter by
# which one somebody asks: after a crash, by the recovery scan, after a failover, while a
# transaction is prepared, and without any of these.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Another address of the same tables.  It does not lead through the proxy, whose faults hold up
# what goes to the address by which keys are completed.
my $elsewhere = $ENV{EO_ENGINE_URL};

my $conf = 'exactonce.test_hurry = ' . hurry(10) . <<'CONF';

log_min_messages = log
wal_level = replica
max_wal_senders = 5
hot_standby = on
max_connections = 20
max_prepared_transactions = 5
restart_after_crash = on
CONF

sub sql_of
{
	my ($of, $text) = @_;
	return $of->safe_psql('postgres', $text);
}

# A cluster whose server "other" leads to the table of its server "exactonce".
sub new_pair
{
	my ($name) = @_;
	my $node = new_node($name, conf => $conf, options => { lease => '1 hour', clock_skew => 0 });
	sql_of($node, server_sql('other', table => "tap_$name", endpoint => $elsewhere, lease => '1 hour', clock_skew => 0)
		. 'CREATE TABLE work (key text)');
	return $node;
}

sub work_of
{
	my ($key, $args) = @_;
	return "BEGIN;\nINSERT INTO work VALUES ('$key');\nSELECT idem_acquire('$key'" . ($args // '')
	  . ");\nSELECT idem_complete('$key', '\"$key\"'" . ($args // '') . ");\n";
}

# Has these keys completed by transactions whose finish does not arrive.
sub commit_unfinished
{
	my ($node, @keys) = @_;
	fault(to => 'COMPLETED', do => 'drop', times => 0);
	foreach my $key (@keys)
	{
		sql_of($node, work_of($key) . 'COMMIT');
		is(status_of('tap_' . $node->name, $key), 'COMMITTING', "key \"$key\" is not finished");
	}
	return;
}

# What an acquire says, once it is not in progress any more.
sub answer
{
	my ($what, $of, $key, $server) = @_;
	my $outcome = '';
	wait_until("$what: there is an answer about key \"$key\"", sub {
		$outcome = sql_of($of, "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep', server => '$server')");
		$outcome ne 'in_progress';
	});
	return $outcome;
}

# The finish goes to the row's own address, and then nothing is left.
sub is_finished
{
	my ($what, $of, $table, @keys) = @_;
	reset_proxy();
	foreach my $key (@keys)
	{
		wait_until("$what: key \"$key\" is finished", sub { status_of($table, $key) eq 'COMPLETED' });
		is(record($table, $key)->{result}, "\"$key\"", "$what: and has its result: $key");
		is(sql_of($of, "SELECT count(*) FROM work WHERE key = '$key'"), '1', "$what: and its work is there once: $key");
	}
	settled($of);
	is(sql_of($of, 'SELECT count(*) FROM exactonce_in_doubt'), '0', "$what: nothing is in doubt");
	return;
}

# ----- without a crash ------------------------------------------------------------------

my $node = new_pair('addresses');
my $table = 'tap_addresses';

sub other_server
{
	my ($what, $key) = @_;
	is(answer($what, $node, $key, 'other'), 'completed', "$what: the other server knows that the work is done");
	is(sql_of($node, "SELECT status FROM idem_get('$key', server => 'other')"), 'COMPLETED', "$what: and shows it");
	return;
}

commit_unfinished($node, 'calm', 'complained', 'resolved');
other_server('without a crash', 'calm');
is(sql_of($node, "SELECT string_agg(finding, ' ') FROM idem_audit('other')"), '', 'nor does an audit by the other server find anything');
like(run_script($node, "SELECT idem_resolve('complained', 'failed', server => 'other')"),
	qr/55000: key "complained" on server "other" was completed by a transaction that has committed/,
	'an operator cannot overrule that by the other server');
is(sql_of($node, "SELECT idem_resolve('resolved', 'completed', server => 'other')"), 't', 'but may say what is true');
is(sql_of($node, "SELECT count(*) FROM exactonce_pending WHERE key = 'resolved'"), '1',
	'which is no answer of the address by which the key was completed: its row stays');
is_finished('without a crash', $node, $table, 'calm', 'complained', 'resolved');

# ----- after a crash --------------------------------------------------------------------

commit_unfinished($node, 'crashed', 'altered', 'gone');
crash($node);
$node->start;
other_server('after a crash', 'crashed');
sql_of($node, "ALTER SERVER exactonce OPTIONS (SET endpoint '$elsewhere')");
is(answer('after ALTER SERVER', $node, 'altered', 'exactonce'), 'completed', 'an altered server knows that the work is done');
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#gone' } } });
is(sql_of($node, "SELECT key, finding FROM idem_audit('exactonce')"), 'gone|no record',
	'an audit by an altered server compares the rows of its old address');
wait_until('such a row is given up by its name', sub {
		run_script($node, "SELECT idem_give_up(id) FROM exactonce_pending WHERE key = 'gone'") =~ /^t$/m });
is_finished('after a crash', $node, $table, 'crashed', 'altered');

# ----- by the recovery scan -------------------------------------------------------------

# The server is altered, so that the worker scans by another address than that of the row.
sql_of($node, "ALTER SERVER exactonce OPTIONS (SET endpoint '$ENV{EO_ENDPOINT}')");
commit_unfinished($node, 'scanned');
my $open = start_script($node, "BEGIN;\nSELECT idem_acquire('left behind');\n" . say_in_script('open') . halt_until('ever'));
await_word('open');
crash($node);
go_on('ever');
finish_script($open);
unlink $node->data_dir . '/exactonce_claims' or die "no claim file: $!";
$node->start;
sql_of($node, "ALTER SERVER exactonce OPTIONS (SET endpoint '$elsewhere')");
is(sql_of($node, "SELECT outcome FROM idem_acquire('starts the worker', on_commit => 'keep')"), 'acquired', 'there is new work');
wait_until('the scan gives back what was only claimed', sub { status_of($table, 'left behind') eq 'FAILED' });
wait_until('the table is scanned', sub { slurp_file($node->logfile) =~ /table "tap_addresses" was scanned/ });
is(status_of($table, 'scanned'), 'COMMITTING', 'and leaves alone what has committed by another address');
is_finished('by the scan', $node, $table, 'scanned');

# ----- prepared -------------------------------------------------------------------------

# Kills one process, after which the server starts all anew.
sub kill_one
{
	my $session = start_script($node, "SELECT pg_backend_pid();\n" . say_in_script('doomed') . halt_until('dead'));
	await_word('doomed');
	my $log = -s $node->logfile;
	my $pid = sql_of($node, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_backend_pid%' AND pid <> pg_backend_pid()");
	kill 'KILL', $pid;
	wait_until('the server has begun anew', sub { slurp_file($node->logfile, $log) =~ /ready to accept connections/ });
	go_on('dead');
	finish_script($session);
	return;
}

sql_of($node, "ALTER SERVER exactonce OPTIONS (SET endpoint '$ENV{EO_ENDPOINT}')");
sql_of($node, work_of($_) . "PREPARE TRANSACTION '$_'") foreach 'kept', 'dropped';
kill_one();
is(sql_of($node, "SELECT outcome FROM idem_acquire('$_', on_commit => 'keep', server => 'other')"), 'in_progress',
	"prepared: the other server waits for \"$_\"") foreach 'kept', 'dropped';
like(run_script($node, "SELECT idem_resolve('kept', 'failed', server => 'other')"), qr/55006: .* is still going on/,
	'prepared: an operator waits, too');
sql_of($node, "ALTER SERVER exactonce OPTIONS (SET endpoint '$elsewhere')");
is(sql_of($node, "SELECT outcome FROM idem_acquire('kept', on_commit => 'keep')"), 'in_progress', 'prepared: so does an altered one');
sql_of($node, "COMMIT PREPARED 'kept'");
sql_of($node, "ROLLBACK PREPARED 'dropped'");
is(answer('prepared', $node, 'kept', 'other'), 'completed', 'COMMIT PREPARED is known by any address');
is(answer('prepared', $node, 'dropped', 'other'), 'acquired', 'and ROLLBACK PREPARED');
is_finished('prepared', $node, $table, 'kept');

sql_of($node, "ALTER SERVER exactonce OPTIONS (SET endpoint '$ENV{EO_ENDPOINT}')");

# A claim that was kept can be completed once: the prepared transaction is not waited for.
my $token = sql_of($node, "SELECT token FROM idem_acquire('kept for two', on_commit => 'keep')");
sql_of($node, "BEGIN; INSERT INTO work VALUES ('kept for two');"
	  . "SELECT idem_complete('kept for two', '\"kept for two\"', token => '$token'); PREPARE TRANSACTION 'kept for two'");
my $two = "SET statement_timeout = '20 s';\nBEGIN;\nSELECT idem_complete('kept for two', '2', token => '$token', server => 'other');\nCOMMIT;\n";
like(run_script($node, $two), qr/ID001: key "kept for two" .*\nDETAIL:  A prepared transaction of this cluster holds it/,
	'prepared: another server does not wait for the end of what has completed the claim');
sql_of($node, "ROLLBACK PREPARED 'kept for two'");
settled($node);
unlike(run_script($node, $two), qr/ERROR/, 'prepared: after ROLLBACK PREPARED it completes the claim');
settled($node);
is(record($table, 'kept for two')->{result}, '2', 'prepared: which has its result');

# A claim of the session has no place in a prepared transaction, by whatever address.
like(run_script($node, "SELECT token FROM idem_acquire('of the session', on_commit => 'session') \\gset\n"
	  . "BEGIN;\nSELECT idem_complete('of the session', token => :'token', server => 'other');\nPREPARE TRANSACTION 'of the session';\n"),
	qr/0A000: cannot PREPARE a transaction with key "of the session" on server "other", which the session holds/,
	'prepared: what the session holds is known by any address');

# ----- two transactions under one token -------------------------------------------------

# A claim that is kept may be sealed by one transaction, which is rolled back, and completed by
# another.  Nobody gives it back because of the first.
sub set_origin
{
	my ($key, $to) = @_;
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
		UpdateExpression => 'SET #g = :g', ExpressionAttributeNames => { '#g' => 'origin' },
		ExpressionAttributeValues => { ':g' => { S => $to } } });
	return;
}

$token = sql_of($node, "SELECT token FROM idem_acquire('twice', on_commit => 'keep')");
my $aborted = sql_of($node, 'BEGIN; SELECT pg_current_xact_id(); ROLLBACK');
fault(to => 'COMPLETED', do => 'drop', times => 0);
sql_of($node, "BEGIN; INSERT INTO work VALUES ('twice'); SELECT idem_complete('twice', '\"twice\"', token => '$token'); COMMIT");
my $origin = record($table, 'twice')->{origin};
(my $earlier = $origin) =~ s{/\d+/}{/$aborted/} or die "the origin is $origin";
set_origin('twice', $earlier);
foreach my $server ('exactonce', 'other')
{
	is(sql_of($node, "SELECT outcome FROM idem_acquire('twice', on_commit => 'keep', server => '$server')"), 'in_progress',
		"two transactions: server \"$server\" does not give the claim away");
	like(run_script($node, "SELECT idem_resolve('twice', 'failed', server => '$server')"), qr/55000: key "twice" .* has committed/,
		"two transactions: nor does an operator by server \"$server\"");
}
crash($node);
$node->start;
foreach my $server ('exactonce', 'other')
{
	is(sql_of($node, "SELECT outcome FROM idem_acquire('twice', on_commit => 'keep', server => '$server')"), 'in_progress',
		"two transactions, after a crash: nor does server \"$server\"");
}
is(record($table, 'twice')->{origin} . record($table, 'twice')->{status}, "${earlier}COMMITTING", 'two transactions: nobody has written the record');
set_origin('twice', $origin);
is_finished('two transactions', $node, $table, 'twice');

# Of a claim that is completed by two addresses one completion is refused.
$token = sql_of($node, "SELECT token FROM idem_acquire('two ways', on_commit => 'keep')");
like(run_script($node, "BEGIN;\nSELECT idem_complete('two ways', '1', token => '$token');\n"
	  . "SELECT idem_complete('two ways', '1', token => '$token', server => 'other');\nCOMMIT;\n"),
	qr/ID002: key "two ways" on server "other" is already completed\nDETAIL:  .* by another address/,
	'a claim is completed by one address');

# ----- a record that is lost ------------------------------------------------------------

# As by a table that was restored, the record of a committed key is gone before it is finished.
# So the key can be acquired anew, and by another address.  The row of the first completion
# stands, and no second one commits.
sub lose_record
{
	my ($key) = @_;
	dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } } });
	return;
}

sub again
{
	my ($key, $server) = @_;
	return "BEGIN;\nINSERT INTO work VALUES ('$key');\nSELECT outcome FROM idem_acquire('$key', server => '$server');\n"
	  . "SELECT idem_complete('$key', '\"again\"', server => '$server');\nCOMMIT;\n";
}

sub works
{
	my ($key) = @_;
	return sql_of($node, "SELECT count(*) FROM work WHERE key = '$key'");
}

commit_unfinished($node, 'lost', 'lost once', 'lost elsewhere');
lose_record($_) foreach 'lost', 'lost once', 'lost elsewhere';
my $id = sql_of($node, "SELECT id FROM exactonce_pending WHERE key = 'lost'");
my $unfinished = qr/DETAIL:  .* by another address of table "$table" has committed, and that is not confirmed yet: it has the id/;
like(run_script($node, again('lost', 'other')),
	qr/^acquired\n(?s:.*)ERROR:  ID002: key "lost" on server "other" is already completed\n$unfinished $id\.\nHINT:  Wait until .* idem_give_up\(\)/,
	'a lost record: the key is not completed by another address');
like(run_script($node, "BEGIN;\nINSERT INTO work VALUES ('lost once');\nSELECT idem_once('lost once', server => 'other');\nCOMMIT;\n"),
	qr/ERROR:  ID001: key "lost once" on server "other" is in progress\n$unfinished/, 'a lost record: nor by idem_once()');
is(works('lost') . works('lost once'), '11', 'a lost record: and no second work is committed');
like(run_script($node, "SELECT idem_forget('lost', 'other');\n"), qr/ERROR:  ID001: key "lost" .*\n.*is not confirmed yet/,
	'a lost record: nor is the key forgotten by another address');

# The engine does not tell regions apart, so this is the same table, and PostgreSQL cannot know.
sql_of($node, server_sql('far', table => $table, endpoint => $elsewhere, region => 'us-east-1', lease => '1 hour', clock_skew => 0));
is(run_script($node, again('lost elsewhere', 'far')) =~ s/\s+/ /gr, 'acquired ', 'a table of another region is another one');
sql_of($node, "SELECT idem_give_up(id) FROM exactonce_pending WHERE key = 'lost elsewhere' AND server = 'exactonce'");

reset_proxy();
wait_until('a lost record: the finish is refused', sub {
		sql_of($node, "SELECT string_agg(DISTINCT trouble, ' ') FROM exactonce_pending WHERE key LIKE 'lost%'") eq 'refused' });
like(run_script($node, again('lost', 'other')), qr/ERROR:  ID002: (?s:.*)$unfinished $id/, 'a lost record: that changes nothing');
is(sql_of($node, "SELECT string_agg(idem_give_up(id)::text, ' ') FROM exactonce_pending WHERE key LIKE 'lost%'"), 'true true',
	'a lost record: an operator gives the completions up');
is(run_script($node, again('lost', 'other')) =~ s/\s+/ /gr, 'acquired ', 'a lost record: then the key can be had');

# A prepared transaction goes on when its record is lost; the second one does not wait for its end.
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $key = "undecided $end";
	fault(to => 'COMPLETED', key => $key, do => 'drop', times => 0);
	sql_of($node, work_of($key) . "PREPARE TRANSACTION '$key'");
	lose_record($key);
	like(run_script($node, again($key, 'other')), qr/ERROR:  ID001: key "$key" .*in progress/, "a lost record, $end PREPARED: until then the key is in progress");
	sql_of($node, "$end PREPARED '$key'");
	my $answer = run_script($node, again($key, 'other')) =~ s/\s+/ /gr;
	like($answer, $end eq 'COMMIT' ? qr/ERROR: ID002: / : qr/^acquired $/, "a lost record, $end PREPARED: that decides");
	is(works($key), '1', "a lost record, $end PREPARED: one work is there");
	end_fault($key);
	sql_of($node, "SELECT idem_give_up(id) FROM exactonce_pending WHERE key = '$key'");
}

# The finish was applied, and its answer is on its way: the row goes in a moment, and is waited for.
fault(to => 'COMPLETED', key => 'finished', do => 'stay', times => 0);
sql_of($node, work_of('finished') . 'COMMIT');
wait_until('a finished row: the finish is applied', sub { status_of($table, 'finished') eq 'COMPLETED' });
lose_record('finished');
my $waiting = start_script($node, again('finished', 'other'));
wait_until('a finished row: the key is acquired anew', sub { status_of($table, 'finished') eq 'IN_PROGRESS' });
reset_proxy();
is(finish_script($waiting) =~ s/\s+/ /gr, 'acquired ', 'a finished row is waited for, and bars nobody');
settled($node);
sql_of($node, 'DROP SERVER far CASCADE');

# ----- a copy of the table --------------------------------------------------------------

# A table that was restored from a backup has a copy of the record.  It is completed, too, but
# says nothing about the record of the row.
sql_of($node, server_sql('copy', table => 'tap_addresses_copy', endpoint => $elsewhere, lease => '1 hour', clock_skew => 0));
sql_of($node, "SELECT idem_create_table('copy'); SELECT idem_get('nothing', 'copy')");
sub copy_record
{
	my ($key) = @_;
	my $item = dynamodb(GetItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } } })->{Item};
	dynamodb(PutItem => { TableName => 'tap_addresses_copy', Item => $item });
	return;
}

commit_unfinished($node, 'copied', 'copied before');
$open = start_script($node, work_of('copied too early') =~ s/(?=SELECT idem_complete)/say_in_script('claimed') . halt_until('copied')/er . "COMMIT;\n");
await_word('claimed');
copy_record('copied too early');
go_on('copied');
finish_script($open);
is(status_of('tap_addresses_copy', 'copied too early'), 'IN_PROGRESS', 'a copy may be older than the seal');

# What bears the same life, and other tokens, is given back: before the copy and after it.
my @others = map { "left behind $_" } 1 .. 10;
my $early = dynamodb(GetItem => { TableName => 'tap_addresses_copy', Key => { pk => { S => 'IDEMPOTENCY#copied too early' } } })->{Item};
foreach my $i (1 .. 10)
{
	my $owner = sprintf '00000000-0000-4000-8000-%012d', $i;
	dynamodb(PutItem => { TableName => 'tap_addresses_copy',
		Item => { %$early, pk => { S => "IDEMPOTENCY#$others[$i - 1]" }, owner => { S => $owner } } });
}
copy_record($_) foreach 'copied', 'copied before';
is(answer('a copy', $node, 'copied', 'copy'), 'completed', 'a copy of the record is not given away');
is(sql_of($node, "SELECT idem_resolve('copied', 'completed', server => 'copy')"), 't', 'the copy can be marked');
is(status_of('tap_addresses_copy', 'copied'), 'COMPLETED', 'and is');
is(sql_of($node, "SELECT count(*) FROM exactonce_pending WHERE key = 'copied'"), '1', 'but the row stays');
crash($node);
unlink $node->data_dir . '/exactonce_claims' or die "no claim file: $!";
$node->start;
is(answer('a copy after a crash', $node, 'copied before', 'copy'), 'completed', 'a copy is not given away after a crash');
foreach my $key (@others)
{
	wait_until("a copy: what has no row is given back: $key", sub { status_of('tap_addresses_copy', $key) eq 'FAILED' });
}
is(status_of('tap_addresses_copy', 'copied too early'), 'IN_PROGRESS', 'a copy in progress of what has a row is left alone');
is(sql_of($node, "SELECT outcome FROM idem_acquire('copied too early', on_commit => 'keep', server => 'copy')"), 'in_progress',
	'nor is one that is older than the seal');
is_finished('a copy', $node, $table, 'copied', 'copied before', 'copied too early');
$node->stop;

# ----- after a failover -----------------------------------------------------------------

my $primary = new_pair('addresses_failover');
$primary->append_conf('pg_hba.conf', 'local replication all trust');
$primary->reload;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('addresses_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
commit_unfinished($primary, 'by another server', 'by an altered server', 'by the scan');
sql_of($primary, work_of('prepared') . "PREPARE TRANSACTION 'prepared'");
$primary->wait_for_catchup($standby, 'replay');
crash($primary);
$standby->promote;
sql_of($standby, "ALTER SERVER exactonce OPTIONS (SET endpoint '$elsewhere')");
is(answer('after a failover', $standby, 'by another server', 'other'), 'completed', 'after a failover another server knows that the work is done');
is(answer('after a failover', $standby, 'by an altered server', 'exactonce'), 'completed', 'so does an altered one');
wait_until('after a failover: the table is scanned', sub { slurp_file($standby->logfile) =~ /table "tap_addresses_failover" was scanned/ });
is(status_of('tap_addresses_failover', 'by the scan'), 'COMMITTING', 'and the scan leaves alone what has committed by another address');
is(sql_of($standby, "SELECT outcome FROM idem_acquire('prepared', on_commit => 'keep')"), 'in_progress', 'a prepared transaction is waited for');
sql_of($standby, "COMMIT PREPARED 'prepared'");
is(answer('after a failover', $standby, 'prepared', 'other'), 'completed', 'and its commit known');
is_finished('after a failover', $standby, 'tap_addresses_failover', 'by another server', 'by an altered server', 'by the scan', 'prepared');
$standby->stop;
done_testing();
