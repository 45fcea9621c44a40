#!/usr/bin/env bash
# Faults in what goes through the plan engine (repairs, backups, restores, undos): killed at system
# calls, failing calls and syncs, pairs of faults. Prints one table of what was done.
#
#   scripts/torture.sh [ci|long]   default ci: each kind of call at each path, a few times
#                                  long: every call, 480 pairs of faults
#
# Exits 0 when nothing was lost, left half made or unexplained; the full output of a failed run is
# printed. Needs strace and the right to trace.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

case ${1:-ci} in
  ci) ;;
  long) export CASS_FAULTS=long ;;
  *)
    echo "usage: scripts/torture.sh [ci|long]" >&2
    exit 2
    ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --locked --test faults planned:: -- --nocapture >"$log" 2>&1 || status=$?
if [ "$status" = 0 ] && [ -d tests/plan ]; then
  cargo test --locked --test plan -- --nocapture >>"$log" 2>&1 || status=$?
fi
if [ "$status" != 0 ]; then
  cat "$log"
fi
echo '| what | cases | passed | failed |'
echo '|---|---|---|---|'
# Rows of parallel tests may share a line with the test's name.
grep -ao 'torture | .*' "$log" | sed 's/^torture //' | sort -u
grep -a 'passed over' "$log" | sort -u || true
exit "$status"
