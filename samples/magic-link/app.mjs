// A link that logs in once, for a quarter of an hour: not because a mail filter followed it, and
// not twice because its button was pressed twice.
//
// Needs Express and node-postgres (npm install express pg); schema.sql has the table.
// Run: PGHOST=... PGDATABASE=... PGUSER=shop PORT=8080 node app.mjs

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import express from 'express';
import pg from 'pg';

const ATTEMPTS = 6;
const port = Number(process.env.PORT ?? 8080);

const pool = new pg.Pool({ max: 8, connectionTimeoutMillis: 5000 });
pool.on('error', (error) => console.warn(`an idle connection was lost: ${error.message}`));

// What is used here may be sent again: DynamoDB did not answer (ID006), or the connection was lost.
// The token of the button makes the answer the same.
async function query(text, values) {
  for (let attempt = 1; ; attempt++) {
    try {
      return (await pool.query(text, values)).rows[0];
    } catch (error) {
      const passes = !/^[0-9A-Z]{5}$/.test(error.code ?? '') || /^(ID006|40001|40P01|08...|57...)$/.test(error.code);
      if (attempt === ATTEMPTS || !passes) throw error;
      await pause(Math.min(2000, 100 * 2 ** attempt) * (0.5 + Math.random() / 2));
    }
  }
}

const page = (title, body = '') => `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>${title}</title>
<body><h1>${title}</h1>${body}</body></html>\n`;

const app = express();
app.use(express.urlencoded({ extended: false }));
app.use((request, response, next) => {
  // The address of the page is a secret: neither a cache nor another site is told.
  response.set({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' });
  next();
});

// Here the link is printed; a service sends it by mail.
app.post('/links', async (request, response) => {
  const { id } = await query(
    "SELECT id FROM action_create($1, expires_at => now() + interval '15 minutes')",
    [JSON.stringify({ customer: Number(request.body.customer) })]);
  console.log(`http://127.0.0.1:${port}/login/${id}`);
  response.status(202).send(page('We have sent you a mail'));
});

// A filter that follows the link gets no further than this page. The token in it belongs to the
// button: pressed again, it gets the same answer.
app.get('/login/:id', async (request, response) => {
  const action = await query('SELECT state FROM action_get($1)', [request.params.id]);
  if (action?.state !== 'active') {
    response.status(410).send(page('This link is no longer valid'));
    return;
  }
  response.send(page('Log in', `<form method="post">
<input type="hidden" name="token" value="${randomUUID()}"><button>Log in</button></form>`));
});

app.post('/login/:id', async (request, response) => {
  const { id } = request.params;
  const { token } = request.body;
  if (!/^[0-9a-f-]{36}$/.test(token ?? '')) {
    response.status(400).send(page('Open the link again'));
    return;
  }
  const used = await query(
    "SELECT outcome, http_status, payload FROM action_consume($1, token => $2, reason => 'login')", [id, token]);
  if (used.outcome !== 'consumed') {
    response.status(used.http_status).send(page('This link is no longer valid'));
    return;
  }
  // Consuming takes effect at once. If this is not reached, the button is pressed again.
  const { secret } = await query(
    `INSERT INTO sessions (button, customer) VALUES ($1, $2)
     ON CONFLICT (button) DO UPDATE SET customer = excluded.customer RETURNING secret`, [token, used.payload.customer]);
  response.cookie('session', secret, { httpOnly: true, sameSite: 'lax', secure: process.env.INSECURE !== '1' });
  response.send(page(`Welcome, customer ${used.payload.customer}`));
});

// Express knows a handler of errors by its four arguments.
app.use((error, request, response, next) => {
  console.error(error.message);
  response.status(503).set('Retry-After', '5').send(page('Please try again'));
});

app.listen(port, '127.0.0.1');
