# Servers, user mappings and the extension itself in the transaction that creates or alters
# them: nothing is claimed there, because after a rollback nobody could settle it.  And a server
# whose row is gone is nobody's decision about the claims that were made by it.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_uncommitted';
my $node = new_node('uncommitted', conf => "max_prepared_transactions = 5\n", options => { transact_tables => $table });
my $sql = sub { my ($text, $database) = @_; $node->safe_psql($database // 'postgres', $text) };
my $server = server_sql('another', table => $table, transact_tables => $table);
my $refused = qr/ERROR:  55000: server "another" cannot be used for claims before this transaction commits/;
$sql->(<<"SQL");
CREATE TABLE mirrored (pk text);
CREATE TRIGGER mirror AFTER INSERT ON mirrored FOR EACH ROW EXECUTE FUNCTION idem_mirror('$table', 'pk', 'pk', 'server=another');
CREATE TABLE guarded (id text);
CREATE TRIGGER guard AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'at=commit', 'server=another');
CREATE FUNCTION nothing(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
SQL
$sql->("SELECT action_create(id => 'a')");

# ----- created in this transaction --------------------------------------------

foreach my $call ("idem_acquire('k', server => 'another')", "idem_start('k', server => 'another')",
	"idem_acquire_many(ARRAY['k', 'l'], server => 'another')", "idem_once('k', server => 'another')",
	"idem_acquire('k', on_commit => 'session', server => 'another')",
	"idem_complete('k', token => '9f1c2f0e-6f0d-4e6e-8b0a-3a2a1c0d4e5f', server => 'another')",
	"idem_call('k', 'nothing(jsonb)', server => 'another')",
	"action_consume('a', at => 'commit', server => 'another')",
	"idem_take_over('9f1c2f0e-6f0d-4e6e-8b0a-3a2a1c0d4e5f', server => 'another')")
{
	like(run_script($node, "BEGIN;\n${server}SELECT $call;\n"), $refused,
		"$call with a server of this transaction");
}
like(run_script($node, "BEGIN;\n${server}INSERT INTO $_ VALUES ('k');\n"), $refused, "$_ with a server of this transaction")
  foreach 'mirrored', 'guarded';
my $out = run_script($node, "BEGIN;\n${server}SELECT idem_acquire('k', server => 'another');\n");
like($out, qr/^DETAIL:  This transaction has created or altered the server\./m, 'it says why');
like($out, qr/^HINT:  Commit the change first\./m, 'and what to do');
is(status_of($table, 'k'), 'none', 'nothing is left in DynamoDB');
is($sql->('SELECT count(*) FROM exactonce_claims'), '0', 'nor here');

is(run_script($node, <<"SQL"), "t\nt\n1\n", 'what takes effect at once, and leaves nothing to be settled, is not refused');
BEGIN;
${server}SELECT idem_get('k', 'another') IS NULL;
SELECT outcome = 'completed' FROM idem_transact('t', '[{"Put": {"TableName": "$table", "Item": {"pk": "x"}}}]', server => 'another');
SELECT count(*) FROM action_create(server => 'another');
ROLLBACK;
SQL
like(run_script($node, "BEGIN;\nSAVEPOINT s;\n${server}RELEASE s;\nSELECT idem_acquire('k', server => 'another');\n"), $refused,
	'created in a savepoint that is released');
is(run_script($node, "BEGIN;\n${server}COMMIT;\nBEGIN;\nSELECT idem_once('after', server => 'another');\nCOMMIT;\n"), "\n",
	'when it has committed the same session uses it');

# ----- altered in this transaction --------------------------------------------

foreach my $change ("ALTER SERVER another OPTIONS (ADD lease '30 s')",
	"ALTER USER MAPPING FOR PUBLIC SERVER another OPTIONS (SET secret_access_key 'other')",
	"CREATE USER MAPPING FOR CURRENT_USER SERVER another OPTIONS (access_key_id 'test', secret_access_key 'test')",
	'CREATE ROLE visitor; GRANT USAGE ON FOREIGN SERVER another TO visitor')
{
	like(run_script($node, "BEGIN;\n$change;\nSELECT idem_acquire('k', server => 'another');\n"), $refused, "$change, and a claim");
	is(run_script($node, "BEGIN;\nSAVEPOINT s;\n$change;\nROLLBACK TO s;\nSELECT idem_once('k', server => 'another');\nROLLBACK;\n"),
		"\n", '... which was rolled back before the claim');
	next if $change =~ /ROLE/;
	like(run_script($node, "BEGIN;\nSELECT idem_once('k', server => 'another');\n$change;\n"),
		qr/ERROR:  55006: cannot (?:alter|create) a (?:server|user mapping of a server) that this transaction uses/,
		'... after the claim');
}
like(run_script($node, "BEGIN;\nINSERT INTO mirrored VALUES ('k');\nALTER SERVER another OPTIONS (ADD lease '30 s');\n"),
	qr/ERROR:  55006: cannot alter a server that this transaction uses/, 'mirrored rows count as claims');
like(run_script($node, "BEGIN;\nINSERT INTO mirrored VALUES ('k');\nDROP SERVER another CASCADE;\n"),
	qr/ERROR:  55006: cannot drop a (?:server|user mapping of a server) that this transaction uses/, 'they keep their server, too');
is(run_script($node, "BEGIN;\nSAVEPOINT s;\nINSERT INTO mirrored VALUES ('k');\nROLLBACK TO s;\nALTER SERVER another OPTIONS (ADD lease '30 s');\nROLLBACK;\n"),
	'', 'unless they were rolled back');
is(run_script($node, "BEGIN;\nSELECT idem_once('k');\nALTER SERVER another OPTIONS (ADD lease '30 s');\nROLLBACK;\n"), "\n",
	'a server without claims of the transaction may be altered');

# ----- the extension in this transaction --------------------------------------

$sql->('CREATE DATABASE fresh');
$out = run_script($node, "BEGIN;\nCREATE EXTENSION exactonce;\n${server}SELECT idem_acquire('k', server => 'another');\n", 'fresh');
like($out, qr/ERROR:  55000: nothing can be claimed in the transaction that creates or updates extension exactonce/,
	'a claim in the transaction of CREATE EXTENSION');
like($out, qr/^HINT:  Commit CREATE EXTENSION or ALTER EXTENSION first\./m, 'it says what to do');
$sql->("CREATE EXTENSION exactonce; ${server}", 'fresh');
is($sql->("SELECT idem_once('fresh', server => 'another')", 'fresh'), '', 'when that has committed keys can be claimed');

# ----- a row of the catalogs is gone ------------------------------------------

# As after a crash that has lost an asynchronous commit.
sub lose_server
{
	$sql->("SET allow_system_table_mods = on; DELETE FROM pg_foreign_server WHERE srvname = 'lost'");
	return;
}

sub find_server
{
	my ($name) = @_;
	$sql->(server_sql($name, table => $table));
	return;
}

sub state_of_claim
{
	my ($key) = @_;
	return $sql->("SELECT state FROM exactonce_claims WHERE key LIKE '%$key'");
}

find_server('lost');
my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('given back', server => 'lost');\n"
	  . say_in_script('it is claimed') . halt_until('the server is gone') . "ROLLBACK;\n");
await_word('it is claimed');
lose_server();
go_on('the server is gone');
finish_script($run);
wait_until('by another server that leads to the table a claim is given back', sub { status_of($table, 'given back') eq 'FAILED' });

# From here on no other server leads to the table.
$sql->("DROP SERVER another CASCADE");
$sql->("ALTER SERVER exactonce OPTIONS (SET table 'tap_uncommitted_2')");
$sql->('SELECT idem_create_table()');
find_server('lost');
fault(key => 'of two 2', to => 'COMMITTING', do => 'hold');
$run = start_script($node, <<"SQL" . say_in_script('all are claimed') . "COMMIT;\n");
BEGIN;
SELECT outcome FROM idem_acquire('of two 1', server => 'lost');
SELECT outcome FROM idem_acquire('of two 2', server => 'lost');
SELECT idem_complete('of two 1', server => 'lost'), idem_complete('of two 2', server => 'lost');
SQL
my $open = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('long work', lease => '3 s', server => 'lost');\n"
	  . say_in_script('the work has begun') . halt_until('the work is done') . "SELECT idem_complete('long work', server => 'found');\nCOMMIT;\n");
my $brief = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('brief', lease => '2 s', server => 'lost');\n"
	  . say_in_script('the brief work has begun') . halt_until('the server is gone again') . "ROLLBACK;\n");
await_word($_) foreach 'all are claimed', 'the work has begun', 'the brief work has begun';
await_request(key => 'of two 2', to => 'COMMITTING');
await_request(key => 'of two 1', to => 'COMMITTING');
lose_server();
go_on('the server is gone again');
finish_script($brief);
cancel_commit($node);
finish_script($run);
end_fault('of two 2');
release_held();
wait_until('a claim whose server is gone is listed as such', sub { state_of_claim('of two 1') eq 'no server' });
is(status_of($table, 'of two 1'), 'COMMITTING', 'and its record is sealed');
wait_until('one that is not sealed goes when its lease is over', sub { state_of_claim('brief') eq '' });
is(state_of_claim('of two 1'), 'no server', 'one that is sealed stays');
is(state_of_claim('long work'), 'held', 'the claim of an open transaction stays');
like(slurp_file($node->logfile), qr/WARNING:  exactonce: no server of this database leads to table "$table" any more/, 'the log says so');
find_server('found');
wait_until('when a server leads to the table again the sealed key is given back', sub { status_of($table, 'of two 1') eq 'FAILED' });
go_on('the work is done');
finish_script($open);
settled($node);
is(status_of($table, 'long work'), 'COMPLETED', 'the open transaction has kept its claim, and commits');
is($sql->('SELECT count(*) FROM exactonce_in_doubt'), '0', 'nothing is in doubt at the end');
stop_without_crash($node);
done_testing();
