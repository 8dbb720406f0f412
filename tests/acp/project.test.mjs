// The editor's own files, terminal and MCP servers as tools, through the official TypeScript SDK.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { SUMS, startStore, words } from "./editor.mjs";

const capabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };

/** Handlers of an editor that works on real files and starts real commands, and allows everything. */
function workingEditor() {
  const terminals = new Map();
  const questions = [];
  const handlers = {
    "session/request_permission": async (question) => {
      questions.push(question);
      return { outcome: { outcome: "selected", optionId: "once" } };
    },
    "fs/read_text_file": async ({ path }) => ({ content: await readFile(path, "utf8") }),
    "fs/write_text_file": async ({ path, content }) => {
      await writeFile(path, content);
      return {};
    },
    "terminal/create": async ({ command, args = [], cwd }) => {
      const child = spawn(command, args, { cwd });
      const terminal = { child, output: "", ended: once(child, "close") };
      child.stdout.on("data", (part) => (terminal.output += part));
      terminals.set("terminal-1", terminal);
      return { terminalId: "terminal-1" };
    },
    "terminal/output": async ({ terminalId }) => ({ output: terminals.get(terminalId).output, truncated: false }),
    "terminal/wait_for_exit": async ({ terminalId }) => {
      const [exitCode, signal] = await terminals.get(terminalId).ended;
      return { exitCode, signal };
    },
    "terminal/kill": async ({ terminalId }) => void terminals.get(terminalId).child.kill(),
    "terminal/release": async ({ terminalId }) => void terminals.delete(terminalId),
  };
  return { handlers, questions, terminals };
}

/** What calls are shown with. The content of a message is no list. */
const contents = (updates) => updates.flatMap(({ content }) => (Array.isArray(content) ? content : []));
const lastOf = (updates) => updates.filter(({ toolCallId }) => toolCallId).at(-1);

test("files are read without a question, and a write asks and is shown as a change", async (t) => {
  const store = await startStore(t);
  const { handlers, questions } = workingEditor();
  const editor = await store.connect({ capabilities, handlers });
  const { sessionId } = await editor.create();
  await writeFile(join(store.project, "a.txt"), "before");
  const { updates: read } = await editor.prompt(sessionId, 'use editor__read_text_file {"path": "a.txt"}');
  assert.deepEqual([lastOf(read).status, questions], ["completed", []]);
  assert.match(words(read), /to “before”/);
  const call = read.find(({ sessionUpdate }) => sessionUpdate === "tool_call");
  assert.deepEqual([call.kind, call.locations[0].path], ["read", join(store.project, "a.txt")]);
  const write = 'use editor__write_text_file {"path": "a.txt", "content": "after"}';
  const { updates: wrote } = await editor.prompt(sessionId, write);
  assert.deepEqual([lastOf(wrote).status, questions.length], ["completed", 1]);
  assert.equal(await readFile(join(store.project, "a.txt"), "utf8"), "after");
  const shown = contents(wrote).find(({ type }) => type === "diff");
  assert.deepEqual([shown.path, shown.oldText, shown.newText], [join(store.project, "a.txt"), "before", "after"]);
});

test("a command asks, runs in the project, is shown as a terminal, and is released", async (t) => {
  const store = await startStore(t);
  const { handlers, questions, terminals } = workingEditor();
  const editor = await store.connect({ capabilities, handlers });
  const { sessionId } = await editor.create();
  await writeFile(join(store.project, "a.txt"), "");
  const { stopReason, updates } = await editor.prompt(sessionId, 'use editor__terminal {"command": "ls"}');
  assert.deepEqual([stopReason, questions.length, lastOf(updates).status], ["end_turn", 1, "completed"]);
  assert.match(words(updates), /a\.txt/);
  assert.ok(contents(updates).some(({ type, terminalId }) => type === "terminal" && terminalId === "terminal-1"));
  assert.equal(terminals.size, 0);
});

test("an editor without files and terminal is offered none of them", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  await editor.prompt(sessionId, "one");
  const [{ body }] = await store.model.seen();
  assert.equal(body.tools, undefined);
});

test("an MCP server of the editor is for its session, and a load has to name it again", async (t) => {
  const store = await startStore(t);
  const { handlers } = workingEditor();
  const editor = await store.connect({ handlers });
  const { sessionId } = await editor.create({ mcpServers: [SUMS] });
  const add = 'use sums__add {"a": 20, "b": 22}';
  const { updates } = await editor.prompt(sessionId, add);
  assert.equal(lastOf(updates).status, "completed");
  assert.match(words(updates), /to “42”/);
  const other = await editor.create();
  assert.equal(lastOf((await editor.prompt(other.sessionId, add)).updates), undefined);
  const later = await store.connect({ handlers });
  await later.load(sessionId);
  assert.equal(lastOf((await later.prompt(sessionId, add)).updates), undefined);
  await later.request("session/load", { sessionId, cwd: store.project, mcpServers: [SUMS] });
  assert.equal(lastOf((await later.prompt(sessionId, add)).updates).status, "completed");
});
