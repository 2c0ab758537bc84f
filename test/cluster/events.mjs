// What happens to a cluster, each until its end: events(world, load, dice) does one and returns what
// it was. Whatever an event has stopped or cut goes on before it returns.

import { setTimeout as pause } from 'node:timers/promises';
import { addresses, cut, mend, pidsOn, signal } from './hosts.mjs';
import { MEMBERS, until } from './world.mjs';

const others = (member) => MEMBERS.filter((name) => name !== member);

// Up to two thirds of the time after which Patroni, or the extension, gives up; or well past it.
const shortOf = (world, dice) => world.seconds(20) * 1000 * (0.2 + 0.4 * dice.next());
const past = (world, dice) => world.seconds(40) * 1000 * (1 + 0.5 * dice.next());

// Waits for the failover, and for as long again as the old primary may need to see it.
async function failover(world, before, dice) {
  world.away = before.name;
  await world.another(before);
  await pause(world.seconds(20) * 1000 * dice.next());
}

const restart = (world, member) => world.follow('restart a member', { 'orders-c': member });

async function cutAnd(world, dice, peers, way = 'both') {
  const primary = await world.leader();
  const long = dice.next() < 0.6;
  if (peers.includes('etcd')) world.away = primary.name;
  await cut(primary.name, peers, way);
  await pause(long ? past(world, dice) : shortOf(world, dice));
  await mend(primary.name);
  return `${primary.name} from ${peers} (${way}), ${long ? 'long' : 'short'}`;
}

export const events = {
  // A standby that is not synchronous is refused as a candidate.
  switchover: async (world, load, dice) => {
    const primary = await world.leader();
    const role = ['sync', 'strict'].includes(world.mode) ? 'Sync Standby' : 'Replica';
    const candidates = async () => JSON.parse(await world.ctl('list', 'orders', '--format', 'json')).filter(({ Role }) => Role === role);
    const fit = await until('a candidate', async () => { const all = await candidates(); return all.length > 0 && all; }, 60);
    await world.follow('switch over', { 'orders-a': primary.name, 'orders-b': dice.of(fit).Member });
    await world.another(primary);
    return `from ${primary.name}`;
  },

  kill_postmaster: async (world) => {
    const primary = await world.leader();
    signal([await world.postmasterOf(primary.name)].filter(Boolean), 'SIGKILL');
    await pause(world.seconds(10) * 1000);
    return primary.name;
  },

  // PostgreSQL goes on without anybody who would demote it.
  kill_patroni: async (world, load, dice) => {
    const primary = await world.leader();
    signal(await world.patroniOf(primary.name), 'SIGKILL');
    await failover(world, primary, dice);
    await world.beginPatroni(primary.name);
    return primary.name;
  },

  kill_etcd: async (world, load, dice) => {
    const all = dice.next() < 0.3;
    const some = all ? addresses.etcd.map((_, i) => i) : [dice.below(3)];
    const pids = await pidsOn('etcd');
    signal(all ? pids : [pids[some[0]]].filter(Boolean), 'SIGKILL');
    await pause(all ? past(world, dice) / 2 : shortOf(world, dice));
    const left = (await pidsOn('etcd')).length;
    if (left === 3) return 'none';
    for (const i of addresses.etcd.keys()) await world.beginEtcd(i);
    return all ? 'all of them' : 'one';
  },

  kill_node: async (world, load, dice) => {
    const primary = await world.leader();
    signal(await pidsOn(primary.name), 'SIGKILL');
    await failover(world, primary, dice);
    await world.beginPatroni(primary.name);
    await world.beginPooler(primary.name);
    return primary.name;
  },

  // A standby is away for so long that Patroni forgets it, and its slot unless that is a permanent one.
  kill_standby: async (world, load, dice) => {
    const member = dice.of(others((await world.leader()).name));
    signal(await pidsOn(member), 'SIGKILL');
    await pause(past(world, dice));
    await world.beginPatroni(member);
    await world.beginPooler(member);
    return member;
  },

  // What the standbys do not have when it ends is lost. Some commits do not wait for them.
  cut_and_kill: async (world, load, dice) => {
    const primary = await world.leader();
    const held = await load.hold(primary, 6, true);
    await cut(primary.name, others(primary.name));
    for (const { commit } of held) commit();
    await pause(2000 + dice.below(2000));
    signal(await pidsOn(primary.name), 'SIGKILL');
    // What the kernel has yet to send of it would arrive now.
    await failover(world, primary, dice);
    await mend(primary.name);
    await world.beginPatroni(primary.name);
    await world.beginPooler(primary.name);
    return primary.name;
  },

  freeze: async (world, load, dice) => {
    const primary = await world.leader();
    const pids = await pidsOn(primary.name);
    signal(pids, 'SIGSTOP');
    try {
      await failover(world, primary, dice);
    } finally {
      signal(pids, 'SIGCONT');
    }
    return primary.name;
  },

  // A primary is frozen in the commits of some transactions, and others are open. It goes on when
  // its heir has taken over, and Patroni, which would demote it, only later: a late demotion.
  late: async (world, load) => {
    const primary = await world.leader();
    const held = await load.hold(primary, 12);
    const engine = await pidsOn('engine');
    const pids = await pidsOn(primary.name);
    signal(engine, 'SIGSTOP');
    try {
      for (const { commit } of held.slice(0, 6)) commit();
      await pause(400);
      signal(pids, 'SIGSTOP');
    } finally {
      signal(engine, 'SIGCONT');
    }
    const frozen = Date.now();
    const patroni = await world.patroniOf(primary.name);
    try {
      world.away = primary.name;
      const heir = await world.another(primary);
      await until('the heir takes over', async () => await world.sql(heir.name,
        "SELECT count(*) FROM exactonce_lives WHERE state IN ('silent', 'alive', 'opening')").catch(() => '') === '0', world.seconds(90) + 30)
        .catch(() => {});
      signal(pids.filter((pid) => !patroni.includes(pid)), 'SIGCONT');
      for (const { commit } of held.slice(6)) commit();
      await pause(2000);
      // What waits for standbys is committed, and cannot be seen.
      const rows = await world.sql(primary.name, `SELECT result FROM work
        WHERE pg_xact_commit_timestamp(xmin) > to_timestamp(${frozen / 1000})`, 10).catch(() => '');
      load.late.push(...rows.split('\n').filter(Boolean).map((by) => ({ by, frozen })));
      load.heldLate += held.length;
    } finally {
      signal(pids, 'SIGCONT');
      setTimeout(() => { for (const { leave } of held) leave(); }, 5000).unref();
    }
    await Promise.race([Promise.all(held.map(({ ended }) => ended)), pause(10_000)]);
    return `${primary.name}, ${held.length} transactions`;
  },

  cut_etcd: (world, load, dice) => cutAnd(world, dice, ['etcd']),
  cut_standbys: async (world, load, dice) => cutAnd(world, dice, others((await world.leader()).name)),
  cut_engine: (world, load, dice) => cutAnd(world, dice, ['engine']),
  cut_clients: (world, load, dice) => cutAnd(world, dice, ['clients']),
  cut_all: async (world, load, dice) => cutAnd(world, dice, ['etcd', 'engine', ...others((await world.leader()).name)]),
  one_way: async (world, load, dice) => cutAnd(world, dice,
    dice.of([['etcd'], ['engine'], others((await world.leader()).name), ['etcd', 'engine']]), dice.of(['in', 'out'])),

  reinit: async (world, load, dice) => {
    const member = dice.of(others((await world.leader()).name));
    await world.follow('make a member anew', { 'orders-c': member });
    return member;
  },

  restart: async (world) => {
    await world.follow('restart all');
    return 'all members';
  },

  // The standbys first, and then the primary, which is a standby by then.
  update: async (world, load, dice) => {
    const primary = await world.leader();
    const library = await world.do(primary.name, [`${world.bin}/pg_config`, '--pkglibdir']);
    await world.do(primary.name, ['sh', '-c', `cp ${library}/exactonce.so ${library}/exactonce.new && mv ${library}/exactonce.new ${library}/exactonce.so`],
      { user: 'root' });
    for (const member of others(primary.name)) await restart(world, member);
    await world.settled();
    await events.switchover(world, null, dice);
    await world.settled();
    await restart(world, primary.name);
    return 'restarted one by one';
  },

  settings: async (world, load, dice) => {
    const value = dice.of(['100', '1000']);
    await world.follow('change a setting', { 'scan=1000': `scan=${value}` });
    await until('the setting', async () => await world.ask('SHOW exactonce.recovery_scan').catch(() => '') === value, 90);
    return `exactonce.recovery_scan ${value}`;
  },

  off_and_on: async (world) => {
    for (const value of ['off', 'on']) {
      await world.follow(`switch keys ${value}`);
      await until('the switch', async () => await world.ask('SHOW exactonce.enabled').catch(() => '') === value, 90);
      await pause(500);
    }
    return 'exactonce.enabled';
  },
};

const WEIGHTS = { switchover: 14, kill_postmaster: 6, kill_patroni: 8, kill_etcd: 5, kill_node: 10, kill_standby: 4, cut_and_kill: 10, freeze: 8, late: 8,
  cut_etcd: 8, cut_standbys: 5, cut_engine: 6, cut_clients: 3, cut_all: 6, one_way: 10, reinit: 4, restart: 4, update: 3, settings: 3, off_and_on: 2 };

export const drawEvents = (dice, count) => Array.from({ length: count },
  () => dice.of(Object.entries(WEIGHTS).flatMap(([name, weight]) => Array(weight).fill(name))));
