# Whether a transaction block is open is judged by what the client has sent: not
# by savepoints, exception blocks or earlier transactions, and alike for a block, a
# simple query of several statements and a pipeline.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('blocks');
$node->safe_psql('postgres', 'CREATE TABLE work (key text)');

# What a session of its own says to the statements; VERBOSITY is verbose.
sub said
{
	my ($script) = @_;
	return psql_ok($node, $script);
}

sub works
{
	my ($key) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) FROM work WHERE key = '$key'");
}

sub exception_block
{
	my ($body) = @_;
	return "DO \$\$ BEGIN BEGIN $body EXCEPTION WHEN division_by_zero THEN NULL; END; END \$\$;\n";
}

sub acquire { return "SELECT outcome FROM idem_acquire('$_[0]');\n" }
sub work { return "INSERT INTO work VALUES ('$_[0]');\n" }

# -- a block is seen, whatever comes first in the session

like(said("BEGIN;\nSAVEPOINT s;\n" . acquire('savepoint') . work('savepoint') . "COMMIT;\n"),
	qr/ID009/, 'the first call of a session stands behind a savepoint');
is(works('savepoint'), 0, '... and nothing is committed');
like(said("BEGIN;\n" . exception_block("PERFORM idem_acquire('exception');") . work('exception') . "COMMIT;\n"),
	qr/ID009/, 'the first call of a session stands in an exception block');
is(works('exception'), 0, '... and nothing is committed');
like(said("BEGIN;\nSAVEPOINT s;\n" . acquire('released') . "RELEASE s;\n" . work('released') . "COMMIT;\n"),
	qr/ID009/, 'a savepoint that was released');
like(said("BEGIN;\nSAVEPOINT s;\nSELECT 1/0;\nROLLBACK TO s;\n" . acquire('back') . work('back') . "COMMIT;\n"),
	qr/ID009/, 'a savepoint that was rolled back to');
is(works('back'), 0, '... and nothing is committed');
like(said("BEGIN;\nSAVEPOINT s;\n" . acquire('settled') . work('settled') .
	"SELECT idem_complete('settled');\nCOMMIT;\nSELECT 'done ' || (idem_get('settled')).status;\n"),
	qr/done COMPLETED/, 'what is settled behind a savepoint is committed');

# -- and there is none where there is none

my $block = "BEGIN;\nSELECT 1;\nCOMMIT;\n";
my $out = said($block . exception_block("PERFORM idem_acquire('alone');"));
unlike($out, qr/ERROR/, 'a statement of its own after a block, with an exception block');
is($node->safe_psql('postgres', "SELECT status FROM idem_get('alone')"), 'IN_PROGRESS', '... keeps its claim');
$out = said($block . exception_block("PERFORM idem_acquire('wrote'); INSERT INTO work VALUES ('wrote');"));
like($out, qr/WARNING.*is still claimed/s, '... and is warned if it has written');
is(works('wrote'), 1, '... which is committed');
$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE in_two() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_acquire('in two');
	COMMIT;
	PERFORM idem_complete('in two');
END $$;
SQL
unlike(said("CALL in_two();\n"), qr/ERROR/, 'a procedure that commits has no block');

# -- statements that commit together

like(said("SELECT outcome FROM idem_acquire('simple')\\;" . work('simple')),
	qr/ID009/, 'a simple query of two statements, the claim first');
is(works('simple'), 0, '... commits neither');
like(said("INSERT INTO work VALUES ('simple2')\\;" . acquire('simple2')),
	qr/ID009/, 'a simple query of two statements, the claim last');
is(works('simple2'), 0, '... commits neither');

# A pipeline of the statements, by pgbench.
sub pipeline
{
	my @statements = @_;
	my $file = $node->basedir . '/pipeline.sql';
	unlink $file;
	append_to_file($file, "\\startpipeline\n" . join('', @statements) . "\\endpipeline\n");
	my ($stdout, $stderr) = ('', '');
	IPC::Run::run([ 'pgbench', '-n', '-M', 'extended', '-t', '1', '-f', $file, '-d', $node->connstr('postgres') ],
		'>', \$stdout, '2>', \$stderr);
	return $stdout . $stderr;
}

like(pipeline(acquire('pipe'), work('pipe')), qr/was acquired by this transaction and not settled/,
	'a pipeline of two statements, the claim first');
is(works('pipe'), 0, '... commits neither');
like(pipeline(work('pipe2'), acquire('pipe2')), qr/was acquired by this transaction and not settled/,
	'a pipeline of two statements, the claim last');
is(works('pipe2'), 0, '... commits neither');
like(pipeline(acquire('pipe3'), work('pipe3'), "SELECT idem_complete('pipe3');\n"),
	qr/number of transactions actually processed: 1/, 'a pipeline that settles its claim');
is(works('pipe3'), 1, '... is committed');
unlike(pipeline(acquire('pipe4')), qr/not settled/, 'a pipeline of one statement is a statement of its own');

$node->stop;
done_testing();
