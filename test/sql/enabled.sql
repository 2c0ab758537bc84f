-- exactonce.enabled switches off what would claim, complete at once, or touch actions.
SELECT outcome FROM idem_acquire('switch: before', lease => '10 minutes', on_commit => 'keep');
SELECT outcome FROM idem_acquire('switch: held', lease => '10 minutes', on_commit => 'keep');
SELECT id FROM action_create(id => 'switch: before');
CREATE TABLE switch_guarded (id int);
CREATE TRIGGER guard AFTER INSERT ON switch_guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('id');
CREATE FUNCTION switch_handle(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $1';
CALL await_worker();
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SET exactonce.enabled = off;
SELECT idem_acquire('switch: k');
\set VERBOSITY terse
SELECT idem_start('switch: k');
SELECT * FROM idem_acquire_many(ARRAY['switch: k', 'switch: l']);
SELECT idem_call('switch: k', 'switch_handle(jsonb)', '{}');
SELECT idem_http('switch_handle(jsonb)', '{}');
SELECT idem_once('switch: k');
SELECT idem_transact('switch: k', '[]');
INSERT INTO switch_guarded VALUES (1);
SELECT idem_complete('switch: before', '1', immediate => true);
SELECT action_create();
SELECT * FROM action_create_many('[{}]');
SELECT action_get('switch: before');
SELECT action_consume('switch: before');
SELECT action_cancel('switch: before');
\set VERBOSITY default
\echo requests: `curl -s "$EO_CONTROL/count"`
-- A claim can be completed by a commit, extended, failed and given back; keys can be looked up, and views and checks work.
BEGIN;
SELECT idem_complete('switch: before', '1');
COMMIT;
CALL await_worker();
SELECT status, result FROM idem_get('switch: before');
SELECT idem_extend('switch: held', '1 minute') > now() AS extended;
SELECT idem_release('switch: held');
SELECT count(*) FROM exactonce_pending;
SELECT "check", status, detail, advice FROM idem_check() WHERE "check" IN ('enabled', 'round trip') AND status <> 'ok';
SET exactonce.enabled = on;
SELECT outcome FROM idem_acquire('switch: k', on_commit => 'keep');
SELECT idem_release('switch: k');
-- A transaction that has completed keys can commit.
BEGIN;
SELECT outcome FROM idem_acquire('switch: tx');
SELECT idem_complete('switch: tx', '2');
SELECT idem_once('switch: once');
SET exactonce.enabled = off;
COMMIT;
CALL await_worker();
SELECT result FROM idem_get('switch: tx');
SELECT status FROM idem_get('switch: once');
RESET exactonce.enabled;
DROP TABLE switch_guarded;
DROP FUNCTION switch_handle;
