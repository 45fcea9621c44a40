// Opens one raw session log of format 0 with the harness's own reader, and prints how many events it
// has: reads it, replays it, closes what is open, in memory.
//
//   node dsh-reader.mjs LOG
//
// Needs Node 22.15 or newer, and the packages @deepseek-ai/dsh-session-persistence-jsonl and what it
// is a peer of, installed in the folder of this file.
import { closeSync, linkSync, mkdirSync, mkdtempSync, openSync, readSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Context } from '@deepseek-ai/cordis';
import { JsonlSessionPersistence } from '@deepseek-ai/dsh-session-persistence-jsonl';
import { SessionStore } from '@deepseek-ai/dsh-session';

const log = resolve(process.argv[2]);
const head = Buffer.alloc(65536);
const file = openSync(log, 'r');
const line = head.subarray(0, readSync(file, head)).toString().split('\n')[0];
closeSync(file);
const header = JSON.parse(line);
// Beside the log: a link can't leave its file system.
const root = mkdtempSync(join(dirname(log), 'dsh-reader-'));
try {
  const ctx = new Context();
  await ctx.plugin(SessionStore);
  await ctx.plugin(JsonlSessionPersistence, { root, compression: 'none' });
  const reader = ctx.sessionPersistence;
  const { path } = reader.locate(header);
  mkdirSync(dirname(path), { recursive: true });
  linkSync(log, path);
  const { events } = await reader.inspect(header.id);
  console.log(events.length);
} finally {
  rmSync(root, { recursive: true });
}
process.exit(0);
