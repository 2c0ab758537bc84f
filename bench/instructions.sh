# shellcheck shell=bash
# bench/run --instructions: counts the instructions of a call with callgrind.
# bench/run sources this file; the functions here call those of bench/run.
#
# callgrind counts the instructions of the process in user mode, without the
# kernel.  Work that happens only once (start-up, the first connection, caches) is
# removed by counting N calls and 2N calls, each in a process of its own, and taking
# the difference.  Everything runs against the responder of canned replies, which
# delays each reply.  So every client waits for its reply, as over a network, and
# the scheduling of the processes has no influence on the counts.

REPLY_MS=5

COUNTER="valgrind --quiet --tool=callgrind --collect-systime=yes --compress-strings=no --compress-pos=no"

# The profile of N calls is called NAME.1, that of 2N calls NAME.2.
count_loop() {
    local n
    for n in 1 2; do
        # shellcheck disable=SC2086 # a command and its options
        taskset -c "$CORE" $COUNTER --callgrind-out-file="$PROFILES/curl.$n" \
            "$WORK/loop" curl "$1" $((n * CALLS)) new >/dev/null
    done
}

# Counts a backend that makes calls of one kind.  Its profile is written when the
# backend exits.
count_backend() {
    local kind=$1 n pid
    for n in 1 2; do
        pid=$(sql -c "SET exactonce.server = 'canned'" -c 'SELECT pg_backend_pid()' \
            -c "CALL only_calls('$kind', $((n * CALLS)), 'count$n')")
        while [ -e "/proc/$pid" ]; do sleep 0.1; done
        mv "$PROFILES/$pid" "$PROFILES/$kind.$n"
    done
}

# Prints one line for each figure: NAME WHAT VALUE.  WHAT is "all", "system" (the
# system calls), an object, or a function including all functions that it calls.
# callgrind_annotate does not print the object of inlined functions, so the profiles
# are read directly.
figures_of_profiles() {
    local name
    for name in curl nothing acquire duplicate commit; do
        awk -v name=$name -v calls="$CALLS" '
            function part(object) {
                sub(".*/", "", object)
                if (object ~ /^exactonce/) return "exactonce"
                if (object ~ /^libcurl/) return "libcurl"
                if (object ~ /^libjson-c/) return "json-c"
                if (object ~ /^libcrypto/) return "libcrypto"
                if (object ~ /^libc[.-]/) return "libc"
                if (object ~ /^plpgsql/) return "plpgsql"
                if (object ~ /^postgres/) return "postgres"
                return "others"
            }
            FNR == 1 { sign = NR == 1 ? -1 : 1 }
            sub(/^ob=/, "") { object = part($0); next }
            sub(/^fn=/, "") { fn = $0; next }
            /^calls=/ { called = 1; next }
            !/^[0-9]+ [0-9]/ { next }
            fn ~ /^eo_/ { sum["fn:" fn] += sign * $2 }
            called { called = 0; next }
            {
                sum["all"] += sign * $2
                sum[object] += sign * $2
                # Outside valgrind, reading the clock is not a system call.
                if (fn !~ /clock_gettime|gettimeofday|^time/) sum["system"] += sign * $3
            }
            END { for (what in sum) printf "%s %s %.1f\n", name, what, sum[what] / calls }' \
            "$PROFILES/$name.1" "$PROFILES/$name.2"
    done
}

report_instructions() {
    figures_of_profiles | awk '
        { v[$1 " " $2] = $3 }
        function line(title, what, names,    n, i, a) {
            printf "%-44s", title
            n = split(names, a)
            for (i = 1; i <= n; i++) printf " %11s", a[i] == "-" ? "" : sprintf("%.0f", v[a[i] " " what])
            printf "\n"
        }
        # Prints functions including all functions that they call.  A function that
        # is in no profile is left out.
        function step(title, functions,    n, i, k, a, names, name, found) {
            n = split(functions, a)
            for (k = split(exactonce, names); k > 2; k--) {
                name = names[k]
                v[name " step"] = 0
                for (i = 1; i <= n; i++) if ((name " fn:" a[i]) in v) { found = 1; v[name " step"] += v[name " fn:" a[i]] }
                if (title !~ /^  [a-z]/) v[name " left"] = v[name " step"]
                else v[name " left"] -= v[name " step"]
            }
            if (found) line(title, "step", exactonce)
        }
        END {
            all = "curl nothing acquire duplicate commit"
            exactonce = "- - acquire duplicate commit"
            printf "\n%-44s %11s %11s %11s %11s %11s\n", "instructions a call, in user mode", "bare", "PL/pgSQL", "exactonce", "exactonce", "acquire and"
            printf "%-44s %11s %11s %11s %11s %11s\n", "", "libcurl", "loop alone", "acquire", "duplicate", "COMMIT (*)"
            line("all", "all", all)
            print "by whose code runs"
            line("  libcurl", "libcurl", all)
            line("  json-c", "json-c", all)
            line("  libcrypto", "libcrypto", all)
            line("  libc", "libc", all)
            line("  PostgreSQL", "postgres", all)
            line("  PL/pgSQL", "plpgsql", all)
            line("  exactonce", "exactonce", all)
            line("  others (the loop, the dynamic linker, ...)", "others", all)
            print "by step, with all it calls"
            step("idem_acquire, idem_complete, the seal", "eo_idem_acquire eo_idem_complete eo_seal")
            step("  server, credentials", "eo_store_open")
            step("  body of the request", "eo_record_put_write")
            step("  signature", "eo_sigv4_sign")
            step("  request and reply over libcurl", "eo_http_start eo_http_wait eo_http_finish")
            step("  reply into a tree, and its end", "eo_json_parse eo_json_free")
            step("  record out of the tree", "eo_record_read eo_record_pk_of")
            step("  digest of the key", "eo_target_digest")
            step("  slot and place in the transaction", "eo_xact_add eo_xact_drop")
            step("  row of the outbox", "eo_outbox_add")
            line("  everything else in it", "left", exactonce)
            for (i = split("acquire duplicate commit", a); i > 0; i--)
                v[a[i] " around"] = v[a[i] " all"] - v[a[i] " fn:eo_idem_acquire"] - v[a[i] " fn:eo_idem_complete"] - v[a[i] " fn:eo_seal"]
            line("PL/pgSQL, executor and COMMIT around it", "around", exactonce)
            print "system calls a call (without the clock)"
            line("  all", "system", all)
            print "(*) acquire, complete and COMMIT: two requests. The finish is the worker\047s and not counted here."
        }'
    echo
    echo "$(valgrind --version), Linux $(uname -r), PostgreSQL $(psql -XAtqd bench -c 'SHOW server_version'), $(curl-config --version 2>/dev/null || echo libcurl)"
    ! grep -qw sha_ni /proc/cpuinfo ||
        echo "This processor has instructions for SHA-256, valgrind's does not: libcrypto counts more here than it executes."
}

count_inside() {
    local kind
    start_responder $REPLY_MS
    prepare "$PORT"
    # The first call in a database makes its life, and caches are invalidated by that.
    sql -c "SET exactonce.server = 'canned'" -c "CALL only_calls('commit', 1, 'first')" -c 'CALL settle()'
    count_loop "$PORT"
    for kind in nothing acquire duplicate commit; do
        count_backend $kind
    done
    report_instructions
}
