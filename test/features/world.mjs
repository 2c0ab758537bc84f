// The world of the steps: a shop whose customers must be charged once, the people
// who deliver events to it, and a service that is not PostgreSQL.
//
// All steps wait for conditions. A lock (the slow bank) holds a handler, and the
// proxy holds a request.

import { randomUUID } from 'node:crypto';
import { World } from '@cucumber/cucumber';
import pg from 'pg';
import { pace, timeouts } from '../harness/pace.mjs';
import { until } from '../harness/util.mjs';
import { Actions } from '../interop/actions.mjs';
import { Keys } from '../interop/client.mjs';
import { connect } from '../interop/connect.mjs';
import { control } from '../interop/control.mjs';
import { fingerprint } from '../interop/fingerprint.mjs';

const TABLE = 'features';
const ACCOUNTS = 'features_accounts';
const PARK_AFTER = 3;
const SHARED = ['shop', 'portal'];
let scenarios = 0;
let dynamodb;

const schema = `
CREATE EXTENSION exactonce;
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
  OPTIONS (region 'eu-west-1', table '${TABLE}', endpoint '${process.env.EO_ENDPOINT}', clock_skew '0',
    transact_tables '${ACCOUNTS}'${timeouts});
CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');

CREATE TABLE charges (receipt int GENERATED ALWAYS AS IDENTITY, event text, euros int);
CREATE TABLE card (declined bool);
INSERT INTO card VALUES (false);
CREATE SEQUENCE tries;                                  -- counts what is rolled back, too
CREATE FUNCTION charge(payload jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answer jsonb;
BEGIN
  PERFORM nextval('tries');
  INSERT INTO charges (event, euros) VALUES (payload->>'event', (payload->>'euros')::int)
    RETURNING jsonb_build_object('receipt', receipt) INTO answer;
  PERFORM pg_advisory_xact_lock_shared(1);              -- the bank
  IF (SELECT declined FROM card) THEN
    RAISE EXCEPTION 'the card is declined' USING ERRCODE = 'CARD1';
  END IF;
  RETURN answer;
END $$;

CREATE TABLE orders (number text);
CREATE TRIGGER once AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION idem_guard('number', 'prefix=order/');

CREATE TABLE reduced (coupon text, customer text);      -- orders with a coupon
`;

// What the sender of an event is told for each SQLSTATE. A server that is killed sends
// no SQLSTATE, or 57P02 to its other sessions.
const words = {
  ID001: 'come back later', ID007: 'not possible', ID003: 'not the same event', ID004: 'parked', CARD1: 'card declined',
  23505: 'the number is taken', 57014: 'stopped', '57P02': 'no answer', '57P03': 'no answer',
};
const refusal = (error) => ({
  refused: words[error.code] ?? (error.code?.length === 5 ? `${error.code} ${error.message}` : 'no answer'),
});

export const isFinal = ({ refused }) => !['come back later', 'no answer'].includes(refused);

// What the user of an action is told for each outcome.
const ends = {
  already_used: 'used already', not_active: 'not valid yet', expired: 'not valid any more', canceled: 'withdrawn',
  burned: 'locked',
};
const tries = (n) => ['no tries', '1 try'][n] ?? `${n} tries`;

function heard({ outcome, payload, attempts_left: left }) {
  if (outcome === 'consumed') return { good_for: payload };
  return { refused: outcome === 'invalid_pin' ? `wrong PIN, ${tries(left)} left` : ends[outcome] ?? outcome };
}

// Asks the engine itself, past the proxy.
async function engine(operation, body) {
  const answer = await fetch(process.env.EO_ENGINE_URL, {
    method: 'POST',
    body: JSON.stringify({ TableName: ACCOUNTS, ...body }),
    headers: {
      'Content-Type': 'application/x-amz-json-1.0', 'X-Amz-Target': `DynamoDB_20120810.${operation}`,
      Authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, '
        + 'SignedHeaders=host, Signature=0',
      'X-Amz-Date': '20260101T000000Z',
    },
  });
  if (!answer.ok) throw new Error(`${operation}: ${await answer.text()}`);
  return answer.json();
}

async function connected(database) {
  const client = new pg.Client({ database });
  client.on('error', () => {});                         // the server was killed under it
  await client.connect();
  return client;
}

export async function openShop() {
  const admin = await connected('postgres');
  for (const database of SHARED) {
    await admin.query(`CREATE DATABASE ${database}`);
    const client = await connected(database);
    await client.query(schema);
    await client.query('SELECT idem_create_table()');
    await client.query('SELECT idem_once($1)', [`${database} opens`]);    // has the worker started
    await client.end();
  }
  await admin.end();
  dynamodb = await connect();
  await engine('CreateTable', {
    BillingMode: 'PAY_PER_REQUEST', KeySchema: [{ AttributeName: 'owner', KeyType: 'HASH' }],
    AttributeDefinitions: [{ AttributeName: 'owner', AttributeType: 'S' }],
  });
}

export const closeShop = () => dynamodb?.destroy();

export class Shop extends World {
  #sessions = [];
  #name = `s${++scenarios}/`;                           // scenarios use the same numbers
  answers = [];
  lambda = { charges: 0, answers: [] };
  told = {};
  tokens = {};

  // -- sessions ---------------------------------------------------------------

  async session(database = 'shop') {
    const client = await connected(database);
    this.#sessions.push(client);
    return client;
  }

  async query(text, values, database) {
    const client = await connected(database ?? 'shop');
    try {
      return (await client.query(text, values)).rows[0];
    } finally {
      await client.end();
    }
  }

  async close() {
    await control('POST', '/reset');
    await Promise.allSettled([...this.#sessions.map((client) => client.end()), ...this.answers]);
    // A scenario that failed may leave a server that is still starting.
    await until('a server for the next scenario',
      () => this.query('UPDATE card SET declined = false').then(() => true, () => false));
  }

  // -- events -----------------------------------------------------------------

  async expect(event, euros) {
    this.event = { event: this.#name + event, euros };
    this.key = this.event.event;
    this.answers = [];
    await this.query("SELECT setval('tries', 1)");
  }

  // Delivers the event, and returns without waiting for the answer.
  async deliver({ session, euros = this.event.euros, lease = '60 s', wait = '0' } = {}) {
    const client = session ?? await this.session();
    const answer = client.query(
      `SELECT idem_call($1, 'charge(jsonb)', $2, lease => $3, wait => $4, max_runs => ${PARK_AFTER}) AS answer`,
      [this.key, JSON.stringify({ ...this.event, euros }), lease, wait]).then(({ rows }) => rows[0].answer, refusal);
    this.answers.push(answer);
    return { client, answer };
  }

  async delivered(how) {
    const { answer } = await this.deliver(how);
    return answer;
  }

  // Processes the event in a transaction that is prepared under the name of its key.
  async prepare() {
    const client = await this.session();
    await client.query('BEGIN');
    await client.query("SELECT idem_call($1, 'charge(jsonb)', $2)", [this.key, JSON.stringify(this.event)]);
    await client.query(`PREPARE TRANSACTION '${this.key}'`);
    await client.end();
  }

  async deliverUntilAnswered() {
    return until('a final answer', async () => {
      const answer = await this.delivered();
      return isFinal(answer) && answer;
    });
  }

  last() {
    return this.answers.at(-1);
  }

  // The receipts in the form of an answer. A charge of another amount does not count.
  async receipts() {
    const { receipts } = await this.query(
      "SELECT coalesce(json_agg(json_build_object('receipt', receipt)), '[]') AS receipts"
      + ' FROM charges WHERE event = $1 AND euros = $2', [this.event.event, this.event.euros]);
    return receipts;
  }

  async charges() {
    const { count } = await this.query('SELECT count(*)::int FROM charges WHERE event = $1', [this.event.event]);
    return count + this.lambda.charges;
  }

  async tries() {
    return Number((await this.query('SELECT last_value - 1 AS tries FROM tries')).tries);
  }

  // -- the bank ---------------------------------------------------------------

  async slowBank() {
    this.bank = await this.session();
    await this.bank.query('SELECT pg_advisory_lock(1)');
  }

  bankAnswers() {
    return this.bank.query('SELECT pg_advisory_unlock(1)');
  }

  async waitsFor(client, locktype) {
    await until(`a session that waits for ${locktype}`, async () => (await this.query(
      'SELECT count(*)::int FROM pg_locks WHERE pid = $1 AND locktype = $2 AND NOT granted',
      [client.processID, locktype])).count > 0);
  }

  async startHandler(how) {
    this.handler = await this.deliver(how);
    await this.waitsFor(this.handler.client, 'advisory');
  }

  cancel({ client }) {
    return this.query('SELECT pg_cancel_backend($1)', [client.processID]);
  }

  // -- mailers ------------------------------------------------------------------

  mailers = {};

  // Asks for the lead in the mailer's own session.
  async wantsToLead(mailer) {
    this.mailers[mailer] ??= await this.session();
    const { rows } = await this.mailers[mailer].query(
      "SELECT outcome, mine FROM idem_acquire($1, on_commit => 'session')", [`${this.#name}leader`]);
    return rows[0].outcome === 'acquired' || rows[0].mine ? 'leads' : rows[0].outcome;
  }

  async leadsWithin(mailer, seconds) {
    const began = Date.now();
    await until(`the ${mailer} mailer leads`, async () => await this.wantsToLead(mailer) === 'leads');
    return (Date.now() - began) / 1000 < seconds * pace;
  }

  async resigns(mailer) {
    await this.mailers[mailer].query('SELECT idem_release($1)', [`${this.#name}leader`]);
  }

  async cutOff(mailer) {
    await this.query('SELECT pg_terminate_backend($1)', [this.mailers[mailer].processID]);
  }

  async rollsBack(mailer) {
    await this.mailers[mailer].query('BEGIN');
    await this.mailers[mailer].query('SELECT idem_complete($1)', [`${this.#name}leader`]);
    await this.mailers[mailer].query('ROLLBACK');
  }

  // -- the other service ------------------------------------------------------

  keys(options) {
    return new Keys(dynamodb, TABLE, options);
  }

  async deliverToLambda({ euros = this.event.euros } = {}) {
    const payload = fingerprint({ ...this.event, euros });
    let answer;
    try {
      const { outcome, token, result } = await this.keys().acquire(this.key, { fingerprint: payload });
      answer = result ?? { refused: 'come back later' };
      if (outcome === 'acquired') {
        this.lambda.charges++;
        answer = { receipt: 'from the other service' };
        await this.keys().complete(this.key, token, answer);
      }
    } catch (error) {
      if (!/another payload/.test(error.message)) throw error;
      answer = { refused: 'not the same event' };
    }
    this.lambda.answers.push(answer);
    return answer;
  }

  async deliverToLambdaUntilAnswered() {
    return until('a final answer of the other service', async () => {
      const answer = await this.deliverToLambda();
      return isFinal(answer) && answer;
    });
  }

  // -- the network and the server ---------------------------------------------

  fault(fault) {
    return control('POST', '/fault', { key: this.key, ...fault });
  }

  arrival(to, n = 1) {
    return control('GET', `/wait?${new URLSearchParams({ key: this.key, to, n })}`);
  }

  // Lets go of the held requests, and waits until the engine has answered all of them.
  async release(to) {
    await control('POST', '/release');
    await until('an answer to what was held', async () => JSON.parse(await control('GET', '/log'))
      .every((entry) => !entry.key.includes(this.key) || entry.to !== to || entry.code || entry.applied));
  }

  // The worker comes first, so that it is killed before it finishes anything.
  async processes(client) {
    this.life = await this.lifeOfServer();
    const { pid } = await this.query(
      "SELECT pid FROM pg_stat_activity WHERE datname = 'shop' AND backend_type LIKE 'exactonce%'");
    return [pid, client.processID];
  }

  async lifeOfServer() {
    return Number((await this.query('SELECT max(number) AS n FROM exactonce_lives')).n);
  }

  // The session of the next delivery dies with the server.
  async killOn(moment) {
    this.doomed = await this.session();
    await this.fault({ do: 'kill', pid: await this.processes(this.doomed), ...moment });
  }

  // The number of lives grows with every start of the server.
  async serverIsBack() {
    await until('another life of the server', async () => {
      try {
        return await this.lifeOfServer() > this.life;
      } catch {
        return false;
      }
    });
  }

  // -- orders -----------------------------------------------------------------

  async takeOrder(database, number) {
    return until(`an answer about order ${number}`, async () => {
      const answer = await this.query('INSERT INTO orders VALUES ($1) RETURNING number',
        [this.#name + number], database).catch(refusal);
      return isFinal(answer) && answer;
    });
  }

  async changeMind(database, number) {
    const client = await this.session(database);
    await client.query('BEGIN');
    await client.query('INSERT INTO orders VALUES ($1)', [this.#name + number]);
    await client.query('ROLLBACK');
  }

  async ordersIn(database, number) {
    return (await this.query('SELECT count(*)::int FROM orders WHERE number = $1',
      [this.#name + number], database)).count;
  }

  async orders(number) {
    const counts = await Promise.all(SHARED.map((database) => this.ordersIn(database, number)));
    return counts.reduce((sum, count) => sum + count);
  }

  // -- accounts ---------------------------------------------------------------

  async openAccounts(euros) {
    for (const owner of Object.keys(euros)) {
      await engine('PutItem', { Item: { owner: { S: this.#name + owner }, euros: { N: String(euros[owner]) } } });
    }
  }

  give(owner, euros) {
    return engine('UpdateItem', {
      Key: { owner: { S: this.#name + owner } }, UpdateExpression: 'ADD euros :n',
      ExpressionAttributeValues: { ':n': { N: String(euros) } },
    });
  }

  async accounts() {
    const found = {};
    for (const owner of ['anna', 'ben']) {
      const { Item } = await engine('GetItem', { Key: { owner: { S: this.#name + owner } }, ConsistentRead: true });
      found[owner] = Number(Item.euros.N);
    }
    return found;
  }

  // Orders a transfer. The same number of euros again means the same transfer.
  async order(euros = this.euros) {
    this.euros = euros;
    const change = (owner, update, rest) => ({ Update: {
      TableName: ACCOUNTS, Key: { owner: this.#name + owner }, UpdateExpression: update,
      ExpressionAttributeValues: { ':n': euros }, ...rest,
    } });
    const writes = [
      change('anna', 'SET euros = euros - :n', { ConditionExpression: 'euros >= :n' }),
      change('ben', 'SET euros = euros + :n'),
    ];
    return this.query('SELECT result FROM idem_transact($1, $2, $3)',
      [`${this.#name}transfer`, JSON.stringify(writes), { confirmed: euros }]).then(({ result }) => result, refusal);
  }

  // A purchase whose bonus is credited to Ben. The same number of euros again means the same purchase.
  async purchase(euros = this.euros, end = 'COMMIT') {
    this.euros = euros;
    const writes = [{ Update: {
      TableName: ACCOUNTS, Key: { owner: `${this.#name}ben` }, UpdateExpression: 'ADD euros :n',
      ExpressionAttributeValues: { ':n': euros },
    } }];
    const session = await this.session();
    await session.query('BEGIN');
    try {
      await session.query('SELECT idem_once($1, writes => $2)',
        [`${this.#name}purchase ${euros}`, JSON.stringify(writes)]);
      await session.query(end);
      return { bonus: euros };
    } catch (error) {
      await session.query('ROLLBACK');
      return refusal(error);
    }
  }

  async pending() {
    return (await this.query('SELECT count(*)::int FROM exactonce_pending')).count;
  }

  // -- actions --------------------------------------------------------------------

  // Issues a link, a coupon, an approval or a licence; from and to are hours from now. What
  // is good at once says no instant, because the clock of DynamoDB may be a second behind.
  async issue(goodFor, { from = 0, to = 720, pin } = {}) {
    const { id } = await this.query(
      "SELECT id FROM action_create($1, now() + nullif($2, 0) * interval '1 h', now() + $3 * interval '1 h', $4)",
      [JSON.stringify(goodFor), from, to, pin]);
    this.key = id;
  }

  look() {
    return this.query('SELECT * FROM action_get($1)', [this.key]);
  }

  // A person who asks again uses the same token.
  async use(who, { session, pin, at = 'now' } = {}) {
    this.tokens[who] ??= randomUUID();
    const client = session ?? await this.session();
    this.told[who] = await client.query('SELECT * FROM action_consume($1, $2, consumer => $3, token => $4, at => $5)',
      [this.key, pin, JSON.stringify({ who }), this.tokens[who], at]).then(({ rows }) => heard(rows[0]), (error) => {
      if (error.code !== 'ID006') throw error;
      return { refused: 'no answer' };
    });
    return this.told[who];
  }

  // All requests are held until all have arrived.
  async useAtOnce(people, to, pin) {
    const sessions = await Promise.all(people.map(() => this.session()));
    await this.fault({ do: 'hold', to, times: people.length });
    const answers = people.map((who, i) => this.use(who, { session: sessions[i], pin }));
    await this.arrival(to, people.length);
    await control('POST', '/release');
    return Promise.all(answers);
  }

  async useElsewhere(who, { pin }) {
    return heard(await new Actions(dynamodb, TABLE).consume(this.key, { pin, token: this.tokens[who] }));
  }

  // Moves the action's dates instead of waiting for days.
  passTime(hours) {
    return engine('UpdateItem', {
      TableName: TABLE, Key: { pk: { S: `ACTION#${this.key}` } },
      UpdateExpression: 'ADD activeAtMs :n, expiresAtMs :n',
      ExpressionAttributeValues: { ':n': { N: String(-hours * 3600000) } },
    });
  }

  async withdraw(who, reason) {
    this.told[who] = heard(await this.query('SELECT * FROM action_cancel($1, $2)', [this.key, reason]));
  }

  // Uses the coupon and then orders, in one transaction.
  async orderReduced(who, end = 'COMMIT', at = 'now') {
    const session = await this.session();
    await session.query('BEGIN');
    const answer = await this.use(who, { session, at });
    if (answer.good_for) await session.query('INSERT INTO reduced VALUES ($1, $2)', [this.key, who]);
    await session.query(end);
    return answer;
  }

  async reducedOrders() {
    return (await this.query('SELECT count(*)::int FROM reduced WHERE coupon = $1', [this.key])).count;
  }
}
