# Logical replication of everything between two clusters that both have the extension and
# use one DynamoDB table.  The internal tables of the publisher arrive, too, and change
# nothing; guards act where PostgreSQL fires their triggers.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "exactonce.test_hurry = @{[ hurry(10) ]}\nwal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nwal_retrieve_retry_interval = 200ms\n";
my $table = 'tap_publisher';
my %options = (table => $table, request_timeout => '1s', commit_timeout => '1s');
my $publisher = new_node('publisher', conf => $conf, options => \%options);
my $subscriber = new_node('subscriber', conf => $conf, options => \%options);

# Both sides have the tables, and a guard on one of them.
foreach my $node ($publisher, $subscriber)
{
	sql_of($node, <<'SQL');
CREATE TABLE work (key text PRIMARY KEY);
CREATE TABLE guarded (id text PRIMARY KEY);
CREATE TRIGGER guard AFTER INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=guarded ');
CREATE TABLE always (id text PRIMARY KEY);
SQL
}
is(complete($publisher, 'of the publisher'), '', 'the publisher completes a key');
is(complete($subscriber, 'of the subscriber'), '', 'the subscriber, too');
settled($_) foreach $publisher, $subscriber;
my ($life, $own_life) = map { life_of($_) } $publisher, $subscriber;
my $before = record($table, 'of the subscriber');

# Waits until the subscriber has all that the publisher has committed.
sub catch_up
{
	my ($what) = @_;
	my $lsn = sql_of($publisher, 'SELECT pg_current_wal_lsn()');
	return wait_until("$what: the subscriber catches up", sub { sql_of($publisher, <<"SQL") eq 't' });
SELECT bool_and(confirmed_flush_lsn >= '$lsn') FROM pg_replication_slots WHERE slot_name = 'everything'
SQL
}

# The rows of the publisher's outbox that the subscriber has.
sub foreign_rows
{
	return sql_of($subscriber, 'SELECT count(*) FROM exactonce_internal.outbox');
}

# Has a worker of logical replication failed since the log was so long?
sub has_failed
{
	my ($from) = @_;
	return slurp_file($subscriber->logfile, $from) =~ /"logical replication [^"]*" \(PID \d+\) exited with exit code [1-9]/;
}

# ----- the internal tables ------------------------------------------------------------

my $log = -s $subscriber->logfile;
sql_of($publisher, 'CREATE PUBLICATION everything FOR ALL TABLES');
sql_of($subscriber, "CREATE SUBSCRIPTION everything CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION everything");
wait_until('the tables are copied', sub { sql_of($subscriber, <<'SQL') eq '6' });
SELECT count(*) FROM pg_subscription_rel WHERE srsubstate IN ('r', 's')
SQL
catch_up('begun');
is(worked($subscriber, 'of the publisher'), 1, 'the work of the publisher is there');
is(sql_of($subscriber, "SELECT count(*) FROM exactonce_internal.lives WHERE id = '$life'"), 1, 'and so is the row of its life');
is(sql_of($subscriber, "SELECT count(*) FROM exactonce_lives WHERE life = '$life' AND number IS NOT NULL"), 0,
	'which is not one of the subscriber');
is(life_of($subscriber), $own_life, 'the subscriber goes on with its own life');

fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($publisher, 'pending'), '', 'a key of the publisher is pending');
catch_up('pending');
is(worked($subscriber, 'pending'), 1, 'its work is on the subscriber');
is(foreign_rows(), 1, 'and so is its row');
is(sql_of($subscriber, 'SELECT count(*) FROM exactonce_pending'), 0, 'which is not pending there');
is(sql_of($subscriber, "SELECT outcome FROM idem_acquire('pending')"), 'in_progress', 'for the subscriber the key is in progress');
reset_proxy();
settled($publisher);
is(status_of($table, 'pending'), 'COMPLETED', 'the publisher completes it');
catch_up('completed');
is(foreign_rows(), 0, 'its row is removed on both sides');
is(sql_of($subscriber, "SELECT outcome FROM idem_acquire('pending')"), 'completed', 'for the subscriber it is completed');
is(complete($subscriber, 'of the subscriber, later'), '', 'the subscriber completes a key beside that');
settled($subscriber);
like(record($table, 'of the subscriber, later')->{origin}, qr{^$own_life/}, 'under its own life');

is(has_failed($log), '', 'no worker of logical replication has failed');

# A new life of each, of which the subscriber has both rows.
fault(to => 'COMPLETED', do => 'drop', times => 0);
is(complete($publisher, 'left'), '', 'a key is pending when both are killed');
catch_up('left');
crash($_) foreach $publisher, $subscriber;
reset_proxy();
$subscriber->start;
is(complete($subscriber, 'of the next life'), '', 'killed: the subscriber begins a life of its own');
wait_until('killed: it has retired its last one', sub { life_item($table, $own_life)->{state} eq 'retired' });
is(life_item($table, $own_life)->{retired_by}, life_of($subscriber), 'killed: by the next one');
is(life_item($table, $life)->{state}, 'open', 'killed: that of the publisher is left alone');
is(status_of($table, 'left'), 'COMMITTING', 'killed: and so is its key');
is(foreign_rows(), 1, 'killed: whose row is here');
$publisher->start;
settled($publisher);
is(status_of($table, 'left'), 'COMPLETED', 'killed: the publisher completes it');
catch_up('killed');
# Until then it could not reach the publisher.
$log = -s $subscriber->logfile;
is(foreign_rows(), 0, 'killed: then its row is gone');

# ----- guards -------------------------------------------------------------------------

reset_proxy();
is(errors_of($publisher, "INSERT INTO guarded VALUES ('one')"), '', 'a guard of the publisher claims a key');
settled($publisher);
my $fence = record($table, 'guarded one')->{fence};
my $requests = count_requests(key => 'guarded one');
catch_up('guarded');
is(sql_of($subscriber, "SELECT count(*) FROM guarded WHERE id = 'one'"), 1, 'its row arrives');
is(count_requests(key => 'guarded one'), $requests, 'and the guard there, which is not fired, asks for nothing');
is(record($table, 'guarded one')->{fence}, $fence, 'nor claims the key');
sql_of($subscriber, "DELETE FROM guarded WHERE id = 'one'");
like(errors_of($subscriber, "INSERT INTO guarded VALUES ('one')"), qr/ERROR:  23505/, 'a client of the subscriber cannot insert it again');

# One that is fired for replicated rows claims keys of its own.
sql_of($subscriber, <<'SQL');
CREATE TRIGGER guard AFTER INSERT ON always FOR EACH ROW EXECUTE FUNCTION idem_guard('id', 'prefix=copied ');
ALTER TABLE always ENABLE ALWAYS TRIGGER guard;
SQL
is(errors_of($publisher, "INSERT INTO always VALUES ('one')"), '', 'a row for a guard that is always fired');
wait_until('its key is completed with the row', sub { status_of($table, 'copied one') eq 'COMPLETED' });
like(record($table, 'copied one')->{origin}, qr{^@{[ life_of($subscriber) ]}/}, 'under the life of the subscriber');
is(sql_of($subscriber, "SELECT count(*) FROM always WHERE id = 'one'"), 1, 'which has the row');
is(has_failed($log), '', 'still no worker of logical replication has failed');

# Its transaction fails at commit, and is applied again.
fault(key => 'copied two', to => 'COMMITTING', do => 'drop', times => 0);
is(errors_of($publisher, "INSERT INTO always VALUES ('two')"), '', 'a row whose key cannot be sealed');
wait_until('its transaction fails on the subscriber', sub { has_failed($log) });
is(sql_of($subscriber, "SELECT count(*) FROM always WHERE id = 'two'"), 0, 'it is not there without its key');
reset_proxy();
wait_until('DynamoDB is back: its key is completed', sub { status_of($table, 'copied two') eq 'COMPLETED' });
catch_up('applied');
is(sql_of($subscriber, "SELECT count(*) FROM always WHERE id = 'two'"), 1, 'and the row is there once');

is_deeply(record($table, 'of the subscriber'), $before, 'what the subscriber had completed before stays as it was');
settled($_) foreach $subscriber, $publisher;
stop_without_crash($_, kills => 1) foreach $subscriber, $publisher;
done_testing();
