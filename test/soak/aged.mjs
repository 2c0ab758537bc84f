// Items that are past their ttl, for sweeps to delete while others claim the keys.

import { randomUUID } from 'node:crypto';
import { engine } from './history.mjs';

const RECORDS = 8;
const HOUR_MS = 3_600_000;

export const agedKey = (round, pass, n) => `r${round}-aged-${pass}-${n % RECORDS}`;

// The record of a key: completed or failed; the last one has a fence that a claim could still have.
function record(n, now, old) {
  const kinds = [
    { status: 'COMPLETED', result: '"aged"' },
    { status: 'FAILED', retry_ms: old, progress: '"aged"', progress_no: 1 },
    { status: 'FAILED', error: '"aged"' },
    { status: 'COMPLETED' },
  ];
  return { ...kinds[n % kinds.length], owner: randomUUID(), bind: 'tx', runs: 1, created_ms: old, updated_ms: old,
    fence: n === RECORDS - 1 ? now + HOUR_MS : old };
}

function typed(item) {
  return Object.fromEntries(Object.entries(item).map(([name, value]) => [name,
    typeof value === 'number' ? { N: `${value}` } : { S: value }]));
}

// Writes a set of them that nobody has met before.
export async function putAged(table, round, pass) {
  const now = Date.now();
  const old = now - 4 * HOUR_MS;
  const items = Array.from({ length: RECORDS }, (_, n) => ({ pk: `IDEMPOTENCY#${agedKey(round, pass, n)}`, ...record(n, now, old) }));
  const id = `aged-${round}-${pass}`;
  items.push({ pk: `ACTION#${id}`, actionId: id, createdAt: old, createdToken: randomUUID(), activeAtMs: old, expiresAtMs: old });
  items.push({ pk: `ORIGIN#${randomUUID()}`, state: 'closed', beat: 1, nonce: 'n', home: '', updated_ms: old });
  const ttl = Math.floor((now - 2 * HOUR_MS) / 1000);
  await Promise.all(items.map((item) => engine('PutItem', { TableName: table, Item: typed({ ...item, ttl }) })));
}
