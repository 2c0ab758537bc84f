// run.mjs [options] -- COMMAND ARGS...
//
// Starts the engine, the proxy in front of it and a throwaway cluster, runs COMMAND
// with their addresses in its environment, stops them and exits with the status of
// COMMAND.
//
//   --keep          leave everything running after COMMAND (needed once)
//   --stop          stop what an earlier --keep left running, and exit
//   --durable       a cluster with fsync
//   --in-memory     an engine that is faster and forgets its data when stopped
//   --engine NAME   another engine than DynamoDB Local: dynoxide or dynalite (small_engines.mjs);
//                   by default that of EO_ENGINE.  Where there is no dynoxide for the machine,
//                   DynamoDB Local takes its place
//   --no-preload    a cluster without shared_preload_libraries
//   --set NAME=VALUE  a setting for the cluster, as often as wanted
//
// COMMAND sees PGHOST PGPORT PGUSER PGDATABASE, EO_ENDPOINT (the proxy),
// EO_ENGINE_URL (the engine itself), EO_CONTROL (log, faults, the engine's life:
// see proxy.mjs) and EO_PGDATA.
//
// With --keep a second copy of this program, detached from the terminal, owns the
// servers. The first copy runs COMMAND and exits.

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, statfsSync, chmodSync,
  writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Cluster } from './cluster.mjs';
import { Engine, LICENCE, cacheDir } from './engine.mjs';
import { Proxy } from './proxy.mjs';
import { SmallEngine, isThere } from './small_engines.mjs';
import { HarnessError, tail, until } from './util.mjs';

const LOCAL = 'dynamodb-local';
const MEGABYTE = 1024 * 1024;
const stateFile = path.join(cacheDir(), 'kept.json');

function parse(argv) {
  const options = { keep: false, stop: false, serve: false, preload: true, durable: false, inMemory: false,
    engine: process.env.EO_ENGINE || LOCAL, settings: {}, command: [] };
  const flags = {
    '--keep': () => { options.keep = true; },
    '--stop': () => { options.stop = true; },
    '--serve': () => { options.serve = true; },         // the detached copy
    '--durable': () => { options.durable = true; },
    '--in-memory': () => { options.inMemory = true; },
    '--engine': (rest) => { options.engine = rest.shift(); },
    '--no-preload': () => { options.preload = false; },
    '--set': (rest) => {
      const [, name, value] = /^(\w[\w.]*)=(.*)$/s.exec(rest.shift() ?? '') ?? [];
      if (!name) throw new HarnessError('--set wants NAME=VALUE');
      options.settings[name] = value;
    },
    '--': (rest) => { options.command = rest.splice(0); },
  };
  const rest = [...argv];
  while (rest.length > 0) {
    const flag = rest.shift();
    if (!flags[flag]) throw new HarnessError(`unknown option ${flag}`);
    flags[flag](rest);
  }
  if (!options.stop && !options.serve && options.command.length === 0) {
    throw new HarnessError('usage: run.mjs [--keep] [--durable] [--in-memory] [--engine NAME] '
      + '[--no-preload] [--set NAME=VALUE] -- COMMAND ARGS...');
  }
  if (options.engine === 'dynoxide' && !isThere('dynoxide')) {
    console.error('harness: there is no dynoxide for this machine; DynamoDB Local takes its place');
    options.engine = LOCAL;
  }
  if (options.engine !== LOCAL && !isThere(options.engine)) throw new HarnessError(`no such engine: ${options.engine}`);
  return options;
}

// The servers of one run and the folders they live in.
class Harness {
  #folders = [];

  #folder(base) {
    const dir = mkdtempSync(path.join(base, 'exactonce-'));
    this.#folders.push(dir);
    return dir;
  }

  // The engine syncs each write to its file, which is faster if that is in memory.
  #engineFolder() {
    const shm = '/dev/shm';
    try {
      const { bavail, bsize } = statfsSync(shm);
      if (bavail * bsize > 256 * MEGABYTE) return this.#folder(shm);
    } catch { /* no such place here */ }
    return this.#folder(os.tmpdir());
  }

  async start(options) {
    const base = this.#folder(os.tmpdir());
    chmodSync(base, 0o755);                             // the cluster's own folder in it is private
    const folder = this.#engineFolder();
    this.engine = options.engine === LOCAL ? new Engine(folder, options) : new SmallEngine(options.engine, folder, options);
    this.cluster = new Cluster(path.join(base, 'pg'), options);
    this.proxy = new Proxy(this.engine);
    const started = await Promise.allSettled([this.engine.start(), this.cluster.start(), this.proxy.start()]);
    const failed = started.find(({ status }) => status === 'rejected');
    if (failed) throw failed.reason;
  }

  get environment() {
    return {
      PGHOST: this.cluster.dir,
      PGPORT: String(this.cluster.port),
      PGUSER: 'postgres',
      PGDATABASE: 'postgres',
      EO_ENDPOINT: this.proxy.url,
      EO_ENGINE_URL: this.engine.url,
      EO_CONTROL: this.proxy.controlUrl,
      EO_PGDATA: this.cluster.data,
    };
  }

  async stop() {
    await Promise.allSettled([this.cluster?.stop(), this.engine?.stop()]);
    this.proxy?.stop();
    this.#removeFolders();
  }

  // Called at the end of the process, which cannot wait for anything.
  killNow() {
    this.cluster?.killNow();
    this.engine?.killNow();
    this.#removeFolders();
  }

  #removeFolders() {
    for (const dir of this.#folders.splice(0)) rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

// Removes the caller's connection settings, which would lead COMMAND elsewhere.
function environmentFor(added) {
  const env = { ...process.env };
  for (const name of ['PGHOSTADDR', 'PGSERVICE', 'PGSERVICEFILE', 'PGPASSWORD', 'PGOPTIONS', 'PGSSLMODE']) {
    delete env[name];
  }
  return { ...env, ...added };
}

// Runs COMMAND, passes signals on to it and returns its exit status.
function runCommand(command, env) {
  return new Promise((resolve) => {
    const child = spawn('setpriv', ['--pdeathsig', 'TERM', '--', ...command], { stdio: 'inherit', env });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
    child.once('error', (error) => {
      console.error(`harness: ${error.message}`);
      resolve(127);
    });
    child.once('exit', (code, signal) => resolve(code ?? 128 + os.constants.signals[signal]));
  });
}

async function runOnce(options) {
  const harness = new Harness();
  const early = (signal) => process.exit(128 + os.constants.signals[signal]);
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, early);
  process.on('exit', () => harness.killNow());
  try {
    await harness.start(options);
    for (const signal of signals) process.off(signal, early);
    const code = await runCommand(options.command, environmentFor(harness.environment));
    if (code !== 0) console.error(`harness: the end of the cluster's log:\n${tail(harness.cluster.log)}`);
    return code;
  } finally {
    await harness.stop();
  }
}

// The start time of a process distinguishes it from a later one with the same pid.
function startTime(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ')[19];
  } catch {
    return null;
  }
}

function kept() {
  if (!existsSync(stateFile)) return null;
  const state = JSON.parse(readFileSync(stateFile, 'utf8'));
  return startTime(state.pid) === state.startTime ? state : null;
}

async function stopKept() {
  const state = kept();
  if (!state) {
    rmSync(stateFile, { force: true });
    console.log('harness: nothing is running');
    return 0;
  }
  process.kill(state.pid, 'SIGTERM');
  await until('the end of the harness', () => startTime(state.pid) !== state.startTime);
  console.log('harness: stopped');
  return 0;
}

// Runs in the detached copy: tells its parent over the pipe that it is ready, and runs
// until it gets SIGTERM.
async function serve(options) {
  const harness = new Harness();
  process.on('exit', () => harness.killNow());
  process.on('SIGINT', () => {});
  process.on('SIGHUP', () => {});
  const ended = new Promise((resolve) => process.once('SIGTERM', resolve));
  try {
    await harness.start(options);
    writeFileSync(stateFile, JSON.stringify({ pid: process.pid, startTime: startTime(process.pid) }), { mode: 0o600 });
    process.send({ environment: harness.environment });
    process.disconnect();
    await ended;
    rmSync(stateFile, { force: true });
    return 0;
  } finally {
    await harness.stop();
  }
}

async function runKept(options, argv) {
  if (kept()) throw new HarnessError('one is already running; end it first with --stop');
  const log = path.join(cacheDir(), 'kept.log');
  const out = openSync(log, 'w');
  const args = argv.slice(0, argv.indexOf('--')).filter((flag) => flag !== '--keep');
  const owner = spawn(process.execPath, [fileURLToPath(import.meta.url), '--serve', ...args],
    { detached: true, stdio: ['ignore', out, out, 'ipc'], cwd: '/' });
  const environment = await new Promise((resolve, reject) => {
    owner.once('message', (message) => resolve(message.environment));
    owner.once('exit', () => reject(new HarnessError(`could not start\n${tail(log)}`)));
  });
  owner.unref();
  return runCommand(options.command, environmentFor(environment));
}

async function main(argv) {
  const options = parse(argv);
  if (options.stop) return stopKept();
  if (options.serve) return serve(options);
  if (options.engine === LOCAL) console.error(`harness: ${LICENCE}`);
  return options.keep ? runKept(options, argv) : runOnce(options);
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(`harness: ${error instanceof HarnessError ? error.message : error.stack}`);
    process.exit(1);
  },
);
