// Both spellings of a write, UpdateItem and a statement of PartiQL, on equal copies of random
// records. What a statement is accepted for, the UpdateItem is accepted for, and leaves the
// same item. What a statement is refused for, the UpdateItem is refused for, unless the
// statement had to say more: an attribute must exist, or the set of undone seals or the item
// must not (statement.c).
//
// A record in a state that only a newer version knows is changed by no write at all, and an attribute
// that only a newer version knows is kept by every write.
//
// EO_SPELLINGS is the number of records for each layout, 10,000 by hand.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const N = Number(process.env.EO_SPELLINGS ?? 200);
const SEED = Number(process.env.EO_SEED ?? 20260103);
const TABLES = ['spelled_update', 'spelled_statement'];
const BATCH = 25;

const custom = 'custom;key_attribute=PK;item_prefix=IDEMPOTENCY#;sort_key_attribute=SK;status_attribute=State;'
    + 'status_words=in_progress=Pending,completed=Completed,failed=Failed;'
    + 'expiry_attribute=TTL;updated_attribute=LastUpdated;instants=iso';
const layouts = { native: ['pk'], 'powertools-python': ['id'], [custom]: ['PK', 'SK'] };

// The verbs that have a statement; in layouts other than native a seal keeps what was shown.
const spelled = {
  native: 'abort acquire complete complete_new extend fail finish note_undone progress release resume seal seal_new spare unseal',
  other: 'abort acquire complete complete_new extend fail finish note_undone progress release resume seal_new spare',
};

async function ask(operation, request) {
  const answer = await fetch(process.env.EO_ENGINE_URL, {
    method: 'POST',
    headers: {
      'X-Amz-Target': `DynamoDB_20120810.${operation}`, 'Content-Type': 'application/x-amz-json-1.0',
      Authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, '
        + 'SignedHeaders=host, Signature=0',
      'X-Amz-Date': '20260101T000000Z',
    },
    body: JSON.stringify(request),
  });
  return { status: answer.status, ...await answer.json() };
}

const conditionFailed = 'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException';

function* parts(list) {
  for (let i = 0; i < list.length; i += BATCH) yield list.slice(i, i + BATCH);
}

// Numbers are kept by their value, and the members of an item have no order.
const normal = (item) => item && Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)));

async function both(cases, key) {
  const puts = cases.filter(({ item }) => item).map(({ item }) => ({ PutRequest: { Item: item } }));
  for (const table of TABLES) {
    if (!puts.length) break;
    const { UnprocessedItems: left, status } = await ask('BatchWriteItem', { RequestItems: { [table]: puts } });
    assert.deepEqual([status, left], [200, {}]);
  }
  const [single, { Responses: answers }] = await Promise.all([
    Promise.all(cases.map(({ update }) => ask('UpdateItem', update))),
    ask('BatchExecuteStatement', { Statements: cases.map(({ statement }) => statement) }),
  ]);
  const kept = await Promise.all(TABLES.map((table) => ask('BatchGetItem', {
    RequestItems: { [table]: { ConsistentRead: true, Keys: cases.map(({ update }) => update.Key) } },
  })));
  const found = (i, wanted) => normal(kept[i].Responses[TABLES[i]]
    .find((item) => key.every((name) => item[name].S === wanted[name].S)));
  return cases.map((made, i) => ({
    ...made,
    single: single[i],
    answer: answers[i],
    afterSingle: found(0, made.update.Key),
    afterStatement: found(1, made.update.Key),
  }));
}

// May the statement be refused where the UpdateItem is accepted?
function saysMore({ item, statement }) {
  if (statement.Statement.startsWith('INSERT')) return item !== null;
  if (!item) return true;
  const required = [...statement.Statement.matchAll(/"([^"]*)" IS NOT MISSING/g)].map(([, name]) => name);
  return required.some((name) => !(name in item)) || 'undone' in item || 'eo_undone' in item;
}

// Runs spell, and returns what it has printed.
function spell(...options) {
  return execFileSync(path.join(here, 'spell'), [String(SEED), String(N), ...options], { maxBuffer: 1 << 30 })
    .toString().trim().split('\n').map((line) => JSON.parse(line));
}

async function makeTables(key) {
  for (const TableName of TABLES) {
    await ask('DeleteTable', { TableName });
    const { status } = await ask('CreateTable', {
      TableName,
      AttributeDefinitions: key.map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
      KeySchema: key.map((AttributeName, i) => ({ AttributeName, KeyType: ['HASH', 'RANGE'][i] })),
      BillingMode: 'PAY_PER_REQUEST',
    });
    assert.equal(status, 200);
  }
}

for (const [layout, key] of Object.entries(layouts)) {
  const name = layout.split(';')[0];
  test(`both spellings of ${N} writes on records of ${name}`, async () => {
    await makeTables(key);
    const made = spell(layout);
    const cases = made.filter(({ statement }) => statement);
    assert.equal([...new Set(cases.map(({ verb }) => verb))].sort().join(' '),
      name === 'native' ? spelled.native : spelled.other);
    const accepted = { both: 0, single: 0, neither: 0 };
    for (const part of parts(cases)) {
      for (const one of await both(part, key)) {
        const byStatement = !one.answer.Error;
        const bySingle = one.single.status === 200;
        const what = JSON.stringify({ seed: SEED, ...one }, null, 1);
        accepted[byStatement ? 'both' : bySingle ? 'single' : 'neither']++;
        if (byStatement) {
          assert.ok(bySingle, `only the statement is accepted: ${what}`);
          assert.deepEqual(one.afterStatement, one.afterSingle, what);
          assert.deepEqual(one.afterSingle.of_newer, one.item?.of_newer, `an attribute was not kept: ${what}`);
          if (one.answer.Item) assert.deepEqual(normal(one.answer.Item), one.afterStatement, what);
        } else {
          assert.ok(!bySingle || saysMore(one), `only the UpdateItem is accepted: ${what}`);
          assert.deepEqual(one.afterStatement, normal(one.item) ?? undefined, what);
        }
      }
    }
    // The records are not so random that nothing is ever accepted.
    assert.ok(accepted.both > cases.length / 10, JSON.stringify(accepted));
    console.log(`# ${name}: ${JSON.stringify(accepted)}`);
  });

  test(`${N} writes on records of ${name} in a state that is not known`, async () => {
    await makeTables(key);
    const cases = spell(layout, 'new');
    assert.equal(new Set(cases.map(({ verb }) => verb)).size, name === 'native' ? 22 : 17);
    for (const part of parts(cases)) {
      const puts = part.map(({ item }) => ({ PutRequest: { Item: item } }));
      const { status } = await ask('BatchWriteItem', { RequestItems: { [TABLES[0]]: puts } });
      assert.equal(status, 200);
      await Promise.all(part.map(async (one) => {
        const answer = await ask('UpdateItem', one.update);
        // The item that comes with the refusal is the item as it is.
        assert.deepEqual([answer.__type, normal(answer.Item)], [conditionFailed, normal(one.item)], JSON.stringify(one, null, 1));
      }));
    }
  });
}
