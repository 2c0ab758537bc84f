# exactonce: build, install, and the checks that need no server.
#
#   make && make install      build and install for the PostgreSQL of pg_config
#   make unit                 plain C tests under the sanitizers
#   make bench                times and ratios, beside libcurl and Powertools
#   make bench-instructions   instructions of a call, by library and by step
#   make bench-scale          cost of a key by clients and by distance, beside what people use instead
#   make SANITIZE=1           with AddressSanitizer and UBSan, see script/long sanitize
#   make lint                 the rules of layering, errors and names
#   make indent               format the sources as PostgreSQL does
#   make installcheck         the SQL tests on a server that runs already
#   make dist                 the archive for PGXN, of the last commit, in the folder dist
#   make deb                  the Debian packages, in dist/debian-RELEASE; DEBIAN=13 for another release
#   script/test               everything, with servers of its own

EXTENSION = exactonce
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(srcdir)/exactonce.control)
MODULE_big = exactonce
# The first version has an install script, each later one a script that updates the one before.
DATA = $(patsubst $(srcdir)/%,%,$(wildcard $(srcdir)/sql/$(EXTENSION)--*.sql))

# Each folder of src is a layer, see src/README.md.
OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/src/*/*.c $(srcdir)/src/*.c)))

PG_CONFIG ?= pg_config
# No bitcode for PostgreSQL's just-in-time compiler: nothing is gained by inlining functions that
# wait for a network, and it takes the very clang that PostgreSQL was built with.
override with_llvm = no
# PostgreSQL's headers count as the system's, so that -Wextra is about ours.
PG_CPPFLAGS = -I$(srcdir)/src -isystem $(shell $(PG_CONFIG) --includedir-server) \
	-DEO_VERSION='"$(EXTVERSION)"'
PG_CFLAGS = -Wall -Wextra $(HARDENING) $(EO_CFLAGS)

# Only what PostgreSQL looks up by name is exported.  PGXS has this flag from version 16 on;
# compat.h has what the headers of 15 lack for it.
PG_CFLAGS += -fvisibility=hidden

# Debian builds PostgreSQL with most of these, and PGXS has the flags that PostgreSQL was built
# with; others may build it without.  FORTIFY_SOURCE stays as PostgreSQL has it.
HARDENING = -fstack-protector-strong -fstack-clash-protection
ifeq (,$(findstring _FORTIFY_SOURCE,$(shell $(PG_CONFIG) --cppflags --cflags) $(CPPFLAGS) $(CFLAGS)))
ifndef SANITIZE
PG_CPPFLAGS += -D_FORTIFY_SOURCE=2
endif
endif

# The same sources make the same bytes, wherever they are built: see script/repro.
PG_CFLAGS += '-ffile-prefix-map=$(CURDIR)=.'
ifdef VPATH
PG_CFLAGS += '-ffile-prefix-map=$(VPATH)=.'
endif

ifneq (,$(findstring clang,$(CC)))
# pg_config reports the flags of the compiler PostgreSQL was built with.
PG_CFLAGS += -Wno-ignored-optimization-argument -Wno-unknown-warning-option
endif
SHLIB_LINK = -lcurl -ljson-c -lssl -lcrypto -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
ifdef SANITIZE
SANITIZERS = -fsanitize=address,undefined -fno-omit-frame-pointer
PG_CFLAGS += $(SANITIZERS)
SHLIB_LINK += $(SANITIZERS)
endif

# The SQL tests.  script/test runs all of them, with servers of its own.
REGRESS = setup key powertools options arguments lifecycle outcomes limits errors privileges transactions workflow http transact writes actions admin enabled
ISOLATION = race locks lost guard

# make installcheck runs them on the server that libpq's variables name (PGHOST,
# PGPORT, ...) and the DynamoDB engine at EXACTONCE_ENDPOINT.  It leaves out those
# that need the proxy of script/test, which counts requests.
REGRESS_PROXY = arguments lifecycle limits errors privileges transact writes enabled
REGRESS_PREP = prepare-installcheck
REGRESS_OPTS = --inputdir=test --no-locale --encoding=UTF8
ISOLATION_OPTS = --inputdir=test --outputdir=. --use-existing

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h)

installcheck: REGRESS := $(filter-out $(REGRESS_PROXY),$(REGRESS))
installcheck: export EO_ENDPOINT = $(EXACTONCE_ENDPOINT)
installcheck: export EO_ENGINE_URL = $(EXACTONCE_ENDPOINT)
installcheck: export PATH := $(bindir):$(PATH)

.PHONY: prepare-installcheck
prepare-installcheck:
	@test/prepare $(ISOLATION_TESTDB)

.PHONY: lint indent unit bench bench-instructions bench-scale
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
bench-scale:
	bench/scale

# The version of a distribution is that of the extension with the number of the patch behind it.
DISTVERSION = $(shell sed -n 's/^  "version": *"\(.*\)",/\1/p' $(srcdir)/META.json)
DIST = dist/$(EXTENSION)-$(DISTVERSION).zip

# Not zipped anew by name and time of day: the same commit makes the same bytes.
.PHONY: dist
dist:
	mkdir -p dist
	git archive --format zip --prefix $(EXTENSION)-$(DISTVERSION)/ --output $(DIST) HEAD
	@echo $(DIST)

# The Debian packages, built in a chroot: script/package says how to try them.
.PHONY: deb
deb:
	script/package --build $(DEBIAN)

print-%:
	@echo $($*)
