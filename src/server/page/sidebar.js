// The list of conversations: open, rename, delete with undo; on a phone a drawer.

import { $, el, iconButton } from "./dom.js";
import { listConversations, loadConversation, removeConversation, saveConversation, saveHead } from "./store.js";
import { toast } from "./toast.js";

const PHONE = matchMedia("(max-width: 48rem)");

// handlers: open(id), create(), renamed(id, title), removed(id)
export class Sidebar {
  #handlers;
  #current = "";
  #busy = new Set();

  constructor(handlers) {
    this.#handlers = handlers;
    $("new-chat").addEventListener("click", () => {
      this.toggle(false);
      handlers.create();
    });
    $("open-sidebar").addEventListener("click", () => this.toggle(true));
    $("close-sidebar").addEventListener("click", () => this.toggle(false));
    $("scrim").addEventListener("click", () => this.toggle(false));
    $("sidebar").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isOpen) {
        event.stopPropagation();
        this.toggle(false);
      }
    });
  }

  get isOpen() {
    return $("sidebar").classList.contains("open");
  }

  // Only a phone has something to open; the focus goes in and comes back.
  toggle(open) {
    if (!PHONE.matches || open === this.isOpen) return;
    $("sidebar").classList.toggle("open", open);
    $("scrim").hidden = !open;
    $("open-sidebar").setAttribute("aria-expanded", String(open));
    (open ? $("close-sidebar") : $("open-sidebar")).focus();
  }

  setCurrent(id) {
    this.#current = id;
    this.refresh();
  }

  setBusy(id, isBusy) {
    if (isBusy) this.#busy.add(id);
    else this.#busy.delete(id);
    this.refresh();
  }

  refresh() {
    const list = $("chats");
    if (list.querySelector("input")) return; // a name is being edited
    const focused = document.activeElement?.closest?.(".chat")?.dataset.id;
    list.replaceChildren(...listConversations().map((head) => this.#row(head)));
    if (focused) list.querySelector(`[data-id="${CSS.escape(focused)}"] .chat-name`)?.focus();
  }

  #row({ id, title }) {
    const isCurrent = id === this.#current;
    const row = el("li.chat", { "data-id": id });
    row.classList.toggle("current", isCurrent);
    row.classList.toggle("busy", this.#busy.has(id));
    const open = () => {
      this.toggle(false);
      this.#handlers.open(id);
    };
    row.append(
      el(
        "button.chat-name",
        { type: "button", title, "aria-current": isCurrent ? "true" : null, onclick: open },
        title,
      ),
      el(
        "span.chat-tools",
        {},
        iconButton("edit", `Rename ${title}`, () => this.#rename(row, id, title)),
        iconButton("trash", `Delete ${title}`, () => this.#remove(id, title)),
      ),
    );
    return row;
  }

  #rename(row, id, title) {
    const input = el("input", { "aria-label": "Name of the conversation", maxlength: "120" });
    input.value = title;
    let isDone = false;
    const end = (name) => {
      if (isDone) return;
      isDone = true;
      const conversation = name && name !== title ? loadConversation(id) : null;
      if (conversation) {
        saveHead({ ...conversation, title: name });
        this.#handlers.renamed(id, name);
      }
      input.remove();
      this.refresh();
      $("chats")
        .querySelector(`[data-id="${CSS.escape(id)}"] .chat-name`)
        ?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") end(input.value.trim());
      if (event.key === "Escape") {
        event.stopPropagation();
        end("");
      }
    });
    input.addEventListener("blur", () => end(input.value.trim()));
    row.replaceChildren(input);
    input.select();
  }

  #remove(id, title) {
    const kept = loadConversation(id);
    removeConversation(id);
    this.#handlers.removed(id);
    this.refresh();
    ($("chats").querySelector(".chat-name") ?? $("new-chat")).focus();
    toast(`Deleted “${title}”.`, "Undo", () => {
      if (kept) saveConversation(kept);
      this.refresh();
    });
  }
}
