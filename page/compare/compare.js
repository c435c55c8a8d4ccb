/**
 * The Compare page: the curves of two to five jobs over each other, how they differ, and what was configured differently.
 * @view 4 Compare
 */
import { call } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { isOver, printable, shellQuote, stateName } from "../base/format.js";
import { MOST_COMPARED, setQuery } from "../base/route.js";
import { commandBox, emptyState, errorState, loadingState } from "../base/states.js";
import { Chart } from "../charts/chart.js";
import { configurationOf, differencesOf } from "../job/configuration.js";
import { differenceTable } from "../job/config.js";
import { pairSection } from "./pair.js";
import { commonNames, compareJobs, keyAtFirst, readCurve, readJob } from "./runs.js";

const READ_EVERY_MS = 5000;
const SOON_MS = 2000;

/** Opens the view; see app.js. */
export const open = (main, address) => new CompareView(main, address);

class CompareView {
  constructor(main, { query }) {
    this.stopping = new AbortController();
    this.words = [];
    this.jobs = [];
    this.finished = new Map();
    this.form = this.makeForm();
    this.result = h("div", { class: "comparison" });
    replace(main, this.form, this.result);
    this.take(query);
    this.suggest();
  }

  // ---- what app.js calls ----

  close() {
    this.closed = true;
    this.stopping.abort();
    clearTimeout(this.soon);
    this.chart?.close();
  }

  onAddress({ query }) {
    this.take(query);
  }

  onChange({ events = [] }) {
    const live = new Set(this.jobs.filter((job) => !isOver(job.record.state)).map((job) => job.record.id));
    if (events.some((event) => live.has(event.job)) && !this.isSoon) this.readLater(SOON_MS, true);
  }

  // What a running job logs is read again while the page is visible.
  readLater(wait, isSoon = false) {
    clearTimeout(this.soon);
    this.isSoon = isSoon;
    this.soon = setTimeout(() => (document.hidden ? this.readLater(wait) : this.read()), wait);
  }

  onResync() {
    if (this.words.length > 1) this.read();
  }

  // ---- the form ----

  makeForm() {
    const changed = () => this.changed();
    const input = (name, label, placeholder) => h("input", { type: "text", id: `compare-${name}`, name, placeholder, autocomplete: "off", "aria-label": label, onchange: changed });
    this.word = h("input", { type: "text", list: "known-jobs", "aria-label": "Job to add", placeholder: "add a job", autocomplete: "off" });
    this.known = h("datalist", { id: "known-jobs" });
    this.chosen = h("ol", { class: "chosen", "aria-label": "Jobs to compare; the first is the baseline" });
    this.metric = h("select", { id: "compare-metric", onchange: changed });
    this.by = h("select", { id: "compare-by", onchange: changed }, h("option", { value: "" }, "epoch if known"), h("option", { value: "epoch" }, "epoch"), h("option", { value: "step" }, "step"));
    this.rtol = input("rtol", "Relative limit", "none, e.g. 2%");
    this.atol = input("atol", "Absolute limit", "none, e.g. 1e-6");
    const add = h("form", { class: "toolbar", onsubmit: (event) => this.add(event) }, h("h1", {}, "Compare"), this.chosen, this.word, this.known, h("button", { type: "submit" }, "Add"));
    const field = (text, control) => h("span", { class: "labeled" }, h("label", { for: control.id }, text), control);
    this.settings = h("div", { class: "toolbar" }, field("Metric", this.metric), field("By", this.by), field("Relative limit", this.rtol), field("Absolute limit", this.atol));
    return h("div", {}, add, this.settings);
  }

  take(query) {
    this.words = (query.get("jobs") ?? "").split(",").filter(Boolean).slice(0, MOST_COMPARED);
    this.wantedKey = query.get("key") ?? "";
    this.by.value = query.get("by") ?? "";
    this.rtol.value = query.get("rtol") ?? "";
    this.atol.value = query.get("atol") ?? "";
    this.drawChosen();
    this.read();
  }

  note() {
    setQuery({ jobs: this.words.join(","), key: this.wantedKey, by: this.by.value, rtol: this.rtol.value, atol: this.atol.value });
  }

  add(event) {
    event.preventDefault();
    const word = this.word.value.trim();
    if (!word || this.words.includes(word) || this.words.length >= MOST_COMPARED) return;
    this.word.value = "";
    this.setWords([...this.words, word]);
    this.word.focus();
  }

  setWords(words) {
    this.words = words;
    this.note();
    this.drawChosen();
    this.read();
  }

  drawChosen() {
    replace(this.chosen, this.words.map((word, n) => h("li", { class: "tag", "data-job": word }, n === 0 ? "baseline " : "", h("b", {}, printable(word)),
      n > 0 && h("button", { type: "button", class: "quiet", "aria-label": `Make ${word} the baseline`, title: "make it the baseline", onclick: () => this.setWords([word, ...this.words.filter((each) => each !== word)]) }, "↑"),
      h("button", { type: "button", class: "quiet", "aria-label": `Leave out ${word}`, onclick: () => this.setWords(this.words.filter((each) => each !== word)) }, "×"))));
    this.word.disabled = this.words.length >= MOST_COMPARED;
    this.settings.hidden = this.words.length < 2;
  }

  async suggest() {
    try {
      const { jobs = [] } = await call("ListJobs", { all: true, limit: 200 }, { signal: this.stopping.signal });
      replace(this.known, jobs.map((job) => h("option", { value: job.name })));
    } catch {
      // The names can be typed.
    }
  }

  changed() {
    this.wantedKey = this.metric.value;
    this.note();
    this.read();
  }

  // ---- reading ----

  async read() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const begunMs = performance.now();
    this.isSoon = false;
    clearTimeout(this.soon);
    if (this.words.length < 2) return this.drawEmpty();
    if (!this.chart) replace(this.result, loadingState());
    try {
      const { signal } = this.stopping;
      const jobs = await Promise.all(this.words.map((word) => readJob(word, signal)));
      const names = commonNames(jobs);
      const key = names.includes(this.wantedKey) ? this.wantedKey : keyAtFirst(names);
      const setup = this.setup();
      const [nodes, said, ...runs] = await Promise.all([
        call("ListNodes", {}, { signal }), compareJobs(jobs, key, setup, signal), ...jobs.map((job) => this.readCurve(job, key))]);
      if (this.closed || turn !== this.turn) return;
      this.jobs = jobs;
      this.draw({ names, key, nodes, runs, said, setup });
      if (jobs.some((job) => !isOver(job.record.state))) this.readLater(Math.max(READ_EVERY_MS, 10 * (performance.now() - begunMs)));
    } catch (error) {
      if (this.closed || turn !== this.turn || error.name === "AbortError") return;
      if (this.chart && error.status === 0) return; // what was said last stays; the shell tells, and reads again
      this.dropChart();
      replace(this.result, errorState(error, () => this.read()));
    }
  }

  // What a job has logged that is over does not change.
  async readCurve(job, key) {
    const id = `${job.record.id} ${key}`;
    const run = this.finished.get(id) ?? (await readCurve(job, key, this.stopping.signal));
    if (isOver(job.record.state)) this.finished.set(id, run);
    return run;
  }

  drawEmpty() {
    this.dropChart();
    replace(this.result, emptyState(this.words.length === 0 ? "Compare two to five jobs" : "One more job is needed",
      "Add jobs by name. The first is the baseline that the others are compared with.", "jobctl compare calm-otter-3 @last"));
  }

  dropChart() {
    this.chart?.close();
    this.chart = null;
  }

  setup() {
    const [by, rtol, atol] = [this.by, this.rtol, this.atol].map((field) => field.value.trim());
    return { by, rtol, atol, isLimited: rtol !== "" || atol !== "" };
  }

  // The coordinator names the limit that it does not understand.
  markLimits(error) {
    for (const field of [this.rtol, this.atol]) {
      field.setAttribute("aria-invalid", String(error?.what.startsWith(`${field.name} takes`) ?? false));
    }
  }

  /** The equivalent command. */
  commandText(key, { by, rtol, atol }) {
    const parts = [`jobctl compare ${this.jobs.map((job) => shellQuote(job.name)).join(" ")}`];
    if (key && key !== "loss") parts.push(`--key ${shellQuote(key)}`);
    if (by) parts.push(`--by ${by}`);
    if (rtol) parts.push(`--rtol ${shellQuote(rtol)}`);
    if (atol) parts.push(`--atol ${shellQuote(atol)}`);
    return parts.join(" ");
  }

  // ---- drawing ----

  draw({ names, key, nodes, runs, said, setup }) {
    if (names.join("\n") !== [...this.metric.options].map((option) => option.value).join("\n")) {
      replace(this.metric, names.map((name) => h("option", { value: name }, printable(name))));
    }
    this.metric.value = key;
    const command = commandBox(this.commandText(key, setup));
    if (!key) {
      this.dropChart();
      const none = emptyState("No metric in common", runs.map((run) => `${run.name}: ${run.names.slice(0, 8).join(", ") || "none"}`).map(printable).join("; "));
      return replace(this.result, none, this.configurations(runs, nodes));
    }
    this.markLimits(said.error);
    if (!this.chart || this.chart.label !== printable(key)) {
      this.dropChart();
      this.chart = new Chart({ label: printable(key) });
    }
    replace(this.result, h("figure", { class: "card curve", "data-metric": key }, h("figcaption", {}, h("h2", {}, printable(key))), this.chart.element),
      this.remarks(runs), said.error ? errorState(said.error) : said.pairs.map((pair) => pairSection(pair, { ...setup, by: said.by })), command, this.configurations(runs, nodes));
    this.chart.set({ curves: runs.filter((run) => run.curve).map((run) => ({ name: printable(run.name), xs: run.curve.steps, ys: run.curve.ys, lows: run.curve.lows, highs: run.curve.highs })) });
  }

  // What limits the comparison.
  remarks(runs) {
    return runs.filter((run) => !isOver(run.record.state)).map((run) => `${run.name} is ${stateName(run.record.state)}: comparing what it has logged so far`)
      .map((line) => h("p", { class: "remark" }, printable(line)));
  }

  configurations(runs, nodes) {
    const baseline = configurationOf(runs[0].record, nodes);
    return h("section", { "aria-label": "Configuration that differs" }, h("h2", { class: "later" }, "Configuration that differs"),
      runs.slice(1).map((run) => differenceTable(differencesOf(baseline, configurationOf(run.record, nodes)), [runs[0].name, run.name])),
      runs.slice(1).map((run) => commandBox(`jobctl diff ${shellQuote(runs[0].name)} ${shellQuote(run.name)}`)));
  }
}
