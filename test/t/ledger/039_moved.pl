# The end of a server and another start of the same data: in a directory that was renamed
# or copied, after a start of the machine, and where transaction ids are given out again.
# What was under way is settled without a person.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_moved';
my $dir = PostgreSQL::Test::Utils::tempdir();
system_or_bail($ENV{CC} // 'cc', '-O1', '-fPIC', '-shared', '-o', "$dir/boot_id.so", "$FindBin::Bin/../../harness/boot_id.c",
	'-ldl');
# Nothing is flushed in the background within a test.
my $node = new_node('moved',
	conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nlog_min_messages = log\nwal_writer_delay = 10s\nautovacuum = off\n");
my $data = $node->data_dir;
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text)');

# A transaction that works under a key.
sub working
{
	my ($key) = @_;
	return "BEGIN;\nINSERT INTO work VALUES ('$key');\nSELECT idem_acquire('$key', lease => '1 hour');\n"
	  . "SELECT idem_complete('$key', '1');\nCOMMIT;\n";
}

# Kills the server with keys under way: one has committed, one was sealed, one is only
# claimed.  Returns the life that they belong to.
sub crash_with_keys
{
	my ($name) = @_;
	fault(to => 'COMPLETED', do => 'drop', times => 0);
	run_script($node, working("$name committed"));
	my $life = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");
	my $open = start_script($node, "BEGIN;\nSELECT idem_acquire('$name open', lease => '1 hour');\n"
		  . say_in_script("$name open") . halt_until("$name killed"));
	await_word("$name open");
	fault(key => "$name sealed", to => 'COMMITTING', do => 'drip', ms => 60_000);
	my $sealed = start_script($node, working("$name sealed"));
	wait_until("$name: a key is sealed", sub { status_of($table, "$name sealed") eq 'COMMITTING' });
	crash($node);
	go_on("$name killed");
	finish_script($_) foreach $open, $sealed;
	reset_proxy();
	return $life;
}

sub check_settled
{
	my ($name) = @_;
	wait_until("$name: what has committed is completed", sub { status_of($table, "$name committed") eq 'COMPLETED' });
	wait_until("$name: the key that was $_ is given back", sub { status_of($table, "$name $_") eq 'FAILED' }) foreach 'sealed', 'open';
	wait_until("$name: nothing is pending", sub { $sql->('SELECT count(*) FROM exactonce_pending') eq '0' });
	is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', "$name: nothing is in doubt");
	return;
}

# Is the claim file refused, since the last start?
sub file_is_refused
{
	my ($from) = @_;
	return substr(slurp_file($node->logfile), $from) =~ /of another server, version or start of the machine, and is not used/;
}

# ----- the directory ------------------------------------------------------------------

crash_with_keys('renamed');
my $from = -s $node->logfile;
rename $data, "$data.elsewhere" or die $!;
symlink "$data.elsewhere", $data or die $!;
$node->start;
check_settled('renamed');
ok(!file_is_refused($from), 'renamed: it is the same directory');

my $life = crash_with_keys('copied');
unlink $data or die $!;
system_or_bail('cp', '-a', "$data.elsewhere", $data);
system_or_bail('rm', '-r', "$data.elsewhere");
$from = -s $node->logfile;
$node->start;
check_settled('copied');
ok(file_is_refused($from), 'copied: it is another directory');
is(item($table, "ORIGIN#$life")->{state}, 'retired', 'copied: the life has an heir');

# ----- a start of the machine -----------------------------------------------------------

append_to_file("$dir/boot_id", "00000000-0000-4000-8000-000000000001\n");
crash_with_keys('rebooted');
$from = -s $node->logfile;
{
	local $ENV{LD_PRELOAD} = "$dir/boot_id.so";
	local $ENV{EO_BOOT_ID} = "$dir/boot_id";
	$node->start;
}
check_settled('rebooted');
ok(file_is_refused($from), 'rebooted: the claim file may be anything');
$node->restart;

# ----- transaction ids that are given out again ---------------------------------------------

# Seals a key and kills the server before anything of the transaction is flushed.  Returns its id and its life.
sub seal_unflushed
{
	my ($name) = @_;
	# What the worker has to note about its life it notes now, and flushes.
	run_script($node, working("$name before"));
	settled($node);
	# Ids that leave no trace on the disk, so that the worker does not get the one in question.
	$sql->('CHECKPOINT');
	fault(key => $name, to => 'COMMITTING', do => 'drip', ms => 60_000);
	my $sealed = start_script($node, "BEGIN;\nSELECT pg_current_xact_id();\nROLLBACK;\n" x 20 . working($name));
	wait_until("$name: the key is sealed", sub { status_of($table, $name) eq 'COMMITTING' });
	my ($by, $id) = split m{/}, record($table, $name)->{origin};
	crash($node);
	finish_script($sealed);
	reset_proxy();
	return ($id, $by);
}

# Has another transaction commit with this id.  Returns if it can be had.
sub give_out
{
	my ($name, $id) = @_;
	my $free = $sql->('SELECT pg_current_xact_id()');
	note("$name: sealed as $id, after the restart $free is given out");
	return 0 if $free >= $id;
	$sql->("DO \$\$ BEGIN WHILE pg_current_xact_id() < '$id' LOOP COMMIT; END LOOP; END \$\$");
	is($sql->("SELECT pg_xact_status('$id')"), 'committed', "$name: another transaction has committed with its id");
	is(status_of($table, $name), 'COMMITTING', "$name: the key is not settled yet");
	return 1;
}

# Tries that until the id can be had: something else may have flushed the WAL.
sub until_given_out
{
	my ($name, $code) = @_;
	my $given_out;
	for (my $round = 1; $round <= 5 && !$given_out; $round++)
	{
		$given_out = $code->("$name $round");
	}
	ok($given_out, "$name: a transaction id was given out again");
	return;
}

sub check_given_back
{
	my ($name) = @_;
	wait_until("$name: it is given back", sub { status_of($table, $name) eq 'FAILED' });
	is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', "$name: nothing is in doubt");
	return;
}

# The id of a transaction that was sealed and not flushed is given to another one, which
# commits before the key of the first is settled.
until_given_out('again', sub {
	my ($name) = @_;
	my ($xid, $by) = seal_unflushed($name);
	fault(key => "ORIGIN#$by", do => 'drop', times => 0);
	$node->start;
	my $given_out = give_out($name, $xid);
	reset_proxy();
	check_given_back($name);
	return $given_out;
});

# The same where two runs of the server follow in which this database has no worker, and so no
# life: in the first the id is given out, and the second finds in pg_control that it was.
my $no_worker = $node->data_dir . '/no_worker.conf';
$node->append_conf('postgresql.conf', "include_if_exists = 'no_worker.conf'");

sub start_without_life
{
	append_to_file($no_worker, "max_logical_replication_workers = 0\nmax_worker_processes = 1\n");
	$node->start;
	unlink $no_worker or die $!;
	return;
}

sub two_runs_without_life
{
	my ($name, %without_file) = @_;
	my $claims = $node->data_dir . '/exactonce_claims';
	my $count = 'SELECT count(*) FROM exactonce_internal.lives';
	my ($xid, $by) = seal_unflushed($name);
	unlink $claims if $without_file{first};
	start_without_life();
	my $before = $sql->($count);
	my $given_out = give_out($name, $xid);
	$sql->('CHECKPOINT');
	crash($node);
	start_without_life();
	is($sql->($count), $before, "$name: no life was begun");
	crash($node);
	unlink $claims if $without_file{last};
	$node->start;
	# Without the file the worker does not know the table before somebody uses it.
	run_script($node, working("$name after"));
	return ($given_out, $by);
}

until_given_out('without a life', sub {
	my ($name) = @_;
	my ($given_out) = two_runs_without_life($name);
	check_given_back($name);
	return $given_out;
});
until_given_out('without a life, the file is lost at first', sub {
	my ($name) = @_;
	my ($given_out) = two_runs_without_life($name, first => 1);
	check_given_back($name);
	return $given_out;
});

# Then nothing tells that the id was given out again, and the commit log is believed.
until_given_out('without a life, the file is lost at last', sub {
	my ($name) = @_;
	my ($given_out, $by) = two_runs_without_life($name, last => 1);
	wait_until("$name: the life is over", sub { item($table, "ORIGIN#$by")->{state} eq 'retired' });
	is($sql->("SELECT outcome FROM idem_acquire('$name')"), $given_out ? 'in_progress' : 'acquired', "$name: nobody is given the key");
	return check_given_back($name) && 0 unless $given_out;
	is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '1', "$name: it is in doubt");
	is($sql->("SELECT idem_resolve('$name', 'failed')"), 't', "$name: an operator resolves it");
	return $given_out;
});
stop_without_crash($node);
done_testing();
