# The faults that a request or its answer can meet on the way, and how many calls are
# run under them.
package ExactOnce::Faults;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use ExactOnce;
use IPC::Run;
use JSON::PP;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(unseen_faults ending_faults fault_named run_under_faults);

# Faults that no caller sees: the answer is the one that would have come without
# them.  Each acts on the first request of a call.
my @unseen = (
	[ 'request lost', { do => 'drop' } ],
	[ 'answer lost', { do => 'lose' } ],
	[ 'answer lost twice', { do => 'lose', times => 2 } ],
	[ 'reset after it was applied', { do => 'reset' } ],
	[ 'request doubled', { do => 'twice' } ],
	[ 'request doubled, first answer counts', { do => 'twice', first => 1 } ],
	[ 'request late, answer lost', { do => 'delay', ms => 30 }, { do => 'lose' } ],
	[ 'answer without its body', { do => 'truncate', bytes => 0 } ],
	[ 'answer cut in its body', { do => 'truncate', bytes => 20 } ],
	[ 'answer garbled', { do => 'garble' } ],
	[ 'answer with a wrong checksum', { do => 'wrong_crc' } ],
	[ 'answer for another key', { do => 'other_key' } ],
	[ 'answer for another owner', { do => 'other_token' } ],
	[ 'refusal without the record', { do => 'no_item' } ],
	[ 'answer of HTML', { do => 'html' } ],
	[ 'answer of HTML, 404', { do => 'html', status => 404 } ],
	[ 'answer empty', { do => 'empty' } ],
	[ 'answer of three megabytes', { do => 'big' } ],
	[ 'answer with a head of a hundred kilobytes', { do => 'long_head' } ],
	[ 'answer nested deeply', { do => 'deep' } ],
	[ 'answer with a name twice', { do => 'duplicate' } ],
	[ 'answer with a NUL', { do => 'nul' } ],
	[ 'answer not UTF-8', { do => 'bad_utf8' } ],
	[ 'status 500', { do => 'answer' } ],
	[ 'status 500, applied', { do => 'answer', applied => 1 } ],
	[ 'status 503', { do => 'answer', status => 503, code => 'ServiceUnavailable' } ],
	[ 'throttled', { do => 'answer', status => 400, code => 'ProvisionedThroughputExceededException' } ],
	[ 'conflict', { do => 'answer', status => 400, code => 'TransactionConflictException' } ],
	[ 'redirect', { do => 'redirect' } ],
	[ 'Date six minutes off', { do => 'date', seconds => 360 } ]);

# Faults that end a call with an error, and whether its request was applied.
my $unknown = qr/ERROR:  ID006: .*(?:outcome is unknown|no answer)/;
my @ending = (
	[ 'access denied', 0,
		qr/ERROR:  ID007: .*denied access\nDETAIL:  DynamoDB answered AccessDeniedException: no policy\./,
		{ do => 'answer', status => 400, code => 'AccessDeniedException', message => 'no policy' } ],
	[ 'request invalid', 0, qr/ERROR:  ID007: .*refused the request/,
		{ do => 'answer', status => 400, code => 'ValidationException' } ],
	[ 'no such table', 0, qr/ERROR:  ID007: .*no such table/,
		{ do => 'answer', status => 400, code => 'ResourceNotFoundException' } ],
	[ 'always throttled', 0, qr/ERROR:  ID006: .*throttling/,
		{ do => 'answer', status => 400, code => 'ThrottlingException', times => 0 } ],
	[ 'always status 500', 0, $unknown, { do => 'answer', times => 0 } ],
	[ 'never an answer', 1, $unknown, { do => 'lose', times => 0 } ],
	[ 'answer lost, then access denied', 1, qr/ERROR:  ID006: .*outcome is unknown|could not read.*denied access/,
		{ do => 'lose' }, { do => 'answer', nth => 2, status => 400, code => 'AccessDeniedException' } ]);

# Both kinds: name, do (what the proxy does) and, of those that end the call, error
# (what it says) and applied.
sub unseen_faults
{
	return map { my ($name, @do) = @$_; { name => $name, do => \@do } } @unseen;
}

sub ending_faults
{
	return map { my ($name, $applied, $error, @do) = @$_;
		{ name => $name, do => \@do, error => $error, applied => $applied } } @ending;
}

sub fault_named
{
	my ($name) = @_;
	my ($found) = grep { $_->{name} eq $name } unseen_faults(), ending_faults();
	return $found // die "no fault is named '$name'";
}

# Runs many calls, each under faults of its own.  A case has id (by which the faults
# know its requests: no part of another id), fault, call and, if wanted, before (run
# without faults), only (which of its requests meet the faults) and after: names and
# statements, which are run without faults in this order.  The outputs are in
# $case->{said}, those of the call under the name "call".
#
# The cases run in some sessions beside each other, because most of their time they
# wait for the next attempt.  Those with a wrong Date all run in one session: two
# such answers in a row would be believed.
sub run_under_faults
{
	my ($node, @cases) = @_;
	my @scripts = map { '' } 1 .. 5;
	foreach my $n (0 .. $#cases)
	{
		my $wrong_date = grep { $_->{do} eq 'date' } @{ $cases[$n]{fault}{do} };
		$scripts[ $wrong_date ? 0 : $n % @scripts ] .= script_of_case($n, $cases[$n]);
	}
	my @outputs = run_with_errors_in_place($node, map { count_sockets($_) } @scripts);
	my $all = join '', @outputs;
	foreach my $n (0 .. $#cases)
	{
		my %after = @{ $cases[$n]{after} // [] };
		$cases[$n]{said} = {
			map { $_ => $all =~ /^>>$n $_\n(.*?)^>>$n end\n/ms ? $1 : '(no output)' } 'call', keys %after };
	}
	foreach my $output (@outputs)
	{
		my ($before, $after) = $output =~ /^>>sockets (\d+)$/mg;
		is($after, $before, 'no socket is left behind');
	}
	return;
}

sub script_of_case
{
	my ($n, $case) = @_;
	my $curl = '\! curl -s -X';
	my $ask = join ' --next -s -X ', map {
		my $json = encode_json({ %{ $case->{only} // {} }, %$_, key => $case->{id} });
		qq(POST "\$EO_CONTROL/fault" -d '$json');
	} @{ $case->{fault}{do} };
	my @after = @{ $case->{after} // [] };
	my $script = $case->{before} // '';
	$script .= "$curl $ask\n" . marked($n, 'call', $case->{call});
	$script .= qq($curl DELETE "\$EO_CONTROL/fault?key=$case->{id}"\n);
	$script .= marked($n, splice @after, 0, 2) while @after;
	return $script;
}

sub marked
{
	my ($n, $name, $statement) = @_;
	return "\\echo >>$n $name\n$statement;\n\\echo >>$n end\n";
}

# The script between two counts of the sockets of its backend, once it has made its
# first request.
sub count_sockets
{
	my ($script) = @_;
	my $count = q(\! echo ">>sockets $(ls -l /proc/$EO_PID/fd | grep -c socket:)") . "\n";
	return "SELECT count(*) FROM idem_get('first request');\nSELECT pg_backend_pid() AS pid \\gset\n"
	  . "\\setenv EO_PID :pid\n$count$script$count";
}

# Runs scripts beside each other and returns the output of each, with its errors
# where they happened: psql may not buffer its output for that.
sub run_with_errors_in_place
{
	my ($node, @scripts) = @_;
	my @psql = ('stdbuf', '-oL', 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'));
	my @runs = map {
		my %run = (out => '');
		$run{handle} = IPC::Run::start([ @psql, '-f', script_file($node, $_) ],
			'<', \undef, '>', \$run{out}, '2>&1');
		\%run;
	} @scripts;
	# All of them are pumped: one whose output nobody reads would stop.
	while (my @open = grep { $_->{handle}->pumpable } @runs)
	{
		$_->{handle}->pump_nb foreach @open;
		usleep(10_000);
	}
	$_->{handle}->finish foreach @runs;
	return map { without_places($_->{out}) } @runs;
}

1;
