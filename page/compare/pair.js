// One run against the baseline: the verdict, the summary and the rows.
import { h, scrollBox } from "../base/dom.js";
import { counted, printable } from "../base/format.js";
import { errorState } from "../base/states.js";
import { compare } from "./difference.js";
import { exactNumber, headText, peopleNumber, peoplePercent, summaryLines, thinned, verdictOf } from "./words.js";

/** @param pair of compareRuns, setup {by, limit} */
export function pairSection(pair, setup) {
  const label = `${pair.runName} against ${pair.baselineName}`;
  if (pair.problem) return h("section", { class: "pair", "aria-label": printable(label) }, errorState(pair.problem));
  const verdict = verdictOf(pair.differences, setup.limit);
  const rows = [];
  compare(pair.baseline, pair.run, setup.limit, (row) => rows.push(row));
  const shown = thinned(rows, pair.differences);
  return h("section", { class: "pair", "aria-label": printable(label), "data-verdict": verdict },
    h("h2", {}, h("span", { class: "verdict", "data-verdict": verdict }, { FAIL: "✗ FAIL", PASS: "✓ PASS" }[verdict] ?? verdict), ` ${printable(headText(pair, setup.by))}`),
    h("ul", { class: "plain mono summary" }, summaryLines(pair, setup.by, setup.limit).map((line) => h("li", {}, printable(line)))),
    scrollBox(tableOf(shown, setup, printable(`${pair.key}: ${label}`))),
    shown.length < rows.length && h("p", { class: "muted" }, `${shown.length} of ${counted(rows.length, "row")}: evenly spaced, and those that matter`));
}

function tableOf(rows, { by, limit }, label) {
  const columns = [by, "baseline", "value", "abs", "rel", ...(limit.given ? ["limit"] : [])];
  return h("table", { class: "differences", "aria-label": label },
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col", class: name === "limit" ? "" : "number" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", { "data-at": String(row.at), "data-past": row.past },
      [String(row.at), exactNumber(row.baseline), exactNumber(row.value), peopleNumber(row.abs), peoplePercent(row.rel)].map((text) => h("td", { class: "number" }, text)),
      limit.given && h("td", { class: row.past ? "bad" : "" }, row.past ? "PAST" : "ok")))));
}
