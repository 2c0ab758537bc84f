# The host's clock is wrong, or is set while the server runs, or a reply has an odd
# Date.  No live lease is taken over, no claim is dead at birth, and no action is
# active early or expired late.  What that costs is counted: two reads for each
# service and run of the server.
#
# test/harness/wrong_clock.c shows a server another time of day.  The clocks that
# nobody can set are real.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Actions;
use JSON::PP;
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_clock';
my %options = (table => $table, transact_tables => $table, request_timeout => '3s');
my $other = new_node('clock', options => \%options);
my $node = new_node('wrong', options => \%options);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $right = sub { $other->safe_psql('postgres', $_[0]) };
$sql->(<<'SQL');
CREATE FUNCTION handler(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT to_jsonb(1)';
CREATE TABLE guarded (k text);
CREATE TRIGGER guard AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('k');
CREATE ROLE another LOGIN;
GRANT USAGE ON FOREIGN SERVER exactonce TO another;
SQL

my $shim = $node->basedir . '/wrong_clock.so';
my $setting = $node->basedir . '/wrong_clock';
system_or_bail('cc', '-shared', '-fPIC', '-O2', '-Wall', '-Werror', '-o', $shim,
	"$FindBin::Bin/../../harness/wrong_clock.c");

# Sets the clock of the server whose clock is wrong, at one instant for all its
# processes.
sub set_clock
{
	my ($seconds) = @_;
	open my $out, -e $setting ? '+<' : '>', $setting or die "$setting: $!";
	syswrite $out, pack('q', $seconds * 1_000_000) or die "$setting: $!";
	close $out;
	return;
}

# Starts that server with a clock that is off by so many seconds.
sub restart
{
	my ($seconds) = @_;
	$node->stop('fast') if defined $node->{_pid};
	set_clock($seconds);
	reset_proxy();
	local %ENV = (%ENV, LD_PRELOAD => $shim, WRONG_CLOCK => $setting);
	$node->start;
	return;
}

# How many seconds the server's clock is ahead.
sub ahead
{
	my $before = time();
	my $shown = $sql->('SELECT extract(epoch FROM clock_timestamp())');
	return $shown - ($before + time()) / 2;
}

# The operations of all requests since the proxy was reset, but the beats of the servers.
sub ops
{
	return join ' ', map { $_->{op} } grep { ($_->{key} // '') !~ /^ORIGIN#/ } requests();
}

sub show_requests
{
	diag(map { join(' ', map { $_ // '-' } @$_{qw(at op key to status)}) . "\n" } requests());
	return;
}

# Makes a key that the right server has claimed for a minute; returns it and the token.
my $keys = 0;
sub live
{
	my $key = 'live ' . ++$keys;
	is($right->("SELECT outcome FROM idem_acquire('$key', lease => '60 s')"), 'acquired',
		"$key: claimed by another");
	return ($key, record($table, $key)->{owner});
}

# Is the record still the other's, in progress?
sub untouched
{
	my ($key, $owner, $what) = @_;
	my $r = record($table, $key);
	is("$r->{status} $r->{owner}", "IN_PROGRESS $owner", $what);
	return;
}

# Does a claim of this server live as long as it was asked to?
sub lives
{
	my ($key, $seconds, $what) = @_;
	my $left = record($table, $key)->{lease_ms} / 1000 - time();
	ok($left > $seconds - min(40, paced(5)) && $left < $seconds + 3, "$what: the lease lives $seconds s") or diag("$left s are left");
	is($right->("SELECT outcome FROM idem_acquire('$key')"), 'in_progress', '... and nobody else gets the key');
	return;
}

# ----- the first call of a run, by a clock that is ahead ------------------------

my $put = qq([{"Put": {"TableName": "$table", "Item": {"pk": "x KEY"}}}]);
foreach my $case (
	[ 'idem_acquire', "SELECT outcome FROM idem_acquire('KEY');", qr/^in_progress$/ ],
	[ 'idem_start', "SELECT idem_start('KEY');", qr/ID001/ ],
	[ 'idem_acquire_many', "SELECT outcome FROM idem_acquire_many(ARRAY['KEY']);", qr/^in_progress$/ ],
	[ 'idem_call', "SELECT idem_call('KEY', 'handler(jsonb)');", qr/ID001/ ],
	[ 'idem_once', "SELECT idem_once('KEY');", qr/ID001/ ],
	[ 'idem_guard', "INSERT INTO guarded VALUES ('KEY');", qr/ID001/ ],
	[ 'idem_transact', "SELECT outcome FROM idem_transact('KEY', '$put');", qr/^in_progress$/ ])
{
	my ($what, $call, $expected) = @$case;
	my ($key, $owner) = live();
	restart(240);
	$call =~ s/KEY/$key/g;
	like(run_script($node, $call), $expected, "4 minutes ahead, $what first: in progress");
	untouched($key, $owner, '... and the lease is the other\'s');
}
cmp_ok(abs(ahead() - 240), '<', min(60, paced(5)), 'the clock of that server is 4 minutes ahead');
my $young = min(200, paced(60));
is($sql->(<<"SQL"), '1', '... as is that of its worker');
SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'exactonce worker' AND backend_start BETWEEN now() - interval '$young s' AND now()
SQL

# ----- behind, ahead, by more than a signature may be; and again after a restart -----

foreach my $case ([ -240, 0 ], [ -240, 0 ], [ 240, 0 ], [ -360, 0 ], [ 360, 0 ], [ -360, 1 ], [ 360, 1 ])
{
	my ($seconds, $strict) = @$case;
	my $what = sprintf '%+d s%s', $seconds, $strict ? ', signatures refused for it' : '';
	my ($key, $owner) = live();
	restart($seconds);
	# DynamoDB refuses signatures of another time; the engine does not.
	fault(do => 'date', seconds => 0, strict => JSON::PP::true, times => 0) if $strict;
	is($sql->("SELECT outcome FROM idem_acquire('own $key', lease => '60 s')"), 'acquired', "$what: a new key");
	# A machine that stands still between two reads makes one more, and a worker that was
	# faster has made some of them.
	like(ops(), qr/^(?:GetItem ){1,@{[ 3 + $strict ]}}UpdateItem$/,
		'... takes two reads' . ($strict ? ', the first one signed again' : '')) or show_requests();
	lives("own $key", 60, $what);
	is($sql->("SELECT outcome FROM idem_acquire('$key')"), 'in_progress', "$what: a key of another");
	untouched($key, $owner, '... stays the other\'s');
	my $token = record($table, "own $key")->{owner};

	restart($seconds);
	fault(do => 'date', seconds => 0, strict => JSON::PP::true, times => 0) if $strict;
	$sql->("SELECT idem_extend('own $key', '100 s', token => '$token')");
	lives("own $key", 100, "$what, extended first after a restart");
}

# An open transaction, whose lease the worker extends.
restart(-240);
my $lease = paced('3 s');
my $run = start_script($node, <<"SQL" . halt_until('go on') . <<'SQL');
BEGIN;
SELECT outcome FROM idem_acquire('beaten', lease => '$lease');
SQL
SELECT idem_complete('beaten');
COMMIT;
SQL
await_request(key => 'beaten', to => 'lease', n => 4);
is($right->("SELECT outcome FROM idem_acquire('beaten')"), 'in_progress', 'behind: heartbeats keep the lease alive');
go_on('go on');
unlike(finish_script($run), qr/ERROR/, '... to the end');
settled($node);
is(record($table, 'beaten')->{status}, 'COMPLETED', '... and the key is completed');

# ----- what a run has left to the worker of the next ----------------------------

foreach my $seconds (-240, 240)
{
	fault(op => 'UpdateItem', to => 'COMPLETED', do => 'drop', times => 0);
	fault(op => 'UpdateItem', to => 'FAILED', do => 'drop', times => 0);
	$sql->("SELECT idem_acquire('left $seconds'); SELECT idem_complete('left $seconds', '1')");
	$sql->("SELECT idem_acquire('later $seconds')");
	my $token = record($table, "later $seconds")->{owner};
	$sql->("BEGIN; SELECT idem_fail('later $seconds', retry_after => '600 s', token => '$token'); COMMIT");
	$node->stop('immediate');
	restart($seconds);
	settled($node);
	my $r = record($table, "left $seconds");
	is($r->{status}, 'COMPLETED', "$seconds s: finished by the next run's worker");
	cmp_ok(abs($r->{updated_ms} / 1000 - time()), '<', min(100, paced(20)), '... by the clock of the service');
	$r = record($table, "later $seconds");
	is($r->{status}, 'FAILED', '... and a failure that was left');
	cmp_ok(abs($r->{retry_ms} / 1000 - 600 - time()), '<', min(100, paced(20)), '... may be retried when it was said');
	# Two jobs of the worker may begin the first contact together.
	like(ops(), qr/^(DescribeTable )*(GetItem ){2,4}UpdateItem( UpdateItem)*$/, '... after the reads of a first contact');
}

# ----- what it costs --------------------------------------------------------------

foreach my $round (1 .. 3 * pace())
{
	restart(240);
	$sql->("SELECT idem_get('nothing')");
	last if ops() eq 'GetItem GetItem GetItem';
	show_requests();
}
is(ops(), 'GetItem GetItem GetItem', 'the first call of a run makes two reads more');
settled($node);
reset_proxy();
$sql->("SELECT outcome FROM idem_acquire('price')");
$sql->("SELECT outcome FROM action_create(id => 'price')");
$node->safe_psql('postgres', "SELECT outcome FROM idem_acquire('price 2')",
	extra_params => [ '-U', 'another' ]);
$sql->("BEGIN; SELECT idem_acquire('price 3'); SELECT idem_complete('price 3'); COMMIT");
settled($node);
$sql->("ALTER SERVER exactonce OPTIONS (ADD lease '70 s')");
$sql->("SELECT outcome FROM idem_acquire('price 4')");
$sql->('ALTER SERVER exactonce OPTIONS (DROP lease)');
is(ops(), join(' ', ('UpdateItem') x 7), '... and no other session, role or worker does') or show_requests();

# ----- odd dates ------------------------------------------------------------------

my $hour = sub { my %how = (do => 'date', seconds => 3600, @_); fault(%how) };
foreach my $nth (1, 2)
{
	my ($key, $owner) = live();
	restart(0);
	$hour->(op => 'GetItem', nth => $nth);
	is($sql->("SELECT outcome FROM idem_acquire('$key')"), 'in_progress',
		"an odd date in read $nth of the first contact moves nothing");
	# A machine that stands still between two reads makes one more.
	like(ops(), qr/^GetItem GetItem (?:GetItem ){1,2}UpdateItem$/, '... a third read decides');
	untouched($key, $owner, '... and the lease is the other\'s');
	is($sql->("SELECT outcome FROM idem_acquire('own $key', lease => '60 s')"), 'acquired', '... later, too');
	lives("own $key", 60, '... and there');
}
{
	my ($key, $owner) = live();
	restart(-240);
	$hour->(op => 'GetItem', nth => 1);
	$hour->(op => 'GetItem', nth => 2, seconds => 7200);
	my $said = run_script($node, "SELECT outcome FROM idem_acquire('$key');");
	my $unknown = qr/on server "exactonce": the service's clock is not known\n/;
	like($said, qr/ERROR:  ID006: could not acquire key "$key" $unknown/, 'three dates that differ: ID006');
	like($said, qr/DETAIL:  .*\+38[34]\d\.\d s, \+74[34]\d\.\d s and \+2[34]\d\.\d s\./,
		'... which names them');
	like($said, qr/HINT:  .*Date/, '... with a hint');
	untouched($key, $owner, '... and nothing is written');
	is(ops(), 'GetItem GetItem GetItem', '... after three reads');
	is($sql->("SELECT outcome FROM idem_acquire('$key')"), 'in_progress', '... and the next call asks again');

	restart(0);
	fault(do => 'no_date', times => 0);
	$said = run_script($node, <<"SQL");
SELECT outcome FROM idem_acquire('$key');
SELECT outcome FROM action_create(id => 'undated');
SQL
	my $undated = qr/DETAIL:  A reply had no Date header\..*\nHINT:  .*Date/;
	like($said, qr/ERROR:  ID006: could not acquire key "$key" $unknown$undated/, 'no Date: ID006');
	like($said, qr/ERROR:  ID006: could not create action "undated" $unknown/, '... for actions, too');
	untouched($key, $owner, '... and nothing is written');
	unlike(ops(), qr/UpdateItem/, '... nor tried');
	like($sql->(q{SELECT status, detail FROM idem_check() WHERE "check" = 'clock'}),
		qr/^failure\|A reply had no Date header\./, '... and idem_check says so');

	# Once the clock is known, an odd date and a lacking one change nothing.
	restart(240);
	is($sql->("SELECT outcome FROM idem_acquire('known $key')"), 'acquired', 'a known clock');
	$hour->(key => 'odd', times => 1);
	fault(do => 'no_date', key => 'bare', times => 0);
	is($sql->(<<"SQL"), "acquired\nin_progress\nacquired\nin_progress",
SELECT outcome FROM idem_acquire('odd $key');
SELECT outcome FROM idem_acquire('$key');
SELECT outcome FROM idem_acquire('bare $key');
SELECT outcome FROM idem_acquire('$key')
SQL
		'... is not moved by one odd date, nor by one that lacks');
	untouched($key, $owner, '... and the lease is the other\'s');

	# A signature is refused for another reason, with an odd date.
	reset_proxy();
	fault(do => 'answer', key => $key, status => 400, code => 'InvalidSignatureException',
		headers => { Date => strftime_date(time() + 240) });
	is($sql->("SELECT outcome FROM idem_acquire('$key'); SELECT outcome FROM idem_acquire('$key')"),
		"in_progress\nin_progress", '... nor by one odd date of a refusal');
	untouched($key, $owner, '... and the lease is the other\'s');
}

sub strftime_date
{
	my @t = gmtime $_[0];
	return sprintf '%s, %02d %s %d %02d:%02d:%02d GMT', (qw(Sun Mon Tue Wed Thu Fri Sat))[ $t[6] ], $t[3],
	  (qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec))[ $t[4] ], $t[5] + 1900, @t[ 2, 1, 0 ];
}

# ----- the clock is set while the server runs -------------------------------------

foreach my $seconds (240, -240)
{
	my ($key, $owner) = live();
	restart(0);
	# This session begins before the clock is set, and goes on after it.
	$run = start_script($node, <<"SQL" . halt_until("set by $seconds") . <<"SQL");
SELECT outcome FROM idem_acquire('before $key');
SQL
SELECT outcome FROM idem_acquire('$key');
SELECT outcome FROM idem_acquire('after $key', lease => '60 s');
SQL
	await_request(op => 'UpdateItem', key => 'before');
	set_clock($seconds);
	cmp_ok(abs(ahead() - $seconds), '<', min(60, paced(5)), "the clock is set by $seconds s while the server runs");
	is($sql->("SELECT outcome FROM idem_acquire('$key')"), 'in_progress', '... which steals nothing in a new session');
	go_on("set by $seconds");
	is(finish_script($run), "acquired\nin_progress\nacquired\n", '... nor in an old one');
	untouched($key, $owner, '... and the lease is the other\'s');
	lives("after $key", 60, '... and there');
	# ... each of which is made again if the machine stands still.
	like(count_requests(op => 'GetItem'), qr/^[4-6]$/, '... at the price of two reads');
}

# ----- actions --------------------------------------------------------------------

# The instant that is so many seconds from now, in SQL.
sub at
{
	my ($seconds) = @_;
	return 'to_timestamp(' . int(time() + $seconds) . ')';
}

sub make_actions
{
	my ($window, @ids) = @_;
	$right->("SELECT outcome FROM action_create(id => '$_', $window)") foreach @ids;
	return;
}

foreach my $seconds (240, 360, -240, -360)
{
	my $n = "at $seconds";
	make_actions('active_at => ' . at(min(200, paced(120))) . ', expires_at => ' . at(3600), map { "$_ $n" } qw(early1 early2 early3));
	make_actions('expires_at => ' . at(min(200, paced(120))), map { "$_ $n" } qw(open1 open2));
	make_actions('expires_at => ' . at(paced(3)), map { "$_ $n" } qw(over1 over2 over3));
	make_actions('active_at => ' . at(paced(3)), "due1 $n");
	wait_until('some have expired', sub { $right->(<<"SQL") eq '4' });
SELECT count(*) FROM unnest(ARRAY['over1', 'over2', 'over3', 'due1']) i, action_get(i || ' $n')
WHERE state IN ('expired', 'active')
SQL
	foreach my $case (
		[ "action_consume('early1 $n')", 'not_active' ], [ "action_consume('open1 $n')", 'consumed' ],
		[ "action_consume('over1 $n')", 'expired' ], [ "action_consume('due1 $n')", 'consumed' ],
		[ "action_cancel('over2 $n')", 'expired' ])
	{
		my ($call, $outcome) = @$case;
		restart($seconds);
		is($sql->("SELECT outcome FROM $call"), $outcome, "$seconds s, $call first: $outcome");
	}
	foreach my $case ([ early2 => 'pending' ], [ open2 => 'active' ], [ over3 => 'expired' ])
	{
		my ($id, $state) = @$case;
		restart($seconds);
		is($sql->("SELECT state FROM action_get('$id $n')"), $state, "$seconds s, action_get first: $state");
	}
	restart($seconds);
	my $expires = time() + 100;
	is($sql->("SELECT outcome FROM action_create(id => 'made $n', expires_at => to_timestamp($expires))"),
		'created', "$seconds s, action_create first");
	my $r = action($table, "made $n");
	cmp_ok(abs($r->{createdAt} / 1000 - time()), '<', min(60, paced(5)), '... by the clock of the service');
	like(run_script($node, 'SELECT outcome FROM action_create(expires_at => ' . at(-100) . ');'),
		qr/22023: expires_at must be later than now/, '... which says what is over');
}

stop_without_crash($node);
stop_without_crash($other);
done_testing();
