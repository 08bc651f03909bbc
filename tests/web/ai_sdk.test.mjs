// Vercel's AI SDK, which opencode and many applications use, by @ai-sdk/openai-compatible.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { eventually, metric } from "./harness.mjs";
import { FAILING, FUNCTIONS, HANGING, assertSaid, cases, script, startScripted } from "./scripted.mjs";

const tools = Object.fromEntries(
  FUNCTIONS.map(({ name, description, parameters }) => [name, tool({ description, inputSchema: jsonSchema(parameters) })]),
);
let server, model;

before(async () => {
  server = await startScripted();
  const provider = createOpenAICompatible({ name: "rocmforge", baseURL: `${server.url}/v1`, includeUsage: true });
  model = provider("scripted");
});
after(async () => assert.deepEqual(await server.stop(), { code: 0, signal: null }));

const said = (result) => ({
  reasoning: result.reasoningText ?? "",
  content: result.text,
  calls: result.toolCalls.map((one) => [one.toolName, one.input]),
  isCut: result.finishReason === "length",
});

for (const one of cases()) {
  test(`generateText: ${one.name}`, async () => {
    assertSaid(said(await generateText({ model, tools, prompt: one.message, maxRetries: 0 })), one);
  });
  test(`streamText: ${one.name}`, async () => {
    const failures = [];
    const stream = streamText({ model, tools, prompt: one.message, maxRetries: 0, onError: ({ error }) => failures.push(error) });
    const parts = [];
    for await (const part of stream.fullStream) parts.push(part);
    assert.deepEqual(failures, []);
    const result = { finishReason: await stream.finishReason, text: await stream.text, toolCalls: await stream.toolCalls };
    assertSaid(said({ ...result, reasoningText: await stream.reasoningText }), one);
    assert.ok((await stream.usage).inputTokens > 0);
    assert.equal((await stream.usage).cachedInputTokens, 1);
  });
}

test("an error in mid-stream reaches the client", async () => {
  let failure;
  const stream = streamText({ model, prompt: FAILING, maxRetries: 0, onError: ({ error }) => (failure = error) });
  let text = "";
  for await (const part of stream.fullStream) if (part.type === "text-delta") text += part.text;
  assert.equal(text, "Once upon");
  assert.match(JSON.stringify(failure) + String(failure), /has failed/);
});

test("leaving a stream cancels the request", async () => {
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total");
  const controller = new AbortController();
  const stream = streamText({ model, prompt: HANGING, maxRetries: 0, abortSignal: controller.signal, onError: () => {} });
  for await (const part of stream.fullStream) if (part.text === " upon") controller.abort();
  const now = () => metric(server.url, "rocmforge_requests_cancelled_total");
  await eventually(async () => (await now()) === cancelled + 1, "it was cancelled");
});

test("several steps: a call, its result, an answer", async () => {
  const { text, steps } = await generateText({
    model,
    maxRetries: 0,
    stopWhen: stepCountIs(3),
    tools: {
      weather: tool({
        description: "d",
        inputSchema: jsonSchema(FUNCTIONS[0].parameters),
        execute: () => `Sunny.${script(["It is sunny."])}`,
      }),
    },
    prompt: script(['<think>I ask.</think><tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>']),
  });
  assert.equal(text, "It is sunny.");
  assert.equal(steps.length, 2);
});
