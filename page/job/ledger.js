// The Ledger tab: where the job's device time went. The parts add up to the total exactly.
import { call, int } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { counted, deviceTime, percent, printable, shellQuote, took } from "../base/format.js";
import { commandBox, errorState, loadingState } from "../base/states.js";
import { brief } from "./said.js";

const PARTS = [
  ["queue", "queueUs"], ["start", "startUs"], ["data", "dataUs"], ["compute", "computeUs"], ["communication", "communicationUs"],
  ["checkpoint", "checkpointUs"], ["restarts", "restartUs"], ["repeated steps", "repeatedUs"], ["idle devices", "idleUs"], ["unknown", "unknownUs"],
];

/** @returns a panel of job.js */
export const openPanel = (place, context) => new LedgerPanel(place, context);

class LedgerPanel {
  constructor(place, { job, record, assessment }) {
    this.place = place;
    this.job = job;
    this.name = record.name;
    replace(place, loadingState());
    if (assessment) this.assessment(assessment);
    else this.read();
  }

  async read() {
    try {
      this.assessment(await call("AssessJob", { job: this.job }));
    } catch (error) {
      if (!this.shown) replace(this.place, errorState(error, () => this.read()));
    }
  }

  assessment({ ledger = {} }) {
    const key = JSON.stringify(ledger);
    if (key === this.shown) return;
    this.shown = key;
    const total = int(ledger.totalUs);
    const rows = PARTS.map(([name, field], n) => ({ name, n, us: int(ledger[field]) }));
    replace(this.place, h("h2", {}, `Device time: ${deviceTime(total)}`),
      h("p", { class: "muted" }, `${counted(ledger.devices ?? 0, "device")}, ${took(int(ledger.wallUs) / 1000)} since it was submitted`),
      barOf(rows, total), tableOf(rows, total), goodputOf(ledger),
      (ledger.blames ?? []).map((blame) => h("p", {}, printable(`Lost to ${blame.who}: ${deviceTime(int(blame.us))} (${blame.what})`))),
      ledger.newestCause && h("p", { title: printable(ledger.newestCause) }, printable(`Newest failure: ${brief(ledger.newestCause)}`)), commandBox(`jobctl show ${shellQuote(this.name)} --ledger`));
  }
}

function barOf(rows, total) {
  const pieces = rows.filter((row) => row.us > 0).map((row) => {
    const piece = h("span", { class: "piece", "data-part": String(row.n), title: `${row.name}: ${deviceTime(row.us)}` });
    piece.style.flexGrow = String(row.us / Math.max(1, total));
    return piece;
  });
  const words = rows.filter((row) => row.us > 0).map((row) => `${row.name} ${percent(row.us / total)}`).join(", ");
  return h("div", { class: "stackbar", role: "img", "aria-label": words || "nothing yet" }, pieces);
}

function tableOf(rows, total) {
  const row = ({ name, n, us }) => h("tr", { "data-us": String(us), class: us === 0 ? "muted" : "" },
    h("th", { scope: "row" }, h("span", { class: "swatch", "data-part": String(n), "aria-hidden": "true" }), name),
    h("td", { class: "number" }, deviceTime(us)), h("td", { class: "number" }, percent(us / Math.max(1, total))));
  return h("table", { class: "ledger", "aria-label": "Where the device time went" }, h("tbody", {}, rows.map(row)),
    h("tfoot", {}, h("tr", { "data-us": String(total) }, h("th", { scope: "row" }, "total"), h("td", { class: "number" }, deviceTime(total)), h("td", { class: "number" }, total > 0 ? "100.0 %" : ""))));
}

function goodputOf(ledger) {
  if (ledger.goodput === undefined) return h("p", {}, "Goodput: unknown, because the trainer reports no step times (\"time/step\")");
  return h("p", {}, `Goodput: ${percent(ledger.goodput)} of its device time computed steps that count`);
}
