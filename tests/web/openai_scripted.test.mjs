// OpenAI's client with answers that the tests write: chat and responses, whole, streamed, by its helpers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { MODEL_NAME, eventually, metric, startServer } from "./harness.mjs";
import { FAILING, FUNCTIONS, HANGING, assertSaid, cases, script, startScripted } from "./scripted.mjs";

const model = "scripted";
const chatTools = FUNCTIONS.map((one) => ({ type: "function", function: one }));
const tools = FUNCTIONS.map((one) => ({ type: "function", strict: false, ...one }));
let server, client;

before(async () => {
  server = await startScripted();
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

const ofChat = ({ message, finish_reason }) => ({
  reasoning: message.reasoning_content ?? "",
  content: message.content ?? "",
  calls: (message.tool_calls ?? []).map((one) => [one.function.name, JSON.parse(one.function.arguments)]),
  isCut: finish_reason === "length",
});

const textIn = (item) => (item?.content ?? []).map((part) => part.text).join("");
const ofResponse = (response) => ({
  reasoning: textIn(response.output.find((item) => item.type === "reasoning")),
  content: response.output_text,
  calls: response.output
    .filter((item) => item.type === "function_call")
    .map((item) => [item.name, JSON.parse(item.arguments)]),
  isCut: response.status === "incomplete",
});

for (const one of cases()) {
  const messages = [{ role: "user", content: one.message }];
  test(`chat: ${one.name}`, async () => {
    const whole = await client.chat.completions.create({ model, messages, tools: chatTools });
    assertSaid(ofChat(whole.choices[0]), one);
    assert.equal(whole.choices[0].finish_reason, one.calls.length > 0 ? "tool_calls" : one.finish);
    for (const { id, type } of whole.choices[0].message.tool_calls ?? []) assert.ok(id && type === "function");
  });
  test(`chat, streamed: ${one.name}`, async () => {
    const stream = client.chat.completions.stream({
      model,
      messages,
      tools: chatTools,
      stream_options: { include_usage: true },
    });
    let reasoning = "";
    stream.on("chunk", (chunk) => {
      reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
    });
    const { choices, usage } = await stream.finalChatCompletion();
    assertSaid({ ...ofChat(choices[0]), reasoning }, one);
    assert.ok(usage.total_tokens > 0 && usage.prompt_tokens_details.cached_tokens === 1);
    assert.ok(usage.completion_tokens_details.reasoning_tokens > 0 === one.reasoning.length > 0);
  });
  test(`responses: ${one.name}`, async () => {
    const response = await client.responses.create({ model, input: one.message, tools });
    assertSaid(ofResponse(response), one);
    assert.equal(response.status, one.finish === "length" ? "incomplete" : "completed");
    assert.equal(response.usage.input_tokens_details.cached_tokens, 1);
  });
  test(`responses, streamed: ${one.name}`, async () => {
    const stream = client.responses.stream({ model, input: one.message, tools });
    const deltas = { reasoning: "", content: "", calls: new Map() };
    stream.on("response.reasoning_text.delta", (event) => (deltas.reasoning += event.delta));
    stream.on("response.output_text.delta", (event) => (deltas.content += event.delta));
    stream.on("response.function_call_arguments.delta", (event) => {
      deltas.calls.set(event.output_index, (deltas.calls.get(event.output_index) ?? "") + event.delta);
    });
    const response = await stream.finalResponse();
    assertSaid(ofResponse(response), one);
    assert.equal(deltas.reasoning, one.reasoning);
    assert.equal(deltas.content, one.content);
    assert.deepEqual([...deltas.calls.values()].map((text) => JSON.parse(text)), one.calls.map(([, args]) => args));
  });
}

test("an error in mid-stream reaches the client", async () => {
  const messages = [{ role: "user", content: FAILING }];
  const heard = [];
  await assert.rejects(async () => {
    for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
      heard.push(chunk.choices[0].delta.content ?? "");
    }
  }, /has failed/);
  assert.equal(heard.join(""), "Once upon");
  await assert.rejects(client.chat.completions.create({ model, messages }), { status: 503 });

  const events = [];
  for await (const event of await client.responses.create({ model, input: FAILING, stream: true })) events.push(event);
  assert.equal(events.at(-1).type, "response.failed");
  assert.match(events.at(-1).response.error.message, /has failed/);
  assert.equal(textIn(events.at(-1).response.output[0]), "Once upon");
});

test("leaving a stream cancels the request", async () => {
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total");
  const messages = [{ role: "user", content: HANGING }];
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    if (chunk.choices[0].delta.content === " upon") break;
  }
  for await (const event of await client.responses.create({ model, input: HANGING, stream: true })) {
    if (event.delta === " upon") break;
  }
  const now = () => metric(server.url, "rocmforge_requests_cancelled_total");
  await eventually(async () => (await now()) === cancelled + 2, "two were cancelled");
});

test("responses: in the background, then cancelled, then deleted", async () => {
  const begun = await client.responses.create({ model, input: HANGING, background: true });
  assert.ok(["queued", "in_progress"].includes(begun.status), begun.status);
  assert.equal((await client.responses.retrieve(begun.id)).id, begun.id);
  assert.equal((await client.responses.cancel(begun.id)).id, begun.id);
  await eventually(async () => (await client.responses.retrieve(begun.id)).status === "cancelled", "it is cancelled");
  await client.responses.delete(begun.id);
  await assert.rejects(client.responses.retrieve(begun.id), { status: 404 });
});

test("responses: a conversation continues behind its last answer", async () => {
  const first = await client.responses.create({ model, input: `My name is Ann.${script(["<think>x</think>Hi!"])}` });
  const second = await client.responses.create({
    model,
    previous_response_id: first.id,
    input: script([], { prompt: true }),
  });
  assert.match(second.output_text, /My name is Ann\.[^]*Hi!/);
  assert.equal(second.previous_response_id, first.id);
  const items = await client.responses.inputItems.list(second.id);
  assert.equal(items.data.length >= 1, true);
  const counted = await client.responses.inputTokens.count({ model, input: "One two three." });
  assert.ok(counted.input_tokens > 2);
  assert.equal(counted.object, "response.input_tokens");
});

test("responses: the parse helper reads an answer of a schema", async () => {
  const real = await startServer();
  const bundled = new OpenAI({ baseURL: `${real.url}/v1`, apiKey: "none", maxRetries: 0 });
  const schema = {
    type: "object",
    properties: { age: { type: "integer", minimum: 1, maximum: 99 } },
    required: ["age"],
    additionalProperties: false,
  };
  const ask = { model: MODEL_NAME, input: "How old?", text: { format: { type: "json_schema", name: "x", strict: true, schema } } };
  const { age } = (await bundled.responses.parse(ask)).output_parsed;
  assert.ok(Number.isInteger(age) && age >= 1 && age <= 99, age);
  const streamed = await bundled.responses.stream(ask).finalResponse();
  assert.ok(Number.isInteger(JSON.parse(streamed.output_text).age));
  assert.equal((await real.stop()).code, 0);
});

test("chat: the client's tool runner calls functions and goes on", async () => {
  const asked = [];
  const runner = client.chat.completions.runTools({
    model,
    messages: [
      { role: "user", content: script(['<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>']) },
    ],
    tools: [
      {
        type: "function",
        function: {
          ...FUNCTIONS[0],
          parse: JSON.parse,
          function: (args) => {
            asked.push(args);
            return `Sunny.${script(["It is sunny."])}`;
          },
        },
      },
    ],
  });
  assert.equal(await runner.finalContent(), "It is sunny.");
  assert.deepEqual(asked, [{ city: "Bern" }]);
});

test("chat: what older and other clients send is taken", async () => {
  const message = script(["Yes."]);
  const answer = await client.chat.completions.create({
    model,
    messages: [
      { role: "system", content: "s" },
      { role: "assistant", content: null, tool_calls: [{ id: "a", type: "function", function: { name: "now", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "a", content: [{ type: "text", text: "12" }] },
      { role: "assistant", content: "Noon.", reasoning_content: "r", reasoning: "r", refusal: null, annotations: [] },
      { role: "user", content: [{ type: "text", text: message, cache_control: { type: "ephemeral" } }], name: "ann" },
    ],
    tools: [...chatTools, { type: "custom", custom: { name: "patch", description: "d" } }],
    verbosity: "low",
    store: true,
    service_tier: "auto",
    prompt_cache_key: "k",
    metadata: { a: "b" },
    reasoning_effort: "low",
    parallel_tool_calls: true,
  });
  assert.equal(answer.choices[0].message.content, "Yes.");
});
