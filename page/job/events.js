// The Events tab: what happened to the job, newest first.
import { call } from "../base/api.js";
import { h, replace, scrollBox, setText } from "../base/dom.js";
import { counted, localTime, printable, shellQuote } from "../base/format.js";
import { commandBox, emptyState, errorState } from "../base/states.js";
import { reasonsOf, withBrief } from "./said.js";

const EVENTS_AT_FIRST = 500;

/** @returns a panel of job.js */
export const openPanel = (place, context) => new EventsPanel(place, context);

class EventsPanel {
  constructor(place, { job, record }) {
    this.job = job;
    this.reasons = reasonsOf(record);
    this.after = "0";
    this.count = 0;
    this.stopping = new AbortController();
    this.note = h("p", { class: "muted", role: "status" });
    this.state = h("div");
    this.body = h("tbody");
    this.table = scrollBox(h("table", { "aria-label": "Events", class: "events" },
      h("thead", {}, h("tr", {}, ["Time", "Event"].map((name) => h("th", { scope: "col" }, name)))), this.body));
    replace(place, this.note, this.state, this.table, commandBox(`jobctl events ${shellQuote(record.name)}`));
    this.read();
  }

  async read() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.again = false;
    try {
      const request = this.count === 0 ? { job: this.job, limit: EVENTS_AT_FIRST } : { job: this.job, afterSeq: this.after, limit: EVENTS_AT_FIRST };
      const { messages = [] } = await call("ListEvents", request, { signal: this.stopping.signal });
      for (const { events = [], texts = [] } of messages) events.forEach((event, i) => this.add(event, texts[i] ?? ""));
      replace(this.state, this.count === 0 && emptyState("No events", "None yet, or they were dropped."));
    } catch (error) {
      if (error.name !== "AbortError") replace(this.state, errorState(error));
    }
    this.table.hidden = this.count === 0;
    setText(this.note, this.count >= EVENTS_AT_FIRST ? `the newest ${counted(this.count, "event")}` : counted(this.count, "event"));
    this.busy = false;
    if (this.again) this.read();
  }

  add(event, text) {
    if (Number(event.seq) <= Number(this.after)) return;
    this.after = event.seq;
    this.count += 1;
    const shown = withBrief(text, this.reasons);
    this.body.prepend(h("tr", { "data-seq": event.seq }, h("td", { class: "when" }, localTime(event.atMs)),
      h("td", { title: shown === text ? null : printable(text) }, printable(shown))));
  }

  /** Why it ended may come after the events that tell it. */
  record(record) {
    this.reasons = reasonsOf(record);
  }

  onChange() {
    this.read();
  }

  onResync() {
    this.read();
  }

  close() {
    this.stopping.abort();
  }
}
