/**
 * A line chart. Only page/charts/ knows dygraphs, which gets numbers only: names are ours and stay text.
 *
 * new Chart({label, onZoom, format, styleFrom}) → {element, set(what), close()}
 *   onZoom(from, to) is called with x after a person has zoomed or moved; (null, null): all of it again
 *   styleFrom: of the first curve, so that neighboring charts differ
 * set({curves, marks, log, isTime}) draws; curves: charts/rows.js, marks: [{x, label}]
 */
import { h, s, setAttribute, setText } from "../base/dom.js";
import { clockTime, general, grouped, localTime } from "../base/format.js";
import { loadDygraphs } from "./load.js";
import { paintBands, paintMarks, paintNotFinite } from "./paint.js";
import { curveStyle, onColorsChange, token } from "./palette.js";
import { columnsOf, extentOf, firstAtLeast, paddedRange, rowsOf } from "./rows.js";

const KEY_STEPS = { ArrowLeft: [-0.2, 1], ArrowRight: [0.2, 1], "+": [0, 0.5], "=": [0, 0.5], "-": [0, 2] };

export class Chart {
  constructor({ label, onZoom = () => {}, format = (value) => general(value, 6), styleFrom = 0 }) {
    this.label = label;
    this.onZoom = onZoom;
    this.format = format;
    this.styleFrom = styleFrom;
    this.shown = { curves: [], marks: [], log: false, isTime: false };
    this.graph = null;
    this.closed = false;
    this.plot = h("div", { class: "plot", tabindex: "0", role: "img", "aria-label": label,
      "aria-keyshortcuts": "ArrowLeft ArrowRight + - 0", onkeydown: (event) => this.onKey(event) });
    this.legend = h("ul", { class: "legend", role: "list" });
    this.cursor = h("span", { class: "cursor" });
    this.element = h("div", { class: "chart", "data-chart": label }, h("div", { class: "readout" }, this.legend, this.cursor), this.plot);
    this.stopColors = onColorsChange(() => this.recolor());
    this.resizes = new ResizeObserver(() => this.graph?.resize());
    this.resizes.observe(this.plot);
  }

  /** Draws these curves; cheap enough for four times a second. */
  set(shown) {
    const wasTime = this.shown.isTime;
    this.shown = { ...this.shown, ...shown };
    this.columns = columnsOf(this.shown.curves);
    this.styles = this.stylesOf(this.shown.curves);
    this.describe();
    if (wasTime !== this.shown.isTime) this.window = null;
    if (!this.graph) return this.make();
    if (shapeOf(this.columns) !== this.shape || wasTime !== this.shown.isTime) return this.remake();
    this.draw();
  }

  close() {
    this.closed = true;
    clearTimeout(this.soon);
    this.stopColors();
    this.resizes.disconnect();
    this.graph?.destroy();
    this.graph = null;
  }

  /** Shows all x again. */
  reset() {
    clearTimeout(this.soon);
    this.window = null;
    this.draw();
    this.onZoom(null, null);
  }

  async make() {
    if (this.making || this.shown.curves.length === 0) return;
    this.making = true;
    try {
      const Dygraph = await loadDygraphs();
      if (!this.closed) this.build(Dygraph);
    } catch (error) {
      setText(this.cursor, `${error.message}; reload the page`);
    } finally {
      this.making = false;
    }
  }

  remake() {
    this.graph.destroy();
    this.graph = null;
    this.plot.replaceChildren();
    this.make();
  }

  build(Dygraph) {
    this.shape = shapeOf(this.columns);
    const time = this.shown.isTime;
    this.graph = new Dygraph(this.plot, this.rows(), {
      ...this.options(),
      labels: ["x", ...this.columns.map((column, at) => `y${at}`)],
      legend: "never", connectSeparatedPoints: true, animatedZooms: false, drawGapEdgePoints: true,
      highlightCircleSize: 3, rightGap: 4, xRangePad: 4, axisLabelFontSize: Math.round(rem() * 0.85),
      axes: {
        x: {
          pixelsPerLabel: Math.round(rem() * 5.5), ticker: time ? Dygraph.dateTicker : Dygraph.numericLinearTicks,
          axisLabelFormatter: time ? Dygraph.dateAxisLabelFormatter : (x) => (Number.isInteger(x) ? grouped(x) : ""),
        },
        y: { axisLabelWidth: Math.round(rem() * 4.4), axisLabelFormatter: axisText, pixelsPerLabel: Math.round(rem() * 2) },
      },
      zoomCallback: (from, to) => this.zoomed(from, to),
      highlightCallback: (event, x, points, row) => this.point(row, x),
      unhighlightCallback: () => this.point(-1),
      underlayCallback: (canvas, area, graph) => this.underlay(canvas, area, graph),
      drawCallback: (graph, isFirst) => isFirst || this.moved(graph),
    });
  }

  rows() {
    const rows = rowsOf(this.shown.curves, this.columns, this.shown.log);
    return rows.length > 0 ? rows : [[0, ...this.columns.map(() => null)]];
  }

  options() {
    const [from, to] = this.window ?? [-Infinity, Infinity];
    const series = {};
    this.columns.forEach((column, at) => {
      const { color, dash } = this.styles[column.of];
      const lonely = this.shown.curves[column.of].xs.length === 1;
      series[`y${at}`] = column.raw
        ? { color: faint(color), strokeWidth: 1, highlightCircleSize: 0 }
        : { color, strokeWidth: 1.6, strokePattern: dash, drawPoints: lonely, pointSize: 3 };
    });
    return {
      series, logscale: this.shown.log, dateWindow: this.window,
      valueRange: paddedRange(extentOf(this.shown.curves, from, to, this.shown.log), this.shown.log),
      gridLineColor: token("--line"), axisLineColor: token("--line"),
    };
  }

  draw() {
    if (!this.graph) return;
    this.drawing = true;
    this.graph.updateOptions({ file: this.rows(), ...this.options() });
    this.drawing = false;
  }

  recolor() {
    this.styles = this.stylesOf(this.shown.curves);
    this.describe();
    this.draw();
  }

  // A curve that is alone needs no dashes to be told apart.
  stylesOf(curves) {
    return curves.map((curve, n) => ({ color: curveStyle(this.styleFrom + n).color, dash: curveStyle(n).dash }));
  }

  zoomed(from, to) {
    if (!this.graph.isZoomed("x")) return this.reset();
    this.window = [from, to];
    this.draw();
    this.onZoom(from, to);
  }

  // A person dragged the view with Shift held: dygraphs only draws again.
  moved(graph) {
    if (this.drawing || !this.window || !graph.isZoomed("x")) return;
    const [from, to] = graph.xAxisRange();
    if (from === this.window[0] && to === this.window[1]) return;
    this.window = [from, to];
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.onZoom(from, to), 200);
  }

  onKey(event) {
    if (!this.graph || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "0" || (event.key === "Escape" && this.window)) this.reset();
    else if (KEY_STEPS[event.key]) this.zoomBy(...KEY_STEPS[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  zoomBy(shift, scale) {
    const [from, to] = this.graph.xAxisRange();
    const [first, last] = this.graph.xAxisExtremes();
    const half = ((to - from) * scale) / 2;
    const middle = (from + to) / 2 + (to - from) * shift;
    const low = Math.max(first, Math.min(middle - half, last - 2 * half));
    const high = Math.min(last, low + 2 * half);
    if (low <= first && high >= last) return this.reset();
    this.window = [low, high];
    this.draw();
    this.onZoom(low, high);
  }

  underlay(canvas, area, graph) {
    const { curves, marks } = this.shown;
    paintBands(canvas, graph, curves, this.styles);
    paintMarks(canvas, area, graph, marks);
    paintNotFinite(canvas, area, graph, curves, this.styles);
  }

  // The values under the cursor, or the last ones.
  point(row, x) {
    const { curves, isTime } = this.shown;
    setText(this.cursor, row < 0 ? "" : isTime ? localTime(x) : `step ${grouped(x)}`);
    [...this.legend.children].forEach((item, n) => {
      setText(item.lastElementChild, this.valueText(curves[n], row < 0 ? Infinity : x));
    });
  }

  valueText(curve, x) {
    const at = x === Infinity ? curve.xs.length - 1 : firstAtLeast(curve.xs, x);
    if (at < 0 || (x !== Infinity && curve.xs[at] !== x)) return "";
    const value = this.format(curve.ys[at]);
    const text = curve.smooth ? `${this.format(curve.smooth[at])} (${value})` : value;
    if (!curve.lows || curve.lows[at] === curve.highs[at]) return text;
    return `${text}, ${this.format(curve.lows[at])} to ${this.format(curve.highs[at])}`;
  }

  // Text for those who do not see the chart, and the legend for all.
  describe() {
    const { curves, marks, isTime } = this.shown;
    const parts = curves.map((curve) => sentenceOf(curve, isTime, this.format));
    const restarts = marks.length > 0 ? `; restarts marked: ${marks.length}` : "";
    setAttribute(this.plot, "aria-label", `${this.label}. ${parts.join("; ")}${restarts}`);
    while (this.legend.children.length > curves.length) this.legend.lastElementChild.remove();
    while (this.legend.children.length < curves.length) this.legend.append(legendItem());
    curves.forEach((curve, n) => {
      const [swatch, name] = this.legend.children[n].children;
      const line = swatch.firstElementChild;
      setAttribute(line, "stroke", this.styles[n].color);
      setAttribute(line, "stroke-dasharray", this.styles[n].dash?.join(" "));
      setText(name, curves.length > 1 ? curve.name : ""); // a chart of one curve has its name above it
    });
    this.point(-1);
  }
}

// While it stays, a graph can take new rows.
const shapeOf = (columns) => columns.map((column) => `${column.of}${column.raw}`).join();
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize) || 13;
// 62,000 reads better than 6.2e+04; smaller and larger numbers stay short.
const axisText = (y) => (Math.abs(y) >= 1e4 && Math.abs(y) < 1e7 ? grouped(Math.round(y)) : general(y, 4));
const faint = (color) => (/^#[0-9a-f]{6}$/i.test(color) ? `${color}59` : color);

function legendItem() {
  const line = s("line", { x1: "0", y1: "5", x2: "22", y2: "5", "stroke-width": "2.5" });
  return h("li", {}, s("svg", { width: "22", height: "10", "aria-hidden": "true" }, line), h("span", { class: "name" }), h("b"));
}

function sentenceOf({ name, xs, ys }, isTime, format) {
  if (xs.length === 0) return `${name}: no points`;
  const extent = extentOf([{ xs, ys }], -Infinity, Infinity, false);
  const range = extent ? `, lowest ${format(extent[0])}, highest ${format(extent[1])}` : "";
  const where = (x) => (isTime ? clockTime(x) : `step ${x}`);
  return `${name} from ${where(xs[0])} to ${where(xs[xs.length - 1])}: last ${format(ys[ys.length - 1])}${range}`;
}
