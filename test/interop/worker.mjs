// worker.mjs KEY [RESULT]
//
// A second service that shares the idempotency table: it claims KEY with the
// AWS SDK and nothing else, does its work (it has none: RESULT, a JSON text,
// stands for it) and completes the key.  It prints one line of JSON: what its
// claim met, and the result where there is one.
//
//   EO_ENDPOINT  where DynamoDB answers       EO_TABLE  the table ("idempotency")
//
// A record past its ttl that DynamoDB has not swept yet is still taken at its
// word here; the extension treats it as gone.

import { randomUUID } from 'node:crypto';

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
const { ConditionalCheckFailedException, DynamoDBClient, UpdateItemCommand } = await import('@aws-sdk/client-dynamodb');

const LEASE_MS = 60_000;
const CLOCK_SKEW_MS = 2_000;
const RETENTION_S = 7 * 24 * 3600;

const client = new DynamoDBClient({
  region: process.env.AWS_REGION ?? 'eu-west-1',
  endpoint: process.env.EO_ENDPOINT,
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
});
const TableName = process.env.EO_TABLE ?? 'idempotency';

const S = (text) => ({ S: text });
const N = (number) => ({ N: String(number) });

// Every attribute is given by a name of its own: some are reserved words.
function names(...attributes) {
  return Object.fromEntries(attributes.map((attribute) => [`#${attribute}`, attribute]));
}

// One conditional write: a new key, a failed one that may be tried again, or
// one whose holder is dead. COMMITTING is in none of them: its holder's
// transaction has been decided, whatever any clock says.
async function claim(key, token) {
  const now = Date.now();
  try {
    const { Attributes } = await client.send(new UpdateItemCommand({
      TableName,
      Key: { pk: S(`IDEMPOTENCY#${key}`) },
      ConditionExpression: 'attribute_not_exists(#pk)'
        + ' OR (#status = :failed AND #retry_ms <= :now AND #owner <> :token)'
        + ' OR (#status = :in_progress AND #lease_ms < :dead)',
      UpdateExpression: 'SET #status = :in_progress, #owner = :token, #lease_ms = :lease,'
        + ' #fence = if_not_exists(#fence, :now) + :one, #runs = if_not_exists(#runs, :zero) + :one,'
        + ' #created_ms = if_not_exists(#created_ms, :now), #updated_ms = :now, #ttl = :ttl'
        + ' REMOVE #result, #error, #retry_ms, #origin, #bind, #payload_sha256',
      ExpressionAttributeNames: names('pk', 'status', 'owner', 'lease_ms', 'fence', 'runs', 'created_ms',
        'updated_ms', 'ttl', 'result', 'error', 'retry_ms', 'origin', 'bind', 'payload_sha256'),
      ExpressionAttributeValues: {
        ':failed': S('FAILED'),
        ':in_progress': S('IN_PROGRESS'),
        ':token': S(token),
        ':now': N(now),
        ':dead': N(now - CLOCK_SKEW_MS),
        ':lease': N(now + LEASE_MS),
        ':ttl': N(Math.ceil((now + LEASE_MS) / 1000) + RETENTION_S),
        ':zero': N(0),
        ':one': N(1),
      },
      ReturnValues: 'ALL_NEW',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    }));
    return { outcome: 'acquired', item: Attributes };
  } catch (error) {
    if (!(error instanceof ConditionalCheckFailedException)) throw error;
    return { outcome: met(error.Item, token), item: error.Item };
  }
}

// What a refusal means. Our own token in it is our own earlier request, whose
// answer was lost and which the SDK has sent again.
function met(item, token) {
  const status = item.status.S;
  if (status === 'IN_PROGRESS' && item.owner.S === token) return 'acquired';
  if (status === 'FAILED') return item.retry_ms ? 'retry_later' : 'failed';
  return status === 'COMPLETED' ? 'completed' : 'in_progress';
}

// Only for the owner, and only while the key is still its own.
async function complete(key, token, result) {
  const now = Date.now();
  await client.send(new UpdateItemCommand({
    TableName,
    Key: { pk: S(`IDEMPOTENCY#${key}`) },
    ConditionExpression: '#owner = :token AND (#status = :in_progress OR #status = :completed)',
    UpdateExpression: 'SET #status = :completed, #result = :result, #updated_ms = :now, #ttl = :ttl'
      + ' REMOVE #lease_ms, #retry_ms, #error',
    ExpressionAttributeNames: names('owner', 'status', 'result', 'updated_ms', 'ttl', 'lease_ms', 'retry_ms', 'error'),
    ExpressionAttributeValues: {
      ':token': S(token),
      ':in_progress': S('IN_PROGRESS'),
      ':completed': S('COMPLETED'),
      ':result': S(JSON.stringify(result)),
      ':now': N(now),
      ':ttl': N(Math.ceil(now / 1000) + RETENTION_S),
    },
  }));
}

const [key, text = '{}'] = process.argv.slice(2);
if (!key) {
  console.error('usage: worker.mjs KEY [RESULT]');
  process.exit(2);
}
const token = randomUUID();
const { outcome, item } = await claim(key, token);
const report = { outcome, fence: Number(item.fence.N), run: Number(item.runs.N) };
if (outcome === 'acquired') {
  report.result = JSON.parse(text);
  await complete(key, token, report.result);
} else if (item.result) {
  report.result = JSON.parse(item.result.S);
}
console.log(JSON.stringify(report));
