-- idem_check and idem_create_table.
\pset null -
SELECT "check", status, regexp_replace(detail, 'http://[^ ]*|[0-9.]+ ms', '...') AS detail, advice
FROM idem_check() WHERE "check" NOT IN ('durability', 'worker', 'in doubt', 'pending', 'orphans');
-- this server's part of it, once there is work
SELECT outcome FROM idem_acquire('checked');
CALL await_worker();
SELECT "check", status, detail FROM idem_check() WHERE "check" IN ('worker', 'in doubt', 'pending', 'orphans');
-- a role that watches needs no USAGE for it
CREATE ROLE eo_monitor IN ROLE pg_monitor;
SET ROLE eo_monitor;
SELECT "check", status, detail FROM idem_check() WHERE "check" NOT IN ('durability', 'pending');
RESET ROLE;
DROP ROLE eo_monitor;
-- a table that is missing, then made
\set endpoint `echo "$EO_ENDPOINT"`
CREATE SERVER fresh FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'fresh', endpoint :'endpoint');
SELECT "check", status FROM idem_check('fresh') WHERE "check" NOT IN ('durability', 'worker', 'in doubt', 'pending', 'orphans');
CREATE USER MAPPING FOR PUBLIC SERVER fresh OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT "check", status FROM idem_check('fresh') WHERE "check" NOT IN ('durability', 'worker', 'in doubt', 'pending', 'orphans');
SELECT idem_create_table('fresh');
SELECT "check", status FROM idem_check('fresh') WHERE "check" NOT IN ('durability', 'worker', 'in doubt', 'pending', 'orphans');
-- a table of another shape
\! curl -s -o /dev/null "$EO_ENGINE" -H 'X-Amz-Target: DynamoDB_20120810.CreateTable' -H 'Content-Type: application/x-amz-json-1.0' -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' -d '{"TableName":"shaped","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"},{"AttributeName":"at","AttributeType":"N"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"},{"AttributeName":"at","KeyType":"RANGE"}]}'
ALTER SERVER fresh OPTIONS (SET table 'shaped');
SELECT idem_create_table('fresh');
SELECT "check", status, detail, advice FROM idem_check('fresh') WHERE status <> 'ok' AND "check" NOT IN ('round trip', 'durability', 'worker', 'pending');
SELECT status FROM idem_check('fresh') WHERE "check" = 'round trip';
DROP SERVER fresh CASCADE;
