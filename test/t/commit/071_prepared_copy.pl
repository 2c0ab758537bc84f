# A copy that is started beside its original has the original's prepared transactions, too.
# Whatever is done with them there, the original decides about the keys; and the copy has
# no claim of a key any more that the original has settled.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $table = 'tap_prepared_original';
my $original = new_node('prepared_original', options => { clock_skew => 0 },
	conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nwal_level = replica\nmax_wal_senders = 5\nmax_connections = 20\nmax_prepared_transactions = 20\n");
$original->append_conf('pg_hba.conf', 'local replication all trust');
$original->reload;
$original->safe_psql('postgres', 'CREATE TABLE work (key text PRIMARY KEY)');
# As long as a transaction is prepared there the original does not close its life.
foreach my $name (qw(commit rollback stays))
{
	$original->safe_psql('postgres', "BEGIN;\nINSERT INTO work VALUES ('$name');\nSELECT idem_acquire('$name', lease => '1 hour');\n"
		  . "SELECT idem_complete('$name', '1');\nPREPARE TRANSACTION '$name';\n");
}
$original->backup('base');
my $copy = PostgreSQL::Test::Cluster->new('prepared_copy');
$copy->init_from_backup($original, 'base');
$copy->append_conf('postgresql.conf', 'exactonce.takeover = never');
$copy->start;

sub outcome
{
	my ($of, $key) = @_;
	return $of->safe_psql('postgres', "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep')");
}

is($copy->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 3, 'the copy has the prepared transactions');
# It has a life of its own, and has looked at the one of its original.
$copy->safe_psql('postgres', "SELECT idem_once('of the copy')");
wait_until('the copy knows that its original goes on', sub {
	$copy->safe_psql('postgres', "SELECT count(*) FROM exactonce_lives WHERE state = 'alive'") eq '1' });
$copy->safe_psql('postgres', "ROLLBACK PREPARED '$_'") foreach qw(commit rollback);
foreach my $name (qw(commit rollback))
{
	wait_until("$name: the copy has ended its transaction", sub {
		$copy->safe_psql('postgres', "SELECT state FROM exactonce_claims WHERE key = '$name'") eq 'ending' });
	is(outcome($copy, $name), 'in_progress', "$name: nobody gets the key in the copy");
	is(status_of($table, $name), 'COMMITTING', "$name: the copy does not give the key back");
}
$original->safe_psql('postgres', "COMMIT PREPARED 'commit'");
$original->safe_psql('postgres', "ROLLBACK PREPARED 'rollback'");
wait_until('the original completes the key of one', sub { status_of($table, 'commit') eq 'COMPLETED' });
wait_until('the original gives back the key of the other', sub { status_of($table, 'rollback') eq 'FAILED' });
wait_until('the copy has no claim of them any more', sub {
	$copy->safe_psql('postgres', 'SELECT count(*) FROM exactonce_claims WHERE state = \'ending\'') eq '0' });
is($copy->safe_psql('postgres', "SELECT count(*) FROM exactonce_lives WHERE state = 'alive'"), 1, '... while the original goes on');
is(outcome($copy, 'commit'), 'completed', 'a session of the copy is told that one is completed');
is(outcome($copy, 'rollback'), 'acquired', 'a session of the copy gets the key of the other');
is($original->safe_psql('postgres', "SELECT string_agg(key, ' ') FROM work"), 'commit', 'the work of one is done');
$_->stop foreach $copy, $original;
done_testing();
