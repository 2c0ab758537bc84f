-- A key and writes to other tables of DynamoDB, all or nothing.
\pset null NULL
SET client_min_messages = warning;
CREATE FUNCTION new_table(name text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('TableName', name, 'BillingMode', 'PAY_PER_REQUEST',
		'AttributeDefinitions', '[{"AttributeName": "id", "AttributeType": "S"}]'::jsonb,
		'KeySchema', '[{"AttributeName": "id", "KeyType": "HASH"}]'::jsonb)
$$;
SELECT new_table('orders')
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh CreateTable >/dev/null
SELECT new_table('stock')
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh CreateTable >/dev/null
\! sh test/harness/dynamodb.sh PutItem '{"TableName":"stock","Item":{"id":{"S":"apple"},"n":{"N":"10"}}}'
\! sh test/harness/dynamodb.sh PutItem '{"TableName":"stock","Item":{"id":{"S":"old"}}}'
-- The write of one order, and those of many, with further attributes.
CREATE FUNCTION put_order(id text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_array(jsonb_build_object('Put', jsonb_build_object('TableName', 'orders',
		'Item', jsonb_build_object('id', id))))
$$;
CREATE FUNCTION put_orders(prefix text, n int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(jsonb_build_object('Put', jsonb_build_object('TableName', 'orders',
		'Item', jsonb_build_object('id', prefix || i) || more)))
	FROM generate_series(1, n) i
$$;

-- Only the tables in transact_tables can be written.
SELECT idem_transact('t0', '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}}]');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (transact_tables '');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (transact_tables 'orders, ,stock');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (transact_tables 'orders,arn:aws:dynamodb:x');
ALTER SERVER exactonce OPTIONS (ADD transact_tables ' orders,stock , regress');
SELECT idem_transact('t0', put_order('1') || '[{"Delete": {"TableName": "secret", "Key": {"id": "1"}}}]');

-- All four operations in two tables, with plain and with typed values.
SELECT outcome, replayed, mine, token, fence, run, result, expires_at - now() > '6 days 23:59:00' AS kept
FROM idem_transact('t1', $$[
	{"Put": {"TableName": "orders", "Item": {"id": "1", "n": 12.50, "paid": true, "note": null, "tags": ["a", 2],
		"to": {"zip": "0815", "empty": {}}, "B": "no bytes"}, "ConditionExpression": "attribute_not_exists(id)"}},
	{"Update": {"TableName": "stock", "Key": {"id": {"S": "apple"}}, "UpdateExpression": "SET #n = #n - :q",
		"ConditionExpression": "#n >= :q", "ExpressionAttributeNames": {"#n": "n"},
		"ExpressionAttributeValues": {":q": {"N": "3"}}, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}},
	{"Delete": {"TableName": "stock", "Key": {"id": "old"}}},
	{"ConditionCheck": {"TableName": "orders", "Key": {"id": "0"}, "ConditionExpression": "attribute_not_exists(id)"}}]$$,
	'{"order": 1}');
\set items `sh test/harness/dynamodb.sh Scan '{"TableName": "orders"}'`
SELECT a.* FROM jsonb_array_elements(:'items'::jsonb->'Items') i, jsonb_each(i) a ORDER BY 1;
\set items `sh test/harness/dynamodb.sh Scan '{"TableName": "stock"}'`
SELECT :'items'::jsonb->'Items';
SELECT status, runs, result, fence > 1600000000000 AS fence,
	expires_at - updated_at BETWEEN '7 days' AND '7 days 2s' AS kept
FROM idem_get('t1');
-- A duplicate gets the stored result, whatever it wants to write, and writes nothing.
SELECT outcome, replayed, run, result FROM idem_transact('t1', $$[
	{"Update": {"TableName": "stock", "Key": {"id": "apple"}, "UpdateExpression": "ADD n :q",
		"ExpressionAttributeValues": {":q": -3}}}]$$, '"another"');
SELECT outcome, replayed, run, result FROM idem_transact('t1', $$[
	{"Put": {"TableName": "orders", "Item": {"id": "1"}, "ConditionExpression": "attribute_not_exists(id)"}}]$$);
SELECT outcome, replayed, result FROM idem_acquire('t1');
\set items `sh test/harness/dynamodb.sh Scan '{"TableName": "stock"}'`
SELECT :'items'::jsonb->'Items';
-- A rollback undoes nothing, and a call whose row is expanded makes one request.
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
BEGIN;
SELECT (idem_transact('t2', '[{"Put": {"TableName": "orders", "Item": {"id": "2"}}}]')).*, 'x' AS x \gset
\echo :outcome :replayed
ROLLBACK;
\echo `curl -s "$EO_CONTROL/count?op=TransactWriteItems"`
SELECT status, result FROM idem_get('t2');

-- A value may be typed at any depth; any other value is plain.
SELECT outcome FROM idem_transact('typed', $$[{"Put": {"TableName": "orders", "Item": {"id": "typed",
	"s": {"S": "x"}, "n": {"N": "-1.5e2"}, "b": {"B": "AQI="}, "t": {"BOOL": false}, "z": {"NULL": true},
	"ss": {"SS": ["a", "b"]}, "ns": {"NS": ["1", "2"]}, "bs": {"BS": ["AQI="]},
	"l": {"L": [{"S": "x"}, 1, {"M": {"a": {"N": "1"}}}]}, "m": {"M": {"S": {"S": "x"}, "a": 1}},
	"deep": {"x": [{"N": "1"}]}, "map": {"M": {"S": "x"}},
	"p1": {"N": 5}, "p2": {"S": "x", "N": "1"}, "p3": {"NS": [1]}, "p4": {"T": "x"}, "p5": {"SS": {"a": 1}},
	"ключ \"q\"\\": "a\tb\u0001é😀"}}}]$$);
\set item `sh test/harness/dynamodb.sh GetItem '{"TableName": "orders", "Key": {"id": {"S": "typed"}}}'`
SELECT a.* FROM jsonb_each(:'item'::jsonb->'Item') a ORDER BY a.key COLLATE "C";

-- A refused write: the error says which it is and nothing of what it holds, and nothing is written.
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SELECT put_order('3') || '[{"Update": {"TableName": "stock", "Key": {"id": "apple"},
	"UpdateExpression": "SET n = n - :q", "ConditionExpression": "n >= :q",
	"ExpressionAttributeValues": {":q": 1000}}}]' AS refused \gset
\set VERBOSITY sqlstate
SELECT idem_transact('t3', :'refused');
\set VERBOSITY default
CREATE FUNCTION detail(k text, w jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d text;
BEGIN
	PERFORM idem_transact(k, w);
	RETURN 'no error';
EXCEPTION WHEN SQLSTATE 'ID007' THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
	RETURN SQLERRM || ': ' || regexp_replace(d, ' Request id [-\w]+\.$', '');
END $$;
SELECT detail('t3', :'refused');
SELECT idem_get('t3');
SELECT detail('t3', jsonb_agg(jsonb_build_object('ConditionCheck', jsonb_build_object('TableName', 'orders',
	'Key', jsonb_build_object('id', 'none' || i), 'ConditionExpression', 'attribute_exists(id)'))))
FROM generate_series(1, 7) i;
\set items `sh test/harness/dynamodb.sh GetItem '{"TableName": "orders", "Key": {"id": {"S": "3"}}}'`
SELECT :'items';
-- A refused write is not tried again, and the key is free.
\echo `curl -s "$EO_CONTROL/count?op=TransactWriteItems"`
SELECT outcome, replayed FROM idem_transact('t3', put_order('3'));
-- Requests that DynamoDB refuses.
SELECT detail('t4', put_order('4') || '[{"Delete": {"TableName": "orders", "Key": {"id": "4"}}}]')
	LIKE '%DynamoDB answered ValidationException: %';
SELECT detail('t4', '[{"Put": {"TableName": "orders", "Item": {"no": "id"}}}]') ~ 'ValidationE';
SELECT idem_get('t4');
ALTER SERVER exactonce OPTIONS (SET transact_tables 'orders, stock, regress, missing');
-- A table that the writes name is none that idem_create_table() makes.
DO $$
DECLARE
	hint text;
	call text;
BEGIN
	FOREACH call IN ARRAY ARRAY['idem_transact(''t4'', %L)', 'idem_once(''t4'', writes => %L)'] LOOP
		BEGIN
			EXECUTE format('SELECT ' || call, '[{"Delete": {"TableName": "missing", "Key": {"id": "1"}}}]');
		EXCEPTION WHEN SQLSTATE 'ID007' THEN
			GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
			RAISE INFO '%', hint;
		END;
	END LOOP;
END $$;
SELECT detail('t4', '[{"Delete": {"TableName": "missing", "Key": {"id": "1"}}}]') LIKE 'could not transact key "t4"'
	' on server "exactonce": there is no such table: DynamoDB answered ResourceNotFoundException%';

-- Keys that are claimed, failed or failed for good.
SELECT outcome FROM idem_acquire('tbusy', lease => '1 hour');
SELECT idem_transact('tbusy', put_order('5'));
\c -
SET client_min_messages = warning;
SELECT outcome, mine, replayed, lease_until > now() + '59 min' AS lease FROM idem_transact('tbusy', put_order('5'));
BEGIN;
SELECT outcome FROM idem_acquire('tmine');
SAVEPOINT s;
SELECT idem_transact('tmine', put_order('5'));
ROLLBACK TO s;
SELECT idem_complete('tmine');
SELECT idem_transact('tmine', put_order('5'));
ROLLBACK;
SELECT outcome FROM idem_acquire('tlater');
SELECT idem_fail('tlater', '"why"', retry_after => '1 hour');
SELECT outcome, run, error, retry_at > now() + '59 min' AS later FROM idem_transact('tlater', put_order('5'));
SELECT outcome FROM idem_acquire('tnever');
SELECT idem_fail('tnever', '"why"', terminal => true);
SELECT outcome, run, error, replayed FROM idem_transact('tnever', put_order('5'));
-- A failed key that is due is done, as its second run.
SELECT outcome FROM idem_acquire('tdue');
SELECT idem_fail('tdue', '"why"');
SELECT outcome, replayed FROM idem_transact('tdue', put_order('6'), '1');
SELECT status, runs, result, error FROM idem_get('tdue');
-- The key of a dead run is done, and one whose record is past its time.
SELECT '{"TableName": "regress", "Item": {"pk": {"S": "IDEMPOTENCY#test/tdead"}, "status": {"S": "IN_PROGRESS"},
	"owner": {"S": "dead"}, "lease_ms": {"N": "1000"}, "runs": {"N": "4"}, "fence": {"N": "5"}}}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh PutItem
SELECT '{"TableName": "regress", "Item": {"pk": {"S": "IDEMPOTENCY#test/texpired"}, "status": {"S": "COMPLETED"},
	"owner": {"S": "gone"}, "result": {"S": "\"old\""}, "runs": {"N": "4"}, "fence": {"N": "5"},
	"updated_ms": {"N": "1000"}, "ttl": {"N": "1000"}, "payload_sha256": {"S": "old"}}}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh PutItem
SELECT outcome, replayed FROM idem_transact('tdead', put_order('7'));
SELECT status, runs, fence, lease_until FROM idem_get('tdead');
SELECT outcome, replayed, result FROM idem_transact('texpired', put_order('8'), payload => '1');
SELECT status, runs, fence, result FROM idem_get('texpired');
SELECT outcome FROM idem_acquire('texpired', payload => '1');

-- Payloads are compared.
SELECT outcome FROM idem_transact('tpaid', put_order('9'), payload => '{"a": 1}');
SELECT outcome, replayed FROM idem_transact('tpaid', put_order('9'), payload => '{"a": 1.0}');
SELECT outcome FROM idem_transact('tpaid', put_order('9'), payload => '{"a": 2}');
SELECT outcome FROM idem_transact('tparts', put_order('9a'), payload => '{"a": 1, "try": 1}', compare => '{$.a}');
SELECT outcome, replayed FROM idem_transact('tparts', put_order('9a'), payload => '{"a": 1, "try": 2}', compare => '{$.a}');
SELECT outcome FROM idem_transact('tparts', put_order('9a'), payload => '{"a": 2, "try": 1}', compare => '{$.a}');

-- The records of keys cannot be written, but their conditions can be checked.
SELECT idem_transact('r1', '[{"Put": {"TableName": "regress", "Item": {"pk": "IDEMPOTENCY#test/r1"}}}]');
SELECT idem_transact('r1', '[{"ConditionCheck": {"TableName": "regress", "Key": {"pk": {"S": "IDEMPOTENCY#test/r1"}},
	"ConditionExpression": "attribute_not_exists(pk)"}}]');
\set VERBOSITY terse
SELECT idem_transact('r1', '[{"Delete": {"TableName": "regress", "Key": {"pk": "IDEMPOTENCY#test/tpaid"}}}]');
\set VERBOSITY default
SELECT outcome FROM idem_transact('r1', '[{"Put": {"TableName": "regress", "Item": {"pk": "something else"}}},
	{"ConditionCheck": {"TableName": "regress", "Key": {"pk": "IDEMPOTENCY#test/tpaid"}, "ConditionExpression": "#s = :s",
		"ExpressionAttributeNames": {"#s": "status"}, "ExpressionAttributeValues": {":s": "COMPLETED"}}}]');

-- Arguments that are no writes.
\! curl -s -X POST "$EO_CONTROL/reset" >/dev/null
SELECT idem_transact('nowrite', NULL);
SELECT idem_transact(NULL, '[]');
SELECT idem_transact('nowrite', '[]');
\set VERBOSITY terse
SELECT idem_transact('nowrite', '{}');
SELECT idem_transact('nowrite', '1');
\set VERBOSITY default
SELECT idem_transact('nowrite', '[1]');
SELECT idem_transact('nowrite', '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}}, {"put": {}}]');
SELECT idem_transact('nowrite', '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}, "Delete": {}}]');
SELECT idem_transact('nowrite', put_order('1')
	|| '[{"Put": {"TableName": "orders", "Item": {"id": "2"}, "ConditionExpresion": "x"}}]');
CREATE FUNCTION refused(w text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d text;
BEGIN
	PERFORM idem_transact('nowrite', w::jsonb);
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || SQLERRM || ': ' || d;
END $$;
SELECT refused(w) FROM (VALUES
	('[{"Put": {"Item": {"id": "1"}}}]'),
	('[{"Put": {"TableName": "orders"}}]'),
	('[{"Put": {"TableName": "orders", "Key": {"id": "1"}}}]'),
	('[{"Put": {"TableName": 5, "Item": {"id": "1"}}}]'),
	('[{"Put": {"TableName": "orders", "Item": {}}}]'),
	('[{"Put": {"TableName": "orders", "Item": "x"}}]'),
	('[{"Update": {"TableName": "orders", "Key": {"id": "1"}}}]'),
	('[{"Delete": {"TableName": "orders", "Key": {"id": "1"}, "UpdateExpression": "SET a = :b"}}]'),
	('[{"Delete": {"TableName": "orders", "Key": {"id": "1"}, "ConditionExpression": null}}]'),
	('[{"ConditionCheck": {"TableName": "orders", "Key": {"id": "1"}}}]'),
	('[{"Delete": {"TableName": "orders", "Key": {"id": "1"}, "ExpressionAttributeNames": {"#a": 1}}}]'),
	('[{"Delete": {"TableName": "orders", "Key": {"id": "1"}, "ReturnValuesOnConditionCheckFailure": "ALL_NEW"}}]'),
	('[{"Delete": {"TableName": "orders", "Key": {"id": "1"}, "ReturnValues": "ALL_OLD"}}]')) v (w);
CREATE FUNCTION nested(levels int) RETURNS text LANGUAGE sql AS $$
	SELECT '[{"Put": {"TableName": "orders", "Item": {"id": "1", "deep": '
		|| repeat('[', levels) || repeat(']', levels) || '}}}]'
$$;
SELECT refused(nested(n)) FROM unnest(ARRAY[41, 4000]) n;
SELECT detail('syntax', '[{"Update": {"TableName": "orders", "Key": {"id": "1"}, "UpdateExpression": "SET a = b c"}}]') LIKE '%Validation%';
\echo `curl -s "$EO_CONTROL/count?key=nowrite"`
SELECT idem_get('nowrite');

-- As many writes as there may be, and one more.
SELECT outcome FROM idem_transact('tmany', put_orders('many', 99));
SELECT idem_transact('more', put_orders('more', 100));
-- Nearly four megabytes, more than DynamoDB takes, and more than is sent.
SELECT jsonb_build_object('t', repeat('x', 390000)) AS large \gset
SELECT outcome FROM idem_transact('tbig', put_orders('big', 10, :'large'), to_jsonb(repeat('r', 200000)));
SELECT left(detail('bigger', put_orders('bigger', 12, :'large')), 100);
SELECT idem_transact('biggest', put_orders('biggest', 50, :'large'));
SELECT idem_transact('result', put_order('1'), to_jsonb(repeat('r', 410000)));
SELECT idem_get('bigger'), idem_get('biggest'), idem_get('result');
SELECT outcome FROM idem_transact('numbers', put_orders('numbers', 1, '{"n": 12345678901234567890123456789012345678}'));
SELECT refused(put_orders('digits', 1, '{"n": 123456789012345678901234567890123456789}')::text);

-- A read-only transaction may not call it.
BEGIN READ ONLY;
SELECT idem_transact('ro', '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}}]');
ROLLBACK;
ALTER SERVER exactonce OPTIONS (DROP transact_tables);
DROP FUNCTION new_table, put_order, put_orders, nested, detail, refused;
