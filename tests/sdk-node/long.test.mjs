// A conversation that outgrows its model: the SDK's users hold the first id and read the new one.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { session, startGateway, user } from "./gateway.mjs";

let gateway;
let client;
before(async () => {
  gateway = await startGateway("--context-window", "2000");
  client = gateway.client();
});
after(() => gateway.close());

/** Talks until a turn was compacted for. `takeTurn` answers with the session it was told, and whatever else it saw. */
async function talkUntilRotated(takeTurn) {
  for (let number = 0; number < 40; number += 1) {
    const seen = await takeTurn(`message ${number}: ${"we went on and saw one more thing. ".repeat(12)}`);
    if (seen.session.rotated) return seen;
  }
  assert.fail("the conversation was never compacted");
}

const chat = (name, text, more = {}) =>
  client.chat.completions.create({ model: "offline", messages: [user(text)], ...more }, session(name));

test("answers tell the new head, and the first id keeps working", async () => {
  const { session: head } = await talkUntilRotated(async (text) => {
    const { data, response } = await chat("first", text).withResponse();
    assert.equal(response.headers.get("x-hermes-session-id"), data.session.session_id);
    return data;
  });
  assert.notEqual(head.session_id, "first");
  assert.equal(head.provenance.previous_session_id, "first");
  const again = await chat("first", "and now?");
  assert.deepEqual([again.session.session_id, again.session.resolution], [head.session_id, "moved"]);
  const there = await chat(head.session_id, "and now?");
  assert.deepEqual([there.session.session_id, there.session.resolution], [head.session_id, "head"]);
});

test("chat streams tell the new head in their last chunk, helper included", async () => {
  const ways = {
    raw: async (text) => Array.fromAsync(await chat("raw", text, { stream: true })),
    helper: async (text) => {
      const stream = client.chat.completions.stream({ model: "offline", messages: [user(text)] }, session("helper"));
      const chunks = await Array.fromAsync(stream);
      assert.ok((await stream.finalChatCompletion()).choices[0].message.content);
      return chunks;
    },
  };
  for (const [name, chunks] of Object.entries(ways)) {
    const { session: head } = await talkUntilRotated(async (text) =>
      (await chunks(text)).find((chunk) => chunk.choices[0]?.finish_reason));
    assert.notEqual(head.session_id, name);
    assert.equal(head.provenance.kind, "continuation");
  }
});

test("a response shows the compaction that made room for it", async () => {
  const ways = {
    whole: async (text) => client.responses.create({ model: "offline", input: text, conversation: "whole" }),
    raw: async (text) => {
      const stream = await client.responses.create({ model: "offline", input: text, conversation: "raw-response", stream: true });
      const events = await Array.fromAsync(stream);
      const done = events.filter((event) => event.type === "response.output_item.done").map((event) => event.item.type);
      const { response } = events.at(-1);
      assert.deepEqual(done, response.output.map((item) => item.type));
      return response;
    },
    helper: async (text) => client.responses.stream({ model: "offline", input: text, conversation: "helper-response" }).finalResponse(),
  };
  for (const takeTurn of Object.values(ways)) {
    const response = await talkUntilRotated(takeTurn);
    assert.deepEqual(response.output.map((item) => item.type), ["compaction", "message"]);
    assert.match(response.output[0].id, /^cmp_[0-9a-f]{32}$/);
    assert.match(response.output[1].content[0].text, /we went on/);
    const fetched = await client.responses.retrieve(response.id);
    assert.deepEqual(fetched.output.map((item) => item.type), ["compaction", "message"]);
  }
});

test("a chain of responses goes on through a compaction", async () => {
  let previous_response_id;
  const rotated = await talkUntilRotated(async (input) => {
    const response = await client.responses.create({ model: "offline", input, previous_response_id });
    previous_response_id = response.id;
    return response;
  });
  const next = await client.responses.create({ model: "offline", input: "and now?", previous_response_id });
  assert.equal(next.session.conversation_id, rotated.session.conversation_id);
  assert.notEqual(next.session.resolution, "branched");
});
