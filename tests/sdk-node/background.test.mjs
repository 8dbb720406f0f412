// Responses that go on without anybody waiting, streams that are read again, counting and compacting.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { startGateway, user } from "./gateway.mjs";
import { startModel } from "./upstream.mjs";

/** Polls a response until it has ended. */
async function ended(client, id) {
  for (;;) {
    const response = await client.responses.retrieve(id);
    if (!["queued", "in_progress"].includes(response.status)) return response;
    await pause(20);
  }
}

/** What of an event has to be the same whenever it is read: all of it but the response, which is told by id and status. */
const essence = ({ response, ...event }) => (response ? { ...event, response: [response.id, response.status] } : event);

/** The events of a stored response after a number, or all of them. */
const read = async (client, id, starting_after) =>
  Array.fromAsync(await client.responses.retrieve(id, { stream: true, starting_after }));

describe("with the offline model", () => {
  let gateway;
  let client;
  before(async () => {
    gateway = await startGateway();
    client = gateway.client();
  });
  after(() => gateway.close());

  const background = (input, more = {}) => client.responses.create({ model: "offline", input, background: true, ...more });

  test("a background response is completed by and by", async () => {
    const begun = await background("hello", { conversation: "background" });
    assert.ok(["queued", "in_progress"].includes(begun.status), begun.status);
    assert.deepEqual([begun.background, begun.output], [true, []]);
    const done = await ended(client, begun.id);
    assert.deepEqual([done.id, done.status, done.background], [begun.id, "completed", true]);
    assert.match(done.output_text, /hello/);
    const next = await client.responses.create({ model: "offline", input: "and now?", previous_response_id: begun.id });
    assert.match(next.output_text, /message 2 of this conversation/);
  });

  test("background responses of a conversation take their turns", async () => {
    const begun = [];
    for (const text of ["one", "two", "three"]) begun.push(await background(text, { conversation: "in-order" }));
    const done = await Promise.all(begun.map(({ id }) => ended(client, id)));
    assert.deepEqual(done.map((response) => /message (\d)/.exec(response.output_text)[1]), ["1", "2", "3"]);
  });

  test("a background stream read again has the same events with the same numbers", async () => {
    const events = await Array.fromAsync(await background("one two three four", { stream: true }));
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    assert.equal(events.at(-1).type, "response.completed");
    const { id } = events.at(-1).response;
    assert.deepEqual((await read(client, id)).map(essence), events.map(essence));
    for (const after of [0, 3, events.length - 2]) {
      assert.deepEqual((await read(client, id, after)).map(essence), events.slice(after + 1).map(essence));
    }
    const helper = client.responses.stream({ response_id: id, starting_after: 3 });
    assert.deepEqual((await Array.fromAsync(helper)).map((event) => event.sequence_number)[0], 4);
    assert.equal((await helper.finalResponse()).output_text, (await client.responses.retrieve(id)).output_text);
  });

  test("a background response that was not streamed can be read as a stream", async () => {
    const { id } = await background("hello");
    const events = await read(client, id);
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    assert.deepEqual([events[0].type, events.at(-1).type], ["response.created", "response.completed"]);
    assert.deepEqual((await read(client, id)).map(essence), events.map(essence));
  });

  test("streams of what is not there are not found", async () => {
    const unknown = `resp_${"0".repeat(32)}`;
    await assert.rejects(read(client, unknown), { status: 404, code: "not_found" });
    await assert.rejects(client.responses.cancel(unknown), { status: 404, code: "not_found" });
  });

  test("input tokens are counted, and nothing is said", async () => {
    const count = (input, more = {}) => client.responses.inputTokens.count({ model: "offline", input, ...more });
    const short = await count("hello");
    assert.equal(short.object, "response.input_tokens");
    assert.ok(short.input_tokens > 0);
    assert.ok((await count("hello, this is a good deal longer than that")).input_tokens > short.input_tokens);
    assert.ok((await count("hello", { instructions: "be very kind to everybody" })).input_tokens > short.input_tokens);
    const said = await client.responses.create({ model: "offline", input: "my name is Ada", conversation: "counted" });
    const within = await count("hello", { conversation: "counted" });
    assert.ok(within.input_tokens > short.input_tokens);
    assert.ok((await count("hello", { previous_response_id: said.id })).input_tokens > short.input_tokens);
    assert.equal((await gateway.messages("counted")).length, 2);
  });

  test("compacting gives items to go on with", async () => {
    const input = [];
    for (let number = 0; number < 20; number += 1) {
      input.push(user(`question ${number}: ${"what else was there to see? ".repeat(10)}`));
      input.push({ role: "assistant", content: `answer ${number}: ${"one more thing of many. ".repeat(10)}` });
    }
    const compacted = await client.responses.compact({ model: "offline", input });
    assert.equal(compacted.object, "response.compaction");
    assert.ok(compacted.usage.total_tokens > 0);
    const items = compacted.output.filter((item) => item.type === "compaction");
    assert.equal(items.length, 1);
    assert.ok(items[0].encrypted_content);
    assert.ok(JSON.stringify(compacted.output).length < JSON.stringify(input).length);
    const next = await client.responses.create({ model: "offline", input: [...compacted.output, user("and now?")] });
    assert.match(next.output_text, /and now\?/);
  });

  test("compacting what a response said leaves its conversation as it is", async () => {
    let last;
    for (let number = 0; number < 8; number += 1) {
      const input = `question ${number}: ${"what else was there to see? ".repeat(20)}`;
      last = await client.responses.create({ model: "offline", input, conversation: "compacted" });
    }
    const compacted = await client.responses.compact({ model: "offline", previous_response_id: last.id });
    assert.ok(compacted.output.some((item) => item.type === "compaction"));
    assert.equal((await gateway.messages("compacted")).filter((row) => row.kind === "summary").length, 0);
  });
});

describe("with a model server that takes its time", () => {
  let model;
  let gateway;
  let client;
  before(async () => {
    model = await startModel();
    gateway = await startGateway(...model.options);
    client = gateway.client();
  });
  after(async () => {
    model.close();
    await gateway.close();
  });

  const background = (input, more = {}) => client.responses.create({ model: "m", input, background: true, ...more });

  test("a running response says so until it is answered", async () => {
    const { id } = await background("hi");
    const asked = await model.next();
    assert.equal((await client.responses.retrieve(id)).status, "in_progress");
    asked.answer("all is fine");
    assert.equal((await ended(client, id)).output_text, "all is fine");
  });

  test("a cancelled response is cancelled and stays so", async () => {
    const { id } = await background("hi", { conversation: "cancelled" });
    const asked = await model.next();
    assert.equal((await client.responses.cancel(id)).status, "cancelled");
    asked.answer("too late");
    assert.equal((await client.responses.cancel(id)).status, "cancelled");
    const next = client.responses.create({ model: "m", input: "and now?", conversation: "cancelled" });
    const second = await model.next();
    assert.doesNotMatch(JSON.stringify(second.body.messages), /too late/);
    second.answer("fine");
    assert.equal((await next).output_text, "fine");
    const cancelled = await client.responses.retrieve(id);
    assert.deepEqual([cancelled.status, cancelled.output_text], ["cancelled", ""]);
  });

  test("a response that waits for another can be cancelled", async () => {
    const first = await background("one", { conversation: "waiting" });
    const asked = await model.next();
    const second = await background("two", { conversation: "waiting" });
    assert.equal(second.status, "queued");
    assert.equal((await client.responses.cancel(second.id)).status, "cancelled");
    asked.answer("fine");
    assert.equal((await ended(client, first.id)).status, "completed");
    assert.equal((await client.responses.retrieve(second.id)).status, "cancelled");
    assert.equal(model.unexpected(), 0);
  });

  test("a background stream that is left goes on, and is read from where it was left", async () => {
    const seen = [];
    const stream = await background("hi", { stream: true });
    for await (const event of stream) {
      seen.push(event);
      if (event.type === "response.in_progress") break;
    }
    const { id } = seen[0].response;
    const asked = await model.next();
    const rest = read(client, id, seen.at(-1).sequence_number);
    asked.answer("all is fine");
    const events = [...seen, ...(await rest)];
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    assert.equal(events.at(-1).type, "response.completed");
    const deltas = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
    assert.equal(deltas.join(""), "all is fine");
    assert.deepEqual((await read(client, id)).map(essence), events.map(essence));
  });

  test("the stream of a cancelled response ends", async () => {
    const { id } = await background("hi");
    const asked = await model.next();
    const events = read(client, id);
    await client.responses.cancel(id);
    asked.answer("too late");
    const { response } = (await events).at(-1);
    assert.deepEqual([response.id, response.status], [id, "cancelled"]);
  });
});
