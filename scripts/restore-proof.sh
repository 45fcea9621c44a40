#!/usr/bin/env bash
# Proves with the real harnesses that a session which `cass sessions restore --into-harness` puts
# back is one that they find again: Codex lists, reads and resumes it, Claude Code and others resume
# it, Gemini CLI and OpenCode list it.
#
# The harnesses come from npm into a temporary folder and run with a home of their own, without an
# account: some need none for this, and the others ask for a login, or fail to reach a model, only
# after they have found the session, and say that there is none before it is back. One that can't
# be installed here, or does not start, is skipped with a word. Exit 0: all that ran hold. Exit 77:
# can't run here, and says why. Else: it does not hold.
#
# Knob: ONLY="gemini pi" leaves out Codex, Claude Code and all others.
set -euo pipefail
cd "$(dirname "$0")/.."

cannot() {
    echo "restore-proof: can't run here: $*" >&2
    exit 77
}

command -v npm >/dev/null && command -v node >/dev/null || cannot "npm and node are needed"
if [ -z "${CASS:-}" ]; then
    cargo build --quiet
    CASS=${CARGO_TARGET_DIR:-$PWD/target}/debug/cass
fi
samples=$PWD/tests/fixtures/sessions
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/home" "$dir/work"
clean() {
    env -i HOME="$dir/home" CASS_DATA_DIR="$dir/data" TERM=dumb \
        PATH="$(dirname "$(command -v node)"):/usr/local/bin:/usr/bin:/bin" "$@"
}
expect() {
    case $2 in
    *"$3"*) echo "ok    $1: $(tr '\n' ' ' <<<"$3")" ;;
    *) echo "FAIL  $1: expected \"$3\", found \"$2\"" >&2; exit 1 ;;
    esac
}
wanted() { [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $1 "* ]]; }
skip() { echo "skip  $*"; }
# install NAME PACKAGE COMMAND: sets $program; fails when it can't be had here.
install() {
    wanted "$1" || return 1
    if ! npm install --silent --no-audit --no-fund --prefix "$dir/npm-$1" "$2" >/dev/null 2>&1; then
        skip "$1: npm can't install $2 here"
        return 1
    fi
    program=$dir/npm-$1/node_modules/.bin/$3
    local version
    if ! version=$(clean timeout 60 "$program" --version </dev/null 2>&1 | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1) || [ -z "$version" ]; then
        skip "$1: $2 does not start with $(node --version)"
        return 1
    fi
    echo "      $1: $2 $version"
}
# said WORDS...: what a harness says when it is asked without a person at the keyboard.
said() { clean timeout 90 "$@" </dev/null 2>&1 || true; }
# round NAME ID GONE FOUND: a session that is in place is captured and lost; `ask` must say GONE, and
# FOUND once it is put back. `lose` removes it.
round() {
    clean "$CASS" index >/dev/null
    lose
    expect "$1, session gone" "$(ask)" "$3"
    clean "$CASS" sessions restore "$2" --into-harness >/dev/null
    local after
    after=$(ask)
    case $after in
    *"$3"*) echo "FAIL  $1 does not find the restored session: $after" >&2; exit 1 ;;
    esac
    expect "$1, session restored" "$after" "$4"
}

if install gemini @google/gemini-cli gemini; then
    # The key is none: listing asks that one is set and does not use it.
    ask() { (cd "$dir/work" && said env GEMINI_API_KEY=none GEMINI_CLI_TRUST_WORKSPACE=true "$program" --list-sessions); }
    ask >/dev/null
    # Else it removes a session of that age when it looks, restored or not; `cass` says so.
    echo '{"general":{"sessionRetention":{"enabled":false}}}' >"$dir/home/.gemini/settings.json"
    chats=$dir/home/.gemini/tmp/work/chats
    mkdir -p "$chats"
    cp "$samples/gemini/entireio-cli/chats/session-2026-faff42ab.json" "$chats/"
    lose() { rm -r "$chats"; }
    id=faff42ab-6ea5-4f78-b8c4-f7dd6272af08
    round gemini $id "No previous sessions" "[$id]"
fi

if install pi @mariozechner/pi-coding-agent pi; then
    id=01a22812-a95d-7169-9c70-16edf0099120
    project=$(realpath "$dir/work")
    # A session is of the folder that its first line names.
    folder=$dir/home/.pi/agent/sessions/--$(sed 's,^/,,; s,[/:],-,g' <<<"$project")--
    mkdir -p "$folder"
    name=$(basename "$samples"/pi/harness-1.6.0/sessions/*/*_$id.jsonl)
    sed "s,\"cwd\":\"[^\"]*\",\"cwd\":\"$project\"," "$samples"/pi/harness-1.6.0/sessions/*/"$name" >"$folder/$name"
    lose() { rm -r "$dir/home/.pi/agent/sessions"; }
    ask() { (cd "$dir/work" && said "$program" --session $id --print hi); }
    round pi $id "No session found" "No API key found"
fi

if install qwen @qwen-code/qwen-code qwen; then
    id=103bae00-f52e-4ea8-a15b-deff2f8e2b4d
    project=$(realpath "$dir/work")
    folder=$dir/home/.qwen/projects/$(sed 's/[^A-Za-z0-9]/-/g' <<<"$project")/chats
    mkdir -p "$folder"
    sed "s,\"cwd\":\"[^\"]*\",\"cwd\":\"$project\",g" \
        "$samples"/qwen/harness-0.24.4/dot-qwen/projects/*/chats/$id.jsonl >"$folder/$id.jsonl"
    lose() { rm -r "$dir/home/.qwen/projects"; }
    ask() {
        (cd "$dir/work" && said env OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:9 OPENAI_MODEL=m \
            "$program" --auth-type openai --resume $id -p hi)
    }
    round qwen $id "No saved session found" "Connection error"
fi

if install copilot @github/copilot copilot; then
    id=10fb4666-56f0-4352-90fc-715caf95b418
    mkdir -p "$dir/home/.copilot/session-state"
    cp -r "$samples/copilot/agentv/$id" "$dir/home/.copilot/session-state/"
    lose() { rm -r "$dir/home/.copilot/session-state/$id"; }
    ask() { (cd "$dir/work" && said "$program" --resume=$id -p hi); }
    round copilot $id "To start a new session" "/login"
fi

# The last version that reads sessions from files; the ones after it keep a database and don't.
if install opencode opencode-ai@1.1.65 opencode; then
    id=ses_dd7f7cddfffeqMe00BlHfH0524
    git -C "$dir/work" init --quiet
    # A project is known by its first commit; this is where OpenCode notes it.
    printf 977d56045393c03ddd5924bbf7433dc79f7873d8 >"$dir/work/.git/opencode"
    store=$dir/home/.local/share/opencode
    mkdir -p "$store"
    cp -r "$samples/opencode/harness-1.1.65/storage" "$store/"
    lose() { rm -r "$store/storage/session" "$store/storage/message" "$store/storage/part"; }
    ask() { (cd "$dir/work" && echo "listed: $(said "$program" session list | grep -o "$id" || echo none)"); }
    round opencode $id "listed: none" "listed: $id"
fi

# Needs a newer Node than may be here; npm has that too.
if wanted kimi && npm install --silent --no-audit --no-fund --prefix "$dir/node" node@24 >/dev/null 2>&1 &&
    PATH=$dir/node/node_modules/node/bin:$PATH && install kimi @moonshot-ai/kimi-code kimi; then
    id=session-short
    folder=$dir/home/.kimi-code/sessions/wd_bpm_ab308ba3bc10
    mkdir -p "$folder"
    cp -r "$samples/kimi/openclaw-session-viewer/$id" "$folder/"
    lose() { rm -r "$folder"; }
    ask() { (cd "$dir/work" && said "$program" --session $id -p hi); }
    # It is of a folder on another machine, which Kimi says once it has found it.
    round kimi $id "not found" "created under a different directory"
fi

for why in "cline: not tried here, its list needs a terminal" \
    "crush, openclaw, droid: see docs/harnesses.md"; do
    wanted none || continue
    skip "$why"
done
wanted codex || exit 0

npm install --silent --no-audit --no-fund --prefix "$dir/npm" \
    @openai/codex @anthropic-ai/claude-code >/dev/null 2>&1 ||
    cannot "npm can't install @openai/codex and @anthropic-ai/claude-code"
codex=$dir/npm/node_modules/.bin/codex
claude=$dir/npm/node_modules/.bin/claude
mkdir -p "$dir/home/.codex"
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
clean "$CASS" index
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
expect "Codex, session gone" "$(ask_codex)" unknown
expect "Claude Code, session gone" "$(ask_claude)" "No conversation found"
clean "$CASS" sessions restore "$codex_id" --into-harness
clean "$CASS" sessions restore "$claude_id" --into-harness
expect "Codex, session restored" "$(ask_codex)" found
after=$(ask_claude)
case $after in
*"No conversation found"*) echo "FAIL  Claude Code does not find the restored session" >&2; exit 1 ;;
esac
expect "Claude Code, session restored" "$after" "Not logged in"
