// A transaction manager: it ends the transactions that clients have prepared, from other
// sessions, as it has decided before. Whatever it finds prepared in a history it ends there,
// again and again: a failover may bring back a transaction that was ended already, and a
// copy of a cluster has what the original has. In a copy it only rolls back, because the
// original's transaction is the one that counts.

import { setTimeout as pause } from 'node:timers/promises';
import { Session } from './session.mjs';

const DATABASES = ['postgres', 'two'];

const PREPARED = 'SELECT gid FROM pg_prepared_xacts WHERE database = current_database()';

// Of two histories of A the later one counts.
const age = (label) => (label.startsWith('A') ? Number(label.slice(1)) : 0);

// Whether a transaction may be prepared at a place: that of its history, of an heir or copy of it.
function mayBeAt({ attempt, doneAt }, { label }) {
  return !doneAt.has(label) && (attempt.label[0] === label[0] || (attempt.label === 'B' && label[0] === 'C'));
}

export class Manager {
  #entries = new Map();
  #looping = [];

  // How ends of prepared transactions were answered: 'commit', 'ID002' ...
  answers = [];
  #stopped = true;

  // An attempt is about to prepare a transaction under its id. Unless it is told that it is
  // prepared, the transaction is rolled back, should it be found.
  expect(attempt) {
    this.#entries.set(attempt.id, { attempt, commits: false, due: Infinity, doneAt: new Set() });
  }

  // The transaction is prepared. Until its end begins its keys are in progress.
  takeOver(attempt) {
    const now = Date.now();
    Object.assign(this.#entries.get(attempt.id), { commits: !attempt.undo, due: now + attempt.stay });
    attempt.window = { from: now, until: Infinity, keys: Object.keys(attempt.did), labels: [attempt.label] };
  }

  // Ends what is due at all places, until stop() is called. places(): see clients.mjs.
  begin(places) {
    this.#entries.clear();
    this.answers = [];
    this.#stopped = false;
    this.#looping = ['A', 'B', 'C', 'O'].map((name) => this.#loop(name, places));
  }

  async #loop(name, places) {
    for (let pass = 0; !this.#stopped; pass++) {
      await pause(100);
      const place = places()[name];
      const database = DATABASES[pass % 2];
      if (place && this.#due(database).some((entry) => mayBeAt(entry, place))) await this.endAll(name, place, database);
    }
  }

  async stop() {
    this.#stopped = true;
    await Promise.all(this.#looping);
    for (const entry of this.#entries.values()) entry.due = 0;
  }

  #due(database) {
    const now = Date.now();
    return [...this.#entries.values()].filter(({ attempt, due }) => due <= now && attempt.database === database);
  }

  // Ends what is prepared in a database and due.
  async endAll(name, place, database) {
    const due = this.#due(database);
    const session = new Session(place, database);
    const late = setTimeout(() => session.leave(), 5000);
    try {
      if (!await session.open()) return;
      const there = new Set((await session.ask(PREPARED)).rows.map(({ gid }) => gid));
      for (const entry of due) {
        if (there.has(entry.attempt.id)) await this.#end(session, entry, name);
        // What is known to be prepared, and is not there, will not come.
        if (entry.attempt.window) entry.doneAt.add(place.label);
      }
    } catch {
      // The next pass tries again.
    } finally {
      clearTimeout(late);
      session.close();
    }
  }

  async #end(session, { attempt, commits }, name) {
    const isCopy = session.label.startsWith('C') && !attempt.label.startsWith('C');
    // The end in a history that is lost, or is not the original, ends nothing for the others.
    if (attempt.window && name !== 'O' && !isCopy) {
      attempt.window.labels.push(session.label);
      attempt.window.until = Math.min(attempt.window.until, Date.now());
    }
    if (isCopy || !commits) {
      await session.ask(`ROLLBACK PREPARED '${attempt.id}'`);
      this.answers.push(`rollback on ${name}`);
      return;
    }
    const before = attempt.end;
    if (before !== 'commit') attempt.end = 'unknown';
    try {
      await session.ask(`COMMIT PREPARED '${attempt.id}'`);
    } catch (error) {
      attempt.code = error.code ?? error.message;
      this.answers.push(`${attempt.code} on ${name}`);
      // Refused: an heir has taken over from the life of the transaction, so far as is known.
      if (error.code === 'ID002' && attempt.end !== 'commit') attempt.end = before;
      throw error;
    }
    this.answers.push(`commit ${attempt.end === 'commit' ? 'again ' : ''}on ${name}`);
    if (attempt.end === 'commit' && age(session.label) < age(attempt.label)) return;
    Object.assign(attempt, { end: 'commit', label: session.label, code: undefined });
  }
}
