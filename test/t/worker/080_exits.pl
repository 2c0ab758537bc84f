# What an operator can end at once, of what docs/operations.md lists under "States and their
# exits" and no other test has.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_exits';
my $node = new_node('exits', options => { request_timeout => '2s' });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

sub states_of
{
	my ($key) = @_;
	return $sql->("SELECT string_agg(state, ' ') FROM exactonce_claims WHERE key = '$key'");
}

# ----- claims that are open ---------------------------------------------------

my $run = start_script($node, "BEGIN;\nSELECT idem_once('planned');\n" . say_in_script('planned') . halt_until('go on') . "COMMIT;\n");
await_word('planned');
is(states_of('planned'), 'planned', 'a claim at commit is planned');
$sql->("SELECT pg_terminate_backend(pid) FROM exactonce_claims WHERE key = 'planned'");
wait_until('whose session is terminated ends', sub { states_of('planned') eq '' });
go_on('go on');
finish_script($run);

$run = start_script($node, "BEGIN;\nSELECT idem_acquire('held');\n" . say_in_script('held') . halt_until('commit') .
	  "SELECT idem_complete('held', '1');\nCOMMIT;\n");
await_word('held');
is($sql->("SELECT idem_forget('held')"), 't', 'the key of an open transaction is forgotten');
go_on('commit');
like(finish_script($run), qr/ERROR:  ID002/, 'which then cannot commit');
settled($node);
is($sql->("SELECT outcome FROM idem_acquire('held', on_commit => 'keep')"), 'acquired', 'others can have it');
is(status_of($table, 'held') . states_of('held'), 'IN_PROGRESS', 'by a claim that is kept');
is($sql->("SELECT idem_forget('held')"), 't', 'which is forgotten, too');
is($sql->("BEGIN; SELECT outcome FROM idem_acquire('held'); ROLLBACK"), 'acquired', 'before its lease is over');
settled($node);

# ----- claims that have ended, and whose table is gone ------------------------

foreach my $how ('it is made anew', 'its key is forgotten', 'the claim file is removed')
{
	my $server = $how =~ /anew/ ? 'anew' : $how =~ /file/ ? 'gone' : 'forgotten';
	$sql->(server_sql($server, table => "tap_exits_$server", request_timeout => '2s') . "SELECT idem_create_table('$server')");
	$run = start_script($node, "BEGIN;\nSELECT idem_acquire('ending $server', server => '$server');\n" . say_in_script("has $server") .
		  halt_until("end $server") . "ROLLBACK;\n");
	await_word("has $server");
	dynamodb(DeleteTable => { TableName => "tap_exits_$server" });
	go_on("end $server");
	finish_script($run);
	wait_until("$how: a claim that cannot be given back stays", sub { states_of("ending $server") eq 'ending' });
	wait_until("$how: exactonce_health says why", sub { $sql->('SELECT last_error FROM exactonce_health') =~ /ResourceNotFoundException/ });
	like($sql->("SELECT status, detail FROM idem_check() WHERE \"check\" = 'pending'"), qr/^failure\|1 claims to be given back; the worker has failed since/,
		"$how: so does idem_check()");
	cmp_ok($sql->("SELECT idem_drain('200 ms')"), '>', 0, "$how: until then the database is not drained");
	like(run_script($node, "DROP SERVER $server CASCADE;\n"), qr/ERROR:  55006/, "$how: nor is the server dropped");
	if ($server eq 'anew')
	{
		is($sql->("SELECT idem_create_table('anew')"), 'created', "$how: an operator");
	}
	elsif ($server eq 'forgotten')
	{
		is($sql->("SELECT idem_forget('ending forgotten', server => 'forgotten')"), 't', "$how: by an operator");
		is(states_of('ending forgotten'), '', "$how: at once");
		like(run_script($node, "SELECT idem_forget('ending forgotten', server => 'forgotten');\n"), qr/ERROR:  ID007/, "$how: once");
	}
	else
	{
		$node->stop('fast');
		unlink $node->data_dir . '/exactonce_claims' or die;
		$node->start;
	}
	wait_until("$how: the claim is gone", sub { states_of("ending $server") eq '' });
	like(run_script($node, "DROP SERVER $server CASCADE;\n"), qr/NOTICE/, "$how: the server can be dropped");
}

# ----- a life in a table that is gone -----------------------------------------

foreach my $how ('made anew', 'and the claim file is removed')
{
	my $server = $how =~ /anew/ ? 'lost' : 'lost_too';
	$sql->(server_sql($server, table => "tap_exits_$server", request_timeout => '2s') . "SELECT idem_create_table('$server')");
	$sql->("SELECT idem_once('in $server', server => '$server')");
	settled($node);
	dynamodb(DeleteTable => { TableName => "tap_exits_$server" });
	# Nothing is left if a beat has failed there before the life is closed; else it is given up, and waits for the table.
	my $left = $sql->("SELECT idem_drain('2 s')");
	note("a table is gone, $how: $left left");
	if ($server eq 'lost')
	{
		is($sql->("SELECT idem_create_table('lost')"), 'created', "a table is gone, $how: an operator");
	}
	else
	{
		$node->stop('fast');
		unlink $node->data_dir . '/exactonce_claims' or die;
		$node->start;
	}
	is($sql->("SELECT idem_drain('1 min')"), 0, "a table is gone, $how: the database is drained");
	is($sql->('SELECT idem_drain(NULL)'), 0, "a table is gone, $how: and goes on");
}
is($sql->("SELECT outcome FROM idem_acquire('after')"), 'acquired', 'and made');

stop_without_crash($node);
done_testing();
