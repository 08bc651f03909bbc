// The page's parts put together.

import { Generation } from "./chat.js";
import { $ } from "./dom.js";
import { Models } from "./models.js";
import { setUpSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { loadConversation, newConversation, saveConversation, theme } from "./store.js";
import { Thread, describeStats } from "./thread.js";
import { toast } from "./toast.js";

const SAVE_EVERY_MS = 2000;
const SHOW_FIGURES_EVERY_MS = 150;
const HAS_KEYBOARD = matchMedia("(hover: hover)").matches; // as good a guess as a page can make
const IDLE_HINT = HAS_KEYBOARD ? "Enter sends, Shift+Enter starts a new line" : "";

let conversation = newConversation();
const generations = new Map(); // conversation id -> {generation, view}; answers go on while another one is read

const prompt = $("prompt");
const models = new Models();
const sidebar = new Sidebar({
  open: openConversation,
  create: () => openConversation(null),
  renamed(id, title) {
    const running = generations.get(id)?.generation.conversation;
    for (const each of [conversation, running]) if (each?.id === id) each.title = title;
    updateTitle();
  },
  removed(id) {
    generations.get(id)?.generation.stop();
    generations.delete(id);
    sidebar.setBusy(id, false);
    if (conversation.id === id) openConversation(null);
  },
});
const thread = new Thread({
  example(text) {
    prompt.value = text;
    updateComposer();
    prompt.focus();
  },
  edit(message, text) {
    if (generations.has(conversation.id)) return;
    const at = conversation.messages.indexOf(message);
    conversation.messages.splice(at, Infinity, { role: "user", content: text });
    thread.show(conversation.messages);
    generate();
    prompt.focus();
  },
  regenerate(message) {
    if (generations.has(conversation.id)) return;
    conversation.messages.splice(conversation.messages.indexOf(message), Infinity);
    thread.show(conversation.messages);
    generate();
    prompt.focus();
  },
});

// Conversations

function openConversation(id) {
  const running = id && generations.get(id);
  conversation = (running ? running.generation.conversation : id && loadConversation(id)) || newConversation();
  const view = thread.show(conversation.messages, running?.generation.message);
  if (running) running.view = view;
  for (const [other, entry] of generations) if (other !== id) entry.view = null;
  history.replaceState(
    null,
    "",
    conversation.messages.length ? `#/${conversation.id}` : location.pathname + location.search,
  );
  sidebar.setCurrent(conversation.id);
  updateTitle();
  updateComposer();
  if (HAS_KEYBOARD) prompt.focus(); // elsewhere it would cover half of what was opened
}

function save(saved) {
  saved.updated = Date.now();
  if (!saveConversation(saved)) toast("The browser has no room for this conversation. Delete others to keep it.");
}

function updateTitle() {
  document.title = conversation.title ? `${conversation.title} · ROCmForge` : "ROCmForge";
}

function titleFrom(text) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line;
}

// Sending and generating

function send() {
  const text = prompt.value.trim();
  if (!text || generations.has(conversation.id)) return;
  conversation.title ||= titleFrom(text);
  conversation.messages.push({ role: "user", content: text });
  prompt.value = "";
  fitPrompt();
  thread.add(conversation.messages.at(-1));
  history.replaceState(null, "", `#/${conversation.id}`);
  updateTitle();
  generate();
}

async function generate() {
  const target = conversation;
  const message = { role: "assistant", content: "", reasoning: "" };
  const past = [...target.messages];
  target.messages.push(message);
  save(target);
  const entry = { generation: new Generation(target, message), view: thread.add(message, true) };
  generations.set(target.id, entry);
  thread.scrollToEnd();
  sidebar.setCurrent(conversation.id);
  sidebar.setBusy(target.id, true);
  updateComposer();

  let lastSave = performance.now();
  let lastFigures = 0;
  const watch = setInterval(() => models.update(), 1000); // a model may have to be loaded first
  const onprogress = (text, reasoning) => {
    clearInterval(watch);
    entry.view?.append(text, reasoning);
    const now = performance.now();
    if (now - lastFigures > SHOW_FIGURES_EVERY_MS && conversation === target) {
      lastFigures = now;
      $("live-text").textContent = describeStats(message.stats);
    }
    if (now - lastSave > SAVE_EVERY_MS && generations.get(target.id) === entry) {
      lastSave = now;
      save(target);
    }
  };
  const problem = models.current ? null : await models.connect();
  if (problem) entry.generation.fail(problem);
  else await entry.generation.run(models.current, past, onprogress);
  clearInterval(watch);
  if (generations.get(target.id) !== entry) return; // deleted meanwhile
  generations.delete(target.id);
  save(target);
  entry.view?.finish();
  sidebar.setBusy(target.id, false);
  updateComposer();
  if (message.error?.code !== "invalid_api_key") models.connect();
  if (!message.error) $("announcer").textContent = message.content.slice(0, 3000) || "The answer is empty.";
}

function stop() {
  generations.get(conversation.id)?.generation.stop();
}

// The composer

function updateComposer() {
  const isBusy = generations.has(conversation.id);
  const hadFocus = document.activeElement === $("stop") || document.activeElement === $("send");
  $("send").disabled = prompt.value.trim() === "";
  $("send").hidden = isBusy;
  $("stop").hidden = !isBusy;
  if (hadFocus) prompt.focus();
  const figures = describeStats(generations.get(conversation.id)?.generation.message.stats);
  $("live-text").textContent = isBusy ? figures || "Waiting for the first token" : IDLE_HINT;
}

function fitPrompt() {
  if (CSS.supports("field-sizing", "content")) return;
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight}px`;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", stop);
prompt.addEventListener("input", () => {
  fitPrompt();
  updateComposer();
});
prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) stop();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  prompt.focus();
});
// Leaving the page ends its answers; what has come is kept.
window.addEventListener("pagehide", () => {
  for (const { generation } of generations.values()) {
    generation.message.finish = "stopped";
    saveConversation(generation.conversation);
  }
});

// The theme: the system's, light, dark, and round again.

const THEMES = { "": "automatic", light: "light", dark: "dark" };

function showTheme() {
  const chosen = theme.get();
  if (chosen in THEMES && chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  const label = `Theme: ${THEMES[chosen] ?? THEMES[""]}`;
  $("theme").setAttribute("aria-label", label);
  $("theme").title = label;
}

$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme.set(names[(names.indexOf(theme.get()) + 1) % names.length]);
  showTheme();
});

showTheme();
setUpSettings();
openConversation(/^#\/([0-9a-z]{1,64})$/.exec(location.hash)?.[1] ?? null);
models.connect();
