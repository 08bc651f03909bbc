// Anthropic's client: messages, streams, tools, counts, models.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { eventually, metric } from "./harness.mjs";
import { FAILING, FUNCTIONS, HANGING, assertSaid, cases, script, startScripted } from "./scripted.mjs";

const model = "scripted";
const max_tokens = 400;
const tools = FUNCTIONS.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
let server, client;

before(async () => {
  server = await startScripted();
  client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

const user = (content) => [{ role: "user", content }];
const ofMessage = (message) => ({
  reasoning: message.content.map((block) => block.thinking ?? "").join(""),
  content: message.content.map((block) => block.text ?? "").join(""),
  calls: message.content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]),
  isCut: message.stop_reason === "max_tokens",
});

for (const one of cases()) {
  test(`messages: ${one.name}`, async () => {
    const message = await client.messages.create({ model, max_tokens, messages: user(one.message), tools });
    assertSaid(ofMessage(message), one);
    assert.equal(message.role, "assistant");
    const reason = one.calls.length > 0 ? "tool_use" : one.finish === "length" ? "max_tokens" : "end_turn";
    assert.equal(message.stop_reason, reason);
    assert.equal(message.usage.cache_read_input_tokens, 1);
    assert.ok(message.usage.input_tokens > 0);
  });
  test(`messages, streamed: ${one.name}`, async () => {
    const stream = client.messages.stream({ model, max_tokens, messages: user(one.message), tools });
    const heard = { content: "", reasoning: "", blocks: [] };
    stream.on("text", (delta) => (heard.content += delta));
    stream.on("thinking", (delta) => (heard.reasoning += delta));
    stream.on("contentBlock", (block) => heard.blocks.push(structuredClone(block)));
    const message = await stream.finalMessage();
    assertSaid(ofMessage(message), one);
    assert.equal(heard.content, one.content);
    assert.equal(heard.reasoning, one.reasoning);
    assert.deepEqual(heard.blocks, JSON.parse(JSON.stringify(message.content))); // each told once, when it was complete
    for (const block of message.content) if (block.type === "thinking") assert.ok(block.signature);
  });
}

test("an error in mid-stream reaches the client", async () => {
  const stream = client.messages.stream({ model, max_tokens, messages: user(FAILING) });
  let heard = "";
  stream.on("text", (delta) => (heard += delta));
  await assert.rejects(stream.finalMessage(), /has failed/);
  assert.equal(heard, "Once upon");
  const error = await client.messages.create({ model, max_tokens, messages: user(FAILING) }).catch((reason) => reason);
  assert.ok(error instanceof Anthropic.APIError);
  assert.equal(error.status, 503);
  assert.equal(error.error.type, "error");
  assert.match(error.error.error.message, /has failed/);
  assert.match(error.requestID ?? "", /^req/);
});

test("leaving a stream cancels the request", async () => {
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total");
  const stream = client.messages.stream({ model, max_tokens, messages: user(HANGING) });
  stream.on("text", (delta) => delta === " upon" && stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  const now = () => metric(server.url, "rocmforge_requests_cancelled_total");
  await eventually(async () => (await now()) === cancelled + 1, "it was cancelled");
});

test("a silent stream has pings, which clients skip", async () => {
  const answer = await fetch(`${server.url}/v1/messages`, {
    method: "POST",
    body: JSON.stringify({ model, max_tokens, stream: true, messages: user(script([], { hang: true })) }),
  });
  let text = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  while ((text.match(/event: ping/g) ?? []).length < 3) text += (await reader.read()).value;
  await reader.cancel();
});

test("the tool runner calls tools and goes on", async () => {
  const asked = [];
  const runner = client.beta.messages.toolRunner({
    model,
    max_tokens,
    messages: user(script(['<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>'])),
    tools: [
      {
        ...tools[0],
        run: (input) => {
          asked.push(input);
          return `Sunny.${script(["It is sunny."])}`;
        },
        parse: (input) => input,
      },
    ],
  });
  const message = await runner;
  assert.deepEqual(asked, [{ city: "Bern" }]);
  assert.equal(message.content.at(-1).text, "It is sunny.");
});

test("count_tokens counts what a message would", async () => {
  const ask = { model, system: [{ type: "text", text: "Be brief." }], messages: user(`Hello.${script(["x"])}`), tools };
  const { input_tokens } = await client.messages.countTokens(ask);
  const { usage } = await client.messages.create({ ...ask, max_tokens });
  assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
});

test("models are listed in this API's form", async () => {
  const ids = [];
  for await (const one of client.models.list({ limit: 1000 })) {
    assert.equal(one.type, "model");
    assert.ok(one.display_name && !Number.isNaN(Date.parse(one.created_at)));
    ids.push(one.id);
  }
  assert.deepEqual(ids, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
});

test("a conversation with thinking, calls and results is taken, fields of betas too", async () => {
  const message = await client.beta.messages.create({
    model,
    max_tokens,
    betas: ["interleaved-thinking-2025-05-14"],
    system: [{ type: "text", text: "You are terse.", cache_control: { type: "ephemeral" } }],
    thinking: { type: "enabled", budget_tokens: 1024 },
    context_management: { edits: [{ type: "clear_tool_uses_20250919" }] },
    metadata: { user_id: "u" },
    tools: [...tools, { type: "web_search_20250305", name: "web_search" }],
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    messages: [
      { role: "user", content: [{ type: "text", text: "Weather?", cache_control: { type: "ephemeral" } }] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Ask.", signature: "s" },
          { type: "redacted_thinking", data: "z" },
          { type: "text", text: "Let me see." },
          { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "Rain" }], is_error: false },
          { type: "text", text: `So?${script(["Rain."])}` },
        ],
      },
    ],
  });
  assert.equal(message.content.at(-1).text, "Rain.");
});

test("errors have this API's form", async () => {
  const refused = async (ask, status) => {
    const error = await client.messages.create(ask).catch((reason) => reason);
    assert.equal(error.status, status, String(error));
    assert.equal(error.error.type, "error");
    return error.error.error;
  };
  assert.equal((await refused({ model, messages: user("x") }, 400)).type, "invalid_request_error");
  assert.equal((await refused({ model, max_tokens, messages: [] }, 400)).type, "invalid_request_error");
});
