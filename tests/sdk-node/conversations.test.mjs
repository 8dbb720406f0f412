// Conversations as the official OpenAI SDK has them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { session, startGateway, user } from "./gateway.mjs";

let gateway;
let client;
before(async () => {
  gateway = await startGateway();
  client = gateway.client();
});
after(() => gateway.close());

const respond = (input, conversation) => client.responses.create({ model: "offline", input, conversation });
const texts = (items) => items.map((item) => item.content[0].text);

test("a conversation is made, read, changed and deleted", async () => {
  const made = await client.conversations.create({ metadata: { topic: "Oslo" } });
  assert.match(made.id, /^conv_[0-9a-f]{32}$/);
  assert.deepEqual([made.object, made.metadata], ["conversation", { topic: "Oslo" }]);
  assert.ok(Number.isInteger(made.created_at));
  assert.deepEqual(await client.conversations.retrieve(made.id), made);
  const changed = await client.conversations.update(made.id, { metadata: { topic: "Rome" } });
  assert.deepEqual(changed, { ...made, metadata: { topic: "Rome" } });
  assert.deepEqual(await client.conversations.retrieve(made.id), changed);
  const deleted = await client.conversations.delete(made.id);
  assert.deepEqual(deleted, { id: made.id, object: "conversation.deleted", deleted: true });
  await assert.rejects(client.conversations.retrieve(made.id), OpenAI.NotFoundError);
  await assert.rejects(client.conversations.delete(made.id), OpenAI.NotFoundError);
  await assert.rejects(respond("hi", made.id), OpenAI.NotFoundError);
});

test("a conversation without a word can be made", async () => {
  const made = await client.conversations.create();
  assert.deepEqual(made.metadata, {});
  assert.deepEqual(await Array.fromAsync(client.conversations.items.list(made.id)), []);
  assert.match((await respond("hello", made.id)).output_text, /message 1 of this conversation/);
});

test("what it begins with is its history", async () => {
  const items = [user("my name is Ada"), { role: "assistant", content: "Hello, Ada." }];
  const { id } = await client.conversations.create({ items });
  const answer = await respond("and now?", id);
  assert.match(answer.output_text, /message 2 of this conversation/);
  assert.equal(answer.conversation.id, id);
  assert.equal(answer.session.conversation_id, id);
  const said = await Array.fromAsync(client.conversations.items.list(id, { order: "asc" }));
  assert.deepEqual(said.map((item) => item.role), ["user", "assistant", "user", "assistant"]);
  assert.deepEqual(texts(said), ["my name is Ada", "Hello, Ada.", "and now?", answer.output_text]);
  assert.deepEqual(said.map((item) => item.content[0].type), ["input_text", "output_text", "input_text", "output_text"]);
  assert.equal(said[3].id, answer.output[0].id);
  assert.deepEqual(await gateway.messages(id).then((rows) => rows.map((row) => row.role)), ["user", "assistant", "user", "assistant"]);
});

test("items are added, paged through, read and deleted", async () => {
  const { id } = await client.conversations.create();
  const words = ["one", "two", "three", "four", "five"];
  const added = await client.conversations.items.create(id, { items: words.map(user) });
  assert.deepEqual([added.object, added.has_more, texts(added.data)], ["list", false, words]);
  assert.deepEqual([added.first_id, added.last_id], [added.data[0].id, added.data[4].id]);
  const listed = async (query) => texts(await Array.fromAsync(client.conversations.items.list(id, query)));
  assert.deepEqual(await listed({ order: "asc", limit: 2 }), words);
  assert.deepEqual(await listed({ limit: 2 }), words.toReversed());
  assert.deepEqual(await listed({ order: "asc", after: added.data[1].id }), ["three", "four", "five"]);
  const page = await client.conversations.items.list(id, { order: "asc", limit: 2 });
  assert.deepEqual([page.data.length, page.has_more, page.last_id], [2, true, added.data[1].id]);
  const third = await client.conversations.items.retrieve(added.data[2].id, { conversation_id: id });
  assert.deepEqual(third, added.data[2]);
  const left = await client.conversations.items.delete(third.id, { conversation_id: id });
  assert.deepEqual([left.object, left.id], ["conversation", id]);
  await assert.rejects(client.conversations.items.retrieve(third.id, { conversation_id: id }), OpenAI.NotFoundError);
  assert.deepEqual(await listed({ order: "asc" }), ["one", "two", "four", "five"]);
  assert.match((await respond("six", id)).output_text, /message 5 of this conversation/);
});

test("an item belongs to its conversation alone", async () => {
  const one = await client.conversations.create({ items: [user("one")] });
  const other = await client.conversations.create();
  const [item] = await Array.fromAsync(client.conversations.items.list(one.id));
  for (const verb of ["retrieve", "delete"]) {
    await assert.rejects(client.conversations.items[verb](item.id, { conversation_id: other.id }), OpenAI.NotFoundError);
  }
  assert.equal((await Array.fromAsync(client.conversations.items.list(one.id))).length, 1);
});

test("function calls and their outputs are items", async () => {
  const { id } = await client.conversations.create();
  const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  const tools = [{ type: "function", name: "weather", strict: false, parameters }];
  const ask = (input) => client.responses.create({ model: "offline", input, tools, conversation: id });
  const [call] = (await ask("please call weather")).output;
  await ask([{ type: "function_call_output", call_id: call.call_id, output: "21 degrees" }]);
  const said = await Array.fromAsync(client.conversations.items.list(id, { order: "asc" }));
  assert.deepEqual(said.map((item) => item.type), ["message", "function_call", "function_call_output", "message"]);
  assert.deepEqual([said[1].call_id, said[2].call_id], [call.call_id, call.call_id]);
});

test("every door leads to the same conversation", async () => {
  const { id } = await client.conversations.create();
  const chat = { model: "offline", messages: [user("by chat")] };
  await client.chat.completions.create(chat, session(id));
  await client.chat.completions.create(chat, { headers: { "X-Hermes-Conversation-Id": id } });
  await respond("by conversation", { id });
  const said = await Array.fromAsync(client.conversations.items.list(id, { order: "asc" }));
  assert.equal(said.length, 6);
  const slug = await respond("hello", "said-before");
  assert.equal((await client.conversations.retrieve(slug.conversation.id)).id, slug.conversation.id);
});

test("conversations can be listed, which is Herma's own", async () => {
  const { id } = await client.conversations.create({ metadata: { listed: "yes" } });
  const list = await client.get("/conversations");
  assert.equal(list.object, "list");
  assert.ok(list.data.some((conversation) => conversation.id === id && conversation.metadata.listed === "yes"));
});

test("an unknown conversation is not found", async () => {
  const unknown = `conv_${"0".repeat(32)}`;
  const nowhere = { status: 404, code: "not_found" };
  await assert.rejects(client.conversations.retrieve(unknown), nowhere);
  await assert.rejects(client.conversations.update(unknown, { metadata: {} }), nowhere);
  await assert.rejects(client.conversations.delete(unknown), nowhere);
  await assert.rejects(client.conversations.items.list(unknown), nowhere);
  await assert.rejects(client.conversations.items.create(unknown, { items: [user("hi")] }), nowhere);
});
