// The clients of a run: those of the soak (test/soak), which note what they are told, on the ways that
// lead to the primary of a cluster. What an attempt does is drawn from the seed.
//
// A label names the history that a transaction belongs to: A and the timeline. Clients of a pooler
// ask for it in each transaction, others once for each session.

import { setTimeout as pause } from 'node:timers/promises';
import { Manager } from '../soak/prepared.mjs';
import { Session } from '../soak/session.mjs';
import { kinds } from '../soak/transactions.mjs';

const TIMELINE = `SELECT 'A' || ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS label`;

// What is done, and how often.
const WEIGHTS = { acquire: 26, once: 14, many: 10, savepoint: 8, block: 6, call: 8, guard: 5, guard_late: 6, guard_skip: 4, fail: 4,
  release: 4, keep: 8, hold: 2, token: 5, immediate: 4, transact: 4, prepare: 12, action: 8, order: 12, session: 5 };
const SEVERAL = ['many', 'savepoint', 'block', 'prepare'];

// Where lost commits are allowed, nothing is done whose effects outside the keys are lost with them.
const MAY_BE_LOST = ['acquire', 'once', 'many', 'savepoint', 'block', 'guard', 'guard_late', 'fail', 'release'];

// A claim of the session of a pooler is another client's.
const NOT_POOLED = ['session'];

const RECENT = 12;

// mulberry32
export function random(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return { next, below, of: (list) => list[below(list.length)], maybe: (share, then) => (next() < share ? then : {}) };
}

class ClusterSession extends Session {
  constructor({ pooled, ...place }, patient = false) {
    super({ label: 'A0', ...place }, 'postgres', patient);
    this.pooled = pooled;
  }

  async open() {
    if (!await super.open()) return false;
    try {
      this.label = (await this.ask(TIMELINE)).rows[0].label;
      return true;
    } catch {
      this.lost = true;
      return false;
    }
  }

  async #tell(attempt) {
    attempt.label = this.pooled ? (await this.ask(TIMELINE)).rows[0].label : this.label;
  }

  transaction(attempt, body) {
    return super.transaction(attempt, async () => { await this.#tell(attempt); await body(); });
  }

  prepare(attempt, body) {
    return super.prepare(attempt, async () => { await this.#tell(attempt); await body(); });
  }
}

function draw(dice, { pooled }, mayLose) {
  const allowed = Object.keys(WEIGHTS).filter((kind) => (!mayLose || MAY_BE_LOST.includes(kind)) && !(pooled && NOT_POOLED.includes(kind)));
  const kind = dice.of(allowed.flatMap((name) => Array(WEIGHTS[name]).fill(name)));
  const isolated = ['acquire', 'once'].includes(kind) ? dice.maybe(0.15, { isolation: 'REPEATABLE READ' }) : {};
  return { kind, ...isolated,
    offsets: Array.from({ length: SEVERAL.includes(kind) ? 2 + dice.below(4) : 1 }, () => dice.below(RECENT)),
    ...dice.maybe(0.3, { pause: 1 + dice.below(400) }),
    ...(isolated.isolation ? {} : dice.maybe(0.25, { wait: '300 ms' })),
    ...dice.maybe(0.15, { lease: dice.of(['500 ms', '2 s']) }),
    ...dice.maybe(0.2, { lazy: true }),
    ...(!mayLose && ['acquire', 'once', 'prepare'].includes(kind) ? dice.maybe(0.35, { writes: true }) : {}),
    ...(!mayLose && kind === 'acquire' ? dice.maybe(0.5, { ordered: true }) : {}),
    ...(kind === 'prepare' ? { stay: dice.below(4000) } : {}),
    ...dice.maybe(0.15, { how: dice.of(['rollback', 'rollback', 'vanish', 'terminate']) }),
    ...dice.maybe(0.4, { undo: true }), ...dice.maybe(0.1, { terminal: true }),
    ...dice.maybe(0.5, { share: true }), ...dice.maybe(0.5, { leave: true }),
    pick: dice.below(4), verb: dice.of(['create', 'create', 'consume', 'consume', 'consume', 'cancel']) };
}

export class Load {
  #running = [];
  #ended = true;
  #started = 0;
  #passes = 0;
  #attempts = [];

  kept = new Map();
  manager = new Manager();

  // ways: {host, port, pooled} to the primary, or to a node that may be it. patience: milliseconds
  // after which a client leaves a session that does not answer.
  constructor(checker, ways, patience) {
    Object.assign(this, { checker, ways, patience });
  }

  // primary(): {label, host, port} of the primary, if one is known.
  begin(round, seed, primary, mayLose) {
    Object.assign(this, { round, mayLose });
    this.#ended = false;
    this.#started = 0;
    this.kept.clear();
    this.manager.begin(() => ({ A: primary() }));
    this.#running = this.ways.map((way, number) => this.#runClient(way, number + 1, random(seed * 1009 + round * 101 + number)));
  }

  async end() {
    this.#ended = true;
    await Promise.all([...this.#running, this.manager.stop()]);
    const attempts = this.#attempts.splice(0);
    this.checker.add(attempts);
    const count = (how) => attempts.filter(({ end }) => end === how).length;
    return { keys: new Set(attempts.flatMap(({ keys }) => keys)).size, attempts: attempts.length, commits: count('commit'), unknown: count('unknown'),
      prepared: attempts.filter(({ kind, window }) => kind === 'prepare' && window).length, tally: tally(attempts) };
  }

  async #runClient(way, number, dice) {
    for (let count = 0; !this.#ended;) {
      const session = new ClusterSession(way);
      const plans = Array.from({ length: 1 + dice.below(6) }, () => draw(dice, way, this.mayLose));
      if (!await this.#within(session, session.open())) {
        session.close();
        await pause(300);
        continue;
      }
      for (const plan of plans) {
        if (this.#ended || session.lost) break;
        const entry = this.#record({ ...plan, id: `${this.round}.${number}.${++count}` }, session.label);
        await this.#within(session, kinds[plan.kind](session, entry, this));
        // DynamoDB or the lease is away.
        await pause(entry.code === 'ID006' ? 200 : dice.below(60));
      }
      session.close();
    }
  }

  async #within(session, promise) {
    const late = setTimeout(() => session.leave(), this.patience);
    try {
      return await promise;
    } finally {
      clearTimeout(late);
    }
  }

  #record(plan, label) {
    const { offsets, ...attempt } = plan;
    const head = Math.floor(this.#started++ / 2);
    const keys = [...new Set(offsets.map((offset) => `r${this.round}-${Math.max(0, head - offset)}`))];
    const entry = { ...attempt, database: 'postgres', label, keys, got: {}, did: {}, end: 'rollback', began: Date.now() };
    this.#attempts.push(entry);
    return entry;
  }

  // Transactions that are open when a server is frozen: each has claimed a key and done its work. They
  // go by a server with long timeouts, so that they take an answer that has come meanwhile.
  // Returns their COMMITs, to be called.
  async hold(place, count, lazy = false) {
    const held = [];
    for (let i = 0; i < count; i++) {
      const session = new ClusterSession(place, true);
      if (!await session.open()) {
        session.close();
        continue;
      }
      const entry = this.#record({ kind: 'acquire', lazy, offsets: [0], id: `${this.round}.held.${++this.#passes}` }, session.label);
      entry.keys = [`r${this.round}-held-${this.#passes}`];
      let commit;
      const until = new Promise((resolve) => { commit = resolve; });
      const ended = kinds.acquire({ ask: (...args) => session.ask(...args), get lost() { return session.lost; },
        transaction: (attempt, body) => session.transaction(attempt, async () => { await body(); entry.ready = true; await until; }) }, entry, this)
        .finally(() => session.close());
      held.push({ entry, commit, ended, leave: () => session.leave() });
    }
    for (let i = 0; i < 50 && held.some(({ entry }) => !entry.ready); i++) await pause(100);
    return held;
  }

  // Tries what is not completed, as a queue that delivers again would. Returns what is left.
  async redeliver(place) {
    const { keys, actions } = await this.checker.openKeys();
    if (keys.size + actions.length === 0) return [];
    const session = new ClusterSession(place);
    try {
      if (!await session.open()) return ['no session'];
      const entryOf = (kind, key) => {
        const entry = this.#record({ kind, offsets: [0], id: `${this.round}.h.${++this.#passes}` }, session.label);
        entry.keys = [key];
        return entry;
      };
      for (const [key, status] of keys) {
        if (/for good|late copy/.test(status)) await session.ask('SELECT idem_forget($1)', [key]).catch(() => {});
        await this.#within(session, kinds.acquire(session, entryOf('acquire', key), this));
      }
      for (const id of actions) await this.#within(session, kinds.order(session, entryOf('order', id), this));
    } finally {
      session.close();
      this.checker.add(this.#attempts.splice(0));
    }
    return [...[...keys].map(([key, status]) => `${key} ${status}`), ...actions.map((id) => `action ${id}`)];
  }

  // What the views show, and no key stands behind. What is prepared is ended.
  async left(place) {
    const { left, prepared } = await this.checker.left({ places: { A: place }, databases: [['A', 'postgres']] });
    if (prepared.length > 0) await this.manager.endAll('A', place, 'postgres');
    return left;
  }
}

// How the attempts of each kind ended: 'once: 5 commit, 2 ID005'.
function tally(attempts) {
  const counts = {};
  for (const { kind, end, code } of attempts) {
    counts[kind] ??= {};
    counts[kind][code ?? end] = (counts[kind][code ?? end] ?? 0) + 1;
  }
  return Object.entries(counts).sort().map(([kind, ends]) => `${kind}: ${Object.entries(ends).map(([end, n]) => `${n} ${end}`).join(', ')}`);
}
