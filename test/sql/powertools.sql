-- idem_key_powertools(): the keys that Powertools for AWS Lambda makes.

-- Digests that were computed apart from this project, of python, typescript and java.
-- That of dotnet is mostly the same as that of java.
CREATE TABLE digests (payload text, python text, typescript text, java text, same bool);
INSERT INTO digests VALUES
	('"order-123"', '767699b3ce7ee65ad155a61a6f7bdafb', 'dnaZs85+5lrRVaYab3va+w==', 'f32ae83ade5fb56d3230341541fd96c3', true),
	('42', 'a1d0c6e83f027327d8461063f4ac58a6', 'odDG6D8CcyfYRhBj9KxYpg==', 'a1d0c6e83f027327d8461063f4ac58a6', true),
	('1.0', 'e4c2e8edac362acab7123654b9e73432', 'xMpCOKC5I4INzFCab3WEmw==', NULL, true),
	('true', 'b326b5062b2f0e69046810717534cb09', 'sya1BisvDmkEaBBxdTTLCQ==', 'b326b5062b2f0e69046810717534cb09', false),
	('null', '37a6259cc0c1dae299a7866489dff0bd', 'N6YlnMDB2uKZp4Zkid/wvQ==', NULL, NULL),
	('""', '9d4568c009d203ab10e33ea9953a0264', 'nUVowAnSA6sQ4z6plToCZA==', 'd41d8cd98f00b204e9800998ecf8427e', true),
	('{"b":1,"a":"x"}', '19afc29426da0042fc4e8b7c6b727fdf', '7g2RJvqaOsmFC+2Kci0tEQ==', '783b851157ab02c1d0419d1502adb8e4', true),
	('["u1","p1"]', 'f8a841070bab3622a88d361b479ec85a', '8rkUQASCajo9U+oUfBM6Mg==', 'f2b9144004826a3a3d53ea147c133a32', true),
	('{"n":"é"}', 'ca0572bd78772d537ec8993b701fe057', 'Oe72tbZ9BoS7IypGNUJxBA==', '39eef6b5b67d0684bb232a4635427104', true),
	('{"b":1,"A":2,"a":3}', '22ef8ce9240f41fb8552ed5e8acace48', NULL, '292e0c76f7152eb4d3790d38ea1bc168', true),
	('[null,"a"]', 'abb974b7861a0383ef38c3c8799d3fae', 'wjPlGTodE/EpC53mKn3Vvw==', 'c233e5193a1d13f1290b9de62a7dd5bf', true),
	('"a/b"', '6eeafebe7ec2290f5b51cede14503393', 'bur+vn7CKQ9bUc7eFFAzkw==', 'a7e86136543b019d72468ceebf71fb8e', true);
SELECT payload, runtime, digest, idem_key_powertools(runtime, payload::json, 'orders.pay') AS key
FROM digests, LATERAL (VALUES ('python', python), ('typescript', typescript), ('java', java),
	('dotnet', CASE WHEN same THEN java END)) r (runtime, digest)
WHERE payload NOT IN ('null', '""') AND idem_key_powertools(runtime, payload::json, 'orders.pay') <> 'orders.pay#' || digest
	OR idem_validation_powertools(runtime, payload::json) <> digest;

-- A jsonb is as good where the library sorts the members.
SELECT payload, runtime, digest, idem_key_powertools(runtime, payload::jsonb, 'p') AS key
FROM digests, LATERAL (VALUES ('python', python), ('typescript', typescript)) r (runtime, digest)
WHERE payload NOT IN ('null', '""') AND idem_key_powertools(runtime, payload::jsonb, 'p') <> 'p#' || digest
	OR idem_validation_powertools(runtime, payload::jsonb) <> digest;
\set VERBOSITY default
SELECT idem_key_powertools('java', '{"b": 1, "a": 2}'::jsonb, 'p');
SELECT idem_validation_powertools('dotnet', '1'::jsonb);
-- A payload of unknown type is a json.
SELECT idem_key_powertools('java', '{"b": 1, "a": 2}', 'p') = idem_key_powertools('java', '{"b": 1, "a": 2}'::json, 'p') AS same;
PREPARE untyped AS SELECT idem_key_powertools($1, $2, $3), idem_validation_powertools($1, $2);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
DEALLOCATE untyped;
-- The libraries write no record for what identifies nothing.
SELECT idem_key_powertools('python', 'null', 'p');
\set VERBOSITY terse
SELECT idem_key_powertools('typescript', 'null'::jsonb, 'p');
SELECT idem_key_powertools('java', ' [ null, null ]', 'p');
SELECT idem_key_powertools('python', '""', 'p');
SELECT idem_key_powertools('python', '{ }', 'p');
SELECT count(DISTINCT idem_key_powertools('python', p::json, 'p')) FROM unnest(ARRAY['" "', '"null"', '[null, "nul"]', '[[]]', '0', 'false']) p;
\set VERBOSITY default

-- What is digested, as text.
CREATE FUNCTION differs(runtime text, payload text, expected text) RETURNS bool LANGUAGE sql AS $$
	SELECT idem_validation_powertools(runtime, payload::json) IS DISTINCT FROM
		CASE runtime WHEN 'typescript' THEN encode(decode(md5(expected), 'hex'), 'base64') ELSE md5(expected) END
$$;

-- Numbers: doubles are the shortest that is read the same, in the language's own form.
SELECT n.*
FROM (VALUES
	('0', '0', '0', '0'), ('-0', '0', '0', '0'), ('0.0', '0.0', '0', '0.0'), ('-0.0', '-0.0', '0', '-0.0'),
	('0e5', '0.0', '0', '0.0'), ('-0e-5', '-0.0', '0', '-0.0'), ('1.0', '1.0', '1', '1.0'), ('-1.50', '-1.5', '-1.5', '-1.5'),
	('9007199254740993', '9007199254740993', '9007199254740992', '9007199254740993'),
	('12345678901234567890', '12345678901234567890', '12345678901234567000', '12345678901234567890'),
	('123456789012345678901234', '123456789012345678901234', '1.2345678901234569e+23', '123456789012345678901234'),
	('0.1', '0.1', '0.1', '0.1'), ('0.30000000000000004', '0.30000000000000004', '0.30000000000000004', '0.30000000000000004'),
	('1e2', '100.0', '100', '100.0'), ('1E+2', '100.0', '100', '100.0'), ('1.5e300', '1.5e+300', '1.5e+300', '1.5E300'),
	('9999999.0', '9999999.0', '9999999', '9999999.0'), ('1e7', '10000000.0', '10000000', '1.0E7'),
	('1e15', '1000000000000000.0', '1000000000000000', '1.0E15'), ('1e16', '1e+16', '10000000000000000', '1.0E16'),
	('1234567890123456.0', '1234567890123456.0', '1234567890123456', '1.234567890123456E15'),
	('12345678901234567.0', '1.2345678901234568e+16', '12345678901234568', '1.2345678901234568E16'),
	('1e20', '1e+20', '100000000000000000000', '1.0E20'), ('1e21', '1e+21', '1e+21', '1.0E21'),
	('123e-20', '1.23e-18', '1.23e-18', '1.23E-18'),
	('0.001', '0.001', '0.001', '0.001'), ('0.0001', '0.0001', '0.0001', '1.0E-4'), ('0.00012', '0.00012', '0.00012', '1.2E-4'),
	('1e-5', '1e-05', '0.00001', '1.0E-5'), ('1e-6', '1e-06', '0.000001', '1.0E-6'), ('1.5e-7', '1.5e-07', '1.5e-7', '1.5E-7'),
	-- a number halfway between two doubles
	('1e23', '1e+23', '1e+23', '1.0E23'), ('9007199254740993.0', '9007199254740992.0', '9007199254740992', '9.007199254740992E15'),
	('36028797018963964.0', '3.6028797018963964e+16', '36028797018963964', '3.6028797018963964E16'),
	-- the ends of doubles
	('5e-324', '5e-324', '5e-324', '4.9E-324'), ('2.4703282292062328e-324', '5e-324', '5e-324', '4.9E-324'),
	('2e-324', '0.0', '0', '0.0'), ('-1e-400', '-0.0', '0', '-0.0'),
	('2.2250738585072014e-308', '2.2250738585072014e-308', '2.2250738585072014e-308', '2.2250738585072014E-308'),
	('1.7976931348623157e308', '1.7976931348623157e+308', '1.7976931348623157e+308', '1.7976931348623157E308'),
	('1e400', 'Infinity', 'null', 'Infinity'), ('-1e400', '-Infinity', 'null', '-Infinity')
) n (payload, python, typescript, java)
WHERE differs('python', payload, python) OR differs('typescript', payload, typescript) OR differs('java', payload, java)
	OR differs('dotnet', payload, payload);

-- Strings: escapes, the whole of Unicode, halves of surrogate pairs, and zero bytes.
SELECT s.*
FROM (VALUES
	('"\"\\\/\b\f\n\r\t"', '"\"\\/\b\f\n\r\t"', '"\"\\/\b\f\n\r\t"'),
	('"\u0001\u001F\u007f"', '"\u0001\u001f\u007f"', '"\u0001\u001f' || U&'\007F' || '"'),
	('"a\u0000b"', '"a\u0000b"', '"a\u0000b"'),
	('"\u0041\u00e9\u6f22\uD83D\uDE00"', '"A\u00e9\u6f22\ud83d\ude00"', '"Aé漢😀"'),
	(U&'"A\00E9\6F22\+01F600\2028"', '"A\u00e9\u6f22\ud83d\ude00\u2028"', U&'"Aé漢😀\2028"'),
	('"\ud83d"', '"\ud83d"', '"\ud83d"'), ('"\uDE00\uD83D"', '"\ude00\ud83d"', '"\ude00\ud83d"'),
	('"\ud83d\n\ud83d\ud83d\ude00"', '"\ud83d\n\ud83d\ud83d\ude00"', '"\ud83d\n\ud83d😀"')
) s (payload, python, typescript)
WHERE differs('python', payload, python) OR differs('typescript', payload, typescript);
SELECT s.*
FROM (VALUES
	('"\"\\\/\n"', E'"\\/\n'), ('"A\u00e9\u6f22\uD83D\uDE00"', 'Aé漢😀'), ('"\\u0041"', '\u0041')
) s (payload, value)
WHERE differs('java', payload, value) OR differs('dotnet', payload, value);
SELECT s.*
FROM (VALUES
	('"a\ud83d"', 'a?'), ('["a\ud83d"]', '["a?"]'), ('["\u001f\u007f\/\uD83D\uDE00\""]', '["\u001F' || U&'\007F' || '/😀\""]'),
	('[1e400, -1e400, -0, true, null]', '["Infinity","-Infinity",0,true,null]'), ('null', 'null'), ('false', 'false')
) s (payload, java)
WHERE differs('java', payload, java);
SELECT s.*
FROM (VALUES
	('null', ''), (' true ', 'True'), ('false', 'False'), (E'\t1.00\n', '1.00'), (' [ 1.0 ,"\ud83d\u0041\/" ] ', '[ 1.0 ,"\ud83d\u0041\/" ]'),
	('{"a": 1, "a": 2 }', '{"a": 1, "a": 2 }')
) s (payload, dotnet)
WHERE differs('dotnet', payload, dotnet);
SELECT idem_key_powertools('dotnet', '"a\ud83d"', 'p');

-- Arrays and objects: separators, the order of members, and members with one name.
SELECT o.*
FROM (VALUES
	('[]', '[]', '[]', '[]'), ('{}', '{}', '{}', '{}'),
	('[ [], {}, [{"":{}}] ]', '[[], {}, [{"": {}}]]', '[[],{},[{"":{}}]]', '[[],{},[{"":{}}]]'),
	('{"b": 1, "A": 2, "a": 3, "B": 4}', '{"A": 2, "B": 4, "a": 3, "b": 1}', '{"A":2,"a":3,"b":1,"B":4}', '{"b":1,"A":2,"a":3,"B":4}'),
	('{"a": 1, "b": 2, "a": [3]}', '{"a": [3], "b": 2}', '{"a":[3],"b":2}', '{"a":[3],"b":2}'),
	('{"a": 1, "A": 2, "\u0061": 3}', '{"A": 2, "a": 3}', '{"a":3,"A":2}', '{"a":3,"A":2}'),
	('{"b": 0, "10": 1, "9": 2, "010": 3, "-1": 4, "4294967294": 5, "4294967295": 6, "0": 7}',
	 '{"-1": 4, "0": 7, "010": 3, "10": 1, "4294967294": 5, "4294967295": 6, "9": 2, "b": 0}',
	 '{"0":7,"9":2,"10":1,"4294967294":5,"-1":4,"010":3,"4294967295":6,"b":0}',
	 '{"b":0,"10":1,"9":2,"010":3,"-1":4,"4294967294":5,"4294967295":6,"0":7}'),
	-- JavaScript compares UTF-16, Python code points
	('{"\uff5e": 1, "\ud83d\ude00": 2, "\ud83d": 3}', '{"\ud83d": 3, "\uff5e": 1, "\ud83d\ude00": 2}',
	 '{"\ud83d":3,"😀":2,"～":1}', '{"～":1,"😀":2,"?":3}'),
	-- lower case: one character becomes two, and a sigma at the end of a word is another
	('{"i̇z": 1, "İA": 2, "É": 3, "é0": 4}', '{"i\u0307z": 1, "\u00c9": 3, "\u00e90": 4, "\u0130A": 2}',
	 '{"İA":2,"i̇z":1,"É":3,"é0":4}', '{"i̇z":1,"İA":2,"É":3,"é0":4}'),
	('{"ας": 1, "ΑΣ": 2, "ασ": 3, "ΑΣΑ": 4, "Σ": 5, "ς": 6, "σ": 7}',
	 '{"\u0391\u03a3": 2, "\u0391\u03a3\u0391": 4, "\u03a3": 5, "\u03b1\u03c2": 1, "\u03b1\u03c3": 3, "\u03c2": 6, "\u03c3": 7}',
	 '{"ας":1,"ΑΣ":2,"ασ":3,"ΑΣΑ":4,"ς":6,"Σ":5,"σ":7}', '{"ας":1,"ΑΣ":2,"ασ":3,"ΑΣΑ":4,"Σ":5,"ς":6,"σ":7}'),
	('{"b": {"__proto__": 1, "a": 2}, "__proto": 3}', '{"__proto": 3, "b": {"__proto__": 1, "a": 2}}', '{"__proto":3,"b":{"a":2}}',
	 '{"b":{"__proto__":1,"a":2},"__proto":3}')
) o (payload, python, typescript, java)
WHERE differs('python', payload, python) OR differs('typescript', payload, typescript) OR differs('java', payload, java)
	OR differs('dotnet', payload, payload);

-- A jsonb gives the same hash as its text, where the order of members, numbers with
-- exponents and names that differ in case only do not matter.
SELECT r, p FROM (VALUES ('typescript', '{"b": 1.50, "a": [1e21, 1E-7, -0, {"é": "\ud83d\ude00"}]}'), ('typescript', '12345678901234567890'),
	('python', '{"bb": 1.50, "a": [1E-7, 12345678901234567890, {"é": "\ud83d\ude00"}]}'), ('python', '[1.0, 0.1]'),
	('java', '[1.50, "a", {"b": null}]'), ('java', '"a"'), ('java', '1.50'), ('dotnet', '"é"'), ('dotnet', '[1, 2]')) v (r, p)
WHERE idem_validation_powertools(r, p::json) <> idem_validation_powertools(r, p::jsonb::text::json);

-- A tree as deep as PostgreSQL reads it, and an object with many members.
SELECT differs('python', repeat('[', 1000) || repeat(']', 1000), repeat('[', 1000) || repeat(']', 1000));
SELECT differs('typescript', format('{%s}', string_agg(format('"%s": %s', n, n), ',' ORDER BY n DESC)),
	format('{%s}', string_agg(format('"%s":%s', n, n), ',' ORDER BY n)))
FROM generate_series(1, 5000) n;

-- The prefix is as it is, and what is NULL makes no key.
SELECT idem_key_powertools('java', '42', ''), idem_key_powertools('java', '42', 'Zoë#1');
SELECT idem_key_powertools('java', '42', NULL) IS NULL AND idem_key_powertools('java', NULL, 'p') IS NULL
	AND idem_key_powertools(NULL, '42', 'p') IS NULL AND idem_validation_powertools('java', NULL) IS NULL AS is_null;
SELECT idem_key_powertools('ruby', '42', 'p');
SELECT idem_validation_powertools('Python', '42');
\set VERBOSITY sqlstate
SELECT idem_validation_powertools('', '42');
SELECT idem_validation_powertools('dotnet', '"\udead"');
\set VERBOSITY default

-- It depends on no setting, so that it can be indexed.
CREATE TABLE orders (payload json);
CREATE INDEX ON orders (idem_key_powertools('python', payload, 'orders'));
SET extra_float_digits = -10;
SET client_encoding = 'LATIN1';
SELECT differs('python', '0.30000000000000004', '0.30000000000000004');
RESET client_encoding;
RESET extra_float_digits;
DROP TABLE orders, digests;
DROP FUNCTION differs;
