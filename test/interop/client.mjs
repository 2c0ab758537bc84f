// A reference client for docs/records.md on the AWS SDK. It shows how another service
// shares keys with PostgreSQL. To keep it short it does not extend leases, note progress or
// limit runs, and it trusts the clock of its host.

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { read, write } from './conditional.mjs';

const EXPIRY_MARGIN_S = 300;

export class Keys {
  constructor(dynamodb, table, { prefix = '', lease = 60000, retention = 7 * 86400, skew = 2000,
    holder = `node on ${hostname()}`.slice(0, 64) } = {}) {
    Object.assign(this, { dynamodb, table, prefix, lease, retention, skew, holder });
  }

  #write(key, condition, update, values) {
    return write(this.dynamodb, this.table, this.#pk(key), condition, update, values);
  }

  #pk(key) {
    return `IDEMPOTENCY#${this.prefix}${key}`;
  }

  async acquire(key, { token = randomUUID(), fingerprint } = {}) {
    const payload = fingerprint ? ' AND (attribute_not_exists(#payload_sha256) OR #payload_sha256 = :fingerprint)' : '';
    const set = fingerprint ? ', #payload_sha256 = :fingerprint' : '';
    for (;;) {
      const now = Date.now();
      const values = {
        now, due: now - this.skew, until: now + this.lease, one: 1, zero: 0, owner: token, bind: 'keep',
        ttl: Math.ceil((now + this.lease) / 1000) + this.retention, open: 'IN_PROGRESS', failed: 'FAILED',
        fingerprint, retention: this.retention, holder: this.holder,
      };
      const { applied, record } = await this.#write(key,
        `attribute_not_exists(#pk) OR (#status = :failed AND #retry_ms <= :now AND #owner <> :owner${payload})`
        + ` OR (#status = :open AND #lease_ms < :due${payload})`,
        'SET #status = :open, #owner = :owner, #bind = :bind, #fence = if_not_exists(#fence, :now) + :one,'
        + ' #runs = if_not_exists(#runs, :zero) + :one, #lease_ms = :until, #ttl = :ttl,'
        + ' #created_ms = if_not_exists(#created_ms, :now), #updated_ms = :now,'
        + ` #retention_s = :retention, #holder = :holder${set}`
        + ' REMOVE #result, #error, #retry_ms, #origin', values);
      if (applied || (record?.owner === token && record.status === 'IN_PROGRESS')) {
        return { outcome: 'acquired', token, record };
      }
      if (!record) continue;
      if (['COMPLETED', 'FAILED'].includes(record.status) && record.ttl + EXPIRY_MARGIN_S < now / 1000) {
        const replaced = await this.#write(key,
          '#status = :s AND #owner = :o AND #fence = :f AND #updated_ms = :u AND #ttl = :t',
          'SET #status = :open, #owner = :owner, #bind = :bind, #fence = #fence + :one, #runs = :one,'
          + ' #lease_ms = :until, #ttl = :ttl, #created_ms = :now, #updated_ms = :now,'
          + ` #retention_s = :retention, #holder = :holder${set}`
          + ` REMOVE #result, #error, #retry_ms, #origin, #handler, #spared, #progress, #progress_no${fingerprint ? '' : ', #payload_sha256'}`,
          { ...values, s: record.status, o: record.owner, f: record.fence, u: record.updated_ms, t: record.ttl });
        if (replaced.applied) return { outcome: 'acquired', token, record: replaced.record };
        continue;
      }
      if (fingerprint && record.payload_sha256 && record.payload_sha256 !== fingerprint) {
        throw new Error(`key ${key} was used with another payload`);
      }
      if (record.status === 'COMPLETED') {
        return { outcome: 'completed', record, result: record.result && JSON.parse(record.result) };
      }
      if (record.status !== 'FAILED') return { outcome: 'in_progress', record };
      if (record.retry_ms === undefined) return { outcome: 'failed', record };
      if (record.retry_ms > now) return { outcome: 'retry_later', record };
      if (record.owner === token) token = randomUUID();
    }
  }

  // Ends a claim of this owner. Returns true if this write did, or an earlier attempt of
  // it whose answer was lost.
  async #settle(key, token, status, condition, update, values, until = Date.now()) {
    const { applied, record } = await this.#write(key, `#owner = :owner AND ${condition}`,
      `SET #status = :status, #updated_ms = :now, #ttl = :from + if_not_exists(#retention_s, :retention)${update}`, {
        open: 'IN_PROGRESS', owner: token, status, now: Date.now(), one: 1, zero: 0,
        from: Math.ceil(until / 1000), retention: this.retention, ...values,
      });
    return applied || (record?.owner === token && record.status === status
      && (status !== 'COMPLETED' || record.result === values.result));
  }

  complete(key, token, result = null) {
    return this.#settle(key, token, 'COMPLETED', '#status = :open',
      ', #result = :result REMOVE #lease_ms, #retry_ms, #error, #origin, #progress, #progress_no', { result: JSON.stringify(result) });
  }

  fail(key, token, error, { retryAfter = 0, terminal = false } = {}) {
    const retry = retryAfter > 0 ? Date.now() + retryAfter : 0;
    return this.#settle(key, token, 'FAILED', '(#status = :open OR #status = :status)', terminal
      ? ', #error = :error REMOVE #lease_ms, #result, #retry_ms'
      : ', #error = :error, #retry_ms = :retry REMOVE #lease_ms, #result',
    { error: JSON.stringify(error ?? null), retry }, Math.max(retry, Date.now()));
  }

  release(key, token) {
    return this.#settle(key, token, 'FAILED', '#status = :open',
      ', #retry_ms = :zero, #runs = #runs - :one REMOVE #lease_ms, #result, #error', {});
  }

  get(key) {
    return read(this.dynamodb, this.table, this.#pk(key));
  }
}
