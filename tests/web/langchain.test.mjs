// LangChain's client for OpenAI's API.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { eventually, metric, MODEL_NAME, startServer } from "./harness.mjs";
import { FAILING, FUNCTIONS, HANGING, assertSaid, cases, script, startScripted } from "./scripted.mjs";

const tools = FUNCTIONS.map((one) => ({ type: "function", function: one }));
let server;
const options = (more = {}) => ({
  model: "scripted",
  apiKey: "none",
  maxRetries: 0,
  configuration: { baseURL: `${server.url}/v1` },
  ...more,
});
const chat = (more) => new ChatOpenAI(options(more));

before(async () => {
  server = await startScripted();
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

const said = (message) => ({
  reasoning: message.additional_kwargs.reasoning_content ?? "",
  content: message.text,
  calls: message.tool_calls.map((one) => [one.name, one.args]),
  isCut: message.response_metadata.finish_reason === "length",
});

for (const one of cases()) {
  test(`invoke: ${one.name}`, async () => {
    const message = await chat().bindTools(tools).invoke(one.message);
    assertSaid(said(message), { ...one, reasoning: message.additional_kwargs.reasoning_content ?? "" });
    assert.ok(message.usage_metadata.input_tokens > 0);
  });
  test(`stream: ${one.name}`, async () => {
    let message;
    for await (const chunk of await chat().bindTools(tools).stream(one.message)) {
      message = message ? message.concat(chunk) : chunk;
    }
    assertSaid(said(message), { ...one, reasoning: message.additional_kwargs.reasoning_content ?? "" });
    assert.equal(message.usage_metadata.input_token_details.cache_read, 1);
  });
  test(`responses API: ${one.name}`, async () => {
    const message = await chat({ useResponsesApi: true }).bindTools(tools).invoke(one.message);
    assert.equal(message.text, one.content);
    assert.deepEqual(message.tool_calls.map((call) => [call.name, call.args]), one.calls);
    let streamed;
    for await (const chunk of await chat({ useResponsesApi: true }).bindTools(tools).stream(one.message)) {
      streamed = streamed ? streamed.concat(chunk) : chunk;
    }
    assert.equal(streamed.text, one.content);
    assert.deepEqual(streamed.tool_calls.map((call) => [call.name, call.args]), one.calls);
  });
}

test("an error in mid-stream reaches the client", async () => {
  let heard = "";
  await assert.rejects(async () => {
    for await (const chunk of await chat().stream(FAILING)) heard += chunk.text;
  }, /has failed/);
  assert.equal(heard, "Once upon");
});

test("leaving a stream cancels the request", async () => {
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total");
  const controller = new AbortController();
  await assert.rejects(async () => {
    for await (const chunk of await chat().stream(HANGING, { signal: controller.signal })) {
      if (chunk.text === " upon") controller.abort();
    }
  });
  const now = () => metric(server.url, "rocmforge_requests_cancelled_total");
  await eventually(async () => (await now()) === cancelled + 1, "it was cancelled");
});

test("calls and results go back", async () => {
  const message = await chat().invoke([
    new HumanMessage("Weather?"),
    new AIMessage({ content: "", tool_calls: [{ id: "c1", name: "weather", args: { city: "Bern" } }] }),
    new ToolMessage({ tool_call_id: "c1", content: "Rain" }),
    new HumanMessage(script([], { prompt: true })),
  ]);
  assert.match(message.text, /Bern[^]*Rain/);
});

test("structured output, completions and embeddings of the bundled model", async () => {
  const real = await startServer();
  const common = { apiKey: "none", maxRetries: 0, configuration: { baseURL: `${real.url}/v1` } };
  const schema = {
    title: "x",
    type: "object",
    properties: { a: { type: "integer" } },
    required: ["a"],
    additionalProperties: false,
  };
  const structured = new ChatOpenAI({ ...common, model: MODEL_NAME }).withStructuredOutput(schema, { method: "jsonSchema" });
  assert.ok(Number.isInteger((await structured.invoke("x")).a));
  const text = await new OpenAI({ ...common, model: MODEL_NAME, maxTokens: 4 }).invoke("Once upon a time");
  assert.ok(text.length > 0);
  const vectors = await new OpenAIEmbeddings({ ...common, model: MODEL_NAME }).embedDocuments(["a dog", "a cat"]);
  assert.equal(vectors.length, 2);
  assert.equal((await real.stop()).code, 0);
});
