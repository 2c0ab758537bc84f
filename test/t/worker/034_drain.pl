# idem_drain(): before a switchover nothing is left to be done.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('drain');
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

sub errors_of
{
	my ($text) = @_;
	my ($out, $err);
	$node->psql('postgres', "\\set VERBOSITY sqlstate\n$text", stdout => \$out, stderr => \$err);
	return $err;
}

# Whether the data may be moved, as idem_check() says.
sub ready
{
	return $sql->(q(SELECT status || '|' || detail FROM idem_check() WHERE "check" = 'ready'));
}

my $run = start_script($node, "BEGIN;\nSELECT outcome FROM idem_acquire('open');\n" . say_in_script('ready')
	  . halt_until('go') . "SELECT idem_complete('open', '1');\nCOMMIT;\n");
await_word('ready');
my $life = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");

is(ready(), 'ok|not yet; what is left: 1 claim, the open life', 'idem_check() says that the database is not ready to be moved');
like(errors_of("BEGIN; SELECT idem_acquire('own'); SELECT idem_drain('1 s')"), qr/55006/,
	'a transaction with claims cannot wait for itself');
is($sql->("SELECT idem_drain('200 ms')") > 0, 1, 'a claim is open: after the timeout something is left');
is($sql->("SELECT outcome FROM idem_acquire('after', on_commit => 'keep')"), 'acquired',
	'after the timeout new claims are allowed again');

my $drain = start_script($node, "SELECT idem_drain('@{[ paced('1 min') ]}');\n");
wait_until('while it waits new claims are barred', sub { errors_of("SELECT idem_acquire('" . rand() . "')") =~ /55000/ });
like(errors_of("SELECT idem_once('new')"), qr/55000/, 'and those at commit');
go_on('go');
unlike(finish_script($run), qr/ERROR/, 'a transaction that is open can complete its key');
is(finish_script($drain) =~ /^0$/m, 1, 'then nothing is left');
is(record('tap_drain', 'open')->{status}, 'COMPLETED', 'its key is completed');
is(item('tap_drain', "ORIGIN#$life")->{state}, 'closed', 'the life is closed');
is(ready(), 'ok|yes: nothing is left, and new claims are barred', 'idem_check() says that the database is ready');
like(errors_of("SELECT idem_acquire('new')"), qr/55000/, 'new claims stay barred');
is($sql->("SELECT result FROM idem_get('open')"), '1', 'a key can be read');
is($sql->('SELECT idem_drain(NULL)'), 0, 'an operator allows them again');
is(ready(), 'ok|not yet: nothing is left, and new claims are allowed', 'then it is not ready any more');
is($sql->("SELECT outcome FROM idem_acquire('new')"), 'acquired', 'and they are made');
isnt($sql->("SELECT life FROM exactonce_lives WHERE state = 'open'"), $life, 'under another life');

# A beat of the life is on its way while it is closed.
$life = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");
my $beats = requests(key => "ORIGIN#$life");
fault(key => "ORIGIN#$life", do => 'hold', times => 1);
await_request(key => "ORIGIN#$life", n => $beats + 1);
is($sql->("SELECT idem_drain('@{[ paced('1 min') ]}')"), 0, 'drained again');
is(item('tap_drain', "ORIGIN#$life")->{state}, 'closed', 'this life is closed, too');
release_held();
wait_until('the beat is refused', sub { grep { $_->{status} == 400 } requests(key => "ORIGIN#$life") });
is($sql->('SELECT count(*) < 9 FROM exactonce_lives'), 't', 'a refused claim mints no life');
$node->restart;
is($sql->("SELECT outcome FROM idem_acquire('restarted')"), 'acquired', 'a restart ends it, too');
unlike(slurp_file($node->logfile), qr/is not its own any more/, 'nobody is told that somebody else has changed the life');
stop_without_crash($node);
done_testing();
