// The choice of a model and how far it is loaded. A model that is ready answers at once; its weights come in with the
// first request, and while they do the progress is shown.

import { $, el } from "./dom.js";
import { getJson, postJson } from "./api.js";
import { chosenModel } from "./store.js";
import { toast } from "./toast.js";

const POLL_MS = 400;
const MAX_POLLS_WITHOUT_CHANGE = 20; // what does not move any more is all that is wanted of the weights
const STATES = { ready: "ready", loading: "loading", unloaded: "not loaded", failed: "failed to load" };

// An error is told as a text or as an object with one.
function messageOf(error) {
  const text = error?.message ?? error;
  return typeof text === "string" ? text : "";
}

// A model that is not told who speaks goes on with what it is given.
export const continuesText = (model) => ["joined", "none"].includes(model?.chatTemplate);

// What a person should know of a model before asking it; empty where there is nothing to tell.
export function noticeOf(model) {
  if (model?.state === "failed" && model.error) return `${model.id} could not be loaded: ${model.error}`;
  if (model?.chatTemplate === "joined") return "This model continues text: it does not answer questions.";
  if (model?.chatTemplate === "none")
    return "This model’s file has no chat template: it continues text and may not answer questions.";
  return "";
}

export class Models {
  #models = []; // {id, nContext, chatTemplate, state, progress, told, error}, as far as known
  #onchange;
  #timer = 0;
  #action = null; // of the button beside the model
  #lastSeen = "";
  #nUnchanged = 0;

  // onchange(): the model, or what is known of it, is another.
  constructor(onchange) {
    this.#onchange = onchange;
    $("model").addEventListener("change", () => {
      chosenModel.set($("model").value);
      this.#show();
    });
    $("load-model").addEventListener("click", () => this.#action());
  }

  // The name to ask for; empty before the server was reached.
  get current() {
    return this.chosen?.id ?? "";
  }

  get chosen() {
    return this.#models.find(({ id }) => id === $("model").value);
  }

  // As refresh(), but what goes wrong is shown, with a way to try again, and returned.
  async connect() {
    try {
      await this.refresh();
      return null;
    } catch (error) {
      const needsKey = error.status === 401;
      if (!this.current) $("model").replaceChildren(el("option", {}, "No model"));
      $("model-state").dataset.state = "failed";
      $("model-state").textContent = needsKey ? "needs a key" : "not connected";
      this.#offer(needsKey ? "Enter key" : "Retry", () => this.connect());
      return error;
    }
  }

  // Throws what the server could not answer.
  async refresh() {
    const { data } = await getJson("v1/models");
    this.#models = data.map(({ id, context_length, meta, state, error }) => ({
      id,
      nContext: context_length > 0 ? context_length : 0,
      chatTemplate: meta?.chat_template ?? "",
      state,
      told: messageOf(error),
      error: messageOf(error),
    }));
    this.#fillChoice();
    await this.update();
  }

  // How far the models are. Needs no key and never fails: without an answer nothing is claimed.
  async update() {
    const health = await getJson("health").catch(() => null);
    for (const model of this.#models) {
      const found = health?.models?.find(({ name }) => name === model.id);
      const { state, progress, error } = found ?? { state: health ? model.state : undefined };
      Object.assign(model, { state, progress, error: state === "failed" ? model.told || messageOf(error) : "" });
    }
    this.#show();
  }

  async #load() {
    try {
      await postJson("v1/models/load", { model: this.current });
      await this.update();
    } catch (error) {
      toast(`${error.title}: ${error.detail}`);
    }
  }

  #fillChoice() {
    const select = $("model");
    const ids = this.#models.map(({ id }) => id);
    if (ids.join("\n") !== Array.from(select.options, (option) => option.value).join("\n")) {
      const wanted = select.disabled ? chosenModel.get() : select.value;
      select.replaceChildren(...(ids.length ? ids : ["No model"]).map((id) => el("option", { value: id }, id)));
      if (ids.includes(wanted)) select.value = wanted;
    }
    select.disabled = ids.length === 0;
  }

  #show() {
    const { state = "", progress } = this.chosen ?? {};
    const isComing = state === "ready" && progress > 0 && progress < 1 && this.#isMoving();
    const isLoading = state === "loading" || isComing;
    const label = $("model-state");
    label.title = state === "failed" ? (this.chosen?.error ?? "") : "";
    label.dataset.state = isLoading ? "loading" : state;
    label.textContent = isLoading && progress > 0 ? `loading ${Math.floor(progress * 100)} %` : (STATES[state] ?? "");
    this.#offer(state === "unloaded" || state === "failed" ? "Load" : "", () => this.#load());
    const bar = $("load-progress");
    bar.hidden = !isLoading;
    if (progress > 0) bar.value = progress;
    else bar.removeAttribute("value");
    this.#follow(isLoading);
    this.#onchange();
  }

  #isMoving() {
    const seen = JSON.stringify(this.chosen);
    this.#nUnchanged = seen === this.#lastSeen ? this.#nUnchanged + 1 : 0;
    this.#lastSeen = seen;
    return this.#nUnchanged <= MAX_POLLS_WITHOUT_CHANGE;
  }

  #follow(isLoading) {
    clearTimeout(this.#timer);
    if (isLoading) this.#timer = setTimeout(() => this.update(), POLL_MS);
  }

  #offer(label, action) {
    this.#action = action;
    $("load-model").textContent = label;
    $("load-model").hidden = !label;
  }
}
