# Finds out what this machine lacks and installs it, or names the one command that does. Sourced by the scripts beside.
#
# Usage: need_rust; need_build; need_kafka; need_valgrind; install_needs

missing=() # Debian's names of packages
lacking=() # what they are, in words

# lack WORDS PACKAGE...
lack() {
    lacking+=("$1")
    missing+=("${@:2}")
}

# at_least WANTED FOUND: compares versions.
at_least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# Rust is not installed by itself: which toolchain a person has, and from where, is theirs to say.
need_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null || ! found=$(rustc --version 2>/dev/null); then
        give_up "Rust $wanted or newer is needed: curl --proto '=https' -sSf https://sh.rustup.rs | sh"
    fi
    found=$(printf '%s' "$found" | cut -d ' ' -f 2)
    if ! at_least "$wanted" "$found"; then
        give_up "Rust $wanted or newer is needed, $found is installed: rustup update stable"
    fi
}

need_rust_components() {
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
        give_up "rustfmt and clippy are needed: rustup component add rustfmt clippy"
    fi
}

# What librdkafka is built with.
need_build() {
    local program
    for program in cc c++ make; do
        command -v "$program" >/dev/null || { lack "a C and C++ compiler and make" build-essential && break; }
    done
    command -v pkg-config >/dev/null || lack "pkg-config" pkg-config
    # Asked of the compiler, since pkg-config may be what is missing.
    if ! echo '#include <openssl/ssl.h>' | cc -E - >/dev/null 2>&1; then
        lack "the headers of OpenSSL" libssl-dev
    fi
}

# What `scripts/kafka` runs with.
need_kafka() {
    local version
    if ! command -v python3 >/dev/null; then
        lack "Python 3" python3
    fi
    version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
    if [ "${version:-0}" -lt 17 ] || ! command -v java >/dev/null; then
        lack "a JDK of version 17 or newer" default-jdk-headless
    fi
    command -v mvn >/dev/null || lack "Maven" maven
}

# What counts instructions.
need_valgrind() {
    command -v valgrind >/dev/null || lack "valgrind" valgrind
}

install_needs() {
    [ ${#missing[@]} -gt 0 ] || return 0
    local words
    words=$(printf '%s, ' "${lacking[@]}")
    words=${words%, }
    if ! [ -e /etc/debian_version ] || ! command -v apt-get >/dev/null; then
        give_up "needed and not found: $words (Debian's packages are called ${missing[*]})"
    fi
    if [ "$(id -u)" != 0 ]; then
        give_up "needed and not found: $words: sudo apt-get install -y ${missing[*]}"
    fi
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"; } </dev/null; then
        give_up "installing failed: apt-get install -y ${missing[*]}"
    fi
}

give_up() {
    echo "${0##*/}: $1" >&2
    exit 1
}
