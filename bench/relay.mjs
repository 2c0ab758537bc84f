// relay.mjs ENDPOINT DATABASE: an outbox with a polling relay, as it is usually written.
// It reads up to 500 rows, writes each to DynamoDB, 16 at a time, and deletes them.
// If it dies in between it writes some rows twice, which its reader has to notice.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
const { DynamoDBClient, UpdateItemCommand } = await import('@aws-sdk/client-dynamodb');
const [endpoint, database] = process.argv.slice(2);
const client = new DynamoDBClient({ region: 'eu-west-1', endpoint, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } });

// One session of psql, so that no driver needs to be installed.
const psql = spawn('psql', ['-XAtq', '-d', database], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: psql.stdout })[Symbol.asyncIterator]();
async function query(sql) {
  psql.stdin.write(`${sql};\n\\echo end of rows\n`);
  const rows = [];
  for (;;) {
    const { value, done } = await lines.next();
    if (done) process.exit(0);
    if (value === 'end of rows') return rows;
    rows.push(value.split('|'));
  }
}
process.on('SIGTERM', () => { psql.kill(); process.exit(0); });

function write(id) {
  return client.send(new UpdateItemCommand({
    TableName: 'scale', Key: { pk: { S: `IDEMPOTENCY#${id}` } }, UpdateExpression: 'SET #s = :C, #o = :o',
    ExpressionAttributeNames: { '#s': 'status', '#o': 'owner' },
    ExpressionAttributeValues: { ':C': { S: 'COMPLETED' }, ':o': { S: 'relay' } },
  }));
}

for (;;) {
  const rows = await query('SELECT n, id FROM outbox ORDER BY n LIMIT 500');
  const left = rows.map(([, id]) => id);
  await Promise.all(Array.from({ length: 16 }, async () => { while (left.length) await write(left.pop()); }));
  if (rows.length) await query(`DELETE FROM outbox WHERE n = ANY ('{${rows.map(([n]) => n)}}')`);
  else await pause(10);
}
