// Compares one metric of a run with the baseline's: which points correspond, and how they differ. Pure.
import { compare } from "./difference.js";
import { endsOf, epochMetricOf, meansOf } from "./epochs.js";

/**
 * @typedef {{name: string, names: string[], points: Map<string, {step: number, value: number}[]>}} Run
 */

function epochsOf(key, run) {
  const metric = epochMetricOf(key, run.names);
  return metric === "" ? [] : endsOf(run.points.get(metric) ?? []);
}

/** Whether the epochs of the metric are known in all runs. */
export const knowEpochs = (key, runs) => runs.every((run) => epochsOf(key, run).length > 0);

function rangeOf(points) {
  return points.length === 0 ? "none" : `${points[0].step} to ${points[points.length - 1].step}`;
}

function nothingInCommon(pair, by) {
  return {
    code: "JC1541",
    what: `${pair.key} has no ${by} in common: ${pair.baselineName} has ${rangeOf(pair.baseline)}, ` +
      `${pair.runName} has ${rangeOf(pair.run)}`,
    fix: by === "step" ? "choose by epoch: it compares runs that log at different steps" : "choose by step",
  };
}

function unknownEpochs(run, key) {
  return {
    code: "JC1542",
    what: `the epochs of ${run.name} are unknown: it has no metric "epoch" next to ${key}`,
    fix: "choose by step, or log a metric \"epoch\" at the same steps",
  };
}

/**
 * @param {string} key
 * @param {Run} baseline
 * @param {Run} run
 * @param {{by: "step" | "epoch", limit: import("./difference.js").Limit}} setup
 * @returns the points compared, their differences, or `problem`
 */
export function compareRuns(key, baseline, run, { by, limit }) {
  const pair = {
    key, baselineName: baseline.name, runName: run.name, firstStepPast: null, problem: null, differences: null,
    baseline: baseline.points.get(key) ?? [], run: run.points.get(key) ?? [],
  };
  if (by === "epoch") {
    const ofBaseline = epochsOf(key, baseline);
    const ofRun = epochsOf(key, run);
    if (ofBaseline.length === 0) return { ...pair, problem: unknownEpochs(baseline, key) };
    if (ofRun.length === 0) return { ...pair, problem: unknownEpochs(run, key) };
    pair.firstStepPast = compare(pair.baseline, pair.run, limit).firstPast;
    pair.baseline = meansOf(ofBaseline, pair.baseline);
    pair.run = meansOf(ofRun, pair.run);
  }
  pair.differences = compare(pair.baseline, pair.run, limit);
  if (pair.differences.compared === 0) pair.problem = nothingInCommon(pair, by);
  return pair;
}

/** "0.0483%", "2e-3"; NaN unless it is finite and not negative. */
export function parseTolerance(text) {
  const trimmed = text.trim();
  const isPercent = trimmed.endsWith("%");
  const digits = (isPercent ? trimmed.slice(0, -1) : trimmed).trim();
  const value = digits === "" ? NaN : Number(digits);
  if (!Number.isFinite(value) || value < 0) return NaN;
  return isPercent ? value / 100 : value;
}
