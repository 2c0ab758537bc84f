// A webhook receiver: each Idempotency-Key is processed once, and every delivery gets the same
// answer.
//
// Needs Express and node-postgres (npm install express pg); ../schema.sql has the table.
// Run: PGHOST=... PGDATABASE=... PGUSER=shop PORT=8080 node app.mjs

import { setTimeout as pause } from 'node:timers/promises';
import express from 'express';
import pg from 'pg';

const ATTEMPTS = 6;

// Another attempt may succeed: deadlock, serialization failure, and what exactonce says of keys that
// are in progress or lost, and of DynamoDB when it does not answer.
const PASSING = ['40001', '40P01', 'ID001', 'ID002', 'ID006'];

// The pool takes the address from libpq's variables: PGHOST, PGDATABASE, PGUSER, ...
const pool = new pg.Pool({ max: 8, connectionTimeoutMillis: 5000 });

// A connection that is lost fails its query. It also emits this event, which ends a program that does
// not listen for it, whether the connection is idle or in use.
const lost = (error) => console.warn(`a connection was lost: ${error.message}`);
pool.on('error', lost);
pool.on('connect', (db) => db.on('error', lost));

// The work. Whatever it does in this transaction is done once.
async function takePayment(db, event) {
  const { rows: [payment] } = await db.query(
    'INSERT INTO payments (invoice, amount) VALUES ($1, $2) RETURNING receipt', [event.invoice, event.amount]);
  return payment;
}

// One attempt, which is one transaction: claim, work, completion.
async function processOnce(key, event) {
  const db = await pool.connect();
  let failure;
  try {
    await db.query('BEGIN');
    const { rows: [claim] } = await db.query(
      `SELECT outcome, http_status, retry_after, result, error
       FROM idem_acquire($1, payload => $2, wait => '5s')`, [key, JSON.stringify(event)]);
    if (claim.outcome === 'acquired') {
      claim.result = await takePayment(db, event);
      await db.query('SELECT idem_complete($1, $2)', [key, JSON.stringify(claim.result)]);
    }
    await db.query('COMMIT');
    return claim;                               // it has committed: only now may others be told
  } catch (error) {
    failure = error;
    await db.query('ROLLBACK').then(() => { failure = undefined; }, () => {});
    throw error;
  } finally {
    db.release(failure);                        // a connection that cannot even roll back is closed
  }
}

// May the next attempt succeed? No SQLSTATE: the connection was lost, or could not be had.
function mayPass({ code }) {
  return !/^[0-9A-Z]{5}$/.test(code ?? '') || PASSING.includes(code) || /^(08|57)/.test(code);
}

// If the connection was lost in COMMIT, the next claim finds out whether it had committed.
async function processWithRetries(key, event) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await processOnce(key, event);
    } catch (error) {
      if (attempt === ATTEMPTS || !mayPass(error)) throw error;
      console.warn(`attempt ${attempt} for ${key}: ${error.message}`);
      await pause(Math.min(2000, 100 * 2 ** attempt) * (0.5 + Math.random() / 2));
    }
  }
}

const app = express();
app.use(express.json());

app.post('/webhook', async (request, response) => {
  const key = request.get('Idempotency-Key');
  const event = request.body;
  if (!key || event?.invoice === undefined || event.amount === undefined) {
    response.status(400).json({ error: 'a header Idempotency-Key, and an invoice and an amount are needed' });
    return;
  }
  let claim;
  try {
    // With more than one sender, the sender is a part of the key.
    claim = await processWithRetries(`webhook/${key}`, event);
  } catch (error) {
    if (error.code === 'ID003') {
      response.status(422).json({ error: 'this key was used for another event' });
    } else if (/^2[23]...$/.test(error.code)) {
      response.status(422).json({ error: 'this event cannot be processed' });
    } else if (mayPass(error)) {
      response.status(503).set('Retry-After', '5').json({ error: 'try again' });
    } else {
      console.error(key, error);
      response.status(500).json({ error: 'for people to look at' });
    }
    return;
  }
  if (claim.outcome === 'completed') response.set('Idempotency-Replayed', 'true');
  if (claim.retry_after !== null) response.set('Retry-After', String(claim.retry_after));
  response.status(claim.http_status).json(claim.result ?? { error: claim.outcome });
});

app.listen(Number(process.env.PORT ?? 8080), '127.0.0.1');
