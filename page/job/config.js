// The Config tab: what the job was asked to be, and how that differs from another job.
import { call, int } from "../base/api.js";
import { h, replace, scrollBox } from "../base/dom.js";
import { commandLine, counted, printable, shellQuote } from "../base/format.js";
import { commandBox, errorState } from "../base/states.js";
import { configurationOf, differencesOf, reproduceLine, shownFields } from "./configuration.js";

/** @returns a panel of job.js */
export const openPanel = (place, context) => new ConfigPanel(place, context);

class ConfigPanel {
  constructor(place, { record, query }) {
    this.jobRecord = record;
    this.stopping = new AbortController();
    const parent = int(record.spec?.rerunOf);
    this.field = h("input", { type: "text", id: "other-job", autocomplete: "off", placeholder: "a job, e.g. train-7" });
    this.field.value = query.get("against") ?? (parent > 0 ? String(parent) : "");
    this.result = h("div", { role: "status" });
    const form = h("form", { class: "toolbar", onsubmit: (event) => {
      event.preventDefault();
      this.compare();
    } }, h("label", { for: "other-job" }, parent > 0 ? "Differs from its parent, or from" : "Differs from"), this.field, h("button", { type: "submit" }, "Compare"));
    replace(place, h("h2", {}, "Command"), commandBox(printable(commandLine(record.spec?.command))),
      h("h2", { class: "later" }, "Run it again"), commandBox(printable(reproduceLine(record.spec ?? {}))),
      h("h2", { class: "later" }, "Differences"), form, this.result,
      h("h2", { class: "later" }, "Configuration"), this.allFields());
    if (this.field.value) this.compare();
  }

  allFields() {
    const fields = shownFields(configurationOf(this.jobRecord, {})).filter(([name]) => !name.startsWith("env "));
    return scrollBox(h("table", { class: "slim", "aria-label": "Configuration" }, h("tbody", {},
      fields.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, printable(name)), h("td", { class: "mono" }, printable(value)))))));
  }

  async compare() {
    const other = this.field.value.trim();
    if (!other) return replace(this.result);
    try {
      const { signal } = this.stopping;
      const [{ record }, nodes] = await Promise.all([call("GetJob", { job: other }, { signal }), call("ListNodes", {}, { signal })]);
      const found = differencesOf(configurationOf(record, nodes), configurationOf(this.jobRecord, nodes));
      replace(this.result, differenceTable(found, [record.name, this.jobRecord.name]),
        commandBox(`jobctl diff ${shellQuote(record.name)} ${shellQuote(this.jobRecord.name)}`));
    } catch (error) {
      if (error.name !== "AbortError") replace(this.result, errorState(error));
    }
  }

  close() {
    this.stopping.abort();
  }
}

/** The fields that differ, one column per job. */
export function differenceTable(differences, [a, b]) {
  if (differences.length === 0) return h("p", {}, `${printable(a)} and ${printable(b)} have the same configuration.`);
  const cell = (value) => h("td", { class: value === undefined ? "muted" : "mono" }, value === undefined ? "none" : printable(value));
  return scrollBox(h("table", { class: "slim", "aria-label": `Configuration of ${printable(a)} and ${printable(b)}: ${counted(differences.length, "difference")}` },
    h("thead", {}, h("tr", {}, ["Field", printable(a), printable(b)].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, differences.map((difference) => h("tr", { "data-field": difference.field },
      h("th", { scope: "row" }, printable(difference.field)), cell(difference.a), cell(difference.b))))));
}
