# samples/saga.sql: a session is killed at any of its requests, and the saga is called again from
# another session or another database.  Each step and each undo is done once; and what is done is
# either everything, or undone in reverse order.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# At every third request; EO_ROUNDS=1: at every sixth, and 6: at each.
my $stride = max(1, int 6 / ($ENV{EO_ROUNDS} // 2));
my $sample = slurp_file("$FindBin::Bin/../../../samples/saga.sql");
my $node = new_node('saga', conf => 'restart_after_crash = on');
my @databases = ('postgres', 'other');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => 'tap_saga'));
foreach my $database (@databases)
{
	$node->safe_psql($database, $sample . <<'SQL');
CREATE TABLE ledger (saga text, what text, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE bad (what text);
CREATE FUNCTION run(saga text, name text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM bad WHERE what = name) THEN RAISE EXCEPTION '% is bad', name; END IF;
	INSERT INTO ledger (saga, what) VALUES (saga, name);
	RETURN to_jsonb('did ' || name);
END $$;
CREATE FUNCTION a(s jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT run(s->>'payload', 'a') $$;
CREATE FUNCTION b(s jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT run(s->>'payload', 'b') $$;
CREATE FUNCTION c(s jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT run(s->>'payload', 'c') $$;
CREATE FUNCTION undo_a(s jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT run(s->>'payload', 'undo a') $$;
CREATE FUNCTION undo_b(s jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT run(s->>'payload', 'undo b') $$;
SQL
}

sub call
{
	my ($saga, $more) = @_;
	return "CALL run_saga('$saga', to_jsonb('$saga'::text), ARRAY[('a', 'a(jsonb)', 'undo_a(jsonb)'),"
	  . " ('b', 'b(jsonb)', 'undo_b(jsonb)'), ('c', 'c(jsonb)', NULL)]::saga_step[]$more);\n";
}

# What is in the ledgers of both databases, in order.
sub done
{
	my ($saga) = @_;
	my %at;
	foreach my $database (@databases)
	{
		$at{$_} .= 'x' foreach split /\n/,
		  $node->safe_psql($database, "SELECT extract(epoch FROM at) || ' ' || what FROM ledger WHERE saga = '$saga'");
	}
	return join ', ', map { s/^\S+ //r } sort { ($a =~ /^(\S+)/)[0] <=> ($b =~ /^(\S+)/)[0] } keys %at;
}

sub set_bad
{
	my (@bad) = @_;
	foreach my $database (@databases)
	{
		$node->safe_psql($database, 'TRUNCATE bad; ' . join ' ', map { "INSERT INTO bad VALUES ('$_');" } @bad);
	}
	return;
}

# Calls until the saga has ended, from one database or in turns from both.
sub call_until_end
{
	my ($saga, $more, @from) = @_;
	my $output = '';
	my $end = time() + paced(60);
	for (my $n = 0; time() < $end; $n++)
	{
		# A server that was killed may not be back yet.
		$output = run_script($node, call($saga, $more), $from[ $n % @from ]);
		return $output if $output =~ /did c|was undone/;
		usleep(100_000);
	}
	return "no end: $output";
}

# Without faults.
like(run_script($node, call('plain', '')), qr/"a": "did a"/, 'a saga returns the results of its steps');
run_script($node, call('plain', '')) for 1 .. 2;
is(done('plain'), 'a, b, c', 'called again, it does nothing again');

set_bad('c');
like(run_script($node, call('bad', ', max_runs => 2')), qr/P0001: step c of saga bad: c is bad/, 'a step that fails is told');
is(done('bad'), 'a, b', 'nothing is undone as long as it can be tried again');
like(run_script($node, call('bad', ', max_runs => 2')), qr/P0001: saga bad was undone/, 'it has failed for good');
is(done('bad'), 'a, b, undo b, undo a', 'what was done is undone in reverse order');
like(run_script($node, call('bad', ', max_runs => 2'), 'other'), qr/P0001: saga bad was undone/, 'another database is told, too');
is(done('bad'), 'a, b, undo b, undo a', 'and undoes nothing again');
like(run_script($node, call('bad', ', max_runs => 3')), qr/ID003/, 'all calls have the same max_runs');

set_bad('c', 'undo b');
like(run_script($node, call('stuck', ', max_runs => 1')), qr/undo b is bad/, 'an undo that fails is told');
set_bad('c');
like(call_until_end('stuck', ', max_runs => 1', 'postgres'), qr/was undone/, 'an undo that fails is tried again');
is(done('stuck'), 'a, b, undo b, undo a', 'until it works, and once');

set_bad();
my $script = start_script($node, "BEGIN; SELECT idem_acquire(idem_key('busy'::text, 'b'::text));\n"
	  . say_in_script('held') . halt_until('go') . 'ROLLBACK;');
await_word('held');
like(run_script($node, call('busy', '')), qr/ID001/, 'a step in progress elsewhere is told');
is(done('busy'), 'a', 'and nothing is decided');
go_on('go');
finish_script($script);
like(call_until_end('busy', '', 'postgres'), qr/did c/, 'it goes on when that has ended');
is(done('busy'), 'a, b, c', 'with what was left');

# Killed at each request of the saga, before and after it has taken effect; the last call is the
# one that has fewer requests.
foreach my $kind ([ 'forward', 'a, b, c' ], [ 'back', 'a, b, undo b, undo a', 'c' ])
{
	my ($name, $wanted, @bad) = @$kind;
	set_bad(@bad);
	my $was_killed = 1;
	for (my $nth = 1; $was_killed; $nth += $stride)
	{
		my $saga = "$name$nth";
		my $applied = $nth / $stride % 2 ? 'true' : 'false';
		my $signal = $nth / $stride % 4 < 2 ? 'SIGKILL' : 'SIGTERM';
		# The next failure is for good.
		run_script($node, call($saga, ', max_runs => 2')) if @bad;
		my $output = run_script($node, <<"SQL" . call($saga, ', max_runs => 2'));
SELECT pg_backend_pid() AS pid
\\gset
\\setenv PID :pid
\\! curl -s -X POST "\$EO_CONTROL/fault" -d "{\\"do\\":\\"kill\\",\\"nth\\":$nth,\\"applied\\":$applied,\\"signal\\":\\"$signal\\",\\"pid\\":\$PID}"
SQL
		$was_killed = $output =~ /terminat|closed the connection/;
		reset_proxy();
		$node->poll_query_until('postgres', 'SELECT true') or die 'the server did not come back';
		my $end = call_until_end($saga, ', max_runs => 2', $nth / $stride % 2 ? ('postgres') : ('other', 'postgres'));
		is(done($saga), $wanted, "$name, $signal at request $nth, applied: $applied: once") or diag($output, $end);
	}
}

# Every second request is lost, comes twice, or is late and sent again.
foreach my $do ('drop', 'lose', 'twice', 'late')
{
	fault(do => $do, every => 2, times => 0, $do eq 'late' ? (lost => \1, ms => 100) : ());
	foreach my $kind ([ 'forward', 'a, b, c' ], [ 'back', 'a, b, undo b, undo a', 'c' ])
	{
		my ($name, $wanted, @bad) = @$kind;
		set_bad(@bad);
		my $end = call_until_end("$name $do", ', max_runs => 1', 'postgres', 'other');
		is(done("$name $do"), $wanted, "$name, $do: once") or diag($end);
	}
	reset_proxy();
}
control('GET', '/quiet?seconds=' . paced(60));
is(done("$_->[0] late"), $_->[1], "$_->[0]: late requests change nothing") foreach [ 'forward', 'a, b, c' ], [ 'back', 'a, b, undo b, undo a' ];
set_bad();

# Bad input, rights, and a table of another layout.
my %bad = (
	'no steps at all' => [ "CALL run_saga('KEY', '1', NULL)", qr/22004/, '' ],
	'no handler' => [ "CALL run_saga('KEY', to_jsonb('KEY'::text), ARRAY[('a', 'a(jsonb)', NULL), ('b', NULL, NULL)]::saga_step[])", qr/22004: step b of saga/, 'a' ],
	'one name twice' => [ "CALL run_saga('KEY', to_jsonb('KEY'::text), ARRAY[('a', 'a(jsonb)', NULL), ('a', 'b(jsonb)', NULL)]::saga_step[])", qr/ID003: step a of saga/, 'a' ]);
foreach my $what (sort keys %bad)
{
	my ($call, $error, $done) = @{ $bad{$what} };
	like(run_script($node, $call =~ s/KEY/$what/gr . ";\n"), $error, "$what: refused");
	is(done($what), $done, "$what: ... and nothing is undone that was not done");
}
is(run_script($node, "CALL run_saga('empty', '1', '{}');\n"), "{}\n", 'a saga of no steps ends at once');
like(run_script($node, call('plain', '') =~ s/'c', 'c\(jsonb\)', NULL/'d', 'c(jsonb)', NULL/r), qr/ID003/, 'all calls have the same steps');
$node->safe_psql('postgres', <<'SQL' . server_sql('custom', table => 'tap_saga_custom', layout => 'custom', key_attribute => 'id', status_attribute => 'state', expiry_attribute => 'ttl') . "SELECT idem_create_table('custom')");
CREATE ROLE app; GRANT INSERT ON ledger TO app; GRANT SELECT ON bad TO app; GRANT USAGE ON FOREIGN SERVER exactonce TO app; CREATE ROLE guest;
SQL
like(run_script($node, "SET ROLE app;\n" . call('of a role', '')), qr/"c": "did c"/, 'a role that may use the server, and what the steps need');
like(run_script($node, "SET ROLE guest;\n" . call('of a guest', '')), qr/42501: permission denied for foreign server/, 'one that may not');
is(done('of a role') . done('of a guest'), 'a, b, c', '... does nothing');
like(run_script($node, "SET exactonce.server = 'custom';\n" . call('custom', '')), qr/"c": "did c"/, 'another layout');
set_bad('c');
like(run_script($node, "SET exactonce.server = 'custom';\n" . call('custom back', ', max_runs => 1')), qr/was undone/, 'another layout, back');
is(done('custom back'), 'a, b, undo b, undo a', '... in reverse order');

settled($node, $_) foreach @databases;
$node->stop;
done_testing();
