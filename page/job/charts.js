// The curves of a job: loss, throughput and whatever else a person chooses.
import { h, keyed, replace, setAttribute, setText } from "../base/dom.js";
import { counted, general, isOver, printable } from "../base/format.js";
import { setQuery } from "../base/route.js";
import { ChartCard, SPEED_CARD } from "./chart_card.js";
import { lossOf, restartsOf, restartText, shownAtFirst, throughputOf } from "./choose.js";
import { CurveStore, metricNames } from "./curves.js";

const DRAW_EVERY_MS = 250;
const NAMES_EVERY_MS = 5000;

/** @returns {{element, load(), record(record), close(), stale()}} */
export class JobCharts {
  constructor(job, query) {
    this.job = job;
    this.store = new CurveStore(job);
    this.cards = new Map();
    this.names = [];
    this.restarts = [];
    this.look = { smoothing: clampShare(query.get("smooth")), log: query.get("scale") === "log", isTime: query.get("x") === "time" };
    this.chosen = query.get("metrics")?.split(",").filter(Boolean) ?? null;
    this.stopping = new AbortController();
    this.grid = h("div", { class: "curves" });
    this.marks = h("ul", { class: "restarts", "aria-label": "Restarts" });
    this.note = h("p", { class: "muted", role: "status" });
    this.picker = h("details", { class: "picker", onkeydown: (event) => event.key === "Escape" && this.closePicker(true) }, h("summary", {}, "Metrics"));
    document.addEventListener("pointerdown", (event) => this.picker.contains(event.target) || this.closePicker(false), { signal: this.stopping.signal });
    this.compare = h("a", { class: "end" }, "Compare with another job");
    this.bar = this.controls();
    this.element = h("section", { class: "charts", "aria-label": "Curves", "data-loading": true }, this.bar, this.note, this.grid, this.marks);
  }

  controls() {
    const shown = h("output", {}, general(this.look.smoothing, 3));
    const slider = h("input", { type: "range", id: "smoothing", min: "0", max: "0.99", step: "0.01", value: String(this.look.smoothing),
      oninput: () => {
        setText(shown, slider.value);
        this.change({ smoothing: Number(slider.value) }, { smooth: Number(slider.value) ? slider.value : "" });
      } });
    const log = h("input", { type: "checkbox", checked: this.look.log,
      onchange: () => this.change({ log: log.checked }, { scale: log.checked ? "log" : "" }) });
    const axis = h("select", { id: "x-axis", onchange: () => this.change({ isTime: axis.value === "time" }, { x: axis.value === "time" ? "time" : "" }) },
      h("option", { value: "step" }, "step"), h("option", { value: "time" }, "time"));
    axis.value = this.look.isTime ? "time" : "step";
    return h("div", { class: "toolbar" }, h("h2", {}, "Curves"), h("label", { for: "smoothing" }, "Smoothing"), slider, shown,
      h("label", { class: "check" }, log, "Log axis"), h("label", { for: "x-axis" }, "X axis"), axis, this.picker, this.compare);
  }

  change(look, query) {
    Object.assign(this.look, look);
    setQuery(query);
    this.draw();
  }

  closePicker(andFocus) {
    if (!this.picker.open) return;
    this.picker.open = false;
    if (andFocus) this.picker.firstElementChild.focus();
  }

  /** The job's record, at first and after each change. */
  record(record) {
    const restarts = restartsOf(record);
    this.isOver = isOver(record.state);
    this.wanted = record.spec?.metric ?? "";
    setAttribute(this.compare, "href", `/compare?jobs=${encodeURIComponent(record.name)}`);
    this.restarts = restarts;
    this.drawMarks();
  }

  stale() {
    this.store.forget();
    this.namesMs = 0;
    this.load();
  }

  /** Reads what is new, at most four times a second. */
  load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    const wait = Math.max(0, (this.loadedMs ?? -DRAW_EVERY_MS) + DRAW_EVERY_MS - performance.now());
    this.timer = setTimeout(() => this.read(), wait);
  }

  async read() {
    this.loadedMs = performance.now();
    this.again = false;
    try {
      await this.readNames();
      const wanted = this.sources();
      const isAll = wanted.length === 0 || (await this.store.refresh(wanted, this.stopping.signal));
      if (!isAll) this.again = true;
      this.draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      setText(this.note, printable(`${error.what ?? error.message}${error.fix ? `; fix: ${error.fix}` : ""}`));
    }
    this.loading = false;
    if (this.again) this.load();
  }

  async readNames() {
    if (this.namesMs && this.names.length > 0 && performance.now() - this.namesMs < NAMES_EVERY_MS) return;
    const names = await metricNames(this.job, this.stopping.signal);
    this.namesMs = performance.now();
    this.element.removeAttribute("data-loading");
    this.bar.hidden = names.length === 0;
    const none = this.isOver ? "The job logged no metrics." : "No metrics yet: what a trainer logs appears here.";
    setText(this.note, names.length === 0 ? none : "");
    if (names.join("\n") === this.names.join("\n")) return;
    this.names = names;
    this.drawPicker();
  }

  /** The names of the cards in their order. */
  shown() {
    if (this.chosen) return this.chosen.filter((name) => this.names.includes(name) || name === SPEED_CARD);
    const names = shownAtFirst(this.names, this.wanted);
    if (names.length > 0 && !throughputOf(this.names)) names.splice(lossOf(this.names) || names[0] === this.wanted ? 1 : 0, 0, SPEED_CARD);
    return names;
  }

  sourceOf(name) {
    return name === SPEED_CARD ? lossOf(this.names) || this.names[0] : name;
  }

  sources() {
    return [...new Set(this.shown().map((name) => this.sourceOf(name)))];
  }

  draw() {
    const names = this.shown();
    keyed(this.grid, names, (name) => name, (name) => this.cardOf(name).element);
    for (const [name, card] of this.cards) {
      if (names.includes(name)) continue;
      card.close();
      this.cards.delete(name);
    }
    for (const name of names) {
      const curve = this.store.get(this.sourceOf(name));
      if (curve) this.cards.get(name).show(curve, this.restarts, this.look);
    }
    this.drawMarks();
  }

  drawMarks() {
    const names = this.shown();
    const curve = names.map((name) => this.store.get(this.sourceOf(name))).find(Boolean);
    keyed(this.marks, this.restarts, (each) => String(each.number), () => h("li"), (item, each) => {
      setText(item, printable(restartText(each, curve, this.look.isTime)));
    });
    this.marks.hidden = this.restarts.length === 0 || names.length === 0;
  }

  cardOf(name) {
    const card = new ChartCard({ job: this.job, name, source: this.sourceOf(name), order: this.cards.size });
    this.cards.set(name, card);
    return card;
  }

  drawPicker() {
    const list = h("div", { class: "choices" });
    const field = h("input", { type: "search", "aria-label": "Filter metrics (regular expression)", placeholder: "filter, e.g. ^val/|acc", autocomplete: "off",
      oninput: () => this.drawChoices(list, field) });
    replace(this.picker, h("summary", {}, counted(this.names.length, "metric")), h("div", { class: "popup card" }, field, list));
    this.drawChoices(list, field);
  }

  drawChoices(list, field) {
    let pattern = null;
    try {
      pattern = new RegExp(field.value, "i");
    } catch {
      // Not complete yet; what was there stays.
    }
    field.setAttribute("aria-invalid", String(pattern === null));
    if (!pattern) return;
    const on = new Set(this.shown());
    const found = [...this.names, SPEED_CARD].filter((name) => pattern.test(name));
    replace(list, found.slice(0, 200).map((name) => this.choice(name, on.has(name))),
      found.length > 200 && h("p", { class: "muted" }, `… and ${found.length - 200} more`), found.length === 0 && h("p", { class: "muted" }, "no metric matches"));
  }

  choice(name, isOn) {
    const box = h("input", { type: "checkbox", checked: isOn, onchange: () => {
      const others = this.shown().filter((each) => each !== name);
      this.chosen = box.checked ? [...others, name] : others;
      setQuery({ metrics: this.chosen.join(",") });
      this.draw();
      this.load();
    } });
    return h("label", { class: "check" }, box, h("span", {}, printable(name)));
  }

  close() {
    this.stopping.abort();
    clearTimeout(this.timer);
    for (const card of this.cards.values()) card.close();
  }
}

function clampShare(text) {
  const value = Number(text ?? 0);
  return value >= 0 && value <= 0.99 ? value : 0;
}
