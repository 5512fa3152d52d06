// Every head of every layer as a thumbnail: look at all, point at one to enlarge it, pick one to open it.

import { decode } from "./blob.js";
import { SCALE, themeOf } from "./colours.js";
import { button, element, onOptions, onceAFrame, timed } from "./page.js";
import { marks, paint, paintScale, paintSwatch, palette, scaleName, ticks } from "./thumbnails.js";
import { gridPng } from "./grid_png.js";

const THUMBNAIL = 96; // pixels along a thumbnail's longer side, or one a cell where there are more cells
const WIDEST = 104; // CSS pixels along a thumbnail's longer side, at most
const PREVIEW = 232; // CSS pixels along the preview's longer side
const pictures = new WeakMap(); // parentElement -> instance; a parent outlives many runs

export default function ({ data, parentElement, setTriggerValue }) {
  let picture = pictures.get(parentElement);
  if (!picture) {
    picture = mount(parentElement);
    pictures.set(parentElement, picture);
  }
  const run = ++picture.run;
  picture.emit = (layer, head) => setTriggerValue("picked", { layer, head });
  picture.receive(decode(data));
  return () => {
    if (picture.run !== run) return; // a newer run uses this instance: Streamlit ends late runs after newer ones
    picture.forget();
    picture.root.remove();
    pictures.delete(parentElement);
  };
}

function mount(parent) {
  const root = element("div", "atlas all-heads");
  const picture = { root, run: 0, built: "", cells: [], selected: null, current: [0, 0], forget: () => {} };
  parent.appendChild(root);
  new ResizeObserver(() => fit(picture)).observe(root);
  picture.draw = onceAFrame(() => timed(root, () => draw(picture)));
  picture.receive = (received) => {
    Object.assign(picture, received);
    if (picture.instance !== received.header.instance) {
      picture.forget();
      picture.instance = received.header.instance;
      picture.forget = onOptions(picture.instance, (options) => {
        picture.selected = options.selected;
        if (picture.cells.length) markSelected(picture);
      });
    }
    picture.draw();
  };
  return picture;
}

function draw(picture) {
  const { header } = picture;
  picture.theme = themeOf(picture.root);
  picture.colours = palette(picture.theme);
  const built = JSON.stringify([header.shape.slice(0, 2), header.shape.includes(0)]);
  if (built !== picture.built) build(picture);
  picture.built = built;
  if (header.shape.includes(0)) return;
  describe(picture);
  const [layers, heads, queries, keys] = header.shape;
  const shape = Math.min(Math.max(keys / queries, 0.5), 2);
  picture.grid.style.setProperty("--shape", shape);
  picture.grid.style.setProperty("--widest", `${Math.max(Math.min(shape, 1) * WIDEST, 56)}px`);
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      paint(picture.cells[layer][head].firstChild, picture, layer * heads + head, picture.colours, THUMBNAIL);
    }
  }
  fit(picture);
  markSelected(picture);
  if (picture.shown) showPreview(picture, ...picture.shown);
}

/** Thumbnails larger than their pixels keep hard edges; smaller ones are averaged, so that no line falls out. */
function fit(picture) {
  const canvas = picture.cells[0]?.[0].firstChild;
  if (!canvas) return;
  const room = canvas.clientWidth * (window.devicePixelRatio || 1);
  picture.root.classList.toggle("shrunk", room < canvas.width);
}

/** Make the elements for this many layers and heads; texts and pixels come later, on every draw. */
function build(picture) {
  const { root, header } = picture;
  const [layers, heads] = header.shape;
  root.replaceChildren();
  picture.cells = [];
  if (header.shape.includes(0)) {
    root.append(element("p", "empty", "There is no attention to show: the input has no layers, heads or tokens."));
    return;
  }
  picture.caption = element("span", "caption");
  picture.legend = element("div", "legend");
  const bar = element("div", "bar");
  bar.append(picture.caption, button("Save PNG", () => gridPng(picture)));
  picture.grid = element("div", "grid", null, { role: "grid" });
  picture.grid.style.setProperty("--heads", heads);
  const top = element("div", "row", null, { role: "row" });
  picture.columns = Array.from({ length: heads }, () => element("div", "column", "", { role: "columnheader" }));
  top.append(element("div", "corner", "", { role: "columnheader", "aria-label": "layer" }), ...picture.columns);
  picture.grid.append(top);
  picture.rows = [];
  for (let layer = 0; layer < layers; layer++) {
    const row = element("div", "row", null, { role: "row" });
    picture.rows.push(element("div", "side", "", { role: "rowheader" }));
    picture.cells.push(Array.from({ length: heads }, (_, head) => cell(picture, layer, head)));
    row.append(picture.rows[layer], ...picture.cells[layer]);
    picture.grid.append(row);
  }
  picture.preview = element("div", "preview", null, { "aria-hidden": "true" });
  picture.preview.hidden = true;
  const scroller = element("div", "scroller");
  scroller.append(picture.grid);
  root.append(bar, scroller, picture.legend, picture.preview);
  picture.current = [0, 0];
  picture.shown = null;
}

function cell(picture, layer, head) {
  const made = element("div", "cell", null, { role: "gridcell", tabindex: "-1" });
  made.append(element("canvas"));
  made.onclick = () => picture.emit(layer, head);
  made.onpointerenter = (event) => event.pointerType !== "touch" && showPreview(picture, layer, head);
  made.onpointerleave = () => hidePreview(picture);
  made.onblur = () => hidePreview(picture);
  made.onfocus = () => {
    picture.current = [layer, head];
    markCurrent(picture);
    if (made.matches(":focus-visible")) showPreview(picture, layer, head);
  };
  made.onkeydown = (event) => {
    const target = keyTarget(event, layer, head, picture.header.shape);
    if (event.key === "Enter" || event.key === " ") picture.emit(layer, head);
    else if (event.key === "Escape") hidePreview(picture);
    else if (target) picture.cells[target[0]][target[1]].focus();
    else return;
    event.preventDefault();
  };
  return made;
}

/** Where a key leads from a cell, staying inside the grid; undefined for any other key. */
function keyTarget(event, layer, head, [layers, heads]) {
  return {
    ArrowLeft: [layer, Math.max(head - 1, 0)],
    ArrowRight: [layer, Math.min(head + 1, heads - 1)],
    ArrowUp: [Math.max(layer - 1, 0), head],
    ArrowDown: [Math.min(layer + 1, layers - 1), head],
    Home: [event.ctrlKey ? 0 : layer, 0],
    End: [event.ctrlKey ? layers - 1 : layer, heads - 1],
  }[event.key];
}

/** Write names, notes and the legend. */
function describe(picture) {
  const { header, colours } = picture;
  picture.caption.textContent = header.caption;
  picture.grid.setAttribute("aria-label", `${header.caption || "attention heads"}: arrow keys move, Enter picks`);
  picture.columns.forEach((column, head) => (column.textContent = header.columns[head]));
  picture.rows.forEach((row, layer) => (row.textContent = header.rows[layer]));
  picture.cells.forEach((row, layer) =>
    row.forEach((one, head) => one.setAttribute("aria-label", label(header, layer, head))),
  );
  const bar = element("canvas", "scale");
  paintScale(bar, colours);
  const axis = element("div", "ticks");
  for (const [weight, position] of ticks(header.gamma)) {
    const tick = element("span", "", String(weight));
    tick.style.left = `${position * 100}%`;
    axis.append(tick);
  }
  const scale = element("div", "scale-box");
  scale.append(bar, axis);
  const words = `weight 0 to 1, ${scaleName(header.gamma)} colour scale (${SCALE})`;
  picture.legend.replaceChildren(scale, element("span", "", words));
  picture.legend.append(...marks(picture).map(([nan, name]) => swatch(colours, nan, name)));
  picture.legend.append(element("span", "", `${header.query_axis} down, ${header.key_axis} across`));
}

function swatch(colours, nan, words) {
  const made = element("span", "swatch");
  const patch = element("canvas");
  paintSwatch(patch, colours, nan);
  made.append(patch, element("span", "", words));
  return made;
}

function label(header, layer, head) {
  const note = header.notes?.[layer][head];
  return `${header.rows[layer]}, ${header.columns[head]}${note ? `. ${note}` : ""}`;
}

function markSelected(picture) {
  const [layer, head] = picture.selected ?? [-1, -1];
  picture.cells.forEach((row, i) =>
    row.forEach((one, j) => one.setAttribute("aria-selected", String(i === layer && j === head))),
  );
  const focused = picture.grid.contains(picture.root.getRootNode().activeElement);
  if (picture.cells[layer]?.[head] && !focused) picture.current = [layer, head];
  markCurrent(picture);
}

/** Roving tabindex: one cell takes part in the page's tab order. */
function markCurrent(picture) {
  picture.grid.querySelector('.cell[tabindex="0"]')?.setAttribute("tabindex", "-1");
  const [layer, head] = picture.current;
  picture.cells[layer][head].setAttribute("tabindex", "0");
}

function hidePreview(picture) {
  picture.shown = null;
  picture.preview.hidden = true;
}

/** An enlarged copy beside the cell, inside the component's width and the window's height. */
function showPreview(picture, layer, head) {
  const { header, preview, root } = picture;
  const [, heads, queries, keys] = header.shape;
  picture.shown = [layer, head];
  const canvas = element("canvas");
  paint(canvas, picture, layer * heads + head, picture.colours, PREVIEW * (window.devicePixelRatio || 1));
  const larger = Math.max(queries, keys);
  canvas.style.width = `${Math.max((PREVIEW * keys) / larger, 48)}px`;
  canvas.style.height = `${Math.max((PREVIEW * queries) / larger, 48)}px`;
  const note = header.notes?.[layer][head];
  preview.replaceChildren(element("strong", "", `${header.rows[layer]}, ${header.columns[head]}`), canvas);
  if (note) preview.append(element("span", "", note));
  preview.append(element("span", "axes", `${header.query_axis} ↓  ${header.key_axis} →`));
  preview.hidden = false;
  const [box, cellBox] = [root.getBoundingClientRect(), picture.cells[layer][head].getBoundingClientRect()];
  const right = cellBox.right - box.left + 8;
  const left = cellBox.left - box.left - preview.offsetWidth - 8;
  const roomRight = right + preview.offsetWidth <= box.width;
  const beside = roomRight || left >= 0;
  const lowest = window.innerHeight - preview.offsetHeight - 8 - box.top;
  const x = roomRight ? right : beside ? left : box.width - preview.offsetWidth;
  const y = beside ? Math.max(Math.min(cellBox.top - box.top, lowest), -box.top) : cellBox.bottom - box.top + 8;
  preview.style.left = `${Math.max(x, 0)}px`;
  preview.style.top = `${y}px`;
}
