# Every fault on every request of an action: what the caller is told, what the same
# call says next, what another caller is told, and what the record is then.  And how
# many requests each call makes.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Actions;
use ExactOnce::Faults;
use Digest::MD5 qw(md5_hex);
use Test::More;

my $table = 'tap_action_faults';
my $node = new_node('action_faults', options => { request_timeout => '3s' });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# the same table, with one attempt at each PIN
$sql->(server_sql('strict', table => $table, pin_attempts => 1, request_timeout => '60s'));

# ----- every fault on every function ------------------------------------------

# made: the action before the call.  to, or op: the request that meets the faults.
# answer, again, other: what the call says, the same call the next time, and another
# caller after that.  record: see how_it_ended().  After a call that ended with an
# error, again and record may differ: again_applied and record_applied if its request
# had been applied, else again_refused and record_refused.  The last column of a call is
# the instant at which the action was consumed.
my $consumed = 'consumed|200|{"n": 1}|f|';
my $replayed = 'consumed|200|{"n": 1}|t|';
my $exists = qr/ERROR:  23505: action "\w+" exists already/;
my $call = q{SELECT outcome, http_status, payload, replayed, attempts_left, extract(epoch FROM consumed_at) * 1000
	FROM action_consume('ID', PIN, 'why', '{"ip": "::1"}', md5('ID')::uuid)};
my ($consume, $right, $wrong) = map { $call =~ s/PIN/$_/r } 'NULL', "'0042'", "'4200'";
my $cancel = q{SELECT outcome, http_status, replayed, extract(epoch FROM consumed_at) * 1000
	FROM action_cancel('ID', 'why')};

# What means nothing for a call whose write is refused; an answer with another's token
# means nothing for a read.
my @not_refused = ('answer garbled', 'answer for another owner', 'refusal without the record', 'always throttled');

my @functions = (
	{ name => 'create', made => 'not', to => 'created',
		call => q{SELECT outcome, http_status, NULL FROM action_create('{"n": 1}', id => 'ID')},
		answer => 'created|201', again => $exists, again_applied => $exists, again_refused => 'created|201',
		other => 'consumed|{"n": 1}', record => 'consumed||0' },
	{ name => 'consume', made => 'plain', to => 'consumed', call => $consume,
		answer => $consumed, again => $replayed, again_applied => $replayed, again_refused => $consumed,
		other => 'already_used|', record => 'consumed||0' },
	{ name => 'attempt with the right PIN', made => 'pin', to => 'attempt', call => $right,
		answer => $consumed, again => $replayed, again_applied => $consumed, again_refused => $consumed,
		other => 'already_used|',
		record => 'consumed|2|1', record_applied => 'consumed|1|2', record_refused => 'consumed|2|1' },
	{ name => 'attempt with a wrong PIN', made => 'pin', to => 'attempt', call => $wrong,
		answer => 'invalid_pin|401||f|2', again => 'invalid_pin|401||f|1',
		again_applied => 'invalid_pin|401||f|1', again_refused => 'invalid_pin|401||f|2',
		other => 'invalid_pin|', record => '|1|2', record_applied => '|1|2', record_refused => '|2|1' },
	{ name => 'consume with a PIN', made => 'pin', to => 'consumed', call => $right,
		answer => $consumed, again => $replayed, again_applied => $replayed, again_refused => $consumed,
		other => 'already_used|',
		record => 'consumed|2|1', record_applied => 'consumed|2|1', record_refused => 'consumed|1|2' },
	{ name => 'consume what another has used', made => 'used', to => 'consumed', call => $consume,
		skip => \@not_refused, answer => 'already_used|409||f|', other => 'already_used|', record => 'consumed||0' },
	{ name => 'consume what the caller has used', made => 'used by oneself', to => 'consumed', call => $consume,
		skip => \@not_refused, answer => $replayed, other => 'already_used|', record => 'consumed||0' },
	{ name => 'cancel', made => 'plain', to => 'canceled', call => $cancel,
		answer => 'canceled|200|f', again => 'canceled|200|t', again_applied => 'canceled|200|t',
		again_refused => 'canceled|200|f', other => 'canceled|', record => 'canceled||0' },
	{ name => 'cancel what is canceled', made => 'canceled', to => 'canceled', call => $cancel,
		skip => \@not_refused, answer => 'canceled|200|t', other => 'canceled|', record => 'canceled||0' },
	{ name => 'close what is burned', made => 'out of guesses', to => 'closed', call => $cancel,
		answer => 'burned|410|f', other => 'burned|', record => 'closed|0|1' },
	{ name => 'close what has expired', made => 'expired', to => 'closed', call => $cancel,
		answer => 'expired|410|f', other => 'expired|', record => 'closed||0' },
	{ name => 'get', made => 'plain', op => 'GetItem', skip => ['answer for another owner'],
		call => q{SELECT state, has_pin, attempts_left, NULL FROM action_get('ID')},
		answer => 'active|f|', other => 'consumed|{"n": 1}', record => 'consumed||0' });

# An action's item that bears another caller's tokens.
sub item_of_another
{
	my ($id) = @_;
	return { pk => { S => "ACTION#$id" }, actionId => { S => $id }, activeAtMs => { N => '0' },
		expiresAtMs => { N => '4000000000000' }, payload => { S => '{"n": 1}' }, pinHash => { S => 'x' },
		pinAttempts => { N => '2' }, pinTokens => { SS => ['another'] },
		map { ("${_}At" => { N => '1' }, "${_}Token" => { S => 'another' }) } qw(created consumed canceled) };
}

my (@cases, %made);
foreach my $function (@functions)
{
	foreach my $fault (unseen_faults(), ending_faults())
	{
		next if grep { $_ eq $fault->{name} } @{ $function->{skip} // [] };
		my $id = sprintf 'c%03d', scalar @cases;
		my $of_another = { name => $fault->{name},
			do => [ { do => 'answer', status => 200, applied => 1, more => { Attributes => item_of_another($id) } } ] };
		my $statement = $function->{call} =~ s/'ID'/'$id'/gr;
		push @cases, { id => $id, function => $function, call => $statement,
			fault => $fault->{name} eq 'answer for another owner' ? $of_another : $fault,
			only => { map { $_ => $function->{$_} } grep { $function->{$_} } 'op', 'to' },
			after => [ again => $statement, other => "SELECT outcome, payload FROM action_consume('$id')" ] };
		push @{ $made{ $function->{made} } }, $id;
	}
}
create_actions($node, [ map { @{ $made{$_} } } 'plain', 'used', 'used by oneself', 'canceled' ]);
create_actions($node, $made{pin}, pin => '0042');
create_actions($node, $made{expired}, expires_at => from_now($node, paced(1)));
create_actions($node, $made{'out of guesses'}, pin => '0042', server => 'strict');
on_each_action($node, $made{used}, "action_consume('ID', token => gen_random_uuid())");
on_each_action($node, $made{'used by oneself'}, "action_consume('ID', token => md5('ID')::uuid)");
on_each_action($node, $made{canceled}, "action_cancel('ID')");
on_each_action($node, $made{'out of guesses'}, "action_consume('ID', '1')");
await_expiry($node, $made{expired}[-1]);
run_under_faults($node, @cases);

my $records = records($table);
foreach my $case (@cases)
{
	my ($id, $f, $fault, $said) = @{$case}{qw(id function fault said)};
	my $what = "$f->{name}: $fault->{name}";
	my ($now, $again, $other) = @{$said}{qw(call again other)};
	chomp $other;
	my $record = $records->{"ACTION#$id"};
	# the instants that were said, which are removed
	my %instants = map { $_ => 1 } map { s/\|([\d.]*)\n\z// && $1 ? $1 + 0 : () } $now, $again;
	my ($expected_again, $expected_record) = ($f->{again} // $f->{answer}, $f->{record});
	# An answer that is too long to be read is definite, for a read and for a refused write.
	my $error = $what =~ /^(?:get|consume what (?:another|the caller) has used|cancel what is canceled): answer of three megabytes$/ ? qr/ID007/ : $fault->{error};
	if ($error)
	{
		my $end = $fault->{applied} ? 'applied' : 'refused';
		$expected_again = $f->{"again_$end"} // $f->{answer};
		$expected_record = $f->{"record_$end"} // $f->{record};
		like($now, $error, "$what: the error");
	}
	else
	{
		is($now, $f->{answer}, "$what: the answer");
	}
	ref $expected_again
	  ? like($again, $expected_again, "$what: the next answer")
	  : is($again, $expected_again, "$what: the next answer");
	is($other, $f->{other}, "$what: another caller's answer");
	is(how_it_ended($record), $expected_record, "$what: the record");
	is(join(' ', keys %instants), $record->{consumedAt} // '', "$what: every answer has the record's instant")
	  if %instants;
	next if $f->{answer} ne $consumed;
	my $token = join '-', md5_hex($id) =~ /^(.{8})(.{4})(.{4})(.{4})(.{12})$/;
	is(join(' ', @{$record}{qw(consumedToken consumedReason consumedBy)}), qq($token why {"ip": "::1"}),
		"$what: the record says who consumed it");
}

# ----- how many requests it takes ---------------------------------------------

reset_proxy();
create_actions($node, [qw(r-plain r-given r-used r-canceled r-own r-over)]);
create_actions($node, [qw(r-pin r-wrong)], pin => '0042');
create_actions($node, [qw(r-burned r-guessed r-own-guess)], pin => '0042', server => 'strict');
create_actions($node, [ 'r-pending', 'r-pending2' ],
	active_at => '2199-01-01 00:00:00+00', expires_at => '2199-06-01 00:00:00+00');
create_actions($node, ['r-expired'], expires_at => from_now($node, paced(1)));
on_each_action($node, ['r-used'], "action_consume('ID')");
on_each_action($node, ['r-canceled'], "action_cancel('ID')");
on_each_action($node, [ 'r-burned', 'r-guessed' ], "action_consume('ID', '1')");
on_each_action($node, ['r-own-guess'], "action_consume('ID', '1', token => md5('ID')::uuid)");
on_each_action($node, ['r-own'], "action_consume('ID', token => md5('ID')::uuid)");
await_expiry($node, 'r-expired');
my $long = 'x' x 2100;
my $own_guess = q{action_consume('r-own-guess', '0042', token => md5('r-own-guess')::uuid)};
foreach my $case (
	# call, outcome, requests
	[ q{action_create('1')}, 'created', 'created' ],
	[ q{action_create_many('[{"id": "r-1"}, {"id": "r-2"}, {"id": "r-used"}]')},
		'created created already_exists', 'created created created' ],
	[ q{action_consume('r-plain')}, 'consumed', 'consumed' ],
	[ q{action_consume('r-given', '1')}, 'consumed', 'attempt consumed' ],
	[ q{action_consume('r-pin', '')}, 'invalid_pin', 'consumed' ],
	[ q{action_consume('r-pin', '0042')}, 'consumed', 'attempt consumed' ],
	[ q{action_consume('r-wrong')}, 'invalid_pin', 'consumed' ],
	[ q{action_consume('r-wrong', '1')}, 'invalid_pin', 'attempt' ],
	[ q{action_consume('r-own', token => md5('r-own')::uuid)}, 'consumed', 'consumed' ],
	[ q{action_consume('r-own', '1', token => md5('r-own')::uuid)}, 'consumed', 'attempt' ],
	(map {
		my ($id, $outcome) = @$_;
		[ "action_consume('$id')", $outcome, 'consumed' ], [ "action_consume('$id', '0042')", $outcome, 'attempt' ]
	} [ 'r-used', 'already_used' ], [ 'r-pending', 'not_active' ], [ 'r-expired', 'expired' ],
		[ 'r-canceled', 'canceled' ], [ 'r-burned', 'burned' ], [ 'r-none', 'action_not_found' ]),
	[ "action_consume('$long', '0042')", 'action_not_found', '' ],
	[ q{action_cancel('r-over')}, 'canceled', 'canceled' ],
	[ q{action_cancel('r-over')}, 'canceled', 'canceled' ],
	[ q{action_cancel('r-pending2')}, 'canceled', 'canceled' ],
	[ q{action_cancel('r-used')}, 'already_used', 'canceled' ],
	[ q{action_cancel('r-none')}, 'action_not_found', 'canceled' ],
	[ "action_cancel('$long')", 'action_not_found', '' ],
	# An action that is over by its attempts or its time is closed once.
	[ q{action_cancel('r-guessed')}, 'burned', 'canceled closed' ],
	[ q{action_cancel('r-guessed')}, 'burned', 'canceled' ],
	[ q{action_cancel('r-expired')}, 'expired', 'canceled closed' ],
	[ q{action_cancel('r-expired')}, 'expired', 'canceled' ],
	[ q{action_consume('r-own-guess', '0042')}, 'burned', 'attempt' ],
	[ $own_guess, 'burned', 'attempt closed' ],
	[ $own_guess, 'burned', 'attempt' ])
{
	my ($call, $outcome, $requests) = @$case;
	(my $short = $call) =~ s/x{1000,}/xxx/;
	reset_proxy();
	is($sql->("SELECT string_agg(outcome::text, ' ') FROM $call"), $outcome, "$short: $outcome");
	my @log = requests();
	# A caller that may have to wait for its own first guess asks more than once.
	(my $sent = join ' ', map { $_->{to} } @log) =~ s/attempt( attempt)+ closed/attempt closed/;
	is($sent, $requests, "$short: its requests");
	is(scalar(grep { $_->{op} ne 'UpdateItem' } @log), 0, "$short: no read");
}
foreach my $case ([ 'r-plain', 'consumed' ], [ 'r-none', '' ])
{
	my ($id, $state) = @$case;
	reset_proxy();
	is($sql->("SELECT state FROM action_get('$id')"), $state, "action_get('$id'): the state");
	is(control('GET', '/ops'), "GetItem\n", "action_get('$id'): one read");
}

stop_without_crash($node);
done_testing();
