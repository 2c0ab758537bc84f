# postgres_fdw commits its remote transactions while the local one commits.  It must not do
# so before everything of ours is sealed, whichever of the two a session has used first, and
# whatever it is that is sealed.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;

my $target = 'tap_remote_orders';
my $node = new_node('remote', conf => "max_prepared_transactions = 5\n",
	options => { transact_tables => $target, batch_requests => 'off' });
my ($host, $port) = ($node->host, $node->port);
dynamodb(CreateTable => { TableName => $target, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'N' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION postgres_fdw;
CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
CREATE USER MAPPING FOR PUBLIC SERVER self;
CREATE TABLE remote_work (id int);
CREATE FOREIGN TABLE remote (id int) SERVER self OPTIONS (table_name 'remote_work');

CREATE TABLE mirrored (id int);
CREATE TRIGGER mirror AFTER INSERT ON mirrored FOR EACH ROW EXECUTE FUNCTION idem_mirror('$target', 'id');
CREATE TABLE mirrored_late (id int);
CREATE CONSTRAINT TRIGGER mirror AFTER INSERT ON mirrored_late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION idem_mirror('$target', 'id');
CREATE TABLE guarded (id int);
CREATE TRIGGER guard AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=guard', 'at=commit');

CREATE FUNCTION to_remote() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO remote VALUES (NEW.id); RETURN NULL; END';
CREATE TABLE remote_late (id int);
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON remote_late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION to_remote();
CREATE FUNCTION here_and_there(n int) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO mirrored VALUES (n);
	INSERT INTO remote VALUES (n);
END \$\$;
CREATE TABLE work (id int);
CREATE FUNCTION handler(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO work VALUES ((payload->>'id')::int);
	PERFORM idem_write(jsonb_build_array(jsonb_build_object('Put', jsonb_build_object('TableName', '$target',
		'Item', jsonb_build_object('id', payload->'id')))));
	RETURN '1';
END \$\$;
SQL

# What a session does, by its name; N is the number of the case.
my %steps = (
	R => 'INSERT INTO remote VALUES (N);',
	'late R' => 'INSERT INTO remote_late VALUES (N);',
	mirror => 'INSERT INTO mirrored VALUES (N);',
	'late mirror' => 'INSERT INTO mirrored_late VALUES (N);',
	'mirror and R' => 'SELECT here_and_there(N);',
	guard => 'INSERT INTO guarded VALUES (N);',
	once => "INSERT INTO work VALUES (N); SELECT idem_once('once N');",
	action => "INSERT INTO work VALUES (N); SELECT action_consume('action N', at => 'commit');",
	key => "INSERT INTO work VALUES (N); SELECT idem_acquire('key N'); SELECT idem_complete('key N');",
	handler => qq(SELECT idem_call('call N', 'handler(jsonb)', '{"id": N}');),
	savepoint => 'SAVEPOINT s;', release => 'RELEASE s;', undo => 'ROLLBACK TO s;');
my $n = 0;

# Runs a transaction with these steps, in a new session.
sub transaction
{
	my ($steps, $end) = @_;
	my $script = "BEGIN; " . join(' ', map { $steps{$_} // die $_ } split(/, /, $steps)) . " $end;\n";
	$n++;
	$node->safe_psql('postgres', "SELECT action_create(id => 'action $n')") if $steps =~ /action/;
	return run_script($node, $script =~ s/\bN\b/$n/gr);
}

# How many rows the last transaction has left here, and by postgres_fdw.
sub rows
{
	return $node->safe_psql('postgres', <<"SQL");
SELECT (SELECT count(*) FROM (TABLE mirrored UNION ALL TABLE mirrored_late UNION ALL TABLE guarded UNION ALL TABLE work) l (id)
		WHERE id = $n) || ' here, ' || (SELECT count(*) FROM remote_work WHERE id = $n) || ' there';
SQL
}

sub refuse_seals
{
	fault(op => 'UpdateItem', to => 'COMMITTING', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
	return;
}

# ----- COMMIT -----------------------------------------------------------------

foreach my $steps (
	(map { ("$_, R", "R, $_") } 'mirror', 'late mirror', 'guard', 'once', 'action', 'key', 'handler'),
	'mirror, late R', 'late mirror, late R', 'late R, late mirror', 'mirror and R',
	'savepoint, mirror, release, R', 'mirror, savepoint, R, release', 'savepoint, R, release, mirror',
	'mirror, savepoint, R, undo, R', 'savepoint, mirror, undo, R, mirror', 'savepoint, mirror, undo, mirror, R')
{
	refuse_seals();
	like(transaction($steps, 'COMMIT'), qr/ERROR:  ID007/, "$steps: the commit fails if the seal is refused");
	is(rows(), '0 here, 0 there', "$steps: and nothing is committed");
	reset_proxy();
	unlike(transaction($steps, 'COMMIT'), qr/ERROR/, "$steps: it commits if the seal is not refused");
	is(rows(), '1 here, 1 there', "$steps: and both parts are committed");
}

refuse_seals();
unlike(transaction('savepoint, mirror, undo, R', 'COMMIT'), qr/ERROR/, 'what a rollback to a savepoint has undone is not sealed');
is(rows(), '0 here, 1 there', 'so the rest is committed');
reset_proxy();

# ----- other ends -------------------------------------------------------------

refuse_seals();
$n++;
$node->psql('postgres', "INSERT INTO mirrored VALUES ($n); INSERT INTO remote VALUES ($n)");
is(rows(), '0 here, 0 there', 'statements of one query: nothing is committed without the seal');
$n++;
my $pipeline = script_file($node, "\\startpipeline\nINSERT INTO mirrored VALUES ($n);\nINSERT INTO remote VALUES ($n);\n\\endpipeline\n");
$node->command_checks_all([ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', $pipeline, 'postgres' ], 2, [], [],
	'statements of a pipeline: the commit fails');
is(rows(), '0 here, 0 there', 'and nothing is committed');
reset_proxy();
$node->command_checks_all([ 'pgbench', '-n', '-t', '1', '-M', 'extended', '-f', $pipeline, 'postgres' ], 0, [], [],
	'it commits if the seal is not refused');
is(rows(), '1 here, 1 there', 'and both parts are committed');

foreach my $steps ('mirror, R', 'R, mirror', 'once, R')
{
	like(transaction($steps, "PREPARE TRANSACTION 'p'"), qr/ERROR/, "$steps: postgres_fdw does not prepare");
	is(rows(), '0 here, 0 there', "$steps: and nothing is committed");
}
settled($node);
refuse_seals();
like(transaction('mirror', "PREPARE TRANSACTION 'p'"), qr/ERROR:  ID007/, 'a transaction is not prepared if the seal is refused');
reset_proxy();
unlike(transaction('mirror', "PREPARE TRANSACTION 'p'"), qr/ERROR/, 'a transaction with nothing but mirrored rows is prepared');
is(rows(), '0 here, 0 there', 'and does not count before its end');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
is(rows(), '1 here, 0 there', 'COMMIT PREPARED commits it');
settled($node);
ok(dynamodb(GetItem => { TableName => $target, Key => { id => { N => "$n" } } })->{Item}, 'and its row is copied');

like(transaction('mirror', 'SELECT idem_drain(); COMMIT'), qr/ERROR:  55006: cannot drain the database/,
	'idem_drain() is refused in a transaction with mirrored rows, for which it would leave nothing to seal with');

settled($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt at the end');
stop_without_crash($node);
done_testing();
