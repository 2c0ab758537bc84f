// tls.mjs KEY CERTIFICATE PORT
//
// A front for a server on PORT of this machine that speaks plain http: takes TLS
// connections with that key and certificate, and passes on what they carry. Prints
// its own port, and ends when its standard input does. It sends without delay, as
// DynamoDB does: otherwise the first reply waits until the client has acknowledged the
// session tickets, which takes it 40 ms.

import { readFileSync } from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';

const [key, cert, port] = process.argv.slice(2);

const options = { key: readFileSync(key), cert: readFileSync(cert), noDelay: true };
const front = tls.createServer(options, (socket) => {
  const onward = net.connect({ port: Number(port), host: '127.0.0.1', noDelay: true });
  socket.pipe(onward).pipe(socket);
  for (const [one, other] of [[socket, onward], [onward, socket]]) one.on('error', () => other.destroy());
});
// The client did not like the certificate.
front.on('tlsClientError', () => {});
front.listen(0, '127.0.0.1', () => console.log(front.address().port));
process.stdin.on('end', () => process.exit()).resume();
