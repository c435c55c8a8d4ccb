// What a chart draws under its curves: the range of each bucket, restarts, and where values are not finite.
import { token } from "./palette.js";

/** The area between the lowest and the highest value of each bucket. */
export function paintBands(canvas, graph, curves, styles) {
  curves.forEach(({ xs, lows, highs }, n) => {
    if (!lows || lows.length === 0) return;
    canvas.save();
    canvas.globalAlpha = 0.22;
    canvas.fillStyle = styles[n].color;
    canvas.beginPath();
    xs.forEach((x, i) => canvas.lineTo(graph.toDomXCoord(x), graph.toDomYCoord(highs[i])));
    for (let i = xs.length - 1; i >= 0; i -= 1) canvas.lineTo(graph.toDomXCoord(xs[i]), graph.toDomYCoord(lows[i]));
    canvas.closePath();
    canvas.fill();
    canvas.restore();
  });
}

/** A dashed line with the attempt's number for each restart. */
export function paintMarks(canvas, area, graph, marks) {
  canvas.save();
  canvas.strokeStyle = canvas.fillStyle = token("--muted");
  canvas.font = `${Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.85)}px system-ui, sans-serif`;
  canvas.setLineDash([3, 3]);
  for (const mark of marks) {
    const x = Math.round(graph.toDomXCoord(mark.x)) + 0.5;
    if (x < area.x || x > area.x + area.w) continue;
    canvas.beginPath();
    canvas.moveTo(x, area.y);
    canvas.lineTo(x, area.y + area.h);
    canvas.stroke();
    const text = `↻${mark.label}`;
    const fitsRight = x + 4 + canvas.measureText(text).width < area.x + area.w;
    canvas.textAlign = fitsRight ? "left" : "right";
    canvas.fillText(text, fitsRight ? x + 4 : x - 4, area.y + 11);
  }
  canvas.restore();
}

/** A triangle at the bottom for each value that is NaN or infinite. */
export function paintNotFinite(canvas, area, graph, curves, styles) {
  const base = area.y + area.h;
  curves.forEach(({ xs, ys }, n) => {
    canvas.fillStyle = styles[n].color;
    let last = -Infinity;
    ys.forEach((y, i) => {
      if (Number.isFinite(y)) return;
      const x = graph.toDomXCoord(xs[i]);
      if (x < area.x || x > area.x + area.w || x - last < 3) return; // one per few pixels is enough
      last = x;
      canvas.beginPath();
      canvas.moveTo(x, base - 8);
      canvas.lineTo(x - 4, base);
      canvas.lineTo(x + 4, base);
      canvas.fill();
    });
  });
}
