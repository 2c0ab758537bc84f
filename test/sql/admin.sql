-- idem_check() and idem_create_table().
\pset null -
SELECT "check", status, regexp_replace(detail, 'http://[^ ]*|[0-9.]+ ms', '...') AS detail, advice
FROM idem_check() WHERE "check" NOT IN ('version', 'durability', 'standby slots', 'tables', 'worker', 'claims', 'in doubt', 'pending', 'orphans', 'given up', 'lives', 'prepared', 'ready', 'rights');
-- The checks of this server's own state, once it has work.
SELECT outcome FROM idem_acquire('checked');
CALL await_worker();
SELECT "check", status, detail FROM idem_check() WHERE "check" IN ('standby slots', 'tables', 'worker', 'in doubt', 'pending', 'orphans', 'given up', 'lives', 'prepared');
-- A role with pg_monitor needs no USAGE on the server for the local checks.
CREATE ROLE eo_monitor IN ROLE pg_monitor;
SET ROLE eo_monitor;
SELECT "check", status, detail FROM idem_check() WHERE "check" NOT IN ('version', 'durability', 'claims', 'pending', 'ready', 'rights');
RESET ROLE;
DROP ROLE eo_monitor;
-- idem_audit(): its rate, a table that is missing, and its progress, which a role with pg_monitor may see.
SELECT finding FROM idem_audit(units_per_second => 0);
SELECT finding FROM idem_audit('exactonce', 1000001);
SELECT finding FROM idem_audit('nowhere');
SELECT count(*) FROM exactonce_progress;
SET ROLE pg_monitor;
SELECT count(*) FROM exactonce_progress;
SELECT finding FROM idem_audit();
SELECT is_open, answered_at IS NOT NULL AS answered, failures, silent_since, opened_at, refused, next_probe_at, last_error
FROM exactonce_circuits ORDER BY answered_at DESC NULLS LAST LIMIT 1;
SELECT enabled, worker_pid IS NOT NULL AS has_worker, worker_silent < '15 s' AS is_alive, worker_missing, failing_since, last_error,
	unsettled >= 0 AS counts_unsettled, max_claims, claims BETWEEN 1 AND max_claims AS has_claims, fullest_share BETWEEN 0 AND 1 AS has_room, lost_claims >= 0 AS counts_lost
FROM exactonce_health;
SELECT * FROM exactonce_credentials;
RESET ROLE;
-- A table that is missing, and then created.
\set endpoint `echo "$EO_ENDPOINT"`
CREATE SERVER fresh FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'fresh', endpoint :'endpoint');
SELECT "check", status
FROM idem_check('fresh') WHERE "check" NOT IN ('version', 'durability', 'standby slots', 'tables', 'worker', 'claims', 'in doubt', 'pending', 'orphans', 'given up', 'lives', 'prepared', 'ready', 'rights');
CREATE USER MAPPING FOR PUBLIC SERVER fresh OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT "check", status
FROM idem_check('fresh') WHERE "check" NOT IN ('version', 'durability', 'standby slots', 'tables', 'worker', 'claims', 'in doubt', 'pending', 'orphans', 'given up', 'lives', 'prepared', 'ready', 'rights');
\set VERBOSITY terse
SELECT finding FROM idem_audit('fresh');
\set VERBOSITY default
SELECT idem_create_table('fresh');
SELECT "check", status
FROM idem_check('fresh') WHERE "check" NOT IN ('version', 'durability', 'standby slots', 'tables', 'worker', 'claims', 'in doubt', 'pending', 'orphans', 'given up', 'lives', 'prepared', 'ready', 'rights');
-- A table with another key.
SELECT '{"TableName": "shaped", "BillingMode": "PAY_PER_REQUEST",
	"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "at", "AttributeType": "N"}],
	"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}]}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh CreateTable >/dev/null
ALTER SERVER fresh OPTIONS (SET table 'shaped');
SELECT idem_create_table('fresh');
SELECT "check", status, detail, advice
FROM idem_check('fresh')
WHERE status <> 'ok' AND "check" NOT IN ('round trip', 'durability', 'worker', 'pending');
SELECT status FROM idem_check('fresh') WHERE "check" = 'round trip';
DROP SERVER fresh CASCADE;
