# Claims at commit whose requests were lost are looked at again for a quarter of an hour.
# They keep no role from new claims: the oldest make way, and then their table is scanned
# for what late requests may have left.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my ($node, $table);
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $looks = sub { $sql->("SELECT count(*) FROM exactonce_claims WHERE state = 'second look' AND key ~ '$_[0]'") };
my $claims = sub { $sql->(q{SELECT status, detail, advice FROM idem_check() WHERE "check" = 'claims'}) };

# Starts a cluster with room for 100 claims, of which one role may have 25.  By the server hasty
# a commit fails soon.
sub begin
{
	my ($name, $conf) = @_;
	$table = "tap_$name";
	$node = new_node($name, options => { commit_timeout => '20s', request_timeout => '20s' },
		conf => "exactonce.max_claims = 100\n$conf");
	$sql->(server_sql('hasty', table => $table, commit_timeout => '500ms', request_timeout => '500ms'));
	return;
}

# A commit of so many keys by idem_once(), none of whose requests arrives.
sub fail_commit
{
	my ($prefix, $n, %by) = @_;
	my $server = $by{server} // 'hasty';
	my $role = $by{role} ? "SET SESSION AUTHORIZATION $by{role};\n" : '';
	fault(key => $prefix, to => 'COMMITTING', do => 'drop', times => 0);
	my $said = run_script($node, <<"SQL");
${role}BEGIN;
SELECT count(idem_once('$prefix ' || i, server => '$server')) FROM generate_series(1, $n) i;
COMMIT;
SQL
	end_fault($prefix);
	like($said, qr/^$n\n.*ERROR:  ID006/s, "$prefix: the commit fails");
	settled($node);
	return;
}

sub current_life
{
	return $sql->("SELECT DISTINCT life FROM exactonce_lives WHERE state = 'open'");
}

# ----- a bulk load, retried ---------------------------------------------------

begin('bulk_load', '');
like($claims->(), qr/^ok\|0 of 100 are taken: none;/, 'idem_check() says how full the claim table is');
fault(key => 'acquire', to => 'IN_PROGRESS', do => 'drop', times => 0);
like(run_script($node, "SELECT idem_acquire('acquire', server => 'hasty');\n"), qr/ERROR:  ID006/, 'the answer to an acquire is lost');
end_fault('acquire');
settled($node);
fail_commit('before', 25);
is($looks->('acquire') . $looks->('before'), '025', 'a look at an acquire makes way before those at claims at commit');
unlike($claims->(), qr/is scanned from/, '... and no scan is needed for that');
fail_commit("retry $_", 20) foreach 1 .. 4;
is($looks->(''), 25, 'the looks have room of their own, as much as a role may have');
is($looks->('before') . $looks->('retry [12]'), '00', 'the oldest make way');
my $said = $claims->();
like($said, qr/^ok\|0 of 100 are taken: 25 second looks, the oldest until \d/, 'idem_check() says how many looks there are');
like($said, qr/; table "$table" is scanned from \d.* on for late requests/, '... and when the table is scanned for those that have made way');
my $out = run_script($node, <<'SQL');
BEGIN;
SELECT count(idem_once('load ' || i)) FROM generate_series(1, 25) i;
COMMIT;
SQL
like($out, qr/^25\n$/, 'a role that has nothing else commits as many keys as it may');
settled($node);
is($sql->("SELECT count(*) FROM generate_series(1, 25) i, idem_get('load ' || i) g WHERE g.status = 'COMPLETED'"), 25,
	'... and they are completed');

# What fills a share is said, and how long that will be.
$out = run_script($node, <<'SQL');
BEGIN;
SELECT count(idem_once('full ' || i)) FROM generate_series(1, 25) i;
SELECT idem_once('one more');
ROLLBACK;
SQL
like($out, qr/ERROR:  54000: no room for a claim on key "one more"/, 'a role has no more than its share');
like($out, qr/DETAIL:  .* The claims there: 25 of open transactions, the oldest since \d/, '... and is told what fills it');
like($out, qr/HINT:  End these transactions, or commit more often/, '... and what to do about it');
settled($node);

# While DynamoDB does not answer, claims wait to be given back.
fault(key => 'waits', do => 'drop', times => 0);
run_script($node, <<'SQL');
BEGIN;
SELECT count(idem_once('waits ' || i, server => 'hasty')) FROM generate_series(1, 25) i;
COMMIT;
SQL
$out = run_script($node, "BEGIN;\nSELECT idem_once('one more');\nROLLBACK;\n");
like($out, qr/DETAIL:  .* The claims there: 25 that wait to be given back or completed, the oldest since \d.*\nHINT:  They end as soon as DynamoDB answers/,
	'claims that wait for DynamoDB are named');
end_fault('waits');
settled($node);

# Without a scan nothing would find what a late request leaves.
$sql->('ALTER SYSTEM SET exactonce.recovery_scan = 0');
$sql->('SELECT pg_reload_conf()');
wait_until('the table is not to be scanned any more', sub { $claims->() !~ /is scanned from/ });
my $kept = $looks->('');
# They count as claims then, so that one role does not fill the table.
fault(key => 'without a scan', to => 'COMMITTING', do => 'drop', times => 0);
foreach my $try (1 .. 5)
{
	$said = run_script($node, <<"SQL");
BEGIN;
SELECT count(idem_once('without a scan $try/' || i, server => 'hasty')) FROM generate_series(1, 20) i;
COMMIT;
SQL
	settled($node);
}
end_fault('without a scan');
like($said, qr/ERROR:  54000: no room for a claim.*\nDETAIL:  Role .* The claims there: \d+ second looks, .*\nHINT:  .*exactonce.recovery_scan is above 0/,
	'without the recovery scan looks at claims at commit count as claims of their role');
cmp_ok($looks->(''), '<=', 25, '... which has no more than its share');
cmp_ok($looks->(''), '>=', $kept, '... none of them makes way');
like($claims->(), qr/^warning\|.*some role has 100 %/, '... and idem_check() warns');
$sql->(q{CREATE ROLE another; GRANT USAGE ON FOREIGN SERVER exactonce TO another});
is($sql->(q{SET ROLE another; SELECT count(idem_once('of another ' || i)) FROM generate_series(1, 10) i}), 10,
	'... while another role commits');
$sql->('ALTER SYSTEM RESET exactonce.recovery_scan');
$sql->('SELECT pg_reload_conf()');
wait_until('with it they make way again', sub { $claims->() =~ /^ok/ });
# Records in doubt that sessions meet are noted, and leave room for work.
my $life = current_life();
put_record($table, "doubt $_", owner => 'somebody', fence => 1, runs => 1, updated_ms => 1, status => 'COMMITTING',
	origin => "$life/99999999/1/16B3D50") foreach 1 .. 30;
$sql->("SELECT idem_acquire('doubt ' || i) FROM generate_series(1, 30) i");
is($sql->('SELECT count(*) FROM exactonce_in_doubt'), 6, 'of many records in doubt some are noted');
unlike(run_script($node, <<'SQL'), qr/ERROR/, '... and the role still commits');
BEGIN;
SELECT count(idem_once('beside doubts ' || i)) FROM generate_series(1, 19) i;
COMMIT;
SQL
$sql->(q{SET ROLE another; SELECT idem_acquire('doubt ' || i) FROM generate_series(11, 12) i});
is($sql->('SELECT count(*) FROM exactonce_in_doubt'), 8, '... and what another role meets is noted, too');
stop_without_crash($node);

# ----- a late seal whose look has made way ------------------------------------

# Looks after 125 ms, 1.5 s and 22 s, and a scan 22 s after a look has made way.
begin('ghosts', "exactonce.test_hurry = @{[ hurry(40) ]}\n");
sweep_nothing($table);

# Leaves a seal on its way to a key that others have failed.
sub leave_seal
{
	my ($key, %by) = @_;
	my $call = $by{role} ? "SET SESSION AUTHORIZATION $by{role};\nBEGIN;\nSELECT idem_once('$key', server => '$by{server}')" : "BEGIN;\nSELECT idem_once('$key')";
	reset_proxy() unless $by{beside};
	put_record($by{table} // $table, $key, owner => 'somebody', fence => 1, runs => 1, updated_ms => 1, status => 'FAILED', retry_ms => 0);
	fault(key => $key, to => 'COMMITTING', do => 'hold');
	my $run = start_script($node, "$call;\nCOMMIT;\n");
	await_request(key => $key, to => 'COMMITTING');
	cancel_commit($node);
	like(finish_script($run), qr/57014/, "$key: the commit is cancelled");
	settled($node);
	return;
}

# ... and has its look make way.
sub leave
{
	my ($key, %by) = @_;
	leave_seal($key, %by);
	# A commit that fails early has sent some of its seals only.
	foreach my $i (1 .. 5)
	{
		fail_commit("after $key $i", 25, %by);
		last if $looks->("^$key\$") == 0;
	}
	is($looks->("^$key\$"), 0, "$key: its look makes way");
	return;
}

sub arrives
{
	my ($key) = @_;
	release_held();
	wait_until("$key: the late seal takes effect", sub { grep { $_->{status} == 200 } requests(key => $key, to => 'COMMITTING') });
	wait_until("$key: the scan ends it", sub { status_of($table, $key) eq 'FAILED' });
	return;
}

leave('at work');
$life = current_life();
fault(op => 'Scan', key => '', do => 'answer', status => 400, code => 'AccessDeniedException', times => 0);
wait_until('at work: the table cannot be scanned', sub {
	slurp_file($node->logfile) =~ /WARNING:  exactonce: table "$table" cannot be scanned for what late requests may have left/ });
wait_until('at work: all looks have ended', sub { $looks->('') == 0 });
isnt($sql->("SELECT idem_drain('500 ms')"), 0, 'at work: the life is not closed before the scan');
is(item($table, "ORIGIN#$life")->{state}, 'open', '... and its item says so');
like(run_script($node, "BEGIN;\nDROP SERVER exactonce CASCADE;\nROLLBACK;\n"), qr/ERROR:  55006.*\nDETAIL:  .*scanned/,
	'at work: nor can its server be dropped');
release_held();
wait_until('at work: the late seal arrives', sub { status_of($table, 'at work') eq 'COMMITTING' });
end_fault('', 'answer');
arrives('at work');
is(current_life(), $life, '... and the life goes on');
wait_until('at work: after the scan nothing is to be scanned any more', sub { $claims->() !~ /is scanned from/ });
wait_until('at work: then it can be closed', sub { $sql->("SELECT idem_drain('1 s')") == 0 });
$sql->('SELECT idem_drain(NULL)');

# A tenant's table that is slow and has no end, and whose scan is due before that of the other.
my $his = "${table}_his";
$sql->('CREATE ROLE tenant LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant; SET SESSION AUTHORIZATION tenant; '
	  . server_sql('his', table => $his, commit_timeout => '500ms', request_timeout => '5min'));
$sql->("SELECT idem_create_table('his')");
leave('in his', role => 'tenant', server => 'his', table => $his);
fault(op => 'Scan', table => $his, times => 0, do => 'delay', ms => 50);
fault(op => 'Scan', table => $his, times => 0, do => 'answer', status => 200,
	more => { Items => [], Count => 0, ScannedCount => 0, LastEvaluatedKey => { pk => { S => 'x' } } });
leave('beside his', beside => 1);
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'exactonce worker'");
arrives('beside his');
cmp_ok(count_requests(op => 'Scan', table => $his), '>', 1, '... although another table has no end');
wait_until('in his: the late seal arrives', sub { status_of($his, 'in his') eq 'COMMITTING' });
reset_proxy();
# His server does not answer a scan.
fault(op => 'Scan', table => $his, times => 0, do => 'hold');
leave('beside his server', beside => 1);
arrives('beside his server');
fault(op => 'Scan', table => $his, times => 0, do => 'hold');
wait_until('all looks have ended', sub { $looks->('') == 0 });
$life = current_life();
like($claims->(), qr/; table "$his" is scanned from/, 'the table of a tenant is still to be scanned');
is($sql->("SELECT idem_drain('@{[ paced(20) ]} s')"), 0, '... which does not keep the life open');
is(item($table, "ORIGIN#$life")->{state}, 'closed', '... in the tables of superusers');
is(item($his, "ORIGIN#$life")->{state}, 'open', '... but in his');
$sql->('SELECT idem_drain(NULL)');
reset_proxy();
$sql->("SET SESSION AUTHORIZATION tenant; SELECT idem_once('his next', server => 'his')");
wait_until('in his: the next life that is used there ends it', sub { status_of($his, 'in his') eq 'FAILED' });

leave('restarted');
$life = current_life();
$node->stop;
is(item($table, "ORIGIN#$life")->{state}, 'open', 'restarted: the life is not closed at the shutdown');
$node->start;
arrives('restarted');

# Without the claim file, as on another machine, only the item tells that the life has left something.
foreach my $key ('moved', 'moved before its last look')
{
	$key eq 'moved' ? leave($key) : leave_seal($key);
	$life = current_life();
	$node->stop;
	is(item($table, "ORIGIN#$life")->{state}, 'open', "$key: the life is not closed at the shutdown");
	unlink $node->data_dir . '/exactonce_claims';
	$node->start;
	$sql->("SELECT idem_once('of the next run of $key')");
	arrives($key);
}
stop_without_crash($node);
done_testing();
