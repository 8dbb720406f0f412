// The Vercel AI SDK against the running gateway, by each of its three ways to speak to an OpenAI server.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";

import { KEY, startGateway } from "./gateway.mjs";
import { startLine, startModel } from "./upstream.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `21 degrees in ${city}`,
});
const count = z.object({ number: z.number().int() });

/** The models of a gateway, by the way they are spoken to. */
function modelsOf({ baseURL }, name) {
  const openai = createOpenAI({ baseURL, apiKey: KEY });
  const compatible = createOpenAICompatible({ name: "herma", baseURL, apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true });
  return { chat: openai.chat(name), responses: openai.responses(name), compatible: compatible(name) };
}

let gateway;
let models;
before(async () => {
  gateway = await startGateway();
  models = modelsOf(gateway, "offline");
});
after(() => gateway.close());

const roles = async (name) => (await gateway.messages(name)).map((row) => row.role);

for (const way of ["chat", "responses", "compatible"]) {
  describe(`by ${way}`, () => {
    /** A request in a session of its own. */
    const within = (name) => ({ model: models[way], maxRetries: 0, headers: { "X-Hermes-Session-Id": `${way}-${name}` } });

    test("text, whole and streamed, in one conversation", async () => {
      const first = await generateText({ ...within("text"), prompt: "my name is Ada" });
      assert.match(first.text, /my name is Ada/);
      assert.deepEqual([first.finishReason, first.warnings], ["stop", []]);
      const { text, usage, finishReason } = streamText({ ...within("text"), prompt: "and now?" });
      assert.match(await text, /message 2 of this conversation/);
      assert.equal(await finishReason, "stop");
      assert.ok((await usage).inputTokens > first.usage.inputTokens);
      assert.equal(first.response.headers["x-hermes-session-id"], `${way}-text`);
      assert.deepEqual(await roles(`${way}-text`), ["user", "assistant", "user", "assistant"]);
    });

    for (const call of [generateText, streamText]) {
      test(`${call.name} goes from a tool's call to the answer`, async () => {
        const name = `tool-${call.name}`;
        const prompt = 'please call weather with {"city": "Oslo"}';
        const result = await call({ ...within(name), prompt, tools: { weather }, stopWhen: isStepCount(3) });
        assert.equal(await result.text, "The tool answered: 21 degrees in Oslo");
        assert.equal((await result.steps).length, 2);
        assert.deepEqual(await roles(`${way}-${name}`), ["user", "assistant", "tool", "assistant"]);
      });
    }

    test("objects, whole and streamed", async () => {
      const old = await generateObject({ ...within("old"), prompt: "count", schema: count });
      assert.ok(Number.isInteger(old.object.number));
      const output = Output.object({ schema: count });
      const whole = await generateText({ ...within("object"), prompt: "count", output });
      assert.ok(Number.isInteger(whole.output.number));
      const streamed = streamText({ ...within("object"), prompt: "count", output });
      assert.deepEqual((await Array.fromAsync(streamed.partialOutputStream)).at(-1), whole.output);
    });

    test("errors keep their status", async () => {
      const nowhere = { ...within("nowhere"), headers: { "X-Hermes-Session-Id": `conv_${"0".repeat(32)}` } };
      await assert.rejects(generateText({ ...nowhere, prompt: "hi" }), { name: "AI_APICallError", statusCode: 404, isRetryable: false });
    });
  });
}

for (const way of ["chat", "compatible"]) {
  test(`the whole history every time is the same conversation, by ${way}`, async () => {
    const headers = { "X-Hermes-Session-Id": `${way}-history` };
    const messages = [{ role: "user", content: "please call weather" }];
    const tools = { weather };
    const first = await generateText({ model: models[way], messages, tools, stopWhen: isStepCount(3), headers });
    messages.push(...first.responseMessages, { role: "user", content: "and now?" });
    const second = await generateText({ model: models[way], messages, tools, headers });
    assert.match(second.text, /message 2 of this conversation/);
    const said = ["user", "assistant", "tool", "assistant", "user", "assistant"];
    assert.deepEqual(await roles(`${way}-history`), said);
  });
}

test("responses continue by conversation and by the response before", async () => {
  const ask = (prompt, openai) => generateText({ model: models.responses, prompt, providerOptions: { openai }, maxRetries: 0 });
  await ask("one", { conversation: "vercel-slug" });
  assert.match((await ask("two", { conversation: "vercel-slug" })).text, /message 2 of this conversation/);
  const { providerMetadata } = await ask("one", {});
  const next = await ask("two", { previousResponseId: providerMetadata.openai.responseId });
  assert.match(next.text, /message 2 of this conversation/);
});

test("a history that is not stored is sent whole", async () => {
  const headers = { "X-Hermes-Session-Id": "vercel-unstored" };
  const request = { model: models.responses, headers, providerOptions: { openai: { store: false } } };
  const messages = [{ role: "user", content: "one" }];
  const first = await generateText({ ...request, messages });
  messages.push(...first.responseMessages, { role: "user", content: "two" });
  assert.match((await generateText({ ...request, messages })).text, /message 2 of this conversation/);
  assert.equal((await gateway.messages("vercel-unstored")).length, 4);
});

test("with an idempotency key its own retry joins the turn", async (t) => {
  const model = await startModel();
  t.after(model.close);
  const held = await startGateway(...model.options);
  t.after(held.close);
  const line = await startLine(held.origin);
  t.after(line.close);
  const headers = { "X-Hermes-Session-Id": "vercel-cut", "Idempotency-Key": "once" };
  const answer = generateText({ model: modelsOf(line, "m").chat, prompt: "hi", headers });
  const asked = await model.next();
  const again = line.connected();
  line.cut();
  await again;
  asked.answer("fine");
  assert.equal((await answer).text, "fine");
  assert.equal(model.unexpected(), 0);
  assert.equal((await held.messages("vercel-cut")).length, 2);
});

test("streams say nothing it does not know while a conversation is compacted", async (t) => {
  const small = await startGateway("--context-window", "2000");
  t.after(small.close);
  for (const [way, model] of Object.entries(modelsOf(small, "offline"))) {
    const headers = { "X-Hermes-Session-Id": `small-${way}` };
    for (let number = 0; number < 12; number += 1) {
      const prompt = `message ${number}: ${"we went on and saw one more thing. ".repeat(12)}`;
      assert.match(await streamText({ model, prompt, headers }).text, /we went on/);
    }
    const summaries = (await small.messages(`small-${way}`)).filter((row) => row.kind === "summary");
    assert.ok(summaries.length > 0);
  }
});
