// The conversation as it is shown. The view stays at the end only while the reader is there.

import { $, copyFrom, el, icon, iconButton } from "./dom.js";
import { MarkdownView, renderMarkdown } from "./markdown.js";

const NEAR_END_PX = 48;
const QUESTIONS = {
  title: "What shall we talk about?",
  examples: ["Tell a story about a little dragon", "Why is the sky blue?", "Write a haiku about rain"],
};
const BEGINNINGS = {
  title: "Write a beginning",
  examples: ["Once upon a time there was a king", "It was a dark and stormy night", "The old sailor looked at the sea"],
};

export function describeStats({ first_token_s, tokens_per_s, n_tokens } = {}) {
  const parts = [];
  if (Number.isFinite(first_token_s)) parts.push(`first token ${first_token_s.toFixed(2)} s`);
  if (Number.isFinite(tokens_per_s) && n_tokens >= 8) parts.push(`${tokens_per_s.toFixed(1)} tok/s`);
  if (Number.isFinite(n_tokens)) parts.push(`${n_tokens} token${n_tokens === 1 ? "" : "s"}`);
  return parts.join(" · ");
}

const ENDINGS = { stopped: "stopped", left: "stopped when the page was left", length: "token limit reached" };

// handlers: example(text), edit(message, text), regenerate(message), newChat(message)
export class Thread {
  #handlers;
  #scroller = $("thread");
  #messages = $("messages");
  #isAtEnd = true;
  #views = [];
  #continuesText = false;
  #notice = "";

  constructor(handlers) {
    this.#handlers = handlers;
    this.#scroller.addEventListener("scroll", () => this.#setAtEnd(this.#distanceToEnd() < NEAR_END_PX), {
      passive: true,
    });
    $("jump").addEventListener("click", () => {
      this.scrollToEnd();
      $("prompt").focus();
    });
    new ResizeObserver(() => this.follow()).observe(this.#scroller);
  }

  // `live` is the message that is being generated, if it belongs here. Returns its view.
  show(messages, live = null) {
    this.#views = [];
    this.#messages.replaceChildren();
    const view = this.update(messages, live);
    this.scrollToEnd();
    return view;
  }

  // As show(), but what is shown already, and what is being done with it, stays.
  update(messages, live = null) {
    const shown = new Map(this.#views.map((view) => [view.message, view]));
    this.#views = messages.map((message) => shown.get(message) ?? this.#view(message, message === live));
    const roots = this.#views.length ? this.#views.map((view) => view.root) : [this.#welcome()];
    const wanted = new Set(roots);
    for (const node of [...this.#messages.children]) if (!wanted.has(node)) node.remove();
    let next = this.#messages.firstElementChild;
    for (const root of roots) {
      if (root === next) next = next.nextElementSibling;
      else this.#messages.insertBefore(root, next);
    }
    this.follow();
    return this.#views.find((view) => view.message === live) ?? null;
  }

  // An empty conversation shows examples that suit the model, and what is to be known of it.
  setModel(continuesText, notice) {
    if (continuesText === this.#continuesText && notice === this.#notice) return;
    this.#continuesText = continuesText;
    this.#notice = notice;
    if (this.#views.length === 0) this.update([]);
  }

  #view(message, isLive) {
    if (message.role === "user") return new QuestionView(message, this.#handlers);
    return new AnswerView(message, isLive, this.#handlers, this);
  }

  follow() {
    if (this.#isAtEnd) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  scrollToEnd() {
    this.#setAtEnd(true);
    this.follow();
  }

  #distanceToEnd() {
    return this.#scroller.scrollHeight - this.#scroller.scrollTop - this.#scroller.clientHeight;
  }

  #setAtEnd(isAtEnd) {
    this.#isAtEnd = isAtEnd;
    $("jump").hidden = isAtEnd;
  }

  #welcome() {
    const mark = icon("mark");
    mark.setAttribute("class", "mark");
    const { title, examples } = this.#continuesText ? BEGINNINGS : QUESTIONS;
    return el(
      "div.welcome",
      {},
      mark,
      el("h2", {}, title),
      this.#notice ? el("p", {}, this.#notice) : null,
      el("p", {}, "The model runs on this server. Nothing you write leaves it."),
      el(
        "div.examples",
        {},
        examples.map((text) => el("button", { type: "button", onclick: () => this.#handlers.example(text) }, text)),
      ),
    );
  }
}

class QuestionView {
  constructor(message, handlers) {
    this.message = message;
    this.handlers = handlers;
    this.root = el("article.message.user");
    this.#show();
  }

  #show() {
    const { content } = this.message;
    const copyButton = iconButton("copy", "Copy message", () => copyFrom(copyButton, content));
    this.root.replaceChildren(
      el("h2.unseen", {}, "You"),
      el("div.bubble", { dir: "auto" }, content),
      el(
        "div.tools",
        {},
        copyButton,
        iconButton("edit", "Edit and send again", () => this.#edit()),
      ),
    );
  }

  #edit() {
    const area = el("textarea", { "aria-label": "Edit the message", dir: "auto" });
    area.value = this.message.content;
    const cancel = () => {
      this.#show();
      this.root.querySelector(".tools button:last-child").focus();
    };
    const send = () => {
      const text = area.value.trim();
      if (text) this.handlers.edit(this.message, text);
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        cancel();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.root.replaceChildren(
      el(
        "div.edit",
        {},
        area,
        el(
          "div.buttons",
          {},
          el("button.quiet-button", { type: "button", onclick: cancel }, "Cancel"),
          el("button.main-button", { type: "button", onclick: send }, "Send"),
        ),
      ),
    );
    area.focus();
  }
}

function newCall() {
  return el("details.call", { open: "" }, el("summary", {}, "Calls ", el("code", {})), el("pre", { dir: "ltr" }));
}

// JSON with its lines, where it is complete.
function readable(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

class AnswerView {
  #text = null; // MarkdownView of the answer and of the reasoning before it, while they arrive
  #reasoning = null;
  #calls = null;
  #isScheduled = false;
  #notBefore = 0;

  constructor(message, isLive, handlers, thread) {
    this.message = message;
    this.handlers = handlers;
    this.thread = thread;
    this.body = el("div.answer");
    this.root = el("article.message.assistant", {}, el("h2.unseen", {}, "Answer"), this.body);
    this.#showOmitted();
    if (!isLive) {
      if (message.reasoning) renderMarkdown(this.#thinking(), message.reasoning);
      renderMarkdown(this.body, message.content);
      this.#showCalls();
      this.#showEnd();
      return;
    }
    this.root.setAttribute("aria-busy", "true");
    this.waiting = el(
      "div.waiting",
      { role: "img", "aria-label": "Waiting for the answer" },
      el("i"),
      el("i"),
      el("i"),
    );
    this.root.append(this.waiting);
    if (message.content || message.reasoning || message.calls) this.append(message.content, message.reasoning);
  }

  append(text, reasoning = "") {
    if (reasoning) (this.#reasoning ??= new MarkdownView(this.#thinking())).append(reasoning);
    if (text) (this.#text ??= new MarkdownView(this.body)).append(text);
    this.waiting?.remove();
    this.waiting = null;
    this.#schedule();
  }

  finish() {
    this.#render(true);
    this.waiting?.remove();
    this.root.removeAttribute("aria-busy");
    this.#showOmitted();
    this.#showEnd();
    this.thread.follow();
  }

  // At most once a frame, and never more than a fifth of the time, however long a block has become.
  #schedule() {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(
      () =>
        requestAnimationFrame(() => {
          this.#isScheduled = false;
          const start = performance.now();
          this.#render();
          this.thread.follow();
          const end = performance.now();
          this.#notBefore = end + 4 * (end - start);
        }),
      Math.max(0, this.#notBefore - performance.now()),
    );
  }

  #render(isEnd = false) {
    if (isEnd)
      this.#isScheduled = true; // nothing after the end
    else if (!this.root.hasAttribute("aria-busy")) return;
    this.#reasoning?.render(isEnd);
    this.#text?.render(isEnd);
    this.#showCalls();
  }

  #thinking() {
    const answer = el("div.answer");
    this.body.before(el("details.thinking", {}, el("summary", {}, "Thinking"), answer));
    return answer;
  }

  // The page calls nothing: what the model asks for is shown, each call folded under its name.
  #showCalls() {
    const calls = this.message.calls ?? [];
    this.#calls ??= calls.length ? this.body.parentNode.insertBefore(el("div.calls"), this.body.nextSibling) : null;
    calls.forEach((call, i) => {
      const shown = this.#calls.children[i] ?? this.#calls.appendChild(newCall());
      const [name, code] = [shown.querySelector("code"), shown.querySelector("pre")];
      if (name.textContent !== call.name) name.textContent = call.name;
      const text = readable(call.arguments);
      if (code.textContent !== text) code.textContent = text;
    });
  }

  // That the beginning of the conversation was not sent is said where it first matters: above the answer.
  #showOmitted() {
    const { omitted } = this.message;
    if (!(omitted > 0) || this.root.querySelector(".omitted")) return;
    const what = omitted === 1 ? "first message was" : `first ${omitted} messages were`;
    const text = `The conversation has become too long for the model: its ${what} left out.`;
    this.root.prepend(el("p.omitted", {}, text));
  }

  #showEnd() {
    const { content, error, finish, stats } = this.message;
    if (error) this.root.append(this.#errorBox(error));
    const tools = el("div.tools");
    if (content) {
      const button = iconButton("copy", "Copy answer", () => copyFrom(button, this.message.content));
      tools.append(button);
    }
    if (!error) tools.append(iconButton("again", "Regenerate", () => this.handlers.regenerate(this.message)));
    const ending = error ? "" : finish ? ENDINGS[finish] : "not complete";
    const notes = [describeStats(stats ?? {}), ending].filter(Boolean).join(" · ");
    if (notes) tools.append(el("span.stats", {}, notes));
    if (tools.childNodes.length) this.root.append(tools);
  }

  // A text that does not fit will not fit the next time either.
  #errorBox({ title, detail, code }) {
    const [label, act] =
      code === "context_length_exceeded" ? ["New chat", this.handlers.newChat] : ["Retry", this.handlers.regenerate];
    return el(
      "div.error",
      { role: "alert" },
      el("strong", {}, String(title ?? "Error")),
      el("p", {}, String(detail ?? "")),
      el("button.quiet-button", { type: "button", onclick: () => act(this.message) }, label),
    );
  }
}
