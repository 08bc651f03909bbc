// Building the page. Text reaches it as text nodes only: nothing here or elsewhere parses HTML.

const SVG = "http://www.w3.org/2000/svg";

// el("button.quiet", {type: "button", "aria-label": "Stop", onclick: stop}, child, [more, children], "text")
// Attributes are set by name, functions become listeners, true is an empty attribute, false and null are left out.
export function el(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name);
  appendAll(node, children.flat()); // before dir="auto", with which every child would cost a look at all before it
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  return node;
}

// One by one: a call with some 100,000 arguments would fail.
export function appendAll(parent, children) {
  for (const child of children) if (child != null) parent.append(child);
}

// One of the symbols at the top of index.html.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

export function iconButton(name, label, onclick) {
  return el("button.icon-button", { type: "button", "aria-label": label, title: label, onclick }, icon(name));
}

export const $ = (id) => document.getElementById(id);

// Copies, then shows for a moment in the button that it did.
export async function copyFrom(button, text) {
  const use = button.querySelector("use");
  const label = button.getAttribute("aria-label");
  const done = await copy(text);
  use.setAttribute("href", done ? "#icon-check" : "#icon-alert");
  button.setAttribute("aria-label", done ? "Copied" : "Copying failed");
  setTimeout(() => {
    use.setAttribute("href", "#icon-copy");
    button.setAttribute("aria-label", label);
  }, 1500);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // pages over plain http from another machine have no clipboard
  }
}

function copyBySelection(text) {
  const focused = document.activeElement;
  const area = el("textarea.off-screen", { "aria-hidden": "true", tabindex: "-1" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}
