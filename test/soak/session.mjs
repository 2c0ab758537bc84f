// A session in PostgreSQL, and how one attempt ends in it.

import { createRequire } from 'node:module';

// The packages are those of the interop tests.
const pg = createRequire(new URL('../interop/', import.meta.url))('pg');

// Whether an error is the server's word that the statement has failed. A server that
// shuts down (57P..) may have committed before, and so may one that has left its pooler (08P01).
function isDefinite(error) {
  return error.severity !== undefined && !/^(57P|08)/.test(error.code);
}

export class Session {
  // other: it goes by the servers of the other address of each table.
  constructor({ label, host, port }, database, other = false) {
    this.label = label;
    this.other = other;
    this.lost = false;
    this.client = new pg.Client({ host, port, user: 'postgres', database, connectionTimeoutMillis: 3000 });
    this.client.on('error', () => { this.lost = true; });
    this.left = new Promise((resolve, reject) => {
      this.leave = () => { this.lost = true; reject(new Error('left')); };
    });
    this.left.catch(() => {});
  }

  async open() {
    try {
      await Promise.race([this.client.connect(), this.left]);
      await this.ask("SET statement_timeout = '20s'; SET lock_timeout = '5s'");
      if (this.other) await this.ask("SET exactonce.server = 'other'");
      return true;
    } catch {
      this.lost = true;
      return false;
    }
  }

  close() {
    // A server that is stopped does not answer a farewell.
    if (this.lost) this.client.connection.stream.destroy();
    else this.client.end().catch(() => {});
  }

  // Closes the connection without a word, as a client does that dies.
  vanish() {
    this.lost = true;
    this.client.connection.stream.destroy();
  }

  async ask(text, values) {
    try {
      return await Promise.race([this.client.query(text, values), this.left]);
    } catch (error) {
      if (error.severity === undefined || /^57P|FATAL|PANIC/.test(error.code + error.severity)) this.lost = true;
      throw error;
    }
  }

  // Runs a transaction block for an attempt, and notes how it has ended: commit, rollback,
  // error (the server said that COMMIT failed) or unknown. Nothing can be committed
  // before COMMIT is sent.
  transaction(attempt, body) {
    return this.#transaction(attempt, body, 'COMMIT', 'commit');
  }

  // The same, and the transaction is prepared under the attempt's id: prepared, and not commit.
  prepare(attempt, body) {
    return this.#transaction(attempt, body, `PREPARE TRANSACTION '${attempt.id}'`, 'prepared');
  }

  async #transaction(attempt, body, last, end) {
    attempt.end = 'rollback';
    try {
      await this.ask('BEGIN');
      await this.ask(`SET LOCAL application_name = '${attempt.id}'`);
      if (attempt.lazy) await this.ask('SET LOCAL synchronous_commit = off');
      if (attempt.isolation) await this.ask(`SET TRANSACTION ISOLATION LEVEL ${attempt.isolation}`);
      await body();
      if (attempt.how === 'vanish') return this.vanish();
      if (attempt.how === 'terminate') await this.ask('SELECT pg_terminate_backend(pg_backend_pid())');
      if (attempt.how === 'rollback') return void await this.ask('ROLLBACK');
    } catch (error) {
      attempt.code = error.code ?? error.message;
      if (!this.lost) await this.ask('ROLLBACK').catch(() => {});
      return;
    }
    await this.decide(attempt, async () => {
      const { command } = await this.ask(last);
      return command === 'ROLLBACK' ? 'rollback' : end;
    });
  }

  // Runs a single statement that commits by itself.
  async statement(attempt, text, values) {
    let answer;
    try {
      await this.ask(`SET application_name = '${attempt.id}'`);
    } catch (error) {
      attempt.code = error.code ?? error.message;
      return null;
    }
    await this.decide(attempt, async () => {
      answer = await this.ask(text, values);
      return 'commit';
    });
    return answer?.rows[0];
  }

  async decide(attempt, ask) {
    attempt.end = 'unknown';
    try {
      attempt.end = await ask();
    } catch (error) {
      attempt.code = error.code ?? error.message;
      if (isDefinite(error)) attempt.end = 'error';
    }
  }
}
