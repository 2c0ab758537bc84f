# A server starts without its claim file, and is told at once to commit a prepared transaction.
# The life that has sealed its keys was retired by a later life of this server, and that one by
# other data, of which this server has not heard yet.  The intervals are those of production.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_prepared_chain';
my $node = new_node('prepared_chain', conf => "max_prepared_transactions = 5\nmax_connections = 20\n", options => { clock_skew => 0 });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
$sql->('CREATE TABLE work (key text PRIMARY KEY)');
$sql->("BEGIN; INSERT INTO work VALUES ('$_'); SELECT idem_once('$_', '1'); PREPARE TRANSACTION '$_'") foreach qw(told back);
my $first = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");
is(record($table, 'told')->{status}, 'COMMITTING', 'the keys are sealed');

$node->stop('immediate');
$node->start;
wait_until('the next life retires the first', sub { item($table, "ORIGIN#$first")->{state} eq 'retired' });
my $second = item($table, "ORIGIN#$first")->{retired_by};
crash($node);
unlink $node->data_dir . '/exactonce_claims';

# The heir of the second life.
my $heir = '00000000-0000-4000-8000-000000000001';
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$second" } },
	UpdateExpression => 'SET #s = :r, retired_by = :h', ExpressionAttributeNames => { '#s' => 'state' },
	ExpressionAttributeValues => { ':r' => { S => 'retired' }, ':h' => { S => $heir } } });
$node->start;
my ($out, $err);
$node->psql('postgres', "COMMIT PREPARED 'told'", stdout => \$out, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/ERROR:  ID002: cannot commit prepared transaction "told"/, 'COMMIT PREPARED waits until it is known who has the life in the end');
is($sql->('SELECT count(*) FROM work'), '0', 'and nothing is done');
$sql->("ROLLBACK PREPARED '$_'") foreach qw(told back);
is($sql->('SELECT count(*) FROM pg_prepared_xacts'), '0', 'ROLLBACK PREPARED works');
is($sql->("SELECT outcome FROM idem_acquire('$_', on_commit => 'keep')"), 'in_progress', "nobody gets key \"$_\"") foreach qw(told back);
is(record($table, $_)->{status}, 'COMMITTING', "and \"$_\" is left to the heir") foreach qw(told back);
$node->stop('immediate');
done_testing();
