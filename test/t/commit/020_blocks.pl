# Whether a transaction block is open is judged by what the client has sent: not by
# savepoints, exception blocks or earlier transactions, and alike for a block, a
# simple query of several statements and a pipeline.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IPC::Run;
use Test::More;

my $node = new_node('blocks');
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text)');

# What a session of its own says to the statements.
sub said
{
	return run_script($node, join '', @_);
}

sub count_work
{
	my ($key) = @_;
	return $sql->("SELECT count(*) FROM work WHERE key = '$key'");
}

sub exception_block
{
	my ($body) = @_;
	return "DO \$\$ BEGIN BEGIN $body EXCEPTION WHEN division_by_zero THEN NULL; END; END \$\$;\n";
}

sub acquire { return "SELECT outcome FROM idem_acquire('$_[0]');\n" }
sub work { return "INSERT INTO work VALUES ('$_[0]');\n" }

# ----- a block is seen, whatever comes first in the session -------------------

foreach my $case (
	[ 'behind a savepoint', 'savepoint', "SAVEPOINT s;\n" . acquire('savepoint') ],
	[ 'in an exception block', 'exception', exception_block("PERFORM idem_acquire('exception');") ],
	[ 'behind a savepoint that is released', 'released', "SAVEPOINT s;\n" . acquire('released') . "RELEASE s;\n" ],
	[ 'behind a savepoint that was rolled back to', 'rolled back',
		"SAVEPOINT s;\nSELECT 1/0;\nROLLBACK TO s;\n" . acquire('rolled back') ])
{
	my ($where, $key, $statements) = @$case;
	like(said("BEGIN;\n", $statements, work($key), "COMMIT;\n"), qr/ID009/,
		"a claim $where: the block cannot commit while it is not settled");
	is(count_work($key), 0, "a claim $where: nothing is committed");
}
my $settle = "SELECT idem_complete('settled');\n";
like(said("BEGIN;\nSAVEPOINT s;\n", acquire('settled'), work('settled'), $settle, "COMMIT;\n",
		"SELECT 'done ' || (idem_get('settled')).status;\n"),
	qr/done COMPLETED/, 'a claim behind a savepoint: the block commits once it is settled');

# ----- and none is seen where there is none -----------------------------------

my $block = "BEGIN;\nSELECT 1;\nCOMMIT;\n";
my $out = said($block, exception_block("PERFORM idem_acquire('alone');"));
unlike($out, qr/ERROR/, 'a statement of its own with an exception block, after a block, commits');
is($sql->("SELECT status FROM idem_get('alone')"), 'IN_PROGRESS',
	'a statement of its own with an exception block, after a block, keeps its claim');
$out = said($block, exception_block("PERFORM idem_acquire('wrote'); INSERT INTO work VALUES ('wrote');"));
like($out, qr/WARNING.*is still claimed/s, 'a statement of its own that has written gets a warning');
is(count_work('wrote'), 1, 'a statement of its own that has written is committed');
$sql->(<<'SQL');
CREATE PROCEDURE in_two() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_acquire('in two');
	COMMIT;
	PERFORM idem_complete('in two');
END $$;
SQL
unlike(said("CALL in_two();\n"), qr/ERROR/, 'a procedure that commits is no block');

# ----- statements that commit together ----------------------------------------

like(said("SELECT outcome FROM idem_acquire('simple')\\;", work('simple')), qr/ID009/,
	'a simple query of two statements, the claim first: it cannot commit');
is(count_work('simple'), 0, 'a simple query of two statements, the claim first: nothing is committed');
like(said("INSERT INTO work VALUES ('simple2')\\;", acquire('simple2')), qr/ID009/,
	'a simple query of two statements, the claim last: it cannot commit');
is(count_work('simple2'), 0, 'a simple query of two statements, the claim last: nothing is committed');

# Sends the statements as a pipeline, and returns what pgbench says of it.
sub pipeline
{
	my @statements = @_;
	my $file = script_file($node, "\\startpipeline\n" . join('', @statements) . "\\endpipeline\n");
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'pgbench', '-n', '-M', 'extended', '-t', '1', '-f', $file, '-d', $node->connstr('postgres') ],
		'>', \$stdout, '2>', \$stderr);
	return $stdout . $stderr;
}

my $not_settled = qr/was acquired by this transaction and not settled/;
like(pipeline(acquire('pipe'), work('pipe')), $not_settled,
	'a pipeline of two statements, the claim first: it cannot commit');
is(count_work('pipe'), 0, 'a pipeline of two statements, the claim first: nothing is committed');
like(pipeline(work('pipe2'), acquire('pipe2')), $not_settled,
	'a pipeline of two statements, the claim last: it cannot commit');
is(count_work('pipe2'), 0, 'a pipeline of two statements, the claim last: nothing is committed');
like(pipeline(acquire('pipe3'), work('pipe3'), "SELECT idem_complete('pipe3');\n"),
	qr/number of transactions actually processed: 1/, 'a pipeline that settles its claim commits');
is(count_work('pipe3'), 1, 'a pipeline that settles its claim: the work is there');
unlike(pipeline(acquire('pipe4')), qr/not settled/, 'a pipeline of one statement is a statement of its own');

stop_without_crash($node);
done_testing();
