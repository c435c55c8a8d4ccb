/**
 * What each project has of the devices: in use, of its quota, borrowed, wanted. Shown once some project has a quota.
 * projectBars() → { element, show(ListProjects's answer) }
 */
// @ts-check
import { int } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { printable } from "../base/format.js";

export function projectBars() {
  const element = h("section", { class: "projects", "aria-label": "Projects", hidden: true });

  function show({ uses = [], inService = {} }) {
    element.hidden = !uses.some((use) => int(use.quota));
    if (!element.hidden) replace(element, h("ul", {}, uses.map((use) => h("li", {}, bar(use, int(inService[use.kind] ?? 0))))));
  }

  return { element, show };
}

function bar(use, inService) {
  const [quota, used, borrowed, limit, waiting] = ["quota", "used", "borrowed", "limit", "waiting"].map((name) => int(use[name] ?? 0));
  const whole = Math.max(inService, quota, used, 1);
  const part = (count) => `${(100 * count) / whole}%`;
  const words = [`${used} of ${quota} ${printable(use.kind)}`, borrowed && `${borrowed} borrowed`, limit && `limit ${limit}`, waiting && `${waiting} wanted`];
  const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span", { class: "own" }), h("span", { class: "borrowed" }), h("span", { class: "quota" }));
  const [own, more, mark] = /** @type {HTMLElement[]} */ ([...meter.children]);
  own.style.width = part(used - borrowed);
  more.style.width = part(borrowed);
  mark.style.left = part(quota);
  return [h("span", { class: "name" }, printable(use.project)), meter, h("span", { class: "muted" }, words.filter(Boolean).join(", "))];
}
