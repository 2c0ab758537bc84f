// A reference client for docs/actions.md on the AWS SDK. It shows how another service
// consumes and cancels the actions that PostgreSQL has made. Its answers have the
// names of the columns in SQL. To keep it short it makes no actions and trusts the
// clock of its host.

import { createHmac, randomUUID, scrypt, timingSafeEqual } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { read, write } from './conditional.mjs';

const NOT_FINAL = 'attribute_exists(#pk) AND attribute_not_exists(#consumedAt) AND attribute_not_exists(#status)'
  + ' AND attribute_not_exists(#canceledAt) AND attribute_not_exists(#closedAt)';
const OPEN = `${NOT_FINAL} AND #activeAtMs <= :now AND #expiresAtMs > :now`;
const READABLE = '(attribute_not_exists(#payload) OR attribute_type(#payload, :S))';

const instant = (ms) => (ms ? new Date(ms) : null);
const json = (text) => (text === undefined ? null : JSON.parse(text));
const hmac = (key, text) => createHmac('sha256', key).update(text).digest();

// How an action has ended is decided first, and only then by the clock.
function stateOf(record, now) {
  if (record.consumedAt) return 'consumed';
  if (record.status === 'COMMITTING') return 'committing';
  if (record.canceledAt) return 'canceled';
  if (record.pinHash && record.pinAttempts === 0) return 'burned';
  if (record.closedAt || record.expiresAtMs <= now) return 'expired';
  return record.activeAtMs > now ? 'pending' : 'active';
}

// The action is over, but a consume that is in flight could still be applied.
const isOpen = (record, now) => !record.closedAt && ['burned', 'expired'].includes(stateOf(record, now));

const consumed = (record, replayed) => ({
  outcome: 'consumed', payload: json(record.payload), consumed_at: instant(record.consumedAt), replayed,
});

// Explains a refusal by the record that came with it, and never by a later read, which
// might see another state.
function explain(record, now, token = null) {
  if (!record) return { outcome: 'action_not_found' };
  const state = stateOf(record, now);
  if (state === 'committing') return { outcome: 'in_progress' };
  if (state === 'consumed' && record.consumedToken === token) return consumed(record, true);
  if (state === 'consumed') return { outcome: 'already_used', consumed_at: instant(record.consumedAt) };
  if (state === 'pending') return { outcome: 'not_active', active_at: instant(record.activeAtMs) };
  return state === 'active' ? { outcome: 'invalid_pin', attempts_left: record.pinAttempts } : { outcome: state };
}

async function isRight(id, pin, stored, pepper = '') {
  const [, salt, hash] = /^scrypt\$16384\$8\$1\$([0-9a-f]{32})\$([0-9a-f]{64})$/.exec(stored) ?? [];
  if (!hash) throw new Error(`the PIN hash of action ${id} cannot be read`);
  const peppered = hmac(pepper, `${Buffer.byteLength(id)}:${id}${pin}`);
  const found = await promisify(scrypt)(peppered, salt, 32, { N: 16384, r: 8, p: 1 });
  return timingSafeEqual(found, Buffer.from(hash, 'hex'));
}

export class Actions {
  constructor(dynamodb, table, { prefix = '', pepper } = {}) {
    Object.assign(this, { dynamodb, table, prefix, pepper });
  }

  #pk(id) {
    return `ACTION#${this.prefix}${id}`;
  }

  async #write(id, condition, update, values) {
    const answer = await write(this.dynamodb, this.table, this.#pk(id), condition, update, values);
    const { payload = '', pinHash = '' } = answer.record ?? {};
    if (typeof payload !== 'string' || typeof pinHash !== 'string') {
      throw new Error(`the item of action ${id} cannot be read`);
    }
    return answer;
  }

  // Reads the action. It consumes nothing and shows neither payload nor PIN.
  async get(id) {
    const record = await read(this.dynamodb, this.table, this.#pk(id));
    return record && {
      id, state: stateOf(record, Date.now()),
      has_pin: record.pinHash !== undefined, attempts_left: record.pinAttempts ?? null,
      created_at: instant(record.createdAt), active_at: instant(record.activeAtMs),
      expires_at: instant(record.expiresAtMs), consumed_at: instant(record.consumedAt),
      canceled_at: instant(record.canceledAt), reason: record.consumedReason ?? record.canceledReason ?? null,
      consumer: json(record.consumedBy),
    };
  }

  // A caller that may have to ask again keeps the token: with it, the caller that has
  // consumed the action gets the same answer again.
  async consume(id, { pin, reason, consumer, token = randomUUID() } = {}) {
    const { attempt, refused } = pin ? await this.#attempt(id, pin, token) : {};
    if (refused) return refused;
    const now = Date.now();
    const { applied, record } = await this.#write(id,
      `${OPEN} AND ${READABLE} AND ${attempt ? 'contains(#pinTokens, :attempt)' : 'attribute_not_exists(#pinHash)'}`,
      `SET #consumedAt = :now, #consumedToken = :token${reason === undefined ? '' : ', #consumedReason = :reason'}`
      + `${consumer === undefined ? '' : ', #consumedBy = :consumer'} REMOVE #owner, #origin`,
      { now, token, attempt, reason, consumer: JSON.stringify(consumer), S: 'S' });
    const own = record?.consumedToken === token && record.consumedAt === now;
    return applied || own ? consumed(record, false) : this.#refused(id, record, now, token);
  }

  // An attempt is taken by a write of its own before the PIN is verified. The consume
  // after a right guess requires the attempt's token.
  async #attempt(id, pin, token) {
    const attempt = `${randomUUID()}/${token}`;
    const now = Date.now();
    const { applied, record } = await this.#write(id,
      `${OPEN} AND attribute_type(#pinHash, :S) AND #pinAttempts > :zero AND NOT contains(#pinTokens, :attempt) AND `
      + (this.pepper ? '#pinPepper = :pepper' : 'attribute_not_exists(#pinPepper)'),
      'SET #pinAttempts = #pinAttempts - :one ADD #pinTokens :attempts', {
        now, attempt, attempts: [attempt], zero: 0, one: 1, S: 'S',
        pepper: this.pepper && hmac(this.pepper, 'exactonce pin_pepper').toString('hex', 0, 4),
      });
    if (applied || record?.pinTokens?.includes(attempt)) {
      if (await isRight(id, pin, record.pinHash, this.pepper)) return { attempt };
      return { refused: { outcome: 'invalid_pin', attempts_left: record.pinAttempts } };
    }
    if (!record || stateOf(record, now) !== 'active') return { refused: await this.#refused(id, record, now, token) };
    if (record.pinHash) throw new Error(`the PIN of action ${id} was hashed with another pepper`);
    return {};                                          // none is asked for
  }

  async cancel(id, reason) {
    const token = randomUUID();
    const now = Date.now();
    const { applied, record } = await this.#write(id,
      `${NOT_FINAL} AND #expiresAtMs > :now AND (attribute_not_exists(#pinHash) OR #pinAttempts > :zero)`,
      `SET #canceledAt = :now, #canceledToken = :token${reason === undefined ? '' : ', #canceledReason = :reason'}`,
      { now, token, zero: 0, reason });
    if (applied || record?.canceledToken === token) return { outcome: 'canceled', replayed: false };
    const met = await this.#final(id, record, now);
    return met.outcome === 'canceled' ? { ...met, replayed: true } : met;
  }

  // An earlier guess of the same caller may have been right, and its consume be in
  // flight. After a double click the first one gets half a second before the action is
  // closed. Time is the subject: no condition can be waited for.
  async #refused(id, record, now, token) {
    const paid = record?.pinTokens?.some((attempt) => attempt.endsWith(`/${token}`));
    if (!paid || !isOpen(record, now)) return explain(record, now, token);
    await pause(500);
    return this.#final(id, record, now, token);
  }

  // An action that has expired or has no attempt left may still be consumed by a
  // request in flight. Closing it decides how it has ended.
  async #final(id, record, now, token) {
    if (!record || !isOpen(record, now)) return explain(record, now, token);
    const closed = await this.#write(id, `${NOT_FINAL} AND (#expiresAtMs <= :now OR #pinAttempts <= :zero)`,
      'SET #closedAt = :now', { now, zero: 0 });
    return explain(closed.record, now, token);
  }
}
