// The Environment tab: versions, nodes, what the ranks were told, and their variables.
import { h, replace, scrollBox } from "../base/dom.js";
import { printable } from "../base/format.js";
import { emptyState } from "../base/states.js";
import { looksSecret } from "./configuration.js";
import { partText } from "./head.js";

const MOST_PARTS = 64;

/** @returns a panel of job.js */
export const openPanel = (place, context) => new EnvironmentPanel(place, context);

/** "torch 2.11.0+cu130 (CUDA 13.0), driver 535.104.05 (CUDA up to 12.2)" */
function versionsText({ framework = "", toolkit = "", driver = "", driverCuda = "" }) {
  let text = framework;
  if (toolkit === "cpu") text += " (without CUDA)";
  else if (toolkit) text += ` (CUDA ${toolkit})`;
  if (driver) text += `, driver ${driver}`;
  if (driverCuda) text += ` (CUDA up to ${driverCuda})`;
  return text;
}

function versionFacts(attempt) {
  const sets = new Map();
  for (const part of attempt.parts ?? []) {
    if (!part.versions) continue;
    const text = versionsText(part.versions);
    sets.set(text, [...(sets.get(text) ?? []), part.node]);
  }
  return [...sets].map(([text, nodes]) => ["Versions", `${text}: ${nodes.slice(0, 8).join(", ")}${nodes.length > 8 ? ` and ${nodes.length - 8} more` : ""}`]);
}

function attemptFacts(record) {
  const attempt = (record.attempts ?? []).at(-1);
  if (!attempt) return [];
  const parts = attempt.parts ?? [];
  const more = Math.max(0, parts.length - MOST_PARTS) + (attempt.partsLeftOut ?? 0);
  return [
    ...versionFacts(attempt),
    ["WORLD_SIZE", String(attempt.worldSize ?? 0)],
    ["MASTER_ADDR", attempt.masterAddr ?? ""],
    ["MASTER_PORT", attempt.masterPort > 0 ? String(attempt.masterPort) : ""],
    ["Attempt", String(attempt.number ?? 0)],
    ...parts.slice(0, MOST_PARTS).map((part) => ["Node", partText(part)]),
    ["Node", more > 0 ? `… and ${more} more` : ""],
  ];
}

class EnvironmentPanel {
  constructor(place, { record }) {
    this.filter = h("input", { type: "search", placeholder: "filter variables", "aria-label": "Filter variables", autocomplete: "off", oninput: () => this.drawVariables() });
    this.facts = h("dl", { class: "facts" });
    this.body = h("tbody");
    this.none = h("div");
    this.variables = h("div", {}, h("div", { class: "toolbar later" }, h("h2", {}, "Variables"), this.filter),
      h("p", { class: "muted" }, "What the job was submitted with; Muster adds its own for each rank. Values whose names look secret are hidden."),
      scrollBox(h("table", { class: "slim", "aria-label": "Environment variables" }, this.body)));
    replace(place, h("h2", {}, "Newest attempt"), this.none, this.facts, this.variables);
    this.record(record);
  }

  record(record) {
    this.jobRecord = record;
    const facts = attemptFacts(record).filter(([, value]) => value);
    replace(this.none, facts.length === 0 && h("p", { class: "muted" }, "The job has not started."));
    replace(this.facts, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, printable(value))]));
    this.drawVariables();
  }

  drawVariables() {
    const wanted = this.filter.value.toLowerCase();
    const env = Object.entries(this.jobRecord.spec?.env ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
    const shown = env.filter(([name, value]) => name.toLowerCase().includes(wanted) || (!looksSecret(name) && value.toLowerCase().includes(wanted)));
    if (env.length === 0) return replace(this.variables, emptyState("No variables", "The job was submitted with an empty environment."));
    replace(this.body, shown.map(([name, value]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, printable(name)),
      h("td", { class: "mono" }, looksSecret(name) && value ? "(hidden)" : printable(value)))),
      shown.length === 0 && h("tr", {}, h("td", { class: "muted" }, "no variable matches")));
  }
}
