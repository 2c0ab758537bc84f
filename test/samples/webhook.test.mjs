// The webhook receivers of samples/, each in its language: eight deliveries at a time, a connection
// that is lost in COMMIT before and after the transaction has committed, and what the sender is told.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { control } from '../interop/control.mjs';
import { Sample, languages, query, setUp, tearDown, until } from './sample.mjs';

const WAITING = `SELECT pid FROM pg_stat_activity
  WHERE datname = 'samples' AND usename = 'shop' AND state = 'active' AND query ~* '^commit'`;

const payments = async (invoice) => Number((await query(
  'SELECT count(*) FROM payments WHERE invoice = $1', [invoice])).count);

// Ends the one session of the sample that is in its COMMIT and meets the condition. False: it has
// answered before, because its COMMIT did not wait.
async function endCommit(answer, condition) {
  let early;
  answer.then(({ status }) => { early = status; }, () => {});
  await until('a commit', async () => early || query(`${WAITING} AND ${condition}`));
  if (early) assert.equal(early, 200);
  else await query(`SELECT pg_terminate_backend(pid) FROM (${WAITING} AND ${condition}) s`);
  return !early;
}

async function set(name, value) {
  await query(value === undefined ? `ALTER SYSTEM RESET ${name}` : `ALTER SYSTEM SET ${name} = ${value}`);
  await query('SELECT pg_reload_conf()');
  await until(`${name} is set`, () => query('SELECT 1 FROM pg_settings WHERE name = $1 AND source ~ $2',
    [name, value === undefined ? 'default' : 'configuration file']));
}

before(() => setUp('webhook'));
after(tearDown);

languages('webhook').forEach((language, i) => {
  const { name } = language;
  describe(`a webhook in ${name}`, { skip: language.missing }, () => {
    let sample;
    const invoice = (n) => 100 * (i + 1) + n;
    const post = (n, { key = `${name}-${n}`, amount = 1250 } = {}) => sample.ask('POST', '/webhook',
      { headers: { 'Content-Type': 'application/json', ...(key && { 'Idempotency-Key': key }) },
        body: JSON.stringify({ invoice: invoice(n), amount }) });

    before(async () => {
      sample = new Sample(language);
      await sample.start();
    });
    after(async () => {
      await control('POST', '/reset');
      await sample.end();
    });

    test('of eight deliveries at a time one is processed, and all get its answer', async () => {
      const answers = await Promise.all(Array.from({ length: 8 }, () => post(1)));
      assert.deepEqual(answers.map(({ status }) => status), Array(8).fill(200));
      assert.deepEqual(answers.map(({ body }) => body), Array(8).fill(answers[0].body));
      assert.equal(typeof answers[0].body.receipt, 'number');
      assert.equal(answers.filter(({ headers }) => headers.get('Idempotency-Replayed') === 'true').length, 7);
      assert.equal(await payments(invoice(1)), 1);
    });

    test('a delivery without a key, one with another event, and one that cannot be processed are refused', async () => {
      assert.equal((await post(2, { key: null })).status, 400);
      assert.equal((await post(1, { amount: 9 })).status, 422);
      assert.equal((await post(2, { amount: -1 })).status, 422);
      assert.equal(await payments(invoice(2)), 0);
      assert.equal((await post(2, { key: `${name}-2-mended` })).status, 200);
      assert.equal(await payments(invoice(2)), 1);
    });

    test('a connection that is lost in COMMIT, before it has committed', async () => {
      await control('POST', '/fault', { key: `${name}-3`, to: 'COMMITTING', do: 'hold' });
      const answer = post(3);
      await control('GET', `/wait?${new URLSearchParams({ key: `${name}-3`, to: 'COMMITTING' })}`);
      assert.ok(await endCommit(answer, 'true'));
      await control('POST', '/reset');
      assert.equal((await answer).status, 200);
      assert.equal(await payments(invoice(3)), 1);
    });

    test('a connection that is lost in COMMIT, after it has committed', async () => {
      let n = 10;
      let answer;
      try {
        await set('synchronous_standby_names', "'nobody'");
        // Commits do not wait before the checkpointer has read the setting.
        do answer = post(++n); while (!await endCommit(answer, "wait_event = 'SyncRep'"));
      } finally {
        await set('synchronous_standby_names');
      }
      const { status, headers } = await answer;
      assert.equal(status, 200);
      assert.equal(headers.get('Idempotency-Replayed'), 'true');
      assert.equal(await payments(invoice(n)), 1);
    });

    test('while keys are switched off the sender is told to come back, and then it is served', async () => {
      try {
        await set('exactonce.enabled', 'off');
        const { status, headers } = await post(5);
        assert.equal(status, 503);
        assert.equal(headers.get('Retry-After'), '5');
      } finally {
        await set('exactonce.enabled');
      }
      assert.equal((await post(5)).status, 200);
      assert.equal(await payments(invoice(5)), 1);
    });
  });
});
