// A job's curves: what the coordinator has of them, kept up to date in small pieces.
import { call, int, number } from "../base/api.js";

const MOST_RAW = 1000; // as many as the coordinator sends undecimated
const wholeEveryMs = 1000;

/**
 * @typedef {{name: string, rank: number, total: number, perBucket: number, steps: number[], times: number[],
 *            ys: number[], lows?: number[], highs?: number[]}} JobCurve total: points in the range, perBucket: steps
 */

/** @returns {JobCurve} */
function curveOf(message) {
  const perBucket = int(message.stepsPerBucket, 1) || 1;
  const curve = {
    name: message.name, rank: message.rank ?? 0, total: int(message.points), perBucket,
    steps: (message.steps ?? []).map(Number), times: (message.timesMs ?? []).map(Number), ys: (message.last ?? []).map(number),
  };
  if (perBucket > 1 && message.min && message.max) {
    curve.lows = message.min.map(number);
    curve.highs = message.max.map(number);
  }
  return curve;
}

/** Asks for curves. @returns {Promise<JobCurve[]>} */
export async function queryCurves(job, names, options = {}, signal = undefined) {
  const answer = await call("QueryCurves", { job, names, ...options }, { signal });
  return (answer.curves ?? []).map(curveOf);
}

const lastOf = (list) => list[list.length - 1];

/** The names of a job's metrics, sorted: from the coordinator's memory, unless there are very many. */
export async function metricNames(job, signal) {
  const { curves = [], curvesLeftOut = 0, hasMoreNames = false } = await call("QueryCurves", { job, buckets: 1 }, { signal });
  if (!curvesLeftOut && !hasMoreNames) return curves.map((curve) => curve.name);
  const { summaries = [] } = await call("SummarizeMetrics", { job }, { signal });
  return [...new Set(summaries.map((summary) => summary.name))].sort();
}

/**
 * Adds what is new; false if the curve has to be read again. The tail begins at the curve's last point or before: if that
 * point is not there any more, or is another one, a restart has replaced it, and maybe others before it.
 */
function appendTail(curve, tail) {
  const end = curve.steps.length - 1;
  const same = tail.steps.indexOf(curve.steps[end]);
  if (tail.perBucket > 1 || same < 0 || tail.times[same] !== curve.times[end] || tail.rank !== curve.rank) return false;
  for (let i = same + 1; i < tail.steps.length; i += 1) {
    curve.steps.push(tail.steps[i]);
    curve.times.push(tail.times[i]);
    curve.ys.push(tail.ys[i]);
    curve.total += 1;
  }
  return curve.total <= MOST_RAW;
}

export class CurveStore {
  constructor(job) {
    this.job = job;
    this.curves = new Map();
    this.readMs = new Map(); // of whole curves
  }

  forget() {
    this.curves.clear();
    this.readMs.clear();
  }

  get(name) {
    return this.curves.get(name);
  }

  /** Brings these up to date. @returns {Promise<boolean>} false: some were read whole just now, and have to be asked for again later */
  async refresh(names, signal) {
    const known = names.filter((name) => this.canGrow(name));
    const whole = names.filter((name) => !known.includes(name));
    if (known.length > 0) whole.push(...(await this.grow(known, signal)));
    const now = performance.now();
    const due = whole.filter((name) => now - (this.readMs.get(name) ?? -Infinity) >= wholeEveryMs);
    if (due.length > 0) await this.readWhole(due, signal);
    return due.length === whole.length;
  }

  async readWhole(names, signal) {
    for (const name of names) this.readMs.set(name, performance.now());
    for (const curve of await queryCurves(this.job, names, {}, signal)) this.curves.set(curve.name, curve);
  }

  // A whole curve comes from the coordinator's memory; the end of one that is drawn in buckets would be read from its disk.
  canGrow(name) {
    const curve = this.curves.get(name);
    return curve !== undefined && curve.steps.length > 0 && curve.perBucket === 1;
  }

  // Returns those that have to be read as a whole.
  async grow(names, signal) {
    const fromStep = Math.min(...names.map((name) => lastOf(this.curves.get(name).steps)));
    const tails = new Map((await queryCurves(this.job, names, { fromStep: String(fromStep) }, signal)).map((tail) => [tail.name, tail]));
    return names.filter((name) => !tails.has(name) || !this.curves.has(name) || !appendTail(this.curves.get(name), tails.get(name)));
  }
}

