// A model server that answers when a test says so, and a line to the gateway that a test can cut.

import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";

/** A model server. `next` waits for a request: its `body`, and `answer`, which lets it have one. */
export async function startModel() {
  const arrived = [];
  const waiting = [];
  const server = createHttpServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    const asked = { body, answer: (content) => (body.stream ? stream(response, content) : whole(response, content)) };
    const waiter = waiting.shift();
    waiter ? waiter(asked) : arrived.push(asked);
  });
  const port = await listen(server);
  return {
    options: ["--upstream", `http://127.0.0.1:${port}/v1`, "--model", "m"],
    next: async () => arrived.shift() ?? new Promise((resolve) => waiting.push(resolve)),
    /** Requests that nobody has waited for. */
    unexpected: () => arrived.length,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const ABOUT = { id: "x", created: 1, model: "m" };
const USAGE = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };

function whole(response, content) {
  const choice = { index: 0, message: { role: "assistant", content }, finish_reason: "stop" };
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ ...ABOUT, object: "chat.completion", choices: [choice], usage: USAGE }));
}

/** The same answer word by word. */
function stream(response, content) {
  response.setHeader("content-type", "text/event-stream");
  const say = (more) => response.write(`data: ${JSON.stringify({ ...ABOUT, object: "chat.completion.chunk", ...more })}\n\n`);
  for (const word of content.split(/(?<= )/)) say({ choices: [{ index: 0, delta: { content: word }, finish_reason: null }] });
  say({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  say({ choices: [], usage: USAGE });
  response.end("data: [DONE]\n\n");
}

/** A line to `origin`. `cut` breaks every connection there is; `connected` waits for the next one. */
export async function startLine(origin) {
  const { hostname, port } = new URL(origin);
  const ends = new Set();
  const server = createServer((client) => {
    const gateway = connect(Number(port), hostname);
    for (const [from, to] of [[client, gateway], [gateway, client]]) {
      ends.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => ends.delete(from) && to.destroy());
    }
  });
  return {
    baseURL: `http://127.0.0.1:${await listen(server)}/v1`,
    cut: () => ends.forEach((end) => end.destroy()),
    connected: () => once(server, "connection"),
    close: () => {
      ends.forEach((end) => end.destroy());
      server.close();
    },
  };
}

async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}
