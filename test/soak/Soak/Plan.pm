# What happens in a round of the soak, drawn from the seed and the number of the round
# and from nothing else: the sessions of the clients with their attempts, and the events
# (faults, kills, changes of the schema) in their order.  How fast the machine is decides
# how far the clients get between two events.
package Soak::Plan;

use strict;
use warnings FATAL => 'all';
use List::Util qw(sum);

# Sessions in PostgreSQL, and services with the AWS SDK.
my ($sessions, $services) = (9, 3);

# A client works on one of this many latest keys.
my $recent = 12;

# What a session does, and how often.
my %kinds = (acquire => 26, once => 14, many => 10, savepoint => 10, block => 8, call => 10,
	guard => 4, guard_late => 4, guard_skip => 4, fail => 5, release => 5, keep => 9, hold => 3, token => 6,
	immediate => 5, transact => 5, prepare => 10, action => 8, order => 10, session => 8, shared => 14);
my %several = map { $_ => 1 } qw(many savepoint block prepare);

my %services = (work => 40, die => 4, release => 8, fail => 8, token => 12, action => 14, lambda => 40);

# What happens beside, and how often.
my %events = (
	fault => 400,
	cancel_backend => 50, terminate_backend => 60, kill_backend => 25, stop_backend => 25,
	terminate_worker => 40, kill_worker => 25, stop_worker => 25, terminate_launcher => 10, kill_launcher => 10,
	kill_postmaster => 20, crash => 20, immediate => 15, restart => 10, freeze => 15,
	restart_engine => 7, pause_engine => 20, credentials => 25,
	rename_table => 12, rename_database => 8, copy_database => 8, drop_server => 10, vacuum_full => 15);

my @net = qw(lose lose drop drop delay reset twice late late throttle);

# Returns the plan of a round: { round, seconds, clients, events }.  limit: how many
# events are kept.  two_addresses: each table has two.
sub draw
{
	my ($seed, $round, %how) = @_;
	my $limit = $how{limit};
	srand($seed * 100_003 + $round);
	my $plan = { round => $round, seconds => 7 + rand 4 };
	$plan->{clients} = [ (map { draw_client() } 1 .. $sessions), (map { draw_service() } 1 .. $services) ];
	my @events = (draw_events($plan), draw_failover($plan), draw_copy($plan), draw_together($plan));
	push @events, draw_addresses($plan, @events) if $how{two_addresses};
	push @events, draw_deletes($plan);
	@events = sort { $a->{at} <=> $b->{at} } @events;
	$events[$_]{n} = $_ + 1 foreach 0 .. $#events;
	splice @events, $limit if defined $limit && $limit < @events;
	$plan->{events} = \@events;
	# Whatever else draws numbers must not draw the same ones in every round.
	srand;
	return $plan;
}

sub one_of
{
	return $_[ int rand @_ ];
}

# A name, as often as its weight says.
sub weighted
{
	my (%weights) = @_;
	my $left = rand sum(values %weights);
	foreach my $name (sort keys %weights)
	{
		return $name if ($left -= $weights{$name}) < 0;
	}
	die;
}

sub maybe
{
	my ($share, @then) = @_;
	return rand() < $share ? @then : ();
}

sub true
{
	return \1;
}

sub draw_keys
{
	my ($kind) = @_;
	return [ map { int rand $recent } 1 .. ($several{$kind} ? 2 + int rand 4 : 1) ];
}

sub draw_attempt
{
	my $kind = weighted(%kinds);
	# With one snapshot nobody waits for a key.
	my @isolation = $kind eq 'acquire' || $kind eq 'once' ? maybe(0.15, isolation => one_of('REPEATABLE READ', 'SERIALIZABLE')) : ();
	return { kind => $kind, keys => draw_keys($kind), @isolation,
		maybe(0.03, old => true()),
		maybe(0.25, pause => 1 + int rand 300),
		@isolation ? () : maybe(0.25, wait => one_of('100 ms', '400 ms')),
		maybe(0.15, lease => one_of('500 ms', '2 s')),
		maybe(0.15, lazy => true()),
		$kind =~ /^(?:acquire|once|prepare)$/ ? maybe(0.35, writes => true()) : (),
		$kind eq 'acquire' ? maybe(0.5, ordered => true()) : (),
		$kind eq 'transact' ? maybe(0.5, gated => true()) : (),
		$kind eq 'prepare' ? (stay => int 5000 * rand() ** 3) : (),
		maybe(0.22, how => one_of(qw(rollback rollback vanish terminate))),
		maybe(0.4, undo => true()),
		maybe(0.1, terminal => true()),
		maybe(0.5, share => true()), maybe(0.5, leave => true()),
		pick => int rand 4, verb => one_of(qw(create create consume consume consume cancel)) };
}

sub draw_client
{
	return [ map { { place => one_of(qw(A A B B B)), database => one_of(qw(postgres postgres two)),
		maybe(0.3, faithful => true()), maybe(0.4, stray => true()),
		attempts => [ map { draw_attempt() } 1 .. 1 + int rand 5 ] } } 1 .. 40 ];
}

sub draw_service
{
	return [ map { my $kind = weighted(%services);
		{ place => 'outside', attempts => [ { kind => $kind, keys => draw_keys($kind), pause => 10 + int rand 200,
			leaseMs => one_of(1000, 3000), pick => int rand 4,
			verb => $kind eq 'lambda' ? one_of(qw(work work work throw die)) : one_of(qw(consume consume cancel)) } ] } } 1 .. 80 ];
}

sub draw_events
{
	my ($plan) = @_;
	my @events;
	for (my $at = 0.5; $at < $plan->{seconds}; $at += 0.02 + rand 0.28)
	{
		my $do = weighted(%events);
		push @events, { at => $at, do => $do, place => one_of(qw(A B)), pick => rand(), ms => 20 + int rand 1500,
			database => one_of(qw(postgres two)), $do eq 'fault' ? (fault => draw_fault($plan->{round})) : () };
	}
	return @events;
}

sub draw_fault
{
	my ($round) = @_;
	my $do = one_of(@net);
	my $key = "IDEMPOTENCY#r$round-";
	my %which = %{ one_of({ key => $key }, { key => $key }, { key => $key, to => 'IN_PROGRESS' },
		{ key => $key, to => 'COMMITTING' }, { key => $key, to => 'COMPLETED' }, { key => $key, to => 'FAILED' }, { op => 'BatchExecuteStatement' },
		{ op => 'TransactWriteItems' }, { key => "ACTION#r$round-" }, { key => 'ORIGIN#' },
		# Of a shared key what SQL writes, because late copies of what others write have no condition.
		{ key => 'shared#', to => one_of(qw(IN_PROGRESS COMMITTING COMPLETED FAILED)) }) };
	my @lost = $do eq 'late' ? maybe(0.5, lost => true()) : ();
	# A transact that was refused is done by a copy that comes later: it has no slot, and nothing is left
	# of it that could refuse the copy.  So a copy that comes after the answer is not one of a transaction.
	if ($do eq 'late' && !@lost)
	{
		return draw_fault($round) if $which{op} && $which{op} eq 'TransactWriteItems';
		$which{op} = 'UpdateItem' if !$which{op} && $which{key} eq $key;
	}
	return { do => $do eq 'throttle' ? 'answer' : $do, %which, nth => 1 + int rand 4, times => 1 + int rand 3,
		$do eq 'delay' ? (ms => 20 + int rand 400) : (),
		$do eq 'late' ? (ms => 50 + int rand 2000, @lost) : (),
		$do eq 'throttle' ? (status => 400, code => 'ProvisionedThroughputExceededException') : () };
}

# What needs several things at once, which the draws above rarely bring together.  These draws
# come last, so whatever else a seed stands for does not depend on them.
sub draw_together
{
	my ($plan) = @_;
	return map { { at => 0.5 + rand($plan->{seconds} - 1), do => $_, place => one_of(qw(A B B)), pick => rand(), ms => 250 + int rand 1000 } }
	  qw(strand strand strand strand doubt doubt doubt doubt disorder disorder disorder);
}

# Half of the sessions use the other address of the tables, and the servers change theirs: at any
# time, and just before a crash or a failover, so that what is left behind is settled by an address
# that it was not made by.
sub draw_addresses
{
	my ($plan, @events) = @_;
	$_->{other} = rand() < 0.5 ? \1 : \0 foreach map { @$_ } @{ $plan->{clients} };
	my @at = map { [ rand($plan->{seconds}), one_of(qw(A B)) ] } 1 .. 3;
	push @at, map { [ $_->{at} - 0.01, $_->{place} // 'A' ] }
	  grep { $_->{do} =~ /^(?:promote|crash|immediate|kill_(?:postmaster|backend))$/ && rand() < 0.5 } @events;
	return map { { at => $_->[0], do => 'change_address', place => $_->[1], pick => rand() } } @at;
}

# Deletes of a sweep (clients.mjs) are lost, late or doubled.
sub draw_deletes
{
	my ($plan) = @_;
	return map { my $do = one_of(qw(lose drop twice late late throttle));
		{ at => rand($plan->{seconds}), do => 'fault', fault => { op => 'DeleteItem', do => $do eq 'throttle' ? 'answer' : $do,
			nth => 1 + int rand 3, times => 1 + int rand 3, $do eq 'late' ? (ms => 50 + int rand 2000, maybe(0.5, lost => true())) : (),
			$do eq 'throttle' ? (status => 400, code => 'ProvisionedThroughputExceededException') : () } } } 1 .. 6;
}

# A failover of A, at most one in a round.  A primary that is frozen goes on later, beside
# its heir, for a while.
sub draw_failover
{
	my ($plan) = @_;
	my $how = one_of(qw(freeze freeze kill immediate));
	my ($at, $frozen, $thawed, $lag) = (1.5 + rand($plan->{seconds} - 4), one_of(rand 3, 5.2 + rand 0.8), 0.5 + rand 2, one_of(0, 0.1 + rand 0.8));
	my $cut = one_of(qw(sender slot));
	my $end = one_of(qw(fast immediate kill));
	my $standby = one_of(qw(copy rewind));
	return if rand() > 0.4;
	return ({ at => $at, do => 'lag', ms => 1000 * $lag, cut => $cut },
		{ at => $at + $lag, do => 'promote', how => $how, standby => $standby },
		$how eq 'freeze' ? ({ at => $at + $lag + $frozen, do => 'thaw', late => $frozen > 3 },
			{ at => $at + $lag + $frozen + $thawed, do => 'end_old', how => $end }) : ());
}

# A copy of B that is started beside it, and used until the end of the round.
sub draw_copy
{
	my ($plan) = @_;
	my $at = 1 + rand($plan->{seconds} - 3);
	return if rand() > 0.3;
	return { at => $at, do => 'copy_cluster' };
}

1;
