// What HTTP clients and commands do to a session that an editor has open, through the official TypeScript SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LONG_TEXT, SHOWS_COMPACTIONS, provenance, refusal, startStore } from "./editor.mjs";

const WINDOW = "[upstream]\ncontext_window = 9000\n";
const kinds = (updates) => updates.map(({ sessionUpdate }) => sessionUpdate);

test("compactions of an HTTP client are told as they happen, and once each", async (t) => {
  const store = await startStore(t, WINDOW);
  const editor = await store.connect();
  const { sessionId } = await editor.create();
  for (let number = 1; number <= 6; number++) await editor.prompt(sessionId, `turn ${number}: ${LONG_TEXT}`);
  const server = await store.serve();
  t.after(server.close);
  for (const mode of ["split", "in_place"]) {
    const known = editor.of(sessionId).length;
    const told = editor.until(sessionId, "usage_update");
    const compacted = await server.post(`/api/sessions/${sessionId}/compactions`, { mode });
    await told;
    const updates = editor.of(sessionId).slice(known);
    const expected = ["compaction_update", "compaction_update", "session_info_update", "usage_update"];
    assert.deepEqual(kinds(updates), expected, mode);
    const [begun, completed, info] = updates;
    assert.deepEqual([begun.status, completed.status], ["in_progress", "completed"]);
    assert.deepEqual(new Set([begun.compactionId, completed.compactionId]), new Set([compacted.id]));
    const [row] = await editor.list();
    assert.deepEqual(provenance(info), provenance(row));
    assert.equal(provenance(info).compactionMode, mode);
    assert.equal(provenance(info).compressionDepth, 1, "the second one claims no new head");
    for (let number = 1; number <= 6; number++) {
      const { updates } = await editor.prompt(sessionId, `${mode} ${number}: ${LONG_TEXT}`);
      assert.deepEqual(updates.filter(({ _meta }) => _meta), [], "it is not told again");
    }
  }
});

test("a title and a deletion from elsewhere are told, a deletion only to editors that show notices", async (t) => {
  const store = await startStore(t);
  const [plain, noticing] = [
    await store.connect(),
    await store.connect({ capabilities: { session: { ...SHOWS_COMPACTIONS.session, notices: {} } } }),
  ];
  const { sessionId } = await plain.create();
  await plain.prompt(sessionId, "one");
  await noticing.load(sessionId);
  const renamed = [plain, noticing].map((editor) => editor.until(sessionId, "session_info_update"));
  await store.herma("sessions", "rename", sessionId, "Harbour");
  await Promise.all(renamed);
  for (const editor of [plain, noticing]) {
    const told = editor.of(sessionId).at(-1);
    assert.deepEqual([told.title, "_meta" in told], ["Harbour", false]);
  }
  const noticed = noticing.until(sessionId, "notice");
  await store.herma("sessions", "delete", sessionId, "--yes");
  await noticed;
  for (const editor of [plain, noticing]) {
    const { code, data } = await refusal(editor.ask(sessionId, "two"));
    assert.deepEqual([code, data.sessionId], [-32002, sessionId]);
  }
  assert.ok(!kinds(plain.of(sessionId)).includes("notice"));
});
