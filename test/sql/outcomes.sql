-- What others are told: another session's claims, tokens passed along, payloads.
\pset null NULL
SELECT outcome FROM idem_acquire('other', lease => '1 hour');
\c -
SET client_min_messages = warning;
-- The claim of another session.
SELECT outcome, mine, token, lease_until > now() + '59 min' AS lease FROM idem_acquire('other');
\set VERBOSITY terse
SELECT idem_start('other');
\set VERBOSITY default
SELECT idem_complete('other', '1');
SELECT idem_release('other');
SELECT idem_complete('other', '1', token => gen_random_uuid());
SELECT idem_extend('other', token => gen_random_uuid());
SELECT idem_fail('other', token => gen_random_uuid());
SELECT idem_release('other', token => gen_random_uuid());
SELECT status, runs FROM idem_get('other');
-- A key without a record.
SELECT idem_complete('nothing', token => gen_random_uuid());

-- With its token a claim can be used from any session, and keeps its retention.
SELECT token AS t FROM idem_acquire('passed-on', retention => '30 days') \gset
\c -
SELECT idem_extend('passed-on', '10 min', token => :'t') > now() + '9 min' AS extended;
SELECT idem_complete('passed-on', '{"a": 1}', token => :'t');
SELECT status, result, expires_at - updated_at BETWEEN '30 days' AND '30 days 2 s' AS retention
FROM idem_get('passed-on');
-- A transaction that is repeated with its token is refused, so that its work is not done twice.
SELECT idem_complete('passed-on', '{"a": 1}', token => :'t');
SELECT idem_complete('passed-on', '{"a": 2}', token => :'t');
CALL await_worker();
SELECT idem_fail('passed-on', token => :'t');
SELECT result FROM idem_get('passed-on');

-- A token completes a claim at once, too, and the record says who made the claim.
SET application_name = 'nightly run';
SELECT token AS t FROM idem_acquire('passed-at-once', retention => '30 days') \gset
\c -
SET client_min_messages = warning;
SELECT idem_complete('passed-at-once', '1', token => :'t', immediate => true);
SELECT status, holder, expires_at - updated_at BETWEEN '30 days' AND '30 days 2 s' AS retention
FROM idem_get('passed-at-once');
SELECT idem_complete('passed-at-once', '1', token => :'t', immediate => true);
-- After the first completion is finished, the seal refuses the repeated transaction.
BEGIN;
SELECT idem_complete('passed-at-once', '1', token => :'t');
COMMIT;
CALL await_worker();
BEGIN;
SELECT idem_complete('passed-at-once', '2', token => :'t');
COMMIT;
CALL await_worker();
SELECT status, result FROM idem_get('passed-at-once');

-- Payloads that are equal as jsonb are the same, however they are written.
SELECT outcome FROM idem_acquire('paid', payload => '{"b": 1.0, "a": [1, null]}');
SELECT outcome, mine FROM idem_acquire('paid', payload => '{"a": [1, null], "b": 1}');
SELECT outcome FROM idem_acquire('paid', payload => '{"a": [1, null], "b": 2}');
SELECT idem_complete('paid', '1');
CALL await_worker();
-- A payload is compared also when the key is completed, failed or forgotten.
SELECT outcome FROM idem_acquire('paid', payload => '{"b": 2}');
SELECT outcome FROM idem_acquire('paid');
SELECT outcome FROM idem_acquire('paid', payload => '{"a": [1, null], "b": 1.00}');
SELECT outcome FROM idem_acquire('tried', payload => '1');
SELECT idem_fail('tried');
SELECT outcome FROM idem_acquire('tried', payload => '2');
SELECT outcome FROM idem_acquire('tried');
SELECT idem_fail('tried');
SELECT outcome FROM idem_acquire('tried', payload => '2');
SELECT idem_forget('tried');
SELECT outcome FROM idem_acquire('tried', payload => '2');
-- Which parts of it count; a null is a part like others.
SELECT outcome FROM idem_acquire('parts', payload => '{"try": 1, "amount": 5, "to": null}', compare => '{$.amount,$.to}');
SELECT outcome, mine FROM idem_acquire('parts', payload => '{"try": 2, "amount": 5.0, "to": null}', compare => '{$.amount,$.to}');
SELECT outcome FROM idem_acquire('parts', payload => '{"try": 2, "amount": 5, "to": "x"}', compare => '{$.amount,$.to}');
SELECT outcome FROM idem_acquire('parts', payload => '{"try": 1, "amount": 5, "to": null}');
SELECT outcome FROM idem_acquire_many('{parts,more}', payloads => ARRAY['{"amount": 5, "to": null}', '{"amount": 6, "to": 1}']::jsonb[], compare => '{$.amount,$.to}');
SELECT idem_start('more', payload => '{"amount": 7, "to": 1}', compare => '{$.amount}');
SELECT idem_complete_many('{parts,more}');
SELECT idem_start('parts', payload => '{"try": 3, "amount": 5, "to": null}', compare => '{$.amount,$.to}');
SELECT idem_start('misspelled', payload => '{"try": 3, "amount": 5}', compare => '{$.try,$.amonut}');

-- The key of a dead run is taken over, and the dead run cannot finish it.
CREATE SERVER quick FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'regress', key_prefix 'test/', clock_skew '0');
\set endpoint `echo "$EO_ENDPOINT"`
ALTER SERVER quick OPTIONS (ADD endpoint :'endpoint');
CREATE USER MAPPING FOR PUBLIC SERVER quick OPTIONS (access_key_id 'test', secret_access_key 'test');
SET exactonce.server = 'quick';
SELECT token AS dead FROM idem_acquire('crashed', lease => '100 ms') \gset
\c -
SET exactonce.server = 'quick';
-- A wait ends as soon as the lease has ended.
SELECT outcome, run, mine FROM idem_acquire('crashed', wait => '10 s', lease => '1 min');
SELECT idem_complete('crashed', '"late"', token => :'dead');
SELECT idem_extend('crashed', token => :'dead');
SELECT idem_release('crashed', token => :'dead');
SELECT idem_complete('crashed', '"taken over"');
SELECT status, runs, result FROM idem_get('crashed');
-- A run that crashes counts: after the last run that is allowed the key is parked.
SELECT outcome FROM idem_acquire('crashes', lease => '100 ms', max_runs => 1);
\c -
SET exactonce.server = 'quick';
SELECT outcome, run, error FROM idem_acquire('crashes', wait => '10 s', max_runs => 1);
SELECT outcome, run FROM idem_acquire('crashes', max_runs => 2);
