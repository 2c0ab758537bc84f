# Something fails in the middle of a call: an allocation, a connection, a reply, an entry
# in shared memory.  Some functions, with some kinds of failure, at every point;
# script/fail runs all of them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use ExactOnce::FailPoints;
use Test::More;

my $node = ExactOnce::FailPoints::begin("$FindBin::Bin/../fail/exactonce.so");
is(join(' ', ExactOnce::FailPoints::functions_without_case($node)), '', 'every function has a case');
foreach my $sample ([ idem_once => qw(memory outage room) ], [ idem_acquire => qw(lost) ])
{
	my ($name, @kinds) = @$sample;
	cmp_ok(ExactOnce::FailPoints::fail_everywhere($node, $name, $_), '>', 0, "$name has points of $_") foreach @kinds;
}
stop_without_crash($node);
done_testing();
