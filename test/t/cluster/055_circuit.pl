# A service that is away for a moment fails no call.  One that is away for longer has its
# circuit opened: the first calls wait their deadline, the later ones are refused and ask
# nobody, and work goes on once it is back.  And the switch exactonce.enabled.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $clients = 8;
my $refused = qr/ERROR:  ID006: .*DynamoDB has not answered, and is not asked/;
my $table = 'tap_circuit';
my $endpoint = qr/\Q$ENV{EO_ENDPOINT}\E\/?/;
# The circuit of a server is known by its request_timeout.
my ($usual, $short, $patience, $brief) = map { paced($_) } '10 s', '4 s', '15 s', '1 s';
my $node = new_node('circuit', options => { request_timeout => '10 s' });
sql_of($node, 'CREATE TABLE work (key text)');

# The row of a circuit, by the request_timeout of its servers.
sub circuit
{
	my ($column, $timeout) = @_;
	return sql_of($node, "SELECT $column FROM exactonce_circuits WHERE request_timeout = '$timeout'");
}

# Is it open, or on its way?  A single call may fail on a busy machine.
sub is_fine
{
	my ($timeout) = @_;
	return circuit("CASE WHEN is_open OR failures > 2 THEN 'not fine' ELSE 'fine' END", $timeout);
}

# Calls in sessions beside each other; returns what each has said.
sub in_parallel
{
	my ($text_of) = @_;
	my @runs = map { start_script($node, $text_of->($_)) } 1 .. $clients;
	return map { finish_script($_) } @runs;
}

sub occurrences
{
	my ($pattern, $text) = @_;
	my $n = () = $text =~ /$pattern/g;
	return $n;
}

# ----- away for a moment -------------------------------------------------------------

# Past the proxy, which takes a connection also when the engine is away.
sql_of($node, server_sql('direct', endpoint => $ENV{EO_ENGINE_URL}, table => $table,
	request_timeout => '2 min', commit_timeout => '2 min', key_prefix => 'direct/'));
is(errors_of($node, "SELECT idem_once('before', server => 'direct')"), '', 'the life has an item in the place');
settled($node);
my @blips = map { start_script($node, "BEGIN;\nINSERT INTO work VALUES ('blip $_');\n"
	  . "SELECT idem_acquire('blip $_', server => 'direct');\nSELECT idem_complete('blip $_', server => 'direct');\n"
	  . say_in_script("blip $_ is held") . halt_until("blip $_") . "COMMIT;\n") } 1 .. $clients / 2;
await_word("blip $_ is held") foreach 1 .. $clients / 2;
control('POST', '/engine/stop');
push @blips, map { start_script($node, "BEGIN;\nINSERT INTO work VALUES ('blip $_');\n"
	  . "SELECT idem_acquire('blip $_', server => 'direct');\nSELECT idem_complete('blip $_', server => 'direct');\nCOMMIT;\n") }
  $clients / 2 + 1 .. $clients;
go_on("blip $_") foreach 1 .. $clients / 2;
wait_until('the engine is away for a moment: all clients wait', sub { sql_of($node, <<"SQL") eq $clients });
SELECT count(*) FROM pg_stat_activity
WHERE state = 'active' AND pid <> pg_backend_pid() AND (query = 'COMMIT;' OR query LIKE '%idem_acquire%')
SQL
control('POST', '/engine/start');
unlike(finish_script($_), qr/ERROR/, 'it fails nobody') foreach @blips;
settled($node);
is(sql_of($node, "SELECT count(DISTINCT key) || ' of ' || count(*) FROM work WHERE key LIKE 'blip%'"), "$clients of $clients",
	'each does its work once');
is(join(' ', map { status_of($table, "direct/blip $_") } 1 .. $clients), join(' ', ('COMPLETED') x $clients),
	'and its key is completed');

# ----- answers that are errors -----------------------------------------------------------

foreach my $code ('AccessDeniedException', 'ThrottlingException')
{
	fault(do => 'answer', status => 400, code => $code, times => 0, key => $_) foreach '', 'ORIGIN#';
	my @said = in_parallel(sub { "SELECT idem_get('denied $_[0]');\n" x 2 });
	is(occurrences(qr/ERROR:  ID00[67]: .*(?:denied access|is throttling)/, "@said"), 2 * $clients, "$code: each call fails");
	is(is_fine($usual), 'fine', "$code: an answer is no failure of the service");
	reset_proxy();
}

# ----- a caller that gives up early ----------------------------------------------------------

sql_of($node, server_sql('patient', table => $table, request_timeout => '15 s'));
is(sql_of($node, "SELECT idem_get('nothing', 'patient') IS NULL"), 't', 'a server with a long request_timeout answers');
fault(do => $_, key => 'impatient', times => 0) foreach 'hold', 'drop';
my @impatient = in_parallel(sub { "SET statement_timeout = '@{[ paced('200ms') ]}';\n" . "SELECT idem_get('impatient $_[0]', 'patient');\n" x 2 });
is(occurrences(qr/ERROR:  57014: /, "@impatient"), 2 * $clients, 'statement_timeout ends calls');
is(is_fine($patience), 'fine', 'they are no failures of the service');
reset_proxy();

# ----- away ------------------------------------------------------------------------------------

sql_of($node, timeouts_sql('exactonce', request_timeout => '4 s', commit_timeout => '4 s'));
is(complete($node, 'before'), '', 'a key is completed');
settled($node);
my $log = -s $node->logfile;
my $open = start_open($node, 'open');
my $held = start_script($node, "BEGIN;\nSELECT idem_acquire('back');\n" . say_in_script('has back') . halt_until('back') . "ROLLBACK;\n");
await_word('has back');
control('POST', '/engine/pause');
my @first = in_parallel(sub { "SELECT idem_acquire('first $_[0]');\n" });
is(occurrences(qr/ERROR:  ID006: could not acquire key/, "@first"), $clients, 'the engine is away: the first calls fail');
wait_until('the circuit opens', sub { circuit('is_open', $short) eq 't' });
is(circuit("failures >= 3 AND opened_at - silent_since >= interval '$short' * 0.9", $short), 't',
	'once three calls have had no answer, and nothing was answered for request_timeout');

# The worker asks once a second.  A caller is let through if that was not done for two
# seconds, as on a machine that is busy, so that many requests may be made and no more.
my $start = time();
my @late = in_parallel(sub { join '', map { "SELECT idem_acquire('late $_[0]-$_');\n" } 1 .. 20 });
my $elapsed = time() - $start;
my $through = 20 * $clients - occurrences($refused, "@late");
is(occurrences(qr/ERROR:  ID006: could not acquire key/, "@late"), 20 * $clients, 'later calls fail');
cmp_ok($through, '<=', 1 + $elapsed / 2, "because they are refused, but for $through of " . 20 * $clients);
ok($through > 0 || count_requests(key => 'late') == 0, 'and those that are refused ask nobody');
like("@late", qr/DETAIL:  Nothing was answered since \d{4}-.*; it is asked again in \d\.\d s; last error: .*\nHINT:  Nothing was sent\. /,
	'the error says since when, why, and when it is asked again');
note(sprintf('%d refused calls in %d sessions, with their start: %.0f ms', 20 * $clients, $clients, 1000 * $elapsed));

# A call that may wait, a batch, an action, a guard at commit.  One of them may be let through.
$start = time();
my $said = run_script($node, join "\n", "SELECT idem_acquire('late wait', wait => '10 minutes');",
	"SELECT idem_acquire_many(array_agg('late ' || i)) FROM generate_series(1, 100) i;",
	"SELECT action_create(id => 'late');", "SELECT idem_once('late once');");
is(occurrences(qr/ERROR:  ID006/, $said), 4, 'each kind of call fails');
cmp_ok(occurrences($refused, $said), '>=', 3, 'because it is refused');
cmp_ok(time() - $start, '<', paced(100), 'nothing waits');
my $seals = count_requests(key => 'open', to => 'COMMITTING');
go_on('open');
$said = finish_script($open);
like($said, qr/ERROR:  ID006: could not commit key "open"/, 'a COMMIT fails');
ok($said =~ $refused ? count_requests(key => 'open', to => 'COMMITTING') == $seals : 1, 'without a request, if it is refused');
is(sql_of($node, 'SELECT count(*) FROM exactonce_in_doubt'), 0, 'nothing is in doubt');
is(worked($node, 'open'), 0, 'its work is not done');
go_on('back');
unlike(finish_script($held), qr/ERROR/, 'a ROLLBACK asks nobody');
is(errors_of($node, "BEGIN; INSERT INTO work VALUES ('other'); COMMIT"), '', 'other transactions commit');

# What is shown.
is(circuit("answered_at < silent_since + interval '1 s' AND silent_since < opened_at AND next_probe_at > opened_at"
	  . " AND last_error <> '' AND refused >= 20 * $clients - $through", $short), 't', 'exactonce_circuits shows it');
is(circuit('is_open', $patience), 'f', 'servers with other timeouts have a circuit of their own');
is(sql_of($node, q{SELECT status FROM idem_check() WHERE "check" = 'circuit'}), 'failure', 'idem_check shows it');
is(circuit('is_open', $short), 't', 'it is still open');
my @opened = slurp_file($node->logfile, $log) =~ /(LOG:  exactonce: endpoint $endpoint does not answer; calls to it are refused)/g;
is(scalar @opened, 1, 'the log says it once');

control('POST', '/engine/resume');
$start = time();
wait_until('the engine is back: work goes on', sub { complete($node, 'after') eq '' });
note(sprintf('after %.2f s', time() - $start));
is(is_fine($short), 'fine', 'the circuit is closed');
foreach my $key ('open', 'back', map { "first $_" } 1 .. $clients)
{
	wait_until("$key can be done", sub { complete($node, $key) eq '' });
}
settled($node);
is(sql_of($node, "SELECT count(*) FROM (SELECT key FROM work GROUP BY key HAVING count(*) > 1) twice"), 0, 'nothing was done twice');
is(join(' ', map { status_of($table, $_) } 'open', 'back', 'after', map { "first $_" } 1 .. $clients),
	join(' ', ('COMPLETED') x ($clients + 3)), 'every key is completed');
my @closed = slurp_file($node->logfile, $log) =~ /(LOG:  exactonce: endpoint $endpoint answers again\n.*DETAIL:  It had not since .*; \d+ calls were refused)/g;
is(scalar @closed, 1, 'the log says once that it is back');

# The engine is stopped, and connections are cut.
control('POST', '/engine/stop');
wait_until('the engine is stopped: the circuit opens', sub {
	in_parallel(sub { "SELECT idem_get('stopped');\n" });
	return circuit('is_open', $short) eq 't' });
control('POST', '/engine/start');
wait_until('the engine is started: work goes on', sub { complete($node, 'started') eq '' });
is(worked($node, 'started'), 1, 'and is done once');
sql_of($node, timeouts_sql('exactonce', request_timeout => '10 s', commit_timeout => undef));

# ----- the switch -----------------------------------------------------------------------------

my $off = qr/ERROR:  ID006: cannot execute idem_acquire\(\): exactonce is switched off\nDETAIL:  The setting exactonce\.enabled is off/;
my $try = "SELECT outcome FROM idem_acquire('switch', on_commit => 'keep'); SELECT idem_release('switch')";
settled($node);
sql_of($node, 'CREATE DATABASE other');
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, key_prefix => 'other/'), 'other');
sql_of($node, 'CREATE ROLE app LOGIN; GRANT USAGE ON FOREIGN SERVER exactonce TO app');

sql_of($node, 'ALTER DATABASE postgres SET exactonce.enabled = off');
reset_proxy();
like(errors_of($node, $try), qr/$off for this database\. Nothing was sent\./, 'off for a database: calls fail');
is(count_requests(key => 'switch'), 0, 'off for a database: nothing is asked');
is(errors_of($node, $try, 'other'), '', 'off for a database: another one works');
sql_of($node, 'ALTER DATABASE postgres RESET exactonce.enabled');

sql_of($node, 'ALTER ROLE app SET exactonce.enabled = off');
my $as_app = "\\c - app\n$try";
like(run_script($node, $as_app), qr/$off for this role\./, 'off for a role: calls fail');
is(errors_of($node, $try), '', 'off for a role: others work');
like(run_script($node, "\\c - app\nSET exactonce.enabled = on"), qr/ERROR:  42501: /, 'a role cannot switch it on again');
sql_of($node, 'ALTER ROLE app RESET exactonce.enabled');
unlike(run_script($node, $as_app), qr/ERROR/, 'a superuser can');

# A session that has completed a key commits it, and the worker finishes it.
$open = start_open($node, 'at the switch');
sql_of($node, 'ALTER SYSTEM SET exactonce.enabled = off');
$node->reload;
wait_until('off for the cluster: calls fail', sub {
	errors_of($node, $try) =~ /$off for the whole cluster\./ && errors_of($node, $try, 'other') =~ $off });
go_on('at the switch');
unlike(finish_script($open), qr/ERROR/, 'off for the cluster: a transaction that has completed a key commits');
settled($node);
is(status_of($table, 'at the switch'), 'COMPLETED', 'off for the cluster: the worker finishes it');
is(sql_of($node, q{SELECT status || ': ' || detail FROM idem_check() WHERE "check" = 'enabled'}),
	'warning: exactonce.enabled is off for the whole cluster', 'idem_check says so');
sql_of($node, 'ALTER SYSTEM RESET exactonce.enabled');
$node->reload;
wait_until('on again: calls work', sub { errors_of($node, $try) eq '' });
stop_without_crash($node);

# ----- without a worker, and for long ----------------------------------------------------------

# Nothing is claimed, so no worker is started.  An hour is a few seconds.
$node = new_node('outage', conf => "exactonce.test_hurry = 1000\n", options => { request_timeout => '1s' });
fault(do => 'drop', times => 0);
my $again = qr/LOG:  exactonce: endpoint \S+ still does not answer\n/;
wait_until('without a worker a caller asks now and then, and a long outage is logged again', sub {
	errors_of($node, "SELECT idem_get('probe')");
	return slurp_file($node->logfile) =~ $again });
is(circuit('is_open', $brief), 't', 'the circuit is open');
reset_proxy();
wait_until('the next caller that asks closes it', sub { errors_of($node, "SELECT idem_get('probe')") eq '' });
is(circuit('is_open', $brief), 'f', 'the circuit is closed');
stop_without_crash($node);
done_testing();
