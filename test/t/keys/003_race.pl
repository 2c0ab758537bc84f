# A hundred sessions and one new key.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my ($clients, $rounds) = (100, 5);
my $node = new_node('race', conf => "max_connections = 120\n");
$node->safe_psql('postgres', 'CREATE TABLE seen (round int, outcome text)');
my $script = $node->basedir . '/race.sql';
append_to_file($script, "INSERT INTO seen SELECT :round, outcome FROM idem_acquire('race ' || :round);\n");
foreach my $round (1 .. $rounds)
{
	command_ok([ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', 1, '-D', "round=$round",
			'-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		"round $round: $clients sessions ask for one key at once");
}
is($node->safe_psql('postgres', <<'SQL'), '5|5|500', 'each round has one winner, and every other session is answered');
SELECT count(*) FILTER (WHERE outcome = 'acquired'),
	   count(DISTINCT round) FILTER (WHERE outcome = 'acquired'), count(*)
FROM seen WHERE outcome IN ('acquired', 'in_progress');
SQL
stop_without_crash($node);
done_testing();
