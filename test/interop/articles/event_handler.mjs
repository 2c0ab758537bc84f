// A handler of events, recipe (a) of docs/interop.md: an item under PK and SK that is inserted
// if there is none. Whoever meets one has a duplicate, whatever its State is. Reads a job a
// line, see ../programs.mjs, and writes what happened.

import { createInterface } from 'node:readline';
import { ConditionalCheckFailedException } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, PutCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { connect } from '../connect.mjs';

const TableName = process.argv[2];
const table = DynamoDBDocumentClient.from(await connect());
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const keyOf = (id) => ({ PK: `IDEMPOTENCY#${id}`, SK: `IDEMPOTENCY#${id}` });
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

async function begin(id, seconds) {
  try {
    await table.send(new PutCommand({
      TableName, ConditionExpression: 'attribute_not_exists(PK)',
      Item: { ...keyOf(id), State: 'Pending', LastUpdated: new Date().toISOString(), TTL: Math.floor(Date.now() / 1000) + seconds },
    }));
    return true;
  } catch (error) {
    if (error instanceof ConditionalCheckFailedException) return false;
    throw error;
  }
}

const settle = (id, state) => table.send(new UpdateCommand({
  TableName, Key: keyOf(id), UpdateExpression: 'SET #s = :s, LastUpdated = :now',
  ExpressionAttributeNames: { '#s': 'State' }, ExpressionAttributeValues: { ':s': state, ':now': new Date().toISOString() },
}));

for (let line = await lines.next(); !line.done; line = await lines.next()) {
  const job = JSON.parse(line.value);
  const ran = await begin(job.key, job.seconds ?? 3600);
  if (ran && job.wait) {
    say({ started: true });
    await lines.next();
  }
  if (ran && job.do !== 'die') await settle(job.key, job.do === 'fail' ? 'Failed' : 'Completed');
  const { Item } = await table.send(new GetCommand({ TableName, Key: keyOf(job.key), ConsistentRead: true }));
  say({ ran, status: Item?.State });
}
