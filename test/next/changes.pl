# Makes the next version of the tree in a folder: the kinds of change that docs/upgrade.md allows
# in a minor version.  Dies if a file does not have what is to be changed.
use strict;
use warnings FATAL => 'all';

my ($tree) = @ARGV;

# Replaces the one place of a file that matches.
sub change
{
	my ($name, $pattern, $text) = @_;
	my $path = "$tree/$name";
	open(my $in, '<', $path) or die "$path: $!";
	my $content = do { local $/; <$in> };
	close $in;
	my $n = $content =~ s/$pattern/$text/g;
	die "$name: $n places match $pattern" unless $n == 1;
	open(my $out, '>', $path) or die "$path: $!";
	print $out $content;
	close $out or die "$path: $!";
}

change('exactonce.control', qr/'1\.0'/, "'1.1'");

# A new column of an internal table, which rows of the old version do not have.
change('src/ledger/outbox_scan.h', qr/EO_OUTBOX_COLUMNS = EO_OUTBOX_REASON_ITEM\n/,
	"EO_OUTBOX_MADE_BY,\n\tEO_OUTBOX_COLUMNS = EO_OUTBOX_MADE_BY\n");
change('src/ledger/internal_form.c', qr/\{"reason_item", INT4OID, true\}\n/,
	"{\"reason_item\", INT4OID, true},\n\t{\"made_by\", TEXTOID, true}\n");
change('src/ledger/outbox.c', qr/(\tform_writes\(&row->writes, values, nulls\);\n)/,
	"\tform_writes(&row->writes, values, nulls);\n\tvalues[EO_OUTBOX_MADE_BY - 1] = CStringGetTextDatum(EO_VERSION);\n");

# A new attribute of records.
change('src/records/layout.h', qr/\tEO_A_TTL,\n/, "\tEO_A_MADE_BY,\n\tEO_A_TTL,\n");
change('src/records/layout.c', qr/\[EO_A_WRITES\] = \{'w', "eo_writes"\},/, q([EO_A_WRITES] = {'w', "eo_writes"},[EO_A_MADE_BY] = {'y', "eo_made_by"},));
change('src/records/layout.c', qr/\[EO_A_WRITES\] = \{'w', "writes"\},/, q([EO_A_WRITES] = {'w', "writes"},[EO_A_MADE_BY] = {'y', "made_by"},));
change('src/records/record.c', qr/#define SET_TERMS ", #a = :a/, '#define SET_TERMS ", #y = :c, #a = :a');
change('src/records/record.c', qr/(of a write that sets the retention, too \*\/\n)/,
	"of a write that sets the retention, too */\n\tconst char *made_by;\n");
change('src/records/record.c', qr/(\ts->derived\.ttl_s = s->derived\.kept_from_s \+ w->retention_s;\n)/,
	"\ts->derived.ttl_s = s->derived.kept_from_s + w->retention_s;\n\ts->derived.made_by = EO_VERSION;\n");
change('src/records/record.c', qr/(\t\['d'\] = NUMBER\(FROM_DERIVED, Derived, dead_ms\),\n)/,
	"\t['d'] = NUMBER(FROM_DERIVED, Derived, dead_ms),\n\t['c'] = STRING(FROM_DERIVED, Derived, made_by),\n");

# Another form of the file exactonce_claims.
change('src/cluster/claim_file.c', qr/UINT64CONST\(0x65786163746f6e\d\d\)/, "UINT64CONST(0x65786163746f6eff)");

# A function that is changed: the update gives it another default, and its name in the library
# is new, so that the old library cannot run the update.
change('src/sql/lives.c', qr/INFO_V1\(eo_idem_drain\)/, 'INFO_V1(eo_idem_drain_1_1)');
change('src/sql/lives.c', qr/^eo_idem_drain\(PG/m, 'eo_idem_drain_1_1(PG');
