-- Steps and undo: a saga, in SQL alone.  docs/cookbook.md has an example.
--
-- A saga is work of several steps, each of which commits by itself.  If one fails for good, those
-- that are done are undone in reverse order.  Call the procedure again until it returns: after an
-- error, a crash or a lost connection, from any session and any database on the same table.
--
-- Every step, every undo and the direction have a key of their own, and each is completed once, by
-- the transaction that did its work.  So the keys are all that is remembered.  No step is done
-- twice, no undo is done twice, and there is never both an end and an undo.

CREATE TYPE saga_step AS (
    name    text,
    handler regprocedure,       -- jsonb in: {"payload": ..., "results": {"step": ...}}; jsonb out
    undo    regprocedure        -- jsonb in: {"payload": ..., "result": ...}; NULL: nothing to undo
);

-- A handler may be tried max_runs times; an undo is tried until it works.  The result has the
-- result of each step.  Errors: those of the handlers, as long as the step can be tried again;
-- ID001, as long as the saga or a step is in progress elsewhere; P0001, once it is undone.
CREATE PROCEDURE run_saga(saga text, payload jsonb, steps saga_step[], INOUT result jsonb DEFAULT NULL,
                          max_runs int DEFAULT 5, retention interval DEFAULT '7 days')
LANGUAGE plpgsql AS $$
DECLARE
    whole     idem_claim;
    direction idem_claim;
    step      idem_claim;
    step_key  text;
    done      idem_record;
    results   jsonb := '{}';
    failure   jsonb;
    state     text;
    message   text;
BEGIN
    -- One session at a time works on the saga.  max_runs is part of what must be the same in each
    -- call: whether a step has failed for good must not depend on who asks.
    whole := idem_acquire(saga, retention => retention, on_commit => 'session',
        payload => jsonb_build_object('payload', payload, 'max_runs', max_runs,
            'steps', (SELECT jsonb_agg(s.name) FROM unnest(steps) s)));
    IF whole.outcome = 'completed' THEN
        result := whole.result;
        RETURN;
    ELSIF whole.outcome = 'failed' THEN
        RAISE EXCEPTION 'saga % was undone: %', saga, whole.error;
    ELSIF whole.outcome <> 'acquired' AND NOT whole.mine THEN
        RAISE EXCEPTION 'saga % is in progress elsewhere', saga USING ERRCODE = 'ID001';
    END IF;
    COMMIT;

    -- An earlier run may have decided to undo.
    done := idem_get(idem_key(saga, 'direction'::text));
    IF done.status = 'COMPLETED' AND done.result <> '"forward"' THEN
        failure := done.result;
    END IF;

    FOR i IN 1 .. cardinality(steps) LOOP
        EXIT WHEN failure IS NOT NULL;
        step_key := idem_key(saga, steps[i].name);
        state := NULL;
        BEGIN
            results := results || jsonb_build_object(steps[i].name,
                idem_call(step_key, steps[i].handler, jsonb_build_object('payload', payload, 'results', results),
                          max_runs => max_runs, retention => retention));
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
        END;
        COMMIT;
        CONTINUE WHEN state IS NULL;

        -- The step is taken over before anything is decided: its last run may still live, on a
        -- machine that nobody hears of, and must not commit after the undo.
        step := idem_acquire(step_key, wait => '10s');
        IF step.outcome = 'failed' OR (step.outcome = 'acquired' AND step.run > max_runs) THEN
            failure := jsonb_build_object('step', steps[i].name, 'sqlstate', state, 'message', message);
            IF step.outcome = 'acquired' THEN
                PERFORM idem_fail(step_key, failure, terminal => true);
            END IF;
        ELSE
            IF step.outcome = 'acquired' THEN
                PERFORM idem_release(step_key);
            END IF;
            PERFORM idem_release(saga);
            COMMIT;
            RAISE EXCEPTION 'step % of saga %: %', steps[i].name, saga, message USING ERRCODE = state;
        END IF;
    END LOOP;

    -- The direction is decided once, by the first commit, in whatever session and database.  The
    -- end of the saga commits together with it.
    direction := idem_acquire(idem_key(saga, 'direction'::text), retention => retention, wait => '10s');
    IF direction.outcome = 'completed' THEN
        failure := CASE WHEN direction.result <> '"forward"' THEN direction.result END;
    ELSIF direction.outcome = 'acquired' THEN
        PERFORM idem_complete(idem_key(saga, 'direction'::text), coalesce(failure, '"forward"'));
    ELSE
        RAISE EXCEPTION 'saga % is in progress elsewhere', saga USING ERRCODE = 'ID001';
    END IF;
    IF failure IS NULL THEN
        PERFORM idem_complete(saga, results);
        COMMIT;
        result := results;
        RETURN;
    END IF;
    COMMIT;

    -- A step that is not done is failed for good before those ahead of it are undone, so that no
    -- run of it that is late can still do it.
    FOR i IN REVERSE cardinality(steps) .. 1 LOOP
        step_key := idem_key(saga, steps[i].name);
        step := idem_acquire(step_key, retention => retention, wait => '10s');
        IF step.outcome = 'acquired' THEN
            PERFORM idem_fail(step_key, failure, terminal => true);
        ELSIF step.outcome = 'completed' AND steps[i].undo IS NOT NULL THEN
            PERFORM idem_call(idem_key(saga, steps[i].name, 'undo'::text), steps[i].undo,
                              jsonb_build_object('payload', payload, 'result', step.result),
                              retention => retention);
        ELSIF step.outcome NOT IN ('completed', 'failed') THEN
            RAISE EXCEPTION 'step % of saga % is in progress elsewhere', steps[i].name, saga
                USING ERRCODE = 'ID001';
        END IF;
        COMMIT;
    END LOOP;
    PERFORM idem_fail(saga, failure, terminal => true);
    COMMIT;
    RAISE EXCEPTION 'saga % was undone: %', saga, failure;
END $$;
