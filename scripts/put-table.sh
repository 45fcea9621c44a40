#!/usr/bin/env bash
# Puts the text of a file between two marks of docs/testing.md.
#
#   scripts/put-table.sh MARK FILE   between "<!-- MARK -->" and the next "<!-- end -->"
set -euo pipefail
cd "$(dirname "$0")/.."
new=$(mktemp)
trap 'rm -f "$new"' EXIT
awk -v mark="<!-- $1 -->" -v file="$2" '
  $0 == mark {
    print; print ""
    while ((getline line < file) > 0) print line
    print ""; skip = 1; found = 1; next
  }
  $0 == "<!-- end -->" { skip = 0 }
  !skip { print }
  END { exit !found }' docs/testing.md >"$new" || {
  echo "put-table: docs/testing.md has no mark $1" >&2
  exit 1
}
cat "$new" >docs/testing.md
