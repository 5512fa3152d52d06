// Alignments of one source, side by side: point at a target word, and what it looked at is marked in every one.
// Several moments (the snapshots of a training) are played in the browser; nothing is asked of the server meanwhile.

import { decode } from "./blob.js";
import { themeOf } from "./colours.js";
import { button, element, onOptions, onceAFrame, pixelRatio, savePng, timed } from "./page.js";
import { cellOf, drawAlignment, drawScale, layoutOf, rowOf } from "./alignment_canvas.js";
import { makePlayer, updatePlayer } from "./player.js";

const views = new WeakMap(); // parentElement -> instance; a parent outlives many runs

export default function ({ data, parentElement, setTriggerValue }) {
  let view = views.get(parentElement);
  if (!view) {
    view = mount(parentElement);
    views.set(parentElement, view);
  }
  const run = ++view.run;
  view.send = setTriggerValue;
  receive(view, decode(data));
  return () => {
    if (view.run !== run) return; // a newer run uses this instance: Streamlit ends late runs after newer ones
    view.player.stop();
    view.forget();
    view.resized.disconnect();
    view.root.remove();
    views.delete(parentElement);
  };
}

function mount(parent) {
  const view = { root: element("div", "atlas alignments"), run: 0, boxes: [], moment: 0, pointed: null, marked: null };
  view.forget = () => {};
  view.bar = element("div", "bar");
  view.sheet = element("div", "sheet");
  view.reading = element("div", "reading", "", { "aria-live": "polite" });
  view.legend = element("div", "legend");
  view.scale = element("canvas", "", null, { "aria-hidden": "true" });
  view.root.append(view.bar, view.sheet, view.reading, view.legend);
  parent.appendChild(view.root);
  view.draw = onceAFrame(() => timed(view.root, () => draw(view)));
  view.player = makePlayer({
    count: () => view.header.moments.length,
    at: () => view.moment,
    show: (moment) => {
      view.moment = moment;
      view.draw();
    },
    settled: (moment) => view.send("moment", moment),
  });
  view.save = button("", () => savePng(together(view), view.header.file_name));
  view.resized = new ResizeObserver(view.draw);
  view.resized.observe(view.root);
  return view;
}

function receive(view, received) {
  const same = JSON.stringify(received.header);
  if (view.same !== same) view.pointed = null;
  Object.assign(view, received, { same });
  view.moment = Math.min(view.moment, view.header.moments.length - 1);
  view.save.textContent = view.header.words.save;
  view.bar.replaceChildren(...(view.header.moments.length > 1 ? [view.player.root] : []), view.save);
  if (view.instance !== view.header.instance) {
    view.forget();
    view.instance = view.header.instance;
    view.forget = onOptions(view.instance, (options) => {
      view.marked = options.marked;
      if (view.header.moments[options.moment]) view.moment = options.moment;
      view.draw();
    });
  }
  view.draw();
}

function draw(view) {
  const { header, root, sheet, boxes } = view;
  if (!root.clientWidth) return;
  view.theme = themeOf(root);
  const { panels } = header.moments[view.moment];
  while (boxes.length < panels.length) boxes.push(build(view, boxes.length));
  while (boxes.length > panels.length) boxes.pop().root.remove();
  view.layout = layoutOf(view, sheet.clientWidth || root.clientWidth);
  sheet.style.setProperty("--columns", view.layout.abreast);
  updatePlayer(view.player, header, view.moment);
  const focus = focusOf(view);
  panels.forEach((panel, place) => {
    const box = boxes[place];
    if (!box.root.isConnected) sheet.append(box.root);
    box.title.textContent = panel.title;
    box.note.textContent = panel.note;
    box.canvas.setAttribute("aria-label", `${panel.title}. ${header.words.hint}`);
    drawAlignment(view, box, place, focus);
  });
  const words = focus ? spoken(view, focus) : header.words.hint;
  if (view.reading.textContent !== words) view.reading.textContent = words;
  explain(view);
}

function build(view, place) {
  const box = { root: element("figure", "alignment"), title: element("b"), note: element("span", "note") };
  const caption = element("figcaption");
  caption.append(box.title, box.note);
  box.canvas = element("canvas", "", null, { tabindex: "0", role: "application", "data-panel": place });
  const scroller = element("div", "scroller");
  scroller.append(box.canvas);
  box.root.append(caption, scroller);
  const rows = () => view.header.moments[view.moment].panels[place].rows.length;
  const point = (row) => {
    if (view.pointed?.panel === (row === null ? undefined : place) && view.pointed?.row === row) return;
    view.pointed = row === null ? null : { panel: place, row };
    view.draw();
  };
  box.canvas.onpointermove = (event) => point(cellOf(view, event, rows()));
  box.canvas.onpointerleave = () => point(null);
  box.canvas.onclick = (event) => {
    const row = cellOf(view, event, rows());
    if (row !== null) mark(view, place, row);
  };
  box.canvas.onblur = () => point(null);
  box.canvas.onkeydown = (event) => {
    const now = focusOf(view)?.panel === place ? focusOf(view).row : -1;
    const moved = { ArrowUp: now - 1, ArrowDown: now + 1, Home: 0, End: rows() - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") now >= 0 && mark(view, place, now);
    else if (event.key === "Escape") view.marked && view.send("marked", { none: true });
    else if (moved === undefined) return;
    event.preventDefault();
    if (moved !== undefined) point(Math.min(Math.max(moved, 0), rows() - 1));
  };
  return box;
}

/** The target word that is looked at: the one under the pointer, else the marked one, if it is there. */
function focusOf(view) {
  const { panels } = view.header.moments[view.moment];
  const there = (place) => place && panels[place.panel] && place.row < panels[place.panel].rows.length;
  return [view.pointed, view.marked].find(there) ?? null;
}

function mark(view, panel, row) {
  const same = view.marked?.panel === panel && view.marked?.row === row;
  view.send("marked", same ? { none: true } : { panel, row });
}

/** What the word in focus looked at, in each panel where it stands, in words. */
function spoken(view, focus) {
  const { columns, moments, same_rows: sameRows, words } = view.header;
  const { panels } = moments[view.moment];
  const told = (place) => {
    const weights = [...rowOf(view, place, focus.row)].map((weight, column) => [weight, column]);
    const top = weights.filter(([weight]) => weight >= 0.05).sort(([a], [b]) => b - a).slice(0, 3);
    const looked = top.map(([weight, column]) => `${columns[column]} ${weight.toFixed(2)}`).join(", ");
    return sameRows && panels.length > 1 ? `${panels[place].title}: ${looked || "–"}` : looked || "–";
  };
  const places = sameRows ? panels.map((_, place) => place) : [focus.panel];
  return `“${panels[focus.panel].rows[focus.row]}” ${words.looks_at} ${places.map(told).join(" · ")}`;
}

function explain(view) {
  const { words } = view.header;
  drawScale(view.scale);
  const ends = [element("span", "", `${words.weight} 0`), view.scale, element("span", "", "1")];
  const swatch = element("i", "nowhere");
  const nowhere = [swatch, element("span", "", words.nowhere)];
  view.legend.replaceChildren(...ends, ...(view.header.masked ? nowhere : []));
}

/** All panels with their titles on one canvas, as they lie on the page. */
function together(view) {
  const sheet = view.sheet.getBoundingClientRect();
  const canvas = element("canvas");
  const ratio = pixelRatio(sheet.width, sheet.height);
  canvas.width = Math.round(sheet.width * ratio);
  canvas.height = Math.round(sheet.height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = view.theme.background;
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = view.theme.text;
  context.font = `600 14px ${view.theme.font}`;
  context.textBaseline = "top";
  for (const box of view.boxes) {
    const [title, cells] = [box.title.getBoundingClientRect(), box.canvas.getBoundingClientRect()];
    context.fillText(box.title.textContent, title.left - sheet.left, title.top - sheet.top);
    context.drawImage(box.canvas, cells.left - sheet.left, cells.top - sheet.top, cells.width, cells.height);
  }
  return canvas;
}
