# DynamoDB misbehaves for a while, and then works again: nothing is lost, what waits is
# bounded and can be seen, new work is refused early, and the recovery is no storm.
#
# A part has work under way when its fault begins: keys that are committed and not
# completed, and transactions that are open.  Clients go on during the fault.  After it
# each key must have exactly the work of the COMMIT that its client has seen; a key whose
# client has seen an error can be claimed.  Parts test what they find, and say their figures
# with diag().
#
# A key's work is a row with the name of the attempt, which is also the key's result.
package ExactOnce::Chaos;

use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Lives qw(none say_figures sql_of start_clients finish_clients works_of);
use File::Basename qw(dirname);
use JSON::PP;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# By name.  Faults that act on every request: begin starts one and end removes its cause;
# error is what a new claim gets, attempts how many requests it may make, and cause what
# idem_check() says.
my $throttling = 'ProvisionedThroughputExceededException';
my %faults = (
	throttled => { error => qr/ID006/, attempts => 4, cause => qr/$throttling/,
		begin => sub { everything(do => 'answer', status => 400, code => $throttling) } },
	denied => { error => qr/ID007/, attempts => 1, cause => qr/AccessDeniedException/,
		begin => sub { everything(do => 'answer', status => 400, code => 'AccessDeniedException') } },
	expired => { error => qr/ID007/, attempts => 1, cause => qr/ExpiredTokenException/,
		begin => sub { everything(do => 'expired', access_key => $_[0]{access_key}) }, end => \&rotate },
	outage => { error => qr/ID006/, attempts => 4, cause => qr/./, begin => sub { everything(do => 'drop') },
		middle => sub { fill_share($_[0]); go_silent($_[0]) } },
	too_slow => { error => qr/ID006/, attempts => 4, cause => qr/./, begin => sub { everything(do => 'delay', ms => paced(1500)) } });

my %parts = (slow => \&slow, clock => \&clock);

# How many keys all roles may hold; one role of one database may hold a quarter of it.
my $max_claims = 400;

# The timeouts during a fault, in seconds, and what else a call may take.
# All that must not fail has more time.
my ($request_timeout, $commit_timeout, $slack) = (1, 2, 10);
my %patient = (request_timeout => '20s', commit_timeout => '20s');

# A key may be written so often after a fault: what settles it, or buries a claim of unknown
# outcome, and looks at that three times more.  On a busy machine a write may take max_attempts.
my ($writes_of_a_key, $max_attempts) = (4, 4);

# What a target that fails gets: so many requests a second, in each of two lanes, at most.
my $probes_a_second = 16;

sub run_part
{
	my ($cluster, $name, %size) = @_;
	my $began = time();
	diag("$name:");
	local $cluster->{part} = $name;
	$cluster->{did} = {};
	if ($parts{$name}) { $parts{$name}->($cluster, %size) }
	else { under_fault($cluster, $name, %size) }
	check_keys($cluster);
	say_figures('%d s in all', time() - $began);
	return;
}

# ----- clusters -------------------------------------------------------------------------

# A server whose clock the test sets, and its table.
sub new_cluster
{
	my ($name, $hurry) = @_;
	my $node = ExactOnce::Lives::new_primary("chaos_$name", $hurry, "exactonce.max_claims = $max_claims\n",
		options => \%patient);
	my $cluster = { node => $node, others => [], attempts => 0, table => "tap_chaos_$name", hurry => $hurry, access_key => 'test', n => 0 };
	my $shim = $node->basedir . '/wrong_clock.so';
	my $source = dirname(__FILE__) . '/../../harness/wrong_clock.c';
	system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim, $source);
	set_clock($cluster, 0);
	$node->stop;
	local %ENV = (%ENV, LD_PRELOAD => $shim, WRONG_CLOCK => $node->basedir . '/wrong_clock');
	$node->start;
	return $cluster;
}

sub stop_cluster
{
	my ($cluster) = @_;
	stop_without_crash($_) foreach @{ $cluster->{others} }, $cluster->{node};
	return;
}

# Of each server: where one is refused the worker completes keys by another one of the same table,
# which must not be more patient.
sub set_timeouts
{
	my ($cluster, %timeouts) = @_;
	my @servers = split /\n/, sql_of($cluster->{node}, 'SELECT srvname FROM pg_foreign_server');
	sql_of($cluster->{node}, join ' ', map { timeouts_sql($_, %timeouts) } @servers);
	return;
}

# All processes of the server read it at any time.
sub set_clock
{
	my ($cluster, $seconds) = @_;
	my $setting = $cluster->{node}->basedir . '/wrong_clock';
	open my $out, -e $setting ? '+<' : '>', $setting or die "$setting: $!";
	syswrite $out, pack('q', $seconds * 1_000_000) or die "$setting: $!";
	close $out;
	return;
}

# ----- clients --------------------------------------------------------------------------

# Transactions on new keys: acquire, complete and COMMIT; idem_once and COMMIT; the first one
# with a ROLLBACK.  Each says what became of it: a COMMIT of a transaction that has failed
# is a ROLLBACK without an error, so the errors before it are said, too.
sub transactions
{
	my ($cluster, $n, %how) = @_;
	my $script = '';
	foreach (1 .. $n)
	{
		my $key = $how{key} // "$cluster->{part}-" . ++$cluster->{n};
		my $attempt = $how{who} ? "$key by $how{who} " . ++$cluster->{attempts} : $key;
		my $kind = $how{kind} // (qw(acquire once acquire rollback))[ $cluster->{n} % 4 ];
		my $work = "INSERT INTO work VALUES ('$key', '$attempt');\n";
		my $sql = $kind eq 'once' ? "$work\\set claim 00000\nSELECT idem_once('$key', '\"$attempt\"') \\g /dev/null\n"
		  : "SELECT idem_acquire('$key') \\g /dev/null\n\\set claim :SQLSTATE\n${work}"
		  . "SELECT idem_complete('$key', '\"$attempt\"') \\g /dev/null\n";
		$script .= "BEGIN;\n$sql\\set complete :SQLSTATE\n" . ($how{before_end} // '')
		  . ($kind eq 'rollback' ? "ROLLBACK;\n\\echo \@did $kind :claim :complete 40000 $attempt\n"
			: "COMMIT;\n\\echo \@did $kind :claim :complete :SQLSTATE $attempt\n");
	}
	return $script;
}

# Notes what clients have seen: attempt => whether its COMMIT succeeded.  Returns how many
# transactions there were, and those that failed though they should commit.
sub take_output
{
	my ($cluster, @outputs) = @_;
	my ($n, @failed) = (0);
	foreach my $output (@outputs)
	{
		while ($output =~ /^\@did (\w+) (\w+) (\w+) (\w+) (.*)$/mg)
		{
			my ($kind, $states, $attempt) = ($1, "$2 $3 $4", $5);
			my $committed = $states eq '00000 00000 00000' ? 1 : 0;
			$cluster->{did}{$attempt} = $committed;
			$n++;
			push @failed, "$kind $attempt: $states" if $kind ne 'rollback' && !$committed;
		}
	}
	return ($n, @failed);
}

sub run_clients
{
	my ($cluster, $clients, $transactions, %how) = @_;
	my $run = start_clients($how{node} // $cluster->{node}, map { transactions($cluster, $transactions, %how) } 1 .. $clients);
	return take_output($cluster, finish_clients($run));
}

# Clients for some seconds, so many transactions of each at a time; returns as take_output().
sub load
{
	my ($cluster, $seconds, $transactions) = @_;
	my ($end, $n, @failed) = (time() + $seconds, 0);
	do
	{
		my ($more, @more_failed) = run_clients($cluster, 4, $transactions);
		$n += $more;
		push @failed, @more_failed;
	} while (time() < $end);
	return ($n, @failed);
}

sub all_commit
{
	my ($cluster, $what, $seconds, $transactions) = @_;
	my ($n, @failed) = load($cluster, $seconds, $transactions);
	return none("$cluster->{part}: $what: all transactions commit", @failed);
}

# A transaction that is open until its attempt is told to go on.
sub start_open_transaction
{
	my ($cluster, $key, %how) = @_;
	my $run = start_script($how{node} // $cluster->{node}, transactions($cluster, 1, key => $key, kind => 'acquire', %how,
			before_end => say_in_script("has $key") . halt_until("end $key")));
	await_word("has $key");
	return $run;
}

sub end_open_transaction
{
	my ($cluster, $key, $run) = @_;
	go_on("end $key");
	my $said = finish_script($run);
	take_output($cluster, $said);
	return $said;
}

sub cannot_commit
{
	my ($cluster, $key, $run) = @_;
	return like(end_open_transaction($cluster, $key, $run), qr/ERROR:  ID00[67]/, "$cluster->{part}: an open transaction cannot commit: $key");
}

# ----- faults ------------------------------------------------------------------------------

# A fault of all requests, those about lives included.
sub everything
{
	my (%fault) = @_;
	fault(%fault, times => 0, key => $_) foreach 'ORIGIN#', '';
	return;
}

# Ends all faults, but for the time that the service has.
sub end_faults
{
	my ($cluster) = @_;
	reset_proxy();
	everything(do => 'date', seconds => $cluster->{service_clock}, strict => JSON::PP::true) if defined $cluster->{service_clock};
	return;
}

sub rotate
{
	my ($cluster) = @_;
	$cluster->{access_key} = "test$cluster->{n}";
	sql_of($cluster->{node}, "ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (SET access_key_id '$cluster->{access_key}')");
	return;
}

# Claims of unknown outcome wait for the worker.  Once they take up all the room that a role
# has, another claim is refused without a request.  This is another server for the table: with
# its longer timeout its circuit does not open meanwhile, so that calls are not refused before.
sub fill_share
{
	my ($cluster) = @_;
	my @scripts;
	sql_of($cluster->{node}, server_sql('patient', table => $cluster->{table}, %patient));
	foreach my $n (1 .. 12)
	{
		my @keys = map { "$cluster->{part}-many-$n-$_" } 1 .. 16;
		$cluster->{did}{$_} = 0 foreach @keys;
		push @scripts, "SELECT idem_acquire_many(ARRAY['" . join("', '", @keys) . "'], server => 'patient');";
	}
	my $said = join '', finish_clients(start_clients($cluster->{node}, @scripts));
	like($said, qr/ERROR:  54000/, "$cluster->{part}: what waits may take up a role's share of the claims, and no more");
	my $key = "$cluster->{part}-no-room";
	$cluster->{did}{$key} = 0;
	like(run_script($cluster->{node}, "SELECT idem_acquire('$key', server => 'patient');"), qr/ERROR:  54000/, "$cluster->{part}: then a claim is refused at once");
	is(count_requests(key => $key), 0, "$cluster->{part}: without a request");
	return;
}

# An hour passes.  Connections were closed until now; from now on nothing is answered, and
# what was sent arrives when the outage is over.  One fault begins before the other ends,
# because a request between them would bury claims, which are no backlog then.
sub go_silent
{
	my ($cluster) = @_;
	$cluster->{service_clock} = 3600;
	set_clock($cluster, 3600);
	everything(do => 'hold');
	end_fault($_, 'drop') foreach 'ORIGIN#', '';
	return;
}

# ----- a fault of all requests ----------------------------------------------------------------

sub under_fault
{
	my ($cluster, $name, %size) = @_;
	my ($part, $node, $fault) = ($cluster->{part}, $cluster->{node}, $faults{$name});
	all_commit($cluster, 'before', 0, 5);
	settled($node);
	my $life = life_of($cluster);

	my @pending = leave_pending($cluster);
	set_timeouts($cluster, request_timeout => "${request_timeout}s", commit_timeout => "${commit_timeout}s");
	my %open = map { $_ => start_open_transaction($cluster, "$part-open-$_") } 1 .. 2;
	$fault->{begin}->($cluster);
	end_fault('IDEMPOTENCY#');
	refuses_new_work($cluster, $fault);
	cannot_commit($cluster, "$part-open-1", $open{1});
	my ($n, @failed) = load($cluster, $size{seconds} / ($fault->{middle} ? 2 : 1), $size{transactions});
	$fault->{middle}->($cluster) if $fault->{middle};
	cannot_commit($cluster, "$part-open-2", $open{2});
	my ($more, @more_failed) = (0);
	($more, @more_failed) = load($cluster, $size{seconds} / 2, $size{transactions}) if $fault->{middle};
	say_figures('%d transactions meanwhile, of which %d did not commit', $n + $more, @failed + @more_failed);
	shows_backlog($cluster, $fault, \@pending);
	asks_seldom($cluster, $size{alone});

	# What waits, and what it costs once the fault is over.
	my $waiting = backlog($cluster);
	$fault->{end}->($cluster) if $fault->{end};
	end_faults($cluster);
	my $ended = time();
	settled($node);
	is_no_storm($cluster, $waiting, $ended);
	set_timeouts($cluster, %patient);
	is(life_of($cluster), $life, "$part: the database works under the same life as before");
	all_commit($cluster, 'after', 0, 5);
	return;
}

sub life_of
{
	my ($cluster) = @_;
	return sql_of($cluster->{node}, "SELECT life FROM exactonce_lives WHERE state = 'open'");
}

# Commits keys that are not completed, because only that is refused; returns them.
sub leave_pending
{
	my ($cluster) = @_;
	my %before = %{ $cluster->{did} };
	fault(key => 'IDEMPOTENCY#', to => 'COMPLETED', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
	my ($n, @failed) = run_clients($cluster, 4, 10);
	none("$cluster->{part}: keys are committed that cannot be completed", @failed);
	my @pending = sort grep { $cluster->{did}{$_} && !exists $before{$_} } keys %{ $cluster->{did} };
	is(pending_of($cluster), "@pending", "$cluster->{part}: each of them is in exactonce_pending");
	return @pending;
}

sub pending_of
{
	my ($cluster) = @_;
	return join ' ', sort split /\n/, sql_of($cluster->{node}, 'SELECT key FROM exactonce_pending');
}

# Keys that wait for the worker.
sub backlog
{
	my ($cluster) = @_;
	return sql_of($cluster->{node}, <<'SQL');
SELECT (SELECT count(*) FROM exactonce_pending) + (SELECT count(*) FROM exactonce_claims WHERE state <> 'second look')
SQL
}

# A claim, and a commit of idem_once, end with an error before any work counts.
sub refuses_new_work
{
	my ($cluster, $fault) = @_;
	my ($part, $node) = ($cluster->{part}, $cluster->{node});
	foreach my $case ([ 'a claim', "$part-refused", "SELECT idem_acquire('KEY');", $request_timeout ],
		[ 'idem_once', "$part-refused-once", "SELECT idem_once('KEY');", $commit_timeout ])
	{
		my ($what, $key, $call, $timeout) = @$case;
		my $began = time();
		my $said = run_script($node, $call =~ s/KEY/$key/r);
		my $took = time() - $began;
		$cluster->{did}{$key} = 0;
		like($said, qr/ERROR:  $fault->{error}/, "$part: $what is refused");
		cmp_ok($took, '<', paced($timeout + $slack), "$part: $what is refused early");
		my @own = grep { $_->{key} eq "IDEMPOTENCY#$key" && $_->{to} =~ /IN_PROGRESS|COMMITTING/ } requests();
		cmp_ok(scalar @own, '<=', $fault->{attempts}, "$part: $what makes few requests");
		say_figures('%s is refused after %.2f s and %d requests', $what, $took, scalar @own);
	}
	return;
}

# The backlog can be seen, does not grow, and has a reason.
sub shows_backlog
{
	my ($cluster, $fault, $pending) = @_;
	my ($part, $node) = ($cluster->{part}, $cluster->{node});
	is(pending_of($cluster), "@$pending", "$part: the committed keys are pending, and no others are");
	my $claims = sql_of($node, q{SELECT count(*) FROM exactonce_claims WHERE state <> 'second look'});
	cmp_ok($claims, '<=', $max_claims / 4, "$part: claims that wait are bounded");
	my $check;
	wait_until("$part: idem_check() says what waits, and why", sub {
		$check = sql_of($node, q{SELECT status, detail FROM idem_check() WHERE "check" = 'pending'});
		$check =~ /^failure\|@{[scalar @$pending]} completions, the oldest for \d+ s(?:; of which \d+ have failed)?; the worker has failed since .*$fault->{cause}/ })
	  or diag($check);
	say_figures('waiting: %d completions, %d claims; %s', scalar @$pending, $claims, $check);
	return;
}

# Without clients, requests are those of the worker.
sub asks_seldom
{
	my ($cluster, $seconds) = @_;
	my $began = time();
	usleep($seconds * 1_000_000);
	my $of = sub { scalar grep { $_->{at} / 1000 > $began } requests(@_) };
	my ($writes, $beats) = ($of->(), $of->(key => 'ORIGIN#'));
	$seconds = time() - $began;
	cmp_ok($writes, '<=', $probes_a_second * ($seconds + 1), "$cluster->{part}: the worker asks seldom");
	say_figures('the worker alone: %.1f requests a second, and %.1f about the life', $writes / $seconds, $beats / $seconds);
	return;
}

# The worker has settled all: each key was written a few times.
sub is_no_storm
{
	my ($cluster, $waiting, $ended) = @_;
	my $part = $cluster->{part};
	# Whoever has had no answer asks again.
	my @log = grep { $_->{sent} } requests();
	my (%writes, %second);
	foreach my $request (@log)
	{
		$writes{ $request->{key} }++ if $request->{op} ne 'GetItem';
		$second{ max(0, int($request->{at} / 1000 - $ended)) }++;
	}
	none("$part: each key is written a few times afterwards",
		map { "$_: $writes{$_}" } grep { $writes{$_} > $writes_of_a_key * $max_attempts } sort keys %writes);
	cmp_ok(scalar @log, '<=', $writes_of_a_key * $waiting + 20, "$part: the requests afterwards are a few for each key that waited");
	say_figures('afterwards: %d keys waited and were settled after %.1f s, with %d requests, at most %d of a key; in each second: %s', $waiting,
		time() - $ended, scalar @log, max(0, values %writes), join ' ', map { $second{$_} // 0 } 0 .. max(0, keys %second));
	return;
}

# ----- slow ------------------------------------------------------------------------------------

# Answers that come late, but in time, are no reason for an error; those that come too late
# are.  A request that was given up arrives all the same.
sub slow
{
	my ($cluster, %size) = @_;
	everything(do => 'delay', ms => 150);
	all_commit($cluster, 'answers take 150 ms', $size{seconds}, $size{transactions});
	reset_proxy();
	under_fault($cluster, 'too_slow', %size);
	return;
}

# ----- the service's clock is wrong ----------------------------------------------------------------

# Two databases use keys of their own and shared ones, while the service's clock goes wrong
# and right again.
sub clock
{
	my ($cluster, %size) = @_;
	my $other = new_node('chaos_other', conf => "exactonce.test_hurry = @{[ hurry($cluster->{hurry}) ]}\n",
		options => { table => $cluster->{table}, %patient });
	sweep_nothing($cluster->{table});
	sql_of($other, 'CREATE TABLE work (key text NOT NULL, attempt text NOT NULL)');
	push @{ $cluster->{others} }, $other;
	my @nodes = ($cluster->{node}, $other);
	my $right = $cluster->{service_clock} // 0;
	foreach my $off (360, -360, 0)
	{
		my $open = start_open_transaction($cluster, "clock-open-$off", node => $other, who => 'the other one');
		$cluster->{service_clock} = $right + $off;
		end_faults($cluster);
		my ($n, @failed) = both_at_once($cluster, @nodes, $size{seconds} / 3, "clock-open-$off");
		end_open_transaction($cluster, "clock-open-$off", $open);
		say_figures('%+d s: %d transactions, of which %d did not commit, because their keys were shared or the clock moved', $off, $n,
			scalar @failed);
		my $key = "clock-known-$off-";
		wait_until("clock: $off s off: new work goes on", sub {
			run_clients($cluster, 1, 1, kind => 'acquire', key => $key . ++$cluster->{n});
			return $cluster->{did}{"$key$cluster->{n}"} });
		settled($_) foreach @nodes;
	}
	return;
}

# Both databases do transactions for some seconds, in which each tries the same keys.  Only
# the one tries that of the other's open transaction: where a claim was lost, idem_complete()
# of the same database waits until the transaction that has lost it is over.
sub both_at_once
{
	my ($cluster, $node, $other, $seconds, $open) = @_;
	my ($end, $n, @failed) = (time() + $seconds, 0);
	do
	{
		my @keys = map { 'clock-shared-' . ++$cluster->{n} } 1 .. 5;
		my @runs = map { my ($of, $who, @tried) = @$_;
			start_clients($of, map { transactions($cluster, 5) . join('', map { transactions($cluster, 1, key => $_, who => $who, kind => 'acquire') } @tried) } 1 .. 2)
		} [ $node, 'one', $open, @keys ], [ $other, 'the other', @keys ];
		my ($more, @more_failed) = take_output($cluster, map { finish_clients($_) } @runs);
		$n += $more;
		push @failed, @more_failed;
	} while (time() < $end);
	return ($n, @failed);
}

# ----- in the end ------------------------------------------------------------------------------------

# Who has seen a COMMIT has done the only work of its key, and the key is completed with its
# result; all other keys can be claimed, and are done once then.
sub check_keys
{
	my ($cluster) = @_;
	my ($part, $did) = ($cluster->{part}, $cluster->{did});
	my @nodes = ($cluster->{node}, @{ $cluster->{others} });
	settled($_) foreach @nodes;
	my (%by, %keys);
	foreach my $attempt (sort keys %$did)
	{
		my $key = $attempt =~ s/ by .*//r;
		$keys{$key} = 1;
		push @{ $by{$key} }, $attempt if $did->{$attempt};
	}
	my @free = sort grep { !$by{$_} } keys %keys;
	none("$part: each key without a COMMIT can be claimed", claim_again($cluster, @free));
	$by{$_} = ["$_ again"] foreach @free;
	settled($_) foreach @nodes;

	my ($records, %works, @wrong) = (records($cluster->{table}));
	foreach my $node (@nodes)
	{
		my $works = works_of($node);
		push @{ $works{$_} }, @{ $works->{$_} } foreach grep { /^$part-/ } keys %$works;
	}
	foreach my $key (sort keys %keys)
	{
		my ($record, @works) = ($records->{$key} // {}, @{ $works{$key} // [] });
		my ($status, $result) = map { $record->{$_} // 'nothing' } qw(status result);
		push @wrong, "$key: seen are @{$by{$key}}, done are @works" if "@{$by{$key}}" ne "@works" || @works != 1;
		push @wrong, "$key is $status by $result, and its work is by @works" if "$status $result" ne "COMPLETED \"@works\"";
	}
	push @wrong, map { "$_ has work that no client knows of" } grep { !$keys{$_} } sort keys %works;
	push @wrong, map { "$_ is $records->{$_}{status}" } grep { /^$part-/ && !$keys{$_} } sort keys %$records;
	none("$part: each key has the work of the COMMIT that was seen, and is completed with its result", @wrong);
	is(sql_of($_, 'SELECT count(*) FROM exactonce_in_doubt'), 0, "$part: nothing is in doubt") foreach @nodes;
	say_figures('%d keys: %d of them had no COMMIT, and were claimed again', scalar keys %keys, scalar @free);
	return;
}

# Claims keys and does their work; returns those that cannot be claimed.
sub claim_again
{
	my ($cluster, @keys) = @_;
	my @refused;
	while (my @some = splice @keys, 0, 50)
	{
		my $list = join ', ', map { "'$_'" } @some;
		my ($out) = (run_script($cluster->{node}, <<"SQL"));
BEGIN;
CREATE TEMP TABLE claimed ON COMMIT DROP AS SELECT key, outcome FROM idem_acquire_many(ARRAY[$list]);
SELECT format('%s is %s', key, outcome) FROM claimed WHERE outcome <> 'acquired';
INSERT INTO work SELECT key, key || ' again' FROM claimed WHERE outcome = 'acquired';
SELECT idem_complete(key, to_jsonb(key || ' again')) FROM claimed WHERE outcome = 'acquired' \\g /dev/null
COMMIT;
SQL
		push @refused, split /\n/, $out;
	}
	return @refused;
}

1;
