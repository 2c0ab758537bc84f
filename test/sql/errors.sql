-- Each cause for which a call cannot reach its table has a clear error with a hint.
\set endpoint `echo "$EO_ENDPOINT"`
\set SHOW_CONTEXT never
SELECT idem_acquire('k', server => 'nowhere');
SET exactonce.server = 'elsewhere';
SELECT idem_acquire('k');
RESET exactonce.server;
CREATE FOREIGN DATA WRAPPER other;
CREATE SERVER other FOREIGN DATA WRAPPER other;
SELECT idem_acquire('k', server => 'other');
DROP FOREIGN DATA WRAPPER other CASCADE;
-- There is no region, no table or no credentials.
CREATE SERVER empty FOREIGN DATA WRAPPER exactonce OPTIONS (table 'regress');
CREATE SERVER empty FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1');
CREATE SERVER empty FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint :'endpoint');
SELECT idem_acquire('k', server => 'empty');
-- A changed option counts at once.
CREATE USER MAPPING FOR PUBLIC SERVER empty OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT (idem_get('k', server => 'empty')).status;
-- There is no such table.
ALTER SERVER empty OPTIONS (SET table 'missing');
\set VERBOSITY terse
SELECT idem_acquire('k', server => 'empty');
SELECT idem_get('k', server => 'empty');
-- The service does not answer.
ALTER SERVER empty OPTIONS (SET endpoint 'http://127.0.0.1:1', SET table 'regress');
SELECT idem_acquire('k', server => 'empty');
\set VERBOSITY default
DO $$
BEGIN
	PERFORM idem_acquire('k', server => 'empty');
EXCEPTION WHEN SQLSTATE 'ID006' THEN
	RAISE NOTICE 'ID006';
END $$;
-- Another service answers.  As long as its clock is not known, only reads are sent.
\set control `echo "$EO_CONTROL"`
ALTER SERVER empty OPTIONS (SET endpoint :'control');
SELECT idem_get('k', server => 'empty');
SELECT idem_acquire('k', server => 'empty');
DROP SERVER empty CASCADE;
-- The item is no record.
SELECT '{"TableName": "regress", "Item": {"pk": {"S": "IDEMPOTENCY#test/foreign"}, "state": {"S": "done"}}}'
\g (format=unaligned tuples_only=on) |sh test/harness/dynamodb.sh PutItem >/dev/null
\set VERBOSITY terse
SELECT idem_acquire('foreign');
SELECT idem_get('foreign');
