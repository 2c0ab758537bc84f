# idem_check() says while completions are stuck how many, since when, why, and what
# to do.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('check');

my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# What idem_check() says of one thing.
sub check
{
	return $sql->(qq{SELECT status, detail, advice FROM idem_check() WHERE "check" = '$_[0]'});
}

is($sql->(qq{SELECT status FROM idem_check() WHERE "check" = 'worker'}), 'ok',
	'a worker that nobody needs yet is no warning');
$sql->("SELECT idem_acquire('first'); SELECT idem_complete('first')");
settled($node);
like(check('pending'), qr/^ok\|nothing\|$/, 'pending: nothing waits');

my %advice = (
	ExpiredTokenException => qr/have expired/,
	UnrecognizedClientException => qr/access key id is not known/,
	InvalidSignatureException => qr/does not belong to the access key id/,
	AccessDeniedException => qr/policy does not allow/);
foreach my $code (sort keys %advice)
{
	fault(to => 'COMPLETED', do => 'answer', status => 400, code => $code);
	$sql->("SELECT idem_acquire('$code'); SELECT idem_complete('$code')");
	my $shown = qr/^failure\|1 completions, the oldest for \d+ s(?:; of which 1 have failed)?; the worker has failed since .*$code.*$advice{$code}/;
	wait_until("$code: is shown, with advice", sub { check('pending') =~ $shown });
	reset_proxy();
	settled($node);
	like(check('pending'), qr/^ok\|nothing\|$/, "$code: is not shown once it is over");
}

stop_without_crash($node);
done_testing();
