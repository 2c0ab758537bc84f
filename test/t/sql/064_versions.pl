# The library and the SQL objects of the extension are of different versions: one clear error,
# no harm, and everything goes on once they are the same.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('versions', options => { max_attempts => 1 });
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $own = $sql->("SELECT extversion FROM pg_extension WHERE extname = 'exactonce'");
my $known = 0;

# Calls a function in a new session and returns what it says.
sub call
{
	my ($text) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $text, stdout => \$out, stderr => \$err);
	return $out . $err;
}

foreach my $other ('0.9', '9.9')
{
	my $key = 'k' . ++$known;
	# A key whose transaction has committed, and which is not finished when the server ends.
	fault(to => 'COMPLETED', do => 'drop', times => 0);
	$sql->("SELECT idem_once('$key', '1')");
	await_request(to => 'COMPLETED');
	$sql->("UPDATE pg_extension SET extversion = '$other' WHERE extname = 'exactonce'");
	$node->restart;
	reset_proxy();
	foreach my $what ("idem_acquire('new')", "idem_once('new')", "idem_start('new')")
	{
		my $said = call("SELECT $what");
		like($said, qr/library of exactonce is version \Q$own\E, and the extension in this database is version \Q$other\E/,
			"the extension is $other: $what says so");
		like($said, qr/ALTER EXTENSION exactonce UPDATE.*install the package/s, "the extension is $other: $what says what to do");
	}
	wait_until("the extension is $other: the log says so",
		sub { slurp_file($node->logfile) =~ /ERROR:  the library of exactonce is version \Q$own\E, and .* \Q$other\E/ });
	is(record('tap_versions', $key)->{status}, 'COMMITTING', "the extension is $other: its worker touches nothing");
	is(record('tap_versions', 'new'), undef, "the extension is $other: and nothing was claimed");
	is(call('SELECT 1'), '1', "the extension is $other: everything else works");
	$sql->("UPDATE pg_extension SET extversion = '$own' WHERE extname = 'exactonce'");
	$node->restart;
	settled($node);
	is(record('tap_versions', $key)->{status}, 'COMPLETED', "the extension is $own again: what was unfinished is finished");
	is($sql->("SELECT (idem_acquire('after $key')).outcome"), 'acquired', "the extension is $own again: new keys work");
}

stop_without_crash($node);
done_testing();
