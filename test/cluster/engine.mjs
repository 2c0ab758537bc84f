// The engine of the harness, in the namespace that this program runs in: on loopback, as always, and
// by a relay for the other hosts.
//
//   engine.mjs FOLDER PORT

import net from 'node:net';
import { Engine } from '../harness/engine.mjs';

const [folder, port] = process.argv.slice(2);
const engine = new Engine(folder, { inMemory: true });
await engine.start();
net.createServer((here) => {
  const there = net.connect(engine.port, '127.0.0.1');
  for (const end of [here, there]) end.on('error', () => { here.destroy(); there.destroy(); });
  here.pipe(there).pipe(here);
}).listen(Number(port), '0.0.0.0');
