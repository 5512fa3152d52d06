// Tracks over the letters of a sequence: point at a value or walk to it by keys to read it, click a call, drag over
// letters.

import { themeOf } from "../../../transformer/plots/canvas/shared/colours.js";
import { component } from "../../../transformer/plots/canvas/shared/component.js";
import { activate, walk } from "../../../transformer/plots/canvas/shared/grid.js";
import { button, element, say, toolbar } from "../../../transformer/plots/canvas/shared/page.js";
import { rulerOf, savePicture } from "../../../transformer/plots/canvas/shared/saved.js";
import { drawOn } from "../../../transformer/plots/canvas/shared/scene.js";
import { nearest, sceneOf } from "./scene.js";

const DRAG = 6; // pixels from which on a press is no click

/** @typedef {{ first: number, last: number, name: string }} Stretch */

/**
 * One row: Track in component.py.
 * @typedef {object} Track
 * @property {"stems" | "steps" | "bars" | "cells" | "boxes"} form
 * @property {string} title
 * @property {[number, number]} ends
 * @property {number[]} lines
 * @property {{ name: string, said: string, colour: number, dashed: boolean }[]} series
 * @property {{ place: number, value: number, said: string, colour: number, full: boolean, chosen: boolean }[]} marks
 * @property {{ place: number, before: number, after: number, said: string }[]} arrows
 * @property {Stretch[][]} boxes
 */

/**
 * What Python sends.
 * @typedef {object} Header
 * @property {{ first: number, last: number, title: string, letters: string }} axis
 * @property {Track[]} tracks
 * @property {Stretch[]} spans
 * @property {string} file_name
 * @property {import("../../../transformer/plots/canvas/shared/saved.js").About} about
 * @property {Record<"save_png" | "save_svg" | "hint" | "hint_calls" | "value" | "cell" | "given" |
 *   "unit", string>} words
 */

/**
 * @typedef {import("../../../transformer/plots/canvas/shared/component.js").Frame & ReturnType<typeof parts> & {
 *   header: Header,
 *   arrays: Record<string, any>,
 *   theme: import("../../../transformer/plots/canvas/shared/colours.js").Theme,
 *   scene: ReturnType<typeof sceneOf>,
 *   at: [number, number] | null,
 *   pressed: number | null,
 *   dragged: [number, number] | null,
 * }} View `at` is the lane and point that is read, `pressed` where a press began, `dragged` from where to where it went
 */

export default component("tracks", (frame) => {
  /** @type {Partial<View>} */
  const start = { ...parts(), at: null, pressed: null, dragged: null };
  const view = /** @type {View} */ (Object.assign(frame, start));
  view.sheet.append(view.canvas, view.focus);
  view.foot.append(view.reading, toolbar(view.buttons[0], ...view.buttons));
  view.root.append(view.sheet, view.foot);
  view.buttons[0].onclick = () => saveTracks(view, "png");
  view.buttons[1].onclick = () => saveTracks(view, "svg");
  listen(view);
  return {
    receive: (received) => Object.assign(view, received, { at: null, pressed: null, dragged: null }),
    draw: () => draw(view),
  };
});

/** The view's elements, still without words. */
function parts() {
  const [sheet, focus, foot, reading] = ["sheet", "focus", "foot", "reading"].map((name) => element("div", name));
  const buttons = [button("", () => {}), button("", () => {})];
  const canvas = element("canvas", "", null, { tabindex: "0", role: "listbox" });
  return { sheet, focus, foot, reading, buttons, canvas, ruler: rulerOf() };
}

/** @param {View} view */
function draw(view) {
  const { root, header: { words }, canvas, buttons } = view;
  view.theme = themeOf(root);
  const width = root.clientWidth;
  view.scene = sceneOf(view, width);
  const { items, height, axis, rows } = view.scene;
  drawOn(canvas, width, height, items, view.theme.font);
  Object.assign(canvas.dataset, { left: axis.left, each: axis.each, rows: JSON.stringify(rows) });
  canvas.setAttribute("aria-label", view.hears("picked") ? `${words.hint} ${words.hint_calls}` : words.hint);
  buttons.forEach((one, order) => say(one, [words.save_png, words.save_svg][order]));
  read(view);
}

/**
 * Say the point that is read, and frame it.
 * @param {View} view
 */
function read(view) {
  const { header: { words }, scene: { lanes, height }, at, dragged, focus, canvas } = view;
  const point = at && lanes[at[0]]?.points[at[1]];
  const band = dragged && { x0: Math.min(...dragged), x1: Math.max(...dragged), y0: 0, y1: height };
  const place = band ?? point;
  focus.hidden = !place;
  focus.classList.toggle("band", Boolean(band));
  if (place) {
    const { x0, x1, y0, y1 } = place;
    const [left, top, width, tall] = [x0, y0, x1 - x0, y1 - y0].map((one) => `${one}px`);
    Object.assign(focus.style, { left, top, width, height: tall });
  }
  say(view.reading, point?.said ?? (view.hears("picked") ? words.hint_calls : words.hint));
  if (!point) return;
  const order = { "aria-posinset": at[1] + 1, "aria-setsize": lanes[at[0]].points.length };
  activate(canvas, "option", point.said, { ...order, "aria-selected": "false" });
}

/**
 * What the pointer and the keyboard do.
 * @param {View} view
 */
function listen(view) {
  const { canvas } = view;
  const point = (/** @type {[number, number] | null} */ at) => {
    view.at = at;
    read(view);
  };
  canvas.onpointerdown = (event) => {
    if (event.pointerType === "touch" || !view.hears("dragged")) return;
    view.pressed = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  };
  const nearby = (/** @type {MouseEvent} */ { offsetX, offsetY }) => nearest(view.scene.lanes, offsetX, offsetY);
  const pulling = () => Math.max(view.scene.lanes.findIndex(({ pull }) => pull), 0);
  const now = () => view.at ?? /** @type {[number, number]} */ ([pulling(), -1]);
  walk(canvas, {
    at(event) {
      if (view.pressed !== null && Math.abs(event.offsetX - view.pressed) > DRAG) {
        view.dragged = [view.pressed, event.offsetX];
      }
      return view.dragged ? null : nearby(event);
    },
    size: () => [view.scene.lanes.length, view.scene.lanes[now()[0]]?.points.length ?? 0],
    current: now,
    point,
    go([row, column]) {
      if (!view.scene.lanes.length) return;
      point(row === now()[0] ? [row, Math.max(column, 0)] : [row, beside(view.scene.lanes, now(), row)]);
    },
    pick: () => pick(view),
  });
  canvas.onblur = () => point(null);
  canvas.onpointerup = canvas.onpointercancel = () => (view.pressed = null);
  canvas.onclick = (event) => {
    const band = view.dragged;
    view.dragged = null;
    point(band ? null : nearby(event));
    if (!band) return pick(view);
    const [first, last] = band.map(view.scene.axis.placeAt).sort((a, b) => a - b);
    return view.send("dragged", { first, last });
  };
}

/**
 * The point of a lane that is nearest along the axis to one of another lane.
 * @param {import("./scene.js").Lane[]} lanes
 * @param {[number, number]} from
 * @param {number} row
 */
export function beside(lanes, [lane, column], row) {
  const x = lanes[lane].points[Math.max(column, 0)].x0;
  const away = lanes[row].points.map(({ x0 }) => Math.abs(x0 - x));
  return away.indexOf(Math.min(...away));
}

/**
 * Tell Python of the value that is read.
 * @param {View} view
 */
function pick(view) {
  const point = view.at && view.scene.lanes[view.at[0]].points[view.at[1]];
  if (point?.place) view.send("picked", { place: point.place, value: point.value });
}

/**
 * Let the user keep what is shown.
 * @param {View} view
 * @param {"png" | "svg"} kind
 */
function saveTracks({ header, scene, theme, root }, kind) {
  savePicture(header.file_name, theme, root.clientWidth, header.about, [scene], { kind });
}
