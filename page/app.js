/**
 * The shell: which view an address opens, and what every view has in common.
 *
 * A view is a module with open(main, address) → {close(), onChange?(change), onResync?(), onData?(data), onAddress?(address)}.
 * onAddress is called instead of a new open() when only the query has changed (back, forward); see base/route.js and
 * base/events.js for the arguments.
 */
// @ts-check
import { call, connection, onConnection } from "./base/api.js";
import { h, isTyping, replace } from "./base/dom.js";
import { listen, start } from "./base/events.js";
import { printable } from "./base/format.js";
import { address, navigate } from "./base/route.js";
import { emptyState, errorState, signedOutState } from "./base/states.js";
import "./jobs/jobs.js";  // comes with the shell; other views when they are opened

const main = /** @type {HTMLElement} */ (document.querySelector("main"));
const notice = /** @type {HTMLElement} */ (document.getElementById("notice"));
const alarm = /** @type {HTMLElement} */ (document.getElementById("alarm"));
const live = /** @type {HTMLElement} */ (document.getElementById("live"));

// The views, by their links (made by embed.py), and that of one job.
const links = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll("nav a[data-view]")]);
const titles = { job: "Job", ...Object.fromEntries(links.map((link) => [link.dataset.view, link.textContent])) };

const KEYS = [
  ["g then " + links.map((link) => link.dataset.view[0]).join(", "), "open " + links.map((link) => link.textContent).join(", ")],
  ["j k or ↓ ↑", "next and previous row"],
  ["Home End, PgUp PgDn", "first and last row; a screen up and down"],
  ["Enter", "open the row"],
  ["x", "choose the job for Compare"],
  ["← → + − 0", "move, zoom, show all of a chart"],
  ["/", "go to the filter; Esc leaves it"],
  ["Esc", "close what was opened"],
  ["?", "this list"],
];

let current = null;  // {key, view}
let opened = 0;

function nameOf(parts) {
  if (parts.length === 0 || (parts.length === 1 && parts[0] === "jobs")) return "jobs";
  if (parts.length === 2 && parts[0] === "jobs") return "job";
  return parts.length === 1 && parts[0] !== "job" && Object.hasOwn(titles, parts[0]) ? parts[0] : "";
}

async function route({ isNew = false } = {}) {
  const where = address();
  const key = where.parts.join("/");
  if (current?.key === key && current.view?.onAddress) return current.view.onAddress(where);
  const mine = ++opened;
  current?.view?.close();
  current = null;
  if (isNew) scrollTo(0, 0);
  const name = nameOf(where.parts);
  markNavigation(name);
  if (!name) return void replace(main, emptyState("Page not found", "Check the address."));
  document.title = `${where.parts[1] ? printable(where.parts[1]) : titles[name]} · Muster`;
  try {
    const module = await import(`./${name}/${name}.js`);
    if (mine !== opened) return;
    replace(main);
    current = { key, view: module.open(main, where) };
  } catch (error) {
    if (mine !== opened) return;
    replace(main, errorState(error, () => location.reload()));
    call("GetServer").catch(() => {});  // without a session no module loads, and the shell shows the sign-in notice
  }
}

function markNavigation(name) {
  const active = name === "job" ? "jobs" : name;
  for (const link of links) {
    const is = link.dataset.view === active;
    if (is) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// Links within the page open without a new document.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || event.defaultPrevented) return;
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || /^\/(api|assets|events|metrics|sign-in)\b/.test(link.pathname) || link.hash) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
});
history.scrollRestoration = "manual";  // the browser restores before the rows are there; views do it themselves
addEventListener("popstate", () => route());
addEventListener("muster-address", () => route({ isNew: true }).then(() => main.focus({ preventScroll: true })));

// The address stays as it is: another one would open the view again.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

// g, then the first letter of its name, opens a view; ? lists the keys.
let lastKey = "";
document.addEventListener("keydown", (event) => {
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const target = links.find((link) => link.dataset.view[0] === event.key);
  if (lastKey === "g" && target) {
    event.preventDefault();
    event.stopImmediatePropagation();
    navigate(target.pathname);
  }
  lastKey = event.key;
  if (event.key === "?") showKeys();
}, true);

function showKeys() {
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "facts" }, KEYS.map(([keys, what]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)])),
    h("p", { class: "buttons" }, close));
  document.body.append(dialog);
  dialog.showModal();
}

function showConnection(state) {
  live.dataset.state = state;
  live.title = { ok: "live: changes appear automatically", gone: "no answer: trying again", "signed-out": "not signed in" }[state];
  live.lastChild.textContent = { ok: "live", gone: "no answer", "signed-out": "signed out" }[state];
  main.hidden = state === "signed-out";
  document.body.classList.toggle("stale", state === "gone");
  if (state === "ok") return replace(notice);
  if (state === "signed-out") return replace(notice, signedOutState());
  replace(notice, h("p", { class: "banner" },
    "The coordinator does not answer. This page shows its last state and retries. If it was stopped: ",
    h("code", {}, "jobctl up")));
}

async function readAlarm() {
  try {
    const said = await call("ListNodes", {});
    alarm.textContent = printable([said.alarm, said.diskWarning, ...(said.warnings ?? []).map(({ what }) => what)].join(" ").trim());
    alarm.hidden = !alarm.textContent;
  } catch {
    // The next change or connection asks again.
  }
}

let alarmSoon = 0;
function alarmLater() {
  clearTimeout(alarmSoon);
  alarmSoon = setTimeout(readAlarm, 500);
}

onConnection((state) => {
  showConnection(state);
  if (state === "ok") current?.view?.onResync?.();
});
listen({
  change(change) {
    current?.view?.onChange?.(change);
    if (change.events?.some((event) => event.node || !event.job)) alarmLater();
  },
  resync() {
    current?.view?.onResync?.();
    alarmLater();
  },
  data: (data) => current?.view?.onData?.(data),
});

route();
showConnection(connection());
start();
