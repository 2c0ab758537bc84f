# shellcheck shell=bash
# Measures many keys at a time, and waits.  bench/run sources this file; the functions here
# call those of bench/run.  Each part prints its own lines of the report.

BATCH=2000
SINGLES=100
LARGE=10000
PARALLEL=64

prepare_batches() {
    make_server wide "$EO_ENGINE_URL" ", parallel_requests '$PARALLEL', commit_timeout '60s'"
    make_server wide_proxied "$EO_ENDPOINT" ", parallel_requests '$PARALLEL', commit_timeout '60s'"
    # shellcheck disable=SC2016
    sql -c 'CREATE FUNCTION batch_rate(n int, tag text) RETURNS numeric LANGUAGE plpgsql AS $$
        DECLARE began timestamptz := clock_timestamp();
        BEGIN
            PERFORM count(*) FROM idem_acquire_many(ARRAY(SELECT tag || i FROM generate_series(1, n) i));
            RETURN round(n / extract(epoch FROM clock_timestamp() - began), 1);
        END $$' -c 'CREATE FUNCTION singles_rate(n int, tag text) RETURNS numeric LANGUAGE plpgsql AS $$
        DECLARE began timestamptz := clock_timestamp();
        BEGIN
            FOR i IN 1 .. n LOOP PERFORM idem_acquire(tag || i); END LOOP;
            RETURN round(n / extract(epoch FROM clock_timestamp() - began), 1);
        END $$' -c 'CREATE FUNCTION created_together(n int) RETURNS numeric LANGUAGE plpgsql AS $$
        DECLARE actions jsonb := (SELECT jsonb_agg(jsonb_build_object('"'payload'"', i)) FROM generate_series(1, n) i);
            began timestamptz := clock_timestamp();
        BEGIN
            PERFORM count(*) FROM action_create_many(actions);
            RETURN round(n / extract(epoch FROM clock_timestamp() - began), 1);
        END $$' -c 'CREATE FUNCTION created_singly(n int) RETURNS numeric LANGUAGE plpgsql AS $$
        DECLARE began timestamptz := clock_timestamp();
        BEGIN
            FOR i IN 1 .. n LOOP PERFORM action_create(to_jsonb(i)); END LOOP;
            RETURN round(n / extract(epoch FROM clock_timestamp() - began), 1);
        END $$' -c 'CREATE FUNCTION consumed_singly(n int, pin text) RETURNS numeric LANGUAGE plpgsql AS $$
        DECLARE ids text[]; began timestamptz;
        BEGIN
            SELECT array_agg(id) INTO ids FROM action_create_many((SELECT jsonb_agg(jsonb_build_object('"'pin'"', pin)) FROM generate_series(1, n) i));
            began := clock_timestamp();
            FOR i IN 1 .. n LOOP PERFORM action_consume(ids[i], pin); END LOOP;
            RETURN round(extract(epoch FROM clock_timestamp() - began) * 1000 / n, 2);
        END $$'
}

# Prints the keys claimed a second.  The transaction is rolled back.
batch_rate() {
    sql -c "SET exactonce.server = '$1'" -c BEGIN -c "SELECT batch_rate($2, '$3')" -c ROLLBACK | tail -1
}

singles_rate() {
    sql -c "SET exactonce.server = '$1'" -c BEGIN -c "SELECT singles_rate($2, '$3')" -c ROLLBACK | tail -1
}

actions() {
    sql -c "SET exactonce.server = '$1'" -c "SELECT $2" | tail -1
}

far_away() {
    local singles batch singly together
    control /reset
    control /fault "{\"do\": \"delay\", \"ms\": $DELAY_MS, \"to\": \"IN_PROGRESS\", \"times\": 0}"
    control /fault "{\"do\": \"delay\", \"ms\": $DELAY_MS, \"to\": \"created\", \"times\": 0}"
    batch_rate wide_proxied 200 warm >/dev/null
    singles=$(singles_rate wide_proxied $SINGLES single)
    batch=$(batch_rate wide_proxied $BATCH batch)
    actions wide_proxied 'created_together(200)' >/dev/null
    singly=$(actions wide_proxied "created_singly($SINGLES)")
    together=$(actions wide_proxied "created_together($BATCH)")
    control /reset
    awk -v singles="$singles" -v batch="$batch" -v delay=$DELAY_MS -v keys=$BATCH -v n=$SINGLES -v parallel=$PARALLEL 'BEGIN {
        printf "keys claimed a second, each request held back for %d ms on the way to DynamoDB Local\n", delay
        printf "  %-62s %9.1f   %5.2f\n", sprintf("%d calls of idem_acquire, one after the other", n), singles, 1
        printf "  %-62s %9.1f   %5.2f\n", sprintf("idem_acquire_many of %d, parallel_requests %d", keys, parallel), batch, batch / singles
    }'
    awk -v singles="$singly" -v batch="$together" -v delay=$DELAY_MS -v keys=$BATCH -v n=$SINGLES -v parallel=$PARALLEL 'BEGIN {
        printf "actions created a second, in the same way\n"
        printf "  %-62s %9.1f   %5.2f\n", sprintf("%d calls of action_create, one after the other", n), singles, 1
        printf "  %-62s %9.1f   %5.2f\n", sprintf("action_create_many of %d, parallel_requests %d", keys, parallel), batch, batch / singles
    }'
}

# Prints the requests a second that the engine answers if the client does nothing
# else: wrk sends the same kind of write as an acquire.
engine_floor() {
    cat >"$WORK/wrk.lua" <<'LUA'
local n = 0
local id = tostring({}):gsub('%W', '')
wrk.method = 'POST'
wrk.headers['X-Amz-Target'] = 'DynamoDB_20120810.UpdateItem'
wrk.headers['Content-Type'] = 'application/x-amz-json-1.0'
wrk.headers['Authorization'] = 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0'
request = function()
  n = n + 1
  return wrk.format(nil, '/', nil, '{"TableName":"bench","Key":{"pk":{"S":"wrk' .. id .. n .. '"}},' ..
    '"ConditionExpression":"attribute_not_exists(#k)","UpdateExpression":"SET #s = :s, #o = :o, #l = :l, #f = :l, #n = :l",' ..
    '"ExpressionAttributeNames":{"#k":"pk","#s":"status","#o":"owner","#l":"lease_ms","#f":"fence","#n":"runs"},' ..
    '"ExpressionAttributeValues":{":s":{"S":"IN_PROGRESS"},":o":{"S":"00000000-0000-4000-8000-000000000000"},":l":{"N":"1795000000000"}},' ..
    '"ReturnValues":"ALL_NEW"}')
end
LUA
    wrk -t 1 -c 16 -d "$1" -s "$WORK/wrk.lua" "$EO_ENGINE_URL" | awk '/^Requests\/sec/ { print $2 }'
}

straight() {
    local floor batch single
    engine_floor 3s >/dev/null
    floor=$(engine_floor 8s)
    batch=$(batch_rate wide $LARGE large)
    single=$(singles_rate wide 2000 lone)
    awk -v floor="$floor" -v batch="$batch" -v single="$single" -v keys=$LARGE 'BEGIN {
        printf "keys claimed a second, straight to DynamoDB Local\n"
        printf "  %-62s %9.1f   %5.2f\n", "wrk, 16 connections, one thread", floor, 1
        printf "  %-62s %9.1f   %5.2f\n", sprintf("idem_acquire_many of %d", keys), batch, batch / floor
        printf "  %-62s %9.1f   %5.2f\n", "idem_acquire, one after the other", single, single / floor
    }'
}

# Prints the unshared memory of a backend before it claims keys and with its claims.
batch_memory() {
    sql -c "SET exactonce.server = 'wide'" -c "SELECT count(*) FROM idem_acquire_many(ARRAY['one'])" -c BEGIN \
        -c "SELECT private_kb('self')" -c "SELECT batch_rate($LARGE, 'memory')" -c "SELECT private_kb('self')" -c ROLLBACK |
        awk -v keys=$LARGE '{ v[NR] = $1 } END {
            printf "memory of a backend, kB: %d, and %d with %d keys claimed: %.1f MB more\n", v[2], v[4], keys, (v[4] - v[2]) / 1024 }'
}

# Copies 10,000 rows into a guarded table.  The keys of 3,000 rows are completed
# already.
guarded_copy() {
    local mode args timing start took rows
    seq 1 $LARGE >"$WORK/rows"
    chmod 755 "$WORK" && chmod 644 "$WORK/rows"
    printf 'COPY of %d rows into a guarded table, straight to DynamoDB Local; rows a second\n' $LARGE
    for mode in none skip commit; do
        case $mode in
            none) timing='' args='' ;;
            skip) timing='BEFORE INSERT' args="'on_duplicate=skip'" ;;
            commit) timing='AFTER INSERT' args="'at=commit'" ;;
        esac
        sql -c "CREATE TABLE rows_$mode (id text)"
        [ $mode = none ] || sql -c "CREATE TRIGGER once $timing ON rows_$mode FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'server=wide', 'prefix=$mode/', $args)" \
            -c "INSERT INTO rows_$mode SELECT i FROM generate_series(1, 3000) i" -c "DELETE FROM rows_$mode"
        start=$(date +%s%N)
        rows=$( (sql -c "\copy rows_$mode FROM '$WORK/rows'" 2>&1 || true) | grep -o -m 1 'duplicate key' || true)
        took=$((($(date +%s%N) - start) / 1000000))
        awk -v mode=$mode -v took=$took -v n=$LARGE -v why="$rows" -v stored="$(sql -c "SELECT count(*) FROM rows_$mode")" 'BEGIN {
            printf "  %-62s %9.1f\n", mode == "none" ? "no guard" : sprintf("%s: %d rows stored%s", mode == "skip" ? "on_duplicate=skip" : "at=commit", stored, why ? ", refused as duplicate" : ""), n * 1000 / took }'
    done
    sql -c "CREATE TABLE rows_new (id text)" -c "CREATE TRIGGER once AFTER INSERT ON rows_new FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'server=wide', 'prefix=new/', 'at=commit')"
    start=$(date +%s%N)
    sql -c "\copy rows_new FROM '$WORK/rows'"
    took=$((($(date +%s%N) - start) / 1000000))
    printf '  %-62s %9.1f\n' 'at=commit, no duplicates: all rows stored' "$(awk -v n=$LARGE -v took=$took 'BEGIN { print n * 1000 / took }')"
}

# Measures how long a second click waits, in the same database and in another one,
# which has to poll.
double_click() {
    local p50 p90 p99
    psql -Xqd postgres -c 'CREATE DATABASE other'
    psql -Xqd other -c 'CREATE EXTENSION exactonce' \
        -c "CREATE SERVER engine FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'bench', endpoint '$EO_ENGINE_URL')" \
        -c "CREATE USER MAPPING FOR PUBLIC SERVER engine OPTIONS (access_key_id 'test', secret_access_key 'test')"
    echo 'a call that waits for a key has its result so long after the COMMIT of the one before it; ms'
    read -r p50 p90 p99 < <(node "$ROOT/bench/click.mjs" bench 100)
    printf '  %-34s p50 %s, p90 %s, p99 %s\n' 'in the same database' "$p50" "$p90" "$p99"
    read -r p50 p90 p99 < <(node "$ROOT/bench/click.mjs" other 50)
    printf '  %-34s p50 %s, p90 %s, p99 %s\n' 'elsewhere, by polling' "$p50" "$p90" "$p99"
}

# Measures action_consume.  With a PIN it makes two requests, and computes a hash
# that is slow by design.
consumed() {
    local open locked
    actions wide "consumed_singly(200, NULL)" >/dev/null
    open=$(actions wide "consumed_singly(500, NULL)")
    locked=$(actions wide "consumed_singly(50, '1234')")
    awk -v open="$open" -v locked="$locked" 'BEGIN {
        printf "action_consume, straight to DynamoDB Local; ms a call\n"
        printf "  %-62s %9.2f   %5.2f\n", "without a PIN", open, 1
        printf "  %-62s %9.2f   %5.2f\n", "with one", locked, locked / open
    }'
}

# Prints milliseconds of a COPY of 10,000 rows into a table with a guard at commit.
copy_took() {
    local server=$1 tag=$2 start
    sql -c "CREATE TABLE copy_$tag (id text)" \
        -c "CREATE TRIGGER once AFTER INSERT ON copy_$tag FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'server=$server', 'prefix=$tag/', 'at=commit')"
    start=$(date +%s%N)
    sql -c "\\copy copy_$tag FROM '$WORK/rows'"
    echo $((($(date +%s%N) - start) / 1000000))
    sql -c 'CALL settle()'
}

requests_of() {
    curl -sSf "$1/counts" | awk '{ n += $NF } END { print n + 0 }'
}

# apart WHERE KIND MODE N: the n-th figure of each round
apart() {
    awk -v of="$1 $2 $3" -v n="$4" '$1 " " $2 " " $3 == of { print $n }' "$WORK/apart"
}

# The same work with a request for each key, and with up to 25 keys to a request.
keys_a_request() {
    local port where mode round before kind
    : >"$WORK/late-port"
    "$WORK/responder" 5 >"$WORK/late-port" &
    LATE=$!
    trap 'kill $RESPONDER $LATE' EXIT
    until port=$(grep . "$WORK/late-port"); do sleep 0.05; done
    for mode in off on; do
        make_server late_$mode "http://127.0.0.1:$port" ", commit_timeout '60s', batch_requests '$mode'"
        make_server local_$mode "$EO_ENGINE_URL" ", commit_timeout '60s', batch_requests '$mode'"
    done
    : >"$WORK/apart"
    for round in 1 2 3; do
        for where in late local; do
            for mode in off on; do
                before=$(requests_of "http://127.0.0.1:$port")
                echo "$where many $mode $(batch_rate ${where}_$mode $LARGE "m$round$where$mode") $(($(requests_of "http://127.0.0.1:$port") - before))" >>"$WORK/apart"
                sql -c 'CALL settle()'
                echo "$where copy $mode $(copy_took ${where}_$mode "c$round$where$mode" | awk -v n=$LARGE '{ print n * 1000 / $1 }') 0" >>"$WORK/apart"
            done
        done
    done
    kill $LATE
    trap 'kill $RESPONDER' EXIT
    printf 'keys a second, %d keys, parallel_requests 16: a request for each key, up to 25 to a request, and the ratio (medians of 3)\n' $LARGE
    for where in late local; do
        for kind in many copy; do
            awk -v what="$([ $kind = many ] && echo idem_acquire_many || echo COPY into a guard at commit)" \
                -v place="$([ $where = late ] && echo canned replies 5 ms late || echo DynamoDB Local)" \
                -v off="$(apart $where $kind off 4 | median_of)" -v on="$(apart $where $kind on 4 | median_of)" \
                -v asked="$([ $where/$kind = late/many ] && echo "; requests $(apart $where $kind off 5 | tail -1) and $(apart $where $kind on 5 | tail -1)")" \
                'BEGIN { printf "  %-62s %9.1f %9.1f %6.2f%s\n", what ", " place, off, on, on / off, asked }'
        done
    done
}

measure_batches() {
    prepare_batches
    double_click
    far_away
    consumed
    straight
    batch_memory
    guarded_copy
    sql -c 'CALL settle()'
    keys_a_request
}
