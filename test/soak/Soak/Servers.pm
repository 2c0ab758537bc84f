# The servers of the soak, all on one table: A, a primary with a standby for which
# completions wait; B, without one; C, a copy of B that is started beside it; and O, the
# old primary of A while it goes on beside its heir.  Each has the databases postgres and
# two.
#
# A signs by a user mapping.  B and its copy have the credential chain: a role on top of
# those of an instance, which last for some seconds and are renewed all the time.
#
# Each table has two addresses, of one engine: the servers exactonce and shared have one of them, and
# other and shared_other the other.  Which of them is whose changes all the time.
#
# A label names the history that the data of a place belongs to.  It changes only by a
# failover, which may lose commits; those of O are lost.
package Soak::Servers;

use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Aws qw(start_aws services $role);
use ExactOnce::Pair;
use File::Path qw(remove_tree);
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

our @databases = qw(postgres two);
our $hurry;

# A process keeps up to 64 connections open for its next requests.
my ($most_sockets, $most_descriptors, $most_memory_kb) = (80, 130, 100_000);

my $slot = $ExactOnce::Pair::slot;

# Seconds that the credentials of the chain last.
my $life = 12;

# The services of AWS, which serve all worlds of a run.  What the servers are started with
# tells them where they are.
my $aws_port;

sub begin_aws
{
	return if $aws_port;
	$aws_port = start_aws();
	services(life => $life);
	%ENV = (%ENV, AWS_SHARED_CREDENTIALS_FILE => '/nonexistent', AWS_CONFIG_FILE => '/nonexistent',
		AWS_ENDPOINT_URL_STS => "http://127.0.0.1:$aws_port", AWS_EC2_METADATA_SERVICE_ENDPOINT => "http://127.0.0.1:$aws_port");
	return;
}

# The options of a foreign server at a place, and of its mapping.
sub server_options
{
	my ($self, $place) = @_;
	return %{ $self->{options} } if $place eq 'A';
	# Commits of B wait for less time than the retry of a lost seal may take.
	return (%{ $self->{options} }, request_timeout => '2s', commit_timeout => '3s', credentials => 'chain', role_arn => $role, mapping => '');
}

my $conf = <<"CONF";
restart_after_crash = on
wal_level = replica
max_wal_senders = 6
max_replication_slots = 5
wal_receiver_status_interval = 1
wal_retrieve_retry_interval = 100ms
max_connections = 60
max_prepared_transactions = 60
track_commit_timestamp = on
wal_log_hints = on
wal_keep_size = 256MB
hot_standby = on
log_checkpoints = off
log_min_messages = log
CONF

# Starts A and B.  setup: SQL for each database.
sub begin
{
	my ($name, $setup, $one_address) = @_;
	$hurry //= hurry(10);
	my $hurried = "exactonce.test_hurry = $hurry\n$conf";
	my $self = bless { name => $name, table => "tap_$name", failovers => 0, copies => 0,
		descriptors => 0, memory => 0 }, __PACKAGE__;
	# A primary that was frozen for some seconds still takes the answers that have come meanwhile,
	# and must see by itself that its lease has run out.
	my %options = (table => $self->{table}, connect_timeout => '1s', request_timeout => '16s', commit_timeout => '17s',
		lease => '3s', clock_skew => '1s', transact_tables => "$self->{table}_items");
	$self->{options} = \%options;
	begin_aws();
	$self->{pair} = bless { name => "${name}_a", nodes => 0 }, 'ExactOnce::Pair';
	$self->{pair}{primary} = new_node("${name}_a", options => \%options,
		conf => "${hurried}exactonce.synchronized_standby_slots = '$slot'\n");
	my %of_b = server_options($self, 'B');
	$self->{B} = new_node("${name}_b", mapping => delete $of_b{mapping}, options => \%of_b, conf => $hurried);
	$self->{addresses} = [ $ENV{EO_ENDPOINT}, $one_address ? () : relay() ];
	my %shared = (table => "$self->{table}_shared", layout => 'powertools-typescript');
	$self->{shared} = { %options, %shared };
	sweep_nothing($self->{table});
	foreach my $place ('A', 'B')
	{
		my $node = $place eq 'A' ? $self->{pair}{primary} : $self->{B};
		$node->append_conf('pg_hba.conf', 'local replication all trust');
		$node->safe_psql('postgres', 'CREATE DATABASE two');
		$node->safe_psql('two', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', server_options($self, $place)));
		$node->safe_psql($_, server_sql('shared', %{ $self->{shared} }) . "SELECT idem_create_table('shared');\n$setup"
			  . $self->sql_of_others($place)) foreach @databases;
	}
	$self->{pair}{standby} = $self->{pair}->new_standby;
	return $self;
}

# The servers of the other address, if there is one.
sub sql_of_others
{
	my ($self, $place) = @_;
	my %other = (endpoint => $self->{addresses}[1] // return '');
	return server_sql('other', $self->server_options($place), %other) . server_sql('shared_other', %{ $self->{shared} }, %other);
}

# Claims a key by each address of each table, and gives it back, so that the item of a life is made there.
sub use_addresses
{
	my ($self) = @_;
	my %nodes = $self->nodes;
	my $sql = join '', map { "BEGIN; SELECT idem_acquire('of the healing', server => '$_'); ROLLBACK;\n" } $self->names_of_servers;
	foreach my $name (sort keys %nodes)
	{
		try_sql($nodes{$name}, $_, $sql) foreach @databases;
	}
	return;
}

sub names_of_servers
{
	my ($self) = @_;
	return (qw(exactonce shared), $self->{addresses}[1] ? qw(other shared_other) : ());
}

# The servers that run now: name => node.
sub nodes
{
	my ($self) = @_;
	return (A => $self->{pair}{primary}, map { $self->{$_} ? ($_ => $self->{$_}) : () } qw(B C O));
}

sub label
{
	my ($self, $name) = @_;
	return $name eq 'A' ? 'A' . ($self->{failovers} + 1) : $name eq 'O' ? 'A' . $self->{failovers}
	  : $name eq 'C' ? "C$self->{copies}" : $name;
}

# What clients are told, see clients.mjs.
sub places
{
	my ($self) = @_;
	my %nodes = $self->nodes;
	return { map { $_ => { label => $self->label($_), host => $nodes{$_}->host, port => 0 + $nodes{$_}->port } }
		keys %nodes };
}

# The databases whose data survives.
sub surviving
{
	my ($self) = @_;
	my %nodes = $self->nodes;
	return [ map { my $name = $_; map { [ $name, $_ ] } @databases } sort grep { $_ ne 'O' } keys %nodes ];
}

# SQL that may fail; undef: it has failed, or there is no answer.
sub try_sql
{
	my ($node, $database, $sql) = @_;
	my ($out, $err, $late) = ('', '');
	# A psql that ends before it has read its script, because nobody lets it in, is a failure, too.
	my $status = eval {
		$node->psql($database, $sql, stdout => \$out, stderr => \$err, timeout => paced(20), timed_out => \$late);
	} // 2;
	return !$late && defined $status && $status == 0 ? $out : undef;
}

# A fast stop that comes after the kill of a process, before the redo begins, leaves the
# checkpointer of PostgreSQL 15, and never ends.
sub stop_server
{
	my ($node, $mode) = @_;
	await_answer($node) if $mode eq 'fast';
	$node->stop($mode);
	return;
}

# A server that has lost a process is up again after a while.
sub await_answer
{
	my ($node) = @_;
	my $end = time() + paced(20);
	usleep(50_000) until time() > $end || defined try_sql($node, 'postgres', 'SELECT 1');
	return;
}

# ----- failover and copies ---------------------------------------------------

# The standby falls behind, because the primary sends it nothing more.  cut: its process is
# stopped, or there is no slot any more, so that the standby cannot come back.
sub lag
{
	my ($self, $cut) = @_;
	if ($cut eq 'slot')
	{
		$self->{behind} = time();
		try_sql($self->{pair}{primary}, 'postgres', "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '$slot';"
			  . "SELECT pg_sleep(0.01); SELECT pg_drop_replication_slot('$slot')") // return;
		$self->{cut} = 1;
		return;
	}
	my $sender = try_sql($self->{pair}{primary}, 'postgres', 'SELECT pid FROM pg_stat_replication');
	return unless $sender && $sender =~ /^\d+$/;
	$self->{sender} = $sender;
	$self->{behind} = time();
	kill 'STOP', $sender;
	return;
}

sub end_lag
{
	my ($self) = @_;
	kill 'CONT', delete $self->{sender} if $self->{sender};
	try_sql($self->{pair}{primary}, 'postgres', "SELECT pg_create_physical_replication_slot('$slot', true)") if delete $self->{cut};
	return;
}

# The lives of the primary, before it is frozen.
sub note_lives
{
	my ($self) = @_;
	$self->{lives} = { map { $_ => try_sql($self->{pair}{primary}, $_,
		"SELECT max(life::text) FROM exactonce_lives WHERE state = 'open'") // '' } @databases };
	return;
}

sub promote
{
	my ($self, $how, $kind) = @_;
	my $pair = $self->{pair};
	my $old = $pair->{primary};
	$self->{behind} = time() unless $self->{sender} || $self->{cut};
	if ($how eq 'freeze')
	{
		$self->{frozen} = [ freeze($old) ];
		$self->{frozen_at} = time();
	}
	elsif ($how eq 'kill')
	{
		crash($old);
	}
	else
	{
		my @pids = processes_of($old);
		kill 'QUIT', $pids[0];
		usleep(50_000);
		kill 'CONT', @pids;
		await_end($old, @pids);
	}
	$self->{longest} = time() - $self->{behind};
	delete @$self{qw(sender cut)};
	$pair->{standby}->promote;
	$pair->{primary} = delete $pair->{standby};
	$self->{failovers}++;
	$self->revive($pair->{primary});
	if ($how eq 'freeze')
	{
		@$self{qw(O old_kind)} = ($old, $kind);
	}
	else
	{
		$self->replace_standby($old, $kind);
	}
	return;
}

sub replace_standby
{
	my ($self, $old, $kind) = @_;
	my $pair = $self->{pair};
	# It may have crashed just before.
	$self->revive($pair->{primary});
	# What is not a standby yet, because a copy was made of the new primary before.
	$pair->{standby} //= $kind eq 'rewind' ? $pair->rewind($old) : $pair->new_standby;
	$old->clean_node unless $pair->{standby} == $old;
	return;
}

# Has the heir of a primary that is frozen taken over, in each of the databases?
sub has_taken_over
{
	my ($self) = @_;
	return 1 unless $self->{frozen};
	$self->{taken_over} = { map { $_ => try_sql($self->{pair}{primary}, $_, "SELECT bool_and(state = 'settled here') "
		. "FROM exactonce_lives WHERE life::text = '$self->{lives}{$_}' AND dynamodb_table = '$self->{table}'") // '' } @databases };
	return !grep { $_ ne 't' } values %{ $self->{taken_over} };
}

# The old primary goes on, beside its heir, which gets its standby then at the latest.
sub thaw
{
	my ($self) = @_;
	return unless $self->{frozen};
	$self->has_taken_over;
	$self->continue_old;
	return if $self->{old_kind} ne 'copy';
	await_answer($self->{pair}{primary});
	$self->{pair}{standby} = $self->{pair}->new_standby;
	return;
}

sub continue_old
{
	my ($self) = @_;
	return unless $self->{frozen};
	$self->{thawed_at} = time();
	kill 'CONT', @{ delete $self->{frozen} };
	return;
}

# What the old primary has committed since it goes on, if its heir had taken over by then:
# attempts, with the instant at which it was frozen.
sub read_late
{
	my ($self, $old) = @_;
	foreach my $database (@databases)
	{
		next if ($self->{taken_over}{$database} // '') ne 't';
		my $rows = try_sql($old, $database, 'SELECT result FROM work WHERE token IS NOT NULL'
			  . " AND extract(epoch FROM pg_xact_commit_timestamp(xmin)) > $self->{thawed_at}") // next;
		push @{ $self->{late} }, map { { by => $_, frozen => 1000 * $self->{frozen_at} } } split /\n/, $rows;
	}
	return;
}

sub end_old
{
	my ($self, $how) = @_;
	my $old = delete $self->{O} or return;
	$self->thaw;
	$self->read_late($old);
	$how eq 'kill' ? crash($old) : stop_server($old, $how);
	# Beats count the time, also that for which a server was frozen.
	$self->{longest} = time() - $self->{behind};
	$self->replace_standby($old, $self->{old_kind});
	return;
}

# A copy must not take over from its original, see docs/operations.md.
sub copy_cluster
{
	my ($self) = @_;
	return if $self->{C};
	my $name = "$self->{name}_c" . ($self->{copies} + 1);
	my $folder = $self->{B}->backup_dir . "/$name";
	# backup() would end the run if B crashes meanwhile.
	return if system_log('pg_basebackup', '-D', $folder, '-h', $self->{B}->host, '-p', $self->{B}->port,
		'--checkpoint', 'fast', '--no-sync') != 0;
	my $copy = PostgreSQL::Test::Cluster->new($name);
	$copy->init_from_backup($self->{B}, $name);
	remove_tree($folder);
	$copy->append_conf('postgresql.conf', 'exactonce.takeover = never');
	$copy->start;
	$self->{copies}++;
	$self->{C} = $copy;
	return 1;
}

sub end_copy
{
	my ($self) = @_;
	my $copy = delete $self->{C} or return;
	stop_server($copy, 'fast');
	$copy->clean_node;
	return;
}

# ----- healing ----------------------------------------------------------------

# Has all servers run, and a standby follow A.
sub heal
{
	my ($self) = @_;
	# Nobody takes over from B.  When it is idle it closes its life, also while a beat is in flight.
	my $log = substr slurp_file($self->{B}->logfile), $self->{read} // 0;
	$self->{lost} = $log =~ /^(.*life of this database .* was given up)$/m ? $1 : undef;
	$self->end_lag;
	$self->thaw;
	$self->end_old('fast') if $self->{O};
	my %nodes = $self->nodes;
	$self->revive($nodes{$_}) foreach sort keys %nodes;
	$self->{pair}->await_streaming;
	return;
}

# Waits until a server answers.  It may be in recovery after a crash, and a postmaster
# that was killed is started.
sub revive
{
	my ($self, $node) = @_;
	my $end = time() + paced(60);
	until (defined try_sql($node, 'postgres', 'SELECT 1'))
	{
		die $node->name . ' does not come back' if time() > $end;
		usleep(100_000);
	}
	# A database that was renamed gets its name back.
	try_sql($node, 'postgres', 'ALTER DATABASE renamed RENAME TO two');
	try_sql($node, 'postgres', 'DROP DATABASE copied WITH (FORCE)');
	foreach my $database (@databases)
	{
		try_sql($node, $database, 'ALTER TABLE renamed RENAME TO work');
	}
	return;
}

# Lives of A that wait for an operator, who decides after two seconds.  Returns what is
# wrong: an heir takes over by itself unless the old primary went on for too long, to which a
# slow machine adds what a beat and its way to the standby take there.
sub take_over
{
	my ($self) = @_;
	my @wrong;
	foreach my $database (@databases)
	{
		my $lives = try_sql($self->{pair}{primary}, $database,
			"SELECT DISTINCT life FROM exactonce_lives WHERE state = 'waits for idem_take_over()'") // '';
		foreach my $life (split /\n/, $lives)
		{
			$self->{waiting}{$life} //= time();
			next if time() - $self->{waiting}{$life} < 2;
			my $behind = ($self->{longest} // 0) + ($self->{away} // 0);
			push @wrong, sprintf 'life %s waits for idem_take_over(), and the old primary went on for %.1f s only', $life, $behind
			  if $behind < 60 / $hurry - paced(2);
			try_sql($self->{pair}{primary}, $database, "SELECT idem_take_over('$life', '$_')") 
			  foreach $self->names_of_servers;
			$self->{by_hand}++;
		}
	}
	return @wrong;
}

# What no run may leave: processes that crashed by themselves, and descriptors and memory
# of workers.
sub find_faults
{
	my ($self) = @_;
	my @found;
	push @found, "B has lost its life: $self->{lost}" if $self->{lost};
	$self->{read} = -s $self->{B}->logfile;
	my %nodes = $self->nodes;
	foreach my $name (sort keys %nodes)
	{
		my $log = slurp_file($nodes{$name}->logfile);
		push @found, "the log of $name has $1" if $log =~ /^(.*(?:PANIC|TRAP:|terminated by signal (?!9)).*)$/m;
		foreach my $pid (grep { title_of($_) =~ /exactonce (?:worker|launcher)/ } processes_of($nodes{$name}))
		{
			my @open = map { readlink($_) // '' } glob "/proc/$pid/fd/*";
			my $sockets = grep { /^socket:/ } @open;
			push @found, sprintf '%s of %s has %d descriptors, %d sockets', title_of($pid), $name, scalar(@open), $sockets
			  if @open > $most_descriptors || $sockets > $most_sockets;
			my ($memory) = (-e "/proc/$pid/status" ? slurp_file("/proc/$pid/status") : '') =~ /^RssAnon:\s*(\d+)/m;
			push @found, sprintf '%s of %s has %d kB of memory', title_of($pid), $name, $memory if ($memory // 0) > $most_memory_kb;
			$self->{descriptors} = max($self->{descriptors}, scalar @open);
			$self->{memory} = max($self->{memory}, $memory // 0);
		}
	}
	return @found;
}

# Waits until the claim tables are empty: a claim whose first request had no answer is kept
# for as long as that request can be late, which is 15 minutes, divided by test_hurry.
# Returns what is left after that.
sub find_leaks
{
	my ($self) = @_;
	my $end = time() + 900 / $hurry + paced(60);
	my %nodes = $self->nodes;
	my @left;
	do
	{
		@left = ();
		foreach my $name (sort keys %nodes)
		{
			my $claims = try_sql($nodes{$name}, 'postgres', 'SELECT database, key, state FROM exactonce_claims');
			push @left, map { "$name keeps a slot: $_" } split /\n/, $claims // 'no answer';
		}
		usleep(500_000) if @left;
	} while (@left && time() < $end);
	return @left;
}

# What ps(1) shows of a process; empty if there is none.
sub title_of
{
	my ($pid) = @_;
	open(my $file, '<', "/proc/$pid/cmdline") or return '';
	local $/;
	my $title = <$file> // '';
	$title =~ s/\0.*//s;
	return $title;
}

sub end
{
	my ($self) = @_;
	$self->end_copy;
	$self->{pair}{standby}->stop('immediate') if $self->{pair}{standby};
	$_->stop('immediate') foreach $self->{pair}{primary}, $self->{B};
	return;
}

1;
