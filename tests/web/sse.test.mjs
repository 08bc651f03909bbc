// The reader of server-sent events.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { PAGE } from "./harness.mjs";

const source = readFileSync(path.join(PAGE, "sse.js"), "utf8");
const { SseParser, readEvents } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const STREAMS = [
  ["one event", "data: a\n\n", ["a"]],
  ["no space", "data:a\n\n", ["a"]],
  ["two spaces", "data:  a\n\n", [" a"]],
  ["comments and pings", ":\n\n: ping\n\ndata: a\n\n:\n\n", ["a"]],
  ["several lines", "data: a\ndata: b\ndata\n\n", ["a\nb\n"]],
  ["other fields", "event: x\nid: 1\nretry: 5\ndata: a\nfoo\n\n", ["a"]],
  ["carriage returns", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", ["a", "b", "c"]],
  ["empty data", "data\n\ndata:\n\n", ["", ""]],
  ["unfinished", "data: a\n\ndata: b\n", ["a"]],
  ["byte order mark", "\ufeffdata: a\n\n", ["a"]],
  ["text outside ASCII", "data: \u{1f525}\u00e9\u2028x\n\n", ["\u{1f525}\u00e9\u2028x"]],
];

for (const [name, text, expected] of STREAMS) {
  test(`sse: ${name}, cut anywhere`, () => {
    assert.deepEqual(new SseParser().push(text), expected);
    for (let i = 0; i <= text.length; i++) {
      for (let k = i; k <= text.length; k++) {
        const parser = new SseParser();
        const events = [text.slice(0, i), text.slice(i, k), text.slice(k)].flatMap((part) => parser.push(part));
        assert.deepEqual(events, expected, `cut at ${i} and ${k}`);
      }
    }
  });
}

test("sse: bytes of one character may come apart", async () => {
  const bytes = new TextEncoder().encode("data: \u{1f525}\n\ndata: [DONE]\n\n");
  const stream = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const events = [];
  for await (const event of readEvents(stream)) events.push(event);
  assert.deepEqual(events, ["\u{1f525}", "[DONE]"]);
});
