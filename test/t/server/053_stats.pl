# The counters of exactonce_stats agree exactly with the log of the proxy and with what the
# clients have counted, with lost answers, throttling and backends that are terminated; they
# outlive a clean restart, and after a crash they begin anew and say so.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use Test::More;

my $table = 'tap_counted';
my $clients = 8;
my $rounds = 25;
my $node = new_node('stats');
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# Nothing may run out of time, however slow the machine is: a request that its client gives
# up on its own is one that the proxy has answered.
$sql->(server_sql('counted', table => $table, return_capacity => 'on', lease => '10min',
	map({ $_ => '60s' } qw(connect_timeout commit_timeout)), request_timeout => '120s', max_attempts => 10));
$sql->("SELECT idem_create_table('counted')");

# The columns of a row of exactonce_stats.
sub stats
{
	my ($server, $database) = @_;
	my $row = $node->safe_psql($database // 'postgres', "SELECT to_jsonb(s) FROM exactonce_stats s WHERE server = '$server'");
	return $row eq '' ? undef : decode_json($row);
}

# "a b" => number, of the rows of some kind in exactonce_stats_details, or of another view.
sub details
{
	my ($kind, $columns, $view) = @_;
	return { map { /^(.*) (\d+)$/ ? ($1 => $2) : () } split /\n/, $sql->("SELECT concat_ws(' ', "
		  . ($columns // 'name, result, count') . ') FROM ' . ($view // 'exactonce_stats_details') . " WHERE server = 'counted' AND kind ~ '$kind'") };
}

sub in_order
{
	my ($numbers) = @_;
	return join ', ', map { "$_: $numbers->{$_}" } sort keys %$numbers;
}

# ----- clients with faults ----------------------------------------------------

# What a client does: it claims keys that others claim, too, and completes those it gets.
# It says what it was told of each call.
sub script_of
{
	my ($client) = @_;
	my $script = "SET exactonce.server = 'counted';\n\\set VERBOSITY sqlstate\n";
	foreach my $i (1 .. $rounds)
	{
		my $key = 'k' . (($client * 5 + $i) % 60);
		$script .= "\\set outcome error\nBEGIN;\n"
		  . "SELECT outcome, outcome = 'acquired' AS got FROM idem_acquire('$key') \\gset\n"
		  . "\\echo idem_acquire :outcome\n"
		  . "\\if :got\nSELECT idem_complete('$key', '{\"by\": $client}');\n\\echo idem_complete returned\n\\endif\nCOMMIT;\n";
	}
	return $script . "SELECT idem_get('k1') IS NOT NULL AS found \\gset\n\\echo idem_get returned\n";
}

# Each acts on some requests of each client, and of the worker.
fault(do => 'lose', op => 'UpdateItem', key => 'IDEMPOTENCY#k', nth => 7 * $_, times => 1) foreach 1 .. 6;
fault(do => 'answer', status => 400, code => 'ThrottlingException', op => 'UpdateItem', key => 'IDEMPOTENCY#k',
	nth => 11 * $_, times => 2) foreach 1 .. 4;
fault(do => 'answer', status => 500, code => 'InternalServerError', op => 'UpdateItem', key => 'IDEMPOTENCY#k',
	nth => 13 * $_, times => 1) foreach 1 .. 3;

my @runs = map { start_script($node, script_of($_)) } 1 .. $clients;
my %told;
foreach my $run (@runs)
{
	my $output = finish_script($run);
	unlike($output, qr/ERROR|FATAL/, 'no call of a client failed');
	$told{$_}++ foreach grep { /^\w+ \w+$/ } split /\n/, $output;
}

# ----- calls that are cancelled, refused and terminated -------------------------

sub leave_a_call
{
	my ($key, $function) = @_;
	fault(do => 'hold', key => "IDEMPOTENCY#$key", to => 'IN_PROGRESS');
	my $run = start_script($node, "SELECT outcome FROM idem_acquire('$key', server => 'counted');\n");
	await_request(key => "IDEMPOTENCY#$key", to => 'IN_PROGRESS');
	$sql->("SELECT $function(pid) FROM pg_stat_activity WHERE query LIKE '%idem_acquire(''$key''%' AND pid <> pg_backend_pid()");
	return finish_script($run);
}
foreach my $i (1 .. 3)
{
	like(leave_a_call("terminated $i", 'pg_terminate_backend'), qr/terminating connection/, 'a call is terminated');
	$told{'idem_acquire terminated'}++;
}
like(leave_a_call('cancelled', 'pg_cancel_backend'), qr/57014/, 'a call is cancelled');
release_held();
$told{'idem_acquire error'}++;
like(run_script($node, "SELECT idem_complete('nobody has it', server => 'counted');\n"), qr/ID008/, 'a call is refused');
$told{'idem_complete error'}++;
run_script($node, "SELECT idem_acquire('', server => 'counted');\n");

# One statement for many keys: each key counts.
my $many = $sql->(<<'SQL');
BEGIN;
SELECT outcome, count(*) FROM idem_acquire_many(ARRAY['m1', 'm2', 'm1', 'k1', 'k2'], server => 'counted') GROUP BY 1 ORDER BY 1;
SELECT idem_complete_many(ARRAY['m1', 'm2'], server => 'counted');
COMMIT
SQL
is($many, "acquired|2\ncompleted|2\nin_progress|1\n2", 'many keys are claimed at once');
$told{"idem_acquire_many $_->[0]"} += $_->[1] foreach [ acquired => 2 ], [ completed => 2 ], [ in_progress => 1 ];
$told{'idem_complete_many returned'} += 2;
$told{'idem_create_table returned'}++;
settled($node);

# ----- they agree -----------------------------------------------------------------

is(in_order(details('call')), in_order(\%told),
	'the calls are those that the clients have made');
is(in_order(details('error')),
	in_order({ 'call 57014' => 1, 'call ID008' => 1, 'request InternalServerError' => 3,
		'request ThrottlingException' => 8 }), '... and errors are counted by their codes');

my %result_of = ('' => 'ok', ConditionalCheckFailedException => 'condition_failed', ThrottlingException => 'throttled',
	InternalServerError => 'server_error', cut => 'unanswered');

# The requests of the table as the proxy has them, its own life's included.
sub logged
{
	return grep { $_->{table} eq $table } requests(), requests(key => 'ORIGIN#');
}

sub is_left
{
	my ($entry) = @_;
	return $entry->{to} eq 'IN_PROGRESS' && $entry->{key} =~ /terminated|cancelled/;
}

# What the counters must be, by the proxy's log.
sub expected
{
	my (%requests, %sums);
	foreach my $entry (logged())
	{
		my $result = is_left($entry) ? 'canceled' : $result_of{ $entry->{code} } // $entry->{code};
		$requests{"$entry->{op} $result"}++;
		$sums{requests}++;
		$sums{bytes_sent} += $entry->{bytes};
		next if $result =~ /canceled|unanswered/;
		$sums{bytes_received} += $entry->{received};
		$sums{capacity_units} += $entry->{units} // 0 if $result eq 'ok';
	}
	return (\%requests, \%sums);
}

# A worker beats, so the log and the counters are read until nothing has come between.
my $difference = 'nothing was compared';
wait_until('the requests, bytes and units are those that the proxy has seen', sub {
	my ($requests, $sums) = expected();
	my $stats = stats('counted');
	my $counted = details('request');
	$difference = in_order($requests) . ' | ' . in_order($sums) . "\n" . in_order($counted) . ' | '
	  . in_order({ map { $_ => $stats->{$_} } keys %$sums });
	return in_order($requests) eq in_order($counted) && !grep { $stats->{$_} != $sums->{$_} } keys %$sums;
}) or diag($difference);

my $stats = stats('counted');
is($stats->{throttles}, 8, 'throttled requests are counted');
# The worker may give up a request, and make another one later.
is($stats->{retries} + $stats->{worker_retries}, 6 + 8 + 3, 'each fault has cost one retry');
cmp_ok($stats->{unknown_outcomes}, '<=', $stats->{worker_retries}, 'no outcome of a call stayed unknown');
my $lost = grep { $_->{code} eq 'cut' && !is_left($_) } logged();
is($lost, 6, 'six answers were lost');
ok($stats->{own_writes} > 0 && $stats->{own_writes} <= $lost, 'writes whose answers were lost were recognised');
my $finished = $told{'idem_complete returned'} + 2;
is($stats->{rows_finished}, $finished, 'the worker has finished what was completed');
my $duplicates = $told{'idem_acquire completed'} + ($told{'idem_acquire in_progress'} // 0) + 3;
is($stats->{duplicates_here} + $stats->{duplicates_service}, $duplicates, 'each duplicate was answered here or by the service');
cmp_ok($stats->{duplicates_service}, '>=', $told{'idem_acquire completed'}, 'those of finished keys by the service');
is($stats->{since_reason}, 'first use', 'counting began with the first use');
is($stats->{oldest_pending}, undef, 'nothing is pending');

# Each histogram has what it measures; calls that were terminated have no duration.
my $calls = 0;
$calls += $told{$_} foreach grep { !/many|terminated/ } keys %told;
my $counts = details('', 'kind, le, count', 'exactonce_stats_histograms');
is($counts->{'call Infinity'}, $calls + 2, 'the histogram has each call');
is($counts->{'completion Infinity'}, $finished, '... the time to COMPLETED of each key');
is($counts->{'seal Infinity'}, $told{'idem_complete returned'} + 1, '... the seal of each transaction');
cmp_ok($counts->{'request Infinity'}, '>', $calls, '... and requests');
is($sql->("SELECT count(*) FROM (SELECT count - lag(count) OVER (PARTITION BY kind ORDER BY le) AS more
	FROM exactonce_stats_histograms WHERE server = 'counted') h WHERE more < 0"), 0, 'buckets only grow');
is($sql->("SELECT count(*) FROM exactonce_stats WHERE server = 'counted' AND call_p50 > 0 AND call_p50 <= call_p95
	AND call_p95 <= call_p99 AND request_p99 > 0 AND seal_p99 > 0 AND completion_p99 > 0"), 1, 'percentiles are in order');

# ----- who may see them ------------------------------------------------------------

$sql->(<<'SQL');
CREATE ROLE nobody LOGIN;
CREATE ROLE user_of_one LOGIN;
GRANT USAGE ON FOREIGN SERVER exactonce TO user_of_one;
CREATE ROLE monitor LOGIN;
GRANT pg_monitor TO monitor;
CREATE DATABASE other;
SQL
my $seen_by = sub {
	my ($role, $database, $view) = @_;
	return $node->safe_psql($database, 'SELECT string_agg(DISTINCT server, \',\' ORDER BY server) FROM ' . ($view // 'exactonce_stats'),
		extra_params => [ '-U', $role ]);
};
$node->safe_psql('other', 'CREATE EXTENSION exactonce');
is($seen_by->('nobody', 'postgres'), '', 'a role without servers sees no counters');
is($seen_by->('user_of_one', 'postgres'), 'exactonce', 'a role sees the servers it may use');
is($seen_by->('user_of_one', 'postgres', $_), 'exactonce', "... in $_, too") foreach qw(exactonce_stats_details exactonce_stats_histograms);
is($seen_by->('monitor', 'postgres'), 'counted,exactonce', 'pg_monitor sees all');
is($seen_by->('monitor', 'other'), 'counted,exactonce', '... from other databases, too');
is($seen_by->('user_of_one', 'other'), '', '... from which others see nothing');
my ($status, undef, $refusal) = $node->psql('postgres', 'SELECT exactonce_stats_reset()', extra_params => [ '-U', 'monitor' ]);
like($refusal, qr/permission denied for function exactonce_stats_reset/, 'nobody but an operator sets them to zero');
is($sql->("SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname LIKE 'exactonce\\_stats%'
	AND c.relkind = 'v' AND a.attnum > 0 AND col_description(c.oid, a.attnum) IS NULL"), 0, 'each column has a comment');

# ----- restarts --------------------------------------------------------------------

$sql->("ALTER SERVER counted RENAME TO renamed");
$node->restart;
my $after = stats('renamed');
is_deeply([ @$after{qw(calls call_errors since since_reason rows_finished duplicates_here own_writes)} ],
	[ @$stats{qw(calls call_errors since since_reason rows_finished duplicates_here own_writes)} ],
	'the counters outlive a clean restart, and the name of the server');
cmp_ok($after->{requests}, '>=', $stats->{requests}, '... those of requests, too');

$sql->("SELECT exactonce_stats_reset('renamed')");
$sql->("SELECT idem_get('k1', server => 'renamed')");
$after = stats('renamed');
is("$after->{calls} $after->{since_reason}", '1 reset', 'they begin anew when they are set to zero');
cmp_ok(stats('exactonce')->{calls}, '>', 0, '... and others do not');

crash($node);
$node->start;
is((stats('renamed') // {})->{calls} // 0, 0, 'after a crash there are none');
$sql->("SELECT idem_get('k1', server => 'renamed')");
$after = stats('renamed');
is("$after->{calls} $after->{since_reason}", '1 crash', '... they begin anew, and say so');

# ----- more servers than there is room for ---------------------------------------------

$sql->(join '', map { server_sql("many$_", table => $table) } 1 .. 140);
my $each = sub {
	my (@numbers) = @_;
	$sql->(join '', map { "SELECT idem_get('k1', server => 'many$_') IS NULL;" } @numbers);
};
$each->(1 .. 140);
is($sql->("SELECT sum(calls) FROM exactonce_stats WHERE server LIKE 'many%' OR server = 'others'"), 140, 'no call is lost when there is no room');
cmp_ok($sql->("SELECT calls FROM exactonce_stats WHERE server = 'others'"), '>', 0, '... the last ones count together');
$sql->("DROP SERVER many$_ CASCADE") foreach 1 .. 10;
$sql->(server_sql('late', table => $table));
$sql->("SELECT idem_get('k1', server => 'late')");
is(stats('late')->{calls}, 1, 'the room of servers that were dropped is used again');
is($sql->("SELECT count(*) FROM exactonce_stats WHERE server IN ('many1', 'many10')"), 0, '... which are not shown any more');

stop_without_crash($node, kills => 1);
done_testing();
