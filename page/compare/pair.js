// One job against the baseline, as the coordinator says it: the verdict, the summary and the rows.
import { int } from "../base/api.js";
import { h, scrollBox } from "../base/dom.js";
import { counted, printable } from "../base/format.js";
import { errorState } from "../base/states.js";

const MARKS = { FAIL: "✗ FAIL", PASS: "✓ PASS" };

/** @param pair JobComparison of job_service.proto, setup {by: "step" | "epoch", isLimited: boolean} */
export function pairSection(pair, setup) {
  const label = printable(`${pair.job} against ${pair.baseline}`);
  if (pair.problem) return h("section", { class: "pair", "aria-label": label }, errorState(pair.problem));
  const { verdict, rows = [] } = pair;
  const compared = int(pair.compared);
  return h("section", { class: "pair", "aria-label": label, "data-verdict": verdict },
    h("h2", {}, h("span", { class: "verdict", "data-verdict": verdict }, MARKS[verdict] ?? verdict), ` ${printable(pair.head)}`),
    h("ul", { class: "plain mono summary" }, pair.lines.map((line) => h("li", {}, printable(line)))),
    scrollBox(tableOf(rows, setup, `${printable(pair.metric)}: ${label}`)),
    rows.length < compared && h("p", { class: "muted" }, `${rows.length} of ${counted(compared, "row")}: evenly spaced, and those that matter`));
}

function tableOf(rows, { by, isLimited }, label) {
  const columns = [by, "baseline", "value", "abs", "rel", ...(isLimited ? ["limit"] : [])];
  return h("table", { class: "differences", "aria-label": label },
    h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col", class: name === "limit" ? "" : "number" }, name)))),
    h("tbody", {}, rows.map(({ at = "0", past = false, texts }) => h("tr", { "data-at": at, "data-past": past },
      [at, ...texts].map((text) => h("td", { class: "number" }, text)),
      isLimited && h("td", { class: past ? "bad" : "" }, past ? "PAST" : "ok")))));
}
