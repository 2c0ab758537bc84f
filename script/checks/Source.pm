# What the checks of this folder share: findings, and the C of this project read as text.
#
# The format that script/indent keeps puts the name of a function that is defined in
# column 0, and one declaration on a line or more.
package Source;

use strict;
use warnings;
use Exporter 'import';
use File::Basename qw(basename dirname);

our @EXPORT = qw(
  finding notice slurp line_at stem
  sources tests source declarations definitions sql_functions tap_files
  findings_of only_in circles_in);

chdir dirname(__FILE__) . '/../..' or die "chdir: $!";

my %seen;

# ----- findings -----

# A finding is a line, and makes the check fail; the same one is told once.
sub finding
{
	my ($where, $what) = @_;
	print "$where: $what\n" unless $seen{"$where: $what"}++;
}

# A notice is no finding.
sub notice
{
	print "notice: $_[0]\n";
}

END { $? = 1 if %seen && $? == 0 }

# Each line that another program prints is a finding.
sub findings_of
{
	my ($program) = @_;
	finding($program, $_) foreach split /\n/, `$program`;
	finding($program, "ends with status $?") if $? && !%seen;
}

# Code that matches the pattern is allowed in the named files only.
sub only_in
{
	my ($pattern, $what, @homes) = @_;
	foreach my $file (sources())
	{
		next if grep { $_ eq $file } @homes;
		my $code = source($file)->{code};
		finding("$file:" . line_at($code, $-[0]), $what) while $code =~ /$pattern/g;
	}
}

# ----- files -----

sub slurp
{
	my ($file) = @_;
	open my $in, '<', $file or die "$file: $!";
	local $/;
	return scalar <$in>;
}

sub line_at
{
	my ($text, $offset) = @_;
	return 1 + (substr($text, 0, $offset) =~ tr/\n//);
}

# "slots" for src/cluster/slots.c
sub stem
{
	my ($file) = @_;
	return basename($file) =~ s/\.\w+$//r;
}

# The C of the extension, and that of its tests.
my @sources = sort glob('src/*.[ch] src/*/*.[ch]');
my @tests = sort glob('test/*/*.[ch] bench/*.[ch]');
sub sources { return @sources }
sub tests { return @tests }

sub tap_files { return sort glob('test/t/*.pl test/t/*/*.pl') }

# ----- C -----

my %read;

# A C file in parts: its text; its lines; its code without comments and with empty
# strings, in which lines have the numbers that they have in the file; its comments and
# strings, each with the number of its line; and the words that the code uses, other than
# to declare them.
sub source
{
	my ($file) = @_;
	return $read{$file} if $read{$file};
	my $text = slurp($file);
	my %c = (text => $text, code => '', comments => [], strings => [], lines => [ split /\n/, $text ]);
	my $line = 1;
	while ($text =~ m{(/\*.*?\*/)|"((?:[^"\\\n]|\\.)*)"|('(?:[^'\\\n]|\\.)*')|([^/"']+|.)}gs)
	{
		my $part = $&;
		push @{ $c{comments} }, [ $line, $1 ] if defined $1;
		push @{ $c{strings} }, [ $line, $2 ] if defined $2;
		my $breaks = $part =~ tr/\n//;
		$c{code} .= defined $4 ? $part : (defined $1 ? ' ' : '""') . "\n" x $breaks;
		$line += $breaks;
	}
	(my $code = $c{code}) =~ s/^(?:\w+ )?extern\b[^;{]*;//mg;
	$c{uses} = { map { $_ => 1 } $code =~ /\b([A-Za-z_]\w*)\b/g };
	return $read{$file} = \%c;
}

# What headers declare: name => [file, line, the statement].
sub declarations
{
	my %declared;
	foreach my $file (grep { /\.h$/ } sources())
	{
		my $code = source($file)->{code};
		while ($code =~ /^((?:\w+ )?extern\b[^;{]*?(\w+)\s*(?:\([^;]*|\[[^;]*)?;)/mg)
		{
			my ($statement, $name) = ($1, $2);
			$declared{$name} = [ $file, line_at($code, $-[0]), $statement ];
		}
	}
	return %declared;
}

# External functions and variables of C files, and the inline functions of headers:
# name => [file, line].
sub definitions
{
	my %defined;
	foreach my $file (sources())
	{
		my $code = source($file)->{code};
		my $kind = $file =~ /\.h$/ ? qr/^static inline/ : qr/^(?!static\b|typedef\b)/;
		while ($code =~ /^(\w[^\n;{}()]*)\n(\w+)\(/mg)
		{
			my ($type, $name, $at) = ($1, $2, $-[2]);
			$defined{$name} = [ $file, line_at($code, $at) ] if $type =~ $kind;
		}
		next if $file =~ /\.h$/;
		while ($code =~ /^(?!static\b|typedef\b|extern\b|return\b)\w[\w \t*]*?[ \t*](\w+)(?:\[[^\]]*\])*(?: =[^;]*)?;/mg)
		{
			$defined{$1} = [ $file, line_at($code, $-[1]) ];
		}
	}
	return %defined;
}

# The functions that the install scripts make, with the C function of each, or '' for
# those in SQL.
sub sql_functions
{
	my %sql;
	foreach my $statement (map { split /;\n/, slurp($_) } glob('sql/*.sql'))
	{
		next unless $statement =~ /\bCREATE (?:OR REPLACE )?FUNCTION (?:\@extschema\@|exactonce_internal)\.(\w+)/;
		my $name = $1;
		$sql{$name} = $statement =~ /\bAS 'MODULE_PATHNAME', '(\w+)'/ ? $1 : '';
	}
	return %sql;
}

# ----- graphs -----

# The circles of a graph, node => { node => 1, ... }: each is a list of nodes, in order,
# every one of which leads to every other.  This is Tarjan's algorithm.
sub circles_in
{
	my ($graph) = @_;
	my (%index, %low, %open, @stack, @circles);
	my $visit;
	$visit = sub {
		my ($node) = @_;
		no warnings 'recursion';
		$index{$node} = $low{$node} = keys %index;
		push @stack, $node;
		$open{$node} = 1;
		foreach my $next (sort keys %{ $graph->{$node} // {} })
		{
			$visit->($next) unless exists $index{$next};
			$low{$node} = $low{$next} if $open{$next} && $low{$next} < $low{$node};
		}
		return if $low{$node} != $index{$node};
		my @circle;
		do
		{
			push @circle, pop @stack;
			delete $open{ $circle[-1] };
		} while ($circle[-1] ne $node);
		push @circles, [ sort @circle ] if @circle > 1;
	};
	exists $index{$_} or $visit->($_) foreach sort keys %$graph;
	return @circles;
}

1;
