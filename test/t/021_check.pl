# idem_check while completions are stuck: how many, since when, why, and what to do.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::Bin;
use ExactOnce;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('check');

sub sql { return $node->safe_psql('postgres', $_[0]) }

sub check { return sql(qq{SELECT status, detail, advice FROM idem_check() WHERE "check" = '$_[0]'}) }

is(sql(qq{SELECT status FROM idem_check() WHERE "check" = 'worker'}), 'ok', 'a worker that nobody needs yet is no warning');
sql("SELECT idem_acquire('first'); SELECT idem_complete('first')");
settled($node);
like(check('pending'), qr/^ok\|nothing\|$/, 'nothing waits');

my %advice = (
	ExpiredTokenException => qr/have expired/,
	UnrecognizedClientException => qr/access key id is not known/,
	InvalidSignatureException => qr/does not belong to the access key id/,
	AccessDeniedException => qr/policy does not allow/);
foreach my $code (sort keys %advice)
{
	control('POST', '/fault', encode_json({ to => 'COMPLETED', do => 'answer', status => 400, code => $code }));
	sql("SELECT idem_acquire('$code'); SELECT idem_complete('$code')");
	wait_until("$code is shown", sub { check('pending') =~ /^failure\|1 completions, the oldest for \d+ s; the worker has failed since .*$code.*$advice{$code}/ });
	control('POST', '/reset');
	settled($node);
	like(check('pending'), qr/^ok\|nothing\|$/, '... and is over');
}

$node->stop;
done_testing();
