// SQL and a client of the AWS SDK on the same actions, at the same time.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import pg from 'pg';
import { Actions } from './actions.mjs';
import { connect } from './connect.mjs';
import { timeouts } from '../harness/pace.mjs';
import { createDatabase } from './database.mjs';
import { control } from './control.mjs';

const ROUNDS = 100;
const ROUNDS_WITH_PIN = 10;
const TABLE = 'interop_actions';
const DATABASE = 'interop_actions';
const RIGHT = '0042';
const WRONG = '4200';

const pool = new pg.Pool({ database: DATABASE, max: 16 });
const dynamodb = await connect();

// The SQL functions, with the methods of Actions.
class Sql {
  constructor(server) {
    this.server = server;
  }

  async #call(text, values) {
    return (await pool.query(`SELECT * FROM ${text}`, values)).rows[0];
  }

  // Actions for both sides are made in SQL.
  async create(payload, { pin, id } = {}) {
    return (await this.#call('action_create($1, pin => $2, id => $3, server => $4)',
      [JSON.stringify(payload), pin, id, this.server])).id;
  }

  get(id) {
    return this.#call('action_get($1, $2)', [id, this.server]);
  }

  consume(id, { pin, reason, consumer, token } = {}) {
    return this.#call('action_consume($1, $2, $3, $4, $5, server => $6)',
      [id, pin, reason, JSON.stringify(consumer), token, this.server]);
  }

  cancel(id, reason) {
    return this.#call('action_cancel($1, $2, $3)', [id, reason, this.server]);
  }
}

const setUp = (server, prefix, attempts, pepper) => ({
  server, prefix, attempts, pepper, sql: new Sql(server), sdk: new Actions(dynamodb, TABLE, { prefix, pepper }),
});
const plain = setUp('plain', '', 3);
const peppered = setUp('peppered', 'p/', 4, 'a/pepper+that:is"not\\in#the{table');

const bothWays = [['sql', 'sdk'], ['sdk', 'sql']];

// An answer without columns that are null or false, which the SDK does not have.
const said = ({ id, http_status: status, ...answer }) => Object.fromEntries(
  Object.entries(answer).filter(([, value]) => value !== null && value !== false));
const outcomes = (answers) => answers.map(({ outcome }) => outcome).sort();

const fault = (id, what) => control('POST', '/fault', { key: id, ...what });
const arrival = (id, to, n = 1) => control('GET', `/wait?${new URLSearchParams({ key: id, to, n })}`);

// Two calls whose writes are held until both have arrived. The first write is let go
// first.
async function atOnce(id, [to, call], [otherTo, otherCall]) {
  await fault(id, { do: 'hold', to });
  await fault(id, { do: 'hold', to: otherTo, nth: to === otherTo ? 2 : 1 });
  const one = call();
  await arrival(id, to);
  const other = otherCall();
  await arrival(id, otherTo, to === otherTo ? 2 : 1);
  await control('POST', '/release');
  return Promise.all([one, other]);
}

const setAttribute = (id, name, value) => dynamodb.send(new UpdateItemCommand({
  TableName: TABLE, Key: { pk: { S: `ACTION#${id}` } }, UpdateExpression: `SET ${name} = :value`,
  ExpressionAttributeValues: { ':value': value },
}));

// Moves an instant of the action, instead of waiting for it.
const setInstant = (id, name, ms) => setAttribute(id, name, { N: String(ms) });

before(async () => {
  await createDatabase(DATABASE);
  await pool.query('CREATE EXTENSION exactonce');
  for (const { server, prefix, attempts, pepper } of [plain, peppered]) {
    await pool.query(`CREATE SERVER ${server} FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1',
      table '${TABLE}', endpoint '${process.env.EO_ENDPOINT}', key_prefix '${prefix}', pin_attempts '${attempts}'${timeouts})`);
    await pool.query(`CREATE USER MAPPING FOR PUBLIC SERVER ${server}
      OPTIONS (access_key_id 'test', secret_access_key 'test'${pepper ? `, pin_pepper '${pepper}'` : ''})`);
  }
  await pool.query("SELECT idem_create_table('plain')");
});

after(async () => {
  await control('POST', '/release');
  await pool.end();
  dynamodb.destroy();
});

test(`${ROUNDS} races for one action each have one winner, and both sides win some`, async () => {
  const wins = { sql: 0, sdk: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const id = await plain.sql.create({ round });
    const [one, other] = bothWays[round % 2];
    const [first, second] = await atOnce(id,
      ['consumed', () => plain[one].consume(id)], ['consumed', () => plain[other].consume(id)]);
    assert.deepEqual(outcomes([first, second]), ['already_used', 'consumed'], id);
    const [winner, loser] = first.outcome === 'consumed' ? [first, second] : [second, first];
    wins[winner === first ? one : other]++;
    assert.deepEqual(winner.payload, { round });
    assert.deepEqual(said(loser), { outcome: 'already_used', consumed_at: winner.consumed_at });
  }
  console.log(`# SQL won ${wins.sql}, the SDK ${wins.sdk}`);
  assert.ok(wins.sql > 0 && wins.sdk > 0);
});

for (const here of [plain, peppered]) {
  const { sql, sdk, attempts } = here;
  const name = here.pepper ? 'with a pepper' : 'without a pepper';

  test(`${name}: a PIN of SQL opens an action for the SDK, and no other does`, async () => {
    for (const [i, pin] of [RIGHT, 'é漢😀', ' a b\n', 'x'.repeat(256)].entries()) {
      const id = await sql.create({ pin }, { pin, id: i % 2 ? undefined : `é 漢/${i}` });
      for (const side of [sql, sdk]) {
        assert.deepEqual(said(await side.consume(id)), { outcome: 'invalid_pin', attempts_left: attempts });
      }
      assert.deepEqual(said(await sdk.consume(id, { pin: `${pin}0` })),
        { outcome: 'invalid_pin', attempts_left: attempts - 1 });
      const opened = await sdk.consume(id, { pin });
      assert.deepEqual([opened.outcome, opened.payload], ['consumed', { pin }]);
      assert.deepEqual(said(await sql.consume(id, { pin })),
        { outcome: 'already_used', consumed_at: opened.consumed_at });
      assert.equal((await sql.get(id)).attempts_left, attempts - 2, 'the right guess was paid for, too');
    }
  });

  test(`${name}: both sides share the attempts at a PIN`, async () => {
    for (const order of bothWays) {
      const id = await sql.create({}, { pin: RIGHT });
      for (let n = 1; n <= attempts; n++) {
        assert.deepEqual(said(await here[order[n % 2]].consume(id, { pin: WRONG })),
          { outcome: 'invalid_pin', attempts_left: attempts - n });
      }
      for (const side of [sql, sdk]) {
        assert.deepEqual(said(await side.consume(id, { pin: RIGHT })), { outcome: 'burned' });
        assert.equal((await side.get(id)).state, 'burned');
      }
    }
  });

  test(`${name}: guesses of both at once get no more looks than there are attempts`, async () => {
    const id = await sql.create({}, { pin: RIGHT });
    const guesses = 2 * 2 * attempts;
    await fault(id, { do: 'hold', to: 'attempt', times: guesses });
    const calls = Array.from({ length: guesses }, (_, i) => [sql, sdk][i % 2].consume(id, { pin: WRONG }));
    await arrival(id, 'attempt', guesses);
    await control('POST', '/release');
    const answers = (await Promise.all(calls)).map(said);
    const looks = answers.filter(({ outcome }) => outcome === 'invalid_pin');
    assert.deepEqual(looks.map(({ attempts_left: left }) => left).sort(),
      Array.from({ length: attempts }, (_, i) => i));
    assert.deepEqual(answers.filter((answer) => !looks.includes(answer)),
      Array(guesses - attempts).fill({ outcome: 'burned' }));
  });

  test(`${name}: of two callers that know the PIN one consumes the action, in ${ROUNDS_WITH_PIN} races`, async () => {
    for (let round = 0; round < ROUNDS_WITH_PIN; round++) {
      const id = await sql.create({ round }, { pin: RIGHT });
      const answers = await atOnce(id, ...bothWays[round % 2].map(
        (side) => ['consumed', () => here[side].consume(id, { pin: RIGHT })]));
      assert.deepEqual(outcomes(answers), ['already_used', 'consumed'], id);
      assert.equal((await sql.get(id)).attempts_left, attempts - 2);
    }
  });
}

test('a PIN is not verified with another pepper, and no attempt is taken', async () => {
  for (const [{ sql, prefix, attempts }, pepper] of [[plain, 'x'], [peppered, 'x'], [peppered, undefined]]) {
    const id = await sql.create({}, { pin: RIGHT });
    const stranger = new Actions(dynamodb, TABLE, { prefix, pepper });
    await assert.rejects(stranger.consume(id, { pin: RIGHT }), /another pepper/);
    assert.equal((await sql.get(id)).attempts_left, attempts);
  }
});

test('each side sees all that the other has done', async () => {
  const consumer = { ip: '::1', agent: 'é' };
  for (const [one, other] of bothWays) {
    const doings = {
      consumed: (id) => plain[one].consume(id, { pin: RIGHT, reason: 'Löschung', consumer }),
      canceled: (id) => plain[one].cancel(id, 'a mistake'),
      burned: async (id) => {
        for (let n = 0; n < plain.attempts; n++) await plain[one].consume(id, { pin: WRONG });
        assert.deepEqual(said(await plain[one].cancel(id)), { outcome: 'burned' });
      },
      active: () => {},
    };
    for (const [state, act] of Object.entries(doings)) {
      const id = await plain.sql.create({ state }, { pin: RIGHT });
      await act(id);
      const seen = await plain[other].get(id);
      assert.deepEqual(seen, await plain[one].get(id));
      assert.deepEqual([seen.id, seen.state, seen.has_pin, seen.reason, seen.consumer],
        [id, state, true, { consumed: 'Löschung', canceled: 'a mistake' }[state] ?? null,
          state === 'consumed' ? consumer : null]);
      assert.deepEqual([seen.consumed_at, seen.canceled_at].map((at) => at !== null),
        [state === 'consumed', state === 'canceled']);
      if (state === 'active') continue;
      const expected = { consumed: 'already_used', canceled: 'canceled', burned: 'burned' }[state];
      for (const side of [one, other]) {
        assert.equal((await plain[side].consume(id, { pin: RIGHT })).outcome, expected, `${side} consumes`);
        const { outcome, replayed } = said(await plain[side].cancel(id, 'again'));
        assert.deepEqual([outcome, replayed], [expected, state === 'canceled' || undefined], `${side} cancels`);
      }
      assert.deepEqual(await plain[other].get(id), seen, 'nothing has changed it');
    }
  }
});

test('items of both have the same attributes', async () => {
  const spelled = async (id) => {
    const { Item } = await dynamodb.send(new GetItemCommand({ TableName: TABLE, Key: { pk: { S: `ACTION#${id}` } } }));
    return Object.fromEntries(Object.entries(Item).map(([name, value]) => [name, Object.keys(value)[0]]).sort());
  };
  const doings = [
    (side, id) => side.consume(id, { pin: WRONG }),
    (side, id) => side.consume(id, { pin: RIGHT }),
    (side, id) => side.consume(id, { pin: RIGHT, reason: 'r', consumer: [1] }),
    (side, id) => side.cancel(id),
    (side, id) => side.cancel(id, 'r'),
    async (side, id) => {
      for (let n = 0; n < plain.attempts; n++) await side.consume(id, { pin: WRONG });
      await side.cancel(id);
    },
    async (side, id) => {
      await setInstant(id, 'expiresAtMs', 1000);
      await side.cancel(id);
    },
  ];
  for (const act of doings) {
    const ids = { sql: await plain.sql.create(1, { pin: RIGHT }), sdk: await plain.sql.create(1, { pin: RIGHT }) };
    const untouched = await spelled(ids.sql);
    for (const [side, id] of Object.entries(ids)) await act(plain[side], id);
    assert.deepEqual(await spelled(ids.sql), await spelled(ids.sdk), String(act));
    assert.notDeepEqual(await spelled(ids.sql), untouched, String(act));
  }
});

test('both judge active_at and expires_at alike, and take no attempt in vain', async () => {
  const farOff = 7258118400000;
  for (const [state, name, ms, heard] of [
    ['pending', 'activeAtMs', farOff, { outcome: 'not_active', active_at: new Date(farOff) }],
    ['expired', 'expiresAtMs', 1000, { outcome: 'expired' }],
  ]) {
    for (const [one, other] of bothWays) {
      const id = await plain.sql.create({}, { pin: RIGHT });
      await setInstant(id, name, ms);
      for (const side of [one, other]) {
        for (const ask of [{}, { pin: RIGHT }, { pin: WRONG }]) {
          assert.deepEqual(said(await plain[side].consume(id, ask)), heard);
        }
      }
      assert.deepEqual(await plain[one].get(id), await plain[other].get(id));
      const { state: found, attempts_left: left } = await plain[one].get(id);
      assert.deepEqual([found, left], [state, plain.attempts]);
      assert.equal((await plain[one].cancel(id)).outcome, state === 'pending' ? 'canceled' : 'expired');
    }
  }
});

test('a caller that asks again with its token gets the same answer from either side', async () => {
  for (const [one, other] of bothWays) {
    for (const pin of [undefined, RIGHT]) {
      const id = await plain.sql.create({ n: 1 }, { pin });
      const token = randomUUID();
      const first = said(await plain[one].consume(id, { pin, token }));
      assert.deepEqual(first, { outcome: 'consumed', payload: { n: 1 }, consumed_at: first.consumed_at });
      const left = (await plain.sql.get(id)).attempts_left;
      for (const side of [other, one]) {
        for (const again of [undefined, RIGHT, WRONG]) {
          assert.deepEqual(said(await plain[side].consume(id, { pin: again, token })), { ...first, replayed: true });
          assert.deepEqual(said(await plain[side].consume(id, { pin: again, token: randomUUID() })),
            { outcome: 'already_used', consumed_at: first.consumed_at });
        }
      }
      assert.equal((await plain.sql.get(id)).attempts_left, left);
    }
  }
});

test('both know no such action, and ignore a PIN that is not asked for', async () => {
  for (const [one, other] of bothWays) {
    for (const ask of [{}, { pin: RIGHT }]) {
      assert.deepEqual(said(await plain[one].consume('no such', ask)), { outcome: 'action_not_found' });
    }
    assert.deepEqual(said(await plain[one].cancel('no such')), { outcome: 'action_not_found' });
    const id = await plain.sql.create(null);
    const { outcome, payload } = await plain[one].consume(id, { pin: WRONG });
    assert.deepEqual([outcome, payload], ['consumed', null]);
    assert.equal((await plain[other].consume(id, { pin: WRONG })).outcome, 'already_used');
  }
});

test('an action that cannot be read is consumed by neither', async () => {
  for (const side of ['sql', 'sdk']) {
    for (const [name, pin] of [['payload', undefined], ['payload', RIGHT], ['pinHash', RIGHT]]) {
      const id = await plain.sql.create('x', { pin });
      await setAttribute(id, name, { N: '1' });
      for (const ask of [{}, { pin: RIGHT }]) {
        await assert.rejects(plain[side].consume(id, ask), /cannot be read|could not read/, `${side}: ${name}`);
      }
      await setAttribute(id, name, { S: '"y"' });
      const { state, attempts_left: left } = await plain.sql.get(id);
      assert.equal(state, 'active', `${side}: ${name}`);
      if (name === 'pinHash') assert.equal(left, plain.attempts, `${side}: nobody could have looked`);
    }
  }
});

test('a cancel and a consume at once: one happens, and both know which', async () => {
  const ends = { canceled: 0, consumed: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const [one, other] = bothWays[round % 2];
    const id = await plain.sql.create({ round });
    const consume = ['consumed', () => plain[one].consume(id)];
    const cancel = ['canceled', () => plain[other].cancel(id)];
    const inOrder = round % 4 < 2 ? [consume, cancel] : [cancel, consume];
    const answers = outcomes(await atOnce(id, ...inOrder));
    const { state } = await plain[one].get(id);
    ends[state]++;
    assert.deepEqual(answers, state === 'consumed' ? ['already_used', 'consumed'] : ['canceled', 'canceled'], id);
  }
  assert.ok(ends.canceled > 0 && ends.consumed > 0, JSON.stringify(ends));
});

// A consume of one side with the right PIN is in flight when the other side is told
// that the action is over. What the other side does next decides how it ends.
const overtaken = {
  'burned': async (id, consume) => {
    for (let n = 1; n < plain.attempts; n++) await plain.sql.consume(id, { pin: WRONG });
    return consume();
  },
  'expired': async (id, consume) => {
    const last = await consume();
    await setInstant(id, 'expiresAtMs', Date.now() + 1);
    while ((await plain.sql.get(id)).state !== 'expired');
    return last;
  },
};
for (const [outcome, overtake] of Object.entries(overtaken)) {
  for (const [next, close] of Object.entries({
    'looks and asks': null,
    'cancels': (side, id) => side.cancel(id),
    'asks with the same token': (side, id, token) => side.consume(id, { pin: RIGHT, token }),
  })) {
    test(`${outcome}, with a right guess on its way, and another ${next}`, async () => {
      for (const [one, other] of bothWays) {
        const id = await plain.sql.create({}, { pin: RIGHT });
        const token = randomUUID();
        await fault(id, { do: 'hold', to: 'consumed' });
        const { last } = await overtake(id, async () => {
          const call = plain[one].consume(id, { pin: RIGHT, token });
          await arrival(id, 'consumed');
          return { last: call };
        });
        assert.equal((await plain[other].get(id)).state, outcome);
        assert.deepEqual(said(await plain[other].consume(id, { pin: RIGHT })), { outcome });
        if (close) assert.deepEqual(said(await close(plain[other], id, token)), { outcome });
        await control('POST', '/release');
        const end = close ? outcome : 'consumed';
        assert.equal((await last).outcome, end, `${one}, then ${other}`);
        assert.equal((await plain[other].get(id)).state, end, `${one}, then ${other}`);
      }
    });
  }
}

test('a request whose answer is lost, or that arrives twice, counts once', async () => {
  for (const side of ['sql', 'sdk']) {
    for (const what of ['lose', 'twice']) {
      const id = await plain.sql.create({ n: 1 }, { pin: RIGHT });
      await fault(id, { do: what, to: 'attempt', times: 2 });
      await fault(id, { do: what, to: 'consumed' });
      assert.deepEqual(said(await plain[side].consume(id, { pin: WRONG })),
        { outcome: 'invalid_pin', attempts_left: plain.attempts - 1 });
      const { outcome, payload, replayed } = await plain[side].consume(id, { pin: RIGHT });
      assert.deepEqual([outcome, payload], ['consumed', { n: 1 }], `${side}: ${what}`);
      assert.equal(replayed, false, `${side}: ${what}`);
      assert.equal((await plain.sql.get(id)).attempts_left, plain.attempts - 2, `${side}: ${what}`);

      const off = await plain.sql.create({});
      await fault(off, { do: what, to: 'canceled' });
      assert.deepEqual(said(await plain[side].cancel(off)), { outcome: 'canceled' }, `${side}: ${what}`);
    }
  }
});
