# Small rounds of parts of script/long lives: a copy beside its original, a claim file that is
# lost, beats, and the requests of a key.  lives.pl kills servers in place, and heirs.pl
# waits for the end of an idle life.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Lives;
use Test::More;

my %size = (
	copies => { hurry => 10, transactions => 50, clients => 2 },
	scan => { hurry => 10, records => 3_000, units => 200, committed => 10, open => 10, seconds => 1 },
	beats => { hurry => 10, busy => 5 },
	requests => { hurry => 10, keys => 50 });

ExactOnce::Lives::run_part($_, %{ $size{$_} }) foreach sort keys %size;
done_testing();
