// The faults that the proxy can commit.
//
// A fault acts on one exchange. It may have any of these parts, called in this
// order; the parts of all faults that hit the same request work together.
//
//   before(exchange)           while the request is on its way; may wait
//   forward(exchange, next)    instead of handing it to the engine once
//   answer(exchange, answer)   changes {status, headers, body}, or returns null:
//                              the connection is cut without any answer
//   write(exchange, answer)    writes the answer by itself; true if it did
//
// Whoever changes a body also has to say what becomes of its checksum: the
// engine sends one with every success, and the client checks it.

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

// Another body, with the right checksum: so that it is the body that is refused.
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

const error = (status, code, message = '', headers = {}, more = {}) => ({
  status,
  headers: { ...jsonHeaders, ...headers },
  body: Buffer.from(JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${code}`, message, ...more })),
});

export const faults = {
  // The request never arrives.
  drop: () => ({ forward: async () => null, answer: () => null }),

  // It takes effect and its answer is lost.
  lose: () => ({ answer: () => null }),

  // A process is killed: as the request arrives, which then goes no further,
  // or once it has taken effect.
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

  // It takes effect and the connection is reset.
  reset: () => ({ answer: (exchange) => { exchange.reset = true; return null; } }),

  // It arrives late: by time, when told (POST /release), or after another
  // request has been applied ({after: {op, key}}).
  delay: ({ ms = 1000 }) => ({ before: () => pause(ms) }),
  hold: () => ({ before: (exchange) => exchange.proxy.released() }),
  after: ({ after }) => ({ before: (exchange) => exchange.proxy.applied(after) }),

  // It arrives twice; the client gets the second answer, or the first.
  twice: ({ first = false }) => ({
    forward: async (exchange, next) => {
      const answers = [await next(), await next()];
      return answers[first ? 0 : 1];
    },
  }),

  // The answer is cut after so many bytes of its body, though it promised more.
  truncate: ({ bytes = 10 }) => ({
    write: (exchange, answer) => {
      exchange.response.writeHead(answer.status, { ...answer.headers, 'Content-Length': answer.body.length });
      exchange.response.write(answer.body.subarray(0, bytes), () => exchange.request.socket.destroy());
      return true;
    },
  }),

  // It comes a byte at a time.
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

  // Bytes in the middle are others; with {crc: true} the checksum agrees.
  garble: ({ crc = false }) => ({
    answer: (exchange, answer) => {
      const body = Buffer.from(answer.body);
      for (let i = body.length >> 1; i < body.length && i < (body.length >> 1) + 8; i++) body[i] ^= 0x55;
      return crc ? rewritten(answer, body) : { ...answer, body };
    },
  }),
  wrong_crc: () => ({
    answer: (exchange, answer) => ({ ...answer, headers: { ...without(answer.headers, 'x-amz-crc32'), 'x-amz-crc32': '1' } }),
  }),

  // An answer that was meant for somebody else.
  other_key: () => ({
    answer: (exchange, answer) => withItem(answer, (item) => ({ ...item, pk: { S: 'IDEMPOTENCY#somebody/else' } })),
  }),
  other_token: () => ({
    answer: (exchange, answer) => withItem(answer,
      (item) => ({ ...item, owner: { S: '99999999-9999-4999-8999-999999999999' } })),
  }),

  // A refusal without the record, as some engines give it.
  no_item: () => ({
    answer: (exchange, answer) => {
      const { Item, ...rest } = JSON.parse(answer.body);
      for (const reason of rest.CancellationReasons ?? []) delete reason.Item;
      return answer.status === 200 ? answer : rewritten(answer, JSON.stringify(rest));
    },
  }),

  // Bodies that are no JSON one should believe.
  html: ({ status = 200 }) => ({
    answer: () => ({ status, headers: { 'Content-Type': 'text/html' }, body: Buffer.from('<html>hello</html>') }),
  }),
  empty: () => ({ answer: (exchange, answer) => rewritten(answer, '') }),
  big: ({ bytes = 2_000_000 }) => ({
    answer: (exchange, answer) => rewritten(answer, `{"x":"${'x'.repeat(bytes)}"}`),
  }),
  deep: () => ({
    answer: (exchange, answer) => rewritten(answer, `{"x":${'['.repeat(5000)}${']'.repeat(5000)}}`),
  }),
  duplicate: () => ({
    answer: (exchange, answer) => rewritten(answer, String(answer.body).replace('"owner":', '"owner":{"S":"x"},"owner":')),
  }),
  nul: () => ({ answer: (exchange, answer) => rewritten(answer, Buffer.concat([answer.body, Buffer.of(0)])) }),
  bad_utf8: () => ({
    answer: (exchange, answer) => rewritten(answer, Buffer.concat([Buffer.from('{"x":"'), Buffer.of(0xff), Buffer.from('",'), answer.body.subarray(1)])),
  }),

  // The answer comes from the proxy: {status, code, message, headers, more}, the
  // last with other members of its body. With {applied: true} the engine was
  // asked all the same.
  answer: ({ status = 500, code = 'InternalServerError', message = '', headers = {}, more = {}, applied = false }) => ({
    ...(applied ? {} : { forward: async () => error(status, code, message, headers, more) }),
    answer: () => error(status, code, message, headers, more),
  }),

  // A transaction is cancelled, by the proxy: a reason for each action.
  cancel: ({ reasons }) => faults.answer({
    status: 400, code: 'TransactionCanceledException', message: `[${reasons.join(', ')}]`,
    more: { CancellationReasons: reasons.map((Code) => ({ Code })) },
  }),

  // The answer to a transaction is that to an UpdateItem, whole and well.
  other_operation: () => ({
    answer: (exchange, answer) => (answer.status === 200
      ? rewritten(answer, '{"Attributes":{"pk":{"S":"IDEMPOTENCY#somebody/else"}}}') : answer),
  }),
  redirect: ({ to = 'http://127.0.0.1:1/' }) => ({
    forward: async () => ({ status: 307, headers: { Location: to }, body: Buffer.alloc(0) }),
  }),

  // The service's clock is off by so many seconds: its Date, and its opinion
  // of signatures more than five minutes from that.
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
};
