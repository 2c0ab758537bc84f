// How long no new key can be had at a switchover and at a kill of the primary's host, and how long
// nothing can be written to the same cluster without the extension.

import { setTimeout as pause } from 'node:timers/promises';
import { createRequire } from 'node:module';
import { addresses } from './hosts.mjs';
import { events } from './events.mjs';
import { random } from './load.mjs';
import { until } from './world.mjs';

const pg = createRequire(new URL('../interop/', import.meta.url))('pg');

const EVERY_MS = 50;

// Writes one row after the other, with a key each unless the cluster is plain, and notes when.
class Probe {
  #ended = false;
  done = [];

  begin(plain) {
    this.running = this.#run(plain);
    return this;
  }

  async #run(plain) {
    for (let number = 0; !this.#ended;) {
      const client = new pg.Client({ host: addresses.front[0], port: 5432, user: 'postgres', database: 'postgres', connectionTimeoutMillis: 2000,
        query_timeout: 4000 });
      client.on('error', () => {});
      try {
        await client.connect();
        for (; !this.#ended; await pause(EVERY_MS)) {
          const key = `probe-${++number}`;
          await client.query('BEGIN');
          if (!plain) await client.query('SELECT idem_acquire($1)', [key]);
          await client.query('INSERT INTO probe VALUES ($1)', [key]);
          if (!plain) await client.query('SELECT idem_complete($1)', [key]);
          await client.query('COMMIT');
          this.done.push(Date.now());
        }
      } catch {
        await pause(EVERY_MS);
      } finally {
        client.connection.stream.destroy();
      }
    }
  }

  async end() {
    this.#ended = true;
    await this.running;
  }

  // The longest time without one, in seconds, since a moment.
  longest(since) {
    const times = this.done.filter((when) => when >= since);
    return Math.max(...times.slice(1).map((when, i) => when - times[i])) / 1000;
  }
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

// Returns a line for each event.
export async function measure(world, count, say) {
  const dice = random(1);
  await world.ask('CREATE TABLE probe (key text)');
  const probe = new Probe().begin(world.plain);
  const lines = [];
  for (const name of ['switchover', 'kill_node']) {
    const found = [];
    for (let i = 0; i < count; i++) {
      await world.settled();
      await pause(2000);
      const [since, seen] = [Date.now() - 1000, probe.done.length];
      await events[name](world, {}, dice);
      await until('a write', () => probe.done.length > seen && Date.now() - probe.done.at(-1) < 500, 120);
      await world.settled();
      found.push(probe.longest(since));
      say(`${name}, ${world.plain ? 'without the extension' : 'new keys'}: ${found.at(-1).toFixed(1)} s`);
    }
    lines.push(`${name}, ${world.plain ? 'without the extension' : 'new keys'}: median ${median(found).toFixed(1)} s, worst ${Math.max(...found).toFixed(1)} s of ${count}`);
  }
  await probe.end();
  return lines;
}
