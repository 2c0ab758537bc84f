# A random run with a checker: servers, clients, faults and kills, all drawn from a seed,
# in rounds.  Each ends with a healing, after which everything is compared.
#
#   soak.pl [--rounds N] [--only ROUND] [--events N] [--no-shrink] [--one-address] MINUTES SEED
#
# Soak/Plan.pm draws a round, Soak/Servers.pm has the servers, Soak/Faults.pm carries out
# the events, clients.mjs runs the clients, and checker.mjs compares.
use strict;
use warnings FATAL => 'all';
use Cwd qw(abs_path);
use ExactOnce;
use File::Basename qw(dirname);
use File::Path qw(make_path);
use Getopt::Long;
use IPC::Open2;
use JSON::PP;
use List::Util qw(max);
use POSIX ();
use PostgreSQL::Test::Utils;
use Soak::Faults;
use Soak::Plan;
use Soak::Servers;
use Test::More;
use Time::HiRes qw(time usleep);

# After the last fault there must not be so many seconds in which nothing is settled, until
# everything is: how long that takes is up to the machine.  Time in which the engine takes
# longer for an answer than the servers wait says nothing about them.
my ($bound, $slow) = (60, 1000);

my ($rounds, $only, $limit, $shrink, $one_address) = (0, 0, undef, 1, 0);
GetOptions('rounds=i' => \$rounds, 'only=i' => \$only, 'events=i' => \$limit, 'shrink!' => \$shrink, 'one-address' => \$one_address)
  or die 'wrong option';
my ($minutes, $seed) = @ARGV;
my $here = abs_path(dirname($0));
my $began = time();
my (%totals, $worlds, $world);

# A server that is stopped could not be ended, should this program die.
END
{
	if ($world)
	{
		$world->{faults}->continue_stopped(1);
		$world->{servers}->end_lag;
		$world->{servers}->continue_old;
	}
}

# A line of the log, regress_log_soak.
sub log_line
{
	my ($line) = @_;
	my ($whole, $part) = split /\./, sprintf '%.3f', time();
	print POSIX::strftime('%H:%M:%S', gmtime $whole), ".$part $line\n";
	return;
}

# ----- the clients' program -----------------------------------------------------

sub start_clients
{
	my ($table) = @_;
	local @ENV{qw(EO_TABLE EO_TWO_ADDRESSES)} = ($table, $one_address ? 0 : 1);
	my %peer;
	$peer{pid} = open2($peer{out}, $peer{in}, 'node', "$here/clients.mjs");
	$peer{in}->autoflush(1);
	readline $peer{out} or die 'the clients do not start';
	return \%peer;
}

sub ask_clients
{
	my ($world, $do, %more) = @_;
	my $in = $world->{peer}{in};
	print $in encode_json({ do => $do, %more }), "\n";
	my $line = readline $world->{peer}{out} // die 'the clients have ended';
	my $answer = decode_json($line);
	die "$do: $answer->{error}" if $answer->{error};
	return $answer;
}

sub direct
{
	my ($world) = @_;
	return ask_clients($world, 'direct', places => $world->{servers}->places);
}

# ----- a round --------------------------------------------------------------------

# Servers and clients with nothing behind them.
sub begin_world
{
	my $name = "soak${seed}" . ('', 'b' .. 'z')[ $worlds++ ];
	my $setup = PostgreSQL::Test::Utils::slurp_file("$here/transactions.mjs");
	$setup =~ s/.*export const SETUP = `\n(.*?)`;.*/$1/s or die 'no SQL for the databases';
	my %world = (servers => Soak::Servers::begin($name, $setup, $one_address));
	$world{faults} = Soak::Faults->new($world{servers}, sub { ask_clients(\%world, @_) });
	$world{peer} = start_clients($world{servers}{table});
	return \%world;
}

sub end_world
{
	my ($world) = @_;
	close $world->{peer}{in};
	waitpid($world->{peer}{pid}, 0);
	$world->{servers}->end;
	return;
}

sub cause_events
{
	my ($world, $plan) = @_;
	my $start = time();
	foreach my $event (@{ $plan->{events} })
	{
		while ((my $left = $start + $event->{at} - time()) > 0)
		{
			usleep(1_000_000 * ($left > 0.05 ? 0.05 : $left));
			$world->{faults}->continue_stopped;
		}
		my $at = time();
		my $did = $world->{faults}->cause($event);
		$world->{event} = $event->{n};
		log_line(sprintf 'round %d, %.2f s: event %d, %s%s%s', $plan->{round}, $at - $start, $event->{n}, $event->{do},
			$event->{place} ? " $event->{place}" : '', $did ? '' : ', nothing done');
		direct($world) if $did && $event->{do} =~ /^(?:promote|thaw|end_old|copy_cluster)$/;
		# An event that takes long delays the others, which keep their distances.
		$start = max($start, time() - $event->{at} - 0.3);
	}
	my $left = $start + $plan->{seconds} - time();
	usleep(1_000_000 * $left) if $left > 0;
	return;
}

# Ends all faults and waits until every key is completed and no view shows anything.
# Returns what is wrong.
sub heal
{
	my ($world) = @_;
	my $servers = $world->{servers};
	$world->{faults}->end;
	$servers->heal;
	direct($world);
	my $told = ask_clients($world, 'end');
	# What a client had asked for may have met a fault of the last moment.
	reset_proxy();
	my ($start, @wrong, @left) = (time());
	my ($fewest, $settled) = (1_000_000, $start);
	my %where = (places => $servers->places, databases => $servers->surviving);
	push @wrong, wait_unasked($world, %where);
	($start, $settled) = (time(), time());
	do
	{
		push @wrong, $servers->take_over;
		my $again = ask_clients($world, 'redeliver', %where);
		@left = (@{ $again->{left} }, @{ ask_clients($world, 'left', %where)->{left} });
		# A session that was killed may have been the only one that went there.
		$servers->use_addresses if grep { /life: .* opening$/ } @left;
		$settled = time() if $again->{took} > $slow && time() - $start < 10 * $bound;
		($fewest, $settled) = (scalar @left, time()) if @left < $fewest;
		usleep(100_000) if @left;
	} while (@left && time() - $settled < $bound);
	push @wrong, map { "not settled within $bound s: $_" } @left;
	push @wrong, $servers->find_faults;
	return ($told, time() - $start, @wrong);
}

# Waits until B has settled what its transactions have sealed.  Returns what it has not.
sub wait_unasked
{
	my ($world, %where) = @_;
	my ($settled, $fewest, @left) = (time(), 1_000_000);
	do
	{
		my $start = time();
		ask_clients($world, 'left', %where);
		@left = @{ ask_clients($world, 'unasked', %where)->{left} };
		($fewest, $settled) = (scalar @left, time()) if @left < $fewest || time() - $start > 2 * $slow / 1000;
		usleep(100_000) if @left;
	} while (@left && time() - $settled < $bound / 2);
	return map { "nobody has asked for it, and B has not settled it: $_" } @left;
}

sub draw_plan
{
	my ($round, $events) = @_;
	return Soak::Plan::draw($seed, $round, limit => $events, two_addresses => !$one_address);
}

sub run_round
{
	my ($world, $round, $events) = @_;
	my $plan = draw_plan($round, $events);
	my $start = time();
	$world->{faults}{counts} = {};
	$world->{servers}{away} = 0;
	direct($world);
	ask_clients($world, 'begin', round => $round, clients => $plan->{clients});
	cause_events($world, $plan);
	my ($told, $healed, @violations) = heal($world);
	my %where = (places => $world->{servers}->places, databases => $world->{servers}->surviving);
	my $check = ask_clients($world, 'check', %where, late => delete $world->{servers}{late} // []);
	push @violations, @{ $check->{violations} };
	log_line("round $round, $_") foreach @{ delete $told->{tally} };
	my %caused = %{ $world->{faults}{counts} };
	my %counts = (%{ $check->{counts} }, %$told, map { $_ => $caused{$_} // 0 } qw(kills fault promote copy_cluster));
	$counts{by_hand} = delete $world->{servers}{by_hand} // 0;
	my @others = map { "$_ $caused{$_}" } grep { $caused{$_} && !/^(?:kills|fault|promote|copy_cluster|lag|thaw|end_old)$/ }
	  sort keys %caused;
	my $numbers = sprintf '%d keys, %d attempts, %d commits seen, %d unknown, %d lost; %d writes, %d swept, %d claims taken over '
	  . '(%d early, %d by late copies); %d shared keys (%d late); %d prepared; %d kills, %d faults of the network, %d failovers, %d copies',
	  @counts{qw(keys attempts commits unknown lost writes swept takeovers early copied shared late prepared kills fault promote copy_cluster)};
	diag(sprintf 'round %d: %s (%s); healed after %.1f s, %d lives by hand; %.0f s; %s', $round, $numbers, "@others", $healed,
		$counts{by_hand}, time() - $start, @violations ? @violations . ' VIOLATIONS' : 'ok');
	$totals{$_} += $counts{$_} foreach keys %counts;
	$totals{rounds}++;
	$totals{violations} += @violations;
	keep_findings($world, $plan, @violations) if @violations;
	$world->{servers}->end_copy;
	return @violations;
}

# Keeps what is needed to explain a violation.
sub keep_findings
{
	my ($world, $plan, @violations) = @_;
	my $folder = "$PostgreSQL::Test::Utils::tmp_check/findings/$worlds-$seed-$plan->{round}";
	make_path($folder);
	my $json = JSON::PP->new->canonical->pretty;
	my $write = sub { append_to_file("$folder/$_[0]", $_[1]) };
	$write->('violations', join '', map { "$_\n" } @violations);
	$write->('evidence.json', $json->encode(ask_clients($world, 'history')));
	$write->('plan.json', $json->encode($plan));
	$write->('requests.json', control('GET', '/log'));
	my %nodes = $world->{servers}->nodes;
	foreach my $name (keys %nodes)
	{
		foreach my $view (qw(exactonce_claims exactonce_pending exactonce_lives exactonce_in_doubt))
		{
			$write->("$name.$view", Soak::Servers::try_sql($nodes{$name}, $_, "\\x\nSELECT * FROM $view") // '')
			  foreach @Soak::Servers::databases;
		}
	}
	diag("found in $folder, beside the servers' logs");
	return;
}

# ----- shrinking --------------------------------------------------------------------

# Runs a round alone, in a world of its own, with its first events only.
sub violates_alone
{
	my ($round, $events) = @_;
	$world = begin_world();
	my @violations = run_round($world, $round, $events);
	end_world($world);
	return @violations > 0;
}

# Looks for the shortest beginning of the round's events that still violates.  What takes
# part in a race may come out otherwise the next time, so the answer is the shortest one
# that was seen to violate.
sub shrink_round
{
	my ($round, $events) = @_;
	if (!violates_alone($round, $events))
	{
		diag("round $round by itself shows no violation this time");
		return;
	}
	my ($good, $bad) = (0, $events);
	while ($bad - $good > 1)
	{
		my $middle = int(($good + $bad) / 2);
		if (violates_alone($round, $middle)) { $bad = $middle }
		else { $good = $middle }
	}
	diag('shortest beginning that violates: script/long soak ' . ($one_address ? '--one-address ' : '') . "--only $round --events $bad 1 $seed");
	my $plan = draw_plan($round, $bad);
	my $json = JSON::PP->new->canonical;
	diag($json->encode($_)) foreach @{ $plan->{events} };
	return;
}

# ----- the run ------------------------------------------------------------------------

sub main
{
	$_ = paced($_) foreach $bound, $slow;
	$world = begin_world();
	my $round = $only ? $only - 1 : 0;
	my ($failed, $events);
	while (!$failed)
	{
		$round++;
		my @violations = run_round($world, $round, $limit);
		is(join("\n", @violations), '', "seed $seed, round $round: keys, work and clients agree");
		($failed, $events) = ($round, $world->{event} // 0) if @violations;
		last if $failed || $only || ($rounds ? $totals{rounds} >= $rounds : time() - $began > 60 * $minutes);
	}
	# That takes longer than the short runs of script/test may.
	is(join("\n", $world->{servers}->find_leaks), '', "seed $seed: no slot is left") unless $failed || $only || $rounds;
	diag(sprintf 'seed %d: %d rounds, %d kills, %d failovers, %d copies, %d faults of the network; %d keys, %d attempts, '
		  . '%d commits seen, %d unknown, %d lost; %d writes checked; at most %d descriptors and %d kB in a worker; '
		  . '%d violations%s',
		$seed, @totals{qw(rounds kills promote copy_cluster fault keys attempts commits unknown lost writes)},
		@{ $world->{servers} }{qw(descriptors memory)}, $totals{violations}, $failed ? " in round $failed" : '');
	end_world($world);
	shrink_round($failed, $events) if $failed && $shrink;
	done_testing();
	return;
}

main();
