-- Writes to other tables of DynamoDB that are made if and only if the transaction commits.
\pset null NULL
SET client_min_messages = warning;
SELECT jsonb_build_object('TableName', 'views', 'BillingMode', 'PAY_PER_REQUEST',
	'AttributeDefinitions', '[{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "at", "AttributeType": "N"}]'::jsonb,
	'KeySchema', '[{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}]'::jsonb)
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh CreateTable >/dev/null
SELECT idem_once('w0', writes => '[{"Put": {"TableName": "views", "Item": {"id": "1", "at": 1}}}]');
ALTER SERVER exactonce OPTIONS (ADD transact_tables 'views, regress');
CREATE FUNCTION view(id text, at numeric) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_array(jsonb_build_object('Put', jsonb_build_object('TableName', 'views',
		'Item', jsonb_build_object('id', id, 'at', at))))
$$;

-- Both ways to complete a key; rolled back as a whole, and to a savepoint.
BEGIN;
SELECT outcome FROM idem_acquire('w1');
SELECT idem_complete('w1', '"r"', writes => view('complete', 1));
SELECT idem_once('w2', writes => view('once', 2));
SAVEPOINT s;
SELECT idem_once('w3', writes => view('savepoint', 3));
ROLLBACK TO s;
COMMIT;
BEGIN;
SELECT idem_once('w4', writes => view('rollback', 4));
ROLLBACK;
CALL await_worker();
\set items `sh test/harness/dynamodb.sh Scan '{"TableName": "views"}'`
SELECT i FROM jsonb_array_elements(:'items'::jsonb->'Items') i ORDER BY i->>'id';
SELECT status, result FROM idem_get('w1');

-- A key completed twice in a transaction: the same again does nothing.
BEGIN;
SELECT outcome FROM idem_acquire('w5');
SELECT idem_complete('w5', writes => view('twice', 5));
SELECT idem_complete('w5', writes => view('twice', 5));
SELECT idem_complete('w5');
ROLLBACK;

-- What is handed in is checked.
SELECT idem_once('w6', writes => '[{"Put": {"TableName": "views", "Item": {"id": "1"}}}]');
SELECT idem_once('w6', writes => '[{"Put": {"TableName": "views", "Item": {"id": "1", "at": "1"}}}]');
SELECT idem_once('w6', writes => '[{"Put": {"TableName": "views", "Item": {"id": "1", "at": {"N": "one"}}}}]');
SELECT idem_once('w6', writes => '[{"Delete": {"TableName": "views", "Key": {"id": "1", "n": 1}}}]');
SELECT idem_once('w6', writes => view('1', 1.0) || view('1', 1));
SELECT idem_once('w6', writes => '[{"Delete": {"TableName": "views", "Key": {"id": "1", "at": 1}, "ConditionExpression": "attribute_exists(n)"}}]');
SELECT idem_once('w6', writes => '[{"Delete": {"TableName": "regress", "Key": {"pk": "IDEMPOTENCY#w6"}}}]');
SELECT idem_once('w6', writes => '[{"Put": {"TableName": "regress", "Item": {"pk": "ORIGIN#x"}}}]');
SELECT idem_once('w6', writes => '[]');
SELECT idem_once('w6', writes => '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}}]');
SELECT idem_complete('w6', immediate => true, writes => view('1', 1));
SELECT idem_write(view('1', 1));
-- What DynamoDB would refuse after the commit.
SELECT idem_once('w6', writes => view(repeat('x', 2049), 1));
SELECT idem_once('w6', writes => view('1', 1e126));
SELECT idem_once('w6', writes => view('1', 123456789012345678901234567890123456789));
CREATE FUNCTION viewed(attribute text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_array(jsonb_build_object('Put', jsonb_build_object('TableName', 'views',
		'Item', jsonb_build_object('id', '1', 'at', 1, 'a', attribute::jsonb))))
$$;
SELECT idem_once('w6', writes => viewed('{"N": "abc"}'));
SELECT idem_once('w6', writes => viewed('{"N": "NaN"}'));
SELECT idem_once('w6', writes => viewed('{"N": "1e200"}'));
SELECT idem_once('w6', writes => viewed('{"NS": ["1", "1e"]}'));
SELECT idem_once('w6', writes => viewed('{"B": "!"}'));
SELECT idem_once('w6', writes => viewed('{"BS": ["AAAA", "AAA"]}'));
SELECT idem_once('w6', writes => viewed('[{"": 1}]'));
SELECT idem_once('w6', writes => viewed(repeat('[', 33) || repeat(']', 33)));
BEGIN;
SELECT idem_once('w6', writes => viewed(repeat('[', 32) || '{"N": "+1.50E-3"}, {"B": "AA=="}, 1e125' || repeat(']', 32)));
ROLLBACK;

-- A handler's writes are those of its key.
CREATE FUNCTION write_view(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_write(view(payload->>'id', 7));
	PERFORM idem_write(view(payload->>'id', (payload->>'at')::int));
	RETURN payload;
END $$;
SELECT idem_call('w7', 'write_view(jsonb)', '{"id": "called", "at": 7}');
SELECT idem_call('w8', 'write_view(jsonb)', '{"id": "called", "at": 8}');
CALL await_worker();

-- A row with a key of two columns is mirrored.
CREATE TABLE mirrored (id text, at int, note text, PRIMARY KEY (id, at));
CREATE TRIGGER m AFTER INSERT OR UPDATE OR DELETE ON mirrored FOR EACH ROW EXECUTE FUNCTION idem_mirror('views', 'id, at', 'note');
INSERT INTO mirrored SELECT 'row', g, 'note ' || g FROM generate_series(1, 3) g;
UPDATE mirrored SET note = NULL WHERE at = 2;
DELETE FROM mirrored WHERE at = 3;
CALL await_worker();
\set items `sh test/harness/dynamodb.sh Scan '{"TableName": "views"}'`
SELECT i FROM jsonb_array_elements(:'items'::jsonb->'Items') i WHERE i->'id'->>'S' IN ('row', 'called') ORDER BY i->'id'->>'S', i->'at'->>'N';
-- A number that DynamoDB does not have.
CREATE TABLE numbers (id text, at numeric);
CREATE TRIGGER m AFTER INSERT ON numbers FOR EACH ROW EXECUTE FUNCTION idem_mirror('views', 'id,at');
INSERT INTO numbers VALUES ('pi', 3.14159265358979323846264338327950288419716939937510);
INSERT INTO numbers VALUES ('large', 1e126);
SELECT idem_mirror();

-- The operator's view.
SELECT key, writes, reason, reason_item FROM exactonce_pending;
DROP TABLE mirrored, numbers;
DROP FUNCTION view, viewed, write_view;
-- A table that only the writes name.
ALTER SERVER exactonce OPTIONS (SET transact_tables 'missing');
DO $$
DECLARE hint text;
BEGIN
	PERFORM idem_once('w0', writes => '[{"Put": {"TableName": "missing", "Item": {"id": "1"}}}]');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RAISE NOTICE '%: % %', sqlstate, sqlerrm, hint;
END $$;
ALTER SERVER exactonce OPTIONS (DROP transact_tables);
