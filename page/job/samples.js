// What nodes measured of a job's ranks, newest values. Pure.
import { bytes, duration, general, percent } from "../base/format.js";

/** What the heat map can show: name, a rank's value, its text, and whether little or much is odd. */
export const MEASURES = [
  { id: "step", label: "Step time", value: (rank) => rank.stepMs, text: (value) => `${general(value, 4)} ms a step`, short: (value) => `${general(value, 3)} ms`, odd: "high" },
  { id: "cpu", label: "CPU", value: (rank) => rank.cpuCores, text: (value) => `${general(value, 3)} cores`, odd: "" },
  { id: "memory", label: "Memory", value: (rank) => rank.residentBytes, text: (value, rank) => `${bytes(value)}${rank.limitBytes ? ` of ${bytes(rank.limitBytes)}` : ""}`, short: (value) => bytes(value), odd: "high" },
  { id: "device", label: "Device utilization", value: (rank) => rank.utilization, text: (value) => percent(value, 0), odd: "low", share: true },
  { id: "age", label: "Age of the sample", value: (rank) => rank.ageMs, text: (value) => `${duration(value)} old`, short: (value) => duration(value), odd: "high" },
];

const numberOr = (value) => (value === undefined ? null : Number(value));

/** The devices of each rank in a part: as many for each, in order. */
function devicesOf(part, rank) {
  const indexes = part?.deviceIndexes ?? [];
  const size = part?.localWorldSize ?? 0;
  const each = size > 0 ? Math.floor(indexes.length / size) : 0;
  const local = rank - (part?.firstRank ?? 0);
  return indexes.slice(local * each, (local + 1) * each).map((index) => `${part.deviceKind}:${index}`);
}

function utilizationOf(batch, part, rank) {
  const names = devicesOf(part, rank);
  const values = (batch.devices ?? []).filter((device) => names.includes(device.device) && device.utilization !== undefined).map((device) => Number(device.utilization));
  return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

/**
 * @param {object[]} buckets of QuerySamples
 * @param {object} attempt the newest
 * @returns one entry per rank of the attempt
 */
export function ranksOfSamples(buckets, attempt) {
  const ranks = Array.from({ length: attempt?.worldSize ?? 0 }, (_, rank) => ({ rank, node: "", cpuCores: null, residentBytes: null, limitBytes: null, stepMs: null, step: null, utilization: null, ageMs: null, timeMs: 0 }));
  for (const part of attempt?.parts ?? []) {
    const first = part.firstRank ?? 0;
    for (let rank = first; rank < first + (part.localWorldSize ?? 0) && rank < ranks.length; rank += 1) ranks[rank].node = part.node;
  }
  for (const { last: batch, ageMs } of buckets) {
    if (!batch || (batch.attempt ?? 0) !== (attempt?.number ?? 0)) continue;
    const part = (attempt.parts ?? []).find((each) => each.node === batch.node);
    for (const sample of batch.ranks ?? []) {
      const entry = ranks[sample.rank ?? 0];
      if (!entry || Number(batch.timeMs) < entry.timeMs) continue;
      Object.assign(entry, {
        node: batch.node, timeMs: Number(batch.timeMs), cpuCores: Number(sample.cpuCores ?? 0), residentBytes: Number(sample.residentBytes ?? 0),
        limitBytes: numberOr(sample.memoryLimitBytes), stepMs: numberOr(sample.stepMs), step: numberOr(sample.step),
        utilization: utilizationOf(batch, part, entry.rank), ageMs: numberOr(ageMs) ?? 0,
      });
    }
  }
  return ranks;
}

/** The cells of the heat map for a measure, and its scale. Odd: twice, or half, the median. */
export function cellsOf(ranks, measure) {
  const values = ranks.map(measure.value);
  const known = values.filter((value) => value !== null && Number.isFinite(value)).sort((a, b) => a - b);
  const median = known[known.length >> 1] ?? 0;
  const isOdd = (value) => value !== null && known.length > 2 &&
    ((measure.odd === "high" && value > 2 * median && value > 0) || (measure.odd === "low" && value < median / 2));
  const cells = ranks.map((rank, i) => ({
    name: `rank ${rank.rank}`, value: values[i], isOdd: isOdd(values[i]),
    text: `${values[i] === null ? "not known" : measure.text(values[i], rank)}${rank.node ? ` on ${rank.node}` : ""}`,
    short: values[i] === null ? "?" : (measure.short ?? measure.text)(values[i], rank),
  }));
  const high = measure.share ? 1 : known.at(-1) ?? 0;
  const say = measure.short ?? measure.text;
  const scale = known.length === 0 ? "nothing was measured" : `pale: ${measure.share ? say(0, {}) : "0"}, full: ${say(high, {})}; median ${say(median, {})}` +
    (cells.some((cell) => cell.isOdd) ? `; framed: ${measure.odd === "high" ? "more than twice" : "less than half"} the median` : "");
  return { cells, low: 0, high, scale };
}
