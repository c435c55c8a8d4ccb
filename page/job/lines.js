// Records of StreamLogs as lines, and equal lines of several ranks as one. Pure.

/**
 * @typedef {{attempt: number, rank: number, ranks: number[], isErr: boolean, timeUs: number, text: string, isNotice: boolean}} Line
 */

const TWINS_WITHIN_US = 2_000_000;
const MOST_LOOKS = 200;
const MOST_OF_LINE = 4000; // characters of a line that are shown
const decoder = new TextDecoder();

function bytesOf(base64) {
  const text = atob(base64 ?? "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// A progress bar writes over itself: what a terminal would show is the last of it.
function shownText(text) {
  const kept = text.endsWith("\r") ? text.slice(0, -1) : text;
  const last = kept.slice(kept.lastIndexOf("\r") + 1);
  return last.length > MOST_OF_LINE ? `${last.slice(0, MOST_OF_LINE)} …` : last;
}

const keyOf = ({ attempt = 0, rank = 0, stream = "" }) => `${attempt}/${rank}/${stream}`;

/** Where each rank's stream is, and the pieces of lines that have no end yet. */
export class LineReader {
  constructor() {
    this.streams = new Map();
  }

  /** For the next request: continue after what was read. */
  positions() {
    return [...this.streams.values()].map(({ attempt, rank, stream, offset }) => ({ attempt, rank, stream, offset: String(offset) }));
  }

  /** @returns {Line[]} the lines that a record completes */
  add(record) {
    const { attempt = 0, rank = 0, stream = "" } = record;
    const timeUs = Number(record.timeUs ?? 0);
    const base = { attempt, rank, ranks: [rank], isErr: stream === "LOG_STREAM_STDERR", timeUs, isNotice: false };
    if (record.notice) return [{ ...base, ranks: [], isNotice: true, text: record.notice }];
    let state = this.streams.get(keyOf(record));
    if (!state) this.streams.set(keyOf(record), (state = { attempt, rank, stream, offset: 0, rest: new Uint8Array() }));
    const lines = [];
    for (const [count, what] of [[record.dropped, record.overQuota ? "removed (quota)" : "lost"], [record.damaged, "damaged"]]) {
      if (Number(count ?? 0) > 0) lines.push({ ...base, isNotice: true, text: `${count} bytes of rank ${rank}'s output are ${what} here` });
    }
    const bytes = bytesOf(record.data);
    state.offset = Math.max(Number(record.offset ?? 0) + bytes.length, Number(record.searchedTo ?? 0));
    lines.push(...this.split(state, bytes, base, Boolean(record.end)));
    return lines;
  }

  split(state, bytes, base, isEnd) {
    const lines = [];
    let from = 0;
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, from)) {
      lines.push({ ...base, text: shownText(decoder.decode(joined(state.rest, bytes.subarray(from, at)))) });
      state.rest = new Uint8Array();
      from = at + 1;
    }
    state.rest = joined(state.rest, bytes.subarray(from));
    if (isEnd && state.rest.length > 0) {
      lines.push({ ...base, text: shownText(decoder.decode(state.rest)) });
      state.rest = new Uint8Array();
    }
    return lines;
  }
}

function joined(a, b) {
  if (a.length === 0) return b;
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

// A progress bar of tqdm's kind: what it is of, and how far. A logger that prints between its steps makes lines of it.
const BAR = /^(.{0,200}?)(\d{1,3})%\|[^|]{0,400}\|/;

/** Puts equal lines that ranks wrote within two seconds together, and a rank's progress bar into one line that changes;
 * the other lines of each rank stay in their order. */
export class Folder {
  constructor() {
    this.lines = [];
    this.twins = new Map();
    this.lastOf = new Map(); // of each rank: the index of its newest line
    this.bars = new Map(); // of each bar: the index of its line, until it is full
  }

  /** @returns {boolean} false: it became part of a line that is there */
  add(line) {
    if (line.isNotice) {
      this.lines.push(line);
      return true;
    }
    const bar = BAR.exec(line.text);
    if (bar) return this.addBar(`${line.attempt}/${line.rank}/${line.isErr}/${bar[1].trim()}`, line, bar[2] === "100");
    const key = `${line.attempt}/${line.isErr}/${line.text}`;
    const own = this.lastOf.get(line.rank) ?? -1;
    const found = this.twinOf(key, line, own);
    if (found >= 0) {
      this.lines[found].ranks.push(line.rank);
      this.lastOf.set(line.rank, found);
      return false;
    }
    const index = this.lines.push({ ...line, ranks: [line.rank] }) - 1;
    this.lastOf.set(line.rank, index);
    this.twins.set(key, [...(this.twins.get(key) ?? []).slice(-MOST_LOOKS), index]);
    return true;
  }

  addBar(key, line, isFull) {
    const known = this.bars.get(key);
    const index = known ?? this.lines.push({ ...line, ranks: [line.rank] }) - 1;
    this.lines[index].text = line.text;
    this.lines[index].timeUs = line.timeUs;
    if (isFull) this.bars.delete(key);
    else this.bars.set(key, index);
    return known === undefined;
  }

  twinOf(key, line, own) {
    for (const index of this.twins.get(key) ?? []) {
      const twin = this.lines[index];
      if (index > own && line.timeUs - twin.timeUs <= TWINS_WITHIN_US && !twin.ranks.includes(line.rank)) return index;
    }
    return -1;
  }
}

/** "[16 ranks]", "[0-3,5]", "[12 of 16 ranks]" */
export function ranksText(ranks, all) {
  if (ranks.length >= all && all > 1) return `[${ranks.length} ranks]`;
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < sorted.length; ) {
    let last = i;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last] + 1) last += 1;
    parts.push(last > i ? `${sorted[i]}${last === i + 1 ? "," : "-"}${sorted[last]}` : `${sorted[i]}`);
    i = last + 1;
  }
  const text = parts.join(",");
  return text.length <= 16 ? `[${text}]` : `[${ranks.length} of ${all} ranks]`;
}

/** "0,3-5" → [0, 3, 4, 5]; null if it is not a list of ranks */
export function ranksOf(text) {
  const ranks = [];
  for (const word of text.split(/[\s,]+/).filter(Boolean)) {
    const found = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(word);
    if (!found) return null;
    const first = Number(found[1]);
    const last = Number(found[2] ?? found[1]);
    if (last < first || last - first > 10_000) return null;
    for (let rank = first; rank <= last; rank += 1) ranks.push(rank);
  }
  return ranks;
}
