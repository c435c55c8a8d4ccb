// One metric's chart with its name and how much of it is shown.
import { h, setText } from "../base/dom.js";
import { counted, grouped, printable } from "../base/format.js";
import { Chart } from "../charts/chart.js";
import { smoothed } from "../charts/smooth.js";
import { marksOf, stepsPerSecond } from "./choose.js";
import { queryCurves } from "./curves.js";

const ZOOM_BUCKETS = 2000;
const DETAIL_EVERY_MS = 5000;

/** The name of the card that does not show a metric. */
export const SPEED_CARD = "steps/s";

export class ChartCard {
  /** @param {{job: string, name: string, source: string, order: number}} of source: the metric that it reads */
  constructor({ job, name, source, order }) {
    this.job = job;
    this.name = name;
    this.source = source;
    this.detail = null;
    this.count = h("span", { class: "muted count" });
    this.whole = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.chart.reset() }, "Show all");
    this.chart = new Chart({ label: printable(name), styleFrom: order, onZoom: (from, to) => this.zoomed(from, to) });
    this.element = h("figure", { class: "card curve", "data-metric": name },
      h("figcaption", {}, h("h3", {}, printable(name)), this.count, this.whole), this.chart.element);
  }

  /** @param look {smoothing, log, isTime} */
  show(overview, restarts, look) {
    this.overview = overview;
    this.restarts = restarts;
    if (this.look && this.look.isTime !== look.isTime) this.detail = this.window = null;
    this.look = look;
    if (this.mayHaveChanged()) this.zoomed(...this.window);
    this.draw();
  }

  close() {
    this.asking?.abort();
    this.chart.close();
  }

  draw() {
    const curve = this.detail ?? this.overview;
    if (!curve) return;
    const { smoothing, log, isTime } = this.look;
    const values = this.name === SPEED_CARD ? stepsPerSecond(curve) : curve;
    const smooth = smoothing > 0 ? smoothed(values.ys, smoothing) : undefined;
    this.chart.set({
      curves: [{ name: printable(this.name), xs: isTime ? values.times : values.steps, ys: values.ys, lows: values.lows, highs: values.highs, smooth }],
      marks: marksOf(this.restarts, this.overview, isTime), log, isTime,
    });
    setText(this.count, countText(curve));
  }

  // A decimated curve is asked for again where a person looks closer.
  async zoomed(from, to) {
    this.whole.hidden = from === null;
    this.asking?.abort();
    this.window = from === null ? null : [from, to];
    if (from === null || this.overview.perBucket === 1) {
      this.detail = null;
      return this.draw();
    }
    this.asking = new AbortController();
    const [fromStep, toStep] = this.stepsOf(from, to);
    Object.assign(this, { detailMs: performance.now(), newestStep: this.overview.steps.at(-1), detailTo: toStep });
    try {
      const range = { fromStep: String(fromStep), toStep: String(toStep), buckets: ZOOM_BUCKETS };
      const [curve] = await queryCurves(this.job, [this.source], range, this.asking.signal);
      if (curve?.steps.length > 0) this.detail = curve;
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") setText(this.count, printable(error.what ?? error.message));
    }
  }

  // Of a range that ends before the newest step there is nothing new, unless a restart went back.
  mayHaveChanged() {
    const newest = this.overview.steps.at(-1);
    if (!this.window || !this.detail || newest === this.newestStep || performance.now() - this.detailMs < DETAIL_EVERY_MS) return false;
    return this.detailTo >= this.newestStep || newest < this.newestStep;
  }

  // Some more on both sides, so that the lines reach the edges.
  stepsOf(from, to) {
    const { steps, times } = this.overview;
    const xs = this.look.isTime ? times : steps;
    const first = Math.max(0, xs.findIndex((x) => x >= from) - 1);
    const after = xs.findIndex((x) => x > to);
    return [steps[first], steps[after < 0 ? steps.length - 1 : after]];
  }
}

/** "40 points", "782 of 100,000 points" */
function countText({ steps, total, perBucket }) {
  if (perBucket === 1) return counted(steps.length, "point");
  return `${grouped(steps.length)} of ${grouped(total)} points; zoom in for all`;
}
