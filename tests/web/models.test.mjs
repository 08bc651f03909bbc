// What the page says of a model. What the server tells of it, and the answers, are the test's.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newPage, startBrowser, startServer } from "./harness.mjs";
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

// What /v1/models says of the one model.
async function openWith(model, health = {}) {
  const page = await open();
  await page.route("**/v1/models", (route) => route.fulfill({ json: { data: [{ id: "m", ...model }] } }));
  await page.route("**/health", (route) =>
    route.fulfill({ json: { status: "ok", models: [{ name: "m", state: "ready", progress: 1, ...health }] } }),
  );
  await page.reload();
  await page.waitForSelector("#model:enabled");
  return page;
}
const examples = (page) => page.locator(".examples button").allInnerTexts();

test("examples suit the model: questions for one that is told who speaks", async () => {
  const page = await openWith({ meta: { chat_template: "roles" } });
  assert.ok((await examples(page)).includes("Why is the sky blue?"));
  assert.equal(await page.getAttribute("#prompt", "placeholder"), "Write a message");
  assert.doesNotMatch(await page.locator(".welcome").innerText(), /continues text/);
  await close(page);
});

for (const [kind, notice] of Object.entries({
  joined: "This model continues text: it does not answer questions.",
  none: "This model’s file has no chat template: it continues text and may not answer questions.",
})) {
  test(`examples suit the model: beginnings where the chat template is "${kind}", and that is said`, async () => {
    const page = await openWith({ meta: { chat_template: kind } });
    await page.waitForFunction(() => document.querySelector(".welcome p")?.textContent.includes("continues text"));
    assert.ok((await page.locator(".welcome").innerText()).includes(notice));
    assert.ok((await examples(page)).some((text) => text.startsWith("Once upon a time")));
    assert.ok(!(await examples(page)).some((text) => text.endsWith("?")));
    assert.equal(await page.getAttribute("#prompt", "placeholder"), "Write a beginning");
    await send(page, "Once");
    await answer(page, "upon a time");
    await page.waitForFunction((text) => document.getElementById("live-text").textContent === text, notice);
    await close(page);
  });
}

test("a model that failed to load says why", async () => {
  const page = await openWith(
    { state: "failed", error: "the file is <b>cut off</b>" },
    { state: "failed", error: "gguf_truncated" },
  );
  await page.waitForSelector("#model-state[data-state=failed]");
  await page.waitForFunction(
    () => document.querySelector(".welcome p").textContent === "m could not be loaded: the file is <b>cut off</b>",
  );
  assert.equal(await page.getAttribute("#model-state", "title"), "the file is <b>cut off</b>");
  assert.equal(await page.locator("#load-model").innerText(), "Load");
  await close(page);
});
