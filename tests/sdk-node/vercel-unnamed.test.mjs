// The Vercel AI SDK without a name for its conversations: its history finds them.

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { KEY, startGateway } from "./gateway.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `21 degrees in ${city}`,
});

const WAYS = {
  chat: ({ baseURL }) => createOpenAI({ baseURL, apiKey: KEY }).chat("offline"),
  // Earlier answers are sent as {"type":"item_reference","id":"msg_…"}.
  responses: ({ baseURL }) => createOpenAI({ baseURL, apiKey: KEY }).responses("offline"),
  compatible: ({ baseURL }) => createOpenAICompatible({ name: "herma", baseURL, apiKey: KEY })("offline"),
};

let gateway;
beforeEach(async () => {
  gateway = await startGateway();
});
afterEach(() => gateway.close());

/** Says each prompt after what was said before, and returns the history. */
async function talk(model, prompts, { call = generateText, history = [] } = {}) {
  const messages = [...history];
  for (const content of prompts) {
    messages.push({ role: "user", content });
    const result = await call({ model, messages, tools: { weather }, stopWhen: isStepCount(3), maxRetries: 0 });
    messages.push(...(await result.responseMessages));
  }
  return messages;
}

/** The roles of what was said, and the user's words, for each conversation. */
async function threads() {
  const rows = await gateway.conversations();
  return Promise.all(rows.map(async (row) => {
    const messages = await gateway.messages(row.id);
    const asked = messages.filter(({ role }) => role === "user").map(({ content }) => content);
    return { roles: messages.map(({ role }) => role), asked };
  }));
}

for (const [way, modelOf] of Object.entries(WAYS)) {
  describe(`by ${way}`, () => {
    for (const call of [generateText, streamText]) {
      test(`turns and a tool's round are one conversation, ${call.name}`, async () => {
        const asked = ["my name is Ada", 'please call weather with {"city": "Oslo"}', "and now?"];
        await talk(modelOf(gateway), asked, { call });
        const roles = ["user", "assistant", "user", "assistant", "tool", "assistant", "user", "assistant"];
        assert.deepEqual(await threads(), [{ roles, asked }]);
      });
    }

    test("an edited message is a branch", async () => {
      const model = modelOf(gateway);
      const history = await talk(model, ["my name is Ada", "and now?"]);
      await talk(model, ["and then?", "really?"], { history: history.slice(0, 2) });
      assert.deepEqual((await threads()).map(({ asked }) => asked),
        [["my name is Ada", "and now?"], ["my name is Ada", "and then?", "really?"]]);
    });
  });
}
