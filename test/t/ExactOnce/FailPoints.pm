# Every function with one failure: for each kind of failure the first point of a process
# at which it is possible, then the second, and so on, until a run passes no more points
# than it should fail at.  See test/fail/points.c for what a point is.  The process is the
# session that calls the function, either after some calls or in its first one ("cold"),
# or the worker of the database, or the launcher.
#
# After each run the following must hold:
#  - a key's work is there if and only if its record is COMPLETED;
#  - a key without work can be claimed;
#  - no claim is left, and the process keeps neither memory nor descriptors;
#  - what is counted in shared memory is there, see test/fail/kept.c;
#  - no process has crashed, none has said that something leaks, and no error is an
#    internal one (XX000).
# A run without a failure must raise no error.
package ExactOnce::FailPoints;

use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Aws qw(aws_file services start_aws stop_aws);
use Cwd qw(abs_path);
use File::Basename;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Of points.c: the number of the kind, and whether all later points fail, too.
my %kinds = (
	memory => [ 1, 'false' ],
	heap => [ 2, 'false' ],
	lost => [ 3, 'false' ],
	unsent => [ 4, 'false' ],
	room => [ 5, 'false' ],
	descriptor => [ 6, 'false' ],
	outage => [ 3, 'true' ],
	unreachable => [ 4, 'true' ]);

# A run of a case is: begin, without failures; run, in which one thing fails; a
# rollback if it left its transaction open; and look, a query that returns ok.  k is a
# key of this run, :'k' in SQL.  errors: a run without a failure may raise an error.
# process: the one that fails, instead of the session; until: a condition in SQL for what
# that process has to do, by default to settle everything.  apart: begin may be in another
# session than run.  keeps: what is kept is not compared, because a worker remembers each
# life that it has retired.  slots: the replication slots that completions wait for.
# first: the case comes before all others, because it waits for what those leave for a second
# look, for fifteen minutes.
# writes: the case counts a number up in an item of that id, which must be 1 if the work is
# there, and absent otherwise.
# Two cases of one function are told apart by what follows its name.
my %cases = (
	fdw_validator => {
		run => "CREATE SERVER other FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', endpoint 'http://127.0.0.1:1', "
		  . "\"table\" 'other', transact_tables 'abc,def', request_timeout '1s'); DROP SERVER other;",
		look => "SELECT 'ok' FROM (SELECT count(*) FROM pg_foreign_server) s",
		end => 'DROP SERVER IF EXISTS other;' },
	idem_acquire => {
		run => "BEGIN; SELECT (idem_acquire(:'k', payload => '{\"n\": 1}')).outcome; INSERT INTO work VALUES (:'k');"
		  . " SELECT idem_complete(:'k', '{\"ok\": true}'); COMMIT;" },
	'idem_acquire without a block' => {
		run => "SELECT idem_acquire(:'k');",
		look => "SELECT look_loosely(:'k')" },
	'idem_acquire of a duplicate' => {
		apart => 1,
		begin => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '[1, \"two\"]'); COMMIT;",
		run => "SELECT (idem_acquire(:'k')).result;" },
	'idem_acquire, rolled back' => {
		begin => "BEGIN; SELECT idem_acquire(:'k'); SAVEPOINT s; SELECT idem_acquire(:'k' || '2'); SELECT idem_complete(:'k' || '2', '1');",
		run => 'ROLLBACK TO s; ROLLBACK;' },
	'idem_acquire with the chain of credentials' => {
		begin => 'SELECT another_profile();',
		run => "BEGIN; SELECT (idem_acquire(:'k', server => 'chained')).outcome; INSERT INTO work VALUES (:'k');"
		  . " SELECT idem_complete(:'k', '1', server => 'chained'); COMMIT;" },
	'idem_acquire in a table of Powertools' => {
		run => "BEGIN; SELECT (idem_acquire(:'k', payload => '{\"n\": 1}', server => 'powertools')).outcome; INSERT INTO work VALUES (:'k');"
		  . " SELECT idem_complete(:'k', '{\"ok\": true}', server => 'powertools'); COMMIT;",
		look => "SELECT look(:'k', 'powertools')" },
	'idem_acquire for the session' => {
		run => "BEGIN; SELECT idem_acquire(:'k', on_commit => 'session'); COMMIT; BEGIN; INSERT INTO work VALUES (:'k');"
		  . " SELECT idem_complete(:'k', '1'); COMMIT;",
		end => "SELECT idem_release(:'k') FROM exactonce_claims WHERE key = :'k';" },
	'idem_acquire, prepared' => {
		run => "BEGIN; SELECT idem_acquire(:'k'); INSERT INTO work VALUES (:'k'); SELECT idem_complete(:'k', '1');"
		  . " PREPARE TRANSACTION :'k'; COMMIT PREPARED :'k';",
		end => "SELECT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = :'k') AS prepared \\gset\n"
		  . "\\if :prepared\nSELECT commit_prepared(:'k') \\gexec\n\\endif" },
	idem_start => {
		run => "BEGIN; SELECT try_work(:'k'); COMMIT;" },
	idem_acquire_many => {
		run => "BEGIN; SELECT count(outcome) FROM idem_acquire_many(many(:'k'), payloads => ARRAY['1', '2', '3']::jsonb[]);"
		  . " INSERT INTO work SELECT unnest(many(:'k')); SELECT idem_complete_many(many(:'k')); COMMIT;",
		look => "SELECT look_many(:'k')" },
	idem_complete => {
		begin => "BEGIN; SELECT idem_acquire(:'k'); INSERT INTO work VALUES (:'k');",
		run => "SELECT idem_complete(:'k', '{\"ok\": true}'); COMMIT;" },
	'idem_complete, immediate' => {
		begin => "SELECT idem_acquire(:'k');",
		run => "SELECT idem_complete(:'k', '1', immediate => true);",
		look => "SELECT look_loosely(:'k')" },
	idem_complete_many => {
		begin => "BEGIN; SELECT idem_acquire_many(many(:'k')); INSERT INTO work SELECT unnest(many(:'k'));",
		run => "SELECT idem_complete_many(many(:'k'), ARRAY['1', '2', '3']::jsonb[]); COMMIT;",
		look => "SELECT look_many(:'k')" },
	idem_once => {
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '[1, \"two\"]'); COMMIT;" },
	idem_transact => {
		run => "SELECT (transact(:'k')).outcome;",
		look => "SELECT look_transact(:'k')" },
	idem_call => {
		run => "SELECT idem_call(:'k', 'handler(jsonb)', to_jsonb(:'k'::text));" },
	idem_write => {
		writes => 1,
		run => "SELECT idem_call(:'k', 'writes(jsonb)', to_jsonb(:'k'::text));" },
	'idem_once with writes' => {
		writes => 1,
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1', writes => counted(:'k')); COMMIT;" },
	idem_mirror => {
		writes => 1,
		run => "BEGIN; INSERT INTO work VALUES (:'k'); INSERT INTO mirrored VALUES (:'k', 1); COMMIT;",
		look => "SELECT look_settled()" },
	'idem_call of a handler that fails' => {
		run => "SELECT idem_call(:'k', 'fails(jsonb)', to_jsonb(:'k'::text), on_error => 'return');" },
	idem_guard => {
		run => "BEGIN; INSERT INTO work VALUES (:'k'); INSERT INTO guarded VALUES (:'k'); COMMIT;" },
	idem_fail => {
		begin => "BEGIN; SELECT idem_acquire(:'k');",
		run => "SELECT idem_fail(:'k', '{\"reason\": \"none\"}'); COMMIT;" },
	'idem_fail, immediate' => {
		begin => "SELECT idem_acquire(:'k');",
		run => "SELECT idem_fail(:'k', '{\"reason\": \"none\"}', immediate => true);",
		look => "SELECT look_loosely(:'k')" },
	idem_release => {
		begin => "BEGIN; SELECT idem_acquire(:'k');",
		run => "SELECT idem_release(:'k'); COMMIT;" },
	idem_extend => {
		begin => "BEGIN; SELECT idem_acquire(:'k'); INSERT INTO work VALUES (:'k');",
		run => "SELECT idem_extend(:'k', '1 hour', progress => '{\"n\": 1}'); SELECT idem_complete(:'k'); COMMIT;" },
	idem_get => {
		apart => 1,
		begin => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '[1, \"two\"]'); COMMIT;",
		run => "SELECT (idem_get(:'k')).result;" },
	idem_forget => {
		apart => 1,
		begin => "SELECT idem_acquire(:'k'); SELECT idem_fail(:'k', terminal => true);",
		run => "SELECT idem_forget(:'k');",
		look => "SELECT look_loosely(:'k')" },
	idem_resolve => {
		run => "SELECT idem_resolve(:'k', 'failed');", errors => 1 },
	action_resolve => {
		run => "SELECT action_resolve(:'k', 'failed');", errors => 1 },
	idem_give_up => {
		begin => "SELECT idem_once(:'k');",
		run => "SELECT count(idem_give_up(id)) FROM (SELECT gen_random_uuid() UNION ALL SELECT id FROM exactonce_pending) p(id);", errors => 1,
		look => "SELECT look_settled()" },
	idem_take_over => {
		run => "SELECT idem_take_over(gen_random_uuid());", errors => 1 },
	idem_lift => { run => 'SELECT idem_lift();' },
	idem_drain => { first => 1, run => "SELECT idem_drain('1s');", end => 'SELECT idem_drain(NULL);' },
	idem_audit => {
		run => "SELECT count(*) FROM idem_audit('small', units_per_second => 100000);",
		look => "SELECT 'ok'" },
	lives_of_cluster => { run => 'SELECT count(*) FROM exactonce_lives;' },
	claims_of_cluster => {
		begin => "BEGIN; SELECT idem_acquire(:'k');",
		run => 'SELECT count(*) FROM exactonce_claims;' },
	key_of_record => {
		run => "SELECT exactonce_internal.key_of_record('IDEMPOTENCY#' || :'k', (SELECT oid FROM pg_foreign_server WHERE srvname = 'exactonce'));" },
	waits_for => { run => "SELECT exactonce_internal.waits_for(pg_current_xact_id(), gen_random_uuid(), 'https://a', 'eu-west-1', 'abc', '');" },
	circuits_of_cluster => { run => 'SELECT count(*) FROM exactonce_circuits;' },
	progress_of_cluster => { run => 'SELECT count(*) FROM exactonce_progress;' },
	credentials_of_cluster => { run => 'SELECT count(*) FROM exactonce_credentials;' },
	health_of_database => { run => 'SELECT count(*) FROM exactonce_health;' },
	room_of_cluster => { run => 'SELECT count(*) FROM exactonce_room;' },
	stats_of_cluster => { run => 'SELECT count(server) FROM exactonce_stats;' },
	stats_details_of_cluster => { run => 'SET ROLE of_small; SELECT count(count) FROM exactonce_stats_details; RESET ROLE;' },
	stats_histograms_of_cluster => { run => 'SET ROLE of_small; SELECT count(DISTINCT le) FROM exactonce_stats_histograms; RESET ROLE;' },
	idem_http => {
		begin => "SELECT set_config('request.headers', json_build_object('idempotency-key', :'k')::text, false);",
		run => "SELECT count(idem_http('handler(jsonb)', to_jsonb(:'k'::text)));",
		look => "SELECT 'ok'" },
	exactonce_stats_reset => { run => 'SELECT exactonce_stats_reset();' },
	idem_list => {
		run => "SELECT count(*) FROM idem_list(prefix => :'k', units_per_second => 100000, server => 'small');" },
	idem_sweep => {
		begin => put_old('swept'),
		run => "SELECT idem_sweep(100000, server => 'swept');",
		look => "SELECT CASE WHEN idem_sweep(100000, server => 'swept') <= 1 AND idem_sweep(100000, server => 'swept') = 0 THEN 'ok'"
		  . " ELSE 'a sweep leaves what is past its ttl' END" },
	action_list => {
		run => "SELECT count(*) FROM action_list(prefix => :'k', units_per_second => 100000, server => 'small');" },
	idem_key => { run => "SELECT idem_key(:'k', 1, 2.5, now(), 'x'::bytea, NULL);" },
	idem_key_from => { run => "SELECT idem_key_from(jsonb_build_object('a', :'k', 'b', 1), '\$.a', '\$.b');" },
	idem_key_powertools => {
		run => join ' ', map { "SELECT idem_key_powertools('$_', '{\"b\": [1, 2.5, \"x\"], \"a\": null}', 'p');" } qw(python typescript java dotnet) },
	idem_validation_powertools => { run => "SELECT idem_validation_powertools('python', '{\"b\": [1, 2.5, \"x\"], \"a\": null}');" },
	action_create => {
		run => "SELECT action_create('{\"user\": 7}', id => :'k', pin => '1234', expires_at => now() + interval '1 hour');",
		look => "SELECT look_created(:'k')" },
	action_create_many => {
		run => "SELECT count(outcome) FROM action_create_many(jsonb_build_array(jsonb_build_object('id', :'k', 'pin', '1234'), jsonb_build_object('payload', 1)));",
		look => "SELECT look_created(:'k')" },
	action_get => {
		apart => 1,
		begin => "SELECT action_create('1', id => :'k', pin => '1234');",
		run => "SELECT action_get(:'k');",
		look => "SELECT look_created(:'k')" },
	action_consume => {
		apart => 1,
		begin => "SELECT action_create('{\"user\": 7}', id => :'k', pin => '1234');",
		run => "SELECT (action_consume(:'k', '1234', 'because', '\"me\"', token => '8d7b1f8c-0000-4000-8000-000000000001')).payload;",
		look => "SELECT look_consumed(:'k')" },
	'action_consume at commit' => {
		apart => 1,
		begin => "SELECT action_create('{\"user\": 7}', id => :'k', pin => '1234');",
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT (action_consume(:'k', '1234', 'because', '\"me\"',"
		  . " token => '8d7b1f8c-0000-4000-8000-000000000001', at => 'commit')).payload; COMMIT;",
		look => "SELECT look_used(:'k')" },
	action_cancel => {
		apart => 1,
		begin => "SELECT action_create('{\"user\": 7}', id => :'k');",
		run => "SELECT action_cancel(:'k', 'because');",
		look => "SELECT CASE (action_cancel(:'k')).outcome WHEN 'canceled' THEN 'ok' ELSE 'it cannot be canceled' END" },
	idem_create_table => { run => 'SELECT idem_create_table();' },
	idem_check => { run => 'SELECT count(*) FROM idem_check();' },
	'idem_check with the chain of credentials' => {
		begin => 'SELECT another_profile();',
		run => "SELECT count(*) FROM idem_check('chained');" },

	'worker, a commit' => {
		process => 'worker',
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '[1, \"two\"]'); COMMIT;" },
	'worker, a commit with writes' => {
		process => 'worker',
		writes => 1,
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1', writes => counted(:'k')); COMMIT;" },
	'worker, a consumed action' => {
		process => 'worker',
		begin => "SELECT action_create('{\"user\": 7}', id => :'k', pin => '1234');",
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT (action_consume(:'k', '1234', at => 'commit')).outcome; COMMIT;",
		look => "SELECT look_used(:'k')" },
	'worker, its first commit' => {
		process => 'worker',
		run => "SELECT end_worker(); BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '[1, \"two\"]'); COMMIT;" },
	'worker, three keys' => {
		process => 'worker',
		run => "BEGIN; SELECT count(outcome) FROM idem_acquire_many(many(:'k'));"
		  . " INSERT INTO work SELECT unnest(many(:'k')); SELECT idem_complete_many(many(:'k')); COMMIT;",
		look => "SELECT look_many(:'k')" },
	'worker, a rollback' => {
		process => 'worker',
		run => "BEGIN; SELECT idem_acquire(:'k'); INSERT INTO work VALUES (:'k'); ROLLBACK;" },
	'worker, a failure' => {
		process => 'worker',
		run => "BEGIN; SELECT idem_acquire(:'k'); SELECT idem_fail(:'k', '{\"reason\": \"none\"}'); COMMIT;" },
	'worker, a heartbeat' => {
		process => 'worker',
		run => "BEGIN; SELECT idem_acquire(:'k', lease => '600ms'); SELECT pg_sleep(0.3); INSERT INTO work VALUES (:'k');"
		  . " SELECT idem_complete(:'k'); COMMIT;",
		errors => 1 },
	'worker, a life after another' => {
		process => 'worker',
		begin => "SELECT forget_lives(); BEGIN; INSERT INTO work VALUES (:'k' || '0'); SELECT idem_once(:'k' || '0', '1'); COMMIT;"
		  . " SELECT await_points(1, 0, 'count_unsettled() = 0');",
		run => "SELECT fail_give_up_life(); BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1'); COMMIT;",
		errors => 1,
		until => "count_unsettled() = 0 AND NOT EXISTS (SELECT FROM exactonce_lives WHERE number > 0 AND state NOT IN ('open', 'settled here', 'over'))",
		keeps => 1 },
	'worker, another timeout' => {
		process => 'worker',
		run => "ALTER SERVER exactonce OPTIONS (SET request_timeout '2s'); BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1'); COMMIT;" },
	'worker, the chain of credentials' => {
		process => 'worker',
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1'); SELECT another_profile(); SELECT fail_has_credentials('chained'); COMMIT;",
		until => "fail_has_credentials('chained') AND count_unsettled() = 0",
		look => "SELECT look_chained(:'k')" },
	'worker, a slot that has not confirmed' => {
		process => 'worker',
		slots => 'fail_slot',
		begin => 'SELECT make_slot();',
		run => "BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1'); COMMIT;",
		until => 'advance_slot() AND count_unsettled() = 0' },
	'worker, a slot that is missing' => {
		process => 'worker',
		slots => 'fail_slot',
		begin => 'SELECT drop_slot();',
		run => "SELECT end_worker(); BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1'); COMMIT;",
		until => 'EXISTS (SELECT FROM exactonce_pending WHERE waits_for IS NOT NULL)',
		end => 'SELECT make_slot();' },
	'worker, a drain' => {
		process => 'worker',
		first => 1,
		run => "SELECT idem_drain('10s');",
		end => 'SELECT idem_drain(NULL);',
		errors => 1 },
	'launcher, its start' => {
		process => 'launcher',
		run => "SELECT end_launcher(); SELECT end_worker(); BEGIN; INSERT INTO work VALUES (:'k'); SELECT idem_once(:'k', '1'); COMMIT;",
		errors => 1,
		until => 'count_unsettled() = 0 AND is_waiting()' });

# For the test of these tests: something is kept by each failure.
my %leaks = map { (
	"leak of $_" => { run => "SELECT leaks('$_', :'k');" }) } qw(memory heap descriptor chunk);

# What is said if OpenSSL has no memory.
my $openssl = qr/could not (?:compute|hash|generate|mint)|could not be signed/;

my %processes = (session => 0, worker => 1, launcher => 2);
foreach my $case (values %cases, values %leaks)
{
	$case->{$_} //= '' foreach qw(begin end);
	$case->{look} //= "SELECT look(:'k')";
	$case->{process} //= 'session';
	$case->{until} //= 'count_unsettled() = 0';
}
my $keys = 0;

my $set_up = <<'SQL';
CREATE FUNCTION fail_at(kind int, n int, all_later bool, process int) RETURNS void LANGUAGE c AS '$libdir/exactonce', 'eo_fail_at';
CREATE FUNCTION fail_passed(process int) RETURNS bigint LANGUAGE c AS '$libdir/exactonce', 'eo_fail_passed';
CREATE FUNCTION fail_end(process int) RETURNS bigint LANGUAGE c AS '$libdir/exactonce', 'eo_fail_end';
CREATE FUNCTION fail_kept(process int) RETURNS text LANGUAGE c AS '$libdir/exactonce', 'eo_fail_kept';
CREATE FUNCTION fail_shared() RETURNS text LANGUAGE c AS '$libdir/exactonce', 'eo_fail_shared';
CREATE FUNCTION fail_leak(what text) RETURNS void LANGUAGE c AS '$libdir/exactonce', 'eo_fail_leak';
CREATE FUNCTION fail_give_up_life() RETURNS void LANGUAGE c AS '$libdir/exactonce', 'eo_fail_give_up_life';
CREATE FUNCTION fail_has_credentials(server text) RETURNS bool LANGUAGE c AS '$libdir/exactonce', 'eo_fail_has_credentials';
-- It sees the counters of one server, which are little more than a hundred rows.
CREATE ROLE of_small;
GRANT USAGE ON FOREIGN SERVER small TO of_small;
CREATE TABLE work (key text NOT NULL);
CREATE TABLE guarded (key text NOT NULL);
CREATE TRIGGER guard AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('key');
CREATE FUNCTION handler(payload jsonb) RETURNS jsonb LANGUAGE sql AS $$
	INSERT INTO work VALUES (payload #>> '{}') RETURNING to_jsonb(key) $$;
CREATE FUNCTION fails(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO work VALUES (payload #>> '{}');
	RAISE 'cannot do it';
END $$;
CREATE FUNCTION counted(k text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_array(jsonb_build_object('Update', jsonb_build_object('TableName', 'fail_orders', 'Key', jsonb_build_object('id', k),
		'UpdateExpression', 'ADD n :one', 'ExpressionAttributeValues', '{":one": 1}'::jsonb))) $$;
CREATE FUNCTION writes(payload jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT idem_write(counted(payload #>> '{}')); INSERT INTO work VALUES (payload #>> '{}') RETURNING to_jsonb(key) $$;
CREATE TABLE mirrored (id text PRIMARY KEY, n int NOT NULL);
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON mirrored FOR EACH ROW EXECUTE FUNCTION idem_mirror('fail_orders', 'id', 'n');
CREATE FUNCTION commit_prepared(gid text) RETURNS text LANGUAGE sql AS $$ SELECT format('COMMIT PREPARED %L', gid) $$;
CREATE FUNCTION many(k text) RETURNS text[] LANGUAGE sql AS $$ SELECT ARRAY[k || '1', k || '2', k || '3'] $$;

-- An error in a block that goes on.
CREATE FUNCTION try_work(k text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_start(k);
	INSERT INTO work VALUES (k);
	PERFORM idem_complete(k, '1');
EXCEPTION WHEN OTHERS THEN
	NULL;
END $$;

CREATE FUNCTION count_unsettled() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM exactonce_pending) + (SELECT count(*) FROM exactonce_claims WHERE state <> 'second look') $$;

-- A slot whose standby confirms whatever is flushed.
CREATE FUNCTION advance_slot() RETURNS bool LANGUAGE sql AS $$
	SELECT count(pg_replication_slot_advance(slot_name, greatest(restart_lsn, pg_current_wal_flush_lsn()))) >= 0 FROM pg_replication_slots $$;
CREATE FUNCTION drop_slot() RETURNS void LANGUAGE sql AS $$
	SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots $$;
CREATE FUNCTION make_slot() RETURNS void LANGUAGE sql AS $$
	SELECT pg_create_physical_replication_slot('fail_slot', true) WHERE NOT EXISTS (SELECT FROM pg_replication_slots) $$;

-- Another wish of the chain, of which there are more than the cache has room for: its
-- credentials and its region have not been fetched, or not lately.
CREATE SEQUENCE profile;
CREATE FUNCTION another_profile() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('ALTER SERVER chained OPTIONS (SET profile %L)', 'p' || nextval('profile') % 50);
END $$;

-- After an outage calls are refused until one of them, in each second, has been answered.
CREATE FUNCTION close_circuits() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	WHILE EXISTS (SELECT FROM exactonce_circuits WHERE is_open) LOOP
		BEGIN
			PERFORM idem_get('none', server => s) FROM unnest(ARRAY['exactonce', 'chained']) s;
		EXCEPTION WHEN SQLSTATE 'ID006' THEN
			PERFORM pg_sleep(0.1);
		END;
	END LOOP;
END $$;

-- Waits until the worker has nothing to do, and returns the number of claims.
CREATE FUNCTION settle() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 3000 LOOP
		EXIT WHEN advance_slot() AND count_unsettled() = 0;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN count_unsettled();
END $$;

-- Waits until a process has done all that it has to do, or has failed.
CREATE FUNCTION await_points(process int, n int, done text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	is_done bool := false;
BEGIN
	FOR i IN 1 .. 1500 LOOP
		EXIT WHEN n > 0 AND fail_passed(process) >= n;
		PERFORM pg_stat_clear_snapshot();
		EXECUTE 'SELECT ' || done INTO is_done;
		EXIT WHEN is_done;
		PERFORM pg_sleep(0.005);
	END LOOP;
END $$;

-- Has the launcher come to its main loop?
CREATE FUNCTION is_waiting() RETURNS bool LANGUAGE sql AS $$
	SELECT wait_event IS NOT NULL FROM pg_stat_activity WHERE backend_type = 'exactonce launcher' $$;

-- Ends a process, and waits for its end.
CREATE FUNCTION end_process(type text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	ended int := (SELECT pid FROM pg_stat_activity WHERE backend_type = type);
BEGIN
	PERFORM pg_terminate_backend(ended);
	FOR i IN 1 .. 1000 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ended);
		PERFORM pg_sleep(0.002);
	END LOOP;
END $$;
CREATE FUNCTION end_worker() RETURNS void LANGUAGE sql AS $$ SELECT end_process('exactonce worker') $$;
-- A life that is given up has the worker look again at all lives that it has retired: these are
-- forgotten, or each run would have more to do than the one before.  What a run that has failed had
-- not retired by then is a life that nobody knows, which no later run waits for.
CREATE FUNCTION forget_lives() RETURNS void LANGUAGE sql AS $$
	DELETE FROM exactonce_internal.lives WHERE number < (SELECT max(number) - 5 FROM exactonce_internal.lives);
	SELECT end_worker() $$;
CREATE FUNCTION end_launcher() RETURNS void LANGUAGE sql AS $$ SELECT end_process('exactonce launcher') $$;

CREATE FUNCTION claimable(k text, server text DEFAULT 'exactonce') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF NOT idem_start(k, server => server) THEN
		RETURN 'the key counts as done';
	END IF;
	RAISE 'undo' USING ERRCODE = 'UNDO0';
EXCEPTION
	WHEN SQLSTATE 'UNDO0' THEN
		RETURN 'ok';
	WHEN OTHERS THEN
		RETURN format('the key cannot be claimed: %s', SQLERRM);
END $$;

CREATE FUNCTION look(k text, server text DEFAULT 'exactonce') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	left_over bigint := settle();
	status text := (idem_get(k, server)).status;
	works bigint := (SELECT count(*) FROM work WHERE key = k);
BEGIN
	IF left_over <> 0 THEN
		RETURN format('%s claims are left', left_over);
	ELSIF works > 1 OR (works = 1) <> (status IS NOT DISTINCT FROM 'COMPLETED') THEN
		RETURN format('the work was done %s times, and the record is %s', works, coalesce(status, 'absent'));
	END IF;
	RETURN CASE WHEN works = 1 THEN 'ok' ELSE claimable(k, server) END;
END $$;

-- The source of credentials is asked again soon after a failure, and at once if whoever
-- asked it is gone.
CREATE FUNCTION look_chained(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	LOOP
		BEGIN
			RETURN look(k, 'chained');
		EXCEPTION WHEN SQLSTATE 'ID006' THEN
			IF clock_timestamp() > began + '3s' THEN
				RETURN format('there are no credentials: %s', SQLERRM);
			END IF;
			PERFORM pg_sleep(0.1);
		END;
	END LOOP;
END $$;

CREATE FUNCTION look_many(k text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(min(l) FILTER (WHERE l <> 'ok'), 'ok') FROM unnest(many(k)) m(k), look(m.k) l $$;

CREATE FUNCTION look_settled() RETURNS text LANGUAGE sql AS $$
	SELECT CASE n WHEN 0 THEN 'ok' ELSE n || ' claims are left' END FROM settle() n $$;

-- Of calls that take effect at once.
CREATE FUNCTION look_loosely(k text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM settle();
	PERFORM idem_forget(k);
	RETURN claimable(k);
END $$;

CREATE FUNCTION transact(k text) RETURNS idem_claim LANGUAGE sql AS $$
	SELECT idem_transact(k, jsonb_build_array(jsonb_build_object('Put', jsonb_build_object('TableName', 'fail_orders',
		'Item', jsonb_build_object('id', k), 'ConditionExpression', 'attribute_not_exists(id)'))), '{"done": true}') $$;

-- Once more: the writes of the first call must not be repeated, nor left out.
CREATE FUNCTION look_transact(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	outcome text := (transact(k)).outcome;
BEGIN
	RETURN CASE WHEN outcome IN ('acquired', 'completed') THEN 'ok' ELSE outcome END;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;

-- Exists after a second attempt, and can be consumed once.
CREATE FUNCTION look_created(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	outcome text;
BEGIN
	BEGIN
		PERFORM action_create('{"user": 7}', id => k, pin => '1234');
	EXCEPTION WHEN unique_violation THEN
		NULL;
	END;
	outcome := (action_consume(k, '1234')).outcome;
	RETURN CASE outcome WHEN 'consumed' THEN 'ok' ELSE outcome END;
END $$;

-- Of a consume at commit: it is used if and only if the work is there.
CREATE FUNCTION look_used(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	left_over bigint := settle();
	works bigint := (SELECT count(*) FROM work WHERE key = k);
	outcome text := (action_consume(k, '1234')).outcome;
BEGIN
	IF left_over <> 0 THEN
		RETURN format('%s claims are left', left_over);
	END IF;
	RETURN CASE WHEN outcome = CASE works WHEN 0 THEN 'consumed' WHEN 1 THEN 'already_used' END THEN 'ok'
		ELSE format('the work was done %s times, and the next one is told %s', works, outcome) END;
END $$;

CREATE FUNCTION look_consumed(k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r action_result := action_consume(k, '1234', token => '8d7b1f8c-0000-4000-8000-000000000001');
	other action_result := action_consume(k, '1234');
BEGIN
	IF r.outcome <> 'consumed' OR r.payload <> '{"user": 7}' THEN
		RETURN format('the consumer is told %s', r.outcome);
	END IF;
	RETURN CASE other.outcome WHEN 'already_used' THEN 'ok' ELSE 'a second one is told ' || other.outcome END;
END $$;

CREATE FUNCTION leaks(what text, k text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_get(k);
EXCEPTION WHEN OTHERS THEN
	PERFORM fail_leak(what);
END $$;
SQL

# ----- a cluster of the build with points -----

# Makes an installation that differs from the one of the tests in exactonce.so only.
# PostgreSQL finds the folders of an installation that was moved by their places
# beside its programs.
sub install
{
	my ($module) = @_;
	my %dir = map { $_ => scalar run_config("--$_") } qw(bindir pkglibdir sharedir);
	my $root = PostgreSQL::Test::Utils::tempdir();
	my @parts = map { [ split m{/}, $_ ] } values %dir;
	my $common = 0;
	$common++ while !grep { !defined $_->[$common] || $_->[$common] ne $parts[0][$common] } @parts;
	my %moved = map { $_ => join '/', $root, (split m{/}, $dir{$_})[ $common .. $#{ [ split m{/}, $dir{$_} ] } ] } keys %dir;
	system_or_bail('mkdir', '-p', $moved{bindir}, $moved{pkglibdir}, dirname($moved{sharedir}));
	system_or_bail('cp', glob("$dir{bindir}/*"), $moved{bindir});
	symlink($_, "$moved{pkglibdir}/" . basename($_)) foreach grep { !m{/exactonce\.so$} } glob("$dir{pkglibdir}/*");
	symlink($dir{sharedir}, $moved{sharedir}) or die "$moved{sharedir}: $!";
	system_or_bail('cp', $module, "$moved{pkglibdir}/exactonce.so");
	return dirname($moved{bindir});
}

sub run_config
{
	my ($option) = @_;
	my $out = `$ENV{PG_CONFIG} $option`;
	chomp $out;
	return $out;
}

# Starts the cluster.
sub begin
{
	my ($module) = @_;
	dynamodb(CreateTable => { TableName => 'fail_orders', BillingMode => 'PAY_PER_REQUEST',
		AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
		KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
	# The limits of waits in the functions.
	$set_up =~ s/FOR i IN 1 \.\. (\d+) LOOP/sprintf 'FOR i IN 1 .. %d LOOP', paced($1)/ge;
	$cases{'worker, another timeout'}{run} =~ s/'2s'/sprintf q{'%s'}, paced('2s')/e;
	$set_up =~ s/began \+ '3s'/sprintf q{began + '%s'}, paced('3s')/ge;
	my %options = (connect_timeout => '500ms', request_timeout => '2s', commit_timeout => '2s');
	local @ENV{ keys %ENV } = values %ENV;
	my $chained = begin_chain();
	# The log shows where it was that memory ran out.
	my $node = new_node('fail', install_path => install($module), options => { %options, transact_tables => 'fail_orders' }, conf => <<'CONF');
backtrace_functions = 'memory_point'
log_error_verbosity = verbose
wal_level = replica
max_replication_slots = 2
max_prepared_transactions = 2
max_wal_senders = 2
CONF
	$node->safe_psql('postgres', server_sql('small', %options, table => 'tap_small') . "SELECT idem_create_table('small');"
		  . server_sql('swept', %options, table => 'tap_swept') . "SELECT idem_create_table('swept');"
		  . server_sql('powertools', %options, table => 'tap_powertools', layout => 'powertools-typescript') . "SELECT idem_create_table('powertools');"
		  . $chained . $set_up);
	sweep_nothing("tap_$_") foreach 'fail', 'swept';
	# An audit reads the whole table, which is always the same.
	$node->safe_psql('postgres', "BEGIN; SELECT idem_once('small' || n, '1', server => 'small') FROM generate_series(1, 3) n; COMMIT");
	return $node;
}

# The lines of psql that put a record of this run's key into a table, two hours past its ttl.
sub put_old
{
	my ($name) = @_;
	my $old = time() - 7200;
	my %item = (pk => { S => 'IDEMPOTENCY#KEY' }, status => { S => 'COMPLETED' }, owner => { S => 'old' }, fence => { N => '1' }, ttl => { N => "$old" });
	my $request = encode_json({ TableName => "tap_$name", Item => \%item });
	return "\\setenv K :k\n\\! echo '$request' | sed \"s/KEY/\$K/\" | sh " . dirname(abs_path(__FILE__)) . "/../../harness/dynamodb.sh PutItem >/dev/null\n";
}

# Starts the services that hand out credentials, and returns the SQL of a server that uses
# them: a metadata service for the region and for credentials, and STS for a role.
sub begin_chain
{
	my $here = 'http://127.0.0.1:' . start_aws();
	my $role = 'arn:aws:iam::123456789012:role/app';
	$ENV{AWS_CONFIG_FILE} = aws_file('config', join '', map { "[profile p$_]\nrole_arn = $role\ncredential_source = Ec2InstanceMetadata\n" } 0 .. 49);
	$ENV{AWS_SHARED_CREDENTIALS_FILE} = aws_file('credentials', '');
	@ENV{qw(AWS_ENDPOINT_URL_STS AWS_EC2_METADATA_SERVICE_ENDPOINT)} = ($here) x 2;
	services(region => 'eu-west-1');
	my $sql = server_sql('chained', mapping => '', table => 'tap_fail', region => '', credentials => 'chain', profile => 'p0', role_arn => $role,
		connect_timeout => '500ms', request_timeout => '4s', commit_timeout => '2s');
	return $sql =~ s/region '', //r;
}

# Completions wait for these replication slots from now on, in every process.
sub wait_for_slots
{
	my ($node, $slots) = @_;
	my $setting = 'exactonce.synchronized_standby_slots';
	$node->safe_psql('postgres', $slots eq '' ? 'SELECT drop_slot()' : 'SELECT make_slot()');
	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting = '$slots'");
	$node->reload;
	wait_until("completions wait for '$slots'", sub { $node->safe_psql('postgres', "SHOW $setting") eq $slots });
	$node->safe_psql('postgres', 'SELECT end_worker()');
	return;
}

# The functions of the extension that have no case.
sub functions_without_case
{
	my ($node) = @_;
	my %known = map { (split / |,/, $_)[0] => 1 } keys %cases;
	return grep { !$known{$_} } split /\n/, $node->safe_psql('postgres', <<'SQL');
SELECT DISTINCT p.proname FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'exactonce'
ORDER BY 1
SQL
}

# The cases of these functions, or of all.
sub cases_of
{
	my %wanted = map { $_ => 1 } @_;
	my @cases = grep { !@_ || $wanted{ (split / |,/, $_)[0] } || $wanted{$_} } sort keys %cases;
	return ((grep { $cases{$_}{first} } @cases), grep { !$cases{$_}{first} } @cases);
}

sub is_of_session
{
	my ($name) = @_;
	return $cases{$name}{process} eq 'session';
}

# These kinds, or all.
sub kinds
{
	return @_ ? @_ : sort keys %kinds;
}

# ----- the loop -----

# Runs a case with failures of this kind, and passes if nothing is wrong.  Returns the
# number of points.
sub fail_everywhere
{
	my ($node, $name, $kind, %how) = @_;
	my $slots = $cases{$name}{slots};
	wait_for_slots($node, $slots) if $slots;
	$node->safe_psql('postgres', 'SELECT close_circuits()');
	my ($points, @wrong) = search($node, $name, $kind, %how);
	wait_for_slots($node, '') if $slots;
	ok(!@wrong, "$name, " . ($how{cold} ? 'cold, ' : '') . "$kind: $points points") or diag(join "\n", @wrong);
	return $points;
}

# Passes if runs in which nothing fails keep nothing.
sub keeps_nothing
{
	my ($node, $name) = @_;
	my @what = ('', 'memory of PostgreSQL', 'memory of malloc()', 'descriptors');
	my @runs = run_points($node, $name, 'heap', {}, (0) x 40);
	splice @runs, 0, 20;
	my @growing = grep { always_grows($_, @runs) } 1 .. $#what;
	ok(!@growing, "$name keeps nothing") or diag(join "\n", map { "$what[$_]: " . grown($_, @runs) } @growing);
	return;
}

# Of the tests of these tests: passes if it is noticed that this is kept at a failure.
sub notices
{
	my ($node, $what, $expected) = @_;
	my ($points, @wrong) = search($node, "leak of $what", 'outage');
	like("@wrong", $expected, "a leak of $what is noticed");
	return;
}

# Does so.  Returns the number of points, and what is wrong.
sub search
{
	my ($node, $name, $kind, %how) = @_;
	# The first runs of a session fill its caches, and are not compared.
	my @dry = $how{cold} ? (0) : (0) x 3;
	my @runs = run_points($node, $name, $kind, \%how, @dry);
	my $points = $runs[-1]{passed};
	my @wrong = map { @{ $_->{wrong} } } @runs;
	my ($next, $past_end, $before, @suspects) = (1, 0);
	while (!@wrong && !$past_end)
	{
		my $last = $next + ($next > $points ? 10 : $points > 200 ? 200 : $points);
		@runs = run_points($node, $name, $kind, \%how, ($how{cold} ? () : @dry), $next .. $last);
		$next = $last + 1;
		push @wrong, map { @{ $_->{wrong} } } @runs;
		# A point may be passed by another process in the place of this one, and rarely is thrice.
		$past_end = @runs >= 3 && !grep { $_->{n} <= $_->{passed} } @runs[ -3 .. -1 ];
		foreach my $run ($how{cold} ? @runs : splice @runs, 2)
		{
			push @suspects, $run->{n} if !$how{cold} && $run->{n} > 0 && $run->{n} <= $run->{passed} && $before && grows($before, $run);
			$before = $run;
		}
		$before = undef;
	}
	push @wrong, leaks($node, $name, $kind, @suspects) if !@wrong && !($cases{$name} && $cases{$name}{keeps});
	return ($points, @wrong);
}

# Has one of the numbers grown, in the same process?
sub grows
{
	my ($before, $run) = @_;
	my ($x, $y) = map { $_->{kept} } $before, $run;
	return $x->[0] == $y->[0] && grep { $y->[$_] > $x->[$_] } 1 .. 3;
}

# What a process keeps grows now and then for a cache, and each time for a leak.  The
# points at which it grew are looked at again, and those where it did again in a session of
# their own, where runs without a failure must not grow as well.
sub leaks
{
	my ($node, $name, $kind, @suspects) = @_;
	my @what = ('', 'memory of PostgreSQL', 'memory of malloc()', 'descriptors');
	my @leaks;
	my @runs = @suspects ? run_points($node, $name, $kind, {}, (0) x 15, map { ($_) x 4 } @suspects) : ();
	splice @runs, 0, 15;
	foreach my $n (@suspects)
	{
		my @again = splice @runs, 0, 4;
		my @growing = grep { always_grows($_, @again) } 1 .. $#what;
		my @alone;
		# Twice, because what chance has done once it rarely does again.
		for (1 .. 2)
		{
			last if !@growing;
			@alone = run_points($node, $name, $kind, {}, (0) x 20, ($n) x 40);
			my @sound = @alone[ 10 .. 19 ];
			splice @alone, 0, 30;
			@growing = grep { always_grows($_, @alone) && !always_grows($_, @sound) } @growing;
		}
		push @leaks, map { "point $n: the process keeps more and more $what[$_]: " . grown($_, @alone) } @growing;
	}
	return @leaks;
}

sub grown
{
	my ($what, @runs) = @_;
	return join ' ', map { $_->{kept}[$what] } @runs;
}

# Is it so in nearly each run, and all were of one process?  Something else may be given
# back at the same time.
sub always_grows
{
	my ($what, @runs) = @_;
	return 0 if grep { $_->{kept}[0] != $runs[0]{kept}[0] } @runs;
	my $growing = grep { $runs[$_]{kept}[$what] > $runs[ $_ - 1 ]{kept}[$what] } 1 .. $#runs;
	return $growing >= 0.85 * $#runs;
}

# OpenSSL sets itself up once in a process.  If it runs out of memory then, the process
# cannot use it any more, so another session looks.
sub look_again
{
	my ($case) = @_;
	return "SELECT :'seen' = 'nothing' AS again \\gset\n\\if :again\n\\echo & again\n\\connect\nSELECT ($case->{look}) AS seen \\gset\n\\endif\n";
}

# Runs the case once for each n, in one session, or (cold) each in one of its own.
# Returns what was found of each run.
sub run_points
{
	my ($node, $name, $kind, $how, @n) = @_;
	my $case = $cases{$name} || $leaks{$name};
	my ($number, $all) = @{ $kinds{$kind} };
	my $process = $processes{ $case->{process} };
	my ($script, @names) = ('');
	foreach my $n (@n)
	{
		my $key = join '-', $name, $kind, $n, ++$keys;
		push @names, $key;
		my $connect = $how->{cold} ? "\\connect\nSET client_min_messages = error;\n" : '';
		$script .= $connect || "SET client_min_messages = error;\n";
		$script .= "\\set k '$key'\n$case->{begin}\n" . ($case->{apart} ? $connect : '') . "\\echo > $n\n"
		  . "SELECT fail_at($number, $n, $all, $process);\n$case->{run}\nROLLBACK;\n";
		# An outage goes on for a while.
		my $until = $n > 0 && $all eq 'true' ? $n + 1 : $n;
		$script .= "SELECT await_points($process, $until, \$\$$case->{until}\$\$);\n" if $process;
		$script .= "SELECT fail_end($process) AS passed \\gset\n\\echo < :passed\n$case->{end}\n"
		  . "\\set seen nothing\nSELECT ($case->{look}) AS seen \\gset\n" . ($how->{cold} ? look_again($case) : '')
		  . ($case->{writes} ? "SELECT '# ' || count(*) FROM work WHERE key = :'k';\n" : '')
		  . "\\echo = :seen\nSELECT '% ' || fail_kept($process) || '|' || fail_shared();\n";
	}
	my ($run, @runs);
	foreach my $line (split /\n/, finish_script(start_script($node, $script, undef, together => 1)))
	{
		if ($line =~ /^> (\d+)$/)
		{
			push @runs, $run = { n => $1, key => $names[@runs], passed => 0, text => '', look => 'nothing' };
		}
		elsif (!$run) { }
		elsif ($line =~ /^< (\d+)$/) { $run->{passed} = $1 }
		elsif ($line =~ /^= (.*)$/) { $run->{look} = $1 }
		elsif ($line =~ /^# (\d+)$/) { $run->{works} = $1 }
		elsif ($line eq '& again') { $run->{again} = 1 }
		elsif ($line =~ /^% (\d+)\|(\d+)\|(\d+)\|(\d+)\|(.*)$/) { $run->{kept} = [ $1, $2, $3, $4 ]; $run->{shared} = $5 }
		else { $run->{text} .= "    $line\n" }
	}
	$_->{wrong} = [ judge($case, $_) ] foreach @runs;
	BAIL_OUT("$name, $kind: the session has ended\n" . ($run ? $run->{text} : '')) if @runs < @n || !$run->{kept};
	return @runs;
}

sub judge
{
	my ($case, $run) = @_;
	my $failed = $run->{n} > 0 && $run->{passed} >= $run->{n};
	my @wrong;
	push @wrong, $run->{look} if $run->{look} ne 'ok';
	push @wrong, 'the session does not go on' if !$run->{kept} || ($run->{again} && $run->{text} !~ /$openssl/);
	push @wrong, compare_writes($run) if defined $run->{works};
	push @wrong, $run->{shared} if ($run->{shared} // 'ok') ne 'ok';
	push @wrong, 'an internal error' if is_internal($run->{text});
	push @wrong, 'an error without a failure' if !$failed && !$case->{errors} && $run->{text} =~ /ERROR:/;
	return map { "point $run->{n}: $_\n$run->{text}" } @wrong;
}

# The writes of a key must have been made as often as its work was.
sub compare_writes
{
	my ($run) = @_;
	my $item = dynamodb(GetItem => { TableName => 'fail_orders', ConsistentRead => \1, Key => { id => { S => $run->{key} } } })->{Item};
	my $made = $item ? $item->{n}{N} : 0;
	return $made == $run->{works} ? () : "the work was done $run->{works} times, and its writes $made times";
}

sub is_internal
{
	my ($text) = @_;
	return $text =~ /(?:ERROR|FATAL|PANIC):  XX(?!.*$openssl)/;
}

# Stops the cluster.  The log may say nothing of a crash, a leak, or an internal error.
sub end
{
	my ($node) = @_;
	my @found = grep { is_internal($_) || /reference leak|still referenced|leaked|was not closed/ }
	  split /\n/, slurp_file($node->logfile);
	is(join("\n", @found), '', 'the log has no leak, and no internal error');
	stop_without_crash($node);
	stop_aws();
	return;
}

1;
