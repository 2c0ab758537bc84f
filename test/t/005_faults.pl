# Every fault on every function: what the caller sees, and what the record is.
#
# Most faults must not be seen at all: the answer is the one that would have
# come without them.  The whole table runs in one session, which ends with as
# many open descriptors as it had after its first call.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use Test::More;

my $table = 'tap_faults';
my $node = new_node('faults', table => $table, options => ", request_timeout '3s', clock_skew '0'");

my $past = (time() - 60) * 1000;
my $put = q{\! curl -s -o /dev/null "$EO_ENGINE" -H 'X-Amz-Target: DynamoDB_20120810.PutItem' -H 'Content-Type: application/x-amz-json-1.0' -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' -d '} .
  qq({"TableName":"$table","Item":{"pk":{"S":"IDEMPOTENCY#KEY"},"status":{"S":"IN_PROGRESS"},"owner":{"S":"dead"},"lease_ms":{"N":"$past"},"runs":{"N":"1"},"fence":{"N":"5"}}}') . "\n";

# name, what goes before, the call, its answer, and the record afterwards
my @functions = (
	[ 'acquire', '', q{SELECT outcome, run, mine FROM idem_acquire('KEY')},
		'acquired|1|t', 'IN_PROGRESS|1' ],
	[ 'retry', q{DO $$BEGIN PERFORM idem_acquire('KEY'); PERFORM idem_fail('KEY'); END$$;},
		q{SELECT outcome, run, mine FROM idem_acquire('KEY')}, 'acquired|2|t', 'IN_PROGRESS|2' ],
	[ 'take-over', $put, q{SELECT outcome, run, fence > 5 FROM idem_acquire('KEY')},
		'acquired|2|t', 'IN_PROGRESS|2' ],
	[ 'duplicate', q{DO $$BEGIN PERFORM idem_acquire('KEY'); PERFORM idem_complete('KEY', '"r"'); END$$;},
		q{SELECT outcome, run, result FROM idem_acquire('KEY')}, 'completed|1|"r"', 'COMPLETED|1|"r"' ],
	[ 'complete', q{DO $$BEGIN PERFORM idem_acquire('KEY'); END$$;},
		q{SELECT idem_complete('KEY', '"r"', immediate => true)}, '', 'COMPLETED|1|"r"' ],
	[ 'fail', q{DO $$BEGIN PERFORM idem_acquire('KEY'); END$$;},
		q{SELECT idem_fail('KEY', '"e"')}, '', 'FAILED|1' ],
	[ 'release', q{DO $$BEGIN PERFORM idem_acquire('KEY'); END$$;},
		q{SELECT idem_release('KEY')}, 't', 'FAILED|0' ],
	[ 'extend', q{DO $$BEGIN PERFORM idem_acquire('KEY'); END$$;},
		q{SELECT idem_extend('KEY', '1 hour') > now() + '59 min'}, 't', 'IN_PROGRESS|1' ],
	[ 'get', q{DO $$BEGIN PERFORM idem_acquire('KEY'); PERFORM idem_complete('KEY', '"r"'); END$$;},
		q{SELECT status, result FROM idem_get('KEY')}, 'COMPLETED|"r"', 'COMPLETED|1|"r"' ],
	[ 'forget', q{DO $$BEGIN PERFORM idem_acquire('KEY'); PERFORM idem_complete('KEY', '"r"'); END$$;},
		q{SELECT idem_forget('KEY')}, 't', 'FAILED|0' ]);

# Faults nobody sees, each on the first request of the call unless it says
# otherwise.  Those marked "success" alter a reply in ways that a refusal, which
# bears no checksum, could not show.
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
	[ 'garbled', '{"do":"garble"}', 'success' ],
	[ 'wrong checksum', '{"do":"wrong_crc"}' ],
	[ 'for another key', '{"do":"other_key"}' ],
	[ 'for another token', '{"do":"other_token"}', 'success' ],
	[ 'no record in a refusal', '{"do":"no_item"}' ],
	[ 'a page of HTML', '{"do":"html"}' ],
	[ 'not found', '{"do":"html","status":404}' ],
	[ 'an empty body', '{"do":"empty"}' ],
	[ 'two megabytes', '{"do":"big"}' ],
	[ 'deep JSON', '{"do":"deep"}' ],
	[ 'a name twice', '{"do":"duplicate"}' ],
	[ 'a NUL', '{"do":"nul"}' ],
	[ 'not UTF-8', '{"do":"bad_utf8"}' ],
	[ '500', '{"do":"answer"}' ],
	[ '500, applied', '{"do":"answer","applied":true}' ],
	[ '503', '{"do":"answer","status":503,"code":"ServiceUnavailable"}' ],
	[ 'throttled', '{"do":"answer","status":400,"code":"ProvisionedThroughputExceededException"}' ],
	[ 'a conflicting write', '{"do":"answer","status":400,"code":"TransactionConflictException"}' ],
	[ 'redirected', '{"do":"redirect"}' ],
	[ 'a date six minutes off', '{"do":"date","seconds":360}' ]);

# Faults that end the call: the SQLSTATE, a word of the message, and whether
# the request was applied.
my @seen = (
	[ 'access denied', '{"do":"answer","status":400,"code":"AccessDeniedException","message":"no policy"}',
		qr/ERROR:  ID007: .*denied access\nDETAIL:  DynamoDB answered AccessDeniedException: no policy\./, 0 ],
	[ 'invalid', '{"do":"answer","status":400,"code":"ValidationException"}', qr/ERROR:  ID007: .*refused the request/, 0 ],
	[ 'no table', '{"do":"answer","status":400,"code":"ResourceNotFoundException"}', qr/ERROR:  ID007: .*no such table/, 0 ],
	[ 'throttled for good', '{"do":"answer","status":400,"code":"ThrottlingException","times":0}', qr/ERROR:  ID006: .*throttling/, 0 ],
	[ 'always 500', '{"do":"answer","times":0}', qr/ERROR:  ID006: .*(?:outcome is unknown|no answer)/, 0 ],
	[ 'never an answer', '{"do":"lose","times":0}', qr/ERROR:  ID006: .*(?:outcome is unknown|no answer)/, 1 ],
	[ 'lost, then denied', '{"do":"lose"}', '{"do":"answer","nth":2,"status":400,"code":"AccessDeniedException"}',
		qr/ERROR:  ID006: .*outcome is unknown|could not read.*denied access/, 1 ]);

my ($script, @cases) = ('');
my $sockets = q(\! echo ">>sockets $(ls -l /proc/$EO_PID/fd | grep -c socket:)") . "\n";
$script .= "SELECT count(*) FROM idem_get('warm up');\nSELECT pg_backend_pid() AS pid \\gset\n\\setenv EO_PID :pid\n$sockets";
foreach my $f (@functions)
{
	foreach my $fault (@unseen)
	{
		my ($what, @do) = @$fault;
		my $success_only = grep { $_ eq 'success' } @do;
		next if $success_only && $f->[0] eq 'duplicate';
		add_case($f, $what, [ grep { $_ ne 'success' } @do ]);
	}
	add_case($f, $_->[0], [ grep { /^\{/ } @$_ ]) foreach @seen;
}
$script .= $sockets;

sub add_case
{
	my ($f, $what, $faults) = @_;
	my $n = @cases;
	my ($name, $before, $call) = @$f;
	my $key = "k$n";
	my $text = "$before\n" . '\! curl -s -X POST "$EO_CONTROL/reset"' . "\n";
	foreach my $fault (@$faults)
	{
		# forget reads before it writes: it is the write that is attacked
		my $op = $name eq 'forget' ? '"op":"UpdateItem",' : '';
		(my $json = $fault) =~ s/^\{/{"key":"$key",$op/;
		$text .= qq(\\! curl -s -X POST "\$EO_CONTROL/fault" -d '$json'\n);
	}
	# one stream for answers and errors: psql's \warn would go the other way
	$text .= "\\echo >>call $n\n$call;\n\\echo :LAST_ERROR_SQLSTATE\n" . '\! curl -s -X POST "$EO_CONTROL/reset"' . "\n";
	$text .= "\\echo >>again $n\n$call;\n";
	$text .= "\\echo >>record $n\nSELECT status, runs, result FROM idem_get('KEY');\n\\echo >>end $n\n";
	$text =~ s/KEY/$key/g;
	$script .= $text;
	push @cases, { function => $f, fault => $what };
}

# Answers and errors in one stream, in their order: so psql may not hold its
# output back.
my $file = $node->basedir . '/faults.sql';
PostgreSQL::Test::Utils::append_to_file($file, $script);
my $out = '';
IPC::Run::run([ 'stdbuf', '-oL', 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', $file ],
	'<', \undef, '>', \$out, '2>&1');
$out =~ s/^psql:\S+:\d+: //mg;
$out =~ s/^LOCATION:.*\n//mg;

my %seen_by_name = map { $_->[0] => $_ } @seen;
for my $n (0 .. $#cases)
{
	my ($name, undef, undef, $answer, $record) = @{ $cases[$n]{function} };
	my $what = $cases[$n]{fault};
	my ($call, $again, $after) = $out =~
	  /^>>call $n\n(.*?)^\w{5}\n>>again $n\n(.*?)^>>record $n\n(.*?)^>>end $n\n/ms;
	($call, $again, $after) = map { $_ // '(no output)' } $call, $again, $after;
	chomp($call, $again, $after);
	$after =~ s/\|$//;
	if (my $seen = $seen_by_name{$what})
	{
		my (undef, undef, @rest) = @$seen;
		my ($pattern) = grep { ref } @rest;
		like($call, $pattern, "$name: $what");
		# the next call finds out, and ends as if nothing had been
		is($again, $answer, "$name: $what, and again");
	}
	else
	{
		is($call, $answer, "$name: $what");
	}
	is($after, $record, "$name: $what, the record");
}
my @sockets = $out =~ /^>>sockets (\d+)$/mg;
is($sockets[1], $sockets[0], 'no socket is left behind');
$node->stop;
done_testing();
