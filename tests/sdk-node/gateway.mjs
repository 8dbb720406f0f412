// A running gateway with a data directory of its own, and what the tests ask it beside the SDKs.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import OpenAI from "openai";

export const KEY = "sdk-test-key";

/** Starts `herma serve` on a free port; `close` ends it. */
export async function startGateway(...options) {
  const data = await mkdtemp(join(tmpdir(), "herma-sdk-"));
  const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("HERMA_")));
  const herma = spawn(process.env.HERMA_BIN, ["serve", "--listen", "127.0.0.1:0", "--data", data, ...options], {
    env: { ...environment, HERMA_API_KEY: KEY },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(herma, "exit");
  const origin = await listening(herma);
  return {
    origin,
    baseURL: `${origin}/v1`,
    /** The official client, without retries of its own unless a test asks for them. */
    client: (settings = {}) => new OpenAI({ baseURL: `${origin}/v1`, apiKey: KEY, maxRetries: 0, ...settings }),
    /** All that was said under a name of a conversation. */
    messages: (name) => list(`${origin}/api/sessions/${encodeURIComponent(name)}/messages`),
    /** The conversations that there are, oldest first. */
    conversations: () => list(`${origin}/api/sessions?order=created_at`),
    close: async () => {
      herma.kill("SIGTERM");
      await ended;
      await rm(data, { recursive: true });
    },
  };
}

async function list(address) {
  const answer = await fetch(address, { headers: { authorization: `Bearer ${KEY}` } });
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return (await answer.json()).data;
}

/** The address that a starting process says it listens on. What it says later is read and dropped. */
function listening(herma) {
  const lines = createInterface({ input: herma.stderr });
  return new Promise((resolve, reject) => {
    lines.on("line", (line) => line.startsWith("herma listening on ") && resolve(line.split(" ").at(-1)));
    herma.on("error", reject);
    herma.on("exit", (code) => reject(new Error(`herma ended with ${code}`)));
  });
}

/** The header that names a conversation, as options of a request. */
export const session = (name) => ({ headers: { "X-Hermes-Session-Id": name } });

/** A user's message. */
export const user = (content) => ({ role: "user", content });
