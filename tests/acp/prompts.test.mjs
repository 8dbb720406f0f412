// Prompts, through the official TypeScript SDK: cancelled, queued, failed, and what the model is shown.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LONG_TEXT, SMALL_WINDOW, kinds, provenance, refusal, startStore, words } from "./editor.mjs";

test("a cancel before, during and after a turn, and twice, ends what runs and waits and nothing later", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  const cancel = () => editor.notify("session/cancel", { sessionId });
  await cancel();
  const asked = [editor.ask(sessionId, "one [hold]"), editor.ask(sessionId, "two"), editor.ask(sessionId, "three")];
  await store.model.has("one");
  await cancel();
  await cancel();
  for (const { stopReason } of await Promise.all(asked)) assert.equal(stopReason, "cancelled");
  await cancel();
  await store.model.release();
  const { stopReason, updates } = await editor.prompt(sessionId, "four");
  assert.equal(stopReason, "end_turn");
  assert.match(words(updates), /to “four”/);
});

test("a cancel of one session leaves another alone", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const [one, other] = [(await editor.create()).sessionId, (await editor.create()).sessionId];
  const asked = [editor.ask(one, "one [hold]"), editor.ask(other, "other [hold]")];
  await store.model.has("one");
  await store.model.has("other");
  await editor.notify("session/cancel", { sessionId: one });
  assert.equal((await asked[0]).stopReason, "cancelled");
  await store.model.release();
  await store.model.release();
  assert.equal((await asked[1]).stopReason, "end_turn");
});

test("a request that is not wanted any more fails with its own code", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  const abort = new AbortController();
  const asked = refusal(editor.ask(sessionId, "one [hold]", { cancellationSignal: abort.signal }));
  await store.model.has("one");
  abort.abort();
  assert.equal((await asked).code, -32800);
  await store.model.release();
  assert.equal((await editor.prompt(sessionId, "two")).stopReason, "end_turn");
});

test("prompts of one session are answered in order, each with its own updates before it", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  const ended = [];
  const asked = ["one [hold]", "two", "three"].map(async (said) => {
    await editor.ask(sessionId, said);
    ended.push([said, words(editor.of(sessionId))]);
  });
  await store.model.has("one");
  await store.model.release();
  await Promise.all(asked);
  assert.deepEqual(ended.map(([said]) => said), ["one [hold]", "two", "three"]);
  const [first, second] = ended.map(([, told]) => told);
  assert.match(first, /to “one \[hold\]”\.$/);
  assert.match(second, /to “two”\.$/);
});

test("a cancel while a summary is made is told as a cancelled compaction", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const { sessionId } = await editor.create();
  const compactions = () => editor.of(sessionId).filter(({ sessionUpdate }) => sessionUpdate === "compaction_update");
  let asked;
  for (let number = 1; number < 20 && compactions().length === 0; number++) {
    asked = editor.ask(sessionId, `turn ${number}: [hold summary] ${LONG_TEXT}`);
    const began = editor.until(sessionId, "compaction_update");
    await Promise.race([asked, began]);
  }
  await editor.notify("session/cancel", { sessionId });
  assert.equal((await asked).stopReason, "cancelled");
  assert.deepEqual(compactions().map(({ status }) => status), ["in_progress", "cancelled"]);
  assert.equal(compactions()[0].compactionId, compactions()[1].compactionId);
  assert.ok(editor.of(sessionId).every((update) => !("_meta" in update)), "nothing moved");
  const [row] = await editor.list();
  assert.equal(provenance(row).compactionCount, 0);
});

test("closing a session ends its prompts", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  const asked = [editor.ask(sessionId, "one [hold]"), editor.ask(sessionId, "two")];
  await store.model.has("one");
  assert.deepEqual(await editor.request("session/close", { sessionId }), {});
  for (const { stopReason } of await Promise.all(asked)) assert.equal(stopReason, "cancelled");
  await store.model.release();
});

test("a prompt that waits can be taken back without ending the running one", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  const running = editor.ask(sessionId, "one [hold]");
  const abort = new AbortController();
  const waiting = refusal(editor.ask(sessionId, "two", { cancellationSignal: abort.signal }));
  await store.model.has("one");
  abort.abort();
  assert.equal((await waiting).code, -32800);
  await store.model.release();
  assert.equal((await running).stopReason, "end_turn");
  assert.equal((await store.model.shown()).length, 1, "the model was never asked the second one");
});

test("a prompt that the model cannot be shown is refused", async (t) => {
  const editor = await (await startStore(t)).connect();
  const { sessionId } = await editor.create();
  for (const prompt of [[], [{ type: "audio", mimeType: "audio/wav", data: "aGVsbG8=" }]]) {
    assert.equal((await refusal(editor.ask(sessionId, prompt))).code, -32602);
  }
});

test("a failed model call has the code of the HTTP API, and the session goes on", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const { sessionId } = await editor.create();
  const failed = await refusal(editor.ask(sessionId, "one [fail]"));
  assert.deepEqual([failed.code, failed.data.code], [-32603, "upstream_error"]);
  const tooLong = await refusal(editor.ask(sessionId, LONG_TEXT.repeat(12)));
  assert.deepEqual([tooLong.code, tooLong.data.code], [-32603, "context_length_exceeded"]);
  assert.equal((await editor.prompt(sessionId, "two")).stopReason, "end_turn");
});

test("stop reasons are those of the protocol", async (t) => {
  const editor = await (await startStore(t)).connect();
  const { sessionId } = await editor.create();
  for (const [said, reason] of [["[long]", "max_tokens"], ["[harmful]", "refusal"], ["fine", "end_turn"]]) {
    assert.equal((await editor.prompt(sessionId, said)).stopReason, reason);
  }
});

test("texts, links, files and images reach the model, and metadata does not", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  const hidden = { secret: "hunter22" };
  const { stopReason } = await editor.prompt(sessionId, [
    { type: "text", text: "Look at ", _meta: hidden },
    { type: "resource_link", name: "the plan", uri: "file:///plan.md", _meta: hidden },
    { type: "resource", resource: { uri: "file:///a.txt", text: "content of a" }, _meta: hidden },
    { type: "image", mimeType: "image/png", data: "aGVsbG8=", _meta: hidden },
  ]);
  assert.equal(stopReason, "end_turn");
  const [{ content }] = (await store.model.shown()).at(-1);
  const [said, image] = content;
  assert.match(said.text, /Look at \[the plan\]\(file:\/\/\/plan\.md\)/);
  assert.match(said.text, /content of a/);
  assert.equal(image.image_url.url, "data:image/png;base64,aGVsbG8=");
  assert.ok(!JSON.stringify(await store.model.seen()).includes("hunter22"));
  const later = await store.connect();
  await later.load(sessionId);
  const replayed = later.of(sessionId).filter(({ sessionUpdate }) => sessionUpdate === "user_message_chunk");
  assert.deepEqual(replayed.map(({ content }) => content.type), ["text", "image"]);
});

test("commands ask no model, and other words with a slash do", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  for (const said of ["/help", "/title Our trip", "/sessions", "/model", "/branch A side trip"]) {
    const { stopReason, updates } = await editor.prompt(sessionId, said);
    assert.equal(stopReason, "end_turn", said);
    assert.notEqual(words(updates), "", said);
  }
  assert.deepEqual(await store.model.seen(), []);
  const rows = await editor.list();
  assert.deepEqual(new Set(rows.map(({ title }) => title)), new Set(["Our trip", "A side trip"]));
  await editor.prompt(sessionId, "/etc/hosts is a file");
  const [[first, ...others]] = await store.model.shown();
  assert.deepEqual([first.content, others], ["/etc/hosts is a file", []]);
});

test("the end of the input interrupts a turn, which is stored, and the agent exits with 0", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  editor.ask(sessionId, "one [hold]").catch(() => {});
  await store.model.has("one");
  assert.equal(await editor.close(), 0);
  await store.model.release();
  const later = await store.connect();
  await later.load(sessionId);
  assert.equal(words(later.of(sessionId), "user_message_chunk"), "one [hold]");
  assert.equal((await later.prompt(sessionId, "two")).stopReason, "end_turn");
});
