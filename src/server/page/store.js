// What the browser keeps. Every message has a key of its own: a tab writes and removes only the messages that it made
// or took away, so two tabs with one conversation lose nothing of each other's.
//
//   rocmforge.head.ID  {title, updated}      rocmforge.msg.ID.MESSAGE  one message
//   rocmforge.chat.ID  {messages}, as earlier versions kept a conversation: taken apart when it is read
//   rocmforge.settings, .model, .theme       rocmforge.key (of the tab: session storage)
//
// A message is {id, role, content} and, of the assistant, {reasoning, calls, stats, finish, error, omitted}; a call is
// {name, arguments}, both texts. Messages stand in
// the order of their ids: a question's id is its time and some random letters, its answer's is the same with ".a".

const PREFIX = "rocmforge.";
const ROLES = ["user", "assistant"];
const N_TIME = 9; // letters of a time; enough until the year 5188
const N_RANDOM = 4;

function read(key, fallback) {
  try {
    return parse(localStorage.getItem(PREFIX + key)) ?? fallback;
  } catch {
    return fallback;
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// False when the browser has no room or no storage.
function write(key, value) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

function remove(key) {
  try {
    localStorage.removeItem(PREFIX + key);
  } catch {
    // No storage: nothing to remove.
  }
}

// What follows `prefix` in the keys that begin with it.
function keysAfter(prefix) {
  try {
    const start = PREFIX + prefix;
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(start))
      .map((key) => key.slice(start.length));
  } catch {
    return [];
  }
}

const text = (value) => (typeof value === "string" ? value : "");
const byId = (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

// Whatever lies in the storage, the result has the shape that the page relies on, or is null.
function toMessage(id, value) {
  if (!value || !ROLES.includes(value.role)) return null;
  const message = { ...value, id, content: text(value.content), reasoning: text(value.reasoning) };
  if (Array.isArray(value.calls)) {
    message.calls = value.calls.map((call) => ({ name: text(call?.name), arguments: text(call?.arguments) }));
  } else {
    delete message.calls;
  }
  return message;
}

export function listConversations() {
  return keysAfter("head.")
    .map((id) => {
      const head = read(`head.${id}`, {});
      return { id, title: text(head.title) || "Untitled", updated: Number(head.updated) || 0 };
    })
    .sort((a, b) => b.updated - a.updated);
}

export function loadConversation(id) {
  const old = takeApart(id);
  const own = keysAfter(`msg.${id}.`).map((key) => toMessage(key, read(`msg.${id}.${key}`, null)));
  const messages = [...new Map([...old, ...own].filter(Boolean).map((message) => [message.id, message])).values()];
  if (messages.length === 0) return null;
  const head = read(`head.${id}`, {});
  return { id, title: text(head.title), updated: Number(head.updated) || 0, messages: messages.sort(byId) };
}

// The messages of an earlier version's conversation get keys of their own, the same in every tab. Where there is no
// room for that, it stays as it is and its messages are returned.
function takeApart(id) {
  const stored = read(`chat.${id}`, null);
  if (!Array.isArray(stored?.messages)) return [];
  const messages = stored.messages.map((value, i) => toMessage(i.toString(36).padStart(N_TIME + N_RANDOM, "0"), value));
  const kept = messages.filter(Boolean);
  remove(`chat.${id}`);
  if (kept.every((message) => saveMessage(id, message))) return [];
  for (const message of kept) removeMessage(id, message);
  write(`chat.${id}`, stored);
  return kept;
}

export function saveHead({ id, title, updated }) {
  return write(`head.${id}`, { title, updated });
}

export function saveMessage(id, { id: key, ...message }) {
  return write(`msg.${id}.${key}`, message);
}

export function removeMessage(id, message) {
  remove(`msg.${id}.${message.id}`);
}

export function saveConversation(conversation) {
  return conversation.messages.every((message) => saveMessage(conversation.id, message)) && saveHead(conversation);
}

export function removeConversation(id) {
  remove(`head.${id}`);
  remove(`chat.${id}`);
  for (const key of keysAfter(`msg.${id}.`)) remove(`msg.${id}.${key}`);
}

// What other tabs do. heads(): the list may have changed; message(conversation, id, message): it was written, or, with
// null, removed; cleared(): everything was.
export function watchOtherTabs({ heads, message, cleared }) {
  window.addEventListener("storage", ({ key, newValue, storageArea }) => {
    if (storageArea !== window.localStorage) return;
    if (key === null) return cleared();
    if (key.startsWith(`${PREFIX}head.`)) heads();
    const found = /^rocmforge\.msg\.([0-9a-z]+)\.([0-9a-z.]+)$/.exec(key);
    if (found) message(found[1], found[2], newValue === null ? null : toMessage(found[2], parse(newValue)));
  });
}

function randomText(n, letter) {
  return Array.from(crypto.getRandomValues(new Uint8Array(n)), letter).join("");
}

export function newConversation() {
  const id = randomText(8, (byte) => byte.toString(16).padStart(2, "0"));
  return { id, title: "", updated: Date.now(), messages: [] };
}

// After all that the conversation has, also when the clock was set back.
export function newQuestion({ messages }, content) {
  const last = parseInt(messages.at(-1)?.id.slice(0, N_TIME) ?? "0", 36);
  const time = Math.max(Date.now(), (last || 0) + 1);
  const id = time.toString(36).padStart(N_TIME, "0") + randomText(N_RANDOM, (byte) => (byte % 36).toString(36));
  return { id, role: "user", content };
}

export function newAnswer(question) {
  return { id: `${question.id}.a`, role: "assistant", content: "", reasoning: "" };
}

// Puts a message where it belongs, in the place of one with its id.
export function putMessage({ messages }, message) {
  const at = messages.findIndex(({ id }) => id >= message.id);
  if (at < 0) messages.push(message);
  else messages.splice(at, messages[at].id === message.id ? 1 : 0, message);
}

export const settings = { load: () => read("settings", {}), save: (values) => write("settings", values) };

function plain(area, key) {
  return {
    get() {
      try {
        return window[area].getItem(PREFIX + key) ?? "";
      } catch {
        return "";
      }
    },
    set(value) {
      try {
        if (value) window[area].setItem(PREFIX + key, value);
        else window[area].removeItem(PREFIX + key);
      } catch {
        // No storage: chosen for this visit only.
      }
    },
  };
}

export const chosenModel = plain("localStorage", "model");
export const theme = plain("localStorage", "theme");
export const apiKey = plain("sessionStorage", "key");
