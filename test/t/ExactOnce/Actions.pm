# What the tests of one-shot actions share: making actions, what DynamoDB holds of
# them, and requests that are held on their way.
package ExactOnce::Actions;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use ExactOnce;
use JSON::PP;
use Test::More;

our @EXPORT = qw(
  action how_it_ended create_actions on_each_action from_now await_expiry
  hold_request cancel_held let_go);

# The attributes of an action's item.
sub action
{
	my ($table, $id) = @_;
	return item($table, "ACTION#$id");
}

# How an action ended, the attempts that are left, and those that were taken:
# "consumed|2|1".
sub how_it_ended
{
	my ($item) = @_;
	my @ends = grep { exists $item->{"${_}At"} } qw(consumed canceled closed);
	return join '|', "@ends", $item->{pinAttempts} // '', scalar @{ $item->{pinTokens} // [] };
}

# Makes actions with the payload {"n": 1}; further members and server are the
# caller's.
sub create_actions
{
	my ($node, $ids, %more) = @_;
	my $server = delete $more{server} // 'exactonce';
	my $json = encode_json([ map { { id => $_, payload => { n => 1 }, %more } } @$ids ]);
	is($node->safe_psql('postgres', <<"SQL"), scalar(@$ids), scalar(@$ids) . ' actions are made');
SELECT count(*) FROM action_create_many('$json', '$server') WHERE outcome = 'created'
SQL
	return;
}

# Calls a function for each of these actions: on_each_action($node, ['a', 'b'],
# "action_cancel('ID')").
sub on_each_action
{
	my ($node, $ids, $call) = @_;
	$node->safe_psql('postgres', join '', map { 'SELECT outcome FROM ' . $call =~ s/ID/$_/gr . ";\n" } @$ids);
	return;
}

# The instant that is so many seconds from now.
sub from_now
{
	my ($node, $seconds) = @_;
	return $node->safe_psql('postgres', "SELECT clock_timestamp() + interval '$seconds s'");
}

sub await_expiry
{
	my ($node, $id) = @_;
	wait_until("action $id expires",
		sub { $node->safe_psql('postgres', "SELECT state FROM action_get('$id')") eq 'expired' });
	return;
}

# Starts a script and holds its first request that leaves the action so: created,
# attempt, consumed, canceled or closed.  Returns the script once it is held.
sub hold_request
{
	my ($node, $to, $id, $script) = @_;
	fault(do => 'hold', to => $to, key => $id);
	my $run = start_script($node, $script);
	$run->{held} = { to => $to, key => $id };
	await_request(to => $to, key => $id);
	return $run;
}

# Cancels the session whose request is held.
sub cancel_held
{
	my ($node, $run, $what) = @_;
	wait_until("$what: its caller is cancelled", sub { $node->safe_psql('postgres', <<'SQL') eq 't' });
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE query LIKE '%FROM action%' AND wait_event_type = 'Extension'
SQL
	like(finish_script($run), qr/ERROR:  57014: /, "$what: its caller sees the cancel");
	return;
}

# Lets a held request go and passes once the engine has answered it with that status.
sub let_go
{
	my ($run, $what, $status) = @_;
	release_held();
	wait_until($what, sub {
		my ($first) = requests(%{ $run->{held} });
		return $first->{status} == $status;
	});
	return;
}

1;
