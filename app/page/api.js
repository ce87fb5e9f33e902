// Requests to the server of this page, with the API key if one is needed. Every error is a Problem.

const KEY = "smoothcert.key";
let keyPrompt = null;  // a promise while the user is asked for a key
let askForKey = null;

export class Problem extends Error {
  constructor(fields) {
    super(fields.detail || fields.title);
    Object.assign(this, { title: "", detail: "", code: "", status: 0, request_id: "", errors: [] }, fields);
  }
}

export const storedKey = () => sessionStorage.getItem(KEY);
export const forgetKey = () => sessionStorage.removeItem(KEY);

// `show(problem, attempt)` asks the user for a key; `attempt(key)` returns the problem that the server has with it, or
// null if the key is accepted.
export function onKeyWanted(show) {
  askForKey = show;
}

function newKey(problem) {
  keyPrompt ??= new Promise((resolve) => {
    askForKey(problem, async (key) => {
      const strange = [...key].findIndex((each) => !/[!-~]/.test(each));
      if (strange >= 0) return strangeKey(key, strange);
      const answer = await send("/v1/ensembles", {}, key);
      if (answer.status === 401 || answer.status === 429) return problemOf(answer);
      sessionStorage.setItem(KEY, key);
      keyPrompt = null;
      resolve();
      return null;
    });
  });
  return keyPrompt;
}

// The problem with a key that no header can carry: the browser would say that the server cannot be reached.
function strangeKey(key, place) {
  const code = [...key][place].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  const detail = `Its character ${place + 1} is U+${code}; keys are ASCII letters, digits and signs, without spaces.`;
  return new Problem({ title: "This cannot be a key", detail });
}

async function send(path, options, key) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server cannot be reached", detail: String(error.message), code: "unreachable" });
  }
}

async function problemOf(answer) {
  const text = await answer.text();
  try {
    return new Problem(JSON.parse(text));
  } catch {
    return new Problem({ title: `The server answered ${answer.status}`, detail: text.slice(0, 500), code: "unknown" });
  }
}

async function answered(path, options = {}) {
  for (;;) {
    const answer = await send(path, options, storedKey());
    if (answer.ok) return answer;
    const problem = await problemOf(answer);
    if (answer.status !== 401) throw problem;
    await newKey(problem);
  }
}

export async function get(path, options) {
  return (await answered(path, options)).json();
}

export async function blob(path) {
  return (await answered(path)).blob();
}

export async function post(path, body, options = {}) {
  const form = body instanceof FormData;
  const headers = form ? options.headers : { "Content-Type": "application/json", ...options.headers };
  const sent = form ? body : JSON.stringify(body);
  return (await answered(path, { ...options, method: "POST", headers, body: sent })).json();
}

// Send a file as it is now. One that can no longer be read would make the request fail without a reason.
export async function postFile(path, file) {
  return (await answered(path, { method: "POST", body: await contents(file) })).json();
}

export async function contents(file) {
  try {
    return new Blob([await file.arrayBuffer()], { type: file.type });
  } catch {
    const detail = `${file.name} was changed, moved or deleted after it was chosen: choose it again.`;
    throw new Problem({ title: "A file cannot be read", detail });
  }
}

// Server-sent events, read with fetch: an EventSource cannot send a key.
export async function* events(path, last, signal) {
  const headers = { Accept: "text/event-stream", "Last-Event-ID": last };
  const answer = await answered(path, { headers, signal });
  if (answer.status === 204) return;
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = block.split("\n").filter((line) => !line.startsWith(":")).map((line) => line.split(/: (.*)/s));
      const event = Object.fromEntries(fields);
      if (event.data) yield { name: event.event, id: event.id, data: JSON.parse(event.data) };
    }
  }
}
