# One-shot actions when something goes wrong: under faults, late copies, races and
# at the edges of their time an action is consumed once, everybody is told the
# truth about it, no guess at a PIN is counted twice by itself, and no secret is
# where it should not be.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use Digest::MD5 qw(md5_hex);
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_actions';
my $node = new_node('actions', table => $table, options => ", request_timeout '3s'", conf => "max_connections = 600\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# the same table, with one guess at each PIN
$sql->(<<"SQL");
CREATE SERVER strict FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}', pin_attempts '1', request_timeout '60s');
CREATE USER MAPPING FOR PUBLIC SERVER strict OPTIONS (access_key_id 'test', secret_access_key 'test');
SQL

# What DynamoDB holds of an action.
sub record
{
	my ($id) = @_;
	my $item = dynamodb(GetItem => { TableName => $table, ConsistentRead => JSON::PP::true,
		Key => { pk => { S => "ACTION#$id" } } })->{Item};
	return { map { $_ => (values %{ $item->{$_} })[0] } keys %$item };
}

# How it ended, attempts that are left, and attempts that were taken.
sub sum_up
{
	my ($r) = @_;
	my @ends = grep { exists $r->{"${_}At"} } qw(consumed canceled closed);
	return join '|', "@ends", $r->{pinAttempts} // '', scalar @{ $r->{pinTokens} // [] };
}

sub log_lines
{
	return @{ decode_json(control('GET', '/log')) };
}

# How long a call waits: long, if it must not ask again while the proxy holds it.
sub patience
{
	my ($time) = @_;
	$sql->("ALTER SERVER exactonce OPTIONS (SET request_timeout '$time')");
	return;
}

# ----- every fault on every function ------------------------------------------

# call: the instant at which the action was consumed is its last column.  again:
# what the same call says then; after a call that ended with an error, lost says
# it if the request had been applied, else denied.  other: another caller.
# record: see sum_up(); the other two as before.  skip: kinds of faults that mean
# nothing for it.
my $consumed = sub { 'consumed|200|{"n": 1}|' . $_[0] . '|' };
my $pin_call = q{SELECT outcome, http_status, payload, replayed, attempts_left, extract(epoch FROM consumed_at) * 1000
	FROM action_consume('ID', PIN, 'why', '{"ip": "::1"}', md5('ID')::uuid)};
(my $call = $pin_call) =~ s/PIN/NULL/;
(my $right = $pin_call) =~ s/PIN/'0042'/;
(my $wrong = $pin_call) =~ s/PIN/'4200'/;
my $cancel = q{SELECT outcome, http_status, replayed, extract(epoch FROM consumed_at) * 1000 FROM action_cancel('ID', 'why')};
my @functions = (
	{ name => 'create', made => 'not', to => 'created', call => q{SELECT outcome, http_status, NULL FROM action_create('{"n": 1}', id => 'ID')},
		answer => 'created|201', again => qr/ERROR:  23505: action "\w+" exists already/, lost => qr/ERROR:  23505/, denied => 'created|201',
		other => 'consumed|{"n": 1}', record => 'consumed||0' },
	{ name => 'consume', made => 'plain', to => 'consumed', call => $call,
		answer => $consumed->('f'), again => $consumed->('t'), lost => $consumed->('t'), denied => $consumed->('f'),
		other => 'already_used|', record => 'consumed||0' },
	{ name => 'attempt, right', made => 'pin', to => 'attempt', call => $right,
		answer => $consumed->('f'), again => $consumed->('t'), lost => $consumed->('f'), denied => $consumed->('f'),
		other => 'already_used|', record => 'consumed|2|1', record_lost => 'consumed|1|2', record_denied => 'consumed|2|1' },
	{ name => 'attempt, wrong', made => 'pin', to => 'attempt', call => $wrong,
		answer => 'invalid_pin|401||f|2', again => 'invalid_pin|401||f|1', lost => 'invalid_pin|401||f|1', denied => 'invalid_pin|401||f|2',
		other => 'invalid_pin|', record => '|1|2', record_lost => '|1|2', record_denied => '|2|1' },
	{ name => 'consume with a PIN', made => 'pin', to => 'consumed', call => $right,
		answer => $consumed->('f'), again => $consumed->('t'), lost => $consumed->('t'), denied => $consumed->('f'),
		other => 'already_used|', record => 'consumed|2|1', record_lost => 'consumed|2|1', record_denied => 'consumed|1|2' },
	{ name => 'already used', made => 'used', to => 'consumed', call => $call, skip => 'write',
		answer => 'already_used|409||f|', other => 'already_used|', record => 'consumed||0' },
	{ name => 'used by oneself', made => 'used by oneself', to => 'consumed', call => $call, skip => 'write',
		answer => $consumed->('t'), other => 'already_used|', record => 'consumed||0' },
	{ name => 'cancel', made => 'plain', to => 'canceled', call => $cancel,
		answer => 'canceled|200|f', again => 'canceled|200|t', lost => 'canceled|200|t', denied => 'canceled|200|f',
		other => 'canceled|', record => 'canceled||0' },
	{ name => 'canceled before', made => 'canceled', to => 'canceled', call => $cancel, skip => 'write',
		answer => 'canceled|200|t', other => 'canceled|', record => 'canceled||0' },
	{ name => 'close a burned one', made => 'out of guesses', to => 'closed', call => $cancel,
		answer => 'burned|410|f', other => 'burned|', record => 'closed|0|1' },
	{ name => 'close an expired one', made => 'expired', to => 'closed', call => $cancel,
		answer => 'expired|410|f', other => 'expired|', record => 'closed||0' },
	{ name => 'get', made => 'plain', op => 'GetItem', skip => 'token', call => q{SELECT state, has_pin, attempts_left, NULL FROM action_get('ID')},
		answer => 'active|f|', other => 'consumed|{"n": 1}', record => 'consumed||0' });

# Faults nobody sees.  Those marked "write" alter a reply in ways that a refusal,
# which bears no checksum, could not show, or are about one that is not refused.
my $of_another = encode_json({ do => 'answer', status => 200, applied => JSON::PP::true, more => {
	Attributes => { pk => { S => 'ACTION#ID' }, actionId => { S => 'ID' }, activeAtMs => { N => '0' },
		expiresAtMs => { N => '4000000000000' }, payload => { S => '{"n": 1}' }, pinHash => { S => 'x' },
		pinAttempts => { N => '2' }, pinTokens => { SS => ['another'] },
		map { ("${_}At" => { N => '1' }, "${_}Token" => { S => 'another' }) } qw(created consumed canceled) } } });
my @unseen = (
	[ 'dropped', '{"do":"drop"}' ],
	[ 'applied and lost', '{"do":"lose"}' ],
	[ 'lost twice', '{"do":"lose","times":2}' ],
	[ 'applied and reset', '{"do":"reset"}' ],
	[ 'delivered twice', '{"do":"twice"}' ],
	[ 'delivered twice, first answer', '{"do":"twice","first":true}' ],
	[ 'late and lost', '{"do":"delay","ms":30}', '{"do":"lose"}' ],
	[ 'cut before the body', '{"do":"truncate","bytes":0}' ],
	[ 'cut in the body', '{"do":"truncate","bytes":20}' ],
	[ 'garbled', '{"do":"garble"}', 'write' ],
	[ 'wrong checksum', '{"do":"wrong_crc"}' ],
	[ 'for another key', '{"do":"other_key"}' ],
	[ 'for another token', $of_another, 'write', 'token' ],
	[ 'no record in a refusal', '{"do":"no_item"}', 'write' ],
	[ 'a page of HTML', '{"do":"html"}' ],
	[ 'not found', '{"do":"html","status":404}' ],
	[ 'an empty body', '{"do":"empty"}' ],
	[ 'two megabytes', '{"do":"big"}' ],
	[ 'deep JSON', '{"do":"deep"}' ],
	[ 'a NUL', '{"do":"nul"}' ],
	[ 'not UTF-8', '{"do":"bad_utf8"}' ],
	[ '500', '{"do":"answer"}' ],
	[ '500, applied', '{"do":"answer","applied":true}' ],
	[ '503', '{"do":"answer","status":503,"code":"ServiceUnavailable"}' ],
	[ 'throttled', '{"do":"answer","status":400,"code":"ProvisionedThroughputExceededException"}' ],
	[ 'a conflicting write', '{"do":"answer","status":400,"code":"TransactionConflictException"}' ],
	[ 'redirected', '{"do":"redirect"}' ],
	[ 'a date six minutes off', '{"do":"date","seconds":360}' ]);

# Faults that end the call, what it says, and whether the request was applied.
my @seen = (
	[ 'access denied', '{"do":"answer","status":400,"code":"AccessDeniedException","message":"no policy"}',
		qr/ERROR:  ID007: .*denied access\nDETAIL:  DynamoDB answered AccessDeniedException: no policy\./, 0 ],
	[ 'invalid', '{"do":"answer","status":400,"code":"ValidationException"}', qr/ERROR:  ID007: .*refused the request/, 0 ],
	[ 'no table', '{"do":"answer","status":400,"code":"ResourceNotFoundException"}', qr/ERROR:  ID007: .*no such table/, 0 ],
	[ 'throttled for good', '{"do":"answer","status":400,"code":"ThrottlingException","times":0}', 'write', qr/ERROR:  ID006: .*throttling/, 0 ],
	[ 'always 500', '{"do":"answer","times":0}', qr/ERROR:  ID006: .*(?:outcome is unknown|no answer)/, 0 ],
	[ 'never an answer', '{"do":"lose","times":0}', qr/ERROR:  ID006: .*(?:outcome is unknown|no answer)/, 1 ],
	[ 'lost, then denied', '{"do":"lose"}', '{"do":"answer","nth":2,"status":400,"code":"AccessDeniedException"}',
		qr/ERROR:  ID006: .*outcome is unknown|could not read.*denied access/, 1 ]);

my ($script, @cases, %made) = ('');
my $sockets = q(\! echo ">>sockets $(ls -l /proc/$EO_PID/fd | grep -c socket:)") . "\n";
foreach my $f (@functions)
{
	my $apply = sub { my ($fault) = @_; return !grep { $_ eq ($f->{skip} // '') } @$fault };
	add_case($f, $_, undef) foreach grep { $apply->($_) } @unseen;
	add_case($f, $_, $_->[-1] ? 'lost' : 'denied') foreach grep { $apply->($_) } @seen;
}

sub add_case
{
	my ($f, $fault, $ended) = @_;
	my $n = @cases;
	my $id = "c$n";
	my $op = $f->{op} ? qq("op":"$f->{op}") : qq("to":"$f->{to}");
	my $put = join ' ', map { qq(--next -s -X POST "\$EO_CONTROL/fault" -d '$_') } map { s/^\{/{"key":"$id",$op,/r } grep { /^\{/ } @$fault;
	my $reset = '-s -X POST "$EO_CONTROL/reset"';
	# one stream for answers and errors: psql's \warn would go the other way
	my $text = "\\! curl $reset $put\n\\echo >>call $n\n$f->{call};\n\\! curl $reset\n\\echo >>again $n\n$f->{call};\n"
	  . "\\echo >>other $n\nSELECT outcome, payload FROM action_consume('ID');\n\\echo >>end $n\n";
	$text =~ s/ID(?=['"])/$id/g;
	$text =~ s/ACTION#ID/ACTION#$id/g;
	# a file of commands has one line for each of psql's
	$text =~ s/\n\t/ /g;
	$script .= $text;
	push @cases, { function => $f, fault => $fault, ended => $ended };
	push @{ $made{ $f->{made} } }, $id;
	return;
}

# what there is before the calls
sub create
{
	my ($ids, %more) = @_;
	my $server = delete $more{server} // 'exactonce';
	my $json = encode_json([ map { { id => $_, payload => { n => 1 }, %more } } @$ids ]);
	is($sql->("SELECT count(*) FROM action_create_many('$json', '$server') WHERE outcome = 'created'"),
		scalar(@$ids), scalar(@$ids) . ' actions are made');
	return;
}

# so many seconds from now
sub timestamp
{
	my ($seconds) = @_;
	return $sql->("SELECT clock_timestamp() + interval '$seconds s'");
}

sub expired
{
	my ($id) = @_;
	wait_until("$id expires", sub { $sql->("SELECT state FROM action_get('$id')") eq 'expired' });
	return;
}

sub each_id
{
	my ($ids, $of) = @_;
	return $sql->(join '', map { "SELECT outcome FROM $_;\n" } map { $of =~ s/ID/$_/gr } @$ids);
}
create([ map { @{ $made{$_} } } 'plain', 'used', 'used by oneself', 'canceled' ]);
create($made{pin}, pin => '0042');
create($made{expired}, expires_at => timestamp(1));
create($made{'out of guesses'}, pin => '0042', server => 'strict');
each_id($made{used}, "action_consume('ID', token => gen_random_uuid())");
each_id($made{'used by oneself'}, "action_consume('ID', token => md5('ID')::uuid)");
each_id($made{canceled}, "action_cancel('ID')");
each_id($made{'out of guesses'}, "action_consume('ID', '1')");
expired($made{expired}[-1]);

my $file = $node->basedir . '/faults.sql';
append_to_file($file, "SELECT action_get('warm up') IS NULL;\nSELECT pg_backend_pid() AS pid \\gset\n\\setenv EO_PID :pid\n$sockets$script$sockets");
my $out = '';
my $start = time();
IPC::Run::run([ 'stdbuf', '-oL', 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', $file ],
	'<', \undef, '>', \$out, '2>&1');
diag(sprintf '%d faults in %.0f s', scalar @cases, time() - $start);
$out =~ s/^psql:\S+:\d+: //mg;
$out =~ s/^LOCATION:.*\n//mg;

my $records = records($table);
for my $n (0 .. $#cases)
{
	my ($f, $fault, $ended) = @{ $cases[$n] }{qw(function fault ended)};
	my $what = "$f->{name}: $fault->[0]";
	my @said = $out =~ /^>>call $n\n(.*?)^>>again $n\n(.*?)^>>other $n\n(.*?)^>>end $n\n/ms;
	my ($said, $again, $other) = map { $_ // '(no output)' } @said[ 0 .. 2 ];
	my $record = $records->{"ACTION#c$n"};
	# what is said about the instant, each time
	my %instants = map { $_ => 1 } map { s/\|([\d.]*)\n\z// && $1 ? $1 + 0 : () } $said, $again;
	chomp $other;
	if ($ended)
	{
		my ($pattern) = grep { ref } @$fault;
		like($said, $pattern, $what);
	}
	else
	{
		is($said, $f->{answer}, $what);
	}
	my $expected = $f->{ $ended // 'again' } // $f->{answer};
	ref $expected ? like($again, $expected, "$what, and again") : is($again, $expected, "$what, and again");
	is($other, $f->{other}, "$what, and another caller");
	is(sum_up($record), ($ended && $f->{"record_$ended"}) // $f->{record}, "$what, the record");
	my $instant = $record->{consumedAt} // '';
	is(join(' ', keys %instants), $instant, "$what, one instant") if %instants;
	is(join(' ', @{$record}{qw(consumedToken consumedReason consumedBy)}),
		join('-', md5_hex("c$n") =~ /^(.{8})(.{4})(.{4})(.{4})(.{12})$/) . ' why {"ip": "::1"}', "$what, who it was")
	  if ($f->{answer} eq $consumed->('f'));
}
my @sockets = $out =~ /^>>sockets (\d+)$/mg;
is($sockets[1], $sockets[0], 'no socket is left behind');

# ----- how many requests it takes ---------------------------------------------

control('POST', '/reset');
create([qw(r-plain r-given r-used r-canceled r-own r-over)]);
create([qw(r-pin r-wrong)], pin => '0042');
create([qw(r-burned r-guessed r-own-guess)], pin => '0042', server => 'strict');
create([ 'r-pending', 'r-pending2' ], active_at => '2199-01-01 00:00:00+00', expires_at => '2199-06-01 00:00:00+00');
create(['r-expired'], expires_at => timestamp(1));
each_id(['r-used'], "action_consume('ID')");
each_id(['r-canceled'], "action_cancel('ID')");
each_id([ 'r-burned', 'r-guessed' ], "action_consume('ID', '1')");
each_id(['r-own-guess'], "action_consume('ID', '1', token => md5('ID')::uuid)");
each_id(['r-own'], "action_consume('ID', token => md5('ID')::uuid)");
expired('r-expired');
my $long = 'x' x 2100;
foreach my $case (
	# call, outcome, requests
	[ q{action_create('1')}, 'created', 'created' ],
	[ q{action_create_many('[{"id": "r-1"}, {"id": "r-2"}, {"id": "r-used"}]')}, 'created created already_exists', 'created created created' ],
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
	} [ 'r-used', 'already_used' ], [ 'r-pending', 'not_active' ], [ 'r-expired', 'expired' ], [ 'r-canceled', 'canceled' ],
		[ 'r-burned', 'burned' ], [ 'r-none', 'action_not_found' ]),
	[ "action_consume('$long', '0042')", 'action_not_found', '' ],
	[ q{action_cancel('r-over')}, 'canceled', 'canceled' ],
	[ q{action_cancel('r-over')}, 'canceled', 'canceled' ],
	[ q{action_cancel('r-pending2')}, 'canceled', 'canceled' ],
	[ q{action_cancel('r-used')}, 'already_used', 'canceled' ],
	[ q{action_cancel('r-none')}, 'action_not_found', 'canceled' ],
	[ "action_cancel('$long')", 'action_not_found', '' ],
	# where it has to be made sure that it is over, that is done once
	[ q{action_cancel('r-guessed')}, 'burned', 'canceled closed' ],
	[ q{action_cancel('r-guessed')}, 'burned', 'canceled' ],
	[ q{action_cancel('r-expired')}, 'expired', 'canceled closed' ],
	[ q{action_cancel('r-expired')}, 'expired', 'canceled' ],
	[ q{action_consume('r-own-guess', '0042')}, 'burned', 'attempt' ],
	[ q{action_consume('r-own-guess', '0042', token => md5('r-own-guess')::uuid)}, 'burned', 'attempt closed' ],
	[ q{action_consume('r-own-guess', '0042', token => md5('r-own-guess')::uuid)}, 'burned', 'attempt' ])
{
	my ($what, $outcome, $requests) = @$case;
	control('POST', '/reset');
	my $said = $sql->("SELECT string_agg(outcome::text, ' ') FROM $what");
	(my $short = $what) =~ s/x{1000,}/xxx/;
	is($said, $outcome, "$short: $outcome");
	my @log = log_lines();
	# who may have to wait for himself asks more than once
	(my $sent = join ' ', map { $_->{to} } @log) =~ s/attempt( attempt)+ closed/attempt closed/;
	is($sent, $requests, '... by so many requests');
	is(scalar(grep { $_->{op} ne 'UpdateItem' } @log), 0, '... and no read');
}
foreach my $case ([ 'r-plain', 'consumed' ], [ 'r-none', '' ])
{
	control('POST', '/reset');
	is($sql->("SELECT state FROM action_get('$case->[0]')"), $case->[1], "action_get('$case->[0]')");
	is(control('GET', '/ops'), "GetItem\n", '... is one read');
}

# ----- late copies ------------------------------------------------------------

# Holds the first request that matches, from a session that runs the script.
my $held;
sub hold
{
	my ($to, $id, $script, %more) = @_;
	control('POST', '/reset');
	control('POST', '/fault', encode_json({ do => 'hold', to => $to, key => $id, %more }));
	$held = { to => $to, key => "ACTION#$id" };
	my $run = start_psql($node, $script);
	control('GET', "/wait?to=$to&key=$id&n=1&seconds=60");
	return $run;
}

# Cancels the session whose request is held.
sub cancel_it
{
	my ($run, $what) = @_;
	is($sql->(<<'SQL'), 't', "$what: cancelled");
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%FROM action%' AND wait_event_type = 'Extension'
SQL
	my $said = finish_psql($run);
	like($said, qr/ERROR:  57014: /, '... which the caller sees');
	return $said;
}

# Lets it go, and waits until the engine has answered it.
sub let_go
{
	my ($what, $status) = @_;
	control('POST', '/release');
	wait_until($what, sub {
		my ($first) = grep { $_->{to} eq $held->{to} && $_->{key} eq $held->{key} } log_lines();
		return $first->{status} == $status;
	});
	return;
}

patience('60s');
create([qw(late1 late2 late3)]);
my $consume = sub { "SELECT outcome, replayed, payload FROM action_consume('$_[0]', token => md5('$_[0]')::uuid);\n" };

my $run = hold('consumed', 'late1', $consume->('late1'));
cancel_it($run, 'a consume that is held up');
is($sql->("SELECT outcome, replayed FROM action_cancel('late1', 'never mind')"), 'canceled|f', '... the action is canceled by another');
let_go('... and the late request', 400);
is(sum_up(record('late1')), 'canceled||0', '... changes nothing');
is($sql->("SELECT state, reason FROM action_get('late1')"), 'canceled|never mind', '... and it is canceled');
is($sql->($consume->('late1')), 'canceled|f|', '... as who tried to consume it is told');

$run = hold('consumed', 'late2', $consume->('late2'));
cancel_it($run, 'a consume that is held up');
let_go('... and arrives', 200);
is($sql->("SELECT outcome, consumed_at IS NOT NULL FROM action_cancel('late2')"), 'already_used|t', '... who cancels is told');
is(sum_up(record('late2')), 'consumed||0', '... and cancels nothing');
is($sql->($consume->('late2')), 'consumed|t|{"n": 1}', '... and who consumed it finds out');

$run = hold('canceled', 'late3', "SELECT outcome FROM action_cancel('late3');\n");
cancel_it($run, 'a cancel that is held up');
is($sql->($consume->('late3')), 'consumed|f|{"n": 1}', '... somebody consumes the action');
let_go('... and the late request', 400);
is(sum_up(record('late3')), 'consumed||0', '... changes nothing');

$run = hold('created', 'late4', "SELECT outcome FROM action_create('{\"by\": 1}', id => 'late4');\n");
cancel_it($run, 'a create that is held up');
is($sql->("SELECT outcome FROM action_create('{\"by\": 2}', id => 'late4')"), 'created', '... another makes it');
is($sql->($consume->('late4')), 'consumed|f|{"by": 2}', '... it is used');
let_go('... and the late request', 400);
is($sql->($consume->('late4')), 'consumed|t|{"by": 2}', '... makes no second one');

# a first copy that comes after the second has been answered
patience('600ms');
create([qw(copy1 copy3)]);
create(['copy2'], pin => '0042');
foreach my $case (
	[ 'created', 'copy0', "SELECT outcome FROM action_create(id => 'copy0');", 'created', '||0' ],
	[ 'consumed', 'copy1', $consume->('copy1'), 'consumed|f|{"n": 1}', 'consumed||0' ],
	[ 'attempt', 'copy2', "SELECT outcome, attempts_left FROM action_consume('copy2', '1');", 'invalid_pin|2', '|2|1' ],
	[ 'canceled', 'copy3', "SELECT outcome, replayed FROM action_cancel('copy3');", 'canceled|f', 'canceled||0' ])
{
	my ($to, $id, $statement, $answer, $sum) = @$case;
	$run = hold($to, $id, $statement);
	is(finish_psql($run), "$answer\n", "$to: the second copy is answered");
	my $before = record($id);
	let_go('... the first one, which comes later', 400);
	is_deeply(record($id), $before, '... changes nothing');
	is(sum_up($before), $sum, '... of what was done once');
}

# ----- cancel and consume -----------------------------------------------------

# The last attempt is taken, and its PIN is right; before it is consumed ...
patience('60s');
create([qw(last1 last2 last3 last4 last5)], pin => '0042', server => 'strict');
my $guess = sub { "SELECT outcome, payload FROM action_consume('$_[0]', '0042', token => md5('$_[0]')::uuid);\n" };
$run = hold('consumed', 'last1', $guess->('last1'));
is(sum_up(record('last1')), '|0|1', 'the last attempt is taken, by who is right');
is($sql->("SELECT state, attempts_left FROM action_get('last1')"), 'burned|0', '... others see no attempt left');
is($sql->("SELECT outcome FROM action_cancel('last1')"), 'burned', '... and who cancels is told that it is burned');
let_go('... the consume arrives', 400);
is(finish_psql($run), "burned|\n", '... and is told so, too');
is($sql->("SELECT state FROM action_get('last1')"), 'burned', '... and so it stays');
is(sum_up(record('last1')), 'closed|0|1', '... in the record');
is($sql->($guess->('last1')), 'burned|', '... also for the same call again');

$run = hold('consumed', 'last2', $guess->('last2'));
is($sql->("SELECT outcome FROM action_consume('last2', '0042')"), 'burned', 'the last attempt is taken: others find none');
let_go('... the consume arrives', 200);
is(finish_psql($run), qq(consumed|{"n": 1}\n), '... and consumes: who paid for it may');
is($sql->("SELECT outcome FROM action_cancel('last2')"), 'already_used', '... who cancels then is told');
is($sql->("SELECT state FROM action_get('last2')"), 'consumed', '... and everybody');

# between the two requests of that cancel
$run = hold('consumed', 'last3', $guess->('last3'));
control('POST', '/fault', '{"do":"after","to":"closed","after":{"to":"consumed"}}');
my $canceler = start_psql($node, "SELECT outcome FROM action_cancel('last3');");
control('GET', '/wait?to=closed&seconds=60');
let_go('a consume that comes while it is being canceled', 200);
is(finish_psql($run), qq(consumed|{"n": 1}\n), '... consumes');
is(finish_psql($canceler), "already_used\n", '... and who cancels is told');
is(sum_up(record('last3')), 'consumed|0|1', '... and nothing else is in the record');

# the same caller, who was cancelled and asks again, before it arrives and after
$run = hold('consumed', 'last4', $guess->('last4'));
cancel_it($run, 'a consume with the last attempt');
is($sql->($guess->('last4')), 'burned|', '... the same call again finds no attempt');
let_go('... the first one arrives', 400);
is(sum_up(record('last4')), 'closed|0|1', '... and what the caller was told stays true');
$run = hold('consumed', 'last5', $guess->('last5'));
cancel_it($run, 'a consume with the last attempt');
control('POST', '/fault', '{"do":"after","to":"closed","after":{"to":"consumed"}}');
my $asker = start_psql($node, $guess->('last5'));
control('GET', '/wait?to=closed&seconds=60');
let_go('... the first one arrives while the same call again is under way', 200);
is(finish_psql($asker), qq(consumed|{"n": 1}\n), '... and the caller has the payload');
is(sum_up(record('last5')), 'consumed|0|1', '... by that first call');

# a second click, while the first one has the last attempt
create(['last6'], pin => '0042', server => 'strict');
$run = hold('consumed', 'last6', $guess->('last6'));
$asker = start_psql($node, $guess->('last6'));
control('GET', '/wait?to=attempt&key=last6&n=3&seconds=60');
let_go('a second click waits for the first', 200);
is(finish_psql($run), qq(consumed|{"n": 1}\n), '... which was right');
is(finish_psql($asker), qq(consumed|{"n": 1}\n), '... and has its answer');
is(sum_up(record('last6')), 'consumed|0|1', '... by one attempt');

# a consume that leaves in time, and arrives when the action has expired
create(['expiring1'], expires_at => timestamp(3));
$run = hold('consumed', 'expiring1', $consume->('expiring1'));
expired('expiring1');
let_go('... a consume that left before that arrives', 200);
like(finish_psql($run), qr/^consumed\|f\|/, '... in time');
my $last = record('expiring1');
cmp_ok($last->{consumedAt}, '<', $last->{expiresAtMs}, '... by what is in the record');
create(['expiring3'], expires_at => timestamp(3));
$run = hold('consumed', 'expiring3', $consume->('expiring3'));
expired('expiring3');
is($sql->("SELECT outcome FROM action_cancel('expiring3')"), 'expired', '... and who cancels is told so');
let_go('... a consume that left before that arrives', 400);
is(finish_psql($run), "expired|f|\n", '... too late');
is(sum_up(record('expiring3')), 'closed||0', '... and nothing is consumed');

# an action that is canceled while its PIN is being verified has lost an attempt
create(['verified'], pin => '0042');
$run = hold('consumed', 'verified', $guess->('verified'));
is($sql->("SELECT outcome FROM action_cancel('verified')"), 'canceled', 'canceled while a right PIN is under way');
let_go('... which comes too late', 400);
is(finish_psql($run), "canceled|\n", '... and is told');
is(sum_up(record('verified')), 'canceled|2|1', '... and consumes nothing');

# Many rounds of the two at the same time: two sessions that meet at each action.
sub race
{
	my ($name, $rounds, $consume, $within) = @_;
	control('POST', '/reset');
	$sql->(<<"SQL");
CREATE TABLE $name (n int, what text, outcome text, PRIMARY KEY (n, what));
CREATE SEQUENCE ${name}_arrived;
SQL
	my @runs = map {
		my ($what, $call) = @$_;
		start_psql($node, <<"SQL");
SET statement_timeout = '60s';
DO \$\$
BEGIN
	FOR n IN 1 .. $rounds LOOP
		PERFORM nextval('${name}_arrived');
		WHILE (SELECT last_value FROM ${name}_arrived) < 2 * n LOOP
			PERFORM pg_sleep(0);
		END LOOP;
		PERFORM pg_sleep(random() * $within);
		INSERT INTO $name SELECT n, '$what', outcome FROM $call;
	END LOOP;
END \$\$;
SQL
	} [ 'consume', $consume ], [ 'cancel', "action_cancel('$name ' || n)" ];
	is(finish_psql($_), '', "$name: a session goes through all rounds") foreach @runs;
	# what was done, what both were told, and the last word of all
	my $said = $sql->(<<"SQL");
SELECT c.n, (action_get('$name ' || c.n)).state, c.outcome, x.outcome
FROM $name c JOIN $name x ON (c.n, c.what, x.what) = (x.n, 'consume', 'cancel') ORDER BY c.n
SQL
	return map { [ split /\|/ ] } split /\n/, $said;
}

create([ map { "race $_" } 1 .. 100 ]);
my %won;
foreach my $round (race('race', 100, "action_consume('race ' || n)", '0.002'))
{
	my ($n, $state, $consumer, $canceler) = @$round;
	my $both = "$consumer $canceler";
	like("$both $state", qr/^(?:consumed already_used consumed|canceled canceled canceled)$/, "round $n: one of the two wins");
	is(sum_up(record("race $n")), "$state||0", '... and only one');
	$won{$state}++;
}
is($won{consumed} + $won{canceled}, 100, 'a hundred rounds of cancel and consume');
diag("cancel against consume: $won{consumed} consumed, $won{canceled} canceled");

# with a PIN, and one attempt
create([ map { "guess $_" } 1 .. 40 ], pin => '0042', server => 'strict');
%won = (consumed => 0, canceled => 0, burned => 0);
foreach my $round (race('guess', 40, "action_consume('guess ' || n, '0042')", '0.1'))
{
	my ($n, $state, $consumer, $canceler) = @$round;
	like("$consumer $canceler $state", qr/^(?:consumed already_used consumed|canceled canceled canceled|burned burned burned)$/,
		"round $n with a PIN: both are told the same");
	my $sum = sum_up(record("guess $n"));
	is($sum, { canceled => 'canceled|1|0', burned => 'closed|0|1', consumed => 'consumed|0|1' }->{$state}, '... and so is the record');
	$won{$state}++;
}
is($won{consumed} + $won{canceled} + $won{burned}, 40, 'forty rounds with a PIN');
diag("cancel against the last attempt: $won{consumed} consumed, $won{canceled} canceled, $won{burned} burned");

# ----- edges of time ----------------------------------------------------------

control('POST', '/reset');
$out = $sql->(<<'SQL');
CREATE TABLE early (n int, before timestamptz, outcome text, consumed_at timestamptz, active_at timestamptz, expected timestamptz);
DO $$
DECLARE
	from_then timestamptz;
	begun timestamptz;
	r action_result;
BEGIN
	FOR n IN 1 .. 5 LOOP
		from_then := (action_create('{}', active_at => clock_timestamp() + interval '400 ms', id => 'early ' || n)).active_at;
		LOOP
			begun := clock_timestamp();
			r := action_consume('early ' || n);
			INSERT INTO early VALUES (n, begun, r.outcome, r.consumed_at, r.active_at, from_then);
			EXIT WHEN r.outcome <> 'not_active';
		END LOOP;
	END LOOP;
END $$;
SELECT count(*) FILTER (WHERE outcome = 'consumed' AND consumed_at >= expected AND consumed_at < expected + interval '10 s'),
	count(*) FILTER (WHERE outcome = 'not_active' AND (active_at <> expected OR before >= expected)),
	count(*) FILTER (WHERE outcome NOT IN ('consumed', 'not_active')),
	count(*) FILTER (WHERE outcome = 'not_active') > 0
FROM early;
SQL
is($out, '5|0|0|t', 'polled until it is active: not before active_at, and from then on');

# consumed and canceled by turns until all is over
my $soon = 600;
$sql->(<<"SQL");
CREATE TABLE ends (n int, what text, outcome text, at timestamptz, expires_at timestamptz);
CREATE TABLE looks (n int GENERATED ALWAYS AS IDENTITY, state text, before timestamptz, after timestamptz);
DO \$\$
DECLARE
	over timestamptz;
	begun timestamptz;
	r action_result;
	seen text;
BEGIN
	SELECT max(expires_at) INTO over FROM action_create_many((SELECT jsonb_agg(jsonb_build_object('id', 'soon ' || i,
		'expires_at', to_char(clock_timestamp() + interval '4 s', 'YYYY-MM-DD HH24:MI:SSOF'))) FROM generate_series(1, $soon) i));
	-- until shortly before
	LOOP
		begun := clock_timestamp();
		seen := (action_get('soon $soon')).state;
		INSERT INTO looks (state, before, after) VALUES (seen, begun, clock_timestamp());
		EXIT WHEN clock_timestamp() > over - interval '200 ms' OR seen = 'expired';
		PERFORM pg_sleep(0.01);
	END LOOP;
	FOR i IN 1 .. $soon LOOP
		r := CASE WHEN i % 2 = 0 THEN action_consume('soon ' || i) ELSE action_cancel('soon ' || i) END;
		INSERT INTO ends VALUES (i, CASE WHEN i % 2 = 0 THEN 'consume' ELSE 'cancel' END, r.outcome, r.consumed_at, over);
		-- and some more after it
		EXIT WHEN (SELECT count(*) FROM ends WHERE outcome = 'expired') = 20;
	END LOOP;
	LOOP
		begun := clock_timestamp();
		seen := (action_get('soon $soon')).state;
		INSERT INTO looks (state, before, after) VALUES (seen, begun, clock_timestamp());
		EXIT WHEN seen = 'expired';
	END LOOP;
END \$\$;
SQL
is($sql->(<<'SQL'), '0|0|0', 'looked at: active before expires_at, expired from then on');
SELECT count(*) FILTER (WHERE state = 'active' AND before >= expires_at),
	count(*) FILTER (WHERE state = 'expired' AND after < expires_at),
	count(*) FILTER (WHERE state NOT IN ('active', 'expired'))
FROM looks, (SELECT DISTINCT expires_at FROM ends) e
SQL
is($sql->(<<'SQL'), '0|0|0|0|20', 'used until it expires: before expires_at, and not after');
SELECT count(*) FILTER (WHERE outcome = 'consumed' AND at >= expires_at),
	count(*) FILTER (WHERE outcome <> 'expired' AND n > (SELECT min(n) FROM ends WHERE outcome = 'expired')),
	count(*) FILTER (WHERE outcome NOT IN ('expired', CASE what WHEN 'consume' THEN 'consumed' ELSE 'canceled' END)),
	count(*) - count(DISTINCT n),
	count(*) FILTER (WHERE outcome = 'expired')
FROM ends
SQL
my %ended;
$records = records($table);
foreach my $line (split /\n/, $sql->("SELECT n, what, outcome FROM ends"))
{
	my ($n, $what, $outcome) = split /\|/, $line;
	my $r = $records->{"ACTION#soon $n"};
	# who cancels makes sure
	my $truth = $outcome ne 'expired' ? "$outcome||0" : $what eq 'cancel' ? 'closed||0' : '||0';
	my $at = $r->{consumedAt} // $r->{canceledAt} // 0;
	$ended{ sum_up($r) eq $truth && $at < $r->{expiresAtMs} ? $outcome : 'wrong' }++;
}
is($ended{wrong}, undef, '... and DynamoDB holds what was said');
diag(join ', ', map { "$_ $ended{$_}" } sort keys %ended);

# ----- five hundred at once ---------------------------------------------------

control('POST', '/reset');
$sql->('CREATE UNLOGGED TABLE seen (round int, outcome text, payload jsonb)');
my $many = $node->basedir . '/many.sql';
append_to_file($many, "INSERT INTO seen SELECT :round, outcome, payload FROM action_consume('many ' || :round);\n");
create([ map { "many $_" } 1 .. 3 ]);
foreach my $round (1 .. 3)
{
	$start = time();
	command_ok([ 'pgbench', '-n', '-c', 500, '-j', 2, '-t', 1, '-D', "round=$round",
		'-f', $many, '-h', $node->host, '-p', $node->port, 'postgres' ], "round $round: five hundred consumers");
	diag(sprintf 'five hundred consumers took %.1f s', time() - $start);
	is($sql->("SELECT outcome, count(*), count(payload) FROM seen WHERE round = $round GROUP BY 1 ORDER BY 2"),
		"consumed|1|1\nalready_used|499|0", '... one consumes it');
}
is(control('GET', '/count?to=consumed'), "1500\n", '... by one request each');

# ----- another clock ----------------------------------------------------------

# last of all, as the server's sessions tell each other what they have learnt
create([ 'clock1', 'clock2', 'clock4' ], expires_at => timestamp(1800));
control('POST', '/reset');
control('POST', '/fault', '{"do":"date","seconds":3600,"strict":true,"times":0}');
is($sql->("SELECT outcome FROM action_consume('clock1')"), 'expired', 'expired by the clock of DynamoDB, which refused the first request');
is($sql->("SELECT outcome FROM action_cancel('clock2')"), 'expired', '... and for the next session');
is($sql->("SELECT outcome, round(extract(epoch FROM created_at - now()) / 60) FROM action_create('{}', id => 'clock3')"),
	'created|60', '... and it is by that clock that one is made');
# ... which is set right between a cancel and its making sure
control('POST', '/reset');
is(psql_ok($node, <<'SQL'), "expired\ncanceled\n", 'canceled, as it turns out that it has not expired');
SELECT state FROM action_get('clock4');
SELECT outcome FROM action_cancel('clock4');
SQL
$node->stop;


# ----- nothing leaks ----------------------------------------------------------

my %secret = (pin => 'pin-Rf7Kq2', wrong => 'pin-Zx4Tw9', long => 'pin-Hv8Lm3', pepper => 'pepper-Nd5Yb1Jc6', other => 'pepper-Ql9Gt4Mz0', key => 'key-Gp3Ws0Ua');
$node = new_node('leaks', table => 'tap_leaks', no_mapping => 1, options => ", pin_attempts '9'");
my $statements = $sql->("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'");
# what an operator writes into a statement is in the log; so this is before there is one
$sql->(<<"SQL");
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'test', secret_access_key '$secret{key}', pin_pepper '$secret{pepper}');
CREATE SERVER another FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table 'tap_leaks', endpoint '$ENV{EO_ENDPOINT}');
CREATE USER MAPPING FOR PUBLIC SERVER another
	OPTIONS (access_key_id 'test', secret_access_key '$secret{key}', pin_pepper '$secret{other}');
SELECT idem_create_table();
CREATE TABLE said (what text, words text);
SQL
$node->append_conf('postgresql.conf', <<"CONF");
shared_preload_libraries = '@{[ $statements ? 'pg_stat_statements, ' : '' ]}exactonce'
log_min_messages = debug5
log_statement = 'all'
log_duration = on
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
log_error_verbosity = verbose
compute_query_id = on
exactonce.log_requests = on
track_activity_query_size = 100kB
CONF
my $offset = -s $node->logfile;
$node->restart;
$sql->('CREATE EXTENSION pg_stat_statements') if $statements;

# A PIN that no statement spells: the function has it as a parameter.
sub unspelled
{
	my ($text) = @_;
	return join ' || ', map { 'chr(' . ord . ')' } split //, $text;
}
my ($pin, $wrong_pin) = map { unspelled($secret{$_}) } qw(pin wrong);
my $long_pin = 'repeat(' . unspelled($secret{long}) . ', 30)';
my @tokens = map { sprintf '%08x-feed-4bad-8cab-5eedfacade%02x', $_ * 0x01234567, $_ } 1 .. 9;
my $token = sub { '(' . unspelled($tokens[ $_[0] ]) . ')::uuid' };

# runs an expression in a block, and keeps what it says if it fails
sub block
{
	my ($what, $expression) = @_;
	return <<"SQL";
DO \$block\$
DECLARE
	pin text := $pin;
	wrong text := $wrong_pin;
	long text := $long_pin;
	word text;
	message text;
	detail text;
	hint text;
	context text;
BEGIN
	word := ($expression)::text;
	INSERT INTO said VALUES ('$what', word);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
		context = PG_EXCEPTION_CONTEXT;
	word := concat_ws(' ', message, detail, hint, context);
	INSERT INTO said VALUES ('$what', word);
	RAISE WARNING '%', word;
END \$block\$;
SQL
}

my @blocks = (
	[ 'create', "(action_create('{\"n\": 1}', pin => pin, id => 'leak')).outcome", 'created' ],
	[ 'create many', "(SELECT string_agg(outcome::text, ' ')
		FROM action_create_many(jsonb_build_array(jsonb_build_object('id', 'leak2', 'pin', pin), jsonb_build_object('id', 'leak3', 'pin', pin))))", 'created created' ],
	[ 'create a third', "(action_create(pin => pin, id => 'leak8')).outcome", 'created' ],
	[ 'create twice', "action_create(pin => pin, id => 'leak')", qr/exists already/ ],
	[ 'too long', "action_create(pin => long, id => 'leak4')", qr/pin is too long/ ],
	[ 'too long, of many', "(SELECT count(*) FROM action_create_many(jsonb_build_array(jsonb_build_object('pin', pin), jsonb_build_object('pin', long))))", qr/pin is too long/ ],
	[ 'no string', "(SELECT count(*) FROM action_create_many(jsonb_build_array(jsonb_build_object('pin', jsonb_build_array(pin)))))", qr/is not a string/ ],
	[ 'never', "action_create(pin => pin, id => 'leak5', expires_at => '2000-01-01')", qr/expires_at must be later/ ],
	[ 'none given', "(action_consume('leak')).outcome", 'invalid_pin' ],
	[ 'wrong', "(action_consume('leak', wrong, token => ${\ $token->(0)})).outcome", 'invalid_pin' ],
	[ 'long', "(action_consume('leak', long)).outcome", 'invalid_pin' ],
	[ 'attempt denied', "action_consume('leak', pin, token => ${\ $token->(1)})", qr/denied access/ ],
	[ 'attempt unknown', "action_consume('leak', pin, token => ${\ $token->(2)})", qr/unknown/ ],
	[ 'consume unknown', "action_consume('leak', pin, token => ${\ $token->(3)})", qr/unknown/ ],
	[ 'create denied', "action_create(pin => pin, id => 'leak6')", qr/denied access/ ],
	[ 'right', "(action_consume('leak', pin, token => ${\ $token->(4)})).outcome", 'consumed' ],
	[ 'again', "(action_consume('leak', pin, token => ${\ $token->(4)})).replayed", 'true' ],
	[ 'other', "(action_consume('leak', pin, token => ${\ $token->(5)})).outcome", 'already_used' ],
	[ 'get', "(action_get('leak')).state", 'consumed' ],
	[ 'cancel', "(action_cancel('leak2')).outcome", 'canceled' ]);
my %fault = (
	'attempt denied' => [ 'attempt', { do => 'answer', status => 400, code => 'AccessDeniedException' } ],
	'attempt unknown' => [ 'attempt', { do => 'drop', times => 0 } ],
	'consume unknown' => [ 'consumed', { do => 'drop', times => 0 } ],
	'create denied' => [ 'created', { do => 'answer', status => 400, code => 'AccessDeniedException' } ]);
my $told = '';
foreach my $block (@blocks)
{
	my ($what, $expression, $expected) = @$block;
	control('POST', '/reset');
	control('POST', '/fault', encode_json({ to => $fault{$what}[0], %{ $fault{$what}[1] } })) if $fault{$what};
	$told .= psql_ok($node, block($what, $expression));
	control('POST', '/reset');
	my $said = $sql->("SELECT words FROM said WHERE what = '$what'");
	ref $expected ? like($said, $expected, "log: $what") : is($said, $expected, "log: $what");
}

# an error that nobody catches, and one whose pepper is another
$told .= psql_ok($node, "SELECT outcome FROM action_create(pin => $long_pin);\n");
my $other = psql_ok($node, "SELECT outcome FROM action_consume('leak8', $pin, server => 'another');\n");
like($other, qr/ID007: .*another pin_pepper/, 'log: another pepper');
is($sql->("SELECT attempts_left FROM action_get('leak8')"), '9', '... which takes no attempt');
$told .= $other;

# as bind parameters, as a driver sends them
my $driver = $node->basedir . '/driver.sql';
append_to_file($driver, "SELECT outcome FROM action_consume('leak3', :pin, token => :token);\n");
foreach my $case ([ $secret{wrong}, $tokens[6], 0 ], [ $secret{pin}, 'not a token', 2 ], [ $secret{pin}, $tokens[7], 0 ])
{
	my $said = '';
	IPC::Run::run([ 'pgbench', '-n', '-M', 'extended', '-t', 1, '-D', "pin=$case->[0]", '-D', "token=$case->[1]", '-f', $driver,
		'-h', $node->host, '-p', $node->port, 'postgres' ], '<', \undef, '>&', \$said);
	is($? >> 8, $case->[2], 'log: with parameters');
	# PostgreSQL repeats what is no uuid, and it is no token either
	$told .= $said;
}
is($sql->("SELECT state, attempts_left FROM action_get('leak3')"), 'consumed|7', 'log: consumed by a driver');

# while it waits
control('POST', '/reset');
$sql->(block('made', "(action_create(pin => pin, id => 'leak7')).outcome"));
$run = hold('consumed', 'leak7', block('waits', "(action_consume('leak7', pin, token => ${\ $token->(8)})).outcome"));
my $activity = $sql->("SELECT string_agg(a::text, ' ') FROM pg_stat_activity a");
like($activity, qr/leak7/, 'a call is in pg_stat_activity');
control('POST', '/release');
$told .= finish_psql($run);
is($sql->("SELECT words FROM said WHERE what = 'waits'"), 'consumed', '... and goes on');

my %places = (
	'pg_stat_activity' => $activity,
	'what callers see' => $told . $sql->('SELECT string_agg(words, chr(10)) FROM said'));
SKIP:
{
	skip 'pg_stat_statements is not installed', 1 unless $statements;
	$places{'pg_stat_statements'} = $sql->("SELECT string_agg(query, chr(10)) FROM pg_stat_statements");
	like($places{'pg_stat_statements'}, qr/action_consume/, 'calls are in pg_stat_statements');
}
$records = records('tap_leaks');
$node->stop;
$places{'the log'} = substr slurp_file($node->logfile), $offset;
like($places{'the log'}, qr/DEBUG:.*exactonce: UpdateItem on server "exactonce"/s, 'the log says much');

# what DynamoDB alone may know
foreach my $id (qw(leak leak2 leak3 leak7 leak8))
{
	my $r = $records->{"ACTION#$id"};
	my (undef, undef, undef, undef, $salt, $hash) = split /\$/, $r->{pinHash};
	$secret{"salt of $id"} = $salt;
	$secret{"hash of $id"} = $hash;
	$secret{"created token of $id"} = $r->{createdToken};
	my $n = 0;
	# before a slash, behind which is the caller's
	$secret{"attempt " . ++$n . " of $id"} = (split m{/})[0] foreach @{ $r->{pinTokens} // [] };
}
$secret{"token $_"} = $tokens[$_] foreach 0 .. $#tokens;
is(scalar(grep { !defined || length() < 10 } values %secret), 0, 'the secrets are known, to be looked for');
cmp_ok(scalar(keys %secret), '>=', 6 + 3 * 5 + @tokens + 5, '... all of them');
foreach my $place (sort keys %places)
{
	# spelled as they are, or as bytes
	my @found = grep {
		my $hex = unpack 'H*', $secret{$_};
		index(lc $places{$place}, lc $secret{$_}) >= 0 || index(lc $places{$place}, $hex) >= 0
	} sort keys %secret;
	is("@found", '', "no secret in $place");
}
foreach my $id (qw(leak leak2 leak3 leak7 leak8))
{
	my %r = %{ $records->{"ACTION#$id"} };
	my $hash = delete $r{pinHash};
	like($hash, qr/^scrypt\$16384\$8\$1\$[0-9a-f]{32}\$[0-9a-f]{64}/, "$id: a hash is stored");
	my $rest = encode_json(\%r) . $hash;
	my @found = grep { index($rest, $secret{$_}) >= 0 } qw(pin wrong long pepper other key);
	is("@found", '', '... and no secret');
	my $elsewhere = encode_json(\%r);
	is(index($elsewhere, $secret{"hash of $id"}), -1, '... and the hash there only');
}
is($records->{'ACTION#leak'}{consumedToken}, $tokens[4], 'the token is stored');
done_testing();
