# Where servers that no superuser owns may send requests: to AWS, and where a superuser has
# listed.  No other listener hears of them, and nobody is told what it says.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

# A listener on loopback that answers each request with an error, and writes the first line of
# each to a file, and a line for each connection.
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 20, ReuseAddr => 1) or die "no listener: $!";
my $port = $listener->sockport;
my $heard = PostgreSQL::Test::Utils::tempdir() . '/heard';
append_to_file($heard, '');
my $child = fork() // die "no process: $!";
if ($child == 0)
{
	local $SIG{PIPE} = 'IGNORE';
	local $SIG{CHLD} = 'IGNORE';
	# From version 19 on PostgreSQL's module lets it die by an error, whose end is that of a test.
	local $SIG{TERM} = 'DEFAULT';
	while (my $client = $listener->accept)
	{
		append_to_file($heard, "connected\n");
		next if fork();
		serve($client);
		POSIX::_exit(0);
	}
	POSIX::_exit(0);
}
close $listener;
# Also if the test dies: prove waits for whoever has its output.
my $test = $$;
END { kill 'TERM', $child if defined $test && $$ == $test && $child }

sub serve
{
	my ($client) = @_;
	while (my $first = <$client>)
	{
		my $length = 0;
		while (my $line = <$client>)
		{
			$length = $1 if $line =~ /^Content-Length: (\d+)/i;
			last if $line =~ /^\r?$/;
		}
		read($client, my $body, $length);
		append_to_file($heard, $first);
		my $code = $body =~ /tap_coded/ ? 'ValidationException' : 'TopSecretCode';
		my $answer = qq({"__type":"a#$code","message":"the text of a listener"});
		$answer = '{"message":"the text of a listener"}' if $body =~ /tap_bare/;
		print $client "HTTP/1.1 400 No\r\nx-amzn-RequestId: TOPSECRETID\r\nContent-Length: " . length($answer) . "\r\n\r\n$answer";
		$client->flush;
	}
	return;
}

sub heard
{
	return scalar(() = slurp_file($heard) =~ /\n/g);
}

my $node = new_node('endpoints', conf => "exactonce.allowed_endpoints = ''\nexactonce.log_requests = on\n");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $errors = '';
$sql->('CREATE ROLE tenant LOGIN; GRANT USAGE ON FOREIGN DATA WRAPPER exactonce TO tenant');

sub make_server
{
	my ($name, $endpoint, $owner, %more) = @_;
	$sql->("SET ROLE $owner; " . server_sql($name, endpoint => $endpoint, table => 'tap_endpoints', max_attempts => 1, %more));
	return;
}

# What a read ends with, as a role.
sub read_as
{
	my ($role, $server) = @_;
	return run_script($node, "SET ROLE $role;\nSELECT 'read', idem_get('k', server => '$server');\n");
}

# Sets what is allowed.  When it returns, new sessions know it, and all others have been told.
sub allow
{
	my ($list) = @_;
	$node->append_conf('postgresql.conf', "exactonce.allowed_endpoints = '$list'");
	$node->reload;
	wait_until("the list is \"$list\"", sub { $sql->('SHOW exactonce.allowed_endpoints') eq $list });
	return;
}

# ----- not listed ---------------------------------------------------------------

make_server('of_boss', "http://127.0.0.1:$port", 'postgres');
make_server('by_address', "http://127.0.0.1:$port", 'tenant');
make_server($_, "http://127.0.0.1:$port", 'tenant', table => "tap_$_") foreach 'coded', 'bare';
make_server('by_name', "https://x.localhost:$port", 'tenant');
make_server('by_tls', "https://127.0.0.1:$port", 'tenant');
make_server('by_spelling', "https://2130706433:$port", 'tenant');
make_server('elsewhere', 'https://db.internal.test', 'tenant');
make_server('fake_aws', 'https://ec2-1-2-3-4.compute-1.amazonaws.com', 'tenant');
my $refused = qr/ERROR:  42501: server "\w+" may not use its endpoint\nDETAIL:  No superuser owns it, and "[^"]+" is neither/;
like(read_as('tenant', $_), $refused, "$_: the endpoint is refused")
  foreach 'by_address', 'by_name', 'by_tls', 'by_spelling', 'elsewhere', 'fake_aws';
like(read_as('postgres', 'by_address'), $refused, 'a superuser is refused by the server of a tenant, too');
is(heard(), 0, 'the listener has seen no connection');
like(read_as('postgres', 'of_boss'), qr/DynamoDB answered TopSecretCode: the text of a listener\. Request id TOPSECRETID\./,
	'a server of a superuser goes where it likes, and is told all');
cmp_ok(heard(), '>', 0, 'which the listener has heard');
$node->psql('postgres', "SET ROLE tenant; SET exactonce.allowed_endpoints = '127.0.0.1:1'", stderr => \$errors);
like($errors, qr/cannot be changed now/, 'nobody lists an endpoint in a session');
$node->psql('postgres', server_sql('odd', endpoint => "http://127.0.0.1.1:$port", table => 'tab'), stderr => \$errors);
like($errors, qr/Plain http is allowed for loopback addresses only/, '127.0.0.1.1 is a name, and not loopback');
$node->psql('postgres', "ALTER SYSTEM SET exactonce.allowed_endpoints = 'https://a.test'", stderr => \$errors);
like($errors, qr/DETAIL:  It is not a list of host\[:port\]: /, 'what is no host is not listed');

# ----- a name that leads to this machine ----------------------------------------

my $before = heard();
my $local = qr/DynamoDB could not be reached\nDETAIL:  Last answer: the host has an address of this machine or of its link\./;
allow("x.localhost:$port, 2130706433:$port, 127.0.0.1");
like(read_as('tenant', 'by_name'), $local, 'a listed name that leads to loopback is not followed');
like(read_as('tenant', 'by_spelling'), $local, 'nor is an odd spelling of the address');
like(read_as('tenant', 'by_address'), $refused, 'nor does an address without its port allow another port');
is(heard(), $before, 'the listener has seen no connection of these');

# ----- listed as an address with its port ---------------------------------------

allow("127.0.0.1:$port");
my $log = -s $node->logfile;
my $out = read_as('tenant', 'by_address');
like($out, qr/DynamoDB answered an unknown code\./, 'a listed listener is asked');
my $coded = read_as('tenant', 'coded');
like($coded, qr/DynamoDB answered ValidationException\./, 'a code of DynamoDB is shown');
my $bare = read_as('tenant', 'bare');
like($bare, qr/Last answer: HTTP status 400\./, 'of an answer without a code the status is shown');
my $secret = qr/listener|secret/i;
unlike($out . $coded . $bare, $secret, 'no text, code or request id of the listener is shown');
unlike(slurp_file($node->logfile, $log), $secret, 'nor logged');
unlike($sql->("SELECT d FROM exactonce_stats_details d WHERE server IN ('by_address', 'coded', 'bare')"), $secret, 'nor counted by its name');

# ----- a session that goes on ---------------------------------------------------

my ($engine) = $ENV{EO_ENDPOINT} =~ m{//(.*)};
allow($engine);
make_server('works', $ENV{EO_ENDPOINT}, 'tenant', key_prefix => 'tenant/');
$out = run_script($node, "SET ROLE tenant;\nSELECT idem_once('kept', '1', server => 'works');\n");
unlike($out, qr/ERROR/, 'keys of a tenant are completed at a listed engine');
settled($node);
is(status_of('tap_endpoints', 'tenant/kept'), 'COMPLETED', 'and finished by the worker');
my $run = start_script($node, "SET ROLE tenant;\nSELECT 'before', status FROM idem_get('kept', server => 'works');\n" . say_in_script('read once')
	  . halt_until('no longer listed') . "SELECT 'after', idem_get('kept', server => 'works');\n");
await_word('read once');
allow('');
go_on('no longer listed');
like(finish_script($run), qr/before\|COMPLETED\n.*$refused/s, 'a session obeys the list after a reload');

# ----- an owner that is no superuser any more -----------------------------------

$sql->('CREATE ROLE boss SUPERUSER');
make_server('of_the_boss', $ENV{EO_ENDPOINT}, 'boss', key_prefix => 'boss/');
fault(key => 'later', to => 'COMPLETED', do => 'drop', times => 0);
$out = run_script($node, "SET ROLE boss;\nSELECT idem_once('later', '1', server => 'of_the_boss');\n");
unlike($out, qr/ERROR/, 'a superuser completes a key');
await_request(key => 'later', to => 'COMPLETED');
$sql->('ALTER ROLE boss NOSUPERUSER');
wait_until('the worker obeys the list, too',
	sub { $sql->('SELECT last_error FROM exactonce_health') =~ /server "of_the_boss" may not use its endpoint/ });
end_fault('later');
is(status_of('tap_endpoints', 'boss/later'), 'COMMITTING', 'the key waits');
allow($engine);
settled($node);
is(status_of('tap_endpoints', 'boss/later'), 'COMPLETED', 'until the endpoint is listed');

stop_without_crash($node);
kill 'TERM', $child;
waitpid $child, 0;
undef $child;
done_testing();
