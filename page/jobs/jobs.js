/**
 * The list of jobs. Rows are windowed, filters run on the coordinator, and what is in sight is kept right: by events, and
 * every two seconds where a job runs (steps and losses are not events).
 * @view 1 Jobs
 */
// @ts-check
import { h, onKeys, replace } from "../base/dom.js";
import { counted } from "../base/format.js";
import { MOST_COMPARED, jobPath, navigate } from "../base/route.js";
import { emptyState, errorState, loadingState } from "../base/states.js";
import { liveTable } from "../base/table.js";
import { jobColumns } from "./columns.js";
import { filterBar, filterOf, isFiltered, requestOf } from "./filters.js";
import { jobStore } from "./store.js";

const REFRESH_MS = 2_000;
const AHEAD = 300;  // rows below what is in sight at which the next page is asked for

let left = null;  // what the list was when it was left: {request, jobs, more, scroll}

/** @param {HTMLElement} main */
export function open(main, address) {
  let filter = filterOf(address.query);
  const picked = new Map();
  const bar = filterBar(filter, filtered);
  const list = { isPicked: (job) => picked.has(job.id), pick, addLabel: (label) => bar.addLabel(label) };
  const table = liveTable({
    label: "Jobs", name: "jobs", columns: jobColumns(list), onRange: ranged,
    open: (job, event) => (event.ctrlKey || event.metaKey ? window.open(jobPath(job.name)) : navigate(jobPath(job.name))),
  });
  const count = h("span", { class: "muted count", role: "status" });
  const choice = h("span", { class: "choice", hidden: true });
  const body = h("div", {}, loadingState());
  main.append(h("div", { class: "toolbar" }, h("h1", {}, "Jobs"), bar.element, choice, count), body);

  const store = jobStore(updated);
  let scrolled = 0;
  begin();
  const clock = setInterval(() => !document.hidden && table.refresh(), 1_000);
  const refresher = setInterval(refreshInSight, REFRESH_MS);
  const stopKeys = onKeys(key);

  function begin() {
    const early = window.musterEarly;
    window.musterEarly = null;
    const kept = left;
    left = null;
    if (kept && kept.request === JSON.stringify(requestOf(filter))) {
      store.restore(requestOf(filter), kept.jobs, kept.more);
      scrollTo(0, kept.scroll);
    } else {
      store.load(requestOf(filter), isFiltered(filter) ? null : early);
    }
  }

  function filtered(next) {
    filter = next;
    body.setAttribute("aria-busy", "true");
    scrollTo(0, 0);
    store.load(requestOf(filter));
  }

  function updated(added) {
    body.removeAttribute("aria-busy");
    const { jobs, more, error } = store;
    if (error) return show(errorState(error, () => store.load(requestOf(filter))), "");
    if (!jobs.length) return show(nothing(), "");
    show(table.element, more ? `${counted(jobs.length, "job")} and more` : counted(jobs.length, "job"));
    table.setItems(jobs, { total: more ? -1 : jobs.length });
    if (added) table.shift(added);
    if (!performance.getEntriesByName("muster-first-rows").length) performance.mark("muster-first-rows");
  }

  function show(element, words) {
    if (body.firstChild !== element) replace(body, element);
    if (count.textContent !== words) count.textContent = words;
  }

  function nothing() {
    if (!isFiltered(filter)) {
      return emptyState("No jobs yet", "Run a command as two ranks on this machine; it appears here automatically:",
        "jobctl run -n 2 -- python train.py");
    }
    const state = emptyState("No job matches", "Labels are exact: team=vision, team!=vision, team, !team.");
    state.append(h("button", { type: "button", onclick: bar.clear }, "Show all jobs"));
    return state;
  }

  function ranged(first, last) {
    if (store.more && last + AHEAD > store.jobs.length) store.loadMore();
    clearTimeout(scrolled);
    scrolled = setTimeout(() => !store.isFresh(first, last) && store.refresh(first, last), 150);
  }

  function refreshInSight() {
    if (document.hidden || !store.loaded) return;
    const [first, last] = table.range();
    if (!store.isFresh(first, last)) store.refresh(first, last);
  }

  function pick(job) {
    if (!picked.delete(job.id)) picked.set(job.id, job.name);
    table.refresh();
    choice.hidden = picked.size === 0;
    const names = [...picked.values()];
    const enough = names.length >= 2 && names.length <= MOST_COMPARED;
    replace(choice,
      enough ? h("a", { class: "button", href: `/compare?jobs=${names.map(encodeURIComponent).join(",")}` }, `Compare ${names.length} jobs`)
        : h("span", { class: "muted" }, names.length < 2 ? "choose another job to compare" : `at most ${MOST_COMPARED} jobs can be compared`),
      h("button", { type: "button", class: "quiet", onclick: unpick }, "Clear selection"));
  }

  function unpick() {
    picked.clear();
    choice.hidden = true;
    table.refresh();
  }

  function key(event) {
    if (event.key === "/") {
      event.preventDefault();
      bar.focus();
    } else if (event.key === "x" && table.current()) {
      pick(table.current());
    } else {
      table.key(event);
    }
  }

  return {
    onChange: (change) => store.changed((change.events ?? []).map((event) => event.job).filter((id) => id && id !== "0")),
    onResync: () => (store.error ? store.load(requestOf(filter)) : store.resync()),
    onAddress(next) {
      filter = filterOf(next.query);
      bar.show(filter);
      filtered(filter);
    },
    close() {
      left = { request: JSON.stringify(requestOf(filter)), jobs: store.jobs, more: store.more, scroll: scrollY };
      clearInterval(clock);
      clearInterval(refresher);
      clearTimeout(scrolled);
      stopKeys();
      bar.close();
      store.close();
      table.close();
    },
  };
}
