// Sessions of PostgreSQL that may end with a crash of the server.

import pg from 'pg';

export async function session(database) {
  const client = new pg.Client({ database });
  // A session that is cut off fails its query; that nobody asks anything is no error.
  client.on('error', () => {});
  client.ended = new Promise((resolve) => client.once('end', resolve));
  await client.connect();
  return client;
}

// Kills the server process of a session, so that the server ends all others, of which
// bystander is one, and recovers. Returns a new session once it accepts connections again.
export async function crash(client, bystander, database) {
  const { rows: [{ pid }] } = await client.query('SELECT pg_backend_pid() AS pid');
  process.kill(pid, 'SIGKILL');
  await Promise.all([client.ended, bystander.ended]);
  for (;;) {
    try {
      return await session(database);
    } catch (error) {
      // The server is not ready yet, or ends those who come too early.
      if (!['57P01', '57P02', '57P03', 'ECONNREFUSED', 'ENOENT', 'ECONNRESET'].includes(error.code)
        && !/terminated unexpectedly/.test(error.message)) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 50); });
    }
  }
}
