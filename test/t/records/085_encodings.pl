# A database in LATIN1 beside one in UTF-8: what it cannot express is escaped where people look,
# and refused where a program would take it for something else.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use Test::More;

my $table = 'tap_encodings';
my $node = new_node('encodings', options => { cache_ttl => '1 min' });
$ENV{PGCLIENTENCODING} = 'UTF8';
sql_of($node, "CREATE DATABASE latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
sql_of($node, 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table), 'latin1');
sql_of($node, q(CREATE FUNCTION handler(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $1'), 'latin1');

# ----- keys of other databases ------------------------------------------------

my $run = start_script($node, "BEGIN; SELECT outcome FROM idem_acquire_many('{order 5 €, Zoë, 😀}'::text[]);\n"
	  . say_in_script('held') . halt_until('looked'));
await_word('held');
is(sql_of($node, q(SELECT string_agg(key, ',' ORDER BY key COLLATE "C") FROM exactonce_claims), 'latin1'),
	'Zoë,\ud83d\ude00,order 5 \u20ac', 'keys that another database holds are escaped where they lack a character');
my $hashes = q(SET exactonce.log_keys = 'hash'; SELECT string_agg(key, ',' ORDER BY key) FROM exactonce_claims);
my $shown = sql_of($node, $hashes);
like($shown, qr/^(?:sha256:[0-9a-f]{16},?){3}$/, 'keys are shown by their digests');
is(sql_of($node, $hashes, 'latin1'), $shown, 'which are the same in all databases');
is(sql_of($node, 'SELECT count(*) FROM exactonce_in_doubt', 'latin1'), 0, 'and exactonce_in_doubt can be selected from');
go_on('looked');
finish_script($run);
settled($node);

# ----- results ----------------------------------------------------------------

sql_of($node, qq(SELECT outcome FROM idem_acquire('$_->[0]', on_commit => 'keep'); SELECT idem_complete('$_->[0]', '$_->[1]')))
  foreach [ 'name', '{"name": "Zoë"}' ], [ 'price', '{"price": "5 €"}' ];
settled($node);
foreach my $other ([ 'escaped', '{"price": "5 \u20ac"}' ], [ 'words', "5 \x{20ac}" ], [ 'plain words', 'done' ])
{
	dynamodb(PutItem => { TableName => $table, Item => { pk => { S => "IDEMPOTENCY#$other->[0]" }, owner => { S => 'other' },
		status => { S => 'COMPLETED' }, result => { S => $other->[1] }, ttl => { N => sprintf '%d', time() + 3600 } } });
}
is(sql_of($node, q(SELECT result FROM idem_acquire('escaped'))), '{"price": "5 €"}', 'UTF-8: a result is what it is');
is(sql_of($node, q(SELECT result FROM idem_acquire('name')), 'latin1'), '{"name": "Zoë"}', 'and so it is in LATIN1, if it can be');
is(sql_of($node, q(SELECT result FROM idem_acquire('plain words')), 'latin1'), '"done"', 'words are a JSON string');
foreach my $key ('price', 'escaped', 'words')
{
	like(errors_of($node, $_, 'latin1'),
		qr/22P05: the result of key "$key" on server "exactonce" cannot be had in a database in LATIN1\n.*HINT:  .*UTF8/s,
		"a result that cannot be expressed is refused: $_")
	  foreach "SELECT outcome FROM idem_acquire('$key')", "SELECT idem_call('$key', 'handler(jsonb)')", "SELECT status FROM idem_get('$key')";
	is(sql_of($node, "SELECT idem_start('$key')", 'latin1'), 'f', "and is not needed to know that the work is done: $key");
}
is(sql_of($node, q(SELECT string_agg(key || jsonb_typeof(result), ' ' ORDER BY key) FROM idem_list(results => true)), 'latin1'),
	'escapedstring nameobject plain wordsstring pricestring wordsstring', 'a list shows them as texts');

stop_without_crash($node);
done_testing();
