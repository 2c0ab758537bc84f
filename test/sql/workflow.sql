-- idem_call() with handlers, guards, and batches of keys.
\set VERBOSITY terse
CREATE TABLE done (what text, n int);
CREATE FUNCTION add_up(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO done VALUES (payload->>'what', (payload->>'n')::int);
	RETURN jsonb_build_object('sum', (SELECT sum(n) FROM done WHERE what = payload->>'what'));
END $$;

-- A handler runs once.
SELECT idem_call('call', 'add_up(jsonb)', '{"what": "call", "n": 3}');
SELECT idem_call('call', 'add_up(jsonb)', '{"what": "call", "n": 3}');
SELECT count(*) FROM done WHERE what = 'call';
SELECT idem_call('call', 'add_up(jsonb)', '{"what": "call", "n": 4}');
-- The handler gets the whole payload, whatever is compared.
SELECT idem_call('compared', 'add_up(jsonb)', '{"what": "compared", "n": 3}', compare => '{$.what}');
SELECT idem_call('compared', 'add_up(jsonb)', '{"what": "compared", "n": 4}', compare => '{$.what}');
SELECT idem_call('compared', 'add_up(jsonb)', '{"what": "call", "n": 3}', compare => '{$.what}');

-- The same key for another handler is an error that names both, whatever has become of it.
CREATE SCHEMA "Other Work";
CREATE FUNCTION "Other Work".take(payload jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT to_jsonb('taken'::text) $$;
\set VERBOSITY default
SELECT idem_call('call', '"Other Work".take(jsonb)', '{"what": "call", "n": 3}');
BEGIN;
SELECT idem_call('twice', 'add_up(jsonb)');
SELECT idem_call('twice', '"Other Work".take(jsonb)');
ROLLBACK;
\set VERBOSITY terse
-- A key that was given back, or failed, stays that handler's, also after a claim without one.
SELECT idem_call('twice', '"Other Work".take(jsonb)');
SELECT outcome FROM idem_acquire('twice');
SELECT idem_fail('twice');
SELECT idem_call('twice', '"Other Work".take(jsonb)');
SELECT idem_forget('twice');
SELECT idem_call('twice', '"Other Work".take(jsonb)');
-- A key that was claimed without a handler is everybody's.
BEGIN;
SELECT outcome FROM idem_acquire('of nobody');
SELECT idem_complete('of nobody', '1');
COMMIT;
SELECT idem_call('of nobody', 'add_up(jsonb)'), idem_call('of nobody', '"Other Work".take(jsonb)');
-- It goes by the names, and not by what they mean at the moment.
DROP FUNCTION "Other Work".take(jsonb);
CREATE FUNCTION "Other Work".take(payload jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT to_jsonb('put back'::text) $$;
SELECT idem_call('twice', '"Other Work".take(jsonb)');
-- The longest names that there are differ in their last letter.
DO $do$
BEGIN
	EXECUTE format('CREATE SCHEMA %I', repeat('"', 63));
	FOR i IN 1 .. 2 LOOP
		EXECUTE format('CREATE FUNCTION %I.%I(jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT to_jsonb(%s) $$',
			repeat('"', 63), repeat('"', 62) || i, i);
	END LOOP;
END $do$;
SELECT idem_call('long names', oid) FROM pg_proc WHERE proname LIKE '"%1';
SELECT idem_call('long names', oid) FROM pg_proc WHERE proname LIKE '"%1';
SELECT idem_call('long names', oid) FROM pg_proc WHERE proname LIKE '"%2';

-- A handler whose transaction is rolled back has not run.
BEGIN;
SELECT idem_call('rolled back', 'add_up(jsonb)', '{"what": "rolled back", "n": 1}');
SELECT idem_call('rolled back', 'add_up(jsonb)', '{"what": "rolled back", "n": 1}');
ROLLBACK;
SELECT idem_call('rolled back', 'add_up(jsonb)', '{"what": "rolled back", "n": 1}');

-- An error undoes the work of the handler only, and is remembered.
CREATE FUNCTION fails(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO done VALUES ('fails', 1);
	RAISE EXCEPTION 'cannot parse %', payload->>'what' USING ERRCODE = 'DP001', DETAIL = 'it has no date';
END $$;
SELECT idem_call('fails', 'fails(jsonb)', '{"what": "this"}');
SELECT status, runs, error->>'sqlstate' AS sqlstate, error->>'message' AS message, error->>'detail' AS detail,
	error->>'context' LIKE 'PL/pgSQL function fails(jsonb)%' AS context
FROM idem_get('fails');
BEGIN;
INSERT INTO done VALUES ('beside', 1);
SELECT idem_call('fails too', 'fails(jsonb)', '{"what": "that"}', on_error => 'return');
COMMIT;
SELECT what FROM done WHERE what IN ('fails', 'beside');
SELECT idem_call('fails', 'fails(jsonb)', '{"what": "this"}', max_runs => 2);
SELECT idem_call('fails', 'fails(jsonb)', '{"what": "this"}', max_runs => 2);
SELECT idem_forget('fails');
SELECT idem_call('fails', 'add_up(jsonb)', '{"what": "this", "n": 1}');

-- A serialization failure is no failure of the handler: no run is counted.
CREATE FUNCTION unlucky(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = payload->>'code';
END $$;
SELECT idem_call('unlucky', 'unlucky(jsonb)', '{"code": "40001"}', on_error => 'return');
SELECT idem_call('unlucky', 'unlucky(jsonb)', '{"code": "40001"}');
SELECT outcome, run FROM idem_acquire('unlucky', payload => '{"code": "40001"}');
SELECT idem_release('unlucky');

-- Nor is an error of the machine, ten times in a row.
CREATE FUNCTION machine(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('test.code') = '' THEN
		RETURN '"done"';
	END IF;
	RAISE EXCEPTION USING ERRCODE = current_setting('test.code');
END $$;
CREATE FUNCTION tried(key text, code text, max_runs int DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('test.code', code, false);
	RETURN idem_call(key, 'machine(jsonb)', max_runs => max_runs);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT tried('full', code, 1)
FROM unnest('{53100, 53200, 08000, 08006, 57P01, 57P02, 57P03, 57P04, 57P05, 53100}'::text[]) code;
SELECT status, runs FROM idem_get('full');
SELECT tried('full', '53100', 1), tried('full', '', 1);
SELECT status, runs, error->>'sqlstate' AS sqlstate FROM idem_get('full');
SELECT tried('full', '', 2);
-- The row begins anew with an error of the work, and when the key is forgotten.
SELECT count(tried('in a row', '53200')) FROM generate_series(1, 10);
SELECT tried('in a row', 'P0001');
SELECT count(tried('in a row', '53200')) FROM generate_series(1, 10);
SELECT status, runs FROM idem_get('in a row');
SELECT idem_forget('in a row');
SELECT count(tried('in a row', '53200')) FROM generate_series(1, 10);
SELECT status, runs FROM idem_get('in a row');
SELECT tried('in a row', '40001');
SELECT status, runs FROM idem_get('in a row');
SELECT tried('in a row', '53200');
SELECT status, runs FROM idem_get('in a row');
-- Such an error is raised, whatever on_error says.
SELECT set_config('test.code', '53100', false);
SELECT idem_call('shown', 'machine(jsonb)', on_error => 'return');
-- More connections than there may be are no such error.
SELECT tried('too many', '53300');
SELECT status, runs FROM idem_get('too many');

-- A result that cannot be stored is an error of the handler, for good.
CREATE FUNCTION too_much(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO done VALUES ('too much', 1);
	RETURN to_jsonb(repeat('x', 500000));
END $$;
SELECT idem_call('too much', 'too_much(jsonb)', max_runs => 3);
SELECT status, runs, retry_at, error->>'sqlstate' AS sqlstate, error->>'message' AS message,
	error->>'detail' LIKE 'As text it has 500002 bytes%' AS detail, result
FROM idem_get('too much');
SELECT idem_call('too much', 'too_much(jsonb)', max_runs => 3);
BEGIN;
INSERT INTO done VALUES ('beside too much', 1);
SELECT idem_call('too much too', 'too_much(jsonb)', on_error => 'return') IS NULL AS returned;
COMMIT;
SELECT what FROM done WHERE what IN ('too much', 'beside too much');
SELECT outcome, run, error->>'sqlstate' AS sqlstate FROM idem_acquire('too much too');
-- An error of the same class that the handler raises itself can be retried.
CREATE FUNCTION limited(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '54000';
END $$;
SELECT idem_call('limited', 'limited(jsonb)', on_error => 'return') IS NULL AS returned;
SELECT status, runs, retry_at IS NOT NULL AS may_be_retried FROM idem_get('limited');

-- A handler may call another handler, and not itself with its own key.
CREATE FUNCTION nested(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	RETURN jsonb_build_array(idem_call(payload->>'key', 'add_up(jsonb)', '{"what": "nested", "n": 1}'));
END $$;
SELECT idem_call('outer', 'nested(jsonb)', '{"key": "inner"}');
SELECT key, (idem_get(key)).status FROM unnest(ARRAY['outer', 'inner']) key;
CREATE FUNCTION itself(payload jsonb) RETURNS jsonb LANGUAGE sql AS
	$$SELECT idem_call('self', 'itself(jsonb)', payload)$$;
SELECT idem_call('self', 'itself(jsonb)', '1');

-- SQL NULL is a result of a handler.
CREATE FUNCTION nothing(payload jsonb) RETURNS jsonb LANGUAGE sql AS
	'INSERT INTO done VALUES (''nothing'', 1) RETURNING NULL::jsonb';
SELECT idem_call('nothing', 'nothing(jsonb)');
SELECT idem_call('nothing', 'nothing(jsonb)');
SELECT count(*) FROM done WHERE what = 'nothing';

-- Functions that are no handlers.
CREATE FUNCTION strict(payload jsonb) RETURNS jsonb LANGUAGE sql STRICT AS 'SELECT payload';
CREATE FUNCTION words(payload jsonb) RETURNS text LANGUAGE sql AS 'SELECT payload::text';
CREATE FUNCTION secret(payload jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT payload';
REVOKE EXECUTE ON FUNCTION secret FROM PUBLIC;
SELECT idem_call('no handler', 'strict(jsonb)');
SELECT idem_call('no handler', 'words(jsonb)');
SELECT idem_call('no handler', 'now()');
SELECT idem_call('no handler', 'jsonb_agg(anyelement)');
SELECT idem_call('no handler', NULL);
SELECT idem_call('no handler', 'strict(jsonb)', '1', on_error => 'ignore');
CREATE ROLE regress_caller;
GRANT USAGE ON FOREIGN SERVER exactonce TO regress_caller;
SET ROLE regress_caller;
SELECT idem_call('no handler', 'secret(jsonb)');
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER exactonce FROM regress_caller;
DROP ROLE regress_caller;
SELECT idem_get('no handler') IS NULL AS untouched;

-- A guard acts like a unique index over all services.
CREATE TABLE guarded (id text, n int);
CREATE TRIGGER once AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=event/');
INSERT INTO guarded VALUES ('e1', 1), ('e2', 2);
SELECT status FROM idem_get('event/e1');
DO $$
DECLARE
	s text; t text; c text;
BEGIN
	INSERT INTO guarded VALUES ('e3', 3), ('e1', 4);
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = CONSTRAINT_NAME;
	RAISE EXCEPTION 'duplicate: % % %', s, t, c;
END $$;
INSERT INTO guarded VALUES ('e3', 3);
BEGIN;
INSERT INTO guarded VALUES ('e4', 4);
INSERT INTO guarded VALUES ('e4', 5);
ROLLBACK;
SELECT outcome FROM idem_acquire('event/e5');
INSERT INTO guarded VALUES ('e5', 5);
SELECT idem_complete('event/e5');
INSERT INTO guarded VALUES (NULL, 6);
INSERT INTO guarded VALUES ('', 6);
INSERT INTO guarded VALUES ('e4', 4);
SELECT id, n FROM guarded ORDER BY id;

-- JSON's null is no key.
CREATE TABLE guarded_json (id jsonb);
CREATE TRIGGER once AFTER INSERT ON guarded_json FOR EACH ROW EXECUTE FUNCTION idem_guard('id');
INSERT INTO guarded_json VALUES ('null');
DROP TABLE guarded_json;

-- A guard at commit claims all keys at once.
DROP TRIGGER once ON guarded;
CREATE TRIGGER once AFTER INSERT ON guarded FOR EACH ROW
	EXECUTE FUNCTION idem_guard('id', 'prefix=event/', 'at=commit');
INSERT INTO guarded SELECT 'c' || i, i FROM generate_series(1, 50) i;
-- A duplicate is refused at once as long as the row of the first one is there, and by
-- the commit after that.
CALL await_worker();
BEGIN;
INSERT INTO guarded VALUES ('c51', 51);
INSERT INTO guarded VALUES ('c7', 7);
COMMIT;
BEGIN;
INSERT INTO guarded VALUES ('c51', 51);
INSERT INTO guarded VALUES ('c51', 51);
COMMIT;
-- The key of another run is in progress.
SELECT outcome FROM idem_acquire('event/c52');
INSERT INTO guarded VALUES ('c52', 52);
SELECT idem_complete('event/c52');
SELECT count(*) FROM guarded WHERE id LIKE 'c%';

-- A guard that skips leaves duplicates out.
CREATE TABLE inbox (a int, b text, g text GENERATED ALWAYS AS (b || '!') STORED);
CREATE TRIGGER once BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION idem_guard('a', 'b', 'on_duplicate=skip');
INSERT INTO inbox VALUES (1, 'x'), (2, 'x'), (1, 'x') RETURNING *;
INSERT INTO inbox VALUES (2, 'x'), (3, 'x') RETURNING *;
COPY inbox (a, b) FROM stdin;
1	x
4	y
3	x
\.
SELECT a, b FROM inbox ORDER BY a;
SELECT status FROM idem_get(idem_key(4, 'y'::text));

-- An UPDATE of the key columns claims the new key, and the old one stays claimed.
CREATE TABLE renamed (id text, n int);
CREATE TRIGGER once AFTER INSERT OR UPDATE OF id ON renamed FOR EACH ROW
	EXECUTE FUNCTION idem_guard('id', 'prefix=renamed/');
INSERT INTO renamed VALUES ('a', 1), ('b', 1);
UPDATE renamed SET id = 'c' WHERE id = 'a';
UPDATE renamed SET id = id, n = 2;
UPDATE renamed SET id = 'c' WHERE id = 'b';
INSERT INTO renamed VALUES ('a', 2);
SELECT id, n, r.status FROM renamed, idem_get('renamed/' || id) r ORDER BY id;
DROP TABLE renamed;

-- Guards with ON CONFLICT, a long retention and partitions.
CREATE TABLE ids (id int PRIMARY KEY);
CREATE TRIGGER once AFTER INSERT ON ids FOR EACH ROW
	EXECUTE FUNCTION idem_guard('id', 'prefix=ids/', 'retention=3000 days');
INSERT INTO ids VALUES (1);
INSERT INTO ids VALUES (1), (2) ON CONFLICT DO NOTHING;
INSERT INTO ids VALUES (2) ON CONFLICT (id) DO UPDATE SET id = 3;
SELECT id, r.status, r.expires_at > now() + '2999 days' AS lasts FROM ids, idem_get('ids/' || id) r ORDER BY id;
CREATE TABLE wf_parts (id int, region text) PARTITION BY LIST (region);
CREATE TABLE wf_parts_eu PARTITION OF wf_parts FOR VALUES IN ('eu');
CREATE TABLE wf_parts_us PARTITION OF wf_parts FOR VALUES IN ('us');
CREATE TRIGGER once AFTER INSERT ON wf_parts FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=parts/');
INSERT INTO wf_parts VALUES (1, 'eu'), (2, 'us');
INSERT INTO wf_parts VALUES (1, 'us');
-- A row that moves to another partition is inserted there: the guard refuses it, and it stays.
UPDATE wf_parts SET region = 'us' WHERE id = 1;
SELECT id, region FROM wf_parts ORDER BY id;
DROP TRIGGER once ON wf_parts;
CREATE TRIGGER once BEFORE INSERT ON wf_parts FOR EACH ROW
	EXECUTE FUNCTION idem_guard('id', 'prefix=parts/', 'on_duplicate=skip');
INSERT INTO wf_parts VALUES (3, 'eu');

-- Triggers with wrong arguments say so when they are fired.
CREATE TABLE bad (id text, g text GENERATED ALWAYS AS (id) STORED);
\set VERBOSITY default
CREATE TRIGGER t AFTER INSERT ON bad FOR EACH ROW EXECUTE FUNCTION idem_guard();
INSERT INTO bad VALUES ('1');
\set VERBOSITY terse
CREATE FUNCTION try_guard(timing text, args text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d text; m text;
BEGIN
	EXECUTE format('CREATE OR REPLACE TRIGGER t %s ON bad %s EXECUTE FUNCTION idem_guard(%s)', timing,
		CASE WHEN timing LIKE '%STATEMENT' THEN '' ELSE 'FOR EACH ROW' END, args);
	INSERT INTO bad VALUES ('wf-bad');
	UPDATE bad SET id = 'worse';
	RETURN 'works';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || COALESCE(NULLIF(d, ''), m);
END $$;
SELECT args, timing, try_guard(timing, args) FROM (VALUES
	('AFTER INSERT', $$'nope'$$),
	('AFTER INSERT', $$'id', 'on_duplicate=ignore'$$),
	('AFTER INSERT', $$'id', 'at=once'$$),
	('AFTER INSERT', $$'id', 'colour=red'$$),
	('AFTER INSERT', $$'id', 'retention=long'$$),
	('AFTER INSERT', $$'id', 'retention=1 min'$$),
	('AFTER INSERT', $$'id', 'server=nowhere'$$),
	('BEFORE INSERT', $$'id'$$),
	('AFTER INSERT OR UPDATE', $$'id', 'on_duplicate=skip'$$),
	('AFTER INSERT', $$'id', 'on_duplicate=skip'$$),
	('BEFORE INSERT', $$'id', 'on_duplicate=skip', 'at=commit'$$),
	('BEFORE INSERT', $$'g', 'on_duplicate=skip'$$),
	('AFTER INSERT', $$'g'$$)) v (timing, args);
SELECT idem_guard();
-- A key is compared byte by byte, which a nondeterministic collation does not do.
CREATE COLLATION wf_any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE DOMAIN wf_email AS text COLLATE wf_any_case;
CREATE TABLE wf_emails (id int, email wf_email, folded text GENERATED ALWAYS AS (lower(email::text COLLATE "C")) STORED);
CREATE TRIGGER once AFTER INSERT ON wf_emails FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'email', 'prefix=email/');
\set VERBOSITY default
INSERT INTO wf_emails VALUES (1, 'Zoe@example.com');
\set VERBOSITY terse
DROP TRIGGER once ON wf_emails;
CREATE TRIGGER once AFTER INSERT ON wf_emails FOR EACH ROW EXECUTE FUNCTION idem_guard('folded', 'prefix=email/');
INSERT INTO wf_emails VALUES (1, 'Zoe@example.com');
INSERT INTO wf_emails VALUES (2, 'zoe@EXAMPLE.com');

-- A guard uses the rights of the table's owner and ignores exactonce.server.
CREATE ROLE regress_inserter;
GRANT INSERT ON guarded TO regress_inserter;
GRANT SET ON PARAMETER exactonce.server TO regress_inserter;
SET ROLE regress_inserter;
SET exactonce.server = 'nowhere';
INSERT INTO guarded VALUES ('by another', 1);
INSERT INTO guarded VALUES ('by another', 1);
RESET exactonce.server;
RESET ROLE;
REVOKE INSERT ON guarded FROM regress_inserter;
REVOKE SET ON PARAMETER exactonce.server FROM regress_inserter;
DROP ROLE regress_inserter;

-- idem_acquire_many() answers in the order of its keys.
SELECT key, outcome, mine, run, result
FROM idem_acquire_many(ARRAY['m1', 'm2', 'm1', 'call', 'event/e1', 'm3']) WITH ORDINALITY ORDER BY ordinality;
SELECT idem_complete_many(ARRAY['m1', 'm2', 'm3'], ARRAY['1', '2', NULL]::jsonb[]);
SELECT key, outcome, result FROM idem_acquire_many(ARRAY['m3', 'm2', 'm1']);
BEGIN;
SELECT outcome, count(*) FROM idem_acquire_many(ARRAY(SELECT 'wf-many-' || i % 900 FROM generate_series(1, 1000) i))
GROUP BY 1 ORDER BY 1;
SELECT state, count(*) FROM exactonce_claims WHERE key LIKE 'wf-many-%' GROUP BY 1;
ROLLBACK;
SELECT idem_acquire_many(ARRAY['n1', 'n1'], payloads => ARRAY['1', '2']::jsonb[]);
SELECT idem_acquire_many(ARRAY['n1', 'n2'], payloads => ARRAY['1']::jsonb[]);
SELECT idem_acquire_many(ARRAY['n1', NULL]);
SELECT idem_acquire_many(ARRAY['n1', '']);
SELECT idem_acquire_many(NULL);
SELECT * FROM idem_acquire_many('{}');
SELECT outcome, count(*) FROM idem_acquire_many(ARRAY(SELECT 'large' || i FROM generate_series(1, 10001) i)) GROUP BY 1;
-- A batch that fails leaves no claim, and no run is counted.
SELECT outcome FROM idem_acquire('f300', payload => '"other"');
SELECT count(*) FROM idem_acquire_many(ARRAY(SELECT 'f' || i FROM generate_series(1, 400) i),
	payloads => array_fill('"this"'::jsonb, ARRAY[400]));
SELECT outcome, run, count(*)
FROM idem_acquire_many(ARRAY(SELECT 'f' || i FROM generate_series(1, 299) i), wait => '20 s') GROUP BY 1, 2;
SELECT bool_and(idem_release('f' || i)) FROM generate_series(1, 300) i;
-- A duplicate at commit leaves no claim of its key, and no record of the keys after it,
-- which were not asked for.
ALTER SERVER exactonce OPTIONS (ADD parallel_requests '1', ADD batch_requests 'off');
BEGIN;
SELECT idem_once('call');
SELECT count(idem_once('never asked ' || i)) FROM generate_series(1, 100) i;
COMMIT;
SELECT count(*) FROM exactonce_claims WHERE key = 'call';
ALTER SERVER exactonce OPTIONS (DROP parallel_requests, DROP batch_requests);
SELECT count(*) FROM generate_series(1, 100) i WHERE (SELECT r IS NULL FROM idem_get('never asked ' || i) r);
-- A handler settles its own key.
CREATE FUNCTION settles(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_complete('settled', '1', immediate => true);
	IF payload = '"raise"' THEN
		RAISE EXCEPTION 'its own error';
	END IF;
	RETURN '2';
END $$;
SELECT idem_call('settled', 'settles(jsonb)', '"return"');
SELECT idem_forget('settled');
SELECT idem_call('settled', 'settles(jsonb)', '"raise"', on_error => 'return');

-- A row whose key this transaction has failed is no duplicate.
BEGIN;
SELECT outcome FROM idem_acquire(idem_key(9, 'z'::text));
SELECT idem_fail(idem_key(9, 'z'::text));
INSERT INTO inbox VALUES (9, 'z');
ROLLBACK;
-- A batch that fails gives its keys back even with on_abort => 'hold'.
SELECT outcome FROM idem_acquire('p2', payload => '1');
SELECT count(*) FROM idem_acquire_many(ARRAY['p1', 'p2'], payloads => ARRAY['2', '2']::jsonb[], on_abort => 'hold');
SELECT outcome, run FROM idem_acquire('p1', wait => '20 s');
SELECT idem_release(key) FROM unnest(ARRAY['p1', 'p2']) key;
DROP TABLE done, guarded, inbox, ids, wf_parts, bad;
DROP FUNCTION settles, add_up, fails, unlucky, nested, itself, nothing, strict, words, secret, try_guard;
