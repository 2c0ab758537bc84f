# Reads a list of texts, each of which is JSON, and writes the list of their digests as
# Powertools for AWS Lambda for Python makes them: _generate_hash() of its
# persistence layer, whose encoder differs from json's for values that are not from JSON.

import hashlib
import json
import sys


def digest(text):
    data = json.loads(text)
    return hashlib.md5(json.dumps(data, sort_keys=True).encode()).hexdigest()


json.dump([digest(text) for text in json.load(sys.stdin)], sys.stdout)
