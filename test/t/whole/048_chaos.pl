# Short rounds of the parts of script/long chaos: DynamoDB throttles, denies access, does not know
# the credentials any more, is away, is slow, or has a wrong clock, and then works again.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Chaos;
use Test::More;

my $cluster = ExactOnce::Chaos::new_cluster('chaos', 10);
ExactOnce::Chaos::run_part($cluster, $_, seconds => 1, transactions => 1, alone => 1) foreach qw(throttled denied expired outage slow clock);
ExactOnce::Chaos::stop_cluster($cluster);
done_testing();
