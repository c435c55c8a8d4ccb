// "What is each rank doing?": asks all ranks, and groups them by what they answer.
import { call } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { counted, isOver, printable, shellQuote } from "../base/format.js";
import { commandBox, errorState } from "../base/states.js";
import { ranksText } from "./lines.js";

const WAIT_MS = 10_000;

/** A rank's own record (docs/profiling.md), which may be anything. */
function rankRecordOf(base64) {
  try {
    const bytes = Uint8Array.from(atob(base64 ?? ""), (letter) => letter.charCodeAt(0));
    const value = JSON.parse(new TextDecoder().decode(bytes));
    return value && typeof value === "object" ? value : {};
  } catch {
    return {};
  }
}

const listOf = (value) => (Array.isArray(value) ? value.filter((each) => each && typeof each === "object") : []);

function sizeText(count) {
  if (count >= 2 ** 20) return `${Number((count / 2 ** 20).toPrecision(3))} MiB`;
  if (count >= 2 ** 10) return `${Number((count / 2 ** 10).toPrecision(3))} KiB`;
  return `${count} bytes`;
}

/** "all_reduce #12 (4 MiB float32, group default)" */
function collectiveText({ operation, sequence, bytes, dtype, group }) {
  const content = Number(bytes) > 0 ? `${sizeText(Number(bytes))} ${dtype ?? ""}, ` : "";
  return `${operation ?? "collective"} #${sequence ?? 0} (${content}group ${group ?? ""})`;
}

/** What a rank is doing, in one line: where its training thread is, and what it waits in. */
function doingOf(record) {
  const threads = listOf(record.threads);
  const main = threads.find((thread) => thread.training) ?? threads[0];
  const running = listOf(record.collectives).filter((each) => each.state && !/finished|completed/.test(each.state)).at(0);
  const place = main?.place ? `in ${main.place}` : record.outside?.doing || main?.problem || "at an unknown place";
  return { place, waits: running ? `waits in ${collectiveText(running)}` : "", waitedMs: Number(running?.age_ms ?? 0) };
}

/** Ranks that do the same, the most first. */
function groupsOf(diagnoses) {
  const groups = new Map();
  for (const { rank = 0, node = "", record } of diagnoses) {
    const parsed = rankRecordOf(record);
    const doing = doingOf(parsed);
    const key = `${doing.waits}\n${doing.place}`;
    const group = groups.get(key) ?? { ...doing, ranks: [], members: [] };
    group.ranks.push(rank);
    group.waitedMs = Math.max(group.waitedMs, doing.waitedMs);
    group.members.push({ rank, node, record: parsed });
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.ranks.length - a.ranks.length);
}

export class StacksView {
  constructor(job, record) {
    this.job = job;
    this.button = h("button", { type: "button", "data-control": "stacks", onclick: () => this.ask() }, "What is each rank doing?");
    this.element = h("section", { class: "stacks", "aria-label": "What each rank is doing", "aria-live": "polite" });
    this.record(record);
  }

  record(record) {
    this.name = record.name;
    this.button.hidden = isOver(record.state) || (record.attempts ?? []).length === 0;
  }

  async ask() {
    this.asking?.abort();
    this.asking = new AbortController();
    this.button.disabled = true;
    replace(this.element, h("p", { class: "muted" }, "Asking all ranks; those that do not answer are looked at from outside…"));
    try {
      const { messages = [] } = await call("DiagnoseJob", { job: this.job, waitMs: WAIT_MS }, { signal: this.asking.signal });
      this.show(messages);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.element, errorState(error, () => this.ask()));
    }
    this.button.disabled = false;
  }

  show(messages) {
    const world = messages.find((message) => message.attempt)?.attempt.worldSize ?? 0;
    const diagnoses = messages.flatMap((message) => (message.diagnosis ? [message.diagnosis] : []));
    const groups = groupsOf(diagnoses);
    const silent = world - diagnoses.length;
    replace(this.element, h("h2", {}, "What each rank is doing"),
      silent > 0 && h("p", {}, `${counted(silent, "rank")} of ${world} did not answer within ${WAIT_MS / 1000} s.`),
      groups.map((group) => groupOf(group, world)), commandBox(`jobctl stack ${shellQuote(this.name)}`));
  }

  close() {
    this.asking?.abort();
  }
}

function groupOf(group, world) {
  const waits = group.waits ? h("strong", {}, printable(`${group.waits} for ${(group.waitedMs / 1000).toFixed(1)} s`)) : null;
  return h("details", { class: "stackgroup", "data-ranks": group.ranks.join(",") },
    h("summary", {}, h("span", { class: "tag" }, ranksText(group.ranks, world)), " ", waits, waits && ", ", h("code", {}, printable(group.place))),
    group.members.slice(0, 8).map(memberOf), group.members.length > 8 && h("p", { class: "muted" }, `and ${group.members.length - 8} more with the same`));
}

function memberOf({ rank, node, record }) {
  return h("div", {}, h("h3", {}, `rank ${rank} on ${printable(node)}`), listOf(record.threads).map((thread) =>
    h("details", { open: Boolean(thread.training) }, h("summary", {}, printable(`thread ${thread.id ?? ""} ${thread.name ?? ""}${thread.training ? " (training)" : ""}`)),
      thread.problem && h("p", { class: "muted" }, printable(thread.problem)),
      h("pre", { class: "quote", tabindex: "0" }, listOf(thread.frames).map((frame) => printable(`${frame.function || "?"}  ${frame.file ?? frame.module ?? ""}${frame.line ? `:${frame.line}` : ""}`)).join("\n")))));
}
