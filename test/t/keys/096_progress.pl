# What a run notes for the next one (idem_extend with progress): who reads it, what keeps it, what
# removes it, and that no request that is late, lost or doubled puts it back.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_progress';
my $node = new_node('progress', conf => "max_prepared_transactions = 2\n",
	options => { request_timeout => '3s', commit_timeout => '3s', clock_skew => 0 });
sweep_nothing($table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $keep = "on_commit => 'keep', lease => '10 min'";
$sql->('CREATE TABLE work (key text)');

# The number and the text of the last note in the record of a key; empty: there is none.
sub noted
{
	my ($key) = @_;
	my $record = record($table, $key) // {};
	return defined $record->{progress} || defined $record->{progress_no} ? "$record->{progress_no} $record->{progress}" : '';
}

# What the next run is told, in a session of its own.
sub next_run
{
	my ($key) = @_;
	return $sql->("SELECT outcome, run, progress FROM idem_acquire('$key', lease => '10 min')");
}

# A key with one note, whose lease is over in a moment or in ten minutes.  Returns its token.
sub begin
{
	my ($key, $lease) = @_;
	return $sql->("SELECT token FROM idem_acquire('$key', lease => '@{[ $lease // '10 min' ]}');"
		  . "SELECT FROM idem_extend('$key', '@{[ $lease // '10 min' ]}', progress => '{\"charge\": \"ch_1\"}')") =~ s/\n//gr;
}
my $first = '{"charge": "ch_1"}';

# ----- the next run ---------------------------------------------------------------------

begin('failed');
is(noted('failed'), "1 $first", 'a note is in the record at once');
is($sql->("SELECT status, progress FROM idem_get('failed')"), "IN_PROGRESS|$first", '... and idem_get() shows it');
my $token = record($table, 'failed')->{owner};
$sql->("SELECT idem_fail('failed', '\"no\"', token => '$token')");
is($sql->("SELECT status, progress FROM idem_get('failed')"), "FAILED|$first", 'a failure keeps it');
is(next_run('failed'), "acquired|2|$first", '... and the next run reads it in its claim');

$token = begin('released');
$sql->("SELECT idem_release('released', token => '$token')");
is(next_run('released'), "acquired|1|$first", 'so it does after a release');

begin('taken over', '100 ms');
wait_until('its lease is over', sub { $sql->("SELECT lease_until < now() FROM idem_get('taken over')") eq 't' });
is(next_run('taken over'), "acquired|2|$first", 'after a take-over');
is(noted('taken over'), "1 $first", '... which keeps it');

$sql->("BEGIN; SELECT idem_acquire('rolled back'); SELECT idem_extend('rolled back', progress => '$first'); ROLLBACK");
settled($node);
is(next_run('rolled back'), "acquired|2|$first", 'after a rollback, which does not undo it');

my $run = start_script($node, "BEGIN; SELECT idem_acquire('killed'); SELECT idem_extend('killed', progress => '$first');\n"
	  . say_in_script('noted') . halt_until('never'));
await_word('noted');
crash($node);
go_on('never');
finish_script($run);
$node->start;
wait_until('a kill -9 of all processes: the key is given back', sub { status_of($table, 'killed') eq 'FAILED' });
is(next_run('killed'), "acquired|2|$first", '... and the next run reads it');

is($sql->(qq{SELECT progress FROM idem_acquire_many(ARRAY['many', 'none'])}), "\n", 'new keys have none');
$sql->("SELECT idem_acquire('put'); SELECT idem_extend('put', progress => NULL)");
is(noted('put'), '', 'SQL NULL is no note');
$sql->("SELECT idem_extend('put', progress => 'null', token => '@{[ record($table, 'put')->{owner} ]}')");
is(noted('put'), '1 null', 'the null of JSON is one');

# In the transaction that holds the key, and in the session that has a claim.
is($sql->(<<SQL), "acquired|\nin_progress|t|$first\nacquired|$first\n", 'a transaction reads what it has noted itself');
BEGIN;
SELECT outcome, progress FROM idem_acquire('again');
SELECT FROM idem_extend('again', progress => '{"a": 1}');
SELECT FROM idem_extend('again', progress => '$first');
SELECT outcome, mine, progress FROM idem_acquire('again');
SELECT FROM idem_release('again');
SELECT outcome, progress FROM idem_acquire('again');
SELECT idem_complete('again');
COMMIT;
SQL
is($sql->(<<SQL), "acquired|\nin_progress|t|$first", 'so does a session that keeps a claim');
SELECT outcome, progress FROM idem_acquire('kept', $keep);
SELECT FROM idem_extend('kept', progress => '$first');
SELECT outcome, mine, progress FROM idem_acquire('kept');
SQL
is($sql->("SELECT outcome, progress IS NULL FROM idem_acquire('kept')"), 'in_progress|t', 'nobody else is told');
like($sql->("SELECT string_agg(progress::text, ',') FROM idem_list(prefix => 'kept', results => true)"), qr/ch_1/, 'a list shows it with results');
is($sql->("SELECT count(progress) FROM idem_list()"), '0', '... and does not read it otherwise');

# ----- what removes it -----------------------------------------------------------------

$token = begin('completed');
$sql->("BEGIN; INSERT INTO work VALUES ('completed'); SELECT idem_complete('completed', token => '$token'); COMMIT");
is($sql->("SELECT status, progress IS NULL FROM idem_get('completed')"), 'COMPLETED|t', 'a completed key shows none, at once');
settled($node);
is(status_of($table, 'completed') . noted('completed'), 'COMPLETED', '... and its record has none');
$token = begin('immediate');
$sql->("SELECT idem_complete('immediate', immediate => true, token => '$token')");
is(status_of($table, 'immediate') . noted('immediate'), 'COMPLETED', 'so it is with immediate');
$token = begin('once');
$sql->("SELECT idem_fail('once', token => '$token'); SELECT idem_once('once')");
settled($node);
is(status_of($table, 'once') . noted('once'), 'COMPLETED', 'with idem_once()');
begin('forgotten');
$sql->("SELECT idem_forget('forgotten')");
is(noted('forgotten'), '', 'idem_forget() removes it');
is(next_run('forgotten'), 'acquired|1|', '... and the key runs as if it were new');

# Other clients may leave it in what they complete.
begin('by others');
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#by others' } },
	UpdateExpression => 'SET #s = :c, #t = :t', ExpressionAttributeNames => { '#s' => 'status', '#t' => 'ttl' },
	ExpressionAttributeValues => { ':c' => { S => 'COMPLETED' }, ':t' => { N => '' . (time() - 3600) } } });
is(next_run('by others'), 'acquired|1|', 'a run that replaces a record past its time starts without any');
is(noted('by others'), '', '... and removes what there is');

# ----- what a commit does and takes back -------------------------------------------------

$sql->(<<SQL);
SELECT idem_acquire('unsealed', $keep);
SELECT idem_extend('unsealed', progress => '$first');
BEGIN; INSERT INTO work VALUES ('unsealed'); SELECT idem_complete('unsealed', '1'); PREPARE TRANSACTION 'p';
SQL
is(status_of($table, 'unsealed') . ' ' . noted('unsealed'), "COMMITTING 1 $first", 'a seal keeps it');
$sql->("ROLLBACK PREPARED 'p'");
wait_until('the seal is taken back', sub { status_of($table, 'unsealed') eq 'IN_PROGRESS' });
is(noted('unsealed'), "1 $first", '... and it is still there');

# The claim of a session, whose commit is cancelled in its seal.
fault(key => 'resumed', to => 'COMMITTING', do => 'stay');
$run = start_script($node, <<SQL . halt_until('looked'));
SELECT idem_acquire('resumed', on_commit => 'session');
SELECT idem_extend('resumed', progress => '$first');
BEGIN; INSERT INTO work VALUES ('resumed'); SELECT idem_complete('resumed');
COMMIT;
SELECT 'afterwards ' || (idem_extend('resumed', progress => '{"charge": "ch_1", "mail": 1}') > now());
SQL
await_request(key => 'resumed', to => 'COMMITTING');
wait_until('the record is sealed', sub { status_of($table, 'resumed') eq 'COMMITTING' });
is(noted('resumed'), "1 $first", '... with the note');
cancel_commit($node);
wait_until('the session has its claim again', sub { status_of($table, 'resumed') eq 'IN_PROGRESS' });
is(noted('resumed'), "1 $first", '... with the note') if noted('resumed') !~ /^2/;
release_held();
go_on('looked');
like(finish_script($run), qr/afterwards true/, '... and notes more under it');
is(noted('resumed'), '2 {"mail": 1, "charge": "ch_1"}', '... after the first one');
is($sql->("SELECT count(*) FROM work WHERE key IN ('unsealed', 'resumed')"), '0', 'nothing was committed');

# ----- requests that are late, lost or doubled --------------------------------------------

# Notes that come later here have a lease that ends before that of the claim, and leave that as it is: so
# it is not the lease that refuses the first one, which has the longest.

# Runs a script in which the first note is held until its caller has given up, and lets go of it.
# $before is done by others while it is on its way.
sub late_note
{
	my ($key, $script, $before) = @_;
	reset_proxy();
	fault(key => $key, to => 'progress', do => 'hold');
	my $run = start_script($node, "SELECT 'claim ' || outcome FROM idem_acquire('$key', $keep);\n"
		  . "SELECT idem_extend('$key', '20 min', progress => '$first');\n$script\n");
	await_request(key => $key, to => 'progress');
	$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT idem_extend(%' AND state = 'active'");
	my $out = finish_script($run);
	$before->() if $before;
	release_held();
	# Whether it was refused is for the caller to see in the record.
	wait_until("$key: the late note arrives", sub { count_requests(key => $key, to => 'progress', status => 0) == 0 });
	return $out;
}

like(late_note('late', "SELECT 'second ' || (idem_extend('late', progress => '{\"charge\": \"ch_2\"}') > now());"),
	qr/claim acquired\nsecond true\n.*57014/s, 'a note whose caller gives up, and another one');
is(noted('late'), '1 {"charge": "ch_2"}', 'a late note does not put back the one after it');

late_note('late and displaced', '', sub {
	$sql->("SELECT idem_release('late and displaced', token => '" . record($table, 'late and displaced')->{owner} . "')");
	is($sql->("SELECT outcome, progress FROM idem_acquire('late and displaced', $keep)"), 'acquired|', 'another run has the key') });
is(noted('late and displaced'), '', 'a late note of a run that was displaced is refused');
late_note('late and forgotten', '', sub {
	$sql->("SELECT idem_forget('late and forgotten'); SELECT idem_acquire('late and forgotten', $keep)") });
is(noted('late and forgotten'), '', 'a late note does not come back after idem_forget()');
late_note('late and completed', "SELECT idem_complete('late and completed', immediate => true);");
is(status_of($table, 'late and completed') . noted('late and completed'), 'COMPLETED', 'a late note does not stay in a completed record');

# Two copies of one request: the second one comes when there is another note.
reset_proxy();
fault(key => 'copied', to => 'progress', do => 'late', after => { key => 'trigger', to => 'IN_PROGRESS' });
$sql->(<<SQL);
SELECT idem_acquire('copied', $keep);
SELECT idem_extend('copied', '20 min', progress => '$first');
SELECT idem_extend('copied', progress => '{"charge": "ch_2"}');
SELECT idem_acquire('trigger');
SQL
control('GET', '/quiet?seconds=' . paced(60));
is(noted('copied'), '2 {"charge": "ch_2"}', 'a copy that arrives after the next note changes nothing');

# A note that was applied, and whose caller does not learn that.
sub unknown
{
	my ($key, $then) = @_;
	reset_proxy();
	fault(key => $key, to => 'progress', do => 'lose', times => 0);
	return run_script($node, <<SQL);
SELECT 'claim ' || outcome FROM idem_acquire('$key', $keep);
SELECT idem_extend('$key', '20 min', progress => '$first');
\\! curl -s -X POST "\$EO_CONTROL/reset"
$then
SQL
}
like(unknown('unknown', qq{SELECT 'same ' || (idem_extend('unknown', progress => '$first') > now());}),
	qr/same true\n.*ID006/s, 'the same note again after an unknown outcome');
is(noted('unknown'), "1 $first", '... is the same note');
my $out = unknown('not seen', <<SQL);
SELECT idem_extend('not seen', progress => '{"mail": 1}');
SELECT 'read ' || progress::text FROM idem_get('not seen');
SELECT 'both ' || (idem_extend('not seen', progress => '{"mail": 1, "charge": "ch_1"}') > now());
SELECT outcome FROM idem_acquire('not seen');
SQL
like($out, qr/ID006.*55000: key "not seen" on server "exactonce" has progress that was not seen\nDETAIL:  Note 1 was written/s,
	'another note after it does not take its place');
like($out, qr/read \{"charge": "ch_1"\}\nboth true\n/, '... until it was read');
like($out, qr/^in_progress$/m, '... and the claim stands');
is(noted('not seen'), '2 {"mail": 1, "charge": "ch_1"}', '... so both are noted');

# Other sessions that have the token.
$token = begin('passed on');
$sql->("SELECT idem_extend('passed on', token => '$token', progress => '$_')") foreach 1 .. 2;
is(noted('passed on'), '3 2', 'a session that is given a token notes what comes after the last note');
$run = start_script($node, "SELECT 'claim ' || outcome FROM idem_acquire('two sessions', $keep);\n"
	  . say_in_script('claimed') . halt_until('other has noted')
	  . "SELECT idem_extend('two sessions', progress => '{\"by\": 1}');\n"
	  . "SELECT 'then ' || (idem_extend('two sessions', progress => '{\"by\": [1, 2]}') > now());\n");
await_word('claimed');
$token = record($table, 'two sessions')->{owner};
$sql->("SELECT idem_extend('two sessions', token => '$token', progress => '{\"by\": 2}')");
go_on('other has noted');
like(finish_script($run), qr/then true.*55000/s, 'a session does not take the place of a note of another one that it has not seen');
is(noted('two sessions'), '2 {"by": [1, 2]}', '... and does when it has');

# ----- the lease -------------------------------------------------------------------------

reset_proxy();
is($sql->(<<SQL), "t\nt", 'a note with a shorter lease is written, and the lease stays');
SELECT FROM idem_acquire('long', $keep);
SELECT idem_extend('long', '1 min', progress => '$first') > now() + interval '9 min';
SELECT idem_extend('long', '1 hour', progress => '{}') > now() + interval '59 min';
SQL
is(noted('long'), '2 {}', '... so is one with a longer lease');
is(count_requests(key => 'long', to => 'progress'), 3, '... the first one with one request more');
$run = start_script($node, "BEGIN; SELECT idem_acquire('beats', lease => '@{[ paced('1 s') ]}');\n" . say_in_script('open')
	  . halt_until('has beaten') . "SELECT 'noted ' || (idem_extend('beats', '100 ms', progress => '$first') > now());\n"
	  . "SELECT idem_complete('beats'); COMMIT;\n");
await_word('open');
wait_until('a heartbeat', sub { count_requests(key => 'beats', to => 'lease') > 0 });
go_on('has beaten');
like(finish_script($run), qr/noted true/, 'a note after a heartbeat, with a lease that is over sooner');

# ----- bad input, rights and sizes --------------------------------------------------------

my $long = '"' . ('x' x 32766) . '"';
like(run_script($node, $_->[0]), $_->[1], $_->[2]) foreach
	[ "SELECT idem_extend(NULL, progress => '1')", qr/22004: key must not be null/, 'no key' ],
	[ "SELECT idem_extend('nobody', progress => '1')", qr/ID008: cannot extend key "nobody"/, 'no claim' ],
	[ "SELECT idem_extend('long', token => gen_random_uuid(), progress => '1')", qr/ID002: the claim on key "long"/, 'the token of another claim' ],
	[ "SELECT idem_extend('absent', token => gen_random_uuid(), progress => '1')", qr/ID002: the claim on key "absent"/, 'a key without a record' ],
	[ "SELECT idem_extend('completed', token => '@{[ record($table, 'completed')->{owner} ]}', progress => '1')", qr/ID002/, 'a completed key' ],
	[ "BEGIN; SELECT idem_acquire('settled'); SELECT idem_complete('settled'); SELECT idem_extend('settled', progress => '1')",
		qr/ID008: key "settled" on server "exactonce" is already settled.*It was completed/s, 'a key that this transaction completes' ],
	[ "BEGIN; SELECT idem_acquire('given up'); SELECT idem_fail('given up'); SELECT idem_extend('given up', progress => '1')",
		qr/ID008: key "given up" on server "exactonce" is already settled.*It was failed or released/s, '... or fails' ],
	[ "SELECT idem_acquire('size'); SELECT idem_extend('size', progress => to_jsonb(repeat('x', 32767)))",
		qr/54000: progress of key "size" on server "exactonce" is too large\nDETAIL:  As text it has 32769 bytes; there may be 32768/, 'a byte too much' ],
	[ "SELECT idem_acquire('size of UTF-8'); SELECT idem_extend('size of UTF-8', progress => to_jsonb(repeat('\x{c3}\x{bc}', 16384)))",
		qr/54000: .*As text it has 32770 bytes/s, '... as UTF-8' ],
	[ "SET default_transaction_read_only = on; SELECT idem_extend('long', progress => '1')", qr/25006/, 'a read-only transaction' ],
	[ "CREATE ROLE guest; SET ROLE guest; SELECT idem_extend('long', progress => '1')", qr/42501: permission denied for foreign server/, 'a role without USAGE' ],
	[ "GRANT USAGE ON FOREIGN SERVER exactonce TO guest; BEGIN; SELECT idem_acquire('of postgres'); SET ROLE guest;"
		  . "SELECT idem_extend('of postgres', progress => '1')", qr/ID008: .*another role owns it/, 'the claim of another role' ];
is(noted('long'), '2 {}', 'none of this has noted anything');

# A result has the room that the progress leaves, and no more.
$out = run_script($node, <<SQL);
SELECT idem_acquire('room', $keep);
SELECT 'noted ' || (idem_extend('room', progress => to_jsonb(repeat('x', 32766))) > now());
SELECT idem_complete('room', to_jsonb(repeat('y', 400000)));
SQL
like($out, qr/noted true/, 'the longest progress');
my ($room) = $out =~ /54000: result of key "room".*there is room for (\d+)/s;
cmp_ok($room // 400_000, '<', 376_900, 'leaves that much less room for a result');
$token = record($table, 'room')->{owner};
$sql->(<<SQL);
SELECT idem_acquire('room 2', $keep);
SELECT idem_extend('room 2', progress => to_jsonb(repeat('x', 32766)));
BEGIN; INSERT INTO work VALUES ('room'); SELECT idem_complete('room 2', to_jsonb(repeat('y', $room - 4))); COMMIT;
SQL
settled($node);
is(status_of($table, 'room 2') . noted('room 2'), 'COMPLETED', '... in which it is completed');

# What another client has written in the place of progress.
foreach my $odd ([ progress => { B => 'AA==' }, 'Its progress has no form in JSON' ], [ progress_no => { S => 'one' }, 'Its progress_no is not a whole number' ])
{
	my ($name, $value, $detail) = @$odd;
	put_record($table, "odd $name", status => 'FAILED', owner => 'x', fence => 1, runs => 1, retry_ms => 0, created_ms => 1, updated_ms => 1,
		ttl => time() + 86400);
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#odd $name" } }, UpdateExpression => 'SET #p = :p',
		ExpressionAttributeNames => { '#p' => $name }, ExpressionAttributeValues => { ':p' => $value } });
	like(run_script($node, "SELECT idem_acquire('odd $name')"), qr/ID007.*$detail/s, "odd $name: nobody claims the key without knowing");
	settled($node);
	$sql->("SELECT idem_forget('odd $name')");
	is(next_run("odd $name"), 'acquired|1|', "odd $name: an operator lets it run again");
}
like(run_script($node, "SELECT idem_get('odd progress')"), qr/odd progress/, 'it can be looked at then');

# Two databases, and a service that keeps to docs/records.md, read the same record.
$node->safe_psql('postgres', 'CREATE DATABASE two');
$node->safe_psql('two', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, clock_skew => 0));
$token = begin('elsewhere');
$sql->("SELECT idem_fail('elsewhere', token => '$token')");
is($node->safe_psql('two', "SELECT outcome, run, progress FROM idem_acquire('elsewhere')"), "acquired|2|$first",
	'the next run may be that of another database');

stop_without_crash($node, kills => 1);
done_testing();
