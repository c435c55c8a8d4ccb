/** The coordinators that replace each other: who leads, and how far behind the others are. Nothing where there is one. */
// @ts-check
import { call, int } from "../base/api.js";
import { h, replace } from "../base/dom.js";
import { grouped, printable } from "../base/format.js";

const EVERY_MS = 10_000;

/**
 * Shows them in `place`, until the returned function is called.
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 */
export function showCoordinators(place, signal) {
  let timer = 0;
  read();

  async function read() {
    try {
      const { coordinators = [], alone } = document.hidden ? {} : await call("ListCoordinators", {}, { signal });
      if (!document.hidden) replace(place, coordinators.length > 1 && listOf(coordinators));
      if (alone) return;
    } catch {
      // An older coordinator, or none answers: the shell tells that.
    }
    if (!signal.aborted) timer = setTimeout(read, EVERY_MS);
  }
  return () => clearTimeout(timer);
}

function listOf(coordinators) {
  return h("ul", { class: "coordinators", "aria-label": "Coordinators" }, coordinators.map((each) =>
    h("li", { title: printable([each.endpoint, each.version].filter(Boolean).join(", ")) },
      h("b", {}, printable(each.name)), each.leads ? " leads" : ` stands by, ${behind(int(each.lag))}`)));
}

const behind = (lag) => (lag ? `${grouped(lag)} ${lag === 1 ? "entry" : "entries"} behind` : "up to date");
