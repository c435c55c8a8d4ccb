// A comparison in the words of `jobctl compare`. Pure.
import { counted, general } from "../base/format.js";

const ROWS_SHOWN = 40;

export const exactNumber = (value) => general(value, 9);
/** Six significant digits. */
export const peopleNumber = (value) => general(value, 6);
/** "0.04831%" */
export const peoplePercent = (share) => `${general(100 * share, 4)}%`;

/** "|a-b| <= 0.0483% of |baseline|" */
function limitText(limit) {
  if (!limit.given) return "none: only NaN and infinity are past it";
  if (limit.atol === 0) return `|a-b| <= ${peoplePercent(limit.rtol)} of |baseline|`;
  return `|a-b| <= ${peopleNumber(limit.atol)} + ${peoplePercent(limit.rtol)} of |baseline|`;
}

/** "FAIL", "PASS" or "not judged" */
export function verdictOf(differences, limit) {
  if (differences.past > 0) return "FAIL";
  return limit.given ? "PASS" : "not judged";
}

/** What follows the verdict: "loss of text-4 against text-3: 30 steps, 2 past the limit" */
export function headText(pair, by) {
  const { compared, past } = pair.differences;
  return `${pair.key} of ${pair.runName} against ${pair.baselineName}: ${counted(compared, by)}` +
    (past > 0 ? `, ${past} past the limit` : "");
}

function pastLines(pair, by) {
  const all = pair.differences;
  const lines = [];
  if (all.firstPast) {
    const row = all.firstPast;
    lines.push(`first past the limit: ${by} ${row.at} (${peopleNumber(row.baseline)} and ${peopleNumber(row.value)}, ` +
      `rel ${peoplePercent(row.rel)})`);
  }
  if (by === "epoch" && pair.firstStepPast) {
    const row = pair.firstStepPast;
    lines.push(`first step past it: ${row.at} (rel ${peoplePercent(row.rel)}${all.past === 0 ? "; the epochs decide)" : ")"}`);
  }
  return lines;
}

function leftOutLines(pair, by) {
  const all = pair.differences;
  const lines = [];
  if (all.notFinite > 0) lines.push(`${counted(all.notFinite, by)} with NaN or infinity`);
  if (all.zeroBaseline > 0) lines.push(`${counted(all.zeroBaseline, by)} with a baseline of 0: no relative difference`);
  if (all.onlyBaseline + all.onlyRun > 0) {
    lines.push(`left out: ${counted(all.onlyBaseline, by)} that only ${pair.baselineName} has, ` +
      `${counted(all.onlyRun, by)} that only ${pair.runName} has`);
  }
  return lines;
}

/** @returns {string[]} the lines of the summary after its head */
export function summaryLines(pair, by, limit) {
  const all = pair.differences;
  const lines = [];
  if (all.compared > all.notFinite) {
    lines.push(`mean  abs ${peopleNumber(all.meanAbs)}  rel ${peoplePercent(all.meanRel)}`);
  }
  if (all.largestRel) {
    lines.push(`max  rel ${peoplePercent(all.largestRel.rel)} at ${by} ${all.largestRel.at}  ` +
      `abs ${peopleNumber(all.largestAbs.abs)} at ${by} ${all.largestAbs.at}`);
  }
  lines.push(`limit ${limitText(limit)}`);
  return [...lines, ...pastLines(pair, by), ...leftOutLines(pair, by)];
}

/** At most about 40 rows: evenly spaced, the last one, and those that matter. */
export function thinned(rows, differences) {
  const every = Math.max(1, Math.ceil(differences.compared / ROWS_SHOWN));
  const kept = new Set([differences.firstPast, differences.largestAbs, differences.largestRel].map((row) => row?.at));
  return rows.filter((row, i) => i % every === 0 || i === rows.length - 1 || kept.has(row.at));
}
