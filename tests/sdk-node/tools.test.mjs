// Tools that Herma runs, as users of the official OpenAI SDK see them.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import OpenAI from "openai";

import { startGateway } from "./gateway.mjs";

const SERVER = fileURLToPath(new URL("../../crates/testkit/src/mcp_server.py", import.meta.url));
const NOTES = { type: "mcp", server_label: "notes" };

let directory;
let gateway;
let client;
before(async () => {
  directory = await mkdtemp(join(tmpdir(), "herma-tools-"));
  const config = join(directory, "herma.toml");
  const server = (label, approval) =>
    `[tools.mcp.${label}]\ncommand = "python3"\nargs = [${JSON.stringify(SERVER)}]\napproval = "${approval}"\n`;
  await writeFile(config, server("calc", "auto") + server("notes", "ask"));
  gateway = await startGateway("--config", config);
  client = gateway.client();
});
after(async () => {
  await gateway.close();
  await rm(directory, { recursive: true });
});

const respond = (input, more = {}) => client.responses.create({ model: "offline", input, ...more });

test("a call is an item, and the accumulated stream has the items that are stored", async () => {
  const stream = client.responses.stream({
    model: "offline",
    input: 'please call calc__add {"a": 1, "b": 2} and calc__broken {}',
  });
  const kinds = [];
  for await (const event of stream) kinds.push(event.type);
  const final = await stream.finalResponse();
  assert.deepEqual(final.output.map((item) => [item.type, item.status]), [
    ["mcp_call", "completed"],
    ["mcp_call", "failed"],
    ["message", "completed"],
  ]);
  for (const kind of ["in_progress", "completed", "failed"]) assert.ok(kinds.includes(`response.mcp_call.${kind}`), kind);
  const stored = await client.responses.retrieve(final.id);
  assert.deepEqual(stored.output.map((item) => item.id), final.output.map((item) => item.id));
  assert.equal(stored.output[0].output, "3");
});

test("a question ends the response, and the next request answers it", async () => {
  const stream = client.responses.stream({ model: "offline", input: "please call notes__read_note", tools: [NOTES] });
  const asked = await stream.finalResponse();
  const question = asked.output.at(-1);
  assert.deepEqual([question.type, question.server_label, question.name], ["mcp_approval_request", "notes", "read_note"]);
  const answer = { type: "mcp_approval_response", approval_request_id: question.id, approve: true };
  const response = await respond([answer], { previous_response_id: asked.id, tools: [NOTES] });
  assert.deepEqual([response.output[0].type, response.output[0].output], ["mcp_call", "the note"]);
});

test("to a chat client a turn is one message", async () => {
  const messages = [{ role: "user", content: 'please call calc__add {"a": 2, "b": 2}' }];
  const stream = client.chat.completions.stream({ model: "offline", messages });
  const final = await stream.finalChatCompletion();
  assert.match(final.choices[0].message.content, /4/);
  assert.equal(final.choices[0].finish_reason, "stop");
});

test("an answer to an unknown question is refused by name", async () => {
  const answer = { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true };
  await assert.rejects(respond([answer]), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, "input[0].approval_request_id");
    return true;
  });
});
