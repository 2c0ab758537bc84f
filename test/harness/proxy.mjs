// The proxy between the extension and the engine. It logs every request and
// commits the faults that tests ask for. It never retries by itself.
//
// An entry of the log has these members:
//
//   n            the number of the request, from 1; 0: it is about a life
//   op, key      its operation, and its partition keys, joined by a space; of a life in a table
//                with a sort key, that one
//   table, from  its table, and the address of the client
//   port         of the proxy, at which it arrived
//   at           when it arrived, in milliseconds
//   batch        the keys in the statements of a BatchExecuteStatement
//   writes       {key, to, refused} of each of them: the first two are as of a request of its
//                own, and the last is the error in the answer
//   first        whether a Scan begins the table
//   units        the capacity units that the answer reports
//   bytes        of the request's body; received: of the answer's
//   to           the status that the write leaves in the record; for an action:
//                created, attempt, consumed, finished (consumed, by the worker),
//                canceled or closed
//   transaction  token and digest of a TransactWriteItems
//   signer       the access key id that signed it
//   status       the HTTP status of the answer, 0 if there was none
//   code         the name of the error, or why there was no answer
//   sent         whether the client was sent the whole answer
//   applied      whether the engine carried the request out; null: unknown
//
// A fault is {do: NAME, ...parameters} with NAME from faults.mjs. op, table, key (a part
// of the partition key) and to choose the requests it acts on; nth, times and every
// (all 1 by default; times 0: without end) say which of these. All faults that
// match a request act on it, in the order in which they were asked for. A batch
// matches if one of its statements does.
//
// The tests control the proxy on a second port; #commands lists what they may
// ask for.

import { createHash } from 'node:crypto';
import http from 'node:http';
import { faults as kinds } from './faults.mjs';

// The items of lives are written at any time, because a worker beats. A test that
// counts requests or asks for faults means the others, unless it gives a key that
// begins like this.
const LIFE = 'ORIGIN#';

// Headers that belong to one connection and not to the message.
const hop = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'expect', 'host']);

// Has a server listen on a free port; returns its address.
async function listen(server) {
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return `http://127.0.0.1:${server.address().port}`;
}

function passOn(headers) {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hop.has(name.toLowerCase())));
}

function collect(stream) {
  return new Promise((resolve, reject) => {
    const parts = [];
    stream.on('data', (part) => parts.push(part));
    stream.on('end', () => resolve(Buffer.concat(parts)));
    stream.on('error', reject);
    stream.on('close', () => reject(new Error('aborted')));
  });
}

// A life is known by its sort key in a table that has one.
function keyOf(item) {
  const values = Object.values({ pk: item?.pk ?? {}, ...item }).map((value) => Object.values(value)[0]);
  return values.find((value) => String(value).startsWith(LIFE)) ?? values.find((value) => value !== undefined) ?? null;
}

function keysOf(body) {
  let request;
  try {
    request = JSON.parse(body);
  } catch {
    return '';
  }
  const actions = (request.TransactItems ?? []).flatMap((item) => Object.values(item));
  return [request, ...actions]
    .map((action) => keyOf(action.Key ?? action.Item))
    .filter((key) => key !== null)
    .join(' ');
}

// The attribute that distinguishes each write on an action.
const ofActions = new Map([['actionId', 'created'], ['pinTokens', 'attempt'], ['consumedAt', 'consumed'],
  ['canceledAt', 'canceled'], ['closedAt', 'closed']]);

// The status that a write leaves in the record: COMMITTING, COMPLETED, ...; 'lease'
// for a heartbeat and 'noted' for a note of an undone seal, which do not change the status.
function statusAfter(body) {
  let request;
  try {
    request = JSON.parse(body);
  } catch {
    return '';
  }
  // The first write of a transaction is the one of the record.
  request = request.TransactItems?.[0]?.Update ?? request;
  const expression = request.UpdateExpression ?? '';
  if (/^SET #c = #S/.test(expression)) return 'finished';
  for (const [attribute, word] of ofActions) {
    const [placeholder] = Object.entries(request.ExpressionAttributeNames ?? {})
      .find(([, name]) => name === attribute) ?? [];
    if (placeholder && new RegExp(`(SET|ADD|,) ${placeholder} `).test(expression)) return word;
  }
  if (/^SET #l/.test(expression)) return 'lease';
  if (/^ADD #d/.test(expression)) return 'noted';
  const [, placeholder] = /\bSET #s = (:\w+)/.exec(expression) ?? [];
  return request.ExpressionAttributeValues?.[placeholder]?.S ?? '';
}

// What the statements of a batch write. The key is the first parameter of an INSERT, and
// the first after WHERE of an UPDATE.
function writesOf(body) {
  let request;
  try {
    request = JSON.parse(body);
  } catch {
    return [];
  }
  return (request.Statements ?? []).map(({ Statement: text, Parameters: values }) => {
    const place = (before) => before.split('?').length - 1;
    const ofKey = text.startsWith('INSERT') ? 0 : place(text.slice(0, text.indexOf(' WHERE ')));
    const [set] = /(?:SET |, )["'](?:eo_)?(?:status|lease_ms)["'](?: =|:) \?/.exec(text) ?? [''];
    const ofStatus = place(text.slice(0, text.indexOf(set)));
    return {
      key: values[ofKey]?.S ?? '',
      to: set.includes('lease_ms') ? 'lease' : values[ofStatus]?.S ?? '',
    };
  });
}

// Notes the statements of a batch that were refused.
function noteRefusals(entry, { body }) {
  try {
    JSON.parse(body).Responses.forEach(({ Error: error }, i) => {
      if (error) entry.writes[i].refused = error.Code;
    });
  } catch {
    entry.code = 'unreadable';
  }
}

function unitsOf(answer) {
  try {
    return JSON.parse(answer.body).ConsumedCapacity?.CapacityUnits ?? 0;
  } catch {
    return 0;
  }
}

// Copies of one transaction have the same token and the same bytes.
function transactionOf(body) {
  const [, token] = /"ClientRequestToken":"([^"]*)"/.exec(body) ?? [];
  return token && `${token} ${createHash('sha256').update(body).digest('hex')}`;
}

function errorCode({ status, body }) {
  if (status < 400) return '';
  try {
    return String(JSON.parse(body).__type ?? '').replace(/^.*#/, '');
  } catch {
    return 'unreadable';
  }
}

export class Proxy {
  #engine;
  #log = [];
  #faults = [];
  #held = [];
  #appliedWatchers = new Set();
  #watchers = new Set();
  #signals = new Set();
  #relays = [];
  #late = 0;
  #n = 0;

  // The engine closes idle connections after 30 s. The proxy closes them earlier,
  // so that it never sends a request on a connection that is being closed.
  #agent = new http.Agent({ keepAlive: true, timeout: 10000, scheduling: 'lifo' });

  constructor(engine) {
    this.#engine = engine;
    this.server = this.#newServer();
    // A test keeps its connection, and must not meet it just when it is closed for its age.
    this.control = http.createServer({ keepAliveTimeout: 0 }, (request, response) => this.#command(request, response));
  }

  #newServer() {
    return http.createServer({ keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 },
      (request, response) => this.#serve(request, response));
  }

  async start() {
    this.url = await listen(this.server);
    this.controlUrl = await listen(this.control);
  }

  stop() {
    for (const server of [this.server, this.control, ...this.#relays]) {
      server.close();
      server.closeAllConnections();
    }
    this.#agent.destroy();
  }

  released() {
    return new Promise((resolve) => this.#held.push(resolve));
  }

  // Sends a copy of a request once a promise is kept; nobody gets its answer.
  async later(due, send) {
    this.#late++;
    await due;
    await send();
    this.#late--;
    this.#look();
  }

  // Resolves once a request that matches has been applied by the engine.
  applied(pattern) {
    return new Promise((resolve) => this.#appliedWatchers.add({ pattern, resolve }));
  }

  async #serve(request, response) {
    let body;
    try {
      body = await collect(request);
    } catch {
      return;
    }
    const key = keysOf(body);
    const entry = {
      n: key.startsWith(LIFE) ? 0 : ++this.#n,
      op: String(request.headers['x-amz-target'] ?? '').replace(/^.*\./, ''),
      key,
      table: /(?:"TableName":|"(?:UPDATE|INSERT INTO) \\)"([^"\\]*)/.exec(body)?.[1] ?? '',
      from: request.socket.remoteAddress,
      port: request.socket.localPort,
      at: Date.now(),
      to: statusAfter(body),
      transaction: transactionOf(body),
      signer: /Credential=([^/]*)/.exec(request.headers.authorization ?? '')?.[1] ?? '',
      status: 0, code: '', sent: false, applied: false, bytes: body.length,
    };
    if (entry.op === 'Scan') entry.first = !body.includes('"ExclusiveStartKey"');
    if (entry.op === 'BatchExecuteStatement') {
      entry.writes = writesOf(body);
      entry.batch = entry.writes.map(({ key: written }) => written);
    }
    this.#log.push(entry);
    this.#look();

    const exchange = { proxy: this, entry, request, response, body, reset: false };
    const acting = this.#faultsFor(entry).map((fault) => kinds[fault.do](fault));

    for (const fault of acting) await fault.before?.(exchange);
    const forward = acting.reduce((next, fault) => (fault.forward ? () => fault.forward(exchange, next) : next),
      () => this.#forward(exchange));
    let answer = await forward();
    for (const fault of acting) {
      if (answer === null) break;
      if (fault.answer) answer = fault.answer(exchange, answer);
    }
    if (answer === null) {
      entry.code ||= 'cut';
      if (exchange.reset) request.socket.resetAndDestroy();
      else request.socket.destroy();
      return;
    }
    entry.status = answer.status;
    entry.code = errorCode(answer);
    entry.units = unitsOf(answer);
    entry.received = answer.body.length;
    if (entry.writes && answer.status === 200) noteRefusals(entry, answer);
    response.on('finish', () => { entry.sent = true; });
    response.sendDate = !Object.keys(answer.headers).some((name) => name.toLowerCase() === 'date');
    for (const fault of acting) if (await fault.write?.(exchange, answer)) return;
    response.writeHead(answer.status, { ...answer.headers, 'Content-Length': answer.body.length });
    response.end(answer.body);
  }

  // Hands the request to the engine. Returns null if the engine did not answer.
  async #forward({ request, body, entry }) {
    try {
      const answer = await this.#ask(request, body, entry);
      // A request that was applied stays applied, although a second copy of it may be refused.
      entry.applied = entry.applied === true || answer.status < 300;
      if (answer.status < 300) this.#tellApplied(entry);
      return answer;
    } catch (error) {
      entry.code = error.code ?? 'aborted';
      return null;
    }
  }

  #tellApplied(entry) {
    for (const watcher of this.#appliedWatchers) {
      if (!matches(entry, watcher.pattern ?? {})) continue;
      this.#appliedWatchers.delete(watcher);
      watcher.resolve();
    }
  }

  // Sends the request once. applied is null from the moment the request leaves
  // until the engine has answered it.
  #ask(request, body, entry) {
    return new Promise((resolve, reject) => {
      const onward = http.request({
        host: '127.0.0.1', port: this.#engine.port, agent: this.#agent,
        method: request.method, path: request.url,
        headers: { ...passOn(request.headers), host: request.headers.host, 'content-length': body.length },
      }, (reply) => {
        collect(reply).then((bytes) => resolve({
          status: reply.statusCode, headers: passOn(reply.headers), body: bytes,
        }), reject);
      });
      onward.on('socket', (socket) => {
        const leave = () => { entry.applied ||= null; };
        if (socket.connecting) socket.once('connect', leave);
        else leave();
      });
      onward.on('error', reject);
      onward.end(body);
    });
  }

  // The faults whose turn it is. A fault counts every request that matches.
  #faultsFor(entry) {
    return this.#faults.filter((fault) => {
      if (!matches(entry, fault)) return false;
      const turn = ++fault.seen - fault.nth;
      return turn >= 0 && turn % fault.every === 0 && (fault.times === 0 || turn < fault.times * fault.every);
    });
  }

  // -- control ------------------------------------------------------------

  #commands = {
    'GET /log': (query) => `${JSON.stringify(this.#matching(query))}\n`,
    'GET /count': (query) => `${this.#matching(query).length}\n`,
    'GET /ops': (query) => `${this.#matching(query).map(({ op }) => op).join(' ')}\n`,

    // Answers once n requests (default 1) that match have arrived.
    'GET /wait': (query) => this.#until(query, () => this.#matching(query).length >= Number(query.n ?? 1)),

    // Answers once no copy of a request is to come any more.
    'GET /quiet': (query) => this.#until(query, () => this.#late === 0),

    // A script of psql and its test meet at a name: the GET answers once somebody
    // has POSTed the name, and takes it, so that a name can be used again.
    'POST /signal': ({ name }) => {
      this.#signals.add(name);
      this.#look();
    },
    'GET /signal': (query) => this.#until(query, () => this.#signals.delete(query.name)),

    // Forgets the log, the signals and the faults, and lets go of all held requests.
    'POST /reset': () => {
      this.#log = [];
      this.#n = 0;
      this.#faults = [];
      this.#signals.clear();
      this.#release();
      for (const { resolve } of this.#appliedWatchers) resolve();
      this.#appliedWatchers.clear();
    },
    'POST /fault': (query, body) => {
      const fault = { nth: 1, times: 1, every: 1, ...JSON.parse(body), seen: 0 };
      if (!Object.hasOwn(kinds, fault.do)) {
        throw new Error(`no such fault: ${fault.do}; there are ${Object.keys(kinds).join(', ')}`);
      }
      this.#faults.push(fault);
    },

    // Forgets the faults that were asked for with this key, or those of them that do
    // this or concern this operation, and no others.
    'DELETE /fault': ({ key, do: kind, op }) => {
      this.#faults = this.#faults.filter((fault) => fault.key !== key || (kind && fault.do !== kind)
        || (op && fault.op !== op));
    },
    'POST /release': () => this.#release(),

    // Another address of the same engine, with the same faults and the same log: answers with it.
    'POST /relay': () => {
      this.#relays.push(this.#newServer());
      return listen(this.#relays.at(-1));
    },
    'POST /engine/stop': () => this.#engine.stop(),
    'POST /engine/start': () => this.#engine.start(),
    'POST /engine/pause': () => this.#engine.pause(),
    'POST /engine/resume': () => this.#engine.resume(),
  };

  async #command(request, response) {
    const url = new URL(request.url, 'http://control');
    const command = this.#commands[`${request.method} ${url.pathname}`];
    let status = 200;
    let text;
    try {
      const body = await collect(request);
      if (!command) throw new Error(`no such command: ${request.method} ${url.pathname}`);
      text = await command(Object.fromEntries(url.searchParams), body) ?? '';
    } catch (error) {
      status = 400;
      text = `${error.message}\n`;
    }
    response.writeHead(status, { 'Content-Type': 'text/plain' });
    response.end(text);
  }

  #matching(query) {
    return this.#log.filter((entry) => matches(entry, query));
  }

  #release() {
    for (const go of this.#held.splice(0)) go();
  }

  #look() {
    for (const look of this.#watchers) look();
  }

  // Resolves once done() is true. It is asked after each request and each signal,
  // for five minutes, or as many seconds as the query says.
  #until({ seconds = 300 }, done) {
    return new Promise((resolve, reject) => {
      let timer;
      const look = () => {
        if (!done()) return false;
        this.#watchers.delete(look);
        clearTimeout(timer);
        resolve();
        return true;
      };
      if (look()) return;
      this.#watchers.add(look);
      timer = setTimeout(() => {
        this.#watchers.delete(look);
        reject(new Error(`not seen within ${seconds} s`));
      }, seconds * 1000);
    });
  }
}

function matches(entry, { op, table, key, to }) {
  if ((op && entry.op !== op) || (table && entry.table !== table)) return false;
  return (entry.writes ?? [entry]).some((write) => (!write.key.startsWith(LIFE) || key?.startsWith(LIFE))
    && (!key || write.key.includes(key)) && (!to || write.to === to));
}
