// Conversations that grow too long, that two tabs share, whose messages are replaced. The answers are the test's.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { eventually, newPage, screenshot, startBrowser, startServer } from "./harness.mjs";
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

// Another tab of the same browser.
async function openTab(page) {
  const tab = await page.context().newPage();
  tab.problems = page.problems;
  tab.on("pageerror", (error) => page.problems.push(String(error.stack ?? error)));
  await tab.addInitScript(scriptedAnswers);
  await tab.goto(page.url());
  await tab.waitForSelector("#model:enabled");
  return tab;
}

async function send(page, text) {
  await page.fill("#prompt", text);
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
}

// Counted as four characters a token.
async function answer(page, text) {
  await page.evaluate((all) => {
    const nAsked = window.asked.at(-1).messages.reduce((sum, { content }) => sum + content.length, 0);
    window.feed(all);
    window.finish(Math.ceil(all.length / 4), null, Math.ceil(nAsked / 4));
  }, text);
  await page.waitForSelector("#send:visible");
}

async function exchange(page, question, text) {
  await send(page, question);
  await answer(page, text);
}

const texts = (page) => page.locator("#messages :is(.bubble, .assistant > .answer)").allInnerTexts();
const shows = (page, expected) =>
  eventually(async () => JSON.stringify(await texts(page)) === JSON.stringify(expected), `${expected}`);
const lastRequest = (page) => page.evaluate(() => window.asked.at(-1));

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

// Too long

test("every answer leaves room for a next question; the oldest messages are left out, and that is said", async () => {
  const page = await open();
  const long = "word ".repeat(300).trim();
  await send(page, "First");
  assert.ok((await lastRequest(page)).max_tokens <= 512, "half of the context at most");
  await answer(page, long);
  await exchange(page, "Second", long);
  await send(page, "Third");
  const { messages, max_tokens } = await lastRequest(page);
  assert.deepEqual(
    messages.map(({ content }) => content),
    ["Second", long, "Third"],
  );
  assert.ok(max_tokens > 64, `${max_tokens}`);
  await answer(page, "An end.");
  assert.equal(
    await page.locator(".omitted").innerText(),
    "The conversation has become too long for the model: its first 2 messages were left out.",
  );
  assert.equal((await texts(page)).length, 6, "they stay in sight");
  await screenshot(page, "left_out");
  await page.reload();
  await page.waitForSelector(".omitted");
  await close(page);
});

test("what the server counts is heeded: sent again with less", async () => {
  const page = await open();
  await exchange(page, "First", "An answer.");
  await page.evaluate(() => {
    window.nextStatus = {
      status: 400,
      error: { message: "Too long.", code: "context_length_exceeded", n_ctx: 100, n_prompt_tokens: 90 },
    };
  });
  await send(page, "Second");
  const [, refused, accepted] = await page.evaluate(() => window.asked);
  assert.equal(refused.messages.length, 3);
  assert.ok(accepted.max_tokens < 100 && accepted.max_tokens < refused.max_tokens, JSON.stringify(accepted));
  await answer(page, "Another.");
  assert.equal(await page.locator(".error").count(), 0);
  await close(page);
});

test("a question that cannot fit is not retried: a new chat is offered, with its text", async () => {
  const page = await open();
  await exchange(page, "First", "An answer.");
  await page.evaluate(() => {
    const error = { message: "Far too long.", code: "context_length_exceeded", n_ctx: 100, n_prompt_tokens: 5000 };
    window.alwaysStatus = { status: 400, error };
  });
  await page.fill("#prompt", "A long question");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".error");
  assert.match(await page.locator(".error").innerText(), /too long for the model\s+Far too long\.\s+New chat$/);
  assert.equal(await page.locator(".error button").count(), 1);
  assert.ok((await page.evaluate(() => window.asked.length)) <= 5);
  await screenshot(page, "too_long");
  await page.click(".error button");
  await page.waitForSelector(".welcome");
  assert.equal(await page.inputValue("#prompt"), "A long question");
  await close(page);
});

// Two tabs

test("two tabs with one conversation: both show and keep what either adds", async () => {
  const one = await open();
  await exchange(one, "First", "An answer.");
  const two = await openTab(one);
  await shows(two, ["First", "An answer."]);
  await exchange(one, "From tab one", "Answer one.");
  await exchange(two, "From tab two", "Answer two.");
  const all = ["First", "An answer.", "From tab one", "Answer one.", "From tab two", "Answer two."];
  assert.equal((await lastRequest(two)).messages.length, 5, "the second tab sends what the first added");
  for (const tab of [one, two]) {
    await shows(tab, all);
    await tab.reload();
    await shows(tab, all);
  }
  await close(one);
});

test("two tabs: answers at the same time", async () => {
  const one = await open();
  await exchange(one, "First", "An answer.");
  const two = await openTab(one);
  await send(one, "From tab one");
  await send(two, "From tab two");
  await one.evaluate(() => window.feed("Answer "));
  await two.evaluate(() => window.feed("Answer "));
  await answer(two, "two.");
  await answer(one, "one.");
  const all = ["First", "An answer.", "From tab one", "Answer one.", "From tab two", "Answer two."];
  for (const tab of [one, two]) {
    await shows(tab, all);
    await tab.reload();
    await shows(tab, all);
  }
  await close(one);
});

test("two tabs: a name, an edit and a deletion reach the other", async () => {
  const one = await open();
  await exchange(one, "First", "An answer.");
  const two = await openTab(one);
  await one.click("#chats [aria-label='Rename First']");
  await one.keyboard.type("Renamed");
  await one.keyboard.press("Enter");
  await eventually(async () => (await two.title()) === "Renamed · ROCmForge", "the name");
  await one.hover(".message.user");
  await one.click(".user [aria-label='Edit and send again']");
  await one.fill(".edit textarea", "Other");
  await one.keyboard.press("Enter");
  await answer(one, "Another answer.");
  await shows(two, ["Other", "Another answer."]);
  await one.click("#chats [aria-label='Delete Renamed']");
  await two.waitForSelector(".welcome");
  await one.click("#toast-action");
  await two.click("#chats .chat-name");
  await shows(two, ["Other", "Another answer."]);
  await close(one);
});

test("conversations of earlier versions are read, gone on with and deleted", async () => {
  const messages = [
    { role: "user", content: "Old question" },
    { role: "assistant", content: "Old answer", finish: "stop" },
  ];
  const storage = {
    "rocmforge.head.0123": JSON.stringify({ title: "Old", updated: 1 }),
    "rocmforge.chat.0123": JSON.stringify({ messages }),
  };
  const page = await open({ storage });
  await page.click("#chats .chat-name");
  await exchange(page, "New question", "New answer");
  const all = ["Old question", "Old answer", "New question", "New answer"];
  await shows(page, all);
  await page.reload();
  await shows(page, all);
  await page.click("#chats [aria-label='Delete Old']");
  const kept = await page.evaluate(() => Object.keys(localStorage).filter((key) => key.includes("0123")));
  assert.deepEqual(kept, []);
  await close(page);
});

// Replaced messages

const THREE = ["One", "Answer 1", "Two", "Answer 2", "Three", "Answer 3"];
async function withThree() {
  const page = await open();
  for (let i = 0; i < THREE.length; i += 2) await exchange(page, THREE[i], THREE[i + 1]);
  return page;
}

test("edit: undo brings back what was replaced, also after the answer", async () => {
  const page = await withThree();
  await page.hover(".message.user >> nth=0");
  await page.click(".user [aria-label='Edit and send again'] >> nth=0");
  await page.fill(".edit textarea", "Other");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  await answer(page, "Another answer");
  await shows(page, ["Other", "Another answer"]);
  assert.equal(await page.locator("#toast-text").innerText(), "Edited: 6 messages were replaced.");
  await screenshot(page, "undo");
  await page.click("#toast-action");
  await shows(page, THREE);
  await page.reload();
  await shows(page, THREE);
  await close(page);
});

test("regenerate: undo while the answer comes ends it and brings back the old one", async () => {
  const page = await withThree();
  await page.hover(".message.assistant >> nth=0");
  await page.click(".assistant [aria-label=Regenerate] >> nth=0");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  await page.evaluate(() => window.feed("Half"));
  await page.click("#toast-action");
  await shows(page, THREE);
  assert.equal(await page.evaluate(() => window.isAborted), true);
  await page.waitForSelector("#send:visible");
  await page.reload();
  await shows(page, THREE);
  await exchange(page, "Four", "Answer 4");
  await shows(page, [...THREE, "Four", "Answer 4"]);
  await close(page);
});

test("retrying a failed answer loses nothing, so nothing is said", async () => {
  const page = await open();
  await page.evaluate(() => {
    window.nextStatus = { status: 503, error: { message: "Later." } };
  });
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".error");
  await page.click(".error button");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  assert.equal(await page.locator("#toast").isVisible(), false);
  await close(page);
});
