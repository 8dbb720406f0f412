// What the official OpenAI SDK makes of errors, broken connections and users who give up.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import OpenAI from "openai";

import { session, startGateway, user } from "./gateway.mjs";
import { startLine, startModel } from "./upstream.mjs";

const UNKNOWN = "0".repeat(32);

/** The fields of an error that clients decide by. */
const told = ({ status, code, param, type }) => ({ status, code, param, type });

async function failure(asked) {
  try {
    await asked;
  } catch (error) {
    return error;
  }
  assert.fail("the request was answered");
}

describe("errors are the classes the SDK knows", () => {
  let gateway;
  let client;
  before(async () => {
    gateway = await startGateway();
    client = gateway.client();
  });
  after(() => gateway.close());

  const chat = (name, more = {}) =>
    client.chat.completions.create({ model: "offline", messages: [user("hi")], ...more }, session(name));

  test("a field that cannot be served", async () => {
    const error = await failure(chat("bad", { n: 2 }));
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual(told(error), { status: 400, code: "invalid_request", param: "n", type: "invalid_request_error" });
    assert.ok(error.requestID);
    assert.ok((await failure(gateway.messages("bad"))).message.endsWith("404"));
  });

  test("names that lead nowhere", async () => {
    assert.ok((await failure(chat(`conv_${UNKNOWN}`))) instanceof OpenAI.NotFoundError);
    const previous_response_id = `resp_${UNKNOWN}`;
    const chained = await failure(client.responses.create({ model: "offline", input: "x", previous_response_id }));
    assert.ok(chained instanceof OpenAI.NotFoundError);
    assert.equal(chained.code, "previous_response_not_found");
    assert.equal(chained.param, "previous_response_id");
    const fetched = await failure(client.responses.retrieve(previous_response_id));
    assert.deepEqual([fetched.status, fetched.code], [404, "not_found"]);
  });

  test("two names at once", async () => {
    const both = { conversation: "slug", previous_response_id: `resp_${UNKNOWN}` };
    const error = await failure(client.responses.create({ model: "offline", input: "x", ...both }));
    assert.deepEqual([error.status, error.code], [400, "conversation_and_previous_response"]);
  });

  test("a key that nobody has", async () => {
    const error = await failure(gateway.client({ apiKey: "wrong" }).models.list());
    assert.ok(error instanceof OpenAI.AuthenticationError);
    assert.equal(error.code, "invalid_api_key");
  });

  test("another session key is a conflict that no retry can solve", async () => {
    const keyed = (key) => ({ maxRetries: 5, headers: { "X-Hermes-Session-Id": "keyed", "X-Hermes-Session-Key": key } });
    const request = { model: "offline", messages: [user("hi")] };
    await client.chat.completions.create(request, keyed("person:1"));
    const error = await failure(client.chat.completions.create(request, keyed("person:2")));
    assert.ok(error instanceof OpenAI.ConflictError);
    assert.equal(error.code, "session_key_conflict");
    assert.equal(error.headers.get("x-should-retry"), "false");
  });
});

describe("with a model server that takes its time", () => {
  let model;
  let gateway;
  let line;
  before(async () => {
    model = await startModel();
    gateway = await startGateway(...model.options);
    line = await startLine(gateway.origin);
  });
  after(async () => {
    line.close();
    model.close();
    await gateway.close();
  });

  /** Ways to ask, each with the text of its answer. */
  const doors = {
    chat: async (client, text, name, signal) => {
      const request = { model: "m", messages: [user(text)] };
      return (await client.chat.completions.create(request, { ...session(name), signal })).choices[0].message.content;
    },
    "chat stream": async (client, text, name, signal) => {
      const request = { model: "m", messages: [user(text)] };
      return client.chat.completions.stream(request, { ...session(name), signal }).finalContent();
    },
    responses: async (client, text, name, signal) => {
      const request = { model: "m", input: text, conversation: name };
      return (await client.responses.create(request, { signal })).output_text;
    },
    "responses stream": async (client, text, name, signal) => {
      const request = { model: "m", input: text, conversation: name };
      return (await client.responses.stream(request, { signal }).finalResponse()).output_text;
    },
  };

  for (const [door, ask] of Object.entries(doors)) {
    test(`the SDK's own retry after a cut connection joins the turn, ${door}`, async () => {
      const answer = ask(gateway.client({ baseURL: line.baseURL, maxRetries: 2 }), "hi", `cut ${door}`);
      const asked = await model.next();
      const again = line.connected();
      line.cut();
      await again;
      asked.answer("all is fine");
      assert.equal(await answer, "all is fine");
      assert.equal(model.unexpected(), 0);
      const rows = await gateway.messages(`cut ${door}`);
      assert.deepEqual(rows.map((row) => row.role), ["user", "assistant"]);
    });

    test(`a request that its user gave up is answered all the same, ${door}`, async () => {
      const name = `given up ${door}`;
      const patience = new AbortController();
      const given = failure(ask(gateway.client(), "one", name, patience.signal));
      const first = await model.next();
      patience.abort();
      assert.ok((await given) instanceof OpenAI.APIUserAbortError);
      const next = ask(gateway.client(), "two", name);
      first.answer("the first");
      const second = await model.next();
      assert.deepEqual(second.body.messages.map((message) => message.content), ["one", "the first", "two"]);
      second.answer("the second");
      assert.equal(await next, "the second");
    });
  }

  test("a request whose time is up ends with the SDK's own error", async () => {
    const request = { model: "m", messages: [user("hi")] };
    const error = await failure(gateway.client({ timeout: 1000 }).chat.completions.create(request, session("late")));
    assert.ok(error instanceof OpenAI.APIConnectionTimeoutError);
    (await model.next()).answer("fine");
  });
});

test("a stream that its user leaves is stored to its end", async (t) => {
  const gateway = await startGateway();
  t.after(gateway.close);
  const ask = (text, more = {}) =>
    gateway.client().chat.completions.create({ model: "offline", messages: [user(text)], ...more }, session("left"));
  for await (const chunk of await ask("one two three four five six seven eight", { stream: true })) {
    if (chunk.choices[0]?.delta.content) break;
  }
  assert.match((await ask("and now?")).choices[0].message.content, /message 2 of this conversation/);
  const rows = await gateway.messages("left");
  assert.deepEqual(rows.map((row) => row.role), ["user", "assistant", "user", "assistant"]);
  assert.match(rows[1].content, /eight .*offline model/);
  assert.notEqual(rows[1].status, "partial");
});
