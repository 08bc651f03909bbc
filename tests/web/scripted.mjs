// The scripted server (scripted_server.cpp) and the answers that every client is tried with.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { MODEL, ROOT } from "./harness.mjs";

const BINARY = process.env.SCRIPTED_SERVER ?? path.join(ROOT, "build/release/tests/web/scripted_server");

export async function startScripted() {
  assert.ok(existsSync(BINARY), `no ${BINARY}: build the target scripted_server`);
  const child = spawn(BINARY, [MODEL], { stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill("SIGKILL"));
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.once("exit", () => reject(new Error("the scripted server has ended")));
    child.stdout.on("data", (data) => {
      text += data;
      const line = /^ready: (.*)$/m.exec(text);
      if (line) resolve(line[1]);
    });
  });
  child.unref(); // a test that fails before it stops its server must not wait for it
  child.stdout.unref();
  const stop = () =>
    new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
      child.kill("SIGTERM");
    });
  return { url, stop };
}

// What a message must say so that the model answers with these tokens.
export function script(tokens, more = {}) {
  return `[[script ${Buffer.from(JSON.stringify({ tokens, ...more })).toString("hex")}]]`;
}

// A text in tokens of n characters.
export const cut = (text, n) => Array.from({ length: Math.ceil([...text].length / n) }, (_, i) => [...text].slice(i * n, i * n + n).join(""));

export const call = (name, args) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

const weather = { city: "Zürich", days: 2, parts: ["wind", { "a b": null }] };
// What the model writes, and what the client must make of it: reasoning, content, calls, and whether it was cut.
export const CASES = [
  { name: "text", written: "Hello there, ünder.", content: "Hello there, ünder." },
  { name: "reasoning", written: "<think>Hm.\nSo.</think>Yes.", reasoning: "Hm.\nSo.", content: "Yes." },
  { name: "a call", written: call("weather", weather), calls: [["weather", weather]] },
  { name: "a call without arguments", written: call("now", {}), calls: [["now", {}]] },
  {
    name: "reasoning, text and two calls",
    written: `<think>t</think>Look.${call("weather", weather)}\n${call("now", {})}`,
    reasoning: "t",
    content: "Look.",
    calls: [
      ["weather", weather],
      ["now", {}],
    ],
  },
  { name: "a cut text", written: "Once upon a", content: "Once upon a", finish: "length" },
  { name: "no text", written: "", content: "" },
].map((one) => ({ reasoning: "", content: "", calls: [], finish: "stop", ...one }));

// Every case in tokens of two sizes.
export function* cases() {
  for (const one of CASES) {
    for (const n of [1, 7]) {
      yield { ...one, name: `${one.name}, ${n} characters a token`, message: script(cut(one.written, n), { finish: one.finish }) };
    }
  }
}

export const FAILING = script(["Once", " upon"], { finish: "error" });
export const HANGING = script(["Once", " upon"], { hang: true });

export const FUNCTIONS = [
  {
    name: "weather",
    description: "The weather of a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" }, days: { type: "integer" }, parts: { type: "array" } },
      required: ["city"],
    },
  },
  { name: "now", description: "The time.", parameters: { type: "object", properties: {} } },
];

export function assertSaid(said, one) {
  assert.equal(said.reasoning, one.reasoning, "reasoning");
  assert.equal(said.content, one.content, "content");
  assert.deepEqual(said.calls, one.calls, "calls");
  assert.equal(said.isCut, one.finish === "length", "whether it was cut");
}
