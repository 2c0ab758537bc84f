// In sixty environments the credential chain of the project leads to the same identity
// as that of the AWS SDK. They are random, but the same in every run. Where a
// profile that is named cannot be used, the SDK may go on to the next source; the
// project ends there (docs/aws.md). And the SDK has a profile ask an instance although
// AWS_EC2_METADATA_DISABLED is true; the project does not.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { defaultProvider } from '@aws-sdk/credential-provider-node';

const ENVIRONMENTS = 60;
const SEED = 20260102;
const here = path.dirname(fileURLToPath(import.meta.url));
const dir = mkdtempSync(path.join(os.tmpdir(), 'exactonce-chain-'));
const role = 'arn:aws:iam::123456789012:role/app';

// Mulberry32
let state = SEED;
function random(n) {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (list) => list[random(list.length)];

const usable = ['keys', 'config-keys', 'assumes', 'chained', 'self', 'instance', 'web'];
const unusable = ['missing', 'empty', 'circle', 'sourceless', 'half'];

const credentialsText = (first) => `; keys of people
${first}
[keys]
aws_access_key_id = FILEKEY
aws_secret_access_key=file-secret # the only one
[self]
aws_access_key_id=FILEKEY
aws_secret_access_key=file-secret
[half]
aws_access_key_id = FILEKEY
`;

const configText = `[profile "config-keys"]
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
[profile web]
role_arn = ${role}
web_identity_token_file = ${dir}/web
[profile empty]
region = eu-west-1
[profile circle]
role_arn = ${role}
source_profile = circle
[profile sourceless]
role_arn = ${role}
[keys]
aws_access_key_id = WRONG
`;

function makeEnvironment(i, port) {
  const credentials = `${dir}/credentials${i}`;
  writeFileSync(credentials, credentialsText(pick(['', '', '[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = x'])));
  return {
    profile: pick([undefined, undefined, ...usable, ...unusable]),
    credentials,
    variables: {
      AWS_SHARED_CREDENTIALS_FILE: credentials, AWS_CONFIG_FILE: `${dir}/config`, AWS_REGION: 'eu-west-1',
      AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${port}`,
      AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${port}`,
      ...pick([{}, {}, { AWS_ACCESS_KEY_ID: 'ENVKEY' },
        { AWS_ACCESS_KEY_ID: 'ENVKEY', AWS_SECRET_ACCESS_KEY: 'environment-secret' }]),
      ...pick([{}, {}, { AWS_WEB_IDENTITY_TOKEN_FILE: `${dir}/web`, AWS_ROLE_ARN: role }]),
      ...pick([{}, {}, { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${port}/container`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN: 'container-token' }]),
      ...pick([{}, { AWS_EC2_METADATA_DISABLED: 'true' }]),
    },
  };
}

async function theirs({ profile, variables }) {
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
  Object.assign(process.env, variables);
  try {
    const { accessKeyId } = await defaultProvider({ profile, clientConfig: { region: 'eu-west-1' } })();
    return accessKeyId.replace(/\d+$/, '');
  } catch {
    return 'none';
  }
}

function ours({ profile, credentials, variables }) {
  const env = { PATH: process.env.PATH, ...variables };
  const args = [credentials, `${dir}/config`, ...(profile ? [profile] : [])];
  return execFileSync(path.join(here, 'chain'), args, { env, encoding: 'utf8' }).trim();
}

test(`${ENVIRONMENTS} environments lead to the identity that the AWS SDK finds`, async () => {
  writeFileSync(`${dir}/web`, 'web-identity-token');
  writeFileSync(`${dir}/config`, configText);
  const aws = spawn('node', [path.join(here, '../harness/aws.mjs'), `${dir}/port`], { stdio: ['pipe', 'inherit', 'inherit'] });
  try {
    while (!existsSync(`${dir}/port`)) await pause(10);
    const port = readFileSync(`${dir}/port`, 'utf8');
    const seen = new Set();
    for (let i = 0; i < ENVIRONMENTS; i += 1) {
      const environment = makeEnvironment(i, port);
      const our = ours(environment);
      const their = await theirs(environment);
      const off = environment.profile === 'instance' && environment.variables.AWS_EC2_METADATA_DISABLED;
      if (off || unusable.includes(environment.profile)) assert.equal(our, 'none', JSON.stringify(environment));
      else assert.equal(our, their, JSON.stringify(environment));
      seen.add(our);
    }
    for (const who of ['none', 'ENVKEY', 'FILEKEY', 'DEFAULT', 'ROLE', 'WEB', 'CONTAINER', 'INSTANCE']) {
      assert.ok(seen.has(who), `${who} is among the answers`);
    }
  } finally {
    aws.stdin.end();
    rmSync(dir, { recursive: true });
  }
});
