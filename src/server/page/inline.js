// Markdown inside a paragraph: code, emphasis, strike-through, links. Linear in the text, nesting bounded. LaTeX, in
// \( \), \[ \], $ $ or $$ $$, is shown as it was written.
// The text is a model's, so hostile: it becomes text nodes and a fixed set of elements; links lead to http and https only.

import { el } from "./dom.js";

const MAX_DEPTH = 32;
const SPECIAL = /[\\`*_~![\]<\n$]|https?:\/\//g;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
// One line, no space inside the marks, no digit after: $5 and $10 are no formula.
const DOLLAR_MATH = /\$(?![\s$])(?:[^$\\`\n]|\\[^\n])+\$(?!\d)/y;
const SPACE = /\s/;
const PUNCTUATION = /[\p{P}\p{S}]/u;

export function renderInline(text) {
  return new InlineParser(text).parse();
}

export function safeUrl(text) {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null;
  const url = new URL(text);
  return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
}

function link(url, children) {
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, children);
}

// Nodes collect in frames: the root, an opened emphasis, an opened bracket. A frame that is closed becomes an element
// of its parent; one that is not gives its marker, as text, and its nodes to the parent.
class InlineParser {
  constructor(text) {
    this.text = text;
    this.position = 0;
    this.frames = [{ kind: "root", marker: "", nodes: [] }];
    this.noCodeEndAfter = new Map(); // length of a backtick run -> from where on no such run follows
    this.mathEnds = new Map(); // mark that ends a formula -> where it was found last, Infinity: nowhere any more
  }

  parse() {
    const { text } = this;
    while (this.position < text.length) {
      SPECIAL.lastIndex = this.position;
      const match = SPECIAL.exec(text);
      if (!match) {
        this.addText(text.slice(this.position));
        break;
      }
      this.addText(text.slice(this.position, match.index));
      this.position = match.index;
      if (!this.special(match[0])) this.take(match[0].length);
    }
    while (this.frames.length > 1) this.dropFrame();
    return this.frames[0].nodes;
  }

  special(mark) {
    switch (mark) {
      case "$":
        return this.dollarMath();
      case "\\":
        return this.backslashMath() || this.escape();
      case "`":
        return this.code();
      case "*":
      case "_":
      case "~":
        return this.emphasis(mark);
      case "!":
        return this.text[this.position + 1] === "[" && this.openBracket("![");
      case "[":
        return this.openBracket("[");
      case "]":
        return this.closeBracket();
      case "<":
        return this.angleLink();
      case "\n":
        return this.lineBreak();
      default:
        return this.bareLink();
    }
  }

  get top() {
    return this.frames[this.frames.length - 1];
  }

  take(length) {
    this.addText(this.text.slice(this.position, this.position + length));
    this.position += length;
    return true;
  }

  addText(text) {
    if (!text) return;
    const { nodes } = this.top;
    if (typeof nodes[nodes.length - 1] === "string") nodes[nodes.length - 1] += text;
    else nodes.push(text);
  }

  push(kind, marker) {
    if (this.frames.length > MAX_DEPTH) return false;
    this.frames.push({ kind, marker, nodes: [] });
    this.position += marker.length;
    return true;
  }

  dropFrame() {
    const { marker, nodes } = this.frames.pop();
    this.addText(marker);
    for (const node of nodes) typeof node === "string" ? this.addText(node) : this.top.nodes.push(node);
  }

  // The innermost open frame of that kind. An emphasis does not reach out of a bracket.
  findFrame(kind) {
    for (let i = this.frames.length - 1; i > 0; i--) {
      if (this.frames[i].kind === kind) return i;
      if (this.frames[i].kind === "[" && kind !== "[") return -1;
    }
    return -1;
  }

  // \( and \[ stand for themselves, also before their end has come: a model that writes them writes a formula. Not so
  // where \[a\](b) is a link that was not to be one.
  backslashMath() {
    const { text, position } = this;
    const open = text[position + 1];
    if (open === ")" || (open === "]" && text[position + 2] !== "(")) return this.take(2);
    if (open !== "(" && open !== "[") return false;
    const close = open === "(" ? "\\)" : "\\]";
    const end = this.findMathEnd(close, position + 2);
    if (end < 0) return this.take(2);
    if (open === "[" && text[end + 2] === "(") return false;
    return this.takeMath(end + 2);
  }

  dollarMath() {
    const { text, position } = this;
    if (text[position + 1] === "$") {
      const end = this.findMathEnd("$$", position + 2);
      return end < 0 ? this.take(2) : this.takeMath(end + 2);
    }
    DOLLAR_MATH.lastIndex = position;
    if (!DOLLAR_MATH.test(text) || SPACE.test(text[DOLLAR_MATH.lastIndex - 2])) return false;
    return this.takeMath(DOLLAR_MATH.lastIndex);
  }

  findMathEnd(mark, from) {
    let end = this.mathEnds.get(mark) ?? -1;
    if (end < from) {
      end = this.text.indexOf(mark, from);
      this.mathEnds.set(mark, end < 0 ? Infinity : end);
    }
    return end === Infinity ? -1 : end;
  }

  takeMath(end) {
    while (this.position < end) {
      const lineEnd = this.text.indexOf("\n", this.position);
      if (lineEnd < 0 || lineEnd >= end) this.take(end - this.position);
      else {
        this.take(lineEnd - this.position);
        this.lineBreak();
      }
    }
    return true;
  }

  escape() {
    const next = this.text[this.position + 1];
    if (!next || !ESCAPABLE.test(next)) return false;
    this.addText(next);
    this.position += 2;
    return true;
  }

  code() {
    const { text, position } = this;
    const length = runLength(text, position);
    const start = position + length;
    if (start >= (this.noCodeEndAfter.get(length) ?? Infinity)) return this.take(length);
    let end = text.indexOf("`", start);
    while (end >= 0) {
      const n = runLength(text, end);
      if (n === length) break;
      end = text.indexOf("`", end + n);
    }
    if (end < 0) {
      this.noCodeEndAfter.set(length, start);
      return this.take(length);
    }
    let inner = text.slice(start, end).replaceAll("\n", " ");
    if (/^ .*[^ ].* $/.test(inner) || /^ [^ ] $/.test(inner)) inner = inner.slice(1, -1);
    this.top.nodes.push(el("code", {}, inner));
    this.position = end + length;
    return true;
  }

  emphasis(mark) {
    const { text, position } = this;
    const length = runLength(text, position);
    if (length > 3 || (mark === "~" && length !== 2)) return this.take(length);
    const before = text[position - 1] ?? " ";
    const after = text[position + length] ?? " ";
    const left = !SPACE.test(after) && (!PUNCTUATION.test(after) || SPACE.test(before) || PUNCTUATION.test(before));
    const right = !SPACE.test(before) && (!PUNCTUATION.test(before) || SPACE.test(after) || PUNCTUATION.test(after));
    const inWord = mark === "_" && left && right;
    let rest = length;
    if (right && !inWord) {
      while (rest > 0) {
        const closed = this.closeEmphasis(mark, rest);
        if (!closed) break;
        rest -= closed;
      }
    }
    if (left && !inWord) {
      while (rest > 0) {
        const part = rest >= 2 ? 2 : 1;
        if (!this.push(mark.repeat(part), mark.repeat(part))) break;
        rest -= part;
      }
    }
    if (rest > 0) this.take(rest);
    return true;
  }

  // Returns how many of the marks it used.
  closeEmphasis(mark, available) {
    for (const n of available >= 2 ? [2, 1] : [1]) {
      const at = this.findFrame(mark.repeat(n));
      if (at < 0 || this.isEmptyFrom(at)) continue;
      if (n === 2 && available === 3 && this.findFrame(mark) > at) continue; // ***both***: the inner one first
      while (this.frames.length - 1 > at) this.dropFrame();
      const { nodes } = this.frames.pop();
      this.top.nodes.push(el(mark === "~" ? "del" : n === 2 ? "strong" : "em", {}, nodes));
      this.position += n;
      return n;
    }
    return 0;
  }

  isEmptyFrom(at) {
    return this.frames.slice(at).every((frame) => frame.nodes.length === 0);
  }

  openBracket(marker) {
    return this.push("[", marker);
  }

  closeBracket() {
    const at = this.findFrame("[");
    if (at < 0) return false;
    const target = this.linkTarget(this.position + 1);
    const url = target && safeUrl(target.url);
    while (this.frames.length - 1 > at) this.dropFrame();
    if (!url) {
      this.dropFrame();
      return false;
    }
    const { marker, nodes } = this.frames.pop();
    const hasLink = nodes.some((node) => typeof node !== "string" && (node.tagName === "A" || node.querySelector("a")));
    if (hasLink) {
      this.frames.push({ kind: "[", marker, nodes });
      this.dropFrame();
      return false;
    }
    this.top.nodes.push(link(url, nodes.length ? nodes : url));
    this.position = target.end;
    return true;
  }

  // (url "title") or (<url>) from a position; nothing where it is not one.
  linkTarget(start) {
    const match =
      /\(\s{0,8}(?:<([^<>\n]{0,2048})>|((?:[^\s()<>]|\([^\s()]{0,512}\)){0,2048}))(?:\s{1,8}(?:"[^"\n]{0,512}"|'[^'\n]{0,512}'))?\s{0,8}\)/y;
    match.lastIndex = start;
    const found = match.exec(this.text);
    return found && { url: found[1] ?? found[2], end: match.lastIndex };
  }

  angleLink() {
    const match = /<(https?:\/\/[^\s<>]{1,2048})>/iy;
    match.lastIndex = this.position;
    const found = match.exec(this.text);
    const url = found && safeUrl(found[1]);
    if (!url) return false;
    this.addLink(url, found[1], found[0].length);
    return true;
  }

  bareLink() {
    const match = /https?:\/\/[^\s<>"'`*\\|[\]{}]{1,2048}/iy;
    match.lastIndex = this.position;
    let shown = match.exec(this.text)?.[0];
    if (!shown) return false;
    const ends = shown.includes("(") ? ".,:;!?~_" : ".,:;!?~_)";
    let length = shown.length;
    while (ends.includes(shown[length - 1])) length--;
    shown = shown.slice(0, length);
    const url = safeUrl(shown);
    if (!url) return false;
    this.addLink(url, shown, shown.length);
    return true;
  }

  addLink(url, shown, length) {
    const inside = this.frames.some((frame) => frame.kind === "[");
    if (inside) this.addText(shown);
    else this.top.nodes.push(link(url, shown));
    this.position += length;
  }

  // Models mean the line breaks that they write.
  lineBreak() {
    const { nodes } = this.top;
    const last = nodes[nodes.length - 1];
    if (typeof last === "string") nodes[nodes.length - 1] = last.trimEnd();
    nodes.push(el("br"));
    this.position += 1;
    return true;
  }
}

function runLength(text, start) {
  let end = start + 1;
  while (text[end] === text[start]) end++;
  return end - start;
}
