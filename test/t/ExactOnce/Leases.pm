# What tests about leases and lives share: which life a database has, its item, and transactions
# that do work and complete a key.  The work is a row of the table work.
package ExactOnce::Leases;

use strict;
use warnings FATAL => 'all';
use Exporter 'import';
use ExactOnce;

our @EXPORT = qw(
  sql_of errors_of complete complete_thousand start_open worked life_of life_item lease_runs_out change_life_item);

sub sql_of
{
	my ($node, $text, $database) = @_;
	return $node->safe_psql($database // 'postgres', $text);
}

# What statements end with: '' or errors, with their SQLSTATE.
sub errors_of
{
	my ($node, $text, $database) = @_;
	my ($out, $err) = ('', '');
	$node->psql($database // 'postgres', "\\set VERBOSITY verbose\n$text", stdout => \$out, stderr => \$err);
	return without_places($err);
}

# Does the work of a key and completes it, in one transaction; returns its errors.
sub complete
{
	my ($node, $key, $database) = @_;
	return errors_of($node, "BEGIN; INSERT INTO work VALUES ('$key'); SELECT idem_acquire('$key');"
		  . " SELECT idem_complete('$key'); COMMIT", $database);
}

# Completes a thousand keys in twenty transactions, as somebody whom nobody should disturb.
sub complete_thousand
{
	my ($node, $database) = @_;
	return errors_of($node, join('', map { "SELECT count(idem_once('$_ ' || i)) FROM generate_series(1, 50) i;\n" } 1 .. 20), $database);
}

# The same in a session that waits before its COMMIT until it is told the key.
sub start_open
{
	my ($node, $key) = @_;
	my $run = start_script($node, "BEGIN;\nINSERT INTO work VALUES ('$key');\nSELECT idem_acquire('$key');\n"
		  . "SELECT idem_complete('$key');\n" . say_in_script("has $key") . halt_until($key) . "COMMIT;\n");
	await_word("has $key");
	return $run;
}

# How often the work of a key was done.
sub worked
{
	my ($node, $key, $database) = @_;
	return sql_of($node, "SELECT count(*) FROM work WHERE key = '$key'", $database);
}

# The life that a database claims under now; empty if it has no item yet.
sub life_of
{
	my ($node, $database) = @_;
	return sql_of($node, "SELECT life FROM exactonce_lives WHERE state = 'open' LIMIT 1", $database);
}

sub life_item
{
	my ($table, $life) = @_;
	return item($table, "ORIGIN#$life") // {};
}

# Waits until no beat was confirmed for so long.
sub lease_runs_out
{
	my ($node, $what, $interval) = @_;
	return wait_until($what, sub { sql_of($node, <<"SQL") eq 't' });
SELECT clock_timestamp() - min(since) > '$interval' FROM exactonce_lives WHERE state = 'open'
SQL
}

# Sets text attributes of a life's item, as another server would.
sub change_life_item
{
	my ($table, $life, %values) = @_;
	my @names = sort keys %values;
	dynamodb(UpdateItem => { TableName => $table, Key => { pk => { S => "ORIGIN#$life" } },
		UpdateExpression => 'SET ' . join(', ', map { "#$_ = :$_" } @names),
		ExpressionAttributeNames => { map { ("#$_" => $_) } @names },
		ExpressionAttributeValues => { map { (":$_" => { S => $values{$_} }) } @names } });
	return;
}

1;
