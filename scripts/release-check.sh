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
#   fuzz      nothing more: libFuzzer through the stable compiler's coverage flags (x86_64 Linux)
#   powercut  root, loop mounts, mkfs.ext4
#   bench     about 12 GB of disk, 30 minutes
# Knobs: FUZZ_SECONDS (1200 a target), POWERCUT_ROUNDS (1000), MUTANTS_TIMEOUT (300 seconds a mutant).
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

fuzz() {
  [ -d fuzz ] || { echo "no fuzz folder" >&2; return 1; }
  local target triple=x86_64-unknown-linux-gnu bad=0
  local coverage="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
  (cd fuzz && RUSTFLAGS=$(echo $coverage) cargo build --release --target "$triple") || return 1
  for target in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$target" .rs)
    # What a run finds goes to a scratch corpus; the committed one grows by hand only.
    mkdir -p "fuzz/target/corpus/$target"
    echo "== fuzz $target for ${FUZZ_SECONDS:-1200} s"
    (cd fuzz && "target/$triple/release/$target" "target/corpus/$target" "corpus/$target" \
      -max_total_time="${FUZZ_SECONDS:-1200}" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
      -artifact_prefix="target/$target-") || bad=1
  done
  return $bad
}

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
