/**
 * Device hours: how many each group used, by month and in all; what of them was borrowed, and what was lost.
 * @view 5 Usage
 */
// @ts-check
import { call, int } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { counted, grouped, printable, took } from "../base/format.js";
import { setQuery } from "../base/route.js";
import { commandBox, emptyState, loadingState, showError } from "../base/states.js";

const GROUPS = { project: "project", user: "person", kind: "kind of device" };
const TIMES = ["usedMs", "borrowedMs", "failedMs", "leftMs"];

/** @param {HTMLElement} main */
export function open(main, address) {
  const by = h("select", { id: "usage-by", onchange: () => { setQuery({ by: by.value }); read(); } },
    Object.entries(GROUPS).map(([value, label]) => h("option", { value }, label)));
  const since = h("input", { id: "usage-since", type: "month", onchange: () => { setQuery({ since: since.value }); read(); } });
  const body = h("div", { class: "usage" }, loadingState());
  main.append(h("div", { class: "toolbar" }, h("h1", {}, "Usage"), h("label", { for: "usage-by" }, "by"), by,
    h("label", { for: "usage-since" }, "since"), since, h("span", { class: "muted" }, "time of one device")), body);
  const abort = new AbortController();
  take(address);
  read();

  function take({ query }) {
    by.value = query.get("by") in GROUPS ? query.get("by") : "project";
    since.value = query.get("since") ?? "";
  }

  async function read() {
    const [group, from] = [by.value, since.value];
    try {
      const [groups, months] = await Promise.all([[group], ["month"]].map((keys) => call("ListUsage", { by: keys, since: from }, abort)));
      if (group === by.value && from === since.value) show(group, groups.groups ?? [], months.groups ?? []);
    } catch (error) {
      showError(body, error, read);
    }
  }

  function show(group, groups, months) {
    if (!groups.length) return replace(body, emptyState("Nothing was used", "Attempts count from the moment that they get their devices."));
    groups.sort((a, b) => int(b.usedMs) - int(a.usedMs));
    replace(body, h("h2", {}, `By ${GROUPS[group]}`), bars(groups), h("h2", {}, "By month"), bars(months), legend(),
      commandBox(`jobctl usage --by ${group},month${since.value ? ` --since ${since.value}` : ""} -o csv`));
  }

  return {
    onAddress(next) {
      take(next);
      read();
    },
    close: () => abort.abort(),
  };
}

const hours = (ms) => (ms < 3_600_000 ? took(ms) : `${grouped(Math.round(ms / 3_600_000))} h`);

/** A bar for each group, of the length of the largest. */
function bars(groups) {
  const most = Math.max(1, ...groups.map((group) => int(group.usedMs)));
  return h("ul", { class: "bars" }, groups.map((group) => h("li", {}, bar(group, most))));
}

function bar(group, most) {
  const [used, borrowed, failed, left] = TIMES.map((name) => int(group[name] ?? 0));
  const lost = Math.min(used, failed + left);
  const parts = { own: Math.max(0, used - Math.max(borrowed, lost)), borrowed: Math.max(0, borrowed - lost), lost };
  const meter = h("span", { class: "meter", "aria-hidden": "true" }, Object.keys(parts).map((name) => h("span", { class: name })));
  Object.values(parts).forEach((ms, i) => {
    /** @type {HTMLElement} */ (meter.children[i]).style.width = `${(100 * ms) / most}%`;
  });
  const words = [hours(used), borrowed && `${hours(borrowed)} borrowed`, failed && `${hours(failed)} lost to failures`,
    left && `${hours(left)} to giving way`, counted(int(group.attempts ?? 0), "attempt")];
  return [h("span", { class: "name" }, printable(group.keys?.[0] ?? "") || "–"), meter, h("span", { class: "muted" }, words.filter(Boolean).join(", "))];
}

const legend = () => h("p", { class: "muted" }, "Full: used. Striped: beyond the quota. Pale: not saved when it failed, gave way, or was stopped.");
