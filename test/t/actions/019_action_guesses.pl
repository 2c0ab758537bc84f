# A thousand guesses at a PIN, a hundred at a time: three are looked at, whatever the
# others do at the same time.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my ($rounds, $clients, $guesses, $attempts) = (50, 100, 1000, 3);
my $table = 'tap_action_guesses';
# No fault is needed: the requests go past the proxy.
my $node = new_node('action_guesses', conf => "max_connections = 120\n",
	options => { request_timeout => '60s', pin_attempts => $attempts, endpoint => $ENV{EO_ENGINE_URL} });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->(<<'SQL');
CREATE UNLOGGED TABLE guesses (round int, guess text, outcome text, attempts_left int, payload jsonb);
CREATE SEQUENCE guess MINVALUE 0;
SQL

# In every other round the first guess is right, so that some are in time; in the
# others it is any of them.
my @pins = (undef, map { sprintf '%03d', $_ % 2 ? 0 : rand $guesses } 1 .. $rounds);
my $actions = encode_json([ map { { id => "guess $_", pin => $pins[$_], payload => "won $_" } } 1 .. $rounds ]);
is($sql->("SELECT count(*) FROM action_create_many('$actions') WHERE outcome = 'created'"), $rounds,
	"$rounds actions with a PIN are made");

# Every guess is made once a round.  The sessions go on to the next round by
# themselves: each begins with as many guesses at a time as there are sessions.
my $script = script_file($node, <<"SQL");
SELECT nextval('guess') AS n \\gset
\\set round :n / $guesses + 1
\\set guess :n % $guesses
INSERT INTO guesses SELECT :round, lpad(':guess', 3, '0'), outcome, attempts_left, payload
	FROM action_consume('guess ' || :round, lpad(':guess', 3, '0'));
SQL
my $start = time();
command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $rounds * $guesses / $clients,
		'-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
	'a thousand guesses are made at each');
my $took = time() - $start;

my $records = records($table);
my %ended = (consumed => 0, burned => 0);
foreach my $round (1 .. $rounds)
{
	my $from = "FROM guesses WHERE round = $round";
	my %n = ((map { $_ => 0 } qw(consumed invalid_pin burned already_used)),
		map { split /\|/ } split /\n/, $sql->("SELECT outcome, count(*) $from GROUP BY 1"));
	my $looks = $n{consumed} + $n{invalid_pin};
	my $end = $n{consumed} ? 'consumed' : 'burned';
	is($looks + $n{burned} + $n{already_used}, $guesses,
		"round $round: each guess was looked at, or there was no attempt left");
	is($sql->("SELECT count(DISTINCT guess) $from"), $guesses, "round $round: no two guesses are the same");
	cmp_ok($looks, '<=', $attempts, "round $round: no more guesses were looked at than there are attempts");
	ok($n{consumed} || ($looks == $attempts && !$n{already_used}),
		"round $round: no fewer guesses were looked at if none was right");
	my $right = "guess = '$pins[$round]' AND outcome IN ('consumed', 'invalid_pin')";
	is($sql->("SELECT string_agg(concat_ws(' ', outcome, payload), ', ') $from AND (payload IS NOT NULL OR $right)"),
		$n{consumed} ? qq(consumed "won $round") : '',
		"round $round: the right guess consumed it if it was looked at, and no other did");
	is($sql->("SELECT count(*) - count(DISTINCT attempts_left) $from AND outcome = 'invalid_pin'"), '0',
		"round $round: no two wrong guesses were told the same number of attempts");
	my $record = $records->{"ACTION#guess $round"};
	is($record->{pinAttempts}, $attempts - $looks, "round $round: the record has the rest of the attempts");
	is(scalar @{ $record->{pinTokens} }, $looks, "round $round: the record has a token of each that was taken");
	is(exists $record->{consumedAt} ? 'consumed' : 'burned', $end, "round $round: the record says whether it was used");
	is($sql->("SELECT state FROM action_get('guess $round')"), $end, "round $round: action_get() says how it ended");
	$ended{$end}++;
}
diag(sprintf '%d guesses in %.0f s: %d consumed, %d burned', $rounds * $guesses, $took, @ended{qw(consumed burned)});
stop_without_crash($node);
done_testing();
