// The hosts of a run: network namespaces on one bridge, with the addresses of samples/patroni.yaml.
// The run is alone in its namespaces of network, mounts and processes (test/long/cluster), so that
// all of this ends with it.

import { execFile, spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { promisify } from 'node:util';

const execute = promisify(execFile);

export const addresses = { 'orders-a': ['10.0.0.1'], 'orders-b': ['10.0.0.2'], 'orders-c': ['10.0.0.3'],
  etcd: ['10.0.0.10', '10.0.0.11', '10.0.0.12'], front: ['10.0.0.20'], engine: ['10.0.0.30'], restored: ['10.0.0.40'] };

// Where this program, and so all clients, are.
const OWN = '10.0.0.100';

// Runs a command; returns what it prints. A command that fails, or takes too long, throws.
export async function run(argv, { seconds = 120, ...options } = {}) {
  const [command, ...args] = argv;
  try {
    const { stdout } = await execute(command, args, { timeout: seconds * 1000, killSignal: 'SIGKILL', maxBuffer: 1 << 26, ...options });
    return stdout.trim();
  } catch (error) {
    throw new Error(`${argv.join(' ').slice(0, 300)}: ${error.killed ? `nothing after ${seconds} s` : ''}${error.stderr || error.message}${error.stdout ?? ''}`);
  }
}

export async function makeHosts() {
  await run(['ip', 'link', 'set', 'lo', 'up']);
  await run(['ip', 'link', 'add', 'hosts', 'type', 'bridge']);
  await run(['ip', 'addr', 'add', `${OWN}/24`, 'dev', 'hosts']);
  await run(['ip', 'link', 'set', 'hosts', 'up']);
  for (const [number, [host, all]] of Object.entries(addresses).entries()) {
    await run(['ip', 'netns', 'add', host]);
    await run(['ip', 'link', 'add', `port${number}`, 'master', 'hosts', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host]);
    await run(['ip', 'link', 'set', `port${number}`, 'up']);
    for (const address of all) await run(['ip', '-n', host, 'addr', 'add', `${address}/24`, 'dev', 'eth0']);
    for (const device of ['lo', 'eth0']) await run(['ip', '-n', host, 'link', 'set', device, 'up']);
  }
}

// A command on a host, as a user there. Hosts have folders of their own: [folder, where] is mounted.
export function onHost(host, argv, { user = 'root', mounts = [] } = {}) {
  const change = user === 'root' ? [] : ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--init-groups', '--', 'env', 'HOME=/var/lib/postgresql'];
  const mount = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done; shift; exec "$@"';
  return ['ip', 'netns', 'exec', host, 'sh', '-c', mount, 'sh', ...mounts.flat(), '--', ...change, ...argv];
}

export function start(argv, log, env = process.env) {
  const out = openSync(log, 'a');
  const child = spawn(argv[0], argv.slice(1), { stdio: ['ignore', out, out], env, detached: true });
  child.on('error', (error) => { throw error; });
  return child;
}

export async function pidsOn(host) {
  return (await run(['ip', 'netns', 'pids', host])).split('\n').filter(Boolean).map(Number);
}

export function signal(pids, name) {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch { /* it has ended */ }
  }
}

// Drops what a host gets from others (in), sends to them (out), or both. To clients only the ports
// of the database are closed, so that its state can still be asked for.
export async function cut(host, others, way = 'both') {
  for (const other of others) {
    const ports = other === 'clients' ? ['5432', '6432'] : [null];
    const peers = other === 'clients' ? [OWN, ...addresses.front] : addresses[other];
    for (const peer of peers) {
      for (const port of ports) {
        const to = (option) => (port ? ['-p', 'tcp', option, port] : []);
        if (way !== 'out') await tables(host, ['-A', 'INPUT', '-s', peer, ...to('--dport'), '-j', 'DROP']);
        if (way !== 'in') await tables(host, ['-A', 'OUTPUT', '-d', peer, ...to('--sport'), '-j', 'DROP']);
      }
    }
  }
}

export const mend = (host) => tables(host, ['-F']);

const tables = (host, rule) => run(['ip', 'netns', 'exec', host, 'iptables', '-w', ...rule]);
