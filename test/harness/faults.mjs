// The faults that the proxy can commit.
//
// A fault acts on one exchange. It may have any of these parts, which are called
// in this order. If several faults act on one request, each part is called for
// all of them.
//
//   before(exchange)           before the request is handed to the engine; may wait
//   forward(exchange, next)    replaces handing the request to the engine once
//   answer(exchange, answer)   changes {status, headers, body}, or returns null to
//                              close the connection without an answer
//   write(exchange, answer)    writes the answer itself and then returns true
//
// A fault that changes a body must also decide about the checksum: the engine
// sends one with every success, and the client checks it.

import zlib from 'node:zlib';
import { pause } from './util.mjs';

const jsonHeaders = { 'Content-Type': 'application/x-amz-json-1.0' };

function header(headers, name) {
  return Object.keys(headers).find((key) => key.toLowerCase() === name);
}

function without(headers, name) {
  const { [header(headers, name)]: gone, ...rest } = headers;
  return rest;
}

// Replaces the body and corrects the checksum, so that the client refuses the body itself.
function rewritten(answer, body) {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body);
  const headers = without(answer.headers, 'x-amz-crc32');
  if (header(answer.headers, 'x-amz-crc32')) headers['x-amz-crc32'] = String(checksum(bytes));
  return { ...answer, headers, body: bytes };
}

// zlib.crc32 came with Node 20.15.
function checksum(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes);
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function withItem(answer, change) {
  const reply = JSON.parse(answer.body);
  for (const name of ['Attributes', 'Item']) if (reply[name]) reply[name] = change(reply[name]);
  return rewritten(answer, JSON.stringify(reply));
}

const withResponses = (change) => ({
  answer: (exchange, answer) => {
    const reply = JSON.parse(answer.body);
    return rewritten(answer, JSON.stringify({ ...reply, Responses: change(reply.Responses) }));
  },
});

const error = (status, code, message = '', headers = {}, more = {}) => ({
  status,
  headers: { ...jsonHeaders, ...headers },
  body: Buffer.from(JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${code}`, message, ...more })),
});

export const faults = {
  // The request never arrives.
  drop: () => ({ forward: async () => null, answer: () => null }),

  // The request is applied and its answer is lost.
  lose: () => ({ answer: () => null }),

  // Processes are killed as the request arrives, which is then lost, or with
  // {applied: true} once it has been applied.
  kill: ({ pid, applied = false, signal = 'SIGKILL' }) => ({
    forward: async (exchange, next) => {
      const answer = applied ? await next() : null;
      for (const one of [pid].flat()) {
        try { process.kill(one, signal); } catch { /* it is gone already */ }
      }
      return answer;
    },
    answer: () => null,
  }),

  // The request is applied and the connection is reset.
  reset: () => ({ answer: (exchange) => { exchange.reset = true; return null; } }),

  // The request arrives late: after some time, when the test asks for it (POST
  // /release), or once another request has been applied ({after: {op, key, to}}).
  delay: ({ ms = 1000 }) => ({ before: () => pause(ms) }),
  hold: () => ({ before: (exchange) => exchange.proxy.released() }),
  after: ({ after }) => ({ before: (exchange) => exchange.proxy.applied(after) }),

  // The request is carried out, and its answer waits until the test asks for it.
  stay: () => ({
    forward: async (exchange, next) => {
      const answer = await next();
      exchange.entry.status = answer?.status ?? 0;
      await exchange.proxy.released();
      return answer;
    },
  }),

  // The request arrives twice; the client gets the second answer, or the first.
  twice: ({ first = false }) => ({
    forward: async (exchange, next) => {
      const answers = [await next(), await next()];
      return answers[first ? 0 : 1];
    },
  }),

  // A copy of the request arrives late, when its client has had the answer: after some time,
  // or once another request has been applied ({after}). With {lost: true} nothing but that copy
  // arrives.
  late: ({ ms = 1000, after, lost = false }) => ({
    forward: async (exchange, next) => {
      exchange.proxy.later(after ? exchange.proxy.applied(after) : pause(ms), next);
      return lost ? null : next();
    },
  }),

  // The connection is closed after so many bytes of the body, fewer than announced.
  truncate: ({ bytes = 10 }) => ({
    write: (exchange, answer) => {
      exchange.response.writeHead(answer.status, { ...answer.headers, 'Content-Length': answer.body.length });
      exchange.response.write(answer.body.subarray(0, bytes), () => exchange.request.socket.destroy());
      return true;
    },
  }),

  // The answer comes byte by byte.
  drip: ({ ms = 20 }) => ({
    write: async (exchange, answer) => {
      exchange.response.writeHead(answer.status, { ...answer.headers, 'Content-Length': answer.body.length });
      for (const byte of answer.body) {
        if (exchange.response.destroyed) return true;
        exchange.response.write(Buffer.of(byte));
        await pause(ms);
      }
      exchange.response.end();
      return true;
    },
  }),

  // Bytes in the middle of the body are changed; with {crc: true} the checksum agrees.
  garble: ({ crc = false }) => ({
    answer: (exchange, answer) => {
      const body = Buffer.from(answer.body);
      for (let i = body.length >> 1; i < body.length && i < (body.length >> 1) + 8; i++) body[i] ^= 0x55;
      return crc ? rewritten(answer, body) : { ...answer, body };
    },
  }),
  wrong_crc: () => ({
    answer: (exchange, answer) => ({
      ...answer, headers: { ...without(answer.headers, 'x-amz-crc32'), 'x-amz-crc32': '1' },
    }),
  }),

  // The answer is about another key, or about another owner of the same key.
  other_key: () => ({
    answer: (exchange, answer) => withItem(answer, (item) => ({ ...item, pk: { S: 'IDEMPOTENCY#somebody/else' } })),
  }),
  other_token: () => ({
    answer: (exchange, answer) => withItem(answer,
      (item) => ({ ...item, owner: { S: '99999999-9999-4999-8999-999999999999' } })),
  }),

  // The proxy answers itself that the write is refused, by an item with these attributes; one whose
  // value is a placeholder of the request (':b') has the value that was sent for it.
  refused_by: ({ item }) => ({
    forward: async (exchange) => {
      const { Key, ExpressionAttributeValues: sent } = JSON.parse(exchange.body);
      const values = Object.entries(item).map(([name, value]) => [name, sent[value] ?? value]);
      return error(400, 'ConditionalCheckFailedException', '', {}, { Item: { ...Key, ...Object.fromEntries(values) } });
    },
  }),

  // A refusal comes without the record, as some engines send it.
  no_item: () => ({
    answer: (exchange, answer) => {
      const { Item, ...rest } = JSON.parse(answer.body);
      for (const reason of rest.CancellationReasons ?? []) delete reason.Item;
      return answer.status === 200 ? answer : rewritten(answer, JSON.stringify(rest));
    },
  }),

  // The body is not the JSON of an answer.
  html: ({ status = 200 }) => ({
    answer: () => ({ status, headers: { 'Content-Type': 'text/html' }, body: Buffer.from('<html>hello</html>') }),
  }),
  empty: () => ({ answer: (exchange, answer) => rewritten(answer, '') }),
  big: ({ bytes = 3_000_000 }) => ({
    answer: (exchange, answer) => rewritten(answer, `{"x":"${'x'.repeat(bytes)}"}`),
  }),
  long_head: ({ lines = 100 }) => ({
    answer: (exchange, answer) => ({
      ...answer,
      headers: { ...answer.headers, ...Object.fromEntries(Array.from({ length: lines }, (_, i) => [`x-${i}`, 'x'.repeat(1000)])) },
    }),
  }),
  deep: () => ({
    answer: (exchange, answer) => rewritten(answer, `{"x":${'['.repeat(5000)}${']'.repeat(5000)}}`),
  }),
  duplicate: () => ({
    answer: (exchange, answer) => rewritten(answer,
      String(answer.body).replace(/"(owner|actionId)":/, '"$1":{"S":"x"},"$1":')),
  }),
  nul: () => ({ answer: (exchange, answer) => rewritten(answer, Buffer.concat([answer.body, Buffer.of(0)])) }),
  bad_utf8: () => ({
    answer: (exchange, answer) => rewritten(answer,
      Buffer.concat([Buffer.from('{"x":"'), Buffer.of(0xff), Buffer.from('",'), answer.body.subarray(1)])),
  }),

  // The proxy answers itself with {status, code, message, headers, more}; more has
  // further members of the body. With {applied: true} the engine is asked as well.
  answer: ({ status = 500, code = 'InternalServerError', message = '', headers = {}, more = {}, applied = false }) => ({
    ...(applied ? {} : { forward: async () => error(status, code, message, headers, more) }),
    answer: () => error(status, code, message, headers, more),
  }),

  // Requests that this access key has signed are refused, because it has expired.
  expired: ({ access_key: accessKey }) => ({
    forward: async (exchange, next) => (
      String(exchange.request.headers.authorization ?? '').includes(`Credential=${accessKey}/`)
        ? error(400, 'ExpiredTokenException', 'The security token included in the request is expired') : next()),
  }),

  // Requests that this access key has signed are about another account, where the table of
  // that name is another one; it is there under a name of its own.
  account: ({ access_key: accessKey, table, there }) => ({
    forward: async (exchange, next) => {
      if (!String(exchange.request.headers.authorization ?? '').includes(`Credential=${accessKey}/`)) return next();
      const whole = exchange.body;
      exchange.body = Buffer.from(String(whole).replaceAll(table, there));
      const answer = await next();
      exchange.body = whole;
      return answer && rewritten(answer, String(answer.body).replaceAll(there, table));
    },
  }),

  // The proxy answers that the transaction was cancelled, with a reason for each write.
  cancel: ({ reasons }) => faults.answer({
    status: 400, code: 'TransactionCanceledException', message: `[${reasons.join(', ')}]`,
    more: { CancellationReasons: reasons.map((Code) => ({ Code })) },
  }),

  // One statement of a batch, the one of this key, is answered with an error; with
  // {applied: true} after the engine has carried it out.
  statement: ({ of = '', code = 'ThrottlingError', applied = false }) => {
    const place = ({ entry }) => entry.writes.findIndex(({ key }) => key.includes(of));
    const refusal = { Error: { Code: code, Message: '' } };
    return {
      forward: async (exchange, next) => {
        const at = place(exchange);
        if (applied || at < 0) return next();
        const whole = exchange.body;
        const request = JSON.parse(whole);
        request.Statements.splice(at, 1);
        exchange.body = Buffer.from(JSON.stringify(request));
        const answer = await next();
        exchange.body = whole;
        const reply = JSON.parse(answer.body);
        reply.Responses.splice(at, 0, refusal);
        return rewritten(answer, JSON.stringify(reply));
      },
      answer: (exchange, answer) => {
        const at = place(exchange);
        if (!applied || at < 0) return answer;
        const reply = JSON.parse(answer.body);
        reply.Responses[at] = refusal;
        return rewritten(answer, JSON.stringify(reply));
      },
    };
  },

  // The answers of a batch: only the first half of them; or each in the place of the next one.
  half: () => withResponses((responses) => responses.slice(0, responses.length / 2)),
  shifted: () => withResponses(([first, ...others]) => [...others, first]),

  // The answer to a transaction is a valid answer to an UpdateItem.
  other_operation: () => ({
    answer: (exchange, answer) => (answer.status === 200
      ? rewritten(answer, '{"Attributes":{"pk":{"S":"IDEMPOTENCY#somebody/else"}}}') : answer),
  }),
  redirect: ({ to = 'http://127.0.0.1:1/' }) => ({
    forward: async () => ({ status: 307, headers: { Location: to }, body: Buffer.alloc(0) }),
  }),

  // The service's clock is off by so many seconds, as its Date header shows. With
  // {strict: true} it also refuses signatures that are more than five minutes off.
  date: ({ seconds = 360, strict = false }) => ({
    forward: async (exchange, next) => {
      const stamp = String(exchange.request.headers['x-amz-date'] ?? '');
      const signed = Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
      if (strict && Math.abs(signed - Date.now() - seconds * 1000) > 300_000) {
        return error(400, 'InvalidSignatureException', 'Signature expired');
      }
      return next();
    },
    answer: (exchange, answer) => ({
      ...answer,
      headers: { ...without(answer.headers, 'date'), Date: new Date(Date.now() + seconds * 1000).toUTCString() },
    }),
  }),

  // The answer has no Date.
  no_date: () => ({
    answer: (exchange, answer) => ({ ...answer, headers: without(answer.headers, 'date') }),
    write: (exchange) => { exchange.response.sendDate = false; return false; },
  }),
};
