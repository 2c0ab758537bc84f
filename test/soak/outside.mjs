// Services beside PostgreSQL that have only the AWS SDK: they keep to docs/records.md and
// docs/actions.md by the reference clients of the interop tests. Their work is that they
// complete the key.

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Actions } from '../interop/actions.mjs';
import { Keys } from '../interop/client.mjs';
import { connect } from '../interop/connect.mjs';
import { runFunction } from './lambda.mjs';

const dynamodb = await connect();

export class Outside {
  constructor(table) {
    this.table = table;
    this.actions = new Actions(dynamodb, table);
  }

  async run(attempt, clients) {
    const keys = new Keys(dynamodb, this.table, { lease: attempt.leaseMs, skew: 1000, holder: attempt.id });
    try {
      if (attempt.kind === 'lambda') await runFunction(`${this.table}_shared`, attempt);
      else if (attempt.kind === 'action') await this.#act(attempt);
      else if (attempt.kind === 'token') await this.#completeShared(keys, attempt, clients);
      else await this.#runOwn(keys, attempt);
    } catch (error) {
      attempt.code = error.name;
    }
    if (attempt.pause) await pause(attempt.pause);
  }

  async #runOwn(keys, attempt) {
    const [key] = attempt.keys;
    const { outcome, token, record, result } = await keys.acquire(key);
    attempt.got[key] = [outcome, result, token, record.fence, Date.now()];
    if (outcome !== 'acquired') return;
    if (attempt.pause) await pause(attempt.pause);
    if (attempt.kind === 'release') await keys.release(key, token);
    else if (attempt.kind === 'fail') await keys.fail(key, token, 'it fails', { retryAfter: 100 });
    else if (attempt.kind === 'work') await this.#complete(keys, attempt, key, token);
    // Or it dies, and its lease has to run out.
  }

  async #complete(keys, attempt, key, token) {
    attempt.did[key] = token;
    attempt.end = 'unknown';
    const done = await keys.complete(key, token, attempt.id);
    // Another owner of the same token may be committing, whose seal can be undone.
    attempt.end = done ? 'commit' : attempt.shared ? 'unknown' : 'error';
  }

  // Completes a claim that a session in PostgreSQL has made.
  async #completeShared(keys, attempt, clients) {
    const [key, token] = [...clients.kept].at(-1 - (attempt.pick % Math.max(1, clients.kept.size))) ?? [];
    attempt.keys = key ? [key] : [];
    attempt.shared = true;
    if (!key) return;
    attempt.got[key] = ['passed', null, token];
    await this.#complete(keys, attempt, key, token);
  }

  async #act(attempt) {
    const [id] = attempt.keys;
    const token = randomUUID();
    attempt.keys = [];
    attempt.action = { id, token, verb: attempt.verb };
    const { outcome, replayed } = attempt.verb === 'cancel' ? await this.actions.cancel(id)
      : await this.actions.consume(id, { token });
    Object.assign(attempt.action, { outcome, replayed });
  }
}
