// A cluster under Patroni as samples/patroni.yaml says: three members, etcd, haproxy in front, and a
// pgbouncer on each member.

import { mkdirSync, readFileSync, writeFileSync, existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { until as waitUntil } from '../harness/util.mjs';
import { addresses, onHost, pidsOn, run, signal, start } from './hosts.mjs';
import { commandTo, filledIn } from './runbook.mjs';

export const MEMBERS = ['orders-a', 'orders-b', 'orders-c'];
export const ENGINE_URL = `http://${addresses.engine[0]}:8000`;
export const CONFIG = '/etc/patroni/config.yml';

const PASSWORD = 'REPLACE_ME';

// All intervals of the protocol and of Patroni at once: 30 seconds become ten.
export const HURRY = 3;

export const ipOf = (member) => addresses[member][0];
const slotOf = (member) => member.replaceAll('-', '_');

export const until = (what, probe, seconds = 120, every = 200) => waitUntil(what, probe, { seconds, every });

export class World {
  #watching = true;
  #patronis = new Map();

  // The primary of the moment: {name, label, host, port}; null if there is none, or none that answers.
  primary = null;

  // work: a folder. hurried: intervals are divided. plain: without the extension.
  constructor({ work, sample, major, hurried, plain = false }) {
    Object.assign(this, { work, sample, major, hurried, plain, slots: false });
    this.seconds = (long) => (hurried ? Math.ceil(long / HURRY) : long);
    this.bin = `/usr/lib/postgresql/${major}/bin`;
    this.data = `/var/lib/postgresql/${major}/orders`;
  }

  folder(host, ...names) {
    const made = path.join(this.work, host, ...names);
    mkdirSync(made, { recursive: true });
    return made;
  }

  on(host, argv, options = {}) {
    const mounts = ['lib', 'run', 'patroni'].map((name) => [this.folder(host, name),
      { lib: '/var/lib/postgresql', run: '/var/run/postgresql', patroni: '/etc/patroni' }[name]]);
    return onHost(host, argv, { mounts, ...options });
  }

  do(host, argv, { user = 'postgres', ...options } = {}) {
    return run(this.on(host, argv, { user }), options);
  }

  sql(member, text, seconds = 30) {
    return this.do(member, ['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'postgres', '-c', text], { seconds });
  }

  // The primary, once there is one, and a statement there.
  leader() {
    return until('a primary', () => this.primary, 180, 100);
  }

  async ask(text, seconds = 60) {
    return this.sql((await this.leader()).name, text, seconds);
  }

  ctl(...argv) {
    return this.do(MEMBERS.find((name) => name !== this.away), ['patronictl', '-c', CONFIG, ...argv], { seconds: 240 });
  }

  // Does what docs/operations.md says to do for this purpose, with other words in the place of its own.
  follow(purpose, words = {}) {
    return this.do(MEMBERS.find((name) => name !== this.away), ['sh', '-c', filledIn(commandTo(purpose), words)], { seconds: 240 });
  }

  // ----- processes ---------------------------------------------------------------

  async begin() {
    const backup = this.folder('backup');
    writeFileSync(path.join(this.work, 'pgbackrest.conf'), `[global]
repo1-path=${backup}
log-level-console=warn
log-level-file=off
lock-path=/var/run/postgresql
start-fast=y
[orders]
pg1-path=${this.data}
`);
    await run(['chown', '-R', 'postgres:postgres', this.work]);
    this.version = process.env.EO_PATRONI ?? /[\d.]+/.exec(await run(['patroni', '--version']))[0];
    await this.beginEtcd();
    for (const member of MEMBERS) this.configure(member);
    await this.beginPatroni(MEMBERS[0]);
    this.#watch();
    await this.leader();
    await this.do(MEMBERS[0], ['pgbackrest', `--config=${this.work}/pgbackrest.conf`, '--stanza=orders', 'stanza-create']);
    for (const member of MEMBERS.slice(1)) await this.beginPatroni(member);
    for (const member of MEMBERS) await this.beginPooler(member);
    this.#beginFront();
    await this.settled();
  }

  async beginEtcd(only) {
    const all = addresses.etcd;
    const cluster = all.map((ip, i) => `etcd${i}=http://${ip}:2380`).join();
    for (const [i, ip] of all.entries()) {
      if (only !== undefined && only !== i) continue;
      start(onHost('etcd', ['etcd', '--name', `etcd${i}`, '--data-dir', this.folder('etcd', `data${i}`), '--listen-client-urls', `http://${ip}:2379`,
        '--advertise-client-urls', `http://${ip}:2379`, '--listen-peer-urls', `http://${ip}:2380`, '--initial-advertise-peer-urls', `http://${ip}:2380`,
        '--initial-cluster', cluster, '--enable-v2', '--logger', 'zap', '--log-level', 'error']), path.join(this.folder('etcd'), `etcd${i}.log`));
    }
  }

  // The sample, with the names and addresses of this member.
  configure(member) {
    const others = MEMBERS.filter((name) => name !== member).map(slotOf).join(', ');
    let text = readFileSync(this.sample, 'utf8')
      .replaceAll('orders-a', member).replaceAll('10.0.0.1:', `${ipOf(member)}:`).replaceAll('/17/', `/${this.major}/`)
      .replace(/ {8}max_worker_processes/, `        max_prepared_transactions: 60\n        track_commit_timestamp: 'on'\n        fsync: 'off'\n$&`);
    if (this.hurried) {
      text = text.replace('ttl: 30', 'ttl: 10').replace('loop_wait: 10', 'loop_wait: 2').replace('retry_timeout: 10', 'retry_timeout: 3')
        .replace(/ {8}exactonce.max_claims/, `        exactonce.test_hurry: ${HURRY}\n$&`);
    }
    // Before 3.0.3 a leader that was frozen overwrites the key of the next one in etcd's API of version 3.
    if (this.version < '3.0.3') text = text.replace('etcd3:', 'etcd:');
    if (this.slots) text = text.replace(/ {4}# (exactonce.synchronized_standby_slots: ).*/, `    $1'${others}'`);
    text = text.replace(/ {8}max_prepared/, `        archive_mode: 'on'\n        archive_command: pgbackrest --config=${this.work}/pgbackrest.conf --stanza=orders archive-push %p\n$&`);
    if (this.plain) text = text.replace(/^ +(shared_preload_libraries|exactonce\.).*\n/gm, '');
    const file = path.join(this.folder(member, 'patroni'), 'config.yml');
    writeFileSync(file, text);
    for (const name of ['lib', 'run', 'log']) this.folder(member, name);
  }

  async beginPatroni(member) {
    await run(['chown', '-R', 'postgres:postgres', path.join(this.work, member)]);
    const child = start(this.on(member, ['patroni', CONFIG], { user: 'postgres' }), path.join(this.folder(member, 'log'), 'patroni.log'));
    this.#patronis.set(member, child);
  }

  // The pids of Patroni on a member.
  async patroniOf(member) {
    return (await pidsOn(member)).filter((pid) => /patroni/.test(commandOf(pid)) && /config\.yml/.test(commandOf(pid)));
  }

  async postmasterOf(member) {
    const file = path.join(this.work, member, 'lib', this.major, 'orders/postmaster.pid');
    return existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n')[0]) : null;
  }

  async beginPooler(member) {
    const folder = this.folder(member, 'pooler');
    writeFileSync(`${folder}/users`, `"postgres" "${PASSWORD}"\n`);
    writeFileSync(`${folder}/pgbouncer.ini`, `[databases]
* = host=127.0.0.1 port=5432
[pgbouncer]
listen_addr = 0.0.0.0
listen_port = 6432
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${folder}/users
pool_mode = transaction
default_pool_size = 10
max_client_conn = 100
server_reset_query =
ignore_startup_parameters = extra_float_digits
`);
    await run(['chown', '-R', 'postgres:postgres', folder]);
    start(this.on(member, ['pgbouncer', `${folder}/pgbouncer.ini`], { user: 'postgres' }), `${folder}/log`);
  }

  #beginFront() {
    const listen = (name, port) => `listen ${name}
  bind *:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
${MEMBERS.map((member) => `  server ${member} ${ipOf(member)}:${port} check port 8008`).join('\n')}
`;
    const file = path.join(this.folder('front'), 'haproxy.cfg');
    writeFileSync(file, `defaults
  mode tcp
  timeout client 30m
  timeout server 30m
  timeout connect 4s
  timeout check 1s
${listen('sessions', 5432)}${listen('pooled', 6432)}`);
    start(onHost('front', ['haproxy', '-f', file]), path.join(this.folder('front'), 'log'));
  }

  async end() {
    this.#watching = false;
    for (const host of [...MEMBERS, 'etcd', 'front', 'restored']) {
      for (let i = 0; i < 20; i++) {
        const pids = await pidsOn(host);
        if (pids.length === 0) break;
        signal(pids, 'SIGKILL');
        await pause(50);
      }
    }
  }

  // ----- what is so ----------------------------------------------------------------

  async stateOf(member) {
    try {
      const answer = await fetch(`http://${ipOf(member)}:8008/patroni`, { signal: AbortSignal.timeout(3000) });
      return await answer.json();
    } catch {
      return null;
    }
  }

  // The member that is primary by its own word and has the latest timeline.
  async findPrimary() {
    const states = await Promise.all(MEMBERS.map((name) => this.stateOf(name)));
    const primaries = MEMBERS.map((name, i) => ({ name, state: states[i] }))
      .filter(({ state }) => ['master', 'primary'].includes(state?.role) && state.state === 'running' && state.timeline)
      .sort((a, b) => b.state.timeline - a.state.timeline);
    if (primaries.length === 0) return null;
    const [{ name, state: { timeline } }] = primaries;
    return { name, label: `A${timeline}`, host: ipOf(name), port: 5432 };
  }

  async #watch() {
    for (; this.#watching; await pause(200)) this.primary = await this.findPrimary();
  }

  // Waits for another primary than the one that was.
  another(before, seconds = this.seconds(90) + 30) {
    return until('a failover', () => this.primary && this.primary.label !== before.label && this.primary, seconds, 50);
  }

  // A primary, and two standbys that stream from it.
  async settled(seconds = 600) {
    this.away = undefined;
    let told;
    const probe = async () => {
      try {
        const all = JSON.parse(await this.ctl('list', 'orders', '--format', 'json'));
        told = JSON.stringify(all);
        const leader = all.find(({ Role }) => Role === 'Leader');
        const others = all.filter(({ Role, State, TL }) => /Replica|Standby/.test(Role) && ['running', 'streaming'].includes(State) && TL === leader?.TL);
        if (!leader || leader.State !== 'running' || others.length !== 2 || this.primary?.name !== leader.Member) return false;
        const streaming = await this.sql(leader.Member, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name LIKE 'orders%'");
        const names = await this.sql(leader.Member, 'SHOW synchronous_standby_names');
        const wants = this.mode === 'sync' || this.mode === 'strict';
        return streaming === '2' && (!wants || names !== '') && this.primary;
      } catch (error) {
        told = error.message;
        return false;
      }
    };
    try {
      return await until('three members', probe, seconds, 500);
    } catch (error) {
      throw new Error(`${error.message}: ${told}`);
    }
  }

  // How commits are protected: strict or sync by Patroni, slots by the extension, async not at all.
  async setMode(mode) {
    if (mode === this.mode) return;
    const wants = ['sync', 'strict'].includes(mode);
    // What protects commits is there before what did so is taken away.
    if (wants) await this.#followNames(mode);
    if ((mode === 'slots') !== this.slots) await this.#followSlots();
    if (!wants) await this.#followNames(mode);
    this.mode = mode;
    await this.settled();
  }

  async #followNames(mode) {
    if (mode === 'strict') await this.follow('have COMMIT wait for a standby');
    else if (mode === 'sync') await this.follow('have COMMIT wait for a standby', { 'strict=true': 'strict=false' });
    else await this.follow('have COMMIT wait for nobody');
    await until('the names', async () => (await this.ask('SHOW synchronous_standby_names').catch(() => null)) !== '' === ['sync', 'strict'].includes(mode), 60);
  }

  async #followSlots() {
    this.slots = !this.slots;
    if (this.slots) await this.follow('keep the slot of a member that is away');
    for (const member of MEMBERS) this.configure(member);
    await this.follow('have keys wait for slots');
    const wanted = (member) => (this.slots ? MEMBERS.filter((name) => name !== member).map(slotOf).join(', ') : '');
    for (const member of MEMBERS) {
      await until('the slots', async () => await this.sql(member, 'SHOW exactonce.synchronized_standby_slots') === wanted(member), 60);
    }
  }
}

function commandOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
