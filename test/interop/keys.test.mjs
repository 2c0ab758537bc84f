// idem_key_powertools() makes the keys that the libraries make: for TypeScript compared
// with the library itself, for Python with the two modules of Python that the library
// calls. The documents are random, but the same in every run.
//
//   EO_DOCUMENTS   how many; 1000 by default, and 10000 for the whole of it

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { createDatabase } from './database.mjs';

const DATABASE = 'interop_keys';
const DOCUMENTS = Number(process.env.EO_DOCUMENTS ?? 1000);
const SEED = 20260202;
const PREFIX = 'orders.Zoë';
let sql;
let library;

// Mulberry32
let state = SEED;
function random(n) {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];
const times = (n, make) => Array.from({ length: n }, make);

const codePoints = (from, to) => times(to - from, (_, i) => String.fromCodePoint(from + i));
const everything = [...codePoints(0x80, 0xd800), ...codePoints(0xe000, 0x110000)];
const cased = everything.filter((c) => c.toLowerCase() !== c);
const ignorable = everything.filter((c) => /\p{Case_Ignorable}/u.test(c));

// -- documents: texts, because one value has many ----------------------------------

const blank = () => (random(4) ? '' : pick([' ', '\n', '\t', '\r', '  ']));
const hex = (unit) => {
  const digits = unit.toString(16).padStart(4, '0');
  return `\\u${random(2) ? digits : digits.toUpperCase()}`;
};
const short = { '"': '\\"', '\\': '\\\\', '\b': '\\b', '\f': '\\f', '\n': '\\n', '\r': '\\r', '\t': '\\t', '/': '\\/' };

// A character as it is or in escapes. A half of a pair and a control character cannot
// be as they are.
function spelled(character) {
  const must = /^[\0-\x1f"\\\ud800-\udfff]$/.test(character);
  if (!must && random(6)) return character;
  if (short[character] && random(2)) return short[character];
  return character.split('').map((unit) => hex(unit.charCodeAt(0))).join('');
}

const character = () => {
  switch (random(12)) {
    case 0: return String.fromCodePoint(random(0x80));
    case 1: return pick(everything);
    case 2: return pick(cased);
    case 3: return pick(ignorable);
    case 4: return pick(['Σ', 'σ', 'ς', 'İ', 'ı', 'i', '\u0307', 'ß', 'ẞ', 'K']);
    case 5: return String.fromCharCode(0xd800 + random(0x800));
    default: return pick([...'aAbBzZ019 _-.é漢😀']);
  }
};
const string = (most) => `"${times(random(most), () => spelled(character())).join('')}"`;

const double = new DataView(new ArrayBuffer(8));
function anyDouble() {
  do {
    double.setUint32(0, random(2 ** 32));
    double.setUint32(4, random(4) ? random(2 ** 32) : random(4));
  } while (!Number.isFinite(double.getFloat64(0)));
  return double.getFloat64(0);
}
const digits = (most) => `${1 + random(9)}${times(random(most), () => random(10)).join('')}`;
const number = () => {
  const sign = pick(['', '', '-']);
  switch (random(8)) {
    case 0: return sign + pick(['0', '0.0', '0e0', '1', '1.0', '1.50', '1e21', '1e23', '1E+5', '1e-7', '5e-324', '2e-324', '1e400',
      '4.9406564584124654e-324', '9007199254740993', '9007199254740993.0', '1.7976931348623157e308', '100000000000000000000']);
    case 1: return sign + digits(4);
    case 2: return sign + digits(40);
    case 3: return `${sign}${digits(20)}.${digits(20)}`;
    case 4: return `${sign}${pick(['0', digits(18)])}.${'0'.repeat(random(8))}${digits(18)}${pick(['e', 'E'])}${pick(['', '+', '-'])}${random(330)}`;
    case 5: return anyDouble().toExponential(random(21));
    case 6: return `${sign}${random(2 ** 32)}e${random(24)}`;
    default: return String(anyDouble());
  }
};

const name = () => {
  switch (random(8)) {
    case 0: return `"${pick(['0', '1', '2', '10', '01', '-1', '1.0', '4294967294', '4294967295', '4294967296', '99999999999'])}"`;
    case 1: return `"${pick(['__proto__', 'toString', 'constructor', 'toJSON', 'length', '\\u005f_proto__', ''])}"`;
    case 2: return `"${times(3, () => spelled(pick([...'aAbB']))).join('')}"`;
    default: return string(5);
  }
};
function value(levels) {
  const inside = () => blank() + value(levels - 1) + blank();
  switch (random(levels > 0 ? 9 : 5)) {
    case 0: return pick(['null', 'true', 'false']);
    case 1: case 2: return number();
    case 3: case 4: return string(12);
    case 5: case 6: return `[${times(random(5), inside).join(',') || blank()}]`;
    default: {
      // V8 sorts short lists otherwise than long ones
      const n = random(50) ? random(7) : 30 + random(120);
      return `{${times(n, () => `${blank()}${name()}${blank()}:${inside()}`).join(',') || blank()}}`;
    }
  }
}

// Each power of 2 with its neighbours: where the distances between doubles change.
function powersOfTwo() {
  const found = [];
  for (let bits = 1n; bits < 2n ** 11n - 1n; bits++) {
    for (const offset of [-1n, 0n, 1n]) {
      double.setBigUint64(0, bits * 2n ** 52n + offset);
      found.push(double.getFloat64(0).toExponential(20));
    }
  }
  for (let shift = 0n; shift < 52n; shift++) {
    double.setBigUint64(0, 2n ** shift);
    found.push(double.getFloat64(0).toExponential(20));
  }
  return found;
}

// Of each character with a lower case, a name with it and names before and behind.
const casedNames = () => JSON.stringify(Object.fromEntries([...cased].reverse().flatMap(
  (c, i) => [[`${c.toLowerCase()}0`, i], [`${c}1`, i], [`${c.toLowerCase()}2`, i]])));

// The capital sigma between other characters: its lower case decides which of the
// others it follows.
const sigmas = () => {
  const context = () => times(random(4), () => pick([pick(ignorable), pick(cased), pick(['a', '.', ' ', '\u0345', 'ʰ', 'Σ']), character()])).join('');
  return times(2000, () => {
    const [before, behind] = [context(), context()];
    return JSON.stringify({ [`${before}Σ${behind}`]: 1, [`${before}ς${behind}`]: 2, [`${before}σ${behind}`]: 3 });
  });
};

let documents;

before(async () => {
  // The name of a function is in the prefix, where no prefix is given.
  delete process.env.AWS_LAMBDA_FUNCTION_NAME;
  const { IdempotencyConfig } = await import('@aws-lambda-powertools/idempotency');
  const { DynamoDBPersistenceLayer } = await import('@aws-lambda-powertools/idempotency/dynamodb');
  library = new DynamoDBPersistenceLayer({ tableName: 'none' });
  library.configure({ config: new IdempotencyConfig({ payloadValidationJmesPath: '@' }), keyPrefix: PREFIX });

  documents = [...times(DOCUMENTS, () => blank() + value(4) + blank()), ...powersOfTwo(), casedNames(), ...sigmas()];
  await createDatabase(DATABASE);
  sql = new pg.Client({ database: DATABASE });
  await sql.connect();
  await sql.query('CREATE EXTENSION exactonce');
});

after(async () => {
  await sql?.end();
});

// A payload that identifies nothing has a hash, and makes no record, so that it has no key here.
function identifiesNothing(text) {
  const data = JSON.parse(text);
  return data === null || data === '' || (typeof data === 'object' && Object.keys(data).length === 0)
    || (Array.isArray(data) && data.every((element) => element === null));
}

async function ours(runtime) {
  const { rows } = await sql.query(`SELECT CASE WHEN named THEN idem_key_powertools($1, payload::json, $2) END AS key,
      idem_validation_powertools($1, payload::json) AS validation
    FROM unnest($3::text[], $4::bool[]) WITH ORDINALITY u (payload, named, n) ORDER BY n`,
  [runtime, PREFIX, documents, documents.map((text) => !identifiesNothing(text))]);
  return rows;
}

function compare(actual, expected) {
  assert.equal(actual.length, documents.length);
  for (const [i, row] of actual.entries()) {
    const key = identifiesNothing(documents[i]) ? null : expected[i].key;
    assert.deepEqual(row, { ...expected[i], key }, documents[i].slice(0, 2000));
  }
}

test('the keys for typescript are those of the library', async (t) => {
  // It warns of values that make no good key.
  t.mock.method(console, 'warn', () => {});
  compare(await ours('typescript'), documents.map((text) => {
    const data = JSON.parse(text);
    return { key: library.getHashedIdempotencyKey(data), validation: library.getHashedPayload(data) };
  }));
});

test('the keys for python are those that its modules make', async () => {
  const digests = JSON.parse(execFileSync('python3', ['keys.py'], {
    input: JSON.stringify(documents), maxBuffer: 2 ** 30, encoding: 'utf8' }));
  compare(await ours('python'), digests.map((digest) => ({ key: `${PREFIX}#${digest}`, validation: digest })));
});
