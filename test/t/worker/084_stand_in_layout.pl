# The credentials of a role are refused while the catalogs are locked.  Another role was answered for the
# same table, by a server of another layout.  It does not stand in as long as its server is all that
# is known of it: records must be written as their own server spells them.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Leases;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my %layout = (layout => 'custom', key_attribute => 'pk', item_prefix => 'IDEMPOTENCY#', status_attribute => 'State', expiry_attribute => 'TTL');
my $table = 'tap_two_layouts';
my $node = new_node('two_layouts', conf => "exactonce.test_hurry = @{[ hurry(10) ]}\nlog_min_messages = log\nautovacuum = off\n",
	options => { %layout, status_words => 'in_progress=Pending, completed=Completed, failed=Failed' });
sql_of($node, "CREATE ROLE a LOGIN; CREATE ROLE b LOGIN;"
	  . server_sql('other', table => $table, mapping => '', %layout, status_words => 'in_progress=Running, completed=Done, failed=Broken')
	  . <<'SQL');
GRANT USAGE ON FOREIGN SERVER exactonce TO a;
GRANT USAGE ON FOREIGN SERVER other TO b;
DROP USER MAPPING FOR PUBLIC SERVER exactonce;
CREATE USER MAPPING FOR a SERVER exactonce OPTIONS (access_key_id 'KEYOFA', secret_access_key 'secret-of-a');
CREATE USER MAPPING FOR b SERVER other OPTIONS (access_key_id 'KEYOFB', secret_access_key 'secret-of-b');
SQL
$node->restart;

sub as
{
	my ($role, $statements) = @_;
	return errors_of($node, "SET ROLE $role;\n$statements");
}

sub refuse
{
	my ($key) = @_;
	fault(do => 'expired', access_key => $key, times => 0);
	fault(key => 'ORIGIN#', do => 'expired', access_key => $key, times => 0);
	return;
}

is(as('a', "SELECT idem_once('first of a')"), '', 'one role completes a key');
is(as('b', "SELECT idem_once('first of b', server => 'other')"), '', 'another one does, by a server of another layout');
settled($node);
my $life = life_of($node);
fault(to => 'COMPLETED', key => 'second of a', do => 'drop', times => 0);
my $run = start_script($node, "SET ROLE a;\nBEGIN;\nSELECT idem_once('second of a', '1');\n" . say_in_script('a is ready') . halt_until('a goes') . "COMMIT;\n");
await_word('a is ready');
my $locker = start_script($node, "BEGIN;\nLOCK pg_foreign_server, pg_user_mapping IN ACCESS EXCLUSIVE MODE;\n"
	  . say_in_script('catalogs locked') . halt_until('catalogs') . "COMMIT;\n");
await_word('catalogs locked');
go_on('a goes');

# The word that other clients of the table are shown.
sub shown
{
	return (record($table, 'second of a') // {})->{State} // 'none';
}

await_request(to => 'COMPLETED', key => 'second of a');
is(shown(), 'Pending', 'the key is sealed, and shown as in progress');
refuse('KEYOFA');
wait_until('the role is refused', sub { count_requests(key => "ORIGIN#$life", signer => 'KEYOFA', status => 400) > 0 });
end_fault('second of a');
wait_until('it is asked again', sub { count_requests(key => "ORIGIN#$life", signer => 'KEYOFA', status => 400) > 2 });
is(shown(), 'Pending', 'nobody finishes the key by another layout');
go_on('catalogs');
finish_script($locker);
wait_until('the key is finished', sub { shown() ne 'Pending' });
is(shown(), 'Completed', 'and is shown as completed by the word of its own server');
note(finish_script($run));
$node->stop('immediate');
done_testing();
