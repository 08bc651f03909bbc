// The page's parts put together.

import { Generation } from "./chat.js";
import { $ } from "./dom.js";
import { Models, continuesText, noticeOf } from "./models.js";
import { setUpSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import * as store from "./store.js";
import { Thread, describeStats } from "./thread.js";
import { hideToast, toast } from "./toast.js";

const SAVE_EVERY_MS = 2000;
const SHOW_FIGURES_EVERY_MS = 150;
const LEAVING_MS = 2000; // after which a page that was about to be left has stayed
const HAS_KEYBOARD = matchMedia("(hover: hover)").matches; // as good a guess as a page can make
const IDLE_HINT = HAS_KEYBOARD ? "Enter sends, Shift+Enter starts a new line" : "";

let conversation = store.newConversation();
let leavingUntil = 0;
const generations = new Map(); // conversation id -> {generation, view}; answers go on while another one is read

const prompt = $("prompt");
const models = new Models(showModel);
const sidebar = new Sidebar({
  open: openConversation,
  create: () => openConversation(null),
  renamed(id, title) {
    for (const each of opened(id)) each.title = title;
    updateTitle();
  },
  removed(id) {
    drop(id);
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
    const question = store.newQuestion(conversation, text);
    replaceFrom(conversation.messages.indexOf(message), "Edited", question);
  },
  regenerate(message) {
    if (generations.has(conversation.id)) return;
    replaceFrom(conversation.messages.indexOf(message), "Regenerated");
  },
  newChat(message) {
    const question = conversation.messages[conversation.messages.indexOf(message) - 1];
    openConversation(null);
    prompt.value = question?.content ?? "";
    fitPrompt();
    updateComposer();
    prompt.focus();
  },
});

// Conversations

function openConversation(id) {
  const running = id && generations.get(id);
  conversation =
    (running ? running.generation.conversation : id && store.loadConversation(id)) || store.newConversation();
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

// The objects that stand for a conversation: the one that is shown, and the one that gets an answer.
function opened(id) {
  const running = generations.get(id)?.generation.conversation;
  return [...new Set([conversation, running])].filter((each) => each?.id === id);
}

// Ends the answer that a conversation gets; nothing of it is kept from now on.
function drop(id) {
  generations.get(id)?.generation.stop();
  generations.delete(id);
  sidebar.setBusy(id, false);
}

function save(target, message) {
  target.updated = Date.now();
  if (!store.saveMessage(target.id, message) || !store.saveHead(target))
    toast("The browser has no room for this conversation. Delete others to keep it.");
}

function updateTitle() {
  document.title = conversation.title ? `${conversation.title} · ROCmForge` : "ROCmForge";
}

function titleFrom(text) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line;
}

// Takes away what stands from a message on, with a new question in its place or none, and asks for an answer. What had
// content can be brought back.
function replaceFrom(at, what, question = null) {
  const target = conversation;
  const removed = target.messages.splice(at, Infinity);
  if (question) {
    store.putMessage(target, question);
    save(target, question); // before the others go: to other tabs a conversation without messages is a deleted one
  }
  for (const message of removed) store.removeMessage(target.id, message);
  hideToast();
  generate();
  prompt.focus();
  const n = removed.filter(({ content }) => content !== "").length;
  const added = target.messages.slice(at);
  if (n > 0)
    toast(`${what}: ${n === 1 ? "a message was" : `${n} messages were`} replaced.`, "Undo", () =>
      bringBack(target.id, removed, added),
    );
}

function bringBack(id, removed, added) {
  drop(id);
  const target = opened(id)[0] ?? store.loadConversation(id);
  if (!target) return; // deleted since
  const has = (list, { id: wanted }) => list.some((message) => message.id === wanted);
  target.messages = target.messages.filter((message) => !has(added, message));
  for (const message of removed) {
    store.putMessage(target, message);
    save(target, message);
  }
  for (const message of added) if (!has(removed, message)) store.removeMessage(id, message);
  if (conversation.id === id) thread.update(conversation.messages);
  sidebar.refresh();
  updateComposer();
}

// What other tabs do with the conversations that are open here.

store.watchOtherTabs({
  heads() {
    for (const { id, title } of store.listConversations()) for (const each of opened(id)) each.title = title;
    updateTitle();
    sidebar.refresh();
  },
  message(id, messageId, message) {
    for (const each of opened(id)) {
      const live = generations.get(id)?.generation.message;
      if (message) {
        if (live?.id !== messageId) store.putMessage(each, message);
        continue;
      }
      if (live && (live.id === messageId || live.id === `${messageId}.a`)) drop(id);
      each.messages = each.messages.filter((other) => other.id !== messageId);
    }
    if (conversation.id !== id) return;
    if (conversation.messages.length === 0) return openConversation(null); // deleted there
    thread.update(conversation.messages, generations.get(id)?.generation.message);
    updateComposer();
  },
  cleared() {
    for (const id of [...generations.keys()]) drop(id);
    openConversation(null);
  },
});

// Sending and generating

function send() {
  const text = prompt.value.trim();
  if (!text || generations.has(conversation.id)) return;
  hideToast();
  for (const message of store.loadConversation(conversation.id)?.messages ?? []) {
    if (!conversation.messages.some(({ id }) => id === message.id)) store.putMessage(conversation, message);
  }
  conversation.title ||= titleFrom(text);
  const question = store.newQuestion(conversation, text);
  store.putMessage(conversation, question);
  save(conversation, question);
  prompt.value = "";
  fitPrompt();
  history.replaceState(null, "", `#/${conversation.id}`);
  updateTitle();
  generate();
}

async function generate() {
  const target = conversation;
  const message = store.newAnswer(target.messages.at(-1));
  const past = [...target.messages];
  store.putMessage(target, message);
  save(target, message);
  const entry = { generation: new Generation(target, message), view: thread.update(target.messages, message) };
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
      save(target, message);
    }
  };
  const problem = models.chosen ? null : await models.connect();
  if (problem) entry.generation.fail(problem);
  else await entry.generation.run(models.chosen, past, onprogress);
  clearInterval(watch);
  if (generations.get(target.id) !== entry) return; // taken away meanwhile
  // Browsers end a page's requests while they leave it: nothing is wrong with the server.
  if (message.error && performance.now() < leavingUntil) {
    delete message.error;
    message.finish = "left";
  }
  if (!message.error) message.finish ??= "stop";
  generations.delete(target.id);
  save(target, message);
  entry.view?.finish();
  sidebar.setBusy(target.id, false);
  updateComposer();
  if (message.error?.code !== "invalid_api_key") models.connect();
  const silent = message.calls ? "The model calls a tool." : "The answer is empty.";
  if (!message.error) $("announcer").textContent = message.content.slice(0, 3000) || silent;
}

function stop() {
  generations.get(conversation.id)?.generation.stop();
}

// What is to be known of the model stands in the welcome; in a conversation, below it.
function showModel() {
  const model = models.chosen;
  const notice = noticeOf(model);
  thread.setModel(continuesText(model), notice);
  prompt.placeholder = continuesText(model) ? "Write a beginning" : "Write a message";
  if (!generations.has(conversation.id)) updateComposer();
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
  const notice = conversation.messages.length ? noticeOf(models.chosen) : "";
  $("live-text").textContent = isBusy ? figures || "Waiting for the first token" : notice || IDLE_HINT;
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
window.addEventListener("beforeunload", () => {
  leavingUntil = performance.now() + LEAVING_MS;
});
window.addEventListener("pagehide", () => {
  for (const [id, { generation }] of generations) {
    generation.stop("left");
    store.saveMessage(id, generation.message);
    generations.delete(id);
    sidebar.setBusy(id, false);
  }
});
// Brought back from the browser's memory: its answers ended when it was left.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) openConversation(conversation.id);
});

// The theme: the system's, light, dark, and round again.

const THEMES = { "": "automatic", light: "light", dark: "dark" };

function showTheme() {
  const chosen = store.theme.get();
  if (chosen in THEMES && chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  const label = `Theme: ${THEMES[chosen] ?? THEMES[""]}`;
  $("theme").setAttribute("aria-label", label);
  $("theme").title = label;
}

$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  store.theme.set(names[(names.indexOf(store.theme.get()) + 1) % names.length]);
  showTheme();
});

showTheme();
setUpSettings();
openConversation(/^#\/([0-9a-z]{1,64})$/.exec(location.hash)?.[1] ?? null);
models.connect();
