/**
 * Calls of the coordinator, and whether it answers.
 *
 * call("GetJob", {job: "7"}, {signal}) → Promise of the message; rejects with ApiError
 * whenAllowed(show) calls show(may) once it is known; may("CancelJobs", job) → boolean
 * ApiError {code, what, why, fix, status}: status 0 is "no answer", 401 "not signed in"
 * onConnection(listener) → stop; connection() is "ok", "gone" or "signed-out"
 * int("12") → 12, number("NaN") → NaN: protobuf JSON has 64-bit numbers as strings and leaves out defaults
 */
// @ts-check

export class ApiError extends Error {
  constructor({ code = "", what = "", why = "", fix = "", status = 0 }) {
    super(what);
    this.code = code;
    this.what = what;
    this.why = why;
    this.fix = fix;
    this.status = status;
  }
}

let state = "ok";
const listeners = new Set();

/** "ok", "gone" (no answer) or "signed-out" */
export const connection = () => state;

/** Calls `listener(state)` after every change. */
export function onConnection(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The stream of events tells what it sees through this as well. */
export function setConnection(next) {
  if (next === state) return;
  state = next;
  for (const listener of [...listeners]) listener(state);
}

/**
 * Asks the coordinator.
 * @param {string} name of a call of JobService
 * @param {object} request its message
 * @param {{signal?: AbortSignal}} [options]
 */
export async function call(name, request = {}, options = {}) {
  const response = await send(`/api/v1/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
    signal: options.signal,
  });
  return answer(response);
}

let allowed = null;

/**
 * What the session's user may do, as the coordinator's table of roles has it: no button is shown in vain.
 * @param {(may: (call: string, job?: any) => boolean) => void} show job: which the call changes
 */
export async function whenAllowed(show) {
  allowed ??= send("/api/v1/allowed", {}).then(answer);
  try {
    const { principal, userId, calls, othersJobs } = await allowed;
    show((name, job) => calls.includes(name) && (othersJobs || !job || (job.owner === principal && job.ownerId === userId)));
  } catch {
    allowed = null; // the next to sign in may be another user
    show(() => true); // and the coordinator refuses what is not allowed
  }
}

/** Takes a response that was asked for elsewhere, as base/early.js does. */
export async function answer(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response.ok) throw noAnswer();
  }
  setConnection(response.status === 401 ? "signed-out" : isElsewhere(response.status, body) ? "gone" : "ok");
  if (response.ok) return body;
  throw errorOf(response.status, body);
}

// Another coordinator leads, or is about to: this one stands by, or a balancer has none to ask.
function isElsewhere(status, body) {
  return body?.error?.code === "JC1630" || (status >= 502 && status <= 504 && !body?.error);
}

async function send(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw noAnswer();
  }
}

function noAnswer() {
  setConnection("gone");
  return new ApiError({
    what: "the coordinator does not answer",
    why: "it is restarting or stopped, or the connection to it is broken",
    fix: "jobctl up",
  });
}

function errorOf(status, body) {
  const error = body?.error ?? {};
  return new ApiError({
    code: error.code,
    what: error.what || error.message || `the coordinator answered with HTTP status ${status}`,
    why: error.why,
    fix: error.fix,
    status,
  });
}

/** An int64 of protobuf JSON as a number; absent: `otherwise`. */
export const int = (value, otherwise = 0) => (value === undefined || value === null ? otherwise : Number(value));

/** A double of protobuf JSON, which writes "NaN" and "Infinity" as strings; absent: 0, the default. */
export const number = (value) => (value === undefined || value === null ? 0 : Number(value));
