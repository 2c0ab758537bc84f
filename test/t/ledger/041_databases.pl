# Databases that are copied and dropped, and lives of one database that come one after
# the other: each key is settled once, by the database that sealed it or its heir.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_databases';
my $node = new_node('databases', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\n",
	options => { request_timeout => '2s', commit_timeout => '5s' });
sql_of($node, 'CREATE TABLE work (key text)');

# Makes a database whose server leads to the same table.
sub make_database
{
	my ($name) = @_;
	sql_of($node, "CREATE DATABASE $name");
	sql_of($node, 'CREATE EXTENSION exactonce; CREATE TABLE work (key text); ' . server_sql('exactonce', table => $table), $name);
	return;
}

# The rows of the outbox, also those that the extension ignores.
sub count_rows
{
	my ($database) = @_;
	return sql_of($node, 'SELECT count(*) FROM exactonce_internal.outbox', $database);
}

# ----- CREATE DATABASE ... TEMPLATE -------------------------------------------------

make_database('busy');
my @runs = map { my $n = $_; start_script($node, join('', map { my $k = "busy $n $_"; <<"SQL" } 1 .. 10), 'busy') } 1 .. 3;
BEGIN; INSERT INTO work VALUES ('$k'); SELECT idem_once('$k'); COMMIT;
SQL
unlike(finish_script($_), qr/ERROR/, 'the template works') foreach @runs;
settled($node, 'busy');
sql_of($node, "SELECT outcome FROM idem_acquire('kept', lease => '1 hour', on_commit => 'keep')", 'busy');
fault(to => 'COMPLETED', do => 'drop', times => 0);
my @pending = map { "pending $_" } 1 .. 3;
is(complete($node, $_, 'busy'), '', "the template commits: $_") foreach @pending;
my $life = life_of($node, 'busy');
sql_of($node, 'CREATE DATABASE copy TEMPLATE busy');
my $before = records($table);

is(count_rows('copy'), 3, 'rows that are pending come with the copy');
is(sql_of($node, 'SELECT count(*) FROM exactonce_pending', 'copy'), 0, 'and are not pending in the copy');
is(sql_of($node, "SELECT outcome FROM idem_acquire('$_')", 'copy'), 'in_progress', "the copy leaves this alone: $_")
  foreach @pending, 'kept';
is(sql_of($node, "SELECT outcome FROM idem_acquire('busy 1 1')", 'copy'), 'completed',
	'what was completed is completed for the copy');
is(complete($node, 'of the copy', 'copy'), '', 'the copy works');
my $life_of_copy = life_of($node, 'copy');
isnt($life_of_copy, $life, 'under a life of its own');
is(life_item($table, $life_of_copy)->{ancestors}, '', 'which descends from none');
like(record($table, 'of the copy')->{origin}, qr{^$life_of_copy/}, 'as its record says');
is(sql_of($node, "SELECT outcome FROM idem_acquire('pending 1')", 'busy'), 'completed',
	'for the template what is pending is completed');
is(complete($node, 'after the copy', 'busy'), '', 'the template goes on');
is(life_of($node, 'busy'), $life, 'under the life that it had');

# Both databases have a worker again after a start, and only the template settles what was pending.
crash($node);
reset_proxy();
$node->start;
is(complete($node, 'of the copy again', 'copy'), '', 'killed: the copy works');
foreach my $key (@pending, 'of the copy', 'after the copy')
{
	wait_until("killed: without a caller this is completed: $key", sub { status_of($table, $key) eq 'COMPLETED' });
}
settled($node, $_) foreach 'busy', 'copy';
is(scalar(grep { $_->{status} == 200 } requests(to => 'COMPLETED', key => $_)), 1, "and written once: $_") foreach @pending;
is(count_rows('busy'), 0, 'the template has removed its rows');
is(count_rows('copy'), 3, 'the copy has not touched the rows that came along');
my $after = records($table);
is_deeply({ map { $_ => $after->{$_} } grep { !/^pending/ } keys %$before },
	{ map { $_ => $before->{$_} } grep { !/^pending/ } keys %$before }, 'no other key of the template was changed');
is(life_item($table, $life)->{retired_by}, sql_of($node, 'SELECT life FROM exactonce_lives ORDER BY number DESC LIMIT 1', 'busy'),
	'the life of the template is inherited by the template');

# An operator may have the copy replace the template, once that is gone.
like(errors_of($node, "SELECT idem_take_over('$life')", 'copy'), qr/55006: life $life is one of database "busy"/,
	'while the template is there, its life cannot be taken over');
unlike(errors_of($node, 'BEGIN; DROP EXTENSION exactonce CASCADE; ROLLBACK', 'copy'), qr/ERROR/, 'and its rows do not keep the extension');
is(complete($node, 'last of the template', 'busy'), '', 'the template works until it is dropped');
settled($node, 'busy');
sql_of($node, 'DROP DATABASE busy');
like(errors_of($node, 'DROP EXTENSION exactonce CASCADE', 'copy'), qr/55006: cannot drop.*\n.*wait for idem_take_over/, 'now they do');
is(sql_of($node, "SELECT idem_take_over('$life')", 'copy'), 't', 'and the copy takes over');
wait_until('so the rows are its own, and of keys that are completed', sub { count_rows('copy') == 0 });

# ----- DROP DATABASE ------------------------------------------------------------------

make_database('drained');
is(complete($node, 'drained', 'drained'), '', 'a database that is to be dropped works');
$life = life_of($node, 'drained');
is(sql_of($node, "SELECT idem_drain('@{[ paced('30 s') ]}')", 'drained'), 0, 'it is drained');
sql_of($node, 'DROP DATABASE drained');
is(life_item($table, $life)->{state}, 'closed', 'dropped after a drain: its life is closed');
is(sql_of($node, "SELECT outcome FROM idem_acquire('drained')"), 'completed', 'and its keys are completed for others');

make_database('hasty');
sql_of($node, "SELECT outcome FROM idem_acquire('kept by hasty', lease => '1 s', on_commit => 'keep')", 'hasty');
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, $_, 'hasty'), '', "a key is pending: $_") foreach 'left', 'left, too';
$life = life_of($node, 'hasty');
sql_of($node, 'DROP DATABASE hasty');
reset_proxy();
pass('a database with keys that are pending can be dropped');
is(sql_of($node, "SELECT outcome, lease_until IS NULL FROM idem_acquire('left')"), 'in_progress|t',
	'its keys are in progress without an end');
like(errors_of($node, "SELECT idem_resolve('left', 'completed')"), qr/ERROR:  \w+: .*\n(?s:.*)origin => '$life'/,
	'they are resolved only by who names the life');
is(status_of($table, 'left'), 'COMMITTING', 'and stay as they are');
is(sql_of($node, "SELECT idem_resolve('left', 'completed', origin => '$life')"), 't', 'an operator says that one is completed');
is(sql_of($node, "SELECT idem_resolve('left, too', 'failed', origin => '$life')"), 't', 'and that another one is not');
is(status_of($table, 'left'), 'COMPLETED', 'so it is');
is(sql_of($node, "SELECT outcome FROM idem_acquire('left, too')"), 'acquired', 'so the other one can be claimed');
is(sql_of($node, "SELECT outcome FROM idem_acquire('kept by hasty', wait => '@{[ paced('20 s') ]}')"), 'acquired',
	'a claim that was kept ends with its lease');
is(life_item($table, $life)->{state}, 'open', 'nobody inherits the life');
$node->restart;
is(complete($node, 'after the drop'), '', 'after a restart the other databases work');
is(sql_of($node, 'SELECT count(*) FROM exactonce_internal.claims_of_cluster() WHERE database NOT IN (SELECT oid FROM pg_database)'), 0,
	'and no slot of the database is left');
settled($node);

# ----- a life between two others that never reached the table ----------------------------

foreach my $how ('with its claim file', 'without its claim file')
{
	my $of = "$how: ";
	my $forget = sub { unlink $node->data_dir . '/exactonce_claims' if $how =~ /without/ };
	is(complete($node, "first $how"), '', $of . 'the first life works');
	settled($node);
	my $first = life_of($node);
	# One key has committed, one has not, and one was only claimed.  A row of the outbox
	# would name the life; without one and without the file only its records do.
	my @pending = $how =~ /without/ ? () : "committed $how";
	fault(to => 'COMPLETED', do => 'drop', times => 0);
	is(complete($node, $_), '', $of . 'a key is pending') foreach @pending;
	my $open = start_open($node, "open $how");
	# The answer of the seal is lost, and its next attempt is held back for longer than this takes.
	fault(key => "sealed $how", to => 'COMMITTING', do => 'lose');
	fault(key => "sealed $how", to => 'COMMITTING', do => 'hold', nth => 2, times => 0);
	my $sealed = start_script($node, "BEGIN; INSERT INTO work VALUES ('sealed $how'); SELECT idem_once('sealed $how'); COMMIT;");
	wait_until($of . 'a key is sealed, and its transaction has not committed',
		sub { status_of($table, "sealed $how") eq 'COMMITTING' });
	crash($node);
	go_on("open $how");
	finish_script($_) foreach $sealed, $open;
	$forget->();

	reset_proxy();
	fault(key => 'ORIGIN#', do => 'drop', times => 0);
	$node->start;
	my $next = "SELECT life FROM exactonce_lives WHERE number > (SELECT number FROM exactonce_lives WHERE life = '$first' LIMIT 1)";
	wait_until($of . 'the second life begins', sub { sql_of($node, $next) ne '' });
	my $second = sql_of($node, $next);
	like(errors_of($node, "SELECT idem_once('refused $how')"), qr/ID006/, $of . 'it cannot reach the table');
	crash($node);
	$forget->();
	reset_proxy();
	is_deeply(life_item($table, $second), {}, $of . 'it has no item there');
	is(life_item($table, $first)->{state}, 'open', $of . 'and has not retired the first life');

	$node->start;
	is(complete($node, "third $how"), '', $of . 'the third life works at once');
	my $third = life_of($node);
	wait_until($of . 'what the first life has committed is completed', sub { status_of($table, $pending[0]) eq 'COMPLETED' })
	  foreach @pending;
	wait_until("$of$_ is given back", sub { status_of($table, "$_ $how") eq 'FAILED' }) foreach 'sealed', 'open';
	is(life_item($table, $first)->{retired_by}, $third, $of . 'the third life has retired the first one');
	is(complete($node, "$_ $how"), '', "$of$_ can be done again") foreach 'sealed', 'open';
	is(worked($node, $_), 1, "$of$_ is done once") foreach @pending, "sealed $how", "open $how";
	settled($node);
}

# ----- databases that nobody calls in after a start -----------------------------------

my %altered = (limited => 'CONNECTION LIMIT 0', template => 'IS_TEMPLATE true', closed => 'ALLOW_CONNECTIONS false');
make_database($_) foreach keys %altered, 'broken';
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($node, "pending $_", $_), '', "a database commits: $_") foreach keys %altered;
sql_of($node, "ALTER DATABASE $_ $altered{$_}") foreach keys %altered;
# The mark of a database whose DROP was interrupted.
sql_of($node, "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'broken'");
crash($node);
unlink $node->data_dir . '/exactonce_claims' or die;
reset_proxy();
my $offset = -s $node->logfile;
$node->start;
wait_until("after a start $_ is visited", sub { status_of($table, "pending $_") eq 'COMPLETED' }) foreach 'limited', 'template';
is(errors_of($node, 'CREATE DATABASE another TEMPLATE template; CREATE DATABASE one_more'), '', 'templates can be copied');
sql_of($node, 'ALTER DATABASE closed ALLOW_CONNECTIONS true');
$node->reload;
wait_until('closed is visited once it is opened', sub { status_of($table, 'pending closed') eq 'COMPLETED' });
$node->restart;
unlike(slurp_file($node->logfile, $offset), qr/FATAL:  (?!terminating)/, 'broken, which nobody can enter, is not');

stop_without_crash($node, kills => 1);
done_testing();
