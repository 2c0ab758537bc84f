# Reads a list of environments, {variables, profile}, and writes with whom boto3 would
# sign in each: the access key without its number, or "none".  The first element of what it
# writes is its version.  Versions before 1.28 do not know AWS_ENDPOINT_URL_STS, so the endpoint is
# given to the clients that a session makes.

import getpass
import json
import os
import re
import sys



def refuse_code(prompt):
    raise EOFError(prompt)


# Nobody is there to type the code of an MFA device.  botocore takes this function when it is loaded.
getpass.getpass = refuse_code

import boto3  # noqa: E402
import botocore.session  # noqa: E402


def signer(environment):
    for name in [name for name in os.environ if name.startswith('AWS_')]:
        del os.environ[name]
    os.environ.update(environment['variables'], AWS_METADATA_SERVICE_TIMEOUT='20', AWS_METADATA_SERVICE_NUM_ATTEMPTS='3')
    session = botocore.session.Session(profile=environment.get('profile'))
    create = session.create_client

    def create_client(service, **options):
        options['region_name'] = options.get('region_name') or 'eu-west-1'
        return create(service, endpoint_url=os.environ['AWS_ENDPOINT_URL_STS'], **options)

    session.create_client = create_client
    try:
        credentials = session.get_credentials()
        return re.sub(r'\d+$', '', credentials.get_frozen_credentials().access_key) if credentials else 'none'
    except Exception:
        return 'none'


json.dump([boto3.__version__] + [signer(environment) for environment in json.load(sys.stdin)], sys.stdout)
