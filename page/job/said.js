// A job's page gives the reason of an end once; elsewhere it is only named. Pure.

const LEAST = 24; // shorter texts are as quickly read as a reference to them

/** A sentence without what it quotes and adds: "rank 0 on node1 exited with code 1: …" */
export function brief(sentence) {
  const mark = /: |; |, (?=which)/.exec(sentence);
  return mark && sentence.length >= LEAST ? `${sentence.slice(0, mark.index)}${mark[0].trimEnd()} …` : sentence;
}

/** Whether `sentence` can be read in one of these texts. */
export const isIn = (texts, sentence) => texts.some((text) => text.includes(sentence));

/** `text` with each of these sentences in its brief form. */
export function withBrief(text, sentences) {
  return sentences.reduce((rest, sentence) => (sentence.length < LEAST ? rest : rest.replaceAll(sentence, () => brief(sentence))), text);
}

/** Why a job's attempts ended, the longest first: one may be the beginning of another. */
export function reasonsOf(record) {
  const reasons = [record.reason, ...(record.attempts ?? []).map(({ reason }) => reason)];
  return [...new Set(reasons.filter(Boolean))].sort((a, b) => b.length - a.length);
}

/** Of a rank that a signal killed only what it printed in the seconds before: the rest is not why it died. */
export function linesToQuote({ lastLines = "", signal = 0, freshLines }) {
  if (!signal || freshLines === undefined) return lastLines;
  const lines = lastLines.split("\n").filter((line) => line.trim() !== "");
  return lines.slice(Math.max(0, lines.length - freshLines)).join("\n");
}
