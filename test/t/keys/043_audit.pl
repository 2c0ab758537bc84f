# idem_audit(): completed keys whose work is not in the data, after a failover to a standby
# that nothing waited for; and everything else in which records and data do not match.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_audit';

# The findings of an audit, "finding key" each, sorted.
sub audit
{
	my ($node, $server) = @_;
	my $call = "idem_audit('" . ($server // 'exactonce') . "', units_per_second => 100000)";
	return $node->safe_psql('postgres', "SELECT concat_ws(' ', finding, key) FROM $call ORDER BY 1");
}

sub life_of
{
	my ($node, $database) = @_;
	return $node->safe_psql($database // 'postgres', "SELECT life FROM exactonce_lives WHERE state = 'open' LIMIT 1");
}

sub state_of_life
{
	my ($life) = @_;
	return (item($table, "ORIGIN#$life") // {})->{state} // 'none';
}

# Statements that complete a key in each way there is.
sub complete_in_all_ways
{
	my ($name) = @_;
	return <<"SQL";
SELECT idem_once('$name once');
BEGIN; SELECT outcome FROM idem_acquire('$name block'); SELECT idem_complete('$name block', '"secret result"'); COMMIT;
SELECT outcome FROM idem_acquire('$name keep');
BEGIN; SELECT idem_complete('$name keep'); COMMIT;
SELECT count(*) FROM idem_acquire_many(ARRAY['$name many 1', '$name many 2']);
SELECT idem_complete_many(ARRAY['$name many 1', '$name many 2']);
SQL
}
my @ways = ('block', 'keep', 'many 1', 'many 2', 'once');

# ----- a healthy database -------------------------------------------------------------

my $primary = new_node('audit', conf => 'exactonce.test_hurry = ' . hurry(10) . <<'CONF');

wal_level = replica
max_wal_senders = 5
wal_keep_size = 64MB
wal_receiver_status_interval = 1
log_min_messages = log
CONF
sweep_nothing($table);
$primary->append_conf('pg_hba.conf', 'local replication all trust');
$primary->reload;
run_script($primary, complete_in_all_ways('kept') . <<'SQL');
SELECT outcome FROM idem_acquire('at once');
SELECT idem_complete('at once', immediate => true);
SELECT outcome FROM idem_acquire('failed');
SELECT idem_fail('failed', '{}', terminal => true);
SELECT outcome FROM idem_acquire('open');
SQL
settled($primary);
is(audit($primary), '', 'a healthy database: nothing');

# A transaction that has sealed a key is rolled back; then the key is completed without it.
my $halt = start_script($primary, <<"SQL");
BEGIN;
SELECT token AS token FROM idem_acquire('sealed', on_abort => 'hold') \\gset
SELECT outcome FROM idem_acquire('taken');
SELECT idem_complete('sealed'), idem_complete('taken');
@{[ say_in_script('completed') ]}@{[ halt_until('taken') ]}COMMIT;
\\echo :SQLSTATE
SELECT idem_complete('sealed', token => :'token', immediate => true);
SQL
await_word('completed');
put_record($table, 'taken', status => 'FAILED', owner => '00000000-0000-4000-8000-000000000000', retry_ms => 0, fence => 1,
	updated_ms => 1, created_ms => 1);
go_on('taken');
like(finish_script($halt), qr/ID002/, 'a transaction is refused at its seal');
settled($primary);
is(status_of($table, 'sealed'), 'COMPLETED', 'its other key is completed at once, later');
is(audit($primary), '', 'which is no finding: no transaction completed it');

# Another database that shares the table.
$primary->safe_psql('postgres', 'CREATE DATABASE other');
$primary->safe_psql('other', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table) . "SELECT idem_once('of another')");
settled($primary, 'other');
is(audit($primary), '', 'keys of another database are left out');
$primary->safe_psql('postgres', 'BEGIN READ ONLY; SELECT * FROM idem_audit(); COMMIT');

# Nothing but reads is sent.
reset_proxy();
audit($primary);
my @writes = grep { $_->{op} !~ /^(?:Scan|GetItem)$/ && $_->{key} !~ /^ORIGIN#/ } requests();
is(scalar @writes, 0, 'it reads only');

# ----- a failover that loses commits --------------------------------------------------

$primary->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('audit_standby');
$standby->init_from_backup($primary, 'standby', has_streaming => 1);
$standby->start;
my ($out, $err) = ('', '');
$standby->psql('postgres', '\set VERBOSITY verbose' . "\nSELECT * FROM idem_audit()", stderr => \$err);
like($err, qr/25006/, 'a standby does not audit');
$primary->safe_psql('postgres', 'CREATE TABLE work (key text)');
$primary->wait_for_catchup($standby, 'replay');
my $life = life_of($primary);
# A transaction that begins before the standby falls behind, and commits after.
my $early = start_script($primary, <<"SQL");
BEGIN;
INSERT INTO work VALUES ('early');
SELECT outcome FROM idem_acquire('lost early');
SELECT pg_switch_wal() IS NULL;
@{[ say_in_script('begun') ]}@{[ halt_until('behind') ]}SELECT idem_complete('lost early');
COMMIT;
SQL
await_word('begun');
$primary->wait_for_catchup($standby, 'replay');
kill 'STOP', $primary->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication');
go_on('behind');
finish_script($early);
run_script($primary, complete_in_all_ways('lost'));
settled($primary);
is(status_of($table, "lost $_"), 'COMPLETED', "lost $_: it was completed") foreach @ways, 'early';
is(audit($primary), '', 'on the primary nothing is lost yet');
crash($primary);
$standby->promote;
# Ids of the lost transactions are assigned again, to some that commit.
$standby->safe_psql('postgres', join '', map { "INSERT INTO work VALUES ('$_');\n" } 1 .. 40);
run_script($standby, complete_in_all_ways('new'));
settled($standby);
wait_until('the life of the old primary is retired', sub { state_of_life($life) eq 'retired' });
my $lost = join "\n", map { "lost lost $_" } sort @ways, 'early';
is(audit($standby), $lost, 'after the failover exactly those keys are lost');
reset_proxy();
fault(op => 'Scan', do => 'other_operation');
is(audit($standby), $lost, 'a page is read again if the reply is one to another operation');
reset_proxy();
is($standby->safe_psql('postgres', "SELECT DISTINCT status, life, timeline, pending IS NULL, advice ~ 'idem_forget' FROM idem_audit()"),
	"COMPLETED|$life|1|t|t", 'with the transaction and advice');
unlike($standby->safe_psql('postgres', 'SELECT * FROM idem_audit()'), qr/secret/, 'and without results');
$standby->restart;
is(audit($standby), $lost, 'also after a restart');
$standby->safe_psql('postgres', "SELECT idem_forget('lost once'); SELECT idem_once('lost once')");
settled($standby);
$lost =~ s/\nlost lost once//;
is(audit($standby), $lost, 'a key that was done again is not lost any more');

# ----- the old primary goes on ---------------------------------------------------------

$primary->start;
$primary->safe_psql('postgres', "SELECT idem_once('beside')");
settled($primary);
my $beside = life_of($primary);
is(audit($standby), "elsewhere beside\n$lost", 'what the old primary completes is in its data');
is(audit($primary), join("\n", 'elsewhere lost once', map { "elsewhere new $_" } @ways),
	'and what the new one completes is in its own, also under a life that was closed');
$primary->stop('immediate');
$standby->safe_psql('postgres', "SELECT idem_take_over('$beside')");
is(audit($standby), "lost beside\n$lost", 'once its last life is taken over, that is lost, too');

# ----- rows and records ----------------------------------------------------------------

fault(to => 'COMPLETED', do => 'drop', times => 0);
$standby->safe_psql('postgres', "SELECT idem_once('gone'); SELECT idem_once('theirs'); SELECT idem_once('back'); SELECT idem_once('pending');"
	  . " SELECT idem_once('unreadable')");
my %seen = map { $_ => record($table, $_) } qw(theirs back);
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#gone' } } });
put_record($table, 'theirs', %{ $seen{theirs} }, status => 'COMPLETED', owner => '00000000-0000-4000-8000-000000000000',
	origin => "$beside/5/1/0");
put_record($table, 'back', %{ $seen{back} }, status => 'FAILED', retry_ms => 0);
put_record($table, 'unreadable', status => 'a word of another program');
my $rows = "no record gone\nsettled twice back\nsettled twice theirs\nsettled twice unreadable";
is(audit($standby), "lost beside\n$lost\n$rows", 'rows whose records are gone, or settled by others');
is($standby->safe_psql('postgres', <<'SQL'), 't|4', 'they are named as in exactonce_pending');
SELECT bool_and(p.key = a.key), count(*) FROM idem_audit() a JOIN exactonce_pending p ON p.id = a.pending
SQL
dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#unreadable' } } });
$standby->safe_psql('postgres', <<'SQL');
SELECT idem_give_up(pending) FROM idem_audit() WHERE finding IN ('no record', 'settled twice')
SQL
reset_proxy();
$standby->safe_psql('postgres', "SELECT idem_forget(key) FROM idem_audit() WHERE finding = 'lost'");
$standby->safe_psql('postgres', "SELECT idem_forget('theirs')");
settled($standby);
is(audit($standby), '', 'an operator settles all of that');

# ----- what cannot be told --------------------------------------------------------------

my $own = life_of($standby);
my $token = '00000000-0000-4000-8000-000000000001';
my %record = (owner => $token, bind => 'tx', fence => 1, runs => 1, created_ms => 1, updated_ms => 1, result => '"secret"');
put_record($table, 'doubt', %record, status => 'COMMITTING', origin => "$own/99999999/2/0");
put_record($table, 'nobody', %record, status => 'COMPLETED', origin => '00000000-0000-4000-8000-000000000002/5/1/0');
put_record($table, 'running', %record, status => 'COMPLETED', origin => "$own/99999999/2/0");
is(audit($standby), "in doubt doubt\nnot judged\nunknown running", 'doubts, lives that nobody knows, ids that are not assigned yet');
is($standby->safe_psql('postgres', "SELECT detail FROM idem_audit() WHERE finding = 'not judged'"),
	'1 completed records name lives that neither this data nor the table knows any more.', 'those are counted');
$standby->safe_psql('postgres', "SELECT idem_forget('nobody'); SELECT idem_forget('running'); SELECT idem_resolve('doubt', 'failed')");

# The commit log is cut off: what the WAL's timelines tell is still known.
put_record($table, 'lost', %record, status => 'COMPLETED', origin => "$life/" . $standby->safe_psql('postgres',
	'SELECT pg_current_xact_id()') . '/1/FFFFFFFF0');
$standby->safe_psql('postgres', 'ALTER DATABASE template0 ALLOW_CONNECTIONS true');
is(audit($standby), 'lost lost', 'a position that this data has never been at');
$standby->safe_psql($_, 'VACUUM FREEZE') foreach qw(template0 template1 other postgres);
$standby->restart;
$standby->safe_psql('postgres', "SELECT idem_once('fresh')");
settled($standby);
my @unknown = map { ("kept $_", "new $_") } @ways;
is(audit($standby), join("\n", 'lost lost', map { "unknown $_" } sort @unknown, 'lost once', 'pending'),
	'older ids than the commit log: unknown, for nothing tells whether their commits were lost');
$standby->safe_psql('postgres', "SELECT idem_forget(key) FROM idem_audit()");

# ----- the rate, progress, and a cancel ---------------------------------------------------

$standby->safe_psql('postgres', server_sql('large', table => 'tap_audit_large') . "SELECT idem_create_table('large')");
put_record('tap_audit_large', "k$_", %record, status => 'FAILED', error => 'x' x 4000) foreach 1 .. 250;
reset_proxy();
is(audit($standby, 'large'), '', 'a table of three pages');
is(count_requests(op => 'Scan'), 3, 'three requests');
reset_proxy();
my $slow = start_script($standby, "SELECT * FROM idem_audit('large', units_per_second => 1);\n");
# A page takes more than fifty units, and so the next is a minute away.
await_request(op => 'Scan');
wait_until('its progress is shown', sub {
	$standby->safe_psql('postgres', "SELECT server, done, found FROM exactonce_progress") eq 'large|100|0' });
$standby->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM exactonce_progress");
like(finish_script($slow), qr/57014/, 'it is canceled while it waits for its next page');
is(count_requests(op => 'Scan'), 1, 'one request was sent');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM exactonce_progress'), '0', 'its progress is gone');
reset_proxy();
fault(op => 'Scan', do => 'hold', nth => 2);
my $held = start_script($standby, "SELECT * FROM idem_audit('large', units_per_second => 100000);\n");
await_request(op => 'Scan', n => 2);
$standby->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM exactonce_progress");
like(finish_script($held), qr/57014/, 'it is canceled while a request is in flight');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM exactonce_progress'), '0', 'that leaves nothing, too');
reset_proxy();
fault(op => 'Scan', do => 'hold');
$held = start_script($standby, "SELECT * FROM idem_audit('large');\n");
await_request(op => 'Scan');
$standby->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM exactonce_progress");
like(finish_script($held), qr/57P01/, 'its process is ended');
wait_until('no progress is left of it', sub { $standby->safe_psql('postgres', 'SELECT count(*) FROM exactonce_progress') eq '0' });
reset_proxy();
stop_without_crash($standby);

# ----- a volume that was restored, and a recovery to a point in time ---------------------

$table = 'tap_audit_old';
my $original = new_node('audit_old', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nwal_level = replica\nmax_wal_senders = 5\n");
sweep_nothing($table);
$original->append_conf('pg_hba.conf', 'local replication all trust');
$original->enable_archiving;
$original->restart;
run_script($original, 'CREATE TABLE work (key text); ' . complete_in_all_ways('before'));
settled($original);
$original->backup('old');
$original->safe_psql('postgres', "SELECT pg_create_restore_point('point')");
my $segment = $original->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$original->poll_query_until('postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver");
run_script($original, complete_in_all_ways('after'));
settled($original);
$life = life_of($original);
crash($original);

# The files as they were, without recovery of the archive: it stays on its timeline.
my $restored = PostgreSQL::Test::Cluster->new('audit_restored');
$restored->init_from_backup($original, 'old');
$restored->append_conf('postgresql.conf', 'archive_mode = off');
# While ids are assigned again the database has no worker, and so no life.
$restored->append_conf('postgresql.conf', "max_logical_replication_workers = 0\nmax_worker_processes = 1");
$restored->start;
$restored->safe_psql('postgres', join '', map { "INSERT INTO work VALUES ('$_');\n" } 1 .. 40);
is($restored->safe_psql('postgres', 'SELECT id FROM exactonce_internal.lives ORDER BY number DESC LIMIT 1'), $life,
	'a restored volume: it has no life yet');
$restored->append_conf('postgresql.conf', 'max_worker_processes = 8');
$restored->restart;
my $after = sub { join "\n", map { "$_[0] after $_" } @ways };
like(audit($restored), qr/^(?:(?:elsewhere|lost) after .*\n?){5}$/, 'a restored volume, before anything is claimed');
$restored->safe_psql('postgres', "SELECT idem_once('restored')");
settled($restored);
$restored->safe_psql('postgres', "SELECT idem_take_over('$life')");
is(audit($restored), $after->('lost'), 'a restored volume: ids were assigned again on the same timeline');
is($restored->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())') =~ /^00000001/, 1, 'it is the same one');
$restored->stop;

my $recovered = PostgreSQL::Test::Cluster->new('audit_recovered');
$recovered->init_from_backup($original, 'old', has_restoring => 1, standby => 0);
$recovered->append_conf('postgresql.conf',
	"archive_mode = off\nrecovery_target_name = 'point'\nrecovery_target_action = promote\nexactonce.takeover = never");
$recovered->start;
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is(audit($recovered), $after->('elsewhere') . "\nelsewhere restored",
	'recovered to a point in time: what others have, as long as nobody has decided');
$recovered->safe_psql('postgres', "SELECT idem_take_over('$life')");
is(audit($recovered), "elsewhere restored\n" . $after->('lost'), 'what was taken over is lost; what was closed may be elsewhere');
$recovered->stop;

# ----- a switchover and back ---------------------------------------------------------------

# The runs of the primary before it became a standby say nothing about what its peer has committed since.
$primary = new_node('audit_back', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nwal_level = replica\nmax_wal_senders = 5\n");
$primary->append_conf('pg_hba.conf', 'local replication all trust');
$primary->reload;
$primary->backup('peer');
my $peer = PostgreSQL::Test::Cluster->new('audit_peer');
$peer->init_from_backup($primary, 'peer', has_streaming => 1);
$peer->start;

sub complete_on
{
	my ($node, $key) = @_;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	$node->safe_psql('postgres', "SELECT idem_once('$key')");
	settled($node);
	return;
}

complete_on($primary, 'there');
$primary->wait_for_catchup($peer, 'replay');
$primary->stop;
$peer->promote;
complete_on($peer, 'on the peer');
$primary->enable_streaming($peer);
$primary->start;
$peer->wait_for_catchup($primary, 'replay');
$peer->stop;
$primary->promote;
complete_on($primary, 'back');
is(audit($primary), '', 'after a switchover and back nothing is lost');
$primary->stop;
done_testing();
