// The proxy between the extension and the engine: it writes down every request
// and commits the faults that tests ask for. It never retries by itself.
//
// A line of the log: n (from 1), op, key (partition keys, joined by a space),
// status and code (the answer's HTTP status and error name; 0 and a word where
// there was no answer), sent (the answer was handed to the client whole) and
// applied (the engine carried the request out; null: it cannot be known).
//
// A fault kind is one entry of the table below: a function of the exchange,
// the fault as it was asked for, and forward(), which passes the request to
// the engine and gives its answer. It returns the answer that the client is to
// get, or null to cut the connection without any.

import http from 'node:http';
import { pause } from './util.mjs';

const kinds = {
  // The request never arrives.
  drop: async () => null,

  // The request takes effect and its answer is lost.
  lose: async (exchange, fault, forward) => {
    await forward();
    return null;
  },

  // The request arrives late.
  delay: async (exchange, fault, forward) => {
    await pause(fault.ms ?? 1000);
    return forward();
  },

  // The request waits for POST /release. It then goes on to the engine even
  // if the client has given up meanwhile, as late requests do.
  hold: async (exchange, fault, forward) => {
    await exchange.proxy.released();
    return forward();
  },

  // The proxy answers: {status, code, message}. The engine is not asked.
  answer: async (exchange, fault) => ({
    status: fault.status ?? 500,
    headers: { 'Content-Type': 'application/x-amz-json-1.0', ...fault.headers },
    body: Buffer.from(JSON.stringify({
      __type: `com.amazonaws.dynamodb.v20120810#${fault.code ?? 'InternalServerError'}`,
      message: fault.message ?? '',
    })),
  }),
};

// Headers that belong to one connection and not to the message.
const hop = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'expect', 'host']);

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

function partitionKey(item) {
  const value = item?.pk ?? Object.values(item ?? {})[0];
  return value ? Object.values(value)[0] : null;
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
    .map((action) => partitionKey(action.Key ?? action.Item))
    .filter((key) => key !== null)
    .join(' ');
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
  #watchers = new Set();
  #n = 0;

  // The engine closes idle connections after 30 s; ours are gone before that,
  // so that a connection closed under our hands is never taken for a failure.
  #agent = new http.Agent({ keepAlive: true, timeout: 10000, scheduling: 'lifo' });

  constructor(engine) {
    this.#engine = engine;
    this.server = http.createServer({ keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 },
      (request, response) => this.#serve(request, response));
    this.control = http.createServer((request, response) => this.#command(request, response));
  }

  async start() {
    for (const server of [this.server, this.control]) {
      await new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(0, '127.0.0.1', resolve);
      });
    }
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    this.controlUrl = `http://127.0.0.1:${this.control.address().port}`;
  }

  stop() {
    for (const server of [this.server, this.control]) {
      server.close();
      server.closeAllConnections();
    }
    this.#agent.destroy();
  }

  released() {
    return new Promise((resolve) => this.#held.push(resolve));
  }

  async #serve(request, response) {
    let body;
    try {
      body = await collect(request);
    } catch {
      return;
    }
    const entry = {
      n: ++this.#n,
      op: String(request.headers['x-amz-target'] ?? '').replace(/^.*\./, ''),
      key: keysOf(body),
      status: 0, code: '', sent: false, applied: false,
    };
    this.#log.push(entry);
    for (const look of this.#watchers) look();

    const forward = async () => {
      try {
        const answer = await this.#ask(request, body, entry);
        entry.applied = answer.status < 300;
        entry.status = answer.status;
        entry.code = errorCode(answer);
        return answer;
      } catch (error) {
        entry.code = error.code ?? 'aborted';
        return null;
      }
    };
    const fault = this.#faultFor(entry);
    const answer = fault
      ? await kinds[fault.do]({ proxy: this, entry, request, body }, fault, forward)
      : await forward();

    if (answer === null) {
      entry.code ||= fault.do;
      request.socket.destroy();
      return;
    }
    entry.status = answer.status;
    entry.code = errorCode(answer);
    response.on('finish', () => { entry.sent = true; });
    response.writeHead(answer.status, { ...answer.headers, 'Content-Length': answer.body.length });
    response.end(answer.body);
  }

  // One try. applied is null from the moment the request leaves until the
  // engine has answered it.
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
        const leave = () => { entry.applied = null; };
        if (socket.connecting) socket.once('connect', leave);
        else leave();
      });
      onward.on('error', reject);
      onward.end(body);
    });
  }

  // The first fault whose turn it is. Every fault that matches counts the
  // request, whether or not another one is committed on it.
  #faultFor(entry) {
    let chosen = null;
    for (const fault of this.#faults) {
      if (!matches(entry, fault)) continue;
      const turn = ++fault.seen - fault.nth;
      if (!chosen && turn >= 0 && (fault.times === 0 || turn < fault.times)) chosen = fault;
    }
    return chosen;
  }

  // -- control ------------------------------------------------------------

  #commands = {
    'GET /log': () => `${JSON.stringify(this.#log)}\n`,
    'GET /count': (query) => `${this.#matching(query).length}\n`,
    'GET /ops': () => `${this.#log.map(({ op }) => op).join(' ')}\n`,

    // Answers once n requests (default 1) that match have arrived.
    'GET /wait': async (query) => {
      await this.#arrival(() => this.#matching(query).length >= Number(query.n ?? 1), Number(query.seconds ?? 30));
      return '';
    },
    'POST /reset': () => {
      this.#log = [];
      this.#n = 0;
      this.#faults = [];
      this.#release();
      return '';
    },
    'POST /fault': (query, body) => {
      const fault = { nth: 1, times: 1, ...JSON.parse(body), seen: 0 };
      if (!Object.hasOwn(kinds, fault.do)) {
        throw new Error(`no such fault: ${fault.do}; there are ${Object.keys(kinds).join(', ')}`);
      }
      this.#faults.push(fault);
      return '';
    },
    'POST /release': () => this.#release(),
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
    return '';
  }

  #arrival(done, seconds) {
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

function matches(entry, { op, key }) {
  return (!op || entry.op === op) && (!key || entry.key.includes(key));
}
