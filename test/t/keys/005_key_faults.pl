# Every fault on every function of keys: what the caller sees, what the same call
# says next, and what the record is then.  A session that has met them all has as
# many open sockets as after its first call.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Faults;
use Test::More;

my $table = 'tap_key_faults';
my $node = new_node('key_faults', options => { request_timeout => '3s', clock_skew => 0 });

# What there is before the call.  The worker must have written the end of the
# transaction, so that it is the call that meets the fault.
$node->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE acquired(k text) LANGUAGE plpgsql AS 'BEGIN PERFORM idem_acquire(k); END';
CREATE PROCEDURE failed(k text) LANGUAGE plpgsql AS 'BEGIN CALL acquired(k); PERFORM idem_fail(k); END';
CREATE PROCEDURE completed(k text) LANGUAGE plpgsql AS 'BEGIN CALL acquired(k); PERFORM idem_complete(k, ''"r"''); END';
CREATE PROCEDURE await_worker(k text) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 6000 LOOP
		IF NOT EXISTS (SELECT FROM exactonce_pending WHERE key = k)
		   AND NOT EXISTS (SELECT FROM exactonce_claims WHERE key = k AND state = 'ending') THEN
			RETURN;
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE 'the worker has not finished';
END $$;
SQL
my %before = (
	acquired => "CALL acquired('KEY');\n",
	failed => "CALL failed('KEY'); CALL await_worker('KEY');\n",
	completed => "CALL completed('KEY'); CALL await_worker('KEY');\n");

# The call, its answer, and status, runs and result of the record afterwards.
my @functions = (
	{ name => 'acquire', call => q{SELECT outcome, run, mine FROM idem_acquire('KEY')},
		answer => 'acquired|1|t', record => 'IN_PROGRESS|1' },
	{ name => 'acquire what failed', before => 'failed', call => q{SELECT outcome, run, mine FROM idem_acquire('KEY')},
		answer => 'acquired|2|t', record => 'IN_PROGRESS|2' },
	{ name => 'take over', before => 'dead', call => q{SELECT outcome, run, fence > 5 FROM idem_acquire('KEY')},
		answer => 'acquired|2|t', record => 'IN_PROGRESS|2' },
	# What is only wrong in the answer to a write that succeeds means nothing here.
	{ name => 'acquire what is completed', before => 'completed',
		call => q{SELECT outcome, run, result FROM idem_acquire('KEY')},
		skip => [ 'answer garbled', 'answer for another owner' ],
		answer => 'completed|1|"r"', record => 'COMPLETED|1|"r"' },
	{ name => 'complete', before => 'acquired', call => q{SELECT idem_complete('KEY', '"r"', immediate => true)},
		answer => '', record => 'COMPLETED|1|"r"' },
	{ name => 'fail', before => 'acquired', call => q{SELECT idem_fail('KEY', '"e"')},
		answer => '', record => 'FAILED|1' },
	{ name => 'release', before => 'acquired', call => q{SELECT idem_release('KEY')},
		answer => 't', record => 'FAILED|0' },
	{ name => 'extend', before => 'acquired', call => q{SELECT idem_extend('KEY', '1 hour') > now() + '59 min'},
		answer => 't', record => 'IN_PROGRESS|1' },
	{ name => 'note progress', before => 'acquired',
		call => q{SELECT idem_extend('KEY', '1 hour', progress => '{"n": 1}') > now() + '59 min'},
		answer => 't', record => 'IN_PROGRESS|1|{"n": 1}' },
	{ name => 'get', before => 'completed', call => q{SELECT status, result FROM idem_get('KEY')},
		answer => 'COMPLETED|"r"', record => 'COMPLETED|1|"r"' },
	# It reads before it writes: the write is attacked.
	{ name => 'forget', before => 'completed', call => q{SELECT idem_forget('KEY')}, only => { op => 'UpdateItem' },
		answer => 't', record => 'FAILED|0' });

my @cases;
foreach my $function (@functions)
{
	foreach my $fault (unseen_faults(), ending_faults())
	{
		next if grep { $_ eq $fault->{name} } @{ $function->{skip} // [] };
		my $id = sprintf 'k%03d', scalar @cases;
		my ($call, $before) = map { s/KEY/$id/gr } $function->{call}, $before{ $function->{before} // '' } // '';
		put_record($table, $id, status => 'IN_PROGRESS', owner => 'dead', lease_ms => (time() - 60) * 1000,
			runs => 1, fence => 5)
		  if ($function->{before} // '') eq 'dead';
		push @cases, { function => $function, fault => $fault, id => $id, only => $function->{only},
			before => $before, call => $call,
			after => [ again => $call, record => "SELECT status, runs, coalesce(result, progress) FROM idem_get('$id')" ] };
	}
}
run_under_faults($node, @cases);
foreach my $case (@cases)
{
	my ($function, $fault, $said) = @{$case}{qw(function fault said)};
	my $what = "$function->{name}: $fault->{name}";
	chomp(my ($call, $again, $record) = @{$said}{qw(call again record)});
	# An answer that is too long to be read is definite, for a read and for a refused write.
	my $error = $what =~ /^(?:get|acquire what is completed): answer of three megabytes$/ ? qr/ID007/ : $fault->{error};
	if ($error)
	{
		like($call, $error, "$what: the error");
		is($again, $function->{answer}, "$what: the next call, as if nothing had been");
	}
	else
	{
		is($call, $function->{answer}, "$what: the answer");
	}
	is($record =~ s/\|$//r, $function->{record}, "$what: the record");
}
fault(key => 'long head', do => 'long_head', times => 0);
like(run_script($node, "SELECT idem_get('long head');\n"), qr/ERROR:  ID006: .*\nDETAIL:  .*the head of the reply is larger than 65536 bytes/,
	'a head that does not end is not read to its end');
stop_without_crash($node);
done_testing();
