// A reference client for docs/records.md on the AWS SDK: what another service
// does to share keys with PostgreSQL. Kept short on purpose.

import { randomUUID } from 'node:crypto';
import { GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';

const EXPIRY_MARGIN_S = 300;
const wire = (value) => (typeof value === 'number' ? { N: String(value) } : { S: value });
const plain = (item) => item && Object.fromEntries(
  Object.entries(item).map(([name, { S, N }]) => [name, S ?? Number(N)]));

export class Keys {
  constructor(dynamodb, table, { prefix = '', lease = 60000, retention = 7 * 86400, skew = 2000 } = {}) {
    Object.assign(this, { dynamodb, table, prefix, lease, retention, skew });
  }

  // One conditional write: {applied, record}. values are named as in the expressions.
  async #write(key, condition, update, values) {
    const all = `${condition} ${update}`;
    const used = all.match(/#\w+/g).map((name) => name.slice(1));
    try {
      const reply = await this.dynamodb.send(new UpdateItemCommand({
        TableName: this.table,
        Key: { pk: { S: this.#pk(key) } },
        ConditionExpression: condition,
        UpdateExpression: update,
        ExpressionAttributeNames: Object.fromEntries(used.map((name) => [`#${name}`, name])),
        ExpressionAttributeValues: Object.fromEntries(Object.entries(values)
          .filter(([name]) => all.match(new RegExp(`:${name}\\b`)))
          .map(([name, value]) => [`:${name}`, wire(value)])),
        ReturnValues: 'ALL_NEW',
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      }));
      return { applied: true, record: plain(reply.Attributes) };
    } catch (error) {
      if (error.name !== 'ConditionalCheckFailedException') throw error;
      return { applied: false, record: plain(error.Item) };
    }
  }

  #pk(key) {
    return `IDEMPOTENCY#${this.prefix}${key}`;
  }

  async acquire(key, token = randomUUID()) {
    for (;;) {
      const now = Date.now();
      const values = {
        now, due: now - this.skew, until: now + this.lease, one: 1, zero: 0, owner: token, bind: 'keep',
        ttl: Math.ceil((now + this.lease) / 1000) + this.retention, open: 'IN_PROGRESS', failed: 'FAILED',
      };
      const { applied, record } = await this.#write(key,
        '(attribute_not_exists(#pk) OR (#status = :failed AND #retry_ms <= :now AND #owner <> :owner)'
        + ' OR (#status = :open AND #lease_ms < :due))',
        'SET #status = :open, #owner = :owner, #bind = :bind, #fence = if_not_exists(#fence, :now) + :one,'
        + ' #runs = if_not_exists(#runs, :zero) + :one, #lease_ms = :until, #ttl = :ttl,'
        + ' #created_ms = if_not_exists(#created_ms, :now), #updated_ms = :now'
        + ' REMOVE #result, #error, #retry_ms, #origin', values);
      if (applied || (record?.owner === token && record.status === 'IN_PROGRESS')) {
        return { outcome: 'acquired', token, record };
      }
      if (!record) continue;
      if (['COMPLETED', 'FAILED'].includes(record.status) && record.ttl + EXPIRY_MARGIN_S < now / 1000) {
        const replaced = await this.#write(key,
          '#status = :s AND #owner = :o AND #fence = :f AND #updated_ms = :u AND #ttl = :t',
          'SET #status = :open, #owner = :owner, #bind = :bind, #fence = #fence + :one, #runs = :one,'
          + ' #lease_ms = :until, #ttl = :ttl, #created_ms = :now, #updated_ms = :now'
          + ' REMOVE #result, #error, #retry_ms, #origin, #payload_sha256',
          { ...values, s: record.status, o: record.owner, f: record.fence, u: record.updated_ms, t: record.ttl });
        if (replaced.applied) return { outcome: 'acquired', token, record: replaced.record };
        continue;
      }
      if (record.status === 'COMPLETED') {
        return { outcome: 'completed', record, result: record.result && JSON.parse(record.result) };
      }
      if (record.status !== 'FAILED') return { outcome: 'in_progress', record };
      if (record.retry_ms === undefined) return { outcome: 'failed', record };
      if (record.retry_ms > now) return { outcome: 'retry_later', record };
    }
  }

  // What an owner does. True: done, now or by an attempt whose answer was lost.
  async #settle(key, token, status, update, values) {
    const now = Date.now();
    const { applied, record } = await this.#write(key, '#status = :open AND #owner = :owner',
      `SET #status = :status, #updated_ms = :now, #ttl = :ttl${update}`,
      { open: 'IN_PROGRESS', owner: token, status, now, ttl: Math.ceil(now / 1000) + this.retention, one: 1, ...values });
    return applied || (record?.owner === token && record.status === status);
  }

  complete(key, token, result) {
    return this.#settle(key, token, 'COMPLETED', ', #result = :result REMOVE #lease_ms, #retry_ms, #error',
      { result: JSON.stringify(result) });
  }

  fail(key, token, error, { retryAfter = 0, terminal = false } = {}) {
    return this.#settle(key, token, 'FAILED', terminal
      ? ', #error = :error REMOVE #lease_ms, #result, #retry_ms'
      : ', #error = :error, #retry_ms = :retry REMOVE #lease_ms, #result',
    { error: JSON.stringify(error), retry: Date.now() + retryAfter });
  }

  release(key, token) {
    return this.#settle(key, token, 'FAILED',
      ', #retry_ms = :now, #runs = #runs - :one REMOVE #lease_ms, #result, #error', {});
  }

  async get(key) {
    const reply = await this.dynamodb.send(new GetItemCommand({
      TableName: this.table, Key: { pk: { S: this.#pk(key) } }, ConsistentRead: true,
    }));
    return plain(reply.Item);
  }
}
