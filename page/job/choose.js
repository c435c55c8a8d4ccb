// Which metrics are shown at first, how fast a job trains, and where its restarts are. Pure.
import { clockTime, grouped } from "../base/format.js";
import { brief } from "./said.js";

const SPEED_NAMES = /(per[_ ]?s(ec(ond)?s?)?|\/s(ec)?|throughput|_ps)$/i;
const WINDOW_MS = 1000;

// The same rule as common/loss_name.h, with its reasons; tests/common/loss_names.json is the test of both.
const REDUCTIONS = ["step", "epoch", "avg", "mean", "sum", "total", "batch", "running"];
const EVALUATIONS = ["eval", "evaluation", "val", "valid", "validation", "test", "testing", "dev", "holdout"];
const wordsOf = (text, separators) => text.toLowerCase().split(separators).filter(Boolean);

function endsWithLoss(part) {
  const words = wordsOf(part, /[-_. :]/);
  while (words.length > 1 && (words.at(-1).length === 1 || REDUCTIONS.includes(words.at(-1)))) words.pop();
  return words.at(-1) === "loss";
}

/** Whether a metric of this name is a loss. */
export const isLossName = (name) => name.split("/").some(endsWithLoss);

function placeOf(name) {
  const words = wordsOf(name, /[-/_. :]/);
  if (words.length === 1 && words[0] === "loss") return 0;
  if (words.some((word) => EVALUATIONS.includes(word))) return 3;
  const isOfTraining = words.every((word) => ["loss", "train", "training"].includes(word));
  return words.length === 2 && words[0] !== words[1] && isOfTraining ? 1 : 2;
}

/** For Array.sort: the loss that stands for a run comes first. */
export const byLossName = (a, b) => placeOf(a) - placeOf(b) || a.length - b.length || (a < b ? -1 : Number(a > b));

/** The metric that stands for the run; "" if none is a loss. */
export const lossOf = (names) => names.filter(isLossName).sort(byLossName)[0] ?? "";

/** The metric whose name says how fast the job is; "" if none does. */
export const throughputOf = (names) => names.find((name) => SPEED_NAMES.test(name)) ?? "";

/** The metrics to show until the user chooses: the one that stands for the run, the throughput, and some others. */
export function shownAtFirst(names, wanted = "", most = 4) {
  const first = [names.includes(wanted) ? wanted : lossOf(names), throughputOf(names)].filter(Boolean);
  const others = names.filter((name) => !first.includes(name) && !/(^|\/)(epoch|step|time\/.*|lr|learning_rate)$/i.test(name));
  return [...first, ...others].slice(0, Math.max(most, first.length));
}

/** Steps per second, from the times of a curve's steps: each over a second or more, so that two quick steps do not make a peak. */
export function stepsPerSecond({ steps, times }) {
  const speed = { steps: [], times: [], ys: [] };
  let from = 0;
  for (let i = 1; i < steps.length; i += 1) {
    while (from + 1 < i && times[i] - times[from + 1] >= WINDOW_MS) from += 1;
    const took = times[i] - times[from];
    if (took <= 0 || (took < WINDOW_MS && i + 1 < steps.length)) continue;
    speed.steps.push(steps[i]);
    speed.times.push(times[i]);
    speed.ys.push(((steps[i] - steps[from]) * 1000) / took);
  }
  return speed;
}

/**
 * Where restarts are on a curve: at the first point that the new attempt logged.
 * @param {{number: number, startedMs: number}[]} restarts in order of time
 */
export function marksOf(restarts, curve, isTime) {
  return restarts.flatMap(({ number, startedMs }) => {
    const at = curve.times.findIndex((time) => time >= startedMs);
    if (at < 0) return [];
    return [{ x: isTime ? startedMs : curve.steps[at], label: String(number) }];
  });
}

/**
 * A restart in words, placed on the axis of `curve`: trainers count metrics and checkpoints in units of their own.
 * @param curve may be undefined: nothing is drawn yet
 */
export function restartText(restart, curve, isTime) {
  const [mark] = curve ? marksOf([restart], curve, isTime) : [];
  const place = mark ? `, at ${isTime ? clockTime(mark.x) : `step ${grouped(mark.x)}`}` : "";
  const from = restart.resumeStep > 0 ? `, from checkpoint ${restart.resumeStep}` : "";
  return `↻${restart.number} attempt ${restart.number}${place}${from}: ${brief(restart.reason)}`;
}

/** Attempts after the first, each with the reason why the one before it ended. */
export function restartsOf(record) {
  const attempts = record.attempts ?? [];
  return attempts.slice(1).map((attempt, i) => ({
    number: attempt.number ?? 0,
    startedMs: Number(attempt.startedMs ?? 0),
    resumeStep: Number(attempt.resumeStep ?? -1),
    reason: attempts[i].reason ?? "",
  }));
}
