// The document client of the AWS SDK writes records with values of DynamoDB's types,
// and SQL reads them as JSON.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { DynamoDBDocumentClient, GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import pg from 'pg';
import { connect } from './connect.mjs';
import { timeouts } from '../harness/pace.mjs';
import { createDatabase } from './database.mjs';

const TABLE = 'interop_documents';
const DATABASE = 'interop_documents';
let documents;
let sql;

const query = async (text, values) => (await sql.query(text, values)).rows[0];

const put = (key, attributes) => documents.send(new PutCommand({
  TableName: TABLE, Item: { pk: `IDEMPOTENCY#${key}`, owner: 'documents', ...attributes } }));
const completed = (key, result) => put(key, { status: 'COMPLETED', result });
const failed = (key, error) => put(key, { status: 'FAILED', error, retry_ms: Date.now() + 3600000 });

// A value inside so many lists.
const nested = (value, levels) => (levels === 0 ? value : [nested(value, levels - 1)]);

before(async () => {
  await createDatabase(DATABASE);
  sql = new pg.Client({ database: DATABASE });
  await sql.connect();
  await sql.query('CREATE EXTENSION exactonce');
  await sql.query(`CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce OPTIONS
    (region 'eu-west-1', table '${TABLE}', endpoint '${process.env.EO_ENDPOINT}', clock_skew '0'${timeouts})`);
  await sql.query(`CREATE USER MAPPING FOR PUBLIC SERVER exactonce
    OPTIONS (access_key_id 'test', secret_access_key 'test')`);
  await sql.query('SELECT idem_create_table()');
  documents = DynamoDBDocumentClient.from(await connect());
});

after(async () => {
  await sql?.end();
  documents?.destroy();
});

test('results and errors are read as the JSON they are', async () => {
  const values = [
    { id: 7, tags: ['a', 'é漢😀', ''], nothing: null, nested: { empty: {}, list: [] }, 'a "name"/': true },
    [], {}, [[1, 2], [3]], 0, -1.5, 9007199254740991, 1e-7, true, false, null,
    'words', 'a "quoted"\nline', nested('deep', 29),
  ];
  for (const [i, value] of values.entries()) {
    await completed(`value ${i}`, value);
    await failed(`error ${i}`, value);
    assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1)', [`value ${i}`]),
      { outcome: 'completed', result: value });
    assert.deepEqual(await query('SELECT status, result FROM idem_get($1)', [`value ${i}`]),
      { status: 'COMPLETED', result: value });
    assert.deepEqual(await query('SELECT outcome, error FROM idem_acquire($1)', [`error ${i}`]),
      { outcome: 'retry_later', error: value });
    assert.deepEqual(await query('SELECT status, error FROM idem_get($1)', [`error ${i}`]),
      { status: 'FAILED', error: value });
  }
});

test('numbers are read exactly, and sets as arrays', async () => {
  await completed('numbers', [12345678901234567890n, -9007199254740993n, 0.1]);
  assert.deepEqual(await query("SELECT result::text FROM idem_acquire('numbers')"),
    { result: '[12345678901234567890, -9007199254740993, 0.1]' });
  await completed('words', new Set(['b', 'a']));
  await completed('set of numbers', new Set([2, 1.5]));
  assert.deepEqual((await query("SELECT result FROM idem_acquire('words')")).result.sort(), ['a', 'b']);
  assert.deepEqual((await query("SELECT result FROM idem_acquire('set of numbers')")).result.sort(), [1.5, 2]);
});

test('a binary value is an error, and is not read as nothing', async () => {
  const binary = Uint8Array.of(0, 1, 2);
  for (const [i, value] of [binary, new Set([binary]), { a: [{ b: binary }] }].entries()) {
    await completed(`binary ${i}`, value);
    await failed(`binary error ${i}`, value);
    for (const key of [`binary ${i}`, `binary error ${i}`]) {
      for (const call of ['idem_acquire($1)', 'idem_start($1)', 'idem_get($1)']) {
        const unreadable = { code: 'ID007', message: /the record cannot be read/ };
        await assert.rejects(query(`SELECT ${call}`, [key]), unreadable, call);
      }
    }
  }
});

test('attributes that are not part of a record are ignored', async () => {
  const others = { trace: nested({ at: 1 }, 29), note: 'a\0b', blob: Uint8Array.of(0) };
  await put('others', { status: 'FAILED', error: { code: 7 }, retry_ms: 0, ...others });
  assert.deepEqual(await query("SELECT outcome, run FROM idem_acquire('others', on_commit => 'keep')"),
    { outcome: 'acquired', run: 1 });
  await query("SELECT idem_extend('others', '1 min')");
  await query("SELECT idem_complete('others', '{\"by\": \"sql\"}')");
  assert.deepEqual(await query("SELECT outcome, result FROM idem_acquire('others')"),
    { outcome: 'completed', result: { by: 'sql' } });
  let item;
  do {
    ({ Item: item } = await documents.send(new GetCommand({
      TableName: TABLE, Key: { pk: 'IDEMPOTENCY#others' }, ConsistentRead: true })));
  } while (item.status !== 'COMPLETED');
  assert.deepEqual([item.result, item.trace, item.note, item.blob, item.error],
    ['{"by": "sql"}', others.trace, others.note, others.blob, undefined]);
});

test('the snippet of docs/http.md answers with whatever the work returns, once', async () => {
  const page = await readFile(new URL('../../docs/http.md', import.meta.url), 'utf8');
  const [, snippet] = /```js\n(const db = await pool[\s\S]*?)```/.exec(page);
  const AsyncFunction = (async () => {}).constructor;
  const handle = new AsyncFunction('pool', 'request', 'response', 'user', 'placeOrder', snippet);
  const pool = new pg.Pool({ database: DATABASE, max: 1 });
  let orders = 0;
  // Answers, and whether the session that goes back to the pool has ended its transaction.
  const post = async (key, body, result) => {
    const answer = {};
    const response = {
      set(name, value) { answer[name] = value; },
      status(status) { answer.status = status; return this; },
      json(value) { answer.body = value; },
    };
    await handle(pool, { get: () => key, body }, response, 7, async () => { orders += 1; return result; });
    const { rows: [{ age }] } = await pool.query('SELECT now() = statement_timestamp() AS age');
    return { ...answer, idle: age };
  };
  try {
    for (const [i, result] of [[1, [2]], [], 'words', 'a "quoted" one', { a: 1 }, 0, false, null].entries()) {
      const expected = { status: 200, body: result, idle: true };
      assert.deepEqual(await post(`k${i}`, [i, 'x'], result), expected);
      assert.deepEqual(await post(`k${i}`, [i, 'x'], 'another'), expected);
      assert.equal(orders, i + 1);
    }
    await assert.rejects(post('k0', ['another payload']), { code: 'ID003' });
    await assert.rejects(handle(pool, { get: () => 'fails', body: 1 }, {}, 7, () => { throw new Error('no stock'); }), /no stock/);
    assert.deepEqual(await post('fails', 1, 'then'), { status: 200, body: 'then', idle: true });
    await sql.query("SELECT idem_acquire('orders/7/busy', lease => '1 hour', payload => '1')");
    const { status, 'Retry-After': retryAfter } = await post('busy', 1);
    assert.equal(status, 409);
    assert.ok(retryAfter > 0);
  } finally {
    await pool.end();
  }
});
