# The life of a database: its item and its beats, its end, and its heirs, when there is
# a copy of the data beside it or a standby is promoted.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# On an idle machine, a beat every half a second; a lease of 2 s; a silent life is retired after 3 s.
my $divisor = hurry(10);
my $hurry = "exactonce.test_hurry = $divisor\n";
my $table = 'tap_lives';
my $node = new_node('lives', conf => "$hurry" . "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n"
	  . "max_connections = 20\nlog_min_messages = log\n");
$node->append_conf('pg_hba.conf', "local replication all trust");
$node->reload;

sub sql_of
{
	my ($of, $text) = @_;
	return $of->safe_psql('postgres', $text);
}

# The life that a server claims under now.
sub life_of
{
	my ($of) = @_;
	return sql_of($of, "SELECT life FROM exactonce_lives WHERE state = 'open'");
}

sub life_item
{
	my ($life) = @_;
	return item($table, "ORIGIN#$life") // {};
}

sub complete
{
	my ($of, $key) = @_;
	my ($out, $err);
	$of->psql('postgres', "BEGIN; INSERT INTO work VALUES ('$key'); SELECT idem_acquire('$key');"
		  . " SELECT idem_complete('$key'); COMMIT", stdout => \$out, stderr => \$err);
	return $err;
}

sub worked
{
	my ($of, $key) = @_;
	return sql_of($of, "SELECT count(*) FROM work WHERE key = '$key'");
}

sub await_state
{
	my ($what, $key, $state) = @_;
	return wait_until($what, sub { (record($table, $key)->{status} // '') eq $state });
}

sql_of($node, 'CREATE TABLE work (key text)');

# ----- the item and its beats --------------------------------------------------

is(complete($node, 'first'), '', 'a key is completed under a life');
my $life = life_of($node);
like($life, qr/^[0-9a-f]{8}-/, 'the view shows the life');
is(life_item($life)->{state}, 'open', 'its item is open');
await_state('the key is completed', 'first', 'COMPLETED');
like(record($table, 'first')->{origin}, qr{^$life/[0-9]+/1/[0-9A-F]+$}, 'the record says under which life it was sealed');
my $beat = life_item($life)->{beat};
wait_until('the beat grows', sub { life_item($life)->{beat} > $beat + 1 });

fault(key => 'ORIGIN#', do => 'lose', times => 3);
$beat = life_item($life)->{beat};
wait_until('replies of beats are lost: the life goes on', sub { life_item($life)->{beat} > $beat + 5 });
is(life_of($node), $life, 'replies of beats are lost: it is the same life');
reset_proxy();

# A beat that somebody else has written beside our nonce is none of ours: the row of the life
# would say that old copies of the data have all of it.
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } },
	UpdateExpression => 'SET #b = :b', ExpressionAttributeNames => { '#b' => 'beat' },
	ExpressionAttributeValues => { ':b' => { N => '1000000000000000' } } });
wait_until('somebody has written a beat: there is another life',
	sub { complete($node, 'written ' . rand()) eq '' && life_of($node) !~ /^(?:$life)?$/ });
wait_until('somebody has written a beat: the life is retired at once', sub { (life_item($life)->{state} // '') eq 'retired' });
cmp_ok(sql_of($node, 'SELECT max(beat) FROM exactonce_internal.lives'), '<', 1_000_000,
	'somebody has written a beat: no row has it');

# ----- the lease ----------------------------------------------------------------

my $run = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('late');\nSELECT idem_acquire('late');\n"
	  . "SELECT idem_complete('late');\n" . say_in_script('ready') . halt_until('go') . "COMMIT;\n");
await_word('ready');
fault(key => 'ORIGIN#', do => 'drop', times => 0);
wait_until('no beat arrives: the lease runs out', sub {
	sql_of($node, "SELECT clock_timestamp() - since > interval '25 s' / $divisor FROM exactonce_lives WHERE state = 'open'") eq 't' });
go_on('go');
like(finish_script($run), qr/ID006/, 'no beat arrives: the transaction cannot commit');
is(worked($node, 'late'), 0, 'no beat arrives: its work is not done');
reset_proxy();
wait_until('beats arrive again: the key can be completed', sub { complete($node, 'late') eq '' });
is(worked($node, 'late'), 1, 'beats arrive again: the work is done once');

# The seal succeeds, and the lease runs out before PostgreSQL writes the commit record.
fault(key => 'IDEMPOTENCY#', to => 'COMMITTING', do => 'delay', ms => 30_000 / $divisor);
fault(key => 'ORIGIN#', do => 'drop', times => 0);
like(complete($node, 'sealed'), qr/the lease of this database has run out/, 'a slow seal: the transaction cannot commit');
is(worked($node, 'sealed'), 0, 'a slow seal: its work is not done');
reset_proxy();

# ----- the item is gone -----------------------------------------------------------

$life = life_of($node);
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } } });
wait_until('the item was removed: there is another life',
	sub { complete($node, 'removed ' . rand()) eq '' && life_of($node) !~ /^(?:$life)?$/ });
wait_until('the item was removed: the life is retired by its heir',
	sub { (life_item($life)->{state} // '') eq 'retired' });
is(life_item($life)->{retired_by}, life_of($node), 'the item was removed: the heir says that it was it');

# ----- shutdown and restart -------------------------------------------------------

$life = life_of($node);
settled($node);
$node->stop;
is(life_item($life)->{state}, 'closed', 'a clean shutdown closes the life');
$node->start;
is(complete($node, 'second'), '', 'after a restart a key is completed');
isnt(life_of($node), $life, 'after a restart there is another life');

# The worker is not always asleep when it is told to end.
foreach my $round (1 .. 3)
{
	$life = life_of($node);
	settled($node);
	my $holder = start_script($node, "BEGIN;\nLOCK TABLE exactonce_internal.outbox IN ACCESS EXCLUSIVE MODE;\n"
		  . say_in_script("locked $round") . "SELECT pg_sleep(600);\n");
	await_word("locked $round");
	wait_until('the worker waits for a lock', sub { sql_of($node, <<'SQL') eq '1' });
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE NOT granted AND backend_type = 'exactonce worker'
SQL
	$node->stop;
	finish_script($holder);
	is(life_item($life)->{state}, 'closed', 'a clean shutdown closes the life in the middle of a round, too');
	$node->start;
	is(complete($node, "second $round"), '', 'after a restart a key is completed');
}

$life = life_of($node);
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, 'third'), '', 'a completion waits for the worker');
crash($node);
is(record($table, 'third')->{status}, 'COMMITTING', 'killed: the key is committing');
reset_proxy();
$node->start;
await_state('killed: after the restart the key is completed without a caller', 'third', 'COMPLETED');
is(life_item($life)->{state}, 'retired', 'killed: the life was retired at once');
is(life_item($life)->{retired_by}, sql_of($node, 'SELECT life FROM exactonce_lives ORDER BY number DESC LIMIT 1'),
	'killed: by the next one');

# ----- a copy beside its original ---------------------------------------------------

is(complete($node, 'before the copy'), '', 'the original works');
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
fault(to => 'COMPLETED', key => 'of the original', do => 'hold', times => 0);
is(complete($node, 'of the original'), '', 'the original has a key under way');
$copy->start;
is(complete($copy, 'of the copy'), '', 'a copy works under a life of its own');
isnt(life_of($copy), life_of($node), 'and not under that of the original');
await_state('what the copy has completed is completed', 'of the copy', 'COMPLETED');
is(sql_of($copy, "SELECT outcome FROM idem_acquire('of the original')"), 'in_progress',
	'to the copy a key of the original is in progress elsewhere');
my $watched = sub { sql_of($copy, "SELECT string_agg(state, ' ') FROM exactonce_lives WHERE life = '" . life_of($node) . "'") };
wait_until('the copy sees that the original is alive', sub { $watched->() =~ /alive/ });
usleep(40_000_000 / $divisor);
is(life_item(life_of($node))->{state}, 'open', 'the copy leaves the life of the original alone');
release_held();
await_state('the original finishes its key', 'of the original', 'COMPLETED');
reset_proxy();
$copy->stop;

# ----- a standby is promoted -----------------------------------------------------

$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
is(complete($node, 'replicated'), '', 'before the failover');
fault(to => 'COMPLETED', do => 'drop', times => 0);
fault(to => 'finished', do => 'drop', times => 0);
sql_of($node, "SELECT action_create(id => 'coupon ' || i) FROM unnest(ARRAY['kept', 'lost']) i");
is(complete($node, 'kept'), '', 'before the failover: a commit that the standby gets');
sql_of($node, "SELECT action_consume('coupon kept', at => 'commit')");
$node->wait_for_catchup($standby, 'replay');
$life = life_of($node);
$standby->stop;
is(complete($node, 'lost'), '', 'before the failover: a commit that the standby does not get');
sql_of($node, "SELECT action_consume('coupon lost', at => 'commit')");
is(item($table, "ACTION#coupon $_")->{status}, 'COMMITTING', "before the failover: coupon $_ is sealed") foreach 'kept', 'lost';
is(record($table, $_)->{status}, 'COMMITTING', "before the failover: $_ is committing") foreach 'kept', 'lost';
is(sql_of($node, "SELECT outcome FROM idem_acquire('held', lease => '1 hour', on_commit => 'keep')"), 'acquired',
	'before the failover: a claim that outlives its transaction');
my $leader = start_script($node, "SELECT outcome FROM idem_acquire('led', lease => '1 hour', on_commit => 'session');\n"
	  . say_in_script('leads') . halt_until('resigns'));
await_word('leads');
my $open = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('open');\nSELECT idem_acquire('open');\n"
	  . "SELECT idem_complete('open');\n" . say_in_script('ready') . halt_until('go') . "COMMIT;\n");
await_word('ready');
my @frozen = processes_of($node);
kill 'STOP', @frozen;
$standby->start;
$standby->promote;
reset_proxy();
is(complete($standby, 'new'), '', 'the promoted standby works at once');
await_state('what has committed on the standby, too, is completed without a caller', 'kept', 'COMPLETED');
is(life_item($life)->{state}, 'retired', 'the life of the old primary is retired');
is(worked($standby, 'lost'), 0, 'a commit was lost');
await_state('what has not committed is given back without a caller', 'lost', 'FAILED');
await_state('so is the claim of a transaction that was open', 'open', 'FAILED');
is(record($table, 'held')->{status}, 'IN_PROGRESS', 'a claim that outlives its transaction is left alone');
is(record($table, 'led')->{status}, 'IN_PROGRESS', 'and so is that of a session, which nobody here can see');
wait_until('an action whose consume has committed on the standby is consumed without a caller',
	sub { item($table, 'ACTION#coupon kept')->{consumedAt} });
wait_until('one whose consume was lost is given back', sub { !exists item($table, 'ACTION#coupon lost')->{status} });
is(sql_of($standby, "SELECT state FROM action_get('coupon lost')"), 'active', '... and can be consumed');
wait_until('its key can be claimed again', sub {
	sql_of($standby, "SELECT outcome FROM idem_acquire('lost', on_commit => 'keep')") eq 'acquired' });

# ----- the old primary goes on ------------------------------------------------------

kill 'CONT', @frozen;
go_on('go');
go_on('resigns');
finish_script($leader);
like(finish_script($open), qr/ID006/, 'the old primary continues: a transaction that was open cannot commit');
is(worked($node, 'open'), 0, 'the old primary continues: its work is not done');
# Its next key needs one.
wait_until('the old primary begins another life', sub { complete($node, 'old ' . rand()) eq '' && life_of($node) !~ /^(?:$life)?$/ });
is(sql_of($node, "SELECT outcome FROM idem_acquire('kept')"), 'completed', 'the old primary: what was completed is completed');
is(record($table, 'lost')->{status}, 'IN_PROGRESS', 'the old primary: what is claimed anew stays claimed');
like(sql_of($node, "SELECT waits_for FROM exactonce_pending WHERE key = 'lost'"), qr/^life $life: has another heir$/,
	'the old primary keeps the row of what was lost, leaves it alone, and says why');
$standby->stop;
$node->stop;

# ----- workers that do not live long ------------------------------------------------------

# An heir takes over by itself only if no more than 24 beats are missing in its data.
my $brief = new_node('brief', conf => $hurry);
my $beats = sub { return split /\|/, $brief->safe_psql('postgres', "SELECT life, beat, noted_beat FROM exactonce_lives WHERE state = 'open' AND beat IS NOT NULL") };
$brief->safe_psql('postgres', "SELECT idem_acquire('lasting', lease => '1 hour', on_commit => 'keep')");
my $busy = start_script($brief, "BEGIN;\nSELECT outcome FROM idem_acquire('open');\n" . say_in_script('busy') . halt_until('idle') . "ROLLBACK;\n");
await_word('busy');
my $farthest = 0;
foreach my $round (1 .. 4)
{
	my ($life, $before) = $beats->();
	wait_until("the life beats, round $round", sub { my ($same, $beat) = $beats->(); defined $same && ($same ne $life || $beat >= $before + 7) });
	my ($same, $beat, $noted) = $beats->();
	$farthest = $beat - $noted if $beat - $noted > $farthest;
	$brief->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
}
cmp_ok($farthest, '<=', 24, 'workers that are ended again and again note how far the life has come');
go_on('idle');
finish_script($busy);
$brief->stop;
done_testing();
