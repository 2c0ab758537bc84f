# A thousand guesses at a PIN, a hundred at a time: three are looked at, whatever
# the others do at the same time.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my ($rounds, $clients, $guesses, $attempts) = (50, 100, 1000, 3);
my $table = 'tap_guesses';
my $node = new_node('guesses', table => $table, conf => "max_connections = 120\n",
	options => ", request_timeout '60s', pin_attempts '$attempts'");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->(<<'SQL');
CREATE UNLOGGED TABLE guesses (round int, guess text, outcome text, attempts_left int, payload jsonb);
CREATE SEQUENCE guess MINVALUE 0;
SQL

# In every other round the first guess is right, so that some are in time; in the
# others it is any of them.
my @pins = (undef, map { sprintf '%03d', $_ % 2 ? 0 : rand $guesses } 1 .. $rounds);
my $actions = encode_json([ map { { id => "guess $_", pin => $pins[$_], payload => "won $_" } } 1 .. $rounds ]);
is($sql->("SELECT count(*) FROM action_create_many('$actions') WHERE outcome = 'created'"), $rounds, "$rounds actions with a PIN");

# Every guess is made once a round.  The sessions go on to the next round by
# themselves: each begins with as many guesses at a time as there are sessions.
my $script = $node->basedir . '/guess.sql';
append_to_file($script, <<"SQL");
SELECT nextval('guess') AS n \\gset
\\set round :n / $guesses + 1
\\set guess :n % $guesses
INSERT INTO guesses SELECT :round, lpad(':guess', 3, '0'), outcome, attempts_left, payload
	FROM action_consume('guess ' || :round, lpad(':guess', 3, '0'));
SQL
my $start = time();
command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $rounds * $guesses / $clients,
	'-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], 'a thousand guesses at each');
my $took = time() - $start;

my $records = records($table);
my %ended = (consumed => 0, burned => 0);
for my $round (1 .. $rounds)
{
	my $from = "FROM guesses WHERE round = $round";
	my %n = ((map { $_ => 0 } qw(consumed invalid_pin burned already_used)),
		map { split /\|/ } split /\n/, $sql->("SELECT outcome, count(*) $from GROUP BY 1"));
	my $verdicts = $n{consumed} + $n{invalid_pin};
	my $end = $n{consumed} ? 'consumed' : 'burned';
	is($verdicts + $n{burned} + $n{already_used}, $guesses, "round $round: each guess was looked at, or there was no attempt left");
	is($sql->("SELECT count(DISTINCT guess) $from"), $guesses, '... no two of them are the same');
	cmp_ok($verdicts, '<=', $attempts, '... no more were looked at than there are attempts');
	ok($n{consumed} || ($verdicts == $attempts && !$n{already_used}), '... and no fewer if none was right');
	is($sql->("SELECT string_agg(concat_ws(' ', outcome, payload), ', ') $from AND (payload IS NOT NULL OR guess = '$pins[$round]' AND outcome IN ('consumed', 'invalid_pin'))"),
		$n{consumed} ? qq(consumed "won $round") : '', '... the right one consumed it if it was looked at, and nobody else did');
	is($sql->("SELECT count(*) - count(DISTINCT attempts_left) $from AND outcome = 'invalid_pin'"), '0',
		'... no two wrong ones were told the same number of attempts');
	my $record = $records->{"ACTION#guess $round"};
	is($record->{pinAttempts}, $attempts - $verdicts, '... the record has the rest of the attempts');
	is(scalar @{ $record->{pinTokens} }, $verdicts, '... and a token of each that was taken');
	is(exists $record->{consumedAt} ? 'consumed' : 'burned', $end, '... and whether it was used');
	is($sql->("SELECT state FROM action_get('guess $round')"), $end, '... and so it has ended');
	$ended{$end}++;
}
diag(sprintf '%d guesses in %.0f s: %d consumed, %d burned', $rounds * $guesses, $took, @ended{qw(consumed burned)});
$node->stop;
done_testing();
