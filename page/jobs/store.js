/**
 * The jobs that the list has: pages of the coordinator's answer, newest first, kept right as jobs change.
 *
 * jobStore(updated) → {jobs, more, error, loaded, load(filter, first?), restore(filter, jobs, more), loadMore(), refresh(first, last),
 *   isFresh(first, last), changed(ids), resync(), close()}
 * `updated(added)` is called after every change; `added` is how many rows came in above the first old one.
 */
// @ts-check
import { answer, call } from "../base/api.js";
import { isOver } from "../base/format.js";

const FIRST = 60;      // enough for a screen: the first answer is small
const PAGE = 500;
const FIRST_ALONE_MS = 150;  // the first rows are drawn before a longer page is read
const ONE_BY_ONE = 6;  // more changed jobs than this are read as a range

export function jobStore(updated) {
  const store = { jobs: [], more: false, error: null, loaded: false, load, restore, loadMore, refresh, changed, resync, close, isFresh };
  let filter = {};
  let abort = new AbortController();
  let pending = new Set();
  let timer = 0;
  let work = Promise.resolve();
  let staleSince = 0;
  let paging = null;
  let painted = Promise.resolve();

  const list = (request, signal) => call("ListJobs", { all: true, ...filter, ...request }, { signal });

  /** Reloads with another filter. `first` is an answer that is already under way. */
  async function load(next, first = null) {
    filter = next;
    abort.abort();
    abort = new AbortController();
    const { signal } = abort;
    pending.clear();
    try {
      const page = await (first ? first.then(answer) : list({ limit: FIRST }, signal));
      if (signal.aborted) return;
      Object.assign(store, { jobs: (page.jobs ?? []).map(fresh), more: Boolean(page.more), error: null, loaded: true });
      updated(0);
      painted = pause(FIRST_ALONE_MS);
      if (store.more) await loadMore();
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      Object.assign(store, { jobs: [], more: false, error, loaded: true });
      updated(0);
    }
  }

  /** Starts with jobs that an earlier store had, and reads them again as they come in sight. */
  function restore(next, jobs, more) {
    filter = next;
    Object.assign(store, { jobs, more, loaded: true });
    resync();
  }

  /** The next page. One at a time. */
  function loadMore() {
    paging ??= painted.then(() => later(readNext)).finally(() => (paging = null));
    return paging;
  }

  async function readNext(signal) {
    if (!store.more || !store.jobs.length) return;
    const page = await list({ limit: PAGE, beforeId: store.jobs.at(-1).id }, signal);
    store.jobs = store.jobs.concat((page.jobs ?? []).map(fresh));
    store.more = Boolean(page.more && page.jobs?.length);
    updated(0);
  }

  /** Reads the rows [first, last) again. */
  function refresh(first, last) {
    const high = store.jobs[first]?.id;
    return high ? later((signal) => readRange(idOf(high) + 1n, last - first, signal)) : later(readTop);
  }

  // Takes all jobs with ids below `below`, as many as `limit`, in place of those that the list had there: one that is gone,
  // or does not meet the filter any more, is gone from the list as well.
  async function readRange(below, limit, signal) {
    const page = await list({ limit, ...(below ? { beforeId: String(below) } : {}) }, signal);
    const jobs = (page.jobs ?? []).map(fresh);
    if (!jobs.length && page.more) return jobs;
    const low = page.more ? idOf(jobs.at(-1).id) : 0n;
    const oldTop = store.jobs[0]?.id;
    const above = below ? store.jobs.filter((job) => idOf(job.id) >= below) : [];
    const under = store.jobs.filter((job) => idOf(job.id) < low);
    store.jobs = [...above, ...jobs, ...under];
    if (!page.more) store.more = false;
    const added = oldTop ? Math.max(0, store.jobs.findIndex((job) => job.id === oldTop)) : 0;
    updated(added);
    return page.more ? jobs : [];
  }

  // New jobs, until they meet those that the list has.
  async function readTop(signal) {
    const top = idOf(store.jobs[0]?.id ?? "0");
    let page = await readRange(null, FIRST, signal);
    while (top && page.length && idOf(page.at(-1).id) > top + 1n) {
      page = await readRange(idOf(page.at(-1).id), PAGE, signal);
    }
    if (!top && page.length) store.more = true;
    Object.assign(store, { error: null, loaded: true });
    updated(0);
  }

  /** These jobs have changed. Bursts are read together. */
  function changed(ids) {
    for (const id of ids) pending.add(id);
    if (pending.size) timer ||= setTimeout(readPending, isSearch() ? 1000 : 250);
  }

  // Asked for one job that does not match, the coordinator would look for the next one that does.
  const isSearch = () => Boolean(filter.nameHas || filter.labels?.length);

  function readPending() {
    timer = 0;
    const ids = [...pending].map(idOf);
    pending.clear();
    const top = idOf(store.jobs[0]?.id ?? "0");
    const low = store.more ? idOf(store.jobs.at(-1)?.id ?? "0") : 0n;
    const known = ids.filter((id) => id <= top && id >= low);
    if (ids.some((id) => id > top)) later(readTop);
    if (known.length > ONE_BY_ONE || (known.length && isSearch())) resync();
    else for (const id of known) later((signal) => readOne(id, signal));
  }

  async function readOne(id, signal) {
    const page = await list({ limit: 1, beforeId: String(id + 1n) }, signal);
    const found = page.jobs?.[0] && idOf(page.jobs[0].id) === id ? fresh(page.jobs[0]) : null;
    const index = store.jobs.findIndex((job) => idOf(job.id) <= id);
    const has = index >= 0 && idOf(store.jobs[index].id) === id;
    if (!has && !found) return;
    const jobs = store.jobs.slice();
    jobs.splice(index < 0 ? jobs.length : index, has ? 1 : 0, ...(found ? [found] : []));
    store.jobs = jobs;
    updated(!has && index === 0 ? 1 : 0);
  }

  /** Everything may have changed: what is in sight is read again, the rest when it comes in sight. */
  function resync() {
    staleSince = Date.now();
    later(readTop);
    updated(0);
  }

  /** Nothing of the rows [first, last) has to be read again. */
  function isFresh(first, last) {
    return store.jobs.slice(first, last).every((job) => isOver(job.state) && job.readMs >= staleSince);
  }

  // One after the other, so that no older answer replaces a newer one. A failure is told by the shell, and the next
  // change or the next connection reads again.
  function later(task) {
    const { signal } = abort;
    work = work.then(() => (signal.aborted ? null : task(signal))).catch((error) => {
      if (error.name !== "AbortError" && !store.jobs.length && !signal.aborted) {
        store.error = error;
        updated(0);
      }
    });
    return work;
  }

  function close() {
    abort.abort();
    clearTimeout(timer);
  }

  return store;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const idOf = (id) => BigInt(id);
const fresh = (job) => Object.assign(job, { readMs: Date.now() });
