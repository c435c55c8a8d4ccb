/**
 * The nodes: health, devices over time, drain state; what can be done about them.
 * @view 3 Nodes
 */
// @ts-check
import { call } from "../base/api.js";
import { h, keyed, onKeys, replace } from "../base/dom.js";
import { counted } from "../base/format.js";
import { emptyState, loadingState, showError } from "../base/states.js";
import { makeCard, updateCard, usedText } from "./card.js";
import { showCoordinators } from "./coordinators.js";
import { note, readPast, usesOf } from "./history.js";

const EVERY_MS = 2_000;
const MANY = 8;  // from here on a filter helps

/** @param {HTMLElement} main */
export function open(main) {
  const abort = new AbortController();
  const count = h("span", { class: "muted count", role: "status" });
  const filter = h("input", { type: "search", placeholder: "Name contains (/)", "aria-label": "Name contains", autocomplete: "off", hidden: true, oninput: draw });
  const list = h("div", { class: "nodes" });
  const body = h("div", {}, loadingState());
  const coordinators = h("div");
  main.append(h("div", { class: "toolbar" }, h("h1", {}, "Nodes"), filter, count), coordinators, body);
  const hideCoordinators = showCoordinators(coordinators, abort.signal);
  let nodes = [];
  let uses = new Map();
  let soon = 0;
  let isReading = false;
  let isMeasuring = false;
  // Of a thousand nodes only those in sight are drawn again.
  const inSight = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) inSight[isIntersecting ? "add" : "delete"](target);
    draw();
  }, { rootMargin: "200px" });

  read();
  const timer = setInterval(() => !document.hidden && nodes.length && measure(), EVERY_MS);
  const stopKeys = onKeys(key);

  async function read() {
    if (isReading) return later();
    isReading = true;
    try {
      nodes = await readNodes(abort);
      draw();
      measure();
    } catch (error) {
      if (!nodes.length) showError(body, error, read);
    } finally {
      isReading = false;
    }
  }

  function later() {
    soon ||= setTimeout(() => {
      soon = 0;
      if (!abort.signal.aborted) read();
    }, 500);
  }

  const coresOf = (name) => nodes.find((view) => view.record.facts.name === name)?.record.facts.cores ?? 0;

  async function measure() {
    if (isMeasuring) return;
    isMeasuring = true;
    try {
      const { messages = [] } = await call("QuerySamples", { newest: true }, abort);
      uses = usesOf(messages);
      note(uses, Date.now(), coresOf);
      draw();
      await readPast([...new Set(nodes.flatMap((view) => view.jobs ?? []))], coresOf, abort.signal);
    } catch {
      // The next measurement comes in two seconds; the shell tells if the coordinator is gone.
    } finally {
      isMeasuring = false;
    }
  }

  function draw() {
    count.textContent = nodes.length ? [counted(nodes.length, "node"), totals(nodes)].filter(Boolean).join(", ") : "";
    filter.hidden = nodes.length <= MANY;
    if (!nodes.length) return replace(body, nothing());
    if (body.firstChild !== list) replace(body, list);
    const shown = nodes.filter((view) => view.record.facts.name.includes(filter.value));
    const jobs = namesById(nodes);
    const now = Date.now();
    keyed(list, shown, (view) => view.record.facts.name, make, (card, view) => {
      if (inSight.has(card)) updateCard(card, { view, use: uses.get(view.record.facts.name), now, jobs, done: read });
    });
  }

  function make(view) {
    const card = makeCard(view);
    observer.observe(card);
    inSight.add(card);  // drawn once at least
    return card;
  }

  function key(event) {
    if (event.key === "/" && !filter.hidden) {
      event.preventDefault();
      filter.focus();
    }
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const cards = /** @type {HTMLElement[]} */ ([...list.children]);
    const at = cards.findIndex((card) => card.contains(document.activeElement));
    cards[Math.max(0, Math.min(cards.length - 1, at + step))]?.focus();
  }

  return {
    onChange: (change) => (change.events ?? []).some((event) => event.node || event.job) && later(),
    onResync: later,
    close() {
      abort.abort();
      hideCoordinators();
      observer.disconnect();
      clearInterval(timer);
      clearTimeout(soon);
      stopKeys();
    },
  };
}

async function readNodes(abort) {
  const nodes = [];
  for (let page = null; !page || page.more; ) {
    page = await call("ListNodes", { after: nodes.at(-1)?.record.facts.name ?? "" }, abort);
    if (!page.nodes?.length) break;
    nodes.push(...page.nodes);
  }
  return nodes;
}

// Over all nodes: "14/16 gpu used". Processors count only where there is nothing else.
function totals(nodes) {
  if (nodes.length === 1) return `${usedText(nodes[0]) || "nothing"} used`;
  const kinds = new Map();
  for (const { kind, used = 0, total = 0 } of nodes.flatMap((view) => view.uses ?? [])) {
    const sum = kinds.get(kind) ?? [0, 0];
    kinds.set(kind, [sum[0] + used, sum[1] + total]);
  }
  if (kinds.size > 1) kinds.delete("cpu");
  return [...kinds].map(([kind, [used, total]]) => `${used}/${total} ${kind} used`).join(", ");
}

// A job's name ends with its number.
const namesById = (nodes) => new Map(nodes.flatMap((view) => view.jobs ?? []).map((name) => [name.slice(name.lastIndexOf("-") + 1), name]));

function nothing() {
  return emptyState("No nodes", "A node appears when its worker connects:",
    "muster-worker --coordinator HOST:PORT --name NAME --devices cpu:2 --state-dir DIR");
}
