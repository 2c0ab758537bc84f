// Compares what everybody says about the keys: DynamoDB's records and the writes that led
// to them, the rows of the databases that survive, and what the clients were told. Runs
// when nothing is under way any more. A statement that does not hold is a violation:
//
//   1. A key has at most one work that is committed, in all databases together.
//   2. A key is COMPLETED if and only if that work is there: by the attempt and with the
//      token that the row says, or by a service that says so itself.
//   3. Whoever saw COMMIT finds it so, unless a failover has lost the data; whoever saw an
//      error or rolled back finds that it is not done. Only a lost answer proves nothing.
//   4. Whoever was told "in progress" was not the only one. Whoever was told "completed", with a
//      result, finds that result; and sees the work, if it was done in the same database.
//   5. Each write was allowed when it was applied (history.mjs), and a claim of a transaction block is
//      bound to it.
//   6. Every key can be completed, and no view shows anything that is left. B settles by itself what
//      its transactions have left, before anybody asks for the key.
//   7. The same holds for keys that Lambda functions share (lambda.mjs).
//   8. An action is consumed by at most one token, and never consumed and canceled. It is consumed
//      at commit if and only if the order that does so is there.
//   9. What belongs to a transact, or is handed in with a completion, is written once, if and only
//      if its key says so; and an item that transactions of one database write shows the last one.
//  10. While a transaction is prepared, or a session holds a claim, nobody is given one of its
//      keys, or told that it is done.
//  11. When the heir of a primary that was frozen has taken over, and that primary goes on, none of
//      its transactions commits a claim of the time before.
//  12. A note of progress whose caller was told so was written (and is kept, history.mjs).
//  13. What a sweep deletes has ended and is past its ttl (history.mjs), it tells of no more than was
//      deleted, and one that nothing disturbs leaves nothing of it.

import { History, engine, isExpired, isSwept, plain } from './history.mjs';
import { SHARED_ROWS, SharedTable } from './lambda.mjs';
import { Session } from './session.mjs';
import { homeOf, ROWS } from './transactions.mjs';

const PREFIX = 'IDEMPOTENCY#';
const ACTION = 'ACTION#';

// Is the key done?  A record that is past its ttl is none.
const isDone = (record) => record?.status === 'COMPLETED' && !isExpired(record);

// All leases but those of sessions of B are shorter.
const LONG_LEASE_MS = 30_000;

// Kinds whose work is not a row.
const withoutRow = ({ kind, label }) => ['immediate', 'transact'].includes(kind) || label === 'outside';

const ORDERS = 'SELECT action, token::text, result AS by FROM orders';

// Kinds that claim keys in a block only, and do not ask for more.
const BOUND = ['acquire', 'many', 'savepoint', 'block', 'fail', 'release', 'prepare'];

// Who has written an item last.
const WRITTEN = 'SELECT DISTINCT ON (item) item, by FROM written ORDER BY item, n DESC';

// What must not be left. The other states of lives are: open, alive (an original and its
// copy see each other), settled here, over, has another heir. A copy leaves alone the
// completions that came with it, because its original finishes them.
const LEFT = `SELECT 'pending: ' || key AS what FROM exactonce_pending
    WHERE current_setting('exactonce.takeover') <> 'never' OR created_at > pg_postmaster_start_time()
  UNION ALL SELECT 'in doubt: ' || key FROM exactonce_in_doubt
  UNION ALL SELECT 'claim: ' || key || ' ' || state FROM exactonce_claims
    WHERE database = current_database() AND state NOT IN ('second look', 'kept')
  UNION ALL SELECT 'going on: ' || activity FROM exactonce_progress WHERE pid IS NOT NULL
  UNION ALL SELECT 'prepared: ' || gid FROM pg_prepared_xacts WHERE database = current_database()
  UNION ALL SELECT 'life: ' || life || ' ' || state FROM exactonce_lives
    WHERE state IN ('waits for idem_take_over()', 'silent', 'not reached', 'opening')`;

function read(result) {
  try {
    return JSON.parse(result);
  } catch {
    return result;
  }
}

// The attempt that a record stands for.
const doerOf = ({ result, holder }) => (result === undefined ? holder : read(result));

export class Checker {
  #attempts = new Map();
  #open = new Set();
  #done = new Map();
  #guilty = new Set();
  #unsettled = [];
  #copied = new Set();
  #rows = new Map();
  #written = new Map();
  #orders = new Map();

  constructor(table) {
    this.table = table;
    this.history = new History(table);
    this.shared = new SharedTable(`${table}_shared`);
  }

  async begin() {
    await this.history.begin();
    await engine('CreateTable', { TableName: `${this.table}_items`, BillingMode: 'PAY_PER_REQUEST',
      KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }] });
  }

  add(attempts) {
    for (const attempt of attempts) {
      if (attempt.shared_key) {
        this.shared.add(attempt);
        continue;
      }
      this.#attempts.set(attempt.id, attempt);
      for (const key of attempt.keys) if (!this.#done.has(key)) this.#open.add(key);
    }
  }

  async #scan(table) {
    const items = new Map();
    let start;
    do {
      const page = await engine('Scan', { TableName: table, ConsistentRead: true, ExclusiveStartKey: start });
      for (const item of page.Items.map(plain)) items.set(item.pk, item);
      start = page.LastEvaluatedKey;
    } while (start);
    return items;
  }

  // The keys that were tried and are not completed, key => status, and the actions that
  // transactions are committing.
  async openKeys() {
    const items = await this.#scan(this.table);
    const left = new Map();
    const actions = [...items.keys()].filter((pk) => pk.startsWith(ACTION) && items.get(pk).status);
    for (const key of this.#open) {
      const record = items.get(PREFIX + key);
      if (isDone(record)) continue;
      left.set(key, this.#statusOf(key, record));
    }
    return { keys: left, actions: actions.map((pk) => pk.slice(ACTION.length)) };
  }

  // The status of a record that is not COMPLETED, and whether somebody must forget it first.
  #statusOf(key, record) {
    if (record?.status === 'FAILED' && record.retry_ms === undefined) return 'FAILED for good';
    if (!this.#isClaimedByCopy(key, record)) return record?.status ?? 'absent';
    this.#copied.add(record.owner);
    return 'IN_PROGRESS by a late copy';
  }

  // Is this the claim of a request that its sender has done with? A copy of an acquire arrives
  // late when the claim that refused it, or its own one, has ended. No process knows of it, so its
  // lease ends it, or an operator, who does not wait for a long one (docs/protocol.md, "Late
  // requests"). It shows by the fence: the sender was told an earlier one.
  #isClaimedByCopy(key, record) {
    if (record?.status !== 'IN_PROGRESS' || record.lease_ms < Date.now() + LONG_LEASE_MS) return false;
    const [, , , fence] = this.#attempts.get(record.holder)?.got[key] ?? [];
    return Number(fence ?? Infinity) < record.fence;
  }

  // databases: [place, database] of all data that survives.
  // late: what the old primary has committed when it went on, see soak.pl.
  async check({ places, databases, late = [] }) {
    const violations = [];
    const counts = { takeovers: 0, early: 0, lost: 0 };
    this.violate = (text, key) => {
      if (key) this.#guilty.add(key.replace(/^IDEMPOTENCY#/, ''));
      violations.push(text);
    };
    this.#guilty = new Set(this.#unsettled);
    this.#rows.clear();
    this.#written.clear();
    this.#orders.clear();
    this.shared.forgetRows();
    for (const [name, database] of databases) await this.#readDatabase(places[name], database);
    this.survivors = new Set(databases.map(([name]) => places[name].label));
    const items = await this.#scan(this.table);
    for (const key of this.#open) if (!isDone(items.get(PREFIX + key))) this.#guilty.add(key);
    counts.writes = await this.history.check(this.violate, counts, this.#copied);
    this.#checkRows(items);
    this.#checkRecords(items);
    this.#checkAttempts(items, counts);
    this.#checkWindows();
    this.#checkAlone();
    this.#checkBinds();
    this.#checkNotes();
    this.#checkSweeps(items);
    this.#checkLate(late);
    await this.#checkWrites(items);
    this.#checkActions(items);
    this.#checkOrders(items, counts);
    await this.shared.check(this.violate, this.survivors, counts);
    counts.keys = this.#open.size;
    counts.swept = this.history.removed;
    counts.copied = this.#copied.size;
    this.#copied.clear();
    if (this.#guilty.size === 0 && violations.length === 0) {
      this.#goOn(items);
      await this.shared.goOn();
    }
    return { violations, counts };
  }

  #goOn(items) {
    for (const key of this.#open) this.#done.set(key, doerOf(items.get(PREFIX + key)));
    this.#open.clear();
    this.#attempts.clear();
    this.history.forget();
  }

  async #readDatabase(place, database) {
    const session = new Session(place, database);
    try {
      if (!await session.open()) throw new Error(`no session in ${place.label} ${database}`);
      const here = `${place.label} ${database}`;
      const seen = new Set();
      for (const { key, token, by } of (await session.ask(ROWS)).rows) {
        if (seen.has(`${key} ${by}`)) this.violate(`key ${key}: its work is twice in ${here}, by ${by}`, key);
        seen.add(`${key} ${by}`);
        if (!this.#rows.has(key)) this.#rows.set(key, new Map());
        const works = this.#rows.get(key);
        if (!works.has(by)) works.set(by, { token, where: [] });
        works.get(by).where.push(here);
      }
      for (const { action, token, by } of (await session.ask(ORDERS)).rows) {
        this.#orders.set(action, new Map([...(this.#orders.get(action) ?? []), [by, token]]));
      }
      this.#takeWritten(homeOf(place.label, database), (await session.ask(WRITTEN)).rows);
      this.shared.take(here, (await session.ask(SHARED_ROWS)).rows);
      for (const row of (await session.ask(LEFT)).rows) {
        this.violate(`left in ${here}, ${row.what}`, /: (\S+)/.exec(row.what)[1]);
      }
    } finally {
      session.close();
    }
  }

  #checkRows(items) {
    for (const [key, works] of this.#rows) {
      if (works.size > 1) {
        const all = [...works].map(([by, { where }]) => `${by} in ${where}`).join('; ');
        this.violate(`key ${key} has several works: ${all}`, key);
      }
      const record = items.get(PREFIX + key);
      const [[by, { token, where }]] = works;
      if (record?.status !== 'COMPLETED') {
        this.violate(`key ${key} is ${record?.status ?? 'absent'}, and its work by ${by} is in ${where}`, key);
      } else if (doerOf(record) !== by) {
        this.violate(`key ${key} is COMPLETED by ${doerOf(record)}, and its work by ${by} is in ${where}`, key);
      } else if (token && token !== record.owner) {
        this.violate(`key ${key} is COMPLETED with token ${record.owner}, and its work has ${token}`, key);
      }
    }
  }

  #checkRecords(items) {
    for (const [pk, record] of items) {
      if (!pk.startsWith(PREFIX)) continue;
      const key = pk.slice(PREFIX.length);
      if (isExpired(record) && !this.#open.has(key)) continue;
      const { status } = record;
      const by = doerOf(record);
      if (this.#done.has(key)) {
        if (status !== 'COMPLETED' || by !== this.#done.get(key)) {
          this.violate(`key ${key} was COMPLETED by ${this.#done.get(key)}, and is ${status} by ${by}`, key);
        }
      } else if (!this.#open.has(key)) {
        if (/^r\d/.test(key)) this.violate(`nobody tried key ${key}`, key);
      } else if (status === 'COMMITTING') {
        this.violate(`key ${key} is still COMMITTING, by ${by}`, key);
      } else if (status === 'COMPLETED' && !this.#rows.get(key)?.has(by)) {
        const attempt = this.#attempts.get(by);
        if (!attempt || !(key in attempt.did) || !withoutRow(attempt)) {
          this.violate(`key ${key} is COMPLETED by ${by}, and its work is lost`, key);
        }
      }
    }
  }

  #checkAttempts(items, counts) {
    for (const attempt of this.#attempts.values()) {
      const { id, kind, label, database, end, code, did, got, keys, seen } = attempt;
      const told = `attempt ${id} (${kind}) on ${label}`;
      const survives = label === 'outside' || this.survivors.has(label);
      for (const key of Object.keys(did)) {
        const record = items.get(PREFIX + key);
        const isThere = record?.status === 'COMPLETED' && doerOf(record) === id;
        if (isThere && ['error', 'rollback'].includes(end)) {
          this.violate(`${told} saw ${end} ${code ?? ''}, and key ${key} is COMPLETED by it`, key);
        }
        if (end !== 'commit' || isThere) continue;
        const mayBeLost = !survives && !withoutRow(attempt);
        counts.lost += mayBeLost;
        if (!mayBeLost) this.violate(`${told} saw COMMIT, and key ${key} is not COMPLETED by it`, key);
      }
      if (seen) this.#checkSeen(told, keys[0], got[keys[0]][1], seen, `${label} ${database}`);
      for (const key of keys) {
        const [outcome, result] = got[key] ?? [];
        const record = items.get(PREFIX + key);
        if (!survives || outcome !== 'completed' || (result ?? undefined) === read(record?.result)) continue;
        this.violate(`${told} was told that key ${key} is completed by ${result}, and it is by ${record && doerOf(record)}`, key);
      }
    }
  }

  // late: what the old primary has committed after it was frozen, and its heir had taken over.
  #checkLate(late) {
    for (const { by, frozen } of late) {
      const { kind, got = {}, did = {} } = this.#attempts.get(by) ?? {};
      const key = Object.keys(did).find((name) => got[name]?.[0] === 'acquired' && got[name][4] < frozen);
      if (!key || !['acquire', 'many', 'savepoint', 'block'].includes(kind)) continue;
      this.violate(`attempt ${by} (${kind}) had claimed key ${key} when its server was frozen, and has committed after that`, key);
    }
  }

  #checkSeen(told, key, by, seen, here) {
    if (!this.#rows.get(key)?.get(by)?.where.includes(here) || seen.includes(by)) return;
    this.violate(`${told} was told that key ${key} is completed by ${by}, and did not see its work`, key);
  }

  #checkBinds() {
    for (const { id, kind, label, keys } of this.#attempts.values()) {
      if (!BOUND.includes(kind) || label === 'outside') continue;
      for (const key of keys) {
        const loose = this.history.of(PREFIX + key).find(({ holder, status, bind }) => holder === id && status === 'IN_PROGRESS' && bind !== 'tx');
        if (loose) this.violate(`the claim of key ${key} by attempt ${id} (${kind}) is bound to ${loose.bind}, and not to its transaction`, key);
      }
    }
  }

  #checkNotes() {
    for (const { id, kind, keys: [key], noted } of this.#attempts.values()) {
      if (!noted || this.history.of(PREFIX + key).some(({ progress }) => progress === JSON.stringify(id))) continue;
      this.violate(`attempt ${id} (${kind}) was told that its progress on key ${key} is written, and it was not`, key);
    }
  }

  #checkSweeps(items) {
    for (const [pk, item] of items) {
      if (isSwept(pk, item)) this.violate(`${pk} is past its ttl, and no sweep has deleted it`, pk);
    }
    const sweeps = [...this.#attempts.values()].filter(({ kind }) => kind === 'sweep');
    const told = sweeps.reduce((sum, { swept = 0 }) => sum + swept, 0);
    if (told > this.history.removed) this.violate(`sweeps have told of ${told} items, and ${this.history.removed} were deleted`);
  }

  // Who was told that a key is in progress, which nobody else had tried by then.
  #checkAlone() {
    const first = new Map();
    for (const attempt of this.#attempts.values()) {
      for (const key of attempt.keys) first.set(key, [...(first.get(key) ?? []), attempt]);
    }
    for (const { id, kind, label, got } of this.#attempts.values()) {
      for (const [key, [outcome, , , , when]] of Object.entries(got)) {
        if (outcome !== 'in_progress' || this.#done.has(key) || first.get(key)?.some((other) => other.id !== id && other.began <= when)) continue;
        this.violate(`attempt ${id} (${kind}) on ${label} was told that key ${key} is in progress, and nobody else had tried it`, key);
      }
    }
  }

  // What happens in a history that is lost says nothing. Whatever was asked for after the
  // beginning of a window and answered before its end was answered in the window.
  #checkWindows() {
    const windows = new Map();
    for (const { id, kind, window } of this.#attempts.values()) {
      if (!window?.labels.some((label) => this.survivors.has(label))) continue;
      for (const key of window.keys) windows.set(key, [...(windows.get(key) ?? []), { id, kind, ...window }]);
    }
    for (const { id, kind, label, began, got } of this.#attempts.values()) {
      if (label !== 'outside' && !this.survivors.has(label)) continue;
      for (const [key, [outcome, , , , when]] of Object.entries(got)) {
        if (!['acquired', 'completed'].includes(outcome)) continue;
        for (const { id: owner, kind: how, from, until } of windows.get(key) ?? []) {
          if (owner === id || began < from || when > until) continue;
          this.violate(`attempt ${id} (${kind}) on ${label} was told that key ${key} is ${outcome}, while it is in progress by ${owner} (${how})`, key);
        }
      }
    }
  }

  // A copy has rows about the items of its original, too.
  #takeWritten(home, rows) {
    this.#written.set(home, new Map(rows.filter(({ item }) => item.startsWith(home)).map(({ item, by }) => [item, by])));
  }

  async #checkWrites(items) {
    const written = await this.#scan(`${this.table}_items`);
    for (const key of this.#open) {
      const record = items.get(PREFIX + key);
      const by = record?.status === 'COMPLETED' ? doerOf(record) : undefined;
      const { kind, writes } = this.#attempts.get(by) ?? {};
      const n = written.get(key)?.n ?? 0;
      if (n !== Number(kind === 'transact' || writes === true)) {
        this.violate(`key ${key} is ${record?.status ?? 'absent'} by ${by} (${kind}), and its counter is at ${n}`, key);
      }
      const put = written.get(`put/${key}`)?.by;
      if (put !== (writes ? by : undefined)) {
        this.violate(`key ${key} is ${record?.status ?? 'absent'} by ${by} (${kind}), and what was put for it is by ${put}`, key);
      }
    }
    for (const [home, rows] of this.#written) {
      const shown = [...written].filter(([pk]) => pk.startsWith(home)).map(([pk, { by }]) => [pk, by]);
      for (const [item, by] of new Map([...rows, ...shown])) {
        if (rows.get(item) !== by) this.violate(`item ${item} was written last by ${rows.get(item)}, and shows ${by}`);
      }
      for (const [item, by] of rows) {
        if (!written.has(item)) this.violate(`item ${item} was written by ${by}, and is not there`);
      }
    }
  }

  #checkActions(items) {
    for (const { id, action } of this.#attempts.values()) {
      if (!action?.outcome) continue;
      const item = items.get(ACTION + action.id);
      const told = `attempt ${id} was told that action ${action.id} is ${action.outcome}`;
      if (!item) {
        if (action.outcome !== 'action_not_found') this.violate(`${told}, and there is none`, ACTION + action.id);
      } else if (action.outcome === 'consumed' && item.consumedToken !== action.token) {
        this.violate(`${told}, and it is by token ${item.consumedToken}`, ACTION + action.id);
      } else if (action.outcome === 'already_used' && item.consumedAt && item.consumedToken === action.token) {
        this.violate(`${told}, and it is by its own token`, ACTION + action.id);
      } else if (action.outcome === 'canceled' && !item.canceledAt) {
        this.violate(`${told}, and it is not`, ACTION + action.id);
      }
    }
  }

  #checkOrders(items, counts) {
    for (const [pk, { status }] of items) {
      if (pk.startsWith(ACTION) && status) this.violate(`action ${pk} is still ${status}`, pk);
    }
    for (const [id, orders] of this.#orders) {
      const { consumedAt, consumedToken } = items.get(ACTION + id) ?? {};
      for (const [by, token] of orders) {
        if (consumedAt && consumedToken === token) continue;
        this.violate(`action ${id} is consumed by token ${consumedAt && consumedToken}, and the order of attempt ${by} has ${token}`, ACTION + id);
      }
    }
    for (const { id: by, action, label, end, code } of this.#attempts.values()) {
      if (action?.verb !== 'order') continue;
      const { consumedAt, consumedToken } = items.get(ACTION + action.id) ?? {};
      const isConsumed = consumedAt !== undefined && consumedToken === action.token;
      const told = `attempt ${by} on ${label} saw ${end} ${code ?? ''}`;
      if (isConsumed && !this.#orders.get(action.id)?.has(by)) {
        this.violate(`${told}, and its action ${action.id} is consumed, but its order is not there`, ACTION + action.id);
      } else if (isConsumed && ['error', 'rollback'].includes(end)) {
        this.violate(`${told}, and its action ${action.id} is consumed`, ACTION + action.id);
      } else if (!isConsumed && end === 'commit' && action.ordered) {
        if (this.survivors.has(label)) this.violate(`${told}, and its action ${action.id} is not consumed by it`, ACTION + action.id);
        else counts.lost++;
      }
    }
  }

  async #claimAgain(session) {
    for (const server of ['exactonce', 'shared']) {
      await session.ask("SELECT idem_acquire('opened', server => $1), idem_release('opened', server => $1)", [server]).catch(() => {});
    }
  }

  // What the views still show.
  async left({ places, databases }) {
    const [left, prepared] = [[], []];
    for (const [name, database] of databases) {
      const session = new Session(places[name], database);
      try {
        const rows = await session.open() ? (await session.ask(LEFT)).rows : [{ what: 'does not answer' }];
        // A session that was killed has left it so, and the next claim in that table goes on.
        if (rows.some(({ what }) => / opening$/.test(what))) await this.#claimAgain(session);
        if (rows.some(({ what }) => what.startsWith('prepared: '))) prepared.push([name, database]);
        left.push(...rows.map(({ what }) => `${name} ${database} ${what}`));
      } finally {
        session.close();
      }
    }
    return { left, prepared };
  }

  // The keys that transactions of B have sealed, and which B has not settled. What it looks at a
  // second time is left out: a late copy of a seal may have taken effect. So may a copy of a claim
  // that was refused, of which nobody knows any more: its lease ends it.
  async unasked({ places }) {
    const lives = new Set();
    const looked = new Set();
    for (const database of ['postgres', 'two']) {
      const session = new Session(places.B, database);
      try {
        if (!await session.open()) return { left: ['B does not answer'] };
        for (const { life } of (await session.ask('SELECT DISTINCT life::text FROM exactonce_lives')).rows) lives.add(life);
        const { rows } = await session.ask("SELECT key FROM exactonce_claims WHERE state = 'second look'");
        for (const { key } of rows) looked.add(key);
      } finally {
        session.close();
      }
    }
    const isLeft = ({ status, origin }) => status === 'COMMITTING' && lives.has(origin?.split('/')[0]);
    const items = await this.#scan(this.table);
    this.#unsettled = [...items.keys()].filter((pk) => pk.startsWith(PREFIX) && isLeft(items.get(pk)))
      .map((pk) => pk.slice(PREFIX.length)).filter((key) => !looked.has(key));
    return { left: this.#unsettled.map((key) => `${PREFIX}${key} ${items.get(PREFIX + key).status}`) };
  }

  // All that is known about the keys with violations.
  evidence() {
    return { shared: this.shared.evidence(), ...this.#evidenceOfGuilty() };
  }

  #evidenceOfGuilty() {
    return Object.fromEntries([...this.#guilty].map((key) => [key, {
      attempts: [...this.#attempts.values()].filter(({ keys, did, action }) => keys.includes(key) || key in did
        || `ACTION#${action?.id}` === key),
      rows: [...(this.#rows.get(key) ?? [])],
      writes: this.history.of(PREFIX + key).concat(this.history.of(key)),
    }]));
  }
}
