-- Procedures of the benchmarks.  Each makes a number of calls in this backend and
-- returns figures, in microseconds unless stated otherwise.  They commit as they
-- go, because a transaction holds its claims until it ends.
CREATE EXTENSION exactonce;

-- User and system time of a process, with a resolution of 10 ms.
CREATE FUNCTION cpu_us(process text) RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[14]::float8 + f[15]::float8) * 10000
	FROM string_to_array(regexp_replace(pg_read_file('/proc/' || process || '/stat'), '\(.*\)', 'x'), ' ') f
$$;

CREATE FUNCTION worker() RETURNS text LANGUAGE sql AS $$
	SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = current_database()
$$;

CREATE FUNCTION us_since(start timestamptz) RETURNS float8 LANGUAGE sql AS $$
	SELECT extract(epoch FROM clock_timestamp() - start)::float8 * 1e6
$$;

CREATE FUNCTION percentiles(took float8[]) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s', round(p[1]::numeric, 2), round(p[2]::numeric, 2))
	FROM (SELECT percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY t) AS p FROM unnest(took) t) s
$$;

-- Waits until the worker has nothing left to do.
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
DECLARE
	give_up timestamptz := clock_timestamp() + '60 s';
BEGIN
	LOOP
		COMMIT;
		EXIT WHEN NOT EXISTS (SELECT FROM exactonce_internal.outbox) AND NOT EXISTS (SELECT FROM exactonce_claims WHERE state <> 'kept');
		IF clock_timestamp() > give_up THEN
			RAISE 'the worker does not get done: % rows, % slots', (SELECT count(*) FROM exactonce_internal.outbox),
				(SELECT count(*) FROM exactonce_claims WHERE state <> 'kept');
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;

-- Makes calls of one kind.  Figures: median, 90th percentile, and CPU time of a
-- call in this backend and in the worker.  Kinds:
--   acquire             claims new keys
--   duplicate           asks for a completed key
--   cached              the same, of a server that remembers it
--   immediate, commit   acquire and complete a key, at once or by a COMMIT
--   complete, seal      the second half of these two alone
--   insert              inserts a row and commits, without any key
CREATE TABLE work (key text);
CREATE PROCEDURE measure(kind text, calls int, tag text, INOUT figures text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	took float8[] := array_fill(0::float8, ARRAY[calls]);
	duplicate bool := kind IN ('duplicate', 'cached');
	second_half bool := kind IN ('complete', 'seal');
	by_commit bool := kind IN ('commit', 'seal', 'insert');
	completes bool := kind IN ('complete', 'seal', 'commit', 'immediate');
	start timestamptz;
	cpu float8;
	worker_cpu float8;
	key text := 'dup-' || tag;
	claim idem_claim;
BEGIN
	IF duplicate THEN
		claim := idem_acquire(key);
		IF claim.outcome = 'acquired' THEN		-- the responder answers that it is completed already
			PERFORM idem_complete(key, '{"ok": true}', immediate => true);
		END IF;
		COMMIT;
	END IF;
	CALL settle();
	worker_cpu := cpu_us(worker());
	cpu := cpu_us('self');
	FOR i IN 1..calls LOOP
		IF NOT duplicate THEN
			key := tag || '-' || i;
		END IF;
		IF second_half THEN
			claim := idem_acquire(key);
			start := clock_timestamp();
		ELSE
			start := clock_timestamp();
			IF kind = 'insert' THEN
				INSERT INTO work VALUES (key);
			ELSE
				claim := idem_acquire(key);
			END IF;
		END IF;
		IF completes THEN
			PERFORM idem_complete(key, '{"ok": true}', immediate => NOT by_commit);
		END IF;
		IF by_commit THEN
			COMMIT;
		END IF;
		took[i] := us_since(start);
		IF i % 500 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
	cpu := cpu_us('self') - cpu;
	CALL settle();
	worker_cpu := cpu_us(worker()) - worker_cpu;
	figures := format('%s %s %s', percentiles(took), round((cpu / calls)::numeric, 2), round((worker_cpu / calls)::numeric, 2));
END $$;

-- Makes calls and nothing else, for counting instructions.  Kinds: acquire (new
-- keys), duplicate, commit (acquire, complete and COMMIT), nothing (the loop alone).
CREATE PROCEDURE only_calls(kind text, calls int, tag text) LANGUAGE plpgsql AS $$
DECLARE
	key text;
	claim idem_claim;
BEGIN
	FOR i IN 1..calls LOOP
		key := CASE WHEN kind = 'duplicate' THEN 'dup-' || tag ELSE tag || '-' || i END;
		IF kind <> 'nothing' THEN
			claim := idem_acquire(key);
		END IF;
		IF kind = 'commit' THEN
			PERFORM idem_complete(key, '{"ok": true}');
		END IF;
		IF kind = 'commit' OR i % 100 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
END $$;

-- Completes a number of keys; the proxy delays the request for each.  With kind
-- together all are completed by one COMMIT; figures: the time of completing them
-- and the COMMIT, and that of the COMMIT alone.  Otherwise they are completed one by
-- one, each with a COMMIT or (kind immediate) at once; figures: the time of all of
-- them, and the median of one.  In milliseconds, without acquiring the keys.
CREATE PROCEDURE many(kind text, keys int, tag text, INOUT figures text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	took float8[] := array_fill(0::float8, ARRAY[keys]);
	start timestamptz;
	committing timestamptz;
	key text;
	claim idem_claim;
BEGIN
	CALL settle();
	IF kind = 'together' THEN
		FOR i IN 1..keys LOOP
			claim := idem_acquire(tag || '-' || i);
		END LOOP;
		start := clock_timestamp();
		FOR i IN 1..keys LOOP
			PERFORM idem_complete(tag || '-' || i, '{"ok": true}');
		END LOOP;
		committing := clock_timestamp();
		COMMIT;
		figures := format('%s %s', round((us_since(start) / 1000)::numeric, 1), round((us_since(committing) / 1000)::numeric, 1));
	ELSE
		FOR i IN 1..keys LOOP
			key := tag || '-' || i;
			claim := idem_acquire(key);
			start := clock_timestamp();
			PERFORM idem_complete(key, '{"ok": true}', immediate => kind = 'immediate');
			COMMIT;
			took[i] := us_since(start) / 1000;
		END LOOP;
		figures := (SELECT format('%s %s', round(sum(t)::numeric, 1), split_part(percentiles(took), ' ', 1)) FROM unnest(took) t);
	END IF;
	CALL settle();
END $$;

-- Completes one key.  Returns the time after the COMMIT, in seconds since 1970.
CREATE PROCEDURE commit_one(key text, INOUT committed numeric DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_acquire(key);
	PERFORM idem_complete(key, '{"ok": true}');
	COMMIT;
	committed := extract(epoch FROM clock_timestamp());
END $$;

-- Acquires and completes one key, for pgbench, which commits.
CREATE FUNCTION one_key(key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM idem_acquire(key);
	PERFORM idem_complete(key, '{"ok": true}');
END $$;

-- Three keys in one request, if the server's parallel_requests is less.
CREATE FUNCTION three_keys(tag text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	keys text[] := ARRAY[tag || '-1', tag || '-2', tag || '-3'];
BEGIN
	PERFORM count(*) FROM idem_acquire_many(keys);
	PERFORM idem_complete_many(keys);
END $$;

-- Counts the rows of the outbox each second.
CREATE TABLE backlog (at_second int, pending bigint);
CREATE PROCEDURE watch_backlog(seconds int) LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
BEGIN
	TRUNCATE backlog;
	FOR i IN 1..seconds LOOP
		COMMIT;
		PERFORM pg_sleep(extract(epoch FROM start + make_interval(secs => i) - clock_timestamp()));
		INSERT INTO backlog SELECT i, count(*) FROM exactonce_internal.outbox;
	END LOOP;
END $$;

-- Completes a number of keys, each within an exception block.  Every second block
-- is rolled back.
CREATE FUNCTION blocks(keys int, tag text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..keys LOOP
		BEGIN
			PERFORM one_key(tag || '-' || i);
			IF i % 2 = 0 THEN
				RAISE 'undone';
			END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;

-- Notes what this session holds after n transactions or blocks, in the table held:
-- the memory of its contexts, the unshared memory of its process and of the worker,
-- all in kB; the number of open descriptors, and of used slots.
CREATE TABLE held (kind text, after int, contexts bigint, process bigint, worker bigint, descriptors bigint, slots bigint);
CREATE FUNCTION private_kb(process text) RETURNS bigint LANGUAGE sql AS $$
	SELECT substring(pg_read_file('/proc/' || process || '/status') FROM 'RssAnon:\s+(\d+)')::bigint
$$;
CREATE PROCEDURE note_held(kind text, n int) LANGUAGE plpgsql AS $$
BEGIN
	CALL settle();
	INSERT INTO held SELECT kind, n, (SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts),
		private_kb('self'), private_kb(worker()), (SELECT count(*) FROM pg_ls_dir('/proc/self/fd')),
		(SELECT count(*) FROM exactonce_claims WHERE state <> 'kept');
END $$;

-- Acquires and completes new keys.  Figures: CPU of this backend and of the worker for a
-- key, and requests for a key.
CREATE PROCEDURE cost_of_keys(tag text, calls int, INOUT figures text DEFAULT NULL) LANGUAGE plpgsql AS $$
DECLARE
	cpu float8;
	worker_cpu float8;
	asked bigint;
BEGIN
	worker_cpu := cpu_us(worker());
	cpu := cpu_us('self');
	asked := (SELECT sum(requests) FROM exactonce_stats);
	FOR i IN 1..calls LOOP
		PERFORM one_key(tag || '-' || i);
		COMMIT;
	END LOOP;
	cpu := cpu_us('self') - cpu;
	WHILE EXISTS (SELECT FROM exactonce_internal.outbox) LOOP
		PERFORM pg_sleep(0.01);
		COMMIT;
	END LOOP;
	worker_cpu := cpu_us(worker()) - worker_cpu;
	figures := format('%s %s %s', round((cpu / calls)::numeric, 1), round((worker_cpu / calls)::numeric, 1),
		round(((SELECT sum(requests) FROM exactonce_stats) - asked) / calls, 3));
END $$;
