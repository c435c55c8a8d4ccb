/** Why one job waits: WhyJob's sentences, and what can be done about it. */
// @ts-check
import { call } from "../base/api.js";
import { actionButton, jobActions } from "../base/actions.js";
import { stateBadge } from "../base/badge.js";
import { h, replace } from "../base/dom.js";
import { counted, devicesOf, labelsOf, localTime, printable, shellQuote } from "../base/format.js";
import { jobPath } from "../base/route.js";
import { commandBox, errorState } from "../base/states.js";

/** "2 gpu"; before a kind is known, "2 ranks". */
export const askedBy = (job) => devicesOf(job) || counted(job.ranks ?? 0, "rank");

/** A panel beside the queue. show(job) asks again each time, because the reasons are those of the moment. */
export function whyPanel({ closed }) {
  const title = h("h2", {});
  const why = h("div", { "aria-live": "polite" });
  const rest = h("div", { class: "rest" });
  const element = h("aside", { class: "card why", "aria-label": "Why it waits", hidden: true },
    h("div", { class: "top" }, title, h("button", { type: "button", class: "quiet", onclick: closed, "aria-label": "Close" }, "Close")), why, rest);
  let shown = "";

  async function show(job) {
    element.hidden = false;
    if (shown !== job.id) {
      replace(title, h("a", { href: jobPath(job.name) }, printable(job.name)), " ", stateBadge(job.state, { held: job.held }));
      replace(why, h("p", {}, printable(job.reason)));
      replace(rest, facts(job), h("h3", {}, "The same on the command line"), commandBox(`jobctl why ${shellQuote(job.name)}`),
        h("p", { class: "buttons" }, jobActions(job).filter((action) => action.id !== "rerun").map(actionButton)));
    }
    shown = job.id;
    try {
      const answer = await call("WhyJob", { job: job.id });
      if (shown === job.id) showWhy(answer);
    } catch (error) {
      if (shown === job.id && error.status) replace(why, errorState(error));
    }
  }

  function showWhy({ text, details = [] }) {
    const words = [text, ...details].join("\n");
    if (why.dataset.words === words) return;
    why.dataset.words = words;
    replace(why, h("p", { class: "text" }, printable(text)), details.length > 0 && h("ul", {}, details.map((line) => h("li", {}, printable(line)))));
  }

  return {
    element,
    show,
    hide() {
      shown = "";
      delete why.dataset.words;
      element.hidden = true;
    },
  };
}

function facts(job) {
  const labels = labelsOf(job.labels);
  const pairs = [
    ["Needs", askedBy(job)], ["Priority", job.urgent ? "urgent" : String(job.priority ?? 0)], ["Held for it", job.holds], ["Owner", job.owner], ["Submitted", localTime(job.submittedMs)],
    ["Labels", labels.join(", ")], ["Command", job.command],
  ];
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) =>
    [h("dt", {}, name), h("dd", { class: name === "Command" ? "mono" : "" }, printable(value))]));
}
