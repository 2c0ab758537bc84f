# Failures of every kind at every point, see ExactOnce::FailPoints; script/fail runs it.
#   failures.pl [--kinds KIND,...] [FUNCTION...]
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::FailPoints;
use Getopt::Long;
use Test::More;

my $kinds = '';
GetOptions('kinds=s' => \$kinds) or exit 2;

my $node = ExactOnce::FailPoints::begin('test/fail/exactonce.so');
is(join(' ', ExactOnce::FailPoints::functions_without_case($node)), '', 'every function has a case');
my $all = 0;
foreach my $name (ExactOnce::FailPoints::cases_of(@ARGV))
{
	foreach my $cold (ExactOnce::FailPoints::is_of_session($name) ? (0, 1) : 0)
	{
		my %points = map { $_ => ExactOnce::FailPoints::fail_everywhere($node, $name, $_, cold => $cold) } ExactOnce::FailPoints::kinds(split /,/, $kinds);
		$all += $_ foreach values %points;
		diag("$name" . ($cold ? ' in a new session: ' : ': ') . join ', ', map { "$points{$_} $_" } sort keys %points);
	}
}
diag("$all points");
ExactOnce::FailPoints::end($node);
done_testing();
