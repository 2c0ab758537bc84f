// The writes that DynamoDB has applied, in their order, with the item before and after
// each. The engine keeps them as the stream of the table. Every write must be one that
// docs/records.md allows: by the owner of the record, or a claim of one that is free.

// Allowed changes of a record by the owner that it has.
const byOwner = new Set(['IN_PROGRESS IN_PROGRESS', 'IN_PROGRESS COMMITTING', 'IN_PROGRESS COMPLETED',
  'IN_PROGRESS FAILED', 'COMMITTING COMPLETED', 'COMMITTING FAILED', 'COMMITTING IN_PROGRESS', 'FAILED FAILED']);

const HOUR_S = 3600;
const EXPIRY_MARGIN_S = 300;

// The instants of two hosts, and of a request and its retry, differ by so much.
const TOLERANCE_MS = 1500;

const plainValue = ({ S, N, SS }) => S ?? SS ?? (N === undefined ? undefined : Number(N));

// An item without the types of DynamoDB.
export const plain = (item) => item && Object.fromEntries(
  Object.entries(item).map(([name, value]) => [name, plainValue(value)]));

export async function engine(operation, request, service = 'DynamoDB_20120810') {
  const answer = await fetch(process.env.EO_ENGINE_URL, {
    method: 'POST',
    headers: {
      'X-Amz-Target': `${service}.${operation}`, 'Content-Type': 'application/x-amz-json-1.0',
      Authorization: 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, '
        + 'SignedHeaders=host, Signature=0',
      'X-Amz-Date': '20260101T000000Z',
    },
    body: JSON.stringify(request),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${operation}: ${text}`);
  return JSON.parse(text);
}

const streams = (operation, request) => engine(operation, request, 'DynamoDBStreams_20120810');

export class History {
  #shards = new Map();
  #writes = new Map();
  #fences = new Map();

  // How many items were deleted since the last call of forget().
  removed = 0;

  constructor(table) {
    this.table = table;
  }

  async begin() {
    const { TableDescription: { LatestStreamArn } } = await engine('UpdateTable', { TableName: this.table,
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' } });
    this.stream = LatestStreamArn;
  }

  // The writes to the item with this partition key since the last call of forget().
  of(pk) {
    return this.#writes.get(pk) ?? [];
  }

  forget() {
    this.#writes.clear();
    this.#fences.clear();
    this.removed = 0;
  }

  // Reads what was written since the last call, and calls violate(text, pk) for each
  // write that no rule allows. copied: tokens of claims that were forgotten, because late copies
  // had made them. Returns how many writes there were.
  async check(violate, counts, copied) {
    const { StreamDescription: { Shards } } = await streams('DescribeStream', { StreamArn: this.stream });
    let read = 0;
    for (const { ShardId } of Shards) {
      for (const write of await this.#readShard(ShardId)) {
        const pk = write.dynamodb.Keys.pk.S;
        const before = plain(write.dynamodb.OldImage);
        const after = plain(write.dynamodb.NewImage);
        if (!this.#writes.has(pk)) this.#writes.set(pk, []);
        this.#writes.get(pk).push(after ?? { removed: true });
        read++;
        const wrong = !after ? this.#findWrongDelete(pk, before) : this.#findWrongFence(pk, before, after) || pk.startsWith('IDEMPOTENCY#') ? findWrong(before, after, counts, copied)
          : pk.startsWith('ORIGIN#') ? findWrongInLife(before, after)
            : pk.startsWith('ACTION#') ? findWrongInAction(before, after) : 'is of no kind';
        if (wrong) violate(`write of ${pk}: ${wrong}: ${JSON.stringify(before)} -> ${JSON.stringify(after)}`, pk);
      }
    }
    return read;
  }

  // Only what idem_sweep() may delete is.
  #findWrongDelete(pk, before) {
    this.removed++;
    this.#fences.set(pk, before.fence);
    return isSwept(pk, before) ? null : 'it is deleted';
  }

  // A record that was deleted does not begin anew with an earlier fence.
  #findWrongFence(pk, before, after) {
    return !before && after.fence <= this.#fences.get(pk) ? 'the fence does not grow over a delete' : null;
  }

  async #readShard(id) {
    const seen = this.#shards.get(id);
    let { ShardIterator: iterator } = await streams('GetShardIterator', { StreamArn: this.stream, ShardId: id,
      ShardIteratorType: seen ? 'AFTER_SEQUENCE_NUMBER' : 'TRIM_HORIZON', SequenceNumber: seen });
    const all = [];
    while (iterator) {
      const { Records, NextShardIterator } = await streams('GetRecords', { ShardIterator: iterator, Limit: 1000 });
      if (Records.length === 0) break;
      all.push(...Records);
      this.#shards.set(id, Records.at(-1).dynamodb.SequenceNumber);
      iterator = NextShardIterator;
    }
    return all;
  }
}

// Has an item ended, and been past its ttl for an hour?  A record with a fence that is not below
// now stays.
export function isSwept(pk, item, now = Date.now()) {
  if (item.ttl === undefined || item.ttl > now / 1000 - HOUR_S) return false;
  if (pk.startsWith('ORIGIN#')) return item.state !== 'open';
  if (pk.startsWith('ACTION#')) return !item.status;
  return isExpired(item, now) && item.fence < now;
}

// Whoever claims the key of such a record begins anew.
export function isExpired({ status, ttl }, now = Date.now()) {
  return ['COMPLETED', 'FAILED'].includes(status) && ttl + EXPIRY_MARGIN_S < now / 1000;
}

function findWrong(before, after, counts, copied) {
  // As aged.mjs has put it.
  if (!before && isExpired(after)) return null;
  const keeps = before?.owner === after.owner;
  return findWrongItem(after) || findWrongProgress(before, after, keeps)
    || (!before ? null : keeps ? findWrongOfOwner(before, after) : findWrongClaim(before, after, counts, copied));
}

// What a record must be like by itself.
function findWrongItem({ status, ttl, lease_ms: lease, updated_ms: updated, owner, fence, origin }) {
  if (!owner || !fence || !updated) return 'owner, fence or updated_ms is missing';
  if (status === 'COMMITTING' && ttl !== undefined) return 'COMMITTING with a ttl';
  if (status === 'COMMITTING') return origin ? null : 'COMMITTING without an origin';
  if (status === 'IN_PROGRESS' && !lease) return 'IN_PROGRESS without a lease';
  const least = (status === 'IN_PROGRESS' ? lease : updated) / 1000 + HOUR_S;
  return ttl === undefined ? 'no ttl' : ttl < Math.floor(least) ? 'the ttl comes too early' : null;
}

// It is kept until the key is completed or forgotten, and a note has the next number.
function findWrongProgress(before = {}, after, keeps) {
  if (after.status === 'COMPLETED') return after.progress_no === undefined ? null : 'a completed key has progress';
  if (after.progress_no === before.progress_no) return after.progress === before.progress ? null : 'progress without a number';
  if (after.progress_no === undefined) return !keeps && (after.runs === 0 || isExpired(before)) ? null : 'progress is lost';
  const isNext = after.progress_no === (before.progress_no ?? 0) + 1;
  return keeps && isNext && after.status === 'IN_PROGRESS' && before.status === 'IN_PROGRESS' ? null : 'progress of another run, or not the next';
}

const withoutUndone = (record) => JSON.stringify({ ...record, undone: undefined }, Object.keys(record).sort());

function findWrongOfOwner(before, after) {
  if (before.undone?.some((origin) => !after.undone?.includes(origin))) return 'an undone seal is forgotten';
  // A seal is noted that was undone, and nothing else.
  if (before.status === 'COMMITTING' && after.status === 'COMMITTING') {
    return withoutUndone(before) === withoutUndone(after) ? null : 'a sealed record is changed';
  }
  if (!byOwner.has(`${before.status} ${after.status}`)) return 'the owner must not do this';
  if (before.fence !== after.fence) return 'the fence changes without a claim';
  if (before.status === 'COMMITTING' && after.status === 'COMPLETED' && before.result !== after.result) {
    return 'the finish changes the result';
  }
  if (before.status === 'IN_PROGRESS' && after.status === 'IN_PROGRESS' && after.lease_ms < before.lease_ms) {
    return 'the lease is shortened';
  }
  return null;
}

function findWrongClaim(before, after, counts, copied) {
  if (isExpired(before)) return after.fence > before.fence || after.runs === 0 ? null : 'the fence does not grow';
  if (['COMPLETED', 'COMMITTING'].includes(before.status)) return `${before.status} is taken over`;
  // idem_forget() is no claim.
  const forgotten = (before.status === 'FAILED' || copied.has(before.owner)) && after.status === 'FAILED' && after.runs === 0;
  if (forgotten && after.fence === before.fence) return null;
  if (after.fence <= before.fence) return 'the fence does not grow';
  if (before.status === 'FAILED') {
    if (after.status === 'FAILED') return 'a failed record gets another owner';
    if (before.retry_ms === undefined) return 'failed for good, and claimed';
    return before.retry_ms > after.updated_ms + TOLERANCE_MS ? 'claimed before its time' : null;
  }
  counts.takeovers++;
  if (before.lease_ms >= after.updated_ms + TOLERANCE_MS) {
    counts.early++;
    if (before.bind !== 'tx') return 'a claim that outlives its transaction is taken over before its lease ends';
  }
  return null;
}

function findWrongInLife(before, after) {
  if (!before) return null;
  if (before.state !== 'open' && after.state !== before.state) return 'a life that is over changes its state';
  return after.beat < before.beat ? 'the beat goes back' : null;
}

function findWrongInAction(before, after) {
  if (after.consumedAt && (after.canceledAt || after.closedAt)) return 'consumed, and canceled or closed';
  if (before?.consumedAt && before.consumedToken !== after.consumedToken) return 'consumed twice';
  if (before?.status && (after.status ? before.owner !== after.owner : after.canceledAt || after.closedAt)) return 'sealed, and not left alone';
  return before?.canceledToken && before.canceledToken !== after.canceledToken ? 'canceled twice' : null;
}
