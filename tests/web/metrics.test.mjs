// /metrics as Prometheus reads it: checked by its own promtool where that is at hand (PROMTOOL).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, before, test } from "node:test";
import { MODEL_NAME, startServer } from "./harness.mjs";

let server, text;
before(async () => {
  server = await startServer();
  const ask = (stream) =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({
        model: MODEL_NAME,
        messages: [{ role: "user", content: "Hello" }],
        max_tokens: 8,
        stream,
      }),
    }).then((response) => response.text());
  await Promise.all([ask(false), ask(true)]);
  await fetch(`${server.url}/nowhere`);
  const response = await fetch(`${server.url}/metrics`);
  assert.match(response.headers.get("content-type"), /^text\/plain; version=0\.0\.4/);
  text = await response.text();
});
after(() => server?.stop());

// vLLM's own names have a colon, which promtool advises against; nothing else may be said of them.
test("promtool objects to nothing but the colon in vLLM's names", { skip: process.env.PROMTOOL ? false : "promtool is not at hand" }, () => {
  const { error, stdout, stderr } = spawnSync(process.env.PROMTOOL, ["check", "metrics"], { input: text, encoding: "utf8" });
  assert.ifError(error);
  const objections = (stdout + stderr).split("\n").filter((line) => line !== "");
  assert.ok(objections.length > 0, "promtool saw no names of vLLM's");
  for (const line of objections) assert.match(line, /^vllm:\w+ metric names should not contain ':'$/);
});

test("what dashboards need is there, and labels stay few", () => {
  for (const name of ["time_to_first_token_seconds", "inter_token_latency_seconds", "request_queue_seconds"]) {
    assert.match(text, new RegExp(`^# TYPE rocmforge_${name} histogram$`, "m"));
    assert.match(text, new RegExp(`^rocmforge_${name}_bucket\\{.*le="\\+Inf"\\} [1-9]`, "m"));
  }
  for (const name of [
    "requests_running",
    "requests_waiting",
    "kv_cache_usage_ratio",
    "prompt_tokens_total",
    "generation_tokens_total",
    "preemptions_total",
  ]) {
    assert.match(text, new RegExp(`^rocmforge_${name}(\\{[^}]*\\})? `, "m"), name);
  }
  const labelsOf = (lines) => [...new Set([...lines.join("\n").matchAll(/[{,](\w+)="/g)].map((match) => match[1]))].sort();
  const isVllm = (line) => line.startsWith("vllm:");
  const lines = text.split("\n");
  assert.deepEqual(labelsOf(lines.filter((line) => !isVllm(line))), ["le", "model"]);
  assert.deepEqual(labelsOf(lines.filter(isVllm)), ["le", "model_name"]);
});
