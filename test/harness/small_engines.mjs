// Engines beside DynamoDB Local: other implementations of the same interface.
//
//   dynoxide   transactions, PartiQL, time to live; no item with a refusal in a batch, and names
//              of tables of three characters at least.  It is up in milliseconds.
//   dynalite   conditional writes and reads; neither transactions, PartiQL nor time to live, and no
//              item with a refusal.  It ends if a client closes a connection in the middle of a
//              request, so nothing but the proxy, which sends whole requests, talks to it.

import { accessSync, constants } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { Child, EngineProcess, HarnessError, freePort, tail, until } from './util.mjs';

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
const modules = path.join(here, '../interop/node_modules');
const dynoxide = path.join(modules, '@dynoxide/linux-x64/dynoxide');

const engines = {
  dynoxide: (port, data) => [dynoxide, '--host', '127.0.0.1', '--port', String(port), ...(data ? ['--db-path', data] : [])],
  dynalite: (port) => [process.execPath, path.join(modules, 'dynalite/cli.js'), '--host', '127.0.0.1', '--port', String(port),
    '--createTableMs', '0', '--deleteTableMs', '0', '--updateTableMs', '0'],
};

// Is the engine here?  The package of dynoxide has a program for x86-64 only.
export function isThere(name) {
  if (name !== 'dynoxide') return name in engines;
  try {
    accessSync(dynoxide, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

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

export class SmallEngine extends EngineProcess {
  // dir is a throwaway folder.  With inMemory, and with dynalite, a stop loses the data.
  constructor(name, dir, { inMemory = false } = {}) {
    super();
    this.name = name;
    this.dir = dir;
    this.data = inMemory ? null : path.join(dir, 'data.db');
    this.log = path.join(dir, 'engine.log');
  }

  // The first start chooses a port, and later starts use it again.
  async start() {
    if (this.child?.running) return;
    this.port ||= await freePort();
    const [command, ...args] = engines[this.name](this.port, this.data);
    this.child = new Child({ command, args, log: this.log, cwd: this.dir, env: process.env });
    await until(this.name, () => {
      if (!this.child.running) throw new HarnessError(`${this.name} ended (${this.child.code})\n${tail(this.log)}`);
      return answers(this.port);
    });
  }
}
