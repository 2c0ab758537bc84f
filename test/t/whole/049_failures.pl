# Something fails in the middle of a call, or of the worker's work: an allocation, a
# connection, a reply, an entry in shared memory.  Some functions, with some kinds of
# failure, at every point; script/long fail runs all of them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::FailPoints;
use Test::More;

my $node = ExactOnce::FailPoints::begin("$FindBin::Bin/../../fail/exactonce.so");
is(join(' ', ExactOnce::FailPoints::functions_without_case($node)), '', 'every function has a case');
foreach my $sample ([ idem_once => qw(memory outage room) ], [ idem_acquire => qw(lost) ], [ action_cancel => qw(heap) ],
	[ 'worker, a commit' => qw(unsent) ], [ 'worker, another timeout' => qw(memory) ])
{
	my ($name, @kinds) = @$sample;
	cmp_ok(ExactOnce::FailPoints::fail_everywhere($node, $name, $_), '>', 0, "$name has points of $_") foreach @kinds;
}
# Without any failure: what the worker has read for a server that is altered is not kept.
ExactOnce::FailPoints::fail_everywhere($node, 'worker, another timeout', 'room');
# Nor is what a session reads a page by.
ExactOnce::FailPoints::keeps_nothing($node, $_) foreach qw(idem_get idem_list idem_sweep action_list);

# These tests notice what is kept; the last one leaves shared memory as it should not be.
ExactOnce::FailPoints::notices($node, memory => qr/more and more memory of PostgreSQL/);
ExactOnce::FailPoints::notices($node, descriptor => qr/more and more descriptors/);
ExactOnce::FailPoints::notices($node, chunk => qr/a chunk is neither in use nor free/);
ExactOnce::FailPoints::end($node);
done_testing();
