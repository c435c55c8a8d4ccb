/**
 * A heat map of many things with one number each, on a canvas: a thousand ranks are a thousand small squares.
 *
 * new HeatMap({label, onPick}) → {element, set({cells, low, high, scale}), close()}
 *   cells: [{name, value, text, short, isOdd}], value null: not known; short: fits into a cell; isOdd gets a frame;
 *   scale: the line below. Arrows move, Enter or a click picks.
 */
import { h, setAttribute, setText } from "../base/dom.js";
import { onColorsChange, token } from "./palette.js";

const GAP = 2;
const SIZES = { few: [92, 40], some: [44, 26], many: [18, 18] };

export class HeatMap {
  constructor({ label, onPick = () => {} }) {
    this.label = label;
    this.onPick = onPick;
    this.cells = [];
    this.at = -1;
    this.canvas = h("canvas", { class: "heat", tabindex: "0", role: "img", "aria-label": label,
      onpointermove: (event) => this.choose(this.cellAt(event)), onpointerleave: () => this.choose(-1),
      onclick: (event) => this.pick(this.cellAt(event)), onkeydown: (event) => this.onKey(event) });
    this.told = h("p", { class: "heatnote", "aria-live": "polite" });
    this.scale = h("p", { class: "muted heatscale" });
    this.element = h("div", { class: "heatmap" }, this.canvas, this.told, this.scale);
    this.resizes = new ResizeObserver(() => this.draw());
    this.resizes.observe(this.element);
    this.stopColors = onColorsChange(() => this.draw());
  }

  set({ cells, low, high, scale = "" }) {
    Object.assign(this, { cells, low, high });
    setText(this.scale, scale);
    this.draw();
    this.choose(this.at);
  }

  close() {
    this.resizes.disconnect();
    this.stopColors();
  }

  layout() {
    const width = this.element.clientWidth;
    const [w, hgt] = this.cells.length <= 16 ? SIZES.few : this.cells.length <= 128 ? SIZES.some : SIZES.many;
    const columns = Math.max(1, Math.floor((width + GAP) / (w + GAP)));
    return { w, h: hgt, columns, width, height: Math.ceil(this.cells.length / columns) * (hgt + GAP) };
  }

  draw() {
    const at = (this.box = this.layout());
    if (at.width === 0) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(at.width * ratio);
    this.canvas.height = Math.round(at.height * ratio);
    this.canvas.style.height = `${at.height}px`;
    const canvas = this.canvas.getContext("2d");
    canvas.scale(ratio, ratio);
    canvas.font = `${at.w > 60 ? 12 : 11}px system-ui, sans-serif`;
    canvas.textAlign = "center";
    canvas.textBaseline = "middle";
    const colors = { accent: token("--accent"), empty: token("--raised"), text: token("--text"), page: token("--page"), line: token("--edge"), odd: token("--failed") };
    this.cells.forEach((cell, i) => this.drawCell(canvas, cell, i, colors));
  }

  drawCell(canvas, cell, i, colors) {
    const { w, h: hgt, columns } = this.box;
    const x = (i % columns) * (w + GAP);
    const y = Math.floor(i / columns) * (hgt + GAP);
    const share = this.shareOf(cell.value);
    canvas.fillStyle = colors.empty;
    canvas.fillRect(x, y, w, hgt);
    if (share !== null) {
      canvas.globalAlpha = 0.08 + 0.92 * share;
      canvas.fillStyle = colors.accent;
      canvas.fillRect(x, y, w, hgt);
      canvas.globalAlpha = 1;
    } else {
      stroke(canvas, colors.line, 1, [[x, y + hgt], [x + w, y]]);
    }
    if (cell.isOdd || i === this.at) {
      canvas.strokeStyle = i === this.at ? colors.text : colors.odd;
      canvas.lineWidth = 2;
      canvas.strokeRect(x + 1, y + 1, w - 2, hgt - 2);
    }
    if (w <= 20) return;
    canvas.fillStyle = share !== null && share > 0.5 ? colors.page : colors.text;
    canvas.fillText(w > 60 ? `${cell.name}: ${cell.short ?? cell.text}` : cell.name, x + w / 2, y + hgt / 2, w - 4);
  }

  // 0 to 1, or null if nothing is known.
  shareOf(value) {
    if (value === null || !Number.isFinite(value)) return null;
    if (this.high <= this.low) return this.high > 0 ? 0.5 : 0;
    return Math.min(1, Math.max(0, (value - this.low) / (this.high - this.low)));
  }

  cellAt({ offsetX, offsetY }) {
    const { w, h: hgt, columns } = this.box;
    const column = Math.floor(offsetX / (w + GAP));
    const index = Math.floor(offsetY / (hgt + GAP)) * columns + column;
    return column < columns && index >= 0 && index < this.cells.length ? index : -1;
  }

  choose(index) {
    const changed = index !== this.at;
    this.at = index < this.cells.length ? index : -1;
    const cell = this.cells[this.at];
    setText(this.told, cell ? `${cell.name}: ${cell.text}` : "\u00a0");
    setAttribute(this.canvas, "aria-label", `${this.label}${cell ? `. ${cell.name}: ${cell.text}` : ""}`);
    if (changed) this.draw();
  }

  pick(index) {
    if (index >= 0) this.onPick(this.cells[index], index);
  }

  onKey(event) {
    const { columns } = this.box;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, ArrowDown: this.at < 0 ? 0 : this.at + columns, ArrowUp: this.at - columns, Home: 0, End: this.cells.length - 1 }[event.key];
    if (event.key === "Enter") return this.pick(this.at);
    if (to === undefined) return;
    event.preventDefault();
    if (to >= 0 && to < this.cells.length) this.choose(to);
  }
}

function stroke(canvas, color, width, [[x1, y1], [x2, y2]]) {
  canvas.strokeStyle = color;
  canvas.lineWidth = width;
  canvas.beginPath();
  canvas.moveTo(x1, y1);
  canvas.lineTo(x2, y2);
  canvas.stroke();
}
