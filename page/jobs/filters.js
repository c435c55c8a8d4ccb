/** What the list is narrowed to: chips and fields, kept in the address, applied by the coordinator. */
// @ts-check
import { h } from "../base/dom.js";
import { setQuery } from "../base/route.js";

const GROUPS = [
  ["running", "Running", ["STARTING", "RUNNING", "STOPPING", "RESTARTING"]],
  ["queued", "Queued", ["QUEUED"]],
  ["succeeded", "Succeeded", ["SUCCEEDED"]],
  ["failed", "Failed", ["FAILED"]],
  ["cancelled", "Cancelled", ["CANCELLED"]],
];

/** The filter of an address: {states: Set, name, labels}. */
export function filterOf(query) {
  const known = GROUPS.map(([id]) => id);
  return {
    states: new Set((query.get("state") ?? "").split(",").filter((id) => known.includes(id))),
    name: query.get("name") ?? "",
    labels: query.get("label") ?? "",
  };
}

export const isFiltered = (filter) => Boolean(filter.states.size || filter.name || filter.labels.trim());

/** The filter as fields of ListJobsRequest. */
export function requestOf(filter) {
  const request = {};
  const states = GROUPS.filter(([id]) => filter.states.has(id)).flatMap(([, , names]) => names);
  const labels = filter.labels.split(",").map((term) => term.trim()).filter(Boolean);
  if (states.length) request.states = states.map((name) => `JOB_STATE_${name}`);
  if (filter.name) request.nameHas = filter.name;
  if (labels.length) request.labels = labels;
  return request;
}

/** Chips and fields. `changed(filter)` is called 150 ms after the last key, and at once for chips. */
export function filterBar(start, changed) {
  let filter = start;
  let timer = 0;
  const chips = GROUPS.map(([id, label, names]) => h("button", {
    type: "button", "data-chip": id, title: names.join(", "), onclick: () => toggle(id),
  }, label));
  const name = field("name", "Name contains", "/");
  const labels = field("labels", "Label: team=vision", null);
  const clear = h("button", { type: "button", class: "quiet", onclick: () => set({ states: new Set(), name: "", labels: "" }) }, "Clear");
  const element = h("div", { class: "filters", role: "search", "aria-label": "Filter jobs" },
    h("div", { class: "chips", role: "group", "aria-label": "State" }, chips), name, labels, clear);

  function field(key, words, shortcut) {
    return h("input", {
      type: "search", name: key, placeholder: shortcut ? `${words} (${shortcut})` : words, "aria-label": words,
      "aria-keyshortcuts": shortcut, autocomplete: "off", spellcheck: "false", maxlength: "300",
      oninput: (event) => later({ ...filter, [key]: event.target.value }),
      onkeydown: (event) => event.key === "Escape" && event.target.blur(),
    });
  }

  function toggle(id) {
    const states = new Set(filter.states);
    if (!states.delete(id)) states.add(id);
    set({ ...filter, states });
  }

  function later(next) {
    filter = next;
    clearTimeout(timer);
    timer = setTimeout(() => set(filter), 150);
  }

  function set(next) {
    clearTimeout(timer);
    filter = next;
    show();
    setQuery({ state: [...filter.states].join(","), name: filter.name, label: filter.labels.trim() });
    changed(filter);
  }

  function show() {
    for (const chip of chips) chip.setAttribute("aria-pressed", String(filter.states.has(chip.dataset.chip)));
    if (name.value !== filter.name) name.value = filter.name;
    if (labels.value !== filter.labels) labels.value = filter.labels;
    clear.hidden = !isFiltered(filter);
  }

  show();
  return {
    element,
    focus: () => name.focus(),
    clear: () => clear.click(),
    show(next) {
      filter = next;
      show();
    },
    addLabel(label) {
      const terms = filter.labels.split(",").map((term) => term.trim()).filter(Boolean);
      if (!terms.includes(label)) set({ ...filter, labels: [...terms, label].join(",") });
    },
    close: () => clearTimeout(timer),
  };
}
