// Colors of curves: tokens of the style sheet (Okabe and Ito), each with its own dash for print and weak color vision.

const TOKENS = ["--c0", "--c1", "--c2", "--c3", "--c6"];
const DASHES = [null, [7, 3], [2, 3], [9, 3, 2, 3], [4, 2]];
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

/** The value of a color token of the style sheet. */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";

/** @returns {{color: string, dash: number[] | null}} of the nth curve of a chart */
export const curveStyle = (n) => ({ color: token(TOKENS[n % TOKENS.length]), dash: DASHES[n % DASHES.length] });

/** Calls `what` whenever the colors change; returns what stops that. */
export function onColorsChange(what) {
  prefersDark.addEventListener("change", what);
  return () => prefersDark.removeEventListener("change", what);
}
