-- Functions of the benchmarks: each makes so many calls in this backend and
-- gives median, 90th percentile and CPU time of a call, in microseconds.
CREATE EXTENSION exactonce;

-- user and system time of this process, in ticks of 10 ms
CREATE FUNCTION cpu_us() RETURNS float8 LANGUAGE sql AS $$
	SELECT (f[14]::float8 + f[15]::float8) * 10000
	FROM string_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '\(.*\)', 'x'), ' ') f
$$;

CREATE FUNCTION figures(took float8[], cpu float8) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s %s %s', round(p[1]::numeric, 2), round(p[2]::numeric, 2), round((cpu / cardinality(took))::numeric, 2))
	FROM (SELECT percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY t) AS p FROM unnest(took) t) s
$$;

-- kind: acquire (new keys), complete (keys acquired before), duplicate, both
CREATE FUNCTION measure(kind text, calls int, tag text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	took float8[] := array_fill(0::float8, ARRAY[calls]);
	start timestamptz;
	cpu float8 := 0;
	at float8;
	key text;
	claim idem_claim;
BEGIN
	IF kind = 'duplicate' THEN
		PERFORM idem_acquire('dup-' || tag);
		BEGIN
			PERFORM idem_complete('dup-' || tag, '{"ok": true}');
		EXCEPTION WHEN OTHERS THEN NULL;	-- the responder's have always been completed
		END;
	END IF;
	FOR i IN 1..calls LOOP
		key := CASE WHEN kind = 'duplicate' THEN 'dup-' || tag ELSE tag || '-' || i END;
		IF kind = 'complete' THEN
			PERFORM idem_acquire(key);
		END IF;
		start := clock_timestamp();
		IF kind = 'complete' THEN
			PERFORM idem_complete(key, '{"ok": true}');
		ELSE
			claim := idem_acquire(key);
			IF kind = 'both' THEN
				PERFORM idem_complete(key, '{"ok": true}');
			END IF;
		END IF;
		took[i] := extract(epoch FROM clock_timestamp() - start) * 1e6;
	END LOOP;
	at := cpu_us();
	FOR i IN 1..calls LOOP
		key := CASE WHEN kind = 'duplicate' THEN 'dup-' || tag ELSE tag || '-c' || i END;
		claim := idem_acquire(key);
		IF kind IN ('complete', 'both') THEN
			PERFORM idem_complete(key, '{"ok": true}');
		END IF;
	END LOOP;
	cpu := cpu_us() - at;
	RETURN figures(took, cpu);
END $$;

-- The calls and nothing else, for counting instructions; kind: acquire (new
-- keys), duplicate, nothing (the loop alone).
CREATE FUNCTION only_calls(kind text, calls int, tag text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	key text;
	claim idem_claim;
BEGIN
	FOR i IN 1..calls LOOP
		key := CASE WHEN kind = 'duplicate' THEN 'dup-' || tag ELSE tag || '-' || i END;
		IF kind <> 'nothing' THEN
			claim := idem_acquire(key);
		END IF;
	END LOOP;
END $$;

-- What a backend holds after so many calls: memory of PostgreSQL's contexts and
-- of the process in kB, and open descriptors.
CREATE FUNCTION holdings(calls int, tag text) RETURNS TABLE (after int, contexts_kb bigint, process_kb bigint, descriptors bigint)
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 0..calls LOOP
		IF i % (calls / 4) = 0 THEN
			after := i;
			SELECT sum(total_bytes) / 1024 INTO contexts_kb FROM pg_backend_memory_contexts;
			process_kb := substring(pg_read_file('/proc/self/status') FROM 'VmRSS:\s+(\d+)')::bigint;
			SELECT count(*) INTO descriptors FROM pg_ls_dir('/proc/self/fd');
			RETURN NEXT;
		END IF;
		PERFORM idem_acquire(tag || i);
		PERFORM idem_complete(tag || i, '{"ok": true}');
	END LOOP;
END $$;
