// What the tests of samples/ share: a database with the tables of the samples, the languages, and
// programs that run as long as a test needs them.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createDatabase } from '../interop/database.mjs';
import { session } from '../interop/sessions.mjs';
import { pace, timeouts } from '../harness/pace.mjs';

const DATABASE = 'samples';
const folder = fileURLToPath(new URL('../../samples/', import.meta.url));

// Debian's Python has the packages of Debian.
const PYTHON = '/usr/bin/python3';

// Each language: what must be there, a program to be made first, and the program with its arguments.
const LANGUAGES = {
  python: {
    needs: [PYTHON, '-c', 'import flask, psycopg, psycopg_pool'],
    program: () => ({ command: [PYTHON, 'app.py'] }),
  },
  node: {
    needs: [process.execPath, '--version'],
    program: () => ({ command: [process.execPath, 'app.mjs'] }),
  },
  go: {
    needs: ['go', 'version'],
    make: (binary) => ['go', 'build', '-o', binary, 'main.go'],
    program: (binary) => ({ command: [binary], env: { PGSSLMODE: 'disable' } }),
    env: { GO111MODULE: 'off', GOPATH: '/usr/share/gocode', GOFLAGS: '', GOCACHE: path.join(os.tmpdir(), 'go-cache') },
  },
  // JDBC knows no Unix sockets.
  java: {
    needs: ['javac', '--version'],
    make: (binary) => ['javac', '-d', binary, 'Webhook.java'],
    program: (binary) => ({ command: ['java', '-cp', `${binary}:/usr/share/java/postgresql.jar`, 'Webhook'],
      env: { PGHOST: '127.0.0.1' } }),
  },
  ruby: {
    needs: ['ruby', '-e', 'require "pg"; require "webrick"'],
    program: () => ({ command: ['ruby', 'webhook.rb'] }),
  },
  php: {
    needs: ['php', '-r', 'exit(in_array("pgsql", PDO::getAvailableDrivers()) ? 0 : 1);'],
    program: (binary, port) => ({ command: ['php', '-S', `127.0.0.1:${port}`, 'webhook.php'],
      env: { PHP_CLI_SERVER_WORKERS: '8' } }),
  },
};

// EO_SAMPLES is the list of languages that must be there. Without it they are Python and Node, and
// what is not installed is left out.
const asked = process.env.EO_SAMPLES?.split(' ');

let sql;

export async function query(text, values) {
  return (await sql.query(text, values)).rows[0];
}

// A database with the extension, and the tables of these samples.
export async function setUp(...samples) {
  await createDatabase(DATABASE);
  sql = await session(DATABASE);
  await sql.query(`
    CREATE ROLE shop LOGIN;
    CREATE EXTENSION exactonce;
    CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
      OPTIONS (region 'eu-west-1', endpoint '${process.env.EO_ENDPOINT}', table 'samples'${timeouts});
    CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test')`);
  await sql.query('SELECT idem_create_table()');
  for (const sample of samples) await runFile(`${sample}/schema.sql`);
}

export function fileOf(name) {
  return path.join(folder, name);
}

export async function runFile(name) {
  await sql.query(readFileSync(fileOf(name), 'utf8'));
}

export async function tearDown() {
  await sql.query('DROP OWNED BY shop; DROP ROLE shop');
  await sql.end();
}

// The languages that are asked for, with a reason if one is left out.
export function languages(sample) {
  return (asked ?? ['python', 'node']).map((name) => {
    const { needs } = LANGUAGES[name];
    return { name, missing: missing(...needs), folder: fileOf(`${sample}/${name}`), ...LANGUAGES[name] };
  });
}

// A reason to leave out what needs a command that fails; false: it is there, or must be.
export function missing(command, ...args) {
  return !asked && spawnSync(command, args, { stdio: 'ignore' }).status !== 0 && `${command} ${args.join(' ')}: not installed`;
}

// Runs a program of samples/ to its end.
export async function run(file, ...args) {
  const sample = new Sample({ folder: fileOf(path.dirname(file)), program: () => (
    { command: [PYTHON, path.basename(file), ...args], env: { PAUSE_S: '0.1' } }) });
  await sample.spawn();
  assert.equal(await sample.ended, 0, sample.said);
  return sample.said;
}

// Waits for an answer that is not undefined.
export async function until(what, ask) {
  const end = Date.now() + 60_000 * pace;
  while (Date.now() < end) {
    const answer = await ask();
    if (answer) return answer;
    await pause(20);
  }
  throw new Error(`waited in vain for ${what}`);
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// A program of samples/, as role shop.
export class Sample {
  said = '';

  constructor(how) {
    this.how = how;
  }

  async spawn() {
    const { how } = this;
    let binary;
    if (how.make) {
      binary = path.join(mkdtempSync(path.join(os.tmpdir(), 'sample-')), 'webhook');
      const [command, ...args] = how.make(binary);
      const made = spawnSync(command, args, { cwd: how.folder, env: { ...process.env, ...how.env }, encoding: 'utf8' });
      assert.equal(made.status, 0, made.stderr);
    }
    this.port = await freePort();
    const { command, env } = how.program(binary, this.port);
    this.child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', ...command],
      { cwd: how.folder, detached: true, stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, PGDATABASE: DATABASE, PGUSER: 'shop', PORT: String(this.port), ...env } });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on('data', (text) => { this.said += text; });
    }
    this.ended = new Promise((resolve) => this.child.once('exit', resolve));
  }

  // Starts a program that serves HTTP.
  async start() {
    await this.spawn();
    await until('an answer', () => {
      if (this.child.exitCode !== null) throw new Error(`the program has ended:\n${this.said}`);
      return this.ask('GET', '/').catch(() => null);
    });
  }

  async ask(method, where, options = {}) {
    const answer = await fetch(`${this.url}${where}`, { method, redirect: 'manual', ...options });
    const text = await answer.text();
    const isJson = /json/.test(answer.headers.get('Content-Type') ?? '');
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  async end() {
    // PHP's server has children of its own.
    process.kill(-this.child.pid, 'SIGTERM');
    await this.ended;
    if (process.env.EO_VERBOSE) console.log(this.said);
  }
}
