# An update to the next version of the extension (test/next), as docs/upgrade.md says: package,
# restart, ALTER EXTENSION, with crashes in the middle.  1,000 completions and the claims that the
# old version has left are finished by the new one; nothing is lost, and nothing is made twice.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use File::Basename;
use File::Copy ();
use File::Path qw(make_path);
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_new_version';
my $business = 'tap_new_version_business';
my $next = "$FindBin::Bin/../../next";
-f "$next/exactonce.so" or die "$next has no library: make -C test/next";

# ----- a PostgreSQL whose packages this test installs -----------------------------------

# Its programs are copies, because PostgreSQL looks for its folders beside its own program.
my $prefix = PostgreSQL::Test::Utils::tempdir();
my %folder = map { $_ => (run_command([ 'pg_config', "--$_" ]))[0] } qw(bindir pkglibdir sharedir);
my %file = ('exactonce.so' => $folder{pkglibdir}, map { $_ => "$folder{sharedir}/extension" } 'exactonce.control', 'exactonce--1.0.sql', 'exactonce--1.0--1.1.sql');

# Makes links in a folder below the prefix to what the real one has, but for our own files.
sub link_all
{
	my ($name) = @_;
	make_path("$prefix$name");
	foreach my $path (glob "$name/*")
	{
		my $base = basename($path);
		symlink $path, "$prefix$path" unless $base =~ /^exactonce/ || $base eq 'extension' || -e "$prefix$path";
	}
	return;
}

make_path("$prefix$folder{bindir}");
foreach my $program (glob "$folder{bindir}/*")
{
	File::Copy::cp($program, "$prefix$program") or die "$program: $!";
}
link_all($_) foreach $folder{pkglibdir}, $folder{sharedir}, "$folder{sharedir}/extension";

# Replaces the files as a package manager does, which leaves a library that is in use alone.
sub install
{
	my ($version) = @_;
	foreach my $name (sort keys %file)
	{
		my $from = $version eq '1.0' ? "$file{$name}/$name" : "$next/$name";
		my $to = "$prefix$file{$name}/$name";
		unlink $to;
		next unless -f $from;
		File::Copy::cp($from, "$to.new") or die "$from: $!";
		rename "$to.new", $to or die "$to: $!";
	}
	return;
}

# ----- the database ---------------------------------------------------------------------

install('1.0');
my $node = new_node('new_version',
	install_path => dirname("$prefix$folder{bindir}"),
	conf => "exactonce.test_hurry = @{[ hurry(4) ]}\nmax_prepared_transactions = 5\n",
	options => { transact_tables => $business, commit_timeout => '20 s' });
dynamodb(CreateTable => { TableName => $business, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text)');

# What a statement says, errors too.
sub said
{
	my ($text) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', "\\set VERBOSITY verbose\n$text", stdout => \$out, stderr => \$err);
	return without_places($out . $err);
}

# How many of the 1,000 keys are in a state.
sub count_in
{
	my ($state) = @_;
	my $records = records($table);
	return scalar grep { /^k\d+$/ && $records->{$_}{status} eq $state } keys %$records;
}

sub extension_version
{
	return $sql->("SELECT extversion FROM pg_extension WHERE extname = 'exactonce'");
}

sub version_check
{
	return $sql->(q(SELECT status || '|' || detail FROM idem_check() WHERE "check" = 'version'));
}

my $mismatch = qr/55000: the library of exactonce is version 1\.1, and the extension in this database is version 1\.0/;

# ----- what the old version leaves ------------------------------------------------------

my $kept = $sql->("SELECT token FROM idem_acquire('kept', on_commit => 'keep', lease => '1 hour')");
fault(to => 'COMPLETED', do => 'drop', times => 0);
fault(key => 'rolled back', to => 'FAILED', do => 'drop', times => 0);
fault(key => 'sealed', to => 'COMMITTING', do => 'lose', times => 0);
fault(key => 'sealed', to => 'FAILED', do => 'drop', times => 0);
$sql->("BEGIN; INSERT INTO work SELECT 'k' || i FROM generate_series($_ * 50 + 1, $_ * 50 + 50) i;"
	  . " SELECT count(idem_once('k' || i, to_jsonb(i))) FROM generate_series($_ * 50 + 1, $_ * 50 + 50) i; COMMIT")
  foreach 0 .. 15;
# The last 200 count in an item each, which shows how often they were finished.
$sql->("BEGIN; INSERT INTO work SELECT 'k' || i FROM generate_series($_ * 50 + 1, $_ * 50 + 50) i;"
	  . " SELECT count(idem_once('k' || i, to_jsonb(i), writes => jsonb_build_array(jsonb_build_object('Update', jsonb_build_object("
	  . "'TableName', '$business', 'Key', jsonb_build_object('id', 'k' || i), 'UpdateExpression', 'ADD n :one',"
	  . " 'ExpressionAttributeValues', '{\":one\": 1}'::jsonb))))) FROM generate_series($_ * 50 + 1, $_ * 50 + 50) i; COMMIT")
  foreach 16 .. 19;
$sql->("BEGIN; SELECT idem_acquire('rolled back', lease => '1 hour'); ROLLBACK");
$sql->(timeouts_sql('exactonce', commit_timeout => '1 s'));
like(said("SELECT idem_once('sealed', '1'), pg_sleep(0)"), qr/no answer/, 'a transaction is sealed and does not commit');
$sql->(timeouts_sql('exactonce', commit_timeout => '20 s'));
$sql->("BEGIN; INSERT INTO work VALUES ('prepared'); SELECT idem_once('prepared', '1'); PREPARE TRANSACTION 'p'");
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), '1000', 'the old version leaves 1,000 rows');
is(count_in('COMMITTING'), 1000, 'whose keys are being committed');
my %owner = map { $_ => record($table, "k$_")->{owner} } 1, 500, 900;

# ----- the package, and the restart -----------------------------------------------------

install('1.1');
is(version_check(), 'warning|the server runs version 1.0, and version 1.1 is installed', 'idem_check() says that another version is installed');
is(said("SELECT outcome FROM idem_acquire('new session')"), 'acquired', 'a new session goes on with the old library');
# An update would wait for the prepared transaction.
local $ENV{PGOPTIONS} = '-c lock_timeout=30s';
like(said('ALTER EXTENSION exactonce UPDATE'), qr/55000: cannot update exactonce to version 1\.1 while the server runs the library of version 1\.0.*restart/s,
	'an update before the restart is refused');
like(said("ALTER EXTENSION exactonce UPDATE TO '1.1'"), qr/55000: cannot update exactonce to version 1\.1/, 'and by its number');
is(extension_version(), '1.0', 'and nothing was changed');
delete $ENV{PGOPTIONS};
$node->restart;
like(said($_), $mismatch, "after the restart: $_")
  foreach "SELECT idem_acquire('k1')", "SELECT idem_once('new')", "SELECT idem_complete('kept', '1', token => '$kept')", "COMMIT PREPARED 'p'";
like(said('ALTER EXTENSION exactonce UPDATE'), qr/55006: cannot update exactonce while prepared transactions have completed keys.*There are 1 of them/s,
	'the update does not wait for a prepared transaction');
reset_proxy();
wait_until('the worker says so, too', sub { slurp_file($node->logfile) =~ /ERROR:  the library of exactonce is version 1\.1/ });
is(count_in('COMMITTING'), 1000, 'and touches nothing');

# ----- the way back, for the prepared transaction ---------------------------------------

fault(to => 'COMPLETED', do => 'drop', times => 0);
install('1.0');
$node->restart;
is(said("COMMIT PREPARED 'p'"), '', 'with the old package the prepared transaction commits');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), '1001', 'and nothing is lost');
install('1.1');
$node->restart;

# ----- the update, and a crash in it ----------------------------------------------------

my $pooled = start_script($node, "SELECT outcome FROM idem_acquire('of a pool');\n" . say_in_script('waits') . halt_until('updated')
	  . "SELECT outcome FROM idem_acquire('of a pool', on_commit => 'keep');\n");
await_word('waits');
my $update = start_script($node, "BEGIN;\nALTER EXTENSION exactonce UPDATE;\n" . say_in_script('is open') . halt_until('crashed') . "COMMIT;\n");
await_word('is open');
crash($node);
go_on('crashed');
go_on('updated');
finish_script($update);
finish_script($pooled);
$node->start;
is(extension_version(), '1.0', 'a crash before the commit of the update leaves the old version');
like(said("SELECT idem_acquire('k1')"), $mismatch, 'which is refused as before');
is($sql->('SELECT count(*) FROM exactonce_internal.outbox'), '1001', 'with all its rows');

# A session that was told so goes on when another one has made the update.  Its script alters the
# outbox; what a script without that needs is tried below.
$pooled = start_script($node, "SELECT outcome FROM idem_acquire('of a pool');\n" . say_in_script('waits') . halt_until('updated again')
	  . "SELECT outcome FROM idem_acquire('of a pool', on_commit => 'keep');\n");
await_word('waits');
is(said('ALTER EXTENSION exactonce UPDATE'), '', 'the update is made');
go_on('updated again');
my $pool_said = finish_script($pooled);
like($pool_said, $mismatch, 'a session was refused before the update');
like($pool_said, qr/^acquired$/m, 'and goes on after it');
is(extension_version(), '1.1', 'the extension is the new version');
is(version_check(), 'ok|1.1', 'idem_check() is content');
like(said('\df idem_drain'), qr/timeout interval DEFAULT '00:05:00'/, 'the function is the changed one');

# ----- the new version finishes, and is killed in the middle ----------------------------

is($sql->('SELECT count(*) FROM exactonce_internal.outbox WHERE made_by IS NULL'), '1001', 'all rows are of the old version');
my @pids = processes_of($node);
reset_proxy();
fault(to => 'COMPLETED', do => 'kill', pid => [ map { $_ + 0 } @pids ], nth => 60);
await_request(to => 'COMPLETED', n => 60);
await_end($node, @pids);
kill 'KILL', map { m{^/proc/(\d+)} } grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*';
reset_proxy();
my $done = count_in('COMPLETED');
cmp_ok($done, '>', 0, 'some keys are completed when all processes are killed');
cmp_ok($done, '<', 1000, 'and not all of them');
$node->start;
is($sql->("SELECT outcome FROM idem_acquire('after the crash', on_commit => 'keep')"), 'acquired', 'new keys work');
wait_until('the outbox is empty', sub { $sql->('SELECT count(*) FROM exactonce_internal.outbox') eq '0' });

# ----- nothing lost, nothing twice ------------------------------------------------------

is(count_in('COMPLETED'), 1000, 'every key is completed');
is($sql->(q(SELECT count(*), count(DISTINCT key) FROM work WHERE key LIKE 'k%')), '1000|1000', 'whose work is there once');
my $records = records($table);
is(scalar(grep { ($records->{"k$_"}{result} // '') ne $_ } 1 .. 1000), 0, 'every key has its result');
is(scalar(grep { $records->{"k$_"}{runs} != 1 } 1 .. 1000), 0, 'and one run');
is($records->{"k$_"}{owner}, $owner{$_}, "k$_ was completed by the claim that the old version made") foreach sort keys %owner;
is($records->{k1}{made_by}, undef, 'and the new version adds nothing to it');
is_deeply([ map { $_->{id}{S} . ' ' . $_->{n}{N} } sort { $a->{id}{S} cmp $b->{id}{S} } @{ dynamodb(Scan => { TableName => $business, ConsistentRead => JSON::PP::true })->{Items} } ],
	[ map { "k$_ 1" } sort { "k$a" cmp "k$b" } 801 .. 1000 ], 'every write to another item was made once');
is(status_of($table, 'prepared'), 'COMPLETED', 'the prepared transaction has completed its key');
wait_until('what was sealed and did not commit is given back', sub { status_of($table, 'sealed') eq 'FAILED' });
is($sql->("SELECT outcome FROM idem_acquire('rolled back')"), 'acquired', 'what was rolled back can be claimed, before its lease is over');
is(said("SELECT idem_complete('kept', '\"new\"', token => '$kept', immediate => true)"), '', 'a claim that the old version made can be completed');
is(record($table, 'kept')->{result}, '"new"', 'by its token');
is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt');
is($sql->('SELECT count(*) FROM idem_audit()'), '0', 'the audit finds nothing');

# ----- old and new beside each other ----------------------------------------------------

is(record($table, 'after the crash')->{made_by}, '1.1', 'the new version writes its new attribute');
$sql->("SELECT idem_once('of the new', '\"new\"')");
settled($node);
my $old = new_node('old_version', options => { table => $table });
my $old_sql = sub { return $old->safe_psql('postgres', $_[0]) };
is($old_sql->("SELECT outcome, result FROM idem_acquire('of the new')"), 'completed|"new"', 'the old version reads what the new one has completed');
is($old_sql->("SELECT outcome FROM idem_acquire('after the crash')"), 'in_progress', 'and waits for what it has claimed');
my $token = $sql->("SELECT token FROM idem_acquire('handed over', on_commit => 'keep')");
is($old_sql->("SELECT idem_complete('handed over', '1', token => '$token')"), '', 'it completes a claim of the new version');
settled($old);
is_deeply([ @{ record($table, 'handed over') }{qw(status made_by)} ], [ 'COMPLETED', '1.1' ], 'and leaves the new attribute as it is');

# ----- an update that alters no table ---------------------------------------------------

append_to_file("$prefix$file{'exactonce.control'}/exactonce--0.9--1.1.sql", "SELECT 1;\n");
$sql->("UPDATE pg_extension SET extversion = '0.9' WHERE extname = 'exactonce'");
$node->restart;
$pooled = start_script($node, "SELECT outcome FROM idem_acquire('of a pool 2');\n" . say_in_script('waits') . halt_until('altered')
	  . "SELECT outcome FROM idem_acquire('of a pool 2', on_commit => 'keep');\n");
await_word('waits');
is(said('ALTER EXTENSION exactonce UPDATE'), '', 'an update alters no table');
go_on('altered');
$pool_said = finish_script($pooled);
like($pool_said, qr/the extension in this database is version 0\.9/, 'a session was refused before it');
like($pool_said, qr/^acquired$/m, 'and goes on after it');

# ----- the way back, when the extension is the new version ------------------------------

install('1.0');
$node->restart;
like(said("SELECT idem_acquire('with the old library')"), qr/55000: the library of exactonce is version 1\.0, and the extension in this database is version 1\.1/,
	'the old library does nothing with the new extension');
is(status_of($table, 'with the old library'), 'none', 'and has claimed nothing');
like(said("ALTER EXTENSION exactonce UPDATE TO '1.0'"), qr/no update path from version "1\.1" to version "1\.0"/, 'there is no script for the way back');
install('1.1');
$node->restart;
is(said("SELECT outcome FROM idem_acquire('with the new library', on_commit => 'keep')"), 'acquired', 'with the new library it goes on');

$old->stop;
stop_without_crash($node, kills => 1);
done_testing();
