# A primary and its standby, whose replication slot has one name whichever of the two is
# the primary, so that exactonce.synchronized_standby_slots can name it on both.
#
# The object is a hash: name begins the names of the nodes; primary and standby are
# PostgreSQL::Test::Cluster; nodes counts the standbys that were made.
package ExactOnce::Pair;

use strict;
use warnings FATAL => 'all';
use ExactOnce;
use File::Path qw(remove_tree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

our $slot = 'standby';

sub sql
{
	my ($self, $text) = @_;
	return $self->{primary}->safe_psql('postgres', $text);
}

# Makes a standby of the primary, with the slot that its completions wait for.
sub new_standby
{
	my ($self) = @_;
	my $primary = $self->{primary};
	my $name = $self->{name} . '_' . ++$self->{nodes};
	$self->sql("SELECT pg_create_physical_replication_slot('$slot', true)");
	$primary->backup($name);
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	remove_tree($primary->backup_dir . "/$name");
	$standby->append_conf('postgresql.conf', "primary_slot_name = '$slot'");
	$standby->start;
	return $standby;
}

# Makes a standby of the old primary, which has ended.
sub rewind
{
	my ($self, $old) = @_;
	my $primary = $self->{primary};
	$self->sql("SELECT pg_create_physical_replication_slot('$slot', true)");
	$self->sql('CHECKPOINT');
	PostgreSQL::Test::Utils::system_or_bail('pg_rewind', '-D', $old->data_dir, '--no-sync', '--source-server',
		$primary->connstr('postgres'));
	# The settings are the source's now.
	$old->append_conf('postgresql.conf', 'port = ' . $old->port . "\nunix_socket_directories = '" . $old->host . "'");
	$old->enable_streaming($primary);
	$old->append_conf('postgresql.conf', "primary_slot_name = '$slot'");
	$old->start;
	return $old;
}

sub await_streaming
{
	my ($self) = @_;
	my $end = time() + paced(60);
	until ($self->sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") eq '1')
	{
		die 'the standby does not stream' if time() > $end;
		usleep(50_000);
	}
	return;
}

1;
