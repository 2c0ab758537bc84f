# Failures of every kind at every point, see ExactOnce::FailPoints; script/fail runs it.
#   failures.pl [FUNCTION...]
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::FailPoints;
use Test::More;

my $node = ExactOnce::FailPoints::begin('test/fail/exactonce.so');
is(join(' ', ExactOnce::FailPoints::functions_without_case($node)), '', 'every function has a case');
my $all = 0;
foreach my $name (ExactOnce::FailPoints::cases_of(@ARGV))
{
	my %points = map { $_ => ExactOnce::FailPoints::fail_everywhere($node, $name, $_) } ExactOnce::FailPoints::kinds();
	$all += $_ foreach values %points;
	diag("$name: " . join ', ', map { "$points{$_} $_" } sort keys %points);
}
diag("$all points");
stop_without_crash($node);
done_testing();
