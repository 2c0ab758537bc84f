// Both reference clients use this conditional write, which returns the record that it
// met, and this consistent read. Items are plain objects of strings, numbers and arrays
// of strings.

import { GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';

function wire(value) {
  if (typeof value === 'number') return { N: String(value) };
  return Array.isArray(value) ? { SS: value } : { S: value };
}

const plain = (item) => item && Object.fromEntries(
  Object.entries(item).map(([name, { S, SS, N }]) => [name, S ?? SS ?? Number(N)]));

// Returns {applied, record}: the record after the write, or the one that refused it,
// or undefined if there is none. In the expressions #name is the attribute of that name
// and :name a value.
export async function write(dynamodb, table, pk, condition, update, values) {
  const all = `${condition} ${update}`;
  const used = all.match(/#\w+/g).map((name) => name.slice(1));
  try {
    const reply = await dynamodb.send(new UpdateItemCommand({
      TableName: table,
      Key: { pk: { S: pk } },
      ConditionExpression: condition,
      UpdateExpression: update,
      ExpressionAttributeNames: Object.fromEntries(used.map((name) => [`#${name}`, name])),
      ExpressionAttributeValues: Object.fromEntries(Object.entries(values)
        .filter(([name]) => all.match(new RegExp(`:${name}\\b`)))
        .map(([name, value]) => [`:${name}`, wire(value)])),
      ReturnValues: 'ALL_NEW',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    }));
    return { applied: true, record: plain(reply.Attributes) };
  } catch (error) {
    if (error.name !== 'ConditionalCheckFailedException') throw error;
    return { applied: false, record: plain(error.Item) };
  }
}

export async function read(dynamodb, table, pk) {
  const reply = await dynamodb.send(new GetItemCommand({
    TableName: table, Key: { pk: { S: pk } }, ConsistentRead: true,
  }));
  return plain(reply.Item);
}
