/**
 * How busy each device was in the last minutes. Kept while the page is open, whatever view is shown; at first it is read
 * from what the coordinator has stored of the jobs that run now.
 */
// @ts-check
import { call, int, number } from "../base/api.js";

export const WINDOW_MS = 5 * 60_000;
const MOST_POINTS = 400;
const MOST_JOBS_READ = 12;
const TIER_MS = 10_000;

const points = new Map();  // "node/gpu:0" or "node/cpu" → [{at, share}], ascending
const readJobs = new Set();

export const historyOf = (node, device) => points.get(`${node}/${device}`) ?? [];

/**
 * What nodes measure now, by node: {cores, resident, ageMs, devices: Map("gpu:0" → {job, sample})}
 * @param {Array<any>} buckets of QuerySamples with `newest`
 */
export function usesOf(buckets) {
  const nodes = new Map();
  for (const { last = {}, ageMs } of buckets) {
    const use = nodes.get(last.node) ?? { cores: 0, resident: 0, ageMs: 0, devices: new Map() };
    nodes.set(last.node, use);
    use.ageMs = Math.max(use.ageMs, int(ageMs));
    for (const rank of last.ranks ?? []) {
      use.cores += number(rank.cpuCores);
      use.resident += int(rank.residentBytes);
    }
    for (const sample of last.devices ?? []) use.devices.set(sample.device, { job: last.job, sample });
  }
  return nodes;
}

/** Notes what was measured at `at`, a time of this browser. `coresOf(node)` is how many processors it has. */
export function note(uses, at, coresOf) {
  for (const [node, use] of uses) {
    const cores = coresOf(node);
    if (cores) add(`${node}/cpu`, at, Math.min(1, use.cores / cores));
    for (const [device, { sample }] of use.devices) {
      if (sample.utilization !== undefined) add(`${node}/${device}`, at, number(sample.utilization));
    }
  }
}

function add(key, at, share) {
  const list = points.get(key) ?? [];
  points.set(key, list);
  list.push({ at, share });
  if (list.length > 1 && list.at(-2).at > at) list.sort((a, b) => a.at - b.at);
  while (list.length > MOST_POINTS || (list.length && list[0].at < at - 2 * WINDOW_MS)) list.shift();
}

/** Reads the last minutes of these jobs, each once. What several did on one node at the same time is added up. */
export async function readPast(jobs, coresOf, signal) {
  const fresh = jobs.filter((name) => !readJobs.has(name)).slice(0, MOST_JOBS_READ);
  const moments = new Map();
  for (const job of fresh) {
    readJobs.add(job);
    const request = { job, sinceMs: String(Date.now() - WINDOW_MS), tier: "SAMPLE_TIER_TEN_SECONDS" };
    const { messages = [] } = await call("QuerySamples", request, { signal }).catch(() => ({}));
    for (const bucket of messages) {
      const moment = Math.floor(int(bucket.last?.timeMs) / TIER_MS) * TIER_MS;
      moments.set(moment, [...(moments.get(moment) ?? []), bucket]);
    }
  }
  for (const [moment, buckets] of moments) note(usesOf(buckets), moment, coresOf);
}
