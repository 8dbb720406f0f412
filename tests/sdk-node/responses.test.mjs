// The Responses API with the official OpenAI SDK, as its users have it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { session, startGateway } from "./gateway.mjs";

const WEATHER = {
  type: "function",
  name: "weather",
  strict: false,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

let gateway;
let client;
before(async () => {
  gateway = await startGateway();
  client = gateway.client();
});
after(() => gateway.close());

const respond = (input, more = {}, options) => client.responses.create({ model: "offline", input, ...more }, options);

test("a slug continues, and its responses can be fetched and deleted", async () => {
  const first = await respond("my name is Ada", { conversation: "slug", metadata: { a: "b" } });
  const second = await respond("and now?", { conversation: "slug" });
  assert.match(second.output_text, /message 2 of this conversation/);
  assert.equal(first.conversation.id, second.conversation.id);
  assert.equal(second.session.resolution, "head");
  const fetched = await client.responses.retrieve(first.id);
  assert.deepEqual([fetched.output_text, fetched.metadata], [first.output_text, { a: "b" }]);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
  const third = await respond("still there?", { conversation: { id: second.conversation.id } });
  assert.match(third.output_text, /message 3 of this conversation/);
});

test("the session header and a slug are names of the same kind of conversation", async () => {
  const { data, response } = await respond("one", {}, session("by-header")).withResponse();
  assert.equal(response.headers.get("x-hermes-session-id"), "by-header");
  assert.equal(response.headers.get("x-hermes-conversation-id"), data.session.conversation_id);
  const next = await respond("two", { conversation: "by-header" });
  assert.match(next.output_text, /message 2 of this conversation/);
  assert.equal((await gateway.messages("by-header")).length, 4);
});

test("a chain continues, and an earlier link branches", async () => {
  const one = await respond("one");
  const two = await respond("two", { previous_response_id: one.id });
  assert.match(two.output_text, /message 2 of this conversation/);
  assert.equal(two.session.conversation_id, one.session.conversation_id);
  const branch = await respond("other", { previous_response_id: one.id });
  assert.match(branch.output_text, /message 2 of this conversation/);
  assert.equal(branch.session.resolution, "branched");
  assert.notEqual(branch.session.conversation_id, two.session.conversation_id);
  const three = await respond("three", { previous_response_id: two.id });
  assert.match(three.output_text, /message 3 of this conversation/);
});

test("input items are paged through", async () => {
  const texts = ["one", "two", "three", "four", "five"];
  const input = texts.map((content) => ({ role: "user", content }));
  const { id } = await respond(input);
  const said = async (query) => {
    const items = await Array.fromAsync(client.responses.inputItems.list(id, query));
    return items.map((item) => item.content[0].text);
  };
  assert.deepEqual(await said({ order: "asc", limit: 2 }), texts);
  assert.deepEqual(await said({ limit: 2 }), texts.toReversed());
  const page = await client.responses.inputItems.list(id, { order: "asc", limit: 2 });
  assert.deepEqual([page.data.length, page.has_more], [2, true]);
  const rest = await Array.fromAsync(client.responses.inputItems.list(id, { order: "asc", after: page.data[1].id }));
  assert.equal(rest.length, 3);
});

test("the streaming helper and raw streams accept every event", async () => {
  const stream = client.responses.stream({ model: "offline", input: "hello", conversation: "stream" });
  const texts = [];
  stream.on("response.output_text.delta", ({ delta }) => texts.push(delta));
  const kinds = (await Array.fromAsync(stream)).map((event) => event.type);
  const final = await stream.finalResponse();
  assert.deepEqual([kinds[0], kinds.at(-1)], ["response.created", "response.completed"]);
  assert.match(final.output_text, /hello/);
  assert.equal(texts.join(""), final.output_text);
  const events = await Array.fromAsync(await respond("again", { conversation: "stream", stream: true }));
  assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
  assert.equal(events.at(-1).response.session.resolution, "head");
  const stored = await client.responses.retrieve(events.at(-1).response.id);
  assert.equal(stored.output_text, events.at(-1).response.output[0].content[0].text);
});

for (const way of ["whole", "streamed"]) {
  test(`a function is called and its output is answered, ${way}`, async () => {
    const request = { model: "offline", input: 'please call weather with {"city": "Oslo"}', tools: [WEATHER] };
    const asked =
      way === "whole"
        ? await client.responses.create(request)
        : await client.responses.stream(request).finalResponse();
    const [call] = asked.output;
    assert.deepEqual([call.type, call.name, JSON.parse(call.arguments)], ["function_call", "weather", { city: "Oslo" }]);
    const output = { type: "function_call_output", call_id: call.call_id, output: "21 degrees" };
    const answer = await respond([output], { previous_response_id: asked.id, tools: [WEATHER] });
    assert.match(answer.output_text, /21 degrees/);
  });
}

test("the items of an answer can be sent back as they are", async () => {
  const history = [{ role: "user", content: "please call weather" }];
  const asked = await respond(history, { tools: [WEATHER], conversation: "items" });
  history.push(...asked.output);
  history.push({ type: "function_call_output", call_id: asked.output[0].call_id, output: "21 degrees" });
  const told = await respond(history, { tools: [WEATHER], conversation: "items" });
  history.push(...told.output, { role: "user", content: "thanks" });
  const last = await respond(history, { tools: [WEATHER], conversation: "items" });
  assert.match(last.output_text, /message 2 of this conversation/);
  const roles = (await gateway.messages("items")).map((row) => row.role);
  assert.deepEqual(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"]);
});

test("an answer in a schema is parsed", async () => {
  const schema = { type: "object", properties: { number: { type: "integer" } }, required: ["number"] };
  const plain = { type: "json_schema", name: "count", schema };
  const typed = zodTextFormat(z.object({ number: z.number().int() }), "count");
  for (const format of [plain, typed]) {
    const request = { model: "offline", input: "count", text: { format } };
    const whole = await client.responses.parse(request);
    assert.ok(Number.isInteger(whole.output_parsed.number));
    const stream = await client.responses.stream(request).finalResponse();
    assert.ok(Number.isInteger(stream.output_parsed.number));
  }
});
