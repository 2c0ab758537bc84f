// Rounds of events on a cluster under Patroni, with clients that work all the while. After each round
// everything is healed, and the soak's checker (test/soak/checker.mjs) compares what is left.
//
//   cluster.mjs ROUNDS SEED [EVENT,...]
//
// EO_PART is another part than these rounds: backup (backup.mjs), pooler (pooler.mjs), service (service.mjs).
// EO_TIMES=hurried divides all intervals, of the protocol and of Patroni; EO_EVENTS is how many events
// a round has, EO_MODE how commits are protected in all rounds.

import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { addresses, makeHosts, mend, onHost, start } from './hosts.mjs';
import { ENGINE_URL, MEMBERS, World, ipOf, until } from './world.mjs';

process.env.EO_ENGINE_URL = ENGINE_URL;
process.env.EO_ENDPOINT = ENGINE_URL;
process.env.EO_TABLE = 'cluster';
process.env.PGPASSWORD = 'REPLACE_ME';
const { Checker } = await import('../soak/checker.mjs');
const { engine } = await import('../soak/history.mjs');
const { SETUP } = await import('../soak/transactions.mjs');
const { Load, random } = await import('./load.mjs');
const { drawEvents, events } = await import('./events.mjs');
const { Backup, WORKS } = await import('./backup.mjs');
const { pool } = await import('./pooler.mjs');
const { measure, table } = await import('./service.mjs');

const { EO_WORK: WORK, EO_SAMPLE: SAMPLE, EO_MAJOR: MAJOR, EO_TIMES, EO_EVENTS = '8', EO_MODE, EO_PART: PART = 'rounds' } = process.env;
const HURRIED = EO_TIMES === 'hurried';
const [rounds, seed] = process.argv.slice(2).map(Number);
const only = process.argv[4]?.split(',');

const MODES = ['strict', 'sync', 'slots', 'async'];

const totals = { rounds: 0, events: 0, keys: 0, attempts: 0, commits: 0, unknown: 0, lost: 0, writes: 0, prepared: 0, byHand: 0, audited: 0, held: 0,
  late: 0, violations: 0 };
const byKind = {};

const say = (line) => {
  console.log(`${new Date().toISOString().slice(11, 23)} ${line}`);
};

const count = (kind, n = 1) => { byKind[kind] = (byKind[kind] ?? 0) + n; };

// What Patroni did after the events.
function rewinds(world) {
  return MEMBERS.map((name) => readFileSync(path.join(world.folder(name, 'log'), 'patroni.log'), 'utf8').match(/pg_rewind exit code=0/g)?.length ?? 0)
    .reduce((all, n) => all + n);
}

async function beginEngine() {
  const folder = path.join(WORK, 'engine');
  mkdirSync(folder);
  start(onHost('engine', ['node', path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), 'engine.mjs'), folder, '8000']),
    path.join(folder, 'log'));
  await until('the engine', () => fetch(ENGINE_URL, { signal: AbortSignal.timeout(1000) }).then(() => true, () => false), 90);
}

async function setUp(world) {
  await world.ask('CREATE EXTENSION exactonce');
  const options = `region 'eu-west-1', endpoint '${ENGINE_URL}', "table" 'cluster', allow_http 'true', lease '4s', clock_skew '1s',
    transact_tables 'cluster_items'`;
  for (const [name, more] of [['exactonce', ''], ['other', ", request_timeout '280s', commit_timeout '290s'"]]) {
    await world.ask(`CREATE SERVER ${name} FOREIGN DATA WRAPPER exactonce OPTIONS (${options}${more});
      CREATE USER MAPPING FOR PUBLIC SERVER ${name} OPTIONS (access_key_id 'test', secret_access_key 'test')`);
  }
  await world.ask('SELECT idem_create_table()');
  await world.ask(SETUP);
  await engine('CreateTable', { TableName: 'cluster_shared', BillingMode: 'PAY_PER_REQUEST', KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }] });
}

// A life that waits for idem_take_over() is taken over by hand, and counted.
async function takeOver(world, round) {
  const waiting = await world.ask("SELECT DISTINCT life FROM exactonce_lives WHERE state = 'waits for idem_take_over()'").catch(() => '');
  for (const life of waiting.split('\n').filter(Boolean)) {
    const why = await world.ask(`SELECT beat || ' beats, ' || noted_beat || ' noted' FROM exactonce_lives WHERE life = '${life}'`);
    say(`round ${round}: life ${life} waits for idem_take_over(): ${why.replaceAll('\n', '; ')}`);
    totals.byHand++;
    await world.ask(`SELECT idem_take_over('${life}')`, 120).catch((error) => say(error.message));
  }
}

// Waits until all keys are completed and no view shows anything. Returns what is left.
async function heal(world, load, round) {
  const bound = world.seconds(60) + 60;
  let left;
  let [fewest, since] = [Infinity, Date.now()];
  do {
    await takeOver(world, round);
    left = [...await load.redeliver(await world.leader()), ...await load.left(await world.leader())];
    if (left.length < fewest) [fewest, since] = [left.length, Date.now()];
    if (left.length > 0) await pause(300);
  } while (left.length > 0 && Date.now() - since < bound * 1000);
  return left.map((what) => `not settled within ${bound} s: ${what}`);
}

// The checker looks at the attempts of before again once it has found lost work.
let lostBefore = 0;

// Keys that are completed and whose work is lost: what the checker knows, where commits may be lost,
// and what idem_audit() says must be the same.
const known = new Set();

async function audit(world, violations, mayLose) {
  const lost = /^key (\S+) is COMPLETED by \S+, and its work is lost$/;
  const others = violations.filter((text) => !lost.test(text));
  const found = new Set(violations.map((text) => lost.exec(text)?.[1]).filter(Boolean));
  for (const key of found) {
    if (mayLose) known.add(key);
    else if (!known.has(key)) others.push(`key ${key} is COMPLETED, and its work is lost`);
  }
  const rows = (await world.ask("SELECT concat_ws(' ', finding, status, key) FROM idem_audit(units_per_second => 100000)", 120))
    .split('\n').filter(Boolean);
  const listed = new Set();
  for (const row of rows) {
    const [, key] = /^(?:lost|elsewhere) COMPLETED (\S+)$/.exec(row) ?? [];
    if (key) listed.add(key);
    else others.push(`idem_audit() lists: ${row}`);
  }
  for (const key of known) if (!listed.has(key)) others.push(`idem_audit() does not list key ${key}, whose work is lost`);
  for (const key of listed) if (!known.has(key)) others.push(`idem_audit() lists key ${key}, which is not lost`);
  totals.audited = listed.size;
  return others;
}

async function runRound(world, load, round) {
  const dice = random(seed * 7919 + round);
  const mode = EO_MODE ?? MODES[(seed + round) % MODES.length];
  const mayLose = mode === 'async';
  const plan = only ?? drawEvents(dice, Number(EO_EVENTS));
  await world.setMode(mode);
  Object.assign(load, { late: [], heldLate: 0 });
  load.begin(round, seed, () => world.primary, mayLose);
  const began = Date.now();
  for (const name of plan) {
    await pause(500 + dice.below(2000));
    await world.leader();
    const start = Date.now();
    // A tool that refuses is no violation.
    const what = await events[name](world, load, dice).catch((error) => `FAILED: ${error.message}`);
    for (const member of MEMBERS) await mend(member);
    await world.settled();
    count(what.startsWith('FAILED') ? `${name} that failed` : name);
    totals.events++;
    say(`round ${round}: ${name}, ${what}; ${((Date.now() - start) / 1000).toFixed(1)} s, primary ${Object.values(await world.leader()).slice(0, 2).join(' ')}`);
  }
  const told = await load.end();
  const start = Date.now();
  const left = await heal(world, load, round);
  const healed = (Date.now() - start) / 1000;
  const { violations, counts } = await load.checker.check({ places: { A: await world.leader() }, databases: [['A', 'postgres']],
    late: ['slots', 'async'].includes(mode) ? load.late : [] });
  const wrong = [...left, ...await audit(world, violations, mayLose)];
  for (const line of told.tally) appendFileSync(path.join(WORK, 'tally'), `round ${round}: ${line}\n`);
  counts.lost -= lostBefore;
  lostBefore = violations.length > 0 ? lostBefore + counts.lost : 0;
  Object.assign(counts, told, { late: load.late.length, held: load.heldLate, violations: wrong.length });
  for (const name of Object.keys(totals)) totals[name] += typeof counts[name] === 'number' ? counts[name] : 0;
  totals.rounds++;
  say(`round ${round} (${mode}): ${plan.length} events; ${counts.keys} keys, ${told.attempts} attempts, ${told.commits} commits seen, ${told.unknown} unknown, `
    + `${counts.lost} lost (idem_audit: ${totals.audited}), ${told.prepared} prepared; ${counts.writes} writes; ${load.heldLate} held and ${load.late.length} late; `
    + `healed after ${healed.toFixed(1)} s; ${((Date.now() - began) / 1000).toFixed(0)} s; ${wrong.length ? `${wrong.length} VIOLATIONS` : 'ok'}`);
  if (wrong.length > 0) await keep(world, load, round, wrong);
}

async function keep(world, load, round, wrong) {
  const folder = path.join(WORK, 'findings', String(round));
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'violations'), wrong.map((line) => `${line}\n`).join(''));
  writeFileSync(path.join(folder, 'evidence.json'), JSON.stringify(load.checker.evidence(), null, 1));
  for (const view of ['exactonce_claims', 'exactonce_pending', 'exactonce_lives', 'exactonce_in_doubt', 'exactonce_internal.outbox', 'exactonce_internal.lives']) {
    writeFileSync(path.join(folder, view), await world.ask(`SELECT * FROM ${view}`).catch((error) => error.message));
  }
  for (const line of wrong.slice(0, 10)) say(`VIOLATION: ${line}`);
  say(`found in ${folder}`);
}

async function beginLoad(world) {
  const checker = new Checker('cluster');
  await checker.begin();
  const [front] = addresses.front;
  const ways = [...Array(3).fill({ host: front, port: 5432 }), ...Array(4).fill({ host: front, port: 6432, pooled: true }),
    ...MEMBERS.map((member) => ({ host: ipOf(member), port: 5432 }))];
  return new Load(checker, ways, world.seconds(20) * 1000 + 5000);
}

const parts = {
  rounds: async (world) => {
    const load = await beginLoad(world);
    try {
      for (let round = 1; round <= rounds && totals.violations === 0; round++) await runRound(world, load, round);
    } finally {
      count('pg_rewind', rewinds(world));
      count('timelines', Number(world.primary?.label.slice(1) ?? 0));
      const kinds = Object.entries(byKind).sort().map(([name, n]) => `${n} ${name}`).join(', ');
      say(`seed ${seed}, ${HURRIED ? 'hurried' : 'default times'}: ${Object.entries(totals).map(([name, n]) => `${n} ${name}`).join(', ')} (${kinds})`);
    }
    return totals.violations;
  },

  pooler: async (world) => {
    await new Checker('cluster').begin();
    return (await pool(world, say)).length;
  },

  // Each event ROUNDS times, and the same again in a cluster without the extension.
  service: async (world) => {
    const measured = async (place, probes) => {
      await place.ask('CREATE TABLE service (probe text NOT NULL, n bigint NOT NULL)');
      await place.setMode(EO_MODE ?? 'strict');
      return measure(place, rounds, random(seed), probes, say);
    };
    const own = await measured(world, ['key', 'row']);
    await world.end();
    const plain = newWorld('plain', { plain: true });
    try {
      await plain.begin();
      say('a cluster without the extension is up');
      const without = await measured(plain, ['row']);
      for (const line of table([['new keys', own, 'key'], ['rows beside them', own, 'row'], ['rows without the extension', without, 'row']])) say(line);
    } finally {
      await plain.end();
    }
    return 0;
  },

  backup: async (world) => {
    const load = await beginLoad(world);
    const backup = new Backup(world, say);
    await world.setMode('strict');
    Object.assign(load, { late: [], heldLate: 0 });
    load.begin(1, seed, () => world.primary, false);
    await pause(5000);
    await backup.take('full');
    await pause(5000);
    await backup.take('incr');
    await pause(5000);
    const first = await backup.moment();
    await pause(5000);
    const second = await backup.moment();
    await pause(3000);
    await load.end();
    const left = await heal(world, load, 1);
    await backup.archive();
    const original = (await world.ask(WORKS)).split('\n').filter(Boolean);
    await backup.besideTheOriginal(original, first, second);
    const { violations, counts } = await load.checker.check({ places: { A: await world.leader() }, databases: [['A', 'postgres']] });
    const own = violations.filter((text) => !/restored-/.test(text));
    for (const text of [...left, ...own]) say(`VIOLATION: ${text}`);
    say(`the original after both restores: ${counts.keys} keys, ${own.length} violations`);
    await backup.insteadOfTheOriginal(original, first);
    return backup.wrong.length + left.length + own.length;
  },
};

const newWorld = (name, options) => new World({ work: path.join(WORK, name), sample: SAMPLE, major: MAJOR, hurried: HURRIED, ...options });

async function main() {
  await makeHosts();
  await beginEngine();
  const world = newWorld('world');
  try {
    await world.begin();
    say(`the cluster is up, ${HURRIED ? 'hurried' : 'default times'}, seed ${seed}, Patroni ${world.version}`);
    await setUp(world);
    return await parts[PART](world);
  } finally {
    await world.end();
  }
}

main().then((violations) => process.exit(violations ? 1 : 0), (error) => {
  console.error(error.stack);
  process.exit(2);
});
