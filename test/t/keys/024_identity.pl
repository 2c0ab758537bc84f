# A claim belongs to the role that acquired it, whatever else happens in its session or
# transaction; credentials that are rotated meanwhile take nothing from it; and only a
# session with the same credentials is told of it without a request.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_identity';
# To this file libcurl would write the keys of the server's TLS connections.
my $key_log = PostgreSQL::Test::Utils::tempdir() . '/keys.log';
my $node = do { local $ENV{SSLKEYLOGFILE} = $key_log; new_node('identity') };
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# The functions of alice act as alice, whoever calls them.
$sql->(<<'SQL');
CREATE ROLE alice;
CREATE ROLE bob;
GRANT USAGE ON FOREIGN SERVER exactonce TO alice, bob;
CREATE FUNCTION alice_acquires(key text, on_commit text) RETURNS text
	LANGUAGE sql SECURITY DEFINER SET search_path = public
	AS 'SELECT outcome::text FROM idem_acquire(key, on_commit => alice_acquires.on_commit)';
CREATE FUNCTION alice_completes(key text) RETURNS void
	LANGUAGE sql SECURITY DEFINER SET search_path = public
	AS 'SELECT idem_complete(key)';
ALTER FUNCTION alice_acquires OWNER TO alice;
ALTER FUNCTION alice_completes OWNER TO alice;
SQL

# ----- across transactions of one session -------------------------------------

my $not_owner = qr/ERROR:  ID008: cannot (\w+) key "\w+" on server "exactonce": this session does not own it/;
my $out = run_script($node, <<'SQL');
SET ROLE alice;
SELECT outcome FROM idem_acquire('kept', on_commit => 'keep');
SET ROLE bob;
SELECT idem_complete('kept');
SELECT idem_fail('kept');
SELECT idem_extend('kept');
SELECT 'released ' || idem_release('kept');
SELECT outcome, mine FROM idem_acquire('kept');
SQL
is(join(' ', $out =~ /$not_owner/g), 'complete fail extend',
	'another role of the session cannot complete, fail or extend a kept claim');
like($out, qr/^released false$/m, 'another role of the session cannot release a kept claim');
like($out, qr/^in_progress\|f$/m, 'another role of the session is not told that a kept claim is its own');
is(status_of($table, 'kept'), 'IN_PROGRESS', 'another role of the session does not touch the record of a kept claim');

$out = run_script($node, <<'SQL');
SET ROLE alice;
SELECT outcome FROM idem_acquire('remembered', on_commit => 'keep');
SET ROLE bob;
SELECT outcome FROM idem_acquire('remembered');
SET ROLE alice;
SELECT idem_complete('remembered');
SQL
unlike($out, qr/ERROR/, 'the role that acquired a claim completes it, whatever another role has asked in between');

# ----- in one transaction -----------------------------------------------------

foreach my $verb (qw(complete fail extend))
{
	$out = run_script($node, <<"SQL");
SET ROLE alice;
BEGIN;
SELECT outcome FROM idem_acquire('within $verb');
SET ROLE bob;
SELECT idem_$verb('within $verb');
COMMIT;
SQL
	like($out, qr/ERROR:  ID008: cannot $verb key "within $verb" on server "exactonce": another role owns it/,
		"another role of the transaction cannot $verb the claim");
}
$out = run_script($node, <<'SQL');
SET ROLE alice;
BEGIN;
SELECT outcome FROM idem_acquire('let go');
SET ROLE bob;
SELECT 'released ' || idem_release('let go');
SET ROLE alice;
SELECT 'released ' || idem_release('let go');
SET ROLE bob;
SELECT outcome, token IS NULL, mine FROM idem_acquire('let go');
COMMIT;
SQL
like($out, qr/^released false\nreleased true\nin_progress\|t\|t$/m,
	'another role of the transaction cannot release the claim, nor get it before its release is written');

$out = run_script($node, <<'SQL');
SET ROLE alice;
BEGIN;
SELECT token AS token FROM idem_acquire('handed over') \gset
SET ROLE bob;
SELECT idem_complete('handed over', token => :'token');
COMMIT;
SQL
unlike($out, qr/ERROR/, 'another role that has the token completes the claim');
settled($node);
is(status_of($table, 'handed over'), 'COMPLETED', 'a claim that another role has completed by its token is completed');

# ----- SECURITY DEFINER functions act as their owners -------------------------

$out = run_script($node, <<'SQL');
SET ROLE bob;
BEGIN;
SELECT alice_acquires('definer', 'error');
SELECT idem_complete('definer');
ROLLBACK;
BEGIN;
SELECT alice_acquires('definer completes', 'error');
SELECT alice_completes('definer completes');
COMMIT;
SELECT alice_acquires('definer keeps', 'keep');
SELECT idem_complete('definer keeps');
SELECT alice_completes('definer keeps');
SQL
is(join(' ', $out =~ /ERROR:  (ID008: cannot complete key "definer(?: keeps)?")/g),
	'ID008: cannot complete key "definer" ID008: cannot complete key "definer keeps"',
	'the caller of a SECURITY DEFINER function cannot complete what that has acquired');
settled($node);
is(status_of($table, $_), 'COMPLETED', "a SECURITY DEFINER function completes what another has acquired: $_")
  foreach 'definer completes', 'definer keeps';

# ----- credentials that are rotated while a claim is held ---------------------

sub rotate
{
	my ($secret) = @_;
	return "ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (SET secret_access_key '$secret')";
}
my $rotation = rotate('second');
$out = run_script($node, <<"SQL");
BEGIN;
SELECT outcome FROM idem_acquire('rotated');
$rotation;
COMMIT;
SQL
like($out, qr/ERROR:  55006: cannot alter a user mapping of a server that this transaction uses/,
	'a secret is not rotated by a transaction that has claims');
settled($node);
is(status_of($table, 'rotated'), 'FAILED', '... and its claim is given back');
is(run_script($node, "$rotation;\n"), '', 'but by any other one');

reset_proxy();
my $session = start_script($node, "SELECT outcome FROM idem_acquire('rotated later', on_commit => 'keep');\n"
	  . say_in_script('has a claim') . halt_until('complete') . "SELECT idem_complete('rotated later');\n");
await_word('has a claim');
$sql->(rotate('third'));
go_on('complete');
unlike(finish_script($session), qr/ERROR/, 'a secret rotated by another session: a kept claim is completed');
settled($node);
is(status_of($table, 'rotated later'), 'COMPLETED', 'a secret rotated by another session: the key is completed');
is(count_requests(op => 'UpdateItem'), 3,
	'a secret rotated by another session: acquire, seal and finish take a request each');

# ----- local answers ----------------------------------------------------------

# What one session has, another is told without a request only if it has the secret.
$sql->(<<'SQL');
CREATE ROLE carol;
CREATE ROLE mallory;
GRANT USAGE ON FOREIGN SERVER exactonce TO carol, mallory;
ALTER SERVER exactonce OPTIONS (ADD role_mappings 'true');
CREATE USER MAPPING FOR mallory SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'guessed');
SQL
my $holder = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('secret', payload => '{\"amount\": 5}');\n"
	  . halt_until('told') . "ROLLBACK;\n");
wait_until('a session holds a key with a payload',
	sub { $sql->("SELECT state FROM exactonce_claims WHERE key = 'secret'") eq 'held' });
foreach my $case (
	[ carol => 0, 'a role with the same credentials' ],
	[ mallory => 1, 'a role with the same access key and another secret' ])
{
	my ($role, $requests, $who) = @$case;
	reset_proxy();
	is($sql->("SET ROLE $role; SELECT outcome FROM idem_acquire('secret')"), 'in_progress',
		"$who: idem_acquire() says that the key is in progress");
	is(count_requests(key => 'secret'), $requests, "$who: idem_acquire() makes $requests requests");
	reset_proxy();
	like(run_script($node, "SET ROLE $role; SELECT idem_once('secret')"), qr/ERROR:  ID001/,
		"$who: idem_once() says that the key is in progress");
	is(count_requests(key => 'secret'), $requests, "$who: idem_once() makes $requests requests");
}
reset_proxy();
run_script($node, q{SET ROLE mallory; SELECT idem_acquire('secret', payload => '{"amount": 6}')});
is(count_requests(key => 'secret'), 1, 'a role with another secret cannot guess a payload without a request');
go_on('told');
finish_script($holder);

# ----- a token alone ----------------------------------------------------------

my %tokens = map { $_ => $sql->("SELECT token FROM idem_acquire('alone $_')") } qw(complete fail extend decide);
foreach my $call (
	"idem_complete('alone complete', '1', token => '$tokens{complete}', immediate => true)",
	"idem_fail('alone fail', '1', token => '$tokens{fail}')",
	"idem_extend('alone extend', token => '$tokens{extend}')")
{
	my ($function) = $call =~ /^(\w+)/;
	reset_proxy();
	$sql->("SELECT $call");
	is(count_requests(), 1, "$function() with a token alone makes one request");
}
reset_proxy();
$sql->("SELECT idem_complete('alone decide', '1', token => '$tokens{decide}')");
settled($node);
is(control('GET', '/ops'), "UpdateItem UpdateItem\n",
	'idem_complete() with a token alone in a transaction makes the requests of seal and finish, and reads nothing');

# ----- memory -----------------------------------------------------------------

# proc(5): "dd" is the flag of memory that is left out of core dumps
my $count = "\\! awk '/^Size:/ {size = \$2} /^VmFlags:.* dd/ {sum += size} END {print sum + 0}' /proc/\$BACKEND/smaps\n";
$out = run_script($node, "SELECT pg_backend_pid() AS pid \\gset\n\\setenv BACKEND :pid\n$count"
	  . "SELECT outcome FROM idem_acquire('first of a session', on_commit => 'keep');\n$count");
my ($before, $after) = $out =~ /^(\d+)\nacquired\n(\d+)$/m;
# a page of at least 4 kB for the secret access key, and for the signer's copy
cmp_ok($after - $before, '>=', 8, 'the secrets of a session are left out of core dumps');

stop_without_crash($node);
ok(!-e $key_log, 'no keys of TLS connections are logged');
done_testing();
