/**
 * What a view shows when it has nothing else to show.
 *
 * emptyState("No jobs yet", "start one", "jobctl run -n 2 -- python train.py")
 * loadingState(rows)                a skeleton, visible only after 150 ms
 * errorState(error, retry)          an ApiError: what, why, fix, code; retry may be null
 * signedOutState()
 * showError(main, error, retry)     shows it instead of everything in `main`, unless app.js already shows it
 * commandBox("jobctl cancel x")     a command with its copy button
 * fixOf(text)                       what an error or a finding says to do
 */
// @ts-check
import { icon } from "./badge.js";
import { h, replace } from "./dom.js";
import { printable } from "./format.js";

/** Nothing there, and what to do about it. */
export function emptyState(title, text = "", ...commands) {
  return h("div", { class: "blank", "data-page-state": "empty" },
    h("h2", {}, title), text && h("p", {}, text), commands.map((command) => commandBox(command)));
}

/** A quiet skeleton. CSS shows it after 150 ms: faster answers never flash. */
export function loadingState(rows = 8) {
  return h("div", { class: "skeleton", "data-page-state": "loading", role: "status" },
    h("span", { class: "unseen" }, "loading"),
    Array.from({ length: rows }, () => h("div", { class: "bone", "aria-hidden": "true" })));
}

/** An error of the coordinator. */
export function errorState(error, retry = null) {
  return h("div", { class: "blank", "data-page-state": "error", role: "alert" },
    h("h2", {}, icon("error"), ` ${sentence(error.what || error.message || "something failed in this page")}`),
    error.why && h("p", {}, sentence(error.why)),
    error.fix && fixOf(error.fix),
    error.code && h("p", { class: "muted" }, "explained by ", h("code", {}, `jobctl explain ${error.code}`)),
    retry && h("p", {}, h("button", { type: "button", onclick: retry }, "Try again")));
}

// The coordinator's texts begin in lower case, as in "error: no job matches".
function sentence(words) {
  const text = printable(words);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Most fixes are commands, which can be copied; others are sentences. */
export function fixOf(fix) {
  const text = printable(fix);
  const isCommand = /^(jobctl|muster-\S+) \S/.test(text) && !/\n|[;,] /.test(text);
  return isCommand ? commandBox(text) : h("p", {}, h("span", { class: "muted" }, "fix: "), text);
}

/** Without a session. */
export function signedOutState() {
  return h("div", { class: "blank", "data-page-state": "signed-out" },
    h("h2", {}, "Not signed in"),
    h("p", {}, "The link that this command prints signs this browser in for 7 days:"),
    commandBox("jobctl ui"),
    h("p", { class: "muted" }, "This page continues automatically once you open that link in this browser."),
    h("a", { class: "button", href: `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}` }, "Sign in with a token"));
}

/** Shows an error in a view's place. A coordinator that is gone and a session that ended are told by the shell. */
export function showError(main, error, retry = null) {
  if (error.name === "AbortError" || error.status === 401) return;
  replace(main, errorState(error, retry));
}

/** A command as it would be typed, with a button that copies it. */
export function commandBox(command) {
  return h("div", { class: "command" },
    h("code", { tabindex: "0", role: "group", "aria-label": "command" }, command), copyButton(command));
}

function copyButton(text) {
  const label = "Copy";
  const word = h("span", {}, label);
  const button = h("button", { type: "button", class: "quiet copy", "aria-live": "polite", onclick: copy }, icon("copy"), word);
  async function copy() {
    word.textContent = (await copied(text)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => (word.textContent = label), 1500);
  }
  return button;
}

// navigator.clipboard exists only on loopback and https; the page may also be served over a tunnel's plain address.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "unseen", readonly: true });
    field.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
