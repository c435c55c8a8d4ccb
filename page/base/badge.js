/**
 * States as a shape, a word and a color, so that none of them is needed alone.
 *
 * stateBadge("JOB_STATE_RUNNING")          an element; data-state is "RUNNING"
 * setState(badge, "JOB_STATE_FAILED")      changes it; {held: true} makes QUEUED "HELD"
 * icon("copy")                             a shape alone: 12 × 12, decorative
 * severityIcon("FINDING_SEVERITY_ERROR")   the mark before a finding's sentence
 */
// @ts-check
import { h, s } from "./dom.js";
import { stateName } from "./format.js";

// Paths in a square of 12 by 12; "line" shapes are stroked, others filled.
const SHAPES = {
  queued: { line: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z" },
  held: { line: "M4 2v8M8 2v8" },
  starting: { line: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z", solid: "M6 1.5a4.5 4.5 0 0 1 0 9z" },
  running: { solid: "M3 1.5l7.5 4.5-7.5 4.5z" },
  stopping: { line: "M2.5 2.5h7v7h-7z" },
  restarting: { line: "M9.8 4.2A4.3 4.3 0 1 0 10.3 6.6M10.2 1.4v3h-3" },
  succeeded: { line: "M1.8 6.4l2.9 2.9 5.5-6.4" },
  failed: { line: "M2.4 2.4l7.2 7.2M9.6 2.4l-7.2 7.2" },
  cancelled: { line: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zM2.9 2.9l6.2 6.2" },
  alive: { solid: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z" },
  suspect: { line: "M6 1.3v6M6 9.6v1.2" },
  lost: { line: "M2.4 2.4l7.2 7.2M9.6 2.4l-7.2 7.2" },
  draining: { line: "M6 1.5v7M2.8 5.6L6 8.9l3.2-3.3M2 11h8" },
  clearing: { line: "M2 4h8M4 4v6.5h4V4M5 1.8h2" },
  error: { line: "M3.8 1h4.4L11 3.8v4.4L8.2 11H3.8L1 8.2V3.8zM6 3.4v3.2M6 8.2v.9" },
  warning: { line: "M6 1.2L11.2 10.6H.8zM6 4.6v2.6M6 8.4v.9" },
  note: { line: "M6 1a5 5 0 1 0 0 10A5 5 0 1 0 6 1zM6 5.4v3.2M6 3.2v.9" },
  copy: { line: "M4.5 4.5h6v6h-6zM7.5 4.5v-3h-6v6h3" },
};

/** A decorative shape. */
export function icon(name) {
  const shape = SHAPES[name] ?? SHAPES.queued;
  return s("svg", { class: "icon", viewBox: "0 0 12 12", "aria-hidden": "true", focusable: "false" },
    shape.line && s("path", { d: shape.line, class: "line" }),
    shape.solid && s("path", { d: shape.solid, class: "solid" }));
}

/** A job's or a node's state. */
export function stateBadge(state, options = {}) {
  const badge = h("span", { class: "badge" });
  setState(badge, state, options);
  return badge;
}

/** Changes a badge, if it has to. */
export function setState(badge, state, { held = false } = {}) {
  const name = held && state === "JOB_STATE_QUEUED" ? "HELD" : stateName(state) || "UNKNOWN";
  if (badge.dataset.state === name) return;
  badge.dataset.state = name;
  badge.replaceChildren(icon(name.toLowerCase()), name);
}

/** The mark of a finding: shape and color by severity; its name is for those who do not see it. */
export function severityIcon(severity) {
  const name = (severity ?? "").replace("FINDING_SEVERITY_", "").toLowerCase() || "note";
  return h("span", { class: `severity ${name}`, title: name }, icon(name), h("span", { class: "unseen" }, `${name}: `));
}
