// Runs in the page before its own code: answers of /v1/chat/completions come from the test, piece by piece.
//   window.asked           bodies of the requests so far
//   window.feed(text)      a piece of the running answer;  window.feedThought(text), window.feedCall(index, part)
//                           window.finish(n_tokens, rate, n_prompt_tokens), window.fail(error), window.hangUp()
//   window.nextStatus      {status, headers, error}: the next request is refused with it;  window.alwaysStatus: all are
export function scriptedAnswers() {
  const realFetch = window.fetch;
  const encoder = new TextEncoder();
  let controller = null;
  const send = (object) =>
    controller.enqueue(encoder.encode(`data: ${typeof object === "string" ? object : JSON.stringify(object)}\n\n`));
  const chunk = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }], usage: null });
  window.asked = [];
  window.isAborted = false;
  window.feed = (text) => chunk({ content: text });
  window.feedThought = (text) => chunk({ reasoning_content: text });
  window.feedCall = (index, part) => chunk({ tool_calls: [{ index, ...part }] });
  window.finish = (n = 5, rate = null, n_prompt = 3) => {
    chunk({}, "stop");
    const usage = { prompt_tokens: n_prompt, completion_tokens: n, total_tokens: n + n_prompt };
    send({ choices: [], usage, ...(rate ? { timings: { predicted_per_second: rate } } : {}) });
    send("[DONE]");
    controller.close();
  };
  window.fail = (message) => {
    send({ error: { message, type: "server_error", param: null, code: null } });
    controller.close();
  };
  window.hangUp = () => controller.close();
  window.fetch = async (url, options) => {
    if (!String(url).endsWith("v1/chat/completions")) return realFetch(url, options);
    window.asked.push(JSON.parse(options.body));
    if (window.nextStatus ?? window.alwaysStatus) {
      const { status, headers, error } = window.nextStatus ?? window.alwaysStatus;
      window.nextStatus = null;
      return new Response(JSON.stringify({ error }), { status, headers });
    }
    window.isAborted = false;
    const body = new ReadableStream({
      start(c) {
        controller = c;
        options.signal.addEventListener("abort", () => {
          window.isAborted = true;
          c.error(new DOMException("aborted", "AbortError"));
        });
      },
    });
    chunk({ role: "assistant", content: "" });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
}
