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
//   POST /control {life, metadata, container, sts}   seconds that credentials last, and
//                  how each service behaves: ok, error, hang, garbage, denied
//   GET /counts    requests by kind since the last POST /control

import { createHash, createHmac } from 'node:crypto';
import http from 'node:http';
import { renameSync, writeFileSync } from 'node:fs';

const METADATA = '/latest/meta-data/iam/security-credentials/';
const secrets = new Map([['ENVKEY', { secret: 'environment-secret' }], ['FILEKEY', { secret: 'file-secret' }]]);
let behaviour = { life: 3600, metadata: 'ok', container: 'ok', sts: 'ok' };
let counts = {};
let serial = 0;

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const hmac = (key, text) => createHmac('sha256', key).update(text).digest();

function issue(kind) {
  serial += 1;
  const id = `${kind}${serial}`;
  const key = { secret: `hidden-secret-${id}`, token: `hidden-token-${id}+/=` };
  secrets.set(id, key);
  return { id, ...key, expires: new Date(Date.now() + behaviour.life * 1000).toISOString() };
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

function json(kind) {
  const { id, secret, token, expires } = issue(kind);
  return [200, JSON.stringify({ Code: 'Success', AccessKeyId: id, SecretAccessKey: secret, Token: token,
    Expiration: expires })];
}

function sts(request, body) {
  const form = new URLSearchParams(body);
  const action = form.get('Action');
  const web = action === 'AssumeRoleWithWebIdentity';
  const allowed = web ? form.get('WebIdentityToken') === 'web-identity-token' : isSigned(request, body);
  if (!allowed || !form.get('RoleArn')?.startsWith('arn:') || behaviour.sts === 'denied'
      || (form.get('RoleArn').endsWith('/closed') && form.get('ExternalId') !== 'open')) {
    return [403, '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
      + '<Code>AccessDenied</Code><Message>not authorized</Message></Error></ErrorResponse>'];
  }
  const { id, secret, token, expires } = issue(web ? 'WEB' : 'ROLE');
  return [200, `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result>`
    + `<AssumedRoleUser><Arn>${form.get('RoleArn')}/${form.get('RoleSessionName')}</Arn></AssumedRoleUser>`
    + `<Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey>`
    + `<SessionToken>${token}</SessionToken><Expiration>${expires}</Expiration></Credentials>`
    + `</${action}Result></${action}Response>`];
}

function answer(request, body) {
  const { url, method, headers } = request;
  if (url === '/latest/api/token') {
    return method === 'PUT' && headers['x-aws-ec2-metadata-token-ttl-seconds'] ? [200, 'metadata-token'] : [400, ''];
  }
  if (url.startsWith(METADATA)) {
    if (headers['x-aws-ec2-metadata-token'] !== 'metadata-token') return [401, ''];
    return url === METADATA ? [200, 'app-role\n'] : url === `${METADATA}app-role` ? json('INSTANCE') : [404, ''];
  }
  if (url === '/container') {
    return headers.authorization === 'container-token' ? json('CONTAINER') : [401, '{}'];
  }
  return method === 'POST' && url === '/' ? sts(request, body) : [404, ''];
}

function kindOf(url) {
  if (url.startsWith('/latest/')) return 'metadata';
  return url === '/container' ? 'container' : 'sts';
}

const server = http.createServer(async (request, response) => {
  let body = '';
  for await (const part of request) body += part;
  if (request.url === '/control') {
    behaviour = { ...behaviour, ...JSON.parse(body) };
    counts = {};
    response.end('{}');
    return;
  }
  if (request.url === '/counts') {
    response.end(JSON.stringify(counts));
    return;
  }
  const kind = kindOf(request.url);
  counts[request.url] = (counts[request.url] ?? 0) + 1;
  if (behaviour[kind] === 'hang') return;
  const [status, text] = behaviour[kind] === 'error' ? [500, 'no'] : behaviour[kind] === 'garbage'
    ? [200, '<html>hello</html>'] : answer(request, body);
  response.writeHead(status);
  response.end(text);
});

server.listen(0, '127.0.0.1', () => {
  writeFileSync(`${process.argv[2]}.new`, String(server.address().port));
  renameSync(`${process.argv[2]}.new`, process.argv[2]);
});
process.stdin.on('end', () => process.exit(0)).resume();
