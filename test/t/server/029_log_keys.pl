# With exactonce.log_keys = hash no key and no id of an action is shown: in errors, in
# the log of backends and of the worker, in views.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Digest::SHA qw(sha256_hex);
use PostgreSQL::Test::Utils;
use Test::More;

my $personal = 'anna.berg@example.org';
my $table = 'tap_log_keys';
my $node = new_node('log_keys', options => { key_prefix => 'acme/', transact_tables => $table }, conf => <<'CONF');
exactonce.log_keys = 'hash'
exactonce.log_requests = on
log_min_messages = debug5
log_statement = 'all'
log_error_verbosity = verbose
CONF
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# Statements are logged, so none spells a key: k('in use') is "anna.berg@example.org/in use".
my $spelled = join ' || ', map { 'chr(' . ord . ')' } split //, "$personal/";
my $offset = -s $node->logfile;
$sql->(<<"SQL");
CREATE FUNCTION k(name text) RETURNS text LANGUAGE sql IMMUTABLE RETURN $spelled || name;
CREATE FUNCTION handle(payload jsonb) RETURNS jsonb LANGUAGE sql RETURN payload;
CREATE TABLE guarded (id text);
CREATE TRIGGER guard AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('id');
SQL

sub shown
{
	my ($name) = @_;
	return 'sha256:' . substr sha256_hex("$personal/$name"), 0, 16;
}

my $told = '';

# Runs a script that fails, or warns, about the key of that name.
sub about
{
	my ($name, $pattern, $script) = @_;
	my $said = run_script($node, $script);
	my $shown = shown($name);
	like($said, $pattern, "$name: the message");
	like($said, qr/(?:key|action) "$shown"/, "$name: the message shows the hash of the key");
	$told .= $said;
	reset_proxy();
	return;
}

my $somebody = '11111111-2222-4333-8444-555555555555';

# Writes the record of a key as another client does.
sub write_record
{
	my ($name, %attributes) = @_;
	put_record($table, "acme/$personal/$name", owner => $somebody, fence => 9, runs => 1, updated_ms => 1,
		%attributes);
	return;
}
my $live = sprintf '%d', (time + 3600) * 1000;
my %held = (status => 'IN_PROGRESS', lease_ms => $live);

# ----- errors and warnings ----------------------------------------------------

write_record('in use', %held);
about('in use', qr/ID001: .* is in progress/, "SELECT idem_call(k('in use'), 'handle(jsonb)', '1');");
about('in use', qr/ID001: .* is in progress/, "SELECT idem_once(k('in use'));");
about('stolen', qr/ID002: .* was lost/, <<"SQL");
BEGIN;
SELECT outcome FROM idem_acquire(k('stolen'));
SELECT idem_complete(k('stolen'), token => '$somebody');
COMMIT;
SQL
my $session = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire(k('refused'));\n"
	  . "SELECT idem_complete(k('refused'));\n" . say_in_script('completed') . halt_until('commit') . "COMMIT;\n");
await_word('completed');
write_record('refused', %held);
go_on('commit');
my $refused = finish_script($session);
my $shown = shown('refused');
like($refused, qr/ID002: the claim on key "$shown" .* was lost before the transaction committed/,
	'a seal that is refused shows the hash of the key');
$told .= $refused;
$sql->("SELECT idem_once(k('twice'))");
about('twice', qr/ID005: duplicate key/, "SELECT idem_once(k('twice'));");
$sql->("INSERT INTO guarded VALUES (k('row'))");
about('row', qr/23505: duplicate key/, "INSERT INTO guarded VALUES (k('row'));");
about('paid', qr/ID003: .* was used with another payload/,
	"SELECT outcome FROM idem_acquire(k('paid'), payload => '1', on_commit => 'keep');\n"
	  . "SELECT outcome FROM idem_acquire(k('paid'), payload => '2');");
$sql->("SELECT outcome FROM idem_acquire(k('bad')); SELECT idem_fail(k('bad'), terminal => true)");
about('bad', qr/ID004: .* failed for good/, "SELECT idem_call(k('bad'), 'handle(jsonb)', '1');");
fault(op => 'UpdateItem', key => 'away', do => 'drop', times => 0);
about('away', qr/ID006: could not acquire/, "SELECT outcome FROM idem_acquire(k('away'));");
fault(op => 'UpdateItem', key => 'denied', do => 'answer', status => 400, code => 'AccessDeniedException');
about('denied', qr/ID007: could not acquire/, "SELECT outcome FROM idem_acquire(k('denied'));");
about('of others', qr/ID008: cannot complete/, "SELECT idem_complete(k('of others'));");
about('open', qr/ID009: .* not settled/, "BEGIN;\nSELECT outcome FROM idem_acquire(k('open'));\nCOMMIT;");
about('written', qr/is still claimed/, "WITH w AS (INSERT INTO guarded VALUES (k('w')) RETURNING 1) "
	  . "SELECT outcome FROM w, idem_acquire(k('written'));");
about('large', qr/54000: .* is too large/,
	"BEGIN;\nSELECT outcome FROM idem_acquire(k('large'));\nSELECT idem_complete(k('large'), to_jsonb(repeat('x', 500000)));");
about('transacted', qr/ID007: could not transact/, <<"SQL");
SELECT idem_transact(k('transacted'), '[{"ConditionCheck": {"TableName": "$table", "Key": {"pk": "none"},
	"ConditionExpression": "attribute_exists(pk)"}}]');
SQL
write_record('elsewhere', status => 'COMMITTING', origin => "$somebody/5/1/0", lease_ms => $live);
about('elsewhere', qr/55000: .* another life/, "SELECT idem_resolve(k('elsewhere'), 'completed');");
about('elsewhere', qr/ID001: .* is being committed/, "SELECT idem_forget(k('elsewhere'));");

# ----- actions ----------------------------------------------------------------

$sql->("SELECT action_create(id => k('action'))");
about('action', qr/23505: .* exists already/, "SELECT action_create(id => k('action'));");
about('both', qr/22023: .* is given twice/,
	"SELECT action_create_many(jsonb_build_array(jsonb_build_object('id', k('both')), jsonb_build_object('id', k('both'))));");
fault(op => 'UpdateItem', key => 'ACTION#', do => 'answer', status => 400, code => 'AccessDeniedException');
about('action', qr/ID007: could not consume/, "SELECT action_consume(k('action'));");

# ----- views ------------------------------------------------------------------

my $by_hash = q(key = 'sha256:' || left(encode(sha256(convert_to(k('%s'), 'UTF8')), 'hex'), 16));
is($sql->("BEGIN; SELECT outcome FROM idem_acquire(k('viewed')); SELECT state FROM exactonce_claims WHERE "
	  . sprintf($by_hash, 'viewed') . '; ROLLBACK'), "acquired\nheld", 'exactonce_claims shows the hash of a key');
$sql->('CREATE ROLE auditor; GRANT pg_monitor TO auditor');
$told .= $sql->("BEGIN; SELECT outcome FROM idem_acquire(k('viewed')); SET ROLE auditor; "
	  . 'SELECT key FROM exactonce_claims; ROLLBACK');

# The worker fails for a while, and logs that.
fault(to => 'COMPLETED', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
$sql->("SELECT outcome FROM idem_acquire(k('pending')); SELECT idem_complete(k('pending'))");
is($sql->("SELECT count(*) FROM exactonce_pending WHERE " . sprintf($by_hash, 'pending')), '1',
	'exactonce_pending shows the hash of a key');
wait_until('the worker logs that it fails',
	sub { substr(slurp_file($node->logfile), $offset) =~ /table "$table" of server "exactonce" cannot be written/ });
$told .= $sql->('SELECT * FROM exactonce_pending; SELECT * FROM idem_check()');
# Its record is not the one that was sealed, so it is never completed, and given up.
write_record('pending', %held);
reset_proxy();
wait_until('the worker logs that a record is another one',
	sub { substr(slurp_file($node->logfile), $offset) =~ /cannot be marked completed/ });
is($sql->("SELECT idem_resolve(k('pending'), 'completed')"), 't', 'a completion is given up');

# A commit that has left no trace: its record is in doubt until an operator resolves it.
my $origin = $sql->('SELECT life FROM exactonce_lives WHERE state = \'open\'');
write_record('doubt', status => 'COMMITTING', origin => "$origin/3/1/0", lease_ms => $live);
about('doubt', qr/is in doubt/, "SELECT outcome FROM idem_acquire(k('doubt'));");
is($sql->('SELECT count(*) FROM exactonce_in_doubt WHERE ' . sprintf($by_hash, 'doubt')), '1',
	'exactonce_in_doubt shows the hash of a key');
$told .= $sql->('SELECT * FROM exactonce_in_doubt; SELECT * FROM exactonce_claims; SELECT * FROM idem_check()');
is($sql->("SET exactonce.log_keys = 'text'; SELECT key = k('doubt') FROM exactonce_in_doubt"), 't',
	'a superuser can have keys shown');
$sql->("SELECT idem_resolve(k('doubt'), 'completed')");

# ----- who may see them -------------------------------------------------------

my (undef, undef, $denied) = $node->psql('postgres', "SET ROLE auditor; SET exactonce.log_keys = 'text'");
like($denied, qr/permission denied to set parameter "exactonce.log_keys"/, 'other roles cannot have keys shown');

stop_without_crash($node);
my $log = substr slurp_file($node->logfile), $offset;
like($log, qr/LOG:  .*exactonce: key "sha256:[0-9a-f]{16}" on server "exactonce" was resolved as completed/,
	'a resolved key is in the log as its hash');
like($log, qr/LOG:  .*exactonce: UpdateItem on server/, 'requests are in the log');
foreach my $place ([ 'errors and views', $told ], [ 'the log', $log ])
{
	my ($what, $text) = @$place;
	my @found = grep { /anna\.berg/ } split /\n/, $text;
	is("@found", '', "no key is in $what");
}
done_testing();
