// How the Vercel AI SDK goes on: by naming items, by sending its history whole, and by answering calls after the question.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { KEY, startGateway } from "./gateway.mjs";

const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `21 degrees in ${city}`,
});

let gateway;
let model;
before(async () => {
  gateway = await startGateway();
  model = createOpenAI({ baseURL: gateway.baseURL, apiKey: KEY }).responses("offline");
});
after(() => gateway.close());

const roles = async (name) => (await gateway.messages(name)).map((row) => row.role);

/** A history with a tool's call and one more question, as the AI SDK's users keep it. */
async function twoTurns(request) {
  const messages = [{ role: "user", content: "please call weather" }];
  const first = await generateText({ ...request, messages, tools: { weather }, stopWhen: isStepCount(3) });
  messages.push(...first.responseMessages, { role: "user", content: "and now?" });
  return generateText({ ...request, messages, tools: { weather } });
}

// Every assistant text of the history is sent as {"type":"item_reference","id":"msg_…"}.
test("the whole history every time, with references to what was answered", async () => {
  const headers = { "X-Hermes-Session-Id": "references" };
  assert.match((await twoTurns({ model, headers, maxRetries: 0 })).text, /message 2 of this conversation/);
  assert.deepEqual(await roles("references"), ["user", "assistant", "tool", "assistant", "user", "assistant"]);
});

test("references to what was answered, without a session header", async () => {
  assert.match((await twoTurns({ model, maxRetries: 0 })).text, /message 2 of this conversation/);
});

// With `conversation` the calls and texts of the model are left out; the user's messages and the tool's results are all sent again:
// the second step's input is [user "please call weather", function_call_output].
for (const call of [generateText, streamText]) {
  test(`a tool's result is taken after the question is said again, ${call.name}`, async () => {
    const conversation = `said-again-${call.name}`;
    const request = { model, prompt: "please call weather", tools: { weather }, stopWhen: isStepCount(3), maxRetries: 0 };
    const result = await call({ ...request, providerOptions: { openai: { conversation } } });
    assert.match(await result.text, /21 degrees/);
    assert.equal((await gateway.messages(conversation)).at(-1).role, "assistant");
  });
}

test("a request that is not to be stored and has no conversation", async () => {
  const { text } = await generateText({ model, prompt: "hello", providerOptions: { openai: { store: false } }, maxRetries: 0 });
  assert.match(text, /hello/);
});

test("a tool's call in requests that are not stored and have no conversation", async () => {
  const providerOptions = { openai: { store: false } };
  assert.match((await twoTurns({ model, providerOptions, maxRetries: 0 })).text, /message 2 of this conversation/);
});
