# Recovery to an earlier point in time, in a new directory and in the same one.  Commits
# after that point are lost: their keys are given back, also those of a life that began
# after it, and also when their transaction ids have been given out again.  And two standbys of
# one primary that are both promoted.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $hurry = "exactonce.test_hurry = @{[ hurry(10) ]}\nlog_min_messages = log\nmax_connections = 20\n";

sub sql_of
{
	my ($of, $text) = @_;
	return $of->safe_psql('postgres', $text);
}

sub complete
{
	my ($of, $key) = @_;
	sql_of($of, "BEGIN; INSERT INTO work VALUES ('$key'); SELECT idem_acquire('$key', lease => '1 hour');"
		  . " SELECT idem_complete('$key', '1'); COMMIT");
	return;
}

sub outcome
{
	my ($of, $key) = @_;
	return sql_of($of, "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep')");
}

# A primary with an archive that has ended.  Before the point to which it is recovered
# it has completed "early" and committed "pending"; after it, under another life, it has committed
# "late", and was committing "sealed" when it was killed.
sub new_original
{
	my ($name) = @_;
	my $archive = PostgreSQL::Test::Utils::tempdir();
	my $node = new_node($name, conf => <<"CONF");
$hurry
wal_level = replica
max_wal_senders = 5
archive_mode = on
archive_command = 'cp "%p" "$archive/%f"'
restore_command = 'cp "$archive/%f" "%p"'
CONF
	my %at = (node => $node);
	sql_of($node, 'CREATE TABLE work (key text)');
	complete($node, 'early');
	settled($node);
	$node->backup('base');
	fault(to => 'COMPLETED', do => 'drop', times => 0);
	complete($node, 'pending');
	@at{qw(xid time)} = split /\|/, sql_of($node, 'SELECT xid, clock_timestamp() FROM exactonce_pending');

	crash($node);
	$node->start;
	complete($node, 'late');
	$at{late} = sql_of($node, "SELECT xid FROM exactonce_pending WHERE key = 'late'");
	$at{life} = sql_of($node, "SELECT life FROM exactonce_lives WHERE state = 'open'");
	my $open = start_script($node, "BEGIN;\nSELECT idem_acquire('open', lease => '1 hour');\n" . say_in_script('open') . halt_until('ever'));
	await_word('open');
	my $wal = sql_of($node, 'SELECT pg_walfile_name(pg_switch_wal())');
	wait_until("$name: the WAL is archived", sub { -e "$archive/$wal" });
	fault(key => 'sealed', to => 'COMMITTING', do => 'drip', ms => 60_000);
	my $sealed = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('sealed');\nSELECT idem_once('sealed');\nCOMMIT;\n");
	wait_until("$name: a key is sealed", sub { status_of('tap_' . $node->name, 'sealed') eq 'COMMITTING' });
	crash($node);
	go_on('ever');
	finish_script($_) foreach $open, $sealed;
	is(status_of('tap_' . $node->name, $_), 'COMMITTING', "$name: $_ is being committed") foreach 'pending', 'late';
	return \%at;
}

sub recover
{
	my ($node, %settings) = @_;
	$node->append_conf('postgresql.conf', join '', map { "$_ = '$settings{$_}'\n" } sort keys %settings);
	append_to_file($node->data_dir . '/recovery.signal', '');
	$node->start;
	wait_until($node->name . ': recovery ends', sub { sql_of($node, 'SELECT pg_is_in_recovery()') eq 'f' });
	return;
}

# Gives out transaction ids up to that one, and all of them commit.
sub use_xids
{
	my ($node, $last) = @_;
	sql_of($node, "DO \$\$ BEGIN WHILE pg_current_xact_id() < '$last' LOOP COMMIT; END LOOP; END \$\$");
	return;
}

sub check_work
{
	my ($what, $node, $original) = @_;
	my $records = records('tap_' . $original->name);
	is(join(' ', sort grep { $records->{$_}{status} eq 'COMPLETED' } keys %$records),
		sql_of($node, q(SELECT string_agg(key, ' ' ORDER BY key COLLATE "C") FROM work)),
		"$what: a key is completed if and only if its work is there");
	is(sql_of($node, 'SELECT count(*) FROM exactonce_in_doubt'), '0', "$what: nothing is in doubt");
	is(sql_of($node, 'SELECT count(*) FROM exactonce_pending'), '0', "$what: nothing is pending");
	return;
}

# ----- in a new directory ---------------------------------------------------------------

my $at = new_original('away');
my $original = $at->{node};
my $copy = PostgreSQL::Test::Cluster->new('recovered');
$copy->init_from_backup($original, 'base');
recover($copy, recovery_target_time => $at->{time}, recovery_target_action => 'promote', archive_mode => 'off',
	'exactonce.takeover' => 'never');
reset_proxy();
complete($copy, 'new');
use_xids($copy, $at->{late});
is(outcome($copy, 'early'), 'completed', 'a new directory: what was completed before is completed');
is(outcome($copy, $_), 'in_progress', "a new directory: $_ waits") foreach 'pending', 'late', 'sealed';
wait_until('a new directory: the life that began after that point waits for an operator', sub {
	sql_of($copy, "SELECT string_agg(state, ' ') FROM exactonce_lives WHERE life = '$at->{life}'") =~ /^waits/ });
is(sql_of($copy, "SELECT idem_take_over('$at->{life}')"), 't', 'a new directory: who takes it over');
wait_until("a new directory: $_ is given back without a caller", sub { status_of('tap_' . $original->name, $_) eq 'FAILED' })
  foreach 'late', 'sealed', 'open';
wait_until('a new directory: what has committed is completed without a caller',
	sub { status_of('tap_' . $original->name, 'pending') eq 'COMPLETED' });
wait_until('a new directory: nothing is left', sub { sql_of($copy, 'SELECT count(*) FROM exactonce_pending') eq '0' });
check_work('a new directory', $copy, $original);
complete($copy, 'late');
settled($copy);
check_work('a new directory, lost work done again', $copy, $original);
$copy->stop;

# ----- in the same directory --------------------------------------------------------------

$at = new_original('same');
$original = $at->{node};
my $data = $original->data_dir;
copy("$data/exactonce_claims", $original->basedir . '/exactonce_claims');
system_or_bail('find', $data, '-mindepth', '1', '-delete');
system_or_bail('cp', '-a', $original->backup_dir . '/base/.', $data);
copy($original->basedir . '/exactonce_claims', "$data/exactonce_claims");
recover($original, recovery_target_xid => $at->{xid}, recovery_target_action => 'promote', archive_mode => 'off');
reset_proxy();
wait_until("the same directory: $_ is given back without a caller", sub { status_of('tap_' . $original->name, $_) eq 'FAILED' })
  foreach 'late', 'sealed', 'open';
wait_until('the same directory: what has committed is completed without a caller',
	sub { status_of('tap_' . $original->name, 'pending') eq 'COMPLETED' });
wait_until('the same directory: nothing is left', sub { sql_of($original, 'SELECT count(*) FROM exactonce_pending') eq '0' });
check_work('the same directory', $original, $original);
complete($original, 'late');
settled($original);
check_work('the same directory, lost work done again', $original, $original);
stop_without_crash($original);

# ----- two standbys of one primary --------------------------------------------------------

# Both are promoted, and one has more of the commits than the other.  One of them inherits.
my $primary = new_node('twice', conf => "${hurry}wal_level = replica\nmax_wal_senders = 5\n");
sql_of($primary, 'CREATE TABLE work (key text)');
$primary->backup('base');
my @standbys = map {
	my $standby = PostgreSQL::Test::Cluster->new("twice_$_");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	$standby;
} 1, 2;
fault(to => 'COMPLETED', do => 'drop', times => 0);
complete($primary, $_) foreach 'both 1', 'both 2';
my $life = sql_of($primary, "SELECT life FROM exactonce_lives WHERE state = 'open'");
$primary->wait_for_catchup($_, 'replay') foreach @standbys;
$standbys[1]->stop;
complete($primary, 'one');
$primary->wait_for_catchup($standbys[0], 'replay');
crash($primary);
$standbys[1]->start;
reset_proxy();
$_->promote foreach @standbys;
wait_until('two heirs: the life has one of them', sub {
	(item('tap_twice', "ORIGIN#$life") // {})->{state} eq 'retired' });
my $by = item('tap_twice', "ORIGIN#$life")->{retired_by};
my ($heir, $other) = sort { sql_of($b, "SELECT count(*) FROM exactonce_lives WHERE life = '$by' AND number IS NOT NULL")
	  <=> sql_of($a, "SELECT count(*) FROM exactonce_lives WHERE life = '$by' AND number IS NOT NULL") } @standbys;
wait_until("two heirs: $_ is settled", sub { status_of('tap_' . $primary->name, $_) =~ /COMPLETED|FAILED/ }) foreach 'both 1', 'both 2', 'one';
check_work('two heirs', $heir, $primary);
wait_until('two heirs: the other one sees that', sub {
	sql_of($other, "SELECT string_agg(DISTINCT state, ' ') FROM exactonce_lives WHERE life = '$life'") eq 'has another heir' });
foreach my $key ('both 1', 'both 2', 'one')
{
	# Whoever has had no answer asks again.
	my @written = grep { $_->{sent} } map { requests(key => $key, to => $_) } qw(COMPLETED FAILED);
	is(scalar(@written), 1, "two heirs: one of them has settled $key");
}
cmp_ok(sql_of($other, 'SELECT count(*) FROM exactonce_pending'), '>=', 2, 'two heirs: the rows of the other one stay');
$_->stop foreach @standbys;
done_testing();
