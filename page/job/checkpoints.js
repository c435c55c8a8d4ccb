// The Checkpoints tab.
import { call, int } from "../base/api.js";
import { actionButton, checked, rerunAction } from "../base/actions.js";
import { h, keyed, replace, scrollBox } from "../base/dom.js";
import { age, bytes, counted, localTime, printable, shellQuote } from "../base/format.js";
import { commandBox, emptyState, errorState } from "../base/states.js";

const MOST_FILES = 500;

/** @returns a panel of job.js */
export const openPanel = (place, context) => new CheckpointsPanel(place, context);

class CheckpointsPanel {
  constructor(place, { job, record }) {
    this.job = job;
    this.place = place;
    this.verdicts = new Map();
    this.record(record);
  }

  record(record) {
    const key = JSON.stringify(record.checkpoints ?? []);
    if (key === this.key) return;
    this.key = key;
    this.jobRecord = record;
    const checkpoints = [...(record.checkpoints ?? [])].reverse();
    if (checkpoints.length === 0) {
      this.body = null;
      return replace(this.place, emptyState("No checkpoint yet", "A trainer saves them below $MUSTER_CHECKPOINT_DIR; Muster keeps the newest and restarts from them."));
    }
    if (!this.body) this.build();
    const newest = checkpoints.find(isUsable);
    replace(this.resume, newest && [h("h2", {}, `Resume from step ${newest.step ?? 0}`),
      commandBox(`jobctl rerun ${shellQuote(record.name)} --from ${newest.step ?? 0}`)]);
    // A row stays while its checkpoint is as it was: a job may commit several a second.
    keyed(this.body, checkpoints, (checkpoint) => JSON.stringify(checkpoint), (checkpoint) => this.rowOf(checkpoint));
  }

  build() {
    this.resume = h("div", { class: "resume" });
    this.body = h("tbody");
    replace(this.place, this.resume,
      scrollBox(h("table", { class: "slim", "aria-label": "Checkpoints" },
        h("thead", {}, h("tr", {}, ["Step", "Size", "Files", "Committed", "State", "Actions"].map((name, i) => h("th", { scope: "col", class: i < 3 ? "number" : "" }, name)))),
        this.body)));
  }

  rowOf(checkpoint) {
    const step = String(checkpoint.step ?? 0);
    const outcome = h("span", { role: "status" }, this.verdicts.get(step) ?? "");
    const files = h("div", { class: "files" });
    const isCommitted = checkpoint.state === "CHECKPOINT_STATE_COMMITTED";
    const actions = isCommitted ? [
      actionButton(this.verifyAction(step, outcome)),
      h("button", { type: "button", "data-control": "files", "aria-expanded": "false", onclick: (event) => this.files(step, event.target, files) }, "Files"),
      actionButton(this.resumeAction(step)), actionButton(this.removeAction(step)),
    ] : [];
    return h("tr", { "data-step": step }, h("td", { class: "number" }, step), h("td", { class: "number" }, bytes(int(checkpoint.bytes))),
      h("td", { class: "number" }, String(checkpoint.fileCount ?? 0)),
      h("td", { title: localTime(checkpoint.committedMs) }, isCommitted ? `${age(checkpoint.committedMs)} ago` : ""),
      h("td", {}, stateOf(checkpoint), " ", outcome), h("td", {}, h("span", { class: "actions" }, actions), files));
  }

  verifyAction(step, outcome) {
    return {
      id: "verify", call: "VerifyCheckpoint", job: this.jobRecord, label: "Verify", title: `Verify the checkpoint of step ${step}?`,
      question: "All its files are read. If one is damaged, the checkpoint is marked, and no job resumes from it.",
      command: () => `jobctl ckpt verify ${shellQuote(this.jobRecord.name)} ${step}`,
      run: () => call("VerifyCheckpoint", { job: this.job, step }),
      done: (verdict) => {
        this.verdicts.set(step, verdictText(verdict));
        outcome.textContent = verdictText(verdict);
      },
    };
  }

  async files(step, button, place) {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) return replace(place);
    try {
      const { messages = [], more } = await call("ListCheckpointFiles", { job: this.job, step });
      const files = messages.flatMap((message) => message.files ?? []);
      replace(place, h("ul", { class: "plain mono" }, files.slice(0, MOST_FILES).map((file) => h("li", { title: `sha256 ${file.sha256}` }, `${printable(file.path)}  ${bytes(int(file.size))}`))),
        (more || files.length > MOST_FILES) && h("p", { class: "muted" }, `the first ${Math.min(files.length, MOST_FILES)}; all: jobctl ckpt ls`));
    } catch (error) {
      replace(place, errorState(error));
    }
  }

  resumeAction(step) {
    return rerunAction(this.jobRecord, {
      label: "Resume from here", title: `Resume ${printable(this.jobRecord.name)} from step ${step}?`,
      question: "A new job with the same spec is submitted, which starts from this checkpoint. The old one stays as it is.",
      from: () => step,
    });
  }

  removeAction(step) {
    const word = shellQuote(this.jobRecord.name);
    return {
      id: "remove-checkpoint", call: "RemoveCheckpoint", job: this.jobRecord, label: "Remove", danger: true, keep: "Keep it", title: `Remove the checkpoint of step ${step}?`,
      question: "Its files are deleted. This cannot be undone.",
      command: () => `jobctl ckpt rm ${word} ${step}`,
      run: async () => checked(await call("RemoveCheckpoint", { job: this.job, step })),
    };
  }
}

const isUsable = (checkpoint) => checkpoint.state === "CHECKPOINT_STATE_COMMITTED" && !checkpoint.flaggedCorrupt;

function verdictText({ ok, files = [], filesLeftOut = 0 }) {
  if (ok) return `✓ ${counted(files.length + filesLeftOut, "file")} verified`;
  const bad = files.filter((file) => !file.ok).slice(0, 3);
  return printable(`✗ damaged: ${bad.map((file) => `${file.path} (${file.problem})`).join(", ")}`);
}

function stateOf(checkpoint) {
  if (checkpoint.flaggedCorrupt) return h("strong", { class: "bad" }, "✗ DAMAGED");
  if (checkpoint.state === "CHECKPOINT_STATE_COMMITTED") return "committed";
  return `uploading: ${(checkpoint.partsPresent ?? []).length} of ${counted(checkpoint.parts ?? 0, "part")}`;
}
