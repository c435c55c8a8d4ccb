/**
 * The queue: jobs that wait, in the order in which they go (priority, then number), and why the chosen one waits.
 * Held jobs wait for a person: they are last.
 * @view 2 Queue
 */
// @ts-check
import { call, int } from "../base/api.js";
import { setState, stateBadge } from "../base/badge.js";
import { h, onKeys, replace, setAttribute, setText } from "../base/dom.js";
import { age, counted, printable } from "../base/format.js";
import { setQuery } from "../base/route.js";
import { emptyState, loadingState, showError } from "../base/states.js";
import { liveTable } from "../base/table.js";
import { askedBy, whyPanel } from "./why.js";

const PAGE = 2_000;
const EVERY_MS = 10_000;  // reasons name what others do, so they change without an event about the job

/** @param {HTMLElement} main */
export function open(main, address) {
  const count = h("span", { class: "muted count", role: "status" });
  const panel = whyPanel({ closed: () => choose(null) });
  const table = liveTable({ label: "Queue", name: "queue", columns: COLUMNS, open: choose });
  const list = h("div", { class: "list" }, loadingState());
  const body = h("div", { class: "split" }, list, panel.element);
  main.append(h("div", { class: "toolbar" }, h("h1", {}, "Queue"),
    h("span", { class: "muted" }, "Higher priority goes first, then the lower number."), count), body);

  let chosen = address.query.get("job") ?? "";
  let reading = null;
  let again = false;
  let soon = 0;
  const abort = new AbortController();
  const stopKeys = onKeys((event) => (event.key === "Escape" ? choose(null) : table.key(event)));
  const clock = setInterval(() => !document.hidden && table.refresh(), 1_000);
  const reader = setInterval(() => !document.hidden && read(), EVERY_MS);
  read();

  // One at a time; a change that comes meanwhile is read afterwards.
  function read() {
    if (reading) return void (again = true);
    reading = readAll().then(show, (error) => {
      if (!list.contains(table.element)) showError(list, error, read);
    }).finally(() => {
      reading = null;
      if (again && !abort.signal.aborted) read();
      again = false;
    });
  }

  async function readAll() {
    const jobs = [];
    for (let page = null; !page || page.more; ) {
      const beforeId = jobs.at(-1)?.id;
      page = await call("ListJobs", { states: ["JOB_STATE_QUEUED"], all: true, limit: PAGE, beforeId }, abort);
      if (!page.jobs?.length) break;
      jobs.push(...page.jobs);
    }
    return inOrder(jobs);
  }

  function show(jobs) {
    const held = jobs.filter((job) => job.held).length;
    count.textContent = jobs.length ? `${counted(jobs.length, "job")}${held ? `, ${held} held` : ""}` : "";
    if (!jobs.length) {
      replace(list, emptyState("No jobs are waiting", "Each job that was submitted has its devices. What runs and where is on Nodes."));
    } else {
      if (!list.contains(table.element)) replace(list, table.element);
      table.setItems(jobs);
    }
    const job = jobs.find((each) => each.name === chosen);
    if (job) panel.show(job);
    else if (chosen) choose(null);
  }

  function choose(job) {
    chosen = job?.name ?? "";
    setQuery({ job: chosen });
    if (job) panel.show(job);
    else panel.hide();
  }

  return {
    onChange() {
      soon ||= setTimeout(() => {
        soon = 0;
        read();
      }, 500);
    },
    onResync: read,
    onAddress(next) {
      chosen = next.query.get("job") ?? "";
      read();
    },
    close() {
      abort.abort();
      clearInterval(clock);
      clearInterval(reader);
      clearTimeout(soon);
      stopKeys();
      table.close();
    },
  };
}

// Priority, then number; held ones last. Adds each job's `place` in the queue: 0 for held ones.
function inOrder(jobs) {
  const sorted = jobs.sort((a, b) =>
    Number(Boolean(a.held)) - Number(Boolean(b.held)) || (b.priority ?? 0) - (a.priority ?? 0) || Number(a.id) - Number(b.id));
  sorted.forEach((job, index) => (job.place = job.held ? 0 : index + 1));
  return sorted;
}

const COLUMNS = [
  { id: "place", label: "#", hint: "place in the queue", fill: (cell, job) => setText(cell, job.place ? String(job.place) : "–") },
  { id: "name", label: "Job", make: (cell) => cell.append(h("a")), fill: fillName },
  { id: "state", label: "State", make: (cell) => cell.append(stateBadge("")), fill: (cell, job) => setState(cell.firstChild, job.state, { held: job.held }) },
  { id: "priority", label: "Priority", fill: (cell, job) => setText(cell, String(job.priority ?? 0)) },
  { id: "devices", label: "Needs", fill: (cell, job) => setText(cell, askedBy(job)) },
  { id: "waits", label: "Waits", hint: "for how long", fill: (cell, job) => setText(cell, age(int(job.stateMs) || int(job.submittedMs))) },
  { id: "owner", label: "Owner", fill: (cell, job) => setText(cell, printable(job.owner)) },
  { id: "reason", label: "Reason", fill: fillReason },
];

// Opens the reason beside the list; the job's own page is one step further.
function fillName(cell, job) {
  setText(cell.firstChild, printable(job.name));
  setAttribute(cell.firstChild, "href", `/queue?job=${encodeURIComponent(job.name)}`);
}

function fillReason(cell, job) {
  setText(cell, printable(job.reason));
  setAttribute(cell, "title", printable(job.reason) || null);
}
