// The settings drawer: the system prompt, how answers are sampled, what they must look like, and the tools offered.

import { $, el } from "./dom.js";
import { settings } from "./store.js";

const FIELDS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, hint: "0: always the likeliest" },
  { name: "max_tokens", label: "Max tokens", min: 1, max: 1000000, step: 1, hint: "By default half of what is left" },
  { name: "top_p", label: "Top-p", min: 0, max: 1, step: 0.01, hint: "0 to 1" },
  { name: "top_k", label: "Top-k", min: 0, max: 1000000, step: 1, hint: "0: off" },
  { name: "min_p", label: "Min-p", min: 0, max: 1, step: 0.01, hint: "0 to 1" },
  { name: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, hint: "Repeats an answer" },
  { name: "repeat_penalty", label: "Repeat penalty", min: 0.1, max: 5, step: 0.05, hint: "1: off" },
  { name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1, hint: "-2 to 2" },
  { name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1, hint: "-2 to 2" },
];

// Texts of JSON. `member` is what goes into a request.
const JSON_FIELDS = [
  {
    name: "schema",
    label: "JSON schema",
    hint: "Answers are JSON of this schema.",
    wanted: "a JSON schema: an object",
    isFit: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    member: (schema) => ({ response_format: { type: "json_schema", json_schema: { name: "answer", schema } } }),
  },
  {
    name: "tools",
    label: "Tools",
    hint: 'Functions that the model may call: [{"name": ..., "description": ..., "parameters": ...}]. Calls are shown.',
    wanted: "an array of functions, each with a name",
    isFit: (value) => Array.isArray(value) && value.length > 0 && value.every((one) => functionOf(one)),
    member: (tools) => ({ tools: tools.map((one) => ({ type: "function", function: functionOf(one) })) }),
  },
];

// Of a tool as OpenAI writes it, or of a function alone.
function functionOf(tool) {
  const found = tool?.function ?? tool;
  return typeof found?.name === "string" ? found : null;
}

// The value of a JSON field's text; null where it is not used.
function fitValue({ isFit }, text) {
  try {
    const value = JSON.parse(text);
    return isFit(value) ? value : null;
  } catch {
    return null;
  }
}

const isValid = ({ min, max, step }, value) =>
  typeof value === "number" && value >= min && value <= max && (step !== 1 || Number.isInteger(value));

// What is wrong with a field's value, and what is used instead.
function problem({ min, max, step }) {
  const number = step === 1 ? "a whole number" : "a number";
  const range = max >= 1e6 ? `from ${min}` : `from ${min} to ${max}`;
  return `Not used: must be ${number} ${range}. The default is used.`;
}

// What goes into a request: valid values only.
export function samplingOptions() {
  const stored = settings.load();
  return Object.fromEntries(
    FIELDS.filter((field) => isValid(field, stored[field.name])).map(({ name }) => [name, stored[name]]),
  );
}

export function shapeOptions() {
  const stored = settings.load();
  const used = JSON_FIELDS.map((field) => [field, fitValue(field, stored[field.name])]).filter(([, value]) => value);
  return Object.assign({}, ...used.map(([field, value]) => field.member(value)));
}

export function systemPrompt() {
  const { system } = settings.load();
  return typeof system === "string" ? system.trim() : "";
}

export function setUpSettings() {
  const dialog = $("settings");
  const inputs = FIELDS.map(makeField);
  const shapes = JSON_FIELDS.map(makeJsonField);
  const system = $("set-system");

  const show = () => {
    const stored = settings.load();
    system.value = typeof stored.system === "string" ? stored.system : "";
    FIELDS.forEach((field, i) => {
      inputs[i].value = isValid(field, stored[field.name]) ? stored[field.name] : "";
      showHint(field, inputs[i]);
    });
    JSON_FIELDS.forEach((field, i) => {
      shapes[i].value = typeof stored[field.name] === "string" ? stored[field.name] : "";
      showJsonHint(field, shapes[i]);
    });
  };
  const save = () => {
    const values = { system: system.value };
    FIELDS.forEach((field, i) => {
      if (isValid(field, inputs[i].valueAsNumber)) values[field.name] = inputs[i].valueAsNumber;
      showHint(field, inputs[i]);
    });
    JSON_FIELDS.forEach((field, i) => {
      if (shapes[i].value.trim()) values[field.name] = shapes[i].value;
      showJsonHint(field, shapes[i]);
    });
    settings.save(values);
  };
  $("settings-form").addEventListener("input", save);
  $("reset-settings").addEventListener("click", () => {
    settings.save({});
    show();
    system.focus();
  });
  $("open-settings").addEventListener("click", () => {
    show();
    dialog.showModal();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the backdrop
  });
}

// A field that holds no number the browser can read is not empty, though its value is.
function showHint(field, input) {
  const isWrong = input.validity.badInput || (input.value !== "" && !isValid(field, input.valueAsNumber));
  input.setAttribute("aria-invalid", String(isWrong));
  $(`${input.id}-hint`).textContent = isWrong ? problem(field) : field.hint;
}

function showJsonHint(field, area) {
  const isWrong = area.value.trim() !== "" && fitValue(field, area.value) === null;
  area.setAttribute("aria-invalid", String(isWrong));
  $(`${area.id}-hint`).textContent = isWrong ? `Not used: must be ${field.wanted}.` : field.hint;
}

function makeJsonField({ name, label, hint }) {
  const id = `set-${name}`;
  const area = el("textarea.code", {
    id,
    rows: 3,
    placeholder: "None",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": `${id}-hint`,
  });
  $("shape").append(
    el("div.field", {}, el("label", { for: id }, label), area, el("p.hint", { id: `${id}-hint` }, hint)),
  );
  return area;
}

function makeField({ name, label, min, max, step, hint }) {
  const id = `set-${name}`;
  const isWhole = Number.isInteger(step);
  const input = el("input", {
    id,
    type: "number",
    min,
    max,
    step: isWhole ? step : "any",
    inputmode: isWhole ? "numeric" : "decimal",
    placeholder: "default",
    "aria-describedby": `${id}-hint`,
  });
  $("sampling").append(
    el("div.field", {}, el("label", { for: id }, label), input, el("p.hint", { id: `${id}-hint` }, hint)),
  );
  return input;
}
