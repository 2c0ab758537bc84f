# What the TAP tests share: a cluster of their own with the extension and a
# server in it, and the harness's engine and proxy.
package ExactOnce;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use HTTP::Tiny;
use JSON::PP;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(control new_node psql_ok start_psql finish_psql wait_until settled
  dynamodb records crash await_end processes_of);

my $scripts = 0;
my $http = HTTP::Tiny->new(timeout => 60);

# Ask the harness: control('GET', '/count?op=UpdateItem'), control('POST', '/reset').
sub control
{
	my ($method, $path, $body) = @_;
	my $answer = $http->request($method, "$ENV{EO_CONTROL}$path",
		{ content => $body // '' });
	die "$method $path: $answer->{status} $answer->{content}"
	  unless $answer->{success};
	return $answer->{content};
}

# A running cluster; table is made fresh for it, options go to the server.
sub new_node
{
	my ($name, %how) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', $how{conf} // '');
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'exactonce'")
	  unless $how{no_preload};
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION exactonce');
	my $options = $how{options} // '';
	my $table = $how{table} // "tap_$name";
	$node->safe_psql('postgres', <<"SQL");
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce
	OPTIONS (region 'eu-west-1', table '$table', endpoint '$ENV{EO_ENDPOINT}' $options);
SQL
	$node->safe_psql('postgres', <<'SQL') unless $how{no_mapping};
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'test', secret_access_key 'test');
SQL
	$node->safe_psql('postgres', 'SELECT idem_create_table()')
	  unless $how{no_preload} || $how{no_mapping};
	control('POST', '/reset');
	return $node;
}

# Runs a script, which may contain errors, and returns its output, errors too.
sub psql_ok
{
	my ($node, $script) = @_;
	my $run = start_psql($node, $script);
	return finish_psql($run);
}

sub start_psql
{
	my ($node, $script) = @_;
	my %run = (out => '');
	my $file = $node->basedir . '/script' . ++$scripts . '.sql';
	append_to_file($file, $script);
	# From a file: IPC::Run would feed standard input only while it is pumped.
	$run{handle} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', $file ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err});
	return \%run;
}

sub finish_psql
{
	my ($run) = @_;
	$run->{handle}->finish;
	my $all = $run->{out} . $run->{err};
	$all =~ s/^psql:\S+:\d+: //mg;
	$all =~ s/^LOCATION:.*\n//mg;
	return $all;
}

# Waits until the code returns true, for at most a minute.
sub wait_until
{
	my ($what, $code) = @_;
	my $end = time() + 60;
	while (time() < $end)
	{
		return pass($what) if $code->();
		usleep(20_000);
	}
	return fail($what);
}

# Asks the engine itself, past the proxy: dynamodb(GetItem => { ... }). Dies with
# the answer to a request that is refused.
sub dynamodb
{
	my ($operation, $request) = @_;
	my $answer = $http->post($ENV{EO_ENGINE}, { headers => {
		'X-Amz-Target' => "DynamoDB_20120810.$operation", 'Content-Type' => 'application/x-amz-json-1.0',
		'Authorization' => 'AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0' },
		content => encode_json($request) });
	die $answer->{content} unless $answer->{success};
	return decode_json($answer->{content});
}

# What DynamoDB holds, by key: each record a hash of its attributes.
sub records
{
	my ($table) = @_;
	my (%records, $start);
	do
	{
		my $page = dynamodb(Scan => { TableName => $table, ConsistentRead => JSON::PP::true,
			$start ? (ExclusiveStartKey => $start) : () });
		foreach my $item (@{ $page->{Items} })
		{
			my %record = map { $_ => (values %{ $item->{$_} })[0] } keys %$item;
			(my $key = delete $record{pk}) =~ s/^IDEMPOTENCY#//;
			$records{$key} = \%record;
		}
		$start = $page->{LastEvaluatedKey};
	} while ($start);
	return \%records;
}

# A server's postmaster and all that it has started.
sub processes_of
{
	my ($node) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	return ($postmaster, split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children"));
}

# Kills every process of a server at once, as a machine that loses them all but
# keeps its files; the caller starts it again.  All are stopped first, so that
# none acts on the death of another.
sub crash
{
	my ($node) = @_;
	my ($postmaster) = processes_of($node);
	my (@pids, $before);
	# A stopped postmaster starts no more processes.  A child that ends while the
	# list is read can hide another one, so read it until it no longer changes.
	kill 'STOP', $postmaster;
	wait_while(sub { slurp_file("/proc/$postmaster/stat") !~ /\) T/ });
	do
	{
		$before = "@pids";
		@pids = processes_of($node);
		kill 'STOP', @pids;
	} until ("@pids" eq $before);
	kill 'KILL', @pids;
	await_end($node, @pids);
	return;
}

# Waits for the end of processes that were killed by somebody else.
sub await_end
{
	my ($node, @pids) = @_;
	foreach my $pid (@pids)
	{
		wait_while(sub { kill(0, $pid) });
	}
	$node->{_pid} = undef;
	return;
}

# Waits while the code returns true, for at most 30 seconds.
sub wait_while
{
	my ($code) = @_;
	my $end = time() + 30;
	usleep(2_000) while $code->() && time() < $end;
	return;
}

# Waits until the worker has nothing left to do.
sub settled
{
	my ($node) = @_;
	my $end = time() + 60;
	while (time() < $end)
	{
		return if $node->safe_psql('postgres', <<'SQL') eq '0';
SELECT (SELECT count(*) FROM exactonce_pending) + (SELECT count(*) FROM exactonce_claims WHERE state <> 'second look')
SQL
		usleep(10_000);
	}
	die 'the worker has not finished';
}

1;
