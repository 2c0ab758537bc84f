# The blocks of README.md and of docs do what they say.  The blocks of a recipe, or section,
# run in a database of its own.  The quick start of README.md runs twice: in a database like
# that of script/demo, and after the block about AWS.
#
# A comment in a block says what is compared:
#
#   -- => a | b         a row of the statement before; one comment for each row,
#                       (no rows) if there is none
#   -- ERROR: 23505 m   the statement before fails, with that SQLSTATE and message;
#                       "..." in it stands for anything
#
# Any other error, and any warning, fails the case of that block.  A block that begins
# with "-- meanwhile" is run by another session, while the one before it holds keys.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $docs = "$FindBin::Bin/../../../docs";
my @recipes = recipes(slurp_file("$docs/cookbook.md"));
my $setup = shift @recipes;
is($setup->{title}, 'Setup', 'the first section of the cookbook is the setup');
push @recipes, recipes(slurp_file("$docs/$_.md")) foreach qw(actions concepts copies);
push @recipes, grep { $_->{title} eq 'By symptom' } recipes(slurp_file("$docs/operations.md"));
push @recipes, grep { $_->{title} eq 'Who needs what' } recipes(slurp_file("$docs/security.md"));

my ($first, $quick_start, $on_aws) = map { @{ $_->{blocks} } } recipes(slurp_file("$FindBin::Bin/../../../README.md"));
ok(defined $on_aws, 'README.md has its blocks of SQL');

my $node = new_node('cookbook', conf => "max_prepared_transactions = 10\n");
my $scripts = 0;

# Run at the end of each block: while a reader reads on, the worker writes what has
# ended.
my $await_worker = <<'SQL';
DO $$
BEGIN
	FOR i IN 1..1000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM exactonce_claims WHERE state = 'ending');
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
SQL
make_table('orders', 'id', 'S');
make_table('stock', 'sku', 'S');
make_table('order_views', 'id', 'N');
make_table('customer_totals', 'customer', 'S');
dynamodb(PutItem => { TableName => 'stock', Item => { sku => { S => 'A1' }, n => { N => '5' } } });
run_readme('tap_readme_demo', demo_setup(), $first, $quick_start);
run_readme('tap_readme_aws', $on_aws, $quick_start);

# The database of a dump, in blocks of docs/operations.md and docs/copies.md.
$node->safe_psql('postgres', 'CREATE DATABASE staging');

foreach my $recipe (@recipes)
{
	(my $database = lc $recipe->{title}) =~ s/\W+/_/g;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	my @blocks = (@{ $setup->{blocks} }, @{ $recipe->{blocks} });
	while (@blocks)
	{
		# One session runs all blocks up to the next one that needs another session.
		my @together = shift @blocks;
		push @together, shift @blocks while @blocks && !is_beside($blocks[0]);
		my $run = start_blocks($database, @together);
		while (@blocks && is_beside($blocks[0]))
		{
			await_claims($database);
			finish_blocks(start_blocks($database, shift @blocks));
		}
		finish_blocks($run);
	}
	settled($node, $database);
	pass("$recipe->{title}: everything is finished");
	$node->safe_psql('postgres', "DROP DATABASE $database");
}

my %views = map { $_->{id} => $_ } @{ items('order_views') };
is_deeply(\%views, { 1001 => { id => 1001, customer => 'anna', total => 30, state => 'sent' },
	1002 => { id => 1002, customer => 'ben', total => 12.5, state => 'new' },
	1003 => { id => 1003, customer => 'anna', total => 20, state => 'new' } }, 'the read model shows the orders');
is_deeply(items('customer_totals'), [ { customer => 'anna', orders => 1, euros => 20 } ], 'an order is counted once');

stop_without_crash($node);
done_testing();

# Runs blocks of README.md in a database and a table of this name: the keys are not those of the
# recipes.
sub run_readme
{
	my ($name, @blocks) = @_;
	@blocks = map { +{ %$_, text => $_->{text} =~ s/table 'idempotency'/table '$name', endpoint '$ENV{EO_ENDPOINT}'/r } } @blocks;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	finish_blocks(start_blocks($name, @blocks));
	settled($node, $name);
	$node->safe_psql($name, 'DROP OWNED BY app; DROP ROLE app') if grep { $_->{text} =~ /CREATE ROLE app/ } @blocks;
	$node->safe_psql('postgres', "DROP DATABASE $name");
	return;
}

# What script/demo makes in its database and leaves there.
sub demo_setup
{
	return { name => 'script/demo', text => <<'SQL' };
CREATE EXTENSION exactonce;
CREATE SERVER exactonce FOREIGN DATA WRAPPER exactonce OPTIONS (region 'eu-west-1', table 'idempotency');
CREATE USER MAPPING FOR PUBLIC SERVER exactonce OPTIONS (access_key_id 'test', secret_access_key 'test');
SELECT idem_create_table();
CREATE TABLE payments (id serial, order_no text, amount numeric);
SQL
}

sub make_table
{
	my ($name, $key, $type) = @_;
	# Another suite may have left a table of that name.
	eval { dynamodb(DeleteTable => { TableName => $name }) } or $@ =~ /ResourceNotFound/ or die $@;
	dynamodb(CreateTable => { TableName => $name, BillingMode => 'PAY_PER_REQUEST',
		AttributeDefinitions => [ { AttributeName => $key, AttributeType => $type } ],
		KeySchema => [ { AttributeName => $key, KeyType => 'HASH' } ] });
	return;
}

# The items of a table, with the values of their attributes.
sub items
{
	my ($name) = @_;
	return [ map { my $item = $_; +{ map { $_ => (values %{ $item->{$_} })[0] } keys %$item } }
		  @{ dynamodb(Scan => { TableName => $name, ConsistentRead => JSON::PP::true })->{Items} } ];
}

# The sections that have blocks, in order.
sub recipes
{
	my ($text) = @_;
	my (@found, $block);
	my $title = 'Beginning';
	my $n = 0;
	foreach my $line (split /\n/, $text)
	{
		$n++;
		if ($block && $line eq '```') { undef $block }
		elsif ($block) { $block->{text} .= "$line\n" }
		elsif ($line =~ /^## (.*)/) { $title = $1 }
		elsif ($line eq '```sql')
		{
			push @found, { title => $title, blocks => [] } unless @found && $found[-1]{title} eq $title;
			push @{ $found[-1]{blocks} }, $block = { name => "$title, line $n", text => '' };
		}
	}
	return @found;
}

# Puts the test's endpoint and credentials where the reader puts others.
sub adapt
{
	my ($text) = @_;
	$text =~ s/(table 'idempotency')/$1, endpoint '$ENV{EO_ENDPOINT}'/g;
	$text =~ s/'\.\.\.'/'test'/g;
	$text =~ s{^\\i samples/}{\\i $FindBin::Bin/../../../samples/}mg;
	return $text;
}

# Waits until a session has keys under way, but not long: they may have come and gone
# unseen, and what the next block expects is true then, too.
sub await_claims
{
	my ($database) = @_;
	for (1 .. 100)
	{
		last if $node->safe_psql('postgres', <<"SQL") ne '0';
SELECT count(*) FROM exactonce_claims WHERE database = '$database' AND state IN ('asking', 'held', 'committing', 'session')
SQL
		usleep(20_000);
	}
	return;
}

sub is_beside
{
	my ($block) = @_;
	return $block->{text} =~ /\A-- meanwhile\b/;
}

# Starts a session that runs blocks.  The script marks, in its output and among its
# errors, the place of each comment that says what is expected, and the end of each
# block.
sub start_blocks
{
	my ($database, @blocks) = @_;
	my %run = (marks => [], out => '', err => '');
	my $script = '';
	foreach my $block (@blocks)
	{
		my $previous = '';
		foreach my $line (split(/\n/, adapt($block->{text})), '-- => end of block')
		{
			my ($kind, $value) = $line =~ /^-- (=>|ERROR:) (.*)/;
			$kind = 'end' if ($value // '') eq 'end of block';
			if (!$kind)
			{
				die "$block->{name}: not on a line of its own: $line" if $line =~ /-- (?:=>|ERROR:|fails:)/;
				$script .= "$line\n";
			}
			elsif ($kind eq '=>' && $previous eq '=>') { push @{ $run{marks}[-1]{values} }, $value }
			else
			{
				push @{ $run{marks} }, { block => $block, kind => $kind, values => [$value] };
				$script .= $await_worker if $kind eq 'end';
				$script .= "\\echo \@\@\n\\warn \@\@\n";
			}
			$previous = $kind // '';
		}
	}
	my $path = $node->basedir . '/block' . ++$scripts . '.sql';
	append_to_file($path, $script);
	$run{handle} = IPC::Run::start(
		[ 'psql', '-XAq', '-v', 'VERBOSITY=verbose', '-P', 'null=NULL',
			'-d', $node->connstr($database), '-f', $path ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err});
	return \%run;
}

# Compares what the blocks said with what is expected: one case a block.
sub finish_blocks
{
	my ($run) = @_;
	my @findings;

	$run->{handle}->finish;
	my @out = split /^\@\@\n/m, $run->{out}, -1;
	my @err = split /^\@\@\n/m, $run->{err}, -1;
	foreach my $mark (@{ $run->{marks} })
	{
		# The script goes to its end, unless the connection is lost.
		push @findings, 'psql ended early' if @out < 2;
		my $said = shift @out // '';
		my $problems = shift @err // '';
		my @errors = $problems =~ /^(?:psql:\S+:\d+: )?((?:ERROR|FATAL|PANIC|WARNING): .*|error: .*)$/mg;
		my @values = @{ $mark->{values} };
		if ($mark->{kind} eq 'ERROR:')
		{
			(my $error = shift @errors // 'no error') =~ s/^ERROR:\s+(\w{5}): /$1 /;
			my $wanted = join '.*', map { quotemeta } split /\.\.\./, $values[0], -1;
			push @findings, "expected: $values[0]\n     got: $error" if $error !~ /\A$wanted\z/;
		}
		push @findings, "not announced: $_" foreach @errors;
		if ($mark->{kind} eq '=>')
		{
			my $rows = join "\n", last_result($said);
			my $wanted = $values[0] eq '(no rows)' ? '' : join "\n", @values;
			push @findings, "expected: $wanted\n     got: $rows" if $rows ne $wanted;
		}
		next if $mark->{kind} ne 'end';
		ok(!@findings, "$mark->{block}{name}: the block does what it says") or diag(join "\n", @findings);
		@findings = ();
	}
	return;
}

# The rows of the last query, written as in the comments.
sub last_result
{
	my ($out) = @_;
	my @lines = split /\n/, $out;
	my $footer = pop @lines // '';
	my ($rows) = $footer =~ /^\((\d+) rows?\)$/ or return "no result but: $footer";
	my @rows = $rows > 0 ? splice(@lines, -$rows) : ();
	s/\|/ | /g foreach @rows;
	return @rows;
}
