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

test("promtool has nothing to say", { skip: process.env.PROMTOOL ? false : "promtool is not at hand" }, () => {
  const { status, stdout, stderr } = spawnSync(process.env.PROMTOOL, ["check", "metrics"], {
    input: text,
    encoding: "utf8",
  });
  assert.equal(status, 0, stdout + stderr + text);
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
  const labels = new Set([...text.matchAll(/[{,](\w+)="/g)].map((match) => match[1]));
  assert.deepEqual(
    [...labels].filter((label) => !["model", "le"].includes(label)),
    [],
  );
});
