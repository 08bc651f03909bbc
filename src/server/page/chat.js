// One answer being generated: the request, its chunks, its figures. Knows nothing of the page.

import { ApiError, streamChat } from "./api.js";
import { samplingOptions, systemPrompt } from "./settings.js";

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

  stop() {
    this.#controller.abort();
  }

  async run(model, past, onprogress) {
    const { message } = this;
    const body = {
      model,
      messages: requestMessages(past, systemPrompt()),
      ...samplingOptions(),
      stream: true,
      stream_options: { include_usage: true },
    };
    let usage = null;
    try {
      for await (const chunk of streamChat(body, this.#controller.signal)) {
        usage = chunk.usage ?? usage;
        const choice = chunk.choices?.[0];
        if (!choice) continue;
        if (choice.finish_reason) message.finish = choice.finish_reason;
        const text = choice.delta?.content || "";
        const reasoning = choice.delta?.reasoning_content || choice.delta?.reasoning || "";
        if (!text && !reasoning) continue;
        this.#count();
        message.content += text;
        message.reasoning += reasoning;
        message.stats = this.#figures(this.#nPieces);
        onprogress(text, reasoning);
      }
      if (usage && this.#nPieces) message.stats = this.#figures(usage.completion_tokens);
    } catch (error) {
      if (error.name === "AbortError") message.finish = "stopped";
      else this.fail(error);
    }
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

  // Pieces stand for tokens until the server says how many there were.
  #figures(n) {
    const seconds = (this.#last - this.#first) / 1000;
    return {
      first_token_s: (this.#first - this.#start) / 1000,
      tokens_per_s: n > 1 && seconds > 0 ? (n - 1) / seconds : null,
      n_tokens: n,
    };
  }
}
