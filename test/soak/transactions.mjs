// What a session does in an attempt, by kind. An attempt has the parameters that the plan
// drew for it (Soak/Plan.pm), and notes:
//
//   got   key => [outcome, result, token, fence, when] as the session was told
//   did   key => token of the completions that its transaction ends with; null: not known
//   end   see session.mjs
//   window {from, until, keys, labels}: the keys were its own all that time (checker.mjs)
//
// The work of an attempt is a row with key, token and result in the same transaction.

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { takeShared } from './lambda.mjs';

// A call that writes at once, and is not bound to COMMIT, may have been applied when it got no
// answer, or was cancelled or terminated while it waited for one.
const OUTCOME_UNKNOWN = ['ID006', '57014', '57P01', '08P01'];

const CLAIM = `SELECT c.outcome::text, c.result #>> '{}' AS result, c.token, c.fence::text FROM`;

// All works.
export const ROWS = `SELECT key, token::text, result AS by FROM work
  UNION ALL SELECT key, NULL, result FROM guarded
  UNION ALL SELECT key, NULL, result FROM guarded_late UNION ALL SELECT key, NULL, result FROM guarded_skip`;

// The statements that every database is prepared with.
export const SETUP = `
CREATE TABLE work (key text NOT NULL, token uuid, result text NOT NULL);
-- Which transaction has written an item last, in the order of the items' locks.
CREATE TABLE written (item text NOT NULL, n bigserial, by text NOT NULL);
CREATE TABLE orders (action text NOT NULL, token uuid NOT NULL, result text NOT NULL);
CREATE TABLE shared_work (key text NOT NULL, result text NOT NULL);
CREATE TABLE guarded (key text NOT NULL, result text NOT NULL);
CREATE TRIGGER once AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('key');
CREATE TABLE guarded_late (LIKE guarded);
CREATE TRIGGER once AFTER INSERT ON guarded_late FOR EACH ROW EXECUTE FUNCTION idem_guard('key', 'at=commit');
CREATE TABLE guarded_skip (LIKE guarded);
CREATE TRIGGER once BEFORE INSERT ON guarded_skip FOR EACH ROW EXECUTE FUNCTION idem_guard('key', 'on_duplicate=skip');
CREATE FUNCTION handle(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO work VALUES (payload->>'key', NULL, current_setting('soak.attempt'));
  IF current_setting('soak.fails') = 'yes' THEN
    RAISE 'the handler fails';
  END IF;
  RETURN to_jsonb(current_setting('soak.attempt'));
END $$;
-- Works on each key in an exception block of its own; the last one may fail.
CREATE FUNCTION work_in_blocks(keys text[], attempt text, fails boolean,
  OUT key text, OUT outcome text, OUT token uuid, OUT result text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
  k text;
  c idem_claim;
BEGIN
  FOREACH k IN ARRAY keys LOOP
    BEGIN
      c := idem_acquire(k);
      IF c.outcome = 'acquired' THEN
        INSERT INTO work VALUES (k, c.token, attempt);
        PERFORM idem_complete(k, to_jsonb(attempt));
        IF fails AND k = keys[array_length(keys, 1)] THEN
          RAISE 'undone';
        END IF;
      END IF;
      key := k;
      outcome := c.outcome;
      token := c.token;
      result := c.result #>> '{}';
      RETURN NEXT;
    EXCEPTION WHEN raise_exception OR SQLSTATE 'ID006' THEN
      NULL;
    END;
  END LOOP;
END $$;
`;

function note(attempt, key, { outcome, result, token, fence }) {
  attempt.got[key] = [outcome, result, token, fence, Date.now()];
  return outcome === 'acquired' ? token : null;
}

// Claims a key; returns the token, or null if this attempt is not the one to work.
async function claim(session, attempt, key, { onCommit = null, onAbort = null, lease = attempt.lease ?? null } = {}) {
  const { rows } = await session.ask(
    `${CLAIM} idem_acquire($1, lease => $2, wait => $3, on_commit => $4, on_abort => $5, on_lost => $6) c`,
    [key, lease, attempt.wait ?? null, onCommit, onAbort, ['ignore', 'cancel', 'terminate'][attempt.pick % 3]]);
  if (attempt.pause) await pause(attempt.pause);
  return note(attempt, key, rows[0]);
}

// The item that transactions of one database write one after the other. An heir goes on
// with the items of A.
export function homeOf(label, database) {
  return `last/${label.startsWith('A') ? 'A' : label}/${database}/`;
}

const sharedItem = ({ label, database, pick }) => `${homeOf(label, database)}${pick % 2}`;
const writesShared = ({ writes, ordered, kind }) => writes && (ordered || kind === 'once');

const counting = (key) => ({ Update: { TableName: `${process.env.EO_TABLE}_items`, Key: { pk: key },
  UpdateExpression: 'ADD n :one', ExpressionAttributeValues: { ':one': 1 } } });

// A transact may depend on an item, which is opened and closed all the time (clients.mjs).
const GATE_CHECK = { ConditionCheck: { TableName: `${process.env.EO_TABLE}_items`, Key: { pk: 'gate' },
  ConditionExpression: '#o = :yes', ExpressionAttributeNames: { '#o': 'open' }, ExpressionAttributeValues: { ':yes': 'yes' } } };

// What is written to another table if the transaction commits: null or JSON.
function writesOf(attempt, key) {
  if (!attempt.writes) return null;
  const put = (pk) => ({ Put: { TableName: `${process.env.EO_TABLE}_items`, Item: { pk, by: attempt.id } } });
  return JSON.stringify([counting(key), put(`put/${key}`), ...(writesShared(attempt) ? [put(sharedItem(attempt))] : [])]);
}

// The statement before has locked the item.
async function noteWritten(session, attempt) {
  if (writesShared(attempt)) await session.ask('INSERT INTO written (item, by) VALUES ($1, $2)', [sharedItem(attempt), attempt.id]);
}

async function work(session, attempt, key, token, passed = null) {
  await session.ask('INSERT INTO work VALUES ($1, $2, $3)', [key, token, attempt.id]);
  await session.ask('SELECT idem_complete($1, to_jsonb($2::text), token => $3, writes => $4)',
    [key, attempt.id, passed, writesOf(attempt, key)]);
  await noteWritten(session, attempt);
  attempt.did[key] = token;
}

async function claimAndWork(session, attempt, key) {
  const token = await claim(session, attempt, key);
  if (token) await work(session, attempt, key, token);
}

async function giveBack(session, attempt, statement) {
  const [key] = attempt.keys;
  await session.transaction(attempt, async () => {
    if (await claim(session, attempt, key)) await session.ask(statement, [key]);
  });
}

async function guarded(session, attempt, table) {
  const [key] = attempt.keys;
  await session.transaction(attempt, async () => {
    const { rowCount } = await session.ask(`INSERT INTO ${table} VALUES ($1, $2)`, [key, attempt.id]);
    if (attempt.pause) await pause(attempt.pause);
    if (rowCount > 0) attempt.did[key] = null;
  });
}

// The outcome of a commit is not known, so somebody does the work again, with that token, soon.
function passOn(clients, key, token) {
  clients.kept.delete(key);
  clients.kept.set(key, token);
}

export const kinds = {
  // With a snapshot that is older than the claim whoever is told "completed" must see the work.
  acquire: (session, attempt) => session.transaction(attempt, async () => {
    const [key] = attempt.keys;
    if (attempt.isolation) {
      await session.ask('SELECT 1 FROM work LIMIT 1');
      await pause(attempt.pause ?? 100);
    }
    await claimAndWork(session, attempt, key);
    if (!attempt.isolation || attempt.got[key]?.[0] !== 'completed') return;
    const { rows } = await session.ask(`SELECT by FROM (${ROWS}) r WHERE key = $1`, [key]);
    attempt.seen = rows.map(({ by }) => by);
  }),

  once: (session, attempt) => session.transaction(attempt, async () => {
    const [key] = attempt.keys;
    await session.ask('INSERT INTO work VALUES ($1, NULL, $2)', [key, attempt.id]);
    await session.ask('SELECT idem_once($1, to_jsonb($2::text), writes => $3)', [key, attempt.id, writesOf(attempt, key)]);
    await noteWritten(session, attempt);
    attempt.did[key] = null;
    if (attempt.pause) await pause(attempt.pause);
  }),

  many: (session, attempt) => session.transaction(attempt, async () => {
    const { rows } = await session.ask(`${CLAIM.replace('SELECT', 'SELECT c.key,')} idem_acquire_many($1) c`,
      [attempt.keys]);
    const mine = rows.filter((row) => note(attempt, row.key, row));
    if (attempt.pause) await pause(attempt.pause);
    if (mine.length === 0) return;
    const keys = mine.map(({ key }) => key);
    await session.ask('INSERT INTO work SELECT k, t, $3 FROM unnest($1::text[], $2::uuid[]) w (k, t)',
      [keys, mine.map(({ token }) => token), attempt.id]);
    await session.ask('SELECT idem_complete_many($1, ARRAY(SELECT to_jsonb($2::text) FROM unnest($1::text[])))',
      [keys, attempt.id]);
    for (const { key, token } of mine) attempt.did[key] = token;
  }),

  savepoint: (session, attempt) => session.transaction(attempt, async () => {
    const [first, ...others] = attempt.keys;
    await claimAndWork(session, attempt, first);
    for (const key of others) {
      // A rollback takes back the work and the completion, and the claim if it came after the savepoint.
      const token = attempt.share ? await claim(session, attempt, key) : null;
      await session.ask('SAVEPOINT s');
      if (token) await work(session, attempt, key, token);
      else if (!attempt.share) await claimAndWork(session, attempt, key);
      if (attempt.undo) {
        await session.ask('ROLLBACK TO SAVEPOINT s');
        delete attempt.did[key];
      } else {
        await session.ask('RELEASE SAVEPOINT s');
      }
    }
  }),

  // What another session ends, see prepared.mjs. Of its keys one may be claimed at PREPARE,
  // and one fails.
  prepare: async (session, attempt, { manager }) => {
    manager.expect(attempt);
    await session.prepare(attempt, async () => {
      for (const [i, key] of attempt.keys.entries()) {
        if (i === 1 && attempt.share) {
          await session.ask('INSERT INTO work VALUES ($1, NULL, $2)', [key, attempt.id]);
          await session.ask('SELECT idem_once($1, to_jsonb($2::text), writes => $3)', [key, attempt.id, writesOf(attempt, key)]);
          attempt.did[key] = null;
        } else if (i === 2 && attempt.leave) {
          if (await claim(session, attempt, key)) await session.ask(`SELECT idem_fail($1, '1', retry_after => '100 ms')`, [key]);
        } else {
          await claimAndWork(session, attempt, key);
        }
      }
    });
    const { end } = attempt;
    // Nobody else commits it.
    attempt.end = end === 'error' ? end : 'rollback';
    if (end === 'prepared') manager.takeOver(attempt);
  },

  block: (session, attempt) => session.transaction(attempt, async () => {
    const { rows } = await session.ask(
      'SELECT * FROM work_in_blocks($1, $2, $3)',
      [attempt.keys, attempt.id, attempt.undo === true]);
    for (const row of rows) if (note(attempt, row.key, row)) attempt.did[row.key] = row.token;
    if (attempt.pause) await pause(attempt.pause);
  }),

  call: (session, attempt) => session.transaction(attempt, async () => {
    const [key] = attempt.keys;
    await session.ask(`SELECT set_config('soak.attempt', $1, true), set_config('soak.fails', $2, true)`,
      [attempt.id, attempt.undo ? 'yes' : 'no']);
    const { rows: [{ result }] } = await session.ask(
      `SELECT idem_call($1, 'handle(jsonb)', jsonb_build_object('key', $1::text), wait => $2, on_error => 'return')
        #>> '{}' AS result`,
      [key, attempt.wait ?? null]);
    if (result === attempt.id) attempt.did[key] = null;
    else if (result !== null) note(attempt, key, { outcome: 'completed', result });
  }),

  guard: (session, attempt) => guarded(session, attempt, 'guarded'),
  guard_late: (session, attempt) => guarded(session, attempt, 'guarded_late'),
  guard_skip: (session, attempt) => guarded(session, attempt, 'guarded_skip'),

  fail: (session, attempt) => giveBack(session, attempt,
    `SELECT idem_fail($1, '{"why": "it fails"}',
      ${attempt.terminal ? 'terminal => true' : "retry_after => '100 ms'"})`),
  release: (session, attempt) => giveBack(session, attempt, 'SELECT idem_release($1)'),

  // The run had an effect outside: its claim outlives the rollback by its lease.
  hold: (session, attempt) => session.transaction({ ...attempt, how: 'rollback', did: {} },
    () => claim(session, attempt, attempt.keys[0], { onAbort: 'hold' })),

  // A claim that outlives its transaction, and is completed in a later one, by this
  // session or by another one that gets the token; or nobody completes it.
  keep: async (session, attempt, clients) => {
    const [key] = attempt.keys;
    let token = null;
    const claiming = { ...attempt, how: '', did: {} };
    await session.transaction(claiming, async () => {
      token = await claim(session, attempt, key, { onCommit: 'keep' });
    });
    attempt.code = claiming.code;
    if (!token || claiming.end !== 'commit') return;
    if (attempt.share) clients.kept.set(key, token);
    if (attempt.undo && !session.lost) {
      await session.ask(`SELECT idem_extend($1, '1 s', progress => to_jsonb($2::text))`, [key, attempt.id])
        .then(() => { attempt.noted = true; }, () => {});
    }
    if (attempt.leave || session.lost) return;
    await session.transaction(attempt, () => work(session, attempt, key, token));
    if (attempt.end === 'unknown') passOn(clients, key, token);
  },

  // A claim that lasts as long as the session, however that ends. On B, which no other server
  // takes over from, it is the worker that must end it, and not its lease.
  session: async (session, attempt) => {
    const [key] = attempt.keys;
    const lease = session.label === 'B' ? '10 min' : '2 s';
    let token = null;
    const claiming = { ...attempt, how: '', did: {} };
    await session.transaction(claiming, async () => {
      token = await claim(session, attempt, key, { onCommit: 'session', lease });
    });
    attempt.code = claiming.code;
    if (!token || claiming.end !== 'commit') return;
    try {
      // It had the key all the time if it still has it.
      const sent = Date.now();
      await session.ask('SELECT idem_extend($1, $2, progress => to_jsonb($3::text))', [key, lease, attempt.id]);
      attempt.noted = true;
      attempt.window = { from: attempt.got[key][4], until: sent, keys: [key], labels: [attempt.label] };
      if (attempt.terminal) session.vanish();
      else if (attempt.pick < 2) await session.transaction(attempt, () => work(session, attempt, key, token));
      else if (!attempt.leave) await session.ask('SELECT idem_release($1)', [key]);
    } catch (error) {
      attempt.code = error.code ?? error.message;
    }
  },

  // Completes what another session has claimed.
  token: async (session, attempt, clients) => {
    const [key, token] = [...clients.kept].at(-1 - (attempt.pick % Math.max(1, clients.kept.size))) ?? [];
    if (!key) return;
    attempt.keys = [key];
    attempt.shared = true;
    await session.transaction(attempt, async () => {
      attempt.got[key] = ['passed', null, token];
      await work(session, attempt, key, token, token);
    });
    if (attempt.end === 'unknown') passOn(clients, key, token);
  },

  // The work is outside of the database, so the key is completed at once.
  immediate: async (session, attempt) => {
    const [key] = attempt.keys;
    attempt.end = 'rollback';
    const claimed = { id: attempt.id };
    const row = await session.statement(claimed, `${CLAIM} idem_acquire($1, lease => $2) c`,
      [key, attempt.lease ?? null]);
    if (!row || !note(attempt, key, row)) return;
    if (attempt.pause) await pause(attempt.pause);
    attempt.did[key] = row.token;
    await session.statement(attempt, 'SELECT idem_complete($1, to_jsonb($2::text), token => $3, immediate => true)',
      [key, attempt.id, row.token]);
    if (attempt.end === 'error' && OUTCOME_UNKNOWN.includes(attempt.code)) attempt.end = 'unknown';
  },

  // The work is a counter in another table of DynamoDB; another item may have to be open.
  transact: async (session, attempt) => {
    const [key] = attempt.keys;
    attempt.end = 'rollback';
    attempt.did[key] = null;
    const row = await session.statement(attempt,
      `SELECT outcome::text, result #>> '{}' AS result, replayed FROM idem_transact($1, $2, to_jsonb($3::text))`,
      [key, JSON.stringify([counting(key), ...(attempt.gated ? [GATE_CHECK] : [])]), attempt.id]);
    if (OUTCOME_UNKNOWN.includes(attempt.code)) attempt.end = 'unknown';
    if (row && (row.outcome !== 'completed' || row.replayed)) {
      note(attempt, key, row);
      delete attempt.did[key];
      attempt.end = 'rollback';
    }
  },

  // Deletes what is past its ttl, while others claim those keys (aged.mjs).
  sweep: async (session, attempt) => {
    const row = await session.statement(attempt, 'SELECT idem_sweep(100000) AS swept');
    attempt.swept = Number(row?.swept ?? 0);
  },

  // A key that Lambda functions know, too.
  shared: async (session, attempt) => {
    const key = takeShared(attempt);
    const server = session.other ? 'shared_other' : 'shared';
    await session.transaction(attempt, async () => {
      const { rows: [{ outcome, result }] } = await session.ask(
        `${CLAIM} idem_acquire($1, lease => $2, wait => $3, server => $4) c`,
        [key, attempt.lease ?? null, attempt.wait ?? null, server]);
      if (outcome === 'completed') attempt.told = result;
      if (attempt.pause) await pause(attempt.pause);
      if (outcome !== 'acquired') return;
      await session.ask('INSERT INTO shared_work VALUES ($1, $2)', [attempt.shared_key, attempt.id]);
      await session.ask('SELECT idem_complete($1, to_jsonb($2::text), server => $3)', [key, attempt.id, server]);
      attempt.works = true;
    });
  },

  // One-shot actions have the names of keys. Each attempt has a token of its own.
  action: async (session, attempt) => {
    const [id] = attempt.keys;
    const token = randomUUID();
    const [text, values] = {
      create: [`SELECT outcome::text FROM action_create('{}', id => $1)`, [id]],
      consume: ['SELECT outcome::text, replayed FROM action_consume($1, token => $2)', [id, token]],
      cancel: ['SELECT outcome::text, replayed FROM action_cancel($1)', [id]],
    }[attempt.verb];
    let row = await session.statement(attempt, text, values);
    // Whoever asks again with its token is told the same.
    if (attempt.undo && attempt.verb === 'consume' && !session.lost) {
      row = await session.statement(attempt, text, values) ?? row;
    }
    attempt.action = { id, token, verb: attempt.verb, outcome: row?.outcome, replayed: row?.replayed };
    attempt.keys = [];
  },

  // An order that consumes an action when it commits.
  order: async (session, attempt) => {
    const [id] = attempt.keys;
    const token = randomUUID();
    attempt.keys = [];
    attempt.action = { id, token, verb: 'order' };
    if (attempt.share) await session.statement({ id: attempt.id }, `SELECT action_create('{}', id => $1)`, [id]);
    if (session.lost) return;
    await session.transaction(attempt, async () => {
      if (attempt.terminal) await session.ask('SAVEPOINT s');
      const { rows: [{ outcome }] } = await session.ask(`SELECT outcome::text FROM action_consume($1, token => $2, at => 'commit')`,
        [id, token]);
      if (attempt.pause) await pause(attempt.pause);
      if (outcome === 'consumed') await session.ask('INSERT INTO orders VALUES ($1, $2, $3)', [id, token, attempt.id]);
      if (attempt.terminal) await session.ask('ROLLBACK TO SAVEPOINT s');
      else attempt.action.ordered = outcome === 'consumed';
    });
  },
};
