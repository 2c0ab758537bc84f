-- HTTP words: http_status and retry_after of a claim, and idem_http() for PostgREST.
\set VERBOSITY terse

-- ----- outcomes -----
SELECT outcome, http_status, retry_after FROM idem_acquire('http', lease => '10 min');
SELECT outcome, http_status, retry_after BETWEEN 1 AND 60 AS retry_after FROM idem_acquire('http');
SELECT outcome, http_status, retry_after BETWEEN 1 AND 60 AS retry_after FROM idem_acquire_many(ARRAY['http']);
SELECT idem_complete('http', '1');
SELECT outcome, http_status, retry_after FROM idem_acquire('http');
SELECT outcome FROM idem_acquire('http long', lease => '1 day');
SELECT outcome, http_status, retry_after FROM idem_acquire('http long');
SELECT idem_fail('http long', retry_after => '1 hour');
SELECT outcome, http_status, retry_after BETWEEN 1 AND 3600 AS retry_after FROM idem_acquire('http long');
SELECT outcome FROM idem_acquire('http failed');
SELECT idem_fail('http failed', terminal => true);
SELECT outcome, http_status, retry_after FROM idem_acquire('http failed');

-- ----- idem_http() -----
CREATE TABLE orders (payload jsonb);
CREATE FUNCTION place_order(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO orders VALUES (payload);
	IF payload ? 'fail' THEN
		RAISE 'no such article';
	ELSIF payload ? 'again' THEN
		RETURN idem_http('place_order(jsonb)', payload);
	END IF;
	RETURN jsonb_build_object('orders', (SELECT count(*) FROM orders));
END $$;
-- The response that PostgREST makes; the seconds of Retry-After vary.
CREATE FUNCTION post(headers json, payload jsonb, OUT status text, OUT header text, OUT body jsonb, claims text DEFAULT '')
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('request.headers', headers::text, true), set_config('request.jwt.claims', claims, true),
		set_config('response.status', '', true), set_config('response.headers', '', true);
	body := idem_http('place_order(jsonb)', payload);
	status := current_setting('response.status');
	header := regexp_replace(current_setting('response.headers'), '"Retry-After": "([1-9]|[1-5]\d|60)"', 'Retry-After');
END $$;
SELECT * FROM post('{"idempotency-key": "\"one\""}', '{"n": 1}');
SELECT * FROM post('{"idempotency-key": " one "}', '{"n": 1}');
SELECT * FROM post('{"idempotency-key": "one"}', '{"n": 2}');
SELECT * FROM post('{"idempotency-key": "two"}', '{"again": 1}');
SELECT * FROM post('{"idempotency-key": "three"}', '{"fail": 1}');
SELECT * FROM post('{"host": "here"}', '{"n": 1}');
SELECT * FROM post('{"idempotency-key": ""}', '{"n": 1}');
SELECT * FROM post('{"idempotency-key": 7}', '{"n": 1}');
SELECT * FROM post('[]', '{"n": 1}');
-- Clients with tokens of their own do not meet.
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": "ann"}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": "bob"}');
SELECT header, body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": "ann"}');
-- A number is a user, too, and another one than the string of its digits.
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": 1}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": 2}');
SELECT header, body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": 1.0}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": "2"}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": true}');
-- An anonymous request of PostgREST has a token with a role, and is as one without a token.
SELECT header FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"role": "anon"}');
-- A token that tells no users apart is refused.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"email": "ann@example.org", "role": "user"}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": null}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '{"sub": ["ann"]}');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', '"ann"');
SELECT body FROM post('{"idempotency-key": "one"}', '{"n": 1}', 'ann');
\set VERBOSITY terse
-- Another claim may do.
BEGIN;
SET LOCAL request.headers = '{"idempotency-key": "one"}';
SET LOCAL request.jwt.claims = '{"email": "ann@example.org"}';
SELECT idem_http('place_order(jsonb)', '{"n": 1}', user_claim => 'email');
SET LOCAL request.jwt.claims = '{"email": "bob@example.org"}';
SELECT idem_http('place_order(jsonb)', '{"n": 1}', user_claim => 'email');
SET LOCAL request.headers = '{"idempotency-key": "compared"}';
SELECT idem_http('place_order(jsonb)', '{"n": 1, "try": 1}', user_claim => 'email', compare => '{$.n}');
SELECT idem_http('place_order(jsonb)', '{"n": 1, "try": 2}', user_claim => 'email', compare => '{$.n}');
SELECT idem_http('place_order(jsonb)', '{"n": 2, "try": 1}', user_claim => 'email', compare => '{$.n}');
COMMIT;
SELECT count(*), count(DISTINCT payload) FROM orders;
SELECT left(key, 24) AS key, count(*) FROM idem_list(prefix => 'http/') GROUP BY 1;
SELECT idem_http(NULL);
SELECT idem_http('now()');
-- Without PostgREST there are no headers.
SELECT idem_http('place_order(jsonb)', '{}')->>'status' AS status;
-- DynamoDB is away.
CREATE SERVER nowhere FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint 'http://127.0.0.1:1', request_timeout '200 ms');
CREATE USER MAPPING FOR PUBLIC SERVER nowhere OPTIONS (access_key_id 'test', secret_access_key 'test');
BEGIN;
SET LOCAL request.headers = '{"idempotency-key": "one"}';
SELECT idem_http('place_order(jsonb)', '{}', server => 'nowhere')->>'status' AS status;
SHOW response.status;
SHOW response.headers;
COMMIT;
DROP SERVER nowhere CASCADE;
DROP FUNCTION post, place_order;
DROP TABLE orders;
