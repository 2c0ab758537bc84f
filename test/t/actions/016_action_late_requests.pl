# Requests of actions that arrive late: whatever happened meanwhile, an action is
# consumed once, and everybody is told the truth about it.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Actions;
use Test::More;

my $table = 'tap_action_late_requests';
my $node = new_node('action_late_requests', options => { request_timeout => '60s' });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# the same table, with one attempt at each PIN
$sql->(server_sql('strict', table => $table, pin_attempts => 1, request_timeout => '60s'));

sub consume
{
	my ($id) = @_;
	return "SELECT outcome, replayed, payload FROM action_consume('$id', token => md5('$id')::uuid);\n";
}

sub guess_right
{
	my ($id) = @_;
	return "SELECT outcome, payload FROM action_consume('$id', '0042', token => md5('$id')::uuid);\n";
}

sub outcome_of_cancel
{
	my ($id) = @_;
	return $sql->("SELECT outcome FROM action_cancel('$id')");
}

sub state_of
{
	my ($id) = @_;
	return $sql->("SELECT state FROM action_get('$id')");
}

# The action ended so; see how_it_ended().
sub ended
{
	my ($id, $how, $what) = @_;
	return is(how_it_ended(action($table, $id)), $how, $what);
}

# ----- the caller has gone ----------------------------------------------------

create_actions($node, [qw(late1 late2 late3)]);

my $what = 'a consume that arrives after a cancel';
my $run = hold_request($node, 'consumed', 'late1', consume('late1'));
cancel_held($node, $run, $what);
is($sql->("SELECT outcome, replayed FROM action_cancel('late1', 'never mind')"), 'canceled|f',
	"$what: the action is canceled meanwhile");
let_go($run, "$what: it is refused", 400);
ended('late1', 'canceled||0', "$what: it changes nothing");
is($sql->("SELECT state, reason FROM action_get('late1')"), 'canceled|never mind', "$what: the action is canceled");
is($sql->(consume('late1')), 'canceled|f|', "$what: its caller is told so");

$what = 'a consume that arrives before a cancel';
$run = hold_request($node, 'consumed', 'late2', consume('late2'));
cancel_held($node, $run, $what);
let_go($run, "$what: it is applied", 200);
is($sql->("SELECT outcome, consumed_at IS NOT NULL FROM action_cancel('late2')"), 'already_used|t',
	"$what: the cancel is told that the action is used");
ended('late2', 'consumed||0', "$what: nothing is canceled");
is($sql->(consume('late2')), 'consumed|t|{"n": 1}', "$what: its caller gets the payload by asking again");

$what = 'a cancel that arrives after a consume';
$run = hold_request($node, 'canceled', 'late3', "SELECT outcome FROM action_cancel('late3');\n");
cancel_held($node, $run, $what);
is($sql->(consume('late3')), 'consumed|f|{"n": 1}', "$what: the action is consumed meanwhile");
let_go($run, "$what: it is refused", 400);
ended('late3', 'consumed||0', "$what: it changes nothing");

$what = 'a create that arrives after another';
$run = hold_request($node, 'created', 'late4', "SELECT outcome FROM action_create('{\"by\": 1}', id => 'late4');\n");
cancel_held($node, $run, $what);
is($sql->("SELECT outcome FROM action_create('{\"by\": 2}', id => 'late4')"), 'created',
	"$what: the action is made meanwhile");
is($sql->(consume('late4')), 'consumed|f|{"by": 2}', "$what: the action is used meanwhile");
let_go($run, "$what: it is refused", 400);
is($sql->(consume('late4')), 'consumed|t|{"by": 2}', "$what: it makes no second action");

# ----- the caller has sent a second copy --------------------------------------

$sql->(timeouts_sql('exactonce', request_timeout => '600ms'));
create_actions($node, [qw(copy1 copy3)]);
create_actions($node, ['copy2'], pin => '0042');
foreach my $case (
	[ 'created', 'copy0', "SELECT outcome FROM action_create(id => 'copy0');", 'created', '||0' ],
	[ 'consumed', 'copy1', consume('copy1'), 'consumed|f|{"n": 1}', 'consumed||0' ],
	[ 'attempt', 'copy2', "SELECT outcome, attempts_left FROM action_consume('copy2', '1');", 'invalid_pin|2', '|2|1' ],
	[ 'canceled', 'copy3', "SELECT outcome, replayed FROM action_cancel('copy3');", 'canceled|f', 'canceled||0' ])
{
	my ($to, $id, $statement, $answer, $end) = @$case;
	$run = hold_request($node, $to, $id, $statement);
	is(finish_script($run), "$answer\n", "first copy late, $to: the second copy is answered");
	my $before = action($table, $id);
	let_go($run, "first copy late, $to: it is refused", 400);
	is_deeply(action($table, $id), $before, "first copy late, $to: it changes nothing");
	ended($id, $end, "first copy late, $to: all is done once");
}
$sql->(timeouts_sql('exactonce', request_timeout => '60s'));

# ----- the last attempt -------------------------------------------------------

# It is taken, with the right PIN, and the consume that follows is held.
create_actions($node, [qw(last1 last2 last3 last4 last5 last6)], pin => '0042', server => 'strict');

$what = 'a cancel after the last attempt';
$run = hold_request($node, 'consumed', 'last1', guess_right('last1'));
ended('last1', '|0|1', "$what: the attempt is taken");
is($sql->("SELECT state, attempts_left FROM action_get('last1')"), 'burned|0', "$what: others see no attempt left");
is(outcome_of_cancel('last1'), 'burned', "$what: the cancel is told that the action is burned");
let_go($run, "$what: the consume is refused", 400);
is(finish_script($run), "burned|\n", "$what: the consume is told that the action is burned");
is(state_of('last1'), 'burned', "$what: the action stays burned");
ended('last1', 'closed|0|1', "$what: the record is closed");
is($sql->(guess_right('last1')), 'burned|', "$what: the same consume again is told that the action is burned");

$what = 'another guess after the last attempt';
$run = hold_request($node, 'consumed', 'last2', guess_right('last2'));
is($sql->("SELECT outcome FROM action_consume('last2', '0042')"), 'burned', "$what: it finds no attempt");
let_go($run, "$what: the consume that paid is applied", 200);
is(finish_script($run), qq(consumed|{"n": 1}\n), "$what: the consume that paid gets the payload");
is(outcome_of_cancel('last2'), 'already_used', "$what: a cancel is told that the action is used");
is(state_of('last2'), 'consumed', "$what: everybody sees that the action is used");

$what = 'a consume between the two requests of a cancel';
$run = hold_request($node, 'consumed', 'last3', guess_right('last3'));
fault(do => 'after', key => 'last3', to => 'closed', after => { key => 'last3', to => 'consumed' });
my $canceler = start_script($node, "SELECT outcome FROM action_cancel('last3');");
await_request(key => 'last3', to => 'closed');
let_go($run, "$what: it is applied", 200);
is(finish_script($run), qq(consumed|{"n": 1}\n), "$what: it gets the payload");
is(finish_script($canceler), "already_used\n", "$what: the cancel is told that the action is used");
ended('last3', 'consumed|0|1', "$what: the record has nothing else");

$what = 'a consume that arrives after its caller has asked again';
$run = hold_request($node, 'consumed', 'last4', guess_right('last4'));
cancel_held($node, $run, $what);
is($sql->(guess_right('last4')), 'burned|', "$what: the caller is told that the action is burned");
let_go($run, "$what: it is refused", 400);
ended('last4', 'closed|0|1', "$what: what the caller was told stays true");

$what = 'a consume that arrives while its caller asks again';
$run = hold_request($node, 'consumed', 'last5', guess_right('last5'));
cancel_held($node, $run, $what);
fault(do => 'after', key => 'last5', to => 'closed', after => { key => 'last5', to => 'consumed' });
my $again = start_script($node, guess_right('last5'));
await_request(key => 'last5', to => 'closed');
let_go($run, "$what: it is applied", 200);
is(finish_script($again), qq(consumed|{"n": 1}\n), "$what: the caller gets the payload");
ended('last5', 'consumed|0|1', "$what: it was consumed by the first attempt");

$what = 'a second click while the first has the last attempt';
$run = hold_request($node, 'consumed', 'last6', guess_right('last6'));
$again = start_script($node, guess_right('last6'));
await_request(to => 'attempt', key => 'last6', n => 3);
let_go($run, "$what: the second waits for the first", 200);
is(finish_script($run), qq(consumed|{"n": 1}\n), "$what: the first gets the payload");
is(finish_script($again), qq(consumed|{"n": 1}\n), "$what: the second gets the same answer");
ended('last6', 'consumed|0|1', "$what: one attempt was taken");

$what = 'a cancel while a right PIN is verified';
create_actions($node, ['verified'], pin => '0042');
$run = hold_request($node, 'consumed', 'verified', guess_right('verified'));
is(outcome_of_cancel('verified'), 'canceled', "$what: the action is canceled");
let_go($run, "$what: the consume is refused", 400);
is(finish_script($run), "canceled|\n", "$what: the consume is told that the action is canceled");
ended('verified', 'canceled|2|1', "$what: nothing is consumed, and an attempt is lost");

# ----- the action expires -----------------------------------------------------

# A consume has left in time, and is held until the action has expired.
create_actions($node, [qw(expiring1 expiring2)], expires_at => from_now($node, paced(3)));
my ($in_time, $too_late) = map { hold_request($node, 'consumed', $_, consume($_)) } 'expiring1', 'expiring2';
await_expiry($node, $_) foreach 'expiring1', 'expiring2';

$what = 'a cancel while a consume that left in time is on its way';
is(outcome_of_cancel('expiring2'), 'expired', "$what: it is told that the action has expired");
let_go($too_late, "$what: the consume is refused", 400);
is(finish_script($too_late), "expired|f|\n", "$what: the consume is told that the action has expired");
ended('expiring2', 'closed||0', "$what: nothing is consumed");
$what = 'a consume that left in time';
is(finish_script($in_time), qq(consumed|f|{"n": 1}\n), "$what: it gets the payload");
is(count_requests(key => 'expiring1', to => 'consumed', status => 200), 1, "$what: it is applied");
my $item = action($table, 'expiring1');
cmp_ok($item->{consumedAt}, '<', $item->{expiresAtMs}, "$what: by its record the action was consumed in time");

stop_without_crash($node);
done_testing();
