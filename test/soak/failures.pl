# Failures of every kind at every point, see ExactOnce::FailPoints; script/long fail runs it.
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
my (%all, $all);
foreach my $name (ExactOnce::FailPoints::cases_of(@ARGV))
{
	foreach my $cold (ExactOnce::FailPoints::is_of_session($name) ? (0, 1) : 0)
	{
		my %points = map { $_ => ExactOnce::FailPoints::fail_everywhere($node, $name, $_, cold => $cold) } ExactOnce::FailPoints::kinds(split /,/, $kinds);
		$all{$_} += $points{$_} foreach keys %points;
		diag("$name" . ($cold ? ' in a new session: ' : ': ') . join ', ', map { "$points{$_} $_" } sort keys %points);
	}
}
$all += $_ foreach values %all;
diag("$all points: " . join ', ', map { "$all{$_} $_" } sort keys %all);
ExactOnce::FailPoints::end($node);
done_testing();
