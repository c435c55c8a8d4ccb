// One row of the log.
import { h, setAttribute, setText } from "../base/dom.js";
import { clockTime, printable } from "../base/format.js";
import { ranksText } from "./lines.js";

const COLORS = 8;

/** An empty row. */
export function newRow() {
  return h("div", { class: "logline" }, h("span", { class: "time" }), h("span", { class: "who" }), h("span", { class: "text" }));
}

/** Shows a line; `world` is how many ranks there are. */
export function fillRow(row, line, world, isMarked) {
  const [time, who, text] = row.children;
  setText(time, line.timeUs ? clockTime(line.timeUs / 1000) : "");
  setText(who, line.isNotice ? "" : `${ranksText(line.ranks, world)}${line.isErr ? " err" : ""}`);
  setText(text, printable(line.text));
  setAttribute(row, "data-color", line.ranks.length === 1 ? String(line.rank % COLORS) : null);
  setAttribute(row, "data-stream", line.isNotice ? "notice" : line.isErr ? "stderr" : "stdout");
  setAttribute(row, "data-ranks", line.ranks.join(","));
  setAttribute(row, "data-marked", isMarked);
  setAttribute(who, "title", line.ranks.length > 1 ? `ranks ${line.ranks.slice(0, 200).join(", ")}` : null);
}
