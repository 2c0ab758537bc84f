// The steps of actions.feature: people, and the actions that they use.

import assert from 'node:assert/strict';
import { Given, Then, When, defineParameterType } from '@cucumber/cucumber';
import { control } from '../interop/control.mjs';

// "another visitor" and "the other visitor" are one person, "a visitor" and "the visitor" another one.
defineParameterType({
  name: 'person',
  regexp: /(?:an?|the|another|the other) (?:visitor|customer|buyer|manager|owner|thief)/,
  transformer: (words) => words.replace(/^(?:another|the other) /, 'other ').replace(/^(?:an?|the) /, ''),
});

const crowd = (name, n) => Array.from({ length: n }, (_, i) => `${name} ${i + 1}`);

// -- a link -------------------------------------------------------------------

Given('a sign-in link for {word}', function (name) {
  return this.issue({ name });
});

When('{person} uses the link( again)', function (who) {
  return this.use(who);
});

When('{int} visitors use the link at the same moment', async function (n) {
  this.answers = await this.useAtOnce(crowd('visitor', n), 'consumed');
});

Then('{person} is signed in as {word}', function (who, name) {
  assert.deepEqual(this.told[who], { good_for: { name } });
});

Then('one of them is signed in as {word}, and the others are told {string}', function (name, refused) {
  const [winner] = this.answers.filter((answer) => answer.good_for);
  assert.deepEqual(winner, { good_for: { name } });
  for (const answer of this.answers) if (answer !== winner) assert.deepEqual(answer, { refused });
});

When(/^a link scanner opens the link(?: (\d+) times)?$/, async function (times) {
  for (let i = 0; i < Number(times ?? 1); i++) this.seen = await this.look();
});

Then('it is shown a link that is good, and not whose it is', function () {
  assert.equal(this.seen.state, 'active');
  assert.doesNotMatch(JSON.stringify(this.seen), /Anna/);
});

Then('it is shown a link that was used', function () {
  assert.equal(this.seen.state, 'consumed');
});

Then('{person} is told {string}', function (who, refused) {
  assert.deepEqual(this.told[who], { refused });
});

// -- the network --------------------------------------------------------------

Given('the answers to visitors are lost on the way', function () {
  return this.fault({ do: 'lose', to: 'consumed', times: 0 });
});

When('answers come through again', function () {
  return control('POST', '/reset');
});

// -- a coupon -----------------------------------------------------------------

const hours = { today: 0, tomorrow: 36, 'the day after tomorrow': 60 };

Given('a coupon over {int} euros', function (euros) {
  return this.issue({ euros });
});

Given('a coupon over {int} euros for tomorrow', function (euros) {
  return this.issue({ euros }, { from: 24, to: 48 });
});

When(new RegExp(`^a customer redeems the coupon (${Object.keys(hours).join('|')})$`), async function (day) {
  await this.passTime(hours[day]);
  await this.use('customer');
});

Given('a customer ordered with the coupon, and the order came to nothing', async function () {
  assert.ok((await this.orderReduced('customer', 'ROLLBACK')).good_for);
});

When('{person} orders with the coupon( again)', function (who) {
  return this.orderReduced(who);
});

Given('a customer made an order that the coupon is bound to, and the order came to nothing', async function () {
  assert.ok((await this.orderReduced('customer', 'ROLLBACK', 'commit')).good_for);
});

When('{person} makes an order that the coupon is bound to', function (who) {
  return this.orderReduced(who, 'COMMIT', 'commit');
});

Then('{person} gets {int} euros off', function (who, euros) {
  assert.deepEqual(this.told[who], { good_for: { euros } });
});

Then('there is no order with the coupon', async function () {
  assert.equal(await this.reducedOrders(), 0);
});

Then('there is one order with the coupon', async function () {
  assert.equal(await this.reducedOrders(), 1);
});

// -- an approval --------------------------------------------------------------

Given('an approval to spend {int} euros', function (euros) {
  return this.issue({ euros });
});

When('{person} uses the approval', function (who) {
  return this.use(who);
});

When('{person} withdraws the approval because {string}', function (who, reason) {
  return this.withdraw(who, reason);
});

Then('{person} may spend {int} euros', function (who, euros) {
  assert.deepEqual(this.told[who], { good_for: { euros } });
});

Then('the books say {string}', async function (text) {
  const { state, reason, consumer } = await this.look();
  const entry = { canceled: `withdrawn: ${reason}`, consumed: `used by the ${consumer?.who}` }[state];
  assert.equal(entry, text);
});

// -- a licence ----------------------------------------------------------------

Given('a licence with the PIN {string}', function (pin) {
  this.pin = pin;
  return this.issue({ licence: 'active' }, { pin });
});

When('{person} activates the licence with the PIN {string}', function (who, pin) {
  return this.use(who, { pin });
});

When('{person} activates the licence without a PIN', function (who) {
  return this.use(who);
});

When('{person} guesses {int} wrong PINs, one after the other', async function (who, n) {
  for (let i = 0; i < n; i++) await this.use(who, { pin: `wrong ${i}` });
});

When('{int} thieves guess a wrong PIN at the same moment', async function (n) {
  this.answers = await this.useAtOnce(crowd('thief', n), 'attempt', 'wrong');
});

Then("{person}'s licence is active", function (who) {
  assert.deepEqual(this.told[who], { good_for: { licence: 'active' } });
});

Then('{int} of them are told that it was wrong, and the others {string}', function (n, refused) {
  const wrong = this.answers.filter((answer) => /^wrong PIN/.test(answer.refused));
  assert.equal(wrong.length, n);
  for (const answer of this.answers) if (!wrong.includes(answer)) assert.deepEqual(answer, { refused });
});

Then('{person} is told {string} by the other service, too', async function (who, refused) {
  assert.deepEqual(await this.useElsewhere(who, { pin: this.pin }), { refused });
});
