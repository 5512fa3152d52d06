// A picture as a list of lines, boxes and texts, painted on a canvas or written as SVG: the two agree.

import { element, pen, shortened, svg } from "./page.js";

/**
 * @typedef {{ kind: "line", x0: number, y0: number, x1: number, y1: number, colour: string, alpha: number, width: number,
 *   dash: number[] | null, down?: boolean }} Stroke from left to right, or `down`
 * @typedef {{ kind: "box", x: number, y: number, width: number, height: number, colour: string, alpha?: number }} Box
 * @typedef {{ kind: "text", text: string, x: number, y: number, room: number, align: "left" | "center" | "right", colour: string,
 *   bold?: boolean, italic?: boolean, size?: number, family?: string, alpha?: number, upright?: boolean }} Words
 *   `upright` ones read from below
 * @typedef {{ kind: "rule", x0: number, y0: number, x1: number, y1: number, colour: string, width: number, alpha?: number,
 *   dash?: number[] }} Rule
 * @typedef {{ kind: "dot", x: number, y: number, radius: number, colour: string, edge?: string, alpha?: number }} Dot
 * @typedef {{ kind: "frame", x: number, y: number, width: number, height: number, colour: string, line: number,
 *   alpha?: number, dash?: number[] }} Edges
 * @typedef {{ kind: "image", image: CanvasImageSource, x: number, y: number, width: number, height: number,
 *   alpha?: number, crisp?: boolean }} Image on a canvas alone
 * @typedef {Stroke | Box | Words | Rule | Dot | Edges | Image} Item
 */

/**
 * Where a line bends on its way.
 * @param {Stroke} line
 */
function bends({ x0, y0, x1, y1, down }) {
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return down ? [x0, y, x1, y] : [x, y0, x, y1];
}

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
      context.lineCap = item.down ? "round" : "butt";
      const [x, y, last, end] = bends(item);
      context.beginPath();
      context.moveTo(item.x0, item.y0);
      context.bezierCurveTo(x, y, last, end, item.x1, item.y1);
      context.stroke();
    } else if (item.kind === "image") {
      context.imageSmoothingEnabled = !item.crisp;
      context.drawImage(item.image, item.x, item.y, item.width, item.height);
    } else if (item.kind === "box") {
      context.fillStyle = item.colour;
      context.fillRect(item.x, item.y, item.width, item.height);
    } else if (item.kind === "rule") {
      context.strokeStyle = item.colour;
      context.lineWidth = item.width;
      context.setLineDash(item.dash ?? []);
      context.beginPath();
      context.moveTo(item.x0, item.y0);
      context.lineTo(item.x1, item.y1);
      context.stroke();
    } else if (item.kind === "dot") {
      context.fillStyle = item.colour;
      context.strokeStyle = item.edge ?? item.colour;
      context.lineWidth = 2;
      context.setLineDash([]);
      context.beginPath();
      context.arc(item.x, item.y, item.radius, 0, 2 * Math.PI);
      context.fill();
      if (item.edge) context.stroke();
    } else if (item.kind === "frame") {
      context.strokeStyle = item.colour;
      context.lineWidth = item.line;
      context.setLineDash(item.dash ?? []);
      context.strokeRect(item.x, item.y, item.width, item.height);
    } else {
      context.font = fontOf(item, font);
      context.fillStyle = item.colour;
      context.textAlign = item.align;
      context.textBaseline = "middle";
      const text = shortened(context, item.text, item.room);
      if (item.upright) {
        context.save();
        context.translate(item.x, item.y);
        context.rotate(-Math.PI / 2);
        context.fillText(text, 0, 0);
        context.restore();
      } else context.fillText(text, item.x, item.y);
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
  return new XMLSerializer().serializeToString(drawingOf(items, width, height, font));
}

/**
 * The same items as an SVG for the page.
 * @param {Item[]} items
 * @param {number} width
 * @param {number} height
 * @param {string} font
 */
export function drawingOf(items, width, height, font) {
  const measure = pen(element("canvas"));
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": font });
  root.append(...items.flatMap((item) => nodeOf(item, measure, font) ?? []));
  return root;
}

/**
 * An item as a node of an SVG; null for one that is on a canvas alone.
 * @param {Item} item
 * @param {CanvasRenderingContext2D} measure
 * @param {string} font
 */
export function nodeOf(item, measure, font) {
  if (item.kind === "line") {
    const [x0, y0, x1, y1, ...bent] = [item.x0, item.y0, item.x1, item.y1, ...bends(item)].map(short);
    const d = `M${x0} ${y0}C${bent.join(" ")} ${x1} ${y1}`;
    const look = { "stroke-width": short(item.width), opacity: short(item.alpha), ...(item.dash && { "stroke-dasharray": item.dash.join(" ") }) };
    return svg("path", { d, fill: "none", stroke: item.colour, ...look });
  }
  const opacity = item.alpha ?? 1;
  if (item.kind === "box") return svg("rect", { ...placeOf(item), fill: item.colour, opacity });
  if (item.kind === "frame") {
    const look = { "stroke-width": item.line, opacity, ...(item.dash && { "stroke-dasharray": item.dash.join(" ") }) };
    return svg("rect", { ...placeOf(item), fill: "none", stroke: item.colour, ...look });
  }
  if (item.kind === "rule") {
    const [x1, y1, x2, y2] = [item.x0, item.y0, item.x1, item.y1].map(short);
    const look = { "stroke-width": item.width, opacity, ...(item.dash?.length && { "stroke-dasharray": item.dash.join(" ") }) };
    return svg("line", { x1, y1, x2, y2, stroke: item.colour, ...look });
  }
  if (item.kind === "dot") {
    const look = { fill: item.colour, opacity, ...(item.edge && { stroke: item.edge, "stroke-width": 2 }) };
    return svg("circle", { cx: short(item.x), cy: short(item.y), r: item.radius, ...look });
  }
  if (item.kind !== "text") return null;
  measure.font = fontOf(item, font);
  const [x, y] = [short(item.x), short(item.y)];
  const look = { x, y, fill: item.colour, "font-size": item.size ?? 13, "text-anchor": ANCHORS[item.align], "dominant-baseline": "central", opacity };
  const made = svg("text", look, printable(shortened(measure, item.text, item.room)));
  if (item.upright) made.setAttribute("transform", `rotate(-90 ${x} ${y})`);
  if (item.bold) made.setAttribute("font-weight", "600");
  if (item.italic) made.setAttribute("font-style", "italic");
  if (item.family) made.setAttribute("font-family", item.family);
  return made;
}

const ANCHORS = { left: "start", center: "middle", right: "end" };

/** @param {number} number */
function short(number) {
  return Number(number.toFixed(2));
}

/** @param {Box | Edges} item */
function placeOf({ x, y, width, height }) {
  return { x: short(x), y: short(y), width: short(width), height: short(height) };
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
 * The letters of a text, as CSS writes them.
 * @param {Pick<Words, "bold" | "italic" | "size" | "family">} item
 * @param {string} font of the page
 */
export function fontOf(item, font) {
  return `${item.italic ? "italic " : ""}${item.bold ? "600 " : ""}${item.size ?? 13}px ${item.family ?? font}`;
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
