// A picture as a list of lines, boxes and texts, painted on a canvas or written as SVG: the two agree.

import { element, pen, resized, screenRatio, shortened, svg } from "./page.js";

/**
 * @typedef {{ kind: "line", x0: number, y0: number, x1: number, y1: number, colour: string, alpha: number,
 *   width: number, dash: number[] | null, down?: boolean }} Stroke from left to right, or `down`
 * @typedef {{ kind: "box", x: number, y: number, width: number, height: number, colour: string, alpha?: number }} Box
 * @typedef {{ kind: "text", text: string, x: number, y: number, room: number, align: "left" | "center" | "right",
 *   colour: string, bold?: boolean, italic?: boolean, size?: number, family?: string, alpha?: number,
 *   upright?: boolean }} Words `upright` ones read from below
 * @typedef {{ kind: "rule", x0: number, y0: number, x1: number, y1: number, colour: string, width: number,
 *   alpha?: number, dash?: number[] }} Rule
 * @typedef {{ kind: "dot", x: number, y: number, radius: number, colour: string, edge?: string, alpha?: number }} Dot
 * @typedef {{ kind: "frame", x: number, y: number, width: number, height: number, colour: string, line: number,
 *   alpha?: number, dash?: number[] }} Edges
 * @typedef {{ kind: "image", image: CanvasImageSource, x: number, y: number, width: number, height: number,
 *   alpha?: number, crisp?: boolean }} Image on a canvas alone
 * @typedef {Stroke | Box | Rule | Dot | Edges} Shape
 * @typedef {Shape | Words | Image} Item
 */

/**
 * The way of a line, as SVG writes it.
 * @param {Stroke | Rule} item
 */
function wayOf(item) {
  const [x0, y0, x1, y1] = [item.x0, item.y0, item.x1, item.y1].map(short);
  if (item.kind === "rule") return `M${x0} ${y0}L${x1} ${y1}`;
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2].map(short);
  return `M${x0} ${y0}C${item.down ? `${x0} ${y} ${x1} ${y}` : `${x} ${y0} ${x} ${y1}`} ${x1} ${y1}`;
}

/**
 * The line that a shape is, or that is around it; it has no colour where there is none.
 * @param {Shape} item
 * @returns {{ colour: string | undefined, width: number, dash: number[], cap: "round" | "butt" }}
 */
function penOf(item) {
  const colour = item.kind === "box" ? undefined : item.kind === "dot" ? item.edge : item.colour;
  const width = item.kind === "frame" ? item.line : item.kind === "box" || item.kind === "dot" ? 2 : item.width;
  const dash = ("dash" in item && item.dash) || [];
  return { colour, width, dash, cap: item.kind === "line" && (item.down || dash[0] < 1) ? "round" : "butt" };
}

/**
 * Draw a scene on a canvas of the page, which it gives its size in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {Item[]} items
 * @param {string} font
 */
export function drawOn(canvas, width, height, items, font) {
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  paintScene(resized(canvas, width, height, screenRatio()), items, font);
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
    if (item.kind === "image") {
      context.imageSmoothingEnabled = !item.crisp;
      context.drawImage(item.image, item.x, item.y, item.width, item.height);
    } else if (item.kind === "text") {
      const look = { fillStyle: item.colour, textAlign: item.align, textBaseline: "middle" };
      Object.assign(context, { font: fontOf(item, font), ...look });
      const text = shortened(context, item.text, item.room);
      if (item.upright) {
        context.save();
        context.translate(item.x, item.y);
        context.rotate(-Math.PI / 2);
        context.fillText(text, 0, 0);
        context.restore();
      } else context.fillText(text, item.x, item.y);
    } else paintShape(context, item);
  }
  context.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Shape} item
 */
function paintShape(context, item) {
  const { colour, width, dash, cap } = penOf(item);
  const look = { fillStyle: item.colour, strokeStyle: colour ?? item.colour, lineWidth: width, lineCap: cap };
  Object.assign(context, look);
  if (item.kind === "box") return context.fillRect(item.x, item.y, item.width, item.height);
  context.setLineDash(dash);
  if (item.kind === "frame") return context.strokeRect(item.x, item.y, item.width, item.height);
  const path = new Path2D(item.kind === "dot" ? "" : wayOf(item));
  if (item.kind === "dot") {
    path.arc(item.x, item.y, item.radius, 0, 2 * Math.PI);
    context.fill(path);
  }
  if (colour) context.stroke(path);
}

/**
 * The same items as an SVG. Texts become text nodes, so nothing in them is ever markup.
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
  if (item.kind === "image") return null;
  const opacity = short(item.alpha ?? 1);
  if (item.kind !== "text") {
    const { colour, width, dash, cap } = penOf(item);
    const line = colour && { stroke: colour, "stroke-width": short(width), "stroke-linecap": cap };
    const dashes = dash.length && { "stroke-dasharray": dash.join(" ") };
    const fill = item.kind === "box" || item.kind === "dot" ? item.colour : "none";
    const look = { fill, opacity, ...line, ...dashes };
    if (item.kind === "dot") return svg("circle", { cx: short(item.x), cy: short(item.y), r: item.radius, ...look });
    if (!("x" in item)) return svg("path", { d: wayOf(item), ...look });
    const size = { width: short(item.width), height: short(item.height) };
    return svg("rect", { x: short(item.x), y: short(item.y), ...size, ...look });
  }
  measure.font = fontOf(item, font);
  const [x, y] = [short(item.x), short(item.y)];
  const look = {
    x, y, fill: item.colour, opacity,
    "font-size": item.size ?? 13, "text-anchor": ANCHORS[item.align], "dominant-baseline": "central",
  };
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
 * @param {string} outer
 * @returns {Item[]}
 */
export function framed(x, y, width, height, colour, outer = "#000000") {
  return [[outer, 4], [colour, 2]].map(([one, line]) => (
    /** @type {Item} */ ({ kind: "frame", x, y, width, height, colour: one, line })
  ));
}
