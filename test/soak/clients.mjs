// The clients of a random run: sessions in PostgreSQL and services with the AWS SDK,
// on one table. soak.pl starts this program, and tells it by lines of JSON on
// standard input what to do; it answers each with one line of JSON.
//
//   {do: 'direct', places}        where the sessions find their servers from now on
//   {do: 'begin', round, clients} run the clients of a round
//   {do: 'crowd', place, databases, count}  beside them so many sessions complete a new key each, once
//   {do: 'end'}                   let them finish what they do, then {attempts: n}
//   {do: 'redeliver', places, databases}  try the open keys of the round again: {left, took}, the
//                                       milliseconds that the engine needed for an answer
//   {do: 'left', places, databases}   what the views still show: {left}
//   {do: 'unasked', places}       what B has not settled, though its transactions are over: {left}
//   {do: 'check', places, databases}  compare everything, see checker.mjs
//   {do: 'history'}               what the checker knows about each key of a violation
//
// A place is a server that clients work on: A, B, its copy C, and the old primary O of
// A. {label, host, port}: the label names the history that its data belongs to.
//
// An attempt is one try of one client on one or several keys. Its id is stored in the
// work row, and as the result and the holder of the record, so that a record shows whose
// work it stands for.

import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { agedKey, putAged } from './aged.mjs';
import { Checker } from './checker.mjs';
import { engine } from './history.mjs';
import { Outside } from './outside.mjs';
import { Manager } from './prepared.mjs';
import { Session } from './session.mjs';
import { kinds } from './transactions.mjs';

const TABLE = process.env.EO_TABLE;
const TWO_ADDRESSES = process.env.EO_TWO_ADDRESSES === '1';

// A client leaves a session that does not answer, this long after it was directed elsewhere.
const PATIENCE_MS = 500;

const GATE_MS = 250;
const SWEEP_MS = 400;

// One of so many attempts is about a key whose record is past its ttl.
const AGED_SHARE = 10;

class Clients {
  #places = {};
  #sessions = new Set();
  #running = [];
  #ended = true;
  #started = 0;
  #passes = 0;
  #aged = 0;
  #attempts = [];

  // The tokens of claims that were kept for others: key => {token, id}.
  kept = new Map();
  manager = new Manager();

  constructor(checker, outside) {
    this.checker = checker;
    this.outside = outside;
  }

  direct({ places }) {
    this.#places = places;
    for (const session of this.#sessions) {
      if (Object.values(places).some(({ label }) => label === session.label)) continue;
      setTimeout(() => session.leave(), PATIENCE_MS).unref();
    }
    return {};
  }

  begin({ round, clients }) {
    this.round = round;
    this.#ended = false;
    this.#started = 0;
    this.#aged = 0;
    this.kept.clear();
    this.manager.begin(() => this.#places);
    this.#running = [this.#moveGate(), this.#sweepAll(), ...clients.map((sessions, number) => this.#runClient(number + 1, sessions))];
    return {};
  }

  crowd({ place, databases, count }) {
    for (let i = 0; i < count; i++) {
      const attempt = { kind: 'acquire', id: `${this.round}.crowd.${++this.#started}`, newKey: true };
      this.#running.push(this.#runSession({ place, database: databases[i % databases.length] }, [attempt]));
    }
    return {};
  }

  // Opens and closes the item that some transacts depend on.
  async #moveGate() {
    for (let open = true; !this.#ended; open = !open) {
      await engine('PutItem', { TableName: `${TABLE}_items`, Item: { pk: { S: 'gate' }, open: { S: open ? 'yes' : 'no' } } })
        .catch(() => {});
      await pause(GATE_MS);
    }
  }

  // Two sweeps at once, of A and B and by either address, again and again.
  async #sweepAll() {
    for (let n = 1; !this.#ended; n++) {
      await putAged(TABLE, this.round, n).then(() => { this.#aged = n; }, () => {});
      const database = n % 2 ? 'postgres' : 'two';
      await Promise.all(['A', 'B'].map((place) => this.#runSession({ place, database, other: n % 4 > 1 },
        [{ kind: 'sweep', id: `${this.round}.s.${n}.${place}`, keys: [] }])));
      await pause(SWEEP_MS);
    }
  }

  // When all is healed, one that nothing disturbs.
  async #sweepTheRest({ places }) {
    const session = new Session(places.B, 'postgres');
    try {
      if (!await session.open()) return;
      await kinds.sweep(session, this.#record({ kind: 'sweep', id: `${this.round}.s.last`, keys: [] }, places.B.label));
    } finally {
      session.close();
    }
    this.checker.add(this.#attempts.splice(0));
  }

  // The servers must answer by now; a session that hangs all the same is left.
  async end() {
    this.#ended = true;
    const late = setTimeout(() => { for (const session of this.#sessions) session.leave(); }, 15_000);
    await Promise.all([...this.#running, this.manager.stop()]);
    clearTimeout(late);
    const attempts = this.#attempts.splice(0);
    this.checker.add(attempts);
    const count = (how) => attempts.filter(({ end }) => end === how).length;
    return { tally: [...tally(attempts), `prepared: ${countEach(this.manager.answers)}`], attempts: attempts.length, commits: count('commit'), unknown: count('unknown'),
      prepared: attempts.filter(({ window, kind }) => window && kind === 'prepare').length };
  }

  async #runClient(number, sessions) {
    let count = 0;
    for (let i = 0; !this.#ended; i = (i + 1) % sessions.length) {
      const plan = sessions[i];
      const attempts = plan.attempts.map((attempt) => ({ ...attempt, id: `${this.round}.${number}.${++count}` }));
      if (plan.place === 'outside') await this.#runOutside(attempts);
      else if (!await this.#runSession(plan, attempts)) await pause(50);
    }
  }

  // A new key comes with every second attempt, and each attempt works on one of the latest.
  #keysOf({ keys, old, id, newKey }) {
    if (newKey) return [`r${this.round}-${id}`];
    if (keys.length > 0 && this.#aged > 0 && this.#started % AGED_SHARE === 0) {
      this.#started++;
      return [...new Set(keys.map((offset) => agedKey(this.round, this.#aged, offset)))];
    }
    const head = Math.floor(this.#started++ / 2);
    const round = old && this.round > 1 ? this.round - 1 : this.round;
    return [...new Set(keys.map((offset) => `r${round}-${Math.max(0, old ? offset : head - offset)}`))];
  }

  #record(attempt, label) {
    const entry = { ...attempt, label, keys: this.#keysOf(attempt), got: {}, did: {}, end: 'rollback', began: Date.now() };
    this.#attempts.push(entry);
    return entry;
  }

  async #runOutside(attempts) {
    for (const attempt of attempts) {
      if (this.#ended) return;
      await this.outside.run(this.#record(attempt, 'outside'), this);
    }
  }

  // Returns whether the session could be opened.
  async #runSession(plan, attempts) {
    const place = this.#places[plan.faithful && this.#places.O ? 'O' : plan.stray && this.#places.C ? 'C' : plan.place];
    if (!place) return false;
    const session = new Session(place, plan.database, TWO_ADDRESSES && plan.other);
    this.#sessions.add(session);
    try {
      if (!await session.open()) return false;
      for (const attempt of attempts) {
        if (this.#ended || session.lost) break;
        const entry = this.#record({ ...attempt, database: plan.database }, place.label);
        await kinds[attempt.kind](session, entry, this);
        // DynamoDB is away. Who goes on at once makes nothing but keys that are left.
        if (entry.code === 'ID006') await pause(100);
      }
      return !session.lost;
    } finally {
      session.close();
      this.#sessions.delete(session);
    }
  }

  // Tries the keys that are not completed, as a queue that delivers again would. Each call
  // does so in the next database: what an old primary has sealed under a life that its
  // heir has not seen is settled once a session of the same database meets it.
  async redeliver({ places, databases }) {
    const start = Date.now();
    const { keys: statuses, actions } = await this.checker.openKeys();
    const took = Date.now() - start;
    const shared = await this.checker.shared.openKeys();
    const left = [...statuses.keys()];
    if (left.length + actions.length + shared.size > 0) {
      const lasting = databases.filter(([name]) => name !== 'C');
      const pass = this.#passes++;
      const [place, database] = lasting[pass % lasting.length];
      const session = new Session(places[place], database, TWO_ADDRESSES && Math.floor(pass / lasting.length) % 2 === 1);
      try {
        if (await session.open()) {
          for (const key of left) {
            const id = `${this.round}.h.${++this.#started}`;
            const entry = this.#record({ id, kind: 'acquire', keys: [], database }, places[place].label);
            entry.keys = [key];
            if (/for good|late copy/.test(statuses.get(key))) {
              await session.ask('SELECT idem_forget($1)', [key]).catch(() => {});
            }
            await kinds.acquire(session, entry, this);
          }
          for (const id of actions) {
            const entry = this.#record({ id: `${this.round}.h.${++this.#started}`, kind: 'order', keys: [], database }, places[place].label);
            entry.keys = [id];
            await kinds.order(session, entry, this);
          }
          for (const name of shared.keys()) {
            const id = `${this.round}.h.${++this.#started}`;
            const entry = this.#record({ id, kind: 'shared', keys: [], database }, places[place].label);
            entry.keys = [name];
            await kinds.shared(session, entry, this);
          }
        }
      } finally {
        session.close();
      }
      this.checker.add(this.#attempts.splice(0));
    }
    return { took, left: [...left.map((key) => `${key} ${statuses.get(key)}`), ...actions.map((id) => `action ${id}`), ...[...shared].map((key) => `shared ${key}`)] };
  }

  async check(request) {
    await this.#sweepTheRest(request);
    return this.checker.check(request);
  }

  unasked(request) {
    return this.checker.unasked(request);
  }

  // What is prepared is ended now.
  async left(request) {
    const { left, prepared } = await this.checker.left(request);
    for (const [place, database] of prepared) await this.manager.endAll(place, request.places[place], database);
    return { left };
  }

  history() {
    return this.checker.evidence();
  }
}

// '5 commit, 2 ID005'
function countEach(words) {
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([word, count]) => `${count} ${word}`).join(', ');
}

// How the attempts of each kind ended: 'once: 5 commit, 2 ID005'.
function tally(attempts) {
  const kindsSeen = new Map();
  for (const { kind, label, did, end, code, action } of attempts) {
    const name = label === 'outside' ? `${kind} outside` : kind;
    const how = code ?? (end === 'commit' && Object.keys(did).length === 0 && !action?.ordered ? 'commit of nothing' : end);
    kindsSeen.set(name, [...(kindsSeen.get(name) ?? []), how]);
  }
  return [...kindsSeen].sort().map(([kind, hows]) => `${kind}: ${countEach(hows)}`);
}

const checker = new Checker(TABLE);
const clients = new Clients(checker, new Outside(TABLE));
await checker.begin();
process.stdout.write('{"ready":true}\n');
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await clients[request.do](request);
  } catch (error) {
    answer = { error: error.stack };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
