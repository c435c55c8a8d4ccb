// The Logs tab: what the ranks wrote, searched by the coordinator.
import { call } from "../base/api.js";
import { h, replace, setText } from "../base/dom.js";
import { counted, isOver, printable, shellQuote } from "../base/format.js";
import { setQuery } from "../base/route.js";
import { windowedRows } from "../base/rows.js";
import { commandBox, emptyState, errorState } from "../base/states.js";
import { Folder, LineReader, ranksOf } from "./lines.js";
import { logFields } from "./log_fields.js";
import { fillRow, newRow } from "./log_row.js";

const TAIL_AT_FIRST = 2000;
const MOST_LINES = 100_000;
const MOST_PIECES = 8; // of 1 MiB each, for one reading
const MOST_SHORT = 22; // lines: fewer make the box lower
const BEFORE_ERROR_MS = 5000;

/** @returns a panel of job.js */
export function openPanel(place, context) {
  return new LogsPanel(place, context);
}

class LogsPanel {
  constructor(place, { job, record, query }) {
    this.job = job;
    this.jobRecord = record;
    this.tail = TAIL_AT_FIRST;
    this.sinceMs = 0;
    this.follows = true;
    this.fields = logFields(query, record, () => this.restart());
    this.box = h("div", { class: "logbox", tabindex: "0", role: "region", "aria-label": "Log lines", "data-loading": true });
    this.host = h("div", { class: "rows loglines", role: "log", "aria-live": "off" });
    this.note = h("p", { class: "muted lognote", role: "status" });
    this.state = h("div");
    this.command = h("div");
    this.box.append(this.host);
    replace(place, this.toolbar(), this.note, this.state, this.box, this.command);
    this.rows = windowedRows(this.host, { make: newRow, fill: (row, index) => fillRow(row, this.folder.lines[index], this.world(), index === this.marked), scroller: this.box });
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.restart();
  }

  // ---- controls ----

  toolbar() {
    const { grep, ranks, level, stream, attempt, fold } = this.fields;
    this.follow = h("button", { type: "button", "aria-pressed": "true", class: "toggle", "data-control": "follow", onclick: () => this.setFollow(!this.follows, true) }, "Follow");
    const error = h("button", { type: "button", "data-control": "first-error", onclick: () => this.firstError() }, "First error");
    return h("div", { class: "toolbar" }, grep, ranks, level, stream, attempt,
      h("label", { class: "check" }, fold, "Fold equal lines"), error, this.follow);
  }

  setFollow(on, jump) {
    this.follows = on;
    this.follow.setAttribute("aria-pressed", String(on));
    if (on && jump) this.toEnd();
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    const atEnd = scrollHeight - scrollTop - clientHeight < 24;
    if (atEnd !== this.follows && !this.moving) this.setFollow(atEnd, false);
  }

  toEnd() {
    this.moving = true;
    this.box.scrollTop = this.box.scrollHeight;
    requestAnimationFrame(() => (this.moving = false));
  }

  // ---- requests ----

  world() {
    return (this.jobRecord.attempts ?? []).at(-1)?.worldSize ?? 1;
  }

  filter() {
    const { grep, level } = this.fields;
    if (!grep.value && !level.value) return undefined;
    return { grep: grep.value, ignoreCase: grep.value === grep.value.toLowerCase(), ...(level.value && { leastLevel: `LOG_LEVEL_${level.value}` }) };
  }

  request() {
    const { ranks, stream, attempt } = this.fields;
    const base = { job: this.job, ranks: ranksOf(ranks.value) ?? [], attempt: Number(attempt.value), filter: this.filter() };
    return stream.value ? { ...base, stream: `LOG_STREAM_${stream.value}` } : base;
  }

  /** The command that prints the same. */
  commandText() {
    const { grep, ranks, level, attempt } = this.fields;
    const parts = [`jobctl logs ${shellQuote(this.jobRecord.name)}`];
    if (!isOver(this.jobRecord.state)) parts.push("-f");
    if (ranks.value && ranksOf(ranks.value)) parts.push(`--rank ${shellQuote(ranks.value.replace(/\s+/g, ""))}`);
    if (attempt.value !== "-1") parts.push(`--attempt ${attempt.value}`);
    if (level.value) parts.push(`--level ${level.value.toLowerCase()}`);
    if (grep.value) parts.push(`--grep ${shellQuote(grep.value)}`);
    return parts.join(" ");
  }

  restart() {
    if (this.closed) return;
    this.asking?.abort();
    this.asking = new AbortController();
    const { grep, ranks, level, stream, attempt } = this.fields;
    setQuery({ grep: grep.value, rank: ranks.value, level: level.value, stream: stream.value, attempt: attempt.value === "-1" ? "" : attempt.value });
    ranks.setAttribute("aria-invalid", String(ranksOf(ranks.value) === null));
    replace(this.command, commandBox(this.commandText()));
    this.reader = new LineReader();
    this.folder = new Folder();
    this.since = this.sinceMs;
    this.isJump = this.sinceMs > 0;
    this.marked = -1;
    this.busy = false;
    this.more = false;
    return this.read(true);
  }

  /** Reads what is new. */
  async read(isFirst = false) {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.again = false;
    const { signal } = this.asking;
    try {
      for (let piece = 0, goesOn = true; goesOn && piece < MOST_PIECES; piece += 1) {
        goesOn = await this.readPiece(isFirst && piece === 0, signal);
        if (goesOn) this.draw();
      }
      replace(this.state);
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(this.state, errorState(error));
    }
    this.busy = false;
    this.box.removeAttribute("data-loading");
    this.draw();
    if (this.again) this.read();
  }

  // Returns whether it is worth asking for the next piece.
  async readPiece(isFirst, signal) {
    const { messages = [], more = false } = await call("StreamLogs", { ...this.request(), ...this.from(isFirst) }, { signal });
    if (isFirst && this.isTail() && !this.since) this.since = oldestMs(messages);
    let isNew = false;
    for (const message of messages) {
      // Asked to continue, a coordinator repeats what it says about attempts and ends.
      if (!isFirst && message.notice && this.seenNotices?.has(message.notice)) continue;
      if (message.notice) (this.seenNotices = isFirst && !isNew ? new Set() : this.seenNotices ?? new Set()).add(message.notice);
      for (const line of this.reader.add(message)) this.addLine(line);
      isNew = isNew || Boolean(message.data || message.searchedTo);
    }
    this.more = more;
    return more && isNew;
  }

  // A search is about the whole log; without one, its end is shown, or what follows an error.
  isTail() {
    return !this.sinceMs && !this.filter();
  }

  // Streams that have sent something continue there; the others have nothing to show before the oldest line shown.
  from(isFirst) {
    if (isFirst && this.isTail()) return { tailLines: String(this.tail) };
    return { ...(this.since && { sinceMs: String(this.since) }), ...(!isFirst && { resume: this.reader.positions() }) };
  }

  addLine(line) {
    if (this.fields.fold.checked) this.folder.add(line);
    else this.folder.lines.push(line);
  }

  draw() {
    const lines = this.folder.lines;
    if (lines.length > MOST_LINES) {
      this.folder.lines = lines.slice(-MOST_LINES);
      this.folder.twins.clear();
      this.folder.lastOf.clear();
      this.folder.bars.clear();
    }
    const count = this.folder.lines.length;
    this.rows.setCount(count);
    this.rows.refresh();
    this.box.hidden = count === 0;
    this.box.style.height = count < MOST_SHORT ? `${Math.max(count, 4) * 1.4 + 1.2}rem` : "";
    this.drawNote(count);
    if (this.follows && count > 0) this.toEnd();
  }

  drawNote(count) {
    const searched = this.filter() !== undefined;
    const isTail = !this.isJump && !searched && count >= this.tail * 0.9;
    const earlier = (isTail || this.isJump) && this.tail < MOST_LINES
      ? h("button", { type: "button", class: "quiet", "data-control": "earlier", onclick: () => this.loadEarlier() }, "Load earlier lines") : null;
    const on = this.more ? h("button", { type: "button", class: "quiet", "data-control": "read-on", onclick: () => this.read() }, searched ? "Search on" : "Read on") : null;
    const text = searched ? `${counted(count, "line")} found` : isTail ? `the last ${counted(count, "line")}` : count > 0 ? counted(count, "line") : "";
    const rest = !this.more ? "" : searched ? "; only a part of the log was searched so far" : "; there are more";
    replace(this.note, text, rest, on, earlier);
    const isOverNow = isOver(this.jobRecord.state);
    if (count === 0 && !this.state.firstChild) {
      replace(this.state, searched ? emptyState("No line matches", this.more ? "Only a part of the log was searched so far." : "The whole log was searched.")
        : emptyState("No output yet", isOverNow ? "The ranks wrote nothing." : "Lines appear here as ranks write them."));
    }
  }

  loadEarlier() {
    this.tail *= 8;
    this.setFollow(false, false);
    this.restart();
  }

  // ---- the first error ----

  async firstError() {
    try {
      const { found, more } = await this.findError(this.asking.signal);
      if (!found) return setText(this.note, more ? "no error in the part of the log that was searched" : "no error found in the log");
      await this.jumpTo(found);
    } catch (error) {
      if (error.name !== "AbortError") setText(this.note, printable(error.what ?? error.message));
    }
  }

  // Lines come in the order of time.
  async findError(signal) {
    const reader = new LineReader();
    for (let piece = 0; piece < MOST_PIECES; piece += 1) {
      const request = { ...this.request(), filter: { errors: true }, resume: reader.positions() };
      const { messages = [], more = false } = await call("StreamLogs", request, { signal });
      const lines = messages.flatMap((message) => reader.add(message)).filter((line) => !line.isNotice);
      if (lines.length > 0) return { found: lines.sort((a, b) => a.timeUs - b.timeUs)[0], more };
      if (!more) return { more };
      if (messages.length === 0) break;
    }
    return { more: true };
  }

  async jumpTo(wanted) {
    this.fields.grep.value = "";
    this.fields.level.value = "";
    this.sinceMs = Math.max(1, Math.floor(wanted.timeUs / 1000) - BEFORE_ERROR_MS);
    this.setFollow(false, false);
    await this.restart();
    const is = (line) => !line.isNotice && line.attempt === wanted.attempt && line.ranks.includes(wanted.rank) && line.text === wanted.text;
    this.marked = this.folder.lines.findIndex(is);
    this.sinceMs = 0;
    if (this.marked < 0) return;
    this.box.scrollTop = 0;
    this.rows.reveal(Math.min(this.folder.lines.length - 1, this.marked + 6));
    this.rows.reveal(this.marked);
    this.rows.refresh();
  }

  // ---- what job.js calls ----

  record(record) {
    const before = this.jobRecord;
    this.jobRecord = record;
    const known = (before.attempts ?? []).length;
    for (const attempt of (record.attempts ?? []).slice(known)) {
      const number = String(attempt.number ?? 0);
      this.fields.attempt.append(h("option", { value: number }, `attempt ${number}`));
    }
    if (before.state === record.state) return;
    replace(this.command, commandBox(this.commandText()));
    this.read();
  }

  onData(kind) {
    if (kind === "logs") this.read();
  }

  onResync() {
    this.read();
  }

  close() {
    this.closed = true;
    this.asking.abort();
    this.rows.close();
  }
}

// Of what was sent; 0: nothing was.
function oldestMs(messages) {
  const times = messages.filter((message) => message.data).map((message) => Number(message.timeUs ?? 0));
  return times.length > 0 ? Math.floor(times.reduce((a, b) => Math.min(a, b)) / 1000) : 0;
}
