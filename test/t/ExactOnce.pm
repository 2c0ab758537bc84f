# What the TAP tests share: clusters with the extension and a server in them,
# scripts in sessions beside each other, the proxy of the harness, and the items in
# DynamoDB.  ExactOnce::Faults and ExactOnce::Actions build on it.
package ExactOnce;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use HTTP::Tiny;
use JSON::PP;
use IPC::Run;
use List::Util qw(max min sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Test2::API qw(test2_stack);
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  pace paced hurry timeouts_sql
  new_node stop_without_crash own_log server_sql wait_until settled cancel_commit processes_of crash freeze await_end
  script_file start_script finish_script run_script without_places halt_until say_in_script go_on await_word
  control reset_proxy relay fault end_fault release_held await_request requests count_requests
  dynamodb item record records status_of action_status put_record sweep_nothing);

my $http = HTTP::Tiny->new(timeout => 900);
my $scripts = 0;

# One failure is enough for script/long mutants, and what comes after it may wait for long.
test2_stack()->top->listen(sub { exit 1 if $_[1]->causes_fail }) if $ENV{EO_FIRST_FAILURE};

# ----- how fast this machine is -------------------------------------------------

# Times in tests are those of a machine that has nothing else to do.  Whatever must not end, or must
# not come, by itself lasts longer on a machine that is slower or busy: the timeouts of servers
# (server_sql() and timeouts_sql()), the limits of waits, the intervals of the protocol.
# What a test asserts stays as it is.

my $pace;

# How much longer than on a machine of its own things take here, from 1 to 20: what the longest of
# some requests takes through the proxy to the engine, and a calculation in which this process has to
# share its processor.  EO_PACE says it for all.
sub pace
{
	return $pace //= measure();
}

sub measure
{
	return $ENV{EO_PACE} if $ENV{EO_PACE};
	my $longest_ms = 0;
	foreach my $n (1 .. 40)
	{
		my $began = time();
		$http->get("$ENV{EO_ENDPOINT}/");
		# The first ones warm up.
		$longest_ms = max($longest_ms, 1000 * (time() - $began)) if $n > 10;
	}
	my ($began, $used, $sum) = (time(), sum(times), 0);
	$sum += $_ foreach 1 .. 3_000_000;
	my $share = (time() - $began) / max(0.01, sum(times) - $used);
	reset_proxy();
	my $measured = min(20, max(1, $longest_ms / 6, $share < 1.5 ? 1 : $share));
	note(sprintf 'the pace of this machine is %.1f (%.1f ms for a request, %.1f of a processor)', $measured, $longest_ms, 1 / $share);
	# Those of PostgreSQL::Test, for poll_query_until() and others.
	$PostgreSQL::Test::Utils::timeout_default *= $measured;
	return $measured;
}

# A time, as it is to be here: paced(30), in seconds, or paced('2s'), for SQL.
sub paced
{
	my ($time) = @_;
	my ($number, $unit) = $time =~ /^([\d.]+) ?(ms|s|min)?$/ or die "no time: $time";
	return $number * pace() unless $unit;
	return pace() == 1 ? $time : sprintf '%d ms', $number * { ms => 1, s => 1000, min => 60_000 }->{$unit} * pace();
}

# exactonce.test_hurry, which divides the intervals of the protocol.  A test that needs so much at
# most has less where beats and looks take longer; intervals are the longer.  A test that stops a worker
# needs the least: no session claims anything once a worker gives no sign of life for 15 seconds.
sub hurry
{
	my ($most, $least) = @_;
	return max($least // 1, int($most / sqrt pace()));
}

# The timeouts of a server, and their longest values in seconds.
my %timeouts = (connect_timeout => [ '2s', 60 ], request_timeout => [ '5s', 300 ], commit_timeout => [ '5s', 300 ]);

sub timeout_of
{
	my ($name, $time) = @_;
	my ($default, $most) = @{ $timeouts{$name} };
	my $paced = paced($time // $default);
	return $paced =~ /^(\d+) ms$/ && $1 > 1000 * $most ? "$most s" : $paced;
}

# The SQL that gives a server of server_sql() other timeouts, which are paced; undef: the default.
sub timeouts_sql
{
	my ($server, %new) = @_;
	return "ALTER SERVER $server OPTIONS (" . join(', ', map { "SET $_ '" . timeout_of($_, $new{$_}) . "'" } sort keys %new) . ');';
}

# ----- clusters ---------------------------------------------------------------

# The SQL that makes a server, and a mapping for everybody.  Options beside
# region, endpoint and table are the caller's; mapping replaces the options of the
# mapping, and there is none if it is empty.  Timeouts are paced.
sub server_sql
{
	my ($name, %options) = @_;
	my $mapping = delete $options{mapping} // "access_key_id 'test', secret_access_key 'test'";
	%options = (region => 'eu-west-1', endpoint => $ENV{EO_ENDPOINT}, %options);
	$options{$_} = timeout_of($_, $options{$_}) foreach keys %timeouts;
	my $list = join ', ', map { "$_ '$options{$_}'" } sort keys %options;
	my $sql = "CREATE SERVER $name FOREIGN DATA WRAPPER exactonce OPTIONS ($list);\n";
	$sql .= "CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS ($mapping);\n" if $mapping ne '';
	return $sql;
}

# Starts a cluster with the extension, a server with these options and a table of
# its own, tap_NAME.  conf is added to postgresql.conf; without preload or without
# mapping the caller makes the table.  install_path is where another PostgreSQL is.
sub new_node
{
	my ($name, %how) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $how{install_path} ? (install_path => $how{install_path}) : ());
	$node->init;
	# Servers that no superuser owns lead to the engine, too.
	$node->append_conf('postgresql.conf', sprintf "exactonce.allowed_endpoints = '%s'",
		join ', ', map { s{^\w+://|/$}{}gr } @ENV{ 'EO_ENDPOINT', 'EO_ENGINE_URL' });
	$node->append_conf('postgresql.conf', $how{conf} // '');
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'exactonce'") unless $how{no_preload};
	$node->start;
	my %options = (table => "tap_$name", %{ $how{options} // {} });
	$options{mapping} = $how{mapping} if defined $how{mapping};
	$node->safe_psql('postgres', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', %options));
	$node->safe_psql('postgres', "SELECT idem_create_table(); SELECT idem_get('nothing')")
	  unless $how{no_preload} || ($how{mapping} // 'given') eq '';
	reset_proxy();
	return $node;
}

# Stops a cluster, none of whose processes may have crashed.  kills: the test itself
# has killed some with SIGKILL.
sub stop_without_crash
{
	my ($node, %how) = @_;
	$node->stop($how{mode});
	my $crash = $how{kills} ? qr/PANIC|TRAP|was terminated by signal (?!9)/ : qr/PANIC|TRAP|was terminated by signal/;
	unlike(slurp_file($node->logfile), $crash, 'no process of the server has crashed');
	return;
}

# The log of a cluster without the environment of the server, which PostgreSQL itself writes at
# debug3: a message for each variable, and from version 18 on one with all.
sub own_log
{
	my ($node) = @_;
	return slurp_file($node->logfile) =~ s/^.*DEBUG:  (?:\t\w+=.*\n|initial environment dump:\n(?:\t.*\n)*)//mgr;
}

# Passes once the code returns true, and fails after a minute.
sub wait_until
{
	my ($what, $code) = @_;
	my $end = time() + paced(60);
	while (time() < $end)
	{
		return pass($what) if $code->();
		usleep(20_000);
	}
	return fail($what);
}

# Cancels the commits that are waiting.
sub cancel_commit
{
	my ($node) = @_;
	$node->safe_psql('postgres',
		"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ '\\mCOMMIT;' AND state = 'active' AND pid <> pg_backend_pid()");
	return;
}

# Waits until the worker of the database has nothing left to do.  A claim that
# waits for its second look does not count: it has settled.
sub settled
{
	my ($node, $database) = @_;
	my $times = int paced(6000);
	$node->safe_psql($database // 'postgres', <<"SQL");
DO \$\$
BEGIN
	FOR i IN 1 .. $times LOOP
		IF NOT EXISTS (SELECT FROM exactonce_pending)
		   AND NOT EXISTS (SELECT FROM exactonce_claims WHERE database = current_database() AND state <> 'second look') THEN
			RETURN;
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE 'the worker has not finished';
END \$\$
SQL
	return;
}

# The postmaster of a cluster and all processes that it has started.
sub processes_of
{
	my ($node) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	return ($postmaster, split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children"));
}

# Kills all processes of a cluster at once, like a machine that loses them but
# keeps its files.  The caller starts the cluster again.  All are stopped first, so
# that none acts on the death of another.
sub crash
{
	my ($node) = @_;
	my @pids = freeze($node);
	kill 'KILL', @pids;
	await_end($node, @pids);
	return;
}

# Stops all processes of a cluster with SIGSTOP, and returns them.
sub freeze
{
	my ($node) = @_;
	my ($postmaster) = processes_of($node);
	my (@pids, $before);
	# A stopped postmaster starts no more processes.  A child that ends while the
	# list is read can hide another one, so read it until it no longer changes.
	kill 'STOP', $postmaster;
	wait_while(sub { process_state($postmaster) ne 'T' });
	do
	{
		$before = "@pids";
		@pids = processes_of($node);
		kill 'STOP', @pids;
	} until ("@pids" eq $before);
	return @pids;
}

# Waits for the end of all processes of a cluster, which somebody has killed.
sub await_end
{
	my ($node, @pids) = @_;
	foreach my $pid (@pids)
	{
		wait_while(sub { process_state($pid) !~ /Z|^$/ });
	}
	# A postmaster that is dead and has not been waited for, as happens to orphans, would
	# pass for a running one: its lock files go.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	$node->{_pid} = undef;
	return;
}

# Waits while the code returns true, for at most 30 seconds.
sub wait_while
{
	my ($code) = @_;
	my $end = time() + paced(30);
	usleep(2_000) while $code->() && time() < $end;
	return;
}

# The letter for the state of a process, such as T (stopped) or Z (dead, and not
# waited for); empty if there is none.
sub process_state
{
	my ($pid) = @_;
	open(my $file, '<', "/proc/$pid/stat") or return '';
	return (<$file> // '') =~ /^\d+ \(.*\) (\w)/s ? $1 : '';
}

# ----- scripts ----------------------------------------------------------------

# Runs a script, in which statements may fail, and returns its output, errors too.
sub run_script
{
	my ($node, $script, $database) = @_;
	return finish_script(start_script($node, $script, $database));
}

# Starts a script in a session of its own.  together: its errors stand where they
# occurred in its output.
sub start_script
{
	my ($node, $script, $database, %how) = @_;
	my %run = (out => '', err => '');
	my @psql = ('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr($database // 'postgres'));
	# psql reads a file: IPC::Run feeds standard input only while it is pumped.
	$run{handle} = IPC::Run::start([ @psql, '-f', script_file($node, $script) ],
		'<', \undef, $how{together} ? ('>&', \$run{out}) : ('>', \$run{out}, '2>', \$run{err}));
	return \%run;
}

# Writes a script to a file of its own and returns its path.
sub script_file
{
	my ($node, $script) = @_;
	my $file = $node->basedir . '/script' . ++$scripts . '.sql';
	append_to_file($file, $script);
	return $file;
}

# Waits for the end of a script and returns its output, then its errors.
sub finish_script
{
	my ($run) = @_;
	$run->{handle}->finish;
	return without_places($run->{out} . $run->{err});
}

# psql's output without the places where errors were found.
sub without_places
{
	my ($output) = @_;
	$output =~ s/^psql:\S+:\d+: //mg;
	$output =~ s/^LOCATION:.*\n//mg;
	return $output;
}

# A line of a script that waits until the test calls go_on() with the same word, or
# another script has the line that say_in_script() makes.
sub halt_until
{
	my ($word) = @_;
	return signal_line('GET', $word);
}

sub say_in_script
{
	my ($word) = @_;
	return signal_line('POST', $word);
}

sub signal_line
{
	my ($method, $word) = @_;
	my $query = $http->www_form_urlencode({ name => $word, seconds => paced(60) });
	return qq(\\! curl -s -X $method "\$EO_CONTROL/signal?$query"\n);
}

sub go_on
{
	my ($word) = @_;
	control('POST', '/signal?' . $http->www_form_urlencode({ name => $word }));
	return;
}

# Waits until a script has come to the line that say_in_script() makes.
sub await_word
{
	my ($word) = @_;
	control('GET', '/signal?' . $http->www_form_urlencode({ name => $word, seconds => paced(60) }));
	return;
}

# ----- the proxy --------------------------------------------------------------

# Sends a command to the harness: control('POST', '/engine/stop').
sub control
{
	my ($method, $path, $body) = @_;
	my $answer = $http->request($method, "$ENV{EO_CONTROL}$path", { content => $body // '' });
	die "$method $path: $answer->{status} $answer->{content}" unless $answer->{success};
	return $answer->{content};
}

# Forgets the log and all faults, and lets go of the requests that are held.
sub reset_proxy
{
	control('POST', '/reset');
	return;
}

# Another address of the engine, with the same faults and the same log.
sub relay
{
	return control('POST', '/relay');
}

# Asks for a fault: fault(do => 'hold', key => 'k', to => 'COMMITTING').  See
# test/harness/proxy.mjs and faults.mjs.
sub fault
{
	my (%fault) = @_;
	control('POST', '/fault', encode_json(\%fault));
	return;
}

# Ends the faults that were asked for with this key, or only those that do this, or concern
# this operation.
sub end_fault
{
	my ($key, $do, $op) = @_;
	control('DELETE', '/fault?' . $http->www_form_urlencode({ key => $key, $do ? (do => $do) : (), $op ? (op => $op) : () }));
	return;
}

# Lets go of all requests that a fault holds.
sub release_held
{
	control('POST', '/release');
	return;
}

# Waits until n requests, by default one, that match op, key and to have arrived.
sub await_request
{
	my (%pattern) = @_;
	control('GET', '/wait?' . $http->www_form_urlencode({ seconds => paced(60), %pattern }));
	return;
}

# The entries of the proxy's log that match op, key (or a part of it), to and
# status.  A batch matches if one of its statements does.  Those about lives only if the key begins with ORIGIN#.
sub requests
{
	my (%pattern) = @_;
	my $key = delete $pattern{key} // '';
	my $query = $key =~ /^ORIGIN#/ ? '?' . $http->www_form_urlencode({ key => 'ORIGIN#' }) : '';
	return grep {
		my $entry = $_;
		grep {
			my $write = { %$entry, %$_ };
			index($write->{key}, $key) >= 0 && !grep { $write->{$_} ne $pattern{$_} } keys %pattern;
		} @{ $entry->{writes} // [ {} ] };
	} @{ decode_json(control('GET', "/log$query")) };
}

sub count_requests
{
	return scalar requests(@_);
}

# ----- DynamoDB ---------------------------------------------------------------

# Asks the engine itself, past the proxy: dynamodb(GetItem => { ... }).  Dies with
# the answer if the request is refused.
sub dynamodb
{
	my ($operation, $request) = @_;
	my $authorization = 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, '
	  . 'SignedHeaders=host, Signature=0';
	my $answer = $http->post($ENV{EO_ENGINE_URL}, { content => encode_json($request), headers => {
		'X-Amz-Target' => "DynamoDB_20120810.$operation", 'Content-Type' => 'application/x-amz-json-1.0',
		'Authorization' => $authorization, 'X-Amz-Date' => '20260101T000000Z' } });
	die $answer->{content} unless $answer->{success};
	return decode_json($answer->{content});
}

sub without_types
{
	my ($item) = @_;
	return { map { $_ => (values %{ $item->{$_} })[0] } keys %$item };
}

# The attributes of an item by its partition key; undef if there is none.
sub item
{
	my ($table, $pk) = @_;
	my $answer = dynamodb(GetItem => { TableName => $table, ConsistentRead => JSON::PP::true,
		Key => { pk => { S => $pk } } });
	return $answer->{Item} && without_types($answer->{Item});
}

# The attributes of a key's record; undef if there is none.
sub record
{
	my ($table, $key) = @_;
	return item($table, "IDEMPOTENCY#$key");
}

# The status of a key's record, or none.
sub status_of
{
	my ($table, $key) = @_;
	return (record($table, $key) // {})->{status} // 'none';
}

# What the item of an action tells others: open, sealed or used; none: there is none.
sub action_status
{
	my ($table, $id) = @_;
	my $item = item($table, "ACTION#$id") // return 'none';
	return $item->{consumedAt} ? 'used' : $item->{status} ? 'sealed' : 'open';
}

# All items of a table but those of lives: keys by their key, others by their partition key.
sub records
{
	my ($table) = @_;
	my (%records, $start);
	do
	{
		my $page = dynamodb(Scan => { TableName => $table, ConsistentRead => JSON::PP::true,
			$start ? (ExclusiveStartKey => $start) : () });
		foreach my $record (map { without_types($_) } @{ $page->{Items} })
		{
			(my $key = delete $record->{pk}) =~ s/^IDEMPOTENCY#//;
			$records{$key} = $record unless $key =~ /^ORIGIN#/;
		}
		$start = $page->{LastEvaluatedKey};
	} while ($start);
	return \%records;
}

# Has the engine keep the items of a table that are past their ttl.  It would remove
# them at a moment of its own, which may come between two requests of a test.
sub sweep_nothing
{
	my ($table, $attribute) = @_;
	dynamodb(UpdateTimeToLive => { TableName => $table,
		TimeToLiveSpecification => { AttributeName => $attribute // 'ttl', Enabled => JSON::PP::false } });
	return;
}

# Writes a key's record as it is given: put_record($table, 'k', status => 'FAILED',
# runs => 1).
sub put_record
{
	my ($table, $key, %attributes) = @_;
	my %item = (pk => { S => "IDEMPOTENCY#$key" });
	foreach my $name (keys %attributes)
	{
		my $type = $name =~ /_ms$|^(?:fence|runs|ttl)$/ ? 'N' : 'S';
		$item{$name} = { $type => "$attributes{$name}" };
	}
	dynamodb(PutItem => { TableName => $table, Item => \%item });
	return;
}

1;
