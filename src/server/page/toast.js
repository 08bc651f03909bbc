// One short note at the bottom, with at most one thing to do about it.

import { $ } from "./dom.js";

let timer = 0;

export function toast(text, action = "", onaction = null) {
  clearTimeout(timer);
  const button = $("toast-action");
  $("toast-text").textContent = text;
  button.hidden = !onaction;
  button.textContent = action;
  button.onclick = () => {
    $("toast").hidden = true;
    onaction();
  };
  $("toast").hidden = false;
  timer = setTimeout(() => {
    $("toast").hidden = true;
  }, 7000);
}
