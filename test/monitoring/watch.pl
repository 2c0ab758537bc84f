# The rules are right, and the exporter and Prometheus of Debian have a value for each
# expression of rules and dashboard.
use strict;
use warnings FATAL => 'all';
use ExactOnce;
use ExactOnce::Aws;
use ExactOnce::Monitoring;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = $ExactOnce::Monitoring::folder;

# ----- without servers ---------------------------------------------------------------

sub said_by
{
	my (@command) = @_;
	IPC::Run::run(\@command, '>&', \my $said) and return 'SUCCESS';
	return $said;
}

is(said_by('promtool', 'check', 'rules', "$folder/alerts.yml"), 'SUCCESS', 'promtool check rules');
is(said_by('promtool', 'test', 'rules', "$ENV{TESTDIR}/test/monitoring/rules_test.yml"), 'SUCCESS', 'promtool test rules');
my $rules = slurp_file("$folder/alerts.yml");
my $tests = slurp_file("$ENV{TESTDIR}/test/monitoring/rules_test.yml");
foreach my $name ($rules =~ /- alert: (\w+)/g)
{
	my ($fires, $not) = (0, 0);
	while ($tests =~ /alertname="$name",.*\n.*\n +exp_samples: \[(\]?)/g) { $1 eq '' ? $fires++ : $not++ }
	ok($fires && $not, "$name has a case in which it fires and one in which it does not");
	like($rules, qr/- alert: $name\n(?:(?!- alert).)*?\n +reason: (?:(?!- alert).)*?\n +action: /s, "$name says why and what to do");
}

# ----- beside a cluster ----------------------------------------------------------------

my $node = new_watched_node('watched');
is($node->safe_psql('postgres', q{SELECT string_agg(roleid::regrole::text, ', ') FROM pg_auth_members WHERE member = 'watch'::regrole}),
	'pg_monitor', 'the role of the exporter is a member of pg_monitor only');
# Work that counts in all metrics: keys by COMMIT, duplicates, an error and a throttled request.
my $work = "SELECT idem_acquire('first', on_commit => 'keep');\nSELECT idem_acquire('second');\n"
  . "BEGIN;\nSELECT idem_once(gen_random_uuid()::text);\nCOMMIT;\n";
fault(do => 'answer', status => 400, code => 'ThrottlingException', key => 'throttled');
fault(do => 'answer', status => 400, code => 'AccessDeniedException', key => 'denied');
run_script($node, $work . "SELECT idem_get('throttled');\nSELECT idem_get('denied');\n");
my $watch = watch($node);
wait_until('there is more work, until rates have values', sub {
	run_script($node, $work);
	(values_of($watch, 'sum(rate(exactonce_server_rows_finished_total[1m])) > 0'))[0] });

# A rule is a value and a bound.  absent() has no value as long as it should not fire.
foreach my $rule (rules_of($watch))
{
	my ($value) = $rule->{query} =~ /^(.+) [<>] [0-9.]+$/s;
	isnt($value, undef, "$rule->{name} is a value and a bound") or next;
	my $absent = $value =~ s/^absent\((\w+)\)$/$1/;
	wait_until("$rule->{name} has a value", sub { scalar(values_of($watch, $value)) });
	is($rule->{state}, 'inactive', "$rule->{name} does not fire") unless $rule->{name} =~ /Errors|RequestsFail/;
	is($rule->{lastError} // '', '', "$rule->{name} can be evaluated");
}
foreach my $panel (dashboard_of())
{
	wait_until("dashboard, $panel->{title}: a value", sub { grep { $_ ne 'NaN' } values_of($watch, $panel->{query}) });
}

# ----- the exporter itself -----------------------------------------------------------------

my $metrics = metrics($watch);
foreach my $query (slurp_file("$folder/queries.yml") =~ /^(exactonce_\w+):$/mg)
{
	like($metrics, qr/^${query}_\w+\{/m, "$query gives metrics");
}
unlike($metrics, qr/^# HELP exactonce_\w+ (?:Unknown|untyped)/m, 'each column is named in the file');
unlike(slurp_file("$watch->{dir}/exporter.log"), qr/level=error/, 'the exporter has no error in its log');
my ($seconds) = $metrics =~ /^pg_exporter_last_scrape_duration_seconds (\S+)/m;
note(sprintf "the run has taken %d s", time() - $^T);
note("a scrape takes $seconds s");
unwatch($watch);
settled($node);
stop_without_crash($node);
ExactOnce::Aws::stop_aws();
done_testing();
