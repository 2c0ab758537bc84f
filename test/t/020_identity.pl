# A claim belongs to the role that acquired it, whatever else happens in its session
# or transaction; credentials that are rotated meanwhile take nothing from it; and only
# a session with the same credentials is told of it without a request.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

# libcurl would write the keys of TLS connections to it
my $key_log = PostgreSQL::Test::Utils::tempdir() . '/keys.log';
local $ENV{SSLKEYLOGFILE} = $key_log;

my $table = 'tap_identity';
my $node = new_node('identity', table => $table);

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub requests { return 0 + control('GET', '/count?op=UpdateItem') }

# The functions of alice act as alice, whoever calls them.
sql(<<'SQL');
CREATE TABLE go (name text);
CREATE ROLE alice;
CREATE ROLE bob;
GRANT USAGE ON FOREIGN SERVER exactonce TO alice, bob;
CREATE FUNCTION alice_acquires(key text, on_commit text) RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = public
	AS 'SELECT outcome::text FROM idem_acquire(key, on_commit => alice_acquires.on_commit)';
CREATE FUNCTION alice_completes(key text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = public
	AS 'SELECT idem_complete(key)';
ALTER FUNCTION alice_acquires OWNER TO alice;
ALTER FUNCTION alice_completes OWNER TO alice;
SQL

# -- across transactions of one session

my $not_owner = qr/ERROR:  ID008: cannot (\w+) key "\w+" on server "exactonce": this session does not own it/;
my $out = psql_ok($node, <<'SQL');
SET ROLE alice;
SELECT outcome FROM idem_acquire('kept', on_commit => 'keep');
SET ROLE bob;
SELECT idem_complete('kept');
SELECT idem_fail('kept');
SELECT idem_extend('kept');
SELECT 'released ' || idem_release('kept');
SELECT outcome, mine FROM idem_acquire('kept');
SQL
is(join(' ', $out =~ /$not_owner/g), 'complete fail extend', 'another role of the session does not complete, fail or extend a kept claim');
like($out, qr/^released false$/m, '... nor release it');
like($out, qr/^in_progress\|f$/m, '... and it is not hers');
is(records($table)->{kept}{status}, 'IN_PROGRESS', '... the record is untouched');

$out = psql_ok($node, <<'SQL');
SET ROLE alice;
SELECT outcome FROM idem_acquire('remembered', on_commit => 'keep');
SET ROLE bob;
SELECT outcome FROM idem_acquire('remembered');
SET ROLE alice;
SELECT idem_complete('remembered');
SQL
unlike($out, qr/ERROR/, 'the role that acquired completes it, whatever another has asked in between');

# -- in one transaction

foreach my $verb (qw(complete fail extend))
{
	$out = psql_ok($node, <<"SQL");
SET ROLE alice;
BEGIN;
SELECT outcome FROM idem_acquire('within $verb');
SET ROLE bob;
SELECT idem_$verb('within $verb');
COMMIT;
SQL
	like($out, qr/ERROR:  ID008: cannot $verb key "within $verb" on server "exactonce": another role owns it/, "in one transaction another role cannot $verb the claim");
}
$out = psql_ok($node, <<'SQL');
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
like($out, qr/^released false\nreleased true\nin_progress\|t\|t$/m, '... nor release it, nor get it when it is released and that is not written yet');

$out = psql_ok($node, <<'SQL');
SET ROLE alice;
BEGIN;
SELECT token AS token FROM idem_acquire('handed over') \gset
SET ROLE bob;
SELECT idem_complete('handed over', token => :'token');
COMMIT;
SQL
unlike($out, qr/ERROR/, 'who has the token completes the claim');
settled($node);
is(records($table)->{'handed over'}{status}, 'COMPLETED', '... and it is completed');

# -- SECURITY DEFINER functions act as their owners

$out = psql_ok($node, <<'SQL');
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
is(join(' ', map { $_ // '' } $out =~ /ERROR:  (ID008: cannot complete key "definer(?: keeps)?")/g),
	'ID008: cannot complete key "definer" ID008: cannot complete key "definer keeps"',
	'the caller of a SECURITY DEFINER function cannot complete what that has acquired');
settled($node);
is(records($table)->{$_}{status}, 'COMPLETED', "... the function can: $_") foreach ('definer completes', 'definer keeps');

# -- credentials that are rotated while a claim is held

sub rotate
{
	my ($secret) = @_;
	return "ALTER USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (SET secret_access_key '$secret')";
}
control('POST', '/reset');
$out = psql_ok($node, "BEGIN; SELECT outcome FROM idem_acquire('rotated'); @{[ rotate('second') ]}; SELECT idem_complete('rotated'); COMMIT;\n");
unlike($out, qr/ERROR/, 'a transaction completes its claim after the secret was rotated in it');
settled($node);
is(records($table)->{rotated}{status}, 'COMPLETED', '... the key is completed');
is(requests(), 3, '... by one request each: acquire, seal, finish');

control('POST', '/reset');
my $session = start_psql($node, <<'SQL');
SELECT outcome FROM idem_acquire('rotated later', on_commit => 'keep');
INSERT INTO go VALUES ('acquired');
DO $$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM go WHERE name = 'rotated'); PERFORM pg_sleep(0.02); END LOOP; END $$;
SELECT idem_complete('rotated later');
SQL
wait_until('a session keeps a claim', sub { sql("SELECT count(*) FROM go WHERE name = 'acquired'") eq '1' });
sql(rotate('third'));
sql(q{INSERT INTO go VALUES ('rotated')});
unlike(finish_psql($session), qr/ERROR/, '... and completes it after the secret was rotated by another session');
settled($node);
is(records($table)->{'rotated later'}{status}, 'COMPLETED', '... the key is completed');
is(requests(), 3, '... by one request each: acquire, seal, finish');

# -- what one session has, another one is told without a request only if it has the secret

sql(<<'SQL');
CREATE ROLE carol;
CREATE ROLE mallory;
GRANT USAGE ON FOREIGN SERVER exactonce TO carol, mallory;
CREATE USER MAPPING FOR mallory SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'guess');
SQL
my $holder = start_psql($node, <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('secret', payload => '{"amount": 5}');
DO $$ BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM go WHERE name = 'told'); PERFORM pg_sleep(0.02); END LOOP; END $$;
ROLLBACK;
SQL
wait_until('a session holds a key', sub { sql(q{SELECT count(*) FROM exactonce_claims WHERE key = 'secret' AND state = 'held'}) eq '1' });
foreach my $of ([ carol => 0, 'has the same credentials' ], [ mallory => 1, 'knows the access key and not the secret' ])
{
	my ($role, $requests, $why) = @$of;
	control('POST', '/reset');
	is(sql("SET ROLE $role; SELECT outcome FROM idem_acquire('secret')"), 'in_progress', "the key is in progress for a role that $why");
	is(0 + control('GET', '/count?key=secret'), $requests, "... by $requests requests");
	control('POST', '/reset');
	like(psql_ok($node, "SET ROLE $role; SELECT idem_once('secret')"), qr/ERROR:  ID001/, '... and for its idem_once()');
	is(0 + control('GET', '/count?key=secret'), $requests, "... by $requests requests");
}
my $stderr;
control('POST', '/reset');
$node->psql('postgres', q{SET ROLE mallory; SELECT idem_acquire('secret', payload => '{"amount": 6}')}, stderr => \$stderr);
is(0 + control('GET', '/count?key=secret'), 1, 'nobody guesses a payload without a request');
sql(q{INSERT INTO go VALUES ('told')});
finish_psql($holder);

# -- a token alone

my %tokens = map { $_ => sql("SELECT token FROM idem_acquire('alone $_')") } qw(complete fail extend decide);
my %alone = (
	complete => sub { "idem_complete('alone complete', '1', token => '$_[0]', immediate => true)" },
	fail => sub { "idem_fail('alone fail', '1', token => '$_[0]')" },
	extend => sub { "idem_extend('alone extend', token => '$_[0]')" });
foreach my $verb (sort keys %alone)
{
	control('POST', '/reset');
	sql("SELECT " . $alone{$verb}->($tokens{$verb}));
	is(control('GET', '/count'), "1\n", "to $verb with a token alone is one request");
}
control('POST', '/reset');
sql("SELECT idem_complete('alone decide', '1', token => '$tokens{decide}')");
settled($node);
is(control('GET', '/count'), "2\n", 'to complete in a transaction is the seal and the finish');
is(control('GET', '/count?op=GetItem'), "0\n", '... and nothing is read');

$node->stop;
ok(!-e $key_log, 'no keys of TLS connections are logged');
done_testing();
