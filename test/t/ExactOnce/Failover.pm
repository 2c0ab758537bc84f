# Asynchronous failovers under load, in a chain: a primary and a standby with a
# replication slot, clients with mixed work, faults of the network, and the end of the
# primary at a random moment.  The standby is promoted and gets a standby of its own: a
# new copy, or the old primary after pg_rewind.  Nobody settles anything by hand, unless
# both went on beside each other for long.  Then the work in the surviving data is compared
# with the records in DynamoDB and with what the clients saw.
#
# Every attempt of a client has an id, ROUND.CLIENT.SCRIPT.NUMBER.  It is stored in
# the work row and as the key's result, so that a record shows whose work it stands for.
package ExactOnce::Failover;

use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Pair;
use File::Path qw(make_path);
use JSON::PP;
use List::Util qw(max shuffle);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @ISA = ('ExactOnce::Pair');

# test_hurry, and how much longer its intervals are than with 10.
my ($hurry, $longer);
my $slot = $ExactOnce::Pair::slot;

# Every key must be settled so long after the last fault.  A claim whose server has ended
# may last for its lease and clock_skew, which is 2 s.
my ($bound, $lease) = (30, 10);

# The clients of a round, and those that stay with an old primary while it runs.
my ($clients, $faithful) = (8, 2);

# New keys in a second.  A client works on one of the latest, or rarely on an old one.
my ($rate, $recent) = (15, 12);

# What clients do, and how often.
my %kinds = (acquire => 30, once => 15, many => 12, savepoint => 10, keep => 8,
	rollback => 8, fail => 6, release => 6, terminate => 2);
my @kinds = map { ($_) x $kinds{$_} } sort keys %kinds;

# Starts the first primary.  The caller gets the state of the chain, for run_round().
# slots: completions wait for the standby's slot.  long: an old primary may go on beside the
# new one for longer than an heir allows for by itself, so that lives are taken over by hand.
sub begin
{
	my (%how) = @_;
	$hurry = hurry(10);
	$longer = 10 / $hurry;
	$bound = paced($bound);
	my $self = bless { name => $how{name}, table => "tap_$how{name}", seed => $how{seed}, slots => $how{slots} // 1, long => $how{long},
		rounds => 0, nodes => 0, open => {}, observed => {}, done => {}, folder => PostgreSQL::Test::Utils::tempdir('failover'),
		totals => {}, lost_keys => {} }, __PACKAGE__;
	my $slots = $self->{slots} ? $slot : '';
	$self->{primary} = new_node($how{name}, options => { connect_timeout => '2s', lease => "$lease s" }, conf => <<"CONF");
exactonce.test_hurry = $hurry
exactonce.synchronized_standby_slots = '$slots'
wal_level = replica
max_wal_senders = 5
max_replication_slots = 5
wal_receiver_status_interval = 1
max_connections = 60
wal_log_hints = on
wal_keep_size = 128MB
hot_standby = on
log_checkpoints = off
CONF
	$self->sql('CREATE TABLE work (key text NOT NULL, attempt text NOT NULL)');
	sweep_nothing($self->{table});
	$self->{label} = $self->{primary}->name;
	$self->{standby} = $self->new_standby;
	return $self;
}

# ----- clients ----------------------------------------------------------------

# Says where the clients are to work: a number that grows with each change, the
# primary, and the old one if it goes on.  The label distinguishes a server that is a
# primary for the second time.
sub direct
{
	my ($self, $old, $old_label) = @_;
	my @lines = (++$self->{generation}, $self->{label}, $self->{primary}->connstr('postgres'),
		$old ? ($old_label, $old->connstr('postgres')) : ('', ''));
	my $file = "$self->{folder}/target";
	open(my $out, '>', "$file.new") or die "$file.new: $!";
	print $out map { "$_\n" } @lines;
	close $out;
	rename "$file.new", $file or die "$file: $!";
	return;
}

sub read_target
{
	my ($self) = @_;
	my @lines = split /\n/, slurp_file("$self->{folder}/target"), -1;
	return { generation => $lines[0], new => [ @lines[ 1, 2 ] ], old => [ @lines[ 3, 4 ] ] };
}

sub start_clients
{
	my ($self) = @_;
	unlink "$self->{folder}/stop";
	$self->{began} = time();
	foreach my $number (1 .. $clients)
	{
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			# The parent's END blocks, which stop the servers, are not for the child.
			eval { $self->run_client($number); 1 } or print STDERR "client $number: $@";
			POSIX::_exit(0);
		}
		push @{ $self->{pids} }, $pid;
	}
	return;
}

sub stop_clients
{
	my ($self) = @_;
	append_to_file("$self->{folder}/stop", '');
	waitpid($_, 0) foreach splice @{ $self->{pids} };
	return;
}

# A client runs one script after the other, each in a session of its own.  It leaves a
# session that waits when the clients are directed elsewhere; that one may go on.
sub run_client
{
	my ($self, $number) = @_;
	my (%left, $script);
	srand($self->{seed} * 1000 + $self->{rounds} * 10 + $number);
	until (-e "$self->{folder}/stop")
	{
		my $target = $self->read_target;
		my $role = $number > $clients - $faithful && $target->{old}[0] ne '' ? 'old' : 'new';
		my $file = sprintf '%s/%d.%d.%d', $self->{folder}, $self->{rounds}, $number, ++$script;
		append_to_file("$file.sql", $self->write_script("$self->{rounds}.$number.$script", $target->{$role}[0]));
		my $pid = spawn_psql($target->{$role}[1], $file);
		my $status = await_psql($self, $pid, $target->{generation});
		if (!defined $status)
		{
			$left{$pid} = 1;
		}
		elsif ($status != 0)
		{
			usleep(50_000);
		}
	}
	my $end = time() + 20;
	while (%left)
	{
		foreach my $pid (keys %left)
		{
			kill 'KILL', $pid if time() > $end;
			delete $left{$pid} if waitpid($pid, POSIX::WNOHANG()) != 0;
		}
		usleep(10_000);
	}
	return;
}

sub spawn_psql
{
	my ($connstr, $file) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	open(STDIN, '<', '/dev/null');
	open(STDOUT, '>', "$file.out");
	open(STDERR, '>', "$file.err");
	{ no warnings; exec 'psql', '-XAt', '-v', 'VERBOSITY=verbose', '-d', "$connstr connect_timeout=5", '-f', "$file.sql"; }
	POSIX::_exit(127);
}

# Waits for a script; undef: the clients were directed elsewhere for half a second.
sub await_psql
{
	my ($self, $pid, $generation) = @_;
	my $changed;
	while (waitpid($pid, POSIX::WNOHANG()) == 0)
	{
		if (!defined $changed)
		{
			$changed = time() if $self->read_target->{generation} != $generation;
		}
		elsif (time() > $changed + 0.5)
		{
			return undef;
		}
		usleep(5_000);
	}
	return $?;
}

sub one_of
{
	return $_[ int rand @_ ];
}

sub some_key
{
	my ($self) = @_;
	my $round = $self->{rounds};
	my $head = int((time() - $self->{began}) * $rate);
	return sprintf 'r%d-%d', $round - 1, int rand 100 if $round > 1 && rand() < 0.03;
	return sprintf 'r%d-%d', $round, max(0, $head - int rand $recent);
}

# One to four transactions.  Lines with @ tell what the client sees.
sub write_script
{
	my ($self, $id, $node) = @_;
	my $script = '';
	foreach my $number (1 .. 1 + int rand 4)
	{
		my $kind = one_of(@kinds);
		my $attempt = "$id.$number";
		my %keys = map { $self->some_key => 1 } 1 .. ($kind eq 'many' ? 2 + int rand 4 : $kind eq 'savepoint' ? 2 : 1);
		my @keys = shuffle sort keys %keys;
		$script .= "\\echo \@try $attempt $kind $node @keys\n" . write_attempt($kind, $attempt, @keys);
	}
	return $script;
}

# psql's statements that claim a key and set :mine.
sub claim
{
	my ($attempt, $key, %options) = @_;
	my $options = join '', map { ", $_ => '$options{$_}'" } sort keys %options;
	return <<"SQL";
\\set mine false
\\set outcome error
\\set result -
SELECT c.outcome, c.outcome = 'acquired' AS mine, coalesce(c.result::text, '-') AS result FROM idem_acquire('$key'$options) c \\gset
\\echo \@got $attempt $key :outcome :result
SQL
}

sub work
{
	my ($attempt, $key) = @_;
	return <<"SQL";
\\if :mine
INSERT INTO work VALUES ('$key', '$attempt');
SELECT idem_complete('$key', '"$attempt"');
\\echo \@did $attempt $key
\\endif
SQL
}

sub commit
{
	my ($attempt) = @_;
	return "\\echo \@commit $attempt\nCOMMIT;\n\\echo \@end $attempt :SQLSTATE\n";
}

sub write_attempt
{
	my ($kind, $attempt, @keys) = @_;
	my ($key) = @keys;
	my $pause = rand() < 0.3 ? sprintf("SELECT pg_sleep(%.3f);\n", rand 0.4) : '';
	my $begin = "BEGIN;\n" . (rand() < 0.2 ? "SET LOCAL synchronous_commit = off;\n" : '');
	my $claim = claim($attempt, $key, rand() < 0.3 ? (wait => '300 ms') : ());
	my $give_back = sub { "\\if :mine\n$_[0];\n\\endif\n" };
	my $did_many = join '', map { "\\echo \@did $attempt $_\n" } @keys;

	return $begin . $claim . $pause . work($attempt, $key) . commit($attempt) if $kind eq 'acquire';
	return $begin . $claim . $pause . work($attempt, $key) . "ROLLBACK;\n\\echo \@end $attempt rollback\n"
	  if $kind eq 'rollback';
	return $begin . $claim . work($attempt, $key) . "SELECT pg_terminate_backend(pg_backend_pid());\n" if $kind eq 'terminate';
	return $begin . $claim . $pause . $give_back->("SELECT idem_fail('$key', '{}', retry_after => '100 ms')") . commit($attempt)
	  if $kind eq 'fail';
	return $begin . $claim . $pause . $give_back->("SELECT idem_release('$key')") . commit($attempt) if $kind eq 'release';
	return $begin . "INSERT INTO work VALUES ('$key', '$attempt');\nSELECT idem_once('$key', '\"$attempt\"');\n"
	  . "\\echo \@did $attempt $key\n" . $pause . commit($attempt)
	  if $kind eq 'once';
	return claim($attempt, $key, lease => '2 s') . $pause . "BEGIN;\n" . work($attempt, $key) . commit($attempt)
	  if $kind eq 'keep';
	if ($kind eq 'savepoint')
	{
		my $end = rand() < 0.5 ? "RELEASE SAVEPOINT s;\n" : "ROLLBACK TO SAVEPOINT s;\n\\echo \@undid $attempt $keys[-1]\n";
		return $begin . $claim . work($attempt, $key) . "SAVEPOINT s;\n" . claim($attempt, $keys[-1])
		  . work($attempt, $keys[-1]) . $end . $pause . commit($attempt);
	}

	# many: those of the keys that were free.
	my $list = join ', ', map { "'$_'" } @keys;
	return $begin . <<"SQL" . $pause . commit($attempt);
\\set claimed '{}'
\\set got ''
\\set mine false
SELECT coalesce(array_agg(c.key) FILTER (WHERE c.outcome = 'acquired'), '{}') AS claimed,
	count(*) FILTER (WHERE c.outcome = 'acquired') > 0 AS mine,
	string_agg(format('\@got $attempt %s %s %s', c.key, c.outcome, coalesce(c.result::text, '-')), E'\\n') AS got
	FROM idem_acquire_many(ARRAY[$list]) c \\gset
\\echo :got
\\if :mine
INSERT INTO work SELECT k, '$attempt' FROM unnest(:'claimed'::text[]) k;
SELECT idem_complete_many(:'claimed'::text[], ARRAY(SELECT '"$attempt"'::jsonb FROM unnest(:'claimed'::text[])));
SELECT '\@did $attempt ' || k FROM unnest(:'claimed'::text[]) k;
\\endif
SQL
}

# What the clients of the round saw: attempt => { kind, node, got, did, end }.  end is
# commit, rollback, error, or unknown if the connection was lost.
sub read_attempts
{
	my ($self) = @_;
	foreach my $file (glob "$self->{folder}/*.out")
	{
		my ($committing, $tag);
		foreach my $line (split /\n/, slurp_file($file))
		{
			if ($line =~ /^\@try (\S+) (\S+) (\S+) (.*)/)
			{
				$self->{attempts}{$1} = { id => $1, kind => $2, node => $3, keys => [ split ' ', $4 ], got => {}, did => {},
					end => 'unknown' };
				$self->{open}{$_} //= 1 foreach grep { !$self->{done}{$_} } split ' ', $4;
			}
			elsif ($line =~ /^\@got (\S+) (\S+) (\S+) (.*)/)
			{
				$self->{attempts}{$1}{got}{$2} = [ $3, $4 ];
			}
			elsif ($line =~ /^\@(did|undid) (\S+) (\S+)/)
			{
				$1 eq 'did' ? ($self->{attempts}{$2}{did}{$3} = 1) : delete $self->{attempts}{$2}{did}{$3};
			}
			elsif ($line =~ /^\@commit (\S+)/)
			{
				($committing, $tag) = ($1, '');
			}
			elsif (defined $committing && $line =~ /^(COMMIT|ROLLBACK)$/)
			{
				$self->{attempts}{$committing}{end} = lc $1;
				undef $committing;
			}
			elsif ($line =~ /^\@end (\S+) (\S+)/)
			{
				my $attempt = $self->{attempts}{$1};
				# A session that is told to end may have committed before.
				$attempt->{end} = $2 =~ /^57P/ ? 'unknown' : $2 eq 'rollback' ? 'rollback' : 'error'
				  if $attempt->{end} eq 'unknown';
				undef $committing;
			}
		}
	}
	return;
}

# ----- a round ----------------------------------------------------------------

sub cause_fault
{
	my ($self) = @_;
	my $round = $self->{rounds};
	my $do = one_of(qw(lose lose drop drop delay reset twice));
	my %which = %{ one_of({ key => "r$round-" }, { key => "r$round-" }, { key => "r$round-", to => 'COMMITTING' },
		{ key => "r$round-", to => 'COMPLETED' }, { op => 'BatchExecuteStatement' }, { key => 'ORIGIN#' }) };
	fault(do => $do, %which, nth => 1 + int rand 4, times => 1 + int rand 3, $do eq 'delay' ? (ms => 20 + int rand 250) : ());
	return;
}

# The records of some rounds, past the proxy: key => [ status, attempt ].
sub read_records
{
	my ($self, $prefix) = @_;
	my (%records, $start);
	do
	{
		my $page = dynamodb(Scan => { TableName => $self->{table}, ConsistentRead => JSON::PP::true,
			FilterExpression => 'begins_with(pk, :p)', ProjectionExpression => 'pk, #s, #r',
			ExpressionAttributeNames => { '#s' => 'status', '#r' => 'result' },
			ExpressionAttributeValues => { ':p' => { S => "IDEMPOTENCY#$prefix" } },
			$start ? (ExclusiveStartKey => $start) : () });
		foreach my $item (@{ $page->{Items} })
		{
			my ($key, $result) = ($item->{pk}{S}, $item->{result}{S} // '');
			$key =~ s/^IDEMPOTENCY#//;
			$result =~ s/^"(.*)"$/$1/;
			$records{$key} = [ $item->{status}{S}, $result ];
		}
		$start = $page->{LastEvaluatedKey};
	} while ($start);
	return \%records;
}

# Notes which keys are COMPLETED.  That is final for everybody who sees it.
sub observe
{
	my ($self, $records) = @_;
	$records //= $self->read_records("r$self->{rounds}-");
	foreach my $key (grep { $records->{$_}[0] eq 'COMPLETED' } keys %$records)
	{
		my $seen = $self->{observed}{$key} //= $records->{$key}[1];
		$self->violate("key $key was COMPLETED by $seen and is now by $records->{$key}[1]") if $seen ne $records->{$key}[1];
	}
	foreach my $key (grep { $self->{observed}{$_} && $records->{$_}[0] ne 'COMPLETED' } keys %$records)
	{
		$self->violate("key $key was COMPLETED by $self->{observed}{$key} and is now $records->{$key}[0]");
	}
	return;
}

# Lets the clients work for some seconds, with faults.
sub load
{
	my ($self, $seconds) = @_;
	my $end = time() + $seconds;
	my $look = time() + 1;
	while (time() < $end)
	{
		$self->cause_fault if rand() < 0.4;
		if (time() > $look)
		{
			$self->observe;
			$look = time() + 1;
		}
		usleep(100_000);
	}
	return;
}

sub choose
{
	my ($self, %plan) = @_;
	srand($self->{seed} * 1000 + $self->{rounds} * 10);
	return {
		how => one_of(qw(freeze freeze kill immediate)),
		before => 2 + rand 5,
		lag => rand() < 0.3 ? 0 : 0.1 + rand 1.4,
		frozen => rand 6,
		thawed => $self->{long} ? one_of(1, 1, 3) * (1.5 + rand 1.5) : 1 + rand 1.2,
		old_end => one_of(qw(fast immediate kill)),
		standby => one_of(qw(copy rewind)),
		restart => one_of('', '', 'fast', 'kill'),
		after => 1 + rand 2,
		check => rand() < 0.8,
		%plan };
}

sub run_round
{
	my ($self, %plan) = @_;
	my $number = ++$self->{rounds};
	my $plan = $self->choose(%plan);
	my $began = time();
	$self->{violations} = [] if !$self->{unchecked};
	$self->await_streaming;
	$self->direct;
	$self->start_clients;
	$self->load($plan->{before});

	# The standby falls behind, because the primary sends it nothing more.
	my $sender = $self->sql('SELECT pid FROM pg_stat_replication');
	kill 'STOP', $sender if $plan->{lag} > 0;
	my $behind = time();
	my $went_on = 0;
	$self->load($plan->{lag});
	my ($old, $old_label) = ($self->{primary}, $self->{label});
	my $frozen = $plan->{how} eq 'freeze';
	my @frozen = $self->end_primary($plan, $old, $sender);
	$went_on = time() - $behind;

	$self->{standby}->promote;
	$self->{primary} = delete $self->{standby};
	$self->{label} = $self->{primary}->name . "-$number";
	$self->direct($frozen ? ($old, $old_label) : ());
	$self->load($plan->{frozen} * $longer) if $frozen;
	kill 'CONT', @frozen;
	my $continued = time();
	# A copy takes long, and so long the old primary would go on.
	$self->{standby} = $self->new_standby if $self->{long} && $plan->{standby} eq 'copy';
	if ($frozen)
	{
		$self->load($plan->{thawed} * $longer);
		$plan->{old_end} eq 'kill' ? crash($old) : $old->stop($plan->{old_end});
		$went_on += time() - $continued;
		$self->direct;
	}
	$self->{standby} //= $plan->{standby} eq 'rewind' ? $self->rewind($old) : $self->new_standby;
	$self->restart_primary($plan->{restart}) if $plan->{restart};
	$self->load($plan->{after});
	$self->stop_clients;
	reset_proxy();
	$self->read_attempts;
	$self->{unchecked}++;
	$self->{longest} = max($self->{longest} // 0, $went_on);
	my $line = sprintf 'round %d: %s, lag %.1f s%s; %s%s', $number, $plan->{how}, $plan->{lag},
	  $frozen ? sprintf(', frozen %.1f s, then %.1f s, then %s', @$plan{qw(frozen thawed old_end)}) : '',
	  $plan->{standby}, $plan->{restart} ? ", restart $plan->{restart}" : '';
	if ($plan->{check})
	{
		$line .= $self->heal_and_check;
	}
	else
	{
		$line .= '; not checked before the next round';
	}
	note_line(sprintf '%s; %.0f s', $line, time() - $began);
	$old->clean_node unless $plan->{standby} eq 'rewind' || @{ $self->{violations} };
	return;
}

# The new primary is restarted under load, too.
sub restart_primary
{
	my ($self, $how) = @_;
	$self->load(1);
	if ($how eq 'kill')
	{
		crash($self->{primary});
		$self->{primary}->start;
	}
	else
	{
		$self->{primary}->restart;
	}
	return;
}

sub note_line
{
	diag($_[0]);
	return;
}

# Ends the primary in some way, or stops its processes and returns them.
sub end_primary
{
	my ($self, $plan, $old, $sender) = @_;
	return freeze($old) if $plan->{how} eq 'freeze';
	if ($plan->{how} eq 'kill')
	{
		crash($old);
		return;
	}
	my @pids = processes_of($old);
	kill 'QUIT', $pids[0];
	usleep(50_000);
	# A process that is stopped ends when it continues.
	kill 'CONT', $sender;
	await_end($old, @pids);
	return;
}

# ----- the check --------------------------------------------------------------

sub violate
{
	my ($self, $what) = @_;
	push @{ $self->{violations} }, $what;
	return;
}

# Tries the keys that are not completed, as a queue that delivers again would.
sub redeliver
{
	my ($self, $pass, @keys) = @_;
	my $file = sprintf '%s/%d.0.%d', $self->{folder}, $self->{rounds}, $pass;
	my ($number, $script) = (0, '');
	foreach my $key (@keys)
	{
		my $attempt = "$self->{rounds}.0.$pass." . ++$number;
		$script .= "\\echo \@try $attempt acquire $self->{label} $key\nBEGIN;\n" . claim($attempt, $key) . work($attempt, $key)
		  . commit($attempt);
	}
	append_to_file("$file.sql", $script);
	waitpid(spawn_psql($self->{primary}->connstr('postgres'), $file), 0);
	return;
}

# An heir does not take over by itself from a primary that went on for so long that the
# heir's data does not reach the end of its life: one to two minutes, divided by
# test_hurry, less the time for which the standby lagged behind.  Then an operator does,
# after two seconds.
sub take_over
{
	my ($self, $waiting) = @_;
	my $query = "SELECT DISTINCT life FROM exactonce_lives WHERE state = 'waits for idem_take_over()'";
	foreach my $life (split /\n/, $self->sql($query))
	{
		$waiting->{$life} //= time();
		next if time() - $waiting->{$life} < 2;
		$self->violate("life $life waits for idem_take_over(), and the old primary went on for $self->{longest} s only")
		  if ($self->{longest} // 0) < 60 / $hurry - 2;
		$self->sql("SELECT idem_take_over('$life')");
		$self->{by_hand}++;
	}
	return;
}

# Waits until nothing is pending and every key is completed.  Returns what was found
# on the way.
sub heal
{
	my ($self) = @_;
	my $began = time();
	my (%found, %first, %waiting, $pending, @left);
	my $pass = 0;
	do
	{
		$self->take_over(\%waiting);
		my $records = $self->read_records('');
		my %status = map { $_ => $records->{$_}[0] // 'absent' } keys %{ $self->{open} };
		$pending = $self->sql('SELECT count(*) FROM exactonce_pending');
		@left = sort grep { $status{$_} ne 'COMPLETED' } keys %status;
		%first = map { $_ => $status{$_} } @left if !$pass;
		$found{ $first{$_} }[0] += !$pass foreach @left;
		$found{ $first{$_} // $status{$_} }[1] = time() - $began foreach @left;
		$self->redeliver(++$pass, @left) if @left;
		usleep(100_000) if @left || $pending;
	} while ((@left || $pending) && time() - $began < $bound);
	$self->violate("not settled within $bound s: @left") if @left;
	$self->violate("$pending completions are pending after $bound s") if $pending;
	$self->read_attempts;
	return \%found;
}

sub heal_and_check
{
	my ($self) = @_;
	$self->await_streaming;
	my $found = $self->heal;
	my $records = $self->read_records('');
	my %work;
	push @{ $work{ (split /\|/)[0] } }, (split /\|/)[1] foreach split /\n/, $self->sql('SELECT key, attempt FROM work');
	my %count = (keys => scalar(keys %{ $self->{open} }), attempts => scalar(keys %{ $self->{attempts} }), lost => 0, given_back => 0,
		lost_work => 0, audited => 0, unknown => 0, commits => 0, by_hand => delete $self->{by_hand} // 0);
	$self->observe($records);
	$self->check_work($records, \%work, \%count);
	$self->check_attempts($records, \%work, \%count);
	$self->check_audit(\%count);
	my $doubt = $self->sql('SELECT count(*) FROM exactonce_in_doubt');
	$self->violate("$doubt keys are in doubt") if $doubt;
	$self->violate("the log of " . $self->{primary}->name . " has a crash")
	  if slurp_file($self->{primary}->logfile) =~ /PANIC|TRAP|terminated by signal (?!9)/;

	my @violations = @{ $self->{violations} };
	is(join("\n", @violations), '', "round $self->{rounds}: keys, work and clients agree");
	$self->dump_findings($records, \%work) if @violations;
	$self->{totals}{$_} += $count{$_} foreach grep { !/^(?:known_lost|audited)$/ } keys %count;
	$self->{totals}{$_} = $count{$_} foreach qw(known_lost audited);
	$self->{slowest}{$_} = max($self->{slowest}{$_} // 0, $found->{$_}[1]) foreach keys %$found;
	$self->{done}{$_} = 1 foreach keys %{ $self->{open} };
	$self->{open} = {};
	$self->{attempts} = {};
	$self->{unchecked} = $self->{longest} = 0;
	unlink glob("$self->{folder}/*.sql"), glob("$self->{folder}/*.out"), glob("$self->{folder}/*.err") if !@violations;
	return sprintf '; %d keys, %d attempts, %d commits seen, %d unknown; %d commits lost, %d of their keys done again, '
	  . '%d completed without work, %d in all rounds, idem_audit lists %d; open keys: %s; %s%s',
	  @count{qw(keys attempts commits unknown lost given_back lost_work known_lost audited)},
	  join(', ', map { sprintf '%d %s until %.1f s', $found->{$_}[0], $_, $found->{$_}[1] } sort keys %$found) || 'none',
	  $count{by_hand} ? "$count{by_hand} lives taken over by hand; " : '',
	  @violations ? scalar(@violations) . ' VIOLATIONS' : 'ok';
}

# A key is COMPLETED if and only if its work is there, once, and by the same attempt.
sub check_work
{
	my ($self, $records, $work, $count) = @_;
	foreach my $key (sort keys %$work)
	{
		my ($status, $by) = @{ $records->{$key} // [ 'absent', '' ] };
		$self->violate("key $key has several works: @{ $work->{$key} }") if @{ $work->{$key} } > 1;
		$self->violate("key $key is $status, and its work is there, by $work->{$key}[0]") if $status ne 'COMPLETED';
		$self->violate("key $key is COMPLETED by $by, and its work is by $work->{$key}[0]")
		  if $status eq 'COMPLETED' && $by ne $work->{$key}[0];
	}
	foreach my $key (sort keys %$records)
	{
		my ($status, $by) = @{ $records->{$key} };
		$self->violate("key $key is $status") if $status !~ /^(?:COMPLETED|FAILED)$/;
		$self->violate("nobody tried key $key") if !$self->{open}{$key} && !$self->{done}{$key};
		next if $status ne 'COMPLETED' || $work->{$key};
		$self->note_lost($key, $by);
		$count->{lost_work}++ if $self->{open}{$key};
		$self->violate("key $key is COMPLETED by $by, and its work is lost") if $self->{slots};
	}
	return;
}

# A key is COMPLETED and its work is not there: by the clients' log an attempt did it that
# committed, or may have, on a primary whose data is lost.
sub note_lost
{
	my ($self, $key, $by) = @_;
	return if $self->{lost_keys}{$key};
	my $attempt = $self->{attempts}{$by};
	return $self->violate("key $key is COMPLETED by $by, which no client has tried") if !$attempt;
	return $self->violate("key $key is COMPLETED by $by, which saw $attempt->{end}") if $attempt->{end} =~ /^(?:rollback|error)$/;
	$self->{lost_keys}{$key} = $by;
	return;
}

# idem_audit() on the survivor lists the keys that have been completed without work, of all
# rounds so far, and nothing else.
sub check_audit
{
	my ($self, $count) = @_;
	my %listed;
	foreach my $line (split /\n/, $self->sql("SELECT concat_ws(' ', finding, status, key) FROM idem_audit(units_per_second => 100000)"))
	{
		my ($finding, $key) = $line =~ /^(lost|elsewhere) COMPLETED (\S+)$/;
		defined $key ? ($listed{$key} = $finding) : $self->violate("idem_audit() lists: $line");
	}
	foreach my $key (sort keys %{ $self->{lost_keys} })
	{
		$self->violate("key $key is COMPLETED by $self->{lost_keys}{$key}, its work is lost, and idem_audit() does not list it")
		  if !$listed{$key};
	}
	foreach my $key (sort keys %listed)
	{
		$self->violate("idem_audit() lists key $key as $listed{$key}, and it is not lost by the clients' log")
		  if !$self->{lost_keys}{$key};
	}
	$count->{audited} = keys %listed;
	$count->{known_lost} = keys %{ $self->{lost_keys} };
	return;
}

# What a client was told is so, unless it was told by a primary whose data is lost.
sub check_attempts
{
	my ($self, $records, $work, $count) = @_;
	my $survivor = $self->{label};
	my %redone;
	foreach my $attempt (map { $self->{attempts}{$_} } sort keys %{ $self->{attempts} })
	{
		my ($id, $end, $node) = @$attempt{qw(id end node)};
		$count->{unknown}++ if $end eq 'unknown';
		$count->{commits}++ if $end eq 'commit';
		foreach my $key (sort keys %{ $attempt->{did} })
		{
			my $is_there = grep { $_ eq $id } @{ $work->{$key} // [] };
			$self->violate("attempt $id on $node saw $end, and its work under $key is there")
			  if $is_there && $end =~ /^(?:rollback|error)$/;
			next if $is_there || $end ne 'commit';
			$self->violate("attempt $id saw COMMIT on $node, which survives, and its work under $key is not there")
			  if $node eq $survivor;
			$count->{lost}++;
			$redone{$key} = 1 if $work->{$key};
		}
		foreach my $key (sort keys %{ $attempt->{got} })
		{
			my ($outcome, $result) = @{ $attempt->{got}{$key} };
			next if $outcome ne 'completed' || $node ne $survivor;
			$self->violate("attempt $id on $node, which survives, was told that $key is completed by $result, and it is by "
				  . ($records->{$key}[1] // 'nobody')) if $result ne '"' . ($records->{$key}[1] // '') . '"';
		}
	}
	$count->{given_back} = keys %redone;
	return;
}

# Keeps what is needed to explain a violation.
sub dump_findings
{
	my ($self, $records, $work) = @_;
	my $folder = "$PostgreSQL::Test::Utils::tmp_check/findings/$self->{name}-$self->{seed}-$self->{rounds}";
	make_path($folder);
	my $json = JSON::PP->new->canonical->pretty;
	append_to_file("$folder/violations", join("\n", @{ $self->{violations} }) . "\n");
	append_to_file("$folder/items.json", $json->encode(dynamodb(Scan => { TableName => $self->{table}, ConsistentRead => JSON::PP::true })));
	append_to_file("$folder/work.json", $json->encode($work));
	append_to_file("$folder/attempts.json", $json->encode($self->{attempts}));
	append_to_file("$folder/$_", $self->sql("SELECT * FROM $_")) foreach qw(exactonce_lives exactonce_pending exactonce_claims exactonce_in_doubt);
	append_to_file("$folder/rows", $self->sql('SELECT * FROM exactonce_internal.outbox') . "\n\n"
		  . $self->sql('SELECT * FROM exactonce_internal.lives'));
	system 'cp', '-r', $self->{folder}, "$folder/scripts";
	note_line("what was found is in $folder, beside the servers' logs");
	return;
}

sub summary
{
	my ($self) = @_;
	my %totals = %{ $self->{totals} };
	return sprintf '%d rounds, seed %d: %d keys, %d attempts, %d commits seen, %d unknown; %d commits lost, '
	  . '%d of their keys done again, %d completed without work, idem_audit lists %d; %d lives taken over by hand; settled after at most %s',
	  $self->{rounds}, $self->{seed}, @totals{qw(keys attempts commits unknown lost given_back lost_work audited by_hand)},
	  join ', ', map { sprintf '%.1f s (%s)', $self->{slowest}{$_}, $_ } sort keys %{ $self->{slowest} };
}

sub end
{
	my ($self) = @_;
	$self->{standby}->stop;
	$self->{primary}->stop;
	return;
}

1;
