/**
 * Numbers, times and names, as jobctl prints them (common/text/units.cc, client/text/record_text.cc, client/text/assessment_text.cc).
 *
 * duration(ms) "5m 12s"   roughly(ms) "5m"   took(ms) "9.6s", "194ms"   age(unixMs) "3m 2s"   deviceTime(us)   eta(ms) "about 5h 29m"
 * bytes(n) "4.2 MB"   general(x, 4) is printf's %.4g   percent(0.413) "41.3 %"   grouped(1234567) "1,234,567"
 * counted(2, "rank") "2 ranks"   ranges([0,1,2,5]) "0-2,5"
 * clockTime(unixMs) "14:02:11"   localTime(unixMs) "2026-03-01 14:02:11"
 * stateName("JOB_STATE_RUNNING") "RUNNING"   causeName("STOP_CAUSE_RANK_FAILED") "rank failed"   isOver(state)
 * labelsOf(labels) ["team=vision"]   devicesOf(job) "2 cpu"   shellQuote(word)   commandLine(words)   printable(text)
 */
// @ts-check

/** "5m 12s": at most two units, as common::HumanDuration. */
export function duration(milliseconds) {
  const ms = Math.max(0, Math.trunc(milliseconds));
  if (ms > 0 && ms < 1000) return `${ms}ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${Math.floor((seconds % 86400) / 3600)}h`;
}

/** Of what is only expected, as common::RoughDuration: "7m", "3h 20m". */
export function roughly(milliseconds) {
  const seconds = Math.floor(Math.max(0, milliseconds) / 1000);
  return seconds >= 60 && seconds < 3600 ? `${Math.floor(seconds / 60)}m` : duration(seconds * 1000);
}

/** How long something took: tenths of seconds below ten. */
export function took(milliseconds) {
  const ms = Math.max(0, Math.trunc(milliseconds));
  if (ms >= 10_000 || ms < 1_000) return ms === 0 ? "0ms" : duration(ms);
  return `${(ms / 1000).toFixed(1)}s`;
}

/** How long ago, in whole seconds; empty for 0. */
export function age(unixMs, nowMs = Date.now()) {
  return Number(unixMs) ? duration(Math.floor(Math.max(0, nowMs - Number(unixMs)) / 1000) * 1000) : "";
}

/** Microseconds of one device. */
export const deviceTime = (us) => took(Number(us) / 1000);

/** How much longer, about. */
export const eta = (ms) => `about ${duration(Math.max(1000, Math.floor(Number(ms) / 1000) * 1000))}`;

/** Decimal units, two digits. */
export function bytes(count) {
  let value = Number(count);
  if (value < 1000) return `${value} B`;
  const units = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];
  let unit = 0;
  for (; value >= 999.5 && unit + 1 < units.length; ++unit) value /= 1000;
  return `${value < 9.95 ? value.toFixed(1) : value.toFixed(0)} ${units[unit]}`;
}

/** printf's %.{digits}g */
export function general(value, digits = 4) {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < digits) return withoutZeros(value.toFixed(digits - 1 - power));
  const size = String(Math.abs(power)).padStart(2, "0");
  return `${withoutZeros(mantissa)}e${power < 0 ? "-" : "+"}${size}`;
}

const withoutZeros = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** A share as a percentage. */
export const percent = (share, digits = 1) => `${(share * 100).toFixed(digits)} %`;

/** With commas between thousands. */
export const grouped = (value) => String(Math.trunc(value)).replace(/\B(?=(\d{3})+$)/g, ",");

/** "1 rank", "2 ranks" */
export const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Ascending numbers as "0-2,5". */
export function ranges(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length; ) {
    let last = i;
    while (last + 1 < numbers.length && numbers[last + 1] === numbers[last] + 1) ++last;
    parts.push(last > i ? `${numbers[i]}-${numbers[last]}` : `${numbers[i]}`);
    i = last + 1;
  }
  return parts.join(",");
}

const two = (value) => String(value).padStart(2, "0");

/** Local time of day. */
export function clockTime(unixMs) {
  const date = new Date(Number(unixMs));
  return Number(unixMs) ? `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}` : "";
}

/** Local date and time. */
export function localTime(unixMs) {
  const date = new Date(Number(unixMs));
  if (!Number(unixMs)) return "";
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clockTime(unixMs)}`;
}

/** "RUNNING" */
export const stateName = (state) => (state ?? "").replace(/^(JOB|NODE)_STATE_/, "");

/** "rank failed" */
export function causeName(cause) {
  const name = (cause ?? "").replace(/^STOP_CAUSE_/, "");
  return name === "UNSPECIFIED" ? "" : name.toLowerCase().replaceAll("_", " ");
}

/** Nothing more will happen to a job in this state. */
export const isOver = (state) => /_(SUCCEEDED|FAILED|CANCELLED)$/.test(state ?? "");

/** "team=vision", sorted by key. */
export function labelsOf(labels) {
  return Object.keys(labels ?? {}).sort().map((key) => `${key}=${labels[key]}`);
}

/** "2 cpu"; empty before a kind is known. */
export const devicesOf = (job) => (job.deviceKind ? `${job.ranks ?? 0} ${job.deviceKind}` : "");

/** A word as a shell reads it. */
export function shellQuote(word) {
  return /^[A-Za-z0-9_\-./=:,@%+]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command as a shell reads it. */
export const commandLine = (words) => (words ?? []).map(shellQuote).join(" ");

// Control characters, and those that are invisible or change the order of what is shown.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** What you see is what is there: hidden characters become \xNN or \u{NNNN}. */
export function printable(text) {
  return String(text ?? "").replace(HIDDEN, (found) => {
    const code = found.codePointAt(0) ?? 0;
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}
