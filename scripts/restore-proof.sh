#!/usr/bin/env bash
# Proves with the real harnesses that a session which `cass sessions restore --into-harness` puts
# back is one that they find again: Codex lists, reads and resumes it, Claude Code resumes it.
#
# The harnesses come from npm into a temporary folder and run with a home of their own, without an
# account: Codex needs none for this, and Claude Code says "not logged in" only after it has found
# the session. Exit 0: proved. Exit 77: can't run here, and says why. Else: it does not hold.
set -euo pipefail
cd "$(dirname "$0")/.."

cannot() {
    echo "restore-proof: can't run here: $*" >&2
    exit 77
}

command -v npm >/dev/null && command -v node >/dev/null || cannot "npm and node are needed"
cargo build --quiet
cass_bin=$PWD/target/debug/cass
samples=$PWD/tests/fixtures/sessions
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm install --silent --no-audit --no-fund --prefix "$dir/npm" \
    @openai/codex @anthropic-ai/claude-code >/dev/null 2>&1 ||
    cannot "npm can't install @openai/codex and @anthropic-ai/claude-code"
codex=$dir/npm/node_modules/.bin/codex
claude=$dir/npm/node_modules/.bin/claude
mkdir -p "$dir/home/.codex" "$dir/work"
clean() {
    env -i HOME="$dir/home" CASS_DATA_DIR="$dir/data" TERM=dumb \
        PATH="$(dirname "$(command -v node)"):/usr/local/bin:/usr/bin:/bin" "$@"
}
(clean "$codex" --version && clean "$claude" --version) || cannot "the harnesses don't start"

# A session of each, captured, then lost.
codex_id=01a22811-2cde-7e10-9e32-fe7e55d5b169
claude_id=95047199-69f0-49a5-9432-18cba428ecec
cp -r "$samples/codex/harness-0.171.0/sessions" "$dir/home/.codex/"
# The model of the sample was a stand-in; Codex asks that its provider be known.
printf '[model_providers.mock]\nname = "mock"\nbase_url = "http://127.0.0.1:9"\n' \
    >"$dir/home/.codex/config.toml"
project=$dir/home/.claude/projects/$(realpath "$dir/work" | sed 's/[^A-Za-z0-9-]/-/g')
mkdir -p "$project"
cp "$samples/claude/entireio-skills/$claude_id.jsonl" "$project/"
clean "$cass_bin" index
rm -r "$dir/home/.codex/sessions" "$dir/home/.claude/projects"

# Asks Codex for its list, the session's turns, and to resume it; prints one word.
ask_codex() {
    cat >"$dir/ask.mjs" <<'JS'
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
const [program, id] = process.argv.slice(2);
const server = spawn(program, ["app-server"], { stdio: ["pipe", "pipe", "ignore"] });
const send = (m) => server.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n");
const client = { name: "restore-proof", title: "restore-proof", version: "1" };
send({ id: 1, method: "initialize", params: { clientInfo: client } });
send({ method: "initialized" });
const kinds = ["cli", "vscode", "exec", "appServer", "unknown"];
send({ id: 2, method: "thread/list", params: { limit: 50, modelProviders: [], sourceKinds: kinds } });
send({ id: 3, method: "thread/read", params: { threadId: id, includeTurns: true } });
send({ id: 4, method: "thread/resume", params: { threadId: id } });
const end = (word) => { console.log(word); server.kill(); process.exit(0); };
setTimeout(() => end("silent"), 60000);
const got = {};
createInterface({ input: server.stdout }).on("line", (line) => {
    const m = JSON.parse(line);
    if (m.id >= 2 && m.id <= 4) got[m.id] = m;
    if (!got[2] || !got[3] || !got[4]) return;
    const listed = (got[2].result?.data ?? []).some((t) => t.id === id);
    const read = Boolean(got[3].result?.thread);
    const resumed = Boolean(got[4].result);
    if (!listed && !read && !resumed) end("unknown");
    end(listed && read && resumed ? "found" : `listed=${listed} read=${read} resumed=${resumed} ${got[4].error?.message ?? ""}`);
});
JS
    clean node "$dir/ask.mjs" "$codex" "$codex_id"
}
ask_claude() {
    (cd "$dir/work" && clean timeout 60 "$claude" --resume "$claude_id" -p hi </dev/null 2>&1 || true)
}
expect() {
    case $2 in
    *"$3"*) echo "ok    $1: $2" ;;
    *) echo "FAIL  $1: expected \"$3\", found \"$2\"" >&2; exit 1 ;;
    esac
}

expect "Codex, session gone" "$(ask_codex)" unknown
expect "Claude Code, session gone" "$(ask_claude)" "No conversation found"
clean "$cass_bin" sessions restore "$codex_id" --into-harness
clean "$cass_bin" sessions restore "$claude_id" --into-harness
expect "Codex, session restored" "$(ask_codex)" found
after=$(ask_claude)
case $after in
*"No conversation found"*) echo "FAIL  Claude Code does not find the restored session" >&2; exit 1 ;;
esac
expect "Claude Code, session restored" "$after" "Not logged in"
