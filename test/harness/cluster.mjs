// A throwaway PostgreSQL cluster. It listens on a unix socket in a folder that only
// its owner may enter, trusts everybody there, and is removed afterwards.

import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Child, HarnessError, freePort, isRoot, tail, until } from './util.mjs';

const run = promisify(execFile);

// initdb and postgres refuse to run as root, so they run as this user instead.
const user = isRoot ? 'postgres' : null;

async function idOf(name, flag) {
  return Number((await run('id', [flag, name])).stdout);
}

export class Cluster {
  // dir: an existing throwaway folder; settings: name -> value
  constructor(dir, { preload = true, durable = false, settings = {} } = {}) {
    this.dir = dir;
    this.data = path.join(dir, 'data');
    this.log = path.join(dir, 'postgresql.log');
    this.port = 0;
    this.child = null;
    this.settings = {
      listen_addresses: '',
      unix_socket_directories: dir,
      max_prepared_transactions: '10',
      ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }),
      ...(preload ? { shared_preload_libraries: 'exactonce' } : {}),
      ...settings,
    };
  }

  async start() {
    const bin = (await run(process.env.PG_CONFIG || 'pg_config', ['--bindir'])).stdout.trim();
    mkdirSync(this.dir, { recursive: true, mode: 0o700 });
    if (user) chownSync(this.dir, await idOf(user, '-u'), await idOf(user, '-g'));
    const env = { ...process.env, HOME: this.dir };

    const initLog = path.join(this.dir, 'initdb.log');
    const init = new Child({
      command: path.join(bin, 'initdb'),
      args: ['-D', this.data, '-U', 'postgres', '-A', 'trust', '-N', '--locale=C', '-E', 'UTF8'],
      log: initLog, cwd: this.dir, env, user,
    });
    await until('initdb', () => !init.running);
    if (init.code !== 0) throw new HarnessError(`initdb failed (${init.code})\n${tail(initLog)}`);

    // EO_WRAPPER is a program that runs the server, such as valgrind with its options.
    const [command, ...before] = [...(process.env.EO_WRAPPER ?? '').split(' ').filter(Boolean),
      path.join(bin, 'postgres')];
    this.port = await freePort();
    this.child = new Child({
      command,
      args: [...before, '-D', this.data, '-p', String(this.port),
        ...Object.entries(this.settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      log: this.log, cwd: this.dir, env, user, deathSignal: 'INT',
    });
    await until('the cluster', () => {
      if (!this.child.running) throw new HarnessError(`the cluster did not start\n${tail(this.log)}`);
      return this.#ready();
    });
  }

  // The server writes into its pid file that it accepts connections.
  #ready() {
    try {
      return readFileSync(path.join(this.data, 'postmaster.pid'), 'utf8').split('\n')[7]?.trim() === 'ready';
    } catch {
      return false;
    }
  }

  async stop() {
    await this.child?.end('SIGINT', 'SIGQUIT', 'SIGKILL');
  }

  killNow() {
    this.child?.kill('SIGQUIT');
  }
}
