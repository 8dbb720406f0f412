// Sessions, through the official TypeScript SDK: made, listed, loaded, forked, closed, deleted, and not found.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as unstable from "@agentclientprotocol/sdk/unstable";

import { kinds, provenance, refusal, startStore, words } from "./editor.mjs";

test("initialize says what the agent can do, and what it adds", async (t) => {
  const { initialized } = await (await startStore(t)).connect();
  assert.equal(initialized.protocolVersion, 1);
  assert.equal(initialized.agentInfo.name, "herma");
  const { agentCapabilities: can } = initialized;
  assert.equal(can.loadSession, true);
  assert.deepEqual(can.promptCapabilities, { image: true, audio: false, embeddedContext: true });
  for (const name of ["list", "resume", "close", "delete"]) assert.deepEqual(can.sessionCapabilities[name], {}, name);
  assert.equal(can._meta.hermes.sessionProvenance, true);
});

test("a conversation that is not compacted is told no provenance, and its usage with each answer", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: 100_000 });
  const made = await editor.create();
  const { updates } = await editor.prompt(made.sessionId, "one");
  const { updates: later } = await editor.prompt(made.sessionId, "two");
  const told = editor.of(made.sessionId);
  assert.ok(told.every((update) => !("_meta" in update)), JSON.stringify(told));
  assert.ok(!kinds(told).includes("compaction_update"));
  assert.deepEqual(kinds(updates).slice(-2), ["usage_update", "session_info_update"], "usage and the new title");
  assert.deepEqual(kinds(later).slice(-1), ["usage_update"], "the title is told once");
  const facts = provenance(made);
  const head = facts.currentHermesSessionId;
  assert.deepEqual(facts, {
    acpSessionId: made.sessionId,
    conversationId: facts.conversationId,
    currentHermesSessionId: head,
    rootHermesSessionId: head,
    sessionKind: "main",
    originKind: "main",
    creatorKind: "acp",
    compressionDepth: 0,
    compactionCount: 0,
    isUserFacing: true,
  });
  assert.deepEqual((await editor.list()).map(provenance), [facts]);
  assert.deepEqual(provenance(await editor.resume(made.sessionId)), facts);
});

test("new answers and then notifies, load replays and then answers, resume does not replay", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  await editor.prompt(sessionId, "one [think]");
  const live = editor.of(sessionId);
  await editor.close();

  const loader = await store.connect();
  await loader.load(sessionId);
  const replayed = loader.of(sessionId).filter(({ sessionUpdate }) => sessionUpdate !== "available_commands_update");
  assert.deepEqual(kinds(replayed), ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk"]);
  for (const kind of ["agent_thought_chunk", "agent_message_chunk"]) {
    assert.equal(words(replayed, kind), words(live, kind));
    const ids = (updates) => new Set(updates.filter((one) => one.sessionUpdate === kind).map((one) => one.messageId));
    assert.deepEqual(ids(replayed), ids(live), kind);
  }

  const resumer = await store.connect();
  await resumer.resume(sessionId);
  const { updates } = await resumer.prompt(sessionId, "two");
  assert.equal(words(resumer.of(sessionId)), words(updates));
  assert.equal((await store.model.shown()).at(-1).length, 3, "the model has the whole conversation");
});

test("a fork is a branch with its source as parent, and the source stays", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ sdk: unstable });
  const made = await editor.create();
  await editor.prompt(made.sessionId, "one");
  const fork = await editor.fork(made.sessionId);
  assert.deepEqual(provenance(fork), {
    ...provenance(fork),
    acpSessionId: fork.sessionId,
    sessionKind: "branch",
    originKind: "branch",
    parentRelation: "branch",
    parentHermesSessionId: provenance(made).currentHermesSessionId,
    isUserFacing: true,
  });
  assert.notEqual(fork.sessionId, made.sessionId);
  await editor.prompt(fork.sessionId, "two in the branch");
  await editor.prompt(made.sessionId, "two in the source");
  const [inBranch, inSource] = (await store.model.shown()).slice(-2).map((messages) => JSON.stringify(messages));
  assert.ok(inBranch.includes("one") && inBranch.includes("in the branch"));
  assert.ok(inSource.includes("one") && !inSource.includes("in the branch"));
  const later = await store.connect();
  const rows = new Map((await later.list()).map((row) => [row.sessionId, provenance(row)]));
  assert.deepEqual(rows, new Map([made, fork].map((one) => [one.sessionId, provenance(one)])));
});

test("a list has pages of at most 100 rows, the most recently used first", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const made = [];
  for (let number = 0; number < 101; number++) made.push((await editor.create()).sessionId);
  await editor.prompt(made[0], "one");
  const first = await editor.request("session/list", {});
  assert.equal(first.sessions.length, 100);
  assert.equal(first.sessions[0].sessionId, made[0]);
  const second = await editor.request("session/list", { cursor: first.nextCursor });
  assert.equal(second.nextCursor, undefined);
  const all = [...first.sessions, ...second.sessions].map(({ sessionId }) => sessionId);
  assert.deepEqual(new Set(all), new Set(made));
  assert.equal(all.length, 101);
  assert.deepEqual(await editor.list({ cwd: "/nowhere" }), []);
  assert.equal((await refusal(editor.request("session/list", { cursor: first.nextCursor, cwd: "/x" }))).code, -32602);
});

test("an unknown session is named in the error, and its deletion succeeds", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ sdk: unstable });
  for (const sessionId of ["nobody", "conv_00000000000000000000000000000000", "../x"]) {
    for (const call of [
      editor.load(sessionId),
      editor.resume(sessionId),
      editor.fork(sessionId),
      editor.ask(sessionId, "x"),
      editor.request("session/set_mode", { sessionId, modeId: "auto" }),
      editor.request("session/set_config_option", { sessionId, configId: "model", value: "scripted" }),
    ]) {
      const { code, data } = await refusal(call);
      assert.deepEqual([code, data.sessionId], [-32002, sessionId]);
    }
    assert.deepEqual(await editor.request("session/delete", { sessionId }), {});
  }
  assert.deepEqual(await store.model.seen(), []);
});

test("a deleted session is gone, and a closed one is not", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const [closed, deleted] = [(await editor.create()).sessionId, (await editor.create()).sessionId];
  await editor.prompt(closed, "one");
  const running = editor.ask(deleted, "one [hold]");
  await store.model.has("one [hold]");
  assert.deepEqual(await editor.request("session/close", { sessionId: closed }), {});
  assert.deepEqual(await editor.request("session/delete", { sessionId: deleted }), {});
  assert.equal((await running).stopReason, "cancelled");
  await store.model.release();
  assert.deepEqual((await editor.list()).map(({ sessionId }) => sessionId), [closed]);
  assert.equal((await refusal(editor.load(deleted))).code, -32002);
  assert.equal((await editor.prompt(closed, "two")).stopReason, "end_turn");
});

test("wrong requests are refused without repeating them, and the agent goes on", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const secret = { name: "x", command: "/bin/false", args: [], env: [{ name: "TOKEN", value: "hunter22" }] };
  for (const [method, params, code] of [
    ["session/list", { cursor: "hunter22" }, -32602],
    ["session/list", { cwd: "hunter22" }, -32602],
    ["session/new", { cwd: "hunter22", mcpServers: [secret] }, -32602],
    ["session/new", { cwd: 22, mcpServers: [secret] }, -32602],
    ["session/prompt", { prompt: "hunter22" }, -32602],
    ["_hunter/22", { hunter22: true }, -32601],
  ]) {
    const error = await refusal(editor.request(method, params));
    assert.equal(error.code, code, method);
    assert.ok(!JSON.stringify([error.message, error.data]).includes("hunter22"), method);
  }
  const { sessionId } = await editor.create();
  assert.equal((await editor.prompt(sessionId, "one")).stopReason, "end_turn");
});

test("a session key is kept, and another one is a conflict", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const keyed = (sessionKey) => ({ _meta: { hermes: { sessionKey } } });
  const { sessionId } = await editor.create(keyed("agent:ada"));
  await editor.prompt(sessionId, "one");
  const resume = (more) => editor.request("session/resume", { sessionId, cwd: store.project, mcpServers: [], ...more });
  await resume(keyed("agent:ada"));
  await resume({});
  const { code, data } = await refusal(resume(keyed("agent:bob")));
  assert.deepEqual([code, data.code], [-32602, "session_key_conflict"]);
});

test("the mode and the model of a session are stored with it", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const made = await editor.create();
  const { sessionId } = made;
  assert.deepEqual(made.modes.availableModes.map(({ id }) => id), ["ask", "auto", "read_only"]);
  assert.equal(made.modes.currentModeId, "ask");
  const [option] = made.configOptions;
  assert.deepEqual([option.id, option.category, option.currentValue], ["model", "model", "scripted"]);
  await editor.request("session/set_mode", { sessionId, modeId: "read_only" });
  const setting = { sessionId, configId: "model" };
  const { configOptions } = await editor.request("session/set_config_option", { ...setting, value: "scripted" });
  assert.equal(configOptions[0].currentValue, "scripted");
  const unknown = editor.request("session/set_config_option", { ...setting, value: "nothing" });
  assert.equal((await refusal(unknown)).code, -32602);
  const later = await store.connect();
  assert.equal((await later.resume(sessionId)).modes.currentModeId, "read_only");
});
