#!/usr/bin/env bash
# The main job on a fresh machine with Rust and a C compiler: real sessions are laid out as the
# harnesses keep them, captured, archived and checked; two thirds of them are then deleted, as
# harnesses do after 30 days, and everything is still there, byte for byte. Then more harnesses, a
# search, a session that goes back to its harness, and an archive that is damaged, repaired by its
# plan, taken back and repaired again.
#
#   scripts/quickstart.sh
#
# Everything happens in a temporary folder that serves as the home; nothing else is read or
# written. Each command is printed before it runs; the first thing that is not as promised ends
# the script with a message and a non-zero code. Knobs: CASS (a built binary), KEEP=1.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

fixtures=$PWD/tests/fixtures/sessions
if [ -z "${CASS:-}" ]; then
  echo '$ cargo build --locked'
  cargo build --quiet --locked --bin cass
  CASS=$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd)/cass
fi
top=$(mktemp -d "${TMPDIR:-/tmp}/cass-quickstart.XXXXXX")
finish() { [ "${KEEP:-0}" = 1 ] && echo "kept: $top" || rm -rf "$top"; }
trap finish EXIT
unset CLAUDE_CONFIG_DIR CODEX_HOME GEMINI_CLI_HOME QWEN_HOME QWEN_RUNTIME_DIR OPENCODE_DB XDG_DATA_HOME XDG_CONFIG_HOME CASS_DATA_DIR CASS_CONFIG_DIR
export HOME=$top/home
mkdir -p "$HOME"

fail() {
  echo "quickstart: $*" >&2
  exit 1
}
cass() { "$CASS" "$@"; }
# show ARGS...: prints the command, runs it, and demands exit 0.
show() {
  printf '\n$ cass %s\n' "$*"
  local code=0
  cass "$@" || code=$?
  [ "$code" = 0 ] || fail "cass $* ended with $code instead of 0"
}
digests() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi | cut -d' ' -f1; }

# first KEY FILE: the value of the first "KEY": "text" in a file.
first() { grep -ao "\"$1\": *\"[^\"]*\"" "$2" | head -1 | sed 's/.*: *"//; s/"$//' || true; }

claude() { # a file of a session, the way Claude Code names it: project folder from the working directory
  local id folder
  id=$(first sessionId "$1")
  [[ $id =~ ^[A-Za-z0-9_-]+$ ]] || id=$(basename "$1" .jsonl)
  folder=$(first cwd "$1" | sed 's/[^A-Za-z0-9-]/-/g')
  folder=$HOME/.claude/projects/${folder:--home-user}
  mkdir -p "$folder"
  [ ! -e "$folder/$id.jsonl" ] || id=$(basename "$1" .jsonl)
  cp "$1" "$folder/$id.jsonl"
  # Subagents lie in a folder with the session's name.
  [ ! -d "${1%.jsonl}" ] || cp -R "${1%.jsonl}" "$folder/$id"
}
codex() { # a rollout, by date
  local name day rest
  name=$(basename "$1" .jsonl)
  if [[ $name =~ ^rollout-([0-9]{4})-([0-9]{2})-([0-9]{2})(T[0-9-]{8})?-(.*)$ ]]; then
    day=${BASH_REMATCH[1]}-${BASH_REMATCH[2]}-${BASH_REMATCH[3]}
    rest=${BASH_REMATCH[4]:-T00-00-00}-${BASH_REMATCH[5]}
  else
    # No real name is known; the last digits keep the files apart.
    codex_n=$((${codex_n:-0} + 1))
    day=2025-09-01
    rest=T00-00-00-$(printf '01990000-0000-7000-8000-%012d' "$codex_n")
  fi
  mkdir -p "$HOME/.codex/sessions/${day//-//}"
  cp "$1" "$HOME/.codex/sessions/${day//-//}/rollout-$day$rest.jsonl"
}

echo "== Real sessions of Claude Code and Codex, where the harnesses keep them"
mkdir -p "$HOME/.claude/projects" "$HOME/.codex"
cp -R "$fixtures/claude/claude-code-viewer/projects/sample-project" "$HOME/.claude/projects/"
while IFS= read -r file; do claude "$file"; done < <(find "$fixtures/claude" -name '*.jsonl' \
  -not -path '*/growth-*' -not -path '*/subagents/*' -not -path '*/claude-code-viewer/*' | sort)
claude "$fixtures"/claude/entireio-cli/growth-cc432c40/t1/*.jsonl
while IFS= read -r file; do codex "$file"; done < <(find "$fixtures/codex" -name '*.jsonl' \
  -not -path '*/growth/*' -not -path '*/harness-*' | sort)
codex "$fixtures"/codex/agentv/growth/t1/*.jsonl
cp -R "$fixtures"/codex/harness-*/* "$HOME/.codex/"
sources() { find "$HOME/.claude" "$HOME/.codex" -type f \( -name '*.jsonl' -o -name '*.jsonl.zst' \) | sort; }
total=$(sources | wc -l | tr -d ' ')
echo "$total session files, $(du -sk "$HOME" | cut -f1) KiB"

echo
echo "== Capture, archive, check"
show index
show doctor check
show sessions list --limit 5
show mirror verify --deep

echo
echo "== Two sessions go on; the earlier state stays"
grown_claude=$(find "$HOME/.claude/projects" -name 'cc432c40-*.jsonl')
grown_codex=$(find "$HOME/.codex/sessions" -name '*019ed50c-*.jsonl')
cp "$grown_claude" "$top/claude.1"
for t in t3 t5; do
  cp "$fixtures"/claude/entireio-cli/growth-cc432c40/$t/*.jsonl "$grown_claude"
  show index
done
cp "$fixtures"/codex/agentv/growth/t2/*.jsonl "$grown_codex"
show index
show mirror get "$grown_claude" --seq 1 -o "$top/got.1"
cmp "$top/got.1" "$top/claude.1" || fail "the first version of a grown session has other bytes"

mkdir "$top/original"
cp -R "$HOME/.claude" "$HOME/.codex" "$top/original/"
sources >"$top/sources"
ledger=$(find "$HOME" -path '*/cass/coverage.jsonl')
[ -n "$ledger" ] || fail "no coverage ledger in the data directory"
cp "$ledger" "$top/coverage.before"
cass sessions list --limit 100000 --json >"$top/list.before"

echo
echo "== The harness deletes two thirds of them"
awk 'NR % 3 != 1' "$top/sources" >"$top/deleted"
while IFS= read -r file; do rm -f "$file"; done <"$top/deleted"
echo "$(wc -l <"$top/deleted" | tr -d ' ') of $(wc -l <"$top/sources" | tr -d ' ') session files are gone"
show index
cmp "$top/coverage.before" "$ledger" || fail "the archive changed although nothing was added"
cass sessions list --limit 100000 --json >"$top/list.after"
ids() { grep -o '"id":"[0-9a-f]\{32,\}[^"]*"' "$1" | cut -d'"' -f4 | sort -u; }
ids "$top/list.before" >"$top/ids"
ids "$top/list.after" | cmp - "$top/ids" || fail "sessions are missing from the list"
[ -s "$top/ids" ] || fail "no session is listed"
show doctor check
show mirror verify --deep

echo
echo "== Every file comes back, byte for byte"
printf '\n$ cass mirror get SOURCE -o FILE      (each of %s session files, then cmp)\n' "$(wc -l <"$top/sources" | tr -d ' ')"
while IFS= read -r file; do
  rm -f "$top/got"
  cass mirror get "$file" -o "$top/got" >/dev/null || fail "mirror get ${file#"$HOME"/} failed"
  cmp "$top/got" "$top/original/${file#"$HOME"/}" || fail "${file#"$HOME"/} came back with other bytes"
done <"$top/sources"
echo "all equal"

printf '\n$ cass export ID --format raw -o DIR      (each of %s sessions, then compared)\n' "$(wc -l <"$top/ids" | tr -d ' ')"
find "$top/original" -type f | while IFS= read -r file; do digests "$file"; done | sort -u >"$top/digests"
exported=0
mkdir "$top/export"
while IFS= read -r id; do
  cass export "$id" --format raw -o "$top/export/$id" >/dev/null || fail "export $id failed"
  n=0
  while IFS= read -r file; do
    grep -q "^$(digests "$file")\$" "$top/digests" || fail "export of $id: ${file##*/} is no file that was captured"
    n=$((n + 1))
  done < <(find "$top/export/$id" -type f)
  [ "$n" -gt 0 ] || fail "export of $id gave no file"
  exported=$((exported + n))
done <"$top/ids"
echo "$exported files, all equal to what was captured"

echo
echo "== A deleted session goes back where its harness finds it"
lost=$(grep '/\.claude/projects/[^/]*/[0-9a-f-]*\.jsonl$' "$top/deleted" | head -1)
[ -n "$lost" ] && [ ! -e "$lost" ] || fail "no session of Claude Code was deleted"
show sessions restore "$lost" --into-harness
cmp "$lost" "$top/original/${lost#"$HOME"/}" || fail "the restored session has other bytes"

echo
echo "== More harnesses: documents and databases"
mkdir -p "$HOME/.gemini/tmp/demo/chats" "$HOME/.local/share/opencode" "$HOME/.qwen"
cp "$fixtures"/gemini/entireio-cli/growth/t1/chats/* "$HOME/.gemini/tmp/demo/chats/"
cp "$fixtures"/opencode/harness-1.18.33/opencode.db "$HOME/.local/share/opencode/"
cp -R "$fixtures"/qwen/harness-0.24.4/dot-qwen/. "$HOME/.qwen/"
show index
for t in t2 t3; do # Gemini CLI wrote its file anew with every turn
  cp "$fixtures"/gemini/entireio-cli/growth/$t/chats/* "$HOME/.gemini/tmp/demo/chats/"
done
show index

echo
echo "== Find, read, count"
show search typo greeting --limit 3
show view "$(cass sessions list --agent opencode --json | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d'"' -f4)" --count 4
show stats
show doctor archive-scan

echo
echo "== A damaged archive: plan, apply, undo, apply again"
data=$(dirname "$ledger")
show doctor backups create
live=$(cat "$data/CURRENT")
db=$data/generations/$live/agent_search.db
# Noise over a page in the middle: SQLite may not even notice, the row hashes do.
pages=$(($(stat -c %s "$db" 2>/dev/null || stat -f %z "$db") / 4096))
head -c 4096 /dev/urandom | dd of="$db" bs=4096 seek=$((pages / 2)) conv=notrunc 2>/dev/null
cp "$db" "$top/damaged.db"
printf '\n$ cass doctor check --deep\n'
cass doctor check --deep && fail "the damage was not found"
show doctor repair
cass doctor repair --json >"$top/plan.json"
cmp "$db" "$top/damaged.db" || fail "a dry run changed the archive"
apply() { # the command that a plan printed, word by word
  local words=()
  while IFS= read -r word; do words+=("$word"); done < <(
    tr -d '\n' <"$1" | grep -o '"apply_argv":\[[^]]*\]' | head -1 | grep -o '"[^"]*"' | tail -n +3 | tr -d '"'
  )
  [ "${#words[@]}" -gt 3 ] || fail "no apply_argv in $1"
  show "${words[@]}"
}
apply "$top/plan.json"
show index
show doctor check --deep
cass sessions list --limit 100000 --json >"$top/list.repaired"
ids "$top/list.repaired" >"$top/ids.repaired"
comm -23 "$top/ids" "$top/ids.repaired" | grep -q . && fail "the repair lost a session"
show doctor runs show latest
show doctor runs undo latest
cass doctor runs undo latest --json >"$top/undo.json"
apply "$top/undo.json"
cmp "$data/generations/$(cat "$data/CURRENT")/agent_search.db" "$top/damaged.db" || fail "the undo did not bring the damage back"
apply "$top/plan.json"
show doctor check --deep
show doctor runs list
show doctor backups list

echo
echo "== A session log that two writers tore: why it does not load, and a repaired one beside it"
logs=$PWD/tests/fixtures/session_logs/closer_overlap_mid_stream__raw
mkdir -p "$HOME/.dsh"
cp -R "$logs/sessions" "$HOME/.dsh/sessions"
printf '\n$ cass doctor session-log check ~/.dsh/sessions\n'
cass doctor session-log check "$HOME/.dsh/sessions" && fail "the damage was not found"
show doctor session-log repair "$HOME/.dsh/sessions" --output "$HOME/repaired"
cass doctor session-log repair "$HOME/.dsh/sessions" --output "$HOME/repaired" --json >"$top/log.json"
apply "$top/log.json"
diff -r "$logs/sessions" "$HOME/.dsh/sessions" || fail "the log itself was changed"
diff -r "$logs/repaired/sessions" "$HOME/repaired" || fail "the repaired log is not the right one"
show doctor session-log check "$HOME/repaired"

echo
echo "Done. Your own sessions: cass index && cass doctor check"
