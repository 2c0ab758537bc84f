// dynalite, a second engine: another implementation of the same interface, which knows
// conditional writes and reads but neither transactions, PartiQL nor time to live, and
// returns no item with a refusal. It keeps its data in memory.
//
// It ends if a client closes a connection in the middle of a request, so nothing but the
// proxy, which sends whole requests, talks to it.

import http from 'node:http';
import path from 'node:path';
import { Child, HarnessError, freePort, tail, until } from './util.mjs';

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
const program = path.join(here, '../interop/node_modules/dynalite/cli.js');

function answers(port) {
  return new Promise((resolve) => {
    const request = http.get({ host: '127.0.0.1', port, timeout: 5000, agent: false }, (response) => {
      response.resume();
      resolve(true);
    });
    request.on('error', () => resolve(false));
    request.on('timeout', () => request.destroy());
  });
}

// Has the methods of Engine that a run of the suite needs.
export class Dynalite {
  constructor(dir) {
    this.dir = dir;
    this.log = path.join(dir, 'dynalite.log');
    this.child = null;
    this.port = 0;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async start() {
    if (this.child?.running) return;
    this.port ||= await freePort();
    this.child = new Child({
      command: process.execPath,
      args: [program, '--host', '127.0.0.1', '--port', String(this.port),
        '--createTableMs', '0', '--deleteTableMs', '0', '--updateTableMs', '0'],
      log: this.log, cwd: this.dir, env: process.env,
    });
    await until('dynalite', () => {
      if (!this.child.running) throw new HarnessError(`dynalite ended (${this.child.code})\n${tail(this.log)}`);
      return answers(this.port);
    });
  }

  async stop() {
    await this.child?.end('SIGTERM', 'SIGKILL');
  }

  killNow() {
    this.child?.kill('SIGKILL');
  }
}
