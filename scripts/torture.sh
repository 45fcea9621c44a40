#!/usr/bin/env bash
# Everything that a plan has to outlive: system calls that fail, kills at every call, pairs of faults,
# kills at random, full disks, wrong uses, changes between dry run and apply, sequences of damage and
# cures, crowds. Prints one table of what was done.
#
#   scripts/torture.sh [ci|long]   default ci: what an ordinary test run does
#                                  long: every call of every plan, 2,000 sequences, 500 random kills,
#                                  a crowd for a minute; about an hour on 2 cores. One that passed
#                                  writes its table into docs/testing.md
#
# Exits 0 when nothing was lost, left half made or unexplained; the full output of a failed run is
# printed. Needs strace and the right to trace; as root also full disks and read-only mounts.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

mode=${1:-ci}
case $mode in
  ci) ;;
  long) export CASS_FAULTS=long CASS_PLAN=long ;;
  *)
    echo "usage: scripts/torture.sh [ci|long]" >&2
    exit 2
    ;;
esac

log=$(mktemp)
rows=$(mktemp)
trap 'rm -f "$log" "$rows"' EXIT
status=0
run() { cargo test --locked "$@" -- --nocapture >>"$log" 2>&1 || status=$?; }
run --test faults planned::
run --test faults random::
run --test plan
run --test repair
run --test backups
run --test session_log
run --test read_only
if [ "$status" != 0 ]; then
  cat "$log"
fi
# Rows of parallel tests may share a line with the test's name.
{
  echo '| what | cases | passed | failed |'
  echo '|---|---|---|---|'
  grep -ao 'torture | .*' "$log" | sed 's/^torture //' | sort -u
} | tee "$rows"
grep -a 'passed over' "$log" | sort -u || true
if [ "$mode" = long ] && [ "$status" = 0 ]; then
  scripts/put-table.sh torture "$rows"
fi
exit "$status"
