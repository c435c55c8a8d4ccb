/** Devices as cells: how busy each is now as a number and a bar, before as a small area, and for which job. */
// @ts-check
import { int, number } from "../base/api.js";
import { h, s, setAttribute, setText } from "../base/dom.js";
import { bytes, counted, percent, printable, took } from "../base/format.js";
import { jobPath } from "../base/route.js";
import { WINDOW_MS, historyOf } from "./history.js";

const OLD_MS = 10_000;
const WIDTH = 100;
const HEIGHT = 24;
const GAP_MS = 25_000;  // nothing was measured in between

/** The cells of a node: its processors together, and each accelerator. */
export function cellsOf({ view, use, jobs }) {
  const { facts } = view.record;
  const old = use && use.ageMs > OLD_MS ? use.ageMs : 0;
  const free = view.record.connected ? "free" : "no contact";
  const accelerators = (facts.devices ?? []).filter((device) => device.kind !== "cpu");
  const cells = accelerators.map((device) => deviceCell({ node: facts.name, device, use, jobs, old, free: hasUnmeasured(view, use, device.kind) ? "not measured" : free }));
  const processors = { key: "cpu", node: facts.name, label: `${facts.cores ?? 0} cpu cores`, share: null, what: "", old, memory: "", title: "" };
  if (use && facts.cores) {
    Object.assign(processors, {
      share: use.cores / facts.cores, what: `${use.cores.toFixed(1)} cores busy`,
      memory: `${bytes(use.resident)} of ${bytes(int(facts.memoryBytes))}`,
    });
  } else processors.what = view.jobs?.length && view.record.connected ? "not measured" : free;
  return [...cells, processors];
}

// More devices are taken than there are samples of: one without a sample may be busy. The samples of very many jobs do not
// all fit into an answer, and not every device can be measured.
function hasUnmeasured(view, use, kind) {
  const { used = 0 } = (view.uses ?? []).find((each) => each.kind === kind) ?? {};
  const measured = [...(use?.devices.keys() ?? [])].filter((key) => key.startsWith(`${kind}:`)).length;
  return view.record.connected && used > measured;
}

function deviceCell({ node, device, use, jobs, old, free }) {
  const key = `${device.kind}:${device.index ?? 0}`;
  const { job, sample } = use?.devices.get(key) ?? {};
  const cell = { key, node, label: `${device.kind} ${device.index ?? 0}`, share: null, what: free, old: job ? old : 0, memory: "", title: device.model ?? "", job: "" };
  if (!sample) return cell;
  cell.job = jobs.get(String(job)) ?? "";
  cell.what = cell.job || `job ${job}`;
  if (sample.utilization !== undefined) cell.share = number(sample.utilization);
  if (sample.memoryUsedBytes) cell.memory = `${bytes(int(sample.memoryUsedBytes))} of ${bytes(int(sample.memoryTotalBytes))}`;
  cell.fault = faultText(sample);
  cell.title = [device.model, sample.powerWatts && `${number(sample.powerWatts).toFixed(0)} W`,
    sample.temperatureCelsius && `${number(sample.temperatureCelsius).toFixed(0)} °C`,
    sample.throttledBy?.length && `throttled by ${sample.throttledBy.join(", ")}`].filter(Boolean).join(", ");
  return cell;
}

// What its driver has counted since it was loaded: a device with such errors is about to fail, or has.
function faultText({ xidCount, lastXid, uncorrectedErrors }) {
  if (int(xidCount)) return `${counted(int(xidCount), "fault")}, newest XID ${lastXid}`;
  return int(uncorrectedErrors) ? `${counted(int(uncorrectedErrors), "memory error")}` : "";
}

export function makeCell(cell) {
  return h("li", { class: "cell", "data-device": cell.key },
    h("span", { class: "label" }), h("span", { class: "share" }), spark(), h("a", { class: "what clip" }), h("span", { class: "memory clip muted" }));
}

export function updateCell(element, cell, now) {
  const [label, share, area, what, memory] = element.children;
  setText(label, cell.label);
  setText(share, cell.share === null ? "" : percent(Math.min(cell.share, 9.99), 0));
  setText(what, cell.old ? `no sample for ${took(cell.old)}` : printable(cell.what));
  setAttribute(what, "href", cell.job ? jobPath(cell.job) : null);
  setText(memory, cell.fault || cell.memory);
  setAttribute(element, "data-fault", Boolean(cell.fault));
  setAttribute(element, "title", printable(cell.title) || null);
  setAttribute(element, "data-busy", Boolean(cell.job) || cell.share !== null);
  drawSpark(area, historyOf(cell.node, cell.key), now);
}

// A small area over the last minutes: the right edge is now, the full height is 100 %.
function spark() {
  return s("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    s("path", { class: "area" }), s("path", { class: "line" }));
}

function drawSpark(element, points, now) {
  const lines = pieces(points.filter((point) => point.at > now - WINDOW_MS), now);
  const line = lines.map((piece) => `M${piece.map((point) => point.join(" ")).join("L")}`).join("");
  const area = lines.map((piece) => `M${piece[0][0]} ${HEIGHT}L${piece.map((point) => point.join(" ")).join("L")}L${piece.at(-1)[0]} ${HEIGHT}Z`).join("");
  element.firstChild.setAttribute("d", area);
  element.lastChild.setAttribute("d", line);
}

function pieces(points, now) {
  const lines = [];
  let before = -Infinity;
  for (const { at, share } of points) {
    if (at - before > GAP_MS) lines.push([]);
    before = at;
    const x = WIDTH * (1 - (now - at) / WINDOW_MS);
    lines.at(-1).push([Number(x.toFixed(1)), Number((HEIGHT - 1 - Math.max(0, Math.min(1, share)) * (HEIGHT - 2)).toFixed(1))]);
  }
  return lines;
}
