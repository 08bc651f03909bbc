// Keyboard, screen reader, contrast, motion.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newPage, screenshot, startBrowser, startServer } from "./harness.mjs";
import { scriptedAnswers } from "./script.mjs";

const ANSWER =
  "# Title\n\nSome **text** with `code` and a [link](https://example.com/).\n\n- item\n\n```py\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote";
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

async function answered(page, text = ANSWER) {
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  await page.evaluate((all) => {
    window.feed(all);
    window.finish();
  }, text);
  await page.waitForSelector(".stats");
}

const focused = (page) =>
  page.evaluate(
    () =>
      document.activeElement.id ||
      document.activeElement.getAttribute("aria-label") ||
      document.activeElement.textContent,
  );

test("everything with the keyboard alone", async () => {
  const page = await open();
  assert.equal(await focused(page), "prompt");
  await page.keyboard.type("Line one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("line two");
  await page.keyboard.press("Enter");
  await answered(page);
  assert.equal(await page.locator(".bubble").innerText(), "Line one\nline two");
  assert.equal(await focused(page), "prompt");

  // Around the page once: every control is met, and each shows that it has the focus.
  const met = new Set();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const state = await page.evaluate(() => {
      const node = document.activeElement;
      if (node === document.body) return null;
      const style = getComputedStyle(node);
      const box = getComputedStyle(node.closest(".composer") ?? node);
      return {
        name: node.id || node.getAttribute("aria-label") || node.textContent,
        isShown: style.outlineStyle !== "none" || box.borderColor !== "",
      };
    });
    if (!state) continue;
    assert.ok(state.isShown, state.name);
    met.add(state.name);
    if (state.name === "prompt") break;
  }
  await page.keyboard.press("Tab");
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press("Tab");
    met.add(await focused(page));
  }
  for (const name of [
    "new-chat",
    "model",
    "theme",
    "open-settings",
    "Copy code",
    "Copy answer",
    "Regenerate",
    "Code, py",
    "Table",
    "link",
    "Copy message",
    "Edit and send again",
  ]) {
    assert.ok(met.has(name), `${name} is not reached: ${[...met].join(", ")}`);
  }

  await page.focus("#open-settings");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#settings[open]");
  await page.keyboard.press("Escape");
  assert.equal(await focused(page), "open-settings");
  await page.focus(".skip");
  assert.ok((await page.locator(".skip").boundingBox()).y >= 0);
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "prompt");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("every control has a name, every region a role", async () => {
  const page = await open();
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await answered(page);
  const session = await page.context().newCDPSession(page);
  const named = async () => {
    const { nodes } = await session.send("Accessibility.getFullAXTree");
    const shown = nodes
      .filter((node) => !node.ignored)
      .map((node) => ({ role: node.role?.value, name: node.name?.value?.trim() ?? "" }));
    const controls = shown.filter(({ role }) =>
      ["button", "textbox", "combobox", "link", "spinbutton", "dialog", "region", "navigation", "progressbar"].includes(
        role,
      ),
    );
    assert.deepEqual(
      controls.filter(({ name }) => name === ""),
      [],
    );
    return { shown, controls };
  };
  const { shown, controls } = await named();
  assert.ok(controls.length > 12);
  const outside = await page.evaluate(() =>
    Array.from(
      document.querySelectorAll("body :is(button, select, textarea, h1, h2, p)"),
    )
      .filter((node) => node.checkVisibility())
      .filter((node) => !node.closest("nav, main, header, section[aria-label], [role=status]"))
      .map((node) => node.outerHTML),
  );
  assert.deepEqual(outside, [], "everything that is shown is in a region");
  for (const role of ["main", "navigation", "banner"])
    assert.equal(shown.filter((node) => node.role === role).length, 1, role);
  const headings = shown.filter(({ role }) => role === "heading").map(({ name }) => name);
  assert.deepEqual(headings, ["ROCmForge", "You", "Answer", "Title"]);
  await page.click("#open-settings");
  const inDialog = await named();
  assert.ok(inDialog.controls.filter(({ role }) => role === "spinbutton").length >= 9);
  await page.context().close();
});

test("on a phone, too, the page has a first heading", async () => {
  const page = await open({ viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true });
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const headings = nodes.filter((node) => !node.ignored && node.role?.value === "heading");
  assert.equal(headings[0].name.value, "ROCmForge");
  assert.equal(headings[0].properties.find(({ name }) => name === "level").value.value, 1);
  await page.context().close();
});

test("a finished answer is announced once, not its tokens", async () => {
  const page = await open();
  await page.evaluate(() => {
    window.announced = [];
    new MutationObserver(() => window.announced.push(document.getElementById("announcer").textContent)).observe(
      document.getElementById("announcer"),
      { childList: true, subtree: true, characterData: true },
    );
  });
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".assistant[aria-busy]", { state: "attached" });
  for (let i = 0; i < 5; i++) await page.evaluate(() => window.feed("word "));
  assert.deepEqual(await page.evaluate(() => window.announced), []);
  assert.equal(await page.locator("[aria-live]:not(#announcer), [role=log]").count(), 0);
  await answered(page, "end");
  assert.deepEqual(await page.evaluate(() => window.announced), ["word word word word word end"]);
  await page.context().close();
});

// Every piece of visible text against what is painted behind it: 4.5 to 1.
const lowContrast = (page) =>
  page.evaluate(() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (color) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      return Array.from(canvas.getImageData(0, 0, 1, 1).data);
    };
    const luminance = (color) =>
      color
        .slice(0, 3)
        .map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (node) => {
      for (let at = node; at; at = at.parentElement) {
        const color = rgba(getComputedStyle(at).backgroundColor);
        if (color[3] === 255) return color;
      }
      return [255, 255, 255];
    };
    const bad = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true }))
        continue;
      if (node.closest(".unseen, .skip, :disabled, script, noscript, symbol")) continue;
      const [a, b] = [luminance(rgba(getComputedStyle(node).color)), luminance(behind(node))].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < 4.5) bad.push(`${walker.currentNode.data.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
    }
    return bad;
  });

for (const colorScheme of ["light", "dark"]) {
  test(`contrast, ${colorScheme}`, async () => {
    const page = await open({ colorScheme });
    assert.deepEqual(await lowContrast(page), []);
    await page.fill("#prompt", "Hello");
    await page.press("#prompt", "Enter");
    await answered(page);
    await screenshot(page, `markdown_${colorScheme}`);
    assert.deepEqual(await lowContrast(page), []);
    await page.evaluate(() => {
      window.nextStatus = { status: 503, error: { message: "Later." } };
    });
    await page.fill("#prompt", "Again");
    await page.press("#prompt", "Enter");
    await page.waitForSelector(".error");
    await page.click("#open-settings");
    assert.deepEqual(await lowContrast(page), []);
    await page.context().close();
  });
}

test("the theme: the system's, light, dark", async () => {
  const page = await open({ colorScheme: "dark" });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await page.click("#theme");
  const light = await background();
  assert.notEqual(light, dark);
  assert.equal(await page.getAttribute("#theme", "aria-label"), "Theme: light");
  await page.reload();
  assert.equal(await background(), light);
  await page.click("#theme");
  assert.equal(await background(), dark);
  await page.click("#theme");
  await page.emulateMedia({ colorScheme: "light" });
  assert.equal(await background(), light);
  await page.context().close();
});

test("nothing moves for those who asked for that", async () => {
  const page = await open({ reducedMotion: "reduce" });
  await page.fill("#prompt", "Hello");
  await page.press("#prompt", "Enter");
  await page.waitForSelector(".waiting");
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0);
  await page.context().close();
});
