/**
 * A job's page: what is wrong with it first, then what it is, its curves, and everything else in tabs.
 */
import { call } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { watchJob } from "../base/events.js";
import { isOver, printable } from "../base/format.js";
import { address, setQuery } from "../base/route.js";
import { emptyState, loadingState, showError } from "../base/states.js";
import { JobCharts } from "./charts.js";
import { JobHead } from "./head.js";

const TABS = [
  ["logs", "Logs"], ["ranks", "Ranks"], ["checkpoints", "Checkpoints"], ["events", "Events"],
  ["config", "Config"], ["environment", "Environment"], ["ledger", "Ledger"],
];
const ASSESS_EVERY_MS = 5000;
const READ_EVERY_MS = 250;
const PROGRESS_EVERY_MS = 2000; // the step and the loss at the top

/** Opens the view; see app.js. */
export function open(main, where) {
  const view = new JobView(main, where);
  view.read();
  return view;
}

class JobView {
  constructor(main, { parts, query }) {
    this.main = main;
    this.word = parts[1];
    this.query = query;
    this.tab = TABS.some(([id]) => id === query.get("tab")) ? query.get("tab") : "logs";
    this.stopping = new AbortController();
    replace(main, loadingState());
  }

  close() {
    this.closed = true;
    this.stop();
  }

  // Nothing more is read.
  stop() {
    this.stopping.abort();
    clearTimeout(this.soon);
    clearInterval(this.assessing);
    clearInterval(this.ticking);
    this.charts?.close();
    this.panel?.close?.();
    watchJob("");
  }

  // ---- reading ----

  async read() {
    this.readMs = performance.now();
    try {
      const response = await call("GetJob", { job: this.word }, { signal: this.stopping.signal });
      if (this.closed) return;
      if (!this.record) this.build(response);
      this.show(response);
    } catch (error) {
      if (this.closed || error.name === "AbortError") return;
      if (this.record && error.status === 404) this.removed();
      else if (!this.record) showError(this.main, error, () => this.tryAgain());
    }
  }

  tryAgain() {
    replace(this.main, loadingState());
    this.read();
  }

  removed() {
    this.closed = true;
    this.stop();
    this.charts = this.panel = null;
    replace(this.main, emptyState("The job was removed", `${printable(this.record.name)} is not there any more: its record, logs, metrics and checkpoints were deleted.`));
  }

  readSoon(atMostEveryMs = READ_EVERY_MS) {
    if (this.soon && atMostEveryMs > READ_EVERY_MS) return;
    clearTimeout(this.soon);
    const wait = Math.max(0, (this.readMs ?? 0) + atMostEveryMs - performance.now());
    this.soon = setTimeout(() => {
      this.soon = 0;
      this.read();
    }, wait);
  }

  async assess() {
    try {
      const assessment = await call("AssessJob", { job: this.id }, { signal: this.stopping.signal });
      if (this.closed) return;
      this.assessment = assessment;
      this.head.assessment(assessment);
      this.panel?.assessment?.(assessment);
    } catch {
      // The next one tells; the record is shown without it.
    }
  }

  // Why a job waits, in the scheduler's words.
  async explainWait() {
    if (this.record.state !== "JOB_STATE_QUEUED") return this.head.waits([]);
    try {
      const { details = [] } = await call("WhyJob", { job: this.id }, { signal: this.stopping.signal });
      if (!this.closed) this.head.waits(details);
    } catch {
      // The record's reason is shown anyway.
    }
  }

  // ---- what app.js calls ----

  onChange({ events = [] }) {
    if (!this.record || this.closed) return;
    const mine = events.some((event) => event.job === this.id);
    if (mine) this.readSoon();
    if (mine) this.panel?.onChange?.();
  }

  onResync() {
    if (this.closed) return;
    if (!this.record) return this.read();
    this.readSoon();
    this.assess();
    this.charts.stale();
    this.panel?.onResync?.();
  }

  onData({ kind, job }) {
    if (!this.record || this.closed || job !== this.id) return;
    if (kind === "metrics") {
      this.charts.load();
      this.readSoon(PROGRESS_EVERY_MS);
    }
    this.panel?.onData?.(kind);
  }

  onAddress({ query }) {
    if (this.closed) return;
    this.query = query;
    const tab = query.get("tab") ?? "logs";
    if (tab !== this.tab && TABS.some(([id]) => id === tab)) this.choose(tab, false);
  }

  // ---- what is shown ----

  build({ record }) {
    this.id = record.id;
    this.record = record;
    document.title = `${printable(record.name)} · Muster`;
    this.head = new JobHead();
    this.charts = new JobCharts(this.id, this.query);
    this.list = h("div", { role: "tablist", "aria-label": "More about the job", onkeydown: (event) => this.onTabKey(event) },
      TABS.map(([id, label]) => h("button", { type: "button", role: "tab", id: `tab-${id}`, "data-tab": id, "aria-controls": "panel",
        onclick: () => this.choose(id, true) }, label)));
    this.place = h("div", { role: "tabpanel", id: "panel", tabindex: "-1" });
    replace(this.main, this.head.element, this.charts.element, this.list, this.place);
    watchJob(this.id);
    this.charts.record(record);
    this.charts.load();
    this.choose(this.tab, false);
    this.assess();
    this.ticking = setInterval(() => !document.hidden && this.head.tick(), 1000);
    this.assessing = setInterval(() => !document.hidden && !isOver(this.record.state) && this.assess(), ASSESS_EVERY_MS);
  }

  show({ record, summary }) {
    const wasOver = isOver(this.record.state);
    this.record = record;
    this.head.record(record, summary);
    this.charts.record(record);
    this.panel?.record?.(record);
    this.explainWait();
    if (isOver(record.state) && !wasOver) {
      this.assess();
      this.charts.load();
      this.panel?.onData?.("logs");
    }
  }

  async choose(id, note) {
    this.tab = id;
    if (note) setQuery({ tab: id === "logs" ? "" : id });
    for (const tab of this.list.children) {
      const chosen = tab.dataset.tab === id;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.place.setAttribute("aria-labelledby", `tab-${id}`);
    this.place.dataset.panel = id;
    this.panel?.close?.();
    this.panel = null;
    const turn = (this.turn = (this.turn ?? 0) + 1); // chosen again before its module has arrived, a tab is opened once
    try {
      const module = await import(`./${id}.js`);
      if (this.closed || this.turn !== turn) return;
      replace(this.place);
      this.panel = module.openPanel(this.place, { job: this.id, record: this.record, assessment: this.assessment, query: address().query });
    } catch (error) {
      // The modules of a coordinator that was upgraded since have other addresses.
      if (!this.closed && this.turn === turn) showError(this.place, error, () => location.reload());
    }
  }

  onTabKey(event) {
    const at = TABS.findIndex(([id]) => id === this.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const [id] = TABS[(to + TABS.length) % TABS.length];
    this.choose(id, true);
    this.list.querySelector(`[data-tab="${id}"]`).focus();
  }
}
