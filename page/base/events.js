/**
 * The page's one stream of events.
 *
 * listen({change(message), resync(), data({kind, job})}) → stop
 *   change: {events: [{seq, atMs, job, attempt, node}], texts: […]}; job is a number as text ("7"), absent: none
 *   resync: read everything again. Also sent when the coordinator answers again after it was gone.
 *   data:   something new was stored for the watched job; kind is "metrics" or "logs", job its number as text
 * watchJob(id) asks for `data` about one job: id is its number as text or "" for none. Reopens the stream.
 * start() opens it, once. Where another coordinator leads for good, the page is loaded from there. A page that is not in sight has no stream; back in sight it hears what it missed.
 */
// @ts-check
import { call, connection, onConnection, setConnection } from "./api.js";

const REST_AFTER_MS = 2_000;
const RETRY_MS = [300, 600, 1_000, 2_000];
// A balancer needs a moment until it asks the coordinator that leads; then the page can stay where it is.
const FOLLOW_AFTER_TRIES = 5;

const listeners = new Set();
let source = null;
let lastId = "";
let tries = 0;
let retry = 0;
let rest = 0;
let watched = "";

/** Adds a listener; returns what removes it. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows the stored metrics and logs of one job, too. */
export function watchJob(id) {
  const isOther = watched !== id;
  watched = id;
  if (isOther && source) reopen();
}

/** Opens the stream. */
export function start() {
  if (!document.hidden) reopen();
  onConnection((state) => {
    if (state === "ok" && source && source.readyState !== EventSource.OPEN) reopen();
  });
  document.addEventListener("visibilitychange", () => {
    clearTimeout(rest);
    if (document.hidden) rest = setTimeout(sleep, REST_AFTER_MS);
    else wake();
  });
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => event.persisted && reopen());
}

// A browser has six connections per host for all its tabs, so a hidden tab closes its stream. Once the tab is visible again,
// the stream reports what it missed.
function sleep() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

function wake() {
  // A laptop that slept may hold a stream whose other end is gone: this call detects it.
  if (source) return void call("GetServer").catch(() => {});
  reopen();
  if (watched) emitData();
}

function emit(kind, value) {
  for (const listener of [...listeners]) listener[kind]?.(value);
}

function reopen() {
  clearTimeout(retry);
  source?.close();
  const query = new URLSearchParams();
  if (lastId) query.set("after", lastId);
  if (watched) query.set("job", watched);
  const stream = new EventSource(`/events${query.size ? `?${query}` : ""}`);
  source = stream;
  stream.onopen = () => {
    const wasGone = tries > 0;
    tries = 0;
    setConnection("ok");
    if (wasGone) emit("resync");
  };
  stream.onerror = () => stream === source && failed();
  stream.addEventListener("change", (event) => {
    lastId = event.lastEventId || lastId;
    emit("change", JSON.parse(event.data));
  });
  stream.addEventListener("resync", (event) => {
    lastId = event.lastEventId || lastId;
    emit("resync");
  });
  for (const kind of ["metrics", "logs"]) {
    stream.addEventListener(kind, (event) => emit("data", { kind, job: JSON.parse(event.data).job }));
  }
}

// The browser's own retries wait seconds and give up on an HTTP error; these neither.
function failed() {
  source?.close();
  const wait = RETRY_MS[Math.min(tries, RETRY_MS.length - 1)];
  ++tries;
  clearTimeout(retry);
  retry = setTimeout(async () => {
    try {
      await call("GetServer");  // tells "gone" from "not signed in"
    } catch {
      if (connection() !== "ok") {
        if (tries >= FOLLOW_AFTER_TRIES && await isSentAway()) return location.reload();
        return failed();
      }
    }
    if (tries > 1) emit("resync");  // calls are answered, but there is no stream left: keep right by reading again
    reopen();
  }, wait);
}

// A coordinator that stands by sends documents to the one that leads. Calls cannot follow: that is another origin.
async function isSentAway() {
  try {
    const answer = await fetch(location.pathname, { method: "HEAD", redirect: "manual" });
    return answer.type === "opaqueredirect";
  } catch {
    return false;
  }
}

// What may have been stored meanwhile.
function emitData() {
  emit("data", { kind: "metrics", job: watched });
  emit("data", { kind: "logs", job: watched });
}
