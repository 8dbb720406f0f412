// Permissions, through the official TypeScript SDK: what a tool may do, the editor's person decides.

import assert from "node:assert/strict";
import { test } from "node:test";

import { provenance, startStore, withTools, words } from "./editor.mjs";

const ADD = 'use sums__add {"a": 20, "b": 22}';
const chosen = (optionId) => ({ outcome: { outcome: "selected", optionId } });
const statuses = (updates) => updates.filter(({ toolCallId }) => toolCallId).map(({ status }) => status);

/** An editor whose person gives these answers, one after the other, and the questions that it was asked. */
async function connect(store, ...answers) {
  const questions = [];
  const answer = async (question) => {
    questions.push(question);
    return chosen(answers.shift());
  };
  const editor = await store.connect({ answer });
  return { editor, questions };
}

test("a call that changes something asks, is made if it is allowed, and tells its progress", async (t) => {
  const store = await startStore(t, withTools());
  const { editor, questions } = await connect(store, "once", "session");
  const { sessionId } = await editor.create();
  const { stopReason, updates } = await editor.prompt(sessionId, ADD);
  assert.equal(stopReason, "end_turn");
  const [question] = questions;
  assert.equal(question.sessionId, sessionId);
  const options = question.options.map(({ optionId, kind }) => [optionId, kind]);
  const expected = [["once", "allow_once"], ["session", "allow_always"], ["always", "allow_always"]];
  assert.deepEqual(options, [...expected, ["deny", "reject_once"]]);
  assert.deepEqual(question.toolCall.rawInput, { a: 20, b: 22 });
  const told = updates.filter(({ toolCallId }) => toolCallId);
  assert.ok(told.every(({ toolCallId }) => toolCallId === question.toolCall.toolCallId));
  assert.equal(statuses(updates).at(-1), "completed");
  assert.equal(told.at(-1).content[0].content.text, "42");
  assert.match(words(updates), /to “42”/);
  // Once is once, and for the session is for the session.
  for (let round = 0; round < 3; round++) await editor.prompt(sessionId, ADD);
  assert.equal(questions.length, 2);
  // A replay has the calls with the same ids, in their final states.
  const later = await store.connect();
  await later.load(sessionId);
  const replayed = later.of(sessionId).filter(({ toolCallId }) => toolCallId === question.toolCall.toolCallId);
  assert.equal(statuses(replayed).at(-1), "completed");
});

test("a call that is not allowed is not made, and the turn goes on", async (t) => {
  const store = await startStore(t, withTools());
  const { editor, questions } = await connect(store, "deny");
  const { sessionId } = await editor.create();
  const { stopReason, updates } = await editor.prompt(sessionId, ADD);
  assert.deepEqual([stopReason, questions.length, statuses(updates).at(-1)], ["end_turn", 1, "failed"]);
  assert.doesNotMatch(words(updates), /42/);
});

test("in the modes auto and read_only there is no question", async (t) => {
  const store = await startStore(t, withTools());
  const { editor, questions } = await connect(store);
  const { sessionId } = await editor.create();
  for (const [modeId, status] of [["auto", "completed"], ["read_only", "failed"]]) {
    await editor.request("session/set_mode", { sessionId, modeId });
    const { stopReason, updates } = await editor.prompt(sessionId, ADD);
    assert.deepEqual([stopReason, statuses(updates).at(-1)], ["end_turn", status]);
  }
  assert.deepEqual(questions, []);
});

test("a cancel takes the question back, and the next turn is untouched", async (t) => {
  const store = await startStore(t, withTools());
  let cancelled;
  const editor = await store.connect({
    answer: async ({ sessionId }, signal) => {
      await editor.notify("session/cancel", { sessionId });
      cancelled = await new Promise((resolve) => signal.addEventListener("abort", () => resolve(true)));
      return { outcome: { outcome: "cancelled" } };
    },
  });
  const { sessionId } = await editor.create();
  assert.equal((await editor.prompt(sessionId, ADD)).stopReason, "cancelled");
  assert.equal(cancelled, true);
  const { stopReason, updates } = await editor.prompt(sessionId, "and now?");
  assert.deepEqual([stopReason, statuses(updates)], ["end_turn", []]);
});

test("a question that a kill has left open is asked again by the next load, and the turn goes on", async (t) => {
  const store = await startStore(t, withTools());
  let asked;
  const isAsked = new Promise((resolve) => (asked = resolve));
  const editor = await store.connect({ answer: () => new Promise(asked) });
  const { sessionId } = await editor.create();
  const lost = editor.ask(sessionId, ADD).catch(() => "lost");
  await isAsked;
  await editor.kill();
  assert.equal(await lost, "lost");
  const { editor: later, questions } = await connect(store, "once");
  // The title comes after the answer.
  const done = later.until(sessionId, "session_info_update");
  const loaded = await later.load(sessionId);
  assert.equal(provenance(loaded).acpSessionId, sessionId);
  await done;
  assert.equal(questions.length, 1);
  assert.match(words(later.of(sessionId)), /to “42”/);
  assert.equal((await later.prompt(sessionId, "and now?")).stopReason, "end_turn");
});
