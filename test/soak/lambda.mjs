// Lambda functions with the idempotency utility of Powertools, on a table that they share
// with SQL (server "shared", layout powertools-typescript), and the comparison of what both
// say about its keys.
//
// The utility completes and deletes without a condition. So the promise ends for a key with
// a run of a function that outlived its lease: such keys are left out, and counted.

import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '../interop/connect.mjs';
import { functionOn, keyOf, PREFIX } from '../interop/function.mjs';
import { engine, plain } from './history.mjs';

// How long a run that goes well may take, and how long one blocks the key that dies.
const LEASE_MS = 5000;
const SHORT_LEASE_MS = 300;

// What the attempt shows is over, by the clock of the host.
const MARGIN_MS = 200;

export const SHARED_ROWS = 'SELECT key, result AS by FROM shared_work';

// A deletion that is sent again could delete what has come after the first one.
const dynamodb = await connect(process.env.EO_ENDPOINT, { maxAttempts: 1 });

// A session's attempt is about such a key, and not about one of the other table. There are
// fewer of these than of others, so that as many attempts meet at one.
export function takeShared(attempt) {
  const [, round, number] = /^(r\d+-)(\d+)$/.exec(attempt.keys[0]) ?? [];
  attempt.shared_key = round ? `${round}s${Math.floor(number / 8)}` : attempt.keys[0];
  attempt.keys = [];
  return keyOf(attempt.shared_key);
}

// Runs an attempt of kind lambda: its verb is work, throw or die. Notes what it was told, and
// whether it ran and how long.
export async function runFunction(table, attempt) {
  takeShared(attempt);
  const start = Date.now();
  const { verb } = attempt;
  const dies = verb === 'die';
  let over;
  const dead = new Promise((resolve) => { over = resolve; });
  const handler = async () => {
    attempt.works = !dies;
    attempt.ran = true;
    if (attempt.pause) await pause(attempt.pause);
    if (verb === 'throw') throw new Error('it fails');
    if (!dies) return attempt.id;
    // Like a process that is killed.
    over();
    return new Promise(() => {});
  };
  const running = functionOn(dynamodb, table, handler, dies ? SHORT_LEASE_MS : LEASE_MS)(attempt.shared_key);
  try {
    const result = await Promise.race([running, dead]);
    if (!attempt.ran) attempt.told = result;
    attempt.end = attempt.ran && !dies ? 'commit' : 'rollback';
  } catch (error) {
    attempt.code = error.name;
    attempt.end = attempt.ran && verb === 'work' ? 'unknown' : 'rollback';
  }
  if (verb === 'throw') attempt.works = false;
  attempt.late = attempt.ran && !dies && Date.now() - start > LEASE_MS - MARGIN_MS;
}

export class SharedTable {
  #attempts = new Map();
  #open = new Set();
  #done = new Map();
  #rows = new Map();

  constructor(table) {
    this.table = table;
  }

  add(attempt) {
    this.#attempts.set(attempt.id, attempt);
    if (!this.#done.has(attempt.shared_key)) this.#open.add(attempt.shared_key);
  }

  async #records() {
    const items = new Map();
    let start;
    do {
      const page = await engine('Scan', { TableName: this.table, ConsistentRead: true, ExclusiveStartKey: start });
      for (const item of page.Items.map(plain)) if (item.id.startsWith(PREFIX)) items.set(item.id, item);
      start = page.LastEvaluatedKey;
    } while (start);
    return items;
  }

  // The keys that were tried and are not completed: name => status.
  async openKeys() {
    const records = await this.#records();
    return new Map([...this.#open].map((name) => [name, records.get(keyOf(name))?.status ?? 'absent'])
      .filter(([, status]) => status !== 'COMPLETED'));
  }

  // The rows of a database that survives.
  take(here, rows) {
    for (const { key, by } of rows) {
      if (!this.#rows.has(key)) this.#rows.set(key, []);
      this.#rows.get(key).push({ by, here });
    }
  }

  // survivors: the labels of the data that survives.
  async check(violate, survivors, counts) {
    const records = await this.#records();
    const late = new Set([...this.#attempts.values()].filter((attempt) => attempt.late).map((attempt) => attempt.shared_key));
    counts.late = late.size;
    counts.shared = this.#open.size;
    for (const name of new Set([...this.#open, ...this.#done.keys(), ...this.#rows.keys()])) {
      if (!late.has(name)) this.#checkKey(name, records.get(keyOf(name)), violate);
    }
    for (const attempt of this.#attempts.values()) {
      if (!late.has(attempt.shared_key)) this.#checkAttempt(attempt, records.get(keyOf(attempt.shared_key)), survivors, violate, counts);
    }
  }

  #checkKey(name, record, violate) {
    const works = new Map((this.#rows.get(name) ?? []).map(({ by, here }) => [by, here]));
    const is = record ? `${record.status} by ${record.data}` : 'absent';
    if (works.size > 1) violate(`shared key ${name} has several works: ${JSON.stringify([...works])}`);
    for (const [by, here] of works) {
      if (record?.status !== 'COMPLETED' || record.data !== by) violate(`shared key ${name} is ${is}, and its work by ${by} is in ${here}`);
    }
    if (this.#done.has(name)) {
      if (record?.data !== this.#done.get(name)) violate(`shared key ${name} was COMPLETED by ${this.#done.get(name)}, and is ${is}`);
    } else if (record?.status === 'COMPLETED' && works.size === 0) {
      const attempt = this.#attempts.get(record.data);
      if (attempt?.label !== 'outside' || !attempt.works) violate(`shared key ${name} is ${is}, and its work is lost`);
    }
  }

  #checkAttempt({ id, label, shared_key: name, works, end, code, told }, record, survivors, violate, counts) {
    const by = record?.status === 'COMPLETED' ? record.data : undefined;
    const who = `attempt ${id} on ${label}`;
    const survives = label === 'outside' || survivors.has(label);
    if (works && end === 'commit' && by !== id) {
      counts.lost += !survives;
      if (survives) violate(`${who} saw COMMIT, and shared key ${name} is by ${by}`);
    }
    if (['error', 'rollback'].includes(end) && by === id) violate(`${who} saw ${end} ${code ?? ''}, and shared key ${name} is COMPLETED by it`);
    if (told && survives && told !== by) violate(`${who} was told that shared key ${name} is by ${told}, and it is by ${by}`);
  }

  async goOn() {
    const records = await this.#records();
    for (const name of this.#open) this.#done.set(name, records.get(keyOf(name))?.data);
    this.#open.clear();
    this.#attempts.clear();
    this.#rows.clear();
  }

  forgetRows() {
    this.#rows.clear();
  }

  evidence() {
    return { attempts: [...this.#attempts.values()], rows: [...this.#rows] };
  }
}
