// SQL and Powertools for AWS Lambda (TypeScript) on one table: each sees what the other
// does with a key, in every state. The library's own records and requests are the
// test; nothing here writes an item by hand.
//
//   EO_RACES   rounds of the race; 20 by default, and 200 for the whole of it

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { connect } from './connect.mjs';
import { control } from './control.mjs';
import { timeouts } from '../harness/pace.mjs';
import { createDatabase } from './database.mjs';
import { crash, session } from './sessions.mjs';

const TABLE = 'interop_powertools';
const DATABASE = 'interop_powertools';
const PREFIX = 'orders';
const RACES = Number(process.env.EO_RACES ?? 20);
let dynamodb;
let sql;
let library;

const query = async (text, values) => (await sql.query(text, values)).rows[0];

// A payload of a test's own, and its key as SQL makes it.
async function newPayload() {
  const payload = { order: randomUUID(), Zoë: [1.5, null, '漢'] };
  const { key } = await query("SELECT idem_key_powertools('typescript', $1, $2) AS key", [JSON.stringify(payload), PREFIX]);
  return { payload, key };
}

// A Lambda function that is made idempotent, as a process of its own would be: it has
// its own layer of persistence. remaining is what is left of its time, in milliseconds.
function lambda(handler, { remaining = 60000, layer = {}, ...options } = {}) {
  const config = new library.IdempotencyConfig(options);
  config.registerLambdaContext({ getRemainingTimeInMillis: () => remaining });
  const persistenceStore = new library.DynamoDBPersistenceLayer({ tableName: TABLE, awsSdkV3Client: dynamodb, ...layer });
  return library.makeIdempotent(handler, { config, persistenceStore, keyPrefix: PREFIX });
}
const never = () => assert.fail('the function must not run');
const inProgress = { name: 'IdempotencyAlreadyInProgressError' };

// What a function answers once the background worker has written what SQL has decided.
async function answer(handler, payload, options) {
  for (;;) {
    try {
      return await lambda(handler, options)(payload);
    } catch (error) {
      if (error.name !== inProgress.name) throw error;
    }
  }
}

// Work under a key in a transaction that ends in that way.
async function work(key, result, end = 'COMMIT', client = sql) {
  await client.query('BEGIN');
  assert.deepEqual((await client.query('SELECT outcome FROM idem_acquire($1)', [key])).rows, [{ outcome: 'acquired' }]);
  await client.query('INSERT INTO work VALUES ($1)', [key]);
  await client.query('SELECT idem_complete($1, $2)', [key, JSON.stringify(result)]);
  await client.query(end);
}
const workOf = async (key) => (await sql.query('SELECT FROM work WHERE key = $1', [key])).rowCount;

// A scenario shows the requests of both sides, in their order, if it fails. It waits
// for the other side without end, hence the timeout.
function scenario(name, body) {
  test(name, { timeout: 600_000 }, async () => {
    try {
      await body();
    } catch (error) {
      console.log(await control('GET', '/log'));
      throw error;
    }
  });
}

before(async () => {
  delete process.env.AWS_LAMBDA_FUNCTION_NAME;
  library = {
    ...await import('@aws-lambda-powertools/idempotency'),
    ...await import('@aws-lambda-powertools/idempotency/dynamodb'),
  };
  dynamodb = await connect();
  await createDatabase(DATABASE);
  sql = await session(DATABASE);
  await sql.query('CREATE EXTENSION exactonce');
  await sql.query('CREATE TABLE work (key text)');
  for (const [server, given] of [['exactonce', timeouts], ['patient', ", request_timeout '60s', commit_timeout '60s'"]]) {
    await sql.query(`CREATE SERVER ${server} FOREIGN DATA WRAPPER exactonce OPTIONS
      (region 'eu-west-1', table '${TABLE}', endpoint '${process.env.EO_ENDPOINT}', clock_skew '0',
       lease '60s', layout 'powertools-typescript'${given})`);
    await sql.query(`CREATE USER MAPPING FOR PUBLIC SERVER ${server}
      OPTIONS (access_key_id 'test', secret_access_key 'test')`);
  }
  await sql.query('SELECT idem_create_table()');
});

beforeEach(() => control('POST', '/reset'));

after(async () => {
  await sql?.end();
  dynamodb?.destroy();
});

const results = [
  { id: 7, tags: ['a', 'é漢😀', ''], nothing: null, nested: { empty: {}, list: [] }, 'a "name"/': true },
  [], {}, [[1, 2], [3]], 0, -1.5, 9007199254740991, 1e-7, true, false, null, 'words', '', 'a "quoted"\nline',
];

scenario('what the library completes is the answer of SQL', async () => {
  for (const result of results) {
    const { payload, key } = await newPayload();
    assert.deepEqual(await lambda(() => result)(payload), result);
    assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1)', [key]), { outcome: 'completed', result });
    assert.deepEqual(await query('SELECT status, result FROM idem_get($1)', [key]), { status: 'COMPLETED', result });
  }
  const { payload, key } = await newPayload();
  await lambda(() => undefined)(payload);
  assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1)', [key]), { outcome: 'completed', result: null });
});

scenario('what SQL completes is the answer of the library', async () => {
  for (const result of results) {
    const { payload, key } = await newPayload();
    await work(key, result);
    assert.deepEqual(await answer(never, payload), result);
  }
});

scenario('a number that is too large for JavaScript is a bigint there, if it is an integer', async () => {
  const { payload, key } = await newPayload();
  await sql.query('SELECT idem_acquire($1)', [key]);
  await sql.query("SELECT idem_complete($1, '[9007199254740993, 0.1234567890123456789]')", [key]);
  assert.deepEqual(await answer(never, payload), [9007199254740993n, 0.12345678901234568]);
  const other = await newPayload();
  await sql.query('SELECT idem_acquire($1)', [other.key]);
  await sql.query("SELECT idem_complete($1, '9007199254740993.5')", [other.key]);
  await assert.rejects(answer(never, other.payload),
    ({ cause }) => /9007199254740993\.5 can't be converted to BigInt/.test(cause?.message));
});

scenario('a run in progress bars the other side', async () => {
  const { payload, key } = await newPayload();
  const result = await lambda(async () => {
    assert.deepEqual(await query('SELECT outcome FROM idem_acquire($1)', [key]), { outcome: 'in_progress' });
    assert.deepEqual(await query('SELECT status FROM idem_get($1)', [key]), { status: 'IN_PROGRESS' });
    return 'theirs';
  })(payload);
  assert.equal(result, 'theirs');

  const other = await newPayload();
  await sql.query('BEGIN');
  await sql.query('SELECT idem_acquire($1)', [other.key]);
  await assert.rejects(lambda(never)(other.payload), inProgress);
  await sql.query('SELECT idem_complete($1)', [other.key]);
  await assert.rejects(lambda(never)(other.payload), inProgress);
  await sql.query('COMMIT');
  assert.equal(await answer(never, other.payload), undefined);
});

scenario(`${RACES} races for one key each have one winner, and both see its result`, async () => {
  const wins = { sql: 0, library: 0 };
  for (let round = 0; round < RACES; round++) {
    const { payload, key } = await newPayload();
    // The handler goes on when SQL has its answer, so that neither is done before.
    let acquired;
    const theirs = lambda(async () => { await acquired; return { by: 'library', round }; })(payload).catch((error) => error);
    acquired = query('SELECT outcome FROM idem_acquire($1)', [key]);
    const ours = await acquired;
    if (ours.outcome === 'acquired') {
      wins.sql++;
      assert.equal((await theirs).name, inProgress.name);
      await query('SELECT idem_complete($1, $2)', [key, JSON.stringify({ by: 'sql', round })]);
      assert.deepEqual(await answer(never, payload), { by: 'sql', round });
    } else {
      wins.library++;
      assert.equal(ours.outcome, 'in_progress');
      assert.deepEqual(await theirs, { by: 'library', round });
      assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1)', [key]),
        { outcome: 'completed', result: { by: 'library', round } });
    }
  }
  console.log(`# SQL won ${wins.sql}, the library ${wins.library}`);
});

// A key of its own for an order, whose amount is what may not change.
async function newOrder(amount) {
  const payload = { order: randomUUID(), amount };
  const { key } = await query("SELECT idem_key_powertools('typescript', $1, $2) AS key", [JSON.stringify(payload.order), PREFIX]);
  return { payload, key };
}
const validating = { eventKeyJmesPath: 'order', payloadValidationJmesPath: 'amount' };
const mismatch = { name: 'IdempotencyValidationError' };
const acquireWith = (key, amount) => query('SELECT outcome, result FROM idem_acquire($1, payload => $2)', [key, JSON.stringify(amount)]);

scenario('a payload that is not the one of the library is refused by SQL', async () => {
  for (const amount of [{ net: 12.50, Currency: 'é', lines: [] }, 'a', 7, [1e-7, null]]) {
    const { payload, key } = await newOrder(amount);
    await lambda(async () => {
      await assert.rejects(acquireWith(key, 'another'), { code: 'ID003' });
      assert.equal((await acquireWith(key, amount)).outcome, 'in_progress');
      return 'done';
    }, validating)(payload);
    await assert.rejects(acquireWith(key, 'another'), { code: 'ID003' });
    await assert.rejects(query('SELECT idem_start($1, payload => $2)', [key, 'null']), { code: 'ID003' });
    assert.deepEqual(await acquireWith(key, amount), { outcome: 'completed', result: 'done' });
    assert.deepEqual(await query('SELECT outcome FROM idem_acquire($1)', [key]), { outcome: 'completed' });
  }
  const { payload, key } = await newOrder(1);
  await lambda(() => 'done', { eventKeyJmesPath: 'order' })(payload);
  assert.equal((await acquireWith(key, 2)).outcome, 'completed', 'the library has not validated');
});

scenario('a payload that is not the one of SQL is refused by the library', async () => {
  for (const amount of [{ net: 12.50, Currency: 'é', lines: [] }, 'a', 7, [1e-7, null]]) {
    const { payload, key } = await newOrder(amount);
    await sql.query('BEGIN');
    assert.equal((await acquireWith(key, amount)).outcome, 'acquired');
    await assert.rejects(lambda(never, validating)({ ...payload, amount: 'another' }), mismatch);
    await assert.rejects(lambda(never, validating)(payload), inProgress);
    await query('SELECT idem_complete($1, $2)', [key, '"by SQL"']);
    await sql.query('COMMIT');
    assert.equal(await answer(never, payload, validating), 'by SQL');
    await assert.rejects(lambda(never, validating)({ ...payload, amount: 'another' }), mismatch);
    assert.equal(await lambda(never, { eventKeyJmesPath: 'order' })({ ...payload, amount: 'another' }), 'by SQL');
  }
  const { payload, key } = await newOrder(1);
  await sql.query('SELECT idem_acquire($1), idem_complete($1)', [key]);
  await assert.rejects(lambda(never, validating)(payload), mismatch, 'SQL has given no payload');
});

scenario('the payload of a run that is over does not bar the next', async () => {
  const { payload, key } = await newOrder(1);
  await acquireWith(key, 1);
  await query('SELECT idem_fail($1)', [key]);
  assert.equal(await lambda(() => 'by the function', validating)({ ...payload, amount: 2 }), 'by the function');
  assert.deepEqual(await acquireWith(key, 2), { outcome: 'completed', result: 'by the function' });
});

scenario('SQL may run after a function has failed', async () => {
  const { payload, key } = await newPayload();
  await assert.rejects(lambda(() => { throw new Error('no stock'); })(payload), /no stock/);
  await work(key, 'by SQL');
  assert.equal(await answer(never, payload), 'by SQL');
});

scenario('a function may run after a transaction has failed, or its key was given up', async () => {
  const aborted = await newPayload();
  await work(aborted.key, 'by SQL', 'ROLLBACK');
  assert.equal(await answer(() => 'by the function', aborted.payload), 'by the function');
  assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1)', [aborted.key]),
    { outcome: 'completed', result: 'by the function' });
  assert.equal((await sql.query('SELECT FROM work WHERE key = $1', [aborted.key])).rowCount, 0);
  for (const give of ['idem_release($1)', "idem_fail($1, '\"no\"')"]) {
    const { payload, key } = await newPayload();
    await sql.query('SELECT idem_acquire($1)', [key]);
    await sql.query(`SELECT ${give}`, [key]);
    assert.equal(await answer(() => give, payload), give);
  }
});

scenario('a function waits for a commit whose end is not written yet', async () => {
  const { payload, key } = await newPayload();
  await control('POST', '/fault', { key, to: 'COMPLETED', do: 'drop', times: 0 });
  await work(key, { committed: true });
  await assert.rejects(lambda(never, { remaining: 1 })(payload), inProgress);
  await control('GET', `/wait?${new URLSearchParams({ key, to: 'COMPLETED' })}`);
  await assert.rejects(lambda(never)(payload), inProgress);
  await control('POST', '/reset');
  assert.deepEqual(await answer(never, payload), { committed: true });
});

scenario('a function waits for a commit whose end is not written yet, through a crash of the server', async () => {
  const { payload, key } = await newPayload();
  await control('POST', '/fault', { key, to: 'COMPLETED', do: 'drop', times: 0 });
  const other = await session(DATABASE);
  await work(key, { committed: true }, 'COMMIT', other);
  sql = await crash(other, sql, DATABASE);
  await assert.rejects(lambda(never, { remaining: 1 })(payload), inProgress);
  await control('POST', '/reset');
  assert.deepEqual(await answer(never, payload), { committed: true });
  assert.equal(await workOf(key), 1);
});

scenario('a seal whose answer is lost commits, and the function gets the result', async () => {
  for (const fault of ['lose', 'drop', 'reset', 'twice']) {
    const { payload, key } = await newPayload();
    await control('POST', '/fault', { key, to: 'COMMITTING', do: fault });
    await work(key, fault);
    assert.equal(await answer(never, payload), fault);
    assert.equal(await workOf(key), 1);
  }
});

scenario('a seal that never arrives fails the transaction, and the function may run', async () => {
  const { payload, key } = await newPayload();
  await control('POST', '/fault', { key, to: 'COMMITTING', do: 'drop', times: 0 });
  await assert.rejects(work(key, 'by SQL'), { code: 'ID006' });
  await control('POST', '/reset');
  assert.equal(await answer(() => 'by the function', payload), 'by the function');
  assert.equal(await workOf(key), 0);
});

scenario('a transaction that is cancelled after its seal leaves the key to the function', async () => {
  const { payload, key } = await newPayload();
  // The seal is applied and its answer lost; its second copy waits.
  await control('POST', '/fault', { key, to: 'COMMITTING', do: 'lose' });
  await control('POST', '/fault', { key, to: 'COMMITTING', do: 'hold', nth: 2 });
  const other = await session(DATABASE);
  await other.query("SET exactonce.server = 'patient'");
  const { rows: [{ pid }] } = await other.query('SELECT pg_backend_pid() AS pid');
  const failed = assert.rejects(work(key, 'by SQL', 'COMMIT', other));
  await control('GET', `/wait?${new URLSearchParams({ key, to: 'COMMITTING', n: 2 })}`);
  await assert.rejects(lambda(never)(payload), inProgress);
  await sql.query('SELECT pg_cancel_backend($1)', [pid]);
  await failed;
  await control('POST', '/reset');
  assert.equal(await answer(() => 'by the function', payload), 'by the function');
  assert.equal(await workOf(key), 0);
  await other.end();
});

scenario('a run of a function that is over is taken over by SQL', async () => {
  const { payload, key } = await newPayload();
  await new Promise((over, failed) => {
    // The function ends like a process that is killed: it writes nothing more.
    lambda(async () => {
      try {
        let taken;
        do taken = await query('SELECT outcome FROM idem_acquire($1)', [key]); while (taken.outcome === 'in_progress');
        assert.equal(taken.outcome, 'acquired');
        over();
      } catch (error) {
        failed(error);
      }
      return new Promise(() => {});
    }, { remaining: 1 })(payload);
  });
  await query("SELECT idem_complete($1, '\"by SQL\"')", [key]);
  assert.equal(await answer(never, payload), 'by SQL');
});

scenario('a claim of SQL that is over is lost to a function', async () => {
  const { payload, key } = await newPayload();
  await sql.query("SELECT idem_acquire($1, lease => '100 ms')", [key]);
  assert.equal(await answer(() => 'by the function', payload), 'by the function');
  await assert.rejects(query("SELECT idem_complete($1, '\"late\"')", [key]), { code: 'ID002' });
  assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1)', [key]),
    { outcome: 'completed', result: 'by the function' });
});

scenario('a table with a sort key, and with other names, has the same records for both', async () => {
  const tables = [
    { name: 'sorted', layer: { sortKeyAttr: 'sk', staticPkValue: 'idempotency#orders' },
      options: "sort_key_attribute 'sk', partition_value 'idempotency#orders'" },
    { name: 'renamed', layer: { keyAttr: 'k', statusAttr: 'State', expiryAttr: 'until', inProgressExpiryAttr: 'run_until',
        dataAttr: 'answer', validationKeyAttr: 'hash' },
      options: "key_attribute 'k', status_attribute 'State', expiry_attribute 'until', lease_attribute 'run_until', "
        + "result_attribute 'answer', validation_attribute 'hash'" }];
  for (const { name, layer, options } of tables) {
    const tableName = `${TABLE}_${name}`;
    const other = { layer: { tableName, ...layer } };
    await sql.query(`CREATE SERVER ${name} FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table '${tableName}',
      endpoint '${process.env.EO_ENDPOINT}', clock_skew '0', layout 'powertools-typescript', ${options}${timeouts})`);
    await sql.query(`CREATE USER MAPPING FOR PUBLIC SERVER ${name} OPTIONS (access_key_id 'test', secret_access_key 'test')`);
    await sql.query('SELECT idem_create_table($1)', [name]);
    const theirs = await newOrder(5);
    await lambda(() => 'theirs', { ...other, ...validating })(theirs.payload);
    assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1, payload => $2, server => $3)', [theirs.key, '5', name]),
      { outcome: 'completed', result: 'theirs' });
    await assert.rejects(query('SELECT idem_acquire($1, payload => $2, server => $3)', [theirs.key, '6', name]), { code: 'ID003' });
    const ours = await newOrder(5);
    await sql.query('BEGIN');
    await query('SELECT idem_acquire($1, payload => $2, server => $3)', [ours.key, '5', name]);
    await assert.rejects(lambda(never, { ...other, ...validating })(ours.payload), inProgress);
    await query("SELECT idem_complete($1, '\"ours\"', server => $2)", [ours.key, name]);
    await sql.query('COMMIT');
    assert.equal(await answer(never, ours.payload, { ...other, ...validating }), 'ours');
    await assert.rejects(lambda(never, { ...other, ...validating })({ ...ours.payload, amount: 6 }), mismatch);
    const { rows } = await sql.query("SELECT * FROM idem_check($1) WHERE status = 'failure' OR \"check\" = 'records'", [name]);
    assert.deepEqual(rows.map(({ check, status }) => `${check} ${status}`), ['records ok']);
  }
});

scenario('the local cache of a function keeps an answer that SQL has forgotten', async () => {
  const { payload, key } = await newPayload();
  await work(key, 'first');
  assert.equal(await answer(never, payload), 'first');
  const caching = lambda(never, { useLocalCache: true });
  assert.equal(await caching(payload), 'first');
  assert.deepEqual(await query('SELECT idem_forget($1)', [key]), { idem_forget: true });
  assert.equal(await caching(payload), 'first');
  assert.equal(await answer(() => 'second', payload), 'second');
  assert.equal(await caching(payload), 'first');
});
