// What the tests share: the program under test, a browser, and the page's own files where no program is needed.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const PAGE = path.join(ROOT, "src/server/page");
export const MODEL = path.join(ROOT, "models/story-q4_k_m.gguf");
export const MODEL_NAME = "story-q4_k_m";
const BINARY = process.env.ROCMFORGE ?? path.join(ROOT, "build/release/rocmforge");
const SCREENSHOTS = path.join(ROOT, "tests/web/screenshots");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

// The policy that page.h gives to every asset.
export const POLICY = [...readFileSync(path.join(PAGE, "page.h"), "utf8").matchAll(/^\s+"([^"]*)"/gm)]
  .map((m) => m[1])
  .join("");

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

// Starts `rocmforge serve` with the bundled model and waits until it is ready.
export async function startServer({ models = [MODEL], args = [] } = {}) {
  const port = await freePort();
  const child = spawn(BINARY, ["serve", ...models, "--port", String(port), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  // A test that fails before it stops its server must not wait for it.
  child.unref();
  process.once("exit", () => child.kill("SIGKILL"));
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.unref();
    stream.on("data", (data) => {
      log += data;
    });
  }
  const exited = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  child.once("error", (error) => {
    log += error;
  });
  const url = `http://127.0.0.1:${port}`;
  const deadline = Date.now() + 20000;
  for (;;) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error(`the server did not start:\n${log}`);
    const ready = await fetch(`${url}/ready`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) break;
    await sleep(20);
  }
  const stop = async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 10000);
    const result = await exited;
    clearTimeout(timer);
    return result;
  };
  return { url, stop, log: () => log };
}

export async function metric(url, name, headers = {}) {
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  const values = text.split("\n").filter((line) => line.startsWith(name) && /^[{ ]/.test(line.slice(name.length)));
  if (values.length === 0) throw new Error(`no metric ${name} in\n${text}`);
  return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

export async function eventually(check, what, seconds = 10) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    if (await check()) return;
    if (Date.now() > deadline) throw new Error(`not within ${seconds} s: ${what}`);
    await sleep(25);
  }
}

export function browserPath() {
  return [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"].find(
    (name) => name && existsSync(name),
  );
}

export async function startBrowser() {
  return chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox", "--disable-gpu"] });
}

// A page that fails the test on any script error or violation of the policy; `problems` lists them.
export async function newPage(browser, { url, storage = {}, script = null, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error.stack ?? error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      page.problems.push(message.text());
  });
  page.on("dialog", (dialog) => {
    page.problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:"))
      page.problems.push(`request to ${request.url()}`);
  });
  await page.addInitScript((entries) => {
    window.attacked = () => console.error("injected code ran");
    if (sessionStorage.getItem("seeded")) return;
    sessionStorage.setItem("seeded", "yes");
    for (const [key, value] of Object.entries(entries)) localStorage.setItem(key, value);
  }, storage);
  if (script) await page.addInitScript(script);
  await page.goto(url);
  return page;
}

// The page's files alone, under their policy, without a server behind them: for tests of its modules.
export async function modulePage(browser) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.route("http://page.test/**", (route) => {
    const name = path.basename(new URL(route.request().url()).pathname) || "blank";
    const body =
      name === "blank" ? '<!doctype html><svg></svg><div id="root"></div>' : readFileSync(path.join(PAGE, name));
    route.fulfill({
      body,
      contentType: TYPES[path.extname(name)] ?? "text/html",
      headers: { "content-security-policy": POLICY },
    });
  });
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.problems.push(message.text());
  });
  await page.addInitScript(() => {
    window.attacked = () => console.error("injected code ran");
  });
  await page.goto("http://page.test/");
  return page;
}

export async function screenshot(page, name) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
}
