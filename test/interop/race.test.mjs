// SQL and a client of the AWS SDK on the same keys, at the same time.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import pg from 'pg';
import { connect } from './connect.mjs';
import { timeouts } from '../harness/pace.mjs';
import { createDatabase } from './database.mjs';
import { Keys } from './client.mjs';
import { fingerprint } from './fingerprint.mjs';

const ROUNDS = 200;
const table = 'interop';
let dynamodb;
let sql;
let keys;

const query = async (text, values) => (await sql.query(text, values)).rows[0];

// Acquires a key that SQL has committed. It is completed for other services once the
// background worker has written that.
const meets = async (key) => {
  let met;
  do met = await keys.acquire(key); while (met.outcome === 'in_progress');
  return met;
};

before(async () => {
  await createDatabase('interop');
  sql = new pg.Client({ database: 'interop', application_name: 'interop' });
  await sql.connect();
  await sql.query('CREATE EXTENSION exactonce');
  await sql.query(`CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce OPTIONS
    (region 'eu-west-1', table '${table}', endpoint '${process.env.EO_ENDPOINT}', clock_skew '0', lease '60s'${timeouts})`);
  await sql.query(`CREATE USER MAPPING FOR PUBLIC SERVER exactonce
    OPTIONS (access_key_id 'test', secret_access_key 'test')`);
  await sql.query('SELECT idem_create_table()');
  dynamodb = await connect();
  keys = new Keys(dynamodb, table, { skew: 0 });
});

after(async () => {
  await sql?.end();
  dynamodb?.destroy();
});

test(`${ROUNDS} races for one key each have one winner, and both see its result`, async () => {
  const wins = { sql: 0, sdk: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const key = `race ${round}`;
    const [ours, theirs] = await Promise.all([
      query('SELECT outcome, run FROM idem_acquire($1)', [key]), keys.acquire(key)]);
    assert.deepEqual([ours.outcome, theirs.outcome].sort(), ['acquired', 'in_progress'], key);
    if (ours.outcome === 'acquired') {
      wins.sql++;
      await query('SELECT idem_complete($1, $2)', [key, { by: 'sql', round }]);
      const { outcome, result } = await meets(key);
      assert.deepEqual({ outcome, result }, { outcome: 'completed', result: { by: 'sql', round } });
    } else {
      wins.sdk++;
      assert.ok(await keys.complete(key, theirs.token, { by: 'sdk', round }));
      assert.deepEqual(await query('SELECT outcome, run, result FROM idem_acquire($1)', [key]),
        { outcome: 'completed', run: 1, result: { by: 'sdk', round } });
    }
  }
  console.log(`# SQL won ${wins.sql}, the SDK ${wins.sdk}`);
});

test('a dead claim of the SDK is taken over by SQL, and cannot be completed any more', async () => {
  const dead = await new Keys(dynamodb, table, { lease: 100 }).acquire('dead sdk');
  assert.equal(dead.outcome, 'acquired');
  const row = await query("SELECT outcome, run, fence FROM idem_acquire('dead sdk', wait => '10 s')");
  assert.deepEqual([row.outcome, row.run, Number(row.fence)], ['acquired', 2, dead.record.fence + 1]);
  assert.equal(await keys.complete('dead sdk', dead.token, 'late'), false);
  await query("SELECT idem_complete('dead sdk', '1')");
});

test('a dead claim of SQL is taken over by the SDK, and cannot be completed any more', async () => {
  const row = await query("SELECT token, fence FROM idem_acquire('dead sql', lease => '100 ms')");
  let taken;
  do taken = await keys.acquire('dead sql'); while (taken.outcome === 'in_progress');
  assert.deepEqual([taken.outcome, taken.record.runs, taken.record.fence], ['acquired', 2, Number(row.fence) + 1]);
  await assert.rejects(query("SELECT idem_complete('dead sql', '\"late\"')"), { code: 'ID002' });
  await assert.rejects(query("SELECT idem_extend('dead sql', token => $1)", [row.token]), { code: 'ID002' });
  assert.ok(await keys.complete('dead sql', taken.token, 'alive'));
});

test('a key that PostgreSQL is committing is not taken over, whatever its lease says', async () => {
  await query("SELECT idem_acquire('sealed', lease => '100 ms')");
  await dynamodb.send(new UpdateItemCommand({
    TableName: table, Key: { pk: { S: 'IDEMPOTENCY#sealed' } },
    UpdateExpression: 'SET #s = :s, origin = :o REMOVE #t',
    ExpressionAttributeNames: { '#s': 'status', '#t': 'ttl' },
    ExpressionAttributeValues: {
      ':s': { S: 'COMMITTING' }, ':o': { S: '00000000-0000-4000-8000-000000000000/1/1/1/0' },
    },
  }));
  const { lease_ms: lease } = await keys.get('sealed');
  // Time is the subject: the key is asked for until its lease is over, and on.
  do assert.equal((await keys.acquire('sealed')).outcome, 'in_progress'); while (Date.now() < lease + 500);
  assert.deepEqual(await query("SELECT outcome, lease_until FROM idem_acquire('sealed')"),
    { outcome: 'in_progress', lease_until: null });
});

test('a failure means the same to both', async () => {
  const theirs = await keys.acquire('failing');
  assert.ok(await keys.fail('failing', theirs.token, { code: 7 }, { retryAfter: 3600000 }));
  let row = await query("SELECT outcome, error, retry_at > now() + '59 min' AS later FROM idem_acquire('failing')");
  assert.deepEqual(row, { outcome: 'retry_later', error: { code: 7 }, later: true });
  await query("SELECT idem_forget('failing')");
  await query("SELECT idem_acquire('failing')");
  await query("SELECT idem_fail('failing', '\"never\"', terminal => true)");
  const met = await keys.acquire('failing');
  assert.deepEqual([met.outcome, met.record.error], ['failed', '"never"']);

  const given = await keys.acquire('given back');
  assert.ok(await keys.release('given back', given.token));
  row = await query("SELECT outcome, run FROM idem_acquire('given back')");
  assert.deepEqual(row, { outcome: 'acquired', run: 1 });
});

test('records of both have the same attributes', async () => {
  // Only PostgreSQL writes origin, the transaction that completed the key. There is a
  // holder if the claimant has a name.
  const spelled = ({ origin, holder, ...record }) => Object.fromEntries(Object.entries(record)
    .map(([name, value]) => [name, typeof value]).sort());
  const compare = async (step) => assert.deepEqual(
    spelled(await keys.get('by sql')), spelled(await keys.get('by sdk')), step);

  await query("SELECT idem_acquire('by sql')");
  const theirs = await keys.acquire('by sdk');
  await compare('in progress');
  await query("SELECT idem_complete('by sql', '{\"a\": 1}')");
  await keys.complete('by sdk', theirs.token, { a: 1 });
  assert.equal((await meets('by sql')).outcome, 'completed');
  await compare('completed');
  const ours = await keys.get('by sql');
  assert.equal(ours.ttl, Math.ceil(ours.updated_ms / 1000) + 7 * 86400, 'ttl is seconds, from the end');
  for (const key of ['by sql', 'by sdk']) await query('SELECT idem_forget($1)', [key]);
  await compare('forgotten');
  await query("SELECT idem_acquire('by sql')");
  const again = await keys.acquire('by sdk');
  await query("SELECT idem_fail('by sql', '1', retry_after => '1 min')");
  await keys.fail('by sdk', again.token, 1, { retryAfter: 60000 });
  await compare('failed');
  for (const key of ['by sql', 'by sdk']) {
    const failed = await keys.get(key);
    assert.equal(failed.ttl, Math.ceil(failed.retry_ms / 1000) + 7 * 86400, 'ttl is counted from the retry');
  }
});

test('a token alone keeps the retention of its claim', async () => {
  const theirs = await new Keys(dynamodb, table, { retention: 30 * 86400, holder: 'billing' }).acquire('handed to sql');
  assert.equal((await query("SELECT holder FROM idem_get('handed to sql')")).holder, 'billing');
  await query("SELECT idem_complete('handed to sql', '1', token => $1, immediate => true)", [theirs.token]);
  await query("SET application_name = 'nightly run'");
  const ours = await query("SELECT token FROM idem_acquire('handed to sdk', retention => '30 days')");
  assert.equal((await keys.get('handed to sdk')).holder, 'nightly run');
  assert.ok(await keys.complete('handed to sdk', ours.token, 1));
  for (const key of ['handed to sql', 'handed to sdk']) {
    const done = await keys.get(key);
    assert.deepEqual([done.status, done.retention_s, done.ttl - Math.ceil(done.updated_ms / 1000)],
      ['COMPLETED', 30 * 86400, 30 * 86400], key);
  }
});

test('a failed claim may still be explained after its release, until it is taken', async () => {
  const given = await keys.acquire('explained');
  assert.ok(await keys.release('explained', given.token));
  assert.ok(await keys.fail('explained', given.token, 'why', { terminal: true }));
  assert.deepEqual(await query("SELECT outcome, error FROM idem_acquire('explained')"),
    { outcome: 'failed', error: 'why' });
});

test('a token that has ended is not used again', async () => {
  const first = await keys.acquire('spent');
  await keys.fail('spent', first.token, 'once');
  const second = await keys.acquire('spent', { token: first.token });
  assert.equal(second.outcome, 'acquired');
  assert.notEqual(second.token, first.token);
});

test('a finished record past its time is replaced by either side', async () => {
  // A client whose clock is ten days behind writes the record, instead of waiting.
  const { now } = Date;
  for (const key of ['old for sql', 'old for sdk']) {
    Date.now = () => now() - 10 * 86400000;
    try {
      const old = await keys.acquire(key, { fingerprint: fingerprint(1) });
      await keys.complete(key, old.token, 'old');
    } finally {
      Date.now = now;
    }
  }
  const { outcome, run } = await query("SELECT outcome, run FROM idem_acquire('old for sql')");
  const taken = await keys.acquire('old for sdk');
  assert.deepEqual([outcome, run], ['acquired', 1]);
  assert.deepEqual([taken.outcome, taken.record.runs], ['acquired', 1]);
  for (const key of ['old for sql', 'old for sdk']) {
    const record = await keys.get(key);
    assert.deepEqual([record.result, record.payload_sha256], [undefined, undefined], key);
    assert.ok(now() - record.created_ms < 60000, key);
  }
});

test('both compute the same fingerprint of a payload', async () => {
  const payloads = [
    null, true, 0, -1.5, 'é漢😀', '', [], {}, [1, [2, null], { a: false }],
    { bb: 1, a: 2, é: 3, ab: { z: [], y: '' } }, 12345678901, 0.25, { amount: 1e21, tiny: 1e-7 },
  ];
  for (const [i, payload] of payloads.entries()) {
    const key = `payload ${i}`;
    await query('SELECT idem_acquire($1, payload => $2)', [key, JSON.stringify(payload)]);
    assert.equal((await keys.get(key)).payload_sha256, fingerprint(payload), JSON.stringify(payload));
  }
  await assert.rejects(keys.acquire('payload 1', { fingerprint: fingerprint('other') }), /another payload/);
  await keys.acquire('payload theirs', { fingerprint: fingerprint({ a: 1 }) });
  assert.equal((await query("SELECT outcome FROM idem_acquire('payload theirs', payload => '{\"a\": 1.0}')")).outcome,
    'in_progress');
  await assert.rejects(query("SELECT idem_acquire('payload theirs', payload => '{\"a\": 2}')"), { code: 'ID003' });
});
