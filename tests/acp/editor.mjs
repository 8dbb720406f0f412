// An editor made of the official TypeScript SDK, and what its tests share.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";

import * as stable from "@agentclientprotocol/sdk";

const { ACP_PYTHON: PYTHON, ACP_TESTS: HERE, ACP_SDK: SDK, HERMA_BIN } = process.env;
// Ids of conversations, sessions, messages and so on. No model server may see one.
const OWN_ID = /\b(conv|sess|msg|turn|cmp|resp|run)_[0-9a-f]{32}/;

export const LONG_TEXT = "all work and no play makes a long conversation ".repeat(12);
/** So small that a few long prompts fill it. */
export const SMALL_WINDOW = 1200;
/** The editor shows compactions. */
export const SHOWS_COMPACTIONS = { session: { compaction: {} } };

/**
 * A store, a model and a project for one test. When the test ends, all messages are checked against the protocol, and
 * what the model has seen.
 */
export async function startStore(t, config) {
  const folder = await mkdtemp(join(tmpdir(), "herma-acp-"));
  const [data, records, project] = ["data", "records", "project"].map((name) => join(folder, name));
  for (const path of [data, records, project]) await mkdir(path);
  if (config) await writeFile(join(data, "herma.toml"), config);
  const model = await startModel();
  const open = [];
  t.after(async () => {
    for (const editor of open) await editor.close();
    const seen = JSON.stringify(await model.seen());
    await model.close();
    await run(PYTHON, [join(HERE, "protocol.py"), join(SDK, "schema", "v1"), records]);
    for (const secret of ["_meta", /hermes/i, project, OWN_ID]) assert.ok(!seen.match(secret), `${secret}: ${seen}`);
    await rm(folder, { recursive: true });
  });
  return {
    model,
    project,
    /** Changes the configuration, for agents that start from now on. */
    configure: (toml) => writeFile(join(data, "herma.toml"), toml),
    /** Starts `herma serve` on the same store. */
    serve: () => serve(data, model),
    /** The output of another command on the same store. */
    herma: (...args) => run(HERMA_BIN, [...args, "--data", data]),
    /** Starts an agent on the store, and connects an editor to it. */
    connect: async (settings = {}) => {
      const editor = await connect({ data, records, project, model, ...settings });
      open.push(editor);
      return editor;
    },
  };
}

async function connect({ data, records, project, model, window, answer, environment, ...settings }) {
  const { sdk = stable, capabilities = SHOWS_COMPACTIONS } = settings;
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("HERMA_"));
  const variables = { HERMA_DATA: data, HERMA_UPSTREAM: model.baseURL, HERMA_MODEL: "scripted" };
  if (window) variables.HERMA_CONTEXT_WINDOW = String(window);
  const agent = spawn(PYTHON, [join(HERE, "record.py"), records, HERMA_BIN, "acp"], {
    env: { ...Object.fromEntries(kept), ...variables, ...environment },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(agent, "exit");
  const updates = [];
  const told = new EventEmitter();
  const app = sdk.client({ name: "herma-tests" });
  app.onNotification("session/update", ({ params }) => {
    updates.push(params);
    told.emit(`${params.sessionId} ${params.update.sessionUpdate}`);
  });
  if (answer) app.onRequest("session/request_permission", ({ params, signal }) => answer(params, signal));
  const connection = app.connect(sdk.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));
  const request = (method, params, options) => connection.agent.request(method, params, options);
  const of = (session) => updates.filter(({ sessionId }) => sessionId === session).map(({ update }) => update);
  const setup = (more) => ({ cwd: project, mcpServers: [], ...more });
  const initialized = await request("initialize", { protocolVersion: 1, clientCapabilities: capabilities });
  return {
    initialized,
    request,
    notify: (method, params) => connection.agent.notify(method, params),
    /** The updates of a session so far. */
    of,
    /** Waits for the next update of a session of this kind. */
    until: (session, kind) => once(told, `${session} ${kind}`),
    create: (more) => request("session/new", setup(more)),
    load: (sessionId) => request("session/load", setup({ sessionId })),
    resume: (sessionId) => request("session/resume", setup({ sessionId })),
    fork: (sessionId) => request("session/fork", setup({ sessionId })),
    list: async (params = {}) => (await request("session/list", params)).sessions,
    /** The answer to a prompt. */
    ask: (sessionId, said, options) => request("session/prompt", { sessionId, prompt: prompt(said) }, options),
    /** The stop reason of a prompt, and its updates. */
    async prompt(sessionId, said) {
      const known = of(sessionId).length;
      const { stopReason } = await this.ask(sessionId, said);
      return { stopReason, updates: of(sessionId).slice(known) };
    },
    /** Prompts until a compaction is told. The updates of that prompt. */
    async untilCompacted(session, words = "") {
      for (let number = 1; number < 20; number++) {
        const { stopReason, updates } = await this.prompt(session, `turn ${number}: ${words}${LONG_TEXT}`);
        assert.equal(stopReason, "end_turn");
        if (updates.some(({ _meta }) => _meta)) return updates;
      }
      assert.fail("there was no compaction");
    },
    /** Ends the agent as `kill -9` does. */
    async kill() {
      const newest = (await readdir(records)).sort().at(-1);
      const [first] = (await readFile(join(records, newest), "utf8")).split("\n");
      process.kill(JSON.parse(first).pid, "SIGKILL");
      await ended;
    },
    /** Ends the agent's input, and waits for its end. The status. */
    async close() {
      agent.stdin.end();
      return (await ended)[0];
    },
  };
}

const prompt = (said) => (typeof said === "string" ? [{ type: "text", text: said }] : said);

/** `herma serve` on a free port, and how it is asked. */
async function serve(data, model) {
  const args = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--upstream", model.baseURL, "--model", "scripted"];
  const server = spawn(HERMA_BIN, args, {
    env: { PATH: process.env.PATH, HERMA_API_KEY: "test-key" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(server, "exit");
  const lines = createInterface({ input: server.stderr });
  const origin = await new Promise((resolve) => {
    lines.on("line", (line) => line.startsWith("herma listening on ") && resolve(line.split(" ").at(-1)));
  });
  const ask = async (path, more) => {
    const headers = { authorization: "Bearer test-key", "content-type": "application/json" };
    const answer = await fetch(`${origin}${path}`, { headers, ...more });
    assert.ok(answer.ok, `${path}: ${answer.status}`);
    return answer.json();
  };
  return {
    get: (path) => ask(path),
    post: (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) }),
    close: async () => {
      server.kill("SIGTERM");
      await ended;
    },
  };
}

/** The configuration of an MCP server with a tool that adds two numbers, and that asks. */
export function withTools() {
  const command = JSON.stringify(PYTHON);
  const server = JSON.stringify(join(HERE, "..", "sdk", "official_mcp_server.py"));
  return `[tools.mcp.sums]\ncommand = ${command}\nargs = [${server}]\n`;
}

/** The scripted model of the Python tests, as a process. */
async function startModel() {
  const process = spawn(PYTHON, [join(HERE, "scripted_model.py")], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(process, "exit");
  const [baseURL] = await once(createInterface({ input: process.stdout }), "line");
  const { origin } = new URL(baseURL);
  const get = async (path) => (await fetch(`${origin}/${path}`)).json();
  return {
    baseURL,
    /** What it was asked: headers and bodies. */
    seen: () => get("seen"),
    /** The messages of each request that is no request for a summary. */
    shown: () => get("shown"),
    /** Waits until it is asked a prompt with this text. */
    has: (text) => get(`has/${encodeURIComponent(text)}`),
    /** Lets one held request, now or later, have its answer. */
    release: () => fetch(`${origin}/release`, { method: "POST", body: "{}" }),
    close: async () => {
      process.stdin.end();
      await ended;
    },
  };
}

async function run(command, args) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (part) => (said += part));
  const [status] = await once(child, "close");
  assert.equal(status, 0, said);
  return said;
}

/** Where a session comes from, as an answer, a row or an update says. */
export const provenance = ({ _meta }) => _meta.hermes.sessionProvenance;

/** The kinds of updates, in order. */
export const kinds = (updates) => updates.map(({ sessionUpdate }) => sessionUpdate);

/** The text of the chunks of one kind. */
export const words = (updates, kind = "agent_message_chunk") =>
  updates.filter(({ sessionUpdate }) => sessionUpdate === kind).map(({ content }) => content.text).join("");

/** The error that a request ends with. */
export async function refusal(request) {
  try {
    await request;
  } catch (error) {
    return error;
  }
  assert.fail("the request was not refused");
}
