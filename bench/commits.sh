# shellcheck shell=bash
# Measures the cost of commits.  bench/run sources this file; the functions here
# call those of bench/run.  Each part prints its own lines of the report.
#
# These parts may use all cores.  The single calls of bench/run, which are compared
# with bare clients, may not.

KEYS=100
DELAY_MS=50
RATE=500

# Lets all processes use all cores again, instead of the one they were bound to.
spread() {
    local pid
    for pid in $(head -1 "$EO_PGDATA/postmaster.pid") $(sql -c 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()') \
        "$RESPONDER" "$(engine_pid)"; do
        taskset -acp "0-$(($(nproc) - 1))" "$pid" >/dev/null 2>&1 || true
    done
}

control() {
    curl -sSf -X POST "$EO_CONTROL$1" ${2:+-d "$2"}
}

median_of() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# Compares the keys of one transaction with keys that are completed one by one.
# The proxy delays each request on the way to the engine.
many_keys() {
    local kind to round out="$WORK/many"
    for round in 1 2 3 4 5; do
        for kind in together apart immediate; do
            to=$([ $kind = immediate ] && echo COMPLETED || echo COMMITTING)
            control /reset
            control /fault "{\"do\": \"delay\", \"ms\": $DELAY_MS, \"to\": \"$to\", \"times\": 0}"
            echo "$kind $(sql -c "SET exactonce.server = 'proxied'" -c "CALL many('$kind', 20, 'w$round$kind')" \
                -c "CALL many('$kind', $KEYS, 'm$round$kind')" | tail -1)" >>"$out"
        done
    done
    control /reset
    local together commit apart one immediate now
    together=$(awk '$1 == "together" { print $2 }' "$out" | median_of)
    commit=$(awk '$1 == "together" { print $3 }' "$out" | median_of)
    apart=$(awk '$1 == "apart" { print $2 }' "$out" | median_of)
    one=$(awk '$1 == "apart" { print $3 }' "$out" | median_of)
    immediate=$(awk '$1 == "immediate" { print $2 }' "$out" | median_of)
    now=$(awk '$1 == "immediate" { print $3 }' "$out" | median_of)
    awk -v keys=$KEYS -v delay=$DELAY_MS -v together="$together" -v commit="$commit" -v apart="$apart" -v one="$one" \
        -v immediate="$immediate" -v now="$now" 'BEGIN {
        printf "%d keys, each held back for %d ms on the way to DynamoDB Local; ms for all of them (medians of 5)\n", keys, delay
        line = "  %-62s %9.1f   %5.2f\n"
        printf line, sprintf("one by one, immediate => true (each %.1f)", now), immediate, 1
        printf line, sprintf("one by one, a COMMIT each (each %.1f)", one), apart, apart / immediate
        printf line, sprintf("completed and committed together (the COMMIT: %.1f)", commit), together, together / immediate
        printf "  That COMMIT took as long as %.1f of one key; parallel_requests is 16, and %d keys make %d rounds of 16.\n",
            commit / one, keys, int((keys + 15) / 16)
    }'
}

# Measures the time from COMMIT until the record is COMPLETED, on an idle server.
commit_to_completed() {
    local p50 p90 p99 gap written
    read -r p50 p90 p99 gap written < <(node "$ROOT/bench/latency.mjs" "$EO_ENGINE_URL" bench 200)
    echo "from the return of COMMIT until the record is COMPLETED in DynamoDB Local, idle otherwise; ms (200 commits)"
    printf '  p50 %s, p90 %s, p99 %s; seen by reads %s apart; the worker had written its request after %s (p50)\n' \
        "$p50" "$p90" "$p99" "$gap" "$written"
}

# Runs one-key transactions through four sessions, RATE a second if possible, and
# counts the rows that wait for the worker meanwhile.
steady_rate() {
    local server=$1 seconds=$2 title=$3 out="$WORK/rate" watcher start rows
    sql -c 'CALL settle()'
    # shellcheck disable=SC2016 # psql's and pgbench's variables
    printf '%s\n' '\set n random(1, 1000000000000000)' "SELECT one_key('rate-' || :n)" >"$WORK/rate.sql"
    sql -c "CALL watch_backlog($seconds)" &
    watcher=$!
    PGOPTIONS="-c exactonce.server=$server" pgbench -n -M prepared -R $RATE -c 4 -j 1 -T "$seconds" \
        -f "$WORK/rate.sql" bench >"$out" 2>&1 || { cat "$out" >&2; return 1; }
    wait $watcher
    start=$(date +%s%N)
    sql -c 'CALL settle()'
    rows=$(sql -c "SELECT max(pending) FILTER (WHERE at_second <= 10), max(pending) FILTER (WHERE at_second > $seconds - 10) FROM backlog")
    awk -v title="$title" -v rate=$RATE -v seconds="$seconds" -v rows="$rows" -v drain=$((($(date +%s%N) - start) / 1000000)) '
        /^tps/ { tps = $3 }
        /^latency average/ { latency = $4 }
        /schedule lag/ { lag = $6 }
        END {
            split(rows, r, "|")
            printf "  %-34s %9.0f %9d %9.1f %9d %9d %9d\n", title, tps, seconds, latency - lag, r[1], r[2], drain
        }' "$out"
}

steady_rates() {
    local holder
    echo "one-key transactions (acquire, complete, commit), $RATE/s wanted, through four sessions; rows of exactonce_internal.outbox"
    printf '  %-34s %9s %9s %9s %9s %9s %9s\n' '' 'reached/s' 'seconds' 'ms each' 'first 10s' 'last 10s' 'ms to 0'
    steady_rate engine 30 'DynamoDB Local'
    steady_rate canned 30 'canned replies'
    # VACUUM cannot remove deleted rows while this session's snapshot may see them.
    { echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;'; sleep 64; echo 'COMMIT;'; } | sql >/dev/null &
    holder=$!
    steady_rate canned 60 'canned replies, a snapshot is held'
    wait $holder
    echo "  The most rows in the first and the last ten seconds, and the time until there were none after the end."
}

# COMMITs in a loop that does nothing else, in this cluster and in one without the
# library.
COMMITS=1000000

commits_loop() {
    # shellcheck disable=SC2016
    psql -XAtq -v ON_ERROR_STOP=1 "$@" -c 'DO $$BEGIN FOR i IN 1..100000 LOOP COMMIT; END LOOP; END$$' \
        -c 'CREATE TEMPORARY TABLE started AS SELECT clock_timestamp() AS at' \
        -c "DO \$\$BEGIN FOR i IN 1..$COMMITS LOOP COMMIT; END LOOP; END\$\$" \
        -c "SELECT round((extract(epoch FROM clock_timestamp() - at) * 1e6 / $COMMITS)::numeric, 3) FROM started" | tail -1
}

# PGHOST and PGPORT name the cluster without the library.  WITH_LIBRARY has host
# and port of the other one.
commits_inside() {
    local round host=${WITH_LIBRARY% *} port=${WITH_LIBRARY##* }
    taskset -acp "$CORE" "$(head -1 "$EO_PGDATA/postmaster.pid")" >/dev/null
    for round in 1 2 3 4 5; do
        echo "without $(commits_loop -d postgres)"
        echo "with $(commits_loop -h "$host" -p "$port" -d postgres)"
        echo "used $(commits_loop -h "$host" -p "$port" -d bench -c "SET exactonce.server = 'canned'" -c "SELECT one_key('commits$round')")"
    done >"$WORK/commits"
}

empty_commits() {
    taskset -acp "$CORE" "$(head -1 "$EO_PGDATA/postmaster.pid")" >/dev/null
    WITH_LIBRARY="$PGHOST $PGPORT" harness --in-memory --no-preload -- "$ROOT/bench/run" --inside-commits 2>/dev/null
    local without with used
    without=$(awk '$1 == "without" { print $2 }' "$WORK/commits" | median_of)
    with=$(awk '$1 == "with" { print $2 }' "$WORK/commits" | median_of)
    used=$(awk '$1 == "used" { print $2 }' "$WORK/commits" | median_of)
    awk -v without="$without" -v with="$with" -v used="$used" -v n=$COMMITS 'BEGIN {
        printf "%d COMMITs in a loop, nothing else; microseconds a COMMIT (medians of 5)\n", n
        line = "  %-46s %9.3f   %+6.3f\n"
        printf line, "without the library", without, 0
        printf line, "with it in shared_preload_libraries", with, with - without
        printf line, "... in a session that has completed a key", used, used - without
    }'
}

# Measures what a session keeps after 100,000 transactions, at each quarter.
# \gexec makes each statement a transaction of its own.  A procedure that commits in
# a loop cannot be used, because PostgreSQL itself keeps some bytes of each COMMIT
# until the procedure ends.
holdings() {
    local kind statement quarter
    for kind in transactions blocks batches; do
        {
            echo "SET exactonce.server = '$([ $kind = batches ] && echo narrow || echo canned)';"
            echo '\o /dev/null'
            for quarter in 0 1 2 3 4; do
                if [ $kind = transactions ]; then
                    statement="format('SELECT one_key(%L)', 'held-$quarter-' || i) FROM generate_series(1, 25000) i"
                elif [ $kind = batches ]; then
                    statement="format('SELECT three_keys(%L)', 'batch-$quarter-' || i) FROM generate_series(1, 25000) i"
                else
                    statement="format('SELECT blocks(100, %L)', 'block-$quarter-' || i) FROM generate_series(1, 250) i"
                fi
                [ $quarter = 0 ] || echo "SELECT $statement \\gexec"
                echo "CALL note_held('$kind', $((quarter * 25000)));"
            done
        } >"$WORK/holdings.sql"
        sql -f "$WORK/holdings.sql"
    done
    echo "one session against canned replies: kB of its memory contexts, of its process and of the worker; descriptors; used slots"
    {
        echo "kind after contexts process worker descriptors slots"
        sql -F ' ' -c 'SELECT * FROM held ORDER BY kind DESC, after'
    } | column -t | sed 's/^/  /'
    echo "  transactions: acquire, complete, commit. blocks: acquire and complete in an exception block, every second one rolled"
    echo "  back, a commit after each 100. batches: three keys in a request to acquire, to complete, to seal and to finish them."
}
