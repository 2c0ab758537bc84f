# The engine or PostgreSQL goes away and comes back.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;

my $node = new_node('restarts', options => { clock_skew => 0, request_timeout => '2s' });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# the engine restarts under a session that holds a connection to it
my $out = run_script($node, <<'SQL');
SELECT 'first ' || outcome FROM idem_acquire('claimed before');
\! curl -s -X POST $EO_CONTROL/engine/stop
SELECT idem_acquire('while it is away');
SELECT idem_complete('claimed before', '"too early"');
\! curl -s -X POST $EO_CONTROL/engine/start
-- On a slow machine calls are refused by now, until one a second has had an answer.
DO $$ BEGIN WHILE EXISTS (SELECT FROM exactonce_circuits WHERE is_open) LOOP PERFORM pg_sleep(0.05); END LOOP; END $$;
SELECT 'second ' || outcome FROM idem_acquire('while it is away');
SELECT 'completed' || idem_complete('claimed before', '"kept"');
SELECT 'result ' || result::text FROM idem_acquire('claimed before');
SQL
like($out, qr/first acquired/, 'a key is claimed before the engine stops');
my @failures = $out =~ /ERROR:  (ID006)/g;
is(scalar @failures, 2, 'each call without the engine fails with ID006');
like($out, qr/second acquired/, 'the same session works once the engine is back');
like($out, qr/result "kept"/, 'a claim from before the restart of the engine can be completed');

# PostgreSQL restarts: claims and tokens
my $token = $sql->("SELECT token FROM idem_acquire('survives', lease => '1 hour')");
$sql->("SELECT idem_acquire('left behind', lease => '100 ms')");
$node->stop('immediate');
$node->start;
is($sql->("SELECT outcome FROM idem_acquire('survives')"), 'in_progress', 'a claim outlives its server');
$sql->("SELECT idem_complete('survives', '1', token => '$token')");
is($sql->("SELECT outcome, result FROM idem_acquire('survives')"), 'completed|1',
	'a claim from before the restart of the server is completed by its token');
is($sql->("SELECT outcome, run FROM idem_acquire('left behind', wait => '10 s')"), 'acquired|2',
	'a claim from before the restart of the server is taken over after its lease');

stop_without_crash($node);
done_testing();
