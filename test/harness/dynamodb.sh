#!/bin/sh
# Asks the engine at EO_ENGINE_URL itself, past the proxy, and prints its answer.
#
#   dynamodb.sh OPERATION [BODY]     without BODY it is read from standard input

authorization='AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request'
authorization="$authorization, SignedHeaders=host, Signature=0"

printf '%s' "${2-$(cat)}" | curl -s -S -f -m 30 -w '\n' "$EO_ENGINE_URL" -d @- \
    -H "X-Amz-Target: DynamoDB_20120810.$1" -H 'Content-Type: application/x-amz-json-1.0' \
    -H "Authorization: $authorization" -H 'X-Amz-Date: 20260101T000000Z'
