#!/usr/bin/env bash
# Damage sweeps: bits, pages and cuts of the archive, its log, and the files of the mirror, each
# judged by `doctor check --deep`. Prints one table of what was done and what was found.
#
#   scripts/damage-sweep.sh [ci|long]   default ci: the counts of an ordinary test run
#                                       long: 10,000 flips of the archive, 4,000 of its log, 1,000
#                                       undamaged runs, 2,000 and more damages to files
#
# Exits 0 when nothing was undetected and nothing sound was called damaged; the full output of a
# failed run is printed. Knobs: CASS_DAMAGE_FLIPS, _WAL_FLIPS, _INDEX_FLIPS, _SOUND, _FILES, _HEAL,
# _BUSY.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

case ${1:-ci} in
  ci) ;;
  long)
    export CASS_DAMAGE_FLIPS=${CASS_DAMAGE_FLIPS:-10000}
    export CASS_DAMAGE_WAL_FLIPS=${CASS_DAMAGE_WAL_FLIPS:-4000}
    export CASS_DAMAGE_SOUND=${CASS_DAMAGE_SOUND:-1000}
    export CASS_DAMAGE_FILES=${CASS_DAMAGE_FILES:-60}
    export CASS_DAMAGE_INDEX_FLIPS=${CASS_DAMAGE_INDEX_FLIPS:-3000}
    export CASS_DAMAGE_HEAL=${CASS_DAMAGE_HEAL:-10}
    export CASS_DAMAGE_BUSY=${CASS_DAMAGE_BUSY:-300}
    ;;
  *)
    echo "usage: scripts/damage-sweep.sh [ci|long]" >&2
    exit 2
    ;;
esac

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --locked --test damage -- --nocapture >"$log" 2>&1 || status=$?
if [ "$status" != 0 ]; then
  cat "$log"
fi
# Rows of parallel tests may share a line with the test's name.
grep -ao 'damage | .*' "$log" | sed 's/^damage //' | sort -u |
  awk -F'|' '/\| what \|/ { head = $0; next } { rows[++n] = $0 }
    END {
      if (n == 0) exit 1
      print head; print "|---|---|---|---|---|---|---|"
      for (i = 1; i <= n; i++) print rows[i]
    }'
grep -ao 'damage: .*' "$log" | sed 's/^damage: //' | sort -u
exit "$status"
