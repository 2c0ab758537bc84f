# Prometheus and prometheus-postgres-exporter of Debian, beside a cluster.
#
# Both listen on loopback, on ports of their own, and end with the test.  The exporter logs
# in as a role that is a member of pg_monitor and nothing else.
package ExactOnce::Monitoring;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use ExactOnce;
use ExactOnce::Aws;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(new_watched_node watch unwatch values_of rules_of dashboard_of recorded_dashboard alert_state metrics samples
  start_exporter stop_exporter with_credentials);

my $http = HTTP::Tiny->new(timeout => 60);
# promtool and the rules of this tree, from the folder in which the tests are.
our $folder = "$ENV{TESTDIR}/monitoring";

my %environment;

# A cluster whose server fetches its credentials, so that there are metrics of these, too.
sub new_watched_node
{
	my ($name, %how) = @_;
	my $port = start_aws();
	%environment = (AWS_EC2_METADATA_DISABLED => 'true', AWS_SHARED_CREDENTIALS_FILE => '/dev/null', AWS_CONFIG_FILE => '/dev/null',
		AWS_CONTAINER_CREDENTIALS_FULL_URI => "http://127.0.0.1:$port/container", AWS_CONTAINER_AUTHORIZATION_TOKEN => 'container-token');
	my $node = with_credentials(sub {
		new_node($name, mapping => '', options => { credentials => 'chain', %{ $how{options} // {} } }, conf => $how{conf} // '') });
	$node->safe_psql('postgres', 'CREATE ROLE watch LOGIN IN ROLE pg_monitor; SELECT idem_create_table()');
	return $node;
}

# Starts something in the environment in which a server finds credentials.
sub with_credentials
{
	my ($code) = @_;
	local @ENV{ keys %environment } = values %environment;
	return $code->();
}

# ----- processes ------------------------------------------------------------------

# A process that ends when this one does, and writes to a log.
sub start_process
{
	my ($log, @command) = @_;
	return IPC::Run::start([ 'setpriv', '--pdeathsig', 'TERM', '--', @command ], '<', \undef, '>', $log, '2>&1');
}

sub start_exporter
{
	my ($watch) = @_;
	my $node = $watch->{node};
	local $ENV{DATA_SOURCE_NAME} = "host=" . $node->host . " port=" . $node->port . " user=watch dbname=postgres";
	$watch->{exporter} = start_process("$watch->{dir}/exporter.log", 'prometheus-postgres-exporter',
		"--extend.query-path=$folder/queries.yml", "--web.listen-address=127.0.0.1:$watch->{exporter_port}",
		'--disable-default-metrics', '--disable-settings-metrics');
	return;
}

sub stop_exporter
{
	my ($watch) = @_;
	(delete $watch->{exporter})->kill_kill;
	return;
}

# Starts both.  Prometheus asks and evaluates every so many seconds, or once a second, or as often as
# the machine can.
# hurried: the rules are a copy in which each "for" is so long and each range 15 times that.
sub watch
{
	my ($node, %how) = @_;
	my $dir = $node->basedir . '/watch';
	mkdir $dir or die "$dir: $!";
	my $watch = { node => $node, dir => $dir, exporter_port => PostgreSQL::Test::Cluster::get_free_port(),
		port => PostgreSQL::Test::Cluster::get_free_port() };
	my $every = $how{every} // min(10, int(pace()));
	my ($range, $lookback) = (15 * $every, 10 * $every);
	# Enough values for a rate.
	$watch->{interval} = 5 * $every . 's';
	my $rules = slurp_file("$folder/alerts.yml");
	if ($how{hurried})
	{
		$rules =~ s/^( +for:) .*/$1 ${every}s/mg;
		$rules =~ s/\[\d+m\]/[${range}s]/g;
	}
	append_to_file("$dir/alerts.yml", $rules);
	append_to_file("$dir/prometheus.yml", <<"YML");
global: {scrape_interval: ${every}s, evaluation_interval: ${every}s}
rule_files: ["$dir/alerts.yml"]
scrape_configs:
  - job_name: postgres
    static_configs: [{targets: ["127.0.0.1:$watch->{exporter_port}"]}]
YML
	start_exporter($watch);
	$watch->{prometheus} = start_process("$dir/prometheus.log", 'prometheus', "--config.file=$dir/prometheus.yml",
		"--storage.tsdb.path=$dir/data", "--web.listen-address=127.0.0.1:$watch->{port}", "--query.lookback-delta=${lookback}s");
	wait_until('Prometheus has numbers of the exporter', sub { values_of($watch, 'exactonce_claim_table_room') });
	return $watch;
}

sub unwatch
{
	my ($watch) = @_;
	stop_exporter($watch) if $watch->{exporter};
	$watch->{prometheus}->kill_kill;
	return;
}

# ----- what they say ----------------------------------------------------------------

# The text of all metrics, as the exporter gives it now.
sub metrics
{
	my ($watch) = @_;
	return $http->get("http://127.0.0.1:$watch->{exporter_port}/metrics")->{content};
}

sub ask
{
	my ($watch, $path, %arguments) = @_;
	my $query = %arguments ? '?' . $http->www_form_urlencode(\%arguments) : '';
	my $answer = $http->get("http://127.0.0.1:$watch->{port}/api/v1/$path$query");
	return undef if $answer->{status} >= 500;
	die "$path$query: $answer->{content}" unless $answer->{success};
	return decode_json($answer->{content})->{data};
}

# The values of an expression now; none, if Prometheus does not answer.
sub values_of
{
	my ($watch, $expression) = @_;
	my $data = ask($watch, 'query', query => $expression);
	return map { $_->{value}[1] } @{ $data ? $data->{result} : [] };
}

# The series of an expression from begin to end, in epoch seconds, by the value of a label.
sub samples
{
	my ($watch, $expression, $label, $begin, $end) = @_;
	my $data = ask($watch, 'query_range', query => $expression, start => $begin, end => $end, step => 1);
	return map { ($label eq '' ? '' : $_->{metric}{$label} // '') => $_->{values} } @{ $data->{result} };
}

# The alert rules: name, query, duration (for, in seconds).
sub rules_of
{
	my ($watch) = @_;
	return map { @{ $_->{rules} } } @{ ask($watch, 'rules')->{groups} };
}

# The expressions of the dashboard, with the variables as Grafana would fill them in.
sub dashboard_of
{
	my $dashboard = decode_json(slurp_file("$folder/dashboard.json"));
	my @expressions;
	foreach my $panel (@{ $dashboard->{panels} })
	{
		push @expressions, { title => "$panel->{title}: $_->{legendFormat}", query => query_of($_, '1m') } foreach @{ $panel->{targets} };
	}
	return @expressions;
}

# What Grafana asks for all exporters and databases, with this for $__rate_interval.
sub query_of
{
	my ($target, $interval) = @_;
	return $target->{expr} =~ s/\$__rate_interval/$interval/gr =~ s/\$(?:instance|database)\b/.*/gr;
}

# The text of the dashboard, in which each target of a panel has its series from begin to end.
sub recorded_dashboard
{
	my ($watch, $begin, $end, $caption) = @_;
	my $dashboard = decode_json(slurp_file("$folder/dashboard.json"));
	foreach my $target (map { @{ $_->{targets} } } @{ $dashboard->{panels} })
	{
		my $data = ask($watch, 'query_range', query => query_of($target, $watch->{interval}), start => $begin, end => $end, step => 1);
		foreach my $series (@{ $data->{result} })
		{
			my $name = $target->{legendFormat} =~ s/\{\{(\w+)\}\}/$series->{metric}{$1} \/\/ ''/ger =~ s/\s+/ /gr;
			push @{ $target->{series} }, { name => $name, values => $series->{values} };
		}
		$target->{series} //= [];
	}
	return encode_json({ %$dashboard, begin => $begin, end => $end, caption => $caption });
}

# inactive, pending or firing
sub alert_state
{
	my ($watch, $name) = @_;
	my ($rule) = grep { $_->{name} eq $name } rules_of($watch);
	return $rule ? $rule->{state} : 'unknown';
}

1;
