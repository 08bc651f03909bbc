// Server-sent events out of a byte stream, as the HTML standard reads them. Only their data is of interest here.

export class SseParser {
  #rest = ""; // of a line
  #data = null; // lines of the event so far
  #afterReturn = false;
  #isStart = true;

  // The data of every event that this text completes.
  push(text) {
    const events = [];
    if (text === "") return events;
    if (this.#isStart && text.startsWith("\ufeff")) text = text.slice(1);
    this.#isStart = false;
    const endsInReturn = text.endsWith("\r");
    if (this.#afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.#afterReturn = endsInReturn;
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (this.#data !== null) events.push(this.#data.join("\n"));
        this.#data = null;
      } else if (line === "data" || line.startsWith("data:")) {
        const value = line.slice(5);
        (this.#data ??= []).push(value.startsWith(" ") ? value.slice(1) : value);
      }
    }
    return events;
  }
}

export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new SseParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
