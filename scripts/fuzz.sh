#!/usr/bin/env bash
# Fuzzes the readers of our own files, of damaged archives and of session logs with libFuzzer, each
# for the same processor time, beginning with the committed corpus, and prints what was done.
#
#   scripts/fuzz.sh [MINUTES] [target...]   default: 20 minutes of processor time, every target
#
# Needs nothing but Rust and a C++ compiler (x86_64 Linux): the coverage flags are the stable
# compiler's. Knobs: FUZZ_JOBS (how many targets at once, 1). New inputs go to fuzz/target/corpus;
# the committed corpus grows by hand only. Where all passed, the rows go into docs/testing.md.
#
# Exits 0 when nothing crashed, hung for 10 s or took more than 2 GiB; what did is printed and kept
# in fuzz/target.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

minutes=${1:-20}
[ $# = 0 ] || shift
case $minutes in
'' | 0 | *[!0-9]*)
  echo "usage: scripts/fuzz.sh [MINUTES] [target...]" >&2
  exit 2
  ;;
esac
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi
for target in "${targets[@]}"; do
  [ -f "fuzz/fuzz_targets/$target.rs" ] || { echo "no such target: $target" >&2; exit 2; }
done

triple=x86_64-unknown-linux-gnu
coverage=(--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1)
(cd fuzz && RUSTFLAGS="${coverage[*]}" cargo build --release --locked --target "$triple")

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
ticks=$(getconf CLK_TCK)

# Processor time of a process so far, in seconds. Its name in stat has no blank.
spent() { awk -v t="$ticks" '{ print int(($14 + $15) / t) }' "/proc/$1/stat" 2>/dev/null || echo; }

one() {
  local target=$1 pid used='' now status=0
  mkdir -p "fuzz/target/corpus/$target"
  (cd fuzz && exec "target/$triple/release/$target" "target/corpus/$target" "corpus/$target" \
    -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 -artifact_prefix="target/$target-") \
    >"$out/$target.log" 2>&1 &
  pid=$!
  while now=$(spent "$pid"); [ -n "$now" ]; do
    used=$now
    [ "$used" -lt $((minutes * 60)) ] || kill -TERM "$pid" 2>/dev/null || true
    sleep 1
  done
  wait "$pid" || status=$?
  # 72: interrupted, which is how a run ends.
  if [ "$status" != 72 ]; then
    echo "$target ended with $status after ${used:-0} s:"
    tail -40 "$out/$target.log"
    return 1
  fi
  awk -v target="$target" -v used="$used" '
    / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1) }
    /INITED/ { first = cov }
    /stat::number_of_executed_units/ { runs = $2 }
    /stat::peak_rss_mb/ { peak = $2 }
    END { printf "| %s | %.1f | %d | %d | %d | %d | 0 |\n", target, used / 60, runs, first, cov, peak }
  ' "$out/$target.log" >"$out/$target.row"
  cat "$out/$target.row"
}

head='| target | minutes of processor time | inputs | places reached at first | in the end | peak, MiB | crashes |'
echo "$head"
status=0
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "${FUZZ_JOBS:-1}" ]; do
    wait -n || status=1
  done
  one "$target" &
done
while [ -n "$(jobs -p)" ]; do
  wait -n || { [ $? = 127 ] && break; status=1; }
done
if [ "$status" = 0 ]; then
  # Targets that did not run keep the row of their last run.
  {
    echo "$head"
    echo '|---|---|---|---|---|---|---|'
    {
      cat "$out"/*.row
      sed -n '/<!-- fuzz -->/,/<!-- end -->/p' docs/testing.md | grep -E '^\| [a-z_]+ \| [0-9]' || true
    } | sort -s -u -t'|' -k2,2
  } >"$out/table"
  scripts/put-table.sh fuzz "$out/table"
fi
exit "$status"
