-- One-shot actions: what each function answers, and what it refuses.
\set VERBOSITY default

-- ----- created ---------------------------------------------------------------

-- By default an action is active at once and for thirty days, and has an id that nobody guesses.
SELECT outcome, http_status, id ~ '^[A-Za-z0-9_-]{22}$' AS id, active_at IS NULL AS at_once,
	expires_at - created_at BETWEEN '29 days 23:59' AND '30 days' AS life,
	abs(extract(epoch FROM created_at - now())) < 60 AS now
FROM action_create('{"user": 7}');
SELECT count(DISTINCT id) FROM action_create_many((SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 300)));

-- With an id of the caller's it can be created once.
SELECT id, outcome, http_status FROM action_create('{"by": "me"}', id => 'own');
SELECT action_create('{"by": "another"}', id => 'own');
-- A call whose row is expanded into columns creates one action.
SELECT (action_create('{}', id => 'star')).outcome;
SELECT (a).outcome, (a).http_status FROM (SELECT action_create('{}', id => 'star2') AS a OFFSET 0) s;
SELECT id1 <> id2 AS two_calls_are_two FROM (SELECT (action_create()).id, (action_create()).id) s(id1, id2);
CREATE TEMP TABLE starred AS SELECT (action_create('{"star": true}')).*;
SELECT outcome, (SELECT state FROM action_get(id)) FROM starred;
SELECT (action_consume(id)).* FROM starred \gset c_
SELECT :'c_outcome' AS outcome, :'c_payload' AS payload;

-- That holds in each place where a row can be expanded, as long as the rows are not sorted by a column.
SELECT outcome
FROM action_create_many('[{"id": "v1", "payload": 1}, {"id": "v2", "payload": 2}, {"id": "v3", "payload": 3}]');
SELECT outcome, payload, replayed
FROM (SELECT (action_consume('v1', token => gen_random_uuid(), consumer => to_jsonb(clock_timestamp()))).*) s;
SELECT column2 AS outcome, column4 AS payload FROM (VALUES ((action_consume('v2')).*)) v;
CREATE TEMP TABLE eaten (LIKE starred);
ALTER TABLE eaten DROP created_at, DROP active_at, DROP expires_at,
	ADD payload jsonb, ADD c timestamptz, ADD a timestamptz, ADD n int, ADD r bool;
INSERT INTO eaten VALUES ((action_consume('v3')).*), ((action_consume('v3')).*);
SELECT outcome, payload FROM eaten;
-- Two calls create two actions, wherever they stand.
CREATE FUNCTION code() RETURNS text LANGUAGE sql AS 'SELECT (action_create()).id';
SELECT count(DISTINCT c) FROM unnest(ARRAY[code(), code(), code()]) c;
CREATE TEMP TABLE pairs (a text DEFAULT (action_create()).id, b text DEFAULT (action_create()).id);
INSERT INTO pairs DEFAULT VALUES;
SELECT a <> b AS two FROM pairs;
DROP FUNCTION code();

-- An action without a payload differs from one with the JSON null.
SELECT outcome FROM action_create(id => 'nothing');
SELECT outcome FROM action_create('null', id => 'json null');
SELECT outcome, payload IS NULL AS none, payload FROM action_consume('nothing');
SELECT outcome, payload IS NULL AS none, payload FROM action_consume('json null');

-- Arguments that are refused.
SELECT action_create(id => '');
SELECT action_create(pin => '');
SELECT action_create(pin => repeat('1', 257));
SELECT action_create(expires_at => now() - interval '1 second');
SELECT action_create(active_at => '2199-01-02', expires_at => '2199-01-01');
SELECT action_create(expires_at => 'infinity');
SELECT action_create(active_at => '-infinity');
SELECT action_create(active_at => '20000-01-01');
SELECT action_create(id => repeat('x', 2040));
\set VERBOSITY terse
SELECT action_create(to_jsonb(repeat('x', 400000)));
SELECT action_create(server => 'nowhere');
\set VERBOSITY default
SELECT action_create(expires_at => '1970-01-01 00:00:00.0001+00');
-- The last expiry that is possible.
SELECT outcome, expires_at FROM action_create(active_at => '9999-12-30 00:00:00+00');
SELECT outcome, expires_at FROM action_create(expires_at => '9999-12-31 23:59:59.999999+00');
SELECT action_create(active_at => '9999-12-31 23:59:59.999999+00');
SELECT action_create(expires_at => '10000-01-01 00:00:00+00');
SELECT action_create(expires_at => '294276-12-31 23:59:59.999999+00');
SELECT action_create(active_at => '294276-12-31 23:59:59.999999+00');
SELECT action_create_many('[{"expires_at": "9999-12-31 23:59:59.999+00"}, {"active_at": "294276-12-31+00"}]');
-- An action whose active_at is long past is active at once.
SELECT outcome, active_at IS NULL AS at_once FROM action_create(active_at => '1900-01-01', id => 'old');
-- An action that becomes active after more than thirty days lasts for thirty days from then on.
SELECT expires_at - active_at AS life FROM action_create(active_at => now() + interval '60 days');

-- ----- many ------------------------------------------------------------------

SELECT n, id, outcome, http_status, created_at IS NOT NULL AS created, active_at, expires_at
FROM action_create_many('[
	{"id": "m1", "payload": {"n": 1}, "active_at": "2199-01-01 00:00:00+00", "expires_at": "2199-06-01T00:00:00Z"},
	{"id": "own"},
	{"id": "m3", "pin": "0042", "payload": null, "active_at": null, "expires_at": "2199-06-01 00:00:00+00"}]')
	WITH ORDINALITY a(id, outcome, http_status, created_at, active_at, expires_at, n);
SELECT outcome, attempts_left FROM action_consume('m3', '42');
SELECT outcome FROM action_consume('m3', '0042');
SELECT * FROM action_create_many('[]');
-- Actions from a table, as COPY would have filled it.
CREATE TEMP TABLE coupons (id text, payload jsonb, expires_at timestamptz);
INSERT INTO coupons
SELECT 'coupon' || i, jsonb_build_object('percent', i), now() + interval '1 day' FROM generate_series(1, 20) i;
SELECT count(*), min(http_status), max(http_status)
FROM action_create_many((SELECT jsonb_agg(to_jsonb(c)) FROM coupons c));
SELECT payload FROM action_consume('coupon7');

-- All actions are checked before the first is created.
SELECT action_create_many(NULL);
SELECT action_create_many('{}');
SELECT action_create_many('"x"');
SELECT action_create_many('[{"id": "never"}, 7]');
SELECT action_create_many('[{"id": "never"}, {"pin": 1234}]');
SELECT action_create_many('[{"id": "never"}, {"id": 7}]');
SELECT action_create_many('[{"id": "never"}, {"id": ""}]');
SELECT action_create_many('[{"id": "never"}, {"pin": ""}]');
SELECT action_create_many('[{"id": "never"}, {"expire_at": "2199-01-01"}]');
SELECT action_create_many('[{"id": "never"}, {"expires_at": "2000-01-01"}]');
SELECT action_create_many('[{"id": "never"}, {"expires_at": "infinity"}]');
SELECT action_create_many('[{"id": "never"}, {}, {"id": "never"}]');
SELECT action_get('never') IS NULL AS never;

-- ----- consumed --------------------------------------------------------------

SELECT outcome, http_status, payload, consumed_at IS NOT NULL AS at, active_at, attempts_left, replayed
FROM action_consume('own');
SELECT outcome, http_status, payload, consumed_at IS NOT NULL AS at, replayed FROM action_consume('own');
SELECT outcome, http_status, payload, consumed_at FROM action_consume('there is none');
SELECT outcome FROM action_consume(repeat('x', 5000));
SELECT action_consume(NULL);
SELECT action_consume('');
SELECT outcome, http_status, active_at FROM action_consume('m1');

-- The caller that consumed an action gets the payload again with its token, and no other caller does.
SELECT outcome FROM action_create('{"secret": 1}', id => 'again');
SELECT outcome, payload, replayed FROM action_consume('again', token => '11111111-1111-4111-8111-111111111111');
SELECT outcome, payload, replayed FROM action_consume('again', token => '11111111-1111-4111-8111-111111111111');
SELECT outcome, payload, replayed FROM action_consume('again', token => '22222222-2222-4222-8222-222222222222');
SELECT outcome, payload, replayed FROM action_consume('again');

-- A rollback does not undo a consume.
SELECT outcome FROM action_create(id => 'rolled back');
BEGIN;
SELECT outcome FROM action_consume('rolled back', reason => 'in a transaction');
ROLLBACK;
SELECT state, reason FROM action_get('rolled back');

-- Reason and consumer are kept.
SELECT outcome FROM action_create(id => 'audited');
SELECT outcome
FROM action_consume('audited', reason => 'Löschung bestätigt', consumer => '{"ip": "::1", "agent": "é"}');
SELECT state, has_pin, attempts_left, reason, consumer, consumed_at >= created_at AS at, canceled_at
FROM action_get('audited');
SELECT action_consume('x', reason => repeat('x', 1025));
SELECT action_consume('x', consumer => to_jsonb(repeat('x', 20000)));

-- The largest payload leaves room for the longest reason and consumer.
SELECT outcome FROM action_create(to_jsonb(repeat('x', 386000)), id => 'large', pin => '1');
SELECT outcome, length(payload #>> '{}')
FROM action_consume('large', '1', repeat('r', 1024), to_jsonb(repeat('c', 16000)));

-- An action expires.
SELECT outcome FROM action_create('{}', expires_at => now() + interval '3 seconds', id => 'short');
DO $$ BEGIN
	FOR i IN 1 .. 3000 LOOP
		EXIT WHEN (SELECT state FROM action_get('short')) = 'expired';
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
SELECT outcome, http_status, payload FROM action_consume('short');
SELECT outcome, http_status FROM action_cancel('short');

-- ----- canceled --------------------------------------------------------------

SELECT outcome FROM action_create(id => 'called off');
SELECT outcome, http_status, replayed FROM action_cancel('called off', 'a mistake');
SELECT outcome, http_status, replayed FROM action_cancel('called off', 'another reason');
SELECT outcome, http_status FROM action_consume('called off');
SELECT state, reason, canceled_at >= created_at AS at, consumed_at FROM action_get('called off');
SELECT outcome, http_status FROM action_cancel('m1');
SELECT outcome, http_status, consumed_at IS NOT NULL AS at FROM action_cancel('own');
SELECT outcome, http_status FROM action_cancel('there is none');
SELECT action_cancel(NULL);
SELECT action_get('there is none') IS NULL AS none;
SELECT action_create(id => 'called off');

-- ----- with a PIN ------------------------------------------------------------

SELECT outcome FROM action_create('{"key": "licence"}', pin => '1234', id => 'locked');
SELECT state, has_pin, attempts_left FROM action_get('locked');
-- A call without a PIN costs no attempt.
SELECT outcome, http_status, attempts_left FROM action_consume('locked');
SELECT outcome, http_status, attempts_left FROM action_consume('locked', '');
SELECT outcome, http_status, attempts_left, payload FROM action_consume('locked', '4321');
SELECT outcome, http_status, attempts_left FROM action_consume('locked', '12345');
SELECT outcome, http_status, attempts_left, payload
FROM action_consume('locked', '1234', token => '33333333-3333-4333-8333-333333333333');
SELECT outcome, http_status, attempts_left FROM action_consume('locked', '1234');
-- The caller that consumed the action needs only its token.
SELECT outcome, payload, replayed
FROM action_consume('locked', 'whatever', token => '33333333-3333-4333-8333-333333333333');

-- Without an attempt left an action is burned.
SELECT outcome FROM action_create('{}', pin => 'é', id => 'burns');
SELECT i, (SELECT (outcome, attempts_left) FROM action_consume('burns', 'e' || i)) FROM generate_series(1, 4) i;
SELECT outcome, http_status, payload FROM action_consume('burns', 'é');
SELECT outcome, http_status FROM action_consume('burns');
SELECT state, attempts_left FROM action_get('burns');
SELECT outcome, http_status FROM action_cancel('burns');
SELECT outcome, http_status FROM action_cancel('burns');
SELECT state, canceled_at FROM action_get('burns');
-- Each guess with the same token costs an attempt.
SELECT outcome FROM action_create('{}', pin => '1234', id => 'tokened');
SELECT i, (SELECT (outcome, attempts_left)
	FROM action_consume('tokened', 'x' || i, token => '55555555-5555-4555-8555-555555555555'))
FROM generate_series(1, 4) i;
-- An id that was used is not used again.
SELECT action_create(id => 'again');
-- The last attempt may be the right one.
SELECT outcome FROM action_create('{}', pin => 'é', id => 'just');
SELECT i, (SELECT outcome FROM action_consume('just', CASE i WHEN 3 THEN 'é' ELSE 'e' END))
FROM generate_series(1, 3) i;

-- No attempt is taken while the action cannot be consumed.
SELECT outcome FROM action_create(pin => '1', active_at => now() + interval '1 hour', id => 'later');
SELECT outcome FROM action_consume('later', '2');
SELECT attempts_left FROM action_get('later');
-- An action without a PIN ignores one.
SELECT outcome FROM action_create('{"open": true}', id => 'open');
SELECT outcome, payload FROM action_consume('open', '1234');

-- The number of attempts is that of the server when the action is created.
CREATE SERVER one_guess FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint 'http://127.0.0.1:1', key_prefix 'one/', pin_attempts '1');
CREATE USER MAPPING FOR PUBLIC SERVER one_guess
	OPTIONS (access_key_id 'test', secret_access_key 'test', pin_pepper 'this/is/not/in/the/table');
SELECT set_config('regress.endpoint', option_value, false) <> '' AS known
FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'exactonce' AND option_name = 'endpoint';
DO $$ BEGIN
	EXECUTE format('ALTER SERVER one_guess OPTIONS (SET endpoint %L)', current_setting('regress.endpoint'));
END $$;
SET exactonce.server = 'one_guess';
-- Another prefix has actions of its own.
SELECT outcome FROM action_consume('own');
SELECT outcome FROM action_create('{}', pin => '1234', id => 'peppered');
SELECT attempts_left FROM action_get('peppered');
ALTER USER MAPPING FOR PUBLIC SERVER one_guess OPTIONS (SET pin_pepper 'another/one/of/that/length');
ALTER SERVER one_guess OPTIONS (SET pin_attempts '2');
SELECT outcome FROM action_create('{}', pin => '1234', id => 'peppered2');
SELECT action_consume('peppered', '1234');
SELECT attempts_left FROM action_get('peppered');
ALTER USER MAPPING FOR PUBLIC SERVER one_guess OPTIONS (DROP pin_pepper);
SELECT action_consume('peppered2', '1234');
ALTER USER MAPPING FOR PUBLIC SERVER one_guess OPTIONS (ADD pin_pepper 'another/one/of/that/length');
SELECT outcome FROM action_consume('peppered2', '1234');
ALTER USER MAPPING FOR PUBLIC SERVER one_guess OPTIONS (SET pin_pepper 'short');
RESET exactonce.server;
DROP SERVER one_guess CASCADE;
ALTER SERVER exactonce OPTIONS (ADD pin_attempts '0');
ALTER SERVER exactonce OPTIONS (ADD pin_attempts '21');

-- ----- rights and read-only transactions --------------------------------------

BEGIN READ ONLY;
SELECT state FROM action_get('own');
SELECT action_consume('own');
ROLLBACK;
BEGIN READ ONLY;
SELECT action_create();
ROLLBACK;
CREATE ROLE regress_action_user;
SET ROLE regress_action_user;
SELECT action_get('own');
SELECT action_consume('own');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER exactonce TO regress_action_user;
SET ROLE regress_action_user;
SELECT outcome FROM action_consume('own');
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER exactonce FROM regress_action_user;
DROP ROLE regress_action_user;

-- Keys and actions do not meet, and no write of idem_transact() reaches an action.
SELECT idem_get('own') IS NULL AS apart;
SELECT idem_transact('r', '[{"Delete": {"TableName": "regress", "Key": {"pk": "ACTION#test/own"}}}]');

-- ----- items of other clients -------------------------------------------------

SELECT jsonb_build_object('RequestItems', jsonb_build_object('regress',
	jsonb_agg(jsonb_build_object('PutRequest', jsonb_build_object('Item',
		jsonb_build_object('pk', jsonb_build_object('S', 'ACTION#test/' || id), 'activeAtMs', '{"N": "0"}'::jsonb,
			'expiresAtMs', jsonb_build_object('N', expires_at)) || attributes)))))
FROM (VALUES
	('map', '7000000000000', '{"payload": {"M": {}}}'::jsonb),
	('hash', '7000000000000', '{"pinHash": {"B": "eA=="}, "pinAttempts": {"N": "3"}}'),
	('iso', '7000000000000', '{"consumedAt": {"S": "2026-01-01"}}'),
	('huge', '99999999999999999999', '{"payload": {"S": "1"}}'),
	('half', '7000000000000.5', '{"payload": {"S": "no JSON"}}'),
	('odd', '7000000000000', '{"pinHash": {"S": "md5"}, "pinAttempts": {"N": "3"}}')) v (id, expires_at, attributes)
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh BatchWriteItem
-- An action that cannot be read is not consumed, and no attempt at its PIN is taken.
\set VERBOSITY terse
SELECT action_consume('map');
SELECT action_consume('hash', '1234');
SELECT action_consume('hash');
SELECT action_cancel('iso');
SELECT action_get('iso');
SELECT action_consume('odd', '1234');
SELECT '{"TableName": "regress", "Key": {"pk": {"S": "ACTION#test/map"}}, "ProjectionExpression": "consumedAt"}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh GetItem
SELECT '{"TableName": "regress", "Key": {"pk": {"S": "ACTION#test/hash"}}, "ProjectionExpression": "pinAttempts"}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh GetItem
-- Instants that are too large or have a fraction do no harm.
\set VERBOSITY default
SELECT outcome, payload FROM action_consume('huge');
SELECT outcome, payload FROM action_consume('half');

-- ----- another encoding ------------------------------------------------------

SELECT outcome FROM action_create('{"price": "5 €", "name": "Zoë"}', id => 'euro');
CREATE DATABASE regress_latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C';
\set endpoint `echo "$EO_ENDPOINT"`
\c regress_latin1
SET client_encoding = 'UTF8';
CREATE EXTENSION exactonce;
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint :'endpoint', key_prefix 'test/');
CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
-- A payload that the encoding cannot express is handed over as a JSON string.
SELECT outcome, payload, jsonb_typeof(payload)
FROM action_consume('euro', reason => 'für Zoë', token => '44444444-4444-4444-8444-444444444444');
SELECT outcome FROM action_create('{"name": "Zoë"}', id => 'Zoë', pin => 'é');
\c contrib_regression
SELECT outcome, payload FROM action_consume('Zoë', 'é');
SELECT state, reason FROM action_get('euro');
DROP DATABASE regress_latin1;
