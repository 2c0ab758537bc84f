# The services that hand out credentials in AWS, as test/harness/aws.mjs plays them, and
# the environments in which a server finds them.
package ExactOnce::Aws;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use ExactOnce;
use File::Basename qw(dirname);
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(start_aws stop_aws services asked issued aws_file begin hundred_sessions credentials_row
  $role);

our $role = 'arn:aws:iam::123456789012:role/app';

my $http = HTTP::Tiny->new(timeout => 60);
my ($aws, $dir, $port, $stdin);

# Starts the services, and returns their port.
sub start_aws
{
	$dir = PostgreSQL::Test::Utils::tempdir();
	$aws = IPC::Run::start([ 'node', dirname(__FILE__) . '/../../harness/aws.mjs', "$dir/port" ],
		'<pipe', \*AWS_STDIN, '>', "$dir/aws.out", '2>', "$dir/aws.err");
	wait_until('the services of AWS have started', sub { -e "$dir/port" });
	$port = slurp_file("$dir/port");
	delete @ENV{ grep { /^AWS_/ } keys %ENV };
	return $port;
}

sub stop_aws
{
	close AWS_STDIN;
	$aws->finish;
	is(slurp_file("$dir/aws.err"), '', 'the services of AWS had nothing to complain of');
	return;
}

# How the services behave from now on; see test/harness/aws.mjs.
sub services
{
	my (%how) = @_;
	my $answer = $http->post("http://127.0.0.1:$port/control", { content => encode_json(\%how) });
	die "the services of AWS: $answer->{content}" unless $answer->{success};
	return;
}

# How often a path was asked for since the last call of services().
sub asked
{
	my ($path) = @_;
	return decode_json($http->get("http://127.0.0.1:$port/counts")->{content})->{$path} // 0;
}

# When the key that was issued ends, in epoch seconds.
sub issued
{
	my ($key) = @_;
	return decode_json($http->get("http://127.0.0.1:$port/issued")->{content})->{$key} / 1000;
}

# Writes a file beside those of the services, and returns its path.
sub aws_file
{
	my ($name, $text) = @_;
	append_to_file("$dir/$name", $text);
	return "$dir/$name";
}

# Starts the server anew with this environment and these options of the foreign server.
# The services are as in behave from the beginning, because the worker asks them, too.  An
# empty region or endpoint leaves the option out.
sub begin
{
	my ($node, $environment, %options) = @_;
	my $behave = delete $options{behave} // {};
	my $region = delete $options{region} // 'eu-west-1';
	local @ENV{ keys %$environment } = values %$environment;
	services(life => 3600, clock => 0, region => 'eu-central-1', token => 'container-token',
		metadata => 'ok', container => 'ok', sts => 'ok', %$behave);
	$node->restart;
	my $sql = server_sql('exactonce', mapping => '', table => 'tap_' . $node->name, region => $region, %options);
	# Both come before the option table, so a comma follows.
	$sql =~ s/\b(?:region|endpoint) '', //g;
	$node->safe_psql('postgres', "DROP SERVER exactonce CASCADE; $sql");
	reset_proxy();
	return;
}

# A hundred sessions begin at the same time with what begin() takes; the services are asked
# for each of the paths twice at most.  Another server, with a mapping, has been used
# before, so that they do not wait for the worker.  The services are slow, so that all sessions come while
# the first one fetches.  An answer that takes more than a second is asked for
# again, which a busy machine may cause, so there are three attempts.
sub hundred_sessions
{
	my ($node, $environment, $options, @paths) = @_;
	my @asked;
	foreach my $attempt (1 .. 3)
	{
		begin($node, $environment, connect_timeout => '60s', request_timeout => '4min', %$options);
		$node->safe_psql('postgres', 'DROP SERVER IF EXISTS first CASCADE; '
			. server_sql('first', table => 'tap_' . $node->name, region => ($options->{region} // 'eu-west-1') || 'eu-central-1')
			. "SELECT idem_acquire(gen_random_uuid()::text, on_commit => 'keep', server => 'first')");
		services(metadata => 'slow');
		$node->pgbench('-n -c 100 -j 4 -t 1', 0, [qr/processed: 100\/100/], [qr/^$/],
			'a hundred sessions begin at the same time',
			{ "many_$attempt" => "SELECT idem_acquire(gen_random_uuid()::text, on_commit => 'keep');" });
		@asked = map { asked($_) } @paths;
		last unless grep { $_ > 2 } @asked;
	}
	ok(!(grep { $_ > 2 } @asked), "a hundred sessions have each of these asked for twice at most: @paths") or diag("@asked");
	return;
}

sub credentials_row
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		q{SELECT status || ': ' || detail FROM idem_check() WHERE "check" = 'credentials'});
}

1;
