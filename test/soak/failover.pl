# Failovers in a chain, see ExactOnce::Failover; script/long failover runs it.
#   failover.pl ROUNDS SEED slots|no-slots short|long
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Failover;
use Test::More;

my ($rounds, $seed, $slots, $beside) = @ARGV;
my $chain = ExactOnce::Failover::begin(name => 'chain', seed => $seed, slots => $slots eq 'slots',
	long => $beside eq 'long');
for my $round (1 .. $rounds)
{
	$chain->run_round($round == $rounds ? (check => 1) : ());
	last if @{ $chain->{violations} };
}
diag($chain->summary);
$chain->end;
done_testing();
