// What a comparison needs of each job.
import { call } from "../base/api.js";
import { lossOf } from "../job/choose.js";
import { metricNames, queryCurves } from "../job/curves.js";
import { epochMetricOf } from "./epochs.js";

const BUCKETS = 10_000;

/** A job's record and the names of its metrics, sorted. */
export async function readJob(word, signal) {
  const { record } = await call("GetJob", { job: word }, { signal });
  return { record, name: record.name, names: await metricNames(record.id, signal) };
}

/** The metrics that all jobs have. */
export const commonNames = (jobs) => jobs[0].names.filter((name) => jobs.every((job) => job.names.includes(name)));

/** The metric to compare when nobody has chosen one. */
export const keyAtFirst = (names) => lossOf(names) || names[0] || "";

/** The points of a metric, and of the one that tells the epochs: a Run of comparison.js with its curves. */
export async function readRun(job, key, signal) {
  const epoch = epochMetricOf(key, job.names);
  const curves = await queryCurves(job.record.id, [...new Set([key, epoch].filter(Boolean))], { buckets: BUCKETS }, signal);
  const points = new Map(curves.map((curve) => [curve.name, curve.steps.map((step, i) => ({ step, value: curve.ys[i] }))]));
  return { ...job, points, curve: curves.find((curve) => curve.name === key) ?? null };
}
