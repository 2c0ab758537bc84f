// powertools.mjs ENDPOINT CALLS WARMUP: does the same work with Powertools for AWS
// Lambda and with the AWS SDK, one call after the other. Prints a line for each:
// name, kind, median, 90th percentile and CPU time, in microseconds.

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
process.env.AWS_LAMBDA_FUNCTION_NAME = 'bench';
const { CreateTableCommand, DynamoDBClient, UpdateItemCommand } = await import('@aws-sdk/client-dynamodb');
const { makeIdempotent, IdempotencyConfig } = await import('@aws-lambda-powertools/idempotency');
const { DynamoDBPersistenceLayer } = await import('@aws-lambda-powertools/idempotency/dynamodb');

const [endpoint, calls, warmup] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const run = Date.now();
const client = new DynamoDBClient({ region: 'eu-west-1', endpoint, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } });
await client.send(new CreateTableCommand({
  TableName: 'powertools', BillingMode: 'PAY_PER_REQUEST',
  AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
  KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
})).catch((error) => { if (error.name !== 'ResourceInUseException') throw error; });

async function measure(name, kind, call) {
  for (let i = 0; i < warmup; i++) await call(`w${i}`);
  const took = [];
  const cpu = process.cpuUsage();
  for (let i = 0; i < calls; i++) {
    const start = process.hrtime.bigint();
    await call(i);
    took.push(Number(process.hrtime.bigint() - start) / 1000);
  }
  const used = process.cpuUsage(cpu);
  took.sort((a, b) => a - b);
  console.log(name, kind, took[calls >> 1].toFixed(2), took[Math.floor(calls * 0.9)].toFixed(2),
    ((used.user + used.system) / calls).toFixed(2));
}

const context = { functionName: 'bench', awsRequestId: 'r', getRemainingTimeInMillis: () => 30000 };
const makeHandler = (useLocalCache) => makeIdempotent(async () => ({ ok: true }), {
  persistenceStore: new DynamoDBPersistenceLayer({ tableName: 'powertools', awsSdkV3Client: client }),
  config: new IdempotencyConfig({ eventKeyJmesPath: 'id', useLocalCache }),
});
const handler = makeHandler(false);
await measure('powertools', 'both', (i) => handler({ id: `${run}-${i}` }, context));
await handler({ id: `${run}-dup` }, context);
await measure('powertools', 'duplicate', () => handler({ id: `${run}-dup` }, context));
const remembering = makeHandler(true);
await measure('powertools', 'cached', () => remembering({ id: `${run}-dup` }, context));

const write = (i) => client.send(new UpdateItemCommand({
  TableName: 'powertools', Key: { id: { S: `sdk-${run}-${i}` } }, ConditionExpression: 'attribute_not_exists(#k)',
  UpdateExpression: 'SET #s = :s, #o = :o', ExpressionAttributeNames: { '#k': 'id', '#s': 'status', '#o': 'owner' },
  ExpressionAttributeValues: { ':s': { S: 'IN_PROGRESS' }, ':o': { S: 'me' } }, ReturnValues: 'ALL_NEW',
  ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
})).catch((error) => { if (error.name !== 'ConditionalCheckFailedException') throw error; });
await measure('sdk', 'acquire', write);
await write('dup');
await measure('sdk', 'duplicate', () => write('dup'));
client.destroy();
