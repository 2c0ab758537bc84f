# Claims that sessions hold (on_commit => 'session'), at the edges: no room, a lease that runs out in
# a seal, a seal that does not end.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_limits';
my $node = new_node('limits', conf => "exactonce.max_claims = 100\nexactonce.test_hurry = @{[ hurry(20) ]}\n", options => { clock_skew => 0 });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE ROLE keeper; GRANT USAGE ON FOREIGN SERVER exactonce TO keeper; GRANT SELECT ON exactonce_claims TO keeper; GRANT EXECUTE ON FUNCTION exactonce_internal.claims_of_cluster() TO keeper');
my $claim = "on_commit => 'session', lease => '1 hour'";

sub start_holder
{
	my ($key, %how) = @_;
	my $terms = $how{terms} // $claim;
	my $run = start_script($node, "SELECT 'holder ' || outcome FROM idem_acquire('$key', $terms);\n"
		  . say_in_script("held $key") . halt_until($key) . ($how{then} // ''));
	await_word("held $key");
	return $run;
}

sub state_of
{
	my ($key) = @_;
	return $sql->("SELECT state FROM exactonce_claims WHERE key = '$key'");
}

# ----- no room ------------------------------------------------------------------------

# A role takes as many claims as it may, and settles them all, in three ways.
sub fill
{
	my ($prefix) = @_;
	return <<"SQL";
DO \$\$
BEGIN
	FOR i IN 1 .. 100 LOOP
		BEGIN
			PERFORM idem_acquire('$prefix ' || i, $claim);
		EXCEPTION WHEN program_limit_exceeded THEN
			EXIT;
		END;
	END LOOP;
END \$\$;
SQL
}
my $held = "SELECT 'held ' || (count(*) > 10) FROM exactonce_claims WHERE state = 'session'";
my $all = "FROM exactonce_claims WHERE state = 'session'";
my %settle = (
	COMPLETED => "SELECT idem_complete(key, '1') $all",
	FAILED => "SELECT idem_fail(key, '\"no\"') $all",
	free => "SELECT idem_release(key) $all");
foreach my $how (sort keys %settle)
{
	my $said = run_script($node, "SET ROLE keeper;\n" . fill($how) . "$held;\nSELECT 'more ' || outcome FROM idem_acquire('more', $claim);\n"
		  . "BEGIN;\nSAVEPOINT s;\n$settle{$how};\nROLLBACK TO s;\n$settle{$how};\nCOMMIT;\nSELECT 'left ' || count(*) $all;\n");
	like($said, qr/^held true$/m, "$how: a role holds many keys");
	unlike($said, qr/^more acquired$/m, "$how: and there is no room for another one");
	like($said, qr/^left 0$/m, "$how: but for the end of all of them there is");
	is(() = $said =~ /ERROR:  54000/g, 1, "$how: nothing else is refused") or diag($said);
	settled($node);
}
is($sql->("SET ROLE keeper; SELECT count(idem_once('whole ' || i)) FROM generate_series(1, 25) i"), '25',
	'the whole share is free again');
settled($node);

# ----- the lease runs out in a seal -----------------------------------------------------

my $run = start_holder('short', terms => "on_commit => 'session', lease => '1 s'",
	then => "BEGIN; SELECT idem_complete('short', '1'); COMMIT;\n" . say_in_script('refused') . halt_until('end short'));
$sql->(timeouts_sql('exactonce', commit_timeout => '3s'));
fault(key => 'short', to => 'lease', do => 'drop', times => 0);
fault(key => 'short', to => 'COMMITTING', do => 'lose', times => 0);
go_on('short');
await_word('refused');
wait_until('a seal is rolled back when the lease is over', sub { record($table, 'short')->{status} eq 'IN_PROGRESS' });
my $record = record($table, 'short');
cmp_ok($record->{lease_ms}, '>=', $record->{updated_ms} + 1000, 'the write that takes the seal back extends the lease');
end_fault('short');
$sql->(timeouts_sql('exactonce', commit_timeout => undef));
wait_until('which is extended further on', sub { record($table, 'short')->{lease_ms} > $record->{lease_ms} + 2000 });
is(state_of('short') . ' ' . record($table, 'short')->{owner}, "session $record->{owner}", 'by the session, which has kept its key');
go_on('end short');
like(finish_script($run), qr/ID006/, 'and whose COMMIT has failed');

# ----- a seal that comes late -------------------------------------------------------------

# The record has a longer lease than the slot knows of, or not.
$sql->(timeouts_sql('exactonce', commit_timeout => '60s', request_timeout => '60s'));
foreach my $how ('plain', 'extended')
{
	reset_proxy();
	$run = start_holder($how, then => ($how eq 'extended' ? "SELECT idem_extend('$how');\n" : '')
		  . "BEGIN; SELECT idem_complete('$how', '1'); COMMIT;\n" . say_in_script("refused $how") . halt_until("end $how"));
	fault(key => $how, to => 'COMMITTING', do => 'hold');
	go_on($how);
	await_request(key => $how, to => 'COMMITTING', n => 1);
	cancel_commit($node);
	await_word("refused $how");
	wait_until("$how: the worker has taken the seal back", sub {
		grep({ ($_->{status} // 0) == 200 } requests(key => $how, to => 'IN_PROGRESS')) > 1 && state_of($how) eq 'session' });
	release_held();
	wait_until("$how: the late seal has been answered", sub { grep { ($_->{status} // 0) >= 200 } requests(key => $how, to => 'COMMITTING') });
	is(record($table, $how)->{status}, 'IN_PROGRESS', "$how: the late seal is refused");
	go_on("end $how");
	finish_script($run);
	wait_until("$how: the key is given back when the session has ended", sub { record($table, $how)->{status} eq 'FAILED' && state_of($how) eq '' });
}
$sql->(timeouts_sql('exactonce', commit_timeout => undef, request_timeout => undef));

# ----- a seal that does not end ----------------------------------------------------------

# Another database has got the token, and is about to commit.
sub seal_elsewhere
{
	my ($key, $status) = @_;
	my $origin = record($table, $key)->{origin} // die;
	$origin =~ s/^[0-9a-f]{8}/00000000/;
	$origin =~ s{/.*}{/1/1/1};
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
		UpdateExpression => 'SET #s = :s, origin = :g', ExpressionAttributeNames => { '#s' => 'status' },
		ExpressionAttributeValues => { ':s' => { S => $status }, ':g' => { S => $origin } } });
	return;
}

$run = start_holder('stuck');
seal_elsewhere('stuck', 'COMMITTING');
go_on('stuck');
finish_script($run);
wait_until('the session has ended, and its key is asked for', sub { state_of('stuck') eq 'ending' });
reset_proxy();
wait_until('at last that is given up', sub { state_of('stuck') eq '' });
my $asked = count_requests(key => 'stuck', to => 'FAILED');
cmp_ok($asked, '<=', 12, "after $asked requests");
is(record($table, 'stuck')->{status}, 'COMMITTING', 'the record is left to whoever settles it');

$run = start_holder('late', then => "SELECT idem_complete('late', '1', immediate => true);\n" . say_in_script('tried')
	  . halt_until('again late') . "SELECT idem_complete('late', '1', immediate => true);\n");
seal_elsewhere('late', 'COMMITTING');
go_on('late');
await_word('tried');
is(state_of('late'), 'session', 'a completion that the seal of another refuses does not end the claim');
seal_elsewhere('late', 'IN_PROGRESS');
go_on('again late');
is(() = finish_script($run) =~ /ERROR:  ID002/g, 1, 'it can be completed when that is undone');
is(record($table, 'late')->{status}, 'COMPLETED', 'and is');
is(state_of('late'), '', 'and then it has ended');

$node->stop;
done_testing();
