# The worker is there for everybody: nobody stops it who has no right to, no setting
# of a database disturbs it, and no database and no key waits because of another.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use List::Util qw(max min);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $table = 'tap_worker_shares';
my %options = (clock_skew => 0, request_timeout => '2s');
my $node = new_node('worker_shares', options => \%options,
	conf => "max_worker_processes = 8\nlog_line_prefix = '%b [%p] '\nmax_connections = 40\n");
my $sql = sub { $node->safe_psql($_[1] // 'postgres', $_[0]) };

# The worker of a database, asked for in another one; '' if there is none.
sub worker_of
{
	my ($database) = @_;
	return $sql->(<<"SQL", 'elsewhere');
SELECT pid FROM pg_stat_activity WHERE backend_type = 'exactonce worker' AND datname = '$database'
SQL
}

my $admin = sub { $sql->($_[0], 'elsewhere') };

# The exit status of psql for statements of a role in another database.
sub status_as
{
	my ($role, $statements) = @_;
	return ($node->psql('elsewhere', "SET ROLE $role; $statements"))[0];
}

# ----- roles without the right to do so do not stop a worker ------------------

$sql->('CREATE ROLE nobody LOGIN; CREATE ROLE maker LOGIN CREATEDB');
$sql->('CREATE DATABASE elsewhere');
$sql->("SELECT idem_acquire('first'); SELECT idem_complete('first')");
my $pid = worker_of('postgres');

sub is_refused
{
	my ($role, $command, $whose) = @_;
	my ($code, undef, $err) = $node->psql('elsewhere', "SET ROLE $role; $command");
	my $what = "$role, $whose: $command";
	ok($code != 0 && $err =~ /must be owner|permission denied|already exists/, "$what is refused");
	is(worker_of('postgres'), $pid, "$what does not stop the worker");
	return;
}
foreach my $role ('nobody', 'maker')
{
	is_refused($role, $_, "a database of another role") foreach 'ALTER DATABASE postgres RENAME TO mine',
	  'DROP DATABASE postgres', 'DROP DATABASE IF EXISTS postgres', 'DROP DATABASE postgres WITH (FORCE)',
	  'ALTER DATABASE postgres SET TABLESPACE pg_default', 'CREATE DATABASE mine TEMPLATE postgres';
}
$sql->('ALTER DATABASE elsewhere OWNER TO nobody');
$sql->('ALTER DATABASE postgres OWNER TO nobody');
is_refused('nobody', 'ALTER DATABASE postgres RENAME TO mine', 'its database, without CREATEDB');
is_refused('nobody', 'CREATE DATABASE mine TEMPLATE postgres', 'its database, without CREATEDB');
$sql->('ALTER DATABASE postgres OWNER TO maker');
is_refused('maker', 'ALTER DATABASE postgres RENAME TO elsewhere', 'a name that is taken');
is_refused('maker', 'CREATE DATABASE elsewhere TEMPLATE postgres', 'a name that is taken');
is(status_as('nobody', 'DROP DATABASE IF EXISTS none; DROP DATABASE none'), 3,
	'to drop a database that is not there is an error');

# its owner may, and a template may be copied
$sql->('CREATE DATABASE model OWNER maker');
$sql->('CREATE EXTENSION exactonce; ' . server_sql('exactonce', table => $table, %options), 'model');
$sql->("SELECT idem_acquire('in model')", 'model');
is(status_as('maker', 'CREATE DATABASE copied TEMPLATE model'), 0, 'an owner copies a database that has a worker');
is(status_as('maker', 'ALTER DATABASE model RENAME TO pattern'), 0, 'an owner renames a database that has a worker');
is($sql->("SELECT outcome FROM idem_acquire('in pattern')", 'pattern'), 'acquired',
	'a database that was renamed has a worker again');
$sql->('ALTER DATABASE pattern IS_TEMPLATE true');

# ----- a command that is terminated leaves nothing behind ---------------------

$sql->("SELECT idem_acquire('in the copy')", 'copied');
my $holder = start_script($node, say_in_script('is there') . halt_until('leave'), 'copied');
await_word('is there');
my $waiting = start_script($node, 'CREATE DATABASE another TEMPLATE copied');
wait_until('a CREATE DATABASE that waits for a session has suspended the worker', sub { worker_of('copied') eq '' });
$sql->(<<'SQL');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE 'CREATE DATABASE another%' AND backend_type = 'client backend'
SQL
like(finish_script($waiting), qr/57P01/, 'a CREATE DATABASE that waits for a session is terminated');
is($sql->("SELECT outcome FROM idem_acquire('in the copy again')", 'copied'), 'acquired',
	'the template of a CREATE DATABASE that was terminated has a worker again');
go_on('leave');
finish_script($holder);

# ----- who may copy a template does not keep its worker away ------------------

# Statements of a role that does not own the template; its worker must stay.
sub worker_stays
{
	my ($statements, $error, $what) = @_;
	my $before = worker_of('pattern');
	my (undef, undef, $err) = $node->psql('elsewhere', "SET ROLE copier; $statements", on_error_stop => 0);
	like($err, $error, "$what: is refused");
	is(worker_of('pattern'), $before, '... and does not stop the worker');
	return;
}
$sql->('CREATE ROLE copier LOGIN CREATEDB');
is(status_as('copier', 'CREATE DATABASE by_copier TEMPLATE pattern'), 0, 'a template that has a worker is copied by another role');
is(status_as('copier', 'DROP DATABASE by_copier'), 0, '... which owns the copy');
fault(key => 'of the template', to => 'COMPLETED', do => 'drop', times => 0);
$sql->("SELECT idem_once('of the template')", 'pattern');
$holder = start_script($node, say_in_script('is connected') . halt_until('leave the template'), 'pattern');
await_word('is connected');
worker_stays("SET statement_timeout = '8s'; CREATE DATABASE mine TEMPLATE pattern", qr/statement timeout/, 'a copy while a session is there');
go_on('leave the template');
finish_script($holder);
worker_stays("BEGIN;\nCREATE DATABASE mine TEMPLATE pattern", qr/transaction block/, 'a copy in a transaction');
my $offset = -s $node->logfile;
my $loop = start_script($node, <<'SQL', 'elsewhere');
SET ROLE copier;
SELECT $$CREATE DATABASE mine TEMPLATE pattern ENCODING 'bogus'$$ FROM generate_series(1, 100000) \gexec
SQL
my $began = time();
wait_until('a wrong copy is refused', sub { slurp_file($node->logfile, $offset) =~ /bogus/ });
end_fault('of the template');
wait_until('the worker finishes keys beside wrong copies without end', sub { status_of($table, 'of the template') eq 'COMPLETED' });
my $copies = () = slurp_file($node->logfile, $offset) =~ /ERROR:.*bogus/g;
cmp_ok($copies, '<=', 2 + (time() - $began) / 5, '... each of which leaves it there for five seconds');
$admin->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE mine%'");
finish_script($loop);

# ----- no setting of a database or a role reaches its worker ------------------

my $superuser = $admin->('SELECT current_user');
$admin->("ALTER DATABASE postgres SET $_") foreach "log_min_messages = 'debug2'", "lock_timeout = '1ms'",
  "client_encoding = 'LATIN1'", "default_transaction_read_only = on", "custom.name = 'x'";
$admin->("ALTER ROLE ALL SET log_min_messages = 'debug2'");
foreach my $identity ('role', 'session_authorization')
{
	$admin->("ALTER DATABASE postgres SET $identity = 'nobody'");
	my $length = length slurp_file($node->logfile);
	my $old = worker_of('postgres');
	$admin->("SELECT pg_terminate_backend($old)");
	wait_until("a worker starts in a database with $identity set",
		sub { my $new = worker_of('postgres'); $new && $new ne $old });
	$sql->(<<"SQL");
SET lock_timeout = 0;
SET default_transaction_read_only = off;
SET SESSION AUTHORIZATION $superuser;
SET ROLE none;
SELECT idem_acquire('with $identity');
SELECT idem_complete('with $identity');
SQL
	wait_until("a worker in a database with $identity set finishes a key",
		sub { (record($table, "with $identity") // {})->{status} eq 'COMPLETED' });
	my $log = substr slurp_file($node->logfile), $length;
	unlike($log, qr/exactonce worker \[\d+\] (DEBUG|ERROR|FATAL:  (?!terminating))/,
		"a worker in a database with $identity set has none of its settings");
	$admin->("ALTER DATABASE postgres RESET $identity");
}
$admin->("ALTER DATABASE postgres RESET ALL; ALTER ROLE ALL RESET ALL");

# ----- more databases than background workers ---------------------------------

my @databases = map { "db$_" } 1 .. 9;
$sql->("CREATE DATABASE $_ TEMPLATE pattern") foreach @databases;
my (%token_of, $slowest);
foreach my $database (@databases)
{
	my $start = time();
	$token_of{$database} = $sql->("SELECT token FROM idem_acquire('in $database')", $database);
	my $took = time() - $start;
	$slowest = $took if $took > ($slowest // 0);
}
cmp_ok($slowest, '<', paced(6), 'more databases than background workers: each soon has a worker');
# To complete a key takes a worker: there are enough until all have something pending.
$node->append_conf('postgresql.conf', 'max_worker_processes = 20');
$node->restart;
fault(to => 'COMPLETED', do => 'answer', times => 0);
$sql->("SELECT idem_complete('in $_', token => '$token_of{$_}')", $_) foreach @databases;
$node->append_conf('postgresql.conf', 'max_worker_processes = 5');
$node->restart;
reset_proxy();
wait_until('more databases than background workers: after a start all are visited', sub {
	my $records = records($table);
	return !grep { $records->{"in $_"}{status} ne 'COMPLETED' } @databases;
});
my $lines = () = slurp_file($node->logfile) =~ /no background worker could be started/g;
cmp_ok($lines, '<=', 4, 'more databases than background workers: the shortage is not logged again and again');

# ----- one key that fails keeps nobody waiting --------------------------------

# How long it takes until a key that is completed now is finished.
sub seconds_to_finish
{
	my ($key, $server) = @_;
	my $start = time();
	$sql->("SELECT idem_acquire('$key', server => '$server'); SELECT idem_complete('$key', server => '$server')");
	wait_until("$key is finished", sub { $sql->("SELECT count(*) FROM exactonce_pending WHERE key = '$key'") eq '0' });
	return time() - $start;
}

sub longest_to_finish
{
	my ($server, @keys) = @_;
	my $longest = 0;
	foreach my $key (@keys)
	{
		my $took = seconds_to_finish($key, $server);
		note(sprintf '%s took %.1f s', $key, $took);
		$longest = $took if $took > $longest;
	}
	return $longest;
}

my $lease = paced('1 s');
my $beating = start_script($node, <<"SQL" . halt_until('beaten') . "SELECT idem_complete('beating');\nCOMMIT;\n");
BEGIN;
SELECT outcome FROM idem_acquire('beating', lease => '$lease');
SQL
await_request(key => 'beating', op => 'UpdateItem');
fault(key => 'bad', to => 'COMPLETED', do => 'hold', times => 0);
$sql->("SELECT idem_acquire('bad'); SELECT idem_complete('bad')");
cmp_ok(longest_to_finish('exactonce', map { "good$_" } 1 .. 12), '<', paced(4),
	'beside a key that fails no other key waits');
is($sql->('SELECT key FROM exactonce_pending'), 'bad', 'a key that fails is still tried');
is($sql->("SELECT state || (lease_until > now()) FROM exactonce_claims WHERE key = 'beating'"), 'heldtrue',
	'beside a key that fails leases are extended');
go_on('beaten');
unlike(finish_script($beating), qr/ERROR/, 'beside a key that fails no claim is lost');
reset_proxy();
settled($node);

# ----- nor does a server that never answers -----------------------------------

$sql->(server_sql('other', table => "${table}_other", endpoint => $ENV{EO_ENGINE_URL}));
$sql->("SELECT idem_create_table('other')");
$sql->(timeouts_sql('exactonce', request_timeout => '10s') . "ALTER SERVER exactonce OPTIONS (ADD parallel_requests '64')");
seconds_to_finish('settled in', 'exactonce');
fault(to => 'COMPLETED', do => 'hold', times => 0);
$sql->("SELECT idem_once('slow' || i) FROM generate_series(1, 300) i");
cmp_ok(longest_to_finish('other', map { "quick$_" } 1 .. 5), '<', paced(3),
	'a server that never answers keeps no key of another waiting');
reset_proxy();
my $start = time();
settled($node);
cmp_ok(time() - $start, '<', paced(30), 'a server that never answered: its keys are finished when it does');

# ----- nor do many servers, of one tenant or of superusers --------------------

# Servers whose requests may take five minutes, and which have answered.
sub make_patient
{
	my ($role, @servers) = @_;
	$sql->("SET SESSION AUTHORIZATION $role; "
		  . server_sql($_, table => $table, key_prefix => "$_/", batch_requests => 'false', parallel_requests => 64, request_timeout => '5min')
		  . "SELECT idem_once('warm', server => '$_')") foreach @servers;
	settled($node);
	return;
}

# Completed keys in one server after the other, a few more than the half that each may take of what
# is left.  Few, so that all is taken before the first request is given up.
sub complete_in
{
	my ($role, @servers) = @_;
	$sql->(join "\n", "SET SESSION AUTHORIZATION $role;", map {
		my $n = max(2, 40 >> $_);
		"SELECT count(idem_once('key ' || i, server => '$servers[$_]')) FROM generate_series(1, $n) i;"
	} 0 .. $#servers);
	return;
}

$sql->("CREATE ROLE $_ LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO $_") foreach 'tenant', 'neighbour';
my @his = map { "slow$_" } 1 .. 16;
make_patient('tenant', @his);
make_patient('neighbour', 'near');
fault(key => 'slow', to => 'COMPLETED', do => 'hold', times => 0);
complete_in('tenant', @his);
cmp_ok(longest_to_finish('other', map { "beside a tenant $_" } 1 .. 5), '<', min(4, paced(3)),
	'no servers of a tenant keep a key of a superuser waiting');
cmp_ok(longest_to_finish('near', map { "beside another $_" } 1 .. 5), '<', paced(3), '... nor a key of another tenant');
end_fault('slow');
$start = time();
settled($node);
cmp_ok(time() - $start, '<', paced(45), '... and a request that gets no answer is given up, and made again');
reset_proxy();

my @ours = map { "patient$_" } 1 .. 7;
make_patient($superuser, @ours);
fault(key => 'patient', to => 'COMPLETED', do => 'hold', times => 0);
complete_in($superuser, @ours);
cmp_ok(longest_to_finish('other', map { "beside ours $_" } 1 .. 5), '<', min(4, paced(3)),
	'as many servers of superusers keep no key of another waiting');
reset_proxy();
settled($node);

# Heartbeats: one server after the other takes half of what is left, until nothing is.
my $long = paced('9 s');
my @claims = (16, 8, 4, 2, 1, 1);
fault(key => 'slow', to => 'lease', do => 'hold', times => 0);
my @holders;
foreach my $i (1 .. 6)
{
	push @holders, start_script($node, "SET SESSION AUTHORIZATION tenant;\nBEGIN;\n"
		  . "SELECT count(idem_acquire('held ' || i, server => 'slow$i', lease => '$long')) FROM generate_series(1, $claims[$i - 1]) i;\n"
		  . say_in_script("held $i") . halt_until("end $i") . "ROLLBACK;\n");
	await_word("held $i");
}
await_request(key => "slow$_/held", to => 'lease', n => $claims[$_ - 1]) foreach 1 .. 6;
$lease = paced('3 s');
my $brief = start_script($node, "BEGIN;\nSELECT idem_acquire('brief', lease => '$lease');\n"
	  . halt_until('brief beaten') . "SELECT idem_complete('brief');\nCOMMIT;\n");
await_request(key => 'brief', op => 'UpdateItem');
$start = time();
await_request(key => 'brief', to => 'lease', n => 3);
cmp_ok(time() - $start, '<', paced(4.5), 'nor do heartbeats that get no answer keep those of others waiting');
go_on('brief beaten');
unlike(finish_script($brief), qr/ERROR/, '... and no claim is lost for them');
fault(key => 'near/single', to => 'lease', do => 'hold', times => 0);
push @holders, start_script($node, "SET SESSION AUTHORIZATION neighbour;\nBEGIN;\n"
	  . "SELECT idem_acquire('single', server => 'near', lease => '3 s');\n" . halt_until('end 7') . "ROLLBACK;\n");
await_request(key => 'near/single', to => 'lease');
$start = time();
wait_until('a heartbeat gets no answer', sub { slurp_file($node->logfile) =~ /of server "near" cannot be written/ });
cmp_ok(time() - $start, '<', 8, '... and is given up after a third of the lease');
reset_proxy();
go_on("end $_") foreach 1 .. 7;
finish_script($_) foreach @holders;

stop_without_crash($node);
done_testing();
