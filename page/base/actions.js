/**
 * Actions: each shows the jobctl command that does the same, and asks before it does anything.
 *
 * Action {id, call, job?, label, title, question, command(values), run(values) → Promise, fields?, danger?, done?(answer)}
 *   call: of the coordinator, and which job it changes; who may not call it is shown no button
 *   fields: [{name, label, placeholder?, choices?: [[value, label]], value?}] are asked for in the dialog
 * actionButton(action)   a button that opens the dialog; data-action is the id. A private coordinator's page can do it,
 *   another one's only shows the command
 * jobActions({id, name, owner, ownerId, state, held, checkpointStep})   those that make sense in its state; a JobSummary or alike
 * rerunAction(job, {label, title, question, fields?, from(values)})   runs a job again
 * withReason(command, reason)
 * checked(bulkResponse)  throws the first failure of a BulkResponse
 */
// @ts-check
import { ApiError, call, int, whenAllowed } from "./api.js";
import { h, replace } from "./dom.js";
import { isOver, printable, shellQuote } from "./format.js";
import { jobPath, navigate } from "./route.js";
import { commandBox, errorState } from "./states.js";

/** A button that opens an action's dialog. */
export function actionButton(action) {
  const button = h("button", {
    type: "button", class: action.danger ? "danger" : "", "data-action": action.id, hidden: true, onclick: () => openAction(action),
  }, `${action.label}…`);
  whenAllowed((may) => (button.hidden = !may(action.call, action.job)));
  return button;
}

// Asks, shows the command, and does it.
function openAction(action) {
  const opener = document.activeElement;
  const values = Object.fromEntries((action.fields ?? []).map((field) => [field.name, field.value ?? ""]));
  const command = h("div");
  const outcome = h("div", { "aria-live": "polite" });
  const showCommand = () => replace(command, commandBox(action.command(values)));
  showCommand();
  const close = h("button", { type: "button", "data-close": true, onclick: () => dialog.close() }, "Close");
  const buttons = h("p", { class: "buttons" }, close);
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, action.title), action.question && h("p", {}, action.question),
    (action.fields ?? []).map((field) => fieldOf(field, values, showCommand)),
    h("p", { class: "muted" }, "The same on the command line:"), command, outcome, buttons);
  const dialog = h("dialog", { class: "action", "aria-labelledby": "dialog-title" }, form);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (opener instanceof HTMLElement) (opener.isConnected ? opener : document.querySelector("main"))?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  form.addEventListener("submit", (event) => event.preventDefault());
  offer({ action, values, dialog, form, outcome, buttons, close });
}

function fieldOf(field, values, changed) {
  const id = `field-${field.name}`;
  const attributes = {
    id, name: field.name, autocomplete: "off", placeholder: field.placeholder,
    oninput: (event) => {
      values[field.name] = event.target.value;
      changed();
    },
  };
  const input = field.choices
    ? h("select", attributes, field.choices.map(([value, label]) => h("option", { value }, label)))
    : h("input", { ...attributes, type: "text", maxlength: "200" });
  input.value = values[field.name];
  return h("div", { class: "field" }, h("label", { for: id }, field.label), input);
}

// Whether the user may do it, the coordinator decides.
function offer({ action, values, dialog, form, outcome, buttons, close }) {
  const button = h("button", { type: "submit", class: action.danger ? "danger strong" : "strong" }, action.label);
  close.textContent = action.keep ?? "Do nothing";
  buttons.append(button);
  if (!action.danger && !action.fields) button.focus();
  form.addEventListener("submit", async () => {
    button.disabled = true;
    try {
      const answer = await action.run(values);
      dialog.close();
      action.done?.(answer);
    } catch (error) {
      button.disabled = false;
      replace(outcome, errorState(error));
    }
  });
}

/** A BulkResponse that has no failure in it. */
export function checked(response) {
  for (const result of response.results ?? []) {
    if (!result.statusCode && !result.error?.code) continue;
    throw new ApiError({ what: result.message, ...result.error, status: 400 });
  }
  return response;
}

/** The actions of a job, in the order of a page. */
export function jobActions(job) {
  const actions = [];
  const word = shellQuote(job.name);
  const over = isOver(job.state);
  if (job.held && !over) actions.push(release(job, word));
  actions.push(rerun(job));
  if (!over && !job.held) actions.push(stop(job, word));
  if (!over) actions.push(cancel(job, word));
  else actions.push(remove(job, word));
  return actions;
}

/** A command with the reason that a person gave. */
export const withReason = (command, reason) => (reason ? `${command} --reason ${shellQuote(reason)}` : command);

function cancel(job, word) {
  return {
    id: "cancel", call: "CancelJobs", job, label: "Cancel job", title: `Cancel ${printable(job.name)}?`, danger: true, keep: "Keep it",
    question: "Every rank gets SIGTERM, then SIGKILL after the grace period. Committed checkpoints are kept.",
    fields: [{ name: "reason", label: "Reason", placeholder: "recorded with the job; may be empty" }],
    command: ({ reason }) => withReason(`jobctl cancel ${word}`, reason),
    run: async ({ reason }) => checked(await call("CancelJobs", { jobs: [String(job.id)], reason })),
  };
}

function stop(job, word) {
  return {
    id: "stop", call: "StopJobs", job, label: "Stop", title: `Stop ${printable(job.name)}?`, keep: "Keep it running",
    question: "It is asked to save a checkpoint, stopped once it has, and held. Release continues it from there.",
    command: () => `jobctl stop ${word}`,
    run: async () => checked(await call("StopJobs", { jobs: [String(job.id)] })),
  };
}

function release(job, word) {
  return {
    id: "release", call: "ReleaseJobs", job, label: "Release", title: `Release ${printable(job.name)}?`,
    question: "The job may restart as soon as there are devices for it.",
    command: () => `jobctl release ${word}`,
    run: async () => checked(await call("ReleaseJobs", { jobs: [String(job.id)] })),
  };
}

function remove(job, word) {
  return {
    id: "remove", call: "RemoveJobs", job, label: "Remove", title: `Remove ${printable(job.name)}?`, danger: true, keep: "Keep it",
    question: "Its record, logs, metrics and checkpoints are deleted. This cannot be undone.",
    command: () => `jobctl rm ${word}`,
    run: async () => checked(await call("RemoveJobs", { jobs: [String(job.id)] })),
    done: () => location.pathname.startsWith("/jobs/") && navigate("/"),
  };
}

function rerun(job) {
  const latest = int(job.checkpointStep);
  const choices = [["", "the beginning"], ...(latest >= 0 ? [["last", `its newest checkpoint, step ${latest}`]] : [])];
  return rerunAction(job, {
    label: "Run again", title: `Run ${printable(job.name)} again?`,
    question: "A new job with the same spec is submitted. The old one stays as it is.",
    fields: choices.length > 1 ? [{ name: "from", label: "Start from", choices }] : null,
    from: (values) => values.from,
  });
}

/** Runs a job again. `from(values)` is "" for the beginning, "last" for the newest checkpoint, or a step. */
export function rerunAction(job, { from, ...words }) {
  const stepOf = (values) => (/^\d+$/.test(from(values) ?? "") ? from(values) : "-1");
  return {
    id: "rerun", call: "RerunJob", ...words,
    command: (values) => `jobctl rerun ${shellQuote(job.name)}${from(values) ? ` --from ${from(values)}` : ""}`,
    run: (values) => call("RerunJob", {
      job: String(job.id), fromCheckpoint: Boolean(from(values)), step: stepOf(values), idempotencyKey: crypto.randomUUID?.() ?? "",
    }),
    done: (answer) => navigate(jobPath(answer.name)),
  };
}
