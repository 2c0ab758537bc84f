// aws.mjs PORTFILE
//
// What hands out credentials in AWS, on one loopback port: the instance metadata
// service (version 2 only), a container's endpoint and STS. The port is written to
// PORTFILE. The program ends when its standard input does.
//
// Each answer has an access key id of its own, which is its kind and a number, such as
// INSTANCE1. STS checks signatures as AWS does, and so proves that the caller had the
// secret.
//
//   POST /control {life, clock, region, token, metadata, container, sts}
//                  seconds that credentials last, how many seconds all clocks are ahead,
//                  the region of the instance, the container's token, and how each service
//                  behaves: ok, error, hang, garbage, denied, slow,
//                  slower (a metadata service that is nearly too slow), half, huge, redirect,
//                  unauthorized, expired
//   GET /counts    requests by path since the last POST /control
//   GET /issued    the end of each key that was issued, in epoch milliseconds

import { createHash, createHmac } from 'node:crypto';
import http from 'node:http';
import { renameSync, writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const METADATA = '/latest/meta-data/iam/security-credentials/';
const secrets = new Map([['ENVKEY', { secret: 'environment-secret' }], ['FILEKEY', { secret: 'file-secret' }]]);
const REGION = '/latest/meta-data/placement/region';
let behaviour = { life: 3600, clock: 0, region: 'eu-central-1', token: 'container-token', metadata: 'ok', container: 'ok', sts: 'ok' };
let counts = {};
let serial = 0;
const issued = {};

const now = () => Date.now() + behaviour.clock * 1000;

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const hmac = (key, text) => createHmac('sha256', key).update(text).digest();

function issue(kind, service) {
  serial += 1;
  const id = `${kind}${serial}`;
  const key = { secret: `hidden-secret-${id}`, token: `hidden-token-${id}+/=` };
  secrets.set(id, key);
  issued[id] = now() + (behaviour[service] === 'expired' ? -60 : behaviour.life) * 1000;
  return { id, ...key, expires: new Date(issued[id]).toISOString() };
}

// "20260101T000000Z" as an instant
function instant(text) {
  return Date.parse(text?.replace(/^(....)(..)(..T..)(..)(..)Z$/, '$1-$2-$3:$4:$5Z'));
}

// "Create a signed AWS API request" in the IAM User Guide, for a POST to "/".
function isSigned(request, body) {
  const match = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d+)\/([^/]+)\/sts\/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)$/
    .exec(request.headers.authorization ?? '');
  const key = secrets.get(match?.[1]);
  if (!key || (key.token ?? undefined) !== request.headers['x-amz-security-token']) return false;
  const [, , day, region, names, signature] = match;
  const headers = names.split(';').map((name) => `${name}:${request.headers[name]}\n`).join('');
  const canonical = `POST\n/\n\n${headers}\n${names}\n${sha256(body)}`;
  const text = `AWS4-HMAC-SHA256\n${request.headers['x-amz-date']}\n${day}/${region}/sts/aws4_request\n${sha256(canonical)}`;
  const signing = [day, region, 'sts', 'aws4_request'].reduce(hmac, `AWS4${key.secret}`);
  return hmac(signing, text).toString('hex') === signature;
}

function json(kind, service) {
  const { id, secret, token, expires } = issue(kind, service);
  return [200, JSON.stringify({ Code: 'Success', AccessKeyId: id, SecretAccessKey: secret, Token: token,
    Expiration: expires })];
}

function refuse(code, message) {
  return [403, '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    + `<Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`];
}

function respond(action, result) {
  return [200, `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result>${result}`
    + `</${action}Result></${action}Response>`];
}

function sts(request, body) {
  const form = new URLSearchParams(body);
  const action = form.get('Action');
  const web = action === 'AssumeRoleWithWebIdentity';
  const arn = form.get('RoleArn');
  if (!web && Math.abs(instant(request.headers['x-amz-date']) - now()) > 300_000) {
    return refuse('SignatureDoesNotMatch', 'Signature expired');
  }
  const allowed = web ? form.get('WebIdentityToken') === 'web-identity-token' : isSigned(request, body);
  if (!allowed || behaviour.sts === 'denied') return refuse('AccessDenied', 'not authorized');
  if (action === 'GetCallerIdentity') {
    const [, id] = /Credential=([^/]+)/.exec(request.headers.authorization);
    return respond(action, `<Arn>arn:aws:sts::123456789012:assumed-role/app/${id}</Arn><UserId>${id}</UserId>`
      + '<Account>123456789012</Account>');
  }
  if (!arn?.startsWith('arn:') || (arn.endsWith('/closed') && form.get('ExternalId') !== 'open')) {
    return refuse('AccessDenied', 'not authorized');
  }
  const { id, secret, token, expires } = issue(web ? 'WEB' : 'ROLE', 'sts');
  return respond(action, `<AssumedRoleUser><Arn>${arn}/${form.get('RoleSessionName')}</Arn></AssumedRoleUser>`
    + `<Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey>`
    + `<SessionToken>${token}</SessionToken><Expiration>${expires}</Expiration></Credentials>`);
}

function answer(request, body) {
  const { url, method, headers } = request;
  if (url === '/latest/api/token') {
    return method === 'PUT' && headers['x-aws-ec2-metadata-token-ttl-seconds'] ? [200, 'metadata-token'] : [400, ''];
  }
  if (url.startsWith('/latest/meta-data/')) {
    if (headers['x-aws-ec2-metadata-token'] !== 'metadata-token') return [401, ''];
    return url === METADATA ? [200, 'app-role\n'] : url === `${METADATA}app-role` ? json('INSTANCE', 'metadata')
      : url === REGION ? [200, behaviour.region] : [404, ''];
  }
  if (url === '/container') {
    return headers.authorization === behaviour.token ? json('CONTAINER', 'container') : [401, '{}'];
  }
  return method === 'POST' && url === '/' ? sts(request, body) : [404, ''];
}

function kindOf(url) {
  if (url.startsWith('/latest/')) return 'metadata';
  return url === '/container' ? 'container' : 'sts';
}

const faults = {
  error: () => [500, 'no'],
  garbage: () => [200, '<html>hello</html>'],
  huge: () => [200, 'x'.repeat(200_000)],
  redirect: () => [302, ''],
  unauthorized: () => [401, ''],
};

// Otherwise Node ends a connection after five idle seconds, and a request that a test sends just then fails.
const server = http.createServer({ keepAliveTimeout: 0 }, async (request, response) => {
  let body = '';
  for await (const part of request) body += part;
  if (request.url === '/control') {
    behaviour = { ...behaviour, ...JSON.parse(body) };
    counts = {};
    response.end('{}');
    return;
  }
  if (request.url === '/counts' || request.url === '/issued') {
    response.end(JSON.stringify(request.url === '/counts' ? counts : issued));
    return;
  }
  const kind = kindOf(request.url);
  counts[request.url] = (counts[request.url] ?? 0) + 1;
  const how = behaviour[kind];
  if (how === 'hang') return;
  if (how === 'slow') await pause(300);
  if (how === 'slower') await pause(800);
  const [status, text] = faults[how]?.() ?? answer(request, body);
  response.writeHead(status, { Date: new Date(now()).toUTCString(), Location: `http://${request.headers.host}/elsewhere`,
    'Content-Length': Buffer.byteLength(text) });
  if (how === 'half') {
    response.write(text.slice(0, text.length / 2), () => request.socket.destroy());
  } else {
    response.end(text);
  }
});

server.listen(0, '127.0.0.1', () => {
  writeFileSync(`${process.argv[2]}.new`, String(server.address().port));
  renameSync(`${process.argv[2]}.new`, process.argv[2]);
});
process.stdin.on('end', () => process.exit(0)).resume();
