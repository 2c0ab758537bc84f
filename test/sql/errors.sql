-- What stands between a caller and the table: one clear error each, with a hint.
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
-- no region, no table, no credentials
CREATE SERVER empty FOREIGN DATA WRAPPER exactonce OPTIONS (table 'regress');
CREATE SERVER empty FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1');
CREATE SERVER empty FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', endpoint :'endpoint');
SELECT idem_acquire('k', server => 'empty');
-- the change counts at once
CREATE USER MAPPING FOR PUBLIC SERVER empty OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT (idem_get('k', server => 'empty')).status;
-- no such table
ALTER SERVER empty OPTIONS (SET table 'missing');
\set VERBOSITY terse
SELECT idem_acquire('k', server => 'empty');
SELECT idem_get('k', server => 'empty');
-- nobody answers
ALTER SERVER empty OPTIONS (SET endpoint 'http://127.0.0.1:1', SET table 'regress');
SELECT idem_acquire('k', server => 'empty');
\set VERBOSITY default
DO $$
BEGIN
	PERFORM idem_acquire('k', server => 'empty');
EXCEPTION WHEN SQLSTATE 'ID006' THEN
	RAISE NOTICE 'ID006';
END $$;
-- somebody else answers
\set control `echo "$EO_CONTROL"`
ALTER SERVER empty OPTIONS (SET endpoint :'control');
SELECT idem_get('k', server => 'empty');
SELECT idem_acquire('k', server => 'empty');
DROP SERVER empty CASCADE;
-- an item that is no record
\! curl -s -o /dev/null "$EO_ENGINE" -H 'X-Amz-Target: DynamoDB_20120810.PutItem' -H 'Content-Type: application/x-amz-json-1.0' -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' -d '{"TableName":"regress","Item":{"pk":{"S":"IDEMPOTENCY#test/foreign"},"state":{"S":"done"}}}'
\set VERBOSITY terse
SELECT idem_acquire('foreign');
SELECT idem_get('foreign');
