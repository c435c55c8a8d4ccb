// Which epoch a step belongs to, from a metric named "epoch" that the trainer logs next to the others. Pure.

const MOST_EPOCH = 1e15; // exact as a double, also when rounded up
const ROUNDING = 1e-6; // of an epoch that was computed and stored as a float

const isUsable = (point) => Number.isFinite(point.value) && Math.abs(point.value) <= MOST_EPOCH;

/**
 * The last step of each epoch, and the epoch. A fraction belongs to the epoch it completes: 0.5 and 1.0 are epoch 1.
 * @param {{step: number, value: number}[]} points of the metric
 */
export function endsOf(points) {
  const ends = [];
  for (const point of points) {
    if (!isUsable(point)) continue;
    const epoch = Math.ceil(point.value - ROUNDING);
    if (ends.length > 0 && ends[ends.length - 1].value === epoch) ends.pop();
    ends.push({ step: point.step, value: epoch });
  }
  return ends;
}

/** A step without a point belongs to the epoch of the next point; steps after the last point are one more epoch. */
function epochAt(ends, step) {
  let low = 0;
  let high = ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle].step < step) low = middle + 1;
    else high = middle;
  }
  return low < ends.length ? ends[low].value : ends[ends.length - 1].value + 1;
}

/** One point for each epoch: the mean of the values in it. */
export function meansOf(ends, points) {
  const sums = new Map();
  for (const { step, value } of points) {
    const epoch = epochAt(ends, step);
    const sum = sums.get(epoch) ?? { value: 0, count: 0 };
    sum.value += value;
    sum.count += 1;
    sums.set(epoch, sum);
  }
  return [...sums].sort((a, b) => a[0] - b[0]).map(([step, sum]) => ({ step, value: sum.value / sum.count }));
}

const isEpochMetric = (name) => name === "epoch" || name.endsWith("/epoch");

/** The metric among `names` that defines the epochs of `key`; "" if none does. */
export function epochMetricOf(key, names) {
  const neighbor = key.slice(0, key.lastIndexOf("/") + 1) + "epoch";
  for (const wanted of [neighbor, "epoch"]) {
    if (names.includes(wanted)) return wanted;
  }
  return names.find(isEpochMetric) ?? "";
}
