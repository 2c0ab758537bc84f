// The steps of all features but actions.feature.

import assert from 'node:assert/strict';
import {
  After, AfterAll, BeforeAll, Given, Then, When, setDefaultTimeout, setWorldConstructor,
} from '@cucumber/cucumber';
import { until } from '../harness/util.mjs';
import { control } from '../interop/control.mjs';
import { Shop, closeShop, isFinal, openShop } from './world.mjs';

setWorldConstructor(Shop);
setDefaultTimeout(600 * 1000);
BeforeAll(openShop);
AfterAll(closeShop);
After(function () { return this.close(); });

const shops = { 'web shop': 'shop', 'partner portal': 'portal' };
const receiptIn = (answer) => assert.ok(answer.receipt, JSON.stringify(answer));

// -- an event and its sender ----------------------------------------------------

Given('a payment event {string} over {int} euros has not been processed', async function (event, euros) {
  await this.expect(event, euros);
  assert.equal(await this.charges(), 0);
});

Given('the event has been processed', async function () {
  receiptIn(await this.delivered());
});

When(/^the event is delivered(?: again)?$/, function () {
  return this.delivered({ session: this.doomed });
});

When('the event is delivered with {int} euros in it', function (euros) {
  return this.delivered({ euros });
});

When('the event is delivered {int} times, one after the other', async function (times) {
  for (let i = 0; i < times; i++) await this.delivered();
});

When('the event is delivered {int} times at the same time', async function (times) {
  const sessions = await Promise.all(Array.from({ length: times }, () => this.session()));
  await Promise.all(sessions.map((session) => this.delivered({ session })));
});

When('the event is delivered until it is answered', function () {
  return this.deliverUntilAnswered();
});

When('the event is delivered again by a sender who waits', async function () {
  const { client } = await this.deliver({ wait: '30 s' });
  await this.waitsFor(client, 'virtualxid');
});

Then('the sender gets the receipt', async function () {
  const answer = await this.last();
  assert.deepEqual(await this.receipts(), [answer]);
});

Then('the first sender gets the receipt', async function () {
  const answer = await this.answers[0];
  assert.deepEqual(await this.receipts(), [answer]);
});

Then('the sender gets the same receipt every time', async function () {
  const answers = (await Promise.all(this.answers)).filter(isFinal);
  const [receipt] = await this.receipts();
  assert.ok(answers.length > 1);
  for (const answer of answers) assert.deepEqual(answer, receipt);
});

Then('at least one sender gets the receipt, and any other is told {string}', async function (refused) {
  const answers = await Promise.all(this.answers);
  const receipts = answers.filter((answer) => answer.receipt);
  assert.ok(receipts.length > 0);
  for (const receipt of receipts) assert.deepEqual([receipt], await this.receipts());
  for (const answer of answers) if (!answer.receipt) assert.deepEqual(answer, { refused });
});

Then('the sender is told {string}', async function (refused) {
  assert.deepEqual(await this.last(), { refused });
});

Then('the sender is told {string} each time', async function (refused) {
  for (const answer of await Promise.all(this.answers)) assert.deepEqual(answer, { refused });
});

// -- the customer -----------------------------------------------------------------

Given('the card is declined', function () {
  return this.query('UPDATE card SET declined = true');
});

When('the card works again', function () {
  return this.query('UPDATE card SET declined = false');
});

Then('the customer is charged once', async function () {
  assert.equal(await this.charges(), 1);
});

Then('the customer is not charged', async function () {
  assert.equal(await this.charges(), 0);
});

Then('charging was tried {int} time(s)', async function (times) {
  assert.equal(await this.tries(), times);
});

// -- a handler at work ------------------------------------------------------------

Given('the bank is slow', function () {
  return this.slowBank();
});

When('the bank answers', function () {
  return this.bankAnswers();
});

Given('a handler is at work on the event', function () {
  return this.startHandler();
});

Given('a handler that promised to be done within {int} second is at work on the event', function (seconds) {
  return this.startHandler({ lease: `${seconds} s` });
});

When('the first handler is stopped', async function () {
  await this.cancel(this.handler);
  assert.deepEqual(await this.handler.answer, { refused: 'stopped' });
});

// -- an operator ------------------------------------------------------------------

Given('the event is parked', async function () {
  let answer;
  // An error reaches the sender before the server has rolled back: it may be early.
  do answer = await this.deliverUntilAnswered(); while (answer.refused === 'card declined');
  assert.deepEqual(answer, { refused: 'parked' });
});

Then('the operator sees {string}', async function (message) {
  const seen = await this.query("SELECT error->>'message' AS message FROM idem_get($1)", [this.key]);
  assert.equal(seen.message, message);
});

When('the operator redrives the event', async function () {
  assert.ok((await this.query('SELECT idem_forget($1) AS forgotten', [this.key])).forgotten);
});

// -- crashes ------------------------------------------------------------------------

const moments = {
  'as it takes on the event': { to: 'IN_PROGRESS', applied: true },
  'when the work is done and before that is said': { to: 'COMMITTING' },
  'in the middle of the commit': { to: 'COMMITTING', applied: true },
  'after the commit and before others know': { to: 'COMPLETED' },
};

Given(new RegExp(`^the server will be killed (${Object.keys(moments).join('|')})$`), function (moment) {
  return this.killOn(moments[moment]);
});

Given('the server is killed', async function () {
  const [one] = await this.processes(await this.session());
  process.kill(one, 'SIGKILL');                         // the others follow
});

When('the server is back', async function () {
  await this.serverIsBack();
  this.doomed = undefined;
});

// -- two phases ----------------------------------------------------------------------

Given('the event was processed and waits for the manager', function () {
  return this.prepare();
});

When(/^the manager says (yes|no)$/, function (word) {
  return this.query(`${word === 'yes' ? 'COMMIT' : 'ROLLBACK'} PREPARED '${this.key}'`);
});

// -- the network --------------------------------------------------------------------

const requests = {
  'the request for the event': 'IN_PROGRESS',
  'the announcement of a commit': 'COMMITTING',
  'the word that it is done': 'COMPLETED',
};

Given(new RegExp(`^the answer to (${Object.keys(requests).join('|')}) will be lost$`), function (request) {
  return this.fault({ do: 'lose', to: requests[request] });
});

Given('every request will arrive twice', function () {
  return this.fault({ do: 'twice', times: 0 });
});

Given('the event is delivered, but the request for it is held up on the way', async function () {
  await this.fault({ do: 'hold', to: 'IN_PROGRESS' });
  this.handler = await this.deliver();
  await this.arrival('IN_PROGRESS');
});

Given('its sender gives up', async function () {
  await this.cancel(this.handler);
  assert.deepEqual(await this.handler.answer, { refused: 'stopped' });
});

When('the request arrives', function () {
  return this.release('IN_PROGRESS');
});

// -- another service ------------------------------------------------------------------

Given('the other service has processed the event', async function () {
  receiptIn(await this.deliverToLambda());
});

When('the event is delivered to the other service until it is answered', function () {
  return this.deliverToLambdaUntilAnswered();
});

When('the event is delivered to the other service with {int} euros in it', function (euros) {
  return this.deliverToLambda({ euros });
});

// Both requests are held until both have arrived.
When('the event is delivered to both at the same moment', async function () {
  await this.fault({ do: 'hold', op: 'UpdateItem', times: 2 });
  const both = [this.delivered(), this.deliverToLambda()];
  await control('GET', `/wait?${new URLSearchParams({ key: this.key, op: 'UpdateItem', n: 2 })}`);
  await control('POST', '/release');
  await Promise.all(both);
});

// Time is the subject: past the end of that second the reference client waits two more,
// because clocks may differ.
When('the other service asks for the event until that second is long over', async function () {
  const { lease_ms: end } = await this.keys().get(this.key);
  do await this.deliverToLambda(); while (Date.now() < end + 2500);
});

Then('the other service was told {string} each time', function (refused) {
  for (const answer of this.lambda.answers) assert.deepEqual(answer, { refused });
});

Then('the other service is told {string}', function (refused) {
  assert.deepEqual(this.lambda.answers.at(-1), { refused });
});

Then('the other service gets the receipt, too', async function () {
  const answer = await this.deliverToLambdaUntilAnswered();
  assert.deepEqual(await this.receipts(), [answer]);
});

Then("the sender gets the other service's receipt", async function () {
  receiptIn(this.lambda.answers[0]);
  assert.deepEqual(await this.last(), this.lambda.answers[0]);
});

Then('one of them charges the customer, and the other gets its receipt or comes back later', async function () {
  const answers = [await this.last(), this.lambda.answers[0]];
  const receipts = answers.filter((answer) => answer.receipt);
  const others = answers.filter((answer) => !answer.receipt);
  receiptIn(receipts[0]);
  assert.deepEqual(receipts, receipts.map(() => receipts[0]));
  assert.deepEqual(others, others.map(() => ({ refused: 'come back later' })));
});

Given('the other service took on the event and died', async function () {
  const { outcome, token } = await this.keys({ lease: 200 }).acquire(this.key);
  assert.equal(outcome, 'acquired');
  this.lambda.token = token;
});

When('the other service comes back to life and says it is done', async function () {
  this.lambda.heard = await this.keys().complete(this.key, this.lambda.token, 'late');
});

Then('it is told that it has lost the event', function () {
  assert.equal(this.lambda.heard, false);
});

// -- mailers ----------------------------------------------------------------------------

Given('the first mailer leads', async function () {
  assert.equal(await this.wantsToLead('first'), 'leads');
});

When('the second mailer wants to lead', async function () {
  this.told = await this.wantsToLead('second');
});

Then('it is told that it has to wait', function () {
  assert.equal(this.told, 'in_progress');
});

Then('the first mailer still leads', async function () {
  assert.equal(await this.wantsToLead('first'), 'leads');
  assert.equal(await this.wantsToLead('second'), 'in_progress');
});

When('the first mailer resigns', function () {
  return this.resigns('first');
});

When('the connection of the first mailer is cut', function () {
  return this.cutOff('first');
});

When('a transaction of the first mailer is rolled back', function () {
  return this.rollsBack('first');
});

Then('the second mailer leads when it asks again', async function () {
  assert.equal(await this.wantsToLead('second'), 'leads');
});

Then('the second mailer leads within {int} seconds', async function (seconds) {
  assert.ok(await this.leadsWithin('second', seconds));
});

// -- orders -----------------------------------------------------------------------------

const shop = `(${Object.keys(shops).join('|')})`;

Given(new RegExp(`^the ${shop} has taken order "(.*)"$`), async function (who, number) {
  assert.ok((await this.takeOrder(shops[who], number)).number);
});

Given(new RegExp(`^the ${shop} took order "(.*)" and changed its mind$`), function (who, number) {
  return this.changeMind(shops[who], number);
});

When(new RegExp(`^the ${shop} takes order "(.*)"$`), async function (who, number) {
  this.order = await this.takeOrder(shops[who], number);
});

When('the web shop and the partner portal take order {string} at the same time', async function (number) {
  this.taken = await Promise.all(Object.values(shops).map((database) => this.takeOrder(database, number)));
});

Then(new RegExp(`^the ${shop} is told "(.*)"$`), function (who, refused) {
  assert.deepEqual(this.order, { refused });
});

Then('one of them has it, and the other is told {string}', function (refused) {
  const [winner, loser] = this.taken[0].number ? this.taken : [...this.taken].reverse();
  assert.ok(winner.number);
  assert.deepEqual(loser, { refused });
});

Then(new RegExp(`^the ${shop} has order "(.*)"$`), async function (who, number) {
  assert.ok(this.order.number);
  assert.equal(await this.ordersIn(shops[who], number), 1);
});

Then('order {string} is there once', async function (number) {
  assert.equal(await this.orders(number), 1);
});

// -- accounts -----------------------------------------------------------------------------

const transfer = '(?:a transfer of (\\d+) euros from Anna to Ben|the same transfer)';

Given('an account of Anna with {int} euros and an account of Ben with {int} euros', function (anna, ben) {
  return this.openAccounts({ anna, ben });
});

Given(new RegExp(`^${transfer} has been made$`), async function (euros) {
  assert.deepEqual(await this.order(Number(euros)), { confirmed: Number(euros) });
});

Given(new RegExp(`^${transfer} was refused$`), async function (euros) {
  assert.deepEqual(await this.order(Number(euros)), { refused: 'not possible' });
});

Given('the answer to the next transfer will be lost', function () {
  return control('POST', '/fault', { op: 'TransactWriteItems', do: 'lose' });
});

When('Anna is given {int} euros', function (euros) {
  return this.give('anna', euros);
});

When(new RegExp(`^${transfer} is ordered(?: again)?$`), async function (euros) {
  this.answer = await this.order(euros ? Number(euros) : undefined);
});

When(new RegExp(`^${transfer} is ordered (\\d+) times at the same time$`), function (euros, times) {
  return Promise.all(Array.from({ length: Number(times) }, () => this.order(Number(euros))));
});

Then('the transfer is confirmed', function () {
  assert.deepEqual(this.answer, { confirmed: this.euros });
});

Then('Anna has {int} euros and Ben has {int} euros', async function (anna, ben) {
  assert.deepEqual(await this.accounts(), { anna, ben });
});

// -- a bonus ------------------------------------------------------------------------------

Given('the next transfer is held up', function () {
  return control('POST', '/fault', { op: 'TransactWriteItems', do: 'hold' });
});

When('Ben makes a purchase with a bonus of {int} euro(s)', function (euros) {
  return this.purchase(euros);
});

When('Ben makes a purchase with a bonus of {int} euro(s) and changes his mind', function (euros) {
  return this.purchase(euros, 'ROLLBACK');
});

When('Ben makes the same purchase again', async function () {
  assert.match((await this.purchase()).refused, /^ID005 /);
});

Then('Ben is credited {int} euro(s) in the end', async function (euros) {
  await until('all that has committed is written', async () => (await this.pending()) === 0);
  assert.deepEqual(await this.accounts(), { anna: 100, ben: euros });
});
