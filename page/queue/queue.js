/**
 * The queue: jobs that wait, in the scheduler's order, when each is expected to start, and why the chosen one waits.
 * Held jobs wait for a person: they are last.
 * @view 2 Queue
 */
// @ts-check
import { call, int } from "../base/api.js";
import { setState, stateBadge } from "../base/badge.js";
import { h, onKeys, replace, setAttribute, setText } from "../base/dom.js";
import { age, counted, printable, roughly } from "../base/format.js";
import { setQuery } from "../base/route.js";
import { emptyState, loadingState, showError } from "../base/states.js";
import { liveTable } from "../base/table.js";
import { projectBars } from "./projects.js";
import { askedBy, whyPanel } from "./why.js";

const PAGE = 2_000;
const FORESEEN = 1_000;  // jobs whose start is asked for
const EVERY_MS = 10_000;  // reasons name what others do, so they change without an event about the job

/** @param {HTMLElement} main */
export function open(main, address) {
  const count = h("span", { class: "muted count", role: "status" });
  const panel = whyPanel({ closed: () => choose(null) });
  const table = liveTable({ label: "Queue", name: "queue", columns: COLUMNS, open: choose });
  const projects = projectBars();
  const list = h("div", { class: "list" }, loadingState());
  const body = h("div", { class: "split" }, list, panel.element);
  main.append(h("div", { class: "toolbar" }, h("h1", {}, "Queue"),
    h("span", { class: "muted" }, "In the scheduler's order. A job that delays none ahead of it may pass."), count), projects.element, body);

  let chosen = address.query.get("job") ?? "";
  let foreseen = [];
  let lookAt = 0;
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

  // What costs the coordinator more: not at every change. The list is shown without it, too.
  async function look() {
    if (Date.now() < lookAt) return;
    lookAt = Date.now() + EVERY_MS / 2;
    try {
      const [queue, all] = await Promise.all([call("ListQueue", { limit: FORESEEN }, abort), call("ListProjects", {}, abort)]);
      foreseen = queue.jobs ?? [];
      projects.show(all);
    } catch (error) {
      if (!error.status) throw error;
      foreseen = [];
    }
  }

  async function readAll() {
    await look();
    const jobs = [];
    for (let page = null; !page || page.more; ) {
      const beforeId = jobs.at(-1)?.id;
      page = await call("ListJobs", { states: ["JOB_STATE_QUEUED"], all: true, limit: PAGE, beforeId }, abort);
      if (!page.jobs?.length) break;
      jobs.push(...page.jobs);
    }
    return inOrder(jobs, foreseen);
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

// As the coordinator lists them; those beyond its list by priority, then number; held ones last. Adds each job's `place`
// in the queue, 0 for held ones, and what else is known of it there.
function inOrder(jobs, queue) {
  const waiting = new Map(queue.map((entry, index) => [entry.id, { entry, index }]));
  const at = (job) => waiting.get(job.id)?.index ?? queue.length;
  const sorted = jobs.sort((a, b) =>
    Number(Boolean(a.held)) - Number(Boolean(b.held)) || at(a) - at(b) || (b.priority ?? 0) - (a.priority ?? 0) || Number(a.id) - Number(b.id));
  sorted.forEach((job, index) => {
    const entry = waiting.get(job.id)?.entry;
    Object.assign(job, { place: job.held ? 0 : index + 1, starts: entry?.starts, holds: entry?.place ?? "", urgent: entry?.urgent ?? false });
    if (entry) job.reason = entry.reason;
  });
  return sorted;
}

/** "40m", "40m – 1h 5m", "≥ 40m"; empty: not known. */
function startsIn(starts) {
  if (!starts) return "";
  const from = roughly(int(starts.fromMs));
  if (starts.untilMs === undefined) return `≥ ${from}`;
  const until = roughly(int(starts.untilMs));
  return from === until ? from : `${from} – ${until}`;
}

const COLUMNS = [
  { id: "place", label: "#", hint: "place in the queue", fill: (cell, job) => setText(cell, job.place ? String(job.place) : "–") },
  { id: "name", label: "Job", make: (cell) => cell.append(h("a")), fill: fillName },
  { id: "state", label: "State", make: (cell) => cell.append(stateBadge("")), fill: (cell, job) => setState(cell.firstChild, job.state, { held: job.held }) },
  { id: "priority", label: "Priority", fill: (cell, job) => setText(cell, job.urgent ? "urgent" : String(job.priority ?? 0)) },
  { id: "devices", label: "Needs", fill: (cell, job) => setText(cell, askedBy(job)) },
  { id: "waits", label: "Waits", hint: "for how long", fill: (cell, job) => setText(cell, age(int(job.stateMs) || int(job.submittedMs))) },
  { id: "starts", label: "Starts in", hint: "if what it waits for ends as expected", fill: fillStarts },
  { id: "owner", label: "Owner", fill: (cell, job) => setText(cell, printable(job.owner)) },
  { id: "reason", label: "Reason", fill: fillReason },
];

// Opens the reason beside the list; the job's own page is one step further.
function fillName(cell, job) {
  setText(cell.firstChild, printable(job.name));
  setAttribute(cell.firstChild, "href", `/queue?job=${encodeURIComponent(job.name)}`);
}

function fillStarts(cell, job) {
  setText(cell, startsIn(job.starts) || (job.held ? "" : "not known"));
  setAttribute(cell, "title", job.holds ? `held for it: ${printable(job.holds)}` : null);
}

function fillReason(cell, job) {
  setText(cell, printable(job.reason));
  setAttribute(cell, "title", printable(job.reason) || null);
}
