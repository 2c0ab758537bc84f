// SQL and the programs of articles/ on one table, in the three recipes of docs/interop.md:
// what each of them does with a key that the other has claimed, completed, given up or left
// behind, and who wins when both claim it at the same time.
//
//   EO_RACES   rounds of a race; 20 by default, and 200 for the whole of it

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from './connect.mjs';
import { control } from './control.mjs';
import { timeouts } from '../harness/pace.mjs';
import { createDatabase } from './database.mjs';
import { Program } from './programs.mjs';
import { crash, session } from './sessions.mjs';

const DATABASE = 'interop_recipes';
const RACES = Number(process.env.EO_RACES ?? 20);

// What a program's jobs need for a run that is over; whether it takes over what is over
// (else DynamoDB has to sweep it); whether it knows results.
const recipes = {
  events: {
    program: 'event_handler.mjs', over: { seconds: -10 }, takes: false, results: false,
    done: 'Completed', running: 'Pending',
    options: `key_attribute 'PK', sort_key_attribute 'SK', item_prefix 'IDEMPOTENCY#', status_attribute 'State',
      status_words 'in_progress=Pending, completed=Completed, failed=Failed', expiry_attribute 'TTL',
      updated_attribute 'LastUpdated', instants 'iso'`,
  },
  handlers: {
    program: 'handler_class.py', over: { seconds: -10 }, takes: true, results: true,
    done: 'COMPLETED', running: 'IN_PROGRESS',
    options: `key_attribute 'idempotencyKey', status_attribute 'status',
      status_words 'in_progress=IN_PROGRESS, completed=COMPLETED, failed=FAILED', expiry_attribute 'expiry',
      result_attribute 'responseData', result_form 'native', holder_attribute 'invocationId'`,
  },
  consumers: {
    program: 'consumer.py', over: { age: 310 }, takes: true, results: true,
    done: 'COMPLETED', running: 'IN_PROGRESS',
    options: `key_attribute 'IdempotencyKey', status_attribute 'Status',
      status_words 'in_progress=IN_PROGRESS, completed=COMPLETED', expiry_attribute 'ExpiryTimestamp',
      result_attribute 'ResponseData', updated_attribute 'Timestamp', instants 'iso', stale_after '300 s'`,
  },
};
const programs = {};
let sql;

const queryOf = async (client, text, values) => (await client.query(text, values)).rows[0];
const query = (text, values) => queryOf(sql, text, values);
const acquire = async (server, key) => (await query('SELECT outcome FROM idem_acquire($1, server => $2)', [key, server])).outcome;

// Work of SQL under a key in a transaction that ends in that way. The outcome of its claim.
async function work(server, key, result, end = 'COMMIT', client = sql) {
  await client.query('BEGIN');
  const { outcome } = await queryOf(client, 'SELECT outcome FROM idem_acquire($1, server => $2)', [key, server]);
  if (outcome === 'acquired') {
    await client.query('INSERT INTO work VALUES ($1)', [key]);
    await client.query('SELECT idem_complete($1, $2, server => $3)', [key, JSON.stringify(result), server]);
  }
  await client.query(outcome === 'acquired' ? end : 'ROLLBACK');
  return outcome;
}

// What the program answers once the background worker has written what SQL has decided, or
// once a run that is over is so for its clock: when the answer is the one that is awaited.
async function untilIt(server, job, awaited) {
  for (;;) {
    const answer = await programs[server].run(job);
    if (awaited(answer)) return answer;
    await pause(20);
  }
}

// What DynamoDB does some time after an item has expired. The engine's own sweep may take
// minutes if there are many tables.
async function sweep(server, key) {
  const { DeleteItemCommand } = await import('@aws-sdk/client-dynamodb');
  const client = await connect();
  const id = { S: `IDEMPOTENCY#${key}` };
  for (let swept = false; !swept; await pause(100)) {
    swept = await client.send(new DeleteItemCommand({
      TableName: `interop_${server}`, Key: { PK: id, SK: id },
      ConditionExpression: 'attribute_not_exists(PK) OR #t < :now', ExpressionAttributeNames: { '#t': 'TTL' },
      ExpressionAttributeValues: { ':now': { N: String(Math.floor(Date.now() / 1000)) } },
    })).then(() => true, (error) => {
      if (error.name !== 'ConditionalCheckFailedException') throw error;
      return false;
    });
  }
  client.destroy();
}

// A scenario for a recipe of its own shows the requests of both sides if it fails.
function scenario(name, body) {
  for (const [server, recipe] of Object.entries(recipes)) {
    test(`${server}: ${name}`, { timeout: 900_000 }, async () => {
      try {
        await body(server, recipe, randomUUID());
      } catch (error) {
        console.log(await control('GET', '/log'));
        throw error;
      }
    });
  }
}

before(async () => {
  await createDatabase(DATABASE);
  sql = await session(DATABASE);
  await sql.query('CREATE EXTENSION exactonce');
  await sql.query('CREATE TABLE work (key text)');
  for (const [server, { program, options }] of Object.entries(recipes)) {
    const table = `interop_${server}`;
    await sql.query(`CREATE SERVER ${server} FOREIGN DATA WRAPPER exactonce OPTIONS
      (region 'eu-west-1', table '${table}', endpoint '${process.env.EO_ENDPOINT}', clock_skew '0', layout 'custom', ${options}${timeouts})`);
    await sql.query(`CREATE USER MAPPING FOR PUBLIC SERVER ${server} OPTIONS (access_key_id 'test', secret_access_key 'test')`);
    await sql.query('SELECT idem_create_table($1)', [server]);
    programs[server] = new Program(program, table);
  }
});

beforeEach(() => control('POST', '/reset'));

after(async () => {
  await Promise.all(Object.values(programs).map((program) => program.end()));
  await sql?.end();
});

const result = { id: 7, tags: ['a', 'é漢😀'], nothing: null, net: 12.5 };

scenario('what the program completes is completed for SQL', async (server, recipe, key) => {
  assert.deepEqual(await programs[server].run({ key, do: 'return', result }),
    recipe.results ? { ran: true, status: 'COMPLETED' } : { ran: true, status: 'Completed' });
  assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1, server => $2)', [key, server]),
    { outcome: 'completed', result: recipe.results ? result : null });
});

scenario('what SQL completes is completed for the program', async (server, recipe, key) => {
  assert.equal(await work(server, key, result), 'acquired');
  const answer = await untilIt(server, { key, do: 'return' }, ({ ran, status }) => ran || status === recipe.done);
  assert.deepEqual(answer, { ran: false, status: recipe.done, ...(recipe.results ? { result } : {}) });
});

scenario('a run of the program bars SQL', async (server, recipe, key) => {
  assert.deepEqual(await programs[server].run({ key, do: 'return', result: 1, wait: true }), { started: true });
  assert.equal(await acquire(server, key), 'in_progress');
  assert.equal((await query('SELECT status FROM idem_get($1, $2)', [key, server])).status, 'IN_PROGRESS');
  assert.equal((await programs[server].goOn()).ran, true);
  assert.equal(await acquire(server, key), 'completed');
});

scenario('a run of SQL bars the program', async (server, recipe, key) => {
  await sql.query('BEGIN');
  assert.equal(await acquire(server, key), 'acquired');
  assert.equal((await programs[server].run({ key, do: 'return' })).ran, false);
  await sql.query('SELECT idem_complete($1, server => $2)', [key, server]);
  assert.deepEqual(await programs[server].run({ key, do: 'return' }).then(({ ran, status }) => ({ ran, status })),
    { ran: false, status: recipe.running });
  await sql.query('COMMIT');
  assert.equal((await untilIt(server, { key, do: 'return' }, ({ ran, status }) => ran || status === recipe.done)).ran, false);
});

scenario('a run of the program that fails is free for SQL', async (server, recipe, key) => {
  assert.equal((await programs[server].run({ key, do: 'fail' })).ran, true);
  assert.equal(await acquire(server, key), 'acquired');
});

scenario('a transaction that fails leaves the key to the program, which takes over or waits for the sweep', async (server, recipe, key) => {
  assert.equal(await work(server, key, 1, 'ROLLBACK'), 'acquired');
  if (!recipe.takes) await sweep(server, key);
  await untilIt(server, { key, do: 'return', result: 'theirs' }, ({ ran }) => ran);
  assert.deepEqual(await query('SELECT outcome, result FROM idem_acquire($1, server => $2)', [key, server]),
    { outcome: 'completed', result: recipe.results ? 'theirs' : null });
  assert.equal((await sql.query('SELECT FROM work WHERE key = $1', [key])).rowCount, 0);
});

scenario('a run of the program that is over is taken over by SQL, which it then bars', async (server, recipe, key) => {
  assert.equal((await programs[server].run({ key, do: 'die', ...recipe.over })).ran, true);
  assert.equal(await work(server, key, 'ours'), 'acquired');
  assert.equal((await programs[server].run({ key, do: 'return' })).ran, false);
});

scenario('a claim of SQL that is over is lost to the program, if it takes over at all', async (server, recipe, key) => {
  if (!recipe.takes) return;
  await sql.query("SELECT idem_acquire($1, lease => '100 ms', server => $2)", [key, server]);
  await untilIt(server, { key, do: 'return', result: 'theirs' }, ({ ran }) => ran);
  await assert.rejects(query('SELECT idem_complete($1, server => $2)', [key, server]), { code: 'ID002' });
  assert.equal(await acquire(server, key), 'completed');
});

scenario('a program waits for a commit whose end is not written yet, through a crash of the server', async (server, recipe, key) => {
  await control('POST', '/fault', { key, to: 'COMPLETED', do: 'drop', times: 0 });
  const other = await session(DATABASE);
  assert.equal(await work(server, key, { committed: true }, 'COMMIT', other), 'acquired');
  assert.deepEqual((await programs[server].run({ key, do: 'return' })).ran, false);
  sql = await crash(other, sql, DATABASE);
  assert.deepEqual((await programs[server].run({ key, do: 'return' })).ran, false);
  await control('POST', '/reset');
  const answer = await untilIt(server, { key, do: 'return' }, ({ ran, status }) => ran || status === recipe.done);
  assert.deepEqual(answer, { ran: false, status: recipe.done, ...(recipe.results ? { result: { committed: true } } : {}) });
  assert.equal((await sql.query('SELECT FROM work WHERE key = $1', [key])).rowCount, 1);
});

scenario(`of ${RACES} races for one key each the work is done by one side, once`, async (server, recipe) => {
  const wins = { sql: 0, program: 0 };
  for (let round = 0; round < RACES; round++) {
    const key = `race ${randomUUID()}`;
    const [ours, theirs] = await Promise.all([work(server, key, { by: 'sql' }),
      programs[server].run({ key, do: 'return', result: { by: 'program' } })]);
    const won = (await sql.query('SELECT FROM work WHERE key = $1', [key])).rowCount;
    assert.equal(won + (theirs.ran ? 1 : 0), 1, `${key}: ${ours}, ${JSON.stringify(theirs)}`);
    wins[won ? 'sql' : 'program']++;
    const met = await untilIt(server, { key, do: 'return' }, ({ ran, status }) => ran || status === recipe.done);
    const seen = await query('SELECT outcome, result FROM idem_acquire($1, server => $2)', [key, server]);
    assert.deepEqual([met.ran, seen.outcome], [false, 'completed'], key);
    if (recipe.results) assert.deepEqual([met.result, seen.result], Array(2).fill({ by: won ? 'sql' : 'program' }), key);
  }
  console.log(`# ${server}: SQL won ${wins.sql}, the program ${wins.program}`);
});
