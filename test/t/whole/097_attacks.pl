# Where the promise was attacked: claims that are given up in a transaction that goes on, locks of
# items that outlive the run of a server, and tables of one name in two accounts.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $table = 'tap_attacks';
my $business = 'tap_attacks_items';
my $conf = <<'CONF';
log_min_messages = log
max_prepared_transactions = 5
max_connections = 20
autovacuum = off
CONF
my $node = new_node('attacks', conf => $conf, options => { transact_tables => $business, clock_skew => 0 });
dynamodb(CreateTable => { TableName => $business, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ], KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });

sub sql
{
	my ($text) = @_;
	return $node->safe_psql('postgres', $text);
}

sub outcome
{
	my ($key, $more) = @_;
	return sql("SELECT outcome FROM idem_acquire('$key', on_commit => 'keep'" . ($more // '') . ')');
}

sub lease_of
{
	my ($key) = @_;
	return record($table, $key)->{lease_ms};
}

# ----- claims that are given up in a transaction that goes on --------------------------------------

# Nobody else may begin as long as the transaction can commit what it has done.
my $token = sql("SELECT token FROM idem_acquire('older', lease => '1 s', on_commit => 'keep')");
my %given_up = (
	failed => "SELECT outcome FROM idem_acquire('failed', lease => '1 s');\nSELECT idem_fail('failed', '\"no\"', terminal => true);\n",
	released => "SELECT outcome FROM idem_acquire('released', lease => '1 s');\nSELECT idem_release('released');\n",
	older => "SELECT idem_fail('older', '\"no\"', token => '$token');\n");
foreach my $key (sort keys %given_up)
{
	my $run = start_script($node, "BEGIN;\n$given_up{$key}" . say_in_script("$key is given up") . halt_until("$key ends") . "COMMIT;\n");
	await_word("$key is given up");
	my $first = lease_of($key);
	wait_until("$key: the lease of a claim that is given up is extended until its transaction is over", sub { lease_of($key) > $first + 3000 });
	is(outcome($key), 'in_progress', "$key: and nobody else begins");
	go_on("$key ends");
	unlike(finish_script($run), qr/ERROR/, "$key: its transaction commits");
	settled($node);
	is(status_of($table, $key), 'FAILED', "$key: then what was said is written");
}

# It is held again only if nobody has had the key since.
my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('lost', lease => '1 s');\nSELECT idem_release('lost');\n"
	  . say_in_script('lost is released') . halt_until('lost is lost') . "SELECT outcome FROM idem_acquire('lost');\nROLLBACK;\n");
await_word('lost is released');
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'IDEMPOTENCY#lost' } }, UpdateExpression => 'SET #o = :o, lease_ms = :l',
	ExpressionAttributeNames => { '#o' => 'owner' },
	ExpressionAttributeValues => { ':o' => { S => 'another service' }, ':l' => { N => '9999999999999' } } });
wait_until('another service has taken a key that was released', sub { sql('SELECT sum(lost_claims) FROM exactonce_health') > 0 });
go_on('lost is lost');
like(finish_script($run), qr/^acquired\nt\n(?s:.*)ERROR:  ID002: /, 'whoever has released it does not get it back');
settled($node);

# ----- calls that are no copies of each other ------------------------------------------------------

# PostgreSQL puts the body of such a function in the place of its calls.  Each asks for itself.
sql(<<'SQL');
CREATE FUNCTION claim(k text) RETURNS text LANGUAGE sql AS $$SELECT (idem_acquire(k)).outcome::text$$;
CREATE FUNCTION claim_order(k text) RETURNS text LANGUAGE sql AS $$SELECT (idem_acquire('order/' || k)).outcome::text$$;
SQL
is(sql("BEGIN; SELECT claim('inline'), claim('inline'); ROLLBACK"), 'acquired|in_progress', 'a second call for a row is a duplicate');
is(sql("BEGIN; SELECT claim_order(k), claim_order(l) FROM (SELECT 'inline' AS k, 'inline' AS l OFFSET 0) v; ROLLBACK"), 'acquired|in_progress',
	'also if their keys are computed');
like(sql("BEGIN; SELECT (idem_acquire('all columns')).*; ROLLBACK"), qr/^all columns\|acquired\|[^|]+\|/, 'all columns of one call are of one answer');

# ----- locks of items that outlive the run of the server -------------------------------------------

sub putting
{
	my ($id, $value) = @_;
	return qq('[{"Put": {"TableName": "$business", "Item": {"id": {"S": "$id"}, "value": {"S": "$value"}}}}]');
}

sub value_of
{
	my ($id, $name) = @_;
	return dynamodb(GetItem => { TableName => $name // $business, Key => { id => { S => $id } } })->{Item}{value}{S} // '';
}

my @items = map { "item $_" } 1 .. 5;
sql('BEGIN; ' . join('', map { "SELECT idem_once('early $_', writes => " . putting($_, 'early') . '); ' } @items) . "PREPARE TRANSACTION 'early'");
$node->append_conf('postgresql.conf', "max_connections = 27\nmax_locks_per_transaction = 70\n");
$node->restart;
foreach my $item (@items)
{
	like(run_script($node, "SET lock_timeout = '200 ms';\nSELECT idem_once('late $item', writes => " . putting($item, 'late') . ");\n"), qr/ERROR:  55P03: /,
		"$item: after a restart with other settings another transaction waits for the one that is prepared");
}
my @late = map { start_script($node, "SELECT idem_once('late $_', writes => " . putting($_, 'late') . ");\n") } @items;
wait_until('they wait', sub { sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'object'") == @items });
sql("COMMIT PREPARED 'early'");
finish_script($_) foreach @late;
settled($node);
is(value_of($_), 'late', "$_ shows the later write") foreach @items;

# ----- tables of one name in two accounts ----------------------------------------------------------

# The requests of the tenant's server go to another table, as they would in another account.
reset_proxy();
my %account = (do => 'account', access_key => 'TENANT', table => $table, there => 'tap_of_tenant', times => 0);
sub two_accounts
{
	reset_proxy();
	fault(%account);
	fault(%account, key => 'ORIGIN#');
	return;
}
two_accounts();
sql("ALTER SERVER exactonce OPTIONS (ADD lease '1 hour')");
sql(server_sql('tenant', table => $table, transact_tables => $business, clock_skew => 0, lease => '1 hour',
		mapping => "access_key_id 'TENANT', secret_access_key 'secret'") . "SELECT idem_create_table('tenant')");
is(outcome('shared'), 'acquired', 'a key of one account');
is(outcome('shared', ", server => 'tenant'"), 'acquired', 'is another one in the other account');
is(status_of('tap_of_tenant', 'shared'), 'IN_PROGRESS', 'where its record is');

like(run_script($node, "BEGIN;\nSELECT idem_start('both');\nSELECT idem_complete('both', '1');\nSELECT idem_start('both', server => 'tenant');\nCOMMIT;\n"),
	qr/^t\n\n(?s:.*)ERROR:  0A000: cannot use key "both" on servers "exactonce" and "tenant" in one transaction/,
	'one transaction does not take the one for the other');
like(run_script($node, "BEGIN;\nSELECT idem_start('both ways');\nSELECT idem_complete('both ways', '1', server => 'tenant');\nCOMMIT;\n"),
	qr/ERROR:  0A000: /, 'nor completes it');
settled($node);
is(status_of($table, 'both ways'), 'FAILED', 'which is not completed');

# A role with a user mapping of its own may be of another account, too.
sql("ALTER SERVER exactonce OPTIONS (ADD role_mappings 'true'); CREATE ROLE clerk; GRANT USAGE ON FOREIGN SERVER exactonce TO clerk;"
	  . " CREATE USER MAPPING FOR clerk SERVER exactonce OPTIONS (access_key_id 'TENANT', secret_access_key 'secret')");
like(run_script($node, "BEGIN;\nSELECT idem_start('roles');\nSELECT idem_complete('roles', '1');\nSET LOCAL ROLE clerk;\nSELECT outcome FROM idem_acquire('roles');\nCOMMIT;\n"),
	qr/^t\n\n(?s:.*)ERROR:  0A000: cannot use key "roles" on server "exactonce" by two roles in one transaction/,
	'nor does it for two roles of one server');
is(run_script($node, "BEGIN;\nSELECT token FROM idem_acquire('by token') \\gset\nSET LOCAL ROLE clerk;\nSELECT idem_complete('by token', '1', token => :'token');\nCOMMIT;\n"),
	"\n", 'but a token says which claim is meant');
settled($node);
is(status_of($table, 'by token'), 'COMPLETED', 'which is completed where it is');

# What an ended transaction has left is not settled by an answer of the other account.
fault(key => 'left', to => 'FAILED', do => 'expired', access_key => 'test', times => 0);
sql("BEGIN; SELECT idem_acquire('left'); ROLLBACK");
wait_until('a claim waits to be given back', sub { sql("SELECT state FROM exactonce_claims WHERE key = 'left'") ne '' });
is(outcome('left', ", server => 'tenant'"), 'acquired', 'meanwhile the key of the other account is had');
is(sql("SELECT count(*) FROM exactonce_claims WHERE key = 'left' AND server = 'exactonce'"), '1', 'the claim waits all the same');
two_accounts();
wait_until('and is given back', sub { status_of($table, 'left') eq 'FAILED' });

# A completion of the one that is not confirmed does not make a key of the other one a duplicate.
fault(key => 'unconfirmed', to => 'COMPLETED', do => 'expired', access_key => 'test', times => 0);
sql("SELECT idem_once('unconfirmed')");
wait_until('a completion is not confirmed', sub { sql("SELECT count(*) FROM exactonce_pending WHERE key = 'unconfirmed'") eq '1' });
like(run_script($node, "SELECT idem_once('unconfirmed', server => 'tenant');\n"), qr/ERROR:  ID001: key "unconfirmed" on server "tenant" is in progress/,
	'the other account is told to come back later');
is(sql("SELECT idem_resolve('unconfirmed', 'completed', server => 'tenant')"), 'f', 'an operator of the other account has nothing to resolve');
is(sql("SELECT count(*) FROM exactonce_pending WHERE key = 'unconfirmed'"), '1', 'and gives nothing up');
two_accounts();
settled($node);
is(run_script($node, "SELECT idem_once('unconfirmed', server => 'tenant');\n"), "\n", 'then it has its own');
settled($node);
is(status_of('tap_of_tenant', 'unconfirmed'), 'COMPLETED', 'which is completed');

# ----- items of tables of one name, in two accounts -------------------------------------------------

# So are the items that are written: those of the tenant are in a table of that name, too.
my $others = 'tap_attacks_others';
foreach my $name ('tap_of_tenant_items', $others)
{
	dynamodb(CreateTable => { TableName => $name, BillingMode => 'PAY_PER_REQUEST',
		AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ], KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
}
sql("CREATE ROLE owner; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO owner; ALTER SERVER tenant OWNER TO owner;"
	  . " ALTER SERVER exactonce OPTIONS (SET transact_tables '$business, $others')");

# So many items that each lock of their table is taken.
sub all_locks
{
	my ($name, $server) = @_;
	return join '', map { my $n = $_; "SELECT idem_once('locks $server $n', server => '$server', writes => (SELECT jsonb_agg(jsonb_build_object('Put',"
		  . " jsonb_build_object('TableName', '$name', 'Item', jsonb_build_object('id', 'lock ' || i)))) FROM generate_series(100 * $n, 100 * $n + 98) i));\n" } 1 .. 60;
}
my $putting_others = putting('mine', 'x') =~ s/$business/$others/r;
my %hold_up = (tenant => $business, exactonce => $others);
foreach my $server (sort keys %hold_up)
{
	my $greedy = start_script($node, "BEGIN;\n" . all_locks($hold_up{$server}, $server) . say_in_script("all locks $server") . halt_until("enough $server") . "ROLLBACK;\n");
	await_word("all locks $server");
	is(run_script($node, "SET lock_timeout = '200 ms';\nBEGIN;\n" . join('', map { "SELECT idem_once('free $server $_', writes => " . putting("free $_", 'x') . ");\n" } 1 .. 9) . "COMMIT;\n"),
		"\n" x 9, "a transaction that locks all items of $hold_up{$server} by server $server holds up nobody who writes to $business");
	like(run_script($node, "SET lock_timeout = '200 ms';\nSELECT idem_once('waits $server', server => '$server', writes => "
			  . ($server eq 'tenant' ? putting('mine', 'x') : $putting_others) . ");\n"), qr/ERROR:  55P03: /, 'but those who write where it does');
	go_on("enough $server");
	finish_script($greedy);
}
settled($node);

# What DynamoDB refuses in one account does not hold up the other one.
sub refuse_of_tenant
{
	two_accounts();
	fault(op => 'TransactWriteItems', key => 'refused', do => 'cancel', reasons => [ 'None', 'ValidationError' ], times => 0);
	return;
}
refuse_of_tenant();
sql("SELECT idem_once('refused', server => 'tenant', writes => " . putting('7', 'of tenant') . ')');
wait_until('a write is refused', sub { sql("SELECT trouble FROM exactonce_pending WHERE key = 'refused'") eq 'refused' });
sql("SELECT idem_once('not behind', writes => " . putting('7', 'ours') . ')');
is(sql("SELECT waits_for FROM exactonce_pending WHERE key = 'not behind'"), '', 'one to the item of that name in the other account waits for nothing');
wait_until('it is made', sub { value_of('7') eq 'ours' });

# A server that is given away keeps the order of what was handed in by it.
sql("ALTER SERVER tenant OWNER TO CURRENT_USER; SELECT idem_once('behind', server => 'tenant', writes => " . putting('7', 'later') . ')');
is(sql("SELECT waits_for FROM exactonce_pending WHERE key = 'behind'"), 'refused writes: refused',
	'a write waits for one of the same server, which another tenant had');
sql("SELECT idem_once('beside', writes => " . putting('8', 'ours') . ')');
wait_until('others do not', sub { value_of('8') eq 'ours' });
is(status_of('tap_of_tenant', 'behind'), 'COMMITTING', 'the later one is not made');
my $log = -s $node->logfile;
sql("SELECT idem_resolve('refused', 'completed', server => 'tenant')");
like(slurp_file($node->logfile, $log), qr/LOG:  exactonce: a write to table "$business" was given up by an operator: the item \{"id": "7"\}\n/,
	'the log has table and key of what is given up');
settled($node);
is(status_of('tap_of_tenant', 'behind'), 'COMPLETED', 'then it is made');

# A row that is mirrored to both is written to both.
two_accounts();
sql("ALTER SERVER tenant OWNER TO owner; CREATE TABLE twofold (id text PRIMARY KEY, value text);"
	  . join('', map { "CREATE TRIGGER to_$_ AFTER INSERT OR UPDATE OR DELETE ON twofold FOR EACH ROW EXECUTE FUNCTION idem_mirror('$business', 'id', 'server=$_');" } qw(exactonce tenant)));
sql("INSERT INTO twofold VALUES ('mirrored', 'yes')");
settled($node);
is(value_of('mirrored', $_), 'yes', "a row that is mirrored to both accounts is in $_") foreach $business, 'tap_of_tenant_items';

stop_without_crash($node);
done_testing();
