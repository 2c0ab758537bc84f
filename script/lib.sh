# shellcheck shell=bash
# What script/test and script/demo share: the missing Debian packages, the
# PostgreSQL to use, building and installing.  Sourced by bash with $ROOT set.

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "$0: $*"
    exit 1
}

# Runs a command as root: by itself, or with sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root or sudo: $*"
    fi
}

# Runs a command as user postgres if this user is root, whom PostgreSQL's programs
# refuse.
unprivileged() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --init-groups -- env HOME=/tmp "$@"
    else
        "$@"
    fi
}

has_command() {
    command -v "$1" >/dev/null
}

has_header() {
    has_command cc && echo "#include <$1>" | cc -E - >/dev/null 2>&1
}

has_perl_module() {
    has_command perl && perl -M"$1" -e 1 2>/dev/null
}

# The programs of test/interop run in Debian's Python.
has_debian_boto3() {
    [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import boto3' 2>/dev/null
}

# The newest major version of PostgreSQL that is installed with its server and its
# headers, else the newest installed server, else the version that Debian offers.
# $EO_INSTALLED is the version whose installed extension is to be tested as it is.
pg_major() {
    local dir best='' server=''
    if [ -n "${EO_INSTALLED:-}" ]; then
        echo "$EO_INSTALLED"
        return
    fi
    for dir in $(printf '%s\n' /usr/lib/postgresql/*/ | sort -V); do
        [ -x "${dir}bin/postgres" ] || continue
        server=$(basename "$dir")
        [ -f "${dir}lib/pgxs/src/makefiles/pgxs.mk" ] && has_server_headers "$server" && best=$server
    done
    if [ -n "$best$server" ]; then
        echo "${best:-$server}"
    else
        { apt-cache depends postgresql 2>/dev/null || true; } |
            sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -1
    fi
}

has_server_headers() {
    [ -f "/usr/include/postgresql/$1/server/postgres.h" ]
}

can_fuzz() {
    has_command clang && echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }' |
        clang -x c -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null
}

# Only DynamoDB Local needs Java.  It takes the place of dynoxide on machines for which there is none.
needs_java() {
    case ${EO_ENGINE:-} in
        dynalite) return 1 ;;
        dynoxide) [ "$(uname -m)" != x86_64 ] ;;
    esac
}

# An extension that is installed already needs less: the harness compiles small programs.  So does
# the demo.
missing_packages() {
    has_command cc && has_command make || echo build-essential
    has_command curl || echo curl
    ! needs_java || has_command java || echo default-jre-headless
    has_command node || echo nodejs
    has_command npm || echo npm
    [ -z "${EO_INSTALLED:-}" ] || return 0
    has_header curl/curl.h || echo libcurl4-openssl-dev
    has_header json-c/json.h || echo libjson-c-dev
    has_header openssl/evp.h || echo libssl-dev
    [ "$1" = tests ] || return 0
    has_command openssl || echo openssl
    has_command python3 || echo python3
    has_debian_boto3 || echo python3-boto3
    has_command spin || echo spin
    has_perl_module IPC::Run || echo libipc-run-perl
    can_fuzz || echo clang libclang-rt-dev
}

# Installs whatever is missing for the tests, or the demo.  Calls apt-get only if something is.
# $EO_PG_CONFIG is the program of another PostgreSQL than those of Debian's packages.
install_missing() {
    local packages major
    local for=${1:-tests}
    packages=$(missing_packages "$for")
    major=$(pg_major)
    if [ -z "$major" ]; then
        update_package_lists
        major=$(pg_major)
        [ -n "$major" ] || die 'no PostgreSQL here, and none in the package lists'
    fi
    [ -x "/usr/lib/postgresql/$major/bin/postgres" ] || packages+=" postgresql-$major"
    [ -x "/usr/lib/postgresql/$major/bin/psql" ] || packages+=" postgresql-client-$major"
    if [ -z "${EO_INSTALLED:-}" ]; then
        has_server_headers "$major" || packages+=" postgresql-server-dev-$major"
        # Not every version has it; the test that uses it is skipped then.
        if [ "$for" = tests ] && [ ! -f "/usr/share/postgresql/$major/extension/pg_cron.control" ] &&
            apt-cache show "postgresql-$major-cron" >/dev/null 2>&1; then
            packages+=" postgresql-$major-cron"
        fi
    fi
    packages=$(xargs <<<"$packages")
    if [ -n "$packages" ]; then
        has_command apt-get || die "please install: $packages"
        say "Installing $packages"
        update_package_lists
        # shellcheck disable=SC2086 # a list of names
        quiet as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages ||
            die "could not install $packages"
    fi
    export PG_CONFIG=${EO_PG_CONFIG:-/usr/lib/postgresql/$major/bin/pg_config}
    PATH=$(dirname "$PG_CONFIG"):$PATH
}

# Installs Prometheus and the exporter of PostgreSQL, whose packages would start services:
# they are neither started nor enabled.  One that was installed before stays as it is.
install_monitoring() {
    local packages=() package policy=/usr/sbin/policy-rc.d status=0
    has_command promtool && has_command prometheus || packages+=(prometheus)
    has_command prometheus-postgres-exporter || packages+=(prometheus-postgres-exporter)
    [ ${#packages[@]} -gt 0 ] || return 0
    has_command apt-get || die "please install: ${packages[*]}"
    say "Installing ${packages[*]}"
    update_package_lists
    # invoke-rc.d and deb-systemd-invoke ask this program whether they may start a service.
    if [ -e "$policy" ]; then
        policy=''
    else
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    quiet as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" || status=$?
    [ -z "$policy" ] || as_root rm -f "$policy"
    [ "$status" = 0 ] || die "could not install ${packages[*]}"
    for package in "${packages[@]}"; do
        ! has_command systemctl || quiet as_root systemctl disable "$package" || true
    done
}

# Prints what hardening-check (of devscripts) says about a library, and fails unless it has stack
# protector, fortified functions, read-only relocations and immediate binding.  The program's own
# status depends on its version, which may ask for protections that other machines have.
check_hardening() {
    local text protection
    text=$(hardening-check --nopie "$1" || true)
    printf '%s\n' "$text"
    for protection in 'Stack protected' 'Fortify Source functions' 'Read-only relocations' 'Immediate binding'; do
        grep -q "^ $protection: yes" <<<"$text" || return 1
    done
}

update_package_lists() {
    [ -n "${package_lists_updated:-}" ] && return
    quiet as_root apt-get update || die 'apt-get update failed'
    package_lists_updated=1
}

# Runs a command and shows its output only if it fails.
quiet() {
    local out
    out=$(mktemp)
    if "$@" >"$out" 2>&1; then
        rm -f "$out"
        return 0
    fi
    cat "$out" >&2
    rm -f "$out"
    return 1
}

# The newest version of PostgreSQL that a package has installed the extension for.
installed_major() {
    local library
    library=$(printf '%s\n' /usr/lib/postgresql/*/lib/exactonce.so | sort -V | tail -n 1)
    [ -f "$library" ] || die 'the extension is not installed'
    dpkg -S "$library" >/dev/null 2>&1 || die "no package has $library"
    sed 's|^/usr/lib/postgresql/\([0-9]*\)/.*|\1|' <<<"$library"
}

# Builds the extension in this folder, or in a copy of it, and installs it, unless $EO_INSTALLED says
# that it is.  More arguments are for make.
build_and_install() {
    local make=(make -C "${1:-$ROOT}" PG_CONFIG="$PG_CONFIG" "${@:2}")
    if [ -n "${EO_INSTALLED:-}" ]; then
        dpkg -S "/usr/lib/postgresql/$EO_INSTALLED/lib/exactonce.so" >/dev/null 2>&1 ||
            die "no package has installed the extension for PostgreSQL $EO_INSTALLED"
        say "Taking the extension of $(dpkg -S "/usr/lib/postgresql/$EO_INSTALLED/lib/exactonce.so" | cut -d: -f1)"
        return
    fi
    quiet "${make[@]}" "-j$(nproc)" || die 'the extension does not build'
    if [ -w "$("$PG_CONFIG" --pkglibdir)" ] && [ -w "$("$PG_CONFIG" --sharedir)/extension" ]; then
        quiet "${make[@]}" install || die 'the extension cannot be installed'
    else
        quiet as_root "${make[@]}" install || die 'the extension cannot be installed'
    fi
}

# Builds and installs the extension for another PostgreSQL, too, whose programs are in
# this folder.
build_for_old() {
    local copy
    copy=$(mktemp -d)
    cp -R "$ROOT/." "$copy"
    quiet make -C "$copy" PG_CONFIG="$1/pg_config" clean
    quiet make -C "$copy" PG_CONFIG="$1/pg_config" -j2 install || die "cannot build for $1"
    rm -rf "$copy"
}

# Prints the path of the file of test/t with this name, such as 010_worker or worker, from this
# folder.  False: there is none.
tap_file() {
    local name=${1%.pl}
    (cd "$ROOT" && find test/t -name "$name.pl" -o -name "[0-9][0-9][0-9]_$name.pl") | grep .
}

# Installs the npm packages of a folder, exactly as its lock file says.
node_packages() {
    local lock=$1/package-lock.json
    [ "$1/node_modules/.package-lock.json" -nt "$lock" ] && return
    quiet npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund || die "npm ci failed in $1"
}

harness() {
    node "$ROOT/test/harness/run.mjs" "$@"
}
