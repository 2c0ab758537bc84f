# postgres --single: there is no worker, so nothing is claimed, and what is refused says why.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_single_user';
my $node = new_node('single_user', conf => "max_prepared_transactions = 2\n");
sql_of($node, 'CREATE TABLE work (key text)');
is(complete($node, 'before'), '', 'a key is completed');
settled($node);
my %ends = (kept => 'COMMIT', undone => 'ROLLBACK');
is(run_script($node, "BEGIN; INSERT INTO work VALUES ('$_'); SELECT idem_once('$_'); PREPARE TRANSACTION '$_';\n"), "\n",
	"a transaction is prepared: $_") foreach sort keys %ends;
$node->stop;

# Runs statements, one a line, and returns what the server says.
sub run_single
{
	my ($statements) = @_;
	my $out = '';
	my $run = IPC::Run::start([ 'postgres', '--single', '-F', '-D', $node->data_dir, 'postgres' ],
		'<', \$statements, '>&', \$out, IPC::Run::timeout(paced(120)));
	ok($run->finish, 'it ends as it should') or diag($out);
	return $out;
}

my @calls = ("idem_acquire('single')", "idem_get('before')", "idem_once('single')", "action_create()", "idem_check()",
	"idem_drain('1 s')", "count(*) FROM exactonce_claims");
my $out = run_single(join '', map { "SELECT $_;\n" } @calls);
my $refusals = () = $out =~ /ERROR:  .* single-user mode/g;
is($refusals, scalar(@calls), 'in single-user mode each function is refused') or diag($out);
like($out, qr/HINT:  Start the server as usual/, 'and says what to do');
unlike(run_single("INSERT INTO work VALUES ('single');\nSELECT idem_key('a', 1);\n"), qr/ERROR|FATAL|PANIC/, 'whatever needs no server works');
$out = run_single(join '', map { "$ends{$_} PREPARED '$_';\n" } sort keys %ends);
is(join("\n", $out =~ /(?:ERROR|FATAL|PANIC): .*/g), 'ERROR:  cannot commit prepared transaction "kept" in single-user mode',
	'a prepared transaction with keys is only rolled back');

$node->start;
sql_of($node, "COMMIT PREPARED 'kept'");
settled($node);
is(sql_of($node, "SELECT outcome FROM idem_acquire('kept')"), 'completed', 'what was committed is completed');
is(sql_of($node, "SELECT outcome FROM idem_acquire('undone')"), 'acquired', 'and what was rolled back can be claimed');
is(sql_of($node, 'SELECT count(*) FROM work'), 3, 'the work is there');
is(complete($node, 'after'), '', 'afterwards the server works');
is(sql_of($node, "SELECT outcome FROM idem_acquire('before')"), 'completed', 'and knows what was completed');
stop_without_crash($node);
done_testing();
