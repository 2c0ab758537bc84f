-- A key and writes to other tables of DynamoDB, all or nothing.
\pset null NULL
SET client_min_messages = warning;
\set endpoint `echo "$EO_ENDPOINT"`
\set call `echo "curl -s -o /dev/null $EO_ENGINE -H 'Content-Type: application/x-amz-json-1.0' -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' -H X-Amz-Target:DynamoDB_20120810."`
\setenv EO_CALL :call
\! for t in orders stock; do eval "$EO_CALL"CreateTable -d "'"'{"TableName":"'$t'","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}'"'"; done

-- not without the tables being named
SELECT idem_transact('t1', '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}}]');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (transact_tables '');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (transact_tables 'orders, ,stock');
CREATE SERVER bad FOREIGN DATA WRAPPER exactonce OPTIONS (transact_tables 'orders,arn:aws:dynamodb:x');
ALTER SERVER exactonce OPTIONS (ADD transact_tables ' orders,stock , regress');
SELECT idem_transact('t1', '[{"Put": {"TableName": "orders", "Item": {"id": "1"}}}, {"Delete": {"TableName": "secret", "Key": {"id": "1"}}}]');

-- what DynamoDB holds of an item
CREATE FUNCTION show(tab text, id text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('COPY shown FROM PROGRAM %L', format('curl -s %s -H Content-Type:application/x-amz-json-1.0 -H X-Amz-Target:DynamoDB_20120810.GetItem -H ''Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0'' -d ''{"TableName":"%s","ConsistentRead":true,"Key":{"id":{"S":"%s"}}}''',
		(SELECT option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'exactonce' AND option_name = 'endpoint'), tab, id));
	RETURN (SELECT doc->>'Item' FROM shown);
END $$;
CREATE TEMP TABLE shown (doc jsonb);
CREATE RULE one AS ON INSERT TO shown DO ALSO NOTHING;
