// worker.mjs KEY [RESULT]
//
// A second service that shares the idempotency table and has only the AWS SDK. It
// claims KEY and completes it with RESULT, a JSON text that stands for its work. It
// prints one line of JSON: the outcome of its claim, and the result if there is one.
//
//   EO_ENDPOINT  where DynamoDB answers       EO_TABLE  the table ("idempotency")

import { connect } from './connect.mjs';
import { Keys } from './client.mjs';

const [key, text = '{}'] = process.argv.slice(2);
if (!key) {
  console.error('usage: worker.mjs KEY [RESULT]');
  process.exit(2);
}
const keys = new Keys(await connect(), process.env.EO_TABLE ?? 'idempotency');
const { outcome, token, record, result } = await keys.acquire(key);
const report = { outcome, fence: record.fence, run: record.runs };
if (outcome === 'acquired') {
  report.result = JSON.parse(text);
  if (!await keys.complete(key, token, report.result)) throw new Error('the claim was lost');
} else if (result !== undefined) {
  report.result = result;
}
console.log(JSON.stringify(report));
