// What ends turns early, and conversations of other front doors, through the official TypeScript SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SMALL_WINDOW, provenance, refusal, startStore, withTools, words } from "./editor.mjs";

test("a turn that calls tools without end stops at the limit of rounds", async (t) => {
  const store = await startStore(t, `[tools]\nmax_rounds = 3\n${withTools()}`);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  await editor.request("session/set_mode", { sessionId, modeId: "auto" });
  const { stopReason, updates } = await editor.prompt(sessionId, '[again] use sums__add {"a": 20, "b": 22}');
  assert.equal(stopReason, "max_turn_requests");
  const calls = new Set(updates.map(({ toolCallId }) => toolCallId).filter(Boolean));
  assert.equal(calls.size, 2);
});

test("a turn beyond its budget is refused with the code of the HTTP API", async (t) => {
  const store = await startStore(t, "[budgets]\nconversation_tokens = 10\n");
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  await editor.prompt(sessionId, "one");
  const { code, data } = await refusal(editor.ask(sessionId, "two"));
  assert.deepEqual([code, data.code], [-32603, "budget_exceeded"]);
});

test("an ended session takes no prompt, and can still be loaded", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  await editor.prompt(sessionId, "one");
  await store.herma("sessions", "end", sessionId);
  const { code, data } = await refusal(editor.ask(sessionId, "two"));
  assert.deepEqual([code, data.code], [-32603, "session_ended"]);
  await editor.load(sessionId);
  assert.equal(words(editor.of(sessionId), "user_message_chunk"), "one");
});

test("a panic of one turn is its error, and nothing but protocol is on stdout", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ environment: { HERMA_PANIC_AT: "answered", RUST_BACKTRACE: "0" } });
  const { sessionId } = await editor.create();
  assert.equal((await refusal(editor.ask(sessionId, "one"))).code, -32603);
  assert.equal((await editor.prompt(sessionId, "two")).stopReason, "end_turn");
});

test("a conversation of HTTP is listed with the agent's folder, matches no filter, and goes on", async (t) => {
  const store = await startStore(t);
  const server = await store.serve();
  t.after(server.close);
  const { session } = await server.post("/v1/chat/completions", {
    model: "scripted",
    messages: [{ role: "user", content: "from HTTP" }],
  });
  const editor = await store.connect();
  const [row, ...others] = await editor.list();
  assert.deepEqual([row.cwd, others], [process.cwd(), []]);
  assert.deepEqual(await editor.list({ cwd: process.cwd() }), []);
  assert.equal(provenance(row).currentHermesSessionId, session.session_id);
  await editor.load(row.sessionId);
  assert.equal(words(editor.of(row.sessionId), "user_message_chunk"), "from HTTP");
  await editor.prompt(row.sessionId, "from the editor");
  const { data } = await server.get(`/api/sessions/${session.session_id}/messages`);
  const asked = data.filter(({ role }) => role === "user").map(({ content }) => content);
  assert.deepEqual(asked, ["from HTTP", "from the editor"]);
  // And the other way round.
  const made = await editor.create();
  await editor.prompt(made.sessionId, "one");
  const shown = await server.get(`/api/sessions/${made.sessionId}`);
  const facts = provenance(made);
  assert.deepEqual([shown.cwd, shown.provenance.session_id], [store.project, facts.currentHermesSessionId]);
  assert.deepEqual([shown.provenance.creator_kind, shown.provenance.kind], ["acp", "main"]);
});

test("a compaction in place after a split keeps what the split has moved", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const { sessionId } = await editor.create();
  const moved = provenance((await editor.untilCompacted(sessionId)).find(({ _meta }) => _meta));
  await editor.close();
  await store.configure('[compaction]\nmode = "in_place"\n');
  const later = await store.connect({ window: SMALL_WINDOW });
  const told = (await later.untilCompacted(sessionId)).filter(({ _meta }) => _meta).map(provenance);
  assert.deepEqual(told, [{ ...moved, compactionMode: "in_place", compactionCount: 2 }]);
});

test("usage has a cost if the prices have a currency", async (t) => {
  const price = (more) => `[models.scripted.price]\ninput = 1000.0\noutput = 2000.0\n${more}`;
  const store = await startStore(t, price(""));
  const costs = async () => {
    const editor = await store.connect({ window: 100_000 });
    const { sessionId } = await editor.create();
    const { updates } = await editor.prompt(sessionId, "one");
    const usage = updates.filter(({ sessionUpdate }) => sessionUpdate === "usage_update");
    return usage.map(({ cost }) => cost);
  };
  assert.deepEqual(await costs(), [undefined]);
  await store.configure(price('currency = "EUR"\n'));
  const [cost] = await costs();
  assert.equal(cost.currency, "EUR");
  assert.ok(cost.amount > 0 && cost.amount < 1, cost.amount);
});
