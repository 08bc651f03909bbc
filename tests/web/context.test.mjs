// How much of a conversation is sent.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { PAGE } from "./harness.mjs";

const source = readFileSync(path.join(PAGE, "context.js"), "utf8");
const { fit, lastMeasure, measure } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const RATE = 0.25;
const exchange = (n) => [
  { role: "user", content: "q".repeat(40) },
  { role: "assistant", content: "a".repeat(n) },
];
const question = { role: "user", content: "q".repeat(40) };
const options = { nContext: 1024, tokensPerCharacter: RATE };

test("an answer gets half of what is left, and no more than was asked for", () => {
  const { nOmitted, maxTokens } = fit([question], options);
  assert.equal(nOmitted, 0);
  assert.ok(maxTokens > 450 && maxTokens < 512, `${maxTokens}`);
  assert.equal(fit([question], { ...options, maxTokens: 64 }).maxTokens, 64);
  assert.ok(fit([question], { ...options, maxTokens: 5000 }).maxTokens < 1024);
});

test("a context that is not known limits nothing", () => {
  const messages = [...exchange(100000), question];
  assert.deepEqual(fit(messages, { ...options, nContext: 0 }), { nOmitted: 0, maxTokens: null });
  assert.deepEqual(fit(messages, { ...options, nContext: 0, maxTokens: 7 }), { nOmitted: 0, maxTokens: 7 });
});

test("a hundred questions in a row all find room", () => {
  const messages = [];
  for (let i = 0; i < 100; i++) {
    messages.push(question);
    const { nOmitted, maxTokens } = fit(messages, options);
    const sent = messages.slice(nOmitted);
    const nPrompt = sent.reduce((sum, { content }) => sum + content.length * RATE + 4, 0);
    assert.equal(sent[0].role, "user");
    assert.ok(nPrompt + maxTokens <= 1024, `question ${i}: ${nPrompt} + ${maxTokens}`);
    assert.ok(maxTokens >= 100, `question ${i}: ${maxTokens}`);
    messages.push({ role: "assistant", content: "a".repeat(Math.floor(maxTokens / RATE)) });
  }
});

test("the oldest are left out first, the question never", () => {
  const messages = [...exchange(2000), ...exchange(800), question];
  assert.equal(fit(messages, options).nOmitted, 2);
  assert.equal(fit([...exchange(400), { role: "user", content: "q".repeat(9000) }], options).nOmitted, 2);
  assert.equal(fit([...exchange(400), question], { ...options, system: "s".repeat(3500) }).nOmitted, 2);
});

test("the server's counts correct the guess; short texts tell nothing", () => {
  assert.equal(measure([question], 100), null);
  assert.equal(measure(exchange(960), 516), 0.5);
  assert.equal(measure(exchange(960), undefined), null);
  const counted = { role: "assistant", content: "", stats: { tokens_per_character: 0.5 } };
  assert.equal(lastMeasure([counted, question]), 0.5);
  assert.ok(lastMeasure([question]) > 0);
});
