// Talking to the server: JSON requests and the chat stream. Addresses are relative, so the page works behind a proxy's
// sub-path. A refused key is asked for once and the request sent again.

import { $ } from "./dom.js";
import { readEvents } from "./sse.js";
import { apiKey } from "./store.js";

// What a person is told: a title, and the server's own words.
export class ApiError extends Error {
  // more: what else the server's error holds.
  constructor(title, detail, { status = 0, code = null, more = {} } = {}) {
    super(detail || title);
    Object.assign(this, { title, detail, status, code, more });
  }
}

let key = apiKey.get();
let asking = null;

export async function getJson(path) {
  return (await request(path, {})).json();
}

export async function postJson(path, body) {
  return (await request(path, { method: "POST", body: JSON.stringify(body) })).json();
}

// Yields the chunks of a chat completion. Ends only at the end that the server announces.
export async function* streamChat(body, signal) {
  const response = await request("v1/chat/completions", { method: "POST", body: JSON.stringify(body), signal });
  try {
    for await (const data of readEvents(response.body)) {
      if (data.startsWith("[DONE]")) return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw toError(500, chunk.error, null);
      yield chunk;
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError("The answer broke off", "The connection to the server was lost.");
  }
  throw new ApiError("The answer broke off", "The server ended the connection before the answer was complete.");
}

async function request(path, options) {
  for (let first = true; ; first = false) {
    const sentKey = key;
    const response = await send(path, options);
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const error = toError(response.status, body?.error, response.headers.get("retry-after"));
    if (response.status !== 401) throw error;
    if (key === sentKey) {
      setKey(""); // one that was refused is not sent again
      if (!(await askKey(first && !sentKey ? "" : "That key was not accepted."))) throw error;
    }
    options.signal?.throwIfAborted();
  }
}

async function send(path, options) {
  const headers = options.body ? { "Content-Type": "application/json" } : {};
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached", "Check that it is running, then try again.");
  }
}

function toError(status, error, retryAfter) {
  const code = typeof error?.code === "string" ? error.code : null;
  const detail = typeof error?.message === "string" ? error.message : `The server answered with status ${status}.`;
  const wait = /^\d+$/.test(retryAfter ?? "") ? ` Try again in ${retryAfter} s.` : "";
  return new ApiError(titleOf(status, code), detail + wait, { status, code, more: error ?? {} });
}

function titleOf(status, code) {
  if (code === "context_length_exceeded") return "This is too long for the model";
  switch (status) {
    case 400:
      return "The server did not accept the request";
    case 401:
      return "The server asks for an API key";
    case 404:
      return "The model was not found";
    case 413:
      return "The message is too large";
    case 429:
      return "The server is busy";
    case 503:
      return "The model is not available yet";
    default:
      return "The server reported an error";
  }
}

function setKey(text) {
  key = text;
  apiKey.set(text);
}

// True when a key was given. Requests that fail together wait for the same dialog.
function askKey(reason) {
  asking ??= new Promise((resolve) => {
    const dialog = $("key-dialog");
    const input = $("key");
    const focused = document.activeElement;
    let given = false;
    $("key-error").textContent = reason;
    input.value = "";
    $("key-cancel").onclick = () => dialog.close();
    $("key-form").onsubmit = () => {
      given = input.value.trim() !== "";
      setKey(input.value.trim());
    };
    dialog.onclose = () => {
      asking = null;
      focused?.focus();
      resolve(given);
    };
    dialog.showModal();
    input.focus();
  });
  return asking;
}
