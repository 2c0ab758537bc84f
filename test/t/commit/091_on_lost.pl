# A session that loses a claim stops, if it has acquired it with on_lost: whatever it does at that
# moment, and nothing else than what it does under that claim.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $table = 'tap_lost';
my $node = new_node('lost', options => { clock_skew => 0 },
	conf => "max_prepared_transactions = 2\nexactonce.test_hurry = @{[ hurry(20) ]}\nclient_connection_check_interval = 0\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->(<<'SQL' . timeouts_sql('exactonce', request_timeout => '120s', commit_timeout => '120s'));
CREATE TABLE work (key text);
CREATE TABLE slow (key text);
CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(600); RETURN NULL; END$$;
CREATE TRIGGER sleeps AFTER INSERT ON slow FOR EACH ROW EXECUTE FUNCTION sleeps();
SQL

my %said = (
	cancel => sub { qr/ERROR:  57014: canceling statement: the claim on key "$_[0]" on server "exactonce" was lost\nDETAIL:  Its lease .* on_lost => 'cancel'\.\nHINT:  Roll back/ },
	terminate => sub { qr/FATAL:  57P01: terminating connection: the claim on key "$_[0]" on server "exactonce" was lost\nDETAIL:  .* on_lost => 'terminate'\.\n/ });
my $by_user = qr/ERROR:  57014: canceling statement due to user request/;

# A statement that nobody stops ends by itself.
my $limit = "SET statement_timeout = '@{[ paced('30s') ]}';\n";

# ----- helpers -------------------------------------------------------------------------

# Another service takes the key, for long.
sub steal
{
	my ($key) = @_;
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
		UpdateExpression => 'SET #o = :o, lease_ms = :l', ExpressionAttributeNames => { '#o' => 'owner' },
		ExpressionAttributeValues => { ':o' => { S => 'thief' }, ':l' => { N => 1000 * (time() + 3600) } } });
	return;
}

sub terms
{
	my ($mode, $more) = @_;
	return "lease => '300 ms', on_lost => '$mode'" . ($more ? ", $more" : '');
}

# Starts a script that acquires a key, says so, and goes on with the rest.
sub start_victim
{
	my ($key, $mode, $rest, %how) = @_;
	my $run = start_script($node, "SET application_name = '$key';\n" . $limit . ($how{before} // '') . ($how{alone} ? '' : "BEGIN;\n")
		  . "SELECT 'claim ' || outcome FROM idem_acquire('$key', " . terms($mode, $how{terms}) . ");\n"
		  . ($how{then} // '') . say_in_script("held $key") . $rest);
	await_word("held $key");
	return $run;
}

# The same for a claim of the session.
sub start_session
{
	my ($key, $mode, $rest, %how) = @_;
	return start_victim($key, $mode, $rest, %how, alone => 1, terms => "on_commit => 'session'");
}

sub await_sql
{
	my ($query, $what) = @_;
	$node->poll_query_until('postgres', $query) or die "not seen: $what";
	return;
}

sub await_active
{
	my ($key) = @_;
	await_sql("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = '$key' AND state = 'active'", "$key is active");
	return;
}

sub await_gone
{
	my ($key) = @_;
	await_sql("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$key'", "$key is gone");
	return;
}

# Waits until the worker has found out; the slot of a session is free then.
sub await_lost
{
	my ($key, $session) = @_;
	await_sql("SELECT coalesce(string_agg(state, ''), '') = '" . ($session ? '' : 'lost') . "' FROM exactonce_claims WHERE key = '$key'",
		"$key is lost");
	return;
}

# More than enough for a process to look at its claims.
sub some_looks
{
	usleep(paced(0.5) * 1_000_000);
	return;
}

# Passes if the session does what it did, after some looks; then cancels that.
sub goes_on
{
	my ($key, $what) = @_;
	some_looks();
	is($sql->("SELECT state FROM pg_stat_activity WHERE application_name = '$key'"), 'active', $what);
	$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$key'");
	return;
}

# ----- bad words, and the other functions --------------------------------------------------

my $out = run_script($node, <<'SQL');
SELECT idem_acquire('bad', on_lost => 'panic');
SELECT idem_start('bad', on_lost => '');
SELECT idem_acquire_many('{bad}', on_lost => 'cancel terminate');
SELECT outcome FROM idem_acquire('good', on_lost => 'CANCEL');
SELECT idem_release('good');
SQL
is(() = $out =~ /ERROR:  22023: invalid on_lost: "(?:panic||cancel terminate)"\nHINT:  It may be ignore, cancel or terminate\./g, 3, 'bad words are refused');
like($out, qr/^acquired\nt/m, 'upper case is not');

# ----- within a statement ------------------------------------------------------------------

my $blocker = start_script($node, "BEGIN;\nSELECT pg_advisory_xact_lock(7);\n" . say_in_script('locked') . halt_until('unlock'));
await_word('locked');
my %busy = (
	sleeps => 'SELECT pg_sleep(600);',
	computes => 'SELECT count(*) FROM (SELECT generate_series(1, 1000000000000)) s;',
	loops => 'DO $$BEGIN LOOP END LOOP; END$$;',
	waits => 'SELECT pg_advisory_xact_lock(7);',
	asks => "SELECT idem_acquire('slow answer');",
	triggers => "INSERT INTO slow VALUES ('x');",
	fetches => "DECLARE c CURSOR FOR SELECT pg_sleep(600);\nFETCH c;");
foreach my $how (sort keys %busy)
{
	foreach my $mode ('cancel', 'terminate', 'ignore')
	{
		my $key = "$how $mode";
		reset_proxy();
		fault(key => 'slow answer', do => 'hold', times => 0) if $how eq 'asks';
		my $run = start_victim($key, $mode, "INSERT INTO work VALUES ('$key');\n$busy{$how}\nSELECT 'it lives';\nROLLBACK;\nSELECT 'it ' || 'lives on';\n");
		await_active($key);
		await_request(key => 'slow answer') if $how eq 'asks';
		steal($key);
		if ($mode eq 'ignore')
		{
			await_lost($key);
			goes_on($key, "$key: it goes on");
		}
		my $said = finish_script($run);
		like($said, $mode eq 'ignore' ? $by_user : $said{$mode}->($key), "$key: it is told") or diag($said);
		is($said =~ /it lives on/ ? 1 : 0, $mode eq 'terminate' ? 0 : 1, "$key: the connection") or diag($said);
		is(record($table, $key)->{owner}, 'thief', "$key: the key is left to its new owner");
		release_held();
	}
}
go_on('unlock');
finish_script($blocker);
is($sql->('SELECT count(*) FROM work'), '0', 'none of it is committed');

# ----- between statements --------------------------------------------------------------------

foreach my $mode ('cancel', 'terminate', 'ignore')
{
	my $key = "idle $mode";
	my $offset = -s $node->logfile;
	my $run = start_victim($key, $mode, halt_until($key) . "INSERT INTO work VALUES ('$key');\nCOMMIT;\nSELECT 'it lives on';\n");
	steal($key);
	$mode eq 'terminate' ? await_gone($key) : await_lost($key);
	some_looks() if $mode eq 'ignore';
	go_on($key);
	my $said = finish_script($run);
	like($said, { cancel => $said{cancel}->($key), terminate => qr/57P01: terminating connection due to administrator command/,
			ignore => qr/ERROR:  ID002: the claim on key "$key" .* was lost/ }->{$mode}, "$key: it is told") or diag($said);
	is($said =~ /it lives on/ ? 1 : 0, $mode eq 'terminate' ? 0 : 1, "$key: the connection");
	is(slurp_file($node->logfile, $offset) =~ /LOG:  exactonce: terminated the connection, because the claim on key "$key" on server "exactonce" was lost/ ? 1 : 0,
		$mode eq 'terminate' ? 1 : 0, "$key: the log");
	is($sql->("SELECT count(*) FROM work WHERE key = '$key'"), '0', "$key: nothing is committed");
}

my $run = start_victim('rolls back', 'cancel', halt_until('rolls back')
	  . "ROLLBACK;\nBEGIN;\nINSERT INTO work VALUES ('rolls back');\nCOMMIT;\nSELECT 'done';\n");
steal('rolls back');
await_lost('rolls back');
go_on('rolls back');
is(finish_script($run), "claim acquired\ndone\n", 'idle: ROLLBACK works, and the next transaction is not hit');

$run = start_victim('to a savepoint', 'cancel', halt_until('to a savepoint')
	  . "ROLLBACK TO s;\nINSERT INTO work VALUES ('kept');\nSELECT pg_sleep(@{[ paced(0.5) ]});\nSELECT idem_complete('kept');\nCOMMIT;\nSELECT 'done';\n",
	before => "BEGIN;\nSELECT outcome FROM idem_acquire('kept', on_lost => 'cancel');\nSAVEPOINT s;\n", alone => 1);
steal('to a savepoint');
await_lost('to a savepoint');
go_on('to a savepoint');
like(finish_script($run), qr/^done$/m, 'a claim that has ended with its savepoint stops nobody');
wait_until('... and the key of the transaction is completed', sub { status_of($table, 'kept') eq 'COMPLETED' });

# ----- what the session keeps ---------------------------------------------------------------

foreach my $mode ('cancel', 'terminate', 'ignore')
{
	my $key = "session $mode";
	my $offset = -s $node->logfile;
	my $run = start_session($key, $mode, halt_until($key) . "SELECT 'first';\nSELECT 'second';\n"
		  . "SELECT 'then ' || outcome || ' ' || mine FROM idem_acquire('$key');\n");
	steal($key);
	$mode eq 'terminate' ? await_gone($key) : await_lost($key, 1);
	some_looks() if $mode eq 'ignore';
	go_on($key);
	my $said = finish_script($run);
	is($said =~ /^second\nthen in_progress false$/m ? 1 : 0, $mode eq 'terminate' ? 0 : 1, "$key: the session goes on, without the key") or diag($said);
	is($said =~ /^first$/m ? 1 : 0, $mode eq 'ignore' ? 1 : 0, "$key: its next statement");
	like($said, $said{cancel}->($key), "$key: it is told once") if $mode eq 'cancel';
	is(() = $said =~ /ERROR/g, $mode eq 'cancel' ? 1 : 0, "$key: and nothing else") if $mode ne 'terminate';
	like(slurp_file($node->logfile, $offset), qr/terminated the connection, because the claim on key "$key"/, "$key: the log names it") if $mode eq 'terminate';

	# In a later transaction, which has nothing to do with the key.
	$key = "later $mode";
	$run = start_session($key, $mode, "BEGIN;\nINSERT INTO work VALUES ('$key');\nSELECT pg_sleep(600);\nCOMMIT;\n");
	await_active($key);
	steal($key);
	if ($mode eq 'ignore')
	{
		await_lost($key, 1);
		goes_on($key, "$key: it goes on");
	}
	$said = finish_script($run);
	like($said, $mode eq 'ignore' ? $by_user : $said{$mode}->($key), "$key: it is told") or diag($said);
}

$run = start_session('discarded', 'cancel', halt_until('discarded') . "DISCARD ALL;\nSELECT 'another client';\n");
steal('discarded');
await_lost('discarded', 1);
go_on('discarded');
is(finish_script($run), "claim acquired\nanother client\n", 'DISCARD ALL: the next client of the connection is not hit');

# The key is free again when the session asks, before the worker has found out that it was lost.
$run = start_session('twice', 'terminate', halt_until('twice')
	  . "SELECT 'again ' || outcome FROM idem_acquire('twice', on_commit => 'session', on_lost => 'cancel');\n"
	  . say_in_script('again') . halt_until('end twice') . "SELECT idem_release('twice');\n");
fault(key => 'twice', to => 'lease', do => 'hold');
await_request(key => 'twice', to => 'lease');
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#twice' } } });
go_on('twice');
await_word('again');
release_held();
await_sql("SELECT count(*) = 1 FROM exactonce_claims WHERE key = 'twice'", 'the first claim is gone');
some_looks();
go_on('end twice');
is(finish_script($run), "claim acquired\nagain acquired\nt\n", 'a session that has the key again is not stopped for its first claim');

# ----- after errors, which disable all timers ----------------------------------------------

foreach my $case (
	[ 'after an error', 1, "SELECT 1/0;\n" ],
	[ 'after an error in a block', 1, "BEGIN;\nSELECT 1/0;\nROLLBACK;\n" ],
	[ 'after a savepoint', 0, "SAVEPOINT s;\nSELECT 1/0;\nROLLBACK TO s;\n" ])
{
	my ($key, $session, $then) = @$case;
	my @args = ($key, 'cancel', "SELECT pg_sleep(600);\n");
	my $run = $session ? start_session(@args, then => $then) : start_victim(@args, then => $then);
	await_active($key);
	steal($key);
	like(finish_script($run), $said{cancel}->($key), "$key: it is told");
}

# An idle session runs no statement that would set the timer again.
$run = start_session('idle after an error', 'terminate', halt_until('idle after an error'), then => "SELECT 1/0;\n");
steal('idle after an error');
await_gone('idle after an error');
go_on('idle after an error');
finish_script($run);
pass('after an error an idle session is terminated');

# ----- heartbeats that are no refusals, and a worker that ends ---------------------------

foreach my $do ('lose', 'drop', 'twice')
{
	my $key = "beat $do";
	reset_proxy();
	fault(key => $key, to => 'lease', do => $do);
	my $run = start_victim($key, 'cancel', "SELECT pg_sleep(600);\nROLLBACK;\n");
	await_active($key);
	wait_until("$key: others come after it", sub { count_requests(key => $key, to => 'lease', status => 200) > 2 });
	goes_on($key, "$key: that is no loss of the claim");
	like(finish_script($run), $by_user, "$key: ... which a user cancels");
}

$run = start_victim('worker', 'cancel', "SELECT pg_sleep(600);\n");
await_active('worker');
fault(key => 'worker', to => 'lease', do => 'hold', times => 0);
await_request(key => 'worker', to => 'lease');
steal('worker');
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
reset_proxy();
like(finish_script($run), $said{cancel}->('worker'), 'a worker that ends before it has found out: the next one does');

# ----- what swallows errors ----------------------------------------------------------------

foreach my $mode ('cancel', 'terminate')
{
	foreach my $how ('PERFORM pg_sleep(600)', 'LOOP END LOOP')
	{
		my $key = "$mode others " . length $how;
		my $run = start_victim($key, $mode,
			"DO \$\$BEGIN FOR i IN 1..3 LOOP BEGIN $how; EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'swallowed'; END; END LOOP; END\$\$;\n");
		await_active($key);
		steal($key);
		my $said = finish_script($run);
		like($said, $said{$mode}->($key), "$key: WHEN OTHERS does not swallow it");
		unlike($said, qr/swallowed/, "$key: at all");
	}
}

# The claim is made in the block, and is rolled back with that before the error comes to the top.
$run = start_script($node, $limit . "SET application_name = 'inner';\nDO \$\$BEGIN PERFORM idem_acquire('inner', @{[ terms('cancel') ]}); LOOP END LOOP; "
	  . "EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'swallowed'; END\$\$;\n");
await_sql("SELECT count(*) = 1 FROM exactonce_claims WHERE key = 'inner' AND state = 'held'", 'inner is held');
steal('inner');
like(finish_script($run), $said{cancel}->('inner'), 'a claim of an inner block is named, too');

$run = start_victim('caught', 'cancel', "DO \$\$BEGIN BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN "
	  . "RAISE NOTICE '%', SQLERRM; END; PERFORM pg_sleep(600); END\$\$;\n");
await_active('caught');
steal('caught');
$out = finish_script($run);
like($out, qr/NOTICE:  00000: canceling statement: the claim on key "caught"/, 'whoever catches cancels is told');
like($out, $said{cancel}->('caught'), '... and is canceled again');

# ----- several claims ------------------------------------------------------------------------

$run = start_victim('one', 'cancel', "SELECT pg_sleep(600);\nROLLBACK;\nSELECT 'it lives on';\n",
	then => "SELECT outcome FROM idem_acquire('other', @{[ terms('terminate') ]});\n");
await_active('one');
steal('one');
$out = finish_script($run);
like($out, $said{cancel}->('one'), 'of two claims one is lost: it is named');
like($out, qr/it lives on/, '... and what was said for the other one does not count');
settled($node);
is(status_of($table, 'other'), 'FAILED', '... which is given back');

$run = start_script($node, $limit . "SET application_name = 'many';\nBEGIN;\n"
	  . "SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'many ' || i FROM generate_series(1, 100) i), lease => '1 s', on_lost => 'cancel');\n"
	  . say_in_script('held many') . "SELECT pg_sleep(600);\n");
await_word('held many');
await_active('many');
steal('many 70');
like(finish_script($run), $said{cancel}->('many 70'), 'of a hundred claims one is lost: it is named');

$run = start_script($node, $limit . "SET application_name = 'start';\nBEGIN;\nSELECT idem_start('start', @{[ terms('cancel') ]});\n"
	  . say_in_script('held start') . "SELECT pg_sleep(600);\n");
await_word('held start');
await_active('start');
steal('start');
like(finish_script($run), $said{cancel}->('start'), 'idem_start');

# A claim that is completed would be refused at COMMIT.
$run = start_victim('completed', 'cancel', "SELECT pg_sleep(600);\n", then => "SELECT idem_complete('completed');\n");
await_active('completed');
steal('completed');
like(finish_script($run), $said{cancel}->('completed'), 'a completed claim is lost before COMMIT');

# One that was given up is no claim any more.
$run = start_victim('given up', 'cancel', "SELECT pg_sleep(600);\nROLLBACK;\n", then => "SELECT idem_release('given up');\n");
await_active('given up');
steal('given up');
goes_on('given up', 'a claim that was released stops nobody');
like(finish_script($run), $by_user, '... and a cancel by a user is one');

# ----- at commit, and after -------------------------------------------------------------------

# The claim of the session is lost while another key is being sealed.
foreach my $how ('COMMIT', 'CALL')
{
	my $key = "seals in $how";
	my $mode = $how eq 'CALL' ? 'cancel' : 'terminate';
	$sql->("CREATE PROCEDURE seals(k text) LANGUAGE plpgsql AS \$\$BEGIN INSERT INTO work VALUES (k); PERFORM idem_acquire(k || '/work'); "
		  . "PERFORM idem_complete(k || '/work'); COMMIT; PERFORM pg_sleep(600); END\$\$") if $how eq 'CALL';
	fault(key => "$key/work", to => 'COMMITTING', do => 'hold');
	my $run = start_session($key, $mode, $how eq 'CALL' ? "CALL seals('$key');\n" :
		  "BEGIN;\nINSERT INTO work VALUES ('$key');\nSELECT outcome FROM idem_acquire('$key/work');\nSELECT idem_complete('$key/work');\nCOMMIT;\n"
		  . halt_until($key) . "SELECT 1;\n");
	await_request(key => "$key/work", to => 'COMMITTING');
	steal($key);
	await_lost($key, 1);
	some_looks();
	release_held();
	await_gone($key) if $how eq 'COMMIT';
	go_on($key);
	my $said = finish_script($run);
	is($sql->("SELECT count(*) FROM work WHERE key = '$key'"), '1', "$how: a seal is not disturbed") or diag($said);
	like($said, $how eq 'COMMIT' ? qr/57P01: terminating connection/ : $said{cancel}->($key), "$how: what comes after is") or diag($said);
	wait_until("$how: the key is completed", sub { status_of($table, "$key/work") eq 'COMPLETED' });
}

# What idem_fail() has said waits for the end of the prepared transaction, and is extended.
$run = start_victim('prepared', 'terminate', "SELECT pg_sleep(600);\n",
	then => "SELECT idem_fail('prepared', '\"no\"');\nPREPARE TRANSACTION 'p';\n");
await_active('prepared');
my $lost = $sql->('SELECT lost_claims FROM exactonce_health');
steal('prepared');
await_sql("SELECT lost_claims > $lost FROM exactonce_health", 'prepared is lost');
goes_on('prepared', 'a session that has prepared its transaction goes on');
like(finish_script($run), $by_user, '... until a user cancels');
$sql->("ROLLBACK PREPARED 'p'");
settled($node);

# The refusal arrives when the next transaction runs.
$run = start_victim('late', 'cancel', halt_until('late') . "ROLLBACK;\nBEGIN;\nINSERT INTO work VALUES ('late');\nSELECT pg_sleep(600);\n");
fault(key => 'late', to => 'lease', do => 'hold');
await_request(key => 'late', to => 'lease');
steal('late');
go_on('late');
await_active('late');
release_held();
settled($node);
goes_on('late', 'a refusal that comes late does not hit the next transaction');
like(finish_script($run), $by_user, '... which a user cancels');

# ----- beside other timers, and rights ----------------------------------------------------------

$blocker = start_script($node, "SELECT pg_advisory_lock(7);\n" . say_in_script('blocked') . halt_until('unblock'));
await_word('blocked');
$out = run_script($node, <<"SQL");
BEGIN;
SELECT outcome FROM idem_acquire('timeout', @{[ terms('cancel') ]});
SET LOCAL statement_timeout = '200 ms';
SELECT pg_sleep(600);
ROLLBACK;
SELECT outcome FROM idem_acquire('lock timeout', @{[ terms('cancel', "on_commit => 'session'") ]});
SET lock_timeout = '200 ms';
SELECT pg_advisory_lock(7);
SQL
go_on('unblock');
finish_script($blocker);
like($out, qr/57014: canceling statement due to statement timeout/, 'statement_timeout works beside it');
like($out, qr/55P03: canceling statement due to lock timeout/, '... and lock_timeout');

$sql->(<<'SQL');
CREATE ROLE owner_of_key; GRANT USAGE ON FOREIGN SERVER exactonce TO owner_of_key;
CREATE FUNCTION acquires() RETURNS text SECURITY DEFINER LANGUAGE sql
	AS $$SELECT outcome::text FROM idem_acquire('definer', lease => '300 ms', on_lost => 'cancel')$$;
ALTER FUNCTION acquires() OWNER TO owner_of_key;
CREATE ROLE caller;
SQL
$run = start_script($node, $limit . "SET application_name = 'definer';\nSET ROLE caller;\nBEGIN;\nSELECT acquires();\n" . say_in_script('definer') . "SELECT pg_sleep(600);\n");
await_word('definer');
await_active('definer');
steal('definer');
like(finish_script($run), $said{cancel}->('definer'), 'a function with the rights of its owner stops its caller');

# ----- layouts --------------------------------------------------------------------------------------

my %layouts = (python => { layout => 'powertools-python' }, custom => { layout => 'custom', key_attribute => 'pk', status_attribute => 'state',
		status_words => 'in_progress=busy, completed=done, failed=failed', expiry_attribute => 'ttl' });
foreach my $layout (sort keys %layouts)
{
	$sql->(server_sql($layout, table => "tap_lost_$layout", clock_skew => 0, %{ $layouts{$layout} }) . "SELECT idem_create_table('$layout')");
	my $run = start_victim($layout, 'cancel', "SELECT pg_sleep(600);\n", terms => "server => '$layout'");
	await_active($layout);
	# An operator of that service removes the record.
	foreach my $item (@{ dynamodb(Scan => { TableName => "tap_lost_$layout" })->{Items} })
	{
		my %key = map { $_ => $item->{$_} } grep { /^(?:id|pk)$/ } keys %$item;
		dynamodb(DeleteItem => { TableName => "tap_lost_$layout", Key => \%key }) unless (values %key)[0]{S} =~ /^ORIGIN#/;
	}
	like(finish_script($run), qr/ERROR:  57014: canceling statement: the claim on key "$layout" on server "$layout" was lost/, "layout $layout");
}

stop_without_crash($node);
done_testing();
