#!/usr/bin/env bash
# Power cuts, as real as they get without a switch: a fresh ext4 on a loop file holds the data
# directory; nothing but what was synced is sure to have reached that file (commit=600). Sessions
# grow and are rewritten while `cass index` runs again and again. At a random moment every process
# stops, the loop file is copied as it is, and the copy is mounted, as after a power cut.
#
#   scripts/powercut.sh [ROUNDS]      default 20; needs root, loop mounts, mkfs.ext4
#
# A round is bad when a capture that an ended `cass index` had acknowledged can't be read back byte
# for byte from the copy, when `cass mirror verify --deep` finds damage, or when the next index and
# `cass doctor check --deep` don't end clean. Half of the rounds also sync at random moments, so
# that partly flushed states are seen as well.
#
# Exits 0 (no bad round), 1 (bad rounds), 77 (can't run here, with the reason).
# Knobs: CASS (a built binary), SEED, KEEP=1 (keep the images of bad rounds).
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

rounds=${1:-20}
RANDOM=${SEED:-$((BASHPID % 32768))}
printf 'power cuts: %s rounds, seed %s\n' "$rounds" "${SEED:-$((BASHPID % 32768))}"

skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(uname -s)" = Linux ] || skip "power cuts need Linux's loop devices"
[ "$(id -u)" = 0 ] || skip "power cuts need root for loop mounts"
command -v mkfs.ext4 >/dev/null || skip "mkfs.ext4 is missing (package e2fsprogs)"
command -v losetup >/dev/null || skip "losetup is missing (package mount)"

if [ -z "${CASS:-}" ]; then
  cargo build --quiet --locked --bin cass
  CASS=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/cass
fi
unset CLAUDE_CONFIG_DIR CODEX_HOME XDG_DATA_HOME XDG_CONFIG_HOME CASS_DATA_DIR CASS_CONFIG_DIR

top=$(mktemp -d "${TMPDIR:-/tmp}/cass-powercut.XXXXXX")
live=$top/live cut=$top/cut
mkdir "$live" "$cut"
writer=
unmount() { for _ in 1 2 3 4 5 6 7 8; do umount "$1" 2>/dev/null && return 0; mountpoint -q "$1" || return 0; sleep 0.05; done; umount -l "$1"; }
finish() {
  [ -z "$writer" ] || { kill -KILL -- "-$writer" && wait "$writer"; } 2>/dev/null || true
  mountpoint -q "$cut" && unmount "$cut"
  mountpoint -q "$live" && unmount "$live"
  [ "${KEEP:-0}" = 1 ] || rm -rf "$top"
}
trap finish EXIT

truncate -s 8M "$top/probe.img"
mkfs.ext4 -q -F "$top/probe.img"
mount -o loop "$top/probe.img" "$live" 2>/dev/null || skip "loop mounts are not possible here"
unmount "$live"
rm "$top/probe.img"

line() { # session, number: one Claude record with some bulk that doesn't compress away
  local bulk
  bulk=$(head -c $((RANDOM % 3000 + 30)) /dev/urandom | base64 -w0)
  printf '{"type":"user","sessionId":"%s","uuid":"%s-%06d","timestamp":"2026-07-01T10:00:00.000Z","cwd":"/home/user/p","message":{"role":"user","content":"%s"}}\n' "$1" "$1" "$2" "$bulk"
}
sources=(grows rewritten slow)
session() {
  case $1 in
  grows) echo 00000000-0000-4000-8000-000000000001 ;;
  rewritten) echo 00000000-0000-4000-8000-000000000002 ;;
  *) echo 00000000-0000-4000-8000-000000000003 ;;
  esac
}
path_of() { echo "$1/.claude/projects/-home-user-p/$(session "$2").jsonl"; }

# Changes every source, keeps a copy of each version, indexes, and acknowledges what ended well.
write() {
  local home=$1 data=$2 n=0 s file k
  mkdir -p "$home/.claude/projects/-home-user-p" "$home/versions"
  while :; do
    n=$((n + 1))
    for s in "${sources[@]}"; do
      file=$(path_of "$home" "$s")
      case $s in
      grows) for ((k = 0; k < RANDOM % 30 + 1; k++)); do line "$(session "$s")" $((n * 100 + k)); done >>"$file" ;;
      slow) line "$(session "$s")" "$n" >>"$file" ;;
      # The length differs every time, so no gate by size and time can take it for unchanged.
      rewritten) for ((k = 0; k < n % 7 + 3; k++)); do line "$(session "$s")" $((n * 100 + k)); done >"$file" ;;
      esac
      cp "$file" "$home/versions/$s.$n"
    done
    if HOME=$home "$CASS" --data-dir "$data" index --json >"$home/index.json" 2>"$home/index.err"; then
      echo "ack $n" >>"$home/acks"
    else
      echo "index ended with $? in run $n" >>"$home/trouble"
      cat "$home/index.json" >>"$home/trouble"
    fi
  done
}

# Reads back what was acknowledged; prints what is wrong.
verify() {
  local home=$1 data=$2 ack=$3 s k out code
  run() {
    out=$(HOME=$home "$CASS" --data-dir "$data" "$@" 2>&1) && return 0
    code=$?
    echo "cass $* ended with $code: $(tail -c 600 <<<"$out")"
    return 1
  }
  [ ! -s "$home/trouble" ] || { head -c 900 "$home/trouble"; return 1; }
  [ -d "$data" ] || { [ "$ack" = 0 ] && return 0; echo "the data directory is gone after $ack acknowledged runs"; return 1; }
  if [ "$ack" -gt 0 ]; then
    run mirror verify --deep --json || return 1
  fi
  for s in "${sources[@]}"; do
    for ((k = 1; k <= ack; k++)); do
      # Every version of the last runs, and some of the older ones.
      [ $((ack - k)) -lt 3 ] || [ $((RANDOM % 4)) = 0 ] || continue
      rm -f "$home/got"
      run mirror get "$(path_of "$home" "$s")" --seq "$k" -o "$home/got" --json || return 1
      cmp -s "$home/got" "$home/versions/$s.$k" || { echo "version $k of $s has other bytes"; return 1; }
    done
  done
  # One command more, and all is as if nothing had happened.
  run index --json || return 1
  run doctor check --deep --json || return 1
  run mirror verify --deep --json || return 1
  for s in "${sources[@]}"; do
    [ -f "$(path_of "$home" "$s")" ] || continue
    rm -f "$home/got"
    run mirror get "$(path_of "$home" "$s")" -o "$home/got" --json || return 1
    cmp -s "$home/got" "$(path_of "$home" "$s")" || { echo "the newest capture of $s has other bytes"; return 1; }
  done
}

bad=0 acked=0
for ((round = 1; round <= rounds; round++)); do
  home=$top/home.$round
  mkdir -p "$home"
  truncate -s 96M "$top/disk.img"
  mkfs.ext4 -q -F "$top/disk.img"
  mount -o loop,commit=600 "$top/disk.img" "$live"
  set -m
  write "$home" "$live/data" >/dev/null 2>&1 &
  writer=$!
  set +m
  flusher=
  if ((round % 2)); then
    (for _ in 1 2 3 4 5 6 7 8; do
      sleep "0.0$((RANDOM % 90 + 10))"
      sync -f "$live" 2>/dev/null || true
    done) &
    flusher=$!
  fi
  # Early cuts hit the first run, later ones the growth.
  sleep "$((RANDOM % 2)).$(printf %03d $((RANDOM % 1000)))"
  kill -STOP -- "-$writer"
  ack=0
  [ ! -f "$home/acks" ] || ack=$(sed -n 's/^ack //p' "$home/acks" | tail -1)
  cp --sparse=always "$top/disk.img" "$top/cut.img"
  { kill -KILL -- "-$writer" && wait "$writer"; } 2>/dev/null || true
  [ -z "$flusher" ] || wait "$flusher" || true
  writer=
  unmount "$live"
  mount -o loop "$top/cut.img" "$cut"
  acked=$((acked + ack))
  if ! said=$(verify "$home" "$cut/data" "$ack"); then
    bad=$((bad + 1))
    echo "round $round, $ack runs acknowledged: $said"
    [ "${KEEP:-0}" = 1 ] && cp --sparse=always "$top/cut.img" "$top/bad.$round.img"
  fi
  unmount "$cut"
  [ "${KEEP:-0}" = 1 ] || rm -rf "$home"
  rm -f "$top/disk.img" "$top/cut.img"
done
echo "power cuts: $rounds rounds, $acked acknowledged runs, $bad bad rounds"
[ "$bad" = 0 ]
