// A thousand requests get the same Authorization header, byte for byte, from the
// project's signer and from the AWS SDK's. They are random, but the same in every run.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { SignatureV4 } from '@smithy/signature-v4';

const REQUESTS = 1000;
const SEED = 20260101;

// Mulberry32
let state = SEED;
function random(n) {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];
const text = (alphabet, most, least = 1) => Array.from(
  { length: least + random(most) }, () => pick(alphabet)).join('');

class Sha256 {
  constructor(secret) {
    this.hash = secret ? createHmac('sha256', secret) : createHash('sha256');
  }
  update(data) {
    this.hash.update(data);
  }
  async digest() {
    return new Uint8Array(this.hash.digest());
  }
}

const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'];
const secretLetters = [...letters, '+', '/', '='];
const bodyLetters = [...letters, '"', '{', '}', ':', ',', 'é', '漢', '😀', '\\', '\n', ' '];

function makeRequest() {
  const date = new Date(Date.UTC(2000 + random(80), random(12), 1 + random(28), random(24), random(60), random(60)));
  const host = `dynamodb.${pick(['eu-west-1', 'us-east-1', 'ap-southeast-2'])}.amazonaws.com${pick(['', ':8000'])}`;
  return {
    id: text(letters, 20), secret: text(secretLetters, 40), token: random(3) ? null : text(secretLetters, 300),
    date, region: pick(['eu-west-1', 'us-east-1', 'cn-north-1']), body: text(bodyLetters, 400, 0),
    headers: {
      'content-type': 'application/x-amz-json-1.0', host,
      'x-amz-target': `DynamoDB_20120810.${pick(['GetItem', 'UpdateItem'])}`,
      ...(random(2) ? { 'x-odd': `a${pick(['', ' '])}b` } : {}),
    },
  };
}

async function theirs({ id, secret, token, date, region, body, headers }) {
  const signer = new SignatureV4({
    service: 'dynamodb', region, sha256: Sha256, applyChecksum: false,
    credentials: { accessKeyId: id, secretAccessKey: secret, sessionToken: token ?? undefined },
  });
  const [hostname, port] = headers.host.split(':');
  return signer.sign({
    method: 'POST', protocol: 'http:', hostname, port: port && Number(port), path: '/', query: {},
    headers: { ...headers }, body,
  }, { signingDate: date });
}

test(`${REQUESTS} random requests (seed ${SEED}) have the signatures of @smithy/signature-v4`, async () => {
  const hex = (value) => (value === null ? '-' : `x${Buffer.from(value).toString('hex')}`);
  const lines = [];
  const expected = [];
  for (let i = 0; i < REQUESTS; i++) {
    const request = makeRequest();
    const signed = await theirs(request);
    expected.push(signed.headers.authorization);
    const headers = Object.entries(signed.headers).filter(([name]) => name !== 'authorization')
      .sort(([a], [b]) => (a < b ? -1 : 1)).flat();
    const amzDate = request.date.toISOString().replace(/[-:]|\.\d{3}/g, '');
    lines.push([request.id, request.secret, request.token, amzDate, request.region, request.body, ...headers]
      .map(hex).join(' '));
  }
  const ours = execFileSync(new URL('./sign', import.meta.url).pathname, { input: `${lines.join('\n')}\n` })
    .toString().trim().split('\n');
  assert.equal(ours.length, REQUESTS);
  for (let i = 0; i < REQUESTS; i++) assert.equal(ours[i], expected[i], `request ${i} of seed ${SEED}`);
});
