// The choice of a model and how far it is loaded.

import { $, el } from "./dom.js";
import { getJson, postJson } from "./api.js";
import { chosenModel } from "./store.js";
import { toast } from "./toast.js";

const POLL_MS = 400;
const STATES = { ready: "ready", loading: "loading", unloaded: "not loaded", failed: "failed to load" };

export class Models {
  #models = [];
  #timer = 0;
  #onchange;

  constructor(onchange) {
    this.#onchange = onchange;
    $("model").addEventListener("change", () => {
      chosenModel.set($("model").value);
      this.#show();
      this.#follow();
    });
    $("load-model").addEventListener("click", () => (this.#models.length ? this.#load() : this.connect()));
  }

  get current() { return this.#models.find((model) => model.id === $("model").value)?.id ?? ""; }

  // The first contact: what goes wrong is shown, with a way to try again.
  async connect() {
    try {
      await this.refresh();
    } catch (error) {
      $("model").replaceChildren(el("option", {}, "No server"));
      $("model-state").dataset.state = "failed";
      $("model-state").textContent = error.status === 401 ? "needs a key" : "not connected";
      $("load-model").textContent = "Retry";
      $("load-model").hidden = false;
    }
  }

  // Throws what the server could not answer.
  async refresh() {
    const { data } = await getJson("v1/models");
    this.#models = Array.isArray(data) ? data : [];
    const select = $("model");
    const ids = this.#models.map(({ id }) => id);
    if (ids.join("\n") !== Array.from(select.options, (option) => option.value).join("\n")) {
      const wanted = select.disabled ? chosenModel.get() : select.value;
      select.replaceChildren(...(ids.length ? ids : ["No model"]).map((id) => el("option", { value: id }, id)));
      if (ids.includes(wanted)) select.value = wanted;
    }
    select.disabled = ids.length === 0;
    this.#show();
    this.#follow();
  }

  async #load() {
    const model = this.current;
    $("load-model").hidden = true;
    try {
      await postJson("v1/models/load", { model });
      await this.refresh();
    } catch (error) {
      toast(`${error.title ?? "Loading failed"}: ${error.detail ?? error.message}`);
      this.#show();
    }
  }

  // While the chosen model loads, its progress is asked for again and again.
  #follow() {
    clearTimeout(this.#timer);
    const model = this.#models.find(({ id }) => id === this.current);
    if (model?.state === "loading") this.#timer = setTimeout(() => this.refresh().catch(() => this.#follow()), POLL_MS);
  }

  #show() {
    const model = this.#models.find(({ id }) => id === this.current);
    const state = STATES[model?.state] ? model.state : "";
    const fraction = model?.progress;
    const isKnown = typeof fraction === "number";
    const label = $("model-state");
    label.dataset.state = state;
    label.textContent = state === "loading" && isKnown ? `loading ${Math.floor(fraction * 100)} %` : STATES[state] ?? "";
    $("load-model").textContent = "Load";
    $("load-model").hidden = state !== "unloaded" && state !== "failed";
    const progress = $("load-progress");
    progress.hidden = state !== "loading";
    if (isKnown) progress.value = fraction;
    else progress.removeAttribute("value");
    this.#onchange(this.current);
  }
}
