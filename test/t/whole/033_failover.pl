# An asynchronous failover under load: the primary is frozen, its standby promoted, and
# the old primary goes on for a while.  Afterwards a key is completed if and only if its
# work survived, and every key whose commit was lost is done again.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Failover;
use Test::More;

my $chain = ExactOnce::Failover::begin(name => 'failover', seed => 1);
$chain->run_round(how => 'freeze', before => 3, lag => 1, frozen => 5, thawed => 1.5, old_end => 'fast',
	standby => 'copy', restart => '', after => 1, check => 1);
cmp_ok($chain->{totals}{commits}, '>', 0, 'clients saw commits');
cmp_ok($chain->{totals}{lost}, '>', 0, 'some of the commits were lost');
$chain->end;
done_testing();
