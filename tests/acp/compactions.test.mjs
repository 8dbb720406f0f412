// Compactions, through the official TypeScript SDK, whose editor shows them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LONG_TEXT, SMALL_WINDOW, kinds, provenance, startStore, words } from "./editor.mjs";

const compactionsOf = (updates) => updates.filter(({ sessionUpdate }) => sessionUpdate === "compaction_update");

test("a split is told once, in order, and is the same in lists, after a load and after a restart", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const made = await editor.create();
  const updates = await editor.untilCompacted(made.sessionId);
  const first = kinds(updates).slice(0, 4);
  assert.deepEqual(first, ["compaction_update", "compaction_update", "session_info_update", "usage_update"]);
  const [begun, done] = compactionsOf(updates);
  assert.deepEqual([begun.status, done.status], ["in_progress", "completed"]);
  assert.equal(begun.compactionId, done.compactionId);
  assert.match(done.summary[0].text, /^Summary \d+: they counted\.$/);
  const told = updates.filter(({ _meta }) => _meta);
  assert.deepEqual(kinds(told), ["session_info_update"]);
  const moved = provenance(told[0]);
  const before = provenance(made);
  assert.deepEqual(moved, {
    ...before,
    currentHermesSessionId: moved.currentHermesSessionId,
    previousHermesSessionId: before.currentHermesSessionId,
    parentHermesSessionId: before.currentHermesSessionId,
    parentRelation: "continuation",
    sessionKind: "continuation",
    creatorKind: "compression",
    reason: "compression",
    compressionDepth: 1,
    compactionMode: "split",
    compactionCount: 1,
  });
  assert.notEqual(moved.currentHermesSessionId, before.currentHermesSessionId);
  // The answer comes after it, and usage is told with the answer as always.
  assert.deepEqual(kinds(updates).slice(-1), ["usage_update"]);
  const usage = updates.filter(({ sessionUpdate }) => sessionUpdate === "usage_update");
  assert.ok(usage.every((update) => Object.keys(update).sort().join() === "sessionUpdate,size,used"));
  assert.deepEqual((await editor.list()).map(provenance), [moved]);
  assert.equal(await editor.close(), 0);

  const later = await store.connect({ window: SMALL_WINDOW });
  assert.deepEqual((await later.list()).map(provenance), [moved]);
  assert.deepEqual(provenance(await later.load(made.sessionId)), moved);
  const replayed = later.of(made.sessionId);
  const stored = compactionsOf(replayed);
  assert.deepEqual(stored, [done], "one entity, in its final state");
  assert.match(words(replayed, "user_message_chunk"), /^turn 1:/);
  const older = before.currentHermesSessionId;
  assert.deepEqual(provenance(await later.resume(older)), { ...moved, acpSessionId: older });
  const { updates: next } = await later.prompt(made.sessionId, "a short one");
  assert.deepEqual([compactionsOf(next), next.filter(({ _meta }) => _meta)], [[], []]);
});

test("five splits leave the editor's id where it was", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const { sessionId } = await editor.create();
  const heads = new Set();
  for (let split = 1; split <= 5; split++) {
    const updates = await editor.untilCompacted(sessionId);
    const told = updates.filter(({ _meta }) => _meta).map(provenance);
    assert.equal(told.at(-1).acpSessionId, sessionId);
    told.forEach(({ currentHermesSessionId }) => heads.add(currentHermesSessionId));
  }
  const [row, ...others] = await editor.list();
  assert.deepEqual([row.sessionId, others], [sessionId, []]);
  assert.equal(provenance(row).compressionDepth, heads.size);
  for (const head of heads) assert.equal(provenance(await editor.resume(head)).compressionDepth, heads.size);
});

test("a compaction in place is marked as such and claims no new head", async (t) => {
  const store = await startStore(t, '[compaction]\nmode = "in_place"\n');
  const editor = await store.connect({ window: SMALL_WINDOW });
  const made = await editor.create();
  const updates = await editor.untilCompacted(made.sessionId);
  assert.deepEqual(compactionsOf(updates).map(({ status }) => status), ["in_progress", "completed"]);
  const facts = provenance(updates.find(({ _meta }) => _meta));
  assert.deepEqual(facts, { ...provenance(made), compactionMode: "in_place", compactionCount: 1 });
  const later = await store.connect({ window: SMALL_WINDOW });
  assert.deepEqual((await later.list()).map(provenance), [facts]);
});

test("a kill between a split and the next prompt loses neither", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const { sessionId } = await editor.create();
  const moved = provenance((await editor.untilCompacted(sessionId)).find(({ _meta }) => _meta));
  await editor.kill();
  const later = await store.connect({ window: SMALL_WINDOW });
  assert.deepEqual((await later.list()).map(provenance), [moved]);
  // Without load or resume: the id alone is enough.
  const { stopReason, updates } = await later.prompt(sessionId, "and now?");
  assert.equal(stopReason, "end_turn");
  assert.match(words(updates), /^Answer \d+ to “and now\?”/);
});

test("an editor that does not show compactions is told what they changed, and nothing else", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW, capabilities: {} });
  const { sessionId } = await editor.create();
  const updates = await editor.untilCompacted(sessionId);
  assert.deepEqual(kinds(updates).slice(0, 2), ["session_info_update", "usage_update"]);
  assert.deepEqual(compactionsOf(updates), []);
});

test("/compact is told like any other compaction, and its words reach no model", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: 20_000 });
  const { sessionId } = await editor.create();
  for (let number = 1; number < 25; number++) await editor.prompt(sessionId, `turn ${number}: ${LONG_TEXT}`);
  const { stopReason, updates } = await editor.prompt(sessionId, "/compact");
  assert.equal(stopReason, "end_turn");
  const expected = ["compaction_update", "compaction_update", "session_info_update", "usage_update"];
  assert.deepEqual(kinds(updates), [...expected, "agent_message_chunk"]);
  await editor.prompt(sessionId, "go on");
  assert.ok(!JSON.stringify(await store.model.seen()).includes("/compact"));
});

test("a summary that fails is told as a failed compaction, and the turn goes on", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: SMALL_WINDOW });
  const { sessionId } = await editor.create();
  let told = [];
  for (let number = 1; number < 20 && told.length === 0; number++) {
    const { stopReason, updates } = await editor.prompt(sessionId, `turn ${number}: [no summary] ${LONG_TEXT}`);
    assert.equal(stopReason, "end_turn");
    assert.ok(updates.every((update) => !("_meta" in update)), "nothing moved");
    told = compactionsOf(updates);
  }
  const [begun, failed] = told;
  assert.deepEqual([begun.status, failed.status, told.length], ["in_progress", "failed", 2]);
  assert.equal(begun.compactionId, failed.compactionId);
  assert.ok(failed.error && !("summary" in failed));
  assert.equal(provenance((await editor.list())[0]).compactionCount, 0);
  // When nothing else fits, the oldest part is left out. That is a compaction of its own, and is told as one.
  const updates = await editor.untilCompacted(sessionId, "[no summary] ");
  assert.deepEqual(compactionsOf(updates).map(({ status }) => status), ["in_progress", "completed"]);
  assert.notEqual(compactionsOf(updates)[0].compactionId, begun.compactionId);
});

test("two compactions in one turn are told apart", async (t) => {
  const store = await startStore(t);
  const editor = await store.connect({ window: 2 * SMALL_WINDOW });
  const { sessionId } = await editor.create();
  for (let number = 1; number < 11; number++) await editor.prompt(sessionId, `turn ${number}: ${LONG_TEXT}`);
  // The turn begins with one, and the model server says that the context is still too long.
  const { stopReason, updates } = await editor.prompt(sessionId, `[too long] ${LONG_TEXT}`);
  assert.equal(stopReason, "end_turn");
  const one = ["compaction_update", "compaction_update", "session_info_update", "usage_update"];
  assert.deepEqual(kinds(updates).slice(0, 9), [...one, ...one, "agent_message_chunk"]);
  const [first, second] = updates.filter(({ _meta }) => _meta).map(provenance);
  assert.deepEqual([first.compressionDepth, second.compressionDepth], [1, 2]);
  assert.equal(second.previousHermesSessionId, first.currentHermesSessionId);
  const compactions = compactionsOf(updates);
  assert.deepEqual(compactions.map(({ status }) => status), ["in_progress", "completed", "in_progress", "completed"]);
  assert.equal(new Set(compactions.map(({ compactionId }) => compactionId)).size, 2);
  const later = await store.connect();
  await later.load(sessionId);
  const done = compactions.filter(({ status }) => status === "completed");
  assert.deepEqual(compactionsOf(later.of(sessionId)), done);
});
