# Records a run for script/long chart: pgbench, an outage of DynamoDB, and pgbench again.
#   chart.pl SECONDS-OF-EACH-PHASE
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Aws;
use ExactOnce::Monitoring;
use POSIX qw(strftime);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my ($seconds) = @ARGV;
my $clients = 8;
my $folder = "$ENV{TESTDIR}/chart";
mkdir $folder or die "$folder: $!";

my $node = new_watched_node('chart', conf => "log_min_messages = fatal\nlog_min_error_statement = panic\n");
$node->safe_psql('postgres', 'CREATE TABLE work (key text)');
# A client that meets an error goes on with the next key.  One call in ten is a duplicate.
append_to_file("$folder/work.sql", <<'SQL');
\set n random(1, 10)
DO $$
DECLARE
	c idem_claim;
	k text := gen_random_uuid();
BEGIN
	SELECT * INTO c FROM idem_acquire(k);
	INSERT INTO work VALUES (k);
	PERFORM idem_complete(k, '{"done": true}');
EXCEPTION WHEN SQLSTATE 'ID006' THEN
	PERFORM pg_sleep(0.1);
END $$;
SELECT CASE WHEN :n = 1 THEN (idem_get('first')).status END;
SQL
run_script($node, "SELECT idem_once('first');\n");
# The engine is slow until it has warmed up.
IPC::Run::run([ 'pgbench', '-n', '-c', $clients, '-T', 10, '-f', "$folder/work.sql", $node->connstr('postgres') ], '>', "$folder/warm.log", '2>&1');
my $watch = watch($node, every => 2);
my $begin = time();
my @bench = ('pgbench', '-n', '-c', $clients, '-j', 2, '-T', 3 * $seconds, '--rate', 100, '-f', "$folder/work.sql", $node->connstr('postgres'));
my $run = IPC::Run::start([ 'setpriv', '--pdeathsig', 'TERM', '--', 'bash', '-c',
	'end=$((SECONDS + ' . 3 * $seconds . ')); while [ $SECONDS -lt $end ]; do "$@" || sleep 0.2; done', 'bash', @bench ],
	'<', \undef, '>', "$folder/pgbench.log", '2>&1');
sleep $seconds;
control('POST', '/engine/pause');
sleep $seconds;
control('POST', '/engine/resume');
sleep $seconds;
$run->kill_kill;
my $end = time();

# ----- the numbers, one file for each series ---------------------------------------------------

my @charts = (
	[ 'calls a second, by outcome', '', [ 'sum by (outcome) (rate(exactonce_calls_total{function=~"idem_acquire|idem_get"}[INTERVAL]))', 'outcome' ] ],
	[ 'duration of calls and requests, 99th percentile, seconds', "set logscale y; set yrange [*:*]",
		[ 'histogram_quantile(0.99, sum by (le, measure) (rate(exactonce_duration_seconds_bucket[INTERVAL])))', 'measure' ] ],
	[ 'completions that wait, and claims in the table', '', [ 'exactonce_pending_completions', '', 'completions that wait' ],
		[ 'exactonce_claim_table_used', '', 'claims' ] ],
	[ 'seconds since the last beat, and since DynamoDB answered', '', [ 'exactonce_life_beat_age_seconds', '', 'last beat' ],
		[ 'exactonce_circuit_silent_seconds', '', 'silent' ], [ 'exactonce_circuit_open * 10', '', 'circuit open (10: yes)' ] ]);
my ($n, @panels) = (0);
foreach my $chart (@charts)
{
	my ($title, $setting, @queries) = @$chart;
	my @plots;
	foreach my $query (@queries)
	{
		my ($expression, $label, $name) = @$query;
		$expression =~ s/INTERVAL/$watch->{interval}/;
		my %series = samples($watch, $expression, $label, $begin, $end);
		foreach my $key (sort keys %series)
		{
			my $file = 'series' . ++$n;
			my ($before, $text) = ($begin, '');
			foreach my $sample (grep { $_->[1] ne 'NaN' } @{ $series{$key} })
			{
				# A line has a gap where there is no value.
				$text .= "\n" if $sample->[0] - $before > 2.5;
				$text .= sprintf "%.1f %s\n", $sample->[0] - $begin, $sample->[1];
				$before = $sample->[0];
			}
			append_to_file("$folder/$file", $text);
			push @plots, "'$file' with lines linewidth 1.4 title '" . ($name // $key =~ tr/_/ /r) . "'" if -s "$folder/$file";
		}
	}
	ok(scalar @plots, "$title has values");
	push @panels, "set title '$title' offset 0,-0.4\n$setting\nplot " . join(', ', @plots) . "\nunset logscale y\nset yrange [0:*]\n";
}
my $cores = () = slurp_file('/proc/cpuinfo') =~ /^processor/mg;
my $version = $node->safe_psql('postgres', 'SHOW server_version') =~ s/ .*//r;
my $day = strftime('%Y-%m-%d', gmtime);
my $to = 3 * $seconds;
my ($off, $on) = ($seconds, 2 * $seconds);
append_to_file("$folder/draw.gp", <<"GP" . join('', @panels) . "unset multiplot\n");
set terminal svg size 960,640 font 'sans-serif,11' background 'white'
set multiplot layout 2,2 title "exactonce in Prometheus: pgbench with $clients clients, DynamoDB away from $off s to $on s\\nrecorded $day by script/long chart; PostgreSQL $version, DynamoDB Local, $cores cores, one machine" font ',12'
set xrange [0:$to]
set yrange [0:*]
set format x '%g s'
set grid linecolor rgb '#dddddd'
set key below samplen 1.5 spacing 0.9 font ',9'
set border 3
set tics nomirror
set object 1 rectangle from $off, graph 0 to $on, graph 1 behind fillcolor rgb '#fbe9e7' fillstyle solid noborder
GP
append_to_file("$folder/dashboard.json", recorded_dashboard($watch, $begin, $end, "pgbench with $clients clients, "
	. "DynamoDB away from $off s to $on s; recorded $day by script/long chart"));
unwatch($watch);
stop_without_crash($node);
ExactOnce::Aws::stop_aws();
done_testing();
