# No PIN, pepper, hash or token of an action is where it should not be: in the log at
# its most talkative, in statistics, in what callers see, in the table.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use ExactOnce::Actions;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my %secret = (
	pin => 'pin-Rf7Kq2', wrong => 'pin-Zx4Tw9', long => 'pin-Hv8Lm3',
	pepper => 'pepper-Nd5Yb1Jc6', other => 'pepper-Ql9Gt4Mz0', key => 'key-Gp3Ws0Ua');
my $table = 'tap_action_secrets';
my $node = new_node('action_secrets', mapping => '', options => { pin_attempts => 9 });
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $statements = $sql->("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'");

# What an operator writes into a statement is logged: this comes before the log that
# is searched.
$sql->(<<"SQL");
CREATE USER MAPPING FOR PUBLIC SERVER exactonce
	OPTIONS (access_key_id 'test', secret_access_key '$secret{key}', pin_pepper '$secret{pepper}');
@{[ server_sql('another', table => $table, mapping => '') ]}
CREATE USER MAPPING FOR PUBLIC SERVER another
	OPTIONS (access_key_id 'test', secret_access_key '$secret{key}', pin_pepper '$secret{other}');
SELECT idem_create_table();
CREATE TABLE said (what text, words text);
SQL
$node->append_conf('postgresql.conf', <<"CONF");
shared_preload_libraries = '@{[ $statements ? 'pg_stat_statements, ' : '' ]}exactonce'
log_min_messages = debug5
log_statement = 'all'
log_duration = on
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
log_error_verbosity = verbose
compute_query_id = on
exactonce.log_requests = on
track_activity_query_size = 100kB
CONF
my $offset = -s $node->logfile;
$node->restart;
$sql->('CREATE EXTENSION pg_stat_statements') if $statements;

# ----- calls from PL/pgSQL ----------------------------------------------------

# An expression for a text that no statement spells: the function has it as a
# parameter.
sub unspelled
{
	my ($text) = @_;
	return join ' || ', map { 'chr(' . ord . ')' } split //, $text;
}
my ($pin, $wrong_pin) = map { unspelled($secret{$_}) } qw(pin wrong);
my $long_pin = 'repeat(' . unspelled($secret{long}) . ', 30)';
my @tokens = map { sprintf '%08x-feed-4bad-8cab-5eedfacade%02x', $_ * 0x01234567, $_ } 1 .. 9;
my @unspelled_tokens = map { '(' . unspelled($_) . ')::uuid' } @tokens;

# Evaluates an expression in a block, and keeps what it says, also if it fails.
sub block
{
	my ($what, $expression) = @_;
	return <<"SQL";
DO \$block\$
DECLARE
	pin text := $pin;
	wrong text := $wrong_pin;
	long text := $long_pin;
	word text;
	message text;
	detail text;
	hint text;
	context text;
BEGIN
	word := ($expression)::text;
	INSERT INTO said VALUES ('$what', word);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
		context = PG_EXCEPTION_CONTEXT;
	word := concat_ws(' ', message, detail, hint, context);
	INSERT INTO said VALUES ('$what', word);
	RAISE WARNING '%', word;
END \$block\$;
SQL
}

sub consume_leak
{
	my ($pin, $n) = @_;
	return "action_consume('leak', $pin, token => $unspelled_tokens[$n])";
}

sub create_many
{
	my @pairs = map { "jsonb_build_object($_)" } @_;
	return 'action_create_many(jsonb_build_array(' . join(', ', @pairs) . '))';
}

# What is evaluated, what it says, and the fault that its request of this kind meets.
my %denied = (do => 'answer', status => 400, code => 'AccessDeniedException');
my %dropped = (do => 'drop', times => 0);
my $outcomes = "SELECT string_agg(outcome::text, ' ') FROM";
my @blocks = (
	[ 'create', "(action_create('{\"n\": 1}', pin => pin, id => 'leak')).outcome", 'created' ],
	[ 'create many', "($outcomes @{[ create_many(q('id', 'leak2', 'pin', pin), q('id', 'leak3', 'pin', pin)) ]})",
		'created created' ],
	[ 'create a third', "(action_create(pin => pin, id => 'leak8')).outcome", 'created' ],
	[ 'create twice', "action_create(pin => pin, id => 'leak')", qr/exists already/ ],
	[ 'too long', "action_create(pin => long, id => 'leak4')", qr/pin is too long/ ],
	[ 'too long, of many', "($outcomes @{[ create_many(q('pin', pin), q('pin', long)) ]})", qr/pin is too long/ ],
	[ 'no string', "($outcomes @{[ create_many(q('pin', jsonb_build_array(pin))) ]})", qr/is not a string/ ],
	[ 'never active', "action_create(pin => pin, id => 'leak5', expires_at => '2000-01-01')",
		qr/expires_at must be later/ ],
	[ 'no PIN', "(action_consume('leak')).outcome", 'invalid_pin' ],
	[ 'wrong PIN', '(' . consume_leak('wrong', 0) . ').outcome', 'invalid_pin' ],
	[ 'long PIN', "(action_consume('leak', long)).outcome", 'invalid_pin' ],
	[ 'attempt denied', consume_leak('pin', 1), qr/denied access/, 'attempt', %denied ],
	[ 'attempt unknown', consume_leak('pin', 2), qr/unknown/, 'attempt', %dropped ],
	[ 'consume unknown', consume_leak('pin', 3), qr/unknown/, 'consumed', %dropped ],
	[ 'create denied', "action_create(pin => pin, id => 'leak6')", qr/denied access/, 'created', %denied ],
	[ 'right PIN', '(' . consume_leak('pin', 4) . ').outcome', 'consumed' ],
	[ 'the same caller again', '(' . consume_leak('pin', 4) . ').replayed', 'true' ],
	[ 'another caller', '(' . consume_leak('pin', 5) . ').outcome', 'already_used' ],
	[ 'get', "(action_get('leak')).state", 'consumed' ],
	[ 'cancel', "(action_cancel('leak2')).outcome", 'canceled' ]);
my $told = '';
foreach my $block (@blocks)
{
	my ($what, $expression, $expected, $to, %fault) = @$block;
	reset_proxy();
	fault(to => $to, %fault) if %fault;
	$told .= run_script($node, block($what, $expression));
	reset_proxy();
	my $said = $sql->("SELECT words FROM said WHERE what = '$what'");
	ref $expected ? like($said, $expected, "logged: $what") : is($said, $expected, "logged: $what");
}

# ----- other calls ------------------------------------------------------------

# an error that nobody catches, and one about a pepper
$told .= run_script($node, "SELECT outcome FROM action_create(pin => $long_pin);\n");
my $other = run_script($node, "SELECT outcome FROM action_consume('leak8', $pin, server => 'another');\n");
like($other, qr/ID007: .*another pin_pepper/, 'logged: another pepper');
is($sql->("SELECT attempts_left FROM action_get('leak8')"), '9', 'a guess with another pepper takes no attempt');
$told .= $other;

# parameters, as a driver sends them
my $driver = script_file($node, "SELECT outcome FROM action_consume('leak3', :pin, token => :token);\n");
foreach my $case (
	[ 'a wrong PIN', $secret{wrong}, $tokens[6], 0 ],
	[ 'no token', $secret{pin}, 'not a token', 2 ],
	[ 'the right PIN', $secret{pin}, $tokens[7], 0 ])
{
	my ($what, $pin, $token, $status) = @$case;
	my @pgbench = ('pgbench', '-n', '-M', 'extended', '-t', 1, '-D', "pin=$pin", '-D', "token=$token");
	my $said = '';
	IPC::Run::run([ @pgbench, '-f', $driver, '-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \undef, '>&', \$said);
	is($? >> 8, $status, "logged: $what as a parameter");
	# PostgreSQL repeats what is no uuid; it is no token either.
	$told .= $said;
}
is($sql->("SELECT state, attempts_left FROM action_get('leak3')"), 'consumed|7',
	'logged: an action is consumed by a driver');

# a call that waits
reset_proxy();
$sql->(block('made', "(action_create(pin => pin, id => 'leak7')).outcome"));
my $waits = block('waits', "(action_consume('leak7', pin, token => $unspelled_tokens[8])).outcome");
my $run = hold_request($node, 'consumed', 'leak7', $waits);
my $activity = $sql->("SELECT string_agg(a::text, ' ') FROM pg_stat_activity a");
like($activity, qr/leak7/, 'a call that waits is in pg_stat_activity');
release_held();
$told .= finish_script($run);
is($sql->("SELECT words FROM said WHERE what = 'waits'"), 'consumed', 'a call that was in pg_stat_activity goes on');

# ----- what is where ----------------------------------------------------------

my %places = (
	'pg_stat_activity' => $activity,
	'what callers see' => $told . $sql->('SELECT string_agg(words, chr(10)) FROM said'));
SKIP:
{
	skip 'pg_stat_statements is not installed', 1 unless $statements;
	$places{'pg_stat_statements'} = $sql->("SELECT string_agg(query, chr(10)) FROM pg_stat_statements");
	like($places{'pg_stat_statements'}, qr/action_consume/, 'calls are in pg_stat_statements');
}
my $records = records($table);
stop_without_crash($node);
$places{'the log'} = substr slurp_file($node->logfile), $offset;
like($places{'the log'}, qr/DEBUG:.*exactonce: UpdateItem on server "exactonce"/s, 'requests are in the log');

# What only DynamoDB may know, too.  The second half of an attempt's token, behind a
# slash, is the caller's.
my @leaks = qw(leak leak2 leak3 leak7 leak8);
foreach my $id (@leaks)
{
	my $record = $records->{"ACTION#$id"};
	@secret{ "salt of $id", "hash of $id" } = (split /\$/, $record->{pinHash})[ 4, 5 ];
	$secret{"created token of $id"} = $record->{createdToken};
	my $n = 0;
	$secret{"attempt " . ++$n . " of $id"} = (split m{/})[0] foreach @{ $record->{pinTokens} // [] };
}
$secret{"token $_"} = $tokens[$_] foreach 0 .. $#tokens;
is(scalar(grep { !defined || length() < 10 } values %secret), 0, 'every secret that is searched for is known');
cmp_ok(scalar(keys %secret), '>=', 6 + 3 * @leaks + @tokens + 5, 'all secrets are searched for');
foreach my $place (sort keys %places)
{
	# spelled as they are, or as bytes
	my @found = grep {
		my $hex = unpack 'H*', $secret{$_};
		index(lc $places{$place}, lc $secret{$_}) >= 0 || index(lc $places{$place}, $hex) >= 0
	} sort keys %secret;
	is("@found", '', "no secret is in $place");
}
foreach my $id (@leaks)
{
	my %record = %{ $records->{"ACTION#$id"} };
	my $hash = delete $record{pinHash};
	my $rest = encode_json(\%record);
	like($hash, qr/^scrypt\$16384\$8\$1\$[0-9a-f]{32}\$[0-9a-f]{64}/, "the record of $id has a hash");
	my @found = grep { index($rest . $hash, $secret{$_}) >= 0 } qw(pin wrong long pepper other key);
	is("@found", '', "the record of $id has no secret");
	is(index($rest, $secret{"hash of $id"}), -1, "the record of $id has the hash in one attribute");
}
is($records->{'ACTION#leak'}{consumedToken}, $tokens[4], "the record of an action has its consumer's token");
done_testing();
