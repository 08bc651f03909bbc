// Markdown as models write it, rendered while it arrives: finished blocks are never touched again, only the last block
// (of a list the last item, of a table the last row, of code the last line) is built anew with each render().

import { appendAll, copyFrom, el, iconButton } from "./dom.js";
import { renderInline } from "./inline.js";

const MAX_DEPTH = 12;
const MAX_COLUMNS = 64;
const MAX_MATH_LINES = 200;
// None of these may need more than linear time on any line.
const FENCE = /^( {0,3})(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*))?$/s;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|(\d{1,9})[.)])(?: ( *)(.*))?$/s;

export function renderMarkdown(root, text) {
  const view = new MarkdownView(root);
  view.append(text);
  view.render(true);
}

// Blocks. A block's `line` is its first line; `lines` may end in the middle of the last one.

function leading(line) {
  let n = 0;
  while (line[n] === " ") n++;
  return n;
}

function matchItem(line) {
  const match = ITEM.exec(line);
  if (!match || RULE.test(line)) return null;
  const indent = match[1].length;
  const extra = (match[4] ?? "").length;
  return {
    indent,
    ordered: match[3] !== undefined,
    number: Number(match[3] ?? 0),
    contentIndent: indent + match[2].length + 1 + (extra < 4 ? extra : 0),
    first: match[5] === undefined ? "" : extra < 4 ? match[5] : match[4] + match[5],
  };
}

function closesFence(line, fence) {
  const match = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line);
  return match !== null && match[1][0] === fence[0] && match[1].length >= fence.length;
}

function tableCells(line) {
  let text = line.trim();
  if (text.startsWith("|")) text = text.slice(1);
  if (text.endsWith("|") && !text.endsWith("\\|")) text = text.slice(0, -1);
  return text.split(/(?<!\\)\|/, MAX_COLUMNS).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function tableAlignments(head, delimiter) {
  if (!head.includes("|") || delimiter === undefined || !/^[\s|:-]+$/.test(delimiter) || !delimiter.includes("-"))
    return null;
  const cells = tableCells(delimiter);
  if (cells.length !== tableCells(head).length || !cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : ""));
}

function startsBlock(line) {
  const item = matchItem(line);
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    RULE.test(line) ||
    QUOTE.test(line) ||
    (item !== null && item.first !== "" && (!item.ordered || item.number === 1))
  );
}

// The line in which a formula that this line opens is closed: within it nothing begins a block. The line itself where
// it opens none, or where an empty line comes first. A formula that is still being written goes on to the end.
function endOfMath(lines, at) {
  const line = lines[at];
  const open = line.lastIndexOf("\\[");
  const isDollars = /^\s*\$\$/.test(line);
  if (open < 0 && !isDollars) return at;
  const close = isDollars ? "$$" : "\\]";
  if (line.includes(close, isDollars ? line.indexOf("$$") + 2 : open)) return at;
  for (let end = at + 1; end < lines.length; end++) {
    if (end - at > MAX_MATH_LINES) return at;
    if (lines[end].trim() === "") return end === lines.length - 1 ? end - 1 : at;
    if (lines[end].includes(close)) return end;
  }
  return lines.length - 1;
}

function parseBlocks(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === "") {
      at++;
      continue;
    }
    const block = { line: at, ...parseBlock(lines, at, depth) };
    at = block.end;
    blocks.push(block);
  }
  return blocks;
}

function parseBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return parseFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    return {
      type: "heading",
      level: heading[1].length,
      text: (heading[2] ?? "").replace(/\s#+\s*$/, "").trim(),
      end: at + 1,
    };
  }
  if (RULE.test(line)) return { type: "rule", end: at + 1 };
  if (depth < MAX_DEPTH) {
    if (QUOTE.test(line)) return parseQuote(lines, at);
    if (matchItem(line)) return parseList(lines, at);
  }
  const alignments = tableAlignments(line, lines[at + 1]);
  if (alignments) return parseTable(lines, at, alignments);
  let end = endOfMath(lines, at) + 1;
  while (end < lines.length && lines[end].trim() !== "" && !startsBlock(lines[end])) end = endOfMath(lines, end) + 1;
  return {
    type: "paragraph",
    text: lines
      .slice(at, end)
      .map((part) => part.trimStart())
      .join("\n")
      .trimEnd(),
    end,
  };
}

function parseFence(lines, at, [, indent, fence, info]) {
  const language = info.trim().split(/\s/, 1)[0].slice(0, 32);
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end], fence)) end++;
  const code = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent.length, leading(line))));
  return { type: "code", fence, indent: indent.length, language, code, closed: end < lines.length, end: end + 1 };
}

function parseQuote(lines, at) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  return { type: "quote", lines: lines.slice(at, end).map((line) => line.replace(QUOTE, "")), end };
}

// A line belongs to the item before it when it is indented by two more than the item's marker, or goes on a paragraph.
function parseList(lines, at) {
  const { ordered, number } = matchItem(lines[at]);
  const items = [];
  let end = at;
  let item = null;
  while (end < lines.length) {
    const line = lines[end];
    const isBlank = line.trim() === "";
    const isInside = item !== null && leading(line) >= item.indent + 2;
    if (isBlank || isInside) {
      item.lines.push(line.slice(Math.min(leading(line), item.contentIndent)));
    } else {
      const next = matchItem(line);
      if (next && next.ordered === ordered) {
        item = { line: end, indent: next.indent, contentIndent: next.contentIndent, lines: [next.first] };
        items.push(item);
      } else if (next || startsBlock(line) || lines[end - 1].trim() === "") {
        break;
      } else {
        item.lines.push(line);
      }
    }
    end++;
  }
  return { type: "list", ordered, number, items, end };
}

function parseTable(lines, at, alignments) {
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && lines[end].trim() !== "" && !startsBlock(lines[end]); end++) {
    rows.push({ line: end, cells: tableCells(lines[end]) });
  }
  return { type: "table", source: lines.slice(at, at + 2), head: tableCells(lines[at]), alignments, rows, end };
}

// Nodes.

function renderBlocks(lines, depth) {
  return parseBlocks(lines, depth).map((block) => renderBlock(block, depth));
}

function renderBlock(block, depth) {
  switch (block.type) {
    case "heading":
      return el(`h${Math.min(block.level + 2, 6)}`, { dir: "auto" }, renderInline(block.text));
    case "rule":
      return el("hr");
    case "code":
      return codeBlock(block.language, block.code.join("\n")).root;
    case "quote":
      return el("blockquote", {}, renderBlocks(block.lines, depth + 1));
    case "list":
      return listOf(
        block,
        block.items.map((item) => listItem(item, depth)),
      );
    case "table":
      return tableOf(block, block.rows).root;
    default:
      return el("p", { dir: "auto" }, renderInline(block.text));
  }
}

function codeBlock(language, text) {
  const code = el("code");
  const settled = document.createTextNode(text);
  code.append(settled);
  const button = iconButton("copy", "Copy code", () => copyFrom(button, code.textContent));
  const label = language ? `Code, ${language}` : "Code";
  const root = el(
    "div.code",
    {},
    el("div.code-bar", {}, el("span", {}, language || "text"), button),
    el("pre", { tabindex: "0", role: "region", "aria-label": label }, code),
  );
  return { root, code, settled };
}

function listOf(block, items) {
  if (!block.ordered) return el("ul", {}, items);
  return el("ol", { start: block.number === 1 ? null : block.number }, items);
}

// An item of one paragraph is its text alone.
function listItem(item, depth) {
  const lines = [...item.lines];
  lines[0] = lines[0].replace(/^\[ \] /, "\u2610 ").replace(/^\[[xX]\] /, "\u2611 ");
  const nodes = renderBlocks(lines, depth + 1);
  const isText = nodes.length > 0 && nodes[0].tagName === "P" && !nodes.slice(1).some((node) => node.tagName === "P");
  return el("li", { dir: "auto" }, isText ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes);
}

function tableOf(block, rows) {
  const cell = (tag) => (text, column) =>
    el(block.alignments[column] ? `${tag}.${block.alignments[column]}` : tag, { dir: "auto" }, renderInline(text));
  const row = ({ cells }) => el("tr", {}, block.head.map((_, i) => cells[i] ?? "").map(cell("td")));
  const body = el("tbody", {}, rows.map(row));
  const table = el("table", {}, el("thead", {}, el("tr", {}, block.head.map(cell("th")))), body);
  return { root: el("div.table", { tabindex: "0", role: "region", "aria-label": "Table" }, table), body, row };
}

export class MarkdownView {
  #root;
  #tail = ""; // source that is not settled yet
  #provisional = []; // its nodes
  #open = null; // the list, table or code that the tail may go on with

  constructor(root) {
    this.#root = root;
  }

  append(text) {
    this.#tail += text.replaceAll("\0", "\ufffd");
  }

  // With isEnd the text is complete: what looked like the beginning of something else is shown as it is.
  render(isEnd = false) {
    for (const node of this.#provisional) node.remove();
    this.#provisional = [];
    if (this.#open?.type === "code" && !this.#continueCode(isEnd)) return;
    const lines = this.#tail
      .split("\n")
      .map((line) => line.replace(/\r$/, "").replace(/^\t+/, (tabs) => "    ".repeat(tabs.length)));
    const blocks = parseBlocks(lines, 0);
    if (blocks.length === 0) return;
    for (const block of blocks.slice(0, -1)) this.#settle(block);
    const last = blocks[blocks.length - 1];
    if (last.type === "list") this.#continueList(last);
    else if (last.type === "table") this.#continueTable(last);
    else {
      this.#open = null;
      if (last.type === "code" && !last.closed && last.line < lines.length - 1) this.#openCode(last, isEnd);
      else this.#showUnsettled(this.#root, renderBlock(last, 0), last.line);
    }
  }

  #settle(block) {
    const open = this.#open?.type === block.type ? this.#open : null;
    this.#open = null;
    if (open && block.type === "list" && open.ordered === block.ordered) {
      appendAll(
        open.element,
        block.items.map((item) => listItem(item, 0)),
      );
    } else if (open && block.type === "table") {
      appendAll(open.table.body, block.rows.map(open.table.row));
    } else {
      this.#root.append(renderBlock(block, 0));
    }
  }

  #showUnsettled(parent, node, line, prefix = "") {
    parent.append(node);
    this.#provisional.push(node);
    this.#tail = prefix + dropLines(this.#tail, line);
  }

  #continueList(block) {
    const item = block.items[block.items.length - 1];
    const before = block.items.slice(0, -1).map((other) => listItem(other, 0));
    if (this.#open?.type !== "list" || this.#open.ordered !== block.ordered) {
      this.#open = null;
      if (before.length === 0) return this.#showUnsettled(this.#root, listOf(block, [listItem(item, 0)]), block.line);
      this.#open = { type: "list", ordered: block.ordered, element: listOf(block, []) };
      this.#root.append(this.#open.element);
    }
    appendAll(this.#open.element, before);
    this.#showUnsettled(this.#open.element, listItem(item, 0), item.line);
  }

  #continueTable(block) {
    const row = block.rows[block.rows.length - 1];
    const before = block.rows.slice(0, -1);
    if (this.#open?.type !== "table") {
      this.#open = null;
      if (before.length === 0) return this.#showUnsettled(this.#root, renderBlock(block, 0), block.line);
      this.#open = { type: "table", table: tableOf(block, []) };
      this.#root.append(this.#open.table.root);
    }
    const { table } = this.#open;
    appendAll(table.body, before.map(table.row));
    // The head goes along, so that the rest is read as a table again.
    if (row) this.#showUnsettled(table.body, table.row(row), row.line, `${block.source.join("\n")}\n`);
  }

  #openCode(block, isEnd) {
    const view = codeBlock(block.language, "");
    const pending = document.createTextNode("");
    view.code.append(pending);
    this.#root.append(view.root);
    this.#tail = dropLines(this.#tail, block.line + 1);
    this.#open = { type: "code", fence: block.fence, indent: block.indent, settled: view.settled, pending, nLines: 0 };
    this.#continueCode(isEnd);
  }

  // Takes code lines off the tail. True: the block is closed and what follows is in the tail.
  #continueCode(isEnd) {
    const open = this.#open;
    const lines = this.#tail.split("\n").map((line) => line.replace(/\r$/, ""));
    const show = (line) => (open.nLines++ ? "\n" : "") + line.slice(Math.min(open.indent, leading(line)));
    let text = "";
    for (let at = 0; at < lines.length - 1; at++) {
      if (closesFence(lines[at], open.fence)) {
        open.settled.appendData(text);
        open.pending.remove();
        this.#open = null;
        this.#tail = dropLines(this.#tail, at + 1);
        return true;
      }
      text += show(lines[at]);
    }
    open.settled.appendData(text);
    const rest = lines[lines.length - 1];
    this.#tail = dropLines(this.#tail, lines.length - 1);
    const isClosed = isEnd && closesFence(rest, open.fence);
    const mayClose = !isEnd && /^ {0,3}(`+|~+)\s*$/.test(rest) && rest.trim()[0] === open.fence[0];
    open.pending.data =
      rest === "" || isClosed || mayClose
        ? ""
        : (open.nLines ? "\n" : "") + rest.slice(Math.min(open.indent, leading(rest)));
    return false;
  }
}

function dropLines(text, n) {
  let at = 0;
  for (; n > 0; n--) at = text.indexOf("\n", at) + 1;
  return text.slice(at);
}
