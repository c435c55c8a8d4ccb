// The Ranks tab: a heat map of all ranks, and what each is doing.
import { call } from "../base/api.js";
import { h, replace, setText } from "../base/dom.js";
import { bytes, clockTime, counted, duration, general, isOver, percent, printable } from "../base/format.js";
import { setQuery } from "../base/route.js";
import { windowedRows } from "../base/rows.js";
import { emptyState, errorState } from "../base/states.js";
import { HeatMap } from "../charts/heat.js";
import { cellsOf, MEASURES, ranksOfSamples } from "./samples.js";
import { StacksView } from "./stacks.js";

const READ_EVERY_MS = 1000;
const LAST_MS = 120_000; // of a finished job's samples

/** @returns a panel of job.js */
export const openPanel = (place, context) => new RanksPanel(place, context);

class RanksPanel {
  constructor(place, { job, record, query }) {
    this.job = job;
    this.jobRecord = record;
    this.stopping = new AbortController();
    this.measure = MEASURES.find(({ id }) => id === query.get("heat")) ?? MEASURES[0];
    this.heat = new HeatMap({ label: "Ranks", onPick: (cell, index) => this.rows.reveal(index) });
    this.stacks = new StacksView(job, record);
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Color by" }, MEASURES.map((measure) =>
      h("button", { type: "button", "data-measure": measure.id, "aria-pressed": String(measure === this.measure), onclick: () => this.choose(measure) }, measure.label)));
    this.note = h("p", { class: "muted", role: "status" });
    this.state = h("div");
    this.host = h("div", { class: "rows", role: "rowgroup" });
    this.box = h("div", { class: "rankbox", tabindex: "0", role: "table", "aria-label": "Ranks" }, headRow(), this.host);
    this.all = h("div", {}, h("div", { class: "toolbar" }, this.chips, h("span", { class: "end" }, this.stacks.button)), this.note, this.heat.element, this.stacks.element, this.box);
    replace(place, this.state, this.all);
    this.ranks = [];
    this.rows = windowedRows(this.host, { make: newRow, fill: (row, index) => fillRow(row, this.ranks[index]), scroller: this.box });
    this.read();
    this.timer = setInterval(() => !document.hidden && !isOver(this.jobRecord.state) && this.read(), READ_EVERY_MS);
  }

  choose(measure) {
    this.measure = measure;
    setQuery({ heat: measure === MEASURES[0] ? "" : measure.id });
    for (const chip of this.chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.measure === measure.id));
    this.draw();
  }

  request() {
    const attempt = (this.jobRecord.attempts ?? []).at(-1);
    if (!isOver(this.jobRecord.state)) return { job: this.job, newest: true };
    const sinceMs = Math.max(0, Number(attempt?.endedMs || this.jobRecord.finishedMs) - LAST_MS);
    return { job: this.job, attempt: attempt?.number ?? 0, tier: "SAMPLE_TIER_TEN_SECONDS", sinceMs: String(sinceMs) };
  }

  async read() {
    if (this.busy) return;
    const attempt = (this.jobRecord.attempts ?? []).at(-1);
    this.all.hidden = !attempt;
    if (!attempt) return replace(this.state, emptyState("No ranks yet", "The job has not started."));
    this.busy = true;
    try {
      const { messages = [] } = await call("QuerySamples", this.request(), { signal: this.stopping.signal });
      replace(this.state);
      this.ranks = ranksOfSamples(messages, attempt);
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") replace(this.state, errorState(error));
    }
    this.busy = false;
  }

  draw() {
    const { cells, low, high, scale } = cellsOf(this.ranks, this.measure);
    this.heat.label = `${this.measure.label} of ${counted(this.ranks.length, "rank")}`;
    this.heat.set({ cells, low, high, scale });
    const known = this.ranks.filter((rank) => rank.timeMs > 0);
    const newest = Math.max(0, ...known.map((rank) => rank.timeMs));
    setText(this.note, known.length === 0 ? "No samples: nodes send the first a second or two after the start."
      : `${counted(this.ranks.length, "rank")}, ${isOver(this.jobRecord.state) ? "last measured" : "measured"} ${clockTime(newest)}` +
        (known.length < this.ranks.length ? `; ${counted(this.ranks.length - known.length, "rank")} without samples` : ""));
    this.rows.setCount(this.ranks.length);
    this.rows.refresh();
  }

  record(record) {
    this.jobRecord = record;
    this.stacks.record(record);
    this.read();
  }

  onResync() {
    this.read();
  }

  close() {
    this.stopping.abort();
    clearInterval(this.timer);
    this.heat.close();
    this.rows.close();
    this.stacks.close();
  }
}

const COLUMNS = [
  ["Rank", (rank) => String(rank.rank)], ["Node", (rank) => printable(rank.node)], ["Step", (rank) => (rank.step === null ? "" : String(rank.step))],
  ["Step time", (rank) => (rank.stepMs === null ? "" : `${general(rank.stepMs, 4)} ms`)],
  ["CPU", (rank) => (rank.cpuCores === null ? "" : `${general(rank.cpuCores, 3)} cores`)],
  ["Memory", (rank) => (rank.residentBytes === null ? "" : bytes(rank.residentBytes))],
  ["Device", (rank) => (rank.utilization === null ? "" : percent(rank.utilization, 0))],
  ["Sample", (rank) => (rank.ageMs === null ? "" : `${duration(rank.ageMs)} old`)],
];

const headRow = () => h("div", { class: "rankrow rankhead", role: "row" }, COLUMNS.map(([name]) => h("span", { role: "columnheader" }, name)));
const newRow = () => h("div", { class: "rankrow", role: "row" }, COLUMNS.map(() => h("span", { role: "cell" })));

function fillRow(row, rank) {
  row.dataset.rank = String(rank.rank);
  COLUMNS.forEach(([, text], i) => setText(row.children[i], text(rank)));
}
