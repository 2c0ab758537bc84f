# The engine or PostgreSQL goes away and comes back.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use Test::More;

my $node = new_node('restarts', options => ", clock_skew '0', request_timeout '2s'");

# the engine, under a session that holds a connection to it
my $out = psql_ok($node, <<'SQL');
SELECT 'first ' || outcome FROM idem_acquire('claimed before');
\! curl -s -X POST $EO_CONTROL/engine/stop
SELECT idem_acquire('while it is away');
SELECT idem_complete('claimed before', '"too early"');
\! curl -s -X POST $EO_CONTROL/engine/start
SELECT 'second ' || outcome FROM idem_acquire('while it is away');
SELECT 'completed' || idem_complete('claimed before', '"kept"');
SELECT 'result ' || result::text FROM idem_acquire('claimed before');
SQL
like($out, qr/first acquired/, 'a claim before');
my @failures = $out =~ /ERROR:  (ID006)/g;
is(scalar @failures, 2, 'each call meanwhile is ID006');
like($out, qr/second acquired/, 'the same session works once it is back');
like($out, qr/result "kept"/, 'and can complete what it held');

# PostgreSQL: a crash forgets the tokens, not the claims
my $token = $node->safe_psql('postgres',
	"SELECT token FROM idem_acquire('survives', lease => '1 hour')");
$node->safe_psql('postgres', "SELECT idem_acquire('left behind', lease => '100 ms')");
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT outcome FROM idem_acquire('survives')"),
	'in_progress', 'a claim outlives its server');
$node->safe_psql('postgres', "SELECT idem_complete('survives', '1', token => '$token')");
is($node->safe_psql('postgres', "SELECT outcome, result FROM idem_acquire('survives')"),
	'completed|1', '... and is completed by its token');
is($node->safe_psql('postgres', "SELECT outcome, run FROM idem_acquire('left behind', wait => '10 s')"),
	'acquired|2', 'one left behind is taken over after its lease');

$node->stop;
done_testing();
