// Compares two series at the steps that both have, as `jobctl compare` does. Pure.

/**
 * @typedef {{step: number, value: number}} Point
 * @typedef {{given: boolean, rtol: number, atol: number}} Limit
 * @typedef {{at: number, baseline: number, value: number, abs: number, rel: number, past: boolean}} Row
 */

const isFinite = (row) => Number.isFinite(row.baseline) && Number.isFinite(row.value);

function isPast(row, limit) {
  if (!isFinite(row)) return true;
  if (!limit.given) return false;  // without a limit only NaN and infinity are past it
  // An infinite difference of two finite values is past any limit.
  return !Number.isFinite(row.abs) || row.abs > limit.atol + limit.rtol * Math.abs(row.baseline);
}

/** @returns {Row} */
function makeRow(at, baseline, value, limit) {
  const abs = Math.abs(value - baseline);
  const rel = baseline !== 0 ? abs / Math.abs(baseline) : abs === 0 ? 0 : Infinity;
  const row = { at, baseline, value, abs, rel, past: false };
  row.past = isPast(row, limit);
  return row;
}

function newTally() {
  return {
    compared: 0, onlyBaseline: 0, onlyRun: 0, past: 0, notFinite: 0, zeroBaseline: 0,
    meanAbs: 0, meanRel: 0, largestAbs: null, largestRel: null, firstPast: null,
  };
}

function count(tally, row) {
  tally.compared += 1;
  if (row.past) {
    tally.past += 1;
    tally.firstPast ??= row;
  }
  if (!isFinite(row)) {
    tally.notFinite += 1;
    return;
  }
  tally.meanAbs += row.abs;
  if (!tally.largestAbs || row.abs > tally.largestAbs.abs) tally.largestAbs = row;
  if (row.rel === Infinity) {
    tally.zeroBaseline += 1;
    return;
  }
  tally.meanRel += row.rel;
  if (!tally.largestRel || row.rel > tally.largestRel.rel) tally.largestRel = row;
}

function finish(tally) {
  const finite = tally.compared - tally.notFinite;
  const relative = finite - tally.zeroBaseline;
  tally.meanAbs = finite > 0 ? tally.meanAbs / finite : 0;
  tally.meanRel = relative > 0 ? tally.meanRel / relative : 0;
  return tally;
}

/**
 * Both are in order of step, each step once.
 * @param {Point[]} baseline
 * @param {Point[]} run
 * @param {Limit} limit
 * @param {(row: Row) => void} [onRow] gets every row in order
 */
export function compare(baseline, run, limit, onRow) {
  const tally = newTally();
  let i = 0;
  let j = 0;
  while (i < baseline.length && j < run.length) {
    if (baseline[i].step < run[j].step) {
      tally.onlyBaseline += 1;
      i += 1;
    } else if (run[j].step < baseline[i].step) {
      tally.onlyRun += 1;
      j += 1;
    } else {
      const row = makeRow(baseline[i].step, baseline[i].value, run[j].value, limit);
      count(tally, row);
      onRow?.(row);
      i += 1;
      j += 1;
    }
  }
  tally.onlyBaseline += baseline.length - i;
  tally.onlyRun += run.length - j;
  return finish(tally);
}
