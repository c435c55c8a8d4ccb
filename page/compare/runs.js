// What is asked about the jobs that are compared.
import { call } from "../base/api.js";
import { lossOf } from "../job/choose.js";
import { metricNames, queryCurves } from "../job/curves.js";

const BUCKETS = 10_000;

/** A job's record and the names of its metrics, sorted. */
export async function readJob(word, signal) {
  const { record } = await call("GetJob", { job: word }, { signal });
  return { record, name: record.name, names: await metricNames(record.id, signal) };
}

/** The metrics that all jobs have. */
export const commonNames = (jobs) => jobs[0].names.filter((name) => jobs.every((job) => job.names.includes(name)));

/** The metric to compare until the user chooses one. */
export const keyAtFirst = (names) => lossOf(names) || names[0] || "";

/** The job with the curve of a metric. */
export async function readCurve(job, key, signal) {
  const [curve = null] = key ? await queryCurves(job.record.id, [key], { buckets: BUCKETS }, signal) : [];
  return { ...job, curve };
}

const UNITS = { step: "COMPARE_BY_STEP", epoch: "COMPARE_BY_EPOCH" };

/**
 * How the jobs differ from the first, as `jobctl compare` says it.
 * @param setup {by: "step", "epoch" or "", rtol, atol: texts, "" for none}
 * @returns {by: "step" | "epoch", pairs: JobComparison[]}; or {error} if they cannot be compared
 */
export async function compareJobs(jobs, key, { by, rtol, atol }, signal) {
  if (!key) return { pairs: [] };
  const request = { jobs: jobs.map((job) => job.record.id), metrics: [key], by: UNITS[by], rtol, atol };
  try {
    const answer = await call("CompareJobs", request, { signal });
    return { by: answer.by === UNITS.epoch ? "epoch" : "step", pairs: answer.comparisons ?? [] };
  } catch (error) {
    if (error.name === "AbortError" || error.status === 0 || error.status === 401) throw error;
    return { error, pairs: [] };
  }
}
