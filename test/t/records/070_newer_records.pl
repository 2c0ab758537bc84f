# Records that a newer version has written, in a state that this one does not know: every function
# refuses them and says why, nothing changes them, and what was unfinished goes on once the newer
# version has.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_newer_records';
my $node = new_node('newer_records', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\n",
	options => { clock_skew => 0, transact_tables => $table, commit_timeout => '20 s' });
sweep_nothing($table);
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
my $token = '11111111-2222-4333-8444-555555555555';

# A record in the new state whose every attribute invites to take it: its owner asks, its lease is
# over, it may be tried again, and its time is long past.
sub put_new
{
	my ($key, %more) = @_;
	put_record($table, $key, status => 'PARKED', owner => $token, bind => 'keep', fence => 1, runs => 1,
		lease_ms => 1000, retry_ms => 0, created_ms => 1000, updated_ms => 1000, ttl => 1000, result => '"old"', parked_for => 'review', %more);
	return;
}

sub said
{
	my ($text) = @_;
	return run_script($node, "$text;\n");
}

my $refused = qr/ERROR:  ID007: [^\n]*: the record cannot be read\nDETAIL:  (?:The transaction was rolled back\. )?Its status PARKED is not known to this version, which leaves it as it is\.[^\n]*\nHINT:  [^\n]*newer version of exactonce/;

# ----- keys -----------------------------------------------------------------------------

my $writes = qq('[{"Put": {"TableName": "$table", "Item": {"pk": "written"}}}]');
my %calls = map { $_->[0] => $_->[1] } (
	[ acquire => q(SELECT idem_acquire('KEY')) ],
	[ try => q(SELECT idem_start('KEY')) ],
	[ many => q(SELECT * FROM idem_acquire_many(ARRAY['KEY', 'other of KEY'])) ],
	[ once => q(SELECT idem_once('KEY')) ],
	[ 'once with others' => q(BEGIN; SELECT idem_once('KEY'); SELECT idem_once('beside KEY'); COMMIT) ],
	[ transact => qq(SELECT idem_transact('KEY', $writes, '1')) ],
	[ get => q(SELECT idem_get('KEY')) ],
	[ forget => q(SELECT idem_forget('KEY')) ],
	[ complete => qq(SELECT idem_complete('KEY', '1', token => '$token')) ],
	[ 'complete now' => qq(SELECT idem_complete('KEY', '1', token => '$token', immediate => true)) ],
	[ fail => qq(SELECT idem_fail('KEY', '1', token => '$token', immediate => true)) ],
	[ release => qq(SELECT idem_release('KEY', token => '$token')) ],
	[ extend => qq(SELECT idem_extend('KEY', '1 hour', token => '$token')) ],
	[ resolve => q(SELECT idem_resolve('KEY', 'failed')) ]);
foreach my $name (sort keys %calls)
{
	my $key = "new, $name";
	put_new($key);
	my $before = record($table, $key);
	(my $call = $calls{$name}) =~ s/KEY/$key/g;
	like(said($call), $refused, "$name refuses a state that is not known");
	settled($node);
	is_deeply(record($table, $key), $before, "$name: and leaves the record as it is");
}
is(record($table, 'beside new, once with others')->{status}, 'FAILED', 'a key of the same transaction is given back');
is(item($table, 'written'), undef, 'idem_transact() has written nothing');
is($sql->("SELECT count(*) FROM idem_list() WHERE key LIKE 'new%'"), '0', 'idem_list() lists none of them');
is($sql->('SELECT count(*) FROM idem_audit()'), '0', 'and they do not hinder idem_audit()');

# ----- a claim whose record gets the state ----------------------------------------------

my $run = start_script($node, "BEGIN;\nSELECT idem_acquire('claimed');\nSELECT idem_complete('claimed', '1');\n" . say_in_script('ready')
	  . halt_until('parked') . "COMMIT;\n");
await_word('ready');
my $claim = record($table, 'claimed');
put_record($table, 'claimed', %$claim, status => 'PARKED');
go_on('parked');
like(finish_script($run), $refused, 'a commit fails if its record got a state that is not known');
is(record($table, 'claimed')->{status}, 'PARKED', 'and the record is left alone');

# ----- a completion whose record gets the state -----------------------------------------

fault(to => 'COMPLETED', do => 'drop', times => 0);
$sql->("SELECT idem_once('committed', '\"mine\"')");
await_request(to => 'COMPLETED');
my $sealed = record($table, 'committed');
my %kept = map { $_ => $sealed->{$_} } grep { $_ !~ /retention/ } keys %$sealed;
put_record($table, 'committed', %kept, status => 'PARKED');
reset_proxy();
wait_until('the worker says that it cannot finish it', sub {
	PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /WARNING:  exactonce: a key of table "\Q$table\E" cannot be marked completed.*\n.*DETAIL:  .*Its status PARKED is not known to this version/ });
is(record($table, 'committed')->{status}, 'PARKED', 'and leaves it alone');
is($sql->('SELECT count(*) FROM exactonce_pending'), '1', 'its row stays');
put_record($table, 'committed', %kept);
$node->restart;
wait_until('once the record is in a known state it is completed', sub { record($table, 'committed')->{status} eq 'COMPLETED' });
is(record($table, 'committed')->{result}, '"mine"', 'with its result');
settled($node);

# ----- what a life has left, and an heir that looks -------------------------------------

fault(key => 'left', to => 'COMMITTING', do => 'kill', pid => [ map { $_ + 0 } processes_of($node) ], applied => 1);
my @pids = processes_of($node);
finish_script(start_script($node, "SELECT idem_once('left', '1');\n"));
kill 'KILL', map { m{^/proc/(\d+)} } grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*';
await_end($node, @pids);
reset_proxy();
my $left = record($table, 'left');
put_record($table, 'left', (map { $_ => $left->{$_} } grep { $_ !~ /retention/ } keys %$left), status => 'PARKED');
$node->start;
is($sql->("SELECT outcome FROM idem_acquire('after the crash')"), 'acquired', 'new keys work');
my ($life) = $left->{origin} =~ m{^([^/]+)};
wait_until('the life before the crash is over', sub { (item($table, "ORIGIN#$life") // {})->{state} ne 'open' });
like(said("SELECT idem_acquire('left')"), $refused, 'a key that it has left in the new state is refused');
is(record($table, 'left')->{status}, 'PARKED', 'and its heir leaves it alone');

# ----- actions --------------------------------------------------------------------------

$sql->(q(SELECT action_create('{"a": 1}', id => 'park')));
dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => 'ACTION#park' } },
	UpdateExpression => 'SET #s = :s', ExpressionAttributeNames => { '#s' => 'status' }, ExpressionAttributeValues => { ':s' => { S => 'PARKED' } } });
my $action = item($table, 'ACTION#park');
foreach my $call ("action_get('park')", "action_consume('park')", "action_consume('park', at => 'commit')", "action_cancel('park')")
{
	like(said("SELECT * FROM $call"), $refused, "$call refuses a state that is not known");
	is_deeply(item($table, 'ACTION#park'), $action, "$call: and leaves the action as it is");
}

stop_without_crash($node, kills => 1);
done_testing();
