// Ollama's client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Ollama } from "ollama";
import { eventually, metric, MODEL_NAME, startServer } from "./harness.mjs";
import { FAILING, FUNCTIONS, HANGING, assertSaid, cases, script, startScripted } from "./scripted.mjs";

const model = "scripted";
const tools = FUNCTIONS.map((one) => ({ type: "function", function: one }));
let server, client;

before(async () => {
  server = await startScripted();
  client = new Ollama({ host: server.url });
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

const user = (content) => [{ role: "user", content }];
const callsOf = (message) => (message.tool_calls ?? []).map((one) => [one.function.name, one.function.arguments]);

for (const one of cases()) {
  test(`chat: ${one.name}`, async () => {
    const { message, ...rest } = await client.chat({ model, messages: user(one.message), tools });
    const said = { reasoning: message.thinking ?? "", content: message.content, calls: callsOf(message) };
    assertSaid({ ...said, isCut: rest.done_reason === "length" }, one);
    assert.equal(rest.done, true);
    for (const name of ["total_duration", "load_duration", "prompt_eval_count", "eval_count", "eval_duration"]) {
      assert.ok(Number.isInteger(rest[name]), name);
    }
  });
  test(`chat, streamed: ${one.name}`, async () => {
    const said = { reasoning: "", content: "", calls: [], isCut: false };
    let nDone = 0;
    for await (const part of await client.chat({ model, messages: user(one.message), tools, stream: true })) {
      said.reasoning += part.message.thinking ?? "";
      said.content += part.message.content;
      said.calls.push(...callsOf(part.message));
      if (part.done) said.isCut = part.done_reason === "length";
      nDone += part.done ? 1 : 0;
      assert.ok(!Number.isNaN(Date.parse(part.created_at)));
    }
    assertSaid(said, one);
    assert.equal(nDone, 1);
  });
}

test("generate says what chat says", async () => {
  const { response, thinking } = await client.generate({ model, prompt: script(["<think>a</think>", "b"]) });
  assert.deepEqual([thinking, response], ["a", "b"]);
  let text = "";
  for await (const part of await client.generate({ model, prompt: script(["Once", " upon"]), stream: true })) {
    text += part.response;
  }
  assert.equal(text, "Once upon");
});

test("an error in mid-stream reaches the client", async () => {
  let heard = "";
  await assert.rejects(async () => {
    for await (const part of await client.chat({ model, messages: user(FAILING), stream: true })) {
      heard += part.message.content;
    }
  }, /has failed/);
  assert.equal(heard, "Once upon");
  await assert.rejects(client.chat({ model, messages: user(FAILING) }), /has failed/);
});

test("leaving a stream cancels the request", async () => {
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total");
  const stream = await client.chat({ model, messages: user(HANGING), stream: true });
  await assert.rejects(async () => {
    for await (const part of stream) if (part.message.content === " upon") stream.abort();
  });
  const now = () => metric(server.url, "rocmforge_requests_cancelled_total");
  await eventually(async () => (await now()) === cancelled + 1, "it was cancelled");
});

test("a conversation with calls and results is taken", async () => {
  const { message } = await client.chat({
    model,
    messages: [
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: "",
        thinking: "Ask.",
        tool_calls: [{ function: { name: "weather", arguments: { city: "Bern" } } }],
      },
      { role: "tool", content: "Rain", tool_name: "weather" },
      { role: "user", content: script([], { prompt: true }) },
    ],
    think: false,
    keep_alive: "5m",
    options: { num_ctx: 4096, num_predict: -1, temperature: 0.5, repeat_last_n: 64, seed: 1, stop: ["never"] },
  });
  assert.match(message.content, /Bern[^]*Rain/);
});

test("the bundled model: list, show, ps, version, embed, load and unload", async () => {
  const real = await startServer();
  const ollama = new Ollama({ host: real.url });
  const { models } = await ollama.list();
  assert.deepEqual(models.map((one) => one.name), [`${MODEL_NAME}:latest`]);
  assert.equal(models[0].details.format, "gguf");
  const shown = await ollama.show({ model: MODEL_NAME });
  assert.ok(shown.capabilities.includes("completion"));
  assert.equal(shown.model_info["general.architecture"], "llama");
  assert.ok(shown.model_info["llama.context_length"] > 0);
  const { message } = await ollama.chat({ model: `${MODEL_NAME}:latest`, messages: user("Once"), options: { num_predict: 4 } });
  assert.ok(message.content.length > 0);
  assert.equal((await ollama.ps()).models.length, 1);
  assert.match((await ollama.version()).version, /^\d+\.\d+/);
  const { embeddings } = await ollama.embed({ model: MODEL_NAME, input: ["a dog", "a cat"] });
  assert.equal(embeddings.length, 2);
  assert.equal((await ollama.embeddings({ model: MODEL_NAME, prompt: "a dog" })).embedding.length, embeddings[0].length);
  const unloaded = await ollama.generate({ model: MODEL_NAME, prompt: "", keep_alive: 0 });
  assert.equal(unloaded.done_reason, "unload");
  await eventually(async () => (await ollama.ps()).models.length === 0, "it is unloaded");
  assert.equal((await ollama.generate({ model: MODEL_NAME, prompt: "" })).done_reason, "load");
  await assert.rejects(ollama.show({ model: "none" }), { status_code: 404 });
  await assert.rejects(ollama.pull({ model: "llama3" }), /downloads/);
  const format = { type: "object", properties: { a: { type: "integer" } }, required: ["a"], additionalProperties: false };
  const schema = await ollama.chat({ model: MODEL_NAME, messages: user("x"), format, options: { num_predict: 60 } });
  assert.ok(Number.isInteger(JSON.parse(schema.message.content).a));
  assert.equal((await real.stop()).code, 0);
});
