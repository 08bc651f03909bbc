// What the browser keeps. Each conversation has a key of its own, so that two tabs do not overwrite each other's; the
// list reads the small `head` keys only.
//
//   rocmforge.head.ID  {title, updated}      rocmforge.chat.ID  {messages}
//   rocmforge.settings, .model, .theme       rocmforge.key (of the tab: session storage)
//
// A message is {role, content} and, of the assistant, {reasoning, stats, finish, error}.

const PREFIX = "rocmforge.";
const ROLES = ["user", "assistant"];

function read(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + key)) ?? fallback;
  } catch {
    return fallback;
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

function keys() {
  try {
    return Object.keys(localStorage);
  } catch {
    return [];
  }
}

const text = (value) => (typeof value === "string" ? value : "");

export function listConversations() {
  return keys()
    .filter((key) => key.startsWith(`${PREFIX}head.`))
    .map((key) => {
      const id = key.slice(PREFIX.length + 5);
      const head = read(`head.${id}`, {});
      return { id, title: text(head.title) || "Untitled", updated: Number(head.updated) || 0 };
    })
    .sort((a, b) => b.updated - a.updated);
}

// Whatever lies in the storage, the result has the shape that the page relies on.
export function loadConversation(id) {
  const stored = read(`chat.${id}`, null);
  if (!stored || !Array.isArray(stored.messages)) return null;
  const messages = stored.messages
    .filter((message) => message && ROLES.includes(message.role))
    .map((message) => ({ ...message, content: text(message.content), reasoning: text(message.reasoning) }));
  const head = read(`head.${id}`, {});
  return { id, title: text(head.title), updated: Number(head.updated) || 0, messages };
}

export function saveConversation({ id, title, updated, messages }) {
  return write(`chat.${id}`, { messages }) && write(`head.${id}`, { title, updated });
}

export function removeConversation(id) {
  remove(`head.${id}`);
  remove(`chat.${id}`);
}

export function newConversation() {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const id = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, title: "", updated: Date.now(), messages: [] };
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
