# exactonce: build, install, and the checks that need no server.
#
#   make && make install      build and install for the PostgreSQL of pg_config
#   make unit                 plain C tests under the sanitizers
#   make bench                times and ratios, beside libcurl and Powertools
#   make bench-instructions   instructions of a call, by library and by step
#   make lint                 the rules of layering, errors and names
#   make indent               format the sources as PostgreSQL does
#   script/test               everything, with servers of its own

EXTENSION = exactonce
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" exactonce.control)
MODULE_big = exactonce
DATA = sql/exactonce--$(EXTVERSION).sql

# Layer by layer, from the bottom.
OBJS = \
	src/parse.o src/wire.o \
	src/options.o src/validator.o src/guc.o src/error.o \
	src/http.o src/json.o src/crypto.o src/sigv4.o src/credentials.o \
	src/dynamodb.o src/expression.o src/layout.o src/action_layout.o \
	src/store.o src/transact_items.o src/tokens.o src/claimtable.o src/slots.o src/databases.o src/outbox.o src/xact.o \
	src/acquire.o src/batch.o src/claim.o src/transact.o src/pin.o src/action.o src/operate.o src/settle.o src/seal.o src/places.o \
	src/canonical.o src/gate.o src/table.o \
	src/sql_args.o src/sql_rows.o src/sql_idem.o src/sql_call.o src/sql_guard.o src/sql_action.o src/sql_key.o src/sql_admin.o src/sql_views.o \
	src/worker.o src/launcher.o src/hooks.o \
	src/exactonce.o

PG_CONFIG ?= pg_config
# PostgreSQL's headers count as the system's, so that -Wextra is about ours.
PG_CPPFLAGS = -I$(srcdir)/src -isystem $(shell $(PG_CONFIG) --includedir-server)
PG_CFLAGS = -Wall -Wextra $(EO_CFLAGS)
ifneq (,$(findstring clang,$(CC)))
# pg_config reports the flags of the compiler PostgreSQL was built with.
PG_CFLAGS += -Wno-ignored-optimization-argument -Wno-unknown-warning-option
endif
SHLIB_LINK = -lcurl -ljson-c -lcrypto

# Tests against a running server; script/test supplies one.
REGRESS = setup key options arguments lifecycle outcomes limits errors privileges transactions workflow transact actions admin
ISOLATION = race locks lost guard
REGRESS_OPTS = --inputdir=test

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard $(srcdir)/src/*.h)

.PHONY: lint indent unit bench bench-instructions
lint:
	script/lint
indent:
	script/indent
unit:
	$(MAKE) -C test/unit
bench:
	bench/run
bench-instructions:
	bench/run --instructions

print-%:
	@echo $($*)
