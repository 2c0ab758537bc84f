# Carries out the events of a round's plan (Soak::Plan).  An event whose subject is not
# there, such as a worker that has just ended, does nothing.
package Soak::Faults;

use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Aws qw(services);
use Soak::Servers;
use Time::HiRes qw(time usleep);

# Events that end processes, by force or not.
my %kills = map { $_ => 1 } qw(terminate_backend kill_backend terminate_worker kill_worker
  terminate_launcher kill_launcher kill_postmaster crash immediate restart promote end_old strand);

# ask: sends the clients a command (clients.mjs).
sub new
{
	my ($class, $servers, $ask) = @_;
	return bless { servers => $servers, ask => $ask, stopped => [], counts => {} }, $class;
}

# Carries out an event.  Returns whether it did anything; the clients may have to be
# directed elsewhere then.
sub cause
{
	my ($self, $event) = @_;
	$self->continue_stopped;
	my $name = $event->{do};
	my $did = $self->can("do_$name")->($self, $event) ? 1 : 0;
	$self->{counts}{$name} += $did;
	$self->{counts}{kills} += $did if $kills{$name};
	return $did;
}

# Lets processes go on that were stopped for a time that is over.  all: all of them.
sub continue_stopped
{
	my ($self, $all) = @_;
	my @still;
	foreach my $stop (@{ $self->{stopped} })
	{
		my ($until, @pids) = @$stop;
		if ($all || time() >= $until) { kill 'CONT', @pids }
		else { push @still, $stop }
	}
	$self->{stopped} = \@still;
	return;
}

# Ends all faults, but those of Soak::Servers.
sub end
{
	my ($self) = @_;
	$self->continue_stopped(1);
	control('POST', '/engine/resume');
	control('POST', '/engine/start');
	heal_aws($self);
	reset_proxy();
	control('GET', '/quiet');
	return;
}

# ----- who is meant -----------------------------------------------------------

sub node
{
	my ($self, $event) = @_;
	my %nodes = $self->{servers}->nodes;
	return $nodes{ $event->{place} };
}

# A process of a server whose title matches, by the number that was drawn.
sub pid_of
{
	my ($self, $event, $title) = @_;
	my @pids = eval { grep { Soak::Servers::title_of($_) =~ $title } processes_of($self->node($event)) };
	return @pids ? $pids[ $event->{pick} * @pids ] : undef;
}

my $backend = qr/: postgres (?:postgres|two) \[local\]/;
my $worker = qr/exactonce worker/;
my $launcher = qr/exactonce launcher/;

sub send_signal
{
	my ($self, $signal, $event, $title) = @_;
	my $pid = $self->pid_of($event, $title) // return 0;
	my $did = kill $signal, $pid;
	# Once the process is gone, its postmaster knows, and nobody connects before it has
	# recovered.  A postmaster that is stopped knows later.
	my $end = time() + 1;
	usleep(1000) while $signal eq 'KILL' && time() < $end && kill 0, $pid;
	return $did;
}

sub stop_for_a_while
{
	my ($self, $event, @pids) = @_;
	return 0 unless @pids;
	kill 'STOP', @pids;
	push @{ $self->{stopped} }, [ time() + $event->{ms} / 1000, @pids ];
	return 1;
}

# ----- the network and the engine -----------------------------------------------

sub do_fault
{
	my ($self, $event) = @_;
	fault(%{ $event->{fault} });
	return 1;
}

# While the engine is away no beat gets through, and a standby is behind by as much in the
# first beat after it.
sub do_restart_engine
{
	my ($self) = @_;
	my $start = time();
	control('POST', '/engine/stop');
	control('POST', '/engine/start');
	$self->{servers}{away} += time() - $start;
	return 1;
}

sub do_pause_engine
{
	my ($self, $event) = @_;
	control('POST', '/engine/pause');
	usleep(1000 * $event->{ms} / 3);
	control('POST', '/engine/resume');
	$self->{servers}{away} += $event->{ms} / 3000;
	return 1;
}

# A service that hands out credentials is out of order, for a moment or until the next event
# of this kind, which may be after their end.
sub do_credentials
{
	my ($self, $event) = @_;
	if ($self->{no_credentials})
	{
		heal_aws($self);
		return 1;
	}
	my $service = $event->{pick} < 0.5 ? 'metadata' : 'sts';
	services($service => (qw(error hang garbage half unauthorized denied slow))[ $event->{ms} % 7 ]);
	$self->{no_credentials} = 1;
	return 1 if $event->{ms} > 800;
	usleep(1000 * $event->{ms} / 3);
	heal_aws($self);
	return 1;
}

sub heal_aws
{
	my ($self) = @_;
	services(metadata => 'ok', sts => 'ok');
	$self->{no_credentials} = 0;
	return;
}

# ----- processes ---------------------------------------------------------------

sub do_cancel_backend { return $_[0]->send_signal('INT', $_[1], $backend) }
sub do_terminate_backend { return $_[0]->send_signal('TERM', $_[1], $backend) }
sub do_kill_backend { return $_[0]->send_signal('KILL', $_[1], $backend) }
sub do_terminate_worker { return $_[0]->send_signal('TERM', $_[1], $worker) }
sub do_kill_worker { return $_[0]->send_signal('KILL', $_[1], $worker) }
sub do_terminate_launcher { return $_[0]->send_signal('TERM', $_[1], $launcher) }
sub do_kill_launcher { return $_[0]->send_signal('KILL', $_[1], $launcher) }
sub do_stop_backend { return $_[0]->stop_for_a_while($_[1], $_[0]->pid_of($_[1], $backend) // ()) }
sub do_stop_worker { return $_[0]->stop_for_a_while($_[1], $_[0]->pid_of($_[1], $worker) // ()) }

sub do_freeze
{
	my ($self, $event) = @_;
	my @pids = eval { freeze($self->node($event)) };
	return $self->stop_for_a_while($event, @pids);
}

# The postmaster dies alone; the others find that out.
sub do_kill_postmaster
{
	my ($self, $event) = @_;
	my $node = $self->node($event);
	$self->continue_stopped(1);
	$self->{servers}->end_lag;
	my @pids = eval { processes_of($node) } or return 0;
	kill 'KILL', $pids[0];
	await_end($node, @pids);
	$node->start;
	return 1;
}

sub do_crash
{
	my ($self, $event) = @_;
	my $node = $self->node($event);
	$self->continue_stopped(1);
	crash($node);
	$node->start;
	return 1;
}

sub do_immediate
{
	my ($self, $event) = @_;
	return $self->stop_and_start($event, 'immediate');
}

sub do_restart
{
	my ($self, $event) = @_;
	return $self->stop_and_start($event, 'fast');
}

sub stop_and_start
{
	my ($self, $event, $mode) = @_;
	my $node = $self->node($event);
	# A process that is stopped does not end.
	$self->continue_stopped(1);
	$self->{servers}->end_lag;
	Soak::Servers::stop_server($node, $mode);
	$node->start;
	return 1;
}

# ----- several things at once -----------------------------------------------------

# Sessions are terminated while their seals are still on the way; and again, so that the
# seal of whoever has tried the same claim meanwhile is undone before the first one arrives.
sub do_strand
{
	my ($self, $event) = @_;
	my $did = 0;
	$self->continue_stopped(1);
	fault(to => 'COMMITTING', do => 'delay', ms => 1200 + $event->{ms}, times => 24);
	foreach my $ms (300, 600)
	{
		usleep(1000 * $ms);
		my @pids = eval { grep { Soak::Servers::title_of($_) =~ /$backend COMMIT/ } processes_of($self->node($event)) };
		$did |= kill('TERM', @pids) > 0 if @pids;
	}
	return $did;
}

# A transact is sent again, and its first copy arrives when the item that it may depend on
# has probably been opened or closed (clients.mjs).
sub do_doubt
{
	fault(op => 'TransactWriteItems', do => 'late', lost => \1, ms => 250, times => 1);
	return 1;
}

# A worker has several writes to make, and the first of them takes longer than the others.
sub do_disorder
{
	my ($self, $event) = @_;
	$self->continue_stopped(1);
	my $pid = $self->pid_of($event, $worker) // return 0;
	kill 'STOP', $pid;
	usleep(400_000 + 200 * $event->{ms});
	fault(op => 'TransactWriteItems', do => 'delay', ms => 300, times => 1);
	kill 'CONT', $pid;
	return 1;
}

# ----- failover and copies -------------------------------------------------------

sub do_lag
{
	my ($self, $event) = @_;
	$self->continue_stopped(1);
	$self->{servers}->lag($event->{cut}) if $event->{ms} > 0;
	return 1;
}

sub do_promote
{
	my ($self, $event) = @_;
	$self->continue_stopped(1);
	$self->crowd_into_seals if $event->{how} eq 'freeze';
	$self->{servers}->promote($event->{how}, $event->{standby});
	return 1;
}

# Some sessions of A are between their seals and their commits when it is frozen.
sub crowd_into_seals
{
	my ($self) = @_;
	my $end = time() + 1;
	my $sealing = 0;
	$self->{servers}->note_lives;
	fault(to => 'COMMITTING', do => 'delay', ms => 1000, times => 24);
	$self->{ask}->('crowd', place => 'A', databases => \@Soak::Servers::databases, count => 6);
	until ($sealing >= 4 || time() > $end)
	{
		usleep(20_000);
		$sealing = grep { Soak::Servers::title_of($_) =~ /$backend COMMIT/ } eval { processes_of($self->node({ place => 'A' })) };
	}
	return;
}

# late: the old primary goes on when its heir has taken over, which may be stopped itself.
sub do_thaw
{
	my ($self, $event) = @_;
	my $end = time() + 40 / $Soak::Servers::hurry;
	$self->continue_stopped(1);
	usleep(20_000) until !$event->{late} || $self->{servers}->has_taken_over || time() > $end;
	$self->{servers}->thaw;
	return 1;
}

sub do_end_old
{
	my ($self, $event) = @_;
	$self->continue_stopped(1);
	$self->{servers}->end_old($event->{how});
	return 1;
}

sub do_copy_cluster
{
	my ($self) = @_;
	$self->continue_stopped(1);
	return $self->{servers}->copy_cluster;
}

# ----- changes of schema -----------------------------------------------------------

sub try_in
{
	my ($self, $event, $sql, $database) = @_;
	$self->continue_stopped(1);
	return defined Soak::Servers::try_sql($self->node($event), $database // $event->{database},
		"SET lock_timeout = '2s'; SET statement_timeout = '5s';\n$sql");
}

sub do_rename_table
{
	my ($self, $event) = @_;
	my $did = $self->try_in($event, 'ALTER TABLE work RENAME TO renamed');
	$self->try_in($event, 'ALTER TABLE renamed RENAME TO work');
	return $did;
}

sub do_rename_database
{
	my ($self, $event) = @_;
	my $did = $self->try_in($event, 'ALTER DATABASE two RENAME TO renamed', 'postgres');
	$self->try_in($event, 'ALTER DATABASE renamed RENAME TO two', 'postgres');
	return $did;
}

sub do_copy_database
{
	my ($self, $event) = @_;
	my $did = $self->try_in($event, 'CREATE DATABASE copied TEMPLATE two', 'postgres');
	if ($did)
	{
		# Work in the copy would be lost with it, so it claims a key and gives it back.
		$self->try_in($event, q(BEGIN; SELECT idem_acquire('of the copy'); ROLLBACK), 'copied');
		$self->try_in($event, 'DROP DATABASE copied WITH (FORCE)', 'postgres');
	}
	return $did;
}

# Refused while completions depend on it; then there is another one, of the same table.
sub do_drop_server
{
	my ($self, $event) = @_;
	return $self->try_in($event, 'BEGIN; DROP SERVER exactonce CASCADE; '
		  . server_sql('exactonce', $self->{servers}->server_options($event->{place})) . 'COMMIT');
}

# All servers of a place change their addresses: those of one address have the other one then.
sub do_change_address
{
	my ($self, $event) = @_;
	my @both = @{ $self->{servers}{addresses} };
	my @address = $event->{pick} < 0.5 ? @both : reverse @both;
	my $sql = join '', map { my $i = /other/ ? 1 : 0; "ALTER SERVER $_ OPTIONS (SET endpoint '$address[$i]');\n" }
	  qw(exactonce shared other shared_other);
	my $did = 0;
	$did |= $self->try_in($event, "BEGIN;\n${sql}COMMIT", $_) foreach @Soak::Servers::databases;
	return $did;
}

sub do_vacuum_full
{
	my ($self, $event) = @_;
	my $did = 0;
	$did |= $self->try_in($event, "VACUUM FULL $_") foreach qw(exactonce_internal.outbox exactonce_internal.lives work);
	return $did;
}

1;
