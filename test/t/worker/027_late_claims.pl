# Claims whose requests arrive when nobody waits for them any more: the worker looks
# again until none can come, and nothing makes it forget that.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_late_claims';
my %options = (table => $table, commit_timeout => '20s', request_timeout => '20s', clock_skew => 0);
# On an idle machine, looks after 50 ms, 600 ms and 9 s.
my $hurry = hurry(100);
my $node = new_node('late_claims', options => \%options, conf => "exactonce.test_hurry = $hurry\nmax_prepared_transactions = 2\n");
sweep_nothing($table);
my $record = sub { record($table, $_[0]) // { status => 'none', owner => '' } };

sub put
{
	my ($key, %attributes) = @_;
	put_record($table, $key, owner => 'somebody', fence => 1, runs => 1, updated_ms => 1, %attributes);
	return;
}

sub put_failed
{
	my ($key) = @_;
	put($key, status => 'FAILED', retry_ms => 0);
	return;
}

# Requests on a key that were to lead to a state and have been answered so.
sub answered
{
	my ($key, $to, $status) = @_;
	return scalar(grep { $_->{key} eq "IDEMPOTENCY#$key" && $_->{status} =~ /^$status$/ } requests(key => $key, to => $to));
}

# Holds the nth request of a call that is to lead to a state, and cancels the call.
sub cancel_held
{
	my ($node, $key, $call, $to, $nth) = @_;
	fault(key => $key, to => $to, do => 'hold', nth => $nth);
	my $run = start_script($node, "SELECT $call('$key');");
	await_request(key => $key, to => $to, n => $nth);
	$node->safe_psql('postgres', <<"SQL");
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT $call%' AND state = 'active'
SQL
	like(finish_script($run), qr/57014/, "$key is cancelled");
	return;
}

# Lets the held request go once the worker has written so many times, and waits
# until what it has left is undone.
sub let_go
{
	my ($key, $to, $writes) = @_;
	wait_until("$key: the worker has been there $writes times",
		sub { answered($key, 'FAILED', '\d+') >= $writes });
	release_held();
	wait_until("$key: its request arrives, and takes effect", sub { answered($key, $to, 200) == 1 });
	wait_until("$key: the worker undoes what the late request did", sub {
		my $r = $record->($key);
		return $r->{status} eq 'FAILED' && $r->{owner} ne 'somebody';
	});
	return;
}

# ----- a seal whose key somebody has failed: nobody is committing it ----------

foreach my $writes (1 .. 3)
{
	my $key = "failed by others $writes";
	reset_proxy();
	put_failed($key);
	cancel_held($node, $key, 'idem_once', 'COMMITTING', 1);
	let_go($key, 'COMMITTING', $writes);
	is($record->($key)->{runs}, '1', "$key: no run is counted");
	is($node->safe_psql('postgres', "SELECT outcome, run FROM idem_acquire('$key')"), 'acquired|2',
		"$key: anybody can have it");
	wait_until("$key: the worker looks until no request can come any more", sub {
		$node->safe_psql('postgres', <<"SQL") eq '0';
SELECT count(*) FROM exactonce_claims WHERE key = '$key' AND state = 'second look'
SQL
	});
	is(answered($key, 'FAILED', '\d+'), 4,
		"$key: the worker looks after 5 seconds, a minute and a quarter of an hour");
	is($record->($key)->{status}, 'IN_PROGRESS', "$key: the looks are in no way of another run");
}

# ----- a seal whose key was buried, taken and failed meanwhile ----------------

reset_proxy();
cancel_held($node, 'buried and taken', 'idem_once', 'COMMITTING', 1);
wait_until('buried and taken: its key is buried', sub { $record->('buried and taken')->{status} eq 'FAILED' });
put_failed('buried and taken');
let_go('buried and taken', 'COMMITTING', 2);

# ----- a seal that replaces a record past its time ----------------------------

reset_proxy();
put('past its time', status => 'COMPLETED', ttl => int(time() - 3600));
cancel_held($node, 'past its time', 'idem_once', 'COMMITTING', 2);
let_go('past its time', 'COMMITTING', 2);

# ----- an acquire -------------------------------------------------------------

reset_proxy();
put_failed('acquired');
cancel_held($node, 'acquired', 'idem_acquire', 'IN_PROGRESS', 1);
let_go('acquired', 'IN_PROGRESS', 2);

# ----- seals of one claim, which outlives them --------------------------------

# Completes a claim, in a transaction whose seal is held, and cancels it.
sub cancel_seal
{
	my ($key, $token, $n) = @_;
	fault(key => $key, to => 'COMMITTING', do => 'hold');
	my $run = start_script($node, "BEGIN;\nSELECT idem_complete('$key', '$n', token => '$token');\nCOMMIT;\n");
	await_request(key => $key, to => 'COMMITTING', n => $n);
	cancel_commit($node);
	like(finish_script($run), qr/57014/, "$key: seal $n is cancelled");
	return;
}

sub keep
{
	my ($key) = @_;
	reset_proxy();
	return $node->safe_psql('postgres', "SELECT token FROM idem_acquire('$key', lease => '10 min')");
}

# The seals arrive when all is over, and change nothing.
sub seals_are_refused
{
	my ($key, $seals) = @_;
	is($record->($key)->{status}, 'IN_PROGRESS', "$key: the claim stands");
	release_held();
	wait_until("$key: late seals are refused", sub { answered($key, 'COMMITTING', 400) == $seals });
	is($record->($key)->{status}, 'IN_PROGRESS', "$key: the claim stands further on");
	return;
}

my $token = keep('one after the other');
cancel_seal('one after the other', $token, $_) foreach 1, 2, 3;
wait_until('one after the other: three seals are taken back', sub { answered('one after the other', 'IN_PROGRESS', 200) == 4 });
seals_are_refused('one after the other', 3);
$node->safe_psql('postgres', "BEGIN; SELECT idem_complete('one after the other', '4', token => '$token'); COMMIT");
settled($node);
is($record->('one after the other')->{status}, 'COMPLETED', 'one after the other: it can be completed');

# Several claims, whose seals are taken back in a batch, the second time from records that note one.
reset_proxy();
my @many = map { "many $_" } 1 .. 6;
my %token = map { split /\|/ } split /\n/, $node->safe_psql('postgres',
	"SELECT key, token FROM idem_acquire_many(ARRAY['" . join("','", @many) . "'], on_commit => 'keep', lease => '10 min')");
my $run;
foreach my $n (1, 2)
{
	fault(key => 'many', to => 'COMMITTING', do => 'hold', times => 6);
	$run = start_script($node, "BEGIN;\n" . join('', map { "SELECT idem_complete('$_', '$n', token => '$token{$_}');\n" } @many) . "COMMIT;\n");
	await_request(key => 'many', to => 'COMMITTING', n => 6 * $n);
	cancel_commit($node);
	like(finish_script($run), qr/57014/, "many: their seals are cancelled, $n");
	settled($node);
}
my $undone = sub {
	my $item = dynamodb(GetItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$_[0]" } }, ConsistentRead => JSON::PP::true });
	return scalar @{ $item->{Item}{undone}{SS} // [] };
};
is(join(' ', map { $undone->($_) } @many), '2 2 2 2 2 2', 'many: each record notes two undone seals');
release_held();
wait_until('many: late seals are refused', sub { count_requests(key => 'many', to => 'COMMITTING', status => 400) == 12 });

# Notes so many undone seals in a record, as if they had been taken back.
sub wear
{
	my ($key, $n) = @_;
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "IDEMPOTENCY#$key" } },
		UpdateExpression => 'ADD undone :d', ExpressionAttributeValues => { ':d' => { SS => [ map { "origin/$_" } 1 .. $n ] } } });
	return;
}

# So many notes of undone seals are enough.
$token = keep('not worn');
wear('not worn', 198);
cancel_seal('not worn', $token, 1);
settled($node);
is($undone->('not worn'), 199, 'not worn: the undone seal is noted');
seals_are_refused('not worn', 1);

# The worker gives the claim back, or the session does, which settles what its last transaction has left.
foreach my $key ('worn', 'worn at once')
{
	my $worker = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
	$token = keep($key);
	wear($key, 199);
	fault(key => $key, to => 'COMMITTING', do => 'hold');
	$run = start_script($node, <<"SQL" . halt_until($key) . <<"SQL");
BEGIN;
SELECT idem_complete('$key', '1', token => '$token');
COMMIT;
SQL
SELECT idem_complete('$key', '2', token => '$token');
SQL
	await_request(key => $key, to => 'COMMITTING');
	kill 'STOP', $worker if $key ne 'worn';
	cancel_commit($node);
	settled($node) if $key eq 'worn';
	go_on($key);
	like(finish_script($run), qr/57014.*ERROR:  ID002/s, "$key: the claim is lost to the session whose commit has failed");
	kill 'CONT', $worker;
	is($record->($key)->{status}, 'FAILED', "$key: the claim is given back");
	my @said = slurp_file($node->logfile) =~ /a claim on table "$table" was given back, because too many of its commits have failed/g;
	is(@said, $key eq 'worn' ? 1 : 2, '... which the log says');
	my $refused = answered($key, 'COMMITTING', 400);
	release_held();
	wait_until("$key: the late seal is refused", sub { answered($key, 'COMMITTING', 400) == $refused + 1 });
	is($node->safe_psql('postgres', "BEGIN; SELECT outcome FROM idem_acquire('$key'); SELECT idem_complete('$key'); COMMIT"), "acquired\n",
		"$key: the next run gets the key");
	settled($node);
	is($record->($key)->{status} . $undone->($key), 'COMPLETED0', '... and its record has no notes');
}

# A transaction in another database has sealed the record when the seal is to be taken back.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION exactonce; ' . server_sql('exactonce', %options));
$token = keep('one under the other');
fault(key => 'under the other', to => 'IN_PROGRESS', do => 'drop', times => 0);
cancel_seal('one under the other', $token, 1);
$node->safe_psql('other', "BEGIN; SELECT idem_complete('one under the other', '2', token => '$token'); PREPARE TRANSACTION 'other'");
is($record->('one under the other')->{status}, 'COMMITTING', 'one under the other: another transaction is prepared');
end_fault('under the other');
wait_until('one under the other: the first seal is settled', sub {
	$node->safe_psql('postgres', "SELECT count(*) FROM exactonce_claims WHERE key = 'one under the other' AND state = 'ending'") eq '0' });
$node->safe_psql('other', "ROLLBACK PREPARED 'other'");
wait_until('one under the other: the second is taken back', sub { $record->('one under the other')->{status} eq 'IN_PROGRESS' });
seals_are_refused('one under the other', 1);

# The other transaction is rolled back, and the seal arrives, before the note does.  The note is refused
# by a record that is sealed as the note would leave it, by the very seal.
$token = keep('noted late');
fault(key => 'noted', to => 'IN_PROGRESS', do => 'drop', times => 0);
fault(key => 'late', to => 'noted', do => 'drop', times => 0);
cancel_seal('noted late', $token, 1);
$node->safe_psql('other', "BEGIN; SELECT idem_complete('noted late', '2', token => '$token'); PREPARE TRANSACTION 'other'");
end_fault('noted');
await_request(key => 'noted late', to => 'noted');
$node->safe_psql('other', "ROLLBACK PREPARED 'other'");
wait_until('noted late: the second seal is taken back', sub { $record->('noted late')->{status} eq 'IN_PROGRESS' });
release_held();
wait_until('noted late: the first seal gets through', sub { $record->('noted late')->{status} eq 'COMMITTING' });
end_fault('late');
wait_until('noted late: it is taken back, too', sub { $record->('noted late')->{status} eq 'IN_PROGRESS' });
settled($node);
is($record->('noted late')->{status}, 'IN_PROGRESS', 'noted late: the claim stands');

# Seals of a server that is killed, of which only their records tell the next run.
reset_proxy();
%token = map { $_ => keep($_) } 'left worn', 'left not worn';
wear('left worn', 200);
wear('left not worn', 199);
fault(key => 'left', to => 'COMMITTING', do => 'stay', times => 2);
my @runs = map { start_script($node, "SELECT idem_complete('$_', '1', token => '$token{$_}');\n") } sort keys %token;
wait_until('left: both keys are sealed', sub { 2 == grep { $record->($_)->{status} eq 'COMMITTING' } keys %token });
crash($node);
unlink $node->data_dir . '/exactonce_claims';
reset_proxy();
finish_script($_) foreach @runs;
$node->start;
$node->safe_psql('postgres', "SELECT idem_once('of the next run')");
wait_until('left: the seals are taken back', sub { 0 == grep { $record->($_)->{status} eq 'COMMITTING' } keys %token });
is($record->('left not worn')->{status} . $undone->('left not worn'), 'IN_PROGRESS200', 'left: a claim with 200 notes stands');
is($record->('left worn')->{status}, 'FAILED', 'left: one that had so many is given back');
settled($node);

like(slurp_file($node->logfile), qr/WARNING:  exactonce\.test_hurry is $hurry/, 'a hurry is warned of');
$node->stop;

# ----- no room ----------------------------------------------------------------

# On an idle machine, looks after 500 ms, 6 s and 90 s, which take nothing of a role's share.
$node = new_node('full', options => \%options,
	conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nexactonce.max_claims = 100\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $looks = "SELECT string_agg(key, ', ' ORDER BY key) FROM exactonce_claims WHERE state = 'second look'";
put_failed($_) foreach 'late acquire', 'late seal';
cancel_held($node, 'late acquire', 'idem_acquire', 'IN_PROGRESS', 1);
cancel_held($node, 'late seal', 'idem_once', 'COMMITTING', 1);
wait_until('both have been looked at three times', sub {
	answered('late acquire', 'FAILED', 400) == 3 && answered('late seal', 'FAILED', 400) == 3 });
is($sql->($looks), 'late acquire, late seal', 'both will be looked at once more');
my $out = run_script($node, <<'SQL');
BEGIN;
SELECT count(idem_acquire('fill' || i)) FROM generate_series(1, 25) i;
SELECT idem_acquire('fill26');
ROLLBACK;
SQL
like($out, qr/^25\n.*ERROR:  54000: no room for a claim on key "fill26"/ms,
	'a role that may have 25 claims has room for 25');
is($sql->($looks), 'late acquire, late seal', 'no room: the looks have room of their own');
settled($node);
release_held();
wait_until('no room: the late seal takes effect', sub { $record->('late seal')->{status} eq 'COMMITTING' });
$node->restart;
wait_until('no room: a start of the server looks at once', sub { $record->('late seal')->{status} eq 'FAILED' });
like($sql->($looks), qr/late seal/, 'no room: it will look again');
stop_without_crash($node);
done_testing();
