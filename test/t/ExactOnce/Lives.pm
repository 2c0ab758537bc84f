# What lives promise, under load and with figures: a copy works beside its original, a
# kill of the postmaster is settled at once, a lost claim file is made up for by the
# recovery scan, beats are as many as they should be, and a key takes no request more.
#
# Each part makes clusters of its own, tests what it finds, and says its figures with
# diag().  Clients are psql, one script each; a key's work is a row with the name of the
# attempt, which is also the key's result.
package ExactOnce::Lives;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use ExactOnce;
use File::Basename qw(dirname);
use IPC::Run;
use JSON::PP;
use List::Util qw(max min sum0);
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT_OK = qw(none say_figures sql_of start_clients finish_clients works_of);

# By name; each takes its size, and test_hurry.
my %parts = (copies => \&copies, killed => \&killed, scan => \&scan, beats => \&beats, requests => \&requests_of_a_key);

sub run_part
{
	my ($name, %size) = @_;
	my $code = $parts{$name} // die "no such part: $name\n";
	diag("$name:");
	return $code->(%size);
}

sub say_figures
{
	my ($format, @figures) = @_;
	diag(sprintf "  $format", @figures);
	return;
}

# ----- what the parts share ---------------------------------------------------------

sub new_primary
{
	my ($name, $most, $conf, %how) = @_;
	my $hurry = hurry($most);
	my $node = new_node($name, %how, conf => "exactonce.test_hurry = $hurry\nlog_min_messages = log\n"
		  . "wal_level = replica\nmax_wal_senders = 5\nmax_connections = 60\n" . ($conf // ''));
	$node->append_conf('pg_hba.conf', 'local replication all trust');
	$node->reload;
	sql_of($node, 'CREATE TABLE work (key text NOT NULL, attempt text NOT NULL)');
	sweep_nothing("tap_$name");
	return $node;
}

sub sql_of
{
	my ($of, $text) = @_;
	return $of->safe_psql('postgres', $text);
}

# The keys whose work is in the data: key => [ attempts ].
sub works_of
{
	my ($of) = @_;
	my %works;
	push @{ $works{ (split /\|/)[0] } }, (split /\|/)[1] foreach split /\n/, sql_of($of, 'SELECT key, attempt FROM work');
	return \%works;
}

# Passes if a list of findings is empty, and shows some of it otherwise.
sub none
{
	my ($what, @findings) = @_;
	return is(join("\n", splice(@findings, 0, 10), @findings ? 'and ' . @findings . ' more' : ()), '', $what);
}

sub percentile
{
	my ($percent, @values) = @_;
	@values = sort { $a <=> $b } @values;
	return @values ? $values[ min($#values, int(@values * $percent / 100)) ] : 0;
}

# ----- clients -----------------------------------------------------------------------

# A script of so many transactions on keys of its own, the kinds of which are always the
# same, and of one on each shared key.
sub client_script
{
	my ($who, $from, $to, @shared) = @_;
	my $script = "\\set VERBOSITY verbose\n";
	foreach my $n ($from .. $to)
	{
		my ($key, $last) = ("$who-$n", "$who-" . ($n - 1));
		my $work = "INSERT INTO work VALUES ('$key', '$key');\n";
		my $acquire = "BEGIN;\n" . claim($key, $key) . $work . "SELECT idem_complete('$key', '\"$key\"') \\g /dev/null\n";
		my $kind = $n % 10;
		$script .=
		    $kind == 0 ? "BEGIN;\n" . claim('again', $last) . "COMMIT;\n"
		  : $kind == 1 ? "${acquire}ROLLBACK;\n"
		  : $kind == 2 ? "BEGIN;\n${work}SELECT idem_once('$key', '\"$key\"') \\g /dev/null\n" . commit('once')
		  : $kind == 3 ? "BEGIN;\nSELECT idem_once('$last') \\g /dev/null\nCOMMIT;\n\\echo \@twice :LAST_ERROR_SQLSTATE\n"
		  : $kind == 4 ? claim($key, $key) . "BEGIN;\n${work}SELECT idem_complete('$key', '\"$key\"') \\g /dev/null\n" . commit('keep')
		  : $kind == 5 ? "BEGIN;\n" . claim($key, $key) . "SELECT idem_fail('$key', '{}') \\g /dev/null\n" . commit('fail')
		  : $acquire . commit('acquire');
		next unless my $shared = shift @shared;
		$script .= "BEGIN;\n" . claim('shared', $shared) . "\\if :mine\nINSERT INTO work VALUES ('$shared', '$who');\n"
		  . "SELECT idem_complete('$shared', '\"$who\"') \\g /dev/null\n\\endif\nCOMMIT;\n\\echo \@shared :SQLSTATE\n";
	}
	return $script;
}

sub claim
{
	my ($what, $key) = @_;
	my $kind = $what =~ /^(?:again|shared)$/ ? $what : 'claim';
	return "\\set mine false\n\\set outcome error\n"
	  . "SELECT c.outcome, c.outcome = 'acquired' AS mine FROM idem_acquire('$key') c \\gset\n\\echo \@$kind :outcome\n";
}

sub commit
{
	my ($kind) = @_;
	return "COMMIT;\n\\echo \@$kind :SQLSTATE\n";
}

# What a script should say, if nobody else has its keys: name => how often.
sub expected_figures
{
	my ($clients, $n) = @_;
	my %count;
	$count{ (qw(again:completed rollback once:00000 twice:ID005 keep:00000 fail:00000 acquire:00000
			acquire:00000 acquire:00000 acquire:00000))[ $_ % 10 ] } += $clients foreach 1 .. $n;
	delete $count{rollback};
	$count{'claim:acquired'} = $clients * grep { $_ % 10 == 1 || $_ % 10 >= 4 } 1 .. $n;
	return \%count;
}

sub figures_of
{
	my (@outputs) = @_;
	my %count;
	foreach my $output (@outputs)
	{
		$count{"$1:$2"}++ while $output =~ /^@(\w+) (\S+)$/mg;
	}
	my $shared = join ' ', map { "$_ " . delete $count{$_} } grep { /^shared/ } sort keys %count;
	return (\%count, $shared);
}

# Starts clients and returns what finish_clients() takes.
sub start_clients
{
	my ($node, @scripts) = @_;
	return { began => time(), runs => [ map { start_script($node, $_) } @scripts ] };
}

sub finish_clients
{
	my ($clients) = @_;
	my @runs = @{ $clients->{runs} };
	# All of them are pumped: one whose output nobody reads would stop.
	while (my @open = grep { $_->{handle}->pumpable } @runs)
	{
		$_->{handle}->pump_nb foreach @open;
		usleep(10_000);
	}
	my @outputs = map { finish_script($_) } @runs;
	$clients->{took} = time() - $clients->{began};
	return @outputs;
}

# ----- a copy beside its original -------------------------------------------------------

# Starts a cluster whose requests come from an address of its own.
sub start_from
{
	my ($node, $address) = @_;
	my $shim = $node->basedir . '/source_address.so';
	my $source = dirname(__FILE__) . '/../../harness/source_address.c';
	system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim, $source) unless -e $shim;
	local %ENV = (%ENV, LD_PRELOAD => $shim, SOURCE_ADDRESS => $address);
	$node->start;
	return;
}

# The lives that a server has begun, with those of its data before it was copied.
sub lives_of
{
	my ($of) = @_;
	return map { $_ => 1 } split /\n/, sql_of($of, 'SELECT id FROM exactonce_internal.lives');
}

# Original and copy work beside each other, on keys of their own and on shared ones.
#   how: backup, a copy that pg_basebackup takes while the original works; or files, one
#        of the files of the original while it is down
#   transactions: of each client
sub copies
{
	my (%size) = @_;
	copy_beside($_, %size) foreach qw(backup files);
	return;
}

sub copy_beside
{
	my ($how, %size) = @_;
	my ($name, $n, $clients) = ("lives_$how", $size{transactions}, $size{clients} // 3);
	my $original = new_primary($name, $size{hurry});
	my $work = sub { my ($phase, $who, @shared) = @_;
		map { client_script("$who$_-$phase", 1, $n, map { "shared-$phase-$_" } @shared) } 1 .. $clients };

	my $alone = start_clients($original, $work->('alone', 'o'));
	my ($alone_figures) = figures_of(finish_clients($alone));
	is_deeply($alone_figures, expected_figures($clients, $n), "$how: the original alone: its figures");

	my $copy = PostgreSQL::Test::Cluster->new("${name}_copy");
	take_copy($how, $original, $copy, $work);
	reset_proxy();

	# What the original has committed and not finished is in both.
	my $both = start_clients($original, $work->('both', 'o', 1 .. $n));
	my $beside = start_clients($copy, $work->('both', 'c', 1 .. $n));
	my ($copy_figures, $copy_shared) = figures_of(finish_clients($beside));
	my ($figures, $shared) = figures_of(finish_clients($both));
	settled($original);
	# The copy has rows of the original, too, and leaves them.
	wait_until("$how: the copy finishes its own keys", sub { sql_of($copy, "SELECT count(*) FROM exactonce_pending WHERE key !~ '^o'") == 0 });
	is_deeply($figures, $alone_figures, "$how: the original beside its copy: the same figures");
	is_deeply($copy_figures, $alone_figures, "$how: the copy: the same figures");
	say_figures('%s: %d transactions of the original alone (%.0f/s), %d beside the copy (%.0f/s) and as many of the copy; '
		  . 'shared keys: %s by the original, %s by the copy',
		$how, $n * $clients, $n * $clients / $alone->{took}, 2 * $n * $clients, 2 * $n * $clients / $both->{took}, $shared, $copy_shared);

	check_beside($how, $original, $copy);
	# For as long as an heir waits for silence the copy has looked on.
	my $life = sql_of($original, "SELECT life FROM exactonce_lives WHERE state = 'open'");
	is(item("tap_$name", "ORIGIN#$life")->{state}, 'open', "$how: the life of the original goes on");
	my $of_copy = sql_of($copy, "SELECT life FROM exactonce_lives WHERE state = 'open'");
	cmp_ok(sql_of($copy, 'SELECT count(*) FROM exactonce_pending'), '>', 0, "$how: the copy still has rows of the original");
	stop_without_crash($_) foreach $copy, $original;
	is(item("tap_$name", "ORIGIN#$of_copy")->{state}, 'closed', "$how: the life of the copy is closed nevertheless");
	return;
}

# While the copy is taken and started, the original has keys that are committed and not
# completed.  Sets the copy apart by its address.
sub take_copy
{
	my ($how, $original, $copy, $work) = @_;
	fault(%$_, do => 'drop', times => 0) foreach { to => 'COMPLETED' }, { op => 'BatchExecuteStatement' };
	my $busy = start_clients($original, $work->('during', 'o'));
	if ($how eq 'backup')
	{
		$original->backup($how);
		$copy->init_from_backup($original, $how);
	}
	my @outputs = finish_clients($busy);
	my ($figures) = figures_of(@outputs);
	# Who was told of no completion yet is told of it by the row.
	is($figures->{'acquire:00000'}, expected_figures(scalar @outputs, $figures->{'acquire:00000'} * 10 / 4 / @outputs)->{'acquire:00000'},
		"$how: the original works while it is copied");
	if ($how eq 'files')
	{
		$original->stop;
		$original->backup_fs_cold($how);
		$copy->init_from_backup($original, $how);
		$original->start;
	}
	start_from($copy, '127.0.0.2');
	sql_of($copy, "INSERT INTO work VALUES ('copy', 'copy'); SELECT idem_once('copy', '\"copy\"')");
	cmp_ok(sql_of($_, 'SELECT count(*) FROM exactonce_internal.outbox'), '>', 0, "$how: " . $_->name . ' has rows to finish')
	  foreach $original, $copy;
	return;
}

sub check_beside
{
	my ($how, $original, $copy) = @_;
	my $records = records('tap_' . $original->name);
	my ($works, $copied) = map { works_of($_) } $original, $copy;
	my %own = lives_of($original);
	my %of_copy = lives_of($copy);
	delete @of_copy{ keys %own };

	# What the copy has sent, and what was applied of it.
	my @log = requests();
	my @from = grep { $_->{from} =~ /127\.0\.0\.2$/ } @log;
	my @foreign = grep { /^IDEMPOTENCY#o/ } map { split(' ', $_->{key}), @{ $_->{batch} // [] } } grep { $_->{op} =~ /^(?:Update|Batch|Transact)/ } @from;
	cmp_ok(scalar @from, '>', 0, "$how: requests of the copy are known by its address");
	none("$how: the copy sends no write for a key of the original", @foreign);
	my @lives = map { $_->{key} } grep { $_->{from} =~ /127\.0\.0\.2$/ && $_->{key} =~ /^ORIGIN#(.*)/ && $own{$1} }
	  requests(key => 'ORIGIN#', op => 'UpdateItem');
	none("$how: nor one for a life of the original", @lives);

	my (@wrong, @twice, %seen);
	foreach my $key (sort keys %$records)
	{
		my ($record, $life) = ($records->{$key}, ($records->{$key}{origin} // '') =~ m{^([^/]*)});
		my @by = (@{ $works->{$key} // [] }, $key =~ /-both-|^copy$/ ? @{ $copied->{$key} // [] } : ());
		push @twice, "$key: @by" if @by > 1;
		push @wrong, "$key is $record->{status}, and its works are: @by" if ($record->{status} eq 'COMPLETED') != (@by > 0);
		push @wrong, "$key is by $record->{result}, and its work is by $by[0]" if @by && ($record->{result} // '') ne "\"$by[0]\"";
		push @wrong, "$key was sealed by another life" if $life && ($key =~ /^o/ && !$own{$life} || $key =~ /^c/ && !$of_copy{$life});
		push @wrong, "$key is $record->{status}" if $record->{status} !~ /^(?:COMPLETED|FAILED)$/;
		$seen{$1}{ $record->{status} }++ if $key =~ /^(o|c|shared)/;
	}
	push @wrong, map { "$_ has work and no record" } grep { !$records->{$_} } keys %$works, keys %$copied;
	none("$how: no key has two works", @twice);
	none("$how: a key is completed if and only if its work is there, by the server that did it", @wrong);
	say_figures('%s: of the original %s; of the copy %s; shared %s; %d requests came from the copy', $how,
		(map { my $of = $seen{$_} // {}; join(', ', map { "$of->{$_} $_" } sort keys %$of) || 'none' } qw(o c shared)), scalar @from);
	return;
}

# ----- the postmaster is killed ----------------------------------------------------------

# Leaves behind keys that are committed and not completed, and some of transactions that
# are open, and stays connected until the server ends.
sub leave_keys
{
	my ($node, $round, $committed, $open) = @_;
	run_script($node, join '', map { "BEGIN;\nINSERT INTO work VALUES ('c-$round-$_', 'c-$round-$_');\n"
			  . "SELECT idem_once('c-$round-$_', '\"c-$round-$_\"');\nCOMMIT;\n" } 1 .. $committed);
	my $script = "BEGIN;\n" . join('', map { "INSERT INTO work VALUES ('a-$round-$_', '');\nSELECT idem_acquire('a-$round-$_');\n"
			  . ($_ % 2 ? "SELECT idem_complete('a-$round-$_');\n" : '') } 1 .. $open) . say_in_script("open $round") . "SELECT pg_sleep(600);\n";
	my $run = start_script($node, $script);
	await_word("open $round");
	return $run;
}

# Those of the keys that were left behind that are not settled yet, past the proxy.
sub unsettled
{
	my ($table, @keys) = @_;
	my %status;
	my @rest = @keys;
	while (my @some = splice @rest, 0, 100)
	{
		my $answer = dynamodb(BatchGetItem => { RequestItems => { $table => { ConsistentRead => JSON::PP::true,
			Keys => [ map { { pk => { S => "IDEMPOTENCY#$_" } } } @some ] } } });
		$status{ $_->{pk}{S} } = $_->{status}{S} foreach @{ $answer->{Responses}{$table} };
	}
	return grep { ($status{"IDEMPOTENCY#$_"} // 'none') ne (/^c-/ ? 'COMPLETED' : 'FAILED') } @keys;
}

# kill -9 of the postmaster, and a start in the same place: all is settled without a
# caller.  bound: how long that may take after the server accepts connections; by
# default it is only said.
sub killed
{
	my (%size) = @_;
	my $node = new_primary('lives_killed', $size{hurry});
	my $table = 'tap_lives_killed';
	my (@took, @start);
	foreach my $round (1 .. $size{rounds})
	{
		fault(%$_, do => 'drop', times => 0) foreach { to => 'COMPLETED' }, { op => 'BatchExecuteStatement' };
		my $open = leave_keys($node, $round, $size{committed}, $size{open});
		# A load that is cut at some moment.
		my $load = start_clients($node, map { client_script("l$_-$round", 1, 1000) } 1 .. 2);
		usleep(200_000 + rand 500_000);
		my ($postmaster, @others) = processes_of($node);
		kill 'KILL', $postmaster;
		await_end($node, $postmaster, @others);
		finish_clients($load);
		finish_script($open);
		my @left = ((map { "c-$round-$_" } 1 .. $size{committed}), map { "a-$round-$_" } 1 .. $size{open});
		my %left_behind = map { ("IDEMPOTENCY#$_" => 1) } @left;
		is(scalar unsettled($table, @left), scalar @left, "killed, round $round: the keys are left behind");
		reset_proxy();
		my $began = time();
		$node->start;
		my $ready = time();
		while (@left && time() < $ready + paced(30))
		{
			@left = unsettled($table, @left);
			usleep(5_000) if @left;
		}
		push @took, max(0, map { $_->{at} / 1000 - $ready } grep { $left_behind{ $_->{key} } && $_->{applied} } requests());
		push @start, $ready - $began;
		none("killed, round $round: they are settled without a caller", @left);
		cmp_ok($took[-1], '<', $size{bound}, "killed, round $round: within $size{bound} s") if $size{bound};
	}
	settled($node);
	my ($records, $works) = (records($table), works_of($node));
	my @wrong = map { "$_ is $records->{$_}{status}, and has " . @{ $works->{$_} // [] } . ' works' }
	  grep { ($records->{$_}{status} eq 'COMPLETED' ? 1 : 0) != @{ $works->{$_} // [] }
		  || $records->{$_}{status} eq 'COMMITTING' || ($records->{$_}{status} eq 'IN_PROGRESS' && $records->{$_}{bind} eq 'tx') } sort keys %$records;
	none('killed: a key is completed if and only if its work is there', @wrong);
	say_figures('%d rounds, %d keys in each and a load that is cut: settled after %.2f s (median; at most %.2f s) from the start of '
		  . 'connections, which are accepted %.2f s after the start of the server', scalar @took, $size{committed} + $size{open},
		percentile(50, @took), max(@took), percentile(50, @start));
	stop_without_crash($node, kills => 1);
	return;
}

# ----- the claim file is lost -----------------------------------------------------------------

# Fills a table with records of others, by processes beside each other.
sub fill_table
{
	my ($table, $records) = @_;
	my $processes = 4;
	my @pids;
	foreach my $process (0 .. $processes - 1)
	{
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			my $done = eval { fill_part($table, grep { $_ % $processes == $process } 0 .. $records / 25 - 1); 1 };
			print STDERR $@ unless $done;
			POSIX::_exit($done ? 0 : 1);
		}
		push @pids, $pid;
	}
	my $failed = grep { waitpid($_, 0); $? != 0 } @pids;
	die 'the table cannot be filled' if $failed;
	return;
}

sub fill_part
{
	my ($table, @batches) = @_;
	my $life = '11111111-1111-4111-8111-111111111111';
	foreach my $batch (@batches)
	{
		my @puts = map { my $n = $batch * 25 + $_;
			{ PutRequest => { Item => { pk => { S => "IDEMPOTENCY#other-$n" }, status => { S => 'COMPLETED' }, owner => { S => $life },
				bind => { S => 'tx' }, fence => { N => '1' }, runs => { N => '1' }, created_ms => { N => '1780000000000' },
				updated_ms => { N => '1780000000000' }, retention_s => { N => '604800' }, result => { S => "\"result $n\"" },
				holder => { S => 'postgres@db-1 pid 4711' }, ttl => { N => '4000000000' }, origin => { S => "$life/4711/1/1A2B3C4D" } } } } } 0 .. 24;
		my $answer = dynamodb(BatchWriteItem => { RequestItems => { $table => \@puts } });
		die 'unprocessed items' if %{ $answer->{UnprocessedItems} // {} };
	}
	return;
}

# New work for some seconds: a procedure that notes how long each transaction took.
my $new_work = <<'SQL';
CREATE TABLE took (phase text, ms float8);
CREATE PROCEDURE new_work(phase text, seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
	at timestamptz;
	key text;
BEGIN
	FOR i IN 1 .. 1000000 LOOP
		at := clock_timestamp();
		EXIT WHEN at > began + seconds * interval '1 s';
		key := format('n-%s-%s', phase, i);
		IF (idem_acquire(key)).outcome <> 'acquired' THEN
			RAISE 'key % is not free', key;
		END IF;
		INSERT INTO work VALUES (key, key);
		PERFORM idem_complete(key, to_jsonb(key));
		COMMIT;
		INSERT INTO took VALUES (phase, 1000 * extract(epoch FROM clock_timestamp() - at));
		COMMIT;
	END LOOP;
END $$;
SQL

sub latency_of
{
	my ($node, $phase) = @_;
	my @ms = split /\n/, sql_of($node, "SELECT ms FROM took WHERE phase = '$phase'");
	return sprintf '%d transactions, %.1f ms (median), %.1f ms (99 of 100), %.1f ms (longest)', scalar @ms, percentile(50, @ms),
	  percentile(99, @ms), max(@ms, 0);
}

# The server is killed and its claim file is lost, in a table that is full of records of
# others: the recovery scan settles what was left.
sub scan
{
	my (%size) = @_;
	my ($table, $units) = ('tap_lives_scan', $size{units});
	my $node = new_primary('lives_scan', $size{hurry}, "exactonce.recovery_scan = $units\n");
	sql_of($node, $new_work);
	my $began = time();
	fill_table($table, $size{records});
	say_figures('%d records of others, loaded in %.0f s', $size{records}, time() - $began);
	sql_of($node, "CALL new_work('before', $size{seconds})");
	settled($node);
	fault(%$_, do => 'drop', times => 0) foreach { to => 'COMPLETED' }, { op => 'BatchExecuteStatement' };
	my $open = leave_keys($node, 1, $size{committed}, $size{open});
	my $life = sql_of($node, "SELECT life FROM exactonce_lives WHERE state = 'open'");
	crash($node);
	finish_script($open);
	unlink $node->data_dir . '/exactonce_claims' or die "no claim file: $!";
	my @left = ((map { "c-1-$_" } 1 .. $size{committed}), map { "a-1-$_" } 1 .. $size{open});
	is(scalar unsettled($table, @left), scalar @left, 'scan: the keys are left behind');
	reset_proxy();

	my $log = -s $node->logfile;
	$node->start;
	$began = time();
	# It goes on until the scan is over, and fails at the first error.
	my $load = start_clients($node, map { "\\set ON_ERROR_STOP on\nCALL new_work('during $_', 1);\n\\echo \@during :SQLSTATE\n" x 1 } 1);
	my $phase = 1;
	my (@outputs, %settled);
	my $scanned = qr/table "$table" was scanned for what lives that are over have left: (\d+) items/;
	until ((!@left && slurp_file($node->logfile, $log) =~ $scanned) || time() > $began + paced($size{at_most} // 300))
	{
		push @outputs, finish_clients($load);
		$load = start_clients($node, sprintf "\\set ON_ERROR_STOP on\nCALL new_work('during %d', 1);\n\\echo \@during :SQLSTATE\n", ++$phase);
		my @now = unsettled($table, @left);
		my %now = map { $_ => 1 } @now;
		$settled{$_} = time() - $began foreach grep { !$now{$_} } @left;
		@left = @now;
	}
	push @outputs, finish_clients($load);
	none('scan: what was left behind is settled without a caller', @left);
	is(item($table, "ORIGIN#$life")->{state}, 'retired', 'scan: the life that lost its claim file is retired');
	my ($figures) = figures_of(@outputs);
	is_deeply($figures, { 'during:00000' => $phase }, 'scan: new work goes on meanwhile, without an error') or diag(@outputs);
	sql_of($node, "UPDATE took SET phase = 'during' WHERE phase LIKE 'during%'");

	# The last page needs no pause, and the first one none before it.
	my @pages = grep { $_->{status} == 200 } requests(op => 'Scan');
	@pages = splice @pages, 0, pages_of_pass(@pages);
	my ($seconds, $read) = (($pages[-1]{at} - $pages[0]{at}) / 1000, sum0(map { $_->{units} } @pages[ 0 .. $#pages - 1 ]));
	my ($items) = slurp_file($node->logfile, $log) =~ $scanned;
	cmp_ok($items // 0, '>=', $size{records} + $size{committed}, 'scan: all records of the table were read');
	cmp_ok($read, '<=', 1.05 * $units * $seconds + 1, 'scan: no more units a second than are allowed');
	say_figures('%d records in %d pages and %.1f s: %.0f records/s; %.0f units/s of %d that are allowed', $items // 0, scalar @pages,
		$seconds, ($items // 0) / max($seconds, 0.001), $read / max($seconds, 0.001), $units);
	say_figures('left behind: %d keys, settled %.1f s to %.1f s after the start; the scan began %.1f s after it', scalar keys %settled,
		min(values %settled), max(values %settled), $pages[0]{at} / 1000 - $began);
	say_figures('new work before: %s', latency_of($node, 'before'));
	say_figures('new work during: %s; no failure', latency_of($node, 'during'));
	settled($node);
	# The records of others would take long to read.
	my ($records, $works) = ({}, works_of($node));
	my %other = (TableName => $table, ConsistentRead => JSON::PP::true, FilterExpression => 'not begins_with(pk, :o)',
		ExpressionAttributeValues => { ':o' => { S => 'IDEMPOTENCY#other-' } });
	scan_all(\%other, sub { $records->{ $_->{pk}{S} =~ s/^IDEMPOTENCY#//r } = $_->{status}{S} foreach grep { $_->{status} } @{ $_[0]{Items} } });
	my @wrong = grep { ($records->{$_} eq 'COMPLETED' ? 1 : 0) != @{ $works->{$_} // [] } } sort keys %$records;
	none('scan: a key is completed if and only if its work is there', @wrong);
	my $same = 0;
	$other{FilterExpression} = 'begins_with(pk, :o) and updated_ms = :u';
	$other{ExpressionAttributeValues}{':u'} = { N => '1780000000000' };
	scan_all({ %other, Select => 'COUNT' }, sub { $same += $_[0]{Count} });
	is($same, $size{records}, 'scan: the records of others are as they were');
	stop_without_crash($node, kills => 1);
	return;
}

sub scan_all
{
	my ($request, $take) = @_;
	my $page;
	do
	{
		$page = dynamodb(Scan => { %$request, $page ? (ExclusiveStartKey => $page->{LastEvaluatedKey}) : () });
		$take->($page);
	} while ($page->{LastEvaluatedKey});
	return;
}

# How many pages the first pass took, from the beginning of the table.
sub pages_of_pass
{
	my (@pages) = @_;
	my $n = 1;
	$n++ while $n < @pages && !$pages[$n]{first};
	return $n;
}

# ----- beats --------------------------------------------------------------------------------

# A busy life sends one beat in 5 s for each table, and one that is idle for five minutes
# is closed, and sends nothing any more.  Both times are divided by test_hurry.
sub beats
{
	my (%size) = @_;
	my $node = new_primary("lives_beats$size{hurry}", $size{hurry});
	my @tables = map { "tap_lives_beats$size{hurry}$_" } '', '_2';
	sql_of($node, server_sql('other', table => $tables[1]) . "SELECT idem_create_table('other')");
	my $busy = sub { my ($n) = @_; sql_of($node, "SELECT idem_once('$n'); SELECT idem_once('$n', server => 'other')") };
	my $n = 0;
	$busy->(++$n) foreach 1 .. 5;
	settled($node);
	reset_proxy();
	my $hurry = hurry($size{hurry});
	my $slower = $size{hurry} / $hurry;
	my ($began, $every) = (time(), 5 / $hurry);
	while (time() < $began + $size{busy} * $slower)
	{
		$busy->(++$n);
		usleep(50_000);
	}
	my $took = time() - $began;
	# Whoever has had no answer asks again.
	my @beats = grep { $_->{sent} } requests(key => 'ORIGIN#');
	foreach my $table (@tables)
	{
		my @at = map { $_->{at} / 1000 } grep { $_->{table} eq $table } @beats;
		my @gaps = map { $at[$_] - $at[ $_ - 1 ] } 1 .. $#at;
		cmp_ok(scalar @at, '<=', $took / $every + 1, "busy: no more than one request in $every s for $table");
		cmp_ok(scalar @at, '>=', $took / $every / 2, "busy: nor far fewer for $table");
		say_figures('busy for %.0f s, test_hurry %d: %d beats in %s, %.2f s to %.2f s apart; %d transactions', $took, $hurry,
			scalar @at, $table, min(@gaps, 0 + 'inf'), max(@gaps, 0), 2 * $n);
	}
	my @others = map { join ' ', $_->{at} - int 1000 * $began, @$_{qw(op key table status code)} } grep { $_->{op} ne 'UpdateItem' } @beats;
	is("@others", '', 'busy: all requests about the life are beats');

	my $state = sub { (item($_[0], 'ORIGIN#' . $beats[0]{key} =~ s/ORIGIN#//r) // {})->{state} // 'none' };
	return stop_without_crash($node) unless $size{idle};
	$began = time();
	my $end = $began + 400 / $hurry + paced(20);
	usleep(50_000) until time() > $end || !grep { $state->($_) ne 'closed' } @tables;
	my $closed = time() - $began;
	is(join(' ', map { $state->($_) } @tables), 'closed closed', 'idle: the life is closed');
	# The proxy may note the last request after its effect was seen.
	do
	{
		reset_proxy();
		usleep(500_000);
	} while (count_requests() > 0 && time() < $end + paced(60));
	reset_proxy();
	sleep $size{idle};
	is(count_requests(key => 'ORIGIN#') + count_requests(), 0, 'idle: no request is sent any more');
	say_figures('idle, test_hurry %d: closed after %.1f s, and no request in %d s after that', $hurry, $closed, $size{idle});
	return stop_without_crash($node);
}

# ----- the price --------------------------------------------------------------------------------

# The requests of a key, first contact excepted, as the proxy saw them.
sub requests_of_a_key
{
	my (%size) = @_;
	my ($node, $n) = (new_primary('lives_requests', $size{hurry}), $size{keys});
	my %kinds = (
		'acquire, complete, COMMIT' => { of => "FOR i IN 1 .. $n LOOP PERFORM idem_acquire('a' || i), idem_complete('a' || i); COMMIT; END LOOP",
			caller => 2, 'key' => 'a' },
		'once and COMMIT' => { of => "FOR i IN 1 .. $n LOOP PERFORM idem_once('o' || i); COMMIT; END LOOP", caller => 1, key => 'o' },
		'duplicate' => { of => "FOR i IN 1 .. $n LOOP PERFORM idem_acquire('a' || i); COMMIT; END LOOP", caller => 1, key => 'a' });
	sql_of($node, "SELECT idem_once('first contact')");
	settled($node);
	foreach my $kind ('acquire, complete, COMMIT', 'once and COMMIT', 'duplicate')
	{
		my ($of, $caller, $key) = @{ $kinds{$kind} }{qw(of caller key)};
		reset_proxy();
		sql_of($node, "DO \$\$ BEGIN $of; END \$\$");
		settled($node);
		# Whoever has had no answer asks again.
		my @log = grep { $_->{sent} } requests();
		my @finish = grep { $_->{op} eq 'BatchExecuteStatement' || $_->{to} eq 'COMPLETED' } @log;
		my @others = grep { $_->{op} ne 'BatchExecuteStatement' && $_->{to} ne 'COMPLETED' } @log;
		is(scalar @others, $caller * $n, "$kind: the caller sends $caller requests for a key");
		none("$kind: and they are writes of this key", map { "$_->{op} $_->{key}" } grep { $_->{op} ne 'UpdateItem' || $_->{key} !~ /^IDEMPOTENCY#$key\d+$/ } @others);
		cmp_ok(scalar @finish, '<=', $n, "$kind: the worker sends at most one");
		say_figures('%s, %d keys: %.2f requests of the caller for a key, %.2f of the worker', $kind, $n, @others / $n, @finish / $n);
	}
	stop_without_crash($node);
	return;
}

1;
