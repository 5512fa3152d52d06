// A picture as a list of lines, boxes and texts, painted on a canvas or written as SVG: the two agree.

import { element, pen, shortened } from "./page.js";

/**
 * @typedef {{ kind: "line", x0: number, y0: number, x1: number, y1: number, colour: string, alpha: number, width: number,
 *   dash: number[] | null }} Stroke
 * @typedef {{ kind: "box", x: number, y: number, width: number, height: number, colour: string, alpha?: number }} Box
 * @typedef {{ kind: "text", text: string, x: number, y: number, room: number, align: "left" | "right", colour: string,
 *   bold?: boolean, size?: number, alpha?: number, upright?: boolean }} Words `upright` ones read from below
 * @typedef {{ kind: "rule", x0: number, y0: number, x1: number, y1: number, colour: string, width: number, alpha?: number }} Rule
 * @typedef {{ kind: "frame", x: number, y: number, width: number, height: number, colour: string, line: number,
 *   alpha?: number }} Edges
 * @typedef {{ kind: "image", image: HTMLCanvasElement, x: number, y: number, width: number, height: number,
 *   alpha?: number }} Image on a canvas alone
 * @typedef {Stroke | Box | Words | Rule | Edges | Image} Item
 */

/**
 * Paint `items` on a 2D context, in order.
 * @param {CanvasRenderingContext2D} context
 * @param {Item[]} items
 * @param {string} font
 */
export function paintScene(context, items, font) {
  for (const item of items) {
    context.globalAlpha = item.alpha ?? 1;
    if (item.kind === "line") {
      context.strokeStyle = item.colour;
      context.lineWidth = item.width;
      context.setLineDash(item.dash ?? []);
      const half = (item.x0 + item.x1) / 2;
      context.beginPath();
      context.moveTo(item.x0, item.y0);
      context.bezierCurveTo(half, item.y0, half, item.y1, item.x1, item.y1);
      context.stroke();
    } else if (item.kind === "image") {
      context.drawImage(item.image, item.x, item.y, item.width, item.height);
    } else if (item.kind === "box") {
      context.fillStyle = item.colour;
      context.fillRect(item.x, item.y, item.width, item.height);
    } else if (item.kind === "rule") {
      context.strokeStyle = item.colour;
      context.lineWidth = item.width;
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(item.x0, item.y0);
      context.lineTo(item.x1, item.y1);
      context.stroke();
    } else if (item.kind === "frame") {
      context.strokeStyle = item.colour;
      context.lineWidth = item.line;
      context.setLineDash([]);
      context.strokeRect(item.x, item.y, item.width, item.height);
    } else {
      context.font = fontOf(item, font);
      context.fillStyle = item.colour;
      context.textAlign = item.align;
      context.textBaseline = "middle";
      context.save();
      context.translate(item.x, item.y);
      if (item.upright) context.rotate(-Math.PI / 2);
      context.fillText(shortened(context, item.text, item.room), 0, 0);
      context.restore();
    }
  }
  context.globalAlpha = 1;
}

/**
 * The same items as an SVG document. Texts become text nodes, so nothing in them is ever markup.
 * @param {Item[]} items
 * @param {number} width
 * @param {number} height
 * @param {string} font
 */
export function svgOf(items, width, height, font) {
  const space = "http://www.w3.org/2000/svg";
  const measure = pen(element("canvas"));
  const make = (/** @type {string} */ tag, /** @type {Record<string, string | number>} */ attributes) => {
    const made = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
    return made;
  };
  const short = (/** @type {number} */ number) => Number(number.toFixed(2));
  const root = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": font });
  for (const item of items) {
    if (item.kind === "line") {
      const half = short((item.x0 + item.x1) / 2);
      const [y0, y1] = [short(item.y0), short(item.y1)];
      const d = `M${short(item.x0)} ${y0}C${half} ${y0} ${half} ${y1} ${short(item.x1)} ${y1}`;
      const path = make("path", { d, fill: "none", stroke: item.colour });
      path.setAttribute("stroke-width", String(short(item.width)));
      path.setAttribute("opacity", String(short(item.alpha)));
      if (item.dash) path.setAttribute("stroke-dasharray", item.dash.join(" "));
      root.append(path);
    } else if (item.kind === "box") {
      const { x, y, width: wide, height: high, colour, alpha } = item;
      const corner = { x: short(x), y: short(y), width: short(wide), height: short(high) };
      root.append(make("rect", { ...corner, fill: colour, opacity: alpha ?? 1 }));
    } else if (item.kind === "rule") {
      const line = make("line", { x1: short(item.x0), y1: short(item.y0), x2: short(item.x1), y2: short(item.y1), stroke: item.colour });
      line.setAttribute("stroke-width", String(item.width));
      root.append(line);
    } else if (item.kind === "frame") {
      const { x, y, width: wide, height: high } = item;
      const frame = make("rect", { x: short(x), y: short(y), width: short(wide), height: short(high), fill: "none", stroke: item.colour });
      frame.setAttribute("stroke-width", String(item.line));
      root.append(frame);
    } else if (item.kind === "text") {
      measure.font = fontOf(item, font);
      const anchor = { left: "start", right: "end" }[item.align];
      const look = { x: short(item.x), y: short(item.y), fill: item.colour, "font-size": item.size ?? 13 };
      const text = make("text", { ...look, "text-anchor": anchor, "dominant-baseline": "central" });
      if (item.upright) text.setAttribute("transform", `rotate(-90 ${short(item.x)} ${short(item.y)})`);
      if (item.bold) text.setAttribute("font-weight", "600");
      text.textContent = printable(shortened(measure, item.text, item.room));
      root.append(text);
    }
  }
  return new XMLSerializer().serializeToString(root);
}

/**
 * An item further right and down.
 * @param {Item} item
 * @param {number} right
 * @param {number} down
 * @returns {Item}
 */
export function shifted(item, right, down) {
  if ("x" in item) return { ...item, x: item.x + right, y: item.y + down };
  return { ...item, x0: item.x0 + right, x1: item.x1 + right, y0: item.y0 + down, y1: item.y1 + down };
}

/**
 * @param {Words} item
 * @param {string} font
 */
function fontOf(item, font) {
  return `${item.bold ? "600 " : ""}${item.size ?? 13}px ${font}`;
}

/**
 * XML cannot hold control characters or halves of a surrogate pair: they become the replacement character.
 * @param {string} text
 */
export function printable(text) {
  return text.toWellFormed().replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}

/**
 * The ring of a cell whose column decided its row, though the row looked at another one most.
 * @param {number} x
 * @param {number} y
 * @param {number} wide
 * @param {number} tall
 */
export function decidedIn(x, y, wide, tall) {
  const side = Math.max(Math.min(wide, tall) - 6, 4);
  return framed(x + (wide - side) / 2, y + (tall - side) / 2, side, side, "#ffb26b");
}

/**
 * A frame of two colours, which is seen on any ground.
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 * @param {string} colour
 * @returns {Item[]}
 */
export function framed(x, y, width, height, colour) {
  return [["#000000", 4], [colour, 2]].map(([one, line]) => /** @type {Item} */ ({ kind: "frame", x, y, width, height, colour: one, line }));
}
