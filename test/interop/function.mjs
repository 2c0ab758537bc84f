// An AWS Lambda function whose handler runs once for a payload, by the idempotency utility of
// Powertools, and the key under which it does that.

import { createHash } from 'node:crypto';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';

export const PREFIX = 'shared';

// Of a payload that is a string.
export const keyOf = (text) => `${PREFIX}#${createHash('md5').update(JSON.stringify(text)).digest('base64')}`;

// Each has its own layer of persistence, as a process of its own would. remaining is what
// is left of the function's time, in milliseconds: the lease of its run.
export function functionOn(awsSdkV3Client, tableName, handler, remaining) {
  const config = new IdempotencyConfig({});
  config.registerLambdaContext({ getRemainingTimeInMillis: () => remaining });
  const persistenceStore = new DynamoDBPersistenceLayer({ tableName, awsSdkV3Client });
  return makeIdempotent(handler, { config, persistenceStore, keyPrefix: PREFIX });
}
