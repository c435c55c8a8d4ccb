// The top of a job's page: the worst finding, the job's state and what it runs on.
import { int } from "../base/api.js";
import { actionButton, jobActions } from "../base/actions.js";
import { setState, severityIcon, stateBadge } from "../base/badge.js";
import { h, keyed, replace, setText } from "../base/dom.js";
import {
  age, causeName, clockTime, counted, deviceTime, eta, general, isOver, labelsOf, localTime, percent, printable, ranges, took,
} from "../base/format.js";
import { jobPath } from "../base/route.js";
import { fixOf } from "../base/states.js";
import { isIn, linesToQuote } from "./said.js";

const ATTEMPTS_SHOWN = 5;

export class JobHead {
  constructor() {
    this.badge = stateBadge("");
    this.title = h("h1");
    this.since = h("span", { class: "muted" });
    this.actions = h("span", { class: "end actions" });
    this.reason = h("p", { class: "reason" });
    this.why = h("ul", { class: "waitreasons", "aria-label": "What it waits for" });
    this.findings = h("section", { class: "findings", "aria-label": "Findings", "aria-live": "polite", hidden: true });
    this.facts = h("dl", { class: "facts" });
    this.attempts = h("div", { class: "attempts" });
    this.element = h("div", { class: "jobhead" },
      h("div", { class: "toolbar" }, this.title, this.badge, this.since, this.actions), this.findings, this.reason, this.why,
      h("div", { class: "about" }, this.facts, this.attempts));
    this.judged = null;
  }

  record(record, summary) {
    this.shown = { record, summary };
    setText(this.title, printable(record.name));
    setState(this.badge, record.state, { held: Boolean(record.held) });
    this.tick();
    setText(this.reason, printable(reasonOf(record)));
    this.reason.hidden = !this.reason.textContent;
    const key = [record.state, record.held, summary?.checkpointStep].join();
    if (key !== this.actionsKey) replace(this.actions, jobActions({ checkpointStep: summary ? 0 : -1, ...summary, ...record }).map(actionButton));
    this.actionsKey = key;
    this.drawFacts();
    this.drawAttempts(record);
  }

  /** Ages grow. */
  tick() {
    const record = this.shown?.record;
    if (record) setText(this.since, isOver(record.state) ? `${age(record.finishedMs)} ago` : `for ${age(record.stateMs)}`);
  }

  /** What AssessJob says. */
  assessment(assessment) {
    this.judged = assessment;
    const findings = assessment.findings ?? [];
    const said = this.shown ? reasonOf(this.shown.record) : "";
    const key = JSON.stringify([findings, said]);
    if (key !== this.findingsKey) {
      const worst = findings.slice(0, 1).map((finding) => findingOf(finding, said));
      const others = findings.slice(1);
      replace(this.findings, worst, others.length > 0 && h("details", { open: others.length < 3 },
        h("summary", {}, `and ${counted(others.length, "more finding")}`), others.map((finding) => findingOf(finding, said))));
    }
    this.findingsKey = key;
    this.findings.hidden = findings.length === 0;
    if (this.shown) this.drawFacts();
  }

  /** What WhyJob says about a job that waits; nothing for others. */
  waits(details) {
    keyed(this.why, details, (text) => text, (text) => h("li", {}, printable(text)));
    this.why.hidden = details.length === 0;
  }

  drawFacts() {
    const facts = factsOf(this.shown.record, this.shown.summary ?? {}, this.judged).filter(([, value]) => value);
    const key = JSON.stringify(facts.map(([name, value]) => [name, value instanceof Node ? value.textContent : value]));
    if (key === this.factsKey) return;
    this.factsKey = key;
    replace(this.facts, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }

  drawAttempts(record) {
    const attempts = record.attempts ?? [];
    const said = [reasonOf(record)];
    const key = JSON.stringify([said, attempts.map((attempt) => [attempt.number, attempt.endedMs, attempt.runningMs, attempt.masterPort])]);
    if (key === this.attemptsKey) return;
    this.attemptsKey = key;
    const shown = attempts.slice(-ATTEMPTS_SHOWN).reverse();
    const hidden = (record.droppedAttempts ?? 0) + attempts.length - shown.length;
    replace(this.attempts, shown.length > 0 && h("h2", { class: "unseen" }, "Attempts"), h("ol", { class: "plain" }, shown.map((attempt) => attemptOf(attempt, said))),
      hidden > 0 && h("p", { class: "muted" }, `${counted(hidden, "earlier one")}: see Events`));
  }
}

// A job's reason repeats what its layout says while it runs.
function reasonOf(record) {
  if (record.state === "JOB_STATE_RUNNING" || record.state === "JOB_STATE_SUCCEEDED") return "";
  return record.reason ?? "";
}

/** A finding: what is wrong, why unless the job's reason has `said` so, what to do, what it cost. */
function findingOf(finding, said) {
  const head = finding.cause && !isIn([said], finding.cause) ? `${finding.sentence}: ${finding.cause}` : finding.sentence;
  const wasted = int(finding.wastedDeviceUs);
  const evidence = (finding.evidence ?? []).map(numberText);
  if (wasted > 0) evidence.push(`wasted ${deviceTime(wasted)} of device time`);
  return h("article", { class: "finding", "data-finding": finding.code, "data-severity": (finding.severity ?? "").replace("FINDING_SEVERITY_", "").toLowerCase() },
    severityIcon(finding.severity),
    h("div", {}, h("p", {}, h("strong", {}, printable(head))),
      finding.fix && fixOf(finding.fix),
      h("p", { class: "muted evidence" }, h("code", {}, printable(finding.code)), " ", evidence.join(", "))));
}

function numberText({ name, value, unit = "" }) {
  const amount = Number(value ?? 0);
  if (unit === "s") return `${printable(name)} ${took(amount * 1000)}`;
  if (unit === "bytes") return `${printable(name)} ${general(amount / 1e9, 3)} GB`;
  return `${printable(name)} ${general(amount, 4)}${unit ? ` ${printable(unit)}` : ""}`;
}

function timesOf(record) {
  let text = localTime(record.submittedMs);
  if (int(record.firstRunningMs) > 0) {
    text += `, ran from ${clockTime(record.firstRunningMs)}`;
    if (int(record.finishedMs) > 0) text += ` to ${clockTime(record.finishedMs)}`;
  }
  return text;
}

function layoutOf(record) {
  const attempt = (record.attempts ?? []).at(-1);
  const kind = record.resolvedDeviceKind ? `, ${record.resolvedDeviceKind}` : "";
  if (!attempt) return `${counted(record.spec?.shape?.processes ?? 0, "rank")}${kind}`;
  const nodes = (attempt.parts ?? []).length + (attempt.partsLeftOut ?? 0);
  return `${counted(attempt.worldSize ?? 0, "rank")} on ${counted(nodes, "node")}${kind}`;
}

function factsOf(record, summary, judged) {
  const ledger = judged?.ledger ?? {};
  const rerunOf = int(record.spec?.rerunOf);
  return [
    ["Job", `${record.id}, submitted by ${printable(record.owner)}${summary?.ownerIsGone ? ", removed" : ""}`],
    ["Submitted", timesOf(record)],
    ["Ranks", layoutOf(record)],
    ["Exit code", record.state === "JOB_STATE_FAILED" ? String(record.exitCode ?? 0) : ""],
    ["Labels", labelsOf(record.spec?.labels).map(printable).join(", ")],
    ["Priority", record.spec?.priority ? String(record.spec.priority) : ""],
    ["Progress", summary.hasLoss ? `step ${int(summary.step)}, ${printable(summary.lossName || "loss")} ${general(Number(summary.loss ?? 0), 6)}` : ""],
    ["Done in", judged?.etaMs !== undefined && !isOver(record.state) ? `${eta(int(judged.etaMs))}, at step ${int(judged.stepsTotal)}` : ""],
    ["Goodput", ledger.goodput === undefined ? "" : `${percent(ledger.goodput)} of its device time`],
    ["Restarts", record.spec?.restarts > 0 ? `${record.failures ?? 0} of ${record.spec.restarts} used` : ""],
    ["Rerun of", rerunOf > 0 ? h("a", { href: jobPath(String(rerunOf)) }, `job ${rerunOf}`) : ""],
  ];
}

/** "node1: ranks 0-3 on gpu 0-3" */
export function partText(part) {
  const first = part.firstRank ?? 0;
  const size = part.localWorldSize ?? 0;
  const which = size === 1 ? `rank ${first}` : `ranks ${first}-${first + size - 1}`;
  const kind = part.deviceKind ? ` on ${part.deviceKind}` : "";
  const indexes = part.deviceIndexes?.length > 0 ? ` ${ranges(part.deviceIndexes)}` : "";
  return printable(`${part.node}: ${which}${kind}${indexes}`);
}

// `said`: what stands above it, to which it adds what it tells.
function attemptOf(attempt, said) {
  const ended = int(attempt.endedMs);
  let text = counted(attempt.worldSize ?? 0, "rank");
  if (int(attempt.resumeStep, -1) > 0) text += `, from checkpoint ${attempt.resumeStep}`;
  if (ended > 0) text += `, ${causeName(attempt.cause)} after ${took(ended - int(attempt.startedMs))}`;
  else text += `, since ${clockTime(attempt.startedMs)}`;
  const parts = (attempt.parts ?? []).slice(0, 4).map(partText);
  const more = (attempt.parts ?? []).length - parts.length + (attempt.partsLeftOut ?? 0);
  if (more > 0) parts.push(`… and ${counted(more, "more node")}`);
  const culprit = attempt.culprit;
  const quote = culprit && !/CANCELLED|CLIENT_GONE/.test(attempt.cause ?? "") ? (culprit.errorMessage || linesToQuote(culprit)).trimEnd() : "";
  const reason = culprit && attempt.reason && !isIn(said, attempt.reason) ? attempt.reason : "";
  const isNew = quote && !isIn([...said, reason], quote);
  said.push(reason, quote);
  return h("li", { "data-attempt": String(attempt.number ?? 0) },
    h("div", {}, h("strong", {}, `attempt ${attempt.number ?? 0}`), ` ${text}`),
    h("div", { class: "muted" }, parts.join("; ")),
    reason && h("div", {}, printable(reason)),
    isNew && h("pre", { class: "quote", tabindex: "0" }, printable(quote)));
}
