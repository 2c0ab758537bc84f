-- A key and the transaction that works under it.
\pset null NULL
SET client_min_messages = warning;
CREATE TABLE work (key text, n int);

-- A key is completed by the commit, and only by it.
BEGIN;
SELECT outcome, run FROM idem_acquire('tx1');
INSERT INTO work VALUES ('tx1', 1);
SELECT idem_complete('tx1', '{"n": 1}');
-- The transaction itself sees the key as completed.
SELECT outcome, result, mine, replayed FROM idem_acquire('tx1');
SELECT status, result FROM idem_get('tx1');
SELECT idem_complete('tx1', '{"n": 1}');
\set VERBOSITY terse
SAVEPOINT s;
SELECT idem_complete('tx1', '{"n": 2}');
ROLLBACK TO s;
SELECT idem_fail('tx1');
ROLLBACK TO s;
SELECT idem_once('tx1');
ROLLBACK TO s;
\set VERBOSITY default
COMMIT;
SELECT outcome, result FROM idem_acquire('tx1');

-- After a rollback the key is free at once, and the run counts.
BEGIN;
SELECT outcome, run FROM idem_acquire('tx2');
SELECT idem_complete('tx2', '"never"');
ROLLBACK;
BEGIN;
SELECT outcome, run, result FROM idem_acquire('tx2');
ROLLBACK;
SELECT runs, result FROM idem_get('tx2');

-- A transaction with a claim that is not settled cannot commit.
BEGIN;
SELECT outcome, run FROM idem_acquire('tx3');
INSERT INTO work VALUES ('tx3', 1);
COMMIT;
SELECT count(*) FROM work WHERE key = 'tx3';
-- With on_commit => 'keep' it can, and another transaction completes the key.
BEGIN;
SELECT outcome, run FROM idem_acquire('tx3', on_commit => 'keep');
COMMIT;
BEGIN;
INSERT INTO work VALUES ('tx3', 1);
SELECT idem_complete('tx3', '3');
ROLLBACK;
SELECT status, result FROM idem_get('tx3');
BEGIN;
INSERT INTO work VALUES ('tx3', 1);
SELECT idem_complete('tx3', '3');
COMMIT;
SELECT outcome, result FROM idem_acquire('tx3');
-- With on_commit => 'session' the session keeps it, also after a rollback of what completes it.
BEGIN;
SELECT outcome, run FROM idem_acquire('tx3: session', on_commit => 'session');
COMMIT;
SELECT state, pid = pg_backend_pid() AS mine, lease_until > now() AS held FROM exactonce_claims WHERE key = 'tx3: session';
SELECT outcome, mine FROM idem_acquire('tx3: session');
BEGIN;
SELECT idem_complete('tx3: session', '3');
ROLLBACK;
SELECT count(*) FROM exactonce_claims WHERE key = 'tx3: session' AND state = 'session';
BEGIN;
SELECT idem_complete('tx3: session', '4');
COMMIT;
SELECT count(*) FROM exactonce_claims WHERE key = 'tx3: session' AND state = 'session';
SELECT outcome, result FROM idem_acquire('tx3: session');
SELECT outcome FROM idem_acquire_many(ARRAY['tx3: a', 'tx3: b', 'tx3: c'], on_commit => 'session');
SELECT idem_start('tx3: d', on_commit => 'session');
SELECT idem_release('tx3: a');
BEGIN;
SELECT idem_fail('tx3: b', '"no"', terminal => true);
ROLLBACK;
SELECT key FROM exactonce_claims WHERE state = 'session' ORDER BY key;
BEGIN;
SELECT outcome FROM idem_acquire('tx3: e', on_commit => 'session');
ROLLBACK;
DROP SERVER exactonce CASCADE;
DISCARD ALL;
SELECT count(*) FROM exactonce_claims WHERE state = 'session';
SELECT idem_acquire('x', on_commit => 'session', on_abort => 'hold');
-- A statement of its own keeps its claim, with a warning if it has written.
WITH w AS (INSERT INTO work VALUES ('tx4', 1) RETURNING key) SELECT outcome FROM w, idem_acquire(w.key);
SELECT idem_complete('tx4');

-- A savepoint that is rolled back drops the claims and completions of its own level only.
BEGIN;
SELECT outcome, run FROM idem_acquire('sp1');
SAVEPOINT a;
SELECT idem_complete('sp1', '"undone"');
SELECT outcome, run FROM idem_acquire('sp2');
SAVEPOINT b;
SELECT outcome, run FROM idem_acquire('sp3');
RELEASE b;
ROLLBACK TO a;
SELECT outcome, mine FROM idem_acquire('sp1');
SELECT outcome, run FROM idem_acquire('sp2');
SELECT idem_complete('sp2', '"second"');
SELECT idem_complete('sp1', '"first"');
RELEASE a;
COMMIT;
SELECT outcome, result FROM idem_acquire('sp1');
SELECT outcome, result FROM idem_acquire('sp2');
SELECT outcome, run FROM idem_acquire('sp3');
SELECT idem_release('sp3');

-- Exception blocks, three deep.
DO $$
DECLARE
	o text;
BEGIN
	BEGIN
		BEGIN
			BEGIN
				o := (idem_acquire('ex1')).outcome;
				INSERT INTO work VALUES ('ex1', 3);
				PERFORM idem_complete('ex1', '3');
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
				o := (idem_acquire('ex1')).outcome;
				INSERT INTO work VALUES ('ex1', 2);
				PERFORM idem_complete('ex1', '2');
			END;
			RAISE EXCEPTION 'again';
		EXCEPTION WHEN raise_exception THEN
			o := (idem_acquire('ex1')).outcome;
			INSERT INTO work VALUES ('ex1', 1);
			PERFORM idem_complete('ex1', '1');
		END;
	END;
END $$;
SELECT outcome, run, result FROM idem_acquire('ex1');
SELECT n FROM work WHERE key = 'ex1';

-- What idem_fail() and idem_release() say outlives the rollback.
BEGIN;
SELECT outcome FROM idem_acquire('bad1');
SELECT idem_fail('bad1', '"no such account"', retry_after => '1 hour');
SELECT outcome, run FROM idem_acquire('bad1');
SELECT status, runs, error FROM idem_get('bad1');
ROLLBACK;
SELECT outcome, run, error FROM idem_acquire('bad1');
BEGIN;
SELECT outcome FROM idem_acquire('bad2');
SELECT idem_fail('bad2', '"for good"', terminal => true);
COMMIT;
SELECT outcome, run, error FROM idem_acquire('bad2');
BEGIN;
SELECT outcome, run FROM idem_acquire('given back');
SELECT idem_release('given back');
SELECT idem_release('given back');
-- Until its end the transaction can claim again what it has released.
SELECT outcome, run FROM idem_acquire('given back');
SELECT idem_release('given back');
COMMIT;
SELECT outcome, run FROM idem_acquire('given back');
SELECT idem_release('given back');
-- After a rollback a token can still fail the claim.
BEGIN;
SELECT token AS t FROM idem_acquire('bad3') \gset
ROLLBACK;
SELECT idem_fail('bad3', '"why"', terminal => true, token => :'t');
SELECT outcome, error FROM idem_acquire('bad3');

-- A kept claim that the transaction releases cannot be claimed again by it.
SELECT outcome FROM idem_acquire('kept');
BEGIN;
SELECT idem_release('kept');
SELECT outcome, mine FROM idem_acquire('kept');
COMMIT;
SELECT outcome, run FROM idem_acquire('kept');
SELECT idem_release('kept');
-- An exception block is no transaction block.
DO $$
BEGIN
	BEGIN
		PERFORM idem_acquire('in a handler');
	EXCEPTION WHEN division_by_zero THEN
		NULL;
	END;
END $$;
SELECT status FROM idem_get('in a handler');
SELECT idem_complete('in a handler');
-- A completion can be repeated with immediate => true.
BEGIN;
SELECT outcome FROM idem_acquire('twice');
SELECT idem_complete('twice', '1');
SELECT idem_complete('twice', '1', immediate => true);
ROLLBACK;

-- With on_abort => 'hold' a rollback leaves the lease, because the work had an effect outside.
BEGIN;
SELECT outcome FROM idem_acquire('held', on_abort => 'hold', lease => '1 hour');
ROLLBACK;
SELECT outcome, lease_until > now() + '59 min' AS lease FROM idem_acquire('held');

-- With immediate => true a rollback undoes nothing.
BEGIN;
SELECT outcome FROM idem_acquire('now1');
SELECT idem_complete('now1', '"done outside"', immediate => true);
ROLLBACK;
SELECT outcome, result FROM idem_acquire('now1');
BEGIN;
SELECT outcome FROM idem_acquire('now2');
SELECT idem_fail('now2', '"outside"', terminal => true, immediate => true);
ROLLBACK;
SELECT outcome, error FROM idem_acquire('now2');

-- idem_once() claims the key by the commit.
BEGIN;
SELECT idem_once('once1', '"a"');
SELECT outcome, result FROM idem_acquire('once1');
SELECT status, result, runs FROM idem_get('once1');
ROLLBACK;
SELECT idem_get('once1');
BEGIN;
SELECT idem_once('once1', '"b"', retention => '1 hour');
SELECT idem_once('once2');
COMMIT;
SELECT status, result, runs, expires_at - updated_at <= '1 hour 2 s' AS retention FROM idem_get('once1');
-- A duplicate fails the commit, or the call while the row of the first is in the outbox.
CALL await_worker();
\set VERBOSITY sqlstate
BEGIN;
INSERT INTO work VALUES ('once', 2);
SELECT idem_once('once1', '"c"');
COMMIT;
SELECT count(*) FROM work WHERE key = 'once';
SELECT outcome FROM idem_acquire('once3', lease => '1 hour');
\c -
SET client_min_messages = warning;
\set VERBOSITY sqlstate
SELECT idem_once('once3');
SELECT idem_once('bad1');
SELECT idem_once('bad2');
SELECT idem_once(''), idem_once(NULL);
\set VERBOSITY default

-- Many keys at a time.
BEGIN;
SELECT count(*) FROM generate_series(1, 100) i, idem_acquire('many' || i) c WHERE c.outcome = 'acquired';
SELECT idem_complete_many(ARRAY(SELECT 'many' || i FROM generate_series(1, 100) i),
						  ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 100) i));
COMMIT;
SELECT sum(result::int) FROM generate_series(1, 100) i, idem_acquire('many' || i);
SELECT idem_complete_many(ARRAY['a', 'b'], ARRAY['1'::jsonb]);
SELECT idem_complete_many(ARRAY['a', NULL]);
SELECT idem_complete_many(NULL);
SELECT idem_complete_many('{}');

-- A call whose row is expanded into columns makes one claim.
SELECT (idem_acquire('star')).outcome, (idem_acquire('star')).run;
SELECT (a).outcome, (a).run, (a).mine FROM (SELECT idem_acquire('star') AS a OFFSET 0) s;
BEGIN;
SELECT (idem_acquire(k)).outcome, (idem_acquire(k)).run FROM (VALUES ('star1'), ('star2'), ('star1')) v(k);
ROLLBACK;

-- Words that on_abort and on_commit do not know.
SELECT idem_acquire('x', on_abort => 'explode');
SELECT idem_acquire('x', on_commit => 'maybe');

-- A procedure that commits in a loop.
CREATE PROCEDURE all_of_them() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..20 LOOP
		IF idem_start('proc' || i) THEN
			INSERT INTO work VALUES ('proc', i);
			PERFORM idem_complete('proc' || i);
		END IF;
		IF i % 5 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CALL all_of_them();
CALL all_of_them();
SELECT count(*), count(DISTINCT n) FROM work WHERE key = 'proc';

-- A deferred trigger completes a key.
CREATE TABLE later (key text);
CREATE FUNCTION complete_later() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN PERFORM idem_complete(NEW.key, ''"deferred"''); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION complete_later();
BEGIN;
SELECT outcome FROM idem_acquire('deferred');
INSERT INTO later VALUES ('deferred');
COMMIT;
SELECT outcome, result FROM idem_acquire('deferred');

-- PREPARE TRANSACTION seals its keys, which are in progress until it has ended.
BEGIN;
SELECT outcome FROM idem_acquire('prepared');
SELECT idem_complete('prepared', '"two phases"');
SELECT idem_once('prepared once');
PREPARE TRANSACTION 'p';
SELECT outcome, lease_until FROM idem_acquire('prepared');
SELECT outcome FROM idem_acquire('prepared once');
SELECT idem_once('prepared once');
SELECT status FROM idem_get('prepared');
SELECT key, state, pid, gid, prepared_at = (SELECT prepared FROM pg_prepared_xacts) AS since
FROM exactonce_claims WHERE state = 'prepared' ORDER BY key;
COMMIT PREPARED 'p';
SELECT outcome, result FROM idem_acquire('prepared');
SELECT outcome FROM idem_acquire('prepared once');

-- ROLLBACK PREPARED gives them back.
BEGIN;
SELECT outcome FROM idem_acquire('rolled back');
SELECT idem_complete('rolled back');
PREPARE TRANSACTION 'p';
ROLLBACK PREPARED 'p';
SELECT outcome, run FROM idem_acquire('rolled back');
SELECT idem_release('rolled back');

-- What idem_fail() says takes effect when the prepared transaction has ended, in either way.
BEGIN;
SELECT outcome FROM idem_acquire('prepared to fail');
SELECT idem_fail('prepared to fail', '"no"', terminal => true);
PREPARE TRANSACTION 'p';
SELECT outcome FROM idem_acquire('prepared to fail');
ROLLBACK PREPARED 'p';
SELECT outcome, error FROM idem_acquire('prepared to fail');

-- A transaction with a claim that is not settled is not prepared, and one that cannot be gives its keys back.
BEGIN;
SELECT outcome FROM idem_acquire('not settled');
PREPARE TRANSACTION 'p';
CREATE TEMP TABLE cannot_be_prepared (i int);
BEGIN;
SELECT outcome FROM idem_acquire('not prepared');
SELECT idem_complete('not prepared');
INSERT INTO cannot_be_prepared VALUES (1);
PREPARE TRANSACTION 'p';
SELECT outcome, run FROM idem_acquire('not prepared');
SELECT idem_release('not prepared');

-- One with a claim of the session is not prepared, whether the transaction has made the claim or settles it.
BEGIN;
SELECT outcome FROM idem_acquire('of the session', on_commit => 'session');
PREPARE TRANSACTION 'p';
SELECT outcome FROM idem_acquire('of the session', on_commit => 'session');
BEGIN;
SELECT idem_complete('of the session');
PREPARE TRANSACTION 'p';
SELECT idem_release('of the session');

-- Other transactions can be prepared.
BEGIN;
INSERT INTO work VALUES ('p', 0);
PREPARE TRANSACTION 'p';
ROLLBACK PREPARED 'p';

-- A claim in a read-only transaction is refused.
BEGIN READ ONLY;
SELECT idem_acquire('read only');
ROLLBACK;

-- A changed outbox is not used.  Each change is undone in the transaction that makes
-- it, so that the worker does not see it and end.
SELECT outcome FROM idem_acquire('meddled');
BEGIN;
CREATE TRIGGER meddle BEFORE INSERT ON exactonce_internal.outbox FOR EACH ROW EXECUTE FUNCTION complete_later();
SELECT idem_complete('meddled');
ROLLBACK;
BEGIN;
ALTER TABLE exactonce_internal.outbox SET UNLOGGED;
SELECT idem_complete('meddled');
ROLLBACK;
BEGIN;
ALTER TABLE exactonce_internal.outbox ENABLE ROW LEVEL SECURITY;
SELECT idem_complete('meddled');
ROLLBACK;
SELECT idem_complete('meddled');

-- What unfinished keys need cannot be dropped, and the outbox cannot be truncated.
BEGIN;
SELECT outcome FROM idem_acquire('in use');
\set VERBOSITY terse
SAVEPOINT s;
DROP SERVER exactonce CASCADE;
ROLLBACK TO s;
DROP USER MAPPING FOR PUBLIC SERVER exactonce;
ROLLBACK TO s;
DROP EXTENSION exactonce CASCADE;
ROLLBACK TO s;
TRUNCATE exactonce_internal.outbox;
ROLLBACK TO s;
SELECT database = current_database() AS here, server, role = current_user AS mine, key, state,
	pid = pg_backend_pid() AS own, run
FROM exactonce_claims WHERE state = 'held';
ROLLBACK;

-- idem_resolve() decides only what nobody knows better.
\set VERBOSITY default
SELECT idem_resolve('tx1', 'failed');
SELECT idem_resolve('tx1', 'gone');
SELECT idem_resolve('tx1', NULL);
SELECT '{"TableName": "regress", "Item": {"pk": {"S": "IDEMPOTENCY#test/doubt"}, "status": {"S": "COMMITTING"},
	"owner": {"S": "x"}, "bind": {"S": "tx"}, "result": {"S": "1"}, "fence": {"N": "1"}, "runs": {"N": "1"},
	"origin": {"S": "00000000-0000-4000-8000-000000000000/1/1/0"}}}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh PutItem >/dev/null
SELECT outcome, lease_until FROM idem_acquire('doubt');
SELECT idem_forget('doubt');
SELECT idem_resolve('doubt', 'completed');
SELECT idem_resolve('doubt', 'completed', origin => '00000000-0000-4000-8000-000000000000');
SELECT outcome, result FROM idem_acquire('doubt');
-- A record in doubt that names no transaction, and one that names a transaction which never was.
SELECT '{"TableName": "regress", "Item": {"pk": {"S": "IDEMPOTENCY#test/nameless"}, "status": {"S": "COMMITTING"},
	"owner": {"S": "x"}, "bind": {"S": "tx"}, "fence": {"N": "1"}, "runs": {"N": "1"}}}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh PutItem >/dev/null
SELECT outcome FROM idem_acquire('nameless');
SELECT idem_resolve('nameless', 'failed');
-- A claim of that key can be rolled back.
BEGIN;
SELECT outcome, run FROM idem_acquire('nameless');
ROLLBACK;
SELECT outcome, run FROM idem_acquire('nameless');
SELECT format('{"TableName": "regress", "Item": {"pk": {"S": "IDEMPOTENCY#test/future"}, "status": {"S": "COMMITTING"},
	"owner": {"S": "x"}, "bind": {"S": "tx"}, "result": {"S": "2"}, "fence": {"N": "1"}, "runs": {"N": "1"},
	"origin": {"S": "%s/99999999/1/0"}}}', id) FROM exactonce_internal.lives ORDER BY number DESC LIMIT 1
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh PutItem >/dev/null
SELECT outcome FROM idem_acquire('future');
SELECT outcome FROM idem_acquire('future');
SELECT key FROM exactonce_in_doubt;
SELECT idem_resolve('future', 'completed');
SELECT outcome, result FROM idem_acquire('future');
SELECT key FROM exactonce_in_doubt;
DROP TABLE work, later;
