# Each alert of monitoring/alerts.yml: fault, firing, repaired, resolved; script/long alerts runs it.
#   alerts.pl ALERT...
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Aws;
use ExactOnce::Leases;
use ExactOnce::Monitoring;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $table = 'tap_alerts';
my $throttling = 'ProvisionedThroughputExceededException';
my $life = 'ORIGIN#';
my $node = new_watched_node('alerts', conf => "exactonce.max_claims = 100\n");
my $lease_ms = 3_600_000 + int(1000 * time());
run_script($node, "SELECT idem_once('before');\n");
settled($node);
my $watch = watch($node, hurried => 1);
my (@rows, %state);

# Every request, and those about lives too if it is asked for.
sub everything
{
	my ($lives, %fault) = @_;
	fault(%fault, times => 0, key => $_) foreach '', $lives ? $life : ();
	return;
}

# Calls in sessions of their own, which may fail.
sub work
{
	run_script($node, join '', map { "SELECT idem_once(gen_random_uuid()::text);\nSELECT idem_get('work');\n" } 1 .. 3);
	return;
}

sub worker
{
	return sql_of($node, 'SELECT worker_pid FROM exactonce_health');
}

# A record that this life was committing in a transaction of which there is no trace.
sub leave_doubt
{
	my $origin = sql_of($node, "SELECT life FROM exactonce_lives WHERE state = 'open'");
	put_record($table, 'doubt', v => 1, status => 'COMMITTING', origin => "$origin/3/1/0", owner => 'a', fence => 1, runs => 1,
		lease_ms => $lease_ms, ttl => int($lease_ms / 1000));
	run_script($node, "SELECT outcome FROM idem_acquire('doubt');\n");
	return;
}

# The service calls the credentials expired that are in use.
sub expire
{
	work();
	my ($last) = reverse requests();
	fault(do => 'expired', access_key => $last->{signer}, times => 0, key => $_) foreach '', $life;
	work();
	return;
}

# No worker can be started any more.
sub stop_launcher
{
	$state{pid} = sql_of($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce launcher'");
	kill 'STOP', $state{pid};
	sql_of($node, 'SELECT pg_terminate_backend(worker_pid, 10000) FROM exactonce_health');
	return;
}

# A call that does not wait for a worker for long.
sub ask
{
	run_script($node, "SET statement_timeout = '@{[ paced('200ms') ]}';\nSELECT idem_once('asks');\n");
	return;
}

# Another run takes over the key of a transaction, which its heartbeat finds out.
sub lose_claim
{
	$state{open} = start_script($node, "BEGIN;\nSELECT idem_acquire('lost', lease => '3 s');\n" . say_in_script('has lost')
		  . halt_until('lost') . "ROLLBACK;\n");
	await_word('has lost');
	put_record($table, 'lost', v => 1, status => 'IN_PROGRESS', owner => 'b', fence => 99, runs => 2, lease_ms => $lease_ms);
	return;
}

# What has committed cannot be marked COMPLETED.
sub refuse_finishing
{
	fault(%$_, do => 'answer', status => 400, code => 'AccessDeniedException', times => 0)
	  foreach { to => 'COMPLETED' }, { op => 'BatchExecuteStatement' };
	run_script($node, "SELECT idem_once(gen_random_uuid()::text);\n");
	return;
}

# The server ends, and what it knew of its claims is lost.
sub leave_life
{
	sql_of($node, "ALTER SYSTEM SET exactonce.takeover = 'never'");
	$node->stop('immediate');
	unlink $node->data_dir . '/exactonce_claims' or die "exactonce_claims: $!";
	with_credentials(sub { $node->start });
	work();
	return;
}

# ----- faults -----------------------------------------------------------------------------
# fault makes it; during is done again and again until the alert fires, and after until it
# is resolved; what is how the table names the fault.

my %faults = (
	InDoubt => { what => 'a sealed record whose transaction left no trace', fault => \&leave_doubt,
		repair => sub { sql_of($node, "SELECT idem_resolve('doubt', 'completed')") } },
	SwitchedOff => { what => 'exactonce.enabled = off',
		fault => sub { sql_of($node, 'ALTER SYSTEM SET exactonce.enabled = off'); $node->reload },
		repair => sub { sql_of($node, 'ALTER SYSTEM RESET exactonce.enabled'); $node->reload } },
	ClaimTableFull => { what => 'a role holds 24 of its 25 claims',
		fault => sub { $state{open} = start_script($node, "BEGIN;\nSELECT count(idem_once('full ' || n)) FROM generate_series(1, 24) n;\n"
			  . halt_until('full') . "ROLLBACK;\n") },
		repair => sub { go_on('full'); finish_script($state{open}); settled($node) } },
	WorkerLate => { what => 'SIGSTOP of the worker', fault => sub { $state{pid} = worker(); kill 'STOP', $state{pid} },
		repair => sub { kill 'CONT', $state{pid} } },
	WorkerMissing => { what => 'SIGSTOP of the launcher, and the worker ends', fault => \&stop_launcher, during => \&ask,
		repair => sub { kill 'CONT', $state{pid} }, after => \&work },
	LeaseLost => { what => 'another run has the key', fault => \&lose_claim, repair => sub { go_on('lost'); finish_script($state{open}) } },
	Throttled => { what => 'every request is throttled', during => \&work, after => \&work,
		fault => sub { everything(0, do => 'answer', status => 400, code => $throttling) }, repair => \&reset_proxy },
	Errors => { what => 'every call is denied', during => \&work, after => \&work,
		fault => sub { everything(0, do => 'answer', status => 400, code => 'AccessDeniedException') }, repair => \&reset_proxy },
	RequestsFail => { what => 'every request is denied', during => \&work, after => \&work,
		fault => sub { everything(0, do => 'answer', status => 400, code => 'AccessDeniedException') }, repair => \&reset_proxy },
	LifeNotBeating => { what => 'beats are lost', during => \&work, after => \&work,
		fault => sub { fault(do => 'drop', times => 0, key => $life) }, repair => \&reset_proxy },
	CircuitOpen => { what => 'the engine is stopped', during => \&work, after => \&work,
		fault => sub { control('POST', '/engine/pause') }, repair => sub { control('POST', '/engine/resume') } },
	PendingTooLong => { what => 'finishing is refused',
		fault => \&refuse_finishing, repair => \&reset_proxy, after => \&work },
	WorkerFailing => { what => 'a commit waits, and every request is denied',
		fault => sub { refuse_finishing(); everything(1, do => 'answer', status => 400, code => 'AccessDeniedException') }, repair => \&reset_proxy, after => \&work },
	CredentialsFail => { what => 'the source of credentials is down', during => \&work, after => \&work,
		fault => sub { services(container => 'error'); expire() }, repair => sub { services(container => 'ok') } },
	CredentialsEnd => { what => 'the source hands out credentials of two minutes', during => \&work, after => \&work,
		fault => sub { services(life => 120); expire() }, repair => sub { services(life => 3600); expire() } },
	LifeWaits => { what => 'a crash, the claim file is lost, exactonce.takeover = never', fault => \&leave_life,
		repair => sub { sql_of($node, "SELECT idem_take_over(life) FROM exactonce_lives WHERE state = 'waits for idem_take_over()'") } },
	NotWatched => { what => 'the exporter is stopped', fault => sub { stop_exporter($watch) }, repair => sub { start_exporter($watch) } });


# Repeats what a fault needs meanwhile until the alert is in one of these states; fails after
# four minutes.  Returns when that was.
sub await_alert
{
	my ($name, $meanwhile, $pattern) = @_;
	my $end = time() + paced(240);
	while (time() < $end)
	{
		return time() if alert_state($watch, "Exactonce$name") =~ $pattern;
		$meanwhile->() if $meanwhile;
		usleep(100_000);
	}
	return undef;
}

# ----- the demonstration ------------------------------------------------------------------------

foreach my $name (@ARGV)
{
	my $fault = $faults{$name} or die "no such alert: $name";
	defined await_alert($name, $fault->{after}, qr/inactive/) or fail("$name does not fire before its fault");
	my $at = time();
	$fault->{fault}->();
	my $fired = await_alert($name, $fault->{during}, qr/firing/);
	ok(defined $fired, "$name fires");
	$fault->{repair}->();
	my $repaired = time();
	my $resolved = await_alert($name, $fault->{after}, qr/inactive/);
	ok(defined $resolved, "$name is resolved");
	reset_proxy();
	push @rows, [ $name, $fault->{what}, map { defined $_ ? sprintf '%.0f', $_ - $at : '-' } $fired, $repaired, $resolved ];
}
diag('seconds from the fault on; see monitoring/README.md for what is hurried');
diag(sprintf('%-16s | %-58s | %6s | %8s | %8s', qw(alert fault firing repaired resolved)));
diag(sprintf('%-16s | %-58s | %6s | %8s | %8s', @$_)) foreach @rows;
unwatch($watch);
stop_without_crash($node);
ExactOnce::Aws::stop_aws();
done_testing();
