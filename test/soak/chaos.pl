# What DynamoDB may do to its users, see ExactOnce::Chaos; script/long chaos runs it.
#   chaos.pl PART...
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Chaos;
use Test::More;

# As users have it, but for the hour of the outage.
my %size = (
	throttled => { hurry => 1, seconds => 30 },
	denied => { hurry => 1, seconds => 30 },
	expired => { hurry => 1, seconds => 30 },
	outage => { hurry => 20, seconds => 180 },
	slow => { hurry => 1, seconds => 60 },
	clock => { hurry => 1, seconds => 30 });

foreach my $part (@ARGV)
{
	my $cluster = ExactOnce::Chaos::new_cluster($part, $size{$part}{hurry});
	ExactOnce::Chaos::run_part($cluster, $part, transactions => 5, alone => 10, %{ $size{$part} });
	ExactOnce::Chaos::stop_cluster($cluster);
}
done_testing();
