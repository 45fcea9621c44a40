#!/usr/bin/env bash
# What is slow or needs more tools than the test command: run it before a release.
#
#   scripts/release-check.sh [deny] [mutants] [faults] [torture] [plan] [fuzz] [powercut] [bench]      default: all
#
# Needs, besides what scripts/test.sh needs:
#   deny      cargo-deny      cargo install --locked cargo-deny
#   mutants   cargo-mutants   cargo install --locked cargo-mutants
#   faults    strace, half an hour
#   torture   strace, an hour
#   plan      two thousand sequences, a crowd for a minute: half an hour
#   fuzz      a C++ compiler; 20 minutes a target (x86_64 Linux)
#   powercut  root, loop mounts, mkfs.ext4
#   bench     about 12 GB of disk, 30 minutes
# Knobs: FUZZ_MINUTES (20 of processor time a target), POWERCUT_ROUNDS (1000), MUTANTS_TIMEOUT (300 seconds a mutant).
set -euo pipefail
cd "$(dirname "$0")/.."

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(deny mutants faults torture plan fuzz powercut bench)
failed=()
need() {
  command -v "$1" >/dev/null && return 0
  echo "$1 is missing: $2" >&2
  return 1
}

deny() {
  need cargo-deny "cargo install --locked cargo-deny" || return 1
  cargo deny --locked check licenses bans sources
}

# The modules where a wrong line loses data: the write door, the formats, the ledgers.
mutants() {
  need cargo-mutants "cargo install --locked cargo-mutants" || return 1
  cargo mutants --cargo-arg=--locked --timeout "${MUTANTS_TIMEOUT:-300}" \
    --file 'src/disk/*.rs' --file 'src/store/**/*.rs' --file 'src/model/digest.rs' \
    --file src/error.rs --file src/exit.rs
}

# Every error at every system call of an index; the test command takes one error a kind.
faults() {
  need strace "apt-get install strace" || return 1
  CASS_FAULTS=long cargo test --locked --test faults -- --skip planned:: --nocapture
  CASS_FAULTS=long cargo test --locked --lib a_page_of_noise
}

# The same for repairs, backups, restores and undos, and pairs of faults.
torture() {
  need strace "apt-get install strace" || return 1
  scripts/torture.sh long
}

# Sequences of damage and cures, and crowds with kills.
plan() {
  CASS_PLAN=long cargo test --locked --test plan -- --nocapture
}

fuzz() { scripts/fuzz.sh "${FUZZ_MINUTES:-20}"; }

powercut() { scripts/powercut.sh "${POWERCUT_ROUNDS:-1000}"; }
bench() { scripts/bench.sh full; }

for part in "${parts[@]}"; do
  case $part in
  deny | mutants | faults | torture | plan | fuzz | powercut | bench) ;;
  *)
    echo "unknown part $part" >&2
    exit 2
    ;;
  esac
  printf '\n== %s\n' "$part"
  "$part" || failed+=("$part")
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nnot passed: %s\n' "${failed[*]}"
  exit 1
fi
printf '\npassed: %s\n' "${parts[*]}"
