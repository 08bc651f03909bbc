// The page in a browser, with the real server and the bundled model behind it.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import {
  MODEL,
  MODEL_NAME,
  POLICY,
  eventually,
  metric,
  newPage,
  screenshot,
  startBrowser,
  startServer,
} from "./harness.mjs";

const KEY = "a-key-of-the-tests";
let browser, server, folder;

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "rocmforge-web-"));
  symlinkSync(MODEL, path.join(folder, "other.gguf"));
  browser = await startBrowser();
  server = await startServer({ models: [MODEL, path.join(folder, "other.gguf")] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true });
});

async function open(options = {}) {
  const page = await newPage(browser, { url: server.url, ...options });
  await page.waitForSelector("#model:enabled");
  return page;
}

async function ask(page, text, { max_tokens = 40 } = {}) {
  await page.evaluate((values) => localStorage.setItem("rocmforge.settings", JSON.stringify(values)), { max_tokens });
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".assistant .stats");
}

const lastAnswer = (page) => page.locator(".assistant .answer").last().innerText();

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

test("the page and its parts come with policy, type and tag", async () => {
  const paths = ["/", "/page/app.js", "/page/style.css", "/page/icon.svg"];
  for (const name of paths) {
    const response = await fetch(server.url + name);
    assert.equal(response.status, 200, name);
    assert.equal(response.headers.get("content-security-policy"), POLICY, name);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff", name);
    const etag = response.headers.get("etag");
    assert.match(etag, /^"[0-9a-f]+"$/);
    assert.equal((await fetch(server.url + name, { headers: { "if-none-match": etag } })).status, 304, name);
  }
  assert.equal((await fetch(`${server.url}/page/none.js`)).status, 404);
});

test("ask, read, reload, regenerate", async () => {
  const page = await open();
  await screenshot(page, "welcome");
  await ask(page, "Tell me about a little dog.");
  const answer = await lastAnswer(page);
  assert.ok(answer.length > 10, answer);
  assert.match(await page.locator(".stats").innerText(), /^first token \d+\.\d\d s · \d+\.\d tok\/s · \d+ tokens/);
  assert.equal(await page.title(), "Tell me about a little dog. · ROCmForge");
  await screenshot(page, "answer");

  await page.reload();
  await page.waitForSelector(".assistant .stats");
  assert.equal(await lastAnswer(page), answer);
  assert.equal(await page.locator(".bubble").innerText(), "Tell me about a little dog.");

  // Not by the sight of it being busy: a short answer may be over before one looks.
  const again = page.waitForResponse("**/v1/chat/completions");
  await page.click(".assistant [aria-label=Regenerate]");
  await again;
  await page.waitForSelector(".assistant[aria-busy]", { state: "detached" });
  await page.waitForSelector(".assistant .stats");
  assert.equal(await page.locator(".message").count(), 2);
  await page.fill("#prompt", "And then?");
  await page.press("#prompt", "Enter");
  await eventually(async () => (await page.locator(".stats").count()) === 2, "a second answer");
  await close(page);
});

test("one question after the other with the bundled model", async () => {
  const page = await open();
  await page.waitForFunction(() => document.querySelector(".welcome")?.textContent.includes("continues text"));
  assert.match(await page.locator(".examples button").first().innerText(), /^Once upon a time/);
  await page.route("**/v1/chat/completions", (route) => {
    const body = { ...route.request().postDataJSON(), ignore_eos: true }; // as long as it is allowed
    route.continue({ postData: JSON.stringify(body) });
  });
  for (let i = 1; i <= 5; i++) {
    await page.fill("#prompt", i === 1 ? "Once upon a time" : "And then?");
    await page.press("#prompt", "Enter");
    await eventually(async () => (await page.locator(".stats").count()) === i, `answer ${i}`, 60);
    assert.equal(await page.locator(".error").count(), 0, `question ${i}`);
    assert.match(await page.locator(".stats").last().innerText(), /token limit reached$/);
    assert.ok((await lastAnswer(page)).length > 100, `question ${i}`);
  }
  assert.ok((await page.locator(".omitted").count()) > 0);
  await close(page);
});

test("stop ends the work on the server", async () => {
  const page = await open();
  const cancelled = await metric(server.url, "rocmforge_requests_cancelled_total");
  // One answer of this model is over in a fifth of a second, sooner than a browser on a busy machine takes to stop it.
  const n = 16;
  await page.route("**/v1/chat/completions", (route) => {
    const body = { ...route.request().postDataJSON(), ignore_eos: true, max_tokens: null, n };
    route.continue({ postData: JSON.stringify(body) });
  });
  await page.fill("#prompt", "Tell me everything.");
  await page.press("#prompt", "Enter");
  await page.waitForFunction(() => document.querySelector(".assistant .answer")?.textContent.length > 0);
  await page.keyboard.press("Escape");
  await page.waitForSelector(".assistant .stats");
  assert.match(await page.locator(".stats").innerText(), /stopped$/);
  await eventually(async () => (await metric(server.url, "rocmforge_requests_running")) === 0, "nothing runs");
  assert.equal(await metric(server.url, "rocmforge_requests_cancelled_total"), cancelled + n);
  await close(page);
});

test("models: choose, load, keep the choice", async () => {
  const page = await open();
  assert.deepEqual(await page.locator("#model option").allTextContents(), [MODEL_NAME, "other"]);
  const asked = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/v1/chat/completions")) asked.push(request.postDataJSON());
  });
  await page.selectOption("#model", "other");
  await page.waitForSelector("#model-state[data-state=unloaded]");
  await page.click("#load-model");
  await page.waitForSelector("#model-state[data-state=ready]");
  await ask(page, "Hello", { max_tokens: 4 });
  assert.equal(asked[0].model, "other");
  await page.reload();
  await page.waitForSelector("#model:enabled");
  assert.equal(await page.locator("#model").inputValue(), "other");
  await close(page);
});

test("models: progress while the weights come in", async () => {
  const page = await open();
  let progress = 0.2;
  await page.route("**/health", (route) =>
    route.fulfill({ json: { status: "ok", models: [{ name: MODEL_NAME, state: "ready", progress }] } }),
  );
  await page.reload();
  await page.waitForSelector("#load-progress:visible");
  assert.match(await page.locator("#model-state").innerText(), /loading \d+ %/);
  await screenshot(page, "loading");
  progress = 1;
  await page.waitForSelector("#load-progress", { state: "hidden" });
  await close(page);
});

test("models: one that waits for memory is followed, one that never has all its weights is ready", async () => {
  const page = await open();
  await page.clock.install();
  let model = { name: MODEL_NAME, state: "loading" };
  await page.route("**/health", (route) => route.fulfill({ json: { status: "ok", models: [model] } }));
  const polls = async (n) => {
    for (let i = 0; i < n; i++) {
      const asked = page.waitForResponse("**/health");
      await page.clock.runFor(400);
      await asked;
    }
  };
  await page.reload();
  await page.waitForSelector("#model-state[data-state=loading]");
  await polls(25);
  model = { name: MODEL_NAME, state: "ready", progress: 0.4 };
  await polls(1);
  await page.waitForFunction(() => document.getElementById("model-state").textContent === "loading 40 %");
  await polls(21);
  await page.waitForSelector("#model-state[data-state=ready]");
  assert.equal(await page.locator("#load-progress").isVisible(), false);
  await close(page);
});

test("an API key is asked for, checked and kept for the tab", async (t) => {
  const guarded = await startServer({ args: ["--api-key", KEY] });
  t.after(guarded.stop);
  const page = await newPage(browser, { url: guarded.url });
  await page.waitForSelector("#key-dialog[open]");
  assert.ok(await page.locator("#key").evaluate((input) => input === document.activeElement));
  await screenshot(page, "key");
  await page.fill("#key", "wrong");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("key-error").textContent !== "");
  await page.fill("#key", KEY);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#model:enabled");
  await ask(page, "Hello", { max_tokens: 8 });
  await page.reload();
  await page.waitForSelector("#model:enabled");
  assert.equal(await page.evaluate(() => Object.values(localStorage).join().includes("a-key")), false);
  await close(page);
});

test("without a key: said, and asked for again", async (t) => {
  const guarded = await startServer({ args: ["--api-key", KEY] });
  t.after(guarded.stop);
  const page = await newPage(browser, { url: guarded.url });
  await page.waitForSelector("#key-dialog[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#load-model:visible");
  assert.equal(await page.locator("#model-state").innerText(), "needs a key");
  assert.equal(await page.locator("#model").isVisible(), false);
  assert.equal(await page.locator("#load-model").innerText(), "Enter key");
  await page.click("#load-model");
  await page.waitForSelector("#key-dialog[open]");
  await page.fill("#key", "wrong");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("key-error").textContent !== "");
  await page.keyboard.press("Escape");
  await page.click("#load-model");
  await page.waitForSelector("#key-dialog[open]");
  assert.equal(await page.locator("#key-error").innerText(), "", "of a key that was given up nothing is said");
  await page.keyboard.press("Escape");
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await page.waitForSelector("#key-dialog[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".error");
  assert.match(await page.locator(".error").innerText(), /asks for an API key/);
  assert.equal(await page.locator("#key-dialog[open]").count(), 0);
  await close(page);
});

test("a server that went away is said, and tried again", async () => {
  const other = await startServer();
  const page = await newPage(browser, { url: other.url });
  await page.waitForSelector("#model:enabled");
  await other.stop();
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".error");
  assert.match(await page.locator(".error").innerText(), /cannot be reached/);
  await page.waitForFunction(() => document.getElementById("model-state").textContent === "not connected");
  await screenshot(page, "unreachable");
  await close(page);
});

for (const [name, options] of Object.entries({
  phone: { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
  phone_dark: {
    viewport: { width: 360, height: 740 },
    isMobile: true,
    hasTouch: true,
    deviceScaleFactor: 2,
    colorScheme: "dark",
  },
  tablet: { viewport: { width: 820, height: 1000 } },
  desktop_dark: { colorScheme: "dark" },
})) {
  test(`fits: ${name}`, async () => {
    const page = await open(options);
    await ask(page, "Tell me a story about a boy and his red ball, please, and make it a long one.");
    const widths = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(widths[0] <= widths[1], `${widths}`);
    await screenshot(page, name);
    if (name.startsWith("phone")) {
      assert.equal(await page.locator("#sidebar").isVisible(), false);
      await page.tap("#open-sidebar");
      await page.waitForSelector("#chats .chat-name:visible");
      await page.waitForTimeout(250);
      await screenshot(page, `${name}_list`);
      await page.tap("#close-sidebar");
      await page.waitForSelector("#sidebar", { state: "hidden" });
    }
    await page.click("#open-settings");
    await page.waitForSelector("#settings[open]");
    await screenshot(page, `${name}_settings`);
    await close(page);
  });
}
