// Exponential smoothing with the correction for the first values that TensorBoard makes. Pure.

/**
 * @param {number[]} values NaN and infinities stay as they are and do not count
 * @param {number} weight 0: none; below 1
 */
export function smoothed(values, weight) {
  if (weight <= 0) return values;
  let mean = 0;
  let share = 1; // weight to the power of how many values were seen
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = mean * weight + value * (1 - weight);
    share *= weight;
    return mean / (1 - share);
  });
}
