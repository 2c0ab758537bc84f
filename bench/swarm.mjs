// swarm.mjs ENDPOINT CALLS SECONDS: Powertools for AWS Lambda in two processes, which have so
// many calls in flight together, each for a new key. Prints keys a second, median and
// 99th percentile in milliseconds, CPU of a key in microseconds, and the number of keys.

import { fork } from 'node:child_process';

const [endpoint, calls, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];

if (!process.send) {
  const each = calls === 1 ? [1] : [Math.ceil(calls / 2), Math.floor(calls / 2)];
  const all = await Promise.all(each.map((n) => new Promise((resolve) => {
    fork(process.argv[1], [endpoint, n, seconds]).on('message', resolve);
  })));
  const took = all.flatMap((one) => one.took).sort((a, b) => a - b);
  const cpu = all.reduce((sum, one) => sum + one.cpu, 0);
  console.log((took.length / seconds).toFixed(0), took[took.length >> 1].toFixed(2),
    took[Math.floor(took.length * 0.99)].toFixed(2), (cpu / took.length).toFixed(0), took.length);
} else {
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
  process.env.AWS_LAMBDA_FUNCTION_NAME = 'bench';
  const { DynamoDBClient } = await import('@aws-sdk/client-dynamodb');
  const { makeIdempotent, IdempotencyConfig } = await import('@aws-lambda-powertools/idempotency');
  const { DynamoDBPersistenceLayer } = await import('@aws-lambda-powertools/idempotency/dynamodb');
  const client = new DynamoDBClient({ region: 'eu-west-1', endpoint, credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    requestHandler: { httpAgent: { maxSockets: 200 } } });
  const handler = makeIdempotent(async () => ({ ok: true }), {
    persistenceStore: new DynamoDBPersistenceLayer({ tableName: 'powertools', awsSdkV3Client: client }),
    config: new IdempotencyConfig({ eventKeyJmesPath: 'id' }),
  });
  const context = { functionName: 'bench', awsRequestId: 'r', getRemainingTimeInMillis: () => 30000 };
  let n = 0;
  const call = () => handler({ id: `${process.pid}-${n++}` }, context);
  await call();
  const took = [];
  const end = Date.now() + seconds * 1000;
  const cpu = process.cpuUsage();
  await Promise.all(Array.from({ length: calls }, async () => {
    while (Date.now() < end) {
      const start = process.hrtime.bigint();
      await call();
      took.push(Number(process.hrtime.bigint() - start) / 1e6);
    }
  }));
  const used = process.cpuUsage(cpu);
  process.send({ took, cpu: used.user + used.system }, () => process.exit(0));
}
