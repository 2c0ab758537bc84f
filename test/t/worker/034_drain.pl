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

# Sessions that drain, and are ended while they wait.
sub wait_in_drain
{
	my ($name) = @_;
	my $drain = start_script($node, "SET application_name = '$name';\nSELECT idem_drain('10 min');\n");
	wait_until("$name waits", sub {
		$sql->("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$name' AND query LIKE '%idem_drain%'") eq '1'
			&& is_barred();
	});
	return $drain;
}

sub is_barred
{
	return errors_of("SELECT idem_acquire('" . rand() . "', on_commit => 'keep')") =~ /55000/;
}

sub end_drain
{
	my ($name, $drain, $how) = @_;
	$sql->("SELECT $how(pid) FROM pg_stat_activity WHERE application_name = '$name'");
	finish_script($drain);
	return;
}

end_drain('alone', wait_in_drain('alone'), 'pg_terminate_backend');
is(is_barred(), '', 'a session that waits is terminated: new claims are allowed again');
my %drains = map { $_ => wait_in_drain($_) } 'first', 'second', 'third';
end_drain('first', $drains{first}, 'pg_terminate_backend');
is(is_barred(), 1, 'one of several is terminated: others bar new claims');
end_drain('second', $drains{second}, 'pg_cancel_backend');
is(is_barred(), 1, 'one is canceled: another bars new claims');
is($sql->("SELECT idem_drain('0')") > 0, 1, 'something is left for one that does not wait');
is($sql->('SELECT idem_drain(NULL)'), 0, 'claims are allowed by an operator');
is(is_barred(), 1, '... while another session waits, which bars new claims');
end_drain('third', $drains{third}, 'pg_terminate_backend');
is(is_barred(), '', 'the last one is terminated: new claims are allowed again');

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

is($sql->('SELECT count(*) < 9 FROM exactonce_lives'), 't', 'a refused claim mints no life');

# A life that is being closed is neither current nor over.  If no request arrives it is given up, and
# retired by the next.
$sql->("SELECT idem_drain(NULL)");
$sql->("SELECT idem_once('not closed')");
settled($node);
$life = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");
fault(key => "ORIGIN#$life", to => $_, do => 'drop', times => 0) foreach 'closed', 'retired';
cmp_ok($sql->("SELECT idem_drain('@{[ paced('4 s') ]}')"), '>', 0, 'a life that can be neither closed nor retired is left');
is(item('tap_drain', "ORIGIN#$life")->{state}, 'open', '... and open');
reset_proxy();
is($sql->("SELECT idem_drain('@{[ paced('1 min') ]}')"), 0, 'once it can, nothing is left');
$sql->('SELECT idem_drain(NULL)');
$sql->("SELECT idem_acquire('under another life', on_commit => 'keep')");

# A beat of the life is on its way while it is closed.
$life = $sql->("SELECT life FROM exactonce_lives WHERE state = 'open'");
my $beats = requests(key => "ORIGIN#$life");
fault(key => "ORIGIN#$life", do => 'hold', times => 1);
await_request(key => "ORIGIN#$life", n => $beats + 1);
is($sql->("SELECT idem_drain('@{[ paced('1 min') ]}')"), 0, 'drained again');
is(item('tap_drain', "ORIGIN#$life")->{state}, 'closed', 'this life is closed, too');
release_held();
wait_until('the beat is refused', sub { grep { $_->{status} == 400 } requests(key => "ORIGIN#$life") });
$node->restart;
is($sql->("SELECT outcome FROM idem_acquire('restarted')"), 'acquired', 'a restart ends it, too');
unlike(slurp_file($node->logfile), qr/is not its own any more/, 'nobody is told that somebody else has changed the life');
stop_without_crash($node);
done_testing();
