// The page's own behaviour: the files are the server's, the answers are the test's.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HOSTILE } from "./hostile.mjs";
import { newPage, screenshot, startBrowser, startServer } from "./harness.mjs";
import { scriptedAnswers } from "./script.mjs";

let browser, server;
before(async () => {
  browser = await startBrowser();
  server = await startServer();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function open(options = {}) {
  const page = await newPage(browser, { url: server.url, script: scriptedAnswers, ...options });
  await page.waitForSelector("#model:enabled");
  return page;
}

async function send(page, text) {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
}

async function answer(page, text) {
  await page.evaluate((all) => {
    window.feed(all);
    window.finish();
  }, text);
  await page.waitForSelector("#send:visible");
}

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

const seeded = (messages, id = "0123") => ({
  [`rocmforge.head.${id}`]: JSON.stringify({ title: `Seeded ${id}`, updated: 1 }),
  [`rocmforge.chat.${id}`]: JSON.stringify({ messages }),
});

// Elements that only an injection could have made.
const foreign = (page) =>
  page.evaluate(() =>
    Array.from(
      document.querySelectorAll(
        "#messages :is(script, img, iframe, style, link, object, embed, form, input, video, base, meta, template, math)",
      ),
      (node) => node.outerHTML,
    ),
  );

test("hostile answers stay text: from the storage", async () => {
  const messages = [];
  for (const content of HOSTILE)
    messages.push({ role: "user", content }, { role: "assistant", content, reasoning: content });
  messages.push({
    role: "assistant",
    content: "x",
    error: { title: "<img src=x onerror=attacked()>", detail: "<script>attacked()</script>" },
    stats: { n_tokens: "<b>" },
  });
  messages.push({ role: "<img src=x onerror=attacked()>", content: "dropped" }, null, 5, {
    role: "user",
    content: { a: 1 },
  });
  const storage = {
    ...seeded(messages),
    "rocmforge.head.0bad": '{"title":"<img src=x onerror=attacked()>"}',
    "rocmforge.head.1bad": "not json",
    "rocmforge.chat.1bad": "7",
    "rocmforge.settings": '[1,"<script>"]',
    "rocmforge.theme": '"><script>attacked()</script>',
    "rocmforge.model": "<script>",
  };
  const page = await newPage(browser, { url: `${server.url}/#/0123`, storage });
  await page.reload(); // the first load seeds the storage
  await page.waitForSelector("#model:enabled");
  assert.equal(await page.locator(".message").count(), 2 * HOSTILE.length + 2);
  assert.deepEqual(await foreign(page), []);
  await page.click("#chats [data-id='1bad'] .chat-name");
  await page.waitForSelector(".welcome");
  page.problems = page.problems.filter((problem) => !problem.startsWith("request to")); // its own address carries the hash
  await close(page);
});

test("hostile answers stay text: from the stream", async () => {
  const page = await open();
  await send(page, "Attack me");
  const texts = HOSTILE.filter((text) => !/```|~~~/.test(text)); // an open fence would make all the rest code
  await page.evaluate((all) => all.forEach((text) => window.feed(`${text}\n\n`)), texts);
  await answer(page, "done");
  assert.deepEqual(await foreign(page), []);
  const links = await page
    .locator("#messages a")
    .evaluateAll((nodes) => nodes.map((node) => [node.protocol, node.rel, node.target]));
  assert.ok(links.length > 10);
  assert.ok(
    links.every(
      ([protocol, rel, target]) => /^https?:$/.test(protocol) && rel === "noopener noreferrer" && target === "_blank",
    ),
  );
  await close(page);
});

test("hostile model names and server errors stay text", async () => {
  const page = await open();
  await page.route("**/v1/models", (route) =>
    route.fulfill({ json: { data: [{ id: "<img src=x onerror=attacked()>", state: "ready" }] } }),
  );
  await page.reload();
  await page.waitForSelector("#model:enabled");
  await page.evaluate(() => {
    window.nextStatus = {
      status: 400,
      error: { message: "<script>attacked()</script><img src=x onerror=attacked()>", code: 7 },
    };
  });
  await page.fill("#prompt", "x");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".error");
  assert.deepEqual(await foreign(page), []);
  await close(page);
});

test("figures: live while it runs, the server's own at the end", async () => {
  const page = await open();
  await send(page, "Hello");
  for (let i = 0; i < 12; i++) {
    await page.evaluate((text) => window.feed(text), ` word${i}`);
    await page.waitForTimeout(60);
  }
  await page.evaluate(() => window.feed("."));
  assert.match(await page.locator("#live").innerText(), /first token \d+\.\d\d s · \d+\.\d tok\/s · \d+ tokens/);
  await page.evaluate(() => window.finish(14, 123.45));
  await page.waitForSelector(".stats");
  assert.match(await page.locator(".stats").innerText(), /^first token \d+\.\d\d s · 123\.5 tok\/s · 14 tokens$/);
  await close(page);
});

test("figures: no rate for a few tokens, nor for pieces that arrive together", async () => {
  const page = await open();
  const figures = () => page.locator(".stats").last().innerText();
  await send(page, "Few");
  await page.evaluate(() => {
    for (let i = 0; i < 5; i++) window.feed(" word");
    window.finish(5, 20000);
  });
  await page.waitForSelector("#send:visible");
  assert.match(await figures(), /^first token \d+\.\d\d s · 5 tokens$/);
  await send(page, "Together");
  await page.evaluate(() => {
    for (let i = 0; i < 40; i++) window.feed(" word");
    window.finish(40);
  });
  await page.waitForSelector("#send:visible");
  assert.match(await figures(), /^first token \d+\.\d\d s · 40 tokens$/);
  await close(page);
});

for (const [how, stop] of Object.entries({
  button: (page) => page.click("#stop"),
  Esc: (page) => page.keyboard.press("Escape"),
})) {
  test(`stop with ${how}`, async () => {
    const page = await open();
    await send(page, "Hello");
    await page.evaluate(() => window.feed("A beginning"));
    await page.waitForFunction(() => document.querySelector(".answer").textContent === "A beginning");
    await stop(page);
    await page.waitForSelector("#send:visible");
    assert.equal(await page.evaluate(() => window.isAborted), true);
    assert.match(await page.locator(".stats").innerText(), /stopped/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
    await send(page, "Go on");
    assert.deepEqual(
      (await page.evaluate(() => window.asked.at(-1).messages)).map((message) => message.content),
      ["Hello", "A beginning", "Go on"],
    );
    await close(page);
  });
}

test("errors are readable and can be retried", async () => {
  const page = await open();
  await page.evaluate(() => {
    window.nextStatus = {
      status: 429,
      headers: { "retry-after": "3" },
      error: { message: "The queue is full.", code: "queue_full" },
    };
  });
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".error[role=alert]");
  assert.equal(
    await page
      .locator(".error")
      .innerText()
      .then((text) => text.replace(/\s+/g, " ")),
    "The server is busy The queue is full. Try again in 3 s. Retry",
  );
  await screenshot(page, "error");
  await page.click(".error button");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  await page.evaluate(() => {
    window.feed("Half of");
    window.fail("The device failed.");
  });
  await page.waitForSelector(".error");
  assert.match(await page.locator(".error").innerText(), /The device failed/);
  assert.equal(await page.locator(".answer").innerText(), "Half of");
  await page.click(".error button");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  await page.evaluate(() => {
    window.feed("Half");
    window.hangUp();
  });
  await page.waitForSelector(".error");
  assert.match(await page.locator(".error").innerText(), /broke off/);
  await page.evaluate(() => {
    window.nextStatus = {
      status: 400,
      error: { message: "This model's maximum context length is 5 tokens.", code: "context_length_exceeded" },
    };
  });
  await page.click(".error button");
  await page.waitForFunction(() => document.querySelector(".error")?.textContent.includes("too long"));
  assert.equal(
    (await page.evaluate(() => window.asked)).every((body) => body.messages.length === 1),
    true,
  );
  // Asking something else instead: the roles still alternate.
  await send(page, "Are you there?");
  assert.deepEqual(await page.evaluate(() => window.asked.at(-1).messages), [
    { role: "user", content: "Hello\n\nAre you there?" },
  ]);
  await close(page);
});

test("what has come is kept when the page is left", async () => {
  const page = await open();
  await send(page, "Hello");
  await page.evaluate(() => window.feed("Half an answer"));
  await page.waitForFunction(() => document.querySelector(".answer").textContent !== "");
  await page.reload();
  await page.waitForSelector(".assistant .stats");
  assert.equal(await page.locator(".answer").innerText(), "Half an answer");
  assert.match(await page.locator(".stats").innerText(), /stopped when the page was left$/);
  assert.equal(await page.locator(".error").count(), 0);
  await close(page);
});

// Some browsers end a page's requests before they tell the page that it is left.
test("a request that ends while the page is being left is no error", async () => {
  const page = await open();
  await send(page, "Hello");
  await page.evaluate(() => {
    window.feed("Half an answer");
    window.dispatchEvent(new Event("beforeunload"));
    window.hangUp();
  });
  await page.waitForSelector(".assistant .stats");
  assert.equal(await page.locator(".answer").innerText(), "Half an answer");
  assert.match(await page.locator(".stats").innerText(), /stopped when the page was left$/);
  assert.equal(await page.locator(".error").count(), 0);
  await close(page);
});

test("settings are kept and sent; what is out of range is not", async () => {
  const page = await open();
  await page.click("#open-settings");
  await page.fill("#set-system", "Be brief.");
  for (const [name, value] of [
    ["temperature", "0.4"],
    ["top_p", "0.9"],
    ["top_k", "40"],
    ["min_p", "3"],
    ["seed", "7"],
    ["max_tokens", "64"],
    ["repeat_penalty", "1.1"],
  ]) {
    await page.fill(`#set-${name}`, value);
  }
  await page.keyboard.press("Escape");
  await page.reload();
  await page.waitForSelector("#model:enabled");
  await send(page, "Hello");
  const { model, stream, stream_options, ...body } = await page.evaluate(() => window.asked[0]);
  assert.deepEqual(body, {
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
    ],
    temperature: 0.4,
    top_p: 0.9,
    top_k: 40,
    seed: 7,
    max_tokens: 64,
    repeat_penalty: 1.1,
  });
  assert.ok(model && stream && stream_options.include_usage);
  await page.click("#open-settings");
  assert.equal(await page.inputValue("#set-seed"), "7");
  await page.click("#reset-settings");
  assert.equal(await page.inputValue("#set-seed"), "");
  await close(page);
});

test("a setting out of range says what is wrong and what is used", async () => {
  const page = await open();
  await page.click("#open-settings");
  const hint = (name) => page.locator(`#set-${name}-hint`).innerText();
  const usual = await hint("temperature");
  await page.fill("#set-temperature", "9");
  assert.equal(await hint("temperature"), "Not used: must be a number from 0 to 2. The default is used.");
  assert.equal(await page.getAttribute("#set-temperature", "aria-invalid"), "true");
  await page.fill("#set-top_k", "2.5");
  assert.equal(await hint("top_k"), "Not used: must be a whole number from 0. The default is used.");
  await screenshot(page, "settings_wrong");
  await page.fill("#set-temperature", "1.5");
  assert.equal(await hint("temperature"), usual);
  assert.equal(await page.getAttribute("#set-temperature", "aria-invalid"), "false");
  await page.keyboard.press("Escape");
  await send(page, "Hello");
  const { temperature, top_k } = await page.evaluate(() => window.asked[0]);
  assert.deepEqual([temperature, top_k], [1.5, undefined]);
  await page.click("#open-settings");
  assert.equal(await page.inputValue("#set-top_k"), "", "what is not used is not kept");
  assert.equal(await page.getAttribute("#set-top_k", "aria-invalid"), "false");
  await close(page);
});

test("conversations: several at once, rename, delete, undo", async () => {
  const page = await open();
  await send(page, "First");
  await page.evaluate(() => window.feed("one "));
  await page.click("#new-chat");
  await page.waitForSelector(".welcome");
  await page.evaluate(() => window.feed("two"));
  assert.equal(await page.locator("#chats .chat.busy").count(), 1);
  await page.click("#chats .chat-name");
  await page.waitForFunction(() => document.querySelector(".answer")?.textContent === "one two");
  await answer(page, " three");
  assert.equal(await page.locator(".answer").innerText(), "one two three");

  await page.click("#chats [aria-label='Rename First']");
  await page.keyboard.type("My chat");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#chats [title='My chat']");
  assert.equal(await page.title(), "My chat · ROCmForge");
  await page.reload();
  await page.waitForSelector("#chats [title='My chat']");
  await page.click("#chats [aria-label='Delete My chat']");
  await page.waitForSelector(".welcome");
  assert.equal(await page.locator("#chats .chat").count(), 0);
  await page.click("#toast-action");
  await page.click("#chats .chat-name");
  assert.equal(await page.locator(".answer").innerText(), "one two three");
  await close(page);
});

test("edit and send again", async () => {
  const page = await open();
  await send(page, "First");
  await answer(page, "one");
  await send(page, "Second");
  await answer(page, "two");
  await page.hover(".message.user >> nth=0");
  await page.click(".user [aria-label='Edit and send again'] >> nth=0");
  await page.fill(".edit textarea", "Other");
  await page.keyboard.press("Enter");
  await answer(page, "three");
  assert.deepEqual(await page.locator(".bubble").allInnerTexts(), ["Other"]);
  assert.deepEqual(await page.evaluate(() => window.asked.at(-1).messages), [{ role: "user", content: "Other" }]);
  await close(page);
});

test("copy an answer and a code block", async () => {
  const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  const text = "Look:\n\n```py\nprint(1)\n\nprint(2)\n```";
  await send(page, "Code");
  await answer(page, text);
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  await page.click(".code [aria-label='Copy code']");
  await page.waitForSelector("[aria-label=Copied]");
  assert.equal(await copied(), "print(1)\n\nprint(2)");
  await page.click("[aria-label='Copy answer']");
  assert.equal(await copied(), text);
  await close(page);
});

test("the view follows the end only for a reader who is there", async () => {
  const page = await open();
  const gap = () =>
    page.evaluate(() => {
      const t = document.getElementById("thread");
      return Math.round(t.scrollHeight - t.scrollTop - t.clientHeight);
    });
  const more = async () => {
    await page.evaluate(() => {
      for (let i = 0; i < 40; i++) window.feed(`Paragraph ${i}.\n\n`);
    });
    await page.waitForTimeout(250);
  };
  await send(page, "A lot");
  await more();
  assert.ok((await gap()) <= 1);
  await page.mouse.move(600, 300);
  await page.mouse.wheel(0, -400);
  await page.waitForSelector("#jump:visible");
  const top = await page.evaluate(() => document.getElementById("thread").scrollTop);
  await more();
  assert.equal(await page.evaluate(() => document.getElementById("thread").scrollTop), top);
  await page.click("#jump");
  await more();
  assert.ok((await gap()) <= 1);
  await close(page);
});

test("a long answer stays fluid", async () => {
  const page = await open();
  await send(page, "A book");
  const longest = await page.evaluate(async () => {
    let worst = 0;
    let last = performance.now();
    let isRunning = true;
    const frame = () => {
      worst = Math.max(worst, performance.now() - last);
      last = performance.now();
      if (isRunning) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    for (let i = 0; i < 6000; i++) {
      window.feed(i % 12 === 11 ? ".\n\n" : i % 100 === 50 ? "\n```\ncode\n```\n" : " word");
      if (i % 50 === 0) await new Promise((resolve) => setTimeout(resolve));
    }
    window.finish(6000);
    isRunning = false;
    return worst;
  });
  await page.waitForSelector("#send:visible");
  assert.ok(longest < 1000, `a frame took ${longest} ms`);
  await close(page);
});

test("tool calls are shown as they come, and after a reload", async () => {
  const page = await open();
  await send(page, "Weather?");
  await page.evaluate(() => {
    window.feedThought("Two cities.");
    window.feedCall(0, { id: "a", type: "function", function: { name: "weather", arguments: "" } });
    window.feedCall(0, { function: { arguments: '{"city":"<img src=x onerror=attacked()>' } });
  });
  await page.waitForSelector(".call pre:has-text('img src')");
  assert.equal(await page.locator(".call summary").innerText(), "Calls weather");
  await page.evaluate(() => {
    window.feedCall(0, { function: { arguments: '","days":2}' } });
    window.feedCall(1, { id: "b", type: "function", function: { name: "now", arguments: "{}" } });
    window.finish();
  });
  await page.waitForSelector("#send:visible");
  const check = async () => {
    assert.deepEqual(await page.locator(".call summary").allInnerTexts(), ["Calls weather", "Calls now"]);
    const [first] = await page.locator(".call pre").allInnerTexts();
    assert.deepEqual(JSON.parse(first), { city: "<img src=x onerror=attacked()>", days: 2 });
    assert.ok(first.includes("\n"), "complete arguments are shown with their lines");
    assert.equal(await page.locator("details.thinking").getAttribute("open"), null, "reasoning is folded");
    assert.deepEqual(await foreign(page), []);
  };
  await check();
  await screenshot(page, "calls");
  await page.reload();
  await page.waitForSelector(".call");
  await check();
  await close(page);
});

test("a schema and tools go into the request, and what is not JSON does not", async () => {
  const page = await open();
  const schema = { type: "object", properties: { name: { type: "string" } } };
  const tools = [{ name: "now" }, { type: "function", function: { name: "weather", parameters: {} } }];
  await page.click("#open-settings");
  await page.fill("#set-schema", JSON.stringify(schema));
  await page.fill("#set-tools", JSON.stringify(tools));
  await screenshot(page, "settings_shape");
  await page.keyboard.press("Escape");
  await send(page, "One");
  await answer(page, "{}");
  await page.click("#open-settings");
  await page.fill("#set-schema", '["not an object"]');
  await page.fill("#set-tools", "{");
  assert.equal(await page.getAttribute("#set-schema", "aria-invalid"), "true");
  assert.match(await page.innerText("#set-tools-hint"), /^Not used: must be an array/);
  await page.keyboard.press("Escape");
  await send(page, "Two");
  await answer(page, "Yes");
  const [first, second] = await page.evaluate(() => window.asked);
  assert.deepEqual(first.response_format, { type: "json_schema", json_schema: { name: "answer", schema } });
  assert.deepEqual(
    first.tools.map((tool) => tool.function.name),
    ["now", "weather"],
  );
  assert.ok(first.tools.every((tool) => tool.type === "function"));
  assert.equal(second.response_format, undefined);
  assert.equal(second.tools, undefined);
  await close(page);
});
