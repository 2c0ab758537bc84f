# What lives promise, see ExactOnce::Lives; script/long lives runs it.
#   lives.pl PART...
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Lives;
use Test::More;

# As users have it, but for the end of an idle life, for which nobody waits five minutes.
my %size = (
	copies => { hurry => 1, transactions => 1000 },
	killed => { hurry => 1, rounds => 10, committed => 50, open => 20, bound => 1 },
	scan => { hurry => 1, records => 100_000, units => 500, committed => 50, open => 50, seconds => 10 },
	beats => { hurry => 1, busy => 60 },
	idle => { hurry => 10, busy => 10, idle => 60 },
	requests => { hurry => 1, keys => 1000 });

foreach my $part (@ARGV)
{
	ExactOnce::Lives::run_part($part eq 'idle' ? 'beats' : $part, %{ $size{$part} });
}
done_testing();
