# ca_file replaces the system's certificate authorities: a server with the option
# trusts those of the file and no others, a server without it the system's.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $harness = "$FindBin::Bin/../../harness";
my $dir = PostgreSQL::Test::Utils::tempdir();

# Two authorities, and a certificate for localhost that the first one has signed.
sub make_authority
{
	my ($name) = @_;
	system_or_bail('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', 2, '-subj', "/CN=$name",
		'-keyout', "$dir/$name.key", '-out', "$dir/$name.pem");
	return;
}
make_authority($_) foreach 'right', 'wrong';
append_to_file("$dir/localhost.ext", "subjectAltName = DNS:localhost\n");
system_or_bail('openssl', 'req', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost',
	'-keyout', "$dir/localhost.key", '-out', "$dir/localhost.csr");
system_or_bail('openssl', 'x509', '-req', '-days', 2, '-in', "$dir/localhost.csr", '-extfile', "$dir/localhost.ext",
	'-CA', "$dir/right.pem", '-CAkey', "$dir/right.key", '-CAcreateserial', '-out', "$dir/localhost.pem");
system_or_bail($ENV{CC} // 'cc', '-O1', '-fPIC', '-shared', '-o', "$dir/system_ca.so", "$harness/system_ca.c", '-ldl');

# TLS in front of the proxy
my ($proxy_port) = $ENV{EO_ENDPOINT} =~ /:(\d+)/;
my ($in, $port) = ('', '');
my $front = IPC::Run::start(
	[ 'node', "$harness/tls.mjs", "$dir/localhost.key", "$dir/localhost.pem", $proxy_port ], '<', \$in, '>', \$port);
$front->pump until $port =~ /^\d+\n/;
chomp $port;
my $endpoint = "https://localhost:$port";

sub start_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'exactonce'");
	$node->start;
	my %option = (table => 'tap_tls', endpoint => $endpoint, max_attempts => 1);
	$node->safe_psql('postgres', join '', 'CREATE EXTENSION exactonce;', server_sql('plain', table => 'tap_tls'),
		server_sql('without', %option), map { server_sql("with_$_", %option, ca_file => "$dir/$_.pem") } qw(right wrong changing));
	$node->safe_psql('postgres', q(SELECT idem_create_table('plain')));
	return $node;
}

# What a call on the server ends with.
my $calls = 0;
sub call
{
	my ($node, $server) = @_;
	reset_proxy();
	my $key = 'call ' . ++$calls;
	return run_script($node, "SELECT outcome FROM idem_acquire('$key', on_commit => 'keep', server => '$server');\n");
}

# This file, which the authorities of the system or of a server are read from, has this one from now on.
sub file_is
{
	my ($file, $name) = @_;
	unlink "$dir/$file.pem";
	append_to_file("$dir/$file.pem", slurp_file("$dir/$name.pem") . "# $name\n");
	return;
}

my $refused = qr/ERROR:  ID006: could not acquire key .*: DynamoDB could not be reached\nDETAIL:  .*certificate/;

file_is('changing', 'right');
my $node = start_node('tls');
is(call($node, 'with_right'), "acquired\n", 'an authority of ca_file is trusted');
like(call($node, 'with_wrong'), $refused, 'another authority than those of ca_file is not trusted');
is(count_requests(), 0, 'a server whose certificate is not trusted is sent nothing');
like(call($node, 'without'), $refused, 'without ca_file a certificate of no authority of the system is not trusted');
# The worker has a client of its own.
$node->safe_psql('postgres', "SELECT idem_once('finished', server => 'with_right')");
settled($node);
is(record('tap_tls', 'finished')->{status}, 'COMPLETED', 'the worker trusts an authority of ca_file');
stop_without_crash($node);

# Now the system has the right authority, too.
file_is('system', 'right');
{
	local $ENV{LD_PRELOAD} = "$dir/system_ca.so";
	local $ENV{EO_SYSTEM_CA} = "$dir/system.pem";
	local $ENV{SSL_CERT_FILE} = "$dir/right.pem";
	$node = start_node('tls_system');
}
is(call($node, 'without'), "acquired\n", 'without ca_file an authority of the system is trusted');
is(call($node, 'with_right'), "acquired\n", 'an authority of ca_file is trusted beside those of the system');
like(call($node, 'with_wrong'), $refused, 'with ca_file an authority of the system is not trusted');
is(count_requests(), 0, 'a server that only an authority of the system vouches for is sent nothing');

# A process that has a connection, and makes others beside it after the file has changed.
sub changes_to
{
	my ($file, $name, $server) = @_;
	reset_proxy();
	my $run = start_script($node, "SELECT outcome FROM idem_acquire('$file $name before', on_commit => 'keep', server => '$server');\n"
		. say_in_script("$file looks $name") . halt_until("$file $name now")
		. "SELECT outcome FROM idem_acquire_many(ARRAY['$file $name 1', '$file $name 2', '$file $name 3'], server => '$server');\n");
	await_word("$file looks $name");
	file_is($file, $name);
	go_on("$file $name now");
	return finish_script($run);
}
foreach ([ 'system', 'without' ], [ 'changing', 'with_changing' ])
{
	my ($file, $server) = @$_;
	like(changes_to($file, 'wrong', $server), qr/^acquired\n.*ERROR.*key "$file wrong \d".*certificate/s,
		"$server: an authority that is trusted no more is not trusted by a process that has trusted it");
	like(call($node, $server), $refused, "$server: nor by a session that begins later");
	like(changes_to($file, 'right', $server), qr/certificate.*\nacquired\nacquired|acquired\nacquired\nacquired/s,
		"$server: one that is trusted again is trusted");
}
stop_without_crash($node);

$front->kill_kill;
done_testing();
