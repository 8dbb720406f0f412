// Chat completions with the official OpenAI SDK, as its users have it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { session, startGateway, user } from "./gateway.mjs";

const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

let gateway;
let client;
before(async () => {
  gateway = await startGateway();
  client = gateway.client();
});
after(() => gateway.close());

const chat = (name, messages, more = {}) =>
  client.chat.completions.create({ model: "offline", messages, ...more }, session(name));

const streamed = (name, messages, more = {}) =>
  client.chat.completions.stream({ model: "offline", messages, ...more }, session(name));

test("a conversation goes on under its session id", async () => {
  const first = await chat("chat", [user("my name is Ada")]);
  const second = await chat("chat", [user("and now?")]);
  assert.match(first.choices[0].message.content, /my name is Ada/);
  assert.match(second.choices[0].message.content, /message 2 of this conversation/);
  assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
  assert.equal(first.session.resolution, "created");
  assert.deepEqual([second.session.session_id, second.session.resolution], ["chat", "head"]);
});

test("the whole history every time is the same conversation", async () => {
  const history = [user("one")];
  for (const text of ["two", "three"]) {
    const answer = await chat("history", history);
    history.push(answer.choices[0].message, user(text));
  }
  const last = await chat("history", history);
  assert.match(last.choices[0].message.content, /message 3 of this conversation/);
  assert.equal((await gateway.messages("history")).length, 6);
});

test("headers tell the effective session", async () => {
  const options = { headers: { "X-Hermes-Session-Id": "headers", "X-Hermes-Session-Key": "person:1" } };
  const asked = client.chat.completions.create({ model: "offline", messages: [user("hi")] }, options);
  const { data, response, request_id } = await asked.withResponse();
  assert.equal(response.headers.get("x-hermes-session-id"), "headers");
  assert.equal(response.headers.get("x-hermes-session-key"), "person:1");
  assert.equal(response.headers.get("x-hermes-conversation-id"), data.session.conversation_id);
  assert.match(data.session.conversation_id, /^conv_[0-9a-f]{32}$/);
  assert.ok(request_id);
  const again = client.chat.completions.create({ model: "offline", messages: [user("hi")] }, session(data.session.conversation_id));
  assert.equal((await again.withResponse()).response.headers.get("x-hermes-session-id"), "headers");
});

test("a raw stream carries text, usage and session", async () => {
  const asked = chat("stream", [user("hello")], { stream: true, stream_options: { include_usage: true } });
  const { data: stream, response } = await asked.withResponse();
  const chunks = await Array.fromAsync(stream);
  assert.match(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), /hello/);
  assert.ok(chunks.at(-1).usage.total_tokens > 0);
  const finished = chunks.find((chunk) => chunk.choices[0]?.finish_reason);
  assert.equal(finished.session.session_id, "stream");
  assert.equal(response.headers.get("x-hermes-session-id"), "stream");
});

test("the streaming helper accepts every event", async () => {
  const stream = streamed("helper", [user("hello")]);
  const texts = [];
  stream.on("content.delta", ({ delta }) => texts.push(delta));
  const final = await stream.finalChatCompletion();
  assert.match(final.choices[0].message.content, /hello/);
  assert.equal(texts.join(""), final.choices[0].message.content);
  assert.ok(texts.length > 1);
});

for (const way of ["whole", "streamed"]) {
  test(`a tool is called and its result is answered, ${way}`, async () => {
    const name = `tool-${way}`;
    const ask = [user("please call weather for Oslo")];
    const called =
      way === "whole"
        ? await chat(name, ask, { tools: [WEATHER] })
        : await streamed(name, ask, { tools: [WEATHER] }).finalChatCompletion();
    assert.equal(called.choices[0].finish_reason, "tool_calls");
    const [call] = called.choices[0].message.tool_calls;
    assert.equal(call.function.name, "weather");
    assert.ok("city" in JSON.parse(call.function.arguments));
    const result = { role: "tool", tool_call_id: call.id, content: "21 degrees and sunny" };
    const answer = await chat(name, [result], { tools: [WEATHER] });
    assert.match(answer.choices[0].message.content, /21 degrees and sunny/);
  });
}

test("the tool runner goes from call to answer", async () => {
  const asked = [];
  const weather = {
    type: "function",
    function: {
      ...WEATHER.function,
      parse: JSON.parse,
      function: ({ city }) => {
        asked.push(city);
        return "21 degrees";
      },
    },
  };
  const messages = [user('please call weather with {"city": "Oslo"}')];
  const runner = client.chat.completions.runTools({ model: "offline", messages, tools: [weather] }, session("runner"));
  assert.match(await runner.finalContent(), /21 degrees/);
  assert.deepEqual(asked, ["Oslo"]);
  const roles = (await gateway.messages("runner")).map((row) => row.role);
  assert.deepEqual(roles, ["user", "assistant", "tool", "assistant"]);
});

test("an answer in a schema is parsed", async () => {
  const schema = { type: "object", properties: { number: { type: "integer" } }, required: ["number"] };
  const plain = { type: "json_schema", json_schema: { name: "count", schema } };
  const typed = zodResponseFormat(z.object({ number: z.number().int() }), "count");
  for (const response_format of [plain, typed]) {
    const request = { model: "offline", messages: [user("count")], response_format };
    const whole = await client.chat.completions.parse(request);
    assert.ok(Number.isInteger(whole.choices[0].message.parsed.number));
    const stream = await client.chat.completions.stream(request).finalChatCompletion();
    assert.ok(Number.isInteger(stream.choices[0].message.parsed.number));
  }
});

test("models can be listed and read", async () => {
  const names = (await Array.fromAsync(client.models.list())).map((model) => model.id);
  assert.ok(names.includes("offline"));
  assert.equal((await client.models.retrieve("offline")).id, "offline");
});
