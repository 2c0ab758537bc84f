// latency.mjs ENDPOINT TABLE CALLS: measures how long after a commit the record is
// COMPLETED in the engine.
//
// A session of psql commits one key at a time and returns the time at which COMMIT
// returned. This program then reads the record from the engine over HTTP until it is
// COMPLETED. Prints milliseconds: median, 90th and 99th percentile; the median time
// between two reads, which is the resolution of the other figures; and the median
// time until the worker made its request, from the record's updated_ms.

import { spawn } from 'node:child_process';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

const [endpoint, table, calls] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const psql = spawn('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', 'bench'], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: psql.stdout })[Symbol.asyncIterator]();

const now = () => performance.timeOrigin + performance.now();

function getItem(pk) {
  return new Promise((resolve, reject) => {
    const request = http.request(endpoint, {
      method: 'POST', agent,
      headers: {
        'Content-Type': 'application/x-amz-json-1.0', 'X-Amz-Target': 'DynamoDB_20120810.GetItem',
        Authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, '
          + 'SignedHeaders=host, Signature=0',
      },
    }, async (response) => {
      let text = '';
      for await (const part of response) text += part;
      resolve(JSON.parse(text).Item);
    });
    request.on('error', reject);
    request.end(JSON.stringify({ TableName: table, Key: { pk: { S: pk } }, ConsistentRead: true }));
  });
}

async function measure(key) {
  psql.stdin.write(`CALL commit_one('${key}');\n`);
  const { value, done } = await lines.next();
  if (done) throw new Error('psql has ended');
  const committed = Number(value) * 1000;
  const reads = [committed];
  for (;;) {
    const item = await getItem(`IDEMPOTENCY#${key}`);
    reads.push(now());
    if (item?.status?.S === 'COMPLETED') {
      return { took: reads.at(-1) - committed, written: Number(item.updated_ms.N) - Math.floor(committed), reads };
    }
    if (reads.at(-1) - committed > 10000) throw new Error(`${key} is not COMPLETED after 10 s`);
    await pause(1);
  }
}

const percentile = (list, p) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * p))];

psql.stdin.write("SET exactonce.server = 'engine';\n");
for (let i = 0; i < 20; i++) await measure(`warm-${i}`);
const seen = [];
for (let i = 0; i < calls; i++) {
  await pause(50);
  seen.push(await measure(`late-${i}`));
}
psql.stdin.end();
agent.destroy();
const took = seen.map((one) => one.took);
const gaps = seen.flatMap(({ reads }) => reads.slice(1).map((at, i) => at - reads[i]));
console.log([percentile(took, 0.5), percentile(took, 0.9), percentile(took, 0.99), percentile(gaps, 0.5),
  percentile(seen.map((one) => one.written), 0.5)].map((ms) => (ms ?? 0).toFixed(1)).join(' '));
