# Actions that many want at the same time, or at the edges of their time: one gets
# it, all are told the truth, and the record says the same.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Actions;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_action_races';
my $node = new_node('action_races', options => { request_timeout => '60s' }, conf => "max_connections = 600\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# the same table, with one attempt at each PIN
$sql->(server_sql('strict', table => $table, pin_attempts => 1, request_timeout => '60s'));

# ----- cancel against consume -------------------------------------------------

# Two sessions meet at each action, one of which consumes and the other cancels.
# Returns of each round: its number, the state in the end, what the consumer was told
# and what the canceler was.
sub race
{
	my ($name, $rounds, $consume, $within) = @_;
	$sql->(<<"SQL");
CREATE TABLE $name (n int, what text, outcome text, PRIMARY KEY (n, what));
CREATE SEQUENCE ${name}_arrived;
SQL
	# Each waits for the other, and then for a random time, so that either may win.
	my @runs = map {
		my ($what, $call) = @$_;
		start_script($node, <<"SQL");
SET statement_timeout = '@{[ paced('60s') ]}';
DO \$\$
BEGIN
	FOR n IN 1 .. $rounds LOOP
		PERFORM nextval('${name}_arrived');
		WHILE (SELECT last_value FROM ${name}_arrived) < 2 * n LOOP
			PERFORM pg_sleep(0);
		END LOOP;
		PERFORM pg_sleep(random() * $within);
		INSERT INTO $name SELECT n, '$what', outcome FROM $call;
	END LOOP;
END \$\$;
SQL
	} [ 'consume', $consume ], [ 'cancel', "action_cancel('$name ' || n)" ];
	is(finish_script($_), '', "$name: a session goes through all rounds") foreach @runs;
	my $said = $sql->(<<"SQL");
SELECT c.n, (action_get('$name ' || c.n)).state, c.outcome, x.outcome
FROM $name c JOIN $name x ON (c.n, c.what, x.what) = (x.n, 'consume', 'cancel') ORDER BY c.n
SQL
	return map { [ split /\|/ ] } split /\n/, $said;
}

my $rounds = 100;
create_actions($node, [ map { "race $_" } 1 .. $rounds ]);
my %ends = (consumed => 0, canceled => 0);
foreach my $round (race('race', $rounds, "action_consume('race ' || n)", '0.002'))
{
	my ($n, $state, @told) = @$round;
	like("@told $state", qr/^(?:consumed already_used consumed|canceled canceled canceled)$/,
		"race $n of cancel and consume: one of them wins, and both are told which");
	is(how_it_ended(action($table, "race $n")), "$state||0", "race $n of cancel and consume: the record says the same");
	$ends{$state}++;
}
is($ends{consumed} + $ends{canceled}, $rounds, 'all races of cancel and consume have ended');
diag("cancel against consume: $ends{consumed} consumed, $ends{canceled} canceled");

# with a PIN, and one attempt
$rounds = 40;
create_actions($node, [ map { "guess $_" } 1 .. $rounds ], pin => '0042', server => 'strict');
my %records_of = (canceled => 'canceled|1|0', burned => 'closed|0|1', consumed => 'consumed|0|1');
%ends = map { $_ => 0 } keys %records_of;
foreach my $round (race('guess', $rounds, "action_consume('guess ' || n, '0042')", '0.1'))
{
	my ($n, $state, @told) = @$round;
	like("@told $state", qr/^(?:consumed already_used consumed|canceled canceled canceled|burned burned burned)$/,
		"race $n of cancel and the last attempt: both are told the same");
	is(how_it_ended(action($table, "guess $n")), $records_of{$state},
		"race $n of cancel and the last attempt: the record says the same");
	$ends{$state}++;
}
is($ends{consumed} + $ends{canceled} + $ends{burned}, $rounds, 'all races of cancel and the last attempt have ended');
diag("cancel against the last attempt: $ends{consumed} consumed, $ends{canceled} canceled, $ends{burned} burned");

# ----- five hundred at once ---------------------------------------------------

reset_proxy();
$sql->('CREATE UNLOGGED TABLE seen (round int, outcome text, payload jsonb)');
my $script = script_file($node,
	"INSERT INTO seen SELECT :round, outcome, payload FROM action_consume('many ' || :round);\n");
create_actions($node, [ map { "many $_" } 1 .. 3 ]);
foreach my $round (1 .. 3)
{
	my $start = time();
	command_ok([ 'pgbench', '-n', '-c', 500, '-j', 2, '-t', 1, '-D', "round=$round",
			'-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		"round $round: five hundred sessions consume an action at once");
	diag(sprintf 'five hundred consumers took %.1f s', time() - $start);
	is($sql->("SELECT outcome, count(*), count(payload) FROM seen WHERE round = $round GROUP BY 1 ORDER BY 2"),
		"consumed|1|1\nalready_used|499|0", "round $round: of five hundred one consumes it and has the payload");
}
is(count_requests(to => 'consumed'), 1500, 'each of five hundred consumers makes one request');

# ----- edges of time ----------------------------------------------------------

# Time itself is the subject here: the action is asked for until its time has come.
reset_proxy();
my ($wait, $late) = map { paced($_) } '400 ms', '10 s';
is($sql->(<<"SQL"), '5|0|0|t', 'an action is consumed from active_at on, and not before');
CREATE TABLE early (n int, before timestamptz, outcome text, consumed_at timestamptz, active_at timestamptz,
	expected timestamptz);
DO \$\$
DECLARE
	from_then timestamptz;
	begun timestamptz;
	r action_result;
BEGIN
	FOR n IN 1 .. 5 LOOP
		from_then := (action_create('{}', active_at => clock_timestamp() + interval '$wait', id => 'early ' || n)).active_at;
		LOOP
			begun := clock_timestamp();
			r := action_consume('early ' || n);
			INSERT INTO early VALUES (n, begun, r.outcome, r.consumed_at, r.active_at, from_then);
			EXIT WHEN r.outcome <> 'not_active';
		END LOOP;
	END LOOP;
END \$\$;
SELECT count(*) FILTER (WHERE outcome = 'consumed'
		AND consumed_at >= expected AND consumed_at < expected + interval '$late'),
	count(*) FILTER (WHERE outcome = 'not_active' AND (active_at <> expected OR before >= expected)),
	count(*) FILTER (WHERE outcome NOT IN ('consumed', 'not_active')),
	count(*) FILTER (WHERE outcome = 'not_active') > 0
FROM early;
SQL

# Actions with one expiry are looked at until shortly before it, then consumed and
# canceled by turns, and some more after it.
my ($soon, $in) = (600, paced('4 s'));
$sql->(<<"SQL");
CREATE TABLE ends (n int, what text, outcome text, at timestamptz, expires_at timestamptz);
CREATE TABLE looks (n int GENERATED ALWAYS AS IDENTITY, state text, before timestamptz, after timestamptz);
DO \$\$
DECLARE
	over timestamptz;
	begun timestamptz;
	r action_result;
	seen text;
BEGIN
	SELECT max(expires_at) INTO over
	FROM action_create_many((SELECT jsonb_agg(jsonb_build_object('id', 'soon ' || i,
			'expires_at', to_char(clock_timestamp() + interval '$in', 'YYYY-MM-DD HH24:MI:SSOF')))
		FROM generate_series(1, $soon) i));
	LOOP
		begun := clock_timestamp();
		seen := (action_get('soon $soon')).state;
		INSERT INTO looks (state, before, after) VALUES (seen, begun, clock_timestamp());
		EXIT WHEN clock_timestamp() > over - interval '200 ms' OR seen = 'expired';
		PERFORM pg_sleep(0.01);
	END LOOP;
	FOR i IN 1 .. $soon LOOP
		r := CASE WHEN i % 2 = 0 THEN action_consume('soon ' || i) ELSE action_cancel('soon ' || i) END;
		INSERT INTO ends VALUES (i, CASE WHEN i % 2 = 0 THEN 'consume' ELSE 'cancel' END, r.outcome, r.consumed_at, over);
		EXIT WHEN (SELECT count(*) FROM ends WHERE outcome = 'expired') = 20;
	END LOOP;
	LOOP
		begun := clock_timestamp();
		seen := (action_get('soon $soon')).state;
		INSERT INTO looks (state, before, after) VALUES (seen, begun, clock_timestamp());
		EXIT WHEN seen = 'expired';
	END LOOP;
END \$\$;
SQL
is($sql->(<<'SQL'), '0|0|0', 'an action is active before expires_at, and expired from then on');
SELECT count(*) FILTER (WHERE state = 'active' AND before >= expires_at),
	count(*) FILTER (WHERE state = 'expired' AND after < expires_at),
	count(*) FILTER (WHERE state NOT IN ('active', 'expired'))
FROM looks, (SELECT DISTINCT expires_at FROM ends) e
SQL
is($sql->(<<'SQL'), '0|0|0|0|20', 'actions are consumed and canceled before expires_at, and not after');
SELECT count(*) FILTER (WHERE outcome = 'consumed' AND at >= expires_at),
	count(*) FILTER (WHERE outcome <> 'expired' AND n > (SELECT min(n) FROM ends WHERE outcome = 'expired')),
	count(*) FILTER (WHERE outcome NOT IN ('expired', CASE what WHEN 'consume' THEN 'consumed' ELSE 'canceled' END)),
	count(*) - count(DISTINCT n),
	count(*) FILTER (WHERE outcome = 'expired')
FROM ends
SQL
my %told;
my $records = records($table);
foreach my $line (split /\n/, $sql->('SELECT n, what, outcome FROM ends'))
{
	my ($n, $what, $outcome) = split /\|/, $line;
	my $r = $records->{"ACTION#soon $n"};
	# A cancel closes what has expired.
	my $truth = $outcome ne 'expired' ? "$outcome||0" : $what eq 'cancel' ? 'closed||0' : '||0';
	my $at = $r->{consumedAt} // $r->{canceledAt} // 0;
	$told{ how_it_ended($r) eq $truth && $at < $r->{expiresAtMs} ? $outcome : 'wrong' }++;
}
is($told{wrong}, undef, 'the records of actions that expire say what the callers were told');
diag(join ', ', map { "$_ $told{$_}" } sort keys %told);

# ----- a clock that is off ----------------------------------------------------

# Last of all: the sessions of a server tell each other what they have learnt.
create_actions($node, [ 'clock1', 'clock2', 'clock4' ], expires_at => from_now($node, 1800));
reset_proxy();
fault(do => 'date', seconds => 3600, strict => 1, times => 0);
is($sql->("SELECT outcome FROM action_consume('clock1')"), 'expired',
	'an action expires by the clock of DynamoDB, which refuses the first request for its time');
is($sql->("SELECT outcome FROM action_cancel('clock2')"), 'expired',
	'an action expires by the clock of DynamoDB for the next session, too');
is($sql->(<<'SQL'), 'created|60', 'an action is made by the clock of DynamoDB');
SELECT outcome, round(extract(epoch FROM created_at - now()) / 60) FROM action_create('{}', id => 'clock3')
SQL
reset_proxy();
is(run_script($node, <<'SQL'), "expired\ncanceled\n", 'a clock that turns out right within a cancel: it is canceled');
SELECT state FROM action_get('clock4');
SELECT outcome FROM action_cancel('clock4');
SQL

stop_without_crash($node);
done_testing();
