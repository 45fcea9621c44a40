#!/usr/bin/env bash
# The test command: formatting, lints, every test. Works on a fresh Debian machine with the stable
# Rust of rustup and a C compiler; under 20 minutes on 2 cores.
#
# Some tests want strace, setpriv and loop mounts (failing system calls, permissions of another
# user, power cuts). They are installed only where this runs as root and apt-get is there; where
# they are missing, those tests say so and pass over.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

if [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  missing=()
  command -v strace >/dev/null || missing+=(strace)
  command -v setpriv >/dev/null || missing+=(util-linux)
  command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
  command -v losetup >/dev/null || missing+=(mount)
  command -v cc >/dev/null || missing+=(gcc libc6-dev)
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends "${missing[@]}"; } >/dev/null ||
      echo "could not install ${missing[*]}: the tests that need them will say so"
  fi
fi

command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup (stable, 1.95 or later)" >&2; exit 1; }
for part in rustfmt clippy; do
  command -v "cargo-${part/rustfmt/fmt}" >/dev/null || rustup component add "$part"
done

say "cargo fmt --check"
cargo fmt --check

say "cargo clippy"
cargo clippy --quiet --all-targets --locked -- -D warnings

say "scripts/quickstart.sh"
scripts/quickstart.sh >/dev/null
echo "the newcomer's path works"

# Last, so that cargo's own lines end the output. Freshness of docs/schemas and of the pages made
# from tables is a test like any other.
say "cargo test"
exec cargo test --locked --no-fail-fast
