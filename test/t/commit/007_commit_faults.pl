# What networks and services can do to each write of a commit: the seal, the
# finish, the release after an abort, the heartbeat, the claim at commit.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Faults;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_commit_faults';
my %options = (commit_timeout => '4s', request_timeout => '2s', clock_skew => 0);
my $node = new_node('commit_faults', options => \%options);
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };
$sql->('CREATE TABLE work (key text)');

# The record of a key, with the status none if there is none.
sub record_of
{
	my ($key, $elsewhere) = @_;
	return record($elsewhere // $table, $key) // { status => 'none' };
}

sub count_work
{
	my ($key) = @_;
	return $sql->("SELECT count(*) FROM work WHERE key = '$key'");
}

# Work under a key that is claimed first.
sub working
{
	my ($key, $end) = @_;
	$end //= 'COMMIT';
	return <<"SQL";
BEGIN;
SELECT outcome FROM idem_acquire('$key');
INSERT INTO work VALUES ('$key');
SELECT idem_complete('$key', '"of $key"');
$end;
SQL
}

# Work under a key that is claimed at commit.
sub working_once
{
	my ($key) = @_;
	return <<"SQL";
BEGIN;
INSERT INTO work VALUES ('$key');
SELECT idem_once('$key', '"of $key"');
COMMIT;
SQL
}

# Work and key say the same: both done, with the result of that work, or neither.
sub both_done
{
	my ($key, $what, $elsewhere) = @_;
	my $record = record_of($key, $elsewhere);
	return is(join(' ', count_work($key), @{$record}{qw(status result)}), qq(1 COMPLETED "of $key"), $what);
}

sub neither_done
{
	my ($key, $what, $elsewhere) = @_;
	my $record = record_of($key, $elsewhere);
	return is(join(' ', count_work($key), $record->{status}, $record->{result} // '-'), '0 FAILED -', $what);
}

# ----- each write under each fault --------------------------------------------

# Those with a code end a commit, with that SQLSTATE.
my @faults = (
	(map { fault_named($_) } 'request lost', 'answer lost', 'reset after it was applied', 'request doubled',
		'request doubled, first answer counts', 'answer cut in its body', 'answer garbled',
		'answer with a wrong checksum', 'answer for another key', 'answer for another owner', 'status 500', 'status 503',
		'throttled'),
	{ name => 'request late', do => [ { do => 'delay', ms => paced(300) } ] },
	{ %{ fault_named('access denied') }, code => 'ID007' },
	{ %{ fault_named('request invalid') }, code => 'ID007' },
	{ %{ fault_named('never an answer') }, code => 'ID006' },
	{ name => 'request never arrives', do => [ { do => 'drop', times => 0 } ], code => 'ID006' });

my $n = 0;
foreach my $way ([ 'seal', \&working ], [ 'claim at commit', \&working_once ])
{
	my ($write, $transaction) = @$way;
	foreach my $fault (@faults)
	{
		my $what = "$write, $fault->{name}";
		my $key = 'seal ' . ++$n . '.';
		reset_proxy();
		fault(%$_, key => $key, to => 'COMMITTING') foreach @{ $fault->{do} };
		my $out = run_script($node, $transaction->($key));
		reset_proxy();
		settled($node);
		if (!$fault->{code})
		{
			unlike($out, qr/ERROR/, "$what: the transaction commits");
			both_done($key, "$what: the work is there and its key is completed");
			next;
		}
		like($out, qr/ERROR:  $fault->{code}/, "$what: the transaction fails with $fault->{code}");
		if (record_of($key)->{status} eq 'none')
		{
			is(count_work($key), '0', "$what: the work is not there, and there is no record");
		}
		else
		{
			neither_done($key, "$what: the work is not there and its key is given back");
		}
	}
}

# After the commit or the abort nothing fails any more: it only takes longer.  After
# some faults the worker leaves the table alone for seconds: these have tables of their
# own, for which it waits at the same time.
my @ends;
foreach my $fault (@faults)
{
	foreach my $write ('finish', 'release')
	{
		my $key = "$write " . ++$n . '.';
		my $end = { what => "$write, $fault->{name}", key => $key, write => $write };
		my $to = $write eq 'finish' ? 'COMPLETED' : 'FAILED';
		my $server = 'exactonce';
		if ($fault->{code})
		{
			$server = "server_$n";
			$end->{table} = "${table}_$n";
			$sql->(server_sql($server, table => $end->{table}, %options) . "SELECT idem_create_table('$server')");
		}
		fault(%$_, key => $key, to => $to) foreach @{ $fault->{do} };
		my $script = working($key, $write eq 'finish' ? 'COMMIT' : 'ROLLBACK');
		unlike(run_script($node, "SET exactonce.server = $server;\n$script"), qr/ERROR/,
			"$end->{what}: the session sees no error");
		is($sql->("SELECT outcome, result FROM idem_acquire('$key', server => '$server')"), qq(completed|"of $key"),
			"$end->{what}: the key is completed for this database at once")
		  if $write eq 'finish';
		await_request(key => $key, to => $to);
		push @ends, $end;
	}
}
end_fault($_->{key}) foreach @ends;
settled($node);
foreach my $end (@ends)
{
	my ($key, $what) = @{$end}{qw(key what)};
	$end->{write} eq 'finish'
	  ? both_done($key, "$what: the key is completed for everybody in the end", $end->{table})
	  : neither_done($key, "$what: the key is given back in the end", $end->{table});
}

# ----- late requests ----------------------------------------------------------

# a release that is on its way
reset_proxy();
fault(key => 'given back', to => 'FAILED', do => 'hold');
run_script($node, working('given back', 'ROLLBACK'));
await_request(key => 'given back', to => 'FAILED');
is($sql->("SELECT outcome, run FROM idem_acquire('given back', wait => '@{[ paced('20 s') ]}')"), 'acquired|2',
	'late release: the key of an aborted transaction can be had here before it arrives');
release_held();
settled($node);
is(record_of('given back')->{status}, 'IN_PROGRESS', 'late release: it does not touch the next run');

# a heartbeat that arrives after the end of its claim
my $lease_time = paced('1500 ms');
reset_proxy();
fault(key => 'beaten', to => 'lease', do => 'hold');
my $run = start_script($node,
	"BEGIN;\nSELECT outcome FROM idem_acquire('beaten', lease => '$lease_time');\n"
	  . halt_until('two heartbeats were sent') . "SELECT idem_complete('beaten', '1');\nCOMMIT;\n");
await_request(key => 'beaten', to => 'lease', n => 2);
go_on('two heartbeats were sent');
unlike(finish_script($run), qr/ERROR/, 'late heartbeat: the claim is kept by the next one');
settled($node);
my $completed = record_of('beaten');
release_held();
wait_until('late heartbeat: it is refused when it arrives after the end',
	sub { requests(key => 'beaten', to => 'lease', status => 400) });
is_deeply(record_of('beaten'), $completed, 'late heartbeat: it changes nothing');

# a heartbeat that arrives after the one that was sent later
reset_proxy();
fault(key => 'reordered', to => 'lease', do => 'hold');
$run = start_script($node,
	"BEGIN;\nSELECT outcome FROM idem_acquire('reordered', lease => '$lease_time');\n" . halt_until('end') . "ROLLBACK;\n");
# The first that is applied is the one that is held, sent again.
wait_until('heartbeats in another order: the later one is applied',
	sub { count_requests(key => 'reordered', to => 'lease', status => 200) >= 2 });
my $lease = record_of('reordered')->{lease_ms};
release_held();
wait_until('heartbeats in another order: the earlier one arrives after it',
	sub { requests(key => 'reordered', to => 'lease', status => 400) });
cmp_ok(record_of('reordered')->{lease_ms}, '>=', $lease, 'heartbeats in another order: the lease is not shortened');
go_on('end');
finish_script($run);
settled($node);

# a seal, or a claim at commit, that arrives after its transaction was rolled back
foreach my $way ([ 'late seal', working('late seal'), qr/\d/ ],
	[ 'late claim at commit', working_once('late claim at commit'), qr/400/ ])
{
	my ($key, $script, $status) = @$way;
	reset_proxy();
	fault(key => $key, to => 'COMMITTING', do => 'hold');
	$run = start_script($node, $script);
	await_request(key => $key, to => 'COMMITTING');
	cancel_commit($node);
	like(finish_script($run), qr/57014/, "$key: the commit is cancelled");
	settled($node);
	release_held();
	wait_until("$key: it arrives when all is over",
		sub { grep { $_->{status} && $_->{status} =~ /^$status/ } requests(key => $key, to => 'COMMITTING') });
	neither_done($key, "$key: it does not bring the key back");
}
is($sql->("SELECT outcome FROM idem_acquire('late claim at commit')"), 'acquired',
	'late claim at commit: anybody can have the key');
$sql->("SELECT idem_forget('late claim at commit')");

# ----- a backend that stands still --------------------------------------------

# between the answer to its seal and its commit
reset_proxy();
$run = start_script($node, <<'SQL' . halt_until('commit') . "COMMIT;\nSELECT 'committed';\n");
BEGIN;
SELECT outcome FROM idem_acquire('stopped', lease => '100 ms');
INSERT INTO work VALUES ('stopped');
SELECT idem_complete('stopped', '"of stopped"');
SQL
my $pid;
wait_until('stopped backend: it has a claim',
	sub { $pid = $sql->("SELECT pid FROM exactonce_claims WHERE key = 'stopped'") });
fault(key => 'stopped', to => 'COMMITTING', do => 'kill', signal => 'SIGSTOP', applied => 1, pid => $pid + 0);
go_on('commit');
wait_until('stopped backend: it is stopped between its seal and its commit',
	sub { record_of('stopped')->{status} eq 'COMMITTING' });
$lease = record_of('stopped')->{lease_ms};
# Time is the subject: what counts is that the lease is long over.
wait_until('stopped backend: ten times its lease pass', sub { time() * 1000 > $lease + 1000 });
is($sql->("SELECT outcome FROM idem_acquire('stopped')"), 'in_progress', 'stopped backend: nobody here gets its key');
is(record_of('stopped')->{status}, 'COMMITTING', 'stopped backend: nobody else gets its key');
my (undef, undef, $why) = $node->psql('postgres', "SELECT idem_resolve('stopped', 'failed')");
like($why, qr/is still going on/, 'stopped backend: an operator cannot overrule it');
kill 'CONT', $pid;
like(finish_script($run), qr/^committed$/m, 'stopped backend: it commits once it goes on');
settled($node);
both_done('stopped', 'stopped backend: the work is there and its key is completed');

# ----- two at the same key ----------------------------------------------------

# two transactions with one token, as a retry through a pooler may be
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $key = "shared $end";
	my $what = "two transactions with one token, the first ends with $end";
	my $token = $sql->("SELECT token FROM idem_acquire('$key', on_commit => 'keep')");
	my $work = <<"SQL";
BEGIN;
INSERT INTO work VALUES ('$key');
SELECT 'inserted' || idem_complete('$key', '"of $key"', token => '$token');
SQL
	my $first = start_script($node, $work . say_in_script('has completed') . halt_until('end') . "$end;\n");
	await_word('has completed');
	my $second = start_script($node, "${work}COMMIT;\n");
	wait_until("$what: the second waits for it", sub { $sql->(<<'SQL') eq 't' });
SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'virtualxid')
SQL
	go_on('end');
	finish_script($first);
	my $out = finish_script($second);
	$end eq 'COMMIT'
	  ? like($out, qr/ERROR/, "$what: the second fails")
	  : unlike($out, qr/ERROR/, "$what: the second commits");
	settled($node);
	both_done($key, "$what: the work is done once");
}

# two databases with one table
reset_proxy();
$sql->('CREATE DATABASE other');
$sql->('CREATE EXTENSION exactonce; CREATE TABLE work (key text);'
	  . server_sql('exactonce', table => $table, %options), 'other');
fault(key => 'IDEMPOTENCY#both', to => 'COMPLETED', do => 'drop', times => 0);
$sql->("BEGIN; INSERT INTO work VALUES ('both'); SELECT idem_once('both', '1'); COMMIT");
like(run_script($node, "INSERT INTO work VALUES ('both'); SELECT idem_once('both', '2')", 'other'), qr/ID001/,
	'two databases: what one has committed and not finished fails in the other with ID001');
is($sql->("SELECT outcome FROM idem_acquire('both')", 'other'), 'in_progress',
	'two databases: what one has committed and not finished is in progress in the other');
reset_proxy();
settled($node);
like(run_script($node, "SELECT idem_once('both', '2')", 'other'), qr/ID005/,
	'two databases: what one has finished is a duplicate in the other');
is($sql->("SELECT outcome, result FROM idem_acquire('both')", 'other'), 'completed|1',
	'two databases: the other gets the result of the first');

# both at work on the same keys at the same time
my @databases = ('postgres', 'other');
my @runs = map {
	my $database = $_;
	my @transactions = map {
		"BEGIN; INSERT INTO work VALUES ('race$_'); SELECT idem_once('race$_', '\"$database\"'); COMMIT;\n"
	} 1 .. 60;
	start_script($node, join('', @transactions), $database);
} @databases;
finish_script($_) foreach @runs;
settled($node, $_) foreach @databases;
my $records = records($table);
my %work;
foreach my $database (@databases)
{
	my @counts = split /\n/, $sql->('SELECT key, count(*) FROM work GROUP BY 1', $database);
	$work{$database} = { map { split /\|/ } @counts };
}
my $wrong = 0;
my %wins = (postgres => 0, other => 0);
foreach my $key (map { "race$_" } 1 .. 60)
{
	my $record = $records->{$key};
	my $winner = $record && $record->{status} eq 'COMPLETED' ? decode_json("[$record->{result}]")->[0] : '';
	# Both may have lost: each met the other's claim while it was not finished.
	$wins{$winner}++ if $winner;
	$wrong++ if grep { ($work{$_}{$key} // 0) != ($winner eq $_ ? 1 : 0) } @databases;
}
is($wrong, 0, 'two databases at once: of each key one does the work, and the key says which');
note("postgres $wins{postgres}, other $wins{other}");

# ----- blocks that fail -------------------------------------------------------

is($sql->(<<'SQL'), '0', 'a thousand blocks that fail leave no claim of another key');
DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		BEGIN
			PERFORM idem_acquire('block ' || i % 7);
			PERFORM idem_complete('block ' || i % 7);
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT count(*) FROM exactonce_claims WHERE state <> 'second look' AND key NOT LIKE 'block%';
SQL
settled($node);
is($sql->("SELECT count(*) FROM exactonce_claims WHERE key LIKE 'block%'"), '0',
	'a thousand blocks that fail leave no claim of their keys');

is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt at the end');
stop_without_crash($node);
done_testing();
