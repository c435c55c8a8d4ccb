/**
 * Device hours: how many each group used, and by month; what of them was borrowed, and what was lost.
 * @view 5 Usage
 */
// @ts-check
import { call, int } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { counted, printable, took } from "../base/format.js";
import { emptyState, loadingState, showError } from "../base/states.js";

/** @param {HTMLElement} main */
export function open(main) {
  const by = h("select", { "aria-label": "by", onchange: read }, ["project", "user", "kind"].map((value) => h("option", { value }, `by ${value}`)));
  const body = h("div", { class: "projects" }, loadingState());
  main.append(h("div", { class: "toolbar" }, h("h1", {}, "Usage"), by, h("span", { class: "muted" }, "Time of one device")), body);
  const abort = new AbortController();
  read();

  function read() {
    const group = by.value;
    Promise.all([group, "month"].map((key) => call("ListUsage", { by: [key] }, abort))).then(([used, months]) => {
      if (group === by.value) show(used.groups ?? [], months.groups ?? []);
    }, (error) => showError(body, error, read));
  }

  function show(groups, months) {
    if (!groups.length) return replace(body, emptyState("Nothing was used"));
    groups.sort((a, b) => int(b.usedMs) - int(a.usedMs));
    replace(body, bars(groups), h("h2", {}, "By month"), bars(months));
  }

  return { close: () => abort.abort() };
}

/** A bar for each group; the largest is whole. Striped: borrowed. */
function bars(groups) {
  const most = Math.max(1, ...groups.map((group) => int(group.usedMs)));
  return h("ul", {}, groups.map((group) => h("li", {}, bar(group, most))));
}

function bar(group, most) {
  const [used, borrowed, failed, left] = ["usedMs", "borrowedMs", "failedMs", "leftMs"].map((name) => int(group[name] ?? 0));
  const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span", { class: "own" }), h("span", { class: "borrowed" }));
  [used - borrowed, borrowed].forEach((ms, i) => {
    /** @type {HTMLElement} */ (meter.children[i]).style.width = `${(100 * ms) / most}%`;
  });
  const words = [took(used), borrowed && `${took(borrowed)} borrowed`, failed && `${took(failed)} lost to failures`,
    left && `${took(left)} to giving way`, counted(int(group.attempts ?? 0), "attempt")];
  return [h("span", { class: "name" }, printable(group.keys?.[0] ?? "") || "–"), meter, h("span", { class: "muted" }, words.filter(Boolean).join(", "))];
}
