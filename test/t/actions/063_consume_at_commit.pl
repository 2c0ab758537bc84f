# Actions that a transaction consumes when it commits: at => 'commit'.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $table = 'tap_at_commit';
my $node = new_node('at_commit');
my $sql = sub { my ($text, $database) = @_; $node->safe_psql($database // 'postgres', $text) };
my $setup = 'CREATE TABLE orders (number text, coupon text)';
$sql->($setup);
# Another database is another service: it has a life of its own.
$sql->('CREATE DATABASE elsewhere');
$sql->('CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table) . "$setup; SELECT idem_once('begin')", 'elsewhere');

sub make
{
	my ($id, $more) = @_;
	$sql->("SELECT action_create('{\"percent\": 10}', id => '$id'" . ($more // '') . ")");
	return;
}

# An order with a coupon, and how it ends.
sub order
{
	my ($id, $end, %how) = @_;
	my $args = $how{args} // '';
	return run_script($node, "BEGIN;\nINSERT INTO orders VALUES ('order', '$id');\n"
		  . "SELECT 'coupon ' || outcome || ' ' || COALESCE(payload->>'percent', '') FROM action_consume('$id', at => 'commit'$args);\n"
		  . ($how{then} // '') . "$end;\n", $how{database});
}

sub outcome
{
	my ($call, $database) = @_;
	return $sql->("SELECT outcome || ' ' || http_status FROM $call", $database);
}

sub state_of { my ($id, $database) = @_; return $sql->("SELECT state FROM action_get('$id')", $database) }
sub used { my ($id) = @_; return item($table, "ACTION#$id")->{consumedAt} ? 'used' : 'not used' }
sub orders { my ($id, $database) = @_; return $sql->("SELECT count(*) FROM orders WHERE coupon = '$id'", $database) }

# ----- the outcome follows the transaction -----------------------------------------------

make('used');
my $ttl = item($table, 'ACTION#used')->{ttl};
like(order('used', 'COMMIT', args => ", reason => 'order 1', consumer => '{\"a\": 1}'"), qr/^coupon consumed 10$/m, 'the payload is read at once');
is(state_of('used'), 'consumed', 'this database knows at once that it was consumed');
is(outcome("action_consume('used')"), 'already_used 409', '... and says so');
settled($node);
my $item = item($table, 'ACTION#used');
is("$item->{consumedReason} $item->{consumedBy}", 'order 1 {"a": 1}', 'the item says by what');
# Its ttl comes as much later as the finish came after the seal.
ok($item->{ttl} >= $ttl && $item->{ttl} < $ttl + 3600, '... and is kept as long');
is(join(' ', grep { exists $item->{$_} } qw(status sealedAt sealedTtl sealedLeft bind)), '', '... and nothing is left of the seal');

make('back');
like(order('back', 'ROLLBACK'), qr/^coupon consumed 10$/m, 'a transaction that is rolled back');
is(state_of('back'), 'active', '... does not consume the action');
like(order('back', 'COMMIT'), qr/^coupon consumed 10$/m, '... which another one can');
settled($node);
is(used('back'), 'used', '... and does');

make('savepoint');
like(order('savepoint', 'COMMIT', then => "SAVEPOINT s;\nSELECT 'second ' || outcome || ' ' || http_status FROM action_consume('savepoint', at => 'commit');\nROLLBACK TO s;\n"),
	qr/^second in_progress 409$/m, 'a second consume of one transaction, with another token');
settled($node);
is(used('savepoint'), 'used', '... and the first one counts');
make('undone');
run_script($node, "BEGIN; SAVEPOINT s; SELECT action_consume('undone', at => 'commit'); ROLLBACK TO s; COMMIT;");
settled($node);
is(used('undone'), 'not used', 'a rollback to a savepoint undoes it');

make('token');
my $token = '00000000-0000-4000-8000-000000000001';
my $again = "SELECT 'again ' || outcome || ' ' || replayed || ' ' || (payload->>'percent') FROM action_consume('token', token => '$token'";
like(order('token', 'COMMIT', args => ", token => '$token'", then => "$again);\n$again, at => 'commit');\n"),
	qr/^again consumed true 10\nagain consumed true 10$/m, 'the same token in the same transaction: the same answer');
is($sql->("SELECT outcome || ' ' || replayed FROM action_consume('token', at => 'commit', token => '$token')"), 'consumed true',
	'... and after it');

# The answer to the COMMIT is lost, and the client repeats its transaction.
make('repeated');
my $repeated = "BEGIN;\nINSERT INTO orders SELECT 'work', 'repeated' FROM action_consume('repeated', at => 'commit', token => '$token') "
  . "WHERE outcome = 'consumed' AND NOT replayed;\nCOMMIT;\n";
run_script($node, $repeated) foreach 1 .. 2;
settled($node);
run_script($node, $repeated);
is(orders('repeated'), '1', 'a transaction that is repeated with its token, and asks for replayed, does its work once');

# A snapshot that does not show the work gets no answer that says it was done.
make($_) foreach 'unseen', 'unseen, not finished', 'at once';
foreach my $id ('unseen', 'unseen, not finished', 'at once')
{
	my $run = start_script($node, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT count(*) FROM orders;\n"
		  . say_in_script("snapshot of $id") . halt_until("work of $id")
		  . "SELECT 'seen ' || outcome || ' ' || replayed FROM action_consume('$id', at => 'commit', token => '$token');\nROLLBACK;\n");
	await_word("snapshot of $id");
	fault(key => "ACTION#$id", to => 'finished', do => 'drop', times => 0) if $id =~ /not finished/;
	$id eq 'at once' ? $sql->("SELECT action_consume('$id', token => '$token')") : order($id, 'COMMIT', args => ", token => '$token'");
	settled($node) unless $id =~ /not finished/;
	go_on("work of $id");
	my $said = finish_script($run);
	$id eq 'at once'
	  ? like($said, qr/^seen consumed true$/m, "$id: what was consumed outside of a transaction is told to everybody")
	  : like($said, qr/ERROR:  40001: could not serialize access: action "$id"/, "$id: a repetition that cannot see the work is refused");
	is($sql->("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT outcome || ' ' || replayed FROM action_consume('$id', at => 'commit', token => '$token')"),
		'consumed true', '... and a later snapshot gets the answer');
	reset_proxy();
	settled($node);
}

# ----- a PIN -----------------------------------------------------------------------------

make('pin', ", pin => '4711'");
like(order('pin', 'COMMIT', args => ", pin => '1'"), qr/^coupon invalid_pin $/m, 'a wrong PIN');
is(order('pin', 'ROLLBACK', args => ", pin => '4711'"), "coupon consumed 10\n", 'a right one is paid for');
is($sql->("SELECT state || ' ' || attempts_left FROM action_get('pin')"), 'active 1', '... whatever becomes of the transaction');
is(order('pin', 'COMMIT'), "coupon invalid_pin \n", 'without a PIN none is paid for');
is(order('pin', 'COMMIT', args => ", pin => '4711'"), "coupon consumed 10\n", 'the last attempt, if it was right');
settled($node);
is(used('pin'), 'used', '... consumes the action');

# The last attempt is right, and its consume meets the seal of a transaction that fails.
make('last', ", pin => '4711'");
$sql->("SELECT action_consume('last', '1')");
$sql->('CREATE TABLE skew (n text)');
my $skewed = "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT count(*) FROM skew;\nINSERT INTO skew VALUES ('%s');\n";
my $failing = start_script($node, sprintf($skewed, 'one') . "SELECT action_consume('last', '4711', at => 'commit');\n"
	  . say_in_script('paid') . halt_until('pay all') . "COMMIT;\n");
await_word('paid');
fault(key => 'ACTION#last', to => 'consumed', do => 'hold');
my $last = start_script($node, "SELECT 'last ' || outcome FROM action_consume('last', '4711', token => '$token');\n");
await_request(key => 'ACTION#last', to => 'consumed');
is(item($table, 'ACTION#last')->{pinAttempts}, 0, 'the last attempt is paid for');
run_script($node, sprintf($skewed, 'two') . "COMMIT;\n");
# The worker takes the seal back once that session has done so.
fault(key => 'ACTION#last', op => 'UpdateItem', do => 'after', nth => 2, after => { key => 'ACTION#last', op => 'UpdateItem' });
go_on('pay all');
like(finish_script($failing), qr/40001/, '... a transaction has sealed the action, and fails');
is(item($table, 'ACTION#last')->{status}, 'COMMITTING', '... and its seal is there');
release_held();
is(finish_script($last), "last consumed\n", '... and the one that has paid consumes the action');
$item = item($table, 'ACTION#last');
is(scalar @{ $item->{pinTokens} }, 3, '... by that attempt');
ok(!exists $item->{closedAt}, '... and it was not closed');
reset_proxy();

# ----- what else can be known at the call --------------------------------------------------

make('later', ", active_at => now() + interval '1 day'");
make('over', ", expires_at => now() + interval '1 day', active_at => now() - interval '1 day'");
$sql->("SELECT action_cancel('over')");
is(outcome("action_consume('later', at => 'commit')"), 'not_active 409', 'not active yet');
is(outcome("action_consume('over', at => 'commit')"), 'canceled 410', 'canceled');
is(outcome("action_consume('nothing', at => 'commit')"), 'action_not_found 404', 'not there');
is(outcome("action_consume('used', at => 'commit')"), 'already_used 409', 'used already');
like(run_script($node, "SELECT action_consume('later', at => 'soon');"), qr/22023.*invalid at/, 'a word that is none');
like(run_script($node, "BEGIN READ ONLY; SELECT action_consume('later', at => 'commit');"), qr/25006/, 'a read-only transaction');

# ----- while it is being committed -----------------------------------------------------------

make('sealed');
fault(key => 'ACTION#sealed', to => 'finished', do => 'drop', times => 0);
order('sealed', 'COMMIT');
is(item($table, 'ACTION#sealed')->{status}, 'COMMITTING', 'the action is sealed');
cmp_ok(item($table, 'ACTION#sealed')->{ttl}, '>', time() + 20 * 365 * 86400, '... and is never swept');
my $origin = item($table, 'ACTION#sealed')->{origin};
is(state_of('sealed', 'elsewhere'), 'committing', 'another service sees that it is being committed');
is(outcome("action_consume('sealed')", 'elsewhere'), 'in_progress 409', '... cannot consume it');
is(outcome("action_consume('sealed', at => 'commit')", 'elsewhere'), 'in_progress 409', '... at commit neither');
is(outcome("action_cancel('sealed')", 'elsewhere'), 'in_progress 409', '... nor cancel it');
is(outcome("action_cancel('sealed')"), 'already_used 409', 'this database knows that it was consumed');
is($sql->("SELECT key FROM exactonce_pending"), 'ACTION#sealed', '... and that this is to be told');
is($sql->("SELECT string_agg(id, ' ') FROM action_list('committing')"), 'sealed', '... and lists it');
like(run_script($node, "SELECT action_resolve('sealed', 'failed');"), qr/55000.*that has committed\nHINT:  The worker is about to say so in DynamoDB[.]$/m,
	'... and is not told otherwise by an operator');
reset_proxy();
settled($node);
is(used('sealed'), 'used', 'it is finished');

make('planned');
my $run = start_script($node, "BEGIN;\nSELECT action_consume('planned', at => 'commit');\n" . say_in_script('planned') . halt_until('end planned') . "COMMIT;\n");
await_word('planned');
is(outcome("action_consume('planned', at => 'commit')"), 'in_progress 409', 'another transaction of the cluster is told at the call');
is(outcome("action_cancel('planned')", 'elsewhere'), 'canceled 200', 'before the seal another service may cancel it');
go_on('end planned');
like(finish_script($run), qr/ID002.*action "planned" .*cannot be consumed any more/, '... and the commit fails');

make('first');
$run = start_script($node, "BEGIN;\nINSERT INTO orders VALUES ('1', 'first');\nSELECT action_consume('first', at => 'commit');\n" . say_in_script('first') . halt_until('end first') . "COMMIT;\n");
await_word('first');
is(outcome("action_consume('first')", 'elsewhere'), 'consumed 200', '... or consume it');
go_on('end first');
like(finish_script($run), qr/ID005.*action "first" .*was consumed by another call/, '... and the commit fails');
is(orders('first'), '0', '... with its work');

# Both have read that it is active before either has planned to consume it.
make('both');
fault(op => 'GetItem', key => 'ACTION#both', do => 'hold');
my $second = start_script($node, "BEGIN;\nSELECT action_consume('both', at => 'commit');\nCOMMIT;\n");
await_request(op => 'GetItem', key => 'ACTION#both');
$run = start_script($node, "BEGIN;\nSELECT action_consume('both', at => 'commit');\n" . say_in_script('both') . halt_until('end both') . "COMMIT;\n");
await_word('both');
release_held();
wait_until('a second transaction that plans to consume it waits', sub {
	$sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%action_consume%'") eq '1' });
go_on('end both');
unlike(finish_script($run), qr/ERROR/, '... while the first one commits');
like(finish_script($second), qr/ID005: action "both" on server "exactonce" was consumed by another call\nDETAIL:  .* has committed[.]\nHINT:  action_get/,
	'... and fails');

make('theirs');
$run = start_script($node, "BEGIN;\nSELECT action_consume('theirs', at => 'commit');\n" . say_in_script('theirs') . halt_until('end theirs') . "COMMIT;\n");
await_word('theirs');
# A service of another cluster does.
(my $other = $origin) =~ s/^[0-9a-f]{8}/00000000/;
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'ACTION#theirs' } },
	UpdateExpression => 'SET #s = :s, #o = :o, origin = :g, sealedAt = :n', ExpressionAttributeNames => { '#s' => 'status', '#o' => 'owner' },
	ExpressionAttributeValues => { ':s' => { S => 'COMMITTING' }, ':o' => { S => $token }, ':g' => { S => $other }, ':n' => { N => '1800000000000' } } });
go_on('end theirs');
like(finish_script($run), qr/ID001.*action "theirs" .*is being consumed by another transaction/, '... or seal it');
is(item($table, 'ACTION#theirs')->{owner}, $token, '... which is left alone');

# ----- the other service is gone for good -----------------------------------------------------

# Seals an action for the database of another cluster, of which nothing is left.
sub seal_elsewhere
{
	my ($id) = @_;
	make($id);
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "ACTION#$id" } },
		UpdateExpression => 'SET #s = :s, #o = :o, #b = :b, origin = :g, sealedAt = :n, sealedTtl = #l, #l = :l',
		ExpressionAttributeNames => { '#s' => 'status', '#o' => 'owner', '#b' => 'bind', '#l' => 'ttl' },
		ExpressionAttributeValues => { ':s' => { S => 'COMMITTING' }, ':o' => { S => $token }, ':b' => { S => 'tx' }, ':g' => { S => $other },
			':n' => { N => '1800000000000' }, ':l' => { N => '4000000000' } } });
	return;
}
my ($life) = split m{/}, $other;
seal_elsewhere($_) foreach 'gone, done', 'gone, not done';
is(outcome("action_consume('gone, done')"), 'in_progress 409', 'sealed by a server that is gone: the action is in progress');
my $resolve = sub { my ($id, $status, $more) = @_; return run_script($node, "SELECT 'resolved ' || action_resolve('$id', '$status'" . ($more // '') . ");") };
like($resolve->('gone, done', 'completed'), qr/55000.*"ACTION#gone, done" .*is being committed under another life\nDETAIL: .*"$life"[.]\nHINT: .*origin => '$life'/,
	'action_resolve() says which life it is, and that it must be named');
like($resolve->('gone, done', 'failed', ", origin => '11111111-2222-4333-8444-555555555555'"), qr/55000/, '... another one does not do');
is($resolve->('gone, done', 'completed', ", origin => '$life'"), "resolved true\n", 'the operator says that its work was done');
is(used('gone, done') . ' ' . outcome("action_consume('gone, done')", 'elsewhere'), 'used already_used 409', '... and it is consumed');
is($resolve->('gone, not done', 'failed', ", origin => '$life'"), "resolved true\n", 'the operator says that it was not');
is(state_of('gone, not done'), 'active', '... and the action is as it was');
$item = item($table, 'ACTION#gone, not done');
cmp_ok($item->{ttl}, '<', 4000000000, '... with its ttl');
is(outcome("action_consume('gone, not done')"), 'consumed 200', '... and can be consumed');
is($resolve->($_, 'failed', ", origin => '$life'"), "resolved false\n", "nothing to settle: $_") foreach 'gone, done', 'nothing';

# ----- faults ---------------------------------------------------------------------------------

make('lost answer');
fault(key => 'ACTION#lost answer', to => 'COMMITTING', do => 'lose');
unlike(order('lost answer', 'COMMIT'), qr/ERROR/, 'the answer to the seal is lost');
settled($node);
is(used('lost answer') . ' ' . orders('lost answer'), 'used 1', '... and the action consumed');

make('no answer');
fault(key => 'ACTION#no answer', to => 'COMMITTING', do => 'lose', times => 0);
$sql->(timeouts_sql('exactonce', commit_timeout => '1s'));
like(order('no answer', 'COMMIT'), qr/ID006/, 'no seal is answered');
$sql->(timeouts_sql('exactonce', commit_timeout => undef));
reset_proxy();
wait_until('... and the action is given back', sub { !exists item($table, 'ACTION#no answer')->{status} });
$item = item($table, 'ACTION#no answer');
is(join(' ', grep { exists $item->{$_} } qw(consumedAt consumedToken sealedAt bind)), '', '... as it was');
ok($item->{ttl} > time(), '... with its ttl');
like(order('no answer', 'COMMIT'), qr/^coupon consumed 10$/m, '... and can be consumed');
is(orders('no answer'), '1', '... by one order');

make('late');
fault(key => 'ACTION#late', to => 'COMMITTING', do => 'hold');
$sql->(timeouts_sql('exactonce', commit_timeout => '500ms') . "ALTER SERVER exactonce OPTIONS (ADD max_attempts '1')");
like(order('late', 'COMMIT'), qr/ID006/, 'a seal arrives when its transaction is over');
$sql->(timeouts_sql('exactonce', commit_timeout => undef) . 'ALTER SERVER exactonce OPTIONS (DROP max_attempts)');
wait_until('... and the worker has left its token', sub { exists item($table, 'ACTION#late')->{owner} });
release_held();
wait_until('... and is refused', sub { grep { ($_->{status} // 0) == 400 } requests(key => 'ACTION#late', to => 'COMMITTING') });
is(item($table, 'ACTION#late')->{status}, undef, '... and the action is free');
reset_proxy();

make('after the seal');
$sql->("CREATE TABLE unique_at_end (n int, CONSTRAINT u EXCLUDE (n WITH =) DEFERRABLE INITIALLY DEFERRED); INSERT INTO unique_at_end VALUES (1)");
# A serialization failure comes after the seal.
my $pair = "BEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT count(*) FROM orders;\nINSERT INTO orders VALUES ('%s', 'skew');\n";
$run = start_script($node, sprintf($pair, 'one') . "SELECT action_consume('after the seal', at => 'commit');\n" . say_in_script('skew') . halt_until('skewed') . "COMMIT;\n");
await_word('skew');
run_script($node, sprintf($pair, 'two') . "COMMIT;\n");
go_on('skewed');
like(finish_script($run), qr/40001/, 'a transaction that fails after its seal');
wait_until('... gives the action back', sub { !exists item($table, 'ACTION#after the seal')->{status} });
is(state_of('after the seal'), 'active', '... and it can be consumed');

make('lost finish');
fault(key => 'ACTION#lost finish', to => 'finished', do => 'lose');
order('lost finish', 'COMMIT');
settled($node);
is(used('lost finish'), 'used', 'the answer to the finish is lost');

# ----- the item is gone before its finish --------------------------------------------------------

# Commits an order whose finish is denied, and removes the item; returns the id of its row.
sub lose_item
{
	my ($id) = @_;
	make($id);
	fault(key => "ACTION#$id", to => 'finished', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
	order($id, 'COMMIT');
	dynamodb(DeleteItem => { TableName => $table, Key => { pk => { S => "ACTION#$id" } } });
	return $sql->("SELECT id FROM exactonce_pending WHERE key = 'ACTION#$id'");
}

sub give_up { my ($pending) = @_; return run_script($node, "SELECT 'gives up ' || idem_give_up('$pending');") }

my $pending = lose_item('WELCOME-1');
is($sql->("SELECT finding, key, pending FROM idem_audit()"), "no record|ACTION#WELCOME-1|$pending", 'idem_audit() names the action as exactonce_pending does');
fault(op => 'GetItem', key => 'ACTION#WELCOME-1', do => 'answer', status => 400, code => 'AccessDeniedException');
like(run_script($node, 'SELECT idem_audit();'), qr/ID007: could not read key "ACTION#WELCOME-1" on/, '... and so does its error');
like(give_up($pending), qr/^gives up true$/m, 'its completion is given up');
reset_proxy();
is($sql->('SELECT count(*) FROM idem_audit()'), '0', '... and there is no finding');

# Somebody makes the action again.  By another address of the table the row says nothing certain.
$pending = lose_item('again');
make('again');
$sql->(server_sql('around', endpoint => relay(), table => $table));
like(order('again', 'COMMIT', args => ", server => 'around'"), qr/ID001: action "again" on server "around" is being consumed .*\nDETAIL:  .* not confirmed yet: it has the id $pending[.]\nHINT:  Wait /,
	'a consume by another address waits for the row of the first one');
fault(op => 'GetItem', key => 'ACTION#again', do => 'answer', status => 400, code => 'ResourceNotFoundException');
like(give_up($pending), qr/^gives up true\n(?s:.*)COMMITTING, others wait for it: end that with action_resolve\(id, 'completed'\)[.]/,
	'the completion is given up, and it is not known what the item says');
my $resolved = qr/HINT:  An operator has given its confirmation up; action_resolve\(id, 'completed'\)/;
like(order('again', 'COMMIT'), qr/ID005: action "again" .*was consumed by another call\nDETAIL:  .* has committed[.]\n$resolved/, 'so it stays as evidence');
like(order('again', 'COMMIT', args => ", server => 'around'"), qr/ID005: action "again" .*was consumed by another call\nDETAIL:  .*\n$resolved/,
	'... also by the other address');
is($resolve->('again', 'completed'), "resolved true\n", '... until an operator does as the hint says');
reset_proxy();
like(order('again', 'COMMIT'), qr/^coupon consumed 10$/m, 'then the action can be consumed');
settled($node);
is(used('again') . ' ' . orders('again'), 'used 2', '... and is');
$sql->('DROP SERVER around CASCADE');

# ----- the ttl, and a seal that was undone ---------------------------------------------

# The finish comes when the action was to be deleted.
make('late finish');
fault(key => 'ACTION#late finish', to => 'finished', do => 'hold');
order('late finish', 'COMMIT');
await_request(key => 'ACTION#late finish', to => 'finished');
# As if it had been sealed two years ago, when it had 1000 seconds to go.
my $ago = int(time()) - 2 * 365 * 86400;
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'ACTION#late finish' } },
	UpdateExpression => 'SET sealedTtl = :l, sealedLeft = :n', ExpressionAttributeValues => { ':l' => { N => $ago + 1000 }, ':n' => { N => '1000' } } });
release_held();
settled($node);
is(used('late finish'), 'used', 'an action is finished when its ttl is long past');
my $left = item($table, 'ACTION#late finish')->{ttl} - time();
ok($left > 0 && $left < 1100, '... and is kept for as long as it would have been');
reset_proxy();

# Somebody else undoes the seal of a transaction that has committed, and the action is consumed again.
make('twice');
fault(key => 'ACTION#twice', to => 'finished', do => 'drop', times => 0);
order('twice', 'COMMIT');
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'ACTION#twice' } },
	UpdateExpression => 'SET #l = sealedTtl REMOVE #s, #b, sealedAt, sealedTtl, sealedLeft, consumedToken',
	ExpressionAttributeNames => { '#s' => 'status', '#b' => 'bind', '#l' => 'ttl' } });
is(outcome("action_consume('twice')", 'elsewhere'), 'consumed 200', 'a seal was undone, although its transaction had committed');
ok(!exists item($table, 'ACTION#twice')->{owner}, '... and nothing of it is left');
reset_proxy();
wait_until('... and the worker finds that it cannot finish the action',
	sub { $sql->("SELECT count(*) FROM exactonce_pending WHERE key = 'ACTION#twice' AND trouble = 'refused'") eq '1' });
is($sql->("SELECT finding || ' ' || key FROM idem_audit() WHERE finding = 'settled twice'"), 'settled twice ACTION#twice', '... which the audit reports');
is($sql->("SELECT idem_give_up(pending) FROM idem_audit() WHERE finding = 'settled twice'"), 't', '... and an operator ends');

# Everything is killed at a point of the commit.
sub kill_at
{
	my ($id, %at) = @_;
	make($id);
	my @pids = processes_of($node);
	fault(key => "ACTION#$id", do => 'kill', pid => [ map { $_ + 0 } @pids ], %at);
	order($id, 'COMMIT');
	my $data = $node->data_dir;
	my @left = map { m{^/proc/(\d+)} } grep { (readlink("$_/cwd") // '') eq $data } glob '/proc/[0-9]*';
	kill 'KILL', @left;
	await_end($node, @pids, @left);
	reset_proxy();
	$node->start;
	wait_until("$id: settled without a caller", sub { !exists item($table, "ACTION#$id")->{status} });
	is(used($id), orders($id) ? 'used' : 'not used', "$id: it is used if and only if the order is there");
	# Before the commit the backend may outlive the others for long enough to go on.
	is(orders($id), '1', "$id: the order had been committed") if $at{to} eq 'finished';
	return;
}
kill_at('killed before the seal', to => 'COMMITTING');
kill_at('killed in the seal', to => 'COMMITTING', applied => 1);
kill_at('killed before the finish', to => 'finished');
kill_at('killed in the finish', to => 'finished', applied => 1);

# ----- 200 orders for 50 coupons ---------------------------------------------------------------

my @databases = ('postgres', 'elsewhere');
# A rollback gives no attempt at a PIN back, so there are many.
$sql->("ALTER SERVER exactonce OPTIONS (ADD pin_attempts '20')");
$sql->("SELECT action_create('{\"percent\": 10}', id => 'race-' || i, pin => CASE WHEN i % 10 = 0 THEN '1' END) FROM generate_series(1, 50) i");
$sql->(<<'SQL', $_) foreach @databases;
CREATE FUNCTION take_coupon(number text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c text;
	r action_result;
BEGIN
	-- the PIN is right, so that what is told depends on the others only
	FOR c IN SELECT 'race-' || i FROM generate_series(1, 50) i ORDER BY random() LOOP
		CONTINUE WHEN (SELECT state <> 'active' FROM action_get(c));
		r := action_consume(c, '1', at => 'commit');
		IF r.outcome = 'consumed' THEN
			INSERT INTO orders VALUES (number, c);
			RETURN c;
		END IF;
	END LOOP;
	RETURN NULL;
END $$;
SQL

# Each worker makes 25 orders, of which every second one is rolled back.
fault(key => 'ACTION#race', to => 'COMMITTING', do => 'lose', nth => 3, times => 5);
fault(key => 'ACTION#race', to => 'finished', do => 'lose', nth => 4, times => 5);
my @workers = map {
	my $n = $_;
	start_script($node, join('', map { "BEGIN;\nSELECT take_coupon('$n-$_');\n" . ($_ % 2 ? "COMMIT;\n" : "ROLLBACK;\n") } 1 .. 25), $databases[ $n % 2 ]);
} 1 .. 8;
my $said = join '', map { finish_script($_) } @workers;
my %errors;
$errors{$_}++ foreach $said =~ /ERROR:  (\w+)/g;
note('refused at COMMIT: ' . join ', ', map { "$_ $errors{$_}" } sort keys %errors);
is(join(' ', grep { !/^ID00[125]$/ } sort keys %errors), '', 'the commits of the race failed for no other reason than that another order was first');
reset_proxy();
my $coupons = sub { my $records = records($table); grep { /^ACTION#race-/ && $records->{$_}{consumedAt} } keys %$records };
note(scalar($coupons->()) . ' coupons were used in the race');
# What is left of them goes to orders that come later.
foreach (1 .. 100)
{
	settled($node, $_) foreach @databases;
	last if $coupons->() == 50;
	$sql->("SELECT take_coupon('late')");
}
my $used = join ' ', sort map { s/ACTION#//r } $coupons->();
my $ordered = join ' ', sort map { split /\n/, $sql->("SELECT coupon FROM orders WHERE coupon LIKE 'race-%'", $_) } @databases;
is(scalar(split ' ', $used), 50, 'all 50 coupons are used');
is($ordered, $used, '... each by one order that has committed');
is($sql->("SELECT count(*) FROM action_list('burned')"), '0', '... and none is burned');

stop_without_crash($node, kills => 1);
done_testing();
