/** One node: its state, what can be done about it, what it is, and its devices. */
// @ts-check
import { int } from "../base/api.js";
import { actionButton } from "../base/actions.js";
import { stateBadge } from "../base/badge.js";
import { h, keyed, replace, setText } from "../base/dom.js";
import { age, bytes, counted, printable } from "../base/format.js";
import { jobPath } from "../base/route.js";
import { nodeActions } from "./actions.js";
import { cellsOf, makeCell, updateCell } from "./cells.js";

/** "6/8 gpu"; a private worker's cpu slots have no limit. */
export function usedText(view) {
  return (view.uses ?? []).map(({ kind, used = 0, total = 0 }) =>
    (kind === "cpu" && view.record.facts.oversubscribeCpu ? `${used} cpu` : `${used}/${total} ${kind}`)).join(", ");
}

/** An element for a node; fill it with updateCard. */
export function makeCard(view) {
  const name = printable(view.record.facts.name);
  const parts = {
    badges: h("span", { class: "badges" }), used: h("span", { class: "used" }), actions: h("div", { class: "actions" }), reason: h("p", { class: "reason" }), jobs: h("p", { class: "jobs-here" }),
    cells: h("ul", { class: "cells", "aria-label": `Devices of ${name}` }), facts: h("p", { class: "muted facts-line" }),
  };
  const card = h("section", { class: "card node", tabindex: "-1", "aria-label": `Node ${name}`, "data-node": view.record.facts.name },
    h("div", { class: "top" }, h("h2", {}, name), parts.badges, parts.used, parts.actions),
    parts.reason, parts.cells, parts.jobs, parts.facts);
  return Object.assign(card, { musterParts: parts });
}

/** @param {{view: any, use: any, now: number, jobs: Map<string, string>, done(): void}} node */
export function updateCard(card, node) {
  const { view } = node;
  const parts = card.musterParts;
  const { record } = view;
  whenChanged(parts.badges, [record.state, record.draining, view.clearing], () => replace(parts.badges, stateBadge(record.state),
    record.draining && stateBadge("NODE_STATE_DRAINING"), view.clearing && stateBadge("NODE_STATE_CLEARING")));
  setText(parts.used, usedText(view) ? `${usedText(view)} used` : "");
  whenChanged(parts.actions, [record.draining, record.connected, record.state], () => showActions(parts.actions, node));
  setText(parts.reason, reasonText(view));
  parts.reason.hidden = parts.reason.textContent === "";
  whenChanged(parts.jobs, view.jobs ?? [], () => replace(parts.jobs, jobsHere(view.jobs ?? [])));
  setText(parts.facts, factsText(view));
  keyed(parts.cells, cellsOf(node), (cell) => cell.key, makeCell, (element, cell) => updateCell(element, cell, node.now));
}

// Buttons and links keep the focus while nothing about them changes.
function whenChanged(element, value, draw) {
  const key = JSON.stringify(value);
  if (element.musterDrawn === key) return;
  element.musterDrawn = key;
  draw();
}

// The button that was just used is replaced by its opposite, which takes over the focus.
function showActions(element, { view, done }) {
  const hadFocus = element.contains(document.activeElement);
  replace(element, nodeActions(view, done).map(actionButton));
  if (hadFocus) element.querySelector("button")?.focus();
}

function reasonText({ record, clearing }) {
  const drain = record.draining && printable(record.drainReason);
  const reason = printable(record.reason) || (!record.connected && `last heard from ${age(record.lastContactMs)} ago`);
  return [
    record.draining && `gets no new jobs${drain ? `: ${drain}` : ""}`,
    clearing && "its worker is killing what an older worker left; gets no jobs yet",
    reason !== drain && reason,
  ].filter(Boolean).join("; ");
}

function jobsHere(names) {
  if (!names.length) return h("span", { class: "muted" }, "No job runs here.");
  return ["Jobs: ", names.slice(0, 12).map((name, i) => [i ? ", " : "", h("a", { href: jobPath(name) }, printable(name))]),
    names.length > 12 && `, and ${names.length - 12} more`];
}

function factsText({ record, health }) {
  const { facts } = record;
  const clock = int(health?.clockAheadMs);
  return [
    facts.advertise, facts.hostname !== facts.name && facts.hostname,
    `${counted(facts.cores ?? 0, "core")}, ${bytes(int(facts.memoryBytes))} memory`,
    int(health?.diskBytes) > 0 && `${bytes(int(health.diskFreeBytes))} of ${bytes(int(health.diskBytes))} disk free`,
    facts.driver && `driver ${facts.driver}${facts.driverCuda ? `, for CUDA up to ${facts.driverCuda}` : ""}`,
    `Muster ${facts.version}`, facts.killLevel && `kills by ${facts.killLevel}`,
    Math.abs(clock) >= 1_000 && `clock ${Math.abs(clock / 1000).toFixed(1)}s ${clock > 0 ? "ahead" : "behind"}`,
  ].filter(Boolean).map(printable).join(" · ");
}
