// How much of a conversation is sent and how long the answer may become, so that both fit into the model's context and
// leave room for a next question. Tokens are guessed from the text; the server's counts correct the guess.

const TOKENS_PER_CHARACTER = 0.4; // until the server has counted
const TOKENS_PER_MESSAGE = 8; // what a template puts around one
const MARGIN = 1.1;
const LEAST_SHARE = 0.25; // of the context, for the answer: for less the oldest messages are left out
const MIN_CHARACTERS = 200; // fewer tell nothing of the whole

const nCharacters = (messages) => messages.reduce((sum, { content }) => sum + content.length, 0);

function guess(messages, tokensPerCharacter) {
  return Math.ceil(nCharacters(messages) * tokensPerCharacter * MARGIN) + TOKENS_PER_MESSAGE * messages.length;
}

// What the server's count of these messages says of the next ones; null where it says nothing.
export function measure(messages, nTokens) {
  const n = nCharacters(messages);
  if (n < MIN_CHARACTERS || !Number.isFinite(nTokens)) return null;
  return Math.max(0.05, (nTokens - TOKENS_PER_MESSAGE * messages.length) / n);
}

// The value that the last answer's count gave, if any did.
export function lastMeasure(messages) {
  const known = messages.findLast(({ stats }) => stats?.tokens_per_character > 0);
  return known?.stats.tokens_per_character ?? TOKENS_PER_CHARACTER;
}

// messages: of the conversation, the last one the question. nContext 0: not known, nothing is left out.
// Returns {nOmitted, maxTokens}: how many of the oldest are left out, and the limit of the answer (null: the server's).
export function fit(messages, { system = "", nContext = 0, tokensPerCharacter, maxTokens = null }) {
  if (!nContext) return { nOmitted: 0, maxTokens };
  const nSystem = system ? guess([{ content: system }], tokensPerCharacter) : 0;
  const wanted = Math.min(maxTokens ?? Infinity, Math.floor(nContext * LEAST_SHARE));
  const size = (nOmitted) => nSystem + guess(messages.slice(nOmitted), tokensPerCharacter);
  let nOmitted = 0;
  while (nOmitted < messages.length - 1 && size(nOmitted) + wanted > nContext) {
    do nOmitted++;
    while (nOmitted < messages.length - 1 && messages[nOmitted].role !== "user"); // what is sent begins with a question
  }
  const left = Math.max(1, nContext - size(nOmitted));
  return { nOmitted, maxTokens: maxTokens ? Math.min(maxTokens, left) : Math.max(1, Math.floor(left / 2)) };
}
