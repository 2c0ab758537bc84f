# A handler class with a store of idempotency keys, recipe (b) of docs/interop.md: status and
# expiry, which is the end of the lease and of the retention. It reads before it claims, and
# completes by key alone. Reads a job a line, see ../programs.mjs, and writes what happened.

import json, os, sys, time, uuid
from decimal import Decimal

import boto3
from botocore.exceptions import ClientError

table = boto3.resource("dynamodb", region_name="eu-west-1", endpoint_url=os.environ["EO_ENDPOINT"],
                       aws_access_key_id="test", aws_secret_access_key="test").Table(sys.argv[1])


def claim(key, seconds):
    """The item that bars the key; None: it is ours."""
    item = table.get_item(Key={"idempotencyKey": key}, ConsistentRead=True).get("Item")
    if item and item["status"] == "COMPLETED" and item["expiry"] >= int(time.time()):
        return item
    try:
        table.put_item(
            Item={"idempotencyKey": key, "status": "IN_PROGRESS", "expiry": int(time.time()) + seconds,
                  "invocationId": str(uuid.uuid4())},
            ConditionExpression="attribute_not_exists(idempotencyKey) OR expiry < :now",
            ExpressionAttributeValues={":now": int(time.time())})
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return item or {"status": "IN_PROGRESS"}


def finish(key, status, data):
    table.update_item(Key={"idempotencyKey": key}, UpdateExpression="SET #s = :s, responseData = :d",
                      ExpressionAttributeNames={"#s": "status"}, ExpressionAttributeValues={":s": status, ":d": data})


def handle(job, work):
    barred_by = claim(job["key"], job.get("seconds", 3600))
    if barred_by:
        return {"ran": False, "status": barred_by["status"], "result": barred_by.get("responseData")}
    try:
        result = work()
    except ValueError as error:
        finish(job["key"], "FAILED", str(error))
        return {"ran": True, "status": "FAILED"}
    if result is not None:
        finish(job["key"], "COMPLETED", result["of"])
    return {"ran": True, "status": "COMPLETED" if result else "IN_PROGRESS"}


def say(what):
    print(json.dumps(what, default=lambda d: int(d) if d == int(d) else float(d)), flush=True)


for line in sys.stdin:
    job = json.loads(line, parse_float=Decimal)

    def work():
        if job.get("wait"):
            say({"started": True})
            sys.stdin.readline()
        if job["do"] == "fail":
            raise ValueError("no stock")
        return {"of": job.get("result")} if job["do"] == "return" else None     # None: it is killed

    say(handle(job, work))
