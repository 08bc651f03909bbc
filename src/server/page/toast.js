// One short note at the bottom, with at most one thing to do about it.

import { $ } from "./dom.js";

const SHOWN_MS = 7000;
const SHOWN_WITH_ACTION_MS = 15000;
let timer = 0;

export function toast(text, action = "", onaction = null) {
  clearTimeout(timer);
  const button = $("toast-action");
  $("toast-text").textContent = text;
  button.hidden = !onaction;
  button.textContent = action;
  button.onclick = () => {
    hideToast();
    onaction();
  };
  $("toast").hidden = false;
  timer = setTimeout(hideToast, onaction ? SHOWN_WITH_ACTION_MS : SHOWN_MS);
}

export function hideToast() {
  $("toast").hidden = true;
}
