// click.mjs DATABASE CALLS: measures how long after the first click's commit a
// second click, which waits for it, has the answer.
//
// One session of psql, in the database bench, holds a key and commits. Another
// session, in DATABASE, waits for the key with wait => '20 s'. Both return the time
// of the server's clock. Prints milliseconds: median, 90th and 99th percentile.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

const [database, calls] = [process.argv[2], Number(process.argv[3])];

class Session {
  constructor(name) {
    this.psql = spawn('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', name], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = createInterface({ input: this.psql.stdout })[Symbol.asyncIterator]();
    this.say("SET exactonce.server = 'engine';");
  }

  say(sql) {
    this.psql.stdin.write(`${sql}\n`);
  }

  async ask(sql) {
    this.say(sql);
    const { value, done } = await this.lines.next();
    if (done) throw new Error('psql has ended');
    return value;
  }
}

const first = new Session('bench');
const second = new Session(database);
const took = [];
for (let i = 0; i < calls + 5; i++) {
  const key = `click ${database} ${i}`;
  await first.ask(`BEGIN; SELECT outcome FROM idem_acquire('${key}');`);
  const answer = second.ask(`SELECT outcome || ' ' || extract(epoch FROM clock_timestamp()) FROM idem_acquire('${key}', wait => '20 s');`);
  await pause(60 + Math.random() * 60);
  const committed = await first.ask(
    `DO $$ BEGIN PERFORM idem_complete('${key}', '1'); END $$; COMMIT; SELECT extract(epoch FROM clock_timestamp());`);
  const [outcome, at] = (await answer).split(' ');
  if (outcome !== 'completed') throw new Error(`${key} is ${outcome}`);
  if (i >= 5) took.push((Number(at) - Number(committed)) * 1000);
}
first.psql.stdin.end();
second.psql.stdin.end();
took.sort((a, b) => a - b);
console.log([0.5, 0.9, 0.99].map((p) => took[Math.min(took.length - 1, Math.floor(took.length * p))].toFixed(1)).join(' '));
