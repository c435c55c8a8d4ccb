/** What can be done about a node. */
// @ts-check
import { call } from "../base/api.js";
import { checked, withReason } from "../base/actions.js";
import { printable, shellQuote } from "../base/format.js";

/** The actions that make sense for a NodeView. `done` is called after one. */
export function nodeActions(view, done) {
  const record = view.record ?? {};
  const name = record.facts?.name ?? "";
  const node = { name, word: shellQuote(name), shown: printable(name), done };
  const actions = [record.draining ? undrain(node) : drain(node)];
  if (!record.connected && record.state !== "NODE_STATE_LOST") actions.push(declareDead(node));
  if (!record.connected) actions.push(remove(node));
  return actions;
}

const reasonField = { name: "reason", label: "Reason", placeholder: "recorded with the node; may be empty" };

function drain({ name, word, shown, done }) {
  return {
    id: "drain", call: "DrainNode", label: "Drain", title: `Drain ${shown}?`, keep: "Leave it", done,
    question: "It gets no new jobs. Those that run there continue.",
    fields: [{ ...reasonField, placeholder: "new disk" }],
    command: ({ reason }) => withReason(`jobctl nodes drain ${word}`, reason),
    run: async ({ reason }) => checked(await call("DrainNode", { node: name, drain: true, reason })),
  };
}

function undrain({ name, word, shown, done }) {
  return {
    id: "undrain", call: "DrainNode", label: "Undrain", title: `Undrain ${shown}?`, keep: "Leave it", done,
    question: "It accepts jobs again, those that wait now first.",
    command: () => `jobctl nodes undrain ${word}`,
    run: async () => checked(await call("DrainNode", { node: name, drain: false })),
  };
}

function declareDead({ name, word, shown, done }) {
  return {
    id: "declare-dead", call: "DeclareNodeDead", label: "Declare dead", title: `Is ${shown} really off?`, danger: true, keep: "Leave it", done,
    question: "Its jobs restart elsewhere. If their ranks are still running there, they will run twice.",
    fields: [reasonField],
    command: ({ reason }) => withReason(`jobctl nodes declare-dead ${word}`, reason),
    run: async ({ reason }) => checked(await call("DeclareNodeDead", { node: name, reason })),
  };
}

function remove({ name, word, shown, done }) {
  return {
    id: "remove", call: "RemoveNode", label: "Remove", title: `Remove ${shown}?`, danger: true, keep: "Keep it", done,
    question: "It is forgotten, and jobs no longer wait for it. Its worker may register again, as a new node.",
    fields: [reasonField],
    command: ({ reason }) => withReason(`jobctl nodes rm ${word}`, reason),
    run: async ({ reason }) => checked(await call("RemoveNode", { node: name, reason })),
  };
}
