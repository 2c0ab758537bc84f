# Writes are refused when they are handed in if DynamoDB would refuse them whatever its tables
# contain; and none is refused that it takes.  Each case is put to the engine itself, too.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::Bin/..";
use ExactOnce;
use JSON::PP;
use Test::More;

my $target = 'tap_hand_in_target';
my $node = new_node('hand_in', options => { transact_tables => $target });
dynamodb(CreateTable => { TableName => $target, BillingMode => 'PAY_PER_REQUEST',
	AttributeDefinitions => [ { AttributeName => 'id', AttributeType => 'S' } ],
	KeySchema => [ { AttributeName => 'id', KeyType => 'HASH' } ] });
# An item that actions can be about.
dynamodb(PutItem => { TableName => $target, Item => { id => { S => 'k' }, n => { N => '1' }, l => { L => [ { N => '1' }, { N => '2' } ] },
	m => { M => { a => { N => '1' }, b => { M => {} } } }, s => { SS => [ 'a', 'b' ] } } });
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE cases (n int, kind text, writes jsonb);
CREATE FUNCTION try(kind text, writes jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	IF kind = 'transact' THEN
		PERFORM idem_transact(gen_random_uuid()::text, writes);
	ELSE
		PERFORM idem_once(gen_random_uuid()::text, writes => writes);
		RAISE SQLSTATE 'OK000';
	END IF;
	RETURN 'taken';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN CASE WHEN SQLSTATE = 'OK000' THEN 'taken' WHEN SQLSTATE LIKE 'ID%' THEN 'by the service'
		WHEN SQLSTATE = '22023' AND SQLERRM LIKE 'write 1 %' AND detail <> '' THEN 'refused' ELSE SQLSTATE || ' ' || SQLERRM END;
END $$;
SQL

my $json = JSON::PP->new->canonical;
my @cases;
my $one = { ':n' => { N => '1' } };

sub add
{
	my ($expected, $name, $action) = @_;
	push @cases, { expected => $expected, name => substr($name =~ s/  +| [#]b{9,}/.../gr, 0, 90), action => $action };
	return;
}

sub update
{
	my ($expected, $expression, $values, $names, %more) = @_;
	$values = $one if !defined $values && $expression =~ /:n/;
	add($expected, join(' ', $expression, map { $_ ? $json->encode($_) : () } $values, $names), { Update => {
		TableName => $target, Key => { id => { S => 'k' } }, UpdateExpression => $expression,
		$values ? (ExpressionAttributeValues => $values) : (), $names ? (ExpressionAttributeNames => $names) : (), %more } });
	return;
}

sub put
{
	my ($expected, $value, %more) = @_;
	add($expected, 'put ' . substr($json->encode($value), 0, 60) . join(' ', %more), { Put => { TableName => $target, Item => { id => { S => 'p' }, a => $value }, %more } });
	return;
}

sub condition
{
	my ($expected, $expression, $values, $names) = @_;
	$values = $one if !defined $values && $expression =~ /:n/;
	add($expected, "if $expression", { ConditionCheck => { TableName => $target, Key => { id => { S => 'nothing' } }, ConditionExpression => $expression,
		$values ? (ExpressionAttributeValues => $values) : (), $names ? (ExpressionAttributeNames => $names) : () } });
	return;
}

# ----- expressions ------------------------------------------------------------

update(taken => $_) foreach 'SET a = :n', "set\ta=:n\n", 'SET a = :n REMOVE b ADD c :n', 'REMOVE b, c', 'SET n = n + :n', 'SET n = :n - n',
	'SET a = (:n)', 'SET n = (n + :n)', 'SET n = if_not_exists(n, :n) + :n', 'SET a = if_not_exists(b, if_not_exists(c, :n))', 'SET a = id',
	'SET a = n, b = n REMOVE c', 'SET m.a = :n, m.c = :n', 'SET m.b.c = :n, m.a = :n', 'SET l[0] = :n, l[1] = :n', 'SET l [ 0 ] = :n', 'SET m. a = :n',
	'SET A_1b = :n', 'ADD n :n, c :n', 'SET a = n REMOVE l[0]', 'SET m.id = :n', 'SET if_not_exists = :n', 'SET size = :n', 'SET contains = :n',
	'SET a =' . ' ' x 4087 . ':n';
update(taken => 'SET l = list_append (l, :l)', { ':l' => { L => [ { N => '1' } ] } });
update(taken => 'SET l = list_append(if_not_exists(l, :l), :l)', { ':l' => { L => [] } });
update(taken => 'ADD s :s', { ':s' => { SS => ['c'] } });
update(taken => 'DELETE s :s', { ':s' => { SS => ['c'] } });
update(taken => 'SET #0 = :0, #_ = :_', { ':0' => { N => '1' }, ':_' => { N => '1' } }, { '#0' => 'x', '#_' => 'y' });
update(taken => 'SET #d = :n, a = :n', undef, { '#d' => 'a.b' });
update(taken => 'SET #d = :n', undef, { '#d' => 'status' });
update(taken => 'SET #d = :n, l[0] = :n', undef, { '#d' => '[0' });
update(taken => 'SET #' . 'b' x 254 . ' = :n', undef, { '#' . 'b' x 254 => 'x' });
update(refused => $_) foreach '', ' ', 'SET', 'REMOVE', 'SET a = :n,', 'SET a = :n SET b = :n', 'REMOVE b remove c', 'SET a = :n, REMOVE b', 'a = :n', 'SET a :n',
	'SET a =', 'SET a == :n', 'SET a = :n = :n', 'ADD n = :n', 'ADD n b', 'DELETE n', 'REMOVE n = :n', 'REMOVE n l', 'ADD n :n :n',
	'SET id = :n', 'REMOVE id', 'REMOVE id.x', 'REMOVE id[0]', 'ADD id :n', 'SET id.x = :n',
	'SET a = :m', 'SET #a = :n', 'SET a = #a', 'SET a = :', 'SET a = :n WHERE', 'SET é = :n', 'SET _a = :n', 'SET 1a = :n', 'SET a-b = :n', 'SET a$ = :n', 'SET a = :n;',
	'SET "a" = :n', 'SET a = 1', 'SET n = n + 1', "SET a = 'x'", 'SET a = :n /* x */', 'SET a..b = :n', 'SET .b = :n', 'SET a[-1] = :n', 'SET a[x] = :n', 'SET a[:n] = :n',
	'SET a[0 = :n', 'SET a = :n, a = :n', 'SET m = :n, m.a = :n', 'SET m.a = :n, m[0] = :n', 'SET a = :n REMOVE a', 'SET a = :n ADD a.c :n', 'SET a = foo(:n)', 'SET a = size(b)',
	'SET a = LIST_APPEND(a, :n)', 'SET a = (:n', 'SET a = :n)', 'ADD n :n, n :n', 'DELETE n :n',
	'SET a =' . ' ' x 4088 . ':n', 'SET ' . join('.', ('a') x 33) . ' = :n';
update(refused => 'SET a = :n', { %$one, ':m' => { N => '1' } });
update(refused => 'SET a = :n', undef, { '#a' => 'a' });
update(refused => 'SET a = :n', { %$one, n => { N => '1' } });
update(refused => 'SET a = :n', undef, { a => 'b' });
update(refused => 'SET #a = :n', undef, { '#a' => '' });
update(refused => 'SET #a = :n', undef, { '#a' => 'id' });
update(refused => 'SET a = :n REMOVE #x', undef, { '#x' => 'a' });
update(refused => 'SET #a-b = :n', undef, { '#a-b' => 'x' });
update(refused => 'SET #' . 'b' x 255 . ' = :n', undef, { '#' . 'b' x 255 => 'x' });
update(refused => $_, { ':n' => { S => 'x' } }) foreach 'SET n = n + :n', 'SET n = :n - n', 'ADD n :n';
update(refused => 'ADD n :n', { ':n' => { L => [] } });
update(refused => "SET a = $_") foreach qw(status name value count timestamp date data user state type key order total items);
update(refused => "SET $_ = :n") foreach qw(Status NAME year hour counter region role url zone abort ttl uuid view work a.status l[0].path);
update(taken => "SET $_ = :n") foreach qw(id2 amount note price email customer paid this quantity sku);
# The service knows more: types, and what is there.
update('by the service' => $_) foreach 'SET n.a = :n', 'SET a = nothing', 'SET m = m + :n', 'ADD s :n', 'SET a = :n + :n + :n', 'SET a = b c', 'SET a = list_append(:n)',
	'SET a = if_not_exists(:n, :n)', 'SET nothing.a = :n';

condition(taken => $_) foreach 'attribute_not_exists(id)', 'attribute_not_exists(id) and not attribute_exists(a)', 'attribute_not_exists(id) OR size(a) > :n',
	'attribute_not_exists(id) OR a IN (:n, :n)', 'attribute_not_exists(id) OR a BETWEEN :n AND :n', 'attribute_not_exists(id) OR not (attribute_exists(m.b) OR l[0] <> :n)';
condition(taken => 'attribute_not_exists(id) OR begins_with(a, :s) OR contains(a, :s) OR attribute_type(a, :s)', { ':s' => { S => 'S' } });
condition(taken => 'attribute_not_exists(#s)', undef, { '#s' => 'status' });
condition(refused => $_) foreach '', 'ATTRIBUTE_NOT_EXISTS(id)', 'foo(id)', 'if_not_exists(id, :n)', 'attribute_not_exists(status)', 'attribute_not_exists(id) OR a = :m', 'a = 1', "a = 'x'", 'a == "b"',
	'attribute_not_exists(id) OR a != :n';
condition(refused => 'attribute_not_exists(id)', { ':m' => { N => '1' } });

# ----- values -----------------------------------------------------------------

my ($true, $false) = (JSON::PP::true, JSON::PP::false);
put(taken => $_) foreach { L => [] }, { NS => [ '1', '2' ] }, { NS => [ '1', '-1' ] }, { BS => [ 'AA==', 'AAA=' ] }, { SS => [''] }, { SS => [ '', 'a' ] }, { BS => [''] },
	{ NULL => $true }, { S => '' }, { B => '' }, { B => 'AB==' }, { N => '+1' }, { N => '1.' }, { N => '.5' }, { N => '1e-130' }, { N => '9.9e125' }, { N => '0e500' },
	{ N => '1' x 38 }, { N => '1' . '0' x 100 }, { BOOL => $false }, { SS => [ 'a', 'A' ] };
put(refused => $_) foreach { SS => [] }, { NS => [] }, { BS => [] }, { SS => [ 'a', 'b', 'a' ] }, { NS => [ '1', '1.0' ] }, { NS => [ '1', '1e0' ] }, { NS => [ '0', '-0' ] },
	{ BS => [ 'AA==', 'AA==' ] }, { BS => [ 'AA==', 'AB==' ] }, { NULL => $false }, { M => { a => { NULL => $false } } }, { L => [ { SS => [] } ] }, { M => { '' => { S => 'x' } } },
	{ N => '' }, { N => ' 1' }, { N => '0x1' }, { N => '1e126' }, { N => '1e-131' }, { N => '1' x 39 };
update(refused => 'SET a = :n', { ':n' => $_ }) foreach { SS => [] }, { SS => [ 'a', 'a' ] }, { NULL => $false };
put(refused => { S => 'x' }, ExpressionAttributeValues => $one);
put(refused => { S => 'x' }, ExpressionAttributeNames => { '#a' => 'b' });
put(refused => { S => 'x' }, ConditionExpression => '');

# ----- keys -------------------------------------------------------------------

foreach my $key ({ id => { S => '' } }, { id => { SS => ['a'] } }, { id => { NULL => $true } }, { id => { L => [] } },
	{ id => { S => 'a' }, b => { S => 'b' }, c => { S => 'c' } })
{
	update(refused => 'SET a = :n', undef, undef, Key => $key);
	add(refused => 'delete ' . $json->encode($key), { Delete => { TableName => $target, Key => $key } });
}
add(taken => 'delete', { Delete => { TableName => $target, Key => { id => { S => 'nothing' } } } });

# ----- the comparison ---------------------------------------------------------

sub engine_takes
{
	my ($action) = @_;
	return eval { dynamodb(TransactWriteItems => { TransactItems => [$action] }); 1 } ? 1 : 0;
}

my $values = '';
foreach my $n (0 .. $#cases)
{
	my $case = $cases[$n];
	$case->{engine} = engine_takes($case->{action});
	$case->{conditional} = $case->{action}{ConditionCheck} || ($case->{action}{Put} // {})->{ConditionExpression} // '' ne '';
	my $text = $json->encode([ $case->{action} ]) =~ s/'/''/gr;
	utf8::encode($text) if utf8::is_utf8($text);
	$values .= "INSERT INTO cases SELECT $n, kind, '$text' FROM unnest(ARRAY['transact', 'at commit']) kind;\n";
}
$node->safe_psql('postgres', $values);
my %said = map { /^(\d+) (.*?): (.*)/s ? ("$1 $2" => $3) : () }
  split /\n/, $node->safe_psql('postgres', "SELECT n || ' ' || kind || ': ' || try(kind, writes) FROM cases ORDER BY n");
foreach my $n (0 .. $#cases)
{
	my $case = $cases[$n];
	is($case->{engine}, $case->{expected} eq 'taken' ? 1 : 0, "$case->{name}: the engine " . ($case->{expected} eq 'taken' ? 'takes it' : 'refuses it'));
	is($said{"$n transact"}, $case->{expected}, "$case->{name}: $case->{expected}, by idem_transact");
	# A condition is refused for itself there.
	is($said{"$n at commit"}, $case->{expected} eq 'refused' || $case->{conditional} ? 'refused' : 'taken', "$case->{name}: at commit")
}

# ----- what the user sees -----------------------------------------------------

my $out = run_script($node, qq(SELECT idem_once('told', writes => '[{"Delete": {"TableName": "$target", "Key": {"id": "x"}}},
	{"Update": {"TableName": "$target", "Key": {"id": "y"}, "UpdateExpression": "SET id = :n", "ExpressionAttributeValues": {":n": 1}}}]');\n));
like($out, qr/ERROR:  22023: write 2 is not one that DynamoDB knows\nDETAIL:  It changes attribute "id", which is a part of the key\./, 'the message has the number of the write, and why');
$out = run_script($node, qq(SELECT idem_once('told', writes => '[{"Put": {"TableName": "$target", "Item": {"id": {"S": ""}}}}]');\n));
like($out, qr/ERROR:  22023: write 1 .*\nDETAIL:  Attribute "id" is a part of the key, and must not be empty\./, 'the key of a Put is known by its table');
$out = run_script($node, qq(SELECT idem_once('told', writes => '[{"Put": {"TableName": "$target", "Item": {"id": "x", "tags": {"NS": ["1", "1.0"]}}}}]');\n));
like($out, qr/ERROR:  22023: write 1 .*\nDETAIL:  A set of type NS has the same element twice\./, 'a set is named by its type');

stop_without_crash($node);
done_testing();
