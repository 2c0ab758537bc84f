# Failovers while DynamoDB is slow: a primary is killed with keys in every state, and its
# standby is promoted while a third of all reads are not answered.  Every key must be had
# within a minute of the promotion.  script/long failover --slow runs it, beside stress-ng.
#   slow.pl ROUNDS
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Leases;
use List::Util qw(max);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my ($rounds) = @ARGV;
my $bound = 60;
my $conf = "wal_level = replica\nmax_wal_senders = 5\nmax_connections = 40\nlog_min_messages = log\n";

# The outcome of an acquire of each key, in one session.
sub ask_for
{
	my ($node, @keys) = @_;
	my ($out, $err) = ('', '');
	my $script = join '', map { "SELECT '$_', outcome FROM idem_acquire('$_', on_commit => 'keep');\n" } @keys;
	$node->psql('postgres', $script, stdout => \$out, stderr => \$err, on_error_stop => 0);
	return map { split /\|/ } split /\n/, $out;
}

# Asks for keys in several sessions, until each is had; returns when, in seconds.
sub await_keys
{
	my ($node, $began, @keys) = @_;
	my $folder = PostgreSQL::Test::Utils::tempdir('keys');
	my @pids = map {
		my $of = $_;
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			my %left = map { $keys[$_] => 1 } grep { $_ % 6 == $of } 0 .. $#keys;
			while (%left && time() < $began + 2 * $bound)
			{
				my %got = eval { ask_for($node, sort keys %left) };
				foreach my $key (grep { $got{$_} =~ /^(?:acquired|completed)$/ } keys %got)
				{
					append_to_file("$folder/$of", sprintf "%s %s %.1f\n", $key, $got{$key}, time() - $began);
					delete $left{$key};
				}
				usleep(200_000);
			}
			POSIX::_exit(0);
		}
		$pid;
	} 0 .. 5;
	waitpid $_, 0 foreach @pids;
	return map { my ($key, $outcome, $when) = split ' '; $key => [ $outcome, $when ] }
	  map { split /\n/, slurp_file($_) } glob "$folder/*";
}

foreach my $round (1 .. $rounds)
{
	my $name = "round$round";
	my $node = new_node($name, conf => $conf);
	$node->append_conf('pg_hba.conf', 'local replication all trust');
	$node->reload;
	sql_of($node, 'CREATE TABLE work (key text)');
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("${name}_heir");
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	complete($node, "done-$_") foreach 1 .. 5;
	settled($node);
	fault(to => 'COMPLETED', do => 'drop', times => 0);
	complete($node, "left-$_") foreach 1 .. 10;
	my @runs = map { start_open($node, "open-$_") } 1 .. 3;
	$node->wait_for_catchup($standby, 'replay');
	my ($sender) = split /\n/, sql_of($node, 'SELECT pid FROM pg_stat_replication');
	kill 'STOP', $sender;
	complete($node, "lost-$_") foreach 1 .. 5;
	crash($node);
	reset_proxy();
	fault(op => 'GetItem', do => 'hold', every => 3, times => 0);
	fault(op => 'GetItem', key => 'ORIGIN#', do => 'hold', every => 3, times => 0);
	my $began = time();
	$standby->promote;
	my @keys = ((map { "done-$_" } 1 .. 5), (map { "left-$_" } 1 .. 10), (map { "open-$_" } 1 .. 3),
		(map { "lost-$_" } 1 .. 5));
	my %had = await_keys($standby, $began, @keys);
	is(join(' ', map { $_->[0] // 'none' } @had{ grep { /done|left/ } @keys }), join(' ', ('completed') x 15),
		"round $round: what has committed is completed");
	is(join(' ', map { $_->[0] // 'none' } @had{ grep { /open|lost/ } @keys }), join(' ', ('acquired') x 8),
		"round $round: what has not, or is lost, can be had");
	my $last = max(map { $_->[1] // 9999 } @had{@keys});
	cmp_ok($last, '<=', $bound, "round $round: every key is had within $bound s of the promotion");
	diag(sprintf 'round %d: the last of %d keys was had after %.1f s', $round, scalar(@keys), $last);
	reset_proxy();
	foreach my $run (@runs)
	{
		go_on("open-$_") foreach 1 .. 3;
		eval { finish_script($run) };
	}
	$standby->stop('immediate');
	$_->clean_node foreach $standby, $node;
}
done_testing();
