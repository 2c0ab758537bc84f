# What networks and services can do to each write of a commit: the seal, the
# finish, the release after an abort, the heartbeat, the claim at commit.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $table = 'tap_faults';
my $options = ", commit_timeout '4s', request_timeout '2s', clock_skew '0'";
my $node = new_node('commit_faults', table => $table, options => $options);
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };
$sql->('CREATE TABLE work (key text)');
my $record = sub { return records($table)->{ $_[0] } // { status => 'none' } };
my $works = sub { return $sql->("SELECT count(*) FROM work WHERE key = '$_[0]'") };

sub fault
{
	control('POST', '/fault', $_) foreach @_;
	return;
}

sub working
{
	my ($key) = @_;
	return <<"SQL";
BEGIN;
SELECT outcome FROM idem_acquire('$key');
INSERT INTO work VALUES ('$key');
SELECT idem_complete('$key', '"of $key"');
COMMIT;
SQL
}

sub at_commit
{
	my ($key) = @_;
	return <<"SQL";
BEGIN;
INSERT INTO work VALUES ('$key');
SELECT idem_once('$key', '"of $key"');
COMMIT;
SQL
}

# Work and key say the same; the result is the work's own.
sub agree
{
	my ($key, $done, $what) = @_;
	settled($node);
	my $r = $record->($key);
	is(join(' ', $works->($key), $r->{status}, $r->{result} // '-'),
		$done ? qq(1 COMPLETED "of $key") : '0 FAILED -', $what);
	return;
}

# Each: what goes wrong, how often; whether it is got over; what is said if not.
my @all = (
	[ 'the request is lost', '"do":"drop"', 1 ],
	[ 'its answer is lost', '"do":"lose"', 1 ],
	[ 'the connection is reset', '"do":"reset"', 1 ],
	[ 'it arrives twice', '"do":"twice"', 1 ],
	[ 'it arrives twice, the first answer counts', '"do":"twice","first":true', 1 ],
	[ 'it is late', '"do":"delay","ms":300', 1 ],
	[ 'the answer is cut off', '"do":"truncate","bytes":20', 1 ],
	[ 'the answer is garbled', '"do":"garble"', 1 ],
	[ 'the checksum is wrong', '"do":"wrong_crc"', 1 ],
	[ 'the answer is for another key', '"do":"other_key"', 1 ],
	[ 'the answer is for another owner', '"do":"other_token"', 1 ],
	[ 'the service is ill', '"do":"answer","status":500,"code":"InternalServerError"', 1 ],
	[ 'the service is away', '"do":"answer","status":503,"code":"ServiceUnavailable"', 1 ],
	[ 'the table is throttled', '"do":"answer","status":400,"code":"ProvisionedThroughputExceededException"', 1 ],
	[ 'it is denied', '"do":"answer","status":400,"code":"AccessDeniedException"', 0, 'ID007' ],
	[ 'it is called invalid', '"do":"answer","status":400,"code":"ValidationException"', 0, 'ID007' ],
	[ 'it is never answered', '"do":"lose","times":0', 0, 'ID006' ],
	[ 'it never arrives', '"do":"drop","times":0', 0, 'ID006' ]);

my $n = 0;
foreach my $way ([ 'seal', \&working ], [ 'claim at commit', \&at_commit ])
{
	my ($name, $transaction) = @$way;
	foreach my $case (@all)
	{
		my ($what, $fault, $good, $code) = @$case;
		my $key = 'seal ' . ++$n . '.';
		control('POST', '/reset');
		fault(qq({"key":"$key","to":"COMMITTING",$fault}));
		my $out = psql_ok($node, $transaction->($key));
		control('POST', '/reset');
		$good ? unlike($out, qr/ERROR/, "$name: $what") : like($out, qr/ERROR:  $code/, "$name: $what");
		if ($good || $record->($key)->{status} ne 'none')
		{
			agree($key, $good, '... and work and key agree');
		}
		else
		{
			is($works->($key), '0', '... and nothing is left of it');
		}
	}
}

# After the commit nothing can go wrong any more, only take longer.  Meanwhile
# everybody in this database sees it done, and others that it is not theirs.
foreach my $case (@all)
{
	my ($what, $fault) = @$case;
	my $key = 'finish ' . ++$n . '.';
	control('POST', '/reset');
	fault(qq({"key":"$key","to":"COMPLETED",$fault}));
	unlike(psql_ok($node, working($key)), qr/ERROR/, "finish: $what");
	is($sql->("SELECT outcome, result FROM idem_acquire('$key')"), qq(completed|"of $key"), '... and it is completed here');
	control('POST', '/reset') if $fault =~ /"times":0/;
	agree($key, 1, '... and then for all');
}

# after an abort
foreach my $case (@all)
{
	my ($what, $fault) = @$case;
	my $key = 'abort ' . ++$n . '.';
	control('POST', '/reset');
	fault(qq({"key":"$key","to":"FAILED",$fault}));
	(my $script = working($key)) =~ s/COMMIT/ROLLBACK/;
	unlike(psql_ok($node, $script), qr/ERROR/, "release: $what");
	control('POST', '/reset') if $fault =~ /"times":0/;
	agree($key, 0, '... and the key is given back');
}

# ... and while the release is on its way, who asks here does not wait for it
control('POST', '/reset');
fault('{"key":"given back","to":"FAILED","do":"hold"}');
(my $script = working('given back')) =~ s/COMMIT/ROLLBACK/;
psql_ok($node, $script);
control('GET', '/wait?key=given+back&to=FAILED&seconds=60');
is($sql->("SELECT outcome, run FROM idem_acquire('given back', wait => '20 s')"), 'acquired|2', 'an own dead claim is settled on the spot');
control('POST', '/release');
settled($node);
is($record->('given back')->{status}, 'IN_PROGRESS', '... and the late release does not touch the next run');

# a heartbeat that comes late
control('POST', '/reset');
fault('{"key":"beaten","to":"lease","do":"hold"}');
my $run = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('beaten', lease => '1500 ms');
\! curl -s "$EO_CONTROL/wait?key=beaten&to=lease&n=2&seconds=60" > /dev/null
SELECT idem_complete('beaten', '1');
COMMIT;
SQL
unlike(finish_psql($run), qr/ERROR/, 'a lease is kept though a heartbeat is stuck');
settled($node);
my $done = $record->('beaten');
control('POST', '/release');
wait_until('... which arrives after the end', sub {
	control('GET', '/log') =~ /"key":"IDEMPOTENCY#beaten","to":"lease","status":400/ });
is_deeply($record->('beaten'), $done, '... and changes nothing');

# the same, between two others: a lease is never shortened
control('POST', '/reset');
fault('{"key":"reordered","to":"lease","do":"hold"}');
$run = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('reordered', lease => '1500 ms');
\! curl -s "$EO_CONTROL/wait?key=until+now&seconds=60" > /dev/null
ROLLBACK;
SQL
# the first of these is the same one, sent again
wait_until('the next heartbeat has been applied', sub {
	(() = control('GET', '/log') =~ /"key":"IDEMPOTENCY#reordered","to":"lease","status":200/g) >= 2 });
my $before = $record->('reordered')->{lease_ms};
control('POST', '/release');
wait_until('then the one before it', sub {
	(() = control('GET', '/log') =~ /"key":"IDEMPOTENCY#reordered","to":"lease","status":400/g) >= 1 });
cmp_ok($record->('reordered')->{lease_ms}, '>=', $before, '... which does not shorten the lease');
$sql->("SELECT idem_get('until now')");
finish_psql($run);
settled($node);

# a seal that arrives after its transaction was rolled back and the key released
control('POST', '/reset');
fault('{"key":"too late","to":"COMMITTING","do":"hold"}');
$run = start_psql($node, working('too late'));
control('GET', '/wait?key=too+late&to=COMMITTING&seconds=60');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'");
like(finish_psql($run), qr/57014/, 'a commit is cancelled');
settled($node);
control('POST', '/release');
wait_until('... and its seal, which comes later', sub {
	control('GET', '/log') =~ /"key":"IDEMPOTENCY#too late","to":"COMMITTING","status":\d/ });
agree('too late', 0, '... does not bring the key back');

# a claim at commit whose only request arrives after all is over
control('POST', '/reset');
fault('{"key":"ghost","to":"COMMITTING","do":"hold"}');
$run = start_psql($node, at_commit('ghost'));
control('GET', '/wait?key=ghost&to=COMMITTING&seconds=60');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'");
like(finish_psql($run), qr/57014/, 'a claim at commit is cancelled');
settled($node);
control('POST', '/release');
wait_until('... and its request, which comes later', sub {
	control('GET', '/log') =~ /"key":"IDEMPOTENCY#ghost","to":"COMMITTING","status":400/ });
agree('ghost', 0, '... finds the key buried');
is($sql->("SELECT outcome FROM idem_acquire('ghost')"), 'acquired', '... which anybody can have');
$sql->("SELECT idem_forget('ghost')");

# a backend stopped between the answer to its seal and its commit: whatever the
# lease says, and for however long, nobody else gets the key
control('POST', '/reset');
$run = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('stopped', lease => '300 ms');
INSERT INTO work VALUES ('stopped');
SELECT idem_complete('stopped', '"of stopped"');
SELECT pg_backend_pid() AS pid
\gset
\setenv PID :pid
\! curl -s -X POST "$EO_CONTROL/fault" -d "{\"key\":\"stopped\",\"to\":\"COMMITTING\",\"do\":\"kill\",\"signal\":\"SIGSTOP\",\"applied\":true,\"pid\":$PID}"
COMMIT;
SELECT 'committed';
SQL
wait_until('a backend is stopped in its commit', sub { $record->('stopped')->{status} eq 'COMMITTING' });
my $lease = $record->('stopped')->{lease_ms};
wait_until('... for ten times its lease', sub { time() * 1000 > $lease + 3000 });
is($sql->("SELECT outcome FROM idem_acquire('stopped')"), 'in_progress', '... and its key is still its own');
is($record->('stopped')->{status}, 'COMMITTING', '... everywhere');
my ($refused, undef, $why) = $node->psql('postgres', "SELECT idem_resolve('stopped', 'failed')");
like($why, qr/is still going on/, '... nor can an operator overrule it');
my ($stopped) = $sql->("SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT;' AND state = 'active'");
kill 'CONT', $stopped;
like(finish_psql($run), qr/^committed$/m, '... until it commits');
agree('stopped', 1, '... and it is done once');

# two transactions with one token, as a retry through a pooler may be
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $key = "shared $end";
	my $token = $sql->("SELECT token FROM idem_acquire('$key', on_commit => 'keep')");
	my $half = sub {
		my ($how, $wait) = @_;
		return start_psql($node, <<"SQL");
BEGIN;
INSERT INTO work VALUES ('$key');
SELECT 'inserted' || idem_complete('$key', '"of $key"', token => '$token');
$wait
$how;
SQL
	};
	my $first = $half->($end, "SELECT pg_advisory_lock(1); DO \$\$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'virtualxid')); PERFORM pg_sleep(0.01); END LOOP; END \$\$;");
	wait_until("$end: one has the token", sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") eq '1' });
	my $second = $half->('COMMIT', '');
	finish_psql($first);
	my $out = finish_psql($second);
	$end eq 'COMMIT' ? like($out, qr/ERROR/, '... and the other one fails') : unlike($out, qr/ERROR/, '... and the other one goes on');
	agree($key, 1, '... and it is done once');
}

# two databases, one table, one key
control('POST', '/reset');
$sql->('CREATE DATABASE other');
$sql->("CREATE EXTENSION exactonce; CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}' $options);
	CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
	CREATE TABLE work (key text)", 'other');
fault('{"key":"IDEMPOTENCY#both","to":"COMPLETED","do":"drop","times":0}');
$sql->("BEGIN; INSERT INTO work VALUES ('both'); SELECT idem_once('both', '1'); COMMIT");
my ($code, $out, $err) = $node->psql('other', "INSERT INTO work VALUES ('both'); SELECT idem_once('both', '2')", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ID001/, 'committed there, not finished yet: in progress here');
is($sql->("SELECT outcome FROM idem_acquire('both')", 'other'), 'in_progress', '... however it is asked for');
control('POST', '/reset');
settled($node);
($code, $out, $err) = $node->psql('other', "SELECT idem_once('both', '2')", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ID005/, 'finished: a duplicate');
is($sql->("SELECT outcome, result FROM idem_acquire('both')", 'other'), 'completed|1', '... with the first one\'s result');

# both at work on the same keys, at the same time, one winner each
my @runs = map {
	my $db = $_;
	my $file = $node->basedir . "/race_$db.sql";
	append_to_file($file, join '', map { "INSERT INTO work VALUES ('race$_'); SELECT idem_once('race$_', '\"$db\"') \\;\n" =~ s/^/BEGIN; /r =~ s/ \\;\n/; COMMIT;\n/r } 1 .. 60);
	my %r = (out => '', err => '');
	$r{handle} = IPC::Run::start([ 'psql', '-Xq', '-d', $node->connstr($db), '-f', $file ], '<', \undef, '>', \$r{out}, '2>', \$r{err});
	\%r;
} 'postgres', 'other';
$_->{handle}->finish foreach @runs;
settled($node);
wait_until('both workers are done', sub { $sql->("SELECT count(*) FROM exactonce_pending", 'other') eq '0' });
my $records = records($table);
my $wrong = 0;
my %wins = (postgres => 0, other => 0);
foreach my $i (1 .. 60)
{
	my $r = $records->{"race$i"};
	my ($here, $there) = map { $sql->("SELECT count(*) FROM work WHERE key = 'race$i'", $_) } 'postgres', 'other';
	# both may have lost: each met the other's while it was not finished
	my $by = $r && $r->{status} eq 'COMPLETED' ? decode_json("[$r->{result}]")->[0] : '';
	$wins{$by}++ if $by;
	$wrong++ if "$here$there" ne ($by eq 'postgres' ? '10' : $by eq 'other' ? '01' : '00');
}
is($wrong, 0, 'of two databases that do the same, one does it, and the key says which');
note("postgres $wins{postgres}, other $wins{other}");

# nothing is left behind by many
is($sql->(<<'SQL'), "0", 'a thousand blocks that fail leave no claim');
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
SELECT count(*) FROM exactonce_claims WHERE state NOT IN ('second look') AND key NOT LIKE 'block%';
SQL
settled($node);
is($sql->("SELECT count(*) FROM exactonce_claims WHERE key LIKE 'block%'"), '0', '... at all');

is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt at the end');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|was terminated by signal/, 'no crash of its own');
done_testing();
