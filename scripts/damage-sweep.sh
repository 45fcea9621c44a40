#!/usr/bin/env bash
# Damage sweeps: bits, pages and cuts of the archive, its log, and the files of the mirror, each
# judged by `doctor check --deep` and then repaired, with the mirror and without it; faults within
# repairs; the same damaged files given to others; databases made to do harm. Prints the tables.
#
#   scripts/damage-sweep.sh [ci|long] [part...]
#
#   ci (default)   the counts of an ordinary test run
#   long           10,000 flips of the archive, 4,000 of its log, 1,000 undamaged runs, 2,000 and more
#                  damages to files, 1,000 pairs of faults, 2,000 hostile databases; writes the tables
#                  of the parts that ran into docs/testing.md
#   part           detection, repairs, pairs, peers, hostile; all when none is named
#
# Exits 0 when nothing was undetected, nothing sound was called damaged, everything that had to came
# back; the full output of a failed run is printed, and nothing is written. `.recover` is measured
# with the shell in CASS_SQLITE3, else `sqlite3`, where it has it. Knobs: CASS_DAMAGE_FLIPS,
# _WAL_FLIPS, _INDEX_FLIPS, _SOUND, _FILES, _HEAL, _BUSY, _REPAIRS, _RECORDS, _PAIRS, _SINGLES,
# _HOSTILE, _HANDED.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

mode=${1:-ci}
[ $# = 0 ] || shift
build=()
case $mode in
  ci) ;;
  long)
    # Optimised: a third of the time.
    build=(--release)
    export CASS_DAMAGE_FLIPS=${CASS_DAMAGE_FLIPS:-10000}
    export CASS_DAMAGE_WAL_FLIPS=${CASS_DAMAGE_WAL_FLIPS:-4000}
    export CASS_DAMAGE_SOUND=${CASS_DAMAGE_SOUND:-1000}
    export CASS_DAMAGE_FILES=${CASS_DAMAGE_FILES:-60}
    export CASS_DAMAGE_INDEX_FLIPS=${CASS_DAMAGE_INDEX_FLIPS:-3000}
    export CASS_DAMAGE_HEAL=${CASS_DAMAGE_HEAL:-10}
    export CASS_DAMAGE_BUSY=${CASS_DAMAGE_BUSY:-300}
    export CASS_DAMAGE_REPAIRS=${CASS_DAMAGE_REPAIRS:-40}
    export CASS_DAMAGE_RECORDS=${CASS_DAMAGE_RECORDS:-20}
    # A fifth of the damages need no repair.
    export CASS_DAMAGE_PAIRS=${CASS_DAMAGE_PAIRS:-1250}
    export CASS_DAMAGE_SINGLES=${CASS_DAMAGE_SINGLES:-100}
    export CASS_DAMAGE_HOSTILE=${CASS_DAMAGE_HOSTILE:-286}
    export CASS_DAMAGE_HANDED=${CASS_DAMAGE_HANDED:-300}
    ;;
  *)
    echo "usage: scripts/damage-sweep.sh [ci|long] [detection|repairs|pairs|peers|hostile...]" >&2
    exit 2
    ;;
esac
filters=()
for part in "$@"; do
  case $part in
    detection) filters+=(archive:: budget:: mirror:: states:: wal::) ;;
    repairs | pairs | peers | hostile) filters+=("$part::") ;;
    *)
      echo "no such part: $part" >&2
      exit 2
      ;;
  esac
done

log=$(mktemp)
tables=$(mktemp -d)
trap 'rm -rf "$log" "$tables"' EXIT
status=0
cargo test --locked ${build[@]+"${build[@]}"} --test damage -- --nocapture ${filters[@]+"${filters[@]}"} >"$log" 2>&1 || status=$?
if [ "$status" != 0 ]; then
  cat "$log"
fi

# Rows of parallel tests may share a line with the test's name. The first row of a table is its head.
rows() {
  { grep -aoE "(^|\.\.\. )$1 \| .*" "$log" || true; } | sed 's/^\.\.\. //'
}
table() {
  rows "$1" | sed "s/^$1 //" | sort -u |
    awk -F'|' -v head="$2" '
      index($0, "| " head " |") == 1 { first = $0; columns = NF - 2; next }
      { rows[++n] = $0 }
      END {
        if (n == 0) exit
        print first
        line = "|"
        for (i = 0; i < columns; i++) line = line "---|"
        print line
        for (i = 1; i <= n; i++) print rows[i]
      }' | sed -E 's/^\| ([0-9]+)\.[0-9]+ /| pages of \1: /'
}
sentences() {
  rows "$1" | sed -E "s/^$1 \| /- /; s/ \|\$/./" | sort -u
}
table damage what >"$tables/detection"
{ table repairs what; echo; sentences records; } >"$tables/repairs"
sentences pairs >"$tables/pairs"
table peers damage >"$tables/peers"
sentences hostile >"$tables/hostile"

for part in detection repairs pairs peers hostile; do
  if [ -n "$(tr -d '\n' <"$tables/$part")" ]; then
    printf '%s\n\n' "$part"
    cat "$tables/$part"
    echo
    if [ "$mode" = long ] && [ "$status" = 0 ]; then
      scripts/put-table.sh "damage-sweep: $part" "$tables/$part"
    fi
  fi
done
exit "$status"
