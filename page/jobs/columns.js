/** The columns of the jobs list. */
// @ts-check
import { int, number } from "../base/api.js";
import { setState, severityIcon, stateBadge } from "../base/badge.js";
import { h, keyed, setAttribute, setText } from "../base/dom.js";
import { age, devicesOf, duration, eta, general, grouped, isOver, labelsOf, printable, took } from "../base/format.js";
import { jobPath } from "../base/route.js";

// How long a job has been running, or ran, without the time in the queue between two attempts; -1: it never did.
function ranMs(job) {
  const since = int(job.runningSinceMs);
  return int(job.firstRunningMs) ? int(job.ranMs) + (since ? Math.max(0, Date.now() - since) : 0) : -1;
}

// Of a running job in whole seconds: tenths would be old when read.
function ranText(job) {
  const ms = ranMs(job);
  if (ms < 0) return "";
  return isOver(job.state) ? took(ms) : duration(Math.floor(ms / 1000) * 1000);
}

/** @param {{isPicked(job: any): boolean, pick(job: any): void, addLabel(label: string): void}} list */
export const jobColumns = (list) => [
  { id: "pick", label: h("span", { class: "unseen" }, "Choose"), make: (cell) => makePick(cell, list), fill: fillPick(list) },
  { id: "state", label: "State", make: (cell) => cell.append(stateBadge("")), fill: fillState },
  { id: "name", label: "Job", make: makeName, fill: (cell, job) => fillName(cell, job, list) },
  { id: "devices", label: "Devices", fill: (cell, job) => setText(cell, devicesOf(job)) },
  { id: "step", label: "Step", hint: "newest step; the bar is the share of its running time, where an end is in sight", make: makeStep, fill: fillStep },
  { id: "loss", label: "Loss", hint: "newest value of the metric that stands for the run, of the lowest rank that reports it", fill: fillLoss },
  { id: "eta", label: "ETA", fill: (cell, job) => setText(cell, job.etaMs ? eta(job.etaMs) : "") },
  { id: "ran", label: "Ran", fill: (cell, job) => setText(cell, ranText(job)) },
  { id: "age", label: "Age", hint: "since it was submitted", fill: (cell, job) => setText(cell, age(job.submittedMs)) },
  { id: "owner", label: "Owner", fill: (cell, job) => setText(cell, printable(job.owner)) },
  { id: "note", label: "Finding or reason", make: makeNote, fill: fillNote },
];

function fillLoss(cell, job) {
  setText(cell, job.hasLoss ? general(number(job.loss)) : "");
  setAttribute(cell, "title", job.hasLoss ? printable(job.lossName || "loss") : "");
}

function makePick(cell, list) {
  const box = h("input", { type: "checkbox", tabindex: "-1", onchange: () => list.pick(cell.musterJob) });
  cell.append(h("label", {}, box));
}

const fillPick = (list) => (cell, job) => {
  cell.musterJob = job;
  const box = cell.firstChild.firstChild;
  setAttribute(box, "aria-label", `choose ${printable(job.name)}`);
  box.checked = list.isPicked(job);
};

function fillState(cell, job) {
  setState(cell.firstChild, job.state, { held: job.held });
}

function makeName(cell) {
  cell.append(h("a"), h("span", { class: "labels" }));
}

function fillName(cell, job, list) {
  const [link, labels] = cell.children;
  setText(link, printable(job.name));
  setAttribute(link, "href", jobPath(job.name));
  setAttribute(link, "title", printable(job.command));
  const all = labelsOf(job.labels);
  if (labels.childElementCount || all.length) {
    keyed(labels, all, (label) => label, (label) => h("button", {
      type: "button", class: "tag", tabindex: "-1", title: `only jobs with ${printable(label)}`, onclick: () => list.addLabel(label),
    }, printable(label)));
  }
}

function makeStep(cell) {
  cell.append(h("span", { class: "value" }), h("span", { class: "meter", hidden: true }, h("span")));
}

function fillStep(cell, job) {
  const [value, meter] = cell.children;
  const step = int(job.step);
  setText(value, step > 0 || job.hasLoss ? grouped(step) : "");
  const left = int(job.etaMs, -1);
  meter.hidden = left < 0 || isOver(job.state);
  if (meter.hidden) return;
  const share = Math.max(0, Math.min(1, ranMs(job) / (ranMs(job) + left)));
  const width = `${(share * 100).toFixed(1)}%`;
  if (meter.firstChild.style.width !== width) meter.firstChild.style.width = width;
}

function makeNote(cell) {
  cell.append(h("span"), h("span", { class: "text" }));
}

// A finding first: it says what to do. Otherwise why the job is in its state; for one that succeeded, that says it all.
function fillNote(cell, job) {
  const [mark, text] = cell.children;
  const severity = job.finding?.severity ?? "";
  if (mark.dataset.severity !== severity) {
    mark.dataset.severity = severity;
    mark.replaceChildren(...(severity ? [severityIcon(severity)] : []));
  }
  const reason = job.state === "JOB_STATE_SUCCEEDED" ? "" : job.reason;
  const words = printable(job.finding ? job.finding.sentence : reason);
  setText(text, words);
  setAttribute(text, "title", job.finding ? printable([job.finding.sentence, job.finding.cause, job.finding.fix].filter(Boolean).join("\n")) : words || null);
}
