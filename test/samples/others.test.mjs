// The magic link, the consumer of a queue, the relay of an outbox, and the template of samples/.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { control } from '../interop/control.mjs';
import { session } from '../interop/sessions.mjs';
import { Browser } from './browser.mjs';
import { Sample, fileOf, languages, missing, query, run, runFile, setUp, tearDown, until } from './sample.mjs';

const count = async (table) => Number((await query(`SELECT count(*) FROM ${table}`)).count);
const psycopg = missing('/usr/bin/python3', '-c', 'import psycopg');

// Asks the engine itself about the table of the samples.
async function dynamodb(operation) {
  const answer = await fetch(process.env.EO_ENGINE_URL, { method: 'POST', body: JSON.stringify({ TableName: 'samples' }), headers: {
    'X-Amz-Target': `DynamoDB_20120810.${operation}`, 'Content-Type': 'application/x-amz-json-1.0',
    'X-Amz-Date': '20260101T000000Z', Authorization: 'AWS4-HMAC-SHA256 '
      + 'Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' } });
  return answer.json();
}

before(() => setUp('webhook', 'magic-link', 'queue', 'outbox'));
after(tearDown);

describe('a magic link', () => {
  const node = languages('magic-link').find(({ name }) => name === 'node') ?? languages('magic-link')[0];
  const sample = new Sample({ ...node, folder: node.folder.replace(/\/[^/]*$/, ''),
    make: undefined, program: () => ({ command: [process.execPath, 'app.mjs'], env: { INSECURE: '1' } }) });
  const form = (fields) => ({ body: new URLSearchParams(fields) });

  // Asks for a link; what is sent by mail is printed here.
  async function link() {
    const before_ = sample.said.length;
    assert.equal((await sample.ask('POST', '/links', form({ customer: 7 }))).status, 202);
    const [, where] = await until('the mail', () => /http:\S+?(\/login\/\S+)\n/.exec(sample.said.slice(before_)));
    return where;
  }

  before(() => sample.start());
  after(() => sample.end());

  test('a filter that follows the link uses up nothing, and a button that is pressed twice logs in once', async () => {
    const where = await link();
    await sample.ask('GET', where);
    const { body } = await sample.ask('GET', where);
    const [, token] = /name="token" value="([^"]*)"/.exec(body);
    const presses = await Promise.all([1, 2].map(() => sample.ask('POST', where, form({ token }))));
    assert.deepEqual(presses.map(({ status }) => status), [200, 200]);
    assert.equal(presses[0].headers.get('Set-Cookie'), presses[1].headers.get('Set-Cookie'));
    assert.equal(await count('sessions'), 1);
    assert.equal((await sample.ask('POST', where, form({ token: '00000000-0000-4000-8000-000000000000' }))).status, 409);
    assert.equal((await sample.ask('GET', where)).status, 410);
    assert.equal(await count('sessions'), 1);
  });

  test('in a browser', { skip: missing('chromium-headless-shell', '--version') }, async () => {
    await control('POST', '/reset');
    const where = await link();
    const sessions = await count('sessions');
    const browser = await Browser.start();
    try {
      await browser.open(sample.url + where);
      // The second press comes while the answer to the first is still on its way.
      await control('POST', '/fault', { to: 'consumed', do: 'stay' });
      const press = await browser.clicker('button');
      for (const n of [1, 2]) {
        press();
        await control('GET', `/wait?to=consumed&n=${n}`);
      }
      await control('POST', '/reset');
      assert.equal(await browser.title('Welcome, customer 7'), 'Welcome, customer 7');
      // The page is in no cache, so that it is asked for again.
      await browser.back();
      assert.equal(await browser.title('This link is no longer valid'), 'This link is no longer valid');
    } finally {
      await browser.end();
    }
    assert.equal(await count('sessions'), sessions + 1);
  });
});

test('three consumers of a queue ship each order once, and put aside what cannot be shipped', { skip: psycopg }, async () => {
  await query(`INSERT INTO queue (message_id, body)
    SELECT 'm' || n, jsonb_build_object('order', n, 'parcels', CASE n WHEN 13 THEN 0 ELSE 2 END)
    FROM generate_series(1, 20) n, generate_series(1, 2) copies`);
  await Promise.all([1, 2, 3].map(() => run('queue/consumer.py', '--until-empty')));
  assert.equal(await count('shipments'), 19);
  assert.deepEqual(await query("SELECT message_id, error->>'sqlstate' AS sqlstate FROM dead_letters"),
    { message_id: 'm13', sqlstate: '23514' });
  assert.equal((await query("SELECT runs FROM idem_get('message/m13')")).runs, 3);
});

test('two relays of an outbox have each event processed once, although answers are lost', { skip: psycopg }, async () => {
  const [language] = languages('webhook').filter((one) => !one.missing);
  const sample = new Sample(language);
  await sample.start();
  await query(`INSERT INTO outbox (body) SELECT jsonb_build_object('invoice', n, 'amount', n - 1) FROM generate_series(1, 12) n`);
  // Each relay sends an event, and its session ends before it can note that.
  const locker = await session('samples');
  await locker.query('BEGIN; LOCK TABLE outbox IN SHARE MODE');
  const relays = [1, 2].map(() => run('outbox/relay.py', `${sample.url}/webhook`, '--until-empty'));
  const WAITING = "FROM pg_stat_activity WHERE usename = 'shop' AND wait_event_type = 'Lock'";
  await until('the relays', async () => (await query(`SELECT count(*) ${WAITING}`)).count === '2');
  await query(`SELECT pg_terminate_backend(pid) ${WAITING}`);
  await locker.end();
  await Promise.all(relays);
  await sample.end();
  assert.equal(await count('payments'), 11);
  assert.equal((await query('SELECT count(DISTINCT invoice) FROM payments')).count, '11');
  assert.deepEqual(await query("SELECT body->>'invoice' AS invoice, refused FROM outbox"), { invoice: '1', refused: 'status 422' });
});

test('the migrations in plain SQL guard a table, and go back', async () => {
  await query('CREATE ROLE shop_migrations');
  const { status, stderr } = spawnSync('psql', ['-Xq', '-v', 'ON_ERROR_STOP=1', '-v', 'region=eu-west-1', '-v', 'table=samples',
    '-f', fileOf('migrations/superuser.sql'), 'samples'], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  await query('DROP OWNED BY shop_migrations');
  await query('DROP ROLE shop_migrations');
  await runFile('migrations/up.sql');
  await query("INSERT INTO coupons VALUES ('WINTER', 1)");
  await assert.rejects(query("INSERT INTO coupons VALUES ('WINTER', 2)"), { code: '23505' });
  await runFile('migrations/down.sql');
  assert.equal((await query("SELECT status FROM idem_get('coupon/WINTER')")).status, 'COMPLETED');
});

test('the migration for Django guards a table, and goes back', { skip: missing('/usr/bin/python3', '-c', 'import django, psycopg2') }, () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'django-'));
  const { stdout, stderr } = spawnSync('/usr/bin/python3', ['django_project.py', folder, fileOf('migrations/0002_coupon_once.py')],
    { encoding: 'utf8', env: { ...process.env, PGDATABASE: 'samples' } });
  assert.match(stdout, /^refused: duplicate key "coupon\/SPRING"[^]*coupons: 2\n$/, stderr);
});

test('the template for CloudFormation makes the table of idem_create_table(), and roles as the pages have them', async () => {
  const at = (file) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
  const { Resources: { Table, DatabaseRole, SharingRole } } = JSON.parse(at('samples/cloudformation.json'));
  const { Table: table } = await dynamodb('DescribeTable');
  const { TimeToLiveDescription: ttl } = await dynamodb('DescribeTimeToLive');
  const properties = Table.Properties;
  assert.deepEqual(properties.AttributeDefinitions, table.AttributeDefinitions);
  assert.deepEqual(properties.KeySchema, table.KeySchema);
  assert.equal(properties.BillingMode, table.BillingModeSummary.BillingMode);
  assert.deepEqual(properties.TimeToLiveSpecification,
    { AttributeName: ttl.AttributeName, Enabled: ttl.TimeToLiveStatus === 'ENABLED' });

  // The first policy of docs/aws.md, and that of a tenant's other services in docs/security.md, for all keys.
  const blocks = (file) => [...at(file).matchAll(/```json\n(.*?)```/gs)].map(([, text]) => JSON.parse(text));
  const [statement] = blocks('docs/aws.md')[0].Statement;
  const ofServices = blocks('docs/security.md').find(({ Action }) => Action?.includes('dynamodb:PutItem'));
  const policy = (role) => role.Properties.Policies[0].PolicyDocument.Statement;
  assert.deepEqual(policy(DatabaseRole).map(({ Action }) => Action), [statement.Action]);
  assert.deepEqual(policy(SharingRole).map(({ Action }) => Action), [ofServices.Action]);
  assert.deepEqual(policy(SharingRole)[0].Condition,
    JSON.parse(JSON.stringify(ofServices.Condition).replaceAll('acme/', '')));
});
