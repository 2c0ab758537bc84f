// pgBackRest under load: a full and an incremental backup, and restores to a time beside the living
// original and after its end. What idem_audit() says is compared with what the tables say: the keys
// whose work the original has and the restored server has not.

import { rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pidsOn, run, signal } from './hosts.mjs';
import { filledIn, recoveryBy } from './runbook.mjs';
import { MEMBERS, until } from './world.mjs';

const HOST = 'restored';

const WORKS = 'SELECT key FROM work UNION SELECT key FROM guarded UNION SELECT key FROM guarded_late UNION SELECT key FROM guarded_skip';

const AUDIT = "SELECT concat_ws(' ', finding, key) FROM idem_audit(units_per_second => 100000)";

const lines = (text) => text.split('\n').filter(Boolean);

export class Backup {
  wrong = [];

  constructor(world, say) {
    Object.assign(this, { world, say, config: `${world.work}/pgbackrest.conf` });
  }

  check(holds, text) {
    this.say(`${holds ? 'ok' : 'NOT OK'}: ${text}`);
    if (!holds) this.wrong.push(text);
  }

  // Does what docs/operations.md says: the command with this word, with other words in the place of its own.
  follow(host, word, words = {}) {
    const command = filledIn(recoveryBy(word), { ...words, ...(recoveryBy(word).includes('/17/') ? { '/17/': `/${this.world.major}/` } : {}) });
    return this.world.do(host, ['env', `PGBACKREST_CONFIG=${this.config}`, 'sh', '-c', command], { seconds: 300 });
  }

  async take(type) {
    return this.follow((await this.world.leader()).name, `--type=${type}`);
  }

  // A moment, and what was committed until then is archived.
  async moment() {
    const now = await this.world.ask('SELECT clock_timestamp()');
    await pause(1500);
    return now;
  }

  async archive() {
    const { name } = await this.world.leader();
    const file = await this.world.sql(name, 'SELECT pg_walfile_name(pg_switch_wal())');
    await until('the archive', async () => await this.world.sql(name, 'SELECT last_archived_wal FROM pg_stat_archiver') >= file, 120);
  }

  async restore(time, { delta = false } = {}) {
    if (!delta) rmSync(path.join(this.world.work, HOST, 'lib'), { recursive: true, force: true });
    for (const name of ['lib', 'run', 'patroni']) this.world.folder(HOST, name);
    await run(['chown', '-R', 'postgres:postgres', path.join(this.world.work, HOST)]);
    await this.follow(HOST, '--type=time', { '2026-11-25 22:00:00+00': time, ...(delta ? {} : { '--delta ': '' }) });
  }

  async startServer(takeover) {
    await this.follow(HOST, 'pg_ctl', { never: takeover });
    await until('the end of the recovery', async () => await this.sql('SELECT pg_is_in_recovery()').catch(() => '') === 'f', 120);
  }

  stopServer() {
    return this.world.do(HOST, [`${this.world.bin}/pg_ctl`, 'stop', '-m', 'fast', '-w', '-D', this.world.data]);
  }

  sql(text, seconds = 120) {
    return this.world.sql(HOST, text, seconds);
  }

  async newKey(name) {
    return await this.sql(`BEGIN; SELECT outcome FROM idem_acquire('${name}'); SELECT idem_complete('${name}'); COMMIT`) === 'acquired';
  }

  // The keys that the original has and the restored server has not, against what idem_audit() says.
  async audit(original, finding, text) {
    const here = new Set(lines(await this.sql(WORKS)));
    const missing = original.filter((key) => !here.has(key)).sort();
    // What a restored server of before has done is missing, too.
    const found = lines(await this.sql(AUDIT)).filter((row) => !/ restored-/.test(row));
    const keys = found.filter((row) => finding.test(row)).map((row) => row.split(' ').at(-1)).sort();
    const others = found.filter((row) => !finding.test(row));
    this.check(keys.join() === missing.join() && others.length === 0 && missing.length > 0,
      `${text}: idem_audit() lists ${keys.length} keys, and ${missing.length} are missing; ${here.size} are there${others.length ? `; and ${others.slice(0, 5)}` : ''}`);
    // What is prepared is committed, and not forgotten.
    return keys.filter((key) => !found.includes(`prepared ${key}`));
  }

  states() {
    return this.sql("SELECT string_agg(DISTINCT state, ', ' ORDER BY state) FROM exactonce_lives WHERE state <> 'over'");
  }

  // The load runs until the second moment is over.
  async besideTheOriginal(original, first, second) {
    await this.restore(first);
    await this.startServer('never');
    await until('the life of the original', async () => /alive/.test(await this.states()), 120);
    await pause(this.world.seconds(60) * 1000);
    this.check(await this.states() === 'alive, open' || /alive/.test(await this.states()), `beside the original, never: lives are ${await this.states()}`);
    this.check(await this.newKey('restored-never'), 'a new key works beside the original');
    await this.audit(original, /^(elsewhere|prepared) /, 'restored to the first moment, never');
    await this.stopServer();
    await this.restore(second, { delta: true });
    await this.startServer('near');
    await until('the life of the original', async () => /alive/.test(await this.states()), 120);
    await pause(this.world.seconds(60) * 1000);
    this.check(/alive/.test(await this.states()), `beside the original, near: lives are ${await this.states()}`);
    await this.audit(original, /^(elsewhere|prepared) /, 'restored to the second moment, by delta');
    await this.stopServer();
  }

  async insteadOfTheOriginal(original, first) {
    for (const member of MEMBERS) signal(await pidsOn(member), 'SIGKILL');
    await this.restore(first, { delta: true });
    await this.startServer('never');
    await until('the silence', async () => /waits for/.test(await this.states()), this.world.seconds(60) + 60);
    this.check(await this.newKey('restored-instead'), 'a new key works before the take-over');
    for (const life of lines(await this.sql("SELECT DISTINCT life FROM exactonce_lives WHERE state = 'waits for idem_take_over()'"))) {
      this.check(await this.sql(`SELECT idem_take_over('${life}')`) === 't', `idem_take_over('${life}')`);
    }
    const lost = await this.audit(original, /^(lost|elsewhere|prepared) /, 'instead of the original');
    await this.sql("SELECT idem_forget(key) FROM idem_audit(units_per_second => 100000) WHERE finding <> 'prepared'");
    const free = await this.sql(`SELECT count(*) FROM unnest('{${lost.join()}}'::text[]) k, LATERAL idem_acquire(k) c WHERE c.outcome = 'acquired'`);
    this.check(Number(free) === lost.length, `${free} of ${lost.length} keys can be claimed again`);
    await this.stopServer();
  }
}

export { WORKS };
