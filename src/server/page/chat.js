// One answer being generated: the request, its chunks, its figures. Knows nothing of the page.

import { ApiError, streamChat } from "./api.js";
import { fit, lastMeasure, measure } from "./context.js";
import { samplingOptions, shapeOptions, systemPrompt } from "./settings.js";

const MAX_ATTEMPTS = 4;
const MIN_RATE_TOKENS = 8; // the rate of fewer tokens is chance
const MIN_RATE_SECONDS = 0.25; // pieces that arrive together tell when they arrived, not when they were made

// Templates want the roles to alternate: failed answers are left out, what then stands side by side is joined.
export function requestMessages(messages, system) {
  const result = system ? [{ role: "system", content: system }] : [];
  for (const { role, content } of messages) {
    const last = result[result.length - 1];
    if (content === "") continue;
    if (last?.role === role) last.content += `\n\n${content}`;
    else result.push({ role, content });
  }
  return result;
}

// Fills `message` while the answer arrives. onprogress(text, reasoning) after every piece; never throws.
export class Generation {
  #controller = new AbortController();
  #start = performance.now();
  #first = 0;
  #last = 0;
  #nPieces = 0;

  constructor(conversation, message) {
    this.conversation = conversation;
    this.message = message;
  }

  // `reason` is what the answer's end is called.
  stop(reason = "stopped") {
    if (this.#controller.signal.aborted) return;
    this.message.finish = reason;
    this.#controller.abort();
  }

  // model: {id, nContext}, the latter 0 where it is not known.
  async run(model, past, onprogress) {
    const { max_tokens: asked = null, ...sampling } = samplingOptions();
    const options = { ...sampling, ...shapeOptions() };
    const system = systemPrompt();
    let { nContext } = model;
    let tokensPerCharacter = lastMeasure(past);
    try {
      for (let attempt = 1; ; attempt++) {
        const fitted = fit(past, { system, nContext, tokensPerCharacter, maxTokens: asked });
        this.message.omitted = fitted.nOmitted || undefined;
        const limit = fitted.maxTokens ? { max_tokens: fitted.maxTokens } : {};
        const messages = requestMessages(past.slice(fitted.nOmitted), system);
        try {
          return await this.#stream({ model: model.id, messages, ...options, ...limit }, onprogress);
        } catch (error) {
          // The server has counted: once more with what it says, if that changes anything.
          const { n_ctx, n_prompt_tokens } = error.more ?? {};
          if (error.code !== "context_length_exceeded" || attempt === MAX_ATTEMPTS || !(n_ctx > 0)) throw error;
          nContext = n_ctx;
          tokensPerCharacter = Math.max(measure(messages, n_prompt_tokens) ?? 0, tokensPerCharacter * 1.3);
          if (past.length - fitted.nOmitted <= 1 && n_prompt_tokens >= n_ctx) throw error; // the question alone
        }
      }
    } catch (error) {
      if (this.#controller.signal.aborted) return; // stop() has said why
      this.fail(error);
    }
  }

  async #stream(body, onprogress) {
    const { message } = this;
    const request = { ...body, stream: true, stream_options: { include_usage: true } };
    let usage = null;
    let timings = null;
    for await (const chunk of streamChat(request, this.#controller.signal)) {
      usage = chunk.usage ?? usage;
      timings = chunk.timings ?? timings;
      const choice = chunk.choices?.[0];
      if (!choice) continue;
      if (choice.finish_reason) message.finish = choice.finish_reason;
      const text = choice.delta?.content || "";
      const reasoning = choice.delta?.reasoning_content || choice.delta?.reasoning || "";
      const calls = choice.delta?.tool_calls ?? [];
      if (!text && !reasoning && !calls.length) continue;
      for (const call of calls) this.#addCall(call);
      this.#count();
      message.content += text;
      message.reasoning += reasoning;
      message.stats = this.#figures(this.#nPieces);
      onprogress(text, reasoning);
    }
    if (!usage || !this.#nPieces) return;
    message.stats = this.#figures(usage.completion_tokens, timings);
    const all = [...body.messages, { content: message.content + message.reasoning }];
    message.stats.tokens_per_character = measure(all, usage.prompt_tokens + usage.completion_tokens);
  }

  // A call comes in pieces: its name first, then parts of its arguments.
  #addCall({ index = 0, function: part = {} }) {
    const calls = (this.message.calls ??= []);
    const call = (calls[index] ??= { name: "", arguments: "" });
    call.name += part.name ?? "";
    call.arguments += part.arguments ?? "";
  }

  fail(error) {
    const { title, detail, code } = error instanceof ApiError ? error : new ApiError("The page failed", String(error));
    this.message.error = { title, detail, code };
  }

  #count() {
    this.#last = performance.now();
    this.#first ||= this.#last;
    this.#nPieces++;
  }

  // Pieces stand for tokens until the server says how many there were. Its own times are those of the tokens; what is
  // measured here is when they arrived.
  #figures(n, timings = null) {
    const seconds = (this.#last - this.#first) / 1000;
    const measured = seconds >= MIN_RATE_SECONDS ? (n - 1) / seconds : null;
    const rate = timings?.predicted_per_second ?? measured;
    return {
      first_token_s: (this.#first - this.#start) / 1000,
      tokens_per_s: n >= MIN_RATE_TOKENS ? rate : null,
      n_tokens: n,
    };
  }
}
