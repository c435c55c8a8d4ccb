// Curves as the rows that a chart draws: one per x that any curve has. Pure.

/**
 * @typedef {{name: string, xs: number[], ys: number[], lows?: number[], highs?: number[], smooth?: number[]}} Curve
 */

/** The columns in the order of the chart: the values as they are (under a smooth curve only), then what counts. */
export function columnsOf(curves) {
  const raw = curves.flatMap((curve, of) => (curve.smooth ? [{ of, raw: true, ys: curve.ys }] : []));
  return [...raw, ...curves.map((curve, of) => ({ of, raw: false, ys: curve.smooth ?? curve.ys }))];
}

// dygraphs has null for "no point here" and NaN for a gap; infinity would break its axis.
const drawable = (value, log) => (Number.isFinite(value) && (!log || value > 0) ? value : NaN);

/** @returns {(number | null)[][]} [x, one value for each column…], in order of x */
export function rowsOf(curves, columns, log) {
  if (curves.length === 1) return rowsOfOne(curves[0], columns, log);
  const rows = new Map();
  columns.forEach((column, at) => {
    curves[column.of].xs.forEach((x, i) => {
      let row = rows.get(x);
      if (!row) rows.set(x, (row = [x, ...columns.map(() => null)]));
      row[at + 1] = drawable(column.ys[i], log);
    });
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

function rowsOfOne(curve, columns, log) {
  return curve.xs.map((x, i) => [x, ...columns.map((column) => drawable(column.ys[i], log))]);
}

/** The index of the first number that is at least `value`, in an ascending list. */
export function firstAtLeast(ascending, value) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The lowest and the highest value between two x, those of whole buckets included; null if there is none. */
export function extentOf(curves, from, to, log) {
  let low = Infinity;
  let high = -Infinity;
  for (const { xs, ys, lows, highs } of curves) {
    const first = Math.max(0, firstAtLeast(xs, from) - 1);
    for (let i = first; i < xs.length; i += 1) {
      const least = lows?.[i] ?? ys[i];
      const most = highs?.[i] ?? ys[i];
      if (Number.isFinite(least) && least < low && (!log || least > 0)) low = least;
      if (Number.isFinite(most) && most > high) high = most;
      if (xs[i] > to) break;
    }
  }
  return low <= high ? [low, high] : null;
}

/** With some air above and below. */
export function paddedRange(extent, log) {
  if (!extent) return log ? [0.1, 1] : [0, 1];
  const [low, high] = extent;
  if (log) return [low / 1.2, high * 1.2];
  const air = high > low ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 1;
  return [low - air, high + air];
}
