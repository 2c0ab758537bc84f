// What engine, cluster and proxy share: free ports, waiting for conditions, and child
// processes that always end with the harness.

import { spawn } from 'node:child_process';
import { openSync, closeSync, readFileSync } from 'node:fs';
import net from 'node:net';

export class HarnessError extends Error {}

export const isRoot = process.getuid() === 0;

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

// Calls probe() until it returns something true. The pause between two calls is short,
// so that the condition decides how long the wait is.
export async function until(what, probe, { seconds = 300, every = 20 } = {}) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const answer = await probe();
    if (answer) return answer;
    if (Date.now() > deadline) throw new HarnessError(`${what}: nothing after ${seconds} s`);
    await pause(every);
  }
}

export function tail(file, lines = 60) {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '';
  }
}

// A server process. setpriv makes the kernel signal it when the harness dies,
// even by SIGKILL, and changes the user where that is asked for; it then
// becomes the command, so the pid is the command's own.
export class Child {
  #exited;

  constructor({ command, args, log, env, cwd, user, deathSignal = 'TERM' }) {
    const change = user ? [`--reuid=${user}`, `--regid=${user}`, '--init-groups'] : [];
    const out = openSync(log, 'a');
    this.log = log;
    this.code = null;
    this.process = spawn('setpriv',
      [...change, '--pdeathsig', deathSignal, '--', command, ...args],
      { stdio: ['ignore', out, out], env, cwd, detached: true });
    closeSync(out);
    this.#exited = new Promise((resolve) => {
      this.process.once('error', (error) => { this.code = error.message; resolve(); });
      this.process.once('exit', (code, signal) => { this.code = signal ?? code; resolve(); });
    });
  }

  get running() {
    return this.code === null;
  }

  kill(signal) {
    if (this.running && this.process.pid) {
      try {
        process.kill(this.process.pid, signal);
      } catch { /* it has just ended by itself */ }
    }
  }

  // Sends one signal after the other until the process has ended.
  async end(...signals) {
    for (const signal of signals) {
      this.kill(signal);
      const gone = await Promise.race([this.#exited.then(() => true), pause(10000)]);
      if (gone) return;
    }
  }
}

// An engine on a port of this machine: child is its process once it was started.
export class EngineProcess {
  child = null;
  port = 0;

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop() {
    this.child?.kill('SIGCONT');
    await this.child?.end('SIGTERM', 'SIGKILL');
  }

  pause() {
    this.child?.kill('SIGSTOP');
  }

  resume() {
    this.child?.kill('SIGCONT');
  }

  killNow() {
    this.child?.kill('SIGKILL');
  }
}
