// One alignment on a canvas: target words down, source words across; marks for the word in focus.

import { NAN, scale } from "./colours.js";
import { element, pixelRatio, shortened } from "./page.js";

const FONT = 12;
const LABEL = { row: 110, column: 128 }; // pixels for a label, at most
const CELL = { narrow: 10, wide: 44, tall: 22, low: 12 };
const ABREAST = 700; // from this width on, panels stand side by side
const GAP = 24;
const BAR = 14; // room below the cells for the marked source words' bars

/** Where everything lies, in CSS pixels; the same for all panels, so that the source axes line up. */
export function layoutOf(view, width) {
  const { columns, moments } = view.header;
  const count = moments[view.moment].panels.length;
  const abreast = count > 1 && width >= ABREAST ? count : 1;
  const context = (view.ruler ??= element("canvas")).getContext("2d");
  context.font = `600 ${FONT}px ${view.theme.font}`;
  const widest = (labels) => labels.reduce((most, label) => Math.max(most, context.measureText(label).width), 0);
  const rows = moments.flatMap((moment) => moment.panels.flatMap((panel) => panel.rows));
  const tallest = Math.max(...moments.flatMap((moment) => moment.panels.map((panel) => panel.rows.length)), 1);
  const left = Math.min(Math.ceil(widest(rows)) + 10, LABEL.row, Math.round(width / 3));
  const room = (width - (abreast - 1) * GAP) / abreast - left - 4;
  const cell = Math.min(Math.max(Math.floor(room / columns.length), CELL.narrow), CELL.wide);
  const upright = widest(columns) + 6 > cell;
  const top = upright ? Math.min(Math.ceil(widest(columns)) + 10, LABEL.column) : 22;
  return { abreast, left, top, cell, tall: tallest > 40 ? CELL.low : CELL.tall, upright };
}

/** The row under the pointer, or null. */
export function cellOf(view, event, rows) {
  const row = Math.floor((event.offsetY - view.layout.top) / view.layout.tall);
  return row >= 0 && row < rows ? row : null;
}

export function drawAlignment(view, box, place, focus) {
  const { header, theme, layout } = view;
  const { rows } = header.moments[view.moment].panels[place];
  const { columns } = header;
  const [wide, tall] = [
    layout.left + columns.length * layout.cell + 4,
    layout.top + rows.length * layout.tall + BAR,
  ];
  const ratio = pixelRatio(wide, tall, Math.max(window.devicePixelRatio || 1, 1));
  box.canvas.width = Math.round(wide * ratio);
  box.canvas.height = Math.round(tall * ratio);
  Object.assign(box.canvas.style, { width: `${wide}px`, height: `${tall}px` });
  const context = box.canvas.getContext("2d");
  context.scale(ratio, ratio);
  const weights = view.arrays[`${view.moment}.${place}`];
  for (let index = 0; index < weights.length; index++) {
    const [x, y] = [layout.left + (index % columns.length) * layout.cell, layout.top + Math.floor(index / columns.length) * layout.tall];
    paintCell(context, weights[index], x, y, layout, theme);
  }
  const focused = focus && (header.same_rows || focus.panel === place) && focus.row < rows.length ? focus.row : null;
  const looked = focus ? rowOf(view, header.same_rows ? place : focus.panel, focus.row) : null;
  drawLabels(context, { rows, columns, layout, theme, focused, looked });
  if (looked) drawMarks(context, { rows, columns, layout, theme, focused, looked });
  Object.assign(box.canvas.dataset, {
    left: layout.left, top: layout.top, cellWidth: layout.cell, cellHeight: layout.tall, rows: rows.length,
    row: focused ?? "", marked: looked ? strongest(looked) : "",
  });
}

/** A row's weights, -1 where there is no such key. */
export function rowOf(view, panel, row) {
  const width = view.header.columns.length;
  return view.arrays[`${view.moment}.${panel}`].subarray(row * width, (row + 1) * width);
}

function strongest(looked) {
  return looked.reduce((best, weight, column) => (weight > looked[best] ? column : best), 0);
}

function paintCell(context, weight, x, y, layout, theme) {
  if (weight < 0) {
    context.fillStyle = `rgb(${theme.masked})`;
    context.fillRect(x, y, layout.cell, layout.tall);
    context.strokeStyle = `rgb(${theme.hatch})`;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, y + layout.tall);
    context.lineTo(x + layout.cell, y);
    context.stroke();
    return;
  }
  context.fillStyle = Number.isNaN(weight) ? NAN : `rgb(${scale(weight)})`;
  context.fillRect(x, y, layout.cell, layout.tall);
}

/** Every label that there is room for; those of the word in focus and what it looked at are bold. */
function drawLabels(context, { rows, columns, layout, theme, focused, looked }) {
  context.textBaseline = "middle";
  const bold = (on) => {
    context.font = `${on ? 700 : 400} ${FONT}px ${theme.font}`;
    context.fillStyle = theme.text;
    context.globalAlpha = looked && !on ? 0.55 : 1;
  };
  context.textAlign = "right";
  rows.forEach((text, row) => {
    bold(row === focused);
    const label = shortened(context, text, layout.left - 10);
    context.fillText(label, layout.left - 6, layout.top + (row + 0.5) * layout.tall);
  });
  const every = Math.max(1, Math.ceil(FONT / layout.cell));
  columns.forEach((text, column) => {
    const on = Boolean(looked && looked[column] >= 0.1);
    if (column % every && !on) return;
    bold(on);
    const x = layout.left + (column + 0.5) * layout.cell;
    context.save();
    context.translate(x, layout.top - 6);
    if (layout.upright) context.rotate(-Math.PI / 2);
    context.textAlign = layout.upright ? "left" : "center";
    if (!layout.upright) context.translate(0, -6);
    context.fillText(shortened(context, text, layout.upright ? layout.top - 10 : layout.cell), 0, 0);
    context.restore();
  });
  context.globalAlpha = 1;
}

/** Outline the row in focus, and give each source word a bar below as long as its weight is large. */
function drawMarks(context, { rows, columns, layout, theme, focused, looked }) {
  const bottom = layout.top + rows.length * layout.tall;
  looked.forEach((weight, column) => {
    if (!(weight > 0.005)) return;
    const x = layout.left + column * layout.cell;
    context.fillStyle = theme.primary;
    context.fillRect(x + 1, bottom + 2, layout.cell - 2, Math.max(1, (BAR - 3) * weight));
    if (weight < 0.1) return;
    context.strokeStyle = "#ffffff";
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.strokeRect(x + 0.5, layout.top + 0.5, layout.cell - 1, rows.length * layout.tall - 1);
    context.setLineDash([]);
  });
  if (focused === null) return;
  const box = [layout.left, layout.top + focused * layout.tall, columns.length * layout.cell, layout.tall];
  for (const [colour, width] of [["#000000", 4], ["#ffffff", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(...box);
  }
}

/** The colours from 0 to 1. */
export function drawScale(canvas) {
  if (canvas.width === 120) return;
  Object.assign(canvas, { width: 120, height: 10 });
  const context = canvas.getContext("2d");
  for (let x = 0; x < 120; x++) {
    context.fillStyle = `rgb(${scale(x / 119)})`;
    context.fillRect(x, 0, 1, 10);
  }
}
