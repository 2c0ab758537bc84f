// A DynamoDB client for the engine of the tests.

// The SDK runs on Node 18, which Debian 12 has, but warns about it.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';

export async function connect(endpoint = process.env.EO_ENDPOINT, options = {}) {
  const { DynamoDBClient } = await import('@aws-sdk/client-dynamodb');
  return new DynamoDBClient({
    region: process.env.AWS_REGION ?? 'eu-west-1',
    endpoint,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    ...options,
  });
}
