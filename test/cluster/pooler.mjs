// pgbouncer in transaction mode, with 10 sessions of the server for 100 clients, and each function of
// the extension behind it: within a transaction, over several of them with the token, and without.

import { createRequire } from 'node:module';
import { addresses } from './hosts.mjs';

const pg = createRequire(new URL('../interop/', import.meta.url))('pg');

const CLIENTS = 100;

async function connect() {
  const client = new pg.Client({ host: addresses.front[0], port: 6432, user: 'postgres', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  return client;
}

// What comes back: the last row's values, or the code of the error.
async function ask(client, text) {
  try {
    const answer = await client.query(text);
    const rows = [answer].flat().at(-1).rows;
    return rows.length > 0 ? Object.values(rows[0]).join(' ') : 'done';
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    return error.code;
  }
}

// Each statement in a session of the server that no statement before has had: the others wait in a
// transaction of another client.
async function apart(...statements) {
  const others = [];
  const client = await connect();
  let answer;
  try {
    let token = '';
    for (const statement of statements) {
      answer = await ask(client, statement.replaceAll('TOKEN', `'${token}'`));
      if (/^[0-9a-f-]{36}$/.test(answer)) token = answer;
      const other = await connect();
      others.push(other);
      await other.query('BEGIN');
      await other.query('SELECT 1');
    }
  } finally {
    for (const other of others) await other.end();
    await client.end();
  }
  return answer;
}

const claim = (key) => `SELECT token FROM idem_acquire('${key}', lease => '1 min')`;

// [what is shown, the last answer, statements...]: each statement is a transaction.
const CASES = [
  ['idem_acquire, idem_complete in one transaction', 'done', "BEGIN; SELECT idem_acquire('p1'); SELECT idem_complete('p1', '1'); COMMIT"],
  ['the duplicate', 'completed', "SELECT outcome FROM idem_acquire('p1')"],
  ['idem_acquire_many, idem_complete_many', 'done',
    "BEGIN; SELECT idem_acquire_many('{p2,p3}'); SELECT idem_complete_many('{p2,p3}', '{1,2}'); COMMIT"],
  ['idem_start', 'done', "BEGIN; SELECT idem_start('p4'); SELECT idem_complete('p4'); COMMIT"],
  ['idem_once', 'done', "BEGIN; SELECT idem_once('p5', '1'); COMMIT"],
  ['idem_guard', '23505', "INSERT INTO guarded VALUES ('p6', 'x')", "INSERT INTO guarded VALUES ('p6', 'x')"],
  ['idem_guard at commit', '23505', "INSERT INTO guarded_late VALUES ('p7', 'x')", "INSERT INTO guarded_late VALUES ('p7', 'x')"],
  ['idem_call', 'true',
    `BEGIN; SELECT set_config('soak.attempt', '1', true), set_config('soak.fails', 'no', true);
     SELECT idem_call('p8', 'handle(jsonb)', '{"key": "p8"}'); COMMIT;
     SELECT count(*) = 1 FROM work WHERE key = 'p8'`],
  ['idem_transact', 'completed', `SELECT outcome FROM idem_transact('p9', '[{"Put": {"TableName": "cluster_items", "Item": {"pk": "p9"}}}]')`],
  ['writes at commit', 'done', `BEGIN; SELECT idem_acquire('p10');
     SELECT idem_complete('p10', '1', writes => '[{"Put": {"TableName": "cluster_items", "Item": {"pk": "p10"}}}]'); COMMIT`],
  ['idem_write', 'completed', `CREATE FUNCTION writes(payload jsonb) RETURNS jsonb LANGUAGE sql AS $$
     SELECT idem_write('[{"Put": {"TableName": "cluster_items", "Item": {"pk": "p13"}}}]'); SELECT payload $$`,
    "SELECT idem_call('p13', 'writes(jsonb)', '{}')", "SELECT outcome FROM idem_acquire('p13')"],
  ['idem_http', 'true', `BEGIN; SELECT set_config('soak.attempt', '1', true), set_config('soak.fails', 'no', true),
     set_config('request.headers', '{"idempotency-key": "p14"}', true);
     SELECT idem_http('handle(jsonb)', '{"key": "p14"}'); COMMIT;
     SELECT count(*) = 1 FROM work WHERE key = 'p14'`],
  ['idem_mirror', 'done', `CREATE TABLE mirrored (pk text PRIMARY KEY);
     CREATE TRIGGER mirror AFTER INSERT ON mirrored FOR EACH ROW EXECUTE FUNCTION idem_mirror('cluster_items', 'pk')`,
    "INSERT INTO mirrored VALUES ('p15')"],
  ['PREPARE TRANSACTION, ended by another session', 'done', "BEGIN; SELECT idem_acquire('p11'); SELECT idem_complete('p11'); PREPARE TRANSACTION 'p11'",
    "COMMIT PREPARED 'p11'"],
  ['a savepoint that is rolled back', 'acquired', "BEGIN; SAVEPOINT s; SELECT idem_acquire('p12'); ROLLBACK TO s; COMMIT", "SELECT outcome FROM idem_acquire('p12')"],
  ['idem_complete in a later transaction, with the token', 'completed', claim('q1'), "SELECT idem_complete('q1', '1', token => TOKEN)",
    "SELECT outcome FROM idem_acquire('q1')"],
  ['idem_complete in a later transaction, without it', 'ID008', claim('q2'), "SELECT idem_complete('q2', '1')"],
  ['idem_complete at once, with the token', 'completed', claim('q3'), "SELECT idem_complete('q3', '1', token => TOKEN, immediate => true)",
    "SELECT outcome FROM idem_acquire('q3')"],
  ['idem_fail with the token', 'acquired', claim('q4'), "SELECT idem_fail('q4', token => TOKEN)", "SELECT outcome FROM idem_acquire('q4')"],
  ['idem_fail without it', 'ID008', claim('q5'), "SELECT idem_fail('q5')"],
  ['idem_release with the token', 'acquired', claim('q6'), "SELECT idem_release('q6', token => TOKEN)", "SELECT outcome FROM idem_acquire('q6')"],
  ['idem_release without it: nothing is held', 'false', claim('q7'), "SELECT idem_release('q7')"],
  ['idem_extend with the token', 'true', claim('q8'), "SELECT idem_extend('q8', '2 min', token => TOKEN) > now()"],
  ['idem_extend without it', 'ID008', claim('q9'), "SELECT idem_extend('q9', '2 min')"],
  ['on_commit => session: its session goes on without the client', 'in_progress', "SELECT token FROM idem_acquire('s1', on_commit => 'session')",
    "SELECT outcome FROM idem_acquire('s1')"],
  ['action_create, action_consume', 'consumed', "SELECT outcome FROM action_create('{}', id => 'a1')", "SELECT outcome FROM action_consume('a1')"],
  ['action_consume at commit', 'done', "SELECT outcome FROM action_create('{}', id => 'a2')", "BEGIN; SELECT action_consume('a2', at => 'commit'); COMMIT"],
  ['action_create_many', '2', `SELECT count(*) FROM action_create_many('[{"id": "a4"}, {"id": "a5"}]')`],
  ['action_cancel', 'canceled', "SELECT outcome FROM action_create('{}', id => 'a3')", "SELECT outcome FROM action_cancel('a3')"],
  ['action_get', 'true', "SELECT count(*) = 1 FROM action_get('a1')"],
  ['action_list', 'true', 'SELECT count(*) > 0 FROM action_list()'],
  ['idem_get', 'COMPLETED', "SELECT status FROM idem_get('p1')"],
  ['idem_list', 'true', "SELECT count(*) > 3 FROM idem_list('completed')"],
  ['idem_audit', 'true', 'SELECT count(*) = 0 FROM idem_audit()'],
  ['idem_forget', 'acquired', "SELECT idem_forget('p1')", "SELECT outcome FROM idem_acquire('p1')"],
  ['idem_check', 'true', 'SELECT count(*) > 0 FROM idem_check()'],
  ['idem_key, idem_key_from, idem_key_powertools', '64 64 true', `SELECT length(idem_key('a', 1)) AS a,
     length(idem_key_from('{"a": 1}', '$.a')) AS b, idem_key_powertools('python', '{"a": 1}', 'f') IS NOT NULL`],
  ['idem_validation_powertools', 'true', `SELECT idem_validation_powertools('python', '{"a": 1}'::json) IS NOT NULL`],
  ['idem_create_table', 'exists', 'SELECT idem_create_table()'],
  ['idem_resolve: PostgreSQL knows the answer', 'false', "SELECT idem_resolve('p2', 'completed')"],
  ['action_resolve: nothing is in doubt', 'false', "SELECT action_resolve('a1', 'completed')"],
  ['idem_give_up: no such row', 'false', 'SELECT idem_give_up(gen_random_uuid())'],
  ['idem_lift: nothing is barred', 'false', 'SELECT idem_lift()'],
  ['idem_take_over: no such life', '22023', 'SELECT idem_take_over(gen_random_uuid())'],
  ['idem_drain', '0', 'SELECT idem_drain()'],
  ['a claim after it', '55000', "SELECT idem_acquire('p16')"],
  ['idem_drain(NULL) allows it again', 'acquired', 'SELECT idem_drain(NULL)', "SELECT outcome FROM idem_acquire('p16')"],
  ['idem_sweep', 'true', 'SELECT count(*) >= 0 FROM idem_sweep()'],
  ['exactonce_stats_reset', 'done', "SELECT exactonce_stats_reset('exactonce')"],
  ['a prepared statement by name', process.env.EO_BOUNCER >= '1.21' ? 'done' : '26000', 'PREPARE named AS SELECT 1', 'EXECUTE named'],
];

// Those of the extension that are called by name, or by a trigger.
const FUNCTIONS = `SELECT DISTINCT proname FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid WHERE extname = 'exactonce' AND (proname ~ '^(idem|action)_' OR proname = 'exactonce_stats_reset')`;

export async function pool(world, say) {
  const wrong = [];
  for (const [what, expected, ...statements] of CASES) {
    const answer = await apart(...statements);
    const fits = answer === expected || (expected === 'done' && !/^[0-9A-Z]{5}$/.test(answer));
    say(`${fits ? 'ok' : 'NOT OK'}: ${what}: ${answer}${fits ? '' : `, and not ${expected}`}`);
    if (!fits) wrong.push(what);
  }
  const uncovered = (await world.ask(FUNCTIONS)).split('\n').filter((name) => !CASES.some((texts) => texts.some((text) => new RegExp(`\\b${name}\\b`).test(text))));
  say(`${uncovered.length === 0 ? 'ok' : 'NOT OK'}: functions without a case: ${uncovered.join(', ') || 'none'}`);
  return [...wrong, ...uncovered, ...await crowd(say)];
}

// So many clients do the work of the same keys. Each is done once.
async function crowd(say) {
  const began = Date.now();
  const clients = await Promise.all(Array.from({ length: CLIENTS }, connect));
  const counts = {};
  await Promise.all(clients.map(async (client, number) => {
    for (let i = 0; i < 20; i++) {
      const key = `crowd-${(number * 7 + i) % 200}`;
      const outcome = await client.query('BEGIN').then(() => client.query('SELECT outcome FROM idem_acquire($1)', [key]))
        .then(({ rows }) => rows[0].outcome).catch((error) => error.code);
      if (outcome === 'acquired') {
        await client.query('INSERT INTO work VALUES ($1, NULL, $2)', [key, `${number}`]);
        await client.query('SELECT idem_complete($1)', [key]);
      }
      const end = await client.query(outcome.startsWith?.('ID') ? 'ROLLBACK' : 'COMMIT').then(() => outcome, (error) => error.code);
      counts[end] = (counts[end] ?? 0) + 1;
    }
  }));
  const { rows: [{ n, keys, servers }] } = await clients[0].query(`SELECT count(*)::int AS n, count(DISTINCT key)::int AS keys,
    (SELECT count(*)::int FROM pg_stat_activity WHERE client_addr = '127.0.0.1' AND usename = 'postgres' AND application_name !~ 'Patroni') AS servers
    FROM work WHERE key LIKE 'crowd-%'`);
  for (const client of clients) await client.end();
  const fits = n === keys && keys === 200;
  say(`${fits ? 'ok' : 'NOT OK'}: ${CLIENTS} clients on ${servers} sessions: ${n} works of ${keys} keys; ${JSON.stringify(counts)}; ${((Date.now() - began) / 1000).toFixed(1)} s`);
  return fits ? [] : ['the crowd'];
}
