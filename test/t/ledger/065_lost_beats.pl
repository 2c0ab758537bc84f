# The reply to a beat was lost, and then the service is away while many sessions try in vain
# to extend the lease.  The life is recognised by the nonce of that beat when the service is back.
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

my $node = new_node('beats', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\n",
	options => { request_timeout => '2 s', commit_timeout => '1 s', connect_timeout => '1 s', max_attempts => 1 });
is(errors_of($node, "SELECT idem_once('first')"), '', 'a life begins');
settled($node);
my $life = life_of($node);

# Nobody can say whether this beat was applied; and from then on nothing is answered.
fault(key => "ORIGIN#$life", do => 'lose', times => 0);
await_request(key => "ORIGIN#$life");
fault(do => 'drop', times => 0);
wait_until('calls are refused, because the service does not answer', sub {
	$node->psql('postgres', "SELECT idem_once('in vain')");
	return sql_of($node, 'SELECT bool_or(is_open) FROM exactonce_circuits') eq 't';
});
my ($out, $err) = ('', '');
$node->psql('postgres', join('', map { "SELECT idem_once('in vain $_');\n" } 1 .. 400), stdout => \$out, stderr => \$err, on_error_stop => 0);
my $failed = () = $err =~ /ID006/g;
$failed = () = $err =~ /ERROR/g unless $failed;
is($failed, 400, 'many transactions fail meanwhile');

reset_proxy();
wait_until('the service is back', sub { errors_of($node, "SELECT idem_once('again')") eq '' });
is(life_of($node), $life, 'the life goes on');
settled($node);
is(record('tap_beats', 'again')->{status}, 'COMPLETED', 'and its keys are finished');

# The reply to a beat is lost, and later copies of it are, before one is refused by it: the
# lease is as old as the first copy, whichever it was that told.
my $worker = sql_of($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
kill 'STOP', $worker;
reset_proxy();
fault(key => "ORIGIN#$life", do => 'lose');
fault(key => "ORIGIN#$life", do => 'drop', nth => 2, times => 10);
fault(key => "ORIGIN#$life", do => 'drop', nth => 13, times => 0);
kill 'CONT', $worker;
await_request(key => "ORIGIN#$life", n => 14);
my @copies = requests(key => "ORIGIN#$life");
is($copies[0]{applied}, JSON::PP::true, 'a beat is applied, and its reply is lost');
is($copies[11]{code}, 'ConditionalCheckFailedException', 'a later copy is refused by it');
my $since = sql_of($node, "SELECT extract(epoch FROM max(since)) * 1000 FROM exactonce_lives WHERE life = '$life'");
cmp_ok($since, '<=', $copies[0]{at} + 50, 'the lease is as old as the first copy');
reset_proxy();
wait_until('beats are answered again', sub { errors_of($node, "SELECT idem_once('at last')") eq '' });
is(life_of($node), $life, 'under the same life');
# Beats get no answer, of a server of a superuser whose requests may take long.  They are given up
# in time for other ones, however many are under way.
$node->safe_psql('postgres', timeouts_sql('exactonce', request_timeout => '60s'));
reset_proxy();
fault(key => "ORIGIN#$life", do => 'hold', times => 5);
my $before = time();
await_request(key => "ORIGIN#$life", n => 6);
cmp_ok(time() - $before, '<', paced(20), 'beats that get no answer are given up, and sent again');
reset_proxy();
wait_until('the lease is renewed', sub { errors_of($node, "SELECT idem_once('after them')") eq '' });
is(life_of($node), $life, 'and the life goes on');
unlike(slurp_file($node->logfile), qr/has ended|was retired|twin/, 'nobody speaks of a twin');
stop_without_crash($node);
done_testing();
