# A consumer of messages with transactional claims, recipe (c) of docs/interop.md: it steals a
# run whose Timestamp is old, without moving ExpiryTimestamp, and deletes what has failed.
# Reads a job a line, see ../programs.mjs, and writes what happened.

import json, os, sys, time
from datetime import datetime, timedelta, timezone

import boto3
from botocore.exceptions import ClientError

STALE = 300
client = boto3.client("dynamodb", region_name="eu-west-1", endpoint_url=os.environ["EO_ENDPOINT"],
                      aws_access_key_id="test", aws_secret_access_key="test")


def ago(seconds):
    return {"S": (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat()}


def claim(key, age):
    """The item that bars the key; None: it is ours."""
    item = {"IdempotencyKey": {"S": key}, "Status": {"S": "IN_PROGRESS"}, "Timestamp": ago(age),
            "ExpiryTimestamp": {"N": str(int(time.time()) + 86400)}}
    try:
        client.transact_write_items(TransactItems=[{"Put": {
            "TableName": sys.argv[1], "Item": item, "ConditionExpression": "attribute_not_exists(IdempotencyKey)"}}])
        return None
    except client.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
            return claim(key, age)      # another write was on its way
    try:
        client.update_item(
            TableName=sys.argv[1], Key={"IdempotencyKey": {"S": key}}, UpdateExpression="SET #t = :now",
            ConditionExpression="#s = :running AND #t < :stale",
            ExpressionAttributeNames={"#s": "Status", "#t": "Timestamp"},
            ExpressionAttributeValues={":now": ago(age), ":running": {"S": "IN_PROGRESS"}, ":stale": ago(STALE)})
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return client.get_item(TableName=sys.argv[1], Key={"IdempotencyKey": {"S": key}}, ConsistentRead=True).get("Item", {})


def handle(job, work):
    key = {"IdempotencyKey": {"S": job["key"]}}
    barred_by = claim(job["key"], job.get("age", 0))
    if barred_by is not None:
        data = barred_by.get("ResponseData")
        return {"ran": False, "status": barred_by.get("Status", {}).get("S"), "result": data and json.loads(data["S"])}
    try:
        result = work()
    except ValueError:
        client.delete_item(TableName=sys.argv[1], Key=key)
        return {"ran": True, "status": None}
    if result is not None:
        client.update_item(
            TableName=sys.argv[1], Key=key, UpdateExpression="SET #s = :done, ResponseData = :data",
            ExpressionAttributeNames={"#s": "Status"},
            ExpressionAttributeValues={":done": {"S": "COMPLETED"}, ":data": {"S": json.dumps(result["of"])}})
    return {"ran": True, "status": "COMPLETED" if result else "IN_PROGRESS"}


for line in sys.stdin:
    job = json.loads(line)

    def work():
        if job.get("wait"):
            print(json.dumps({"started": True}), flush=True)
            sys.stdin.readline()
        if job["do"] == "fail":
            raise ValueError("no stock")
        return {"of": job.get("result")} if job["do"] == "return" else None     # None: it is killed

    print(json.dumps(handle(job, work)), flush=True)
