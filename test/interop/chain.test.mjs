// The credential chain of the project beside those of the AWS SDK for JavaScript and, where
// it is installed for Debian's Python, boto3: the same identity signs, or the difference is
// one that is listed here with its reason. Half of the environments are written
// down, the others are drawn, and are the same in every run. And the endpoints of AWS are
// those that the SDK's rules give.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { defaultProvider } from '@aws-sdk/credential-provider-node';

const DRAWN = 60;
const SEED = 20260102;
const DEBIAN_PYTHON = '/usr/bin/python3';
const here = path.dirname(fileURLToPath(import.meta.url));
const dir = mkdtempSync(path.join(os.tmpdir(), 'exactonce-chain-'));
const role = 'arn:aws:iam::123456789012:role/app';
let aws;
let port;

// Mulberry32
let state = SEED;
function random(n) {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];

// ----- the files ------------------------------------------------------------------

const credentialsText = `; keys of people
[keys]
aws_access_key_id = FILEKEY
aws_secret_access_key=file-secret # the only one
[self]
aws_access_key_id=FILEKEY
aws_secret_access_key=file-secret
[half]
aws_access_key_id = FILEKEY
[parted]
aws_secret_access_key = file-secret
[a b]
aws_access_key_id = FILEKEY
aws_secret_access_key = file-secret
`;
// boto3 cannot read a file with this.
const twiceText = `[twice]
aws_access_key_id = WRONG
aws_secret_access_key = wrong
aws_access_key_id = FILEKEY
aws_secret_access_key = file-secret
`;
const defaultText = '[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = x\n';

// Files with something odd in them: what their profile default gives is the question.
const oddTexts = {
  'a comment behind a section': `${defaultText}[second]# comment\naws_access_key_id = SECOND\naws_secret_access_key = y\n`,
  'a section that is not closed': `${defaultText}[second\naws_access_key_id = SECOND\naws_secret_access_key = y\n`,
  'text behind a section': `${defaultText}[second] x\naws_access_key_id = SECOND\naws_secret_access_key = y\n`,
  'a byte order mark': `\ufeff${defaultText}`,
  'a no-break space before a section': `\u00a0${defaultText}`,
  'a no-break space before a name': defaultText.replace('aws_access', '\u00a0aws_access'),
  'a line that is nothing': `${defaultText}words\n`,
};

const configText = () => `[profile "config-keys"]
s3 =
  aws_access_key_id = NESTED
aws_access_key_id = FILEKEY
aws_secret_access_key = file-secret
[profile assumes]
role_arn = ${role}
source_profile = keys
[profile chained]
role_arn = ${role}2
source_profile = assumes
[profile self]
role_arn = ${role}
source_profile = self
[profile instance]
role_arn = ${role}
credential_source = Ec2InstanceMetadata
[profile container]
role_arn = ${role}
credential_source = EcsContainer
[profile environment]
role_arn = ${role}
credential_source = Environment
[profile odd-source]
role_arn = ${role}
credential_source = Cloud
[profile web]
role_arn = ${role}
web_identity_token_file = ${dir}/web
[profile over-web]
role_arn = ${role}2
source_profile = web
[profile external]
role_arn = ${role}/closed
external_id = open
source_profile = keys
[profile empty]
region = eu-west-1
[profile circle]
role_arn = ${role}
source_profile = circle2
[profile circle2]
role_arn = ${role}
source_profile = circle
[profile sourceless]
role_arn = ${role}
[profile gone-source]
role_arn = ${role}
source_profile = gone
[profile two-sources]
role_arn = ${role}
source_profile = keys
credential_source = Environment
[profile mfa]
role_arn = ${role}
source_profile = keys
mfa_serial = arn:aws:iam::123456789012:mfa/app
[profile process]
credential_process = /bin/false
[profile parted]
aws_access_key_id = FILEKEY
[keys]
aws_access_key_id = WRONG
`;

// ----- the environments -------------------------------------------------------------

const keys = { AWS_ACCESS_KEY_ID: 'ENVKEY', AWS_SECRET_ACCESS_KEY: 'environment-secret' };
const web = { AWS_WEB_IDENTITY_TOKEN_FILE: `${dir}/web`, AWS_ROLE_ARN: role };
const off = { AWS_EC2_METADATA_DISABLED: 'true' };
const container = () => ({ AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${port}/container`,
  AWS_CONTAINER_AUTHORIZATION_TOKEN: 'container-token' });
const profiles = ['keys', 'config-keys', 'assumes', 'chained', 'self', 'instance', 'container', 'environment', 'odd-source', 'web',
  'over-web', 'external', 'empty', 'circle', 'sourceless', 'gone-source', 'two-sources', 'mfa', 'half', 'parted', 'a b',
  'missing'];

// The environments that are written down: a name, variables, a profile of the server, and
// whether there are keys in the profile default.
function written() {
  return [
    ['nothing but the instance', {}],
    ['nothing', off],
    ['nothing, in capitals', { AWS_EC2_METADATA_DISABLED: 'TRUE' }],
    ['keys', keys],
    ['keys and a token', { ...keys, AWS_SESSION_TOKEN: 'token' }],
    ['a key without its secret', { AWS_ACCESS_KEY_ID: 'ENVKEY' }],
    ['a secret without its key', { AWS_SECRET_ACCESS_KEY: 'x' }],
    ['empty keys', { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' }],
    ['keys before all others', { ...keys, ...web, ...container() }, undefined, true],
    ['the default profile', {}, undefined, true],
    ['the default profile and a container', container(), undefined, true],
    ['the default profile and web identity', web, undefined, true],
    ['web identity', { ...web, ...off }],
    ['web identity and a container', { ...web, ...container() }],
    ['a token of web identity without a role', { AWS_WEB_IDENTITY_TOKEN_FILE: `${dir}/web`, ...off }],
    ['a token of web identity that is not there', { ...web, AWS_WEB_IDENTITY_TOKEN_FILE: `${dir}/gone`, ...off }],
    ['a container', { ...container(), ...off }],
    ['a container without its token', { ...container(), AWS_CONTAINER_AUTHORIZATION_TOKEN: '', ...off }],
    ['a container of another host', { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://192.0.2.1/x', ...off }],
    ['a container at the address of the instance', { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://169.254.169.254/x', ...off }],
    ['a container at no address', { AWS_CONTAINER_CREDENTIALS_FULL_URI: 'ftp://127.0.0.1/x', ...off }],
    ['an instance at an address with a slash', { AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${port}/` }],
    ['AWS_PROFILE', { AWS_PROFILE: 'keys' }],
    ['AWS_PROFILE beside keys', { ...keys, AWS_PROFILE: 'config-keys' }],
    ['AWS_PROFILE that is missing', { AWS_PROFILE: 'missing', ...off }],
    ['AWS_PROFILE beside another of the server', { AWS_PROFILE: 'missing' }, 'keys'],
    ['no files', { AWS_SHARED_CREDENTIALS_FILE: '/nonexistent', AWS_CONFIG_FILE: '/nonexistent', ...off }],
    ['no files and a profile', { AWS_SHARED_CREDENTIALS_FILE: '/nonexistent', AWS_CONFIG_FILE: '/nonexistent', ...off }, 'keys'],
    ['a file with a setting that is there twice', { AWS_SHARED_CREDENTIALS_FILE: `${dir}/credentials-twice`, ...off }, 'twice'],
    ...Object.keys(oddTexts).map((name, i) => [name, { AWS_SHARED_CREDENTIALS_FILE: `${dir}/odd-${i}`, ...off }]),
    ['two profiles default', { AWS_CONFIG_FILE: `${dir}/config-defaults`, ...off }],
    ...profiles.map((profile) => [`profile ${profile}`, off, profile]),
    ...profiles.slice(0, 12).map((profile) => [`profile ${profile} beside all others`, { ...keys, ...web, ...container() }, profile, true]),
  ];
}

function drawn() {
  return Array.from({ length: DRAWN }, (_, i) => [`drawn ${i + 1}`, {
    ...pick([{}, {}, { AWS_ACCESS_KEY_ID: 'ENVKEY' }, keys]), ...pick([{}, {}, web]), ...pick([{}, {}, container()]),
    ...pick([{}, off]) }, pick([undefined, undefined, ...profiles]), pick([false, false, true])]);
}

function complete([name, variables, profile, hasDefault]) {
  return { name, profile, variables: {
    AWS_SHARED_CREDENTIALS_FILE: `${dir}/credentials${hasDefault ? '-default' : ''}`, AWS_CONFIG_FILE: `${dir}/config`,
    AWS_REGION: 'eu-west-1', AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${port}`,
    AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${port}`, ...variables } };
}

// ----- who signs ---------------------------------------------------------------------

function ours({ profile, variables }) {
  const args = [variables.AWS_SHARED_CREDENTIALS_FILE, variables.AWS_CONFIG_FILE, ...(profile ? [profile] : [])];
  return execFileSync(path.join(here, 'chain'), args, { env: { PATH: process.env.PATH, ...variables }, encoding: 'utf8' }).trim();
}

async function javascript({ profile, variables }) {
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
  Object.assign(process.env, variables);
  try {
    const { accessKeyId } = await defaultProvider({ profile, clientConfig: { region: 'eu-west-1' }, maxRetries: 2, timeout: 20_000 })();
    return accessKeyId.replace(/\d+$/, '');
  } catch {
    return 'none';
  }
}

// null: it is not there
function boto(environments) {
  try {
    execFileSync(DEBIAN_PYTHON, ['-c', 'import boto3'], { stdio: 'ignore' });
  } catch {
    return null;
  }
  return new Promise((resolve, reject) => {
    const python = spawn(DEBIAN_PYTHON, [path.join(here, 'boto.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
    let out = '';
    python.stdout.on('data', (part) => { out += part; });
    python.on('close', (code) => (code === 0 ? resolve(JSON.parse(out)) : reject(new Error(`boto.py: ${code}`))));
    python.stdin.end(JSON.stringify(environments));
  });
}

// ----- differences, each with its reason -----------------------------------------------

const named = ({ profile, variables }) => profile ?? variables.AWS_PROFILE;
const unusable = ['empty', 'circle', 'sourceless', 'gone-source', 'odd-source', 'two-sources', 'mfa', 'half', 'missing', 'container',
  'environment'];
const reasons = [
  ['a profile that is named and cannot be used ends our chain; the next source would be somebody else',
    (e, our) => our === 'none' && named(e) && (unusable.includes(named(e)) || e.variables.AWS_CONFIG_FILE === '/nonexistent')],
  ['our profile does not ask an instance that AWS_EC2_METADATA_DISABLED switches off',
    (e, our) => our === 'none' && named(e) === 'instance' && e.variables.AWS_EC2_METADATA_DISABLED],
  ['half of a pair of keys counts as none for us and for the SDK for JavaScript; boto3 ends there',
    (e, our, their, who) => who === 'boto3' && their === 'none' && e.variables.AWS_ACCESS_KEY_ID
      && !e.variables.AWS_SECRET_ACCESS_KEY],
  ['boto3 asks web identity of the environment before the keys of the default profile',
    (e, our, their, who) => who === 'boto3' && our === 'DEFAULT' && their === 'WEB'],
  ['the SDK for JavaScript takes AWS_PROFILE before the keys of the environment; boto3, and the order that AWS documents, do not',
    (e, our, their, who) => who === 'javascript' && our === 'ENVKEY' && e.variables.AWS_PROFILE],
  ['the SDK for JavaScript does not read a profile with a blank in its name in the credentials file',
    (e, our, their, who) => who === 'javascript' && our === 'FILEKEY' && named(e) === 'a b'],
  ['boto3 takes no key from one file and its secret from the other',
    (e, our, their, who) => who === 'boto3' && our === 'FILEKEY' && their === 'none' && named(e) === 'parted'],
  ['boto3 cannot read a file in which a setting is there twice',
    (e, our, their, who) => who === 'boto3' && our === 'FILEKEY' && their === 'none' && named(e) === 'twice'],
  ['boto3 takes a comment behind a value for a part of it, so that STS refuses its signature',
    (e, our, their, who) => who === 'boto3' && our === 'ROLE' && their === 'none' && ['assumes', 'chained', 'external'].includes(named(e))],
  ['a file with a line that cannot be read ends our chain: whose the keys below it are is not guessed',
    (e, our) => our === 'none' && e.name in oddTexts],
  ['the SDK for JavaScript takes the comment behind the bracket of a section for the end of it, and its keys for those of the section above',
    (e, our, their, who) => who === 'javascript' && our === 'DEFAULT' && e.name === 'a comment behind a section'],
  ['the reading of the answer fails, which the plan of our chain does not show (050_credentials.pl has it)',
    (e, our, their) => their === 'none' && ['CONTAINER', 'WEB'].includes(our) && /without its token|not there/.test(e.name)],
];

function explain(e, our, their, who) {
  if (their === our) return '';
  const reason = reasons.findIndex(([, applies]) => applies(e, our, their, who));
  return reason < 0 ? `UNEXPLAINED, ${who}` : `${who}: (${reason + 1})`;
}

before(async () => {
  writeFileSync(`${dir}/web`, 'web-identity-token');
  writeFileSync(`${dir}/config`, configText());
  writeFileSync(`${dir}/config-defaults`, `[default]\naws_access_key_id = WRONG\naws_secret_access_key = x\n${
    defaultText.replace('default', 'profile default')}`);
  Object.values(oddTexts).forEach((text, i) => writeFileSync(`${dir}/odd-${i}`, text));
  writeFileSync(`${dir}/credentials`, credentialsText);
  writeFileSync(`${dir}/credentials-twice`, twiceText);
  writeFileSync(`${dir}/credentials-default`, credentialsText + defaultText);
  aws = spawn('node', [path.join(here, '../harness/aws.mjs'), `${dir}/port`], { stdio: ['pipe', 'inherit', 'inherit'] });
  while (!existsSync(`${dir}/port`)) await pause(10);
  port = readFileSync(`${dir}/port`, 'utf8');
});

after(() => {
  aws.stdin.end();
  rmSync(dir, { recursive: true });
});

test('the chains of the project, the AWS SDK for JavaScript and boto3 differ only where there is a reason', async (t) => {
  const environments = [...written(), ...drawn()].map(complete);
  const pythons = await boto(environments);
  const [version] = pythons ?? ['not installed'];
  const seen = new Set();
  const unexplained = [];
  t.diagnostic(`environment | exactonce | JavaScript | boto3 ${version} | differences`);
  for (const [i, environment] of environments.entries()) {
    const our = ours(environment);
    const theirs = { javascript: await javascript(environment), ...(pythons ? { boto3: pythons[i + 1] } : {}) };
    const why = Object.entries(theirs).map(([who, their]) => explain(environment, our, their, who)).filter(Boolean).join(' ');
    t.diagnostic(`${environment.name}${environment.name.startsWith('drawn') ? `, profile ${environment.profile ?? '-'}` : ''} | ${our} | `
      + `${theirs.javascript} | ${theirs.boto3 ?? '-'} | ${why}`);
    if (why.includes('UNEXPLAINED')) unexplained.push(`${why}: ${our} ${JSON.stringify(theirs)} ${JSON.stringify(environment)}`);
    seen.add(our);
  }
  reasons.forEach(([reason], i) => t.diagnostic(`(${i + 1}) ${reason}`));
  t.diagnostic(`${environments.length} environments, ${unexplained.length} unexplained differences`);
  assert.ok(environments.length >= 60);
  assert.deepEqual(unexplained, []);
  for (const who of ['none', 'ENVKEY', 'FILEKEY', 'DEFAULT', 'ROLE', 'WEB', 'CONTAINER', 'INSTANCE']) {
    assert.ok(seen.has(who), `${who} is among the answers`);
  }
});

test('the endpoints of every partition, dual-stack or not and for FIPS or not, are those of the SDK', () => {
  // STS is a client inside of the SDK.
  const { STSClient } = createRequire(import.meta.url)('@aws-sdk/nested-clients/sts');
  const clients = { dynamodb: new DynamoDBClient({ region: 'eu-west-1' }), sts: new STSClient({ region: 'eu-west-1' }) };
  const regions = ['eu-west-1', 'us-east-1', 'ca-west-1', 'mx-central-1', 'il-central-1', 'us-gov-west-1', 'us-gov-east-1', 'cn-north-1',
    'cn-northwest-1', 'us-iso-east-1', 'us-isob-east-1', 'us-isof-south-1', 'eu-isoe-west-1', 'eusc-de-east-1', 'xy-new-9'];
  for (const [service, client] of Object.entries(clients)) {
    for (const Region of regions) {
      for (const [UseFIPS, UseDualStack] of [[false, false], [true, false], [false, true], [true, true]]) {
        const { url } = client.config.endpointProvider({ Region, UseFIPS, UseDualStack });
        const args = ['endpoint', service, Region, ...(UseFIPS ? ['fips'] : []), ...(UseDualStack ? ['dualstack'] : [])];
        const our = execFileSync(path.join(here, 'chain'), args, { encoding: 'utf8' }).trim();
        assert.equal(our, url.host, args.join(' '));
      }
    }
  }
});
