// The official OpenAI client against `rocmforge serve` with the bundled model.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { MODEL_NAME, eventually, metric, startServer } from "./harness.mjs";

const KEY = "a-key-of-the-tests";
const model = MODEL_NAME;
const messages = [{ role: "user", content: "Tell me about a little dog." }];
const prompt = "Once upon a time";
let server, client, headers;

before(async () => {
  server = await startServer({ args: ["--api-key", KEY] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0 });
  headers = { authorization: `Bearer ${KEY}` };
});
after(async () => {
  const { code } = await server.stop();
  assert.equal(code, 0, server.log());
});

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const text = (chunks, index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta?.content ?? choice.text ?? "")
    .join("");

async function refused(request, status, code, param) {
  const error = await request.then(
    () => assert.fail("was accepted"),
    (reason) => reason,
  );
  assert.ok(error instanceof OpenAI.APIError, String(error));
  assert.equal(error.status, status, error.message);
  if (code !== undefined) assert.equal(error.code, code);
  if (param !== undefined) assert.equal(error.param, param);
  assert.equal(typeof error.type, "string");
  return error;
}

test("chat: one answer", async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 12, temperature: 0 });
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.model, model);
  assert.ok(Math.abs(answer.created - Date.now() / 1000) < 120);
  assert.equal(typeof answer.system_fingerprint, "string");
  assert.equal(answer.choices.length, 1);
  const [choice] = answer.choices;
  assert.equal(choice.index, 0);
  assert.equal(choice.message.role, "assistant");
  assert.ok(choice.message.content.length > 0);
  assert.equal(choice.logprobs, null);
  assert.ok(["stop", "length"].includes(choice.finish_reason));
  const { usage } = answer;
  assert.ok(usage.completion_tokens > 0 && usage.completion_tokens <= 12);
  assert.ok(usage.prompt_tokens > 0);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.equal(typeof usage.prompt_tokens_details.cached_tokens, "number");
});

test("chat: a stream says what the whole answer says", async () => {
  const options = { model, messages, max_tokens: 24, temperature: 0 };
  const whole = await client.chat.completions.create(options);
  const chunks = await collect(
    await client.chat.completions.create({ ...options, stream: true, stream_options: { include_usage: true } }),
  );
  assert.equal(text(chunks), whole.choices[0].message.content);
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.equal(new Set(chunks.map((chunk) => chunk.created)).size, 1);
  assert.ok(chunks.every((chunk) => chunk.object === "chat.completion.chunk"));
  assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant", content: "" });
  const usage = chunks.at(-1);
  const last = chunks.at(-2).choices[0];
  assert.deepEqual(usage.choices, []);
  assert.equal(usage.usage.completion_tokens, whole.usage.completion_tokens);
  assert.deepEqual(last.delta, {});
  assert.equal(last.finish_reason, whole.choices[0].finish_reason);
  assert.ok(chunks.slice(0, -1).every((chunk) => chunk.usage === null));
  assert.ok(chunks.slice(0, -2).every((chunk) => chunk.choices[0].finish_reason === null));
});

test("chat: no usage unless asked for", async () => {
  const chunks = await collect(await client.chat.completions.create({ model, messages, max_tokens: 4, stream: true }));
  assert.ok(chunks.every((chunk) => !("usage" in chunk) && chunk.choices.length === 1));
});

test("chat: the client's stream helper", async () => {
  const stream = client.chat.completions.stream({ model, messages, max_tokens: 16, temperature: 0 });
  let deltas = "";
  stream.on("content", (delta) => {
    deltas += delta;
  });
  assert.equal(await stream.finalContent(), deltas);
});

test("chat: max_completion_tokens and length", async () => {
  const answer = await client.chat.completions.create({
    model,
    messages,
    max_completion_tokens: 3,
    temperature: 0,
    ignore_eos: true,
  });
  assert.equal(answer.usage.completion_tokens, 3);
  assert.equal(answer.choices[0].finish_reason, "length");
});

test("chat: several choices", async () => {
  const options = { model, messages, n: 3, max_tokens: 16, temperature: 1, seed: 7 };
  const answer = await client.chat.completions.create(options);
  assert.deepEqual(
    answer.choices.map((choice) => choice.index),
    [0, 1, 2],
  );
  assert.ok(new Set(answer.choices.map((choice) => choice.message.content)).size > 1);
  const chunks = await collect(await client.chat.completions.create({ ...options, stream: true }));
  for (const choice of answer.choices) assert.equal(text(chunks, choice.index), choice.message.content);
});

test("chat: a seed repeats an answer", async () => {
  const ask = async (seed) =>
    (await client.chat.completions.create({ model, messages, seed, max_tokens: 24, temperature: 1.2 })).choices[0]
      .message.content;
  assert.equal(await ask(42), await ask(42));
  const others = await Promise.all([1, 2, 3, 4].map(ask));
  assert.ok(new Set(others).size > 1);
});

test("chat: stop strings end the answer and stay out of it", async () => {
  const options = { model, messages, max_tokens: 40, temperature: 0, ignore_eos: true };
  const whole = (await client.chat.completions.create(options)).choices[0].message.content;
  const stop = whole.slice(10, 16);
  assert.equal(stop.length, 6);
  const expected = whole.slice(0, whole.indexOf(stop));
  const answer = await client.chat.completions.create({ ...options, stop: ["never in there", stop] });
  assert.equal(answer.choices[0].message.content, expected);
  assert.equal(answer.choices[0].finish_reason, "stop");
  const chunks = await collect(await client.chat.completions.create({ ...options, stop, stream: true }));
  assert.equal(text(chunks), expected);
});

test("chat: log-probabilities", async () => {
  const options = { model, messages, max_tokens: 6, temperature: 0, logprobs: true, top_logprobs: 3, ignore_eos: true };
  const [choice] = (await client.chat.completions.create(options)).choices;
  assert.equal(choice.logprobs.content.length, 6);
  let said = "";
  for (const entry of choice.logprobs.content) {
    assert.ok(entry.logprob <= 0 && Number.isFinite(entry.logprob));
    assert.equal(entry.top_logprobs.length, 3);
    assert.equal(entry.top_logprobs[0].token, entry.token); // greedy takes the likeliest
    assert.ok(entry.top_logprobs[0].logprob >= entry.top_logprobs[2].logprob);
    said += Buffer.from(entry.bytes).toString();
  }
  assert.equal(said, choice.message.content);
  const chunks = await collect(await client.chat.completions.create({ ...options, stream: true }));
  const streamed = chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []);
  assert.deepEqual(
    streamed.map((entry) => entry.token),
    choice.logprobs.content.map((entry) => entry.token),
  );
});

test("chat: parts of text, developer messages, fields of other servers", async () => {
  const answer = await client.chat.completions.create({
    model,
    max_tokens: 4,
    store: false,
    metadata: {},
    user: "u",
    tools: [],
    tool_choice: "none",
    response_format: { type: "text" },
    top_k: 5,
    min_p: 0.1,
    messages: [
      { role: "developer", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "Hello" },
          { type: "text", text: " there" },
        ],
      },
    ],
  });
  assert.equal(answer.choices.length, 1);
});

test("completions: text, tokens, several prompts, echo, stream", async () => {
  const options = { model, max_tokens: 8, temperature: 0 };
  const one = await client.completions.create({ ...options, prompt });
  assert.equal(one.object, "text_completion");
  assert.match(one.id, /^cmpl-/);
  const several = await client.completions.create({ ...options, prompt: [prompt, "The dog", prompt] });
  assert.deepEqual(
    several.choices.map((choice) => choice.index),
    [0, 1, 2],
  );
  assert.equal(several.choices[0].text, one.choices[0].text);
  assert.equal(several.choices[2].text, one.choices[0].text);
  const echoed = await client.completions.create({ ...options, prompt, echo: true });
  assert.equal(echoed.choices[0].text, prompt + one.choices[0].text);
  const chunks = await collect(await client.completions.create({ ...options, prompt, stream: true }));
  assert.ok(chunks.every((chunk) => chunk.object === "text_completion"));
  assert.equal(text(chunks), one.choices[0].text);
  const { tokens } = await (
    await fetch(`${server.url}/tokenize`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model, content: prompt, add_special: true }),
    })
  ).json();
  const fromTokens = await client.completions.create({ ...options, prompt: tokens });
  assert.equal(fromTokens.choices[0].text, one.choices[0].text);
});

test("completions: log-probabilities of the old shape", async () => {
  const answer = await client.completions.create({
    model,
    prompt,
    max_tokens: 4,
    temperature: 0,
    logprobs: 2,
    ignore_eos: true,
  });
  const { tokens, token_logprobs, top_logprobs, text_offset } = answer.choices[0].logprobs;
  assert.equal(tokens.length, 4);
  assert.equal(token_logprobs.length, 4);
  assert.equal(top_logprobs.length, 4);
  assert.equal(text_offset[0], 0);
  assert.equal(tokens.join(""), answer.choices[0].text);
});

test("embeddings: floats and base64 agree", async () => {
  const input = ["A little dog ran.", "The sun is warm.", "A little dog ran."];
  const floats = await client.embeddings.create({ model, input, encoding_format: "float" });
  const coded = await client.embeddings.create({ model, input }); // the client asks for base64 and decodes it
  const raw = await (
    await fetch(`${server.url}/v1/embeddings`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model, input: input[0], encoding_format: "base64" }),
    })
  ).json();
  assert.equal(floats.object, "list");
  assert.deepEqual(
    floats.data.map((entry) => entry.index),
    [0, 1, 2],
  );
  assert.equal(typeof raw.data[0].embedding, "string");
  assert.ok(floats.usage.prompt_tokens > 0);
  const vectors = floats.data.map((entry) => entry.embedding);
  for (const [i, vector] of vectors.entries()) {
    assert.ok(vector.length > 1 && vector.every(Number.isFinite));
    assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-3);
    assert.equal(coded.data[i].embedding.length, vector.length);
    for (const [k, value] of coded.data[i].embedding.entries()) assert.ok(Math.abs(value - vector[k]) < 1e-5);
  }
  const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
  assert.ok(dot(vectors[0], vectors[2]) > 0.9999);
  assert.ok(dot(vectors[0], vectors[1]) < 0.9999);
});

test("embeddings: fewer dimensions, token input", async () => {
  const answer = await client.embeddings.create({
    model,
    input: [
      [1, 2, 3],
      [4, 5],
    ],
    dimensions: 8,
    encoding_format: "float",
  });
  assert.equal(answer.data.length, 2);
  for (const { embedding } of answer.data) {
    assert.equal(embedding.length, 8);
    assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-3);
  }
});

test("models: list and retrieve", async () => {
  const models = await client.models.list();
  assert.equal(models.object, "list");
  const [listed] = models.data;
  assert.equal(listed.id, model);
  assert.equal(listed.object, "model");
  assert.ok(listed.created > 1e9);
  assert.deepEqual((await client.models.retrieve(model)).id, model);
  await refused(client.models.retrieve("none/of:these"), 404, "model_not_found");
});

test("answers are of the schema that was asked for, streamed or not", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 1, maximum: 120 } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const ask = {
    model,
    messages,
    max_tokens: 200,
    seed: 1,
    response_format: { type: "json_schema", json_schema: { name: "person", strict: true, schema } },
  };
  const whole = await client.chat.completions.create(ask);
  assert.equal(whole.choices[0].finish_reason, "stop");
  const person = JSON.parse(whole.choices[0].message.content);
  assert.deepEqual(Object.keys(person), ["name", "age"]);
  assert.ok(person.name.length <= 20 && Number.isInteger(person.age) && person.age >= 1 && person.age <= 120, person);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true })) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.equal(streamed, whole.choices[0].message.content);
  const parsed = await client.chat.completions.parse(ask);
  assert.deepEqual(parsed.choices[0].message.parsed, person);
});

test("calls are of their tools' schemas: whole, streamed, by both helpers, and beside a schema", async () => {
  const parameters = {
    type: "object",
    properties: {
      city: { type: "string", enum: ["Bern", "Basel"] },
      days: { type: "integer", minimum: 1, maximum: 9 },
    },
    required: ["city", "days"],
    additionalProperties: false,
  };
  const schema = {
    type: "object",
    properties: { done: { type: "boolean" } },
    required: ["done"],
    additionalProperties: false,
  };
  const ask = {
    model,
    messages,
    max_tokens: 200,
    seed: 1,
    tools: [{ type: "function", function: { name: "get_weather", strict: true, parameters } }],
    tool_choice: "required",
    parallel_tool_calls: false,
  };
  const checked = (calls) => {
    assert.equal(calls.length, 1);
    assert.equal(calls[0].function.name, "get_weather");
    const { city, days } = JSON.parse(calls[0].function.arguments);
    assert.ok(["Bern", "Basel"].includes(city) && Number.isInteger(days) && days >= 1 && days <= 9, calls);
    return calls[0].function.arguments;
  };
  const whole = await client.chat.completions.create(ask);
  assert.equal(whole.choices[0].finish_reason, "tool_calls");
  const written = checked(whole.choices[0].message.tool_calls);
  const parsed = await client.chat.completions.parse(ask);
  assert.deepEqual(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, JSON.parse(written));
  const stream = client.chat.completions.stream(ask);
  let told = "";
  stream.on("tool_calls.function.arguments.delta", (event) => (told += event.arguments_delta));
  const last = await stream.finalChatCompletion();
  assert.equal(checked(last.choices[0].message.tool_calls), written);
  assert.equal(told, written);
  assert.deepEqual(last.choices[0].message.tool_calls[0].function.parsed_arguments, JSON.parse(written));
  // A named function, and calls or an answer of a schema.
  const named = { type: "function", function: { name: "get_weather" } };
  checked((await client.chat.completions.create({ ...ask, tool_choice: named })).choices[0].message.tool_calls);
  const either = await client.chat.completions.parse({
    ...ask,
    tool_choice: "auto",
    response_format: { type: "json_schema", json_schema: { name: "end", strict: true, schema } },
  });
  const { message } = either.choices[0];
  if (message.tool_calls?.length) checked(message.tool_calls);
  else assert.equal(typeof message.parsed.done, "boolean");
});

test("errors: what the client is told", async () => {
  const chat = (options) => client.chat.completions.create({ model, messages, max_tokens: 2, ...options });
  await refused(chat({ model: "gpt-4o" }), 404, "model_not_found");
  await refused(chat({ messages: [] }), 400, undefined, "messages");
  await refused(chat({ messages: "text" }), 400, undefined, "messages");
  await refused(chat({ messages: [{ role: "king", content: "x" }] }), 400);
  await refused(chat({ temperature: "hot" }), 400, undefined, "temperature");
  await refused(chat({ temperature: -1 }), 400, undefined, "temperature");
  await refused(chat({ top_p: 7 }), 400, undefined, "top_p");
  await refused(chat({ n: 0 }), 400, undefined, "n");
  await refused(chat({ max_tokens: 0 }), 400, undefined, "max_tokens");
  await refused(chat({ top_logprobs: 2 }), 400, undefined, "top_logprobs");
  await refused(chat({ tool_choice: "required" }), 400, undefined, "tool_choice");
  const notEnforced = { name: "x", schema: { type: "array", items: { type: "string" }, uniqueItems: true } };
  const format = { type: "json_schema", json_schema: notEnforced };
  const where = "response_format.json_schema.schema";
  const schema = await refused(chat({ response_format: format }), 400, "unsupported_feature", where);
  assert.match(schema.message, /uniqueItems/);
  await refused(chat({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }), 400);
  const overflow = await refused(
    chat({ messages: [{ role: "user", content: "word ".repeat(20000) }] }),
    400,
    "context_length_exceeded",
  );
  assert.match(overflow.message, /maximum context length is \d+ tokens/);
  assert.ok(overflow.error.n_prompt_tokens > overflow.error.n_ctx);
  await refused(client.embeddings.create({ model, input: "" }), 400, undefined, "input");
  await refused(client.post("/no/such/path", { body: {} }), 404);
  await refused(
    new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "wrong", maxRetries: 0 }).models.list(),
    401,
    "invalid_api_key",
  );
  const answer = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers, body: "{" });
  assert.equal(answer.status, 400);
  const { error } = await answer.json();
  assert.deepEqual(Object.keys(error).slice(0, 4).sort(), ["code", "message", "param", "type"]);
});

test("every answer has an id that the log has, too", async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 2 });
  assert.match(answer._request_id, /^req-[0-9a-f]{24}$/);
  const error = await refused(client.chat.completions.create({ model, messages, n: 0 }), 400);
  assert.match(error.requestID, /^req-[0-9a-f]{24}$/);
  for (const id of [answer._request_id, error.requestID]) {
    await eventually(() => server.log().includes(`id=${id} `), `a line with ${id}`);
  }
});

test("an aborted stream stops the work", async () => {
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total", headers);
  const stream = await client.chat.completions.create({
    model,
    messages,
    stream: true,
    ignore_eos: true,
    temperature: 1,
  });
  for await (const chunk of stream) if (chunk.choices[0].delta.content) break; // leaving the loop aborts
  stream.controller.abort();
  await eventually(async () => (await metric(server.url, "rocmforge_requests_running", headers)) === 0, "nothing runs");
  await eventually(
    async () => (await metric(server.url, "rocmforge_requests_cancelled_total", headers)) === cancelled + 1,
    "one was cancelled",
  );
});

test("many clients at once get what each would get alone", async () => {
  const ask = async (word) =>
    (await client.completions.create({ model, prompt: `The ${word}`, max_tokens: 16, temperature: 0 })).choices[0].text;
  const words = ["dog", "cat", "sun", "boy", "girl", "bird", "tree", "fish"];
  const alone = [];
  for (const word of words) alone.push(await ask(word));
  assert.deepEqual(await Promise.all(words.map(ask)), alone);
});
