// How long there is no service at a switchover, at a kill of the primary's node and at one of its
// postmaster: for new keys, for a plain row beside them, and for a plain row in the same cluster without
// the extension.

import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';
import { addresses } from './hosts.mjs';
import { events } from './events.mjs';

const pg = createRequire(new URL('../interop/', import.meta.url))('pg');

const EVERY = 100;

// So many attempts are under way at most, each for so long.
const LANES = 20;
const PATIENCE = 10_000;

export const EVENTS = ['switchover', 'kill_node', 'kill_postmaster'];

const PROBES = {
  key: (n) => [`SELECT outcome FROM idem_acquire('service-${n}')`, `INSERT INTO service VALUES ('key', ${n})`, `SELECT idem_complete('service-${n}')`],
  row: (n) => [`INSERT INTO service VALUES ('row', ${n})`],
};

// Begins a transaction every 100 ms by way of haproxy, and keeps when the commits were told.
class Prober {
  #idle = [];
  #busy = 0;
  #ended = false;

  told = [];
  codes = {};

  constructor(statements) {
    this.statements = statements;
  }

  async run() {
    for (let n = 1; !this.#ended; n++) {
      if (this.#busy < LANES) this.#attempt(n);
      await pause(EVERY);
    }
  }

  async end() {
    this.#ended = true;
    while (this.#busy > 0) await pause(50);
    for (const client of this.#idle) await client.end();
  }

  async #attempt(n) {
    this.#busy++;
    let client = this.#idle.pop();
    const late = setTimeout(() => client?.connection.stream.destroy(), PATIENCE);
    try {
      if (!client || client.gone) {
        client = new pg.Client({ host: addresses.front[0], port: 5432, user: 'postgres', database: 'postgres', connectionTimeoutMillis: 3000 });
        client.on('error', () => { client.gone = true; });
        await client.connect();
      }
      await client.query('BEGIN');
      for (const text of this.statements(n)) await client.query(text);
      await client.query('COMMIT');
      this.told.push(Date.now());
      this.#idle.push(client);
    } catch (error) {
      const code = error.code ?? error.message;
      this.codes[code] = (this.codes[code] ?? 0) + 1;
      client?.connection.stream.destroy();
    } finally {
      clearTimeout(late);
      this.#busy--;
    }
  }

  // The longest time in which no commit was told, in seconds, from then on.
  longest(from) {
    const times = [from, ...this.told.filter((time) => time > from).sort((a, b) => a - b)];
    return Math.max(...times.slice(1).map((time, i) => time - times[i])) / 1000;
  }
}

// So many times each event. Returns [event, probe, seconds] of all.
export async function measure(world, count, dice, probes, say) {
  const measured = [];
  const probers = probes.map((name) => [name, new Prober(PROBES[name])]);
  for (const [, prober] of probers) prober.run();
  for (let i = 0; i < count; i++) {
    for (const event of EVENTS) {
      await pause(2000 + dice.below(3000));
      const from = Date.now();
      await events[event](world, null, dice);
      await world.settled();
      await pause(2000);
      const took = probers.map(([name, prober]) => [event, name, prober.longest(from)]);
      measured.push(...took);
      say(`${event}: ${took.map(([, name, seconds]) => `${name} ${seconds.toFixed(1)} s`).join(', ')}`);
    }
  }
  for (const [name, prober] of probers) {
    await prober.end();
    say(`${name}: ${prober.told.length} commits told; ${JSON.stringify(prober.codes)}`);
  }
  return measured;
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The lines of a table of median and worst, in seconds. columns: [name, measured, probe].
export function table(columns) {
  const cell = (numbers) => `${median(numbers).toFixed(1)} / ${Math.max(...numbers).toFixed(1)}`;
  return [`| | ${columns.map(([name]) => name).join(' | ')} |`, `|---|${'---:|'.repeat(columns.length)}`,
    ...EVENTS.map((event) => `| ${event} | ${columns.map(([, measured, probe]) =>
      cell(measured.filter(([of, name]) => of === event && name === probe).map(([, , seconds]) => seconds))).join(' | ')} |`)];
}
