#!/usr/bin/env bash
# Makes this checkout ready to run: .venv with the locked packages, a Java 17+ runtime for Spark, and compiled kernels.
# Nothing is done twice: the stamp in .venv names the lock, the project file and the directory it was made for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
can_apt() { [ "$(id -u)" = 0 ] && has apt-get; }

# Installs the first of the named packages that the distribution has. The output is shown only if none could be.
apt_install() {
    local log package
    log="$(mktemp)"
    DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 || true
    for package in "$@"; do
        say "installing $package"
        if DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" >>"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
    done
    cat "$log" >&2
    rm -f "$log"
    return 1
}

# --- Java ------------------------------------------------------------------------------------------------------------

# The major version of the Java that Spark would start (JAVA_HOME before PATH); 0 if there is none.
java_major() {
    local java=java version
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    version="$("$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)" || true
    echo "${version:-0}"
}

ensure_java() {
    [ "$(java_major)" -lt 17 ] || return 0
    if [ -n "${JAVA_HOME:-}" ]; then
        fail "JAVA_HOME has no Java 17 or later: point it to one, or unset it so that the java on PATH is used."
    fi
    if can_apt; then
        apt_install openjdk-17-jre-headless default-jre-headless || true
    fi
    [ "$(java_major)" -lt 17 ] || return 0
    fail "Java 17 or later is needed. Install it with: sudo apt-get install openjdk-17-jre-headless" \
        "(default-jre-headless where that package is gone), or set JAVA_HOME to a Java you have."
}

# --- Python ----------------------------------------------------------------------------------------------------------

find_python() {
    local name
    for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14 python; do
        if has "$name" && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return 0
        fi
    done
    fail "Python 3.11 or later is needed. Set PYTHON to the interpreter to use."
}

make_environment() {
    local python package
    python="$(find_python)"
    if has uv; then
        uv venv --quiet --allow-existing --python "$python" .venv
        return 0
    fi
    # Debian ships venv without ensurepip unless this package is there.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
        if can_apt; then
            apt_install "$package" python3-venv || fail "$package could not be installed."
        else
            fail "Python's venv module is incomplete. Install it with: sudo apt-get install $package"
        fi
    fi
    "$python" -m venv .venv
}

# The locked packages by hash, then the checkout itself, so that an edit takes effect without a new install.
install_packages() {
    if has uv; then
        uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements.lock
        uv pip install --quiet --python .venv/bin/python --no-deps --reinstall-package eddyline -e .
    else
        .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
    fi
}

# Spark starts many Python processes: where none may write bytecode, each would compile all it imports, for seconds.
# Packages may hold files that are templates and no Python.
compile_packages() {
    .venv/bin/python -m compileall -qq -j 0 .venv/lib/python*/site-packages || true
}

ensure_python() {
    local stamp=.venv/.setup wanted
    wanted="$(pwd) $(cat requirements.lock pyproject.toml scripts/setup.sh | cksum)"
    if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    .venv/bin/python -c '' 2>/dev/null || make_environment
    say "installing the locked packages into .venv"
    install_packages
    compile_packages
    echo "$wanted" >"$stamp"
}

# Kernels are compiled and costs measured once for all runs of this user, until a file with kernels changes.
ensure_warm() {
    local stamp=.venv/.warm wanted
    wanted="${XDG_CACHE_HOME:-${HOME:-}} $(find eddyline/index -name '*.py' | LC_ALL=C sort | xargs cat requirements.lock | cksum)"
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    say "compiling kernels and measuring costs"
    if .venv/bin/eddyline doctor --warm >&2; then
        echo "$wanted" >"$stamp"
    else
        say "that failed; kernels are compiled when they are first used."
    fi
}

ensure_python
.venv/bin/python -m compileall -q eddyline
ensure_java
ensure_warm
